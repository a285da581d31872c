//! A program in Rust whose cache only grows.

use std::collections::HashMap;

#[inline(never)]
fn parse(line: usize) -> Vec<u8> {
    format!("value {line} {}", "x".repeat(1000)).into_bytes()
}

/// A cache that nothing is ever taken out of.
#[inline(never)]
fn remember(cache: &mut HashMap<usize, Vec<u8>>, line: usize) -> usize {
    cache.entry(line).or_insert_with(|| parse(line)).len()
}

fn main() {
    let mut cache = HashMap::new();
    let bytes: usize = (0..4000).map(|line| remember(&mut cache, line % 2000)).sum();
    println!("{bytes}");
    std::process::exit(0);
}
