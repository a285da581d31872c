//! Blocks that are given back with another size or alignment than they were asked for with.
//!
//! Who gives a block back may have to say both, as in Rust. The size is in the record. The alignment is put where other ledgers have
//! by how much a block is longer than asked for: nobody tells that where calls say alignments, and the ledger does not describe
//! these bits then, so that readers pass over them.
#![forbid(unsafe_code)]

use crate::access::{AboutBlock, Access};
use crate::families::GivenBack;
use crate::{error_stack, errors};
use core::sync::atomic::Ordering;
use heapledger_format::errors::{ErrorEntry, ErrorKind, ErrorStack, FoundAt, FoundBy, StackTag};
use heapledger_format::record::{EXCESS_ESCAPE, EXCESS_SHIFT};
use heapledger_format::{Entry, Kind, ThreadRow, Ticks};
use heapledger_linux::apart;
use heapledger_recorder::backend::{Backend as _, Number, Slot};
use heapledger_unwind::Registers;

/// What a call says of the block that it gives back.
#[derive(Clone, Copy, Debug)]
pub struct SaidLayout {
    /// The function that is called.
    pub by: Kind,
    /// The block's bytes.
    pub size: usize,
    /// Its alignment.
    pub alignment: usize,
}

/// What is wrong with how a block ended.
#[derive(Clone, Copy)]
pub(crate) struct WrongEnd {
    pub(crate) why: ErrorKind,
    pub(crate) found_by: FoundBy,
    /// The function that ended it.
    pub(crate) by: Kind,
    /// Size and alignment that it was told.
    pub(crate) given: [usize; 2],
    /// The alignment that the block was asked for with, if it is known; else 0.
    pub(crate) alignment: u64,
}

/// Where it lies what a call says, if it says anything: that is known when compiling, so that nothing is looked at for those that
/// say nothing. Others are asked when what they say is needed, and need not keep it until then.
pub trait Says: Copy {
    /// What is said.
    fn layout(&self) -> Option<SaidLayout>;

    /// The function, if it is one of C or C++, and what it says: see [`crate::families`].
    #[inline(always)]
    fn given_back(&self) -> Option<GivenBack> {
        None
    }

    /// Whether the block is one of an [inner](crate::inner) allocator.
    #[inline(always)]
    fn is_inner(&self) -> bool {
        false
    }
}

impl Says for () {
    #[inline(always)]
    fn layout(&self) -> Option<SaidLayout> {
        None
    }
}

/// The alignment of a block that begins, as it lies in word 3 of its record. Higher ones are not kept.
#[inline(always)]
pub(crate) fn packed(alignment: u64) -> u64 {
    alignment << EXCESS_SHIFT
}

impl Access<'_> {
    /// A block is about to be given back with what is said.
    #[inline(always)]
    pub(crate) fn note_said(&mut self, says: impl Says) {
        if says.layout().is_some() {
            self.about = AboutBlock::Aligned;
        } else if says.is_inner() {
            self.about = AboutBlock::Inner;
        }
    }

    /// Compares the block in a slot, which this thread has taken out, with what is said of it. `number`: of its end; none where it
    /// is to be resized.
    #[inline(always)]
    pub(crate) fn look_at_layout(
        &mut self,
        slot: Slot,
        says: impl Says,
        (registers, number): (&Registers, Option<Number>),
    ) {
        if let Some(said) = says.layout()
            && self.may_be_wrong(slot, said)
        {
            self.aside(move |access| access.check_layout(slot, says, registers, number));
        }
        self.look_at_family(slot, says, (registers, number));
    }

    /// Whether what is said of the block in a slot, which this thread has taken out, may be wrong.
    #[inline(always)]
    fn may_be_wrong(&self, slot: Slot, said: SaidLayout) -> bool {
        let [_, _, size, alignment] = self.shared.record(slot);
        alignment.load(Ordering::Relaxed) >> EXCESS_SHIFT != said.alignment as u64
            || u64::from(size.load(Ordering::Relaxed) as u32) != said.size as u64
    }

    /// Looks again, at figures too that do not fit into a record, and enters what is wrong.
    #[cold]
    #[inline(never)]
    fn check_layout(&mut self, slot: Slot, says: impl Says, registers: &Registers, number: Option<Number>) {
        let (Some(block), Some(said)) = (self.load(slot), says.layout()) else { return };
        let alignment = self.shared.words_of(slot, Ordering::Relaxed)[3] >> EXCESS_SHIFT;
        let SaidLayout { by, size, alignment: said_alignment } = said;
        let is_size = block.size.is_none_or(|bytes| bytes == size as u64);
        if is_size && alignment == said_alignment as u64 & EXCESS_ESCAPE {
            return;
        }
        let given = [size, said_alignment];
        let wrong = WrongEnd { why: ErrorKind::WrongLayout, found_by: FoundBy::Argument, by, given, alignment };
        self.ended_wrongly(&block, &wrong, registers, number);
    }

    /// Enters what is wrong with the end of a block. `number`: of that end; none where it is to be resized.
    pub(crate) fn ended_wrongly(
        &mut self,
        block: &Entry,
        wrong: &WrongEnd,
        registers: &Registers,
        number: Option<Number>,
    ) {
        let site = error_stack::of_call(self, registers);
        let (shared, thread) = (self.shared, self.state.row);
        let time = shared.now().max(Ticks(1));
        let is_free = number.is_some();
        let entered = apart::result_of(false, || {
            let allocation = errors::stack(
                StackTag::Allocation,
                block.site,
                block.thread.unwrap_or(ThreadRow::OTHER),
                block.time.unwrap_or_default(),
            );
            shared.errors.enter(
                shared.ledger(),
                &ErrorEntry {
                    kind: wrong.why as u16,
                    found_by: wrong.found_by as u8,
                    found_at: if is_free { FoundAt::Free } else { FoundAt::Realloc } as u8,
                    given_by: block.kind.0,
                    called: wrong.by.0,
                    heap: block.heap.map_or(0, |heap| u32::from(heap).wrapping_add(1)),
                    block: block.address,
                    block_bytes: block.size.unwrap_or(0),
                    alignment: wrong.alignment,
                    operands: wrong.given.map(|given| given as u64),
                    allocated: block.number.wrapping_add(1),
                    freed: number.map_or(0, |number| number.0.wrapping_add(1)),
                    first_time: time,
                    last_time: time,
                    stacks: [allocation, errors::stack(StackTag::Free, site, thread, time), ErrorStack::default()],
                    label: self.state.thread().label.load(Ordering::Relaxed),
                    ..ErrorEntry::default()
                },
            )
        });
        self.count_wrong(entered);
    }
}
