//! Finding the frame description of a code address in `.eh_frame_hdr` and `.eh_frame`.

use crate::bytes::{Cursor, encoding};
use crate::program;
use crate::row::Row;

/// The unwind table of one module, where the program has it mapped.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    /// The bytes of the memory segment that holds `.eh_frame_hdr` and `.eh_frame`. Linkers put
    /// both into the same one.
    pub segment: &'a [u8],
    /// The address of the segment's first byte.
    pub segment_address: u64,
    /// The address of `.eh_frame_hdr` (program header `PT_GNU_EH_FRAME`).
    pub header_address: u64,
}

/// Why a table gave no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableError {
    /// No frame description covers the address: hand-written code without call-frame information.
    NotCovered,
    /// There is a description, but it is broken or uses something that is refused here.
    Refused,
}

/// The part of a frame description that its program needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Description<'a> {
    /// The first address it covers.
    pub(crate) start: u64,
    /// The number of addresses it covers.
    pub(crate) length: u64,
    pub(crate) code_factor: u64,
    pub(crate) data_factor: i64,
    /// How `DW_CFA_set_loc` stores addresses.
    pub(crate) pointer_encoding: u8,
    /// The frame was set up by the kernel for a signal handler.
    pub(crate) signal: bool,
    /// The program that all descriptions with the same common part share.
    pub(crate) common_program: Cursor<'a>,
    pub(crate) program: Cursor<'a>,
}

impl Description<'_> {
    fn covers(&self, pc: u64) -> bool {
        pc.wrapping_sub(self.start) < self.length
    }
}

/// The common part of descriptions (CIE).
#[derive(Clone, Copy)]
struct Common<'a> {
    code_factor: u64,
    data_factor: i64,
    pointer_encoding: u8,
    has_augmentation_length: bool,
    signal: bool,
    program: Cursor<'a>,
}

/// One record of `.eh_frame`, not yet interpreted.
struct Record<'a> {
    /// Behind the identifying field.
    body: Cursor<'a>,
    /// Where the common part lies; `None` if the record is itself one.
    common: Option<usize>,
    /// Where the next record begins.
    next: usize,
}

/// The only return-address column in use on x86-64.
const RETURN_ADDRESS_COLUMN: u64 = 16;

/// The encoding that every linker uses for the sorted table: 32-bit offsets from the header.
const SORTED_TABLE_ENCODING: u8 = 0x3b;

impl<'a> Table<'a> {
    /// The rules that hold while the instruction at `pc` executes.
    pub fn row(&self, pc: u64) -> Result<Row, TableError> {
        let description = self.find(pc)?;
        program::run(&description, self.segment_address, pc).ok_or(TableError::Refused)
    }

    /// The same as [`Table::row`] without the sorted table: slow, for tests and strange linkers.
    pub fn row_by_linear_search(&self, pc: u64) -> Result<Row, TableError> {
        let header = self.header().ok_or(TableError::Refused)?;
        let description = self.find_linearly(header.frames, pc)?;
        program::run(&description, self.segment_address, pc).ok_or(TableError::Refused)
    }

    /// Whether a described function begins exactly at `pc`.
    ///
    /// As a return address, with no code in front of it, that is the mark of a stack made by
    /// hand: no call was there, the frame is the bottom of a coroutine (`makecontext` does it so).
    pub fn begins_function(&self, pc: u64) -> bool {
        self.find(pc).is_ok_and(|description| description.start == pc)
    }

    /// The addresses of the described function, or part of one, to which the instruction at `pc` belongs.
    pub fn function(&self, pc: u64) -> Option<core::ops::Range<u64>> {
        let description = self.find(pc).ok()?;
        Some(description.start..description.start.wrapping_add(description.length))
    }

