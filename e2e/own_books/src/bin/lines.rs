//! A program that writes its live blocks as lines of libwebsockets, to files beside it and to whoever takes them.

use std::alloc::System;
use std::fmt;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Write};

use heapledger::{Heapledger, LiveLines, NotWritten, Recording};

#[global_allocator]
static HEAP: Heapledger<System> = Heapledger::system();

#[inline(never)]
fn keeps(bytes: usize) -> Vec<u8> {
    black_box(vec![7; bytes])
}

/// Allocates for each piece, as a `String` does, and takes so many.
struct Takes(usize);

impl fmt::Write for Takes {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let copy = black_box(text.to_owned());
        self.0 = self.0.checked_sub(copy.len().min(1)).ok_or(fmt::Error)?;
        Ok(())
    }
}

/// A stream without room.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(28))
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A stream that fails without a number.
struct Refuses;

impl Write for Refuses {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::other("no"))
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn main() {
    let first = keeps(3000);
    drop(keeps(4000));
    let second = keeps(5000);
    let [mut compressed, mut plain, mut own] =
        ["compressed.log", "plain.log", "own.log"].map(|name| File::create(name).expect("a file"));
    let lines = LiveLines::compressed().write(&mut compressed).expect("written");
    assert_eq!(LiveLines::plain().write(&mut plain), Ok(lines));
    assert_eq!(LiveLines::compressed().of_program().write(&mut own), Ok(lines));
    heapledger::snapshot("now.hl").expect("written");
    assert!(lines >= 2);
    // Whoever takes the text allocates: what it takes is none of the lines.
    let mut text = String::new();
    let lines = LiveLines::plain().write_text(&mut text).expect("written");
    assert_eq!(text.lines().count() as u64, lines);
    assert!(text.lines().all(|line| line.starts_with("~b#size: ") && line.contains(", 0x")), "{text}");
    let places = ["size: 3000, ", "size: 5000, "].map(|block| text.find(block).expect(block));
    assert!(places[0] < places[1] && !text.contains("size: 4000, "), "{text}");
    assert_eq!(LiveLines::compressed().write_text(&mut Takes(1)), Err(NotWritten::Refused));
    assert_eq!(
        LiveLines::compressed().write_text(&mut Takes(usize::MAX)),
        LiveLines::plain().write_text(&mut Takes(usize::MAX))
    );
    assert_eq!(LiveLines::compressed().write(&mut Full), Err(NotWritten::System(28)));
    assert_eq!(LiveLines::compressed().write(&mut Refuses), Err(NotWritten::Refused));
    drop((first, second));
    // Under `run` it stays as it is.
    heapledger::stop();
    let is_over = heapledger::recording() == Recording::Off;
    let after = LiveLines::plain().write(&mut io::sink());
    assert!(if is_over { after == Err(NotWritten::NotRecorded) } else { after.is_ok() }, "{after:?}");
}
