//! Snapshots: finished ledgers of a moment, of a program that goes on.
//!
//! First a plain copy is made, in the order in which nothing that is referred to can be missing: records before the
//! stacks that they name, all tables before the strings. A program can be held for this part, which takes as long as
//! the memory is read. Then the copy is packed, which takes longer, and the program runs again.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use heapledger_format::header::{HEADER_BYTES_MAX, Header, flag};
use heapledger_format::section::{COPIED_FIRST, COPIED_LAST, SectionRow};
use heapledger_format::session::process as key;
use heapledger_format::{GlobalCounter, SectionKind, TallyCounter};

use crate::decode::Decoder;
use crate::finish::{copy_figures, label_bytes};
use crate::ledger::{CHUNK_BYTES, Ledger};
use crate::records::{Elements, Walk};
use crate::{Finished, ProcessInfo, SourceError, finish, storage};

/// The sections of a ledger that are copied, in the order in which they are read. The index is left out: records move.
fn copied(rows: &[SectionRow]) -> Vec<u16> {
    let (first, last) = (COPIED_FIRST.iter().map(|kind| *kind as u16), COPIED_LAST.iter().map(|kind| *kind as u16));
    let apart = [SectionKind::Index as u16, SectionKind::LabelColumn as u16];
    let is_other = |kind: &u16| !first.clone().chain(last.clone()).chain(apart).any(|known| known == *kind);
    let others = rows.iter().map(|row| row.kind).filter(is_other);
    let mut copied = Vec::new();
    for kind in first.clone().chain(others).chain(last.clone()) {
        if !copied.contains(&kind) {
            copied.push(kind);
        }
    }
    copied
}

/// Sections begin at multiples of this.
const ALIGN: u64 = 64;

/// What a ledger says of the moment that it is a snapshot of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// When it was taken.
    pub unix_ns: u64,
    /// For how long the program was held; `None` if it ran on meanwhile.
    pub held_ns: Option<u64>,
    /// Records that were being written, and are not in it.
    pub in_flight: u64,
    /// Allocations and frees when the copy was begun: of a program that ran on, totals are of a later moment than
    /// the first records.
    pub before: Option<[u64; 2]>,
}

impl Taken {
    pub(crate) fn of(process: &ProcessInfo) -> Option<Taken> {
        let before = process.text(key::SNAPSHOT_BEFORE).and_then(|text| {
            let (allocations, frees) = text.split_once(':')?;
            Some([allocations.parse().ok()?, frees.parse().ok()?])
        });
        Some(Taken {
            unix_ns: process.number(key::SNAPSHOT_UNIX_NS)?,
            held_ns: process.number(key::SNAPSHOT_HELD_NS),
            in_flight: process.number(key::SNAPSHOT_IN_FLIGHT).unwrap_or(0),
            before,
        })
    }

    fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = vec![
            (key::SNAPSHOT_UNIX_NS, self.unix_ns.to_string()),
            (key::MOMENT, self.unix_ns.to_string()),
            (key::SNAPSHOT_IN_FLIGHT, self.in_flight.to_string()),
        ];
        pairs.extend(self.held_ns.map(|ns| (key::SNAPSHOT_HELD_NS, ns.to_string())));
        pairs.extend(self.before.map(|[allocations, frees]| (key::SNAPSHOT_BEFORE, format!("{allocations}:{frees}"))));
        pairs
    }
}

impl Ledger {
    /// Of what moment it is a snapshot; `None` if it is none.
    pub fn taken(&self) -> Option<Taken> {
        if self.header().flags & flag::SNAPSHOT == 0 { None } else { Taken::of(self.process()) }
    }

    /// When a debugger made this copy; `None` if it is none, or does not say. Of a core dump nobody knows it: the times
    /// of its file are those of the last program that copied it.
    pub fn copied_unix_ns(&self) -> Option<u64> {
        let known = self.header().flags & flag::COPY != 0 && self.header().start_unix_ns != 0;
        if known { self.process().number(key::COPIED_UNIX_NS) } else { None }
    }

    /// The moment that a snapshot or a copy is of, in nanoseconds since 1970; `None` if it is neither, or does not say.
    pub fn moment_unix_ns(&self) -> Option<u64> {
        if self.is_copy() { self.copied_unix_ns() } else { self.taken().map(|taken| taken.unix_ns) }
    }

    /// The last moment that is known of a copy which does not say when it was made.
    fn known_until_unix_ns(&self) -> Option<u64> {
        let header = self.header();
        let ticks = header.global(GlobalCounter::LastTime);
        let known = self.is_copy() && header.start_unix_ns != 0;
        known.then(|| header.start_unix_ns.saturating_add(ticks.saturating_mul(u64::from(header.tick_ns))))
    }
}

