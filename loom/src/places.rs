//! Places that threads own, take over and leave behind.

use crate::{check, race};
use heapledger_process::places::{Claimed, OwnedPlace, Places, ThreadIds};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

/// Threads of the model have ids from 1 on. `exists` is what the kernel knows.
struct Process {
    places: Places<Vec<OwnedPlace>>,
    /// Loom sees to it that nobody touches a state while another one does, or before what that one did is seen.
    states: Vec<UnsafeCell<u32>>,
    exists: Vec<AtomicBool>,
}

trait SettleIn {
    fn settle_in(self, process: &Process, tid: u32) -> usize;
}

impl SettleIn for Claimed<'_> {
    fn settle_in(self, process: &Process, tid: u32) -> usize {
        let state = self.state();
        process.touch(state, tid);
        self.settle(who(tid));
        state
    }
}

fn who(tid: u32) -> ThreadIds {
    ThreadIds::new(100, tid).expect("an id")
}

impl Process {
    fn new(places: usize) -> Process {
        Process {
            places: Places::over((0..places).map(|_| OwnedPlace::new()).collect()),
            states: (0..places).map(|_| UnsafeCell::new(0)).collect(),
            exists: (0..4).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// A state is the number of its place plus 1.
    fn touch(&self, state: usize, owner: u32) {
        let state = state.checked_sub(1).expect("a place without a state was handed out");
        // SAFETY: loom fails the model if it is not alone.
        self.states[state].with_mut(|state| unsafe { *state = owner });
    }

    fn retired<'p>(&self, claimed: Claimed<'p>) -> Claimed<'p> {
        self.touch(claimed.state(), 0);
        claimed
    }

    fn claim_next_gone(&self) -> Option<Claimed<'_>> {
        let exists = |who: ThreadIds| self.exists[who.tid as usize].load(Ordering::Acquire);
        self.places.claim_next_gone(exists).map(|claimed| self.retired(claimed))
    }

    /// What `Threads::register` does.
    fn register(&self, tid: u32) -> usize {
        self.exists[tid as usize].store(true, Ordering::Release);
        let mut found = self.places.claim_earlier(tid).map(|claimed| self.retired(claimed));
        match self.claim_next_gone() {
            Some(taken) if found.is_none() => found = Some(taken),
            Some(taken) => self.places.give_up(taken),
            None => {}
        }
        let claimed = found.or_else(|| self.places.claim_free()).or_else(|| self.create());
        claimed.expect("a place").settle_in(self, tid)
    }

    fn create(&self) -> Option<Claimed<'_>> {
        let reserved = self.places.reserve()?;
        let index = reserved.index;
        Some(reserved.fill(index + 1))
    }

    /// A thread that registers, works and ends.
    fn live(&self, tid: u32) {
        let state = self.register(tid);
        assert_eq!(self.places.state_of(tid), Some(state), "a thread's state was taken from it");
        self.touch(state, tid);
        self.exists[tid as usize].store(false, Ordering::Release);
    }
}

/// Fails if a place that is counted and not filled counts as free, as it once did: of two threads that look for a free place,
/// one gets the one that there is, and the other gets that of a third thread, which has no state yet.
#[test]
fn a_place_is_filled_before_anybody_gets_it() {
    check(2, || {
        let process = Arc::new(Process::new(4));
        process.live(3);
        let taken = process.claim_next_gone().expect("it is gone");
        process.places.give_up(taken);
        let looks = |process: &Process, tid| {
            let state = process.places.claim_free()?.settle_in(process, tid);
            Some(state)
        };
        let [first, second, third] = [0; 3].map(|_| Arc::clone(&process));
        let creates = thread::spawn(move || first.create().expect("a place").settle_in(&first, 1));
        race(move || looks(&second, 2), move || looks(&third, 3));
        let created = creates.join().expect("creates");
        assert_eq!(process.places.state_of(1), Some(created));
    });
}

/// Fails if a place is settled relaxed: the states of ended threads go from hand to hand.
#[test]
fn states_go_from_thread_to_thread_whole() {
    check(2, || {
        let process = Arc::new(Process::new(3));
        let (first, second) = (Arc::clone(&process), Arc::clone(&process));
        let twice = move || {
            first.live(1);
            first.live(3);
        };
        race(twice, move || second.live(2));
        let states: Vec<usize> = process.places.states().collect();
        assert!(states.len() <= 3 && states.iter().all(|state| *state != 0));
    });
}

/// Fails if a place is claimed or given up relaxed, and if a word says no more than an id: between the question and the claim, the kernel gives the id of a thread that is
/// gone to a new one, who registers, and whose state is then taken from it.
#[test]
fn an_id_that_is_given_out_again_is_not_taken_for_the_thread_before() {
    check(3, || {
        let process = Arc::new(Process::new(3));
        process.live(1); // and it is gone
        let (asks, again) = (Arc::clone(&process), Arc::clone(&process));
        let ask = move || {
            if let Some(taken) = asks.claim_next_gone() {
                asks.places.give_up(taken);
            }
        };
        let come_again = move || {
            let state = again.register(1);
            again.touch(state, 1);
            assert_eq!(again.places.state_of(1), Some(state), "a thread's state was taken from it");
        };
        race(ask, come_again);
    });
}
