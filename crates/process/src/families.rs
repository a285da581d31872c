//! Blocks that are given back by a function of another family than gave them, or with another size: `malloc` and `delete`, `new` and
//! `delete[]`, `new` of 100 bytes and `delete` of 96.
//!
//! Who gave a block is in its record, so a call pays for a look at bits that it has loaded anyway. What looks wrong is looked at again:
//! a false report is worse than a missed one. `new` against `delete[]`, and sizes, are certain, since both calls came to us under their
//! names. Functions of C against operators of C++ need not be: a module with operators of its own that nobody else can call (a C++
//! runtime that was linked in, say) has its blocks from `malloc` and gives them to `free`, and a block may be made on one side and
//! ended on the other, which does no harm. (Which module calls is not seen from the return address: `delete` jumps to `free`, and who
//! ends an object jumps to `delete`.) So nothing is said in a process that may have such a module: see
//! [`GivenBack::operators_are_shared`].
#![forbid(unsafe_code)]

use crate::access::Access;
use crate::certain;
use crate::layouts::{SaidLayout, Says, WrongEnd};
use crate::look;
use crate::shared::Shared;
use crate::sites::Sites;
use core::sync::atomic::Ordering;
use heapledger_format::errors::{ErrorKind, FoundBy};
use heapledger_format::record::KIND_SHIFT;
use heapledger_format::section::pc;
use heapledger_format::{Entry, Kind, SectionKind, Site};
use heapledger_recorder::backend::{Backend as _, Number, Slot};
use heapledger_unwind::Registers;

/// A function of C or C++ that gives a block back, and what it says of it.
#[derive(Clone, Copy, Debug)]
pub struct GivenBack {
    /// The function.
    pub by: Kind,
    /// The block's bytes.
    pub size: Option<usize>,
    /// Its alignment; 0: nothing is said.
    pub alignment: usize,
    /// What the block was asked to be aligned to, 16 at least, if something is said and the guard knows it; else 0.
    pub asked_alignment: usize,
    /// Whether all modules of the process call the same operators of C++. Asked only where something looks wrong.
    pub operators_are_shared: fn() -> bool,
    /// Whether all modules of the process call the recorder if they want memory of the allocator behind it. Asked likewise.
    pub all_call_us: fn() -> bool,
    /// Whether that allocator is glibc's, and the only one that the function's blocks can come from.
    pub is_glibc: fn() -> bool,
    /// Whether it is certain of an address, whatever the ledger lacks, that no block begins there: blocks that are guarded say it
    /// themselves. Asked likewise.
    pub is_no_block: fn(usize) -> bool,
}

impl GivenBack {
    /// Whether another alignment is said than was asked for. What every block has anyway is one alignment.
    #[inline(always)]
    fn is_aligned_otherwise(&self) -> bool {
        const LEAST: usize = 16;
        self.asked_alignment != 0 && self.alignment.max(LEAST) != self.asked_alignment
    }
}

impl Says for GivenBack {
    #[inline(always)]
    fn layout(&self) -> Option<SaidLayout> {
        None
    }

    #[inline(always)]
    fn given_back(&self) -> Option<GivenBack> {
        Some(*self)
    }
}

/// Who belongs together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Family {
    C,
    New,
    NewArray,
}

/// The family of a function that gives blocks, and whether it is told an alignment; `None` for those that are not of C or C++.
const fn giver(kind: Kind) -> Option<(Family, bool)> {
    Some(match kind {
        Kind::MALLOC | Kind::CALLOC | Kind::REALLOC | Kind::REALLOCARRAY => (Family::C, false),
        Kind::ALIGNED_ALLOC | Kind::POSIX_MEMALIGN | Kind::MEMALIGN | Kind::VALLOC | Kind::PVALLOC => (Family::C, true),
        Kind::NEW | Kind::NEW_NOTHROW => (Family::New, false),
        Kind::NEW_ALIGN | Kind::NEW_ALIGN_NOTHROW => (Family::New, true),
        Kind::NEW_ARRAY | Kind::NEW_ARRAY_NOTHROW => (Family::NewArray, false),
        Kind::NEW_ARRAY_ALIGN | Kind::NEW_ARRAY_ALIGN_NOTHROW => (Family::NewArray, true),
        _ => return None,
    })
}

