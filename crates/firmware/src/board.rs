//! What the firmware has told, in the constant that the header makes; and the three boards with it.
//!
//! # Safety
//! A room with `unsafe`: it reads that constant, calls functions of the firmware's, and lends the region that the header made.

use core::mem::MaybeUninit;

use heapledger::chip::{
    Address, Board, ChipBoot, Config, Frame, FrameList, InRealloc, Kind, Placed, Room, Stacks, header, header_len,
};

#[cfg(feature = "guard")]
use crate::guarding::told_guard;
use crate::layouts::{Functions, Given, Resized, Resizing};
use crate::marks::{Entered, Mark};
use crate::{processor, sizes};

/// A heap of the firmware's: `struct heapledger_heap`.
#[repr(C)]
pub(crate) struct ToldHeap {
    name: *const u8,
    name_bytes: usize,
    low: *const u8,
    high: *const u8,
}

/// All that the firmware has told: `struct heapledger_board`. Functions that are not there are null.
#[repr(C)]
pub(crate) struct Told {
    /// How much there is room for.
    pub(crate) room: Room,
    heaps: *const ToldHeap,
    process: *const u8,
    process_bytes: usize,
    /// The functions of the layout.
    pub(crate) functions: &'static Functions,
    /// Marks of calls under way, and how many there is room for.
    pub(crate) marks: *const Mark,
    /// That.
    pub(crate) mark_count: usize,
    /// Finds the mark of a call, if calls may lie within others.
    pub(crate) find_mark: Option<extern "C" fn(*mut usize, usize) -> Entered>,
    actual: Option<extern "C" fn(*const u8) -> usize>,
    enter: extern "C" fn() -> u32,
    leave: extern "C" fn(u32),
    ticks: extern "C" fn() -> u32,
    task: extern "C" fn() -> usize,
    in_interrupt: extern "C" fn() -> usize,
    stack_end: Option<extern "C" fn(usize) -> usize>,
    stack: Option<extern "C" fn(usize, &mut FrameList)>,
    code_start: *const u8,
    code_end: *const u8,
    /// Says of which build the firmware is: where to, how many bytes there are.
    build_id: Option<extern "C" fn(*mut u8, usize)>,
    /// The linker's note with the build id.
    build_note: *const u8,
    build_note_end: *const u8,
    /// Records are scarce.
    scarce: Option<extern "C" fn()>,
}

// SAFETY: it is constant.
unsafe impl Sync for Told {}

#[expect(improper_ctypes, reason = "C hands the address of the functions on, and looks at nothing there")]
unsafe extern "C" {
    static heapledger_board: Told;
    static heapledger_resizing_of_layout: &'static Resizing;
    fn heapledger_is_live(block: usize) -> i32;
    static mut heapledger_ledger: Address;
}

/// What the firmware has told.
#[inline(always)]
pub(crate) fn told() -> &'static Told {
    // SAFETY: a constant of this type, made by the header of this version (the name of the layout's functions has it).
    unsafe { &heapledger_board }
}

/// The functions of the layout that resize: apart, so that firmware without has none of them.
#[inline(always)]
fn functions_that_resize() -> &'static Resizing {
    // SAFETY: as above.
    unsafe { heapledger_resizing_of_layout }
}

fn room() -> &'static Room {
    &told().room
}

/// A block begins: see [`Functions`].
#[inline(always)]
pub(crate) fn begin(given: Given, block: Address, bytes: Address, frame: *const usize) -> Address {
    (told().functions.begin)(given, block, bytes, frame)
}

/// Whether one that begins there is in the ledger.
pub(crate) fn is_live(block: Address) -> bool {
    // SAFETY: a function of the header's.
    unsafe { heapledger_is_live(block as usize) != 0 }
}

/// A call gave no block.
pub(crate) fn refused() {
    begin(Given::of(Kind::POOL_ALLOC, None), 0, 0, core::ptr::null());
}

/// One ends.
#[inline(always)]
pub(crate) fn end(by: Kind, block: Address, frame: *const usize) -> bool {
    (told().functions.end)(by, block, frame)
}

/// One is about to be resized.
#[inline(always)]
pub(crate) fn resizing(block: Address) -> Option<InRealloc<Address>> {
    (functions_that_resize().resizing)(block)
}

/// It was.
#[inline(always)]
pub(crate) fn resized(how: &Resized, frame: *const usize) -> bool {
    (functions_that_resize().resized)(how, frame)
}

