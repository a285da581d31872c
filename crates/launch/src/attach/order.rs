//! The order in which the loader looks symbols up: the library is put behind the executable, where one that was preloaded stands, so
//! that what the program loads from now on is bound to it.
//!
//! The loader keeps that order in a list of modules, which its structure of the executable (`struct link_map`) leads to. Where in that
//! structure is not promised: the place counts only if the list there is one of modules that are all loaded, with the executable
//! first and the library in it. Each entry is moved back by one place, so that whoever reads the list meanwhile skips none.

use std::collections::HashSet;

use super::memory::TargetMemory;

/// Bytes of the structure that are looked through. It is longer.
const STRUCTURE_BYTES: usize = 1024;
const WORD: usize = size_of::<u64>();
/// Where the next module's structure stands in one.
const NEXT: u64 = 24;
const MODULES_MAX: usize = 1 << 16;

/// A list of modules: where it lies, and what it holds.
struct List {
    address: u64,
    modules: Vec<u64>,
}

/// All modules that are loaded.
fn loaded(memory: &TargetMemory, first: u64) -> HashSet<u64> {
    let next = |module: &u64| memory.word(module.wrapping_add(NEXT)).ok().filter(|next| *next != 0);
    std::iter::successors(Some(first), next).take(MODULES_MAX).collect()
}

fn find(memory: &TargetMemory, first: u64, own: u64) -> Option<List> {
    let structure = memory.words(first, STRUCTURE_BYTES / WORD).ok()?;
    let loaded = loaded(memory, first);
    structure.windows(2).skip(5).find_map(|pair| {
        let [address, count] = *pair.first_chunk()?;
        // The upper half of the word is another field.
        let count = usize::try_from(count & u64::from(u32::MAX)).ok()?;
        if !address.is_multiple_of(WORD as u64) || !(2..=loaded.len()).contains(&count) {
            return None;
        }
        let modules = memory.words(address, count).ok()?;
        let is_it = modules.first() == Some(&first)
            && modules.contains(&own)
            && modules.iter().all(|module| loaded.contains(module));
        is_it.then_some(List { address, modules })
    })
}

/// Puts the library behind the executable. False if the list is not to be found.
pub(super) fn put_in_front(memory: &TargetMemory, first: u64, own: u64) -> bool {
    let Some(List { address, mut modules }) = find(memory, first, own) else { return false };
    let Some(at) = modules.iter().position(|module| *module == own) else { return false };
    let Some(moved) = modules.get_mut(1..=at) else { return false };
    moved.rotate_right(1);
    let bytes: Vec<u8> = moved.iter().flat_map(|module| module.to_ne_bytes()).collect();
    memory.write(address.wrapping_add(WORD as u64), &bytes).is_ok()
}
