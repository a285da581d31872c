//! A ledger that a program maps, or mapped when it died: sections in place, in a sparse file.

use std::sync::{Arc, Mutex, OnceLock};

use heapledger_format::SectionKind;
use heapledger_format::header::{HEADER_BYTES_MAX, Header};
use heapledger_format::section::{SectionRow, row};

use crate::cache::Cache;
use crate::file::LedgerFile;
use crate::{Damage, SourceError, locked};

/// Bytes of a block of elements that is looked into at random.
const BLOCK_BYTES: u64 = 64 << 10;
/// Bytes of such blocks kept.
const CACHE_BYTES: usize = 32 << 20;

/// The readable part of a section, as of the moment it was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) element_bytes: usize,
    pub(crate) count: u64,
}

#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) file: LedgerFile,
    blocks: Mutex<Cache<(u16, u64)>>,
    damage: Mutex<Damage>,
    /// What it says of itself when nobody writes it any more.
    rest: OnceLock<Rest>,
}

#[derive(Debug)]
struct Rest {
    header: Box<Header>,
    /// How long the file is, if the ledger is the file.
    end: Option<u64>,
}

impl Live {
    pub(crate) fn new(file: LedgerFile) -> Live {
        Live { file, blocks: Mutex::new(Cache::new(CACHE_BYTES)), damage: Mutex::default(), rest: OnceLock::new() }
    }

    pub(crate) fn damage(&self) -> Damage {
        *locked(&self.damage)
    }

    /// Nobody writes it any more: what it says of itself is read once, now, and not again for each section.
    pub(crate) fn rests(&self) -> Result<(), SourceError> {
        let _ = self.rest.set(Rest { header: Box::new(self.header()?), end: self.end()? });
        Ok(())
    }

    /// How long the file is, if the ledger is the file.
    fn end(&self) -> Result<Option<u64>, SourceError> {
        Ok(if self.file.is_in_parts() { None } else { Some(self.file.metadata()?.len()) })
    }

    /// The header as it is now.
    pub(crate) fn header(&self) -> Result<Header, SourceError> {
        if let Some(rest) = self.rest.get() {
            return Ok((*rest.header).clone());
        }
        let mut bytes = vec![0u8; HEADER_BYTES_MAX];
        let there = self.file.read_at(&mut bytes, 0)?;
        Header::parse(bytes.get(..there).unwrap_or(&[]))
            .map_err(|reason| SourceError::Format { path: self.file.path().to_owned(), reason })
    }

    /// The readable part of a section: never above what is backed by storage, never behind the end of the file.
    pub(crate) fn extent(&self, header: &Header, kind: impl Into<u16>) -> Result<Extent, SourceError> {
        let kind = kind.into();
        if let Some(rest) = self.rest.get() {
            let section = rest.header.section(kind);
            return section.map_or_else(|| Ok(Extent::default()), |section| self.extent_of(header, section, rest.end));
        }
        let Some(place) = header.row_at(kind) else { return Ok(Extent::default()) };
        let mut bytes = [0u8; 40];
        let bytes = bytes.get_mut(..row::bytes(header.codec.word)).unwrap_or(&mut []);
        self.file.read_at(bytes, place as u64)?;
        self.extent_of(header, &SectionRow::read(header.codec, bytes), None)
    }

    /// The same, of a section whose row says this, in a file that ends at `end`, if that is known.
    fn extent_of(&self, header: &Header, section: &SectionRow, end: Option<u64>) -> Result<Extent, SourceError> {
        if section.element_bytes == 0 || section.offset < header.bytes() as u64 {
            if section.used > 0 {
                locked(&self.damage).header = true;
            }
            return Ok(Extent::default());
        }
        let element_bytes = u64::from(section.element_bytes);
        let end = end.map_or_else(|| self.file.end_from(section.offset), Ok)?;
        let there = end.saturating_sub(section.offset) / element_bytes;
        let wanted = section.used.min(section.backed).min(section.capacity);
        if wanted > there {
            let mut damage = locked(&self.damage);
            damage.cut_at = Some(end);
        }
        Ok(Extent {
            offset: section.offset,
            element_bytes: usize::from(section.element_bytes),
            count: wanted.min(there),
        })
    }

    /// What the file misses of the sections that its header tells of. The header has just been read.
    pub(crate) fn check_length(&self, header: &Header) -> Result<(), SourceError> {
        let mut missing = 0u64;
        let end = self.end()?;
        for section in header.sections() {
            let extent = self.extent_of(header, section, end)?;
            if extent.element_bytes != 0 {
                let there = section.used.min(section.backed).min(section.capacity);
                missing = there.saturating_sub(extent.count).saturating_add(missing);
            }
        }
        locked(&self.damage).elements_missing = missing;
        Ok(())
    }

    /// Reads whole elements from `first` on; returns how many.
    pub(crate) fn read(&self, extent: &Extent, first: u64, bytes: &mut [u8]) -> Result<u64, SourceError> {
        let room = (bytes.len() / extent.element_bytes.max(1)) as u64;
        let count = extent.count.saturating_sub(first).min(room);
        let length = count as usize * extent.element_bytes;
        let Some(at) = first.checked_mul(extent.element_bytes as u64).and_then(|at| at.checked_add(extent.offset))
        else {
            return Ok(0);
        };
        let there = self.file.read_at(bytes.get_mut(..length).unwrap_or(&mut []), at)?;
        Ok((there / extent.element_bytes.max(1)) as u64)
    }

    /// One element, from the cache if `cached`; `None` if it is not there.
    pub(crate) fn element(
        &self,
        header: &Header,
        kind: SectionKind,
        index: u64,
        out: &mut [u8],
        cached: bool,
    ) -> Result<bool, SourceError> {
        let Some(section) = header.section(kind).filter(|section| section.element_bytes > 0) else { return Ok(false) };
        let element_bytes = u64::from(section.element_bytes);
        let per_block = (BLOCK_BYTES / element_bytes).max(1);
        let key = (kind as u16, index / per_block);
        let in_block = (index % per_block * element_bytes) as usize;
        let found = if cached { locked(&self.blocks).get(key) } else { None };
        let block = match found {
            Some(block) if block.len() > in_block => block,
            _ => {
                let extent = self.extent(header, kind)?;
                let first = key.1 * per_block;
                if index >= extent.count {
                    return Ok(false);
                }
                let mut bytes = vec![0u8; (per_block.min(extent.count - first) * element_bytes) as usize];
                let there = self.read(&extent, first, &mut bytes)?;
                bytes.truncate((there * element_bytes) as usize);
                let block: Arc<[u8]> = bytes.into();
                let mut blocks = locked(&self.blocks);
                blocks.forget(key);
                blocks.put(key, Arc::clone(&block));
                block
            }
        };
        let Some(element) = block.get(in_block..in_block + element_bytes as usize) else { return Ok(false) };
        let shared = out.len().min(element.len());
        if let (Some(out), Some(element)) = (out.get_mut(..shared), element.get(..shared)) {
            out.copy_from_slice(element);
        }
        Ok(true)
    }
}
