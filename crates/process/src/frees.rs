//! The stack of a call that ends a block, where it is not taken as a whole: mostly its caller alone, which costs a look into a small table.
#![forbid(unsafe_code)]

use crate::access::Access;
use crate::capture::{capture, capture_frames};
use crate::guarded::Level;
use crate::shared::Shared;
use crate::sites::StackPath;
use crate::state::{Entered, ThreadBooks};
use heapledger_format::record::Options;
use heapledger_format::{FreeDepth, Site, TallyCounter};
use heapledger_linux::apart;
use heapledger_recorder::backend::CallEffect;
use heapledger_unwind::Registers;

/// Callers that a thread knows; a power of two. Programs free at few places.
const NOTES: usize = 256;

/// A caller, and the call site that it is by itself.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Note {
    pc: u64,
    site: u32,
    /// Code unloadings when it was made, plus 1; 0: there is none.
    stamp: u32,
}

/// What a thread knows of those who end blocks. **Zeroed bytes know of nobody.**
#[derive(Debug)]
pub(crate) struct Callers {
    notes: [Note; NOTES],
    /// Where one stack in so many is whole: calls before the next one.
    before_whole: u32,
}

impl Callers {
    #[inline(always)]
    fn index(pc: u64) -> usize {
        // Masked to the number of notes, which is a `usize`.
        (pc ^ pc >> 8) as usize & NOTES.wrapping_sub(1)
    }

    #[inline(always)]
    fn find(&self, pc: u64, stamp: u32) -> Option<Site> {
        let note = self.notes.get(Self::index(pc))?;
        (note.pc == pc && note.stamp == stamp).then_some(Site(note.site))
    }

    fn keep(&mut self, pc: u64, stamp: u32, site: Site) {
        if let Some(note) = self.notes.get_mut(Self::index(pc)) {
            *note = Note { pc, site: site.0, stamp };
        }
    }

    /// Knows of nobody any more.
    pub(crate) fn forget(&mut self) {
        self.notes.iter_mut().for_each(|note| note.stamp = 0);
    }
}

/// The call site of a call that ends a block, as far as it is wanted.
#[inline(always)]
pub(crate) fn site(access: &mut Access, registers: &Registers) -> Site {
    let (shared, settings) = (access.shared, access.shared.settings());
    // None is handed the access itself: all that it holds would have to lie in memory, and be read there again.
    if access.is_usual {
        return caller(shared, access.state.again(), registers.ip);
    }
    let depth = shared.free_depth.get();
    if !shared.history.is_on() && settings.guard.level < Level::Full {
        Site::NONE // it is only kept in there, and beside blocks that wait
    } else if depth.is_whole() {
        whole(shared, access.state.again(), registers)
    } else if !settings.options.has(Options::STACK) {
        Site::NONE
    } else if depth == FreeDepth::CALLER {
        caller(shared, access.state.again(), registers.ip)
    } else {
        otherwise(shared, access.state.again(), registers, depth)
    }
}

/// [`site`] of a `realloc` that gives no block. Compiled once, and not into each hook.
#[cold]
#[inline(never)]
pub(crate) fn site_apart(access: &mut Access, registers: &Registers) -> Site {
    site(access, registers)
}

#[inline(never)]
fn whole(shared: &Shared, state: Entered, registers: &Registers) -> Site {
    match shared.settings().options.has(Options::STACK) {
        true => capture(shared, state, registers, CallEffect::Takes, false),
        false => Site::NONE,
    }
}

/// Not compiled into those who free: on their stacks all that follows stands, too.
#[inline(never)]
fn caller(shared: &Shared, state: Entered, pc: u64) -> Site {
    let generation = shared.modules.generation();
    match state.callers.find(pc, generation.wrapping_add(1)) {
        Some(site) => site,
        None => new_caller(shared, state, pc, generation),
    }
}

#[cold]
#[inline(never)]
fn new_caller(shared: &Shared, mut state: Entered, pc: u64, generation: u32) -> Site {
    let entered = apart::result_of(None, || {
        let code = shared.sites.code(shared.ledger(), &shared.modules, pc, generation, None)?;
        shared.sites.inwards(shared.ledger(), StackPath::ROOT, code).map(|path| path.site)
    });
    match entered {
        Some(site) => {
            state.callers.keep(pc, generation.wrapping_add(1), site);
            site
        }
        None => {
            state.count(TallyCounter::SitesFull, 1);
            Site::NONE
        }
    }
}

/// Another number of frames than one, or the whole of it now and then.
#[cold]
#[inline(never)]
fn otherwise(shared: &Shared, mut state: Entered, registers: &Registers, depth: FreeDepth) -> Site {
    if let Some(calls) = depth.one_in() {
        let ThreadBooks { callers, .. } = &mut *state;
        // It may count down from more than that: another depth was in force then.
        let before_whole = callers.before_whole.min(calls.wrapping_sub(1));
        if before_whole != 0 {
            callers.before_whole = before_whole.wrapping_sub(1);
            return caller(shared, state, registers.ip);
        }
        callers.before_whole = calls.wrapping_sub(1);
        return whole(shared, state, registers);
    }
    match depth.frames() {
        0 => Site::NONE,
        frames => capture_frames(shared, state, registers, frames as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_known_until_code_is_unloaded_or_another_takes_their_place() {
        let mut callers = Callers { notes: [Note { pc: 0, site: 0, stamp: 0 }; NOTES], before_whole: 0 };
        assert_eq!(callers.find(0, 1), None, "zeroed bytes know of nobody");
        callers.keep(0x1234, 1, Site(5));
        callers.keep(0x1235, 1, Site(6));
        assert_eq!(callers.find(0x1234, 1), Some(Site(5)));
        assert_eq!(callers.find(0x1235, 1), Some(Site(6)));
        assert_eq!(callers.find(0x1234, 2), None, "code was unloaded");
        let other = 0x1234 ^ 0x101;
        callers.keep(other, 1, Site(7));
        assert_eq!((callers.find(other, 1), callers.find(0x1234, 1)), (Some(Site(7)), None), "both have one place");
        callers.forget();
        assert_eq!([other, 0x1235].map(|pc| callers.find(pc, 1)), [None; 2]);
    }
}