/// A plain copy of a ledger that is being written. The file goes when this value goes.
#[derive(Debug)]
pub struct Snapshot {
    path: PathBuf,
    storage: [(&'static str, String); 2],
    /// What is known of the moment. The caller knows how long the program was held.
    pub taken: Taken,
    /// Records in it.
    pub records: u64,
    /// By how much its totals and its records disagree: allocations less frees less records. Of a program that was
    /// held this is what calls were in the middle of. Nothing can be said of a sampled ledger or of one that went on.
    pub unsettled: Option<i64>,
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // Nothing better can be done about a file that cannot be removed.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What a program does while its ledger is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meanwhile {
    /// It is held still.
    Held,
    /// It runs on.
    Runs,
}

impl Snapshot {
    /// Copies what `live` holds now, at `unix_ns`, to a new file `path`. What is a copy already keeps its own moment, as
    /// far as that is known. Of a program that runs on, each
    /// record is whole as it was at some time during the copy, or absent.
    ///
    /// # Errors
    /// If `live` is finished, can no longer be read, or `path` cannot be written.
    pub fn copy(live: &Ledger, path: &Path, unix_ns: u64, program: Meanwhile) -> Result<Snapshot, SourceError> {
        let still = program == Meanwhile::Held;
        if live.is_finished() {
            return Err(SourceError::AlreadyFinished(live.path().to_owned()));
        }
        let failed = |reason| SourceError::Write { path: path.to_owned(), reason };
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        let totals = live.tallies()?;
        let before = [totals.get(TallyCounter::Allocations), totals.get(TallyCounter::Frees)];
        let header = live.current_header()?;
        let unix_ns = live.copied_unix_ns().or(live.known_until_unix_ns()).unwrap_or(unix_ns);
        // From here on the file is removed if something fails.
        let mut snapshot = Snapshot {
            path: path.to_owned(),
            storage: [
                (key::LEDGER_BYTES, live.storage()?.ledger_bytes.to_string()),
                (storage::SECTIONS_KEY, storage::sections_text(&header)),
            ],
            taken: Taken { unix_ns, held_ns: None, in_flight: 0, before: (!still).then_some(before) },
            records: 0,
            unsettled: None,
        };
        let out = BufWriter::with_capacity(1 << 20, &file);
        let mut copy = Copy { live, still, out, at: 0, labels: Vec::new(), failed: &failed };
        copy.go_to(HEADER_BYTES_MAX as u64)?;
        let mut new = Header::new(header.codec, header.layout, header.options);
        new.limit_counters(header.global_count(), header.counter_count());
        for kind in copied(header.sections()) {
            let Some(row) = header.section(kind).filter(|row| row.element_bytes != 0) else { continue };
            snapshot.taken.in_flight += copy.add(&mut new, *row, |copy| copy.section(kind))?;
            if kind == SectionKind::Records as u16 {
                snapshot.records = new.section(kind).map_or(0, |row| row.used);
                let labels = std::mem::take(&mut copy.labels);
                if let Some(row) = header.section(SectionKind::LabelColumn).filter(|row| row.element_bytes != 0) {
                    copy.add(&mut new, *row, |copy| copy.write(&labels))?;
                }
            }
        }
        copy.out.flush().map_err(failed)?;
        drop(copy);
        // Counters last: by then they hold at least what the records hold.
        copy_figures(&live.current_header()?, &mut new);
        new.flags |= flag::SNAPSHOT | if live.is_copy() { flag::COPY } else { 0 };
        let mut bytes = vec![0u8; HEADER_BYTES_MAX];
        new.write(&mut bytes).ok_or_else(|| failed(io::Error::other("the header is too long")))?;
        file.write_all_at(&bytes, 0).map_err(failed)?;
        if still && live.sample_interval() == 0 {
            let [allocations, frees] = before.map(|total| total as i64);
            snapshot.unsettled = Some(allocations - frees - snapshot.records as i64);
        }
        Ok(snapshot)
    }

    /// Packs it to a finished ledger at `path`, as [`finish`] does.
    ///
    /// # Errors
    /// If it cannot be read or written; then nothing is left behind at `path`.
    pub fn finish(
        self,
        path: &Path,
        extra: &[(&str, String)],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Finished, SourceError> {
        if self.taken.before.is_some() {
            self.forget_later_frees()?;
        }
        let mut all = extra.to_vec();
        all.extend(self.storage.iter().cloned());
        all.extend(self.taken.pairs());
        finish(&Ledger::open(&self.path)?, path, &all, progress)
    }

    /// A block that was freed while the copy was made may be in it twice, as a record and in the history. The record
    /// was read first, so that is the moment, and the free came after it. (Were the record dropped instead, of a busy
    /// program's blocks only those would be left that lived through the whole copy.)
    fn forget_later_frees(&self) -> Result<(), SourceError> {
        let ledger = Ledger::open(&self.path)?;
        let mut freed = Vec::new();
        let mut history = ledger.freed();
        while let Some(chunk) = history.next_chunk()? {
            freed.extend(chunk.iter().map(|entry| entry.block.number));
        }
        freed.sort_unstable();
        let mut later = HashSet::new();
        let mut records = ledger.records();
        while let Some(chunk) = records.next_chunk()? {
            let numbers = chunk.iter().map(|entry| entry.number);
            later.extend(numbers.filter(|number| freed.binary_search(number).is_ok()));
        }
        let Some(row) = ledger.header().section(SectionKind::History).filter(|_| !later.is_empty()) else {
            return Ok(());
        };
        let failed = |reason| SourceError::Write { path: self.path.clone(), reason };
        let file = OpenOptions::new().write(true).open(&self.path).map_err(failed)?;
        let element_bytes = usize::from(row.element_bytes);
        let decoder = Decoder::new(&ledger.header().layout, ledger.header().codec, element_bytes);
        let vacant = vec![0u8; element_bytes];
        ledger.for_each_chunk(SectionKind::History, &mut |first, bytes| {
            for (index, element) in (first..).zip(bytes.chunks_exact(element_bytes)) {
                if decoder.freed(element).is_some_and(|entry| later.contains(&entry.block.number)) {
                    let at = row.offset + index * element_bytes as u64;
                    file.write_all_at(&vacant, at).map_err(failed)?;
                }
            }
            Ok(())
        })
    }
}

/// A copy that is being made.
struct Copy<'a> {
    live: &'a Ledger,
    still: bool,
    out: BufWriter<&'a File>,
    at: u64,
    /// The labels of the records that were copied, as elements of their section.
    labels: Vec<u8>,
    failed: &'a dyn Fn(io::Error) -> SourceError,
}

impl Copy<'_> {
    fn go_to(&mut self, at: u64) -> Result<(), SourceError> {
        if at != self.at {
            self.out.seek(SeekFrom::Start(at)).map_err(self.failed)?;
            self.at = at;
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), SourceError> {
        self.out.write_all(bytes).map_err(self.failed)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Adds a section to `new`, of which `write` writes the elements.
    fn add<T>(
        &mut self,
        new: &mut Header,
        row: SectionRow,
        write: impl FnOnce(&mut Self) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        self.go_to(self.at.next_multiple_of(ALIGN))?;
        let offset = self.at;
        let written = write(self)?;
        let count = (self.at - offset) / u64::from(row.element_bytes.max(1));
        let capacity = row.capacity.max(count);
        new.add_section(SectionRow { offset, capacity, used: count, backed: count, ..row });
        Ok(written)
    }

    /// Copies a section; returns how many elements were being written.
    fn section(&mut self, kind: u16) -> Result<u64, SourceError> {
        let live = self.live;
        let mut elements = match SectionKind::from_number(kind) {
            Some(SectionKind::Records) => Elements::records(live).with_column(),
            Some(SectionKind::History) => Elements::history(live),
            Some(SectionKind::Timeline) => {
                // Intervals are made longer in their places: whole ones are taken.
                let mut element = vec![0; live.element_bytes(kind)];
                for point in live.timeline()? {
                    point.write(live.header().codec, &mut element);
                    self.write(&element)?;
                }
                return Ok(0);
            }
            _ => {
                live.for_each_chunk(kind, &mut |_, bytes| self.write(bytes))?;
                return Ok(0);
            }
        };
        if self.still {
            elements = elements.over_still();
        }
        let mut walk = Walk::new(elements);
        let (mut chunk, mut beside) = (Vec::with_capacity(CHUNK_BYTES), Vec::new());
        loop {
            chunk.clear();
            beside.clear();
            let step = walk.step(&mut |_, element, label| {
                chunk.extend_from_slice(element);
                beside.extend(label);
            })?;
            if !step {
                break;
            }
            self.write(&chunk)?;
            self.labels.extend(label_bytes(live, &beside));
        }
        // An entry of the history that was being written is a free whose block is a record still, or was one.
        Ok(if kind == SectionKind::Records as u16 { walk.in_flight } else { 0 })
    }
}
