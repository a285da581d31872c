//! What a call that gives a block back says of it: its size, its alignment, or nothing.
#![forbid(unsafe_code)]

use crate::frame::Caller;
use crate::guard;
use crate::hooked::hooked_at;
use crate::others;
use heapledger_format::Kind;
use heapledger_process::families::GivenBack;
use heapledger_process::layouts::{SaidLayout, Says};

/// What a function that frees says of the block.
#[inline(always)]
pub(crate) fn given_back(by: Kind, frame: &Caller) -> GivenBack {
    let (size, alignment) = match by {
        Kind::FREE_SIZED | Kind::DELETE_SIZED | Kind::DELETE_ARRAY_SIZED => (Some(1), None),
        Kind::DELETE_SIZED_ALIGN | Kind::DELETE_ARRAY_SIZED_ALIGN => (Some(1), Some(2)),
        Kind::FREE_ALIGNED_SIZED => (Some(2), Some(1)),
        Kind::DELETE_ALIGN | Kind::DELETE_ARRAY_ALIGN => (None, Some(1)),
        Kind::DELETE_ALIGN_NOTHROW | Kind::DELETE_ARRAY_ALIGN_NOTHROW => (None, Some(1)),
        _ => (None, None),
    };
    let said = |index: usize| crate::calls::argument(frame, index);
    // An alignment of none is what every block has.
    let alignment = alignment.map_or(0, said);
    GivenBack {
        by,
        size: size.map(said),
        alignment,
        asked_alignment: if alignment == 0 { 0 } else { guard::alignment(said(0)) },
        operators_are_shared: others::share_operators,
        all_call_us: others::all_call_us,
        is_glibc: others::is_glibc,
        is_no_block: |_| false,
    }
}

/// What `free` says of the block: nothing. Made when somebody asks, and until then in nobody's way.
#[derive(Clone, Copy)]
pub(crate) struct SaysNothing<const HOOK: usize>;

impl<const HOOK: usize> Says for SaysNothing<HOOK> {
    #[inline(always)]
    fn layout(&self) -> Option<SaidLayout> {
        None
    }

    #[inline(always)]
    fn given_back(&self) -> Option<GivenBack> {
        Some(nothing_said(const { hooked_at(HOOK).kind }))
    }
}

/// What functions say that resize a block: nothing of what it was. Made likewise, and until then a byte on the program's stack.
#[derive(Clone, Copy)]
pub(crate) struct SaysNothingOfOld(pub(crate) Kind);

impl Says for SaysNothingOfOld {
    #[inline(always)]
    fn layout(&self) -> Option<SaidLayout> {
        None
    }

    #[inline(always)]
    fn given_back(&self) -> Option<GivenBack> {
        Some(nothing_said(self.0))
    }
}

#[inline(always)]
fn nothing_said(by: Kind) -> GivenBack {
    GivenBack {
        by,
        size: None,
        alignment: 0,
        asked_alignment: 0,
        operators_are_shared: others::share_operators,
        all_call_us: others::all_call_us,
        is_glibc: others::is_glibc,
        is_no_block: |_| false,
    }
}
