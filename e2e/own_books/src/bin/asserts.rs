//! A program that says of its own code what it allocates, as tests do: several threads at once. Prints what failed.

use std::alloc::System;
use std::hint::black_box;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::{env, thread};

use heapledger::{Heapledger, Options, assert_max_alloc, assert_no_alloc, assert_no_leak};

#[global_allocator]
static HEAP: Heapledger<System> = Heapledger::with(System, Options::new().at_exit(heapledger::AtExit::Remove));

#[inline(never)]
fn leaks_here() {
    std::mem::forget(black_box(vec![1u8; 333]));
}

#[inline(never)]
fn frees_what_it_takes() {
    drop(black_box(vec![1u8; 7000]));
}

/// What an assertion says when it fails.
fn message(code: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let error = catch_unwind(code).expect_err("it fails");
    error.downcast_ref::<String>().expect("a message").clone()
}

/// Other threads, which leak, and some of which allocate all the time.
fn among_others(stop: &AtomicBool, busy: usize, code: impl FnOnce()) {
    thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                (0..500).for_each(|number| std::mem::forget(black_box(Box::new(number))));
                while thread < busy && !stop.load(Ordering::SeqCst) {
                    frees_what_it_takes();
                }
            });
        }
        code();
        stop.store(true, Ordering::SeqCst);
    });
}

fn holds() {
    for _ in 0..100 {
        assert_no_leak!(frees_what_it_takes());
        assert_no_leak!(vec![0u8; 100]);
        assert_eq!(assert_no_alloc!(black_box(2) + 2), 4);
        let block = assert_max_alloc!(8000, {
            frees_what_it_takes();
            frees_what_it_takes();
            Box::new(5u64)
        });
        // What is freed inside, but is older, is not of it.
        assert_no_leak!({
            drop(block);
        });
    }
}

fn fails() {
    let left = message(|| assert_no_leak!(leaks_here()));
    println!("{left}\n");
    assert!(left.starts_with("assert_no_leak!: 1 block is left, 333 bytes"), "{left}");
    let allocated = message(|| {
        assert_no_alloc!({
            frees_what_it_takes();
            frees_what_it_takes();
        })
    });
    println!("{allocated}\n");
    assert!(allocated.starts_with("assert_no_alloc!: 2 blocks were allocated, 14000 bytes"), "{allocated}");
    let most = message(|| assert_max_alloc!(6999, frees_what_it_takes()));
    println!("{most}\n");
    assert!(most.starts_with("assert_max_alloc!: 7000 bytes at once, where 6999 are allowed"), "{most}");
    // One that was freed, and one that was not: a sum of both would be none.
    let old = black_box(Box::new([0u8; 333]));
    if heapledger::recording() == heapledger::Recording::On {
        let left = message(std::panic::AssertUnwindSafe(|| {
            assert_no_leak!({
                drop(old);
                leaks_here();
            })
        }));
        assert!(left.starts_with("assert_no_leak!: 1 block is left, 333 bytes"), "{left}");
        // What another thread frees is not left.
        let (sender, receiver) = mpsc::sync_channel::<Vec<u8>>(1);
        let (done, freed) = mpsc::sync_channel::<()>(1);
        let other = thread::spawn(move || {
            for block in receiver {
                drop(block);
                done.send(()).expect("somebody listens");
            }
        });
        let send = || {
            sender.send(vec![1; 100]).expect("somebody listens");
            freed.recv().expect("somebody listens");
        };
        send();
        assert_no_leak!(send());
        drop(sender);
        other.join().expect("it ends");
    }
    // A panic inside goes on as it is.
    let inner = catch_unwind(|| assert_no_alloc!(std::panic::resume_unwind(Box::new(7u8))));
    assert_eq!(inner.err().and_then(|error| error.downcast::<u8>().ok()), Some(Box::new(7)));
}

fn main() {
    let stop = AtomicBool::new(false);
    match env::args().nth(1).unwrap_or_default().as_str() {
        "holds" => among_others(&stop, 3, holds),
        "fails" => among_others(&stop, 0, fails),
        other => panic!("{other:?}"),
    }
}
