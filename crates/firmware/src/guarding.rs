//! Blocks of the firmware's allocators, dressed: what becomes of a call in a library that was built with the feature `guard`.
//!
//! Whether a block is dressed the bits beside its heap say, and nothing else: so a call within a call, or one that found no room for a mark, undoes what another
//! one did. Calls within calls are not looked at for being wrong: they pass on what the outermost has.
//!
//! # Safety
//! A room with `unsafe`: it hands blocks between the firmware and its allocators, and C calls it.

use heapledger::chip::{
    Address, BlockPlan, Books, FoundAt, Frame, GuardedHeap, HeapDamage, Kind, Placed, Sweep, Swept, TakenBack,
};

use crate::entering;
use crate::hooks::{Hook, ONCE};
use crate::layouts::{Given, Resized};
use crate::marks::{self, Entered};
use crate::stub::Pushed;

/// What the firmware says of its guard: `struct heapledger_guard`.
#[repr(C)]
pub(crate) struct ToldGuard {
    heaps: *const GuardedHeap,
    heap_count: usize,
    /// Errors that there is room for.
    pub(crate) errors: u32,
    /// Not 0: new and freed memory is filled.
    fills: u32,
    damaged: Option<extern "C" fn(&HeapDamage)>,
    guarding: &'static Guarding,
}

// SAFETY: it is constant.
unsafe impl Sync for ToldGuard {}

#[expect(improper_ctypes, reason = "C hands addresses on, and looks at nothing there")]
unsafe extern "C" {
    static heapledger_guard: ToldGuard;
    static heapledger_checking_of_layout: &'static Checking;
}

/// What the firmware has told.
#[inline(always)]
pub(crate) fn told_guard() -> &'static ToldGuard {
    // SAFETY: a constant of this type, made by the header of this version.
    unsafe { &heapledger_guard }
}

impl ToldGuard {
    /// Its heaps.
    #[inline(always)]
    pub(crate) fn heaps(&self) -> &'static [GuardedHeap] {
        // SAFETY: the header has counted them.
        unsafe { core::slice::from_raw_parts(self.heaps, self.heap_count) }
    }

    /// Whether memory is filled.
    #[inline(always)]
    pub(crate) fn fills(&self) -> bool {
        self.fills != 0
    }

    /// Tells the firmware.
    pub(crate) fn damaged(&self, found: &HeapDamage) {
        if let Some(damaged) = self.damaged {
            damaged(found);
        }
    }
}

/// What a guard does with blocks, by layout.
pub(crate) struct Guarding {
    dress: fn(usize, Option<&BlockPlan>, usize, (Kind, *const usize)) -> usize,
    undress: fn(usize, Kind, FoundAt, *const usize) -> TakenBack,
    dress_again: fn(usize, &BlockPlan),
    fill_freed: fn(usize, usize) -> u32,
    returned: fn(usize, usize, u32),
    is_dressed: fn(usize) -> bool,
}

/// The checks that a firmware asks for.
pub(crate) struct Checking {
    all: fn() -> u32,
    heap: fn(usize) -> u32,
    block: fn(usize) -> Option<bool>,
    step: fn(&mut Sweep) -> Swept,
}

fn at(frame: *const usize) -> Frame {
    // SAFETY: a stub has pushed it.
    unsafe { Frame::at(frame) }
}

impl Guarding {
    pub(crate) const fn of<B: Placed>() -> Guarding {
        // SAFETY (all): a block that the allocator has just given, or is about to have back, as `give`, `take` and `resize` call them.
        Guarding {
            dress: |given, plan, kept, (kind, frame)| match plan {
                // SAFETY: as above.
                Some(plan) => unsafe {
                    let books = Books::<B>::of();
                    if plan.alignment() > 8 {
                        books.cut_out(given, plan);
                    }
                    books.dress(given, plan, kept, kind, at(frame))
                },
                None => {
                    Books::<B>::of().count_guarded_less();
                    given
                }
            },
            // SAFETY: as above.
            undress: |block, kind, found_at, frame| unsafe {
                Books::<B>::of().undress(block, kind, found_at, at(frame))
            },
            // SAFETY: as above.
            dress_again: |given, plan| unsafe { Books::<B>::of().dress_again(given, plan) },
            // SAFETY: as above.
            fill_freed: |given, bytes| unsafe { Books::<B>::of().fill_freed(given, bytes) },
            // SAFETY: as above.
            returned: |given, bytes, before| unsafe { Books::<B>::of().returned(given, bytes, before) },
            is_dressed: |block| Books::<B>::of().is_dressed(block),
        }
    }
}