/// Bytes that a block really has.
#[inline(always)]
pub(crate) fn actual(block: Address) -> Option<Address> {
    told().actual(block)
}

impl Told {
    /// Bytes that a block really has, if the firmware can tell.
    #[inline(always)]
    pub(crate) fn actual(&self, block: Address) -> Option<Address> {
        let actual = self.actual?(core::ptr::with_exposed_provenance(block as usize));
        (actual != 0).then_some(actual as Address)
    }

    /// Runs something alone.
    #[inline(always)]
    pub(crate) fn alone<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = (self.enter)();
        let result = work();
        (self.leave)(before);
        result
    }

    /// The number of the interrupt whose handler runs, or 0.
    #[inline(always)]
    pub(crate) fn interrupt(&self) -> usize {
        (self.in_interrupt)()
    }

    /// The linker's note with the build id.
    pub(crate) fn build_note(&self) -> &'static [u8] {
        let bytes = self.build_note_end.addr().saturating_sub(self.build_note.addr());
        // SAFETY: the linker script says that the note lies from the one to the other, and nothing changes it.
        unsafe { core::slice::from_raw_parts(self.build_note, bytes) }
    }

    /// The handle of the task that runs, or 0.
    #[inline(always)]
    pub(crate) fn task(&self) -> usize {
        (self.task)()
    }
}

/// How stacks are found that the firmware has taken by a function of this library.
struct By<const SCANNED: bool>;

macro_rules! as_told {
    () => {
        #[inline(always)]
        fn stack_end(within: usize) -> usize {
            match told().stack_end {
                Some(end) if !processor::is_of_handler(within) => end(within),
                _ => heapledger::chip::main_stack_end(),
            }
        }
    };
}

// SAFETY: nothing is recorded by it.
unsafe impl<const SCANNED: bool> Board for By<SCANNED> {
    const CONFIG: Config<'static> = sizes::MINIMAL;
    const STACKS: Stacks = if SCANNED { Stacks::Scan } else { Stacks::FramePointers };
    as_told!();

    #[inline(always)]
    fn code() -> core::ops::Range<usize> {
        let told = told();
        match told.code_end.addr() {
            // A scan without that finds nothing: it would have to look at code that may not be there.
            0 if SCANNED => 0..0,
            0 => 0..usize::MAX,
            end => told.code_start.addr()..end,
        }
    }
}

/// Along frame pointers.
#[unsafe(no_mangle)]
extern "C" fn heapledger_frame_pointers(frame: usize, frames: &mut FrameList) {
    // SAFETY: a frame that a function of this library has pushed.
    By::<false>::stack(unsafe { Frame::at(core::ptr::with_exposed_provenance(frame)) }, frames);
}

/// By return addresses on the stack.
#[unsafe(no_mangle)]
extern "C" fn heapledger_scan(frame: usize, frames: &mut FrameList) {
    // SAFETY: as above.
    By::<true>::stack(unsafe { Frame::at(core::ptr::with_exposed_provenance(frame)) }, frames);
}

/// A function of the firmware's has found a frame. 0 if there is no room for more.
#[unsafe(no_mangle)]
extern "C" fn heapledger_push_frame(frames: &mut FrameList, code: usize) -> i32 {
    frames.push(code as Address).into()
}

/// Some of what it has found is guessed.
#[unsafe(no_mangle)]
extern "C" fn heapledger_guessed(frames: &mut FrameList) {
    frames.guessed();
}

