//! From a core dump or an image of memory to its ledger.
//!
//! The ledger may lie in it: in the memory of a chip, or in a Linux core dump whose filter takes shared mappings. If
//! not, an anchor in it leads to the live file, or, when that is finished, to the finished ledger.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use heapledger_format::header::{HEADER_BYTES_MAX, Header, MAGIC, at, flag};
use heapledger_format::session::ending;

use crate::coredump::{Elf, MemoryImage};
use crate::file::LedgerFile;
use crate::search::{Anchor, Hit, memory, search};
use crate::{Ledger, SourceError};
use crate::{esp, hex};

/// Most entries of a directory that are looked at for a finished ledger.
const ENTRIES_MAX: usize = 100_000;
/// Most bytes of the first line by which a hex file is known.
const HEX_LINE_BYTES_MAX: usize = 600;
/// Bytes of a ledger by which it is known to be another one once more, at other addresses; fewer if that is all there is.
const COMPARED_BYTES: usize = 64 << 10;
const COMPARED_BYTES_MIN: usize = 1 << 10;
/// Most ledgers of one image that are told of.
const TOLD_MAX: usize = 64;
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

/// What is known of an image of memory that the file does not say, and which of its ledgers is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageOptions {
    /// The address of the first byte of memory that was saved as it is.
    pub base: Option<u64>,
    /// Which of several ledgers; `None`: the first.
    pub which: Option<WhichLedger>,
}

/// One of several ledgers in an image of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhichLedger {
    /// By its number, in the order of addresses, from 1 on.
    Numbered(usize),
    /// That which begins at this address; in an image without addresses, at this place of the file.
    At(u64),
}

/// A ledger in an image of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerAt {
    /// Where it begins: an address, or without addresses a place in the file.
    pub address: u64,
    /// What its program is called.
    pub program: Option<String>,
}

/// How a ledger was found that was not opened by its own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What was opened.
    pub image: PathBuf,
    /// Whether that is a core dump; else it is another image of memory.
    pub is_core: bool,
    /// Whether it is known where its memory was; else addresses are places in the file.
    pub has_addresses: bool,
    /// All ledgers that lie in it, in the order of addresses; empty where there is one, or none was looked for.
    pub ledgers: Vec<LedgerAt>,
    /// Where the ledger was.
    pub source: FoundIn,
    /// The process, as the core dump says.
    pub pid: Option<u32>,
    /// The signal that the core dump was written for, if it was for one.
    pub signal: Option<u32>,
    /// When it was last written, as the file says.
    pub written: Option<SystemTime>,
    /// Whether the file ends before its headers say, or without its last record.
    pub cut: bool,
    /// Whether bytes were changed on the way, as a checksum says.
    pub altered: bool,
}

/// The ledger that `file` holds or leads to; `None` if `file` is, or should be, a ledger itself.
pub(crate) fn open_inside(file: &LedgerFile, options: ImageOptions) -> Result<Option<(Ledger, Found)>, SourceError> {
    let mut begin = [0u8; HEX_LINE_BYTES_MAX];
    let there = file.read_at(&mut begin, 0)?;
    let begin = begin.get(..there).unwrap_or(&[]);
    if there < MAGIC.len() {
        return Ok(None);
    }
    if begin.starts_with(&MAGIC) && options == ImageOptions::default() && !may_be_one_of_several(file)? {
        return Ok(None);
    }
    let not_a_ledger = |what| Err(SourceError::NotAFile { path: file.path().to_owned(), what });
    if PACKED.iter().any(|magic| begin.starts_with(magic)) {
        return not_a_ledger("packed (unpack it first)");
    }
    let has_own = |file: &LedgerFile| match options.base {
        Some(_) => Err(SourceError::HasAddresses(file.path().to_owned())),
        None => Ok(()),
    };
    match MemoryImage::open(file)? {
        Elf::Core(core) => {
            has_own(file)?;
            open_core(file, &core, options).map(Some)
        }
        Elf::Other => not_a_ledger("an executable or a library"),
        Elf::None if hex::is_hex(begin) => {
            has_own(file)?;
            let (memory, image) = hex::decode(file)?;
            let opened = open_image(&memory, &image, options)?;
            opened.map_or_else(|| not_a_ledger("a hex file without a ledger"), |opened| Ok(Some(opened)))
        }
        Elf::None
            if esp::is_core_text(begin) || esp::is_dump(begin) || is_text(begin) && esp::has_core_text(file.path()) =>
        {
            has_own(file)?;
            let (memory, image) = esp::open(file, begin)?;
            open_core(&memory, &image, options).map(Some)
        }
        Elf::None => {
            let bytes = file.metadata()?.len();
            if options.base.is_some_and(|base| base.checked_add(bytes).is_none()) {
                return Err(SourceError::BeyondAddresses(file.path().to_owned()));
            }
            let image = MemoryImage::plain(bytes, options.base);
            let opened = open_image(file, &image, options)?;
            // One by itself, and whatever lies behind it.
            let is_itself = |(_, found): &(Ledger, Found)| {
                options == ImageOptions::default()
                    && found.ledgers.is_empty()
                    && found.source == FoundIn::Itself { address: 0 }
            };
            Ok(opened.filter(|opened| !is_itself(opened)))
        }
    }
}

