//! Stacks kept in a ledger in which no block is entered: from several threads at once, exactly, until it is full.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::alloc::System;
use std::collections::HashMap;
use std::sync::Barrier;

use heapledger::stack::{Capture, NotKept, StackId, stack_id, stack_of};
use heapledger::{Heapledger, Options, Recording};

#[global_allocator]
static HEAP: Heapledger<System> = Heapledger::with(
    System,
    Options::new().in_memory().paused().ledger_bytes_max(4 << 20).at_exit(heapledger::AtExit::Remove),
);

const THREADS: usize = 4;
const STACKS: usize = 3000;

/// A stack that only this number makes; many have outer frames in common. Addresses of this program and of nowhere.
fn made(number: usize) -> Vec<usize> {
    let code = made as *const () as usize;
    let inner = [code + number % 50, 0x7000_0000 + number * 16, code + 100 + number % 7];
    let outer = (0..number % 30).map(|level| code + 1000 + level * 3);
    inner.into_iter().chain(outer).collect()
}

fn check(id: StackId, frames: &[usize]) {
    let mut again = [0; 64];
    assert_eq!(stack_of(id, &mut again), Ok(frames.len()));
    assert_eq!(&again[..frames.len()], frames);
    let mut few = [0; 2];
    assert_eq!(stack_of(id, &mut few), Ok(frames.len()));
    assert_eq!(few[..frames.len().min(2)], frames[..frames.len().min(2)]);
}

/// One after the other: the last fills the ledger.
#[test]
fn a_stack_has_one_number_and_a_number_one_stack() {
    assert_eq!(heapledger::recording(), Recording::Paused);
    for (frames, why) in [(&[0usize][..], NotKept::Address), (&[1 << 48, 5], NotKept::Address)] {
        assert_eq!(stack_id(frames), Err(why));
    }
    for number in [1 << 20, u32::MAX, u32::MAX >> 1] {
        assert_eq!(stack_of(StackId::of_number(number), &mut [0; 4]), Err(NotKept::Unknown), "{number}");
    }
    let mut frames = [0; 64];
    let taken = Capture::new().here(&mut frames);
    check(stack_id(&frames[..taken.frames]).expect("kept"), &frames[..taken.frames]);
    check(stack_id(&[]).expect("the empty one"), &[]);

    // All at once, in different orders.
    let barrier = Barrier::new(THREADS);
    let ids: Vec<Vec<StackId>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    let mut ids = vec![StackId::of_number(0); STACKS];
                    for step in 0..STACKS {
                        // Two go the same way, so that they meet at each stack.
                        let number = step * [1, 1, 7, 7][thread] % STACKS;
                        ids[number] = stack_id(&made(number)).expect("kept");
                        check(ids[number], &made(number));
                    }
                    ids
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
    });
    for others in &ids[1..] {
        assert_eq!(&ids[0], others, "one stack has two numbers");
    }
    let stacks: HashMap<StackId, usize> = ids[0].iter().copied().zip(0..).collect();
    assert_eq!(stacks.len(), STACKS, "two stacks have one number");

    // Until there is no room; what is there stays.
    let full = (STACKS..).map(|number| stack_id(&made(number))).find_map(Result::err);
    assert_eq!(full, Some(NotKept::Full));
    (0..STACKS).for_each(|number| check(ids[0][number], &made(number)));
    assert_eq!(stack_id(&made(5)), Ok(ids[0][5]));

    heapledger::stop();
    assert_eq!(stack_id(&made(5)), Err(NotKept::NotRecorded));
    assert_eq!(stack_of(ids[0][5], &mut [0; 4]), Err(NotKept::NotRecorded));
}
