//! What stands in a module's dynamic section.

use core::ffi::{CStr, c_char};

/// Bytes of a symbol.
pub(super) const SYMBOL_BYTES: usize = 24;
/// Bytes of a relocation.
const RELOCATION_BYTES: usize = 24;
/// More than any module has; a table that is damaged ends there.
const RELOCATIONS_MAX: usize = 1 << 22;

/// The value of an entry.
pub(super) fn find_in_dynamic(first: *const [usize; 2], tag: usize) -> Option<usize> {
    dynamic_entries(first).find(|entry| entry[0] == tag).map(|entry| entry[1])
}

/// Its entries, tag and value; none if there is no section.
pub(super) fn dynamic_entries(first: *const [usize; 2]) -> impl Iterator<Item = [usize; 2]> {
    let mut at = first;
    core::iter::from_fn(move || {
        // SAFETY: the dynamic section ends with an entry whose tag is 0.
        let entry = (!at.is_null()).then(|| unsafe { *at }).filter(|entry| entry[0] != 0)?;
        at = at.wrapping_add(1);
        Some(entry)
    })
}

/// Tells the name of each symbol of others that a table of relocations mentions. The table has so many bytes; it, the symbols and their
/// names are a loaded module's own.
pub(super) fn each_import_in(
    (table, bytes): (usize, usize),
    symbols: usize,
    strings: usize,
    tell: &mut dyn FnMut(&[u8]),
) {
    for index in 0..(bytes / RELOCATION_BYTES).min(RELOCATIONS_MAX) {
        let at = table.wrapping_add(index.wrapping_mul(RELOCATION_BYTES)).wrapping_add(8);
        // SAFETY: the module's own table, as long as it says; the loader has read it, too.
        let symbol = (unsafe { *(at as *const u64) } >> 32) as usize;
        if symbol == 0 {
            continue;
        }
        let at = symbols.wrapping_add(symbol.wrapping_mul(SYMBOL_BYTES));
        // SAFETY: the number comes from a relocation of the module, so the symbol is inside its table.
        let (name_at, section) = unsafe { (*(at as *const u32), *(at.wrapping_add(6) as *const u16)) };
        if section == 0 {
            // SAFETY: a name offset of the module points to a string in its string table.
            let name = unsafe { CStr::from_ptr(strings.wrapping_add(name_at as usize) as *const c_char) };
            tell(name.to_bytes());
        }
    }
}

/// Looks a name up in the older hash table of System V.
pub(super) fn hash_lookup<S>(table: usize, name: &[u8], consider: &mut dyn FnMut(usize) -> Option<S>) -> Option<S> {
    let hash = name.iter().fold(0u32, |hash, byte| {
        let shifted = (hash << 4).wrapping_add(u32::from(*byte));
        let high = shifted & 0xf000_0000;
        (shifted ^ high >> 24) & !high
    });
    // SAFETY: the table's own header says how long its parts are; every index is taken modulo them or from a chain.
    unsafe {
        let word = |index: usize| *(table.wrapping_add(index.wrapping_mul(4)) as *const u32);
        let buckets = word(0);
        let bucket = hash.checked_rem(buckets)? as usize;
        let mut index = word(bucket.wrapping_add(2));
        while index != 0 {
            if let Some(symbol) = consider(index as usize) {
                return Some(symbol);
            }
            index = word((buckets as usize).wrapping_add(2).wrapping_add(index as usize));
        }
    }
    None
}
