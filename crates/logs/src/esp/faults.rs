//! What ESP-IDF's allocator prints of damage, of blocks given back wrongly, and of calls that gave no block.

use heapledger_format::errors::{
    Direction, ErrorEntry, ErrorKind, ErrorStack, FoundAt, FoundBy, StackTag, Whereabouts,
};
use heapledger_format::{Kind, Site};

use super::BlockBefore;
use super::words::{around, decimal, hex};

/// Behind the last byte of a block up to here damage is an overflow of that block.
const NEAR_BYTES: u64 = 256;

/// Something that was found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    kind: ErrorKind,
    /// 0: the text does not say where.
    pub(super) address: u64,
    /// What should have been there, and what was, and how many bytes that are.
    compared: Option<(u64, u64, u16)>,
    /// Bytes and capabilities that were asked for.
    asked: Option<(u64, u32)>,
    /// The text, as far as no other word has it.
    text: String,
}

impl Fault {
    fn new(kind: ErrorKind, address: u64, text: &str) -> Fault {
        Fault { kind, address, compared: None, asked: None, text: text.trim().to_owned() }
    }

    /// As an element of `errors`, with the name of what said it. `before` is the block in front of the address.
    pub(super) fn entry(&self, before: BlockBefore) -> (ErrorEntry, String) {
        let mut entry = ErrorEntry {
            kind: self.kind as u16,
            found_by: FoundBy::Log as u8,
            address: self.address,
            ..ErrorEntry::default()
        };
        if let Some((bytes, capabilities)) = self.asked {
            (entry.block_bytes, entry.capabilities) = (bytes, capabilities);
            entry.called = Kind::HEAP_CAPS_MALLOC.number();
            entry.found_at = FoundAt::Call as u8;
        }
        if let Some((expected, found, bytes)) = self.compared {
            entry.direction = Direction::Write as u8;
            entry.compared = bytes;
            entry.bytes = u64::from(bytes);
            (entry.expected, entry.found) = (expected.to_le_bytes(), found.to_le_bytes());
        }
        let is_damage = !ErrorKind::is_failed_call(self.kind as u16) && self.address != 0;
        if let Some((address, size, site)) = before.filter(|_| is_damage) {
            let end = address.saturating_add(size);
            if self.address.saturating_sub(end) < NEAR_BYTES || self.address < end {
                (entry.block, entry.block_bytes) = (address, size);
                entry.whereabouts = if self.address < end { Whereabouts::Block } else { Whereabouts::Heap } as u8;
                if site != Site::NONE {
                    let tag = StackTag::Allocation as u16;
                    entry.stacks[0] = ErrorStack { site, tag, ..ErrorStack::default() };
                }
            }
        }
        (entry, self.text.clone())
    }
}

/// What a line says, if it says any of this.
pub(super) fn fault(line: &str) -> Option<Fault> {
    around(line, "CORRUPT HEAP: ")
        .and_then(|(_, text)| corrupt(text))
        .or_else(|| failed(line))
        .or_else(|| given_back(line))
}

fn corrupt(text: &str) -> Option<Fault> {
    let damage = [
        ("Bad head at ", ErrorKind::BufferUnderflow),
        ("Bad tail at ", ErrorKind::BufferOverflow),
        ("Invalid data at ", ErrorKind::UseAfterFree),
    ];
    for (mark, kind) in damage {
        let Some((address, rest)) = text.strip_prefix(mark).and_then(hex) else { continue };
        let mut fault = Fault::new(kind, address, "");
        fault.compared = rest.strip_prefix(". Expected ").and_then(|rest| {
            let (expected, behind) = hex(rest)?;
            let digits = rest.len().checked_sub(behind.len())?.checked_sub(2)?;
            let (found, _) = hex(behind.strip_prefix(" got ")?)?;
            Some((expected, found, (digits.div_ceil(2) as u16).clamp(1, 8)))
        });
        return Some(fault);
    }
    if let Some((address, rest)) = text.strip_prefix("Size at ").and_then(hex) {
        let mut fault = Fault::new(ErrorKind::CorruptMetadata, address, "");
        fault.compared = around(rest, "expected <=").and_then(|(_, rest)| {
            let (most, rest) = hex(rest)?;
            let (found, _) = hex(rest.strip_prefix(" got ")?)?;
            Some((most, found, 4))
        });
        return Some(fault);
    }
    // `multi_heap.c:225 detected at 0x3ffbb71c`, and the sentences of before 4.3.
    let address = text.find("0x").and_then(|at| hex(text.get(at..)?)).map_or(0, |(address, _)| address);
    Some(Fault::new(ErrorKind::CorruptMetadata, address, text))
}

/// `Mem alloc fail. size 0x08000000 caps 0x00001000`, and what examples print from the callback.
fn failed(line: &str) -> Option<Fault> {
    let mut fault = Fault::new(ErrorKind::FailedAllocation, 0, "");
    if let Some((_, rest)) = around(line, "Mem alloc fail. size ") {
        let (size, rest) = hex(rest)?;
        let (capabilities, _) = hex(rest.strip_prefix(" caps ")?)?;
        fault.asked = Some((size, capabilities as u32));
        return Some(fault);
    }
    let (before, rest) = around(line, " was called but failed to allocate ")?;
    let (size, rest) = decimal(rest)?;
    let capabilities = around(rest, "with 0x").and_then(|(_, rest)| u32::from_str_radix(word(rest), 16).ok());
    fault.asked = Some((size, capabilities.unwrap_or(0)));
    fault.text = before.rsplit(' ').next().unwrap_or("").to_owned();
    Some(fault)
}

/// Hexadecimal digits that a text begins with.
fn word(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(text.len());
    text.get(..end).unwrap_or("")
}