macro_rules! layout {
    ($(#[$doc:meta])* $name:ident, $config:expr, $survives:literal) => {
        $(#[$doc])*
        pub(crate) struct $name;

        // SAFETY: the firmware says how to be alone.
        unsafe impl Board for $name {
            #[cfg(not(feature = "guard"))]
            const CONFIG: Config<'static> = $config;
            #[cfg(feature = "guard")]
            const CONFIG: Config<'static> = sizes::guarded($config);
            const SURVIVES: bool = $survives;
            as_told!();

            #[inline(always)]
            fn alone<T>(work: impl FnOnce() -> T) -> T {
                told().alone(work)
            }
            #[inline(always)]
            fn ticks() -> u32 {
                (told().ticks)()
            }
            #[inline(always)]
            fn task() -> Option<Address> {
                let task = told().task();
                (task != 0).then_some(task as Address)
            }
            #[inline(always)]
            fn is_in_interrupt() -> bool {
                told().interrupt() != 0
            }
            #[cfg(feature = "hooks")]
            #[inline(always)]
            fn entered(what: &heapledger::chip::Entered<'_, Self>) {
                crate::telling::entered(what);
            }
            #[cfg(feature = "guard")]
            #[inline(always)]
            fn guarded() -> &'static [heapledger::chip::GuardedHeap] {
                told_guard().heaps()
            }
            #[cfg(feature = "guard")]
            #[inline(always)]
            fn fills_freed() -> bool {
                told_guard().fills()
            }
            #[cfg(feature = "guard")]
            fn damaged(found: &heapledger::chip::HeapDamage) {
                told_guard().damaged(found);
            }
            #[inline(always)]
            fn records_scarce() {
                if let Some(scarce) = told().scarce {
                    scarce();
                }
            }
            #[inline(always)]
            fn stack(from: Frame, frames: &mut FrameList) {
                match told().stack {
                    // A function of the firmware's is asked only where there is a frame.
                    Some(stack) if from.address() != 0 => stack(from.address(), frames),
                    _ => from.caller(frames),
                }
            }
        }

        // SAFETY: the header has made so many words, and they have no other name.
        unsafe impl Placed for $name {
            type Frames = [MaybeUninit<Address>; sizes::DEPTH_MAX];
            const HEADER: &'static [u32] = &header::<$name, { header_len::<$name>() }>();
            const ROOM: Option<fn() -> &'static Room> = Some(room);

            #[inline(always)]
            fn region() -> *mut Address {
                &raw mut heapledger_ledger
            }
            fn boot() -> &'static ChipBoot {
                static BOOT: ChipBoot = ChipBoot::new();
                &BOOT
            }
            #[inline(always)]
            fn words() -> usize {
                room().words as usize
            }
            #[inline(always)]
            fn depth() -> usize {
                room().depth as usize
            }
            #[inline(always)]
            fn heap_range(nth: u32) -> (u64, u64) {
                let heap = heap(nth);
                (heap.low.addr() as u64, heap.high.addr() as u64)
            }
            fn heap_name(nth: u32) -> &'static [u8] {
                let heap = heap(nth);
                // SAFETY: a constant text, with its length.
                unsafe { core::slice::from_raw_parts(heap.name, heap.name_bytes.min(sizes::HEAP_NAME_BYTES)) }
            }
            #[cfg(feature = "guard")]
            #[inline(always)]
            fn errors() -> u32 {
                told_guard().errors
            }
            fn process() -> &'static [u8] {
                // SAFETY: a text of the header's, with its length.
                unsafe { core::slice::from_raw_parts(told().process, told().process_bytes) }
            }
            #[inline(always)]
            fn laid_out() {
                let (told, room) = (told(), room());
                if let (false, Some(build_id)) = (Self::CONFIG.process.is_empty(), told.build_id) {
                    let first = Self::region().wrapping_add(room.process_at as usize).cast::<u8>();
                    let vacant = (room.process_bytes as usize).saturating_sub(told.process_bytes);
                    build_id(first.wrapping_add(told.process_bytes), vacant);
                }
            }
        }
    };
}

/// A heap that there is.
#[inline(always)]
fn heap(nth: u32) -> &'static ToldHeap {
    // SAFETY: the header has counted them.
    unsafe { &*told().heaps.wrapping_add(nth as usize) }
}

layout!(
    /// `HEAPLEDGER_MINIMAL`
    Minimal,
    sizes::MINIMAL,
    false
);
layout!(
    /// `HEAPLEDGER_TASKS`
    Tasks,
    sizes::TASKS,
    false
);
layout!(
    /// `HEAPLEDGER_EVERYTHING`
    Everything,
    sizes::EVERYTHING,
    false
);
layout!(
    /// `HEAPLEDGER_MINIMAL`, with `HEAPLEDGER_SURVIVES`
    MinimalSurviving,
    sizes::MINIMAL,
    true
);
layout!(
    /// `HEAPLEDGER_TASKS`, with `HEAPLEDGER_SURVIVES`
    TasksSurviving,
    sizes::TASKS,
    true
);
layout!(
    /// `HEAPLEDGER_EVERYTHING`, with `HEAPLEDGER_SURVIVES`
    EverythingSurviving,
    sizes::EVERYTHING,
    true
);
