//! Functions of the program that are told of its calls: a place for each.
//!
//! They are called outside of the recorder, on the program's stack: after a block was given and entered, and before one is given
//! back. What they allocate is passed on and recorded, and told to nobody: which threads are inside of one is noted in a table.

use crate::state::{self, Want};
use crate::watched::Block;
use crate::{inside, live};
use core::sync::atomic::{AtomicBool, AtomicIsize, AtomicU32, AtomicUsize, Ordering};

/// When a hook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum When {
    /// A block was given, or stays because it could not be resized.
    Gave = 1,
    /// A block is about to be given back, or resized.
    TakesBack = 2,
    /// As `Gave`, if live bytes have passed a limit.
    LiveAbove = 3,
    /// When a call has come back that asked for more than a limit, with a block or without.
    RequestAbove = 4,
    /// When a call has come back without a block.
    Refused = 5,
    /// When something else has happened: at [`Stage::Happened`].
    Happened = 6,
}

impl When {
    const ALL: [When; 6] =
        [When::Gave, When::TakesBack, When::LiveAbove, When::RequestAbove, When::Refused, When::Happened];
}

/// At which point of a call functions are told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It has given this block.
    Gave,
    /// It has given none, so that this old block stays.
    Stays,
    /// It has given none, of such a size.
    Refused,
    /// It is about to give this block back, or to resize it.
    TakesBack,
    /// It is no call of a block: something has happened.
    Happened,
}

/// What functions are told.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// At which point.
    pub stage: Stage,
    /// What the function has asked for that is called.
    pub when: When,
    /// Which block.
    pub block: Block,
}

/// Calls a function of the program, of which it has been given two words. False if that must not be called again.
pub type Caller = fn(&Told, [usize; 2]) -> bool;

/// What is to be called.
#[derive(Clone, Copy, Debug)]
pub struct NewHook {
    /// When.
    pub when: When,
    /// Bytes, of [`When::LiveAbove`] and [`When::RequestAbove`].
    pub limit: isize,
    /// Of [`When::LiveAbove`]: it is called again when live bytes have not been above this meanwhile.
    pub again_at: isize,
    /// What the [`Caller`] needs to know.
    pub data: [usize; 2],
}

/// Hooks at the same time.
pub const HOOKS: usize = 32;

struct HookPlace {
    taken: AtomicBool,
    /// Whether it is to be called.
    is_there: AtomicBool,
    data: [AtomicUsize; 2],
    /// A [`When`].
    when: AtomicUsize,
    limit: AtomicIsize,
    again_at: AtomicIsize,
    is_above: AtomicBool,
    calls: AtomicUsize,
    /// How many threads are inside of it.
    running: AtomicU32,
    failed: AtomicBool,
}

/// Which places are to be called, a bit each, by [`When`].
static ACTIVE: [AtomicU32; 7] = [const { AtomicU32::new(0) }; 7];

/// The places that are called at a stage.
#[inline(always)]
fn active(stage: Stage) -> u32 {
    let of = |whens: &[When]| {
        whens.iter().filter_map(|when| ACTIVE.get(*when as usize)).fold(0, |all, one| all | one.load(Ordering::SeqCst))
    };
    match stage {
        Stage::Gave => of(&[When::Gave, When::LiveAbove, When::RequestAbove]),
        Stage::Stays => of(&[When::Gave, When::LiveAbove]),
        Stage::Refused => of(&[When::Refused, When::RequestAbove]),
        Stage::TakesBack => of(&[When::TakesBack]),
        Stage::Happened => of(&[When::Happened]),
    }
}

/// The places whose bits are set.
fn places(mut bits: u32) -> impl Iterator<Item = &'static HookPlace> {
    core::iter::from_fn(move || {
        let place = PLACES.get(bits.trailing_zeros() as usize)?;
        bits &= bits.wrapping_sub(1);
        Some(place)
    })
}

static PLACES: [HookPlace; HOOKS] = [const { HookPlace::new() }; HOOKS];

impl HookPlace {
    const fn new() -> HookPlace {
        HookPlace {
            taken: AtomicBool::new(false),
            is_there: AtomicBool::new(false),
            data: [const { AtomicUsize::new(0) }; 2],
            when: AtomicUsize::new(0),
            limit: AtomicIsize::new(0),
            again_at: AtomicIsize::new(0),
            is_above: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            running: AtomicU32::new(0),
            failed: AtomicBool::new(false),
        }
    }

    /// Whether it is called at this stage of a call of such a size.
    fn is_for(&self, stage: Stage, size: usize) -> bool {
        if !self.is_there.load(Ordering::SeqCst) {
            return false;
        }
        let own = self.when.load(Ordering::Relaxed);
        let is = |when: When| own == when as usize;
        match stage {
            Stage::Gave | Stage::Refused if is(When::RequestAbove) => {
                size > self.limit.load(Ordering::Relaxed).max(0) as usize
            }
            Stage::Gave | Stage::Stays => is(When::Gave) || is(When::LiveAbove),
            Stage::TakesBack => is(When::TakesBack),
            Stage::Refused => is(When::Refused),
            Stage::Happened => is(When::Happened),
        }
    }

    fn when(&self) -> When {
        let own = self.when.load(Ordering::Relaxed);
        When::ALL.into_iter().find(|when| *when as usize == own).unwrap_or(When::Gave)
    }

