//! What all programs here do.
//!
//! - `pairs N`: N blocks of 8 bytes, each freed at once, at the bottom of 20 frames, in a debug build as well.
//! - `json OBJECTS`: a text of so many objects is parsed, at seven blocks each, and freed again. Prints the nanoseconds that takes.

use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

/// With `main` and what calls it, the standard library's and the C library's, twenty frames. Without optimisation, six more lie on
/// the way to an allocation, and eight to a free, functions of the standard library that are compiled into their callers otherwise: for the same stack,
/// there are as many fewer of these.
const LEVELS: usize = if cfg!(debug_assertions) { 5 } else { 12 };

#[inline(never)]
fn pairs(levels: usize, count: usize) -> usize {
    if levels > 0 {
        return black_box(pairs(levels - 1, count) + 1);
    }
    for number in 0..count {
        drop(black_box(Box::new(black_box(number))));
    }
    count
}

/// Objects of three names (a block each), a text, a vector with a text in it, and the map's node.
fn text(objects: usize) -> String {
    let mut text = String::from("[");
    for number in 0..objects {
        let comma = if number > 0 { "," } else { "" };
        let _ = write!(text, r#"{comma}{{"number":{number},"name":"somebody {number}","tags":[{number},"tag"]}}"#);
    }
    text + "]"
}

fn json(objects: usize) -> u128 {
    let text = text(objects);
    let began = Instant::now();
    let value: serde_json::Value = serde_json::from_str(black_box(&text)).expect("it is JSON");
    drop(black_box(value));
    began.elapsed().as_nanos()
}

pub fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |word: &str| word.parse::<usize>().expect("a number");
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["pairs", count] => println!("{}", pairs(LEVELS, number(count))),
        ["json", objects] => println!("{}", json(number(objects))),
        _ => panic!("pairs N, or json OBJECTS"),
    }
}
