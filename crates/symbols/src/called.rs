//! Which function of another module a call is of, by the code of the call itself: a library without names of its inner functions
//! does not tell, where the function that was called has passed on to one of these and left no frame.

use std::ops::Range;

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader, Sym};

use crate::elf::{Image, until_nul};

/// Relocations looked at for one name. The largest programs have some hundred thousand.
const RELOCATIONS_MAX: usize = 4 << 20;
/// Bytes of a stub looked at.
const STUB_BYTES: u64 = 16;
/// Marks where code may be jumped to.
const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
/// In front of a jump: no bounds are forgotten.
const BND: &[u8] = &[0xf2];

type Header = FileHeader64<Endianness>;

/// The name of the function that the call before this return address is of, if it goes out of the module through a slot that the
/// loader fills: `call stub`, or `call *slot(%rip)`. On x86-64 only.
pub(crate) fn name(image: &Image, return_address: u64) -> Option<Vec<u8>> {
    if image.machine != elf::EM_X86_64.0 || !image.is_64 || !image.little_endian {
        return None;
    }
    let file = File::of(image)?;
    file.name_of(file.slot_of_call(return_address)?)
}

struct File<'a> {
    data: &'a [u8],
    header: &'a Header,
    endian: Endianness,
}

impl<'a> File<'a> {
    fn of(image: &'a Image) -> Option<File<'a>> {
        let data: &[u8] = &image.mapping;
        let header = Header::parse(data).ok()?;
        Some(File { data, header, endian: header.endian().ok()? })
    }

    fn slot_of_call(&self, return_address: u64) -> Option<u64> {
        let before = self.bytes(return_address.checked_sub(6)?..return_address)?;
        if let Some(distance) = before.strip_prefix(&[0xff, 0x15]) {
            return relative(return_address, distance);
        }
        let stub = relative(return_address, before.get(1..)?.strip_prefix(&[0xe8])?)?;
        let code = self.bytes(stub..stub.checked_add(STUB_BYTES)?)?;
        let jump = code.strip_prefix(ENDBR64).unwrap_or(code);
        let jump = jump.strip_prefix(BND).unwrap_or(jump);
        let distance = jump.strip_prefix(&[0xff, 0x25])?.get(..4)?;
        let after = code.len().checked_sub(jump.len())?.checked_add(6)?;
        relative(stub.checked_add(u64::try_from(after).ok()?)?, distance)
    }

    /// The symbol by which the loader fills the slot.
    fn name_of(&self, slot: u64) -> Option<Vec<u8>> {
        let sections = self.header.sections(self.endian, self.data).ok()?;
        for section in sections.iter() {
            let Ok(Some((entries, link))) = section.rela(self.endian, self.data) else { continue };
            let found = entries.iter().take(RELOCATIONS_MAX).find(|entry| entry.r_offset(self.endian) == slot);
            let Some(entry) = found else { continue };
            let symbols = sections.symbol_table_by_index(self.endian, self.data, link).ok()?;
            let index = object::SymbolIndex(usize::try_from(Rela::r_sym(entry, self.endian, false)).ok()?);
            let name = symbols.symbol(index).ok()?.name(self.endian, symbols.strings()).ok()?;
            return Some(until_nul(name).to_vec()).filter(|name| !name.is_empty());
        }
        None
    }

    /// What a segment has at these addresses.
    fn bytes(&self, addresses: Range<u64>) -> Option<&'a [u8]> {
        let segments = self.header.program_headers(self.endian, self.data).ok()?;
        let size = addresses.end.checked_sub(addresses.start)?;
        segments
            .iter()
            .filter(|segment| segment.p_type(self.endian) == elf::PT_LOAD)
            .find_map(|segment| segment.data_range(self.endian, self.data, addresses.start, size).ok().flatten())
    }
}

/// Where a distance of four bytes leads to from here.
fn relative(from: u64, distance: &[u8]) -> Option<u64> {
    let distance: [u8; 4] = distance.try_into().ok()?;
    from.checked_add_signed(i64::from(i32::from_le_bytes(distance)))
}
