//! Each process of a session, from the appearance of its ledger to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use heapledger_format::session::{ending, process as key};
use heapledger_source::{FamilyLine, FamilyProcess, FamilyWriter, MemberEnd};
use heapledger_source::{Life, More};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::read;

use super::child::{Child, Key, key_of, open};
use super::first::StartedProgram;
use super::memory::Memory;
use super::new_ledgers::NewLedgers;
use super::outside::Outside;
use super::pace::processor_time;
use super::taken::TakenNames;
use super::told_end::{ToldEnd, how_unwaited};
use super::{FamilyOutcome, FamilyPlan, Word, end_by_itself, ledger_in, now_unix_ns, process_of};
use crate::error::LaunchError;
use crate::finish::{Finisher, Shop};
use crate::live::{self, Live};
use crate::sys;
use crate::wait::poll_timeout;

/// Ledgers that are held open: there is a limit on descriptors.
const HELD_MAX: usize = 128;
/// Processes whose ends the system tells of.
const TOLD_MAX: usize = 128;
/// The others are asked after so often.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// As long as there are no children, others are looked for so seldom.
const ALONE: Duration = Duration::from_millis(10);
/// Finished at a time, before others are looked at.
const AT_A_TIME: usize = 8;
/// A recorder that has not begun after this time never will, if nobody has its file.
pub(super) const SETTING_UP: Duration = Duration::from_secs(10);
/// So many names are told of.
const NAMES_MAX: usize = 8;
/// So many problems.
const PROBLEMS_MAX: usize = 16;

/// All of them.
pub(super) struct Watch {
    plan: FamilyPlan,
    writer: FamilyWriter,
    told: OwnedFd,
    news: NewLedgers,
    first: StartedProgram,
    /// When the program that was started ended, in nanoseconds since 1970, and how, when that is told.
    first_end: Arc<OnceLock<(u64, MemberEnd)>>,
    children: BTreeMap<Key, Child>,
    finisher: Finisher,
    memory: Memory,
    outside: Outside,
    /// Ledgers that cannot be finished, so that it is not tried for ever.
    given_up: BTreeSet<PathBuf>,
    taken: TakenNames,
    appeared: u64,
    is_full: bool,
    outcome: FamilyOutcome,
}

impl Watch {
    pub(super) fn new(
        plan: FamilyPlan,
        outcome: FamilyOutcome,
        pid: u32,
        writer: FamilyWriter,
        told: OwnedFd,
    ) -> Watch {
        let finisher = Finisher {
            nameless: true,
            whereabouts: plan.whereabouts.clone(),
            ..Finisher::new(ledger_in(&outcome.directory, 0))
        };
        Watch {
            memory: Memory::new(pid),
            outside: Outside::new(pid, &plan.session),
            news: NewLedgers::new(&plan.base, &plan.session),
            plan,
            writer,
            told,
            first: StartedProgram::default(),
            first_end: Arc::default(),
            children: BTreeMap::new(),
            finisher,
            given_up: BTreeSet::new(),
            taken: TakenNames::default(),
            appeared: 0,
            is_full: false,
            outcome,
        }
    }

    /// Where the end of the program that was started is put, before the thread is told of it.
    pub(super) fn first_end(&self) -> Arc<OnceLock<(u64, MemberEnd)>> {
        Arc::clone(&self.first_end)
    }

    /// Looks until it is told to stop.
    pub(super) fn run(mut self) -> FamilyOutcome {
        sys::be_nice();
        let mut told = None;
        loop {
            self.look_for_new();
            let has_more = self.end_those_that_ended();
            self.limit();
            self.note_first_end(told);
            let is_end = match told {
                None => false,
                Some(Word::GiveUp) => break,
                Some(Word::End) => true,
                Some(Word::EndWithLast) => self.children.values().all(Child::never_begins) && !self.outside.anyone(),
            };
            if is_end && !has_more {
                break;
            }
            if self.memory.pace.is_due() {
                self.look_at_memory();
            }
            if self.outside.pace.is_due() {
                self.look_outside();
            }
            told = told.max(self.wait(told, has_more));
        }
        self.last_look(told)
    }

    /// Writes down that the program that was started has ended, once. Where others are waited for, what it held is live no longer.
    fn note_first_end(&mut self, told: Option<Word>) {
        let Some((at_unix_ns, end)) = self.first_end.get().copied() else { return };
        let Some(line) = self.first.ended(at_unix_ns, end) else { return };
        if told == Some(Word::EndWithLast) {
            self.look_at_memory();
            self.memory.forget_first();
        }
        self.tell(&line);
    }

