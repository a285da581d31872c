//! What the threads of a process do without a lock, under every schedule and every order of memory
//! effects that loom knows, within a bound:
//! `cargo test -p heapledger-loom --features loom --profile loom`.
//!
//! A model check is worth what it can find: beside each one stands which breach of its protocol it
//! was seen to fail on.
#![cfg(all(test, feature = "loom"))]

use loom::thread;

mod chunks;
mod folding;
mod groups;
mod index;
mod order;
mod places;
mod pool;
mod publication;
mod sums;
mod waiting;

/// Checks a model with at most so many preemptions of a running thread: nearly all bugs show with two,
/// and each further one multiplies the time. `LOOM_MAX_PREEMPTIONS` overrides it.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(model);
}

/// Runs two functions in threads of their own and gives back what they return. The model's main thread only
/// waits: loom was seen to leave out orders in which that one is interrupted.
fn race<A: 'static, B: 'static>(first: impl FnOnce() -> A + 'static, second: impl FnOnce() -> B + 'static) -> (A, B) {
    let (first, second) = (thread::spawn(first), thread::spawn(second));
    (first.join().expect("first"), second.join().expect("second"))
}