/// The family of a function that ends blocks, and whether it wants blocks with an alignment; `None`: it takes any.
const fn taker(kind: Kind) -> Option<(Family, Option<bool>)> {
    Some(match kind {
        Kind::FREE | Kind::CFREE | Kind::REALLOC | Kind::REALLOCARRAY => (Family::C, None),
        Kind::FREE_SIZED => (Family::C, Some(false)),
        Kind::FREE_ALIGNED_SIZED => (Family::C, Some(true)),
        Kind::DELETE | Kind::DELETE_NOTHROW | Kind::DELETE_SIZED => (Family::New, Some(false)),
        Kind::DELETE_ALIGN | Kind::DELETE_ALIGN_NOTHROW | Kind::DELETE_SIZED_ALIGN => (Family::New, Some(true)),
        Kind::DELETE_ARRAY | Kind::DELETE_ARRAY_NOTHROW | Kind::DELETE_ARRAY_SIZED => (Family::NewArray, Some(false)),
        Kind::DELETE_ARRAY_ALIGN | Kind::DELETE_ARRAY_ALIGN_NOTHROW | Kind::DELETE_ARRAY_SIZED_ALIGN => {
            (Family::NewArray, Some(true))
        }
        _ => return None,
    })
}

/// What is wrong with a block of `given` that `by` ends, whatever the sizes are.
const fn contradiction(given: Kind, by: Kind) -> Option<ErrorKind> {
    let (Some((from, is_aligned)), Some((to, wants))) = (giver(given), taker(by)) else { return None };
    if from as u8 != to as u8 {
        return Some(ErrorKind::AllocDeallocMismatch);
    }
    let is_wrong = match (to, wants) {
        (_, None) => false,
        // Of the others of C with an alignment the standard says nothing.
        (Family::C, Some(aligned)) => {
            if aligned {
                !is_aligned
            } else {
                given.0 == Kind::ALIGNED_ALLOC.0
            }
        }
        (_, Some(aligned)) => aligned != is_aligned,
    };
    if is_wrong { Some(ErrorKind::NewDeleteTypeMismatch) } else { None }
}

/// A bit for each function that gives blocks which `by` must not end.
#[inline(always)]
const fn wrong_givers(by: Kind) -> u64 {
    let mut wrong = 0;
    let mut rest = Kind::ALL;
    while let [kind, others @ ..] = rest {
        if contradiction(*kind, by).is_some() {
            wrong |= 1 << kind.number();
        }
        rest = others;
    }
    wrong
}

/// [`wrong_givers`] of each function, by its number.
static WRONG_GIVERS: [u64; heapledger_format::kind::KIND_LIMIT] = {
    let mut all = [0; heapledger_format::kind::KIND_LIMIT];
    let mut rest = Kind::ALL;
    while let [kind, others @ ..] = rest {
        if let Some((_, [place, ..])) = all.split_at_mut_checked(kind.0 as usize) {
            *place = wrong_givers(*kind);
        }
        rest = others;
    }
    all
};

/// Of `free`, which is known when compiling: nothing is loaded for it.
const WRONG_FOR_FREE: u64 = wrong_givers(Kind::FREE);

#[inline(always)]
fn wrong_for(by: Kind) -> u64 {
    match by {
        Kind::FREE => WRONG_FOR_FREE,
        _ => WRONG_GIVERS.get(usize::from(by.0)).copied().unwrap_or(0),
    }
}

impl Access<'_> {
    /// Compares the block in a slot, which this thread has taken out, with the function that ends it. `number`: of its end; none where
    /// it is to be resized.
    #[inline(always)]
    pub(crate) fn look_at_family(
        &mut self,
        slot: Slot,
        says: impl Says,
        (registers, number): (&Registers, Option<Number>),
    ) {
        if says.given_back().is_some_and(|given_back| self.looks_wrong(slot, &given_back)) {
            // Asked again there: it need not lie on the program's stack until then.
            self.aside(move |access| access.check_said_family(slot, says, registers, number));
        }
    }

    #[cold]
    #[inline(never)]
    fn check_said_family(&mut self, slot: Slot, says: impl Says, registers: &Registers, number: Option<Number>) {
        if let Some(given_back) = says.given_back() {
            self.check_family(slot, given_back, registers, number);
        }
    }

    #[inline(always)]
    fn looks_wrong(&self, slot: Slot, given_back: &GivenBack) -> bool {
        let [_, address, size, _] = self.shared.record(slot);
        let giver = address.load(Ordering::Relaxed) >> KIND_SHIFT & 63;
        wrong_for(given_back.by) >> giver & 1 != 0
            || given_back.size.is_some_and(|said| u64::from(size.load(Ordering::Relaxed) as u32) != said as u64)
            || given_back.is_aligned_otherwise()
    }

    #[cold]
    #[inline(never)]
    fn check_family(&mut self, slot: Slot, given_back: GivenBack, registers: &Registers, number: Option<Number>) {
        // Of samples it is not even known by what function they were had: operators of C++ pass by, and what they call is sampled.
        if !certain::sees_all_frees(self.shared) {
            return;
        }
        let Some(block) = self.load(slot) else { return };
        let GivenBack { by, size: said, alignment, .. } = given_back;
        let size = block.size.or_else(|| look::huge(self.shared, block.number));
        let (why, found_by) = match contradiction(block.kind, by) {
            Some(why) => (why, FoundBy::State),
            None if giver(block.kind).is_some()
                && size.is_some()
                && said.is_some_and(|said| size != Some(said as u64)) =>
            {
                (ErrorKind::NewDeleteTypeMismatch, FoundBy::Argument)
            }
            None if giver(block.kind).is_some_and(|(_, is_aligned)| is_aligned)
                && given_back.is_aligned_otherwise() =>
            {
                (ErrorKind::NewDeleteTypeMismatch, FoundBy::Argument)
            }
            None => return,
        };
        let of_c = match (giver(block.kind), taker(by)) {
            _ if why != ErrorKind::AllocDeallocMismatch => None,
            (Some((Family::C, _)), _) => Some(innermost(self.shared, block.site)),
            (_, Some((Family::C, _))) => Some(Some((registers.ip as usize).wrapping_sub(1))),
            _ => None,
        };
        let is_certain = of_c.is_none_or(|code| {
            code.is_some_and(|code| !is_of_runtime(self.shared, code)) && (given_back.operators_are_shared)()
        });
        if is_certain {
            let block = Entry { size, ..block };
            let asked = if given_back.is_aligned_otherwise() { given_back.asked_alignment as u64 } else { 0 };
            self.ended_wrongly(
                &block,
                &WrongEnd { why, found_by, by, given: [said.unwrap_or(0), alignment], alignment: asked },
                registers,
                number,
            );
        }
    }
}

