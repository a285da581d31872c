//! Calls of a program, as the hooks are told of them, for tests that say each by itself.

use heapledger_format::Kind;
use heapledger_process::hooks::{self, AboutBlock, NewBlock, ReallocEnd, Usable};
use heapledger_unwind::Registers;

use crate::linux::SHARED;
use crate::switch::REFUSED;

pub(crate) fn registers(here: &u8) -> Registers {
    Registers { sp: &raw const *here as u64, ..Registers::default() }
}

pub(crate) fn new_block(kind: Kind, address: usize, size: usize) -> NewBlock {
    NewBlock { kind, address, size, usable: Usable::Known(0), heap: 0, about: AboutBlock::Nothing, alignment: None }
}

pub(crate) fn begin(address: usize, size: usize) {
    hooks::block_begins(&SHARED, hooks::ready(&SHARED), &registers(&0), &new_block(Kind::MALLOC, address, size));
}

pub(crate) fn end(address: usize) {
    hooks::block_ends(&SHARED, hooks::ready(&SHARED), &registers(&0), address, Kind::FREE, ());
}

pub(crate) fn reallocate(old: usize, address: usize, size: usize) {
    let begun = hooks::realloc_begins(&SHARED, &registers(&0), old, ());
    let new = Some(new_block(Kind::REALLOC, address, size));
    let end = ReallocEnd { begun: &begun, by: Kind::REALLOC, new, frees: false, is_inner: false, refused: REFUSED };
    assert!(hooks::realloc_ends(&SHARED, &registers(&0), &end));
}