impl Checking {
    pub(crate) const fn of<B: Placed>() -> Checking {
        Checking {
            all: || Books::<B>::of().check_integrity(),
            heap: |heap| Books::<B>::of().check_heap(heap),
            block: |block| Books::<B>::of().check_block(block),
            step: |sweep| Books::<B>::of().check_step(sweep),
        }
    }
}

/// Which argument says what a block is to be aligned to.
fn alignment_of(kind: Kind) -> Option<u8> {
    match kind {
        Kind::MEMALIGN | Kind::ALIGNED_ALLOC | Kind::K_ALIGNED_ALLOC => Some(0),
        Kind::HEAP_CAPS_ALIGNED_ALLOC | Kind::HEAP_CAPS_ALIGNED_CALLOC => Some(0),
        Kind::POSIX_MEMALIGN | Kind::MEMALIGN_R => Some(1),
        _ => None,
    }
}

/// What a call is to ask for, so that its block can be dressed; `None`: it is not. (A block of no bytes may be none.)
fn plan_of(hook: &Hook, arguments: &[usize; 4], bytes: Option<usize>) -> Option<BlockPlan> {
    let kind = hook.kind;
    let alignment = alignment_of(kind).map_or(8, |nth| Hook::argument(arguments, nth));
    let is_of_pages = kind == Kind::VALLOC || kind == Kind::PVALLOC;
    let bytes = bytes.filter(|bytes| *bytes != 0 && alignment.is_power_of_two() && !is_of_pages)?;
    BlockPlan::new(bytes, alignment)
}

/// The arguments with which an allocator is asked for so many bytes.
fn asking(hook: &Hook, mut arguments: [usize; 4], plan: &BlockPlan) -> [usize; 4] {
    // One that takes multiples of its alignment only has one.
    let bytes = match hook.kind {
        Kind::ALIGNED_ALLOC => plan.bytes().checked_next_multiple_of(plan.alignment()).unwrap_or(plan.bytes()),
        _ => plan.bytes(),
    };
    put(&mut arguments, hook.size, bytes);
    if hook.times != ONCE {
        put(&mut arguments, hook.times, 1);
    }
    arguments
}

fn put(arguments: &mut [usize; 4], nth: u8, value: usize) {
    if let Some(place) = arguments.get_mut(usize::from(nth & 3)) {
        *place = value;
    }
}

/// A function that gives blocks.
#[inline(never)]
pub(crate) extern "C" fn give(pushed: &mut Pushed, hook: &Hook) -> usize {
    make(pushed, hook, None)
}

/// One that stores its block, and answers 0.
#[inline(never)]
pub(crate) extern "C" fn store(pushed: &mut Pushed, hook: &Hook) -> usize {
    let place = Hook::argument(&pushed.arguments, hook.block);
    make(pushed, hook, Some(core::ptr::with_exposed_provenance_mut(place)))
}