    fn look_for_new(&mut self) {
        let (children, first, given_up, taken) = (&self.children, &self.first, &self.given_up, &self.taken);
        let is_done = |live: &Live| given_up.contains(&live.path) || taken.has(live);
        let known = |live: &Live| children.contains_key(&key_of(live)) || first.knows(live) || is_done(live);
        for live in self.news.appeared(known) {
            if live.pid.is_none() {
                if self.memory.add_first(&live) {
                    self.first.add(live);
                }
                continue;
            }
            self.appeared += 1;
            let mut child = Child::new(live);
            child.file = if self.children.len() < HELD_MAX { open(&child.live.path).ok() } else { None };
            // At once, for a short one may soon be gone: whether it is the process that is meant is seen when its ledger says so.
            child.end = child.live.pid.filter(|_| self.told_of() < TOLD_MAX).and_then(ToldEnd::of);
            self.children.insert(key_of(&child.live), child);
        }
        self.note_begun();
    }

    /// Looks whether those that have appeared have begun to record.
    fn note_begun(&mut self) {
        for line in self.first.begun() {
            self.tell(&line);
        }
        let mut begun = Vec::new();
        for (key, child) in self.children.iter_mut().filter(|(_, child)| child.process.is_none()) {
            if let Ok(Some(ledger)) = child.ledger() {
                child.process = Some(process_of(&ledger, None));
                begun.push(key.clone());
            }
        }
        for key in begun {
            let is_room = self.told_of() < TOLD_MAX;
            let Some(child) = self.children.get_mut(&key) else { continue };
            let Some(process) = &child.process else { continue };
            let is_it = |end: &ToldEnd| end.is_of(process.pid, process.start_ticks);
            let again = || ToldEnd::of(process.pid).filter(|_| is_room);
            child.end = child.end.take().filter(is_it).or_else(|| again().filter(is_it));
            let line = FamilyLine::Process(process.clone());
            self.tell(&line);
        }
    }

    /// Of how many the system tells the end.
    fn told_of(&self) -> usize {
        self.children.values().filter(|child| child.end.is_some()).count()
    }

    fn tell(&mut self, line: &FamilyLine) {
        if let Err(reason) = self.writer.append(line)
            && !std::mem::replace(&mut self.outcome.list_is_short, true)
        {
            self.problem(format!("the list of processes cannot be written: {reason}"));
        }
    }

    fn problem(&mut self, problem: String) {
        if self.outcome.problems.len() < PROBLEMS_MAX && !self.outcome.problems.contains(&problem) {
            self.outcome.problems.push(problem);
        }
    }

    /// Notes which programs are over, and finishes the ledgers of some of them. True if there are more.
    fn end_those_that_ended(&mut self) -> bool {
        let living = self.children.iter().filter(|(_, child)| child.over.is_none());
        let living: Vec<Key> = living.map(|(key, _)| key.clone()).collect();
        let mut gone = Vec::new();
        for key in living {
            let Some(child) = self.children.get(&key) else { continue };
            match self.how_it_is(child) {
                Is::There => {}
                Is::Blank => {
                    let _ = fs::remove_file(&child.live.path);
                    self.children.remove(&key);
                }
                Is::Over => gone.push((key, now_unix_ns())),
            }
        }
        if !gone.is_empty() {
            // What it became by exec may have begun, and ended, since ledgers were last looked for.
            self.look_for_new();
        }
        for (key, seen_unix_ns) in gone {
            let Some(child) = self.children.get(&key) else { continue };
            let (end, heir) = (self.how_it_ended(child), self.heir_of(child));
            let Some(child) = self.children.get_mut(&key) else { continue };
            child.over = Some((seen_unix_ns, end));
            let told = child.end.take();
            if let Some(heir) = heir.and_then(|key| self.children.get_mut(&key)) {
                heir.end = heir.end.take().or(told);
            }
        }
        let over = self.children.iter().filter(|(_, child)| child.over.is_some());
        let over: Vec<Key> = over.take(AT_A_TIME + 1).map(|(key, _)| key.clone()).collect();
        for key in over.iter().take(AT_A_TIME) {
            if let Some(child) = self.children.remove(key) {
                let (ended_unix_ns, end) = child.over.unwrap_or_default();
                self.finish(&child, end, ended_unix_ns);
                // Those that have begun meanwhile may end before all of these are finished.
                self.look_for_new();
            }
        }
        over.len() > AT_A_TIME
    }

    fn how_it_is(&self, child: &Child) -> Is {
        let Some(process) = &child.process else {
            let is_old = child.appeared.elapsed() > SETTING_UP;
            return if is_old && !live::is_mapped(&child.live.path) { Is::Blank } else { Is::There };
        };
        let is_over = self.became_another(child, process).is_some_and(|other| other.process.is_some())
            || match &child.end {
                Some(end) => end.is_over(),
                None => child.ledger().is_ok_and(|ledger| ledger.is_none_or(|ledger| ledger.life() == Life::Ended)),
            };
        if is_over { Is::Over } else { Is::There }
    }