/// Whether a file that begins so has lines.
fn is_text(begin: &[u8]) -> bool {
    !begin.contains(&0)
}

/// Whether what begins with a ledger may be an image of memory that begins with it, and has others behind it: one of a chip, which is as long as its
/// sections, in a file that is longer.
fn may_be_one_of_several(file: &LedgerFile) -> Result<bool, SourceError> {
    let mut bytes = vec![0u8; HEADER_BYTES_MAX];
    let there = file.read_at(&mut bytes, 0)?;
    let Ok(header) = Header::parse(bytes.get(..there).unwrap_or(&[])) else { return Ok(false) };
    let ends = header
        .sections()
        .iter()
        .map(|row| row.offset.saturating_add(row.capacity.saturating_mul(u64::from(row.element_bytes))));
    let is_of_chip = header.flags & (flag::PUBLISHED_SINGLY | flag::FINISHED | flag::COPY) == 0;
    let behind = ends.max().unwrap_or(0).saturating_add(HEADER_BYTES_MAX as u64);
    Ok(is_of_chip && file.metadata()?.len() > behind)
}

fn found(file: &LedgerFile, image: &MemoryImage, source: FoundIn, ledgers: &[u64]) -> Found {
    let program = |address| Ledger::from_file(memory(file, image, address)).ok()?.process().program();
    let told = |address: &u64| LedgerAt { address: *address, program: program(*address) };
    Found {
        image: file.path().to_owned(),
        is_core: image.is_core,
        has_addresses: image.has_addresses,
        ledgers: if ledgers.len() > 1 { ledgers.iter().take(TOLD_MAX).map(told).collect() } else { Vec::new() },
        source,
        pid: image.pid,
        signal: image.signal.filter(|signal| *signal != 0),
        written: file.metadata().and_then(|data| data.modified().map_err(|reason| file.failed(reason))).ok(),
        cut: image.cut,
        altered: image.altered,
    }
}

/// Memory that was saved as it is, or in a file that says where it was: `dump binary memory` of gdb, a flash reader.
fn open_image(
    file: &LedgerFile,
    image: &MemoryImage,
    options: ImageOptions,
) -> Result<Option<(Ledger, Found)>, SourceError> {
    let hits = Hits::of(file, image)?;
    if let Some(opened) = hits.open(file, image, options)? {
        return Ok(Some(opened));
    }
    match hits.anchor {
        Some(anchor) => follow(file, image, &anchor).map(Some),
        None => Ok(None),
    }
}

fn open_core(file: &LedgerFile, core: &MemoryImage, options: ImageOptions) -> Result<(Ledger, Found), SourceError> {
    if options.which.is_some()
        && let Some(opened) = Hits::of(file, core)?.open(file, core, options)?
    {
        return Ok(opened);
    }
    // The list of mapped files says where the ledger was, so it need not be looked for.
    let mapped = core.ledgers.first();
    let mut partial = None;
    if let Some(mapped) = mapped
        && let Some(ledger) = whole_header(file, core, mapped.address)?
    {
        if core.pid.is_some_and(|pid| ledger.process().pid().is_some_and(|owner| owner != pid)) && !core.cut {
            // Perhaps a child, perhaps another numbering: the anchor tells.
            if Hits::of(file, core)?.anchor.is_none() {
                return Err(of_child(file, &mapped.path));
            }
        }
        let source = FoundIn::Itself { address: mapped.address };
        if ledger.damage().elements_missing == 0 {
            return Ok((ledger, found(file, core, source, &[])));
        }
        partial = Some((ledger, source));
    }
    let hits = Hits::of(file, core)?;
    if let Some(anchor) = &hits.anchor {
        match (follow(file, core, anchor), partial) {
            (Err(_), Some((ledger, source))) => return Ok((ledger, found(file, core, source, &[]))),
            (followed, _) => return followed,
        }
    }
    if let Some((ledger, source)) = partial {
        return Ok((ledger, found(file, core, source, &[])));
    }
    if let Some(opened) = hits.open(file, core, options)? {
        return Ok(opened);
    }
    match mapped {
        Some(mapped) if !core.cut => Err(of_child(file, &mapped.path)),
        _ => Err(SourceError::CoreWithout { path: file.path().to_owned(), cut: core.cut, is_esp: core.is_esp }),
    }
}

