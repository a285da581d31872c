//! Blocks of a chip dressed with canaries: how they are put on, taken off and looked at, and what is said of damage.
//!
//! What a guard knows lies beside the heap ([`GuardedHeap`]) and is looked at alone, as [`Board::alone`](super::Board::alone) says, a few hundred bytes at a time. The blocks
//! themselves are looked at and filled without that: they are nobody else's while their allocator gives or takes them.
//!
//! # Safety
//! A room with `unsafe`: functions that fill memory or dress it, which whoever calls them must have.

use super::guarded_heap::GuardedHeap;
use super::{Address, Books, Frame, Kind, Placed};
use core::cell::Cell;
use heapledger_format::errors::{Direction, ErrorKind, FoundAt, FoundBy, Whereabouts};
use heapledger_guard::small::{
    Bad, SMALL_FREED_FILL, SMALL_NEW_FILL, SmallBlock, SmallDamage, SmallHeap, SmallPlan, corrupt_lines, dress_small,
    mark_freed, structure_line, was_freed,
};
use heapledger_guard::{Memory, Region};
use heapledger_recorder::chip::NewError;

/// Bytes in front of a block and behind it where allocators have words of their own.
const ALLOCATORS_BYTES: u32 = 40;

/// What to ask an allocator for, so that a block can be dressed.
#[derive(Clone, Copy, Debug)]
pub struct BlockPlan(SmallPlan);

impl BlockPlan {
    /// For a block of this size and alignment, a power of two. `None`: it is too large for that, and is handed out as it is.
    #[inline(always)]
    pub fn new(size: usize, alignment: usize) -> Option<BlockPlan> {
        SmallPlan::new(u32::try_from(size).ok()?, u32::try_from(alignment).ok()?).map(BlockPlan)
    }

    /// Bytes to ask for: a multiple of eight.
    #[inline(always)]
    pub const fn bytes(&self) -> usize {
        self.0.bytes() as usize
    }

    /// The alignment to ask for, which is how far into it the block begins.
    #[inline(always)]
    pub const fn alignment(&self) -> usize {
        self.0.alignment() as usize
    }
}

/// Damage that was found, as [`Board::damaged`](super::Board::damaged) is told of it.
#[derive(Clone, Copy, Debug)]
pub struct HeapDamage {
    /// What is wrong.
    pub kind: ErrorKind,
    /// When it was found.
    pub found_at: FoundAt,
    /// The first damaged byte; of a wrong call, what was passed to it.
    pub address: usize,
    /// Bytes from the first to the last that is damaged.
    pub bytes: usize,
    /// The block, if that is known.
    pub block: Option<usize>,
    damage: Option<SmallDamage>,
    known: Option<SmallBlock>,
    heap: &'static GuardedHeap,
}

impl HeapDamage {
    /// Says it as ESP-IDF does, in lines such as `CORRUPT HEAP: Bad head at 0x20000104. Expected 0xabba1234 got 0xabba1235`, letter by letter. Of a
    /// wrong call it says nothing. What is there now is read again.
    pub fn say(&self, mut put: impl FnMut(u8)) {
        match (&self.damage, self.kind) {
            (Some(damage), _) => {
                let limit = (self.heap.first.addr() as u32).wrapping_add(self.heap.bytes as u32);
                corrupt_lines(&self.heap.memory(), damage, (self.known.as_ref(), limit), &mut put);
            }
            (None, ErrorKind::CorruptMetadata) => structure_line(self.address as u32, &mut put),
            _ => {}
        }
    }
}

/// How a call came by a block, for what is said of damage: by which function, from where, and when that is.
#[derive(Clone, Copy)]
pub(super) struct By {
    pub(super) kind: Kind,
    pub(super) from: Frame,
    pub(super) at: FoundAt,
}

/// What is to be done with a block that a program gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenBack {
    /// It was dressed: the allocator has given so many bytes from this address on.
    Dressed {
        /// What the allocator has given.
        given: usize,
        /// What the program had.
        block: usize,
        /// Bytes that it had.
        size: usize,
        /// Bytes that the allocator was asked for.
        bytes: usize,
    },
    /// It was not: it goes to the allocator as it is.
    Plain,
    /// It is no block, or nobody knows where it begins: it does not go to the allocator, and that was told.
    Refused,
}

