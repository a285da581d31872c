//! A ledger, opened.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use heapledger_format::header::{HEADER_BYTES_MAX, Header, flag};
use heapledger_format::sample::SampleRule;
use heapledger_format::section::wide;
use heapledger_format::session::process as key;
use heapledger_format::{FormatError, GlobalCounter, SectionKind};

use crate::file::{FilePiece, LedgerFile};
use crate::finished::{Near, Pieces, Unpacker};
use crate::life::{Life, Writer};
use crate::live::Live;
use crate::quick::ElementSizes;
use crate::records::{FreedRecords, Records};
use crate::system::Mapped;
use crate::{Damage, Found, FoundIn, ImageOptions, ProcessInfo, SourceError, found, locked, system};

/// Bytes of elements read at a time. What is read three times then still lies in a near cache, and most ledgers of short programs need no
/// more memory than that: the kernel takes longer to give a page than to fill it.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;
/// Most bytes of the `process` section that are looked at.
const PROCESS_BYTES_MAX: u64 = 4 << 20;
/// Most entries of the `wide` section that are kept.
const WIDE_MAX: usize = 4 << 20;

/// In place of a process number: the process is gone, and never comes back.
const PID_GONE: u32 = u32::MAX;

/// Hears the number of an element, and the bytes of that and the ones behind it.
pub(crate) type EachChunk<'a> = dyn FnMut(u64, &[u8]) -> Result<(), SourceError> + 'a;

/// Where the sections are.
#[derive(Debug)]
pub(crate) enum Store {
    Live(Live),
    Finished(Pieces),
}

/// A ledger, live or finished. Reading never changes it.
#[derive(Debug)]
pub struct Ledger {
    header: Header,
    sizes: ElementSizes,
    pub(crate) store: Store,
    process: ProcessInfo,
    /// The process as this system numbers it, 0 if that is not known, or [`PID_GONE`].
    pid_here: AtomicU32,
    /// The file's.
    inode: u64,
    found: Option<Found>,
    wide: Mutex<Option<HashMap<u64, (u64, u64)>>>,
    pub(crate) marks: Mutex<crate::sites::Marks>,
    wrong: AtomicU64,
}

impl Ledger {
    /// Opens the ledger at `path`, or the one that a core dump or an image of memory at `path` holds or leads to:
    /// see [`Ledger::found`].
    ///
    /// # Errors
    /// If there is nothing to be read: no file, no permission, no ledger, a newer one.
    pub fn open(path: impl AsRef<Path>) -> Result<Ledger, SourceError> {
        Ledger::open_with(path, ImageOptions::default())
    }

    /// The same; of an image of memory with what is known of it, and one of several ledgers in it.
    ///
    /// # Errors
    /// Those of [`Ledger::open`], and if there is no such ledger, or addresses are said of a file that has its own.
    pub fn open_with(path: impl AsRef<Path>, options: ImageOptions) -> Result<Ledger, SourceError> {
        let path = path.as_ref();
        let file = LedgerFile::open(path, path)?;
        match found::open_inside(&file, options)? {
            Some((mut ledger, found)) => {
                ledger.found = Some(found);
                Ok(ledger)
            }
            None => Self::from_file(file),
        }
    }

    /// Opens what a person named: a file, or, if all are digits and there is no such file, a process.
    ///
    /// # Errors
    /// Those of [`Ledger::open`] and [`Ledger::open_process`].
    pub fn open_target(target: &OsStr) -> Result<Ledger, SourceError> {
        let pid = target.to_str().filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
        match pid {
            Some(_) if Path::new(target).exists() => Self::open(target),
            Some(pid) => match pid.parse() {
                Ok(pid) => Self::open_process(pid),
                Err(_) => Err(SourceError::NotFound(PathBuf::from(target))),
            },
            None => Self::open(target),
        }
    }

    /// Opens the ledger that the running process `pid` writes. It is not stopped, and not noticed by it.
    ///
    /// # Errors
    /// If there is no such process, it is another user's, it is not recorded, or the ledger found is not its own.
    pub fn open_process(pid: u32) -> Result<Ledger, SourceError> {
        let running = system::running(pid).ok_or(SourceError::NoProcess(pid))?;
        let mapped = system::mapped_ledgers(pid)?;
        let mut failure = SourceError::NotRecorded { pid, name: running.name.clone() };
        for mapped in &mapped {
            for opened in Self::ways_to(pid, mapped) {
                let mut ledger = match opened().and_then(Self::from_file) {
                    // The name may be another file's by now.
                    Ok(ledger) if ledger.inode != mapped.inode && ledger.inode != 0 => continue,
                    Ok(ledger) => ledger,
                    Err(reason) => {
                        if !matches!(failure, SourceError::OtherProcess { .. } | SourceError::NotYet { .. }) {
                            failure = reason;
                        }
                        continue;
                    }
                };
                ledger.inode = mapped.inode;
                let process = ledger.process();
                let same_pid = process.pid().is_some_and(|owner| owner == running.inner_pid || owner == pid);
                if same_pid && ledger.start_ticks().is_none_or(|ticks| ticks == running.start_ticks) {
                    ledger.pid_here = AtomicU32::new(pid);
                    return Ok(ledger);
                }
                let owner = process.pid().map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
                failure = if mapped.records_children() {
                    SourceError::NotYet { pid, owner }
                } else {
                    SourceError::OtherProcess { pid, path: mapped.path.clone(), owner }
                };
            }
        }
        Err(failure)
    }