fn of_child(file: &LedgerFile, parent: &Path) -> SourceError {
    SourceError::CoreOfChild { path: file.path().to_owned(), parent: parent.to_owned() }
}

/// The ledger at `address`, if its header was dumped.
fn whole_header(file: &LedgerFile, core: &MemoryImage, address: u64) -> Result<Option<Ledger>, SourceError> {
    let memory = memory(file, core, address);
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

/// What a search came upon.
#[derive(Default)]
struct Hits {
    anchor: Option<Anchor>,
    /// Where ledgers begin, in order; if there is none, where headers lie whose records are not there.
    ledgers: Vec<u64>,
    /// Where they begin once more, because the same memory has several addresses.
    mirrored: Vec<u64>,
}

impl Hits {
    /// Looks through all of the memory; in a core dump of Linux, until there is the anchor.
    fn of(file: &LedgerFile, image: &MemoryImage) -> Result<Hits, SourceError> {
        let mut hits = Hits::default();
        let mut headers = Vec::new();
        search(file, image, &mut |hit| match hit {
            Hit::Anchor(anchor) => {
                hits.anchor.get_or_insert(anchor);
                false
            }
            Hit::Ledger(address) => {
                hits.ledgers.push(address);
                true
            }
            Hit::Header(address) => {
                headers.push(address);
                true
            }
        })?;
        hits.ledgers.sort_unstable();
        hits.mirrored = hits.take_mirrored(file, image)?;
        if hits.ledgers.is_empty() {
            headers.sort_unstable();
            headers.truncate(1);
            hits.ledgers = headers;
        }
        Ok(hits)
    }

    /// Takes those out that are the same, to the byte, as one before.
    fn take_mirrored(&mut self, file: &LedgerFile, image: &MemoryImage) -> Result<Vec<u64>, SourceError> {
        let mut mirrored = Vec::new();
        let mut kept: Vec<Vec<u8>> = Vec::new();
        for address in std::mem::take(&mut self.ledgers) {
            if kept.len() >= TOLD_MAX {
                self.ledgers.push(address);
                continue;
            }
            let mut begin = vec![0u8; COMPARED_BYTES];
            let there = memory(file, image, address).read_at(&mut begin, 0)?;
            begin.truncate(there);
            // Memory behind it may be anybody's; and where addresses are mirrored, it is the same.
            let is_same = |other: &Vec<u8>| {
                image.has_addresses
                    && other.len().min(there) >= COMPARED_BYTES_MIN
                    && other.iter().zip(&begin).all(|(a, b)| a == b)
            };
            if kept.iter().any(is_same) {
                mirrored.push(address);
                continue;
            }
            self.ledgers.push(address);
            kept.push(begin);
        }
        Ok(mirrored)
    }

    /// The one that is wanted; `None` if there is none at all.
    fn open(
        &self,
        file: &LedgerFile,
        image: &MemoryImage,
        options: ImageOptions,
    ) -> Result<Option<(Ledger, Found)>, SourceError> {
        let address = match options.which {
            None => self.ledgers.first(),
            Some(WhichLedger::Numbered(number)) => number.checked_sub(1).and_then(|index| self.ledgers.get(index)),
            Some(WhichLedger::At(address)) => self.ledgers.iter().chain(&self.mirrored).find(|own| **own == address),
        };
        let Some(address) = address.copied() else {
            return match (options.which, self.ledgers.as_slice()) {
                (None, _) | (_, []) => Ok(None),
                (Some(_), _) => {
                    Err(SourceError::NoSuchLedger { path: file.path().to_owned(), at: self.ledgers.clone() })
                }
            };
        };
        let ledger = Ledger::from_file(memory(file, image, address))?;
        Ok(Some((ledger, found(file, image, FoundIn::Itself { address }, &self.ledgers))))
    }
}

/// From an anchor to its live file or its finished ledger.
fn follow(file: &LedgerFile, image: &MemoryImage, anchor: &Anchor) -> Result<(Ledger, Found), SourceError> {
    let mut places = vec![anchor.path.clone()];
    if let (Some(pid), Ok(inside)) = (image.pid, anchor.path.strip_prefix("/")) {
        // A process in a container has files of its own.
        places.push(PathBuf::from(format!("/proc/{pid}/root")).join(inside));
    }
    let mut failure = None;
    for place in &places {
        match LedgerFile::open(place, &anchor.path).and_then(Ledger::from_file) {
            Ok(ledger) if ledger.header().id == anchor.id => {
                return Ok((ledger, found(file, image, FoundIn::LiveFile(anchor.path.clone()), &[])));
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
                return Ok((ledger, found(file, image, FoundIn::FinishedFile(path), &[])));
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
        return Ok((ledger, found(file, image, FoundIn::FinishedFile(path), &[])));
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
