//! A program with the crate that asks whether what lies around its blocks is whole, and damages one meanwhile. Its argument says what it is to
//! find: `alone` nothing is guarded, `guarded` all is as it should; `watched`: it writes to a word that is watched.

use std::alloc::System;
use std::env;
use std::hint::black_box;

use heapledger::{Error, Heapledger, check_block, check_integrity, watch};

#[global_allocator]
static HEAP: Heapledger<System> = Heapledger::system();

/// A word that nobody writes to is watched, if the system has watchpoints for us.
fn watches() {
    let place = Box::new(7u64);
    match watch(&raw const *place) {
        Ok(watch) => assert_eq!(watch.end(), 0),
        Err(why) => assert_eq!(why, Error::Refused),
    }
    let odd = [0u8; 3];
    assert_eq!(watch(&raw const odd).err(), Some(Error::TooSmall));
    drop(place);
}

#[inline(never)]
fn writes_here(place: &mut u64, value: u64) {
    // SAFETY: it is there.
    unsafe { black_box(&raw mut *place).write_volatile(value) };
    black_box(());
}

fn is_written_while_it_is_watched() {
    let mut place = black_box(Box::new(7u64));
    match watch(&raw const *place) {
        Ok(watch) => {
            (black_box(1)..black_box(3)).for_each(|value| writes_here(&mut place, value));
            assert_eq!((watch.end(), *place), (2, 2));
            println!("watched");
        }
        Err(why) => {
            assert_eq!(why, Error::Refused);
            println!("none");
        }
    }
}

fn main() {
    let what = env::args().nth(1).unwrap_or_default();
    if what == "watched" {
        return is_written_while_it_is_watched();
    }
    watches();
    let mut block = black_box(Vec::<u8>::with_capacity(black_box(100)));
    block.push(1);
    if what == "alone" {
        assert_eq!((check_integrity(), check_block(block.as_ptr())), (Err(Error::NotGuarded), Err(Error::NotGuarded)));
        println!("not guarded");
        return;
    }
    assert_eq!((check_integrity(), check_block(block.as_ptr())), (Ok(0), Ok(false)));
    let inside = block.as_ptr().wrapping_add(1);
    assert_eq!((check_block(inside), check_block(std::ptr::null::<u8>())), (Err(Error::NotSo), Err(Error::NotSo)));
    let behind = block.as_mut_ptr().wrapping_add(100);
    // SAFETY: none; it is the damage, and lies in what the guard has put behind the block.
    let before = unsafe { behind.read_volatile() };
    for (value, damaged) in [(before ^ 0x40, 1), (before, 0)] {
        // SAFETY: as above.
        unsafe { behind.write_volatile(value) };
        assert_eq!((check_integrity(), check_block(block.as_ptr())), (Ok(damaged), Ok(damaged == 1)));
    }
    println!("as it should");
}
