//! Processes of a session that nobody records: seen from outside, in `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use heapledger_source::{FamilyProcess, ProcessSeen, process_seen, processes};

use super::now_unix_ns;
use super::pace::Pace;
use crate::session::{self, contains};

/// Generations between a process and the program that was started.
const DEPTH_MAX: usize = 64;
/// A process that is younger, a fifth of a second, is told of only when it is seen again.
const YOUNG_TICKS: u64 = 20;
/// Processes that are told of.
const TOLD_MAX: usize = 4096;

/// Who has been seen.
pub(super) struct Outside {
    /// The program that was started.
    pid: u32,
    session: String,
    /// Seen once without the recorder in it, as a process is between fork and exec.
    suspects: BTreeSet<(u32, u64)>,
    told: BTreeSet<(u32, u64)>,
    pub(super) pace: Pace,
}

impl Outside {
    pub(super) fn new(pid: u32, session: &str) -> Outside {
        Outside {
            pid,
            session: session.to_owned(),
            suspects: BTreeSet::new(),
            told: BTreeSet::new(),
            pace: Pace::new(),
        }
    }

    /// Whether a process is there that belongs to the session by its environment: it may have recorded nothing yet.
    pub(super) fn anyone(&self) -> bool {
        session::anyone(&self.session)
    }

    /// Those of them that have recorded nothing yet, and have the recorder in them: number and name.
    pub(super) fn silent(&self, known: impl Fn(u32) -> bool) -> Vec<(u32, String)> {
        let all = session::processes_of(&self.session, TOLD_MAX).into_iter();
        let silent = all.filter(|pid| *pid != self.pid && !known(*pid) && has_recorder(*pid));
        silent.filter_map(|pid| Some((pid, process_seen(pid)?.name))).collect()
    }

    /// Processes that come of the program, are not `known`, and do not have the recorder in them, each once. A young one is told of when
    /// it was seen twice. Those that are known, by their programs' numbers, are told of if they have become one without the recorder.
    pub(super) fn look(&mut self, known: &BTreeMap<u32, u32>) -> Vec<FamilyProcess> {
        let all: BTreeMap<u32, ProcessSeen> = processes().filter_map(|pid| Some((pid, process_seen(pid)?))).collect();
        let uptime_ticks = uptime_ticks();
        let mut suspects = BTreeSet::new();
        let mut told = Vec::new();
        for (pid, seen) in &all {
            let who = (*pid, seen.start_ticks);
            let image = known.get(pid).map_or(0, |image| image.saturating_add(1));
            if *pid == self.pid || self.told.contains(&who) || image == 0 && !self.comes_of_program(*pid, &all) {
                continue;
            }
            let Some(why) = unrecorded(*pid) else { continue };
            let is_young = uptime_ticks.is_none_or(|now| now.saturating_sub(seen.start_ticks) < YOUNG_TICKS);
            if is_young && !self.suspects.contains(&who) {
                suspects.insert(who);
            } else if self.told.len() < TOLD_MAX {
                self.told.insert(who);
                told.push(FamilyProcess {
                    pid: *pid,
                    start_ticks: seen.start_ticks,
                    image,
                    ppid: seen.ppid,
                    program: seen.name.clone(),
                    began_unix_ns: now_unix_ns(),
                    unrecorded: Some(why.to_owned()),
                    ..FamilyProcess::default()
                });
            }
        }
        self.suspects = suspects;
        told
    }

    fn comes_of_program(&self, pid: u32, all: &BTreeMap<u32, ProcessSeen>) -> bool {
        let parents = std::iter::successors(Some(pid), |pid| Some(all.get(pid)?.ppid));
        parents.skip(1).take(DEPTH_MAX).any(|parent| parent == self.pid)
    }
}

fn has_recorder(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/maps")).is_ok_and(|maps| contains(&maps, b"libheapledger"))
}

/// How long the system has been up, in the ticks of [`ProcessSeen::start_ticks`].
fn uptime_ticks() -> Option<u64> {
    let text = fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten()?;
    Some((seconds * per_second as f64) as u64)
}

/// Why nobody records it; `None` if the recorder is in it, or that is not to be found out.
fn unrecorded(pid: u32) -> Option<&'static str> {
    let maps = fs::read(format!("/proc/{pid}/maps")).ok().filter(|maps| !maps.is_empty())?;
    if contains(&maps, b"libheapledger") {
        return None;
    }
    // Between its birth and the loader's work nothing is mapped but the program.
    if !contains(&maps, b"/ld-") && !contains(&maps, b"[heap]") {
        return None;
    }
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let is_preloaded = environment
        .split(|byte| *byte == 0)
        .any(|item| item.starts_with(b"LD_PRELOAD=") && contains(item, b"libheapledger"));
    Some(match is_preloaded {
        false => "it was started without LD_PRELOAD: somebody on the way emptied its environment",
        true if !contains(&maps, b"/ld-") => "it is linked statically",
        true => "its loader refused the library: another user's rights, or another C library",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_without_the_recorder_is_told_of_once_when_it_was_seen_twice() {
        let mut child = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().expect("a child");
        let mut outside = Outside::new(std::process::id(), "0");
        let mut told = Vec::new();
        // It may be between fork and exec still.
        for _ in 0..500 {
            told.extend(outside.look(&BTreeMap::new()).into_iter().filter(|process| process.pid == child.id()));
            if !told.is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let again = outside.look(&BTreeMap::new());
        assert!(
            told.iter().all(|process| process.program == "sleep" && process.unrecorded.is_some()) && told.len() == 1
        );
        assert!(again.iter().all(|process| process.pid != child.id()));
        child.kill().expect("killed");
        child.wait().expect("ended");
    }
}
