//! The one word that entries look at first: what becomes of a call.

use core::sync::atomic::{AtomicUsize, Ordering};

/// Its lowest byte is what entries look at; above stand two numbers: who wants calls counted, and who wants to be asked.
pub static STATE: AtomicUsize = AtomicUsize::new(UNSTARTED as usize);

/// Nobody has called yet.
pub const UNSTARTED: u8 = 0;
/// Calls are passed on.
pub const OFF: u8 = 1;
/// Calls are recorded.
#[cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64")),
    allow(dead_code, reason = "nothing is recorded there")
)]
pub const ON: u8 = 2;
/// Another recorder is told of calls, which it does not see: see `forward`.
#[cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64")),
    allow(dead_code, reason = "nothing is recorded there")
)]
pub const FORWARDED: u8 = 3;
/// What it is beside what is wanted.
pub const BASE: u8 = 3;
/// Blocks are guarded, or were at some time: calls go to the guard in place of the allocator, for good.
pub const GUARDED: u8 = 0x10;
/// Somebody is to be asked before or told after: faults, hooks.
pub const ASKED: u8 = 0x20;
/// Calls are counted.
pub const COUNTED: u8 = 0x40;
/// One of these. As a signed number this is lower than all that need nothing beside the recorder.
pub const WATCHED: u8 = 0x80;
/// What there is where nothing but counting was asked for.
#[cfg_attr(not(all(target_os = "linux", target_arch = "x86_64")), allow(dead_code, reason = "for entries in assembly"))]
pub const COUNTING: u8 = WATCHED | COUNTED | OFF;

const NUMBER_BITS: u32 = (usize::BITS - 8) / 2;
const NUMBER_MAX: usize = (1 << NUMBER_BITS) - 1;

/// One that wants something of each call. It ends by [`leave`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// To have calls counted.
    Counted,
    /// To be asked before, or told after.
    Asked,
}

impl Want {
    const fn shift(self) -> u32 {
        match self {
            Want::Counted => 8,
            Want::Asked => 8 + NUMBER_BITS,
        }
    }

    const fn flag(self) -> u8 {
        match self {
            Want::Counted => COUNTED,
            Want::Asked => ASKED,
        }
    }

    const fn number(self, word: usize) -> usize {
        (word >> self.shift()) & NUMBER_MAX
    }
}

/// The word with a base, and with the flags that follow from its numbers.
const fn with_flags(word: usize, base: u8) -> usize {
    // Entries have no way of their own for calls that are forwarded.
    let mut flags = if base == FORWARDED { base | WATCHED } else { base };
    if word as u8 & GUARDED != 0 {
        flags |= WATCHED | GUARDED;
    }
    if Want::Counted.number(word) > 0 {
        flags |= WATCHED | COUNTED;
    }
    if Want::Asked.number(word) > 0 {
        flags |= WATCHED | ASKED;
    }
    word & !0xFF | flags as usize
}

const fn base_of(word: usize) -> u8 {
    word as u8 & BASE
}

/// What becomes of calls, but for what is wanted beside.
pub fn base() -> u8 {
    base_of(STATE.load(Ordering::Acquire))
}

/// The byte that entries look at.
#[inline(always)]
pub fn flags() -> u8 {
    STATE.load(Ordering::Relaxed) as u8
}

/// Says what becomes of calls, but for what is wanted beside.
pub fn set_base(base: u8) {
    change(|word| Some(with_flags(word, base)));
}

/// From now on all calls go to the guard, whatever else becomes of them.
pub fn guard() {
    change(|word| Some(with_flags(word | GUARDED as usize, base_of(word))));
}

/// False if there are too many already.
#[must_use]
pub fn join(want: Want) -> bool {
    change(|word| {
        let is_room = want.number(word) < NUMBER_MAX;
        let more = word.wrapping_add(1 << want.shift());
        is_room.then(|| with_flags(more, base_of(word)))
    })
}

/// One that has joined wants nothing any more.
pub fn leave(want: Want) {
    change(|word| {
        let less = word.wrapping_sub(1 << want.shift());
        (want.number(word) > 0).then(|| with_flags(less, base_of(word)))
    });
}

fn change(f: impl FnMut(usize) -> Option<usize>) -> bool {
    let is_changed = STATE.fetch_update(Ordering::SeqCst, Ordering::SeqCst, f).is_ok();
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    if let Some(listener) = LISTENER.get() {
        listener();
    }
    is_changed
}

/// Who wants to know when something has changed, because its entries do not look at [`STATE`].
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
static LISTENER: heapledger_process::once::Noted<fn()> = heapledger_process::once::Noted::new();

/// Has a function called whenever something has changed.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub fn listen(listener: &'static fn()) {
    LISTENER.set(listener);
}

/// Whether something is wanted of calls at this moment. Whoever has been told of a change sees it.
pub fn is_watched() -> bool {
    STATE.load(Ordering::SeqCst) as u8 & WATCHED != 0
}

/// Whether something is wanted of calls at this moment.
#[inline(always)]
pub fn wants(want: Want) -> bool {
    flags() & want.flag() != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_goes_when_the_last_one_goes() {
        let mut word = with_flags(0, ON);
        assert_eq!(word as u8, ON);
        let one = 1 << Want::Counted.shift();
        word = with_flags(word + 2 * one, base_of(word));
        assert_eq!(word as u8, WATCHED | COUNTED | ON);
        word = with_flags(word + (1 << Want::Asked.shift()) - one, base_of(word));
        assert_eq!(word as u8, WATCHED | COUNTED | ASKED | ON);
        assert_eq!((Want::Counted.number(word), Want::Asked.number(word)), (1, 1));
        word = with_flags(with_flags(word - one, OFF), OFF);
        assert_eq!(word as u8, WATCHED | ASKED | OFF);
        assert_eq!(with_flags(word - (1 << Want::Asked.shift()), OFF), OFF as usize);
    }

    #[test]
    fn who_is_guarded_stays_so_whatever_else_changes() {
        let guarded = with_flags(with_flags(GUARDED as usize, UNSTARTED), ON);
        assert_eq!(guarded as u8, WATCHED | GUARDED | ON);
        let counted = with_flags(guarded + (1 << Want::Counted.shift()), OFF);
        assert_eq!(counted as u8, WATCHED | GUARDED | COUNTED | OFF);
        assert_eq!(with_flags(counted - (1 << Want::Counted.shift()), OFF) as u8, WATCHED | GUARDED | OFF);
    }

    #[test]
    fn entries_tell_what_there_is_by_one_comparison_with_off() {
        let off = OFF as i8;
        assert!((ON as i8) > off && (UNSTARTED as i8) < off);
        assert_eq!(with_flags(0, FORWARDED) as u8, WATCHED | FORWARDED);
        assert_eq!(with_flags(with_flags(0, FORWARDED), OFF) as u8, OFF);
        assert!(
            [COUNTING, WATCHED | ASKED | ON, WATCHED | COUNTED, WATCHED | FORWARDED, WATCHED | GUARDED | ON]
                .iter()
                .all(|state| (*state as i8) < off)
        );
    }
}
