//! A program that keeps its own books: threads, panics, forks. Its first argument says what it does.

use std::alloc::System;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{Read, Write};
use std::{env, process, thread};

use heapledger::{Heapledger, Recording};

#[global_allocator]
static HEAP: Heapledger<System> = Heapledger::system();

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
}

/// Sizes that nobody else asks for.
const KEPT_BYTES: usize = 12_345;
const GROWN_BYTES: usize = 54_321;
const ZEROED_BYTES: usize = 23_456;
const WHILE_PAUSED_BYTES: usize = 34_567;
const FREED_BYTES: usize = 45_678;

#[inline(never)]
fn keeps() -> Box<[u8; KEPT_BYTES]> {
    black_box(Box::new([7; KEPT_BYTES]))
}

#[inline(never)]
fn grows() -> Vec<u8> {
    let mut vector = Vec::with_capacity(black_box(1));
    vector.push(1u8);
    vector.reserve_exact(GROWN_BYTES - 1);
    black_box(vector)
}

#[inline(never)]
fn takes_zeroed() -> Vec<u8> {
    black_box(vec![0; black_box(ZEROED_BYTES)])
}

/// Stands still until somebody lets us go on, or kills us.
fn hold() {
    // Its memory is allocated now: nothing moves once somebody has been told.
    let mut input = std::io::stdin();
    let mut out = std::io::stdout();
    out.write_all(b".").and_then(|()| out.flush()).expect("somebody listens");
    let _ = input.read(&mut [0]);
}

fn works(thread: usize) -> usize {
    let mut map = BTreeMap::new();
    for number in 0..2000 {
        map.insert(number, format!("{thread} {number}"));
        if number % 3 == 0 {
            map.remove(&(number / 2));
        }
        if cfg!(panic = "unwind") && number % 100 == 0 {
            let name = format!("inside {number}");
            let caught = std::panic::catch_unwind(|| {
                black_box(&name);
                std::panic::resume_unwind(Box::new(number));
            });
            assert!(caught.is_err());
        }
    }
    map.len()
}

fn threads() {
    let threads: Vec<_> = (0..4).map(|number| thread::spawn(move || works(number))).collect();
    let kept = (keeps(), grows(), takes_zeroed());
    drop(black_box(vec![1u8; FREED_BYTES]));
    let sum: usize = threads.into_iter().map(|thread| thread.join().expect("it ends")).sum();
    hold();
    drop(kept);
    println!("{sum}");
}

/// A forked child goes on as long as it likes, and is not in the ledger.
fn forks() {
    let kept = keeps();
    // SAFETY: there is one thread.
    let pid = unsafe { fork() };
    if pid == 0 {
        let _more: Vec<_> = (0..100).map(|_| keeps()).collect();
        drop(kept);
        assert_eq!(heapledger::recording(), Recording::Off);
        assert_eq!(heapledger::start(), Err(heapledger::Error::Ended));
        process::exit(0);
    }
    let mut status = 0;
    // SAFETY: our child.
    assert!(unsafe { waitpid(pid, &mut status, 0) } == pid && status == 0, "the child ended with {status}");
    hold();
    drop(kept);
}

fn pauses() {
    let kept = keeps();
    assert!(heapledger::pause() && !heapledger::pause());
    assert_eq!(heapledger::recording(), Recording::Paused);
    let passed_by = vec![1u8; WHILE_PAUSED_BYTES];
    assert!(heapledger::resume() && !heapledger::resume());
    let grown = grows();
    drop(passed_by);
    hold();
    drop((kept, grown));
}

/// Says what is recorded, before it says that recording begins and afterwards.
fn starts() {
    let before = heapledger::recording();
    let begun = heapledger::start();
    println!("{before:?} {begun:?} {:?}", heapledger::recording());
    std::mem::forget(keeps());
}

fn main() {
    let what = env::args().nth(1).unwrap_or_default();
    if what == "starts" {
        return starts();
    }
    assert_eq!(heapledger::recording(), Recording::On);
    match what.as_str() {
        "threads" => threads(),
        "forks" => forks(),
        "pauses" => pauses(),
        "discards" => {
            let kept = keeps();
            heapledger::discard();
            assert_eq!(heapledger::recording(), Recording::Off);
            drop(kept);
        }
        other => panic!("{other:?}"),
    }
}
