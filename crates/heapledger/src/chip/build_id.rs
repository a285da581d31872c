//! Which build this is, as the linker says it in a note.
//!
//! # Safety
//! A room with `unsafe`: it reads what lies between two symbols of the linker script.

/// The build id that the linker gave this firmware; empty if it gave none. The linker is told `--build-id`, and its script says where the
/// note is to lie:
///
/// ```text
/// .note.gnu.build-id : {
///   heapledger_build_id = .; KEEP(*(.note.gnu.build-id)) heapledger_build_id_end = .;
/// } > FLASH
/// ```
#[cfg(target_os = "none")]
pub fn linked_build_id() -> &'static [u8] {
    unsafe extern "C" {
        #[link_name = "heapledger_build_id"]
        static BEGIN: u8;
        #[link_name = "heapledger_build_id_end"]
        static END: u8;
    }
    let (begin, end) = (&raw const BEGIN, &raw const END);
    // SAFETY: the linker script says that the note lies from the one to the other, and nothing changes it.
    build_id_in_note(unsafe { core::slice::from_raw_parts(begin, end.addr().saturating_sub(begin.addr())) })
}

/// The build id in an ELF note of that kind (`.note.gnu.build-id`), for firmware that finds the note otherwise; empty if it is none.
pub fn build_id_in_note(note: &[u8]) -> &[u8] {
    const GNU_BUILD_ID: u32 = 3;
    let number = |at: usize| {
        let bytes: [u8; 4] = note.get(at..at.wrapping_add(4))?.try_into().ok()?;
        Some(u32::from_ne_bytes(bytes))
    };
    // Bytes of the name, and of what stands behind it.
    let (Some(4), Some(bytes), Some(GNU_BUILD_ID)) = (number(0), number(4), number(8)) else { return &[] };
    if note.get(12..16) != Some(b"GNU\0") {
        return &[];
    }
    note.get(16..16usize.saturating_add(bytes as usize)).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::build_id_in_note;

    #[test]
    fn notes() {
        let mut note = [4u32, 8, 3].map(u32::to_ne_bytes).concat();
        note.extend(b"GNU\0\x01\x02\x03\x04\x05\x06\x07\x08");
        assert_eq!(build_id_in_note(&note), [1, 2, 3, 4, 5, 6, 7, 8]);
        for length in 0..note.len() {
            assert!(build_id_in_note(&note[..length]).is_empty(), "cut to {length}");
        }
        for at in (0..16).filter(|at| *at != 4) {
            let mut other = note.clone();
            other[at] ^= 0x81;
            assert!(build_id_in_note(&other).is_empty(), "with another byte {at}");
        }
    }
}
