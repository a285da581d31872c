//! A module of another process, as it lies in that one's memory: its code, its unwind table, the functions that it exports.
//!
//! Read from memory and not from the file, which may lie in another container, or have been replaced since.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;

use heapledger_unwind::Table;

use super::memory::{Mapping, TargetMemory};

const HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;
const SYMBOL_BYTES: usize = 24;
/// More than any module has.
const PROGRAM_HEADERS_MAX: usize = 64;
const SYMBOLS_MAX: usize = 1 << 20;
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const EXECUTABLE: u32 = 1;

/// A program header, its address as it is in memory.
#[derive(Clone, Copy, Debug)]
struct ProgramPart {
    kind: u32,
    flags: u32,
    address: u64,
    file_bytes: u64,
    memory_bytes: u64,
}

/// What its unwind table lies in.
#[derive(Debug)]
struct Segment {
    bytes: Vec<u8>,
    address: u64,
}

/// A module.
#[derive(Debug)]
pub(super) struct Image {
    /// Its file.
    pub(super) path: String,
    bias: u64,
    entry: u64,
    parts: Vec<ProgramPart>,
    segment: OnceCell<Option<Segment>>,
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn quarter(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl Image {
    /// All modules that have code.
    pub(super) fn all(memory: &TargetMemory, mappings: &[Mapping]) -> Vec<Image> {
        let begins = mappings.iter().filter(|mapping| mapping.is_of_file() && mapping.offset == 0);
        let images = begins.filter_map(|mapping| Image::read(memory, mapping.range.start, &mapping.name));
        images.filter(|image| image.code().next().is_some()).collect()
    }

    /// The one whose file begins at `base`, if there is one.
    fn read(memory: &TargetMemory, base: u64, path: &str) -> Option<Image> {
        let header = memory.bytes(base, HEADER_BYTES).ok()?;
        if !header.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let (entry, at, count) = (word(&header, 24)?, word(&header, 32)?, usize::from(quarter(&header, 56)?));
        let bytes = count.min(PROGRAM_HEADERS_MAX).checked_mul(PROGRAM_HEADER_BYTES)?;
        let headers = memory.bytes(base.checked_add(at)?, bytes).ok()?;
        let mut parts: Vec<ProgramPart> = headers
            .chunks_exact(PROGRAM_HEADER_BYTES)
            .filter_map(|header| {
                Some(ProgramPart {
                    kind: half(header, 0)?,
                    flags: half(header, 4)?,
                    address: word(header, 16)?,
                    file_bytes: word(header, 32)?,
                    memory_bytes: word(header, 40)?,
                })
            })
            .collect();
        let first = parts.iter().find(|part| part.kind == PT_LOAD)?;
        let bias = base.wrapping_sub(first.address & !4095);
        parts.iter_mut().for_each(|part| part.address = part.address.wrapping_add(bias));
        Some(Image { path: path.to_owned(), bias, entry: entry.wrapping_add(bias), parts, segment: OnceCell::new() })
    }

    /// The last part of its path.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default().trim_end_matches(" (deleted)")
    }

    /// Where it is entered if it is a program.
    pub(super) fn entry(&self) -> u64 {
        self.entry
    }

    /// Its code.
    pub(super) fn code(&self) -> impl Iterator<Item = Range<u64>> {
        let code = self.parts.iter().filter(|part| part.kind == PT_LOAD && part.flags & EXECUTABLE != 0);
        code.map(|part| part.address..part.address.saturating_add(part.memory_bytes))
    }

    /// Whether an address is one of its code.
    pub(super) fn has_code(&self, address: u64) -> bool {
        self.code().any(|range| range.contains(&address))
    }

    /// Its unwind table, read when it is first wanted.
    pub(super) fn table(&self, memory: &TargetMemory) -> Option<Table<'_>> {
        let header = self.parts.iter().find(|part| part.kind == PT_GNU_EH_FRAME)?;
        let segment = self.segment.get_or_init(|| {
            let holds = |part: &&ProgramPart| {
                part.kind == PT_LOAD && header.address.wrapping_sub(part.address) < part.file_bytes
            };
            let part = self.parts.iter().find(holds).filter(|part| part.file_bytes <= SEGMENT_BYTES_MAX)?;
            let bytes = memory.bytes(part.address, usize::try_from(part.file_bytes).ok()?).ok()?;
            Some(Segment { bytes, address: part.address })
        });
        let segment = segment.as_ref()?;
        Some(Table { segment: &segment.bytes, segment_address: segment.address, header_address: header.address })
    }

    /// Where these bytes stand in its code.
    pub(super) fn find_code(&self, memory: &TargetMemory, wanted: &[u8]) -> Option<u64> {
        self.code().find_map(|range| {
            let code = memory.bytes(range.start, usize::try_from(range.end.saturating_sub(range.start)).ok()?).ok()?;
            let at = code.windows(wanted.len()).position(|bytes| bytes == wanted)?;
            range.start.checked_add(at as u64)
        })
    }