/// Assertions of the allocator.
fn given_back(line: &str) -> Option<Fault> {
    let marks = [
        ("block already marked as free", ErrorKind::DoubleFree),
        ("free() target pointer is outside heap areas", ErrorKind::BadFree),
        ("realloc() pointer is outside heap areas", ErrorKind::BadRealloc),
        ("block must be free", ErrorKind::CorruptMetadata),
        ("free list cannot have a null entry", ErrorKind::CorruptMetadata),
        ("(block_size(block) >= size)", ErrorKind::CorruptMetadata),
    ];
    let (_, kind) = marks.into_iter().find(|(mark, _)| line.contains(mark))?;
    let (_, text) = around(line, "assert failed: ").unwrap_or(("", line));
    Some(Fault::new(kind, 0, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> (ErrorKind, u64, Option<(u64, u64, u16)>) {
        let fault = fault(line).unwrap_or_else(|| panic!("{line}"));
        (fault.kind, fault.address, fault.compared)
    }

    #[test]
    fn all_forms_of_damage_are_read() {
        let cases = [
            (
                "CORRUPT HEAP: Bad head at 0x3ffb1234. Expected 0xabba1234 got 0xabba1235",
                (ErrorKind::BufferUnderflow, 0x3ffb_1234, Some((0xabba_1234, 0xabba_1235, 4))),
            ),
            (
                "I (5) x: CORRUPT HEAP: Bad tail at 0x3ffe270a. Expected 0xbaad5678 got 0xbaac5678",
                (ErrorKind::BufferOverflow, 0x3ffe_270a, Some((0xbaad_5678, 0xbaac_5678, 4))),
            ),
            (
                "CORRUPT HEAP: Invalid data at 0x3ffe6320. Expected 0xfe got 0x01",
                (ErrorKind::UseAfterFree, 0x3ffe_6320, Some((0xfe, 1, 1))),
            ),
            (
                "CORRUPT HEAP: Size at 0x3ffb1238 expected <=0x00000034 got 0x00000064",
                (ErrorKind::CorruptMetadata, 0x3ffb_1238, Some((0x34, 0x64, 4))),
            ),
            ("CORRUPT HEAP: multi_heap.c:225 detected at 0x3ffbb71c", (ErrorKind::CorruptMetadata, 0x3ffb_b71c, None)),
            ("CORRUPT HEAP: Block 0x3ffb0010 points to itself", (ErrorKind::CorruptMetadata, 0x3ffb_0010, None)),
            (
                "CORRUPT HEAP: Block 0x3ffb0020 is before prev block 0x3ffb0030",
                (ErrorKind::CorruptMetadata, 0x3ffb_0020, None),
            ),
            (
                "CORRUPT HEAP: Block 0x3ffc0000 is outside heap (last valid block 0x3ffbfff0)",
                (ErrorKind::CorruptMetadata, 0x3ffc_0000, None),
            ),
            (
                "CORRUPT HEAP: Two adjacent free blocks found, 0x3ffb0040 and 0x3ffb0050",
                (ErrorKind::CorruptMetadata, 0x3ffb_0040, None),
            ),
            (
                "CORRUPT HEAP: Prev free block 0x3ffb0060 pointed to next free 0x3ffb0070 but this free block is 0x3ffb0080",
                (ErrorKind::CorruptMetadata, 0x3ffb_0060, None),
            ),
            ("CORRUPT HEAP: Expected 100 free bytes counted 96", (ErrorKind::CorruptMetadata, 0, None)),
            (
                "assert failed: block_locate_free heap_tlsf.c:441 (block_size(block) >= size)",
                (ErrorKind::CorruptMetadata, 0, None),
            ),
            (
                "assert failed: block_trim_free tlsf.c:514 (block_is_free(block) && \"block must be free\")",
                (ErrorKind::CorruptMetadata, 0, None),
            ),
            (
                "assert failed: heap_caps_realloc_base heap_caps.c:9 (heap != NULL && \"realloc() pointer is outside heap areas\")",
                (ErrorKind::BadRealloc, 0, None),
            ),
            (
                "assert failed: tlsf_free tlsf.c:1119 (!block_is_free(block) && \"block already marked as free\")",
                (ErrorKind::DoubleFree, 0, None),
            ),
            (
                "assert failed: heap_caps_free heap_caps.c:360 (heap != NULL && \"free() target pointer is outside heap areas\")",
                (ErrorKind::BadFree, 0, None),
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(read(line), expected, "{line}");
        }
        assert_eq!(
            fault("Mem alloc fail. size 0x08000000 caps 0x00001000").and_then(|fault| fault.asked),
            Some((0x800_0000, 0x1000))
        );
        let asked = fault("heap_caps_malloc was called but failed to allocate 100 bytes with 0x4 capabilities.");
        assert_eq!(asked.and_then(|fault| fault.asked), Some((100, 4)));
        assert_eq!(fault("nothing of the kind"), None);
    }

    #[test]
    fn damage_is_joined_to_the_block_before_it() {
        let tail = fault("CORRUPT HEAP: Bad tail at 0x3ffe270a. Expected 0xbaad5678 got 0xbaac5678").expect("damage");
        let (entry, _) = tail.entry(Some((0x3ffe_26f0, 26, Site(7))));
        assert_eq!((entry.block, entry.block_bytes, entry.stacks[0].site), (0x3ffe_26f0, 26, Site(7)));
        let (far, _) = tail.entry(Some((0x3ffe_0000, 26, Site(7))));
        assert_eq!((far.block, far.stacks[0].site), (0, Site::NONE), "no block is so near that it could be that one");
    }
}
