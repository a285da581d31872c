//! Blocks that are guarded: where they begin, and what only this process knows of them.
//!
//! No part of the recorder: whether a block is guarded depends on nothing that was recorded, and all of it is private memory, so that a
//! forked child has its own. The library of hooks calls the real allocator and dresses what that gives; see `crates/guard` for how a
//! dressed block lies in memory.
#![forbid(unsafe_code)]

use crate::access::count_apart;
use crate::guarding::Guarding;
use crate::marks::NotTold;
use crate::private::{Leaves, Table};
use crate::shared::Shared;
use crate::{arenas, described, hooks, land};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use heapledger_format::TallyCounter;
use heapledger_format::guard::GuardTables;
use heapledger_format::session::guard;
use heapledger_guard::{Block, Checked, Dressed, Marked, Memory, Plan, Secret, Width};
use heapledger_linux::syscall;

const WIDTH: Width = Width::Bits64;
/// The 47 bits of a program's addresses.
type Bitmap = Dressed<LEAVES, LEAF_WORDS>;
const LEAVES: usize = 1 << 19;
const LEAF_WORDS: usize = 1 << 19;

/// How blocks are guarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Not at all.
    #[default]
    Off = 0,
    /// Canaries on both sides, on the program's own allocator.
    Light = 1,
    /// Blocks in memory of the guard's own, filled, and kept for a while when they are freed.
    Full = 2,
    /// The same, each beside a closed page, and freed ones in closed pages.
    Page = 3,
    /// One block in so many as with `Page`, and nothing else.
    Sampled = 4,
}

/// At which end of a block closed pages stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Sides {
    /// Behind it.
    #[default]
    Behind = 0,
    /// In front of it.
    Before = 1,
    /// At one of both.
    Both = 2,
}

impl Level {
    const ALL: [Level; 5] = [Level::Off, Level::Light, Level::Full, Level::Page, Level::Sampled];

    fn of_number(number: u8) -> Level {
        Level::with_number(number.into()).unwrap_or_default()
    }

    /// The one with a number.
    pub fn with_number(number: i64) -> Option<Level> {
        Level::ALL.into_iter().find(|level| *level as i64 == number)
    }

    pub(crate) const NAMES: [(&str, Level, Sides); guard::ALL.len()] = [
        (guard::OFF, Level::Off, Sides::Behind),
        (guard::LIGHT, Level::Light, Sides::Behind),
        (guard::FULL, Level::Full, Sides::Behind),
        (guard::PAGE, Level::Page, Sides::Behind),
        (guard::PAGE_UNDER, Level::Page, Sides::Before),
        (guard::PAGE_BOTH, Level::Page, Sides::Both),
    ];
}

/// Says where the tables are, for who looks at this process from outside.
fn describe(level: Level, secret: u64, bitmap: &'static Bitmap) {
    let bitmap = core::ptr::from_ref(bitmap) as u64;
    let (leaves, leaf_words) = (LEAVES as u64, LEAF_WORDS as u64);
    let mut tables = GuardTables { level: level as u64, secret, bitmap, leaves, leaf_words, ..GuardTables::default() };
    arenas::describe(&mut tables);
    described::tell(&tables);
}

/// The guard of a process. Untouched where nothing is guarded.
pub struct Guard {
    /// With which it began: what there is.
    level: AtomicU8,
    /// Of new blocks: the same, or a lower one.
    new_level: AtomicU8,
    secret: AtomicU64,
    bitmap: Table<Bitmap>,
    /// Blocks were had before, that are not dressed.
    begins_late: AtomicBool,
    /// Blocks that were handed out as the allocator gave them: no room in the bitmap, or no room for a dressing.
    undressed: AtomicU64,
    /// Blocks that cannot be given back, since nobody knows any more where they begin.
    kept: AtomicU64,
    /// Questions about addresses that are no dressed block's.
    asked: AtomicU64,
    /// Nothing may be asked of the system: new blocks are of what memory of the guard's own there is, or as the allocator gives them.
    is_quiet: AtomicBool,
}

