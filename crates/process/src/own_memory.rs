//! Memory of the guard's own: a range of addresses, who cuts it into blocks (`crates/guard`), and the tables that needs.
#![forbid(unsafe_code)]

use crate::land::{Land, are_huge_pages_slow};
use crate::once::{Early, Starting};
use crate::private::Run;
use crate::shared::Phase;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use heapledger_format::session::guard;
use heapledger_guard::groups::Group;
use heapledger_guard::{Around, Full, Memory, Slot, System, Tables, Used};

/// A block takes at least so much.
const BYTES_OF_A_BLOCK_LEAST: u64 = 64;
/// Bits of an address within its page.
const PAGE_MASK: u64 = 4095;

/// Places of a ring in which so many wait: a power of two, of which half is used. A ring is gone round, so that all of it is touched.
fn places_for(waiting_max: u64) -> u64 {
    waiting_max.clamp(1, guard::QUARANTINE_BLOCKS).saturating_mul(2).next_power_of_two()
}

/// A range of addresses and who cuts it.
pub(crate) struct GuardedRange<A> {
    pub(crate) land: Land,
    pub(crate) arena: A,
}

impl<A> GuardedRange<A> {
    /// The range as an arena sees it.
    #[inline(always)]
    pub(crate) fn system(&self) -> Own<'_> {
        Own(&self.land)
    }
}

/// See [`GuardedRange::system`].
pub(crate) struct Own<'l>(&'l Land);

impl Memory for Own<'_> {
    #[inline(always)]
    fn read<const BYTES: usize>(&self, address: u64) -> Option<[u8; BYTES]> {
        self.0.window().read(address)
    }

    #[inline(always)]
    fn write<const BYTES: usize>(&self, address: u64, bytes: [u8; BYTES]) -> Option<()> {
        self.0.window().write(address, bytes)
    }

    #[inline(always)]
    fn fill(&self, address: u64, bytes: u64, byte: u8) -> Option<()> {
        self.0.window().fill(address, bytes, byte)
    }

    #[inline(always)]
    fn fetch_soon(&self, address: u64) {
        self.0.window().fetch_soon(address);
    }

    #[inline(always)]
    fn first_other(&self, address: u64, bytes: u64, byte: u8) -> Option<u64> {
        self.0.window().first_other(address, bytes, byte)
    }

    #[inline(always)]
    fn is_other(&self, wanted: Around) -> bool {
        self.0.window().is_other(wanted)
    }

    #[inline(always)]
    fn lay(&self, wanted: Around) {
        self.0.window().lay(wanted);
    }
}

impl System for Own<'_> {
    fn close(&self, first: u64, bytes: u64) -> bool {
        self.0.close(first, bytes)
    }

    fn open(&self, first: u64, bytes: u64) -> bool {
        self.0.open(first, bytes)
    }

    fn discard(&self, first: u64, bytes: u64) -> bool {
        self.0.discard(first, bytes)
    }
}

/// Such a range, once it was made.
pub(crate) struct OwnMemory<A> {
    phase: AtomicU8,
    part: Early<Option<GuardedRange<A>>>,
    slots: Run<Slot>,
    units: Run<AtomicU64>,
    queue: Run<AtomicU64>,
    groups: Run<Group>,
    /// First address and end; zeros if there is none.
    range: [AtomicU64; 2],
    /// Up to here it goes into core dumps.
    dumped: AtomicU64,
    is_sealed: AtomicBool,
}

impl<A: Sync + Send> OwnMemory<A> {
    pub(crate) const fn new() -> OwnMemory<A> {
        OwnMemory {
            phase: AtomicU8::new(Phase::Unstarted as u8),
            part: Early::new(None),
            slots: Run::new(),
            units: Run::new(),
            queue: Run::new(),
            groups: Run::new(),
            range: [const { AtomicU64::new(0) }; 2],
            dumped: AtomicU64::new(0),
            is_sealed: AtomicBool::new(false),
        }
    }

    /// Makes it of a range, with a row for so many bytes, a word for so many, and room for so many blocks that wait. False if there is no
    /// memory for that.
    pub(crate) fn start(
        &self,
        land: Option<Land>,
        (bytes_per_slot, bytes_per_unit, groups_per_unit, waiting_max): (u64, u64, u32, u64),
        make: impl FnOnce(&Land, Tables) -> Option<A>,
    ) -> bool {
        let Some(mut starting) = Starting::claim(&self.phase) else { return false };
        let made = land.and_then(|land| {
            let count = |each: u64| u32::try_from(land.bytes().checked_div(each)?).ok();
            let tables = Tables {
                slots: self.slots.map(count(bytes_per_slot)?)?,
                units: self.units.map(count(bytes_per_unit)?)?,
                queue: self.queue.map(u32::try_from(places_for(waiting_max)).ok()?)?,
                groups: match groups_per_unit {
                    0 => &[],
                    _ => self.groups.map(count(bytes_per_unit)?.checked_mul(groups_per_unit)?)?,
                },
            };
            Some(GuardedRange { land, arena: make(&land, tables)? })
        });
        let is_there = made.is_some();
        if let Some(part) = made {
            let [first, end] = &self.range;
            end.store(part.land.first().saturating_add(part.land.bytes()), Ordering::Relaxed);
            first.store(part.land.first(), Ordering::Relaxed);
            self.dumped.store(part.land.first(), Ordering::Relaxed);
            self.slots.dump_only(0);
            self.units.dump_only(0);
            // Not by themselves, where the system would: a small program touches little of each.
            self.slots.make_huge(false);
            self.units.make_huge(false);
            self.groups.make_huge(false);
            // Nobody who looks from outside asks what is free.
            self.groups.dump_only(0);
            self.part.change(&mut starting, |place| *place = Some(part));
        }
        starting.end(if is_there { Phase::On } else { Phase::Off });
        is_there
    }