    /// The functions that it exports, by name, with all versions of each.
    pub(super) fn exports(&self, memory: &TargetMemory) -> Option<Exports> {
        const STRINGS: u64 = 5;
        const SYMBOLS: u64 = 6;
        const STRINGS_BYTES: u64 = 10;
        const GNU_HASH: u64 = 0x6fff_fef5;
        let dynamic = self.parts.iter().find(|part| part.kind == PT_DYNAMIC)?;
        let entries = memory.words(dynamic.address, usize::try_from(dynamic.memory_bytes).ok()? / 8).ok()?;
        let value = |tag| entries.as_chunks::<2>().0.iter().find(|entry| entry[0] == tag).map(|entry| entry[1]);
        // The loader adds the bias in place where the section is writable.
        let address = |tag| value(tag).map(|at| if at < self.bias { at.wrapping_add(self.bias) } else { at });
        let count = symbols(memory, address(GNU_HASH)?)?;
        let table = memory.bytes(address(SYMBOLS)?, count.checked_mul(SYMBOL_BYTES)?).ok()?;
        let names = memory.bytes(address(STRINGS)?, usize::try_from(value(STRINGS_BYTES)?).ok()?).ok()?;
        let mut exports = Exports::default();
        for symbol in table.chunks_exact(SYMBOL_BYTES) {
            let (name, section, value) = (half(symbol, 0)?, quarter(symbol, 6)?, word(symbol, 8)?);
            let Some(name) = names.get(name as usize..).filter(|_| section != 0 && value != 0) else { continue };
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            let name = String::from_utf8_lossy(name.get(..end).unwrap_or_default()).into_owned();
            exports.0.entry(name).or_default().push(value.wrapping_add(self.bias));
        }
        Some(exports)
    }
}

/// How many symbols there are: one more than the last that a GNU hash table leads to.
fn symbols(memory: &TargetMemory, table: u64) -> Option<usize> {
    let header = memory.bytes(table, 16).ok()?;
    let (buckets, first, bloom_words) = (half(&header, 0)?, half(&header, 4)?, half(&header, 8)?);
    let buckets_at = table.checked_add(16)?.checked_add(u64::from(bloom_words).checked_mul(8)?)?;
    let heads =
        memory.bytes(buckets_at, (buckets as usize).checked_mul(4).filter(|bytes| *bytes < SYMBOLS_MAX)?).ok()?;
    let heads = heads.as_chunks::<4>().0.iter().map(|head| u32::from_ne_bytes(*head));
    let mut last = heads.max().filter(|last| *last >= first)?;
    let chains_at = buckets_at.checked_add(u64::from(buckets).checked_mul(4)?)?;
    while (last as usize) < SYMBOLS_MAX {
        let place = chains_at.checked_add(u64::from(last.checked_sub(first)?).checked_mul(4)?)?;
        let chain = half(&memory.bytes(place, 4).ok()?, 0)?;
        last = last.checked_add(1)?;
        if chain & 1 == 1 {
            return Some(last as usize);
        }
    }
    None
}

/// Addresses by name.
#[derive(Debug, Default)]
pub(super) struct Exports(HashMap<String, Vec<u64>>);

impl Exports {
    /// All of one name.
    pub(super) fn addresses(&self, name: &str) -> impl Iterator<Item = u64> + '_ {
        self.0.get(name).into_iter().flatten().copied()
    }

    /// One of this name.
    pub(super) fn address(&self, name: &str) -> Option<u64> {
        self.addresses(name).next()
    }

    /// Whether one of these names is at this address.
    pub(super) fn is_any(&self, names: &[&str], address: u64) -> bool {
        names.iter().any(|name| self.addresses(name).any(|at| at == address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_of_this_process_is_read() {
        let own = std::process::id() as i32;
        let memory = TargetMemory::open(own).expect("own memory");
        let images = Image::all(&memory, &Mapping::all(own).expect("maps"));
        let libc = images.iter().find(|image| image.name() == "libc.so.6").expect("libc");
        let exports = libc.exports(&memory).expect("exports");
        // An address in a library's file, whatever version of the function this program is bound to.
        assert!(exports.addresses("qsort").any(|at| at == libc::qsort as *const () as u64));
        assert!(exports.is_any(&["free", "qsort"], libc::qsort as *const () as u64));
        assert_eq!(exports.address("no_such_function"), None);
        let start = exports.address("qsort").expect("there");
        assert!(libc.has_code(start));
        let function = libc.table(&memory).expect("a table").function(start).expect("described");
        assert_eq!(function.start, start);
        let executable = images.iter().find(|image| image.name().starts_with("heapledger_launch")).expect("the test");
        assert!(executable.has_code(executable.entry()));
        assert!(executable.find_code(&memory, &[0xc3]).is_some(), "a function returns");
    }
}