fn make(pushed: &mut Pushed, hook: &Hook, place: Option<*mut usize>) -> usize {
    let arguments = pushed.arguments;
    let cookie = pushed.cookie();
    let entered = marks::enter(cookie, hook.within);
    if entered == Entered::NESTED {
        return hook.call(arguments);
    }
    let bytes = hook.bytes_checked(&arguments);
    let plan = plan_of(hook, &arguments, bytes);
    let call = || hook.call(plan.as_ref().map_or(arguments, |plan| asking(hook, arguments, plan)));
    let answer = match entered.of_new() {
        // What it calls is dressed by nobody: newlib's `memalign` looks at what lies before the block of its `malloc`.
        Some(mark) => mark.closed(cookie, call),
        None => call(),
    };
    let given = match place {
        // SAFETY: the real function has just stored it there.
        Some(place) if answer == 0 => unsafe { place.read() },
        Some(_) => 0,
        None => answer,
    };
    let asked = hook.bytes(&arguments);
    let mut block = given;
    if given != 0 && asked != 0 {
        // Zeros stay.
        let kept = if hook.times == ONCE { 0 } else { asked };
        block = (told_guard().guarding.dress)(given, plan.as_ref(), kept, (hook.kind, pushed.frame()));
    }
    if entered.is_nested() {
        if block == 0 && asked != 0 {
            marks::had_none(entered, cookie);
        }
    } else {
        marks::leave(entered, cookie);
        entered_as(hook, block, asked, (plan.as_ref(), pushed.frame()));
    }
    match place {
        Some(place) if given != 0 => {
            // SAFETY: as above.
            unsafe { place.write(block) };
            answer
        }
        Some(_) => answer,
        None => block,
    }
}

/// Enters a block of a call, with all that the allocator was asked for.
fn entered_as(hook: &Hook, block: usize, bytes: usize, (plan, frame): (Option<&BlockPlan>, *const usize)) {
    // (Of no bytes, none is what there may be.)
    if block != 0 || bytes != 0 {
        let actual = plan.filter(|_| block != 0).map(|plan| plan.bytes() as Address);
        let given = Given { actual, ..hook.given() };
        entering::begin(given, block as Address, bytes as Address, frame);
    }
}

/// A function that takes them back.
#[inline(never)]
pub(crate) extern "C" fn take(pushed: &mut Pushed, hook: &Hook) {
    let mut arguments = pushed.arguments;
    let cookie = pushed.cookie();
    let entered = marks::enter(cookie, hook.within);
    // (None is taken by its fourth argument, where the mark is.)
    let block = Hook::argument(&arguments, hook.block);
    let guarding = told_guard().guarding;
    let mut back = None;
    if block != 0 && (!entered.is_nested() || (guarding.is_dressed)(block)) {
        let taken = (guarding.undress)(block, hook.kind, FoundAt::Free, pushed.frame());
        if !entered.is_nested() {
            entering::end(hook.kind, block as Address, pushed.frame());
        }
        match taken {
            TakenBack::Refused => {
                marks::leave(entered, cookie);
                return;
            }
            TakenBack::Plain => {}
            TakenBack::Dressed { given, bytes, .. } => {
                put(&mut arguments, hook.block, given);
                back = Some((given, bytes, (guarding.fill_freed)(given, bytes)));
            }
        }
    }
    hook.call(arguments);
    if let Some((given, bytes, before)) = back {
        (guarding.returned)(given, bytes, before);
    }
    marks::leave(entered, cookie);
}

/// A function that resizes them.
#[inline(never)]
pub(crate) extern "C" fn resize(pushed: &mut Pushed, hook: &Hook) -> usize {
    let arguments = pushed.arguments;
    let old = Hook::argument(&arguments, hook.block);
    if old == 0 {
        return make(pushed, hook, None);
    }
    let cookie = pushed.cookie();
    let entered = marks::enter(cookie, hook.within);
    let guarding = told_guard().guarding;
    if entered.is_nested() && !(guarding.is_dressed)(old) {
        return hook.call(arguments);
    }
    let bytes = hook.bytes(&arguments);
    let taken = (guarding.undress)(old, hook.kind, FoundAt::Realloc, pushed.frame());
    let kept = if entered.is_nested() { None } else { entering::resizing(old as Address) };
    let (block, plan) = match taken {
        TakenBack::Refused => (0, None),
        TakenBack::Plain => (hook.call(arguments), None),
        TakenBack::Dressed { given, size, .. } => {
            let lead = old.wrapping_sub(given);
            resized(hook, arguments, (given, lead, size), pushed.frame())
        }
    };
    marks::leave(entered, cookie);
    if !entered.is_nested() {
        let actual = plan.filter(|_| block != 0).map(|plan| plan.bytes() as Address);
        let given = Given { actual, ..hook.given() };
        // (No block of no bytes: it was given back.)
        let how = Resized { kept, given, block: block as Address, bytes: bytes as Address };
        entering::resized(&how, pushed.frame());
    }
    block
}

