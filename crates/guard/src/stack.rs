//! Blocks that may be handed out again: stacks without a lock, linked through the side table.

#![forbid(unsafe_code)]

use crate::sync::{AtomicU64, Ordering, exchange};

/// Tries until it is left: each of them failed because another thread got on.
const TRIES: u32 = 1000;
/// The number's part of a head, in which 0 is none; above it stands how often the head has changed, so that a head
/// that is seen twice is not taken for the same stack.
const NUMBER: u64 = 0xFFFF_FFFF;
const CHANGE: u64 = 1 << 32;

/// Where the numbers below one in its stack are kept.
pub trait Links {
    /// What `set_next` said of this number last.
    fn next(&self, number: u32) -> u32;
    /// Keeps what stands below this number; 0 for nothing.
    fn set_next(&self, number: u32, next: u32);
}

/// A stack of numbers less than 2^32 - 1.
#[derive(Debug)]
pub struct Stack(AtomicU64);

impl Default for Stack {
    fn default() -> Self {
        Self::new()
    }
}

impl Stack {
    /// An empty one.
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Puts a chain of numbers on top, whose links from the first down to the last are set.
    #[inline(always)]
    pub fn push(&self, links: &impl Links, first: u32, last: u32) {
        let mut head = self.0.load(Ordering::Relaxed);
        // Without a bound: what is not put back is lost, and of two who fail, one has got on.
        loop {
            links.set_next(last, (head & NUMBER) as u32);
            let new = (head & !NUMBER).wrapping_add(CHANGE) | u64::from(first).wrapping_add(1);
            // Release: who takes a number sees its link and what was written of its block.
            match exchange(&self.0, head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes the topmost number.
    #[inline(always)]
    pub fn pop(&self, links: &impl Links) -> Option<u32> {
        let mut head = self.0.load(Ordering::Acquire);
        for _ in 0..TRIES {
            let number = ((head & NUMBER) as u32).checked_sub(1)?;
            // If another one takes it meanwhile, this is of no use, and the head has changed.
            let next = links.next(number);
            let new = (head & !NUMBER).wrapping_add(CHANGE) | u64::from(next);
            match exchange(&self.0, head, new, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(number),
                Err(now) => head = now,
            }
        }
        None
    }
}
