//! Taking the stack of a call.

use super::shared::Shared;
use super::state::ThreadState;
use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering};
use heapledger_format::TallyCounter;
use heapledger_linux::stack::StackRange;
use heapledger_unwind::{End, Environment, Lookup, Registers, RuleCache, walk};

pub use heapledger_unwind::Strategy;

/// Pages of a stack that may be asked about at once: 8 MiB.
const PAGES_MAX: usize = 2048;

/// Stack and unwind tables of the calling thread.
struct Surroundings<'a> {
    shared: &'a Shared,
    here: Cell<StackRange>,
    below_handler: Cell<StackRange>,
}

impl Environment for Surroundings<'_> {
    #[inline]
    fn read_word(&self, address: u64) -> Option<u64> {
        let address = address as usize;
        let mut here = self.here.get();
        if !here.contains(address) {
            if !here.may_read(address, PAGES_MAX) {
                // A handler on the alternate stack: outside of it, the interrupted one goes on.
                let mut below = self.below_handler.get();
                if !below.may_read(address, PAGES_MAX) {
                    return None;
                }
                self.below_handler.set(below);
            } else {
                self.here.set(here);
            }
        }
        // The range is whole pages; an unaligned word at the end of one would reach into the next.
        if address & 7 != 0 {
            return None;
        }
        // SAFETY: aligned, and in a page of this thread's stack that is readable.
        Some(unsafe { (address as *const u64).read_volatile() })
    }

    fn find_table(&self, pc: u64) -> Lookup<'_> {
        self.shared.modules.table(self.shared.ledger(), pc)
    }
}

/// Whether a frame of this library lies on the stack outside of `registers`: then a hook was interrupted.
/// Where that cannot be told, it is assumed. Uses nothing that an interrupted hook may have left half done.
#[cold]
pub fn own_code_is_on_stack(shared: &Shared, stack: StackRange, registers: &Registers) -> bool {
    const FRAMES: usize = 96;
    const SETS: usize = 4;
    let surroundings = Surroundings { shared, here: Cell::new(stack), below_handler: Cell::new(stack) };
    let mut frames = [0; FRAMES];
    let mut cache = RuleCache::<SETS>::new();
    let walk = walk(&surroundings, &mut cache, registers, FRAMES, Strategy::Auto, &mut frames);
    let own = shared.modules.own_code();
    let frames = frames.get(..walk.depth).unwrap_or(&[]);
    // Only a stack known to its outermost frame tells that there is none.
    walk.end != End::Outermost || frames.iter().any(|frame| own.contains(&(*frame as usize)))
}

/// Compares a stack with what another unwinder says, in test builds.
pub type Check = fn(registers: &Registers, frames: &[u64], complete: bool);

static CHECK: AtomicUsize = AtomicUsize::new(0);

/// Has every stack checked from now on.
pub fn set_check(check: Check) {
    CHECK.store(check as usize, Ordering::Release);
}

/// The call site that leads to `registers`; 0 if it cannot be entered.
pub fn capture(shared: &Shared, state: &mut ThreadState, registers: &Registers) -> u32 {
    let generation = shared.modules.generation();
    if state.generation != generation {
        state.cache.flush();
        state.known_depth = 0;
        state.generation = generation;
    }
    let settings = shared.settings();
    let here = if state.on_alternate { state.alternate } else { state.native };
    let surroundings = Surroundings { shared, here: Cell::new(here), below_handler: Cell::new(state.native) };
    // SAFETY: states are mapped with room for this limit, and only this function uses the arrays.
    let stacks = unsafe { state.stacks(settings.depth_limit) };
    let walk = walk(&surroundings, &mut state.cache, registers, settings.depth_limit, settings.strategy, stacks.frames);
    if !state.on_alternate {
        state.native = surroundings.here.get();
    }
    let frames = stacks.frames.get(..walk.depth).unwrap_or(&[]);
    match walk.end {
        End::Outermost => {}
        End::LimitReached => state.count(TallyCounter::StacksCut, 1),
        _ if frames.last().is_some_and(|outermost| shared.modules.is_loader(*outermost)) => {}
        _ => state.count(TallyCounter::StacksBroken, 1),
    }
    if walk.guessed_from.is_some() {
        state.count(TallyCounter::StacksGuessed, 1);
    }
    if walk.restarted {
        state.count(TallyCounter::StacksGeneral, 1);
    }
    let check = CHECK.load(Ordering::Relaxed);
    if check != 0 {
        // SAFETY: only `set_check` stores there, and only a function of this type.
        let check = unsafe { core::mem::transmute::<usize, Check>(check) };
        // Where code has no tables other unwinders stop: only what was not guessed can be compared.
        let sure = frames.get(..walk.guessed_from.unwrap_or(frames.len())).unwrap_or(frames);
        check(registers, sure, walk.end == End::Outermost && walk.guessed_from.is_none());
    }
    match enter(shared, frames, state.known_depth as usize, stacks.known, stacks.nodes) {
        Some(site) => {
            state.known_depth = frames.len() as u32;
            site
        }
        None => {
            state.known_depth = 0;
            state.count(TallyCounter::SitesFull, 1);
            0
        }
    }
}

/// The trie node of a stack. Outer frames that the last stack had too keep their nodes, so only the
/// new ones are looked up.
fn enter(shared: &Shared, frames: &[u64], known_depth: usize, known: &mut [u64], nodes: &mut [u32]) -> Option<u32> {
    let same =
        frames.iter().rev().zip(known.iter().take(known_depth)).take_while(|(now, before)| now == before).count();
    let mut node = match same.checked_sub(1) {
        Some(last) => nodes.get(last).copied()?,
        None => 0,
    };
    let (new_frames, _) = frames.split_at_checked(frames.len() - same)?;
    let (_, known) = known.split_at_mut_checked(same)?;
    let (_, nodes) = nodes.split_at_mut_checked(same)?;
    for ((address, known), place) in new_frames.iter().rev().zip(known).zip(nodes) {
        node = shared.sites.node(shared.ledger(), &shared.modules, node, *address)?;
        *known = *address;
        *place = node;
    }
    Some(node)
}