    /// Ways to open what `pid` maps, best first: by its name; where the name is gone, as the file that the system knows
    /// (for root), as the one that `run` holds open, and at last in the memory of the process (for who may trace it).
    fn ways_to(pid: u32, mapped: &Mapped) -> Vec<Box<dyn Fn() -> Result<LedgerFile, SourceError> + '_>> {
        let mut ways: Vec<Box<dyn Fn() -> Result<LedgerFile, SourceError> + '_>> = Vec::new();
        let named = system::candidates(pid, mapped);
        let held = if mapped.deleted { system::held_by_parent(pid, mapped) } else { Vec::new() };
        for path in named.into_iter().chain(held) {
            ways.push(Box::new(move || LedgerFile::open(&path, &mapped.path)));
        }
        if mapped.deleted {
            let parts = mapped.ranges.iter().map(|[low, high, offset]| FilePiece {
                at: *offset,
                bytes: high - low,
                place: *low,
            });
            let mut parts: Vec<FilePiece> = parts.collect();
            parts.sort_by_key(|part| part.at);
            ways.push(Box::new(move || {
                let gone = |_| SourceError::LedgerRemoved { pid, path: mapped.path.clone() };
                LedgerFile::open(&system::memory(pid), &mapped.path)
                    .map(|file| file.within(parts.clone()))
                    .map_err(gone)
            }));
        }
        ways
    }

    /// The ledger in a file that is open already; messages speak of `shown`, which need not be there any more.
    ///
    /// # Errors
    /// Those of [`Ledger::open`].
    pub fn of_file(file: std::fs::File, shown: &Path) -> Result<Ledger, SourceError> {
        Self::from_file(LedgerFile::of_file(file, shown))
    }

    pub(crate) fn from_file(file: LedgerFile) -> Result<Ledger, SourceError> {
        let mut bytes = vec![0u8; HEADER_BYTES_MAX];
        let there = file.read_at(&mut bytes, 0)?;
        bytes.truncate(there);
        let inode = file.inode();
        if bytes.is_empty() {
            return Err(SourceError::Empty(file.path().to_owned()));
        }
        // A file of one letter is no ledger that was cut: the magic must at least have begun to differ from text.
        let header = Header::parse(&bytes).map_err(|reason| {
            let reason = match reason {
                FormatError::HeaderCut(is, _) if is < 2 => FormatError::NotALedger,
                other => other,
            };
            SourceError::Format { path: file.path().to_owned(), reason }
        })?;
        let store = if header.flags & flag::FINISHED != 0 {
            Store::Finished(Pieces::open(file, &header, &bytes)?)
        } else {
            let live = Live::new(file);
            live.check_length(&header)?;
            Store::Live(live)
        };
        let mut ledger = Ledger {
            sizes: ElementSizes::of(&header),
            header,
            store,
            process: ProcessInfo::default(),
            pid_here: AtomicU32::new(0),
            inode,
            found: None,
            wide: Mutex::default(),
            marks: Mutex::default(),
            wrong: AtomicU64::new(0),
        };
        let bytes = ledger.count(SectionKind::Process)?.min(PROCESS_BYTES_MAX);
        ledger.process = ProcessInfo::parse(&ledger.byte_range(SectionKind::Process, 0, bytes)?);
        Ok(ledger)
    }

    /// The file that it lies in, open.
    pub fn as_file(&self) -> &std::fs::File {
        self.file().file()
    }

    pub(crate) fn file(&self) -> &LedgerFile {
        match &self.store {
            Store::Live(live) => &live.file,
            Store::Finished(pieces) => &pieces.file,
        }
    }

    /// The name it was opened by; of a process, the path that the process knows.
    pub fn path(&self) -> &Path {
        self.file().path()
    }

    /// How it was found, if what was opened was a core dump or an image of memory.
    pub fn found(&self) -> Option<&Found> {
        self.found.as_ref()
    }

    /// Whether it is of one moment, in an image of memory or a copy that a debugger made: nothing changes in it any
    /// more, whatever its process does.
    pub fn is_copy(&self) -> bool {
        // A chip's is not written where it can be read: somebody has saved it.
        (!self.is_finished() && self.is_of_chip())
            || self.header.flags & flag::COPY != 0
            || self.found.as_ref().is_some_and(|found| matches!(found.source, FoundIn::Itself { .. }))
    }

    /// Whether a chip has written it, which has no process.
    pub fn is_of_chip(&self) -> bool {
        self.header.flags & flag::PUBLISHED_SINGLY == 0
            && self.process.pid().is_none()
            && self.process.get(key::LOG).is_none()
    }

    /// Whether this is a finished ledger: pieces with checksums, and nobody writes it any more.
    pub fn is_finished(&self) -> bool {
        matches!(self.store, Store::Finished(_))
    }

    /// The header as it was when the ledger was opened. Its counters move on in a live ledger: [`Ledger::global`].
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Nobody writes it any more, as the caller knows: what it says of its sections is read once more, and then believed.
    ///
    /// # Errors
    /// If it can no longer be read.
    pub fn rests(&self) -> Result<(), SourceError> {
        match &self.store {
            Store::Live(live) => live.rests(),
            Store::Finished(_) => Ok(()),
        }
    }

    /// The header as it is now.
    ///
    /// # Errors
    /// If a live ledger can no longer be read.
    pub fn current_header(&self) -> Result<Header, SourceError> {
        match &self.store {
            Store::Live(live) => live.header(),
            Store::Finished(_) => Ok(self.header.clone()),
        }
    }

    /// A counter that exists once, as it is now.
    ///
    /// # Errors
    /// If a live ledger can no longer be read.
    pub fn global(&self, counter: GlobalCounter) -> Result<u64, SourceError> {
        Ok(self.current_header()?.global(counter))
    }

    /// Mean bytes between two samples; 0: every block is entered. See [`heapledger_format::sample`].
    pub fn sample_interval(&self) -> u64 {
        self.header.global(GlobalCounter::SampleInterval)
    }

    /// For how many blocks its records stand.
    pub fn sample_rule(&self) -> SampleRule {
        SampleRule { interval: self.sample_interval(), seed: self.header.global(GlobalCounter::SampleSeed) }
    }

    /// What the ledger says of its process.
    pub fn process(&self) -> &ProcessInfo {
        &self.process
    }

    /// What the process that writes this ledger does, on this system.
    pub fn life(&self) -> Life {
        if self.is_finished() || self.is_copy() {
            return Life::Ended;
        }
        let (Some(inner_pid), known) = (self.process.pid(), self.pid_here.load(Ordering::Relaxed)) else {
            return Life::Ended;
        };
        if known == PID_GONE {
            return Life::Ended;
        }
        let (pid, start_ticks) = (Some(known).filter(|pid| *pid != 0), self.start_ticks());
        let namespace = self.process.number(key::PID_NS);
        let (life, pid) = Writer { pid, inner_pid, namespace, start_ticks, inode: self.inode }.life();
        let here = if life == Life::Ended { PID_GONE } else { pid.unwrap_or(0) };
        self.pid_here.store(here, Ordering::Relaxed);
        life
    }

    /// When its process started, if that is known.
    fn start_ticks(&self) -> Option<u64> {
        self.process.start_ticks().filter(|ticks| *ticks != 0)
    }

    /// Whether the process that the ledger tells of is running on this system, and writes it.
    pub fn is_running(&self) -> bool {
        self.life() != Life::Ended
    }

    /// What the system says of the memory at `address`, if the program is running here and may be asked.
    pub fn mapping_at(&self, address: u64) -> Option<system::Mapping> {
        system::mapping_at(self.pid_if_running()?, address)
    }

    /// Anonymous memory of the process that is present, and what of it is swapped out, in bytes; the recorder's is in it. `None` if it is not running here.
    pub fn memory_now(&self) -> Option<(u64, u64)> {
        system::anonymous_memory(self.pid_if_running()?)
    }

    /// The process, as this system numbers it, if it is running here.
    pub(crate) fn pid_if_running(&self) -> Option<u32> {
        let running = self.is_running();
        Some(self.pid_here.load(Ordering::Relaxed)).filter(|pid| running && *pid != 0)
    }

    /// What could not be read so far. Pieces are checked when they are first needed, so ask after reading.
    pub fn damage(&self) -> Damage {
        let mut damage = match &self.store {
            Store::Live(live) => live.damage(),
            Store::Finished(pieces) => pieces.damage(),
        };
        damage.elements_wrong = self.wrong.load(Ordering::Relaxed);
        damage
    }

    /// The records of live blocks, in bounded chunks.
    pub fn records(&self) -> Records<'_> {
        Records::new(self)
    }

    /// The freed blocks that the history still holds, in bounded chunks and in no particular order.
    pub fn freed(&self) -> FreedRecords<'_> {
        FreedRecords::new(self)
    }

    /// Elements of a section that can be read now.
    ///
    /// # Errors
    /// If a live ledger can no longer be read.
    pub fn count(&self, kind: impl Into<u16>) -> Result<u64, SourceError> {
        match &self.store {
            Store::Live(live) => Ok(live.extent(&self.header, kind)?.count),
            Store::Finished(pieces) => Ok(pieces.count(kind)),
        }
    }

    /// Bytes of an element of a section; 0 if there is no such section.
    pub(crate) fn element_bytes(&self, kind: impl Into<u16>) -> usize {
        self.sizes.of_kind(kind.into(), &self.header)
    }

    /// Copies the start of one element to `out`; false if it is not there.
    pub(crate) fn element(&self, kind: SectionKind, index: u64, out: &mut [u8]) -> Result<bool, SourceError> {
        self.element_near(kind, index, &mut Near::default(), out)
    }

    /// The same of several elements of one section in turn, which all have the same `near`.
    pub(crate) fn element_near(
        &self,
        kind: SectionKind,
        index: u64,
        near: &mut Near,
        out: &mut [u8],
    ) -> Result<bool, SourceError> {
        match &self.store {
            Store::Finished(pieces) => pieces.element(kind, self.element_bytes(kind), index, near, out),
            Store::Live(live) => {
                let found = live.element(&self.header, kind, index, out, true)?;
                // Read too early, perhaps: it may have been written since its block was kept.
                if found && out.iter().all(|byte| *byte == 0) {
                    return live.element(&self.header, kind, index, out, false);
                }
                Ok(found)
            }
        }
    }

    /// Bytes of a section whose elements are bytes.
    pub(crate) fn byte_range(&self, kind: SectionKind, first: u64, count: u64) -> Result<Vec<u8>, SourceError> {
        if self.element_bytes(kind) != 1 || count == 0 {
            return Ok(Vec::new());
        }
        match &self.store {
            Store::Finished(pieces) => pieces.byte_range(kind, first, count),
            Store::Live(live) => {
                let extent = live.extent(&self.header, kind)?;
                let mut bytes = vec![0u8; count.min(extent.count.saturating_sub(first)) as usize];
                let there = live.read(&extent, first, &mut bytes)?;
                bytes.truncate(there as usize);
                Ok(bytes)
            }
        }
    }

    /// Calls `each` with the bytes of consecutive elements and the number of the first, chunk by chunk.
    pub(crate) fn for_each_chunk(&self, kind: impl Into<u16>, each: &mut EachChunk<'_>) -> Result<(), SourceError> {
        let kind = kind.into();
        let element_bytes = self.element_bytes(kind);
        if element_bytes == 0 {
            return Ok(());
        }
        match &self.store {
            Store::Finished(pieces) => {
                let (mut unpacker, mut bytes) = (Unpacker::default(), Vec::new());
                for piece in pieces.of(kind) {
                    if pieces.load(piece, element_bytes, &mut unpacker, &mut bytes)? {
                        each(piece.first, &bytes)?;
                    }
                }
            }
            Store::Live(live) => {
                let extent = live.extent(&self.header, kind)?;
                let room = ((CHUNK_BYTES / element_bytes).max(1) as u64).min(extent.count);
                let mut bytes = vec![0u8; room as usize * element_bytes];
                let mut first = 0;
                while first < extent.count {
                    let count = live.read(&extent, first, &mut bytes)?;
                    if count == 0 {
                        break;
                    }
                    each(first, bytes.get(..count as usize * element_bytes).unwrap_or(&[]))?;
                    first += count;
                }
            }
        }
        Ok(())
    }

    /// Size and actual size of the block whose record says that they do not fit.
    pub(crate) fn wide(&self, number: u64) -> Result<Option<(u64, u64)>, SourceError> {
        if let Some(found) = locked(&self.wide).as_ref().map(|known| known.get(&number).copied())
            && (found.is_some() || self.is_finished())
        {
            return Ok(found);
        }
        let mut known = HashMap::new();
        let element_bytes = self.element_bytes(SectionKind::Wide);
        if element_bytes >= wide::BYTES {
            let codec = self.header.codec;
            self.for_each_chunk(SectionKind::Wide, &mut |_, bytes| {
                for element in bytes.chunks_exact(element_bytes) {
                    let Some(number) = codec.u64(element, wide::NUMBER).checked_sub(1) else { continue };
                    if known.len() < WIDE_MAX {
                        known.insert(number, (codec.u64(element, wide::SIZE), codec.u64(element, wide::ACTUAL)));
                    }
                }
                Ok(())
            })?;
        }
        let found = known.get(&number).copied();
        *locked(&self.wide) = Some(known);
        Ok(found)
    }

    pub(crate) fn count_wrong(&self, elements: u64) {
        self.wrong.fetch_add(elements, Ordering::Relaxed);
    }
}