    fn find(&self, pc: u64) -> Result<Description<'a>, TableError> {
        let header = self.header().ok_or(TableError::Refused)?;
        match header.sorted {
            Some(sorted) => {
                let address = self.search(sorted, pc).ok_or(TableError::NotCovered)?;
                let position = self.position(address).ok_or(TableError::Refused)?;
                let record = self.record(position).flatten().ok_or(TableError::Refused)?;
                let description = self.description(&record).ok_or(TableError::Refused)?;
                if description.covers(pc) { Ok(description) } else { Err(TableError::NotCovered) }
            }
            None => self.find_linearly(header.frames, pc),
        }
    }

    fn position(&self, address: u64) -> Option<usize> {
        let position = usize::try_from(address.checked_sub(self.segment_address)?).ok()?;
        (position < self.segment.len()).then_some(position)
    }

    fn header(&self) -> Option<Header<'a>> {
        let start = self.position(self.header_address)?;
        let mut cursor = Cursor::new(self.segment, start, self.segment.len())?;
        if cursor.u8()? != 1 {
            return None;
        }
        let frames_encoding = cursor.u8()?;
        let count_encoding = cursor.u8()?;
        let table_encoding = cursor.u8()?;
        let base = Some(self.header_address);
        let frames = cursor.pointer(frames_encoding, self.segment_address, base)?;
        let mut sorted = None;
        if table_encoding == SORTED_TABLE_ENCODING && count_encoding != encoding::OMITTED {
            let count = cursor.pointer(count_encoding, self.segment_address, base)?;
            let size = usize::try_from(count).ok()?.checked_mul(SORTED_ENTRY_SIZE)?;
            // An empty table says nothing about what `.eh_frame` holds.
            if size > 0 {
                sorted = Some(cursor.take(size)?);
            }
        }
        Some(Header { frames, sorted })
    }

    /// The address of the last description that starts at or before `pc`.
    fn search(&self, sorted: &[u8], pc: u64) -> Option<u64> {
        let (entries, _) = sorted.as_chunks::<SORTED_ENTRY_SIZE>();
        let wanted = pc.wrapping_sub(self.header_address).cast_signed();
        let starts_at_or_before = |entry: &[u8; SORTED_ENTRY_SIZE]| {
            let [a, b, c, d, ..] = *entry;
            i64::from(i32::from_le_bytes([a, b, c, d])) <= wanted
        };
        let behind = entries.partition_point(starts_at_or_before);
        let [.., a, b, c, d] = *entries.get(behind.checked_sub(1)?)?;
        let offset = i64::from(i32::from_le_bytes([a, b, c, d]));
        Some(self.header_address.wrapping_add_signed(offset))
    }

    fn find_linearly(&self, frames: u64, pc: u64) -> Result<Description<'a>, TableError> {
        let mut position = self.position(frames).ok_or(TableError::Refused)?;
        loop {
            // Behind the last record there may be no terminator but the next section: what does
            // not parse is taken for the end.
            let Some(Some(record)) = self.record(position) else {
                return Err(TableError::NotCovered);
            };
            if record.common.is_some() {
                let description = self.description(&record).ok_or(TableError::Refused)?;
                if description.covers(pc) {
                    return Ok(description);
                }
            }
            position = record.next;
        }
    }

    /// The record at `position`: `None` if broken, `Some(None)` for the terminator.
    fn record(&self, position: usize) -> Option<Option<Record<'a>>> {
        let mut cursor = Cursor::new(self.segment, position, self.segment.len())?;
        let mut length = u64::from(cursor.u32()?);
        if length == 0 {
            return Some(None);
        }
        if length == 0xffff_ffff {
            length = cursor.u64()?;
        }
        let id_position = cursor.position();
        let next = id_position.checked_add(usize::try_from(length).ok()?)?;
        let mut body = Cursor::new(self.segment, id_position, next)?;
        // In `.eh_frame` this field has four bytes even if the length has eight.
        let distance = usize::try_from(body.u32()?).ok()?;
        let common = match distance {
            0 => None,
            _ => Some(id_position.checked_sub(distance)?),
        };
        Some(Some(Record { body, common, next }))
    }

    fn description(&self, record: &Record<'a>) -> Option<Description<'a>> {
        let common = self.common(&self.record(record.common?)??)?;
        let mut body = record.body;
        let start = body.pointer(common.pointer_encoding, self.segment_address, None)?;
        let length = body.number(common.pointer_encoding)?;
        if common.has_augmentation_length {
            let size = usize::try_from(body.uleb()?).ok()?;
            body.take(size)?;
        }
        Some(Description {
            start,
            length,
            code_factor: common.code_factor,
            data_factor: common.data_factor,
            pointer_encoding: common.pointer_encoding,
            signal: common.signal,
            common_program: common.program,
            program: body,
        })
    }

    fn common(&self, record: &Record<'a>) -> Option<Common<'a>> {
        if record.common.is_some() {
            return None;
        }
        let mut body = record.body;
        let version = body.u8()?;
        let augmentation = body.string()?;
        match version {
            1 | 3 => {}
            4 => {
                // Address size and segment selector size.
                if body.u8()? != 8 || body.u8()? != 0 {
                    return None;
                }
            }
            _ => return None,
        }
        let code_factor = body.uleb()?;
        let data_factor = body.sleb()?;
        let column = if version == 1 { u64::from(body.u8()?) } else { body.uleb()? };
        if column != RETURN_ADDRESS_COLUMN {
            return None;
        }
        let mut common = Common {
            code_factor,
            data_factor,
            pointer_encoding: encoding::ABSOLUTE,
            has_augmentation_length: false,
            signal: false,
            program: body,
        };
        let mut letters = augmentation.iter();
        match letters.next() {
            None => return Some(common),
            Some(b'z') => {}
            Some(_) => return None,
        }
        common.has_augmentation_length = true;
        let size = usize::try_from(body.uleb()?).ok()?;
        let mut data = body;
        body.take(size)?;
        for letter in letters {
            match letter {
                b'R' => common.pointer_encoding = data.u8()?,
                b'L' => {
                    data.u8()?;
                }
                b'P' => {
                    let encoding = data.u8()?;
                    data.skip_pointer(encoding, self.segment_address)?;
                }
                b'S' => common.signal = true,
                // Marks of other architectures (pointer authentication, memory tagging).
                b'B' | b'G' => {}
                // Its data could precede that of `R`, and guessing would misread addresses.
                _ => return None,
            }
        }
        common.program = body;
        Some(common)
    }
}

const SORTED_ENTRY_SIZE: usize = 8;

struct Header<'a> {
    /// The address of `.eh_frame`.
    frames: u64,
    /// The sorted table, if there is one in the usual encoding.
    sorted: Option<&'a [u8]>,
}
