//! The program that `run` itself started, in the list of processes: it is one of them while it runs, and while `run` waits for the others. Its
//! ledgers are finished behind all others; until then their lines say where they lie unfinished.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

use heapledger_source::{FamilyLine, FamilyProcess, MemberEnd};

use super::process_of;
use super::watch::SETTING_UP;
use crate::finish;
use crate::live::Live;

/// What it was and is: each exec makes another program of it.
#[derive(Default)]
pub(super) struct StartedProgram {
    known: BTreeSet<PathBuf>,
    /// Those that have not begun to record, in the order of their appearance.
    waiting: Vec<(Live, Instant)>,
    /// The last one that has.
    last: Option<FamilyProcess>,
}

impl StartedProgram {
    pub(super) fn knows(&self, live: &Live) -> bool {
        self.known.contains(&live.path)
    }

    /// A ledger of it has appeared.
    pub(super) fn add(&mut self, live: Live) {
        if self.known.insert(live.path.clone()) {
            self.waiting.push((live, Instant::now()));
        }
    }

    /// Whether one may begin at any moment.
    pub(super) fn is_asked_after(&self) -> bool {
        self.waiting.iter().any(|(_, appeared)| appeared.elapsed() <= SETTING_UP)
    }

    /// What is to be written of those that have begun to record since the last time. Where one takes the place of another, that one has ended.
    pub(super) fn begun(&mut self) -> Vec<FamilyLine> {
        let mut begun = Vec::new();
        self.waiting.retain(|(live, _)| match finish::open(live) {
            Ok(Some(ledger)) => {
                begun.push(process_of(&ledger, None));
                false
            }
            Ok(None) | Err(_) => true,
        });
        begun.sort_by_key(|process| (process.began_unix_ns, process.image));
        let mut lines = Vec::new();
        for process in begun {
            let at = process.began_unix_ns;
            lines.extend(self.ended(at, MemberEnd::Exec));
            lines.push(FamilyLine::Process(process.clone()));
            self.last = Some(process);
        }
        lines
    }

    /// What is to be written when it has ended: its ledger is as unfinished as it was.
    pub(super) fn ended(&mut self, at_unix_ns: u64, end: MemberEnd) -> Option<FamilyLine> {
        let last = self.last.take()?;
        Some(FamilyLine::Process(FamilyProcess { ended_unix_ns: Some(at_unix_ns), end: Some(end), ..last }))
    }
}

#[cfg(test)]
mod tests {
    use heapledger_testing::{Builder, Scratch};

    use super::*;

    const SESSION: &str = "0123456789abcdef";

    fn put(scratch: &Scratch, image: u32) -> Live {
        let path = scratch.join(Live::name(SESSION, image, None));
        let mut builder = Builder::new();
        builder.process("program", "p").process("pid", "7").process("start_ticks", "5").block(0x1000, 8);
        builder.process("image", &image.to_string());
        builder.write(&path).expect("written");
        Live::from_path(&path).expect("a ledger")
    }

    /// Image, live ledger, when it ended, how.
    type Told = (u32, Option<String>, Option<u64>, Option<MemberEnd>);

    fn told(lines: impl IntoIterator<Item = FamilyLine>) -> Vec<Told> {
        let told = lines.into_iter().filter_map(|line| match line {
            FamilyLine::Process(process) => Some((process.image, process.live, process.ended_unix_ns, process.end)),
            _ => None,
        });
        told.collect()
    }

    #[test]
    fn each_program_that_it_becomes_is_told_of_when_it_records_and_when_it_is_over() {
        let scratch = Scratch::new("family-first");
        let mut first = StartedProgram::default();
        let blank = Live::from_path(&scratch.write(Live::name(SESSION, 0, None), "")).expect("a ledger");
        first.add(blank.clone());
        assert!(first.knows(&blank) && first.is_asked_after() && first.begun().is_empty(), "nothing is in it yet");
        assert_eq!(first.ended(1, MemberEnd::Exec), None, "nobody has been told of it");
        let one = put(&scratch, 0);
        let at = |live: &Live| Some(live.path.display().to_string());
        assert_eq!(told(first.begun()), [(0, at(&one), None, None)]);
        assert!(!first.is_asked_after() && first.begun().is_empty(), "once");
        let two = put(&scratch, 1);
        first.add(two.clone());
        first.add(two.clone());
        let (exec, began) =
            (Some(MemberEnd::Exec), Some(finish::open(&two).expect("a ledger").expect("begun").header().start_unix_ns));
        assert_eq!(told(first.begun()), [(0, at(&one), began, exec), (1, at(&two), None, None)]);
        let end = MemberEnd::Exit(3);
        assert_eq!(told(first.ended(9_000, end)), [(1, at(&two), Some(9_000), Some(end))]);
        assert_eq!(first.ended(9_001, end), None, "once");
    }
}