    /// What has the next ledger of the process: by exec it has become that.
    fn became_another(&self, child: &Child, process: &FamilyProcess) -> Option<&Child> {
        let same = |other: &FamilyProcess| other.start_ticks == process.start_ticks;
        let (pid, image, _) = key_of(&child.live);
        let later = (pid, image.saturating_add(1), PathBuf::new())..(pid.saturating_add(1), 0, PathBuf::new());
        self.children.range(later).map(|(_, other)| other).find(|other| other.process.as_ref().is_none_or(same))
    }

    /// The next program of the same process, which ends as that does.
    fn heir_of(&self, child: &Child) -> Option<Key> {
        let next = self.became_another(child, child.process.as_ref()?)?;
        next.process.as_ref().map(|_| key_of(&next.live))
    }

    /// How a program ended that is over, as far as that is known.
    fn how_it_ended(&self, child: &Child) -> Option<MemberEnd> {
        let process = child.process.as_ref()?;
        if self.became_another(child, process).is_some() {
            return Some(MemberEnd::Exec);
        }
        child.end.as_ref().map_or_else(|| how_unwaited(process.pid, process.start_ticks), ToldEnd::how)
    }

    fn finish(&mut self, child: &Child, end: Option<MemberEnd>, ended_unix_ns: u64) {
        let Some(image) = child.process.as_ref().map(|process| process.image) else { return };
        let ledger = match child.ledger() {
            Ok(Some(ledger)) => ledger,
            Ok(None) => return,
            Err(problem) => return self.cannot_finish(&child.live.path, &problem),
        };
        let end = end.unwrap_or_else(|| end_by_itself(&ledger));
        let mut pairs = Vec::new();
        match end {
            MemberEnd::Exec => pairs.push((key::ENDED, key::BY_EXEC.to_owned())),
            MemberEnd::Exit(status) => pairs.push((key::EXIT, status.to_string())),
            MemberEnd::Signal(signal) => pairs.push((key::SIGNAL, signal.to_string())),
            MemberEnd::Exited | MemberEnd::Unknown => {}
        }
        let more = More { pairs: &pairs, timeline: &[] };
        self.finisher.pattern = ledger_in(&self.outcome.directory, image);
        self.finisher.keeps_names = end == MemberEnd::Exec;
        if self.finisher.shop.is_none() {
            let ledgers = live::directory_in(&self.plan.base);
            // Without it each has a workplace of its own, or says why it cannot be written.
            self.finisher.shop = Shop::open(&self.outcome.directory, &ledgers, &self.plan.session).ok();
        }
        match self.finisher.finish(&child.live, &ledger, more, &mut |_, _| {}) {
            Ok(written) => {
                self.outcome.finished += 1;
                let mut process = process_of(&ledger, Some((&written, end)));
                process.ended_unix_ns = Some(ended_unix_ns);
                self.tell(&FamilyLine::Process(process));
            }
            Err(problem) => self.cannot_finish(&child.live.path, &problem),
        }
        if end == MemberEnd::Exec { self.taken.add(&child.live) } else { self.taken.release(child.live.pid) }
    }

    fn cannot_finish(&mut self, path: &Path, problem: &LaunchError) {
        self.given_up.insert(path.to_owned());
        self.problem(format!("{problem}; {} is kept: `heapledger recover` finishes it", path.display()));
    }

    /// No further process is recorded when there are too many, or their unfinished ledgers are too large.
    fn limit(&mut self) {
        let bytes: u64 = match self.plan.bytes_max {
            Some(_) => self
                .children
                .values()
                .filter_map(|child| Some(fs::metadata(&child.live.path).ok()?.blocks() * 512))
                .sum(),
            None => 0,
        };
        let too_large = self.plan.bytes_max.is_some_and(|most| bytes > most);
        let too_many = self.appeared >= self.plan.processes_max;
        if !self.is_full && (too_large || too_many) {
            self.is_full = true;
            let why = if too_many {
                format!("no process was recorded beyond the first {} (--max-processes)", self.plan.processes_max)
            } else {
                "no process was recorded that began while the ledgers took more than --max-ledger".to_owned()
            };
            self.outcome.limits.push(why);
            for sign in self.full_signs() {
                let mut options = fs::OpenOptions::new();
                let _ = options.write(true).create(true).truncate(true).mode(0o600).open(sign);
            }
        } else if self.is_full && !too_many && self.plan.bytes_max.is_some_and(|most| bytes < most / 2) {
            self.is_full = false;
            self.full_signs().iter().for_each(|sign| _ = fs::remove_file(sign));
        }
    }

