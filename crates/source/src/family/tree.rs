//! Who began whom: processes by their numbers, their parents' numbers and the times at which they began.

use std::collections::HashMap;

use super::line::FamilyProcess;
use super::member::Member;

/// Most processes of one number that are asked, latest first, whether they were somebody's parent.
const REUSED_MAX: usize = 64;

/// A process, with the programs that it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeProcess {
    /// Its process id.
    pub pid: u32,
    /// When it started, in ticks.
    pub start_ticks: u64,
    /// Its programs, one after the other, as indices of [`super::Family::members`]: at least one.
    pub images: Vec<usize>,
    /// Who began it, as an index of [`ProcessTree::processes`]; `None`: `run`, or somebody who is not in the session.
    pub parent: Option<usize>,
    /// Whom it began, in the order of their beginnings.
    pub children: Vec<usize>,
}

/// The processes of a session. Every process is in it once, and none is its own ancestor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessTree {
    /// In the order of their beginnings.
    pub processes: Vec<TreeProcess>,
    /// Those without a parent in it, in the order of their beginnings.
    pub roots: Vec<usize>,
}

impl ProcessTree {
    pub(super) fn of(members: &[Member]) -> ProcessTree {
        let mut by_name: HashMap<(u32, u64), Vec<usize>> = HashMap::new();
        for (index, Member { process, .. }) in members.iter().enumerate() {
            by_name.entry((process.pid, process.start_ticks)).or_default().push(index);
        }
        let process = |index: &usize| members.get(*index).map(|member| &member.process);
        let mut processes: Vec<TreeProcess> = by_name
            .into_iter()
            .map(|((pid, start_ticks), mut images)| {
                images.sort_by_key(|index| process(index).map(|process| process.image));
                TreeProcess { pid, start_ticks, images, parent: None, children: Vec::new() }
            })
            .collect();
        let first = |one: &TreeProcess| one.images.first().and_then(process);
        processes.sort_by_key(|one| (one.start_ticks, first(one).map(|process| process.began_unix_ns), one.pid));
        let lives: Vec<Lifetime> = processes.iter().map(|one| Lifetime::of(one, members)).collect();
        let mut tree = ProcessTree { processes, roots: Vec::new() };
        let mut by_pid: HashMap<u32, Vec<usize>> = HashMap::new();
        for (index, life) in lives.iter().enumerate() {
            // Only who began before can be a parent: so nobody is their own ancestor, whatever the file says.
            let before = by_pid.get(&life.ppid).map_or(&[][..], Vec::as_slice);
            let lived = |parent: &usize| lives.get(*parent).is_some_and(|parent| parent.lived_at(life.began));
            let present = if life.ppid == 0 { None } else { before.iter().rev().take(REUSED_MAX).copied().find(lived) };
            // Who has forked it may have ended since: a daemon's parent does at once.
            let forker = || by_pid.get(&life.parent_pid).filter(|_| life.parent_pid != 0)?.last().copied();
            // Number 1 takes what others leave behind; and each namespace has one.
            let parent = if life.ppid == 1 { forker().or(present) } else { present.or_else(forker) };
            by_pid.entry(life.pid).or_default().push(index);
            match parent.and_then(|parent| tree.processes.get_mut(parent)) {
                Some(parent) => parent.children.push(index),
                None => tree.roots.push(index),
            }
            if let Some(one) = tree.processes.get_mut(index) {
                one.parent = parent;
            }
        }
        tree
    }

    /// Each process with its depth, parents before their children, as a tree is written.
    pub fn walk(&self) -> Vec<(usize, usize)> {
        let mut walked = Vec::with_capacity(self.processes.len());
        let mut left: Vec<(usize, usize)> = self.roots.iter().rev().map(|root| (*root, 0)).collect();
        while let Some((index, depth)) = left.pop() {
            walked.push((index, depth));
            let children = self.processes.get(index).map_or(&[][..], |one| one.children.as_slice());
            left.extend(children.iter().rev().map(|child| (*child, depth + 1)));
        }
        walked
    }
}

/// From when to when a process is known to have been there.
struct Lifetime {
    pid: u32,
    ppid: u32,
    parent_pid: u32,
    began: u64,
    ended: Option<u64>,
}

impl Lifetime {
    fn of(one: &TreeProcess, members: &[Member]) -> Lifetime {
        let of = |index: Option<&usize>| index.and_then(|index| members.get(*index)).map(|member| &member.process);
        let (first, last) = (of(one.images.first()), of(one.images.last()));
        let ended = |last: &FamilyProcess| last.ended_unix_ns.filter(|ended| *ended >= last.began_unix_ns);
        Lifetime {
            pid: one.pid,
            ppid: first.map_or(0, |first| first.ppid),
            parent_pid: first.map_or(0, |first| first.parent_pid),
            began: first.map_or(0, |first| first.began_unix_ns),
            ended: last.and_then(ended),
        }
    }

    /// `run` sees ends after they were, and beginnings are the programs' own: what is not known is believed.
    fn lived_at(&self, moment: u64) -> bool {
        self.ended.is_none_or(|ended| moment == 0 || moment <= ended)
    }
}
