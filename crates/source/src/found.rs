//! From a core dump or an image of memory to its ledger.
//!
//! The ledger may lie in it: in the memory of a chip, or in a Linux core dump whose filter takes shared mappings. If
//! not, an anchor in it leads to the live file, or, when that is finished, to the finished ledger.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use heapledger_format::header::{HEADER_BYTES_MAX, MAGIC, at, flag};
use heapledger_format::session::ending;

use crate::coredump::{CoreDump, Elf};
use crate::file::LedgerFile;
use crate::search::{Anchor, Hit, memory, search};
use crate::{Ledger, SourceError};

/// Most entries of a directory that are looked at for a finished ledger.
const ENTRIES_MAX: usize = 100_000;
/// Beginnings of packed files: Zstandard, gzip, xz, LZ4.
const PACKED: [&[u8]; 4] = [b"\x28\xb5\x2f\xfd", b"\x1f\x8b", b"\xfd7zXZ\0", b"\x04\x22\x4d\x18"];

/// Where the ledger of a core dump, or of an image of memory, was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundIn {
    /// In it: the ledger as it was at that moment.
    Itself {
        /// Where it begins: an address, or without addresses a place in the file.
        address: u64,
    },
    /// In the live file: as it is now, or as the program left it.
    LiveFile(PathBuf),
    /// In the finished ledger: as the program left it. If there is none but a snapshot of the program, in that.
    FinishedFile(PathBuf),
}

/// How a ledger was found that was not opened by its own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What was opened.
    pub image: PathBuf,
    /// Whether that is a core dump; else it is an image of memory without addresses.
    pub is_core: bool,
    /// Where the ledger was.
    pub source: FoundIn,
    /// The process, as the core dump says.
    pub pid: Option<u32>,
    /// The signal that the core dump was written for, if it was for one.
    pub signal: Option<u32>,
    /// When it was last written, as the file says.
    pub written: Option<SystemTime>,
    /// Whether the core dump ends before its headers say.
    pub cut: bool,
}

/// The ledger that `file` holds or leads to; `None` if `file` is, or should be, a ledger itself.
pub(crate) fn open_inside(file: &LedgerFile) -> Result<Option<(Ledger, Found)>, SourceError> {
    let mut begin = [0u8; 8];
    let there = file.read_at(&mut begin, 0)?;
    let begin = begin.get(..there).unwrap_or(&[]);
    if there < MAGIC.len() || begin == MAGIC {
        return Ok(None);
    }
    let not_a_ledger = |what| Err(SourceError::NotAFile { path: file.path().to_owned(), what });
    if PACKED.iter().any(|magic| begin.starts_with(magic)) {
        return not_a_ledger("packed (unpack it first)");
    }
    match CoreDump::open(file)? {
        Elf::Core(core) => open_core(file, &core).map(Some),
        Elf::Other => not_a_ledger("an executable or a library"),
        Elf::None => open_image(file),
    }
}

fn found(file: &LedgerFile, core: Option<&CoreDump>, source: FoundIn) -> Found {
    Found {
        image: file.path().to_owned(),
        is_core: core.is_some(),
        source,
        pid: core.and_then(|core| core.pid),
        signal: core.and_then(|core| core.signal).filter(|signal| *signal != 0),
        written: file.metadata().and_then(|data| data.modified().map_err(|reason| file.failed(reason))).ok(),
        cut: core.is_some_and(|core| core.cut),
    }
}

/// Memory that was saved as it is: `dump binary memory` of gdb, a flash reader.
fn open_image(file: &LedgerFile) -> Result<Option<(Ledger, Found)>, SourceError> {
    let hits = Hits::of(file, None)?;
    if let Some(address) = hits.ledger {
        let ledger = Ledger::from_file(memory(file, None, address)?)?;
        return Ok(Some((ledger, found(file, None, FoundIn::Itself { address }))));
    }
    match hits.anchor {
        Some(anchor) => follow(file, None, &anchor).map(Some),
        None => Ok(None),
    }
}

fn open_core(file: &LedgerFile, core: &CoreDump) -> Result<(Ledger, Found), SourceError> {
    // The list of mapped files says where the ledger was, so it need not be looked for.
    let mapped = core.ledgers.first();
    let mut partial = None;
    if let Some(mapped) = mapped
        && let Some(ledger) = whole_header(file, core, mapped.address)?
    {
        if core.pid.is_some_and(|pid| ledger.process().pid().is_some_and(|owner| owner != pid)) && !core.cut {
            // Perhaps a child, perhaps another numbering: the anchor tells.
            if Hits::of(file, Some(core))?.anchor.is_none() {
                return Err(of_child(file, &mapped.path));
            }
        }
        let source = FoundIn::Itself { address: mapped.address };
        if ledger.damage().elements_missing == 0 {
            return Ok((ledger, found(file, Some(core), source)));
        }
        partial = Some((ledger, source));
    }
    let hits = Hits::of(file, Some(core))?;
    if let Some(anchor) = &hits.anchor {
        match (follow(file, Some(core), anchor), partial) {
            (Err(_), Some((ledger, source))) => return Ok((ledger, found(file, Some(core), source))),
            (followed, _) => return followed,
        }
    }
    if let Some((ledger, source)) = partial {
        return Ok((ledger, found(file, Some(core), source)));
    }
    if let Some(address) = hits.ledger {
        let ledger = Ledger::from_file(memory(file, Some(core), address)?)?;
        return Ok((ledger, found(file, Some(core), FoundIn::Itself { address })));
    }
    match mapped {
        Some(mapped) if !core.cut => Err(of_child(file, &mapped.path)),
        _ => Err(SourceError::CoreWithout { path: file.path().to_owned(), cut: core.cut }),
    }
}

