//! ESP-IDF's texts: dumps of heap traces, and what its allocator found wrong.

use std::io;

use heapledger_format::Site;
use heapledger_format::errors::ErrorEntry;
use heapledger_format::session::process as key;

use crate::draft::{DraftShape, LedgerDraft};
use crate::lines::LogLine;
use crate::log::{LogKind, LogLedger};
use crate::made::MadeLedgers;
use crate::trace_ledger::too_long;

mod about;
mod dump;
mod faults;
mod stats;
mod trace;
mod words;

use about::{About, about};
use dump::TraceDump;
use faults::{Fault, fault};
use stats::HeapStats;
use trace::{DumpPart, parts, says};

/// Most faults that are kept for a dump; more are counted.
const FAULTS_MAX: usize = 256;

/// Reads a log line by line.
#[derive(Debug, Default)]
pub(crate) struct EspLog {
    dump: Option<TraceDump>,
    faults: Vec<(u64, Fault)>,
    faults_left: u64,
    /// Lines that were cut, and the first of them.
    cut: (u64, u64),
    sha256: Option<String>,
    made: MadeLedgers,
    stats: Option<HeapStats>,
    /// Faults behind the last dump wait for another one, or for the end.
    last: Option<(TraceDump, usize)>,
}

impl EspLog {
    /// Takes a line.
    pub(crate) fn line(&mut self, line: &LogLine) -> io::Result<()> {
        // Lines of base64 have no blank; there may be millions.
        if !line.bytes.contains(&b' ') && !line.bytes.starts_with(b"=") {
            return Ok(());
        }
        let about = about(&line.bytes);
        if about == About::NOTHING {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&line.bytes);
        if line.is_cut {
            self.cut = (self.cut.0 + 1, if self.cut.0 == 0 { line.number } else { self.cut.1 });
        }
        if about.has(About::BOOT)
            && let Some((_, sha256)) = text.split_once("ELF file SHA256:")
        {
            let digits: String = sha256.trim().chars().take_while(char::is_ascii_hexdigit).collect();
            self.sha256 = Some(digits.to_ascii_lowercase()).filter(|digits| !digits.is_empty());
        }
        if about.has(About::BOOT) && text.contains("rst:0x") {
            self.dump_is_over()?;
            self.stats_are_over()?;
        }
        if about.has(About::STATS)
            && let Some(over) = HeapStats::take(&mut self.stats, line.number, &text)?
        {
            self.stats_ledger(over)?;
        }
        if about.has(About::FAULTS)
            && let Some(fault) = fault(&text)
        {
            if self.faults.len() < FAULTS_MAX {
                self.faults.push((line.number, fault));
            } else {
                self.faults_left += 1;
            }
        }
        let mut result = Ok(());
        let mut each = |part| {
            if result.is_ok() {
                result = self.part(line.number, part);
            }
        };
        if about.has(About::DUMP) {
            parts(&text, &mut each);
        }
        if about.has(About::SAYS) {
            says(&text, &mut each);
        }
        result
    }

    fn part(&mut self, line: u64, part: DumpPart) -> io::Result<()> {
        let announced = match &part {
            DumpPart::Begins(records) => Some(*records),
            _ => None,
        };
        if announced.is_none() {
            let ends = matches!(part, DumpPart::Ends);
            if let Some(dump) = &mut self.dump {
                let is_its_own = dump.take(part.clone());
                let is_over = ends && dump.is_over();
                if is_its_own {
                    return if is_over { self.dump_is_over() } else { Ok(()) };
                }
            } else if !matches!(part, DumpPart::Block(_)) {
                // Without a first line only a block is known to be of a dump.
                return Ok(());
            }
        }
        self.dump_is_over()?;
        let mut dump = TraceDump::new(line, announced);
        dump.take(part);
        self.dump = Some(dump);
        Ok(())
    }

    fn stats_are_over(&mut self) -> io::Result<()> {
        self.stats.take().filter(HeapStats::is_any).map_or(Ok(()), |stats| self.stats_ledger(stats))
    }

    fn stats_ledger(&mut self, stats: HeapStats) -> io::Result<()> {
        let (line, name) = (stats.line, stats.name());
        let mut draft = stats.draft();
        self.told_cut(&mut draft);
        draft.process(key::LOG, "esp-idf");
        self.made.add(line, draft, LogKind::Esp, name)
    }

    /// Says in a ledger that lines before its end were cut.
    fn told_cut(&mut self, draft: &mut LedgerDraft) {
        let (lines, first) = std::mem::take(&mut self.cut);
        if lines != 0 {
            draft.missing(&too_long(lines, first));
        }
    }

    /// What was read so far of a dump is all of it.
    fn dump_is_over(&mut self) -> io::Result<()> {
        if let Some(dump) = self.dump.take().filter(TraceDump::is_any) {
            self.last_is_over()?;
            self.last = Some((dump, self.faults.len()));
        }
        Ok(())
    }

    /// Makes a ledger of the last dump, with the faults before its end; those behind it are the next one's.
    fn last_is_over(&mut self) -> io::Result<()> {
        let Some((dump, count)) = self.last.take() else { return Ok(()) };
        let faults: Vec<(u64, Fault)> = self.faults.drain(..count.min(self.faults.len())).collect();
        self.ledger(Some(dump), &faults)
    }

    fn ledger(&mut self, dump: Option<TraceDump>, faults: &[(u64, Fault)]) -> io::Result<()> {
        let first_fault = faults.first().map_or(0, |(line, _)| *line);
        let line = dump.as_ref().map_or(first_fault, |dump| dump.line);
        let name = match &dump {
            Some(dump) => format!("heap trace in line {}", dump.line),
            None => "what the allocator found wrong".to_owned(),
        };
        let before = |address: u64| dump.as_ref().and_then(|dump| dump.block_before(address));
        let errors: Vec<(ErrorEntry, String)> =
            faults.iter().map(|(_, fault)| fault.entry(before(fault.address))).collect();
        let mut draft = match dump {
            Some(dump) => dump.draft()?,
            None => LedgerDraft::new(DraftShape { addresses: true, ..DraftShape::default() }),
        };
        for (error, name) in errors {
            draft.error(error, &name);
        }
        if let Some(sha256) = &self.sha256 {
            draft.process(key::ELF_SHA256, sha256);
        }
        draft.process(key::LOG, "esp-idf");
        self.told_cut(&mut draft);
        if std::mem::take(&mut self.faults_left) != 0 {
            draft.missing("The log has more lines on what the allocator found wrong than are kept.");
        }
        self.made.add(line, draft, LogKind::Esp, name)
    }

    /// All ledgers of the log.
    pub(crate) fn end(mut self) -> io::Result<Vec<LogLedger>> {
        self.dump_is_over()?;
        self.stats_are_over()?;
        if let Some((dump, _)) = self.last.take() {
            let faults = std::mem::take(&mut self.faults);
            self.ledger(Some(dump), &faults)?;
        } else if !self.faults.is_empty() {
            let faults = std::mem::take(&mut self.faults);
            self.ledger(None, &faults)?;
        }
        Ok(self.made.end())
    }
}

/// A block at or before a place: its address, its size, who allocated it.
pub(crate) type BlockBefore = Option<(u64, u64, Site)>;
