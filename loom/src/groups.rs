//! The guard's free runs: groups of neighbours from which they are handed out.

use crate::{check, race};
use heapledger_guard::groups::{Group, Groups};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};

/// The groups of one size, and what is written of each run of the first two before it is freed.
struct Shared {
    groups: Groups,
    table: Vec<Group>,
    runs: Vec<AtomicU32>,
}

impl Shared {
    /// So many runs in as many groups as that takes, of which the first so many are not free.
    fn new(runs: u32, taken: u32) -> Arc<Self> {
        let table: Vec<Group> = (0..2).map(|_| Group::default()).collect();
        let groups = Groups::new();
        groups.add(&table, 0, runs, taken);
        let runs = (0..runs).map(|run| AtomicU32::new(u32::from(run >= taken))).collect();
        Arc::new(Self { groups, table, runs })
    }

    fn pop(&self) -> Option<u32> {
        let taken = self.groups.pop(&self.table)?;
        let run = taken.group * 64 + taken.bit;
        let before = self.runs[run as usize].load(Ordering::Relaxed);
        assert_eq!(before, 1, "what was written of it, and nobody has it");
        self.runs[run as usize].store(0, Ordering::Relaxed);
        Some(run)
    }

    /// Frees one; its group is listed from so many on.
    fn push(&self, run: u32, least: u32) {
        self.runs[run as usize].store(1, Ordering::Relaxed);
        self.groups.push(&self.table, (run / 64, run % 64), |free| free >= least);
    }

    /// What two threads have taken and what is left must be these.
    fn expect_all(&self, taken: impl IntoIterator<Item = Option<u32>>, runs: &[u32]) {
        let mut all: Vec<u32> = taken.into_iter().flatten().chain(std::iter::from_fn(|| self.pop())).collect();
        all.sort_unstable();
        assert_eq!(all, runs, "a run is lost or doubled");
    }
}

/// Fails if who takes a run stores the bits that are left in place of exchanging them (both have it).
#[test]
fn of_two_who_take_each_has_another() {
    check(3, || {
        let shared = Shared::new(2, 0);
        let (one, other) = (Arc::clone(&shared), Arc::clone(&shared));
        let (first, second) = race(move || one.pop(), move || other.pop());
        shared.expect_all([first, second], &[0, 1]);
    });
}

/// Fails if who leaves a group does not look at it once more, if the fence is missing there or where a run is freed (a group of which
/// something is free is in no list), and if a run is freed by a relaxed exchange (it comes without what was written of it).
#[test]
fn what_is_freed_while_its_group_is_left_is_not_lost() {
    check(3, || {
        let shared = Shared::new(2, 1);
        let (one, other) = (Arc::clone(&shared), Arc::clone(&shared));
        let (taken, ()) = race(move || [one.pop(), one.pop()], move || other.push(0, 1));
        shared.expect_all(taken, &[0, 1]);
    });
}

/// Fails if a group is listed by who does not win it (its link leads to itself, and what is below it in the list is lost).
#[test]
fn two_who_free_list_a_group_once() {
    check(3, || {
        let shared = Shared::new(67, 67);
        assert_eq!(shared.pop(), None, "all are taken, and both groups are left");
        shared.push(0, 1);
        let (one, other) = (Arc::clone(&shared), Arc::clone(&shared));
        race(move || one.push(64, 1), move || other.push(66, 1));
        shared.expect_all([], &[0, 64, 66]);
    });
}

/// Fails if a group's runs are free before it is held (it is in the list twice, and what is below it is lost).
#[test]
fn a_group_that_is_being_added_is_listed_once() {
    check(3, || {
        let table: Vec<Group> = (0..2).map(|_| Group::default()).collect();
        let runs = (0..65).map(|_| AtomicU32::new(1)).collect();
        let shared = Arc::new(Shared { groups: Groups::new(), table, runs });
        shared.groups.add(&shared.table, 1, 1, 0);
        let (one, other) = (Arc::clone(&shared), Arc::clone(&shared));
        race(move || one.groups.add(&one.table, 0, 2, 0), move || other.groups.list_if_any(&other.table, 0));
        shared.expect_all([], &[0, 1, 64]);
    });
}

/// Fails if a group that another thread has made the current one meanwhile is not put back (its runs are lost).
#[test]
fn of_two_who_need_another_group_each_gets_one() {
    check(2, || {
        let shared = Shared::new(65, 63);
        let (one, other) = (Arc::clone(&shared), Arc::clone(&shared));
        let (first, second) = race(move || one.pop(), move || other.pop());
        shared.expect_all([first, second], &[63, 64]);
    });
}
