//! A lock for short work, which a forked child finds free.
#![forbid(unsafe_code)]

use crate::fork::ForkWord;
use crate::syscall::{Errno, SignalsBlocked};
use core::hint::spin_loop;

/// Held by at most one thread of a process. As of [`Token`](crate::token::Token), signals are blocked while it is held, and nobody waits for it
/// without bound. A thread that held it when another one forked is not there in the child: there, whoever takes it first is told of that.
pub struct ForkToken {
    word: ForkWord,
}

/// Of a forked child, in which nobody has taken it yet; or it has not been started.
const OF_CHILD: u32 = 0;
const FREE: u32 = 1;
const HELD: u32 = 2;
/// Held, and somebody waits.
const AWAITED: u32 = 3;
/// Held, and somebody has waited in vain: until it is given back, nobody else does. (Its thread was stopped, by a debugger say.)
const GIVEN_UP: u32 = 4;

const SPINS: u32 = 200;
const WAIT_MS: u32 = 5;
const WAITS_MAX: u32 = 400;

impl ForkToken {
    /// One that has to be started.
    pub const fn new() -> ForkToken {
        ForkToken { word: ForkWord::new() }
    }

    /// Makes it free, by whoever uses it first. Again it has no effect.
    ///
    /// # Errors
    /// If there is no memory for the word, or the kernel cannot wipe it in children.
    pub fn start(&self) -> Result<(), Errno> {
        match self.word.get() {
            OF_CHILD => self.word.start(FREE),
            _ => Ok(()),
        }
    }

    /// Takes it, waiting at most about two seconds; and not at all where somebody has waited so long already.
    pub fn take(&self) -> Option<ForkTokenHeld<'_>> {
        let signals = SignalsBlocked::new();
        let held = |is_first_of_child| Some(ForkTokenHeld { token: self, is_first_of_child, _signals: signals });
        for _ in 0..SPINS {
            if self.word.change(FREE, HELD) {
                return held(false);
            }
            if self.word.change(OF_CHILD, HELD) {
                return held(true);
            }
            spin_loop();
        }
        for _ in 0..WAITS_MAX {
            if self.word.is(GIVEN_UP) {
                return None;
            }
            match self.word.swap(AWAITED) {
                Some(FREE) => return held(false),
                Some(OF_CHILD) => return held(true),
                Some(_) => self.word.wait(AWAITED, WAIT_MS),
                None => return None,
            }
        }
        self.word.change(AWAITED, GIVEN_UP);
        None
    }
}

impl Default for ForkToken {
    fn default() -> Self {
        Self::new()
    }
}

/// Gives the token back when dropped.
pub struct ForkTokenHeld<'a> {
    token: &'a ForkToken,
    /// Whether this is a forked child, and the first that takes it there: what it guards may be half changed.
    pub is_first_of_child: bool,
    _signals: SignalsBlocked,
}

impl Drop for ForkTokenHeld<'_> {
    fn drop(&mut self) {
        if matches!(self.token.word.swap(FREE), Some(AWAITED | GIVEN_UP)) {
            self.token.word.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    #[test]
    fn one_at_a_time_holds_it() {
        let token = ForkToken::new();
        token.start().expect("a page");
        let (count, inside) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let Some(held) = token.take() else { continue };
                        assert!(!held.is_first_of_child);
                        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        inside.fetch_sub(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(count.load(Ordering::Relaxed) >= 20_000);
    }

    #[test]
    fn nobody_waits_for_ever() {
        let token = ForkToken::new();
        token.start().expect("a page");
        let held = token.take().expect("it is free");
        token.start().expect("a page");
        thread::scope(|scope| _ = scope.spawn(|| assert!(token.take().is_none())));
        drop(held);
        assert!(token.take().is_some());
    }

    /// Whoever holds it is stopped: of all others the first waits, and from then on nobody, until it goes on.
    #[test]
    fn after_one_has_waited_in_vain_nobody_does() {
        let token = ForkToken::new();
        token.start().expect("a page");
        let held = token.take().expect("it is free");
        thread::scope(|scope| {
            _ = scope.spawn(|| {
                assert!(token.take().is_none());
                let begun = std::time::Instant::now();
                for _ in 0..1000 {
                    assert!(token.take().is_none());
                }
                assert!(begun.elapsed().as_millis() < u128::from(WAIT_MS * WAITS_MAX), "each has waited");
            });
        });
        drop(held);
        for _ in 0..2 {
            assert!(token.take().is_some());
        }
    }

    #[test]
    fn one_that_was_not_started_is_had_by_nobody() {
        assert!(ForkToken::new().take().is_none());
    }
}