/// There is one in a process.
pub static GUARD: Guard = Guard::new();

impl Guard {
    const fn new() -> Guard {
        Guard {
            level: AtomicU8::new(Level::Off as u8),
            new_level: AtomicU8::new(Level::Off as u8),
            secret: AtomicU64::new(0),
            bitmap: Table::new(),
            begins_late: AtomicBool::new(false),
            undressed: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            is_quiet: AtomicBool::new(false),
        }
    }

    /// From now on what was guarded is known; new blocks are from [`guards_new`](Self::guards_new) on. False if there is no memory for it. See
    /// [`Guarding`].
    pub fn start(&self, wanted: &Guarding) -> bool {
        let level = if wanted.level >= Level::Full { arenas::start(wanted) } else { wanted.level };
        let Some(bitmap) = self.bitmap.get_or_map() else { return false };
        bitmap.touch();
        let secret = syscall::random();
        self.secret.store(secret, Ordering::Relaxed);
        self.begins_late.store(wanted.begins_late, Ordering::Relaxed);
        self.level.store(level as u8, Ordering::Release);
        describe(level, secret, bitmap);
        true
    }

    /// New blocks are guarded from now on: whoever takes blocks knows that some may be.
    pub fn guards_new(&self) {
        self.new_level.store(self.level.load(Ordering::Relaxed), Ordering::Release);
    }

    /// Bytes of the bitmap that are present in memory.
    pub(crate) fn bitmap_bytes(&self) -> u64 {
        let mut bytes = self.bitmap.resident_bytes();
        if let Some(bitmap) = self.bitmap.get() {
            bitmap.for_each_leaf(|leaf| {
                let address = core::ptr::from_ref(leaf) as usize;
                bytes = bytes.wrapping_add(syscall::resident_bytes(address, size_of_val(leaf)));
            });
        }
        bytes
    }