/// Resizes a block that was undressed, and dresses what comes of it, if it can be.
fn resized(
    hook: &Hook,
    mut arguments: [usize; 4],
    (given, lead, size): (usize, usize, usize),
    frame: *const usize,
) -> (usize, Option<BlockPlan>) {
    let guarding = told_guard().guarding;
    let bytes = hook.bytes_checked(&arguments);
    let plan = bytes.filter(|bytes| *bytes != 0).and_then(|bytes| BlockPlan::new(bytes, lead));
    let before = BlockPlan::new(size, lead);
    put(&mut arguments, hook.block, given);
    let Some(plan) = plan else {
        // It is given back, or becomes one that is too large to be dressed: what is in it moves to its beginning.
        let asked = bytes.unwrap_or(usize::MAX);
        if asked != 0 {
            put(&mut arguments, hook.size, asked.saturating_add(lead));
            if hook.times != ONCE {
                put(&mut arguments, hook.times, 1);
            }
        }
        let block = hook.call(arguments);
        if let Some(before) = before.filter(|_| block == 0 && asked != 0) {
            (guarding.dress_again)(given, &before);
        } else if block != 0 && asked != 0 {
            let first: *mut u8 = core::ptr::with_exposed_provenance_mut(block);
            // SAFETY: the allocator has kept as many bytes of the block.
            unsafe { core::ptr::copy(first.wrapping_add(lead), first, size.min(asked)) };
            (guarding.dress)(block, None, 0, (hook.kind, frame));
        }
        return (block, None);
    };
    let moved = hook.call(asking(hook, arguments, &plan));
    if moved == 0 {
        if let Some(before) = &before {
            (guarding.dress_again)(given, before);
        }
        return (0, Some(plan));
    }
    // (Of no bytes one is said to be kept: memory in which something was stored is not looked at.)
    let kept = size.min(bytes.unwrap_or(0)).max(1);
    ((guarding.dress)(moved, Some(&plan), kept, (hook.kind, frame)), Some(plan))
}

fn checking() -> &'static Checking {
    // SAFETY: a constant of this type, made by the header.
    unsafe { heapledger_checking_of_layout }
}

/// Looks at all blocks: how many are damaged.
#[unsafe(no_mangle)]
extern "C" fn heapledger_check_integrity() -> u32 {
    (checking().all)()
}

/// The same of one heap.
#[unsafe(no_mangle)]
extern "C" fn heapledger_check_heap(heap: usize) -> u32 {
    (checking().heap)(heap)
}

/// Looks at one block: 1 it is damaged, 0 it is not, below 0 no guarded block begins there.
#[unsafe(no_mangle)]
extern "C" fn heapledger_check_block(block: usize) -> i32 {
    const UNKNOWN: i32 = -4;
    (checking().block)(block).map_or(UNKNOWN, i32::from)
}

// The header has room for so much.
const _: () = assert!(size_of::<Sweep>() <= 12 && align_of::<Sweep>() <= 4);

/// Looks at the next block: 1 it is damaged, 0 it is not, below 0 there is nothing more.
///
/// # Safety
/// What it is told is zeros, or as the call before has left it.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapledger_check_step(sweep: *mut Sweep) -> i32 {
    // SAFETY: the caller's promise.
    let Some(sweep) = (unsafe { sweep.as_mut() }) else { return -1 };
    match (checking().step)(sweep) {
        Swept::More(is_damaged) => is_damaged.into(),
        Swept::End => -1,
    }
}

/// Says damage as ESP-IDF does.
#[unsafe(no_mangle)]
extern "C" fn heapledger_say_damage(found: &HeapDamage, put: extern "C" fn(i32)) {
    found.say(|letter| put(letter.into()));
}

/// What is wrong: the number of its kind; where; how many bytes.
///
/// # Safety
/// There is room for what is not null.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapledger_damage_kind(found: &HeapDamage, address: *mut usize, bytes: *mut usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(place) = address.as_mut() {
            *place = found.address;
        }
        if let Some(place) = bytes.as_mut() {
            *place = found.bytes;
        }
    }
    found.kind as i32
}
