//! Stepping along saved frame pointers, believing nothing.

use crate::Environment;

/// A frame reached over the frame-pointer chain.
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
    if pc != 0 && !(CODE_ADDRESSES.contains(&pc) && environment.may_be_code(pc)) {
        return None;
    }
    Some(ChainFrame { pc, sp: caller_sp, bp: caller_bp })
}