fn of_child(file: &LedgerFile, parent: &Path) -> SourceError {
    SourceError::CoreOfChild { path: file.path().to_owned(), parent: parent.to_owned() }
}

/// The ledger at `address`, if its header was dumped.
fn whole_header(file: &LedgerFile, core: &CoreDump, address: u64) -> Result<Option<Ledger>, SourceError> {
    let memory = memory(file, Some(core), address)?;
    let mut bytes = vec![0u8; HEADER_BYTES_MAX];
    if memory.read_at(&mut bytes, 0)? < bytes.len() || !bytes.starts_with(&MAGIC) {
        return Ok(None);
    }
    match Ledger::from_file(memory) {
        Ok(ledger) => Ok(Some(ledger)),
        Err(SourceError::Format { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

/// What a search came upon: the first of each.
#[derive(Default)]
struct Hits {
    anchor: Option<Anchor>,
    ledger: Option<u64>,
}

impl Hits {
    /// Looks until there is an answer. In a core dump of Linux that is the anchor.
    fn of(file: &LedgerFile, core: Option<&CoreDump>) -> Result<Hits, SourceError> {
        let mut hits = Hits::default();
        let mut header: Option<u64> = None;
        let anchored = core.is_some_and(|core| !core.ledgers.is_empty());
        search(file, core, &mut |hit| match hit {
            Hit::Anchor(anchor) => {
                hits.anchor.get_or_insert(anchor);
                false
            }
            Hit::Ledger(address) => {
                hits.ledger.get_or_insert(address);
                anchored
            }
            Hit::Header(address) => {
                header.get_or_insert(address);
                true
            }
        })?;
        hits.ledger = hits.ledger.or(header);
        Ok(hits)
    }
}

/// From an anchor to its live file or its finished ledger.
fn follow(file: &LedgerFile, core: Option<&CoreDump>, anchor: &Anchor) -> Result<(Ledger, Found), SourceError> {
    let mut places = vec![anchor.path.clone()];
    if let (Some(pid), Ok(inside)) = (core.and_then(|core| core.pid), anchor.path.strip_prefix("/")) {
        // A process in a container has files of its own.
        places.push(PathBuf::from(format!("/proc/{pid}/root")).join(inside));
    }
    let mut failure = None;
    for place in &places {
        match LedgerFile::open(place, &anchor.path).and_then(Ledger::from_file) {
            Ok(ledger) if ledger.header().id == anchor.id => {
                return Ok((ledger, found(file, core, FoundIn::LiveFile(anchor.path.clone()))));
            }
            Ok(_) | Err(SourceError::NotFound(_)) => {}
            Err(reason) => {
                failure.get_or_insert(reason);
            }
        }
    }
    let beside = match file.path().parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut directories = vec![beside];
    for directory in [Some(PathBuf::from(".")), anchor.cwd.clone()].into_iter().flatten() {
        let same = |known: &PathBuf| known.canonicalize().ok() == directory.canonicalize().ok();
        if directory.is_dir() && !directories.iter().any(same) {
            directories.push(directory);
        }
    }
    let mut of_moments = Vec::new();
    for directory in &directories {
        for (path, ledger) in finished_in(directory, &anchor.id) {
            if ledger.header().flags & (flag::SNAPSHOT | flag::COPY) == 0 {
                return Ok((ledger, found(file, core, FoundIn::FinishedFile(path))));
            }
            of_moments.push((path, ledger));
        }
    }
    // A snapshot is better than nothing, and that of the nearest moment is the best.
    let written = file.metadata().ok().and_then(|data| data.modified().ok());
    let written = written.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let written = written.map_or(u128::MAX, |since| since.as_nanos());
    let distance = |ledger: &Ledger| ledger.moment_unix_ns().map_or(u128::MAX, |at| written.abs_diff(at.into()));
    if let Some((path, ledger)) = of_moments.into_iter().min_by_key(|(_, ledger)| distance(ledger)) {
        return Ok((ledger, found(file, core, FoundIn::FinishedFile(path))));
    }
    if let Some(reason) = failure {
        return Err(reason);
    }
    let searched = directories.iter().map(|directory| match directory.to_str() {
        Some(".") => "the current directory".to_owned(),
        _ => directory.display().to_string(),
    });
    Err(SourceError::CoreLost {
        path: file.path().to_owned(),
        live: anchor.path.clone(),
        searched: searched.collect::<Vec<_>>().join(" or "),
    })
}

/// Finished ledgers with this id, snapshots among them.
fn finished_in<'a>(directory: &Path, id: &'a [u8; 16]) -> impl Iterator<Item = (PathBuf, Ledger)> + use<'a> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().take(ENTRIES_MAX).filter_map(Result::ok);
    let named = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().contains(ending::FINISHED);
    let mut paths: Vec<PathBuf> = entries.filter(named).map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter().filter_map(|path| {
        let file = LedgerFile::open(&path, &path).ok()?;
        let mut begin = [0u8; at::ID + 16];
        file.read_at(&mut begin, 0).ok()?;
        if !begin.starts_with(&MAGIC) || begin.get(at::ID..) != Some(id.as_slice()) {
            return None;
        }
        let ledger = Ledger::from_file(file).ok().filter(Ledger::is_finished)?;
        Some((path, ledger))
    })
}