    fn full_signs(&self) -> Vec<PathBuf> {
        let name = format!("{}{}", self.plan.session, ending::FULL);
        self.news.directories().into_iter().map(|directory| directory.join(&name)).collect()
    }

    fn look_at_memory(&mut self) {
        let began = processor_time();
        if let Some(memory) = self.memory.look(self.children.values().filter(|child| child.over.is_none())) {
            self.tell(&FamilyLine::Memory(memory));
        }
        self.memory.pace.looked(began);
    }

    fn look_outside(&mut self) {
        let began = processor_time();
        let known = self.children.values().filter_map(|child| child.process.as_ref());
        let known: BTreeMap<u32, u32> = known.map(|process| (process.pid, process.image)).collect();
        for unseen in self.outside.look(&known) {
            if self.outcome.unseen.len() < NAMES_MAX && !self.outcome.unseen.contains(&unseen.program) {
                self.outcome.unseen.push(unseen.program.clone());
            }
            self.outcome.unseen_count += 1;
            // One that was recorded, and became a program without.
            let is_it = |child: &&Child| {
                child
                    .process
                    .as_ref()
                    .is_some_and(|process| (process.pid, process.start_ticks) == (unseen.pid, unseen.start_ticks))
            };
            let before: Vec<Key> = self.children.values().filter(is_it).map(|child| key_of(&child.live)).collect();
            for key in before {
                if let Some(child) = self.children.remove(&key) {
                    self.finish(&child, Some(MemberEnd::Exec), now_unix_ns());
                }
            }
            self.tell(&FamilyLine::Process(unseen));
        }
        self.outside.pace.looked(began);
    }

    /// Waits until something may have happened, not at all if there is `more` to do; what was told, if something was.
    fn wait(&self, told: Option<Word>, more: bool) -> Option<Word> {
        let is_asked_after = |child: &Child| child.end.is_none() || child.process.is_none();
        let waits = told == Some(Word::EndWithLast);
        let is_any_asked_after = self.first.is_asked_after() || self.children.values().any(is_asked_after);
        let ask = (waits || is_any_asked_after).then_some(ASK_AGAIN);
        let look = self.memory.pace.patience().min(self.outside.pace.patience());
        // Alone, the program has its own curve.
        let look = if self.children.is_empty() { look.max(ALONE) } else { look };
        let blind = self.news.fd().is_none().then_some(ASK_AGAIN);
        let limit = ask.into_iter().chain([look]).chain(blind).chain(more.then_some(Duration::ZERO)).min();
        let timeout = limit.map_or(PollTimeout::NONE, poll_timeout);
        // As long as nothing is in its ledger the end of a process changes nothing.
        let begun = self.children.values().filter(|child| child.process.is_some());
        let ends = begun.filter_map(|child| child.end.as_ref()).map(ToldEnd::fd);
        let all: Vec<BorrowedFd> = std::iter::once(self.told.as_fd()).chain(self.news.fd()).chain(ends).collect();
        let mut descriptors: Vec<PollFd> = all.into_iter().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let _ = poll(&mut descriptors, timeout);
        let is_told = descriptors.first().and_then(PollFd::any).unwrap_or(false);
        is_told.then(|| {
            let mut byte = [0];
            let read = read(&self.told, &mut byte);
            // Nobody is there any more who could tell: then it is the end.
            let [byte] = byte;
            Word::of(byte).filter(|_| read.is_ok_and(|read| read == 1)).unwrap_or(Word::End)
        })
    }

    /// The program has ended: what has ended with it is finished, and what goes on is told of.
    fn last_look(mut self, told: Option<Word>) -> FamilyOutcome {
        self.look_at_memory();
        self.look_outside();
        self.news.look_through();
        self.look_for_new();
        let mut told = told;
        while told != Some(Word::GiveUp) && self.end_those_that_ended() {
            told = told.max(self.wait(told, true));
        }
        self.outcome.given_up = self.children.values().filter(|child| child.over.is_some()).count() as u64;
        self.children.retain(|_, child| child.over.is_none());
        let running = self.children.values().filter_map(|child| child.process.as_ref());
        let mut running: Vec<(u32, String)> = running.map(|process| (process.pid, process.program.clone())).collect();
        let is_known = |pid: u32| self.children.keys().any(|(known, ..)| *known == pid);
        running.extend(self.outside.silent(is_known));
        self.outcome.running_count = running.len() as u64;
        self.outcome.running = running.into_iter().take(NAMES_MAX).collect();
        self.full_signs().iter().for_each(|sign| _ = fs::remove_file(sign));
        self.taken.release_of_ended();
        self.outcome
    }
}

/// How a program is.
enum Is {
    There,
    /// Its recorder never began.
    Blank,
    /// It is no more, or has become another program.
    Over,
}