impl<B: Placed> Books<B> {
    /// The heap in which an address lies.
    #[inline(always)]
    pub(super) fn guarded_heap(address: usize) -> Option<&'static GuardedHeap> {
        B::guarded().iter().find(|heap| heap.has(address))
    }

    /// Enters damage and says so.
    #[cold]
    #[inline(never)]
    pub(super) fn tell(self, by: By, found: &HeapDamage, operands: [Address; 2]) {
        let damage = found.damage;
        let is_freed = damage.is_some_and(|damage| damage.region == Region::Freed);
        let mut error = NewError {
            kind: found.kind,
            found_by: match damage {
                Some(_) if is_freed => FoundBy::Fill,
                Some(_) => FoundBy::Canary,
                None => FoundBy::State,
            },
            found_at: found.found_at,
            direction: damage.map(|_| Direction::Write),
            whereabouts: Some(if is_freed { Whereabouts::FreedBlock } else { Whereabouts::Heap }),
            called: by.kind,
            address: found.address as Address,
            bytes: found.bytes as Address,
            block: found.block.unwrap_or(0) as Address,
            block_bytes: found.known.map_or(0, |block| Address::from(block.size)),
            operands,
            expected: [0; 8],
            found: [0; 8],
        };
        if let Some(damage) = damage {
            let memory = found.heap.memory();
            let mut at = damage.address;
            let places = error.expected.iter_mut().zip(&mut error.found).take(damage.bytes as usize);
            for (expected, there) in places {
                let was = damage.expected(found.known.as_ref(), at.wrapping_sub(damage.address));
                if let Some((was, [is])) = was.zip(memory.read(at.into())) {
                    (*expected, *there) = (was, is);
                }
                at = at.wrapping_add(1);
            }
        }
        self.enter_error(&error, by.from);
        B::error_found();
        B::damaged(found);
    }

    /// The same of both sides of a block, or of blocks in one place.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_bad(self, heap: &'static GuardedHeap, address: u32, bad: Bad, by: By) {
        let whole = |address| heap.memory().whole(address);
        let mut found = HeapDamage {
            kind: ErrorKind::CorruptMetadata,
            found_at: by.at,
            address: whole(address),
            bytes: 0,
            block: Some(whole(address)),
            damage: None,
            known: None,
            heap,
        };
        match bad {
            Bad::Overlaps(other) => self.tell(by, &found, [address as Address, other as Address]),
            Bad::Damaged(checked) => {
                found.known = checked.block;
                if let Some(below) = &checked.below {
                    self.tell_side(&mut found, ErrorKind::BufferUnderflow, below, by);
                }
                if let Some(above) = &checked.above {
                    self.tell_side(&mut found, ErrorKind::BufferOverflow, above, by);
                }
            }
        }
    }

    #[inline(never)]
    fn tell_side(self, found: &mut HeapDamage, kind: ErrorKind, damage: &SmallDamage, by: By) {
        (found.kind, found.damage) = (kind, Some(*damage));
        (found.address, found.bytes) = (found.heap.memory().whole(damage.address), damage.bytes as usize);
        self.tell(by, found, [0; 2]);
    }

    /// Damage of freed memory.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_freed(self, heap: &'static GuardedHeap, damage: &SmallDamage, by: By) {
        let found = HeapDamage {
            kind: ErrorKind::UseAfterFree,
            found_at: by.at,
            address: heap.memory().whole(damage.address),
            bytes: damage.bytes as usize,
            block: None,
            damage: Some(*damage),
            known: None,
            heap,
        };
        self.tell(by, &found, [0; 2]);
    }

    /// A call that is wrong by itself.
    #[cold]
    #[inline(never)]
    fn tell_call(
        self,
        heap: &'static GuardedHeap,
        kind: ErrorKind,
        (address, block): (usize, Option<SmallBlock>),
        by: By,
    ) {
        let whole = |block: SmallBlock| heap.memory().whole(block.address);
        let found_at = FoundAt::Call;
        let block_at = block.map(whole);
        let found = HeapDamage { kind, found_at, address, bytes: 0, block: block_at, damage: None, known: block, heap };
        self.tell(by, &found, [0; 2]);
    }

    /// A block was given back, or is to be resized, with another size or alignment than it has.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_layout(self, block: usize, known: (usize, usize), told: (usize, usize), by: By) {
        if let Some(heap) = Self::guarded_heap(block) {
            let (address, size, lead) = (block as u32, known.0 as u32, known.1 as u32);
            let known = Some(SmallBlock { address, size, lead });
            let (kind, found_at) = (ErrorKind::WrongLayout, FoundAt::Call);
            let found =
                HeapDamage { kind, found_at, address: block, bytes: 0, block: Some(block), damage: None, known, heap };
            self.tell(by, &found, [told.0 as Address, told.1 as Address]);
        }
    }

    /// What an allocator gave, as `plan` has asked for it, is dressed: what the program is to have. (It is handed out as it is, and counted, if it lies in no heap that is
    /// guarded, or not at a multiple of eight.) `kept`: so many of its first bytes are what they are to be; the others, if new memory is to be filled, are filled. (0: nobody has stored anything there, and whether freed memory was left
    /// alone is looked at.)
    ///
    /// # Safety
    /// An allocator has just given it, with as many bytes.
    pub unsafe fn dress(
        self,
        given: usize,
        BlockPlan(plan): &BlockPlan,
        kept: usize,
        kind: Kind,
        from: Frame,
    ) -> usize {
        let heap = Self::guarded_heap(given).filter(|guarded| guarded.heap().has_all(given as u32, plan.bytes()));
        let Some(guarded) = heap else { return self.undressed(given) };
        if B::fills_freed() {
            let by = By { kind, from, at: FoundAt::Allocation };
            self.hand_out(guarded, (given as u32, plan.bytes()), (kept == 0).then_some(by));
        }
        let memory = guarded.memory();
        let Some(block) = dress_small(&memory, plan, given as u32) else { return self.undressed(given) };
        let kept = (kept as u32).min(block.size);
        if B::fills_freed() {
            memory.fill(block.address.wrapping_add(kept), block.size.wrapping_sub(kept), SMALL_NEW_FILL);
        }
        B::alone(|| guarded.heap().mark(block.address));
        memory.whole(block.address)
    }

    /// A block is handed out as it is.
    #[cold]
    fn undressed(self, given: usize) -> usize {
        self.count_guarded_less();
        given
    }

    /// Before [`Books::dress`], where an allocator cuts aligned blocks out of larger ones: what is left of these lies on both sides, and it has words of
    /// its own there.
    #[cold]
    #[inline(never)]
    pub fn cut_out(self, given: usize, plan: &BlockPlan) {
        let Some(guarded) = Self::guarded_heap(given) else { return };
        let (memory, heap, given) = (guarded.memory(), guarded.heap(), given as u32);
        let around = ALLOCATORS_BYTES.wrapping_add((plan.alignment() as u32).wrapping_mul(2));
        let in_front = given.wrapping_sub(heap.first).min(around);
        B::alone(|| {
            heap.leave_allocators(&memory, given.wrapping_sub(in_front), in_front);
            heap.leave_allocators(&memory, given.wrapping_add(plan.bytes() as u32), around);
        });
    }

    /// Freed memory is in use again: whether it was left alone is looked at.
    #[inline(never)]
    fn hand_out(self, guarded: &'static GuardedHeap, (first, bytes): (u32, u32), by: Option<By>) {
        let memory = guarded.memory();
        B::alone(|| {
            if let Some(given) = guarded.given() {
                given.set(given.get().wrapping_add(1));
            }
            // What the allocator has stored at its ends is not the program's doing.
            let heap = guarded.heap();
            let in_front = first.wrapping_sub(heap.first).min(ALLOCATORS_BYTES);
            heap.leave_allocators(&memory, first.wrapping_sub(in_front), in_front);
            heap.leave_allocators(&memory, first.wrapping_add(bytes), ALLOCATORS_BYTES);
        });
        // Some allocators store zeros in all that they give: then nobody knows what was there.
        let by = by.filter(|_| memory.first_other(first.into(), bytes.into(), 0).is_some());
        SmallHeap::in_slices(first, bytes, |at, now| {
            let (mut at, end) = (at, at.wrapping_add(now));
            while let Some((damage, by)) = guarded.heap().damage_in_filled(&memory, at, end.wrapping_sub(at)).zip(by) {
                self.tell_freed(guarded, &damage, by);
                at = SmallHeap::behind(&damage);
            }
            B::alone(|| guarded.heap().forget_filled(end.wrapping_sub(now), now));
        });
    }

    /// A block that a program gives back, or resizes, has its dressing looked at, and is dressed no more. To be called before the ledger knows that it ends.
    ///
    /// # Safety
    /// It is one of the program's, or one that is not.
    pub unsafe fn undress(self, address: usize, kind: Kind, at: FoundAt, from: Frame) -> TakenBack {
        let Some(guarded) = Self::guarded_heap(address) else { return TakenBack::Plain };
        let (memory, by) = (guarded.memory(), By { kind, from, at });
        let low = address as u32;
        if !B::alone(|| guarded.heap().unmark(low)) {
            return self.not_marked(guarded, address, by);
        }
        let block = match guarded.heap().whole(&memory, low) {
            Some(block) => block,
            None => match self.damaged_block(guarded, low, by) {
                Some(block) => block,
                None => {
                    if at == FoundAt::Realloc {
                        // It stays as it is.
                        B::alone(|| guarded.heap().mark(low));
                    } else {
                        mark_freed(&memory, low);
                    }
                    return TakenBack::Refused;
                }
            },
        };
        let whole = |low| memory.whole(low);
        mark_freed(&memory, low);
        TakenBack::Dressed {
            given: whole(block.given()),
            block: address,
            size: block.size as usize,
            bytes: block.bytes() as usize,
        }
    }

    /// Says what is wrong with it. The block, if that is known all the same.
    #[cold]
    #[inline(never)]
    fn damaged_block(self, guarded: &'static GuardedHeap, low: u32, by: By) -> Option<SmallBlock> {
        let checked = match guarded.heap().examine(&guarded.memory(), low) {
            Err(Some(Bad::Damaged(checked))) => checked,
            _ => return None,
        };
        self.tell_bad(guarded, low, Bad::Damaged(checked), by);
        checked.block
    }

    /// What is given back is no dressed block: is it certain that it is none at all?
    #[cold]
    #[inline(never)]
    fn not_marked(self, guarded: &'static GuardedHeap, address: usize, by: By) -> TakenBack {
        let memory = guarded.memory();
        let (low, heap) = (address as u32, guarded.heap());
        if let Some(block) =
            B::alone(|| heap.block_around(&memory, low)).filter(|block| low.wrapping_sub(block.given()) != 0)
        {
            let is_inside = low > block.address;
            if is_inside {
                self.tell_call(guarded, ErrorKind::BadFree, (address, Some(block)), by);
                return TakenBack::Refused;
            }
        }
        let is_aligned = low % 8 == 0 && low.wrapping_sub(heap.first) >= 8;
        if is_aligned && was_freed(&memory, low) && !self.is_live(address) {
            self.tell_call(guarded, ErrorKind::DoubleFree, (address, None), by);
            return TakenBack::Refused;
        }
        TakenBack::Plain
    }

    /// Whether a block that is dressed begins there.
    pub fn is_dressed(self, address: usize) -> bool {
        Self::guarded_heap(address).is_some_and(|guarded| B::alone(|| guarded.heap().begins(address as u32)))
    }

    /// A block stays as it was: the allocator did not resize it.
    ///
    /// # Safety
    /// It was [undressed](Self::undress) just now.
    pub unsafe fn dress_again(self, given: usize, BlockPlan(plan): &BlockPlan) {
        if let Some(guarded) = Self::guarded_heap(given)
            && let Some(block) = dress_small(&guarded.memory(), plan, given as u32)
        {
            B::alone(|| guarded.heap().mark(block.address));
        }
    }

    /// A block that was undressed is filled, if freed memory is, before its allocator has it. Tells for [`Self::returned`] what was given until then.
    ///
    /// # Safety
    /// Nobody uses it any more.
    pub unsafe fn fill_freed(self, given: usize, bytes: usize) -> u32 {
        let Some(guarded) = Self::guarded_heap(given).filter(|_| B::fills_freed()) else { return 0 };
        guarded.memory().fill(given as u32, bytes as u32, SMALL_FREED_FILL);
        B::alone(|| guarded.given().map_or(0, Cell::get))
    }

    /// The allocator has it back: what of it is filled still is watched from now on. If it has given a block meanwhile, that may be this one.
    ///
    /// # Safety
    /// As above; `before` is what [`Self::fill_freed`] has told.
    pub unsafe fn returned(self, given: usize, bytes: usize, before: u32) {
        let Some(guarded) = Self::guarded_heap(given).filter(|_| B::fills_freed()) else { return };
        let memory = guarded.memory();
        SmallHeap::in_slices(given as u32, bytes as u32, |at, now| {
            B::alone(|| {
                if guarded.given().map_or(0, Cell::get) == before {
                    guarded.heap().note_filled(&memory, at, now);
                }
            });
        });
    }
}
