//! Where no table helps: stepping along saved frame pointers, believing nothing, or as the code itself is about to.

use crate::Environment;

/// A frame reached without a table.
pub(crate) struct ChainFrame {
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    pub(crate) bp: u64,
}

/// No code lies in the first page, and none of a program in the upper half.
const CODE_ADDRESSES: core::ops::Range<u64> = 0x1000..1 << 47;

/// The caller's frame, if `bp` can be a frame pointer: aligned, on the stack above `sp`, with
/// what can be a return address over it (or zero, which marks the outermost frame).
pub(crate) fn step<E: Environment>(environment: &E, sp: u64, bp: u64) -> Option<ChainFrame> {
    if bp & 7 != 0 || bp < sp {
        return None;
    }
    let caller_sp = bp.checked_add(16)?;
    let caller_bp = environment.read_word(bp)?;
    let pc = environment.read_word(bp.wrapping_add(8))?;
    if pc != 0 && !may_be_code(environment, pc) {
        return None;
    }
    Some(ChainFrame { pc, sp: caller_sp, bp: caller_bp })
}

fn may_be_code<E: Environment>(environment: &E, pc: u64) -> bool {
    CODE_ADDRESSES.contains(&pc) && environment.may_be_code(pc)
}

/// The caller's frame, if the code that the call returns to does nothing but take its frame off the stack and return.
///
/// Such code has no frame pointer, so the chain would pass its caller over. Python's trampolines (`-X perf`) are of this kind, one
/// for each of its functions.
pub(crate) fn step_by_code<E: Environment>(environment: &E, pc: u64, sp: u64, bp: u64) -> Option<ChainFrame> {
    let at = returns_from(environment, pc, sp)?;
    let caller = environment.read_word(at).filter(|caller| may_be_code(environment, *caller))?;
    Some(ChainFrame { pc: caller, sp: at.checked_add(8)?, bp })
}

/// Where such code takes its return address from.
pub(crate) fn returns_from<E: Environment>(environment: &E, pc: u64, sp: u64) -> Option<u64> {
    let at = sp.checked_add(environment.read_code(pc).and_then(bytes_until_return)?)?;
    (at & 7 == 0).then_some(at)
}

/// Whether [`step_by_code`] can be of use.
pub(crate) fn only_returns<E: Environment>(environment: &E, pc: u64) -> bool {
    environment.read_code(pc).is_some_and(|code| bytes_until_return(code).is_some())
}

/// By how much `rsp` is raised before the return address is taken from there, if nothing else is done: `add $bytes, %rsp; ret`.
fn bytes_until_return(code: [u8; 8]) -> Option<u64> {
    const RETURN: u8 = 0xc3;
    match code {
        [RETURN, ..] => Some(0),
        [0x48, 0x83, 0xc4, bytes, RETURN, ..] if bytes < 0x80 => Some(u64::from(bytes)),
        [0x48, 0x81, 0xc4, a, b, c, d, RETURN] if d < 0x80 => Some(u64::from(u32::from_le_bytes([a, b, c, d]))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_only_returns_says_where_its_frame_ends() {
        assert_eq!(bytes_until_return([0xc3, 1, 2, 3, 4, 5, 6, 7]), Some(0));
        assert_eq!(bytes_until_return([0x48, 0x83, 0xc4, 0x08, 0xc3, 0x90, 0x90, 0x90]), Some(8), "Python's");
        assert_eq!(bytes_until_return([0x48, 0x81, 0xc4, 0x48, 0x01, 0, 0, 0xc3]), Some(0x148));
        // Downwards; another register; something in between.
        assert_eq!(bytes_until_return([0x48, 0x83, 0xc4, 0x88, 0xc3, 0x90, 0x90, 0x90]), None);
        assert_eq!(bytes_until_return([0x48, 0x81, 0xc4, 0, 0, 0, 0xff, 0xc3]), None);
        assert_eq!(bytes_until_return([0x48, 0x83, 0xc3, 0x08, 0xc3, 0x90, 0x90, 0x90]), None);
        assert_eq!(bytes_until_return([0x48, 0x83, 0xc4, 0x08, 0x5d, 0xc3, 0x90, 0x90]), None, "a frame pointer's");
    }
}
