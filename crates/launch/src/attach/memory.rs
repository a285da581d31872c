//! The memory of another process, by `/proc/PID/mem`, and what it has mapped.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

const WORD: usize = size_of::<u64>();

/// TargetMemory that can be read and written as long as the process may be traced.
#[derive(Debug)]
pub(super) struct TargetMemory(File);

impl TargetMemory {
    pub(super) fn open(process: i32) -> io::Result<TargetMemory> {
        OpenOptions::new().read(true).write(true).open(format!("/proc/{process}/mem")).map(TargetMemory)
    }

    /// So many bytes from there.
    pub(super) fn bytes(&self, address: u64, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.0.read_exact_at(&mut bytes, address).map(|()| bytes)
    }

    pub(super) fn word(&self, address: u64) -> io::Result<u64> {
        let mut bytes = [0; WORD];
        self.0.read_exact_at(&mut bytes, address).map(|()| u64::from_ne_bytes(bytes))
    }

    /// So many words from there.
    pub(super) fn words(&self, address: u64, count: usize) -> io::Result<Vec<u64>> {
        let bytes = self.bytes(address, count.saturating_mul(WORD))?;
        Ok(bytes.as_chunks::<WORD>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect())
    }

    /// A text that ends with a zero byte, or as much of it as there is room for.
    pub(super) fn text(&self, address: u64, bytes_max: usize) -> String {
        let mut text = vec![0; bytes_max];
        let count = self.0.read_at(&mut text, address).unwrap_or(0);
        text.truncate(count);
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        String::from_utf8_lossy(text.get(..end).unwrap_or_default()).into_owned()
    }

    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, address)
    }
}

/// A mapping: a line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) range: Range<u64>,
    /// As `r-xp`.
    pub(super) rights: String,
    /// Where in the file it begins.
    pub(super) offset: u64,
    /// The file's path, or the kernel's name in brackets, or nothing.
    pub(super) name: String,
}

impl Mapping {
    fn parse(line: &str) -> Option<Mapping> {
        let mut parts = line.splitn(6, ' ');
        let (low, high) = parts.next()?.split_once('-')?;
        let (rights, offset) = (parts.next()?.to_owned(), parts.next()?);
        let name = parts.nth(2).unwrap_or_default().trim_start().to_owned();
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Mapping { range: number(low)?..number(high)?, rights, offset: number(offset)?, name })
    }

    /// All of a process, in the order of addresses.
    pub(super) fn all(process: i32) -> io::Result<Vec<Mapping>> {
        let maps = fs::read(format!("/proc/{process}/maps"))?;
        Ok(String::from_utf8_lossy(&maps).lines().filter_map(Mapping::parse).collect())
    }

    /// Whether it is of a file.
    pub(super) fn is_of_file(&self) -> bool {
        self.name.starts_with('/')
    }

    /// The last part of its name.
    pub(super) fn short_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default().trim_end_matches(" (deleted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_reads_itself() {
        let own = std::process::id() as i32;
        let memory = TargetMemory::open(own).expect("own memory");
        let text = *b"a text\0and more";
        let address = text.as_ptr() as u64;
        assert_eq!(memory.text(address, text.len()), "a text");
        assert_eq!(memory.bytes(address, 6).expect("read"), b"a text");
        assert!(memory.word(0).is_err());
        let mappings = Mapping::all(own).expect("maps");
        let here = mappings.iter().find(|mapping| mapping.range.contains(&address)).expect("the stack");
        assert!(here.rights.starts_with("rw") && !here.is_of_file());
        let code = this_process_reads_itself as *const () as u64;
        let code = mappings.iter().find(|mapping| mapping.range.contains(&code)).expect("code");
        assert!(code.is_of_file() && code.rights.contains('x') && code.short_name().starts_with("heapledger_launch"));
    }

    #[test]
    fn names_may_have_spaces() {
        let line = "7f00-7f10 r-xp 00002000 fe:01 42                         /tmp/a b/lib.so (deleted)";
        let mapping = Mapping::parse(line).expect("a line");
        assert_eq!((mapping.range, mapping.offset), (0x7f00..0x7f10, 0x2000));
        assert_eq!(mapping.name, "/tmp/a b/lib.so (deleted)");
        assert_eq!(Mapping::parse("7f00-7f10 rw-p 00000000 00:00 0").expect("a line").name, "");
        assert_eq!(Mapping::parse("nonsense"), None);
    }
}