    /// A block ends here: so far at least it goes into core dumps.
    #[inline(always)]
    pub(crate) fn is_used_up_to(&'static self, end: u64) {
        if end > self.dumped.load(Ordering::Relaxed) {
            self.dump_up_to(end);
        }
    }

    #[cold]
    #[inline(never)]
    fn dump_up_to(&'static self, end: u64) {
        /// The kernel is told in steps, larger and larger ones up to this.
        const STEP_LEAST: u64 = 4 << 20;
        const STEP_MOST: u64 = 32 << 20;
        let Some(part) = self.get().filter(|_| !self.is_sealed.load(Ordering::Acquire)) else { return };
        let (first, dumped) = (part.land.first(), self.dumped.load(Ordering::Relaxed));
        let step = dumped.saturating_sub(first).clamp(STEP_LEAST, STEP_MOST);
        let wanted = end.max(dumped).saturating_add(step).min(first.saturating_add(part.land.bytes())) & !PAGE_MASK;
        if self.dumped.fetch_max(wanted, Ordering::Relaxed) < wanted {
            part.land.dump(dumped, wanted.saturating_sub(dumped));
            if !part.land.may_be_changed() {
                return;
            }
            // It is much: with small pages, finding them takes a good part of each look at a freed block. Larger blocks have what they are for
            // themselves, and may never be used whole; nor would what is tried of so much say how the rest is.
            if dumped > first && end.saturating_sub(dumped) <= STEP_MOST && !self.is_sealed.load(Ordering::Acquire) {
                part.land.make_huge(dumped, wanted.saturating_sub(dumped));
            }
            if !part.land.may_be_changed() {
                return;
            }
            if dumped > first {
                self.slots.make_huge(!are_huge_pages_slow());
            }
            // As many rows as the smallest blocks there can have.
            let bytes = wanted.saturating_sub(first);
            self.slots.dump_only(bytes / BYTES_OF_A_BLOCK_LEAST);
            self.units.dump_only(bytes / PAGE_MASK);
        }
    }

    /// Gives back what was never used: nothing more is cut, and what there is goes on. Once; false if that was done.
    pub(crate) fn seal(&'static self, seal: impl FnOnce(&A) -> Used) -> bool {
        let Some(part) = self.get() else { return false };
        if self.is_sealed.swap(true, Ordering::AcqRel) {
            return false;
        }
        let used = seal(&part.arena);
        let [first, end] = &self.range;
        // Before others can be given those addresses.
        end.store(first.load(Ordering::Relaxed).saturating_add(used.bytes), Ordering::SeqCst);
        part.land.give_back_from(used.bytes);
        self.slots.give_back_from(used.slots);
        self.units.give_back_from(used.units);
        self.groups.give_back_from(used.units.saturating_mul(u64::from(Full::GROUPS_PER_UNIT)));
        true
    }

    /// Where the rows lie, and how many there are.
    pub(crate) fn slots(&self) -> (u64, u64) {
        (self.slots.all().as_ptr() as u64, u64::from(self.slots.count()))
    }

    /// It, if it was made.
    #[inline(always)]
    pub(crate) fn get(&'static self) -> Option<&'static GuardedRange<A>> {
        if self.phase.load(Ordering::Acquire) == Phase::On as u8 { self.part.get().as_ref() } else { None }
    }

    /// Whether an address lies in it.
    #[inline(always)]
    pub(crate) fn contains(&self, address: usize) -> bool {
        let [first, end] = &self.range;
        (first.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&(address as u64))
    }

    /// Its first address and its end; zeros if there is none.
    pub(crate) fn range(&self) -> (u64, u64) {
        let [first, end] = &self.range;
        (first.load(Ordering::Relaxed), end.load(Ordering::Relaxed))
    }

    /// It, if the address lies in it.
    #[inline(always)]
    pub(crate) fn at(&'static self, address: usize) -> Option<&'static GuardedRange<A>> {
        if self.contains(address) { self.get() } else { None }
    }
}
