//! A program that writes snapshots of its own ledger, while threads are at work. Its first argument says what it does.

use std::alloc::System;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, process, thread};

use heapledger::{Heapledger, NotWritten};

#[global_allocator]
static HEAP: Heapledger<System> = Heapledger::system();

unsafe extern "C" {
    fn fork() -> i32;
    fn setrlimit(resource: i32, limits: &[u64; 2]) -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
}

/// `RLIMIT_FSIZE`.
const FILE_BYTES: i32 = 1;

const KEPT_BYTES: usize = 12_345;
const LATER_BYTES: usize = 23_456;
const GONE_BYTES: usize = 34_567;

#[inline(never)]
fn keeps() -> Box<[u8; KEPT_BYTES]> {
    black_box(Box::new([7; KEPT_BYTES]))
}

/// Blocks that live for a while, in several threads, while two write snapshots again and again.
fn hammers() {
    let kept = keeps();
    drop(black_box(vec![1u8; GONE_BYTES]));
    heapledger::snapshot("first.hl").expect("written");
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let busy: Vec<_> = (1..4)
            .map(|bytes| {
                let ends = &ends;
                scope.spawn(move || {
                    let mut blocks: Vec<Option<Vec<u8>>> = (0..500).map(|_| None).collect();
                    for round in 0.. {
                        if ends.load(Ordering::Relaxed) {
                            break;
                        }
                        blocks[round * 7919 % 500] = Some(black_box(vec![0; bytes * 100 + round % 50]));
                    }
                })
            })
            .collect();
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                scope.spawn(move || {
                    for number in 0..10 {
                        heapledger::snapshot(format!("{writer}-{number}.hl")).expect("written");
                        heapledger::snapshot("both.hl").expect("written");
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().expect("it ends"));
        ends.store(true, Ordering::Relaxed);
        busy.into_iter().for_each(|thread| thread.join().expect("it ends"));
    });
    let later = black_box(vec![1u8; LATER_BYTES]);
    heapledger::pause();
    heapledger::snapshot("last.hl").expect("written");
    heapledger::resume();
    drop((kept, later));
}

/// All that is refused.
fn fails() {
    let _kept = keeps();
    for path in ["", "no/such/directory/x.hl", "/proc/x.hl", "/dev/null", "a\0b", &"x".repeat(600), "directory", "link"]
    {
        let refused = heapledger::snapshot(path);
        assert!(refused.is_err(), "{path:?}: {refused:?}");
    }
    heapledger::snapshot("kept.hl").expect("written");
    // SAFETY: there is one thread.
    let pid = unsafe { fork() };
    if pid == 0 {
        assert_eq!(heapledger::snapshot("kept.hl"), Err(NotWritten::NotRecorded));
        process::exit(0);
    }
    let mut status = 0;
    // SAFETY: our child.
    assert!(unsafe { waitpid(pid, &mut status, 0) } == pid && status == 0, "the child ended with {status}");
    heapledger::stop();
    if !env::args().any(|argument| argument == "under-run") {
        assert_eq!(heapledger::snapshot("kept.hl"), Err(NotWritten::NotRecorded));
    }
}

/// Files may not be large any more.
fn finds_no_room() {
    let _kept = keeps();
    heapledger::snapshot("full.hl").expect("written");
    // SAFETY: two numbers, as it asks for.
    assert_eq!(unsafe { setrlimit(FILE_BYTES, &[4096, 4096]) }, 0);
    let refused = heapledger::snapshot("full.hl");
    assert_eq!(refused, Err(NotWritten::System(28)), "{refused:?}");
}

fn main() {
    match env::args().nth(1).unwrap_or_default().as_str() {
        "hammers" => hammers(),
        "fails" => fails(),
        "finds-no-room" => finds_no_room(),
        other => panic!("{other:?}"),
    }
}
