//! The guard of a chip: what its ledger says of it, and the memory that was saved with the ledger.

use heapledger_format::SectionKind;
use heapledger_format::chip_guard as guard;

use crate::coredump::{Elf, MemoryImage};
use crate::file::LedgerFile;
use crate::program::ProgramMemory;
use crate::{Ledger, SourceError, esp, hex};

/// What the guard of a chip's blocks says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChipGuard {
    /// 1 light, 2 full.
    pub level: u64,
    /// Where the ledger lay in the chip's memory.
    pub ledger: u64,
    /// Its heaps.
    pub heaps: Vec<ChipHeap>,
}

/// A heap whose blocks are guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChipHeap {
    /// Its first address.
    pub first: u64,
    /// Bytes of it.
    pub bytes: u64,
    /// Where a bit for each eight of them lies: a dressed block begins there.
    pub begins: u64,
    /// The same: they are free and filled. 0 if freed memory is not filled.
    pub filled: u64,
}

impl Ledger {
    /// What the guard of a chip says of itself; `None` if its blocks are not guarded.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn chip_guard(&self) -> Result<Option<ChipGuard>, SourceError> {
        let codec = self.header().codec;
        let word = codec.word.bytes();
        let mut rows: Vec<[u64; guard::ROW_WORDS]> = Vec::new();
        let bytes = self.element_bytes(SectionKind::Guard);
        if bytes < guard::ROW_WORDS * word {
            return Ok(None);
        }
        self.for_each_chunk(SectionKind::Guard, &mut |_, chunk| {
            let row = |row: &[u8]| std::array::from_fn(|nth| codec.word(row, nth * word));
            rows.extend(chunk.chunks_exact(bytes).map(row));
            Ok(())
        })?;
        let Some((head, heaps)) = rows.split_first() else { return Ok(None) };
        let heap = |row: &[u64; guard::ROW_WORDS]| ChipHeap {
            first: row[guard::FIRST],
            bytes: row[guard::BYTES],
            begins: row[guard::BEGINS],
            filled: row[guard::FILLED],
        };
        let count = usize::try_from(head[guard::HEAPS]).unwrap_or(0);
        let heaps: Vec<ChipHeap> = heaps.iter().take(count).map(heap).collect();
        let (level, ledger) = (head[guard::LEVEL], head[guard::LEDGER]);
        Ok((!heaps.is_empty()).then_some(ChipGuard { level, ledger, heaps }))
    }

    /// The memory of a chip, of which this ledger is a part: an image of it, or a core dump. Where nothing says at which address an image begins, the guard does, which knows where the
    /// ledger lay.
    ///
    /// # Errors
    /// If it is gone, or may not be read.
    pub fn chip_memory(&self, guard: &ChipGuard) -> Result<ProgramMemory, SourceError> {
        let image = self.found().map_or_else(|| self.path().to_owned(), |found| found.image.clone());
        let file = LedgerFile::open(&image, &image)?;
        let mut begin = [0u8; 1024];
        let there = file.read_at(&mut begin, 0)?;
        match MemoryImage::open(&file)? {
            Elf::Core(core) => Ok(ProgramMemory::of_image(file.within(core.parts_from(0)))),
            Elf::Other => Err(SourceError::NoMemory(image)),
            Elf::None if hex::is_hex(begin.get(..there).unwrap_or_default()) => {
                let (memory, image) = hex::decode(&file)?;
                Ok(ProgramMemory::of_image(memory.within(image.parts_from(0))))
            }
            Elf::None if self.found().is_some_and(|found| found.is_core) => {
                let (memory, image) = esp::open(&file, begin.get(..there).unwrap_or_default())?;
                Ok(ProgramMemory::of_image(memory.within(image.parts_from(0))))
            }
            Elf::None => {
                let bytes = file.metadata()?.len();
                let base = guard.ledger.checked_sub(self.file().first_place());
                let base = base.filter(|base| base.checked_add(bytes).is_some());
                let base = base.ok_or(SourceError::NoMemory(image))?;
                Ok(ProgramMemory::of_image(file.within(MemoryImage::plain(bytes, Some(base)).parts_from(0))))
            }
        }
    }
}
