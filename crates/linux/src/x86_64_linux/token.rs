//! A lock for rare work that no one may wait for without bound.
#![forbid(unsafe_code)]

use crate::syscall::{self, SignalsBlocked};
use core::sync::atomic::{AtomicU32, Ordering};

/// Held by at most one thread. Signals are blocked while it is held, so that no handler runs (and
/// jumps away, or forks) in between.
pub struct Token {
    word: AtomicU32,
}

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody waits for it.
const WANTED: u32 = 2;
const WAIT_MS: u32 = 5;
const WAITS_MAX: u32 = 100;

impl Token {
    /// A free token.
    pub const fn new() -> Self {
        Token { word: AtomicU32::new(FREE) }
    }

    /// Takes the token, waiting at most half a second in all.
    pub fn take(&self) -> Option<TokenHeld<'_>> {
        let signals = SignalsBlocked::new();
        for _ in 0..WAITS_MAX {
            if self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Some(TokenHeld { token: self, _signals: signals });
            }
            let seen = self.word.compare_exchange(HELD, WANTED, Ordering::Relaxed, Ordering::Relaxed);
            if seen != Err(FREE) {
                syscall::futex_wait(&self.word, WANTED, WAIT_MS);
            }
        }
        None
    }
}

impl Default for Token {
    fn default() -> Self {
        Self::new()
    }
}

/// Gives the token back when dropped.
pub struct TokenHeld<'a> {
    token: &'a Token,
    _signals: SignalsBlocked,
}

impl Drop for TokenHeld<'_> {
    fn drop(&mut self) {
        // To wake nobody takes a system call, too. Who waits beside the one that is woken wakes by itself, soon.
        if self.token.word.swap(FREE, Ordering::Release) == WANTED {
            syscall::futex_wake(&self.token.word);
        }
    }
}