    /// Whether blocks are guarded.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.level.load(Ordering::Relaxed) != Level::Off as u8
    }

    /// Whether the program may make system calls.
    pub fn makes_calls(&self) -> bool {
        !self.is_quiet.load(Ordering::Relaxed)
    }

    /// The program may make no system calls from now on: what needs some is not done any more. Blocks that are guarded stay so.
    #[cold]
    pub fn makes_no_calls(&self) {
        self.is_quiet.store(true, Ordering::SeqCst);
        land::make_no_calls();
    }

    /// New blocks are guarded as at this level from now on; those that are there stay as they are. `None` to ask only. The level of new
    /// blocks before.
    ///
    /// # Errors
    /// If the level is above theirs. One block in so many is none of a lower level, nor of a higher one than no block.
    #[cold]
    pub fn lower(&self, to: Option<Level>) -> Result<Level, NotTold> {
        let now = Level::of_number(self.new_level.load(Ordering::Acquire));
        let Some(to) = to else { return Ok(now) };
        if to != now && (to == Level::Sampled || to > now || now == Level::Sampled && to != Level::Off) {
            return Err(NotTold::NotSo);
        }
        // Of two threads that lower it, both have: the lower level stays.
        let before = match to {
            Level::Off => self.new_level.swap(Level::Off as u8, Ordering::AcqRel),
            to => self.new_level.fetch_min(to as u8, Ordering::AcqRel),
        };
        Ok(Level::of_number(before))
    }

    /// Whether new blocks are dressed, or more than that.
    #[inline(always)]
    pub fn dresses(&self) -> bool {
        self.new_level.load(Ordering::Relaxed) != Level::Off as u8 && !self.is_quiet.load(Ordering::Relaxed)
    }

    /// Whether pages may be closed beside blocks.
    pub fn has_closed_pages(&self) -> bool {
        self.level.load(Ordering::Relaxed) >= Level::Page as u8
    }

    /// Whether new blocks get closed pages.
    #[inline(always)]
    pub(crate) fn closes_pages(&self) -> bool {
        self.new_level.load(Ordering::Relaxed) >= Level::Page as u8
    }

    /// Whether one new block in so many comes from memory of the guard's own.
    #[inline(always)]
    pub fn samples(&self) -> bool {
        self.new_level.load(Ordering::Relaxed) == Level::Sampled as u8
    }

    /// Whether something is done to each block: it is dressed, or comes from memory of the guard's own.
    #[inline(always)]
    pub fn is_of_all(&self) -> bool {
        (Level::Light as u8..=Level::Page as u8).contains(&self.level.load(Ordering::Relaxed))
    }

    /// Whether one block in so many comes from memory of the guard's own.
    #[inline(always)]
    pub fn is_sampled(&self) -> bool {
        self.level.load(Ordering::Relaxed) == Level::Sampled as u8
    }

    /// Whether new blocks come from memory of the guard's own.
    #[inline(always)]
    pub fn has_arena(&self) -> bool {
        (Level::Full as u8..=Level::Page as u8).contains(&self.new_level.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn secret(&self) -> Secret {
        Secret::new(self.secret.load(Ordering::Relaxed))
    }

    /// What to ask the allocator for. `None`: pass the call on as it is.
    #[inline(always)]
    pub fn plan(&self, size: usize, alignment: usize) -> Option<Plan> {
        if self.dresses() { Plan::new(WIDTH, size as u64, alignment as u64) } else { None }
    }

    /// Dresses what the allocator gave, `actual` bytes; what the program gets. `None`: it gets what the allocator gave, and all that was
    /// written there is zeros again.
    #[inline(always)]
    pub fn dress(&self, memory: &impl Memory, plan: &Plan, given: usize, actual: usize) -> Option<usize> {
        let block = heapledger_guard::dress(memory, self.secret(), plan, given as u64, actual as u64)?;
        match self.bitmap.get()?.mark(block.address, &Leaves) {
            // If it was marked, it was given back past us.
            Marked::Done | Marked::Already => Some(block.address as usize),
            Marked::NoRoom => {
                heapledger_guard::undress(memory, &block);
                None
            }
        }
    }

    /// A block of the program's allocator was dressed. Where it was to lie in memory of the guard's own, it is guarded less. The block.
    #[inline(always)]
    pub fn dressed(&self, shared: &Shared, block: usize) -> usize {
        if self.has_arena() && hooks::follows(shared) {
            count_apart(shared, TallyCounter::GuardedLess);
        }
        block
    }

    /// A block was handed out as the allocator gave it.
    #[cold]
    pub fn count_undressed(&self, shared: &Shared) {
        self.undressed.fetch_add(1, Ordering::Relaxed);
        // Where that is what was asked for, it is none that is guarded less.
        if hooks::follows(shared) && self.new_level.load(Ordering::Relaxed) != Level::Off as u8 {
            count_apart(shared, TallyCounter::GuardedLess);
        }
    }

    /// A block was not given back.
    #[cold]
    pub fn count_kept(&self) {
        self.kept.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a dressed block begins here.
    #[inline(always)]
    pub fn begins(&self, address: usize) -> bool {
        self.bitmap.get().is_some_and(|bitmap| bitmap.begins(address as u64))
    }

    /// The block at this address is dressed no more; false if it was not, or another thread was faster.
    #[inline(always)]
    pub fn take_off(&self, address: usize) -> bool {
        self.bitmap.get().is_some_and(|bitmap| bitmap.unmark(address as u64))
    }

    /// It is dressed after all: the call for whose sake it was taken off has failed.
    pub fn put_back(&self, address: usize) {
        if let Some(bitmap) = self.bitmap.get() {
            bitmap.mark(address as u64, &Leaves);
        }
    }

    /// The first dressed block that begins here or above.
    pub fn first_from(&self, address: usize) -> Option<usize> {
        let is_quiet = self.is_quiet.load(Ordering::Relaxed);
        let has_any =
            |words: &[AtomicU32]| is_quiet || syscall::may_be_resident(words.as_ptr().addr(), size_of_val(words));
        self.bitmap.get()?.first_from_if(address as u64, has_any).map(|address| address as usize)
    }

    /// What the header in front of a dressed block says, if it can be believed.
    #[inline(always)]
    pub fn block_at(&self, memory: &impl Memory, address: usize) -> Option<Block> {
        heapledger_guard::block_at(memory, self.secret(), WIDTH, address as u64)
    }

    /// A dressed block that is whole. Else [`Guard::check`] says why not.
    #[inline(always)]
    pub fn whole(&self, memory: &impl Memory, address: usize) -> Option<Block> {
        heapledger_guard::whole(memory, self.secret(), WIDTH, address as u64)
    }

    /// Looks at a dressed block. `None` if `memory` does not have it.
    #[cold]
    #[inline(never)]
    pub fn check(&self, memory: &impl Memory, address: usize) -> Option<Checked> {
        heapledger_guard::check(memory, self.secret(), WIDTH, address as u64)
    }

    /// Whether each block of the process is guarded, so that an address at which none begins is no block of the program's allocator.
    pub(crate) fn knows_all(&self) -> bool {
        self.is_of_all() && !self.begins_late.load(Ordering::Relaxed) && self.undressed.load(Ordering::Relaxed) == 0
    }

    /// Whether an address that is no dressed block's is no block at all: then it must not reach the allocator, which would take what
    /// lies there for its own. `only_ours` says whether nobody has blocks but through us; it is asked a bounded number of times, since
    /// it may take long.
    #[cold]
    pub fn is_no_block(&self, only_ours: impl FnOnce() -> bool) -> bool {
        const ASKED_MAX: u64 = 4096;
        self.knows_all() && self.asked.fetch_add(1, Ordering::Relaxed) < ASKED_MAX && only_ours()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_lowered_and_never_raised() {
        let at = |level: Level| {
            let guard = Guard::new();
            guard.new_level.store(level as u8, Ordering::Relaxed);
            guard
        };
        let guard = at(Level::Page);
        assert_eq!(guard.lower(None), Ok(Level::Page));
        assert_eq!(guard.lower(Some(Level::Sampled)), Err(NotTold::NotSo));
        assert_eq!(guard.lower(Some(Level::Full)), Ok(Level::Page));
        assert_eq!(guard.lower(Some(Level::Page)), Err(NotTold::NotSo));
        assert_eq!(
            (guard.lower(Some(Level::Full)), guard.lower(Some(Level::Light))),
            (Ok(Level::Full), Ok(Level::Full))
        );
        assert!(guard.dresses() && !guard.has_arena() && guard.plan(10, 16).is_some());
        assert_eq!((guard.lower(Some(Level::Off)), guard.lower(Some(Level::Off))), (Ok(Level::Light), Ok(Level::Off)));
        assert!(!guard.dresses() && guard.plan(10, 16).is_none());
        assert_eq!(guard.lower(Some(Level::Light)), Err(NotTold::NotSo));
        let guard = at(Level::Sampled);
        for level in [Level::Light, Level::Full, Level::Page] {
            assert_eq!(guard.lower(Some(level)), Err(NotTold::NotSo));
        }
        assert_eq!((guard.lower(Some(Level::Sampled)), guard.samples()), (Ok(Level::Sampled), true));
        assert_eq!((guard.lower(Some(Level::Off)), guard.samples()), (Ok(Level::Sampled), false));
    }

    #[test]
    fn levels_have_numbers() {
        assert_eq!((0..5).filter_map(Level::with_number).map(|level| level as i64).sum::<i64>(), 10);
        assert_eq!((Level::with_number(5), Level::with_number(-1), Level::with_number(256)), (None, None, None));
    }
}