/// Code of the innermost frame of a stack, if its module is loaded.
fn innermost(shared: &Shared, site: Site) -> Option<usize> {
    let ledger = shared.ledger();
    let node = ledger.section(SectionKind::Sites).word(Sites::native(ledger, site).0 as usize);
    let (module, offset) = pc::unpack(ledger.section(SectionKind::Pcs).word((node >> 32) as usize));
    let start = shared.modules.bias_of(module)?;
    Some(start.wrapping_add(offset as usize).wrapping_sub(1))
}

/// Whether code is of a module that has operators of C++, or is ours: what it calls is done for somebody else's sake.
fn is_of_runtime(shared: &Shared, code: usize) -> bool {
    let found = shared.modules.finder().find(code);
    shared.modules.own_module().contains(&code)
        || found.is_none_or(|found| [&b"_ZdlPv"[..], b"_Znwm"].iter().any(|name| found.module.symbol(name).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISMATCH: Option<ErrorKind> = Some(ErrorKind::AllocDeallocMismatch);
    const OTHER_TYPE: Option<ErrorKind> = Some(ErrorKind::NewDeleteTypeMismatch);

    #[test]
    fn each_function_ends_blocks_of_its_family() {
        for (given, by, expected) in [
            (Kind::MALLOC, Kind::FREE, None),
            (Kind::ALIGNED_ALLOC, Kind::FREE, None),
            (Kind::VALLOC, Kind::REALLOC, None),
            (Kind::NEW, Kind::DELETE_SIZED, None),
            (Kind::NEW, Kind::DELETE_NOTHROW, None),
            (Kind::NEW_NOTHROW, Kind::DELETE, None),
            (Kind::NEW_ALIGN, Kind::DELETE_SIZED_ALIGN, None),
            (Kind::NEW_ARRAY, Kind::DELETE_ARRAY_SIZED, None),
            (Kind::ALIGNED_ALLOC, Kind::FREE_ALIGNED_SIZED, None),
            (Kind::MALLOC, Kind::FREE_SIZED, None),
            (Kind::POOL_ALLOC, Kind::FREE, None),
            (Kind::MALLOC, Kind::POOL_FREE, None),
            (Kind::MALLOC, Kind::UNSEEN, None),
            (Kind::MALLOC, Kind::DELETE, MISMATCH),
            (Kind::NEW, Kind::FREE, MISMATCH),
            (Kind::NEW, Kind::REALLOC, MISMATCH),
            (Kind::NEW, Kind::DELETE_ARRAY, MISMATCH),
            (Kind::NEW_ARRAY, Kind::DELETE_SIZED, MISMATCH),
            (Kind::NEW_ARRAY_ALIGN, Kind::DELETE_ALIGN, MISMATCH),
            (Kind::NEW_ALIGN, Kind::FREE_ALIGNED_SIZED, MISMATCH),
            (Kind::NEW_ALIGN, Kind::DELETE, OTHER_TYPE),
            (Kind::NEW, Kind::DELETE_ALIGN, OTHER_TYPE),
            (Kind::ALIGNED_ALLOC, Kind::FREE_SIZED, OTHER_TYPE),
            (Kind::MALLOC, Kind::FREE_ALIGNED_SIZED, OTHER_TYPE),
        ] {
            assert_eq!(contradiction(given, by), expected, "{given} {by}");
            assert_eq!(wrong_for(by) >> given.number() & 1 != 0, expected.is_some(), "{given} {by}");
        }
    }
}