    fn is_above(&self, limit: &AtomicIsize) -> bool {
        live::signed_bytes() > limit.load(Ordering::Relaxed)
    }

    /// Whether it is not to be told of this call: live bytes have not passed its limit now.
    fn is_quiet(&self) -> bool {
        let is_threshold = self.when.load(Ordering::Relaxed) == When::LiveAbove as usize;
        is_threshold && (!self.is_above(&self.limit) || self.is_above.swap(true, Ordering::Relaxed))
    }

    fn tell(&self, told: &Told, caller: Caller) {
        if !self.is_for(told.stage, told.block.size) {
            return;
        }
        self.running.fetch_add(1, Ordering::SeqCst);
        // Who has unregistered it since waits, or does not know that we are here; and nobody takes the place while we are.
        if self.is_for(told.stage, told.block.size) && !self.is_quiet() {
            self.calls.fetch_add(1, Ordering::Relaxed);
            let told = Told { when: self.when(), ..*told };
            if !caller(&told, self.data.each_ref().map(|word| word.load(Ordering::Relaxed))) {
                self.failed.store(true, Ordering::Relaxed);
                self.is_there.store(false, Ordering::SeqCst);
            }
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
    }

    /// Nobody else has it, and nobody is inside of what was here before.
    fn claim(&self) -> bool {
        if self.running.load(Ordering::SeqCst) != 0 || self.taken.swap(true, Ordering::AcqRel) {
            return false;
        }
        let is_vacant = self.running.load(Ordering::SeqCst) == 0;
        if !is_vacant {
            self.taken.store(false, Ordering::Release);
        }
        is_vacant
    }
}

/// Tells of a call. It is `caller` that calls the functions.
#[cold]
#[inline(never)]
pub fn tell(told: &Told, caller: Caller) {
    let active = active(told.stage);
    if !places(active).any(|place| place.is_for(told.stage, told.block.size)) {
        return;
    }
    let Some(inside) = inside::enter((&raw const *told).addr()) else { return };
    inside.note_block(told.block.address);
    for place in places(active) {
        place.tell(told, caller);
    }
    inside.leave();
}

/// Live bytes have become fewer.
#[cold]
#[inline(never)]
pub fn fell() {
    let has_fallen = |place: &&HookPlace| place.is_above.load(Ordering::Relaxed) && !place.is_above(&place.again_at);
    let thresholds = ACTIVE.get(When::LiveAbove as usize).map_or(0, |bits| bits.load(Ordering::Relaxed));
    for place in places(thresholds).filter(has_fallen) {
        place.is_above.store(false, Ordering::Relaxed);
    }
}

/// Has a function called from now on; gives its number. `None` if there are as many as there can be.
pub fn register(new: &NewHook) -> Option<usize> {
    let index = PLACES.iter().position(HookPlace::claim)?;
    let place = PLACES.get(index)?;
    if !state::join(Want::Asked) {
        place.taken.store(false, Ordering::Release);
        return None;
    }
    place.calls.store(0, Ordering::Relaxed);
    place.limit.store(new.limit, Ordering::Relaxed);
    place.again_at.store(new.again_at, Ordering::Relaxed);
    place.is_above.store(new.when == When::LiveAbove && place.is_above(&place.limit), Ordering::Relaxed);
    place.failed.store(false, Ordering::Relaxed);
    place.when.store(new.when as usize, Ordering::Relaxed);
    for (place, word) in place.data.iter().zip(new.data) {
        place.store(word, Ordering::Relaxed);
    }
    place.is_there.store(true, Ordering::SeqCst);
    if let Some(active) = ACTIVE.get(new.when as usize) {
        active.fetch_or(1u32.wrapping_shl(index as u32), Ordering::SeqCst);
    }
    Some(index)
}

fn of(hook: usize) -> Option<&'static HookPlace> {
    PLACES.get(hook).filter(|place| place.taken.load(Ordering::Acquire))
}

/// When a hook is called. `None` if there is none of this number.
pub fn when(hook: usize) -> Option<When> {
    Some(of(hook)?.when())
}

/// How often a hook was called. `None` if there is none of this number.
pub fn calls(hook: usize) -> Option<u64> {
    Some(of(hook)?.calls.load(Ordering::Relaxed) as u64)
}

/// Whether it is not called any more, because its caller said so.
pub fn has_failed(hook: usize) -> bool {
    of(hook).is_some_and(|place| place.failed.load(Ordering::Relaxed))
}

/// It is called no longer. Returns how many calls of it have not come back yet.
pub fn silence(hook: usize) -> Option<u64> {
    let place = of(hook)?;
    place.is_there.store(false, Ordering::SeqCst);
    Some(u64::from(place.running.load(Ordering::SeqCst)))
}

/// It is called no longer, and its number is somebody else's. False if there is none of this number.
pub fn unregister(hook: usize) -> bool {
    let Some(place) = of(hook) else { return false };
    place.is_there.store(false, Ordering::SeqCst);
    for active in &ACTIVE {
        active.fetch_and(!1u32.wrapping_shl(hook as u32), Ordering::SeqCst);
    }
    let was_taken = place.taken.swap(false, Ordering::AcqRel);
    if was_taken {
        state::leave(Want::Asked);
    }
    was_taken
}
