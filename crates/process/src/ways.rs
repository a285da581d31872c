//! Several ways into one process: a library that was preloaded, one that the program is linked with, another copy of either.
//!
//! There is one recorder in a process: the word of a thread leads to the state of one, and a block that two follow would be in
//! two ledgers. Each copy of this code has a note in its module (`.note.heapledger`), which leads to its [`Way`]. Whoever
//! starts looks at the notes of all modules that the loader lists; no symbol has to be exported for that, so an executable is
//! found as well. Who comes second steps back, passes its calls on, and can speak to the recorder that is there: [`recorder`].
//!
//! Two that start at the same moment in two threads both say so before they look: the one whose module is earlier in the
//! loader's list goes on. (Should it fail after that, nobody records.) In a forked child the way of the parent's recorder is
//! still marked, but its [switch](crate::switch) is off: it is nobody's.

mod asking;
mod blocks;
mod inspecting;
mod own;

pub use asking::Entry;
pub use blocks::InnerBlock;
pub use own::{EntryOf, offer_entries};

use crate::family;
use crate::once::Noted;
use crate::reallocation::Reallocation;
use crate::shared::Shared;
use crate::switch::Recording;
use core::sync::atomic::{AtomicU32, Ordering};
use heapledger_format::session::{RECORDER_NOTE, RECORDER_NOTE_KIND};
use heapledger_linux::loader::{self, CodeFinder, Module};
use heapledger_recorder::inspect::heaps::HeapShape;
use heapledger_unwind::Registers;

/// A way into the process: what each has. The order of what stands here never changes, and a later version only adds to its
/// end: it is read by other copies of this code, of other versions.
#[repr(C)]
pub struct Way {
    version: u32,
    bytes: u32,
    claim: AtomicU32,
    recording: extern "C" fn() -> u32,
    pause: extern "C" fn() -> u32,
    resume: extern "C" fn() -> u32,
}

/// What later versions have added to the end, as this one knows it. A function that takes text takes where it begins and how
/// many bytes it has.
#[repr(C)]
struct FullWay {
    way: Way,
    /// To a path, of so many bytes with the zero at its end. Returns 0, or the number of an error.
    snapshot: SnapshotFn,
    /// Name, kind, what it is about; 1: of the thread.
    mark: MarkFn,
    /// The label around it, key, value.
    label: LabelFn,
    put_in_force: extern "C" fn(u32) -> i64,
    in_force: extern "C" fn() -> u32,
    /// Of so many frames. Returns the number of the stack, or one below 0.
    put_stack: PutStackFn,
    /// Of a number, to so many places. Returns how many frames there are, or a number below 0.
    get_stack: GetStackFn,
    /// Name, mode; 1: of the thread.
    open_window: WindowFn,
    /// Its row plus 1, and the kind of mark that it becomes.
    change_window: extern "C" fn(u32, u32) -> i64,
    /// Its row plus 1, where its figures go, and how many there is room for.
    window_figures: WindowFiguresFn,
    /// Nanoseconds since the ledger began; all bits: there is none.
    now_ns: extern "C" fn() -> u64,
    /// 1: the block at an address is in the ledger.
    holds: extern "C" fn(usize) -> u32,
    /// Of an [inner](crate::inner) allocator: the caller's registers, the block. 0: nothing is followed here.
    gives: GivesFn,
    /// The caller's registers, the block's address, the kind of the call.
    takes: TakesFn,
    /// Before it is resized: the caller's registers, the block's address, where to keep what is needed after that.
    resizes: ResizesFn,
    /// After that: the caller's registers, what was kept, the block of now (an address of 0: there is none, and the old one stays).
    resized: ResizedFn,
    /// The caller's registers, the block that there is not.
    refuses: RefusesFn,
    /// Name, lowest address, one past the highest, capabilities.
    begin_heap: BeginHeapFn,
    /// Its row.
    end_heap: extern "C" fn(u32) -> i64,
    /// What to do, and what that takes; how many calls of ours come from there, or a number below 0.
    calls_inside: CallsInsideFn,
    /// A heap's row, where its facts go, and how many bytes there is room for.
    heap_facts: HeapFactsFn,
    /// A heap's row, and what its allocator takes.
    shape_heap: ShapeHeapFn,
    /// 1: the least that is free is watched, anew. 0: no longer.
    watch_minimum: extern "C" fn(u32) -> i64,
    /// The block between two addresses that is the first in a direction. 1: there is one.
    next_block: NextBlockFn,
    /// The slot of the first record from one on that is of a live block.
    next_record: NextRecordFn,
    /// Bytes that the block at an address was asked for; 1: of an inner allocator. All bits: it is not in the ledger.
    size_of: extern "C" fn(usize, u32) -> u64,
    /// Bytes that live, in the ledger.
    live_bytes: extern "C" fn() -> u64,
    /// How often the history has begun to overwrite what it holds.
    history_rounds: extern "C" fn() -> u64,
    /// A thread's row, where its facts go, and how many bytes there is room for.
    thread_facts: HeapFactsFn,
    /// An account's row, and the same. 1: there is one.
    account_facts: NextRecordFn,
    /// The row of the calling thread.
    own_row: extern "C" fn() -> i64,
    /// The name of a function: where calls of another module are seen by us. 0: nowhere; all bits: wherever they go.
    entry: EntryFn,
    /// Of the guarded block at an address, of all at 0: how many are damaged, or a number below 0.
    check_integrity: extern "C" fn(usize) -> i64,
    /// As which new blocks are to be guarded, below 0: as they are. The level before, or a number below 0.
    guard_level: extern "C" fn(i64) -> i64,
    /// What is to be taken of the stacks of frees: [`heapledger_format::FreeDepth::word`]. 0, or a number below 0.
    free_depth: extern "C" fn(u64) -> i64,
    /// A heap's row. 0: blocks may begin in it, or a number below 0.
    heap_takes_blocks: extern "C" fn(u32) -> i64,
}

type EntryFn = unsafe extern "C" fn(*const u8, usize) -> u64;
type HeapFactsFn = unsafe extern "C" fn(u32, *mut u8, usize) -> i64;
type ShapeHeapFn = unsafe extern "C" fn(u32, *const HeapShape) -> i64;
type NextBlockFn = unsafe extern "C" fn(u64, u64, u32, *mut u8, usize) -> i64;
type NextRecordFn = unsafe extern "C" fn(u64, *mut u8, usize) -> i64;
type GivesFn = unsafe extern "C" fn(*const Registers, *const InnerBlock) -> u32;
type RefusesFn = unsafe extern "C" fn(*const Registers, *const InnerBlock);
type WorkFn = unsafe extern "C" fn(*mut ());
type CallsInsideFn = unsafe extern "C" fn(WorkFn, *mut ()) -> i64;
type TakesFn = unsafe extern "C" fn(*const Registers, usize, u32);
type ResizesFn = unsafe extern "C" fn(*const Registers, usize, *mut Reallocation);
type ResizedFn = unsafe extern "C" fn(*const Registers, *const Reallocation, *const InnerBlock);
type BeginHeapFn = unsafe extern "C" fn(*const u8, usize, usize, usize, u32) -> i64;

type SnapshotFn = unsafe extern "C" fn(*const u8, usize) -> i32;
type MarkFn = unsafe extern "C" fn(*const u8, usize, u32, u32, u32) -> i64;
type WindowFn = unsafe extern "C" fn(*const u8, usize, u32, u32) -> i64;
type WindowFiguresFn = unsafe extern "C" fn(u32, *mut u64, usize) -> i64;
type LabelFn = unsafe extern "C" fn(u32, *const u8, usize, *const u8, usize) -> i64;
type PutStackFn = unsafe extern "C" fn(*const usize, usize) -> i64;
type GetStackFn = unsafe extern "C" fn(u32, *mut usize, usize) -> i64;

const VERSION: u32 = 1;

/// [`Way::claim`]: nobody came in here, or who did has stepped back.
const NONE: u32 = 0;
/// Who came in here is about to start.
const STARTS: u32 = 1;
/// Who came in here records.
const RECORDS: u32 = 2;

/// What is shared by the threads that came in here, once it has started.
static SHARED: Noted<Shared> = Noted::new();
/// The same, for other parts of this code: what this copy of it records into, if it is the one that does.
pub(crate) fn own_shared() -> Option<&'static Shared> {
    SHARED.get()
}

/// The way of who recorded before us.
static ANOTHER: Noted<Way> = Noted::new();

static OWN: FullWay = FullWay {
    way: Way {
        version: VERSION,
        bytes: size_of::<FullWay>() as u32,
        claim: AtomicU32::new(NONE),
        recording: own::recording,
        pause: own::pause,
        resume: own::resume,
    },
    snapshot: own::snapshot,
    mark: own::mark,
    label: own::label,
    put_in_force: own::put_in_force,
    in_force: own::in_force,
    put_stack: own::put_stack,
    get_stack: own::get_stack,
    open_window: own::open_window,
    change_window: own::change_window,
    window_figures: own::window_figures,
    now_ns: own::now_ns,
    holds: own::holds,
    gives: blocks::gives,
    takes: blocks::takes,
    resizes: blocks::resizes,
    resized: blocks::resized,
    refuses: blocks::refuses,
    begin_heap: blocks::begin_heap,
    end_heap: blocks::end_heap,
    calls_inside: blocks::calls_inside,
    heap_facts: inspecting::heap_facts,
    shape_heap: inspecting::shape_heap,
    watch_minimum: inspecting::watch_minimum,
    next_block: inspecting::next_block,
    next_record: inspecting::next_record,
    size_of: own::size_of,
    live_bytes: own::live_bytes,
    history_rounds: own::history_rounds,
    thread_facts: inspecting::thread_facts,
    account_facts: inspecting::account_facts,
    own_row: inspecting::own_row,
    entry: own::entry,
    check_integrity: own::check_integrity,
    guard_level: own::guard_level,
    free_depth: own::free_depth,
    heap_takes_blocks: blocks::heap_takes_blocks,
};

// The distance from where it stands to the way.
core::arch::global_asm!(
    ".pushsection .note.heapledger,\"a\",@note",
    ".p2align 2",
    ".long 11, 8, {kind}",
    ".asciz \"heapledger\"",
    ".p2align 2",
    ".quad {way} - .",
    ".popsection",
    kind = const RECORDER_NOTE_KIND,
    way = sym OWN,
);
const _: () = assert!(RECORDER_NOTE.len() == 10, "as it is written above");

/// The way of a module, if it is one.
fn of_module(finder: &CodeFinder, module: &Module) -> Option<&'static Way> {
    let module = finder.of(module)?;
    let distance = module.note(b"heapledger\0", RECORDER_NOTE_KIND)?;
    let value = i64::from_ne_bytes(*distance.first_chunk()?);
    let address = (distance.as_ptr() as usize).wrapping_add_signed(value as isize);
    // SAFETY: the note of a module that is loaded leads to its way. (Who records is never unloaded.)
    let way = unsafe { &*(address as *const Way) };
    (way.version >= VERSION && way.bytes as usize >= size_of::<Way>()).then_some(way)
}

/// What a `malloc` of our own module does, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OurMalloc {
    /// It is the program's.
    Answers,
    /// It passes calls on.
    PassesOn,
}

/// The module whose `malloc` answers the program's calls: the first that has one, but for recorders that pass them on.
pub fn answering_module(our: OurMalloc) -> Option<Module> {
    let finder = CodeFinder::new();
    finder.start();
    let is_recorder = |module: &Module| match module.is_us() {
        true => our == OurMalloc::PassesOn,
        false => of_module(&finder, module).is_some(),
    };
    loader::modules().find(|module| module.symbol(b"malloc").is_some() && !is_recorder(module))
}

/// Those of some modules that have no copy of this code.
pub fn without_recorders(modules: impl Iterator<Item = Module>) -> impl Iterator<Item = Module> {
    let finder = CodeFinder::new();
    finder.start();
    modules.filter(move |module| of_module(&finder, module).is_none())
}

/// Looks whether somebody else records in this process: then [`recorder`] gives that one. For those who do not start themselves.
pub fn find_another() -> bool {
    let finder = CodeFinder::new();
    finder.start();
    let is_at_work =
        |way: &&'static Way| way.claim.load(Ordering::SeqCst) == RECORDS && way.recording() != Recording::Off;
    let mut others =
        loader::modules().filter(|module| !module.is_us()).filter_map(|module| of_module(&finder, &module));
    let found = others.find(is_at_work);
    if let Some(way) = found {
        ANOTHER.set(way);
    }
    found.is_some()
}

/// We are about to start. False if somebody else records in this process, or is a moment ahead of us.
pub(crate) fn claim(finder: &CodeFinder) -> bool {
    OWN.way.claim.store(STARTS, Ordering::SeqCst);
    let mut is_before_us = true;
    for module in loader::modules() {
        if module.is_us() {
            is_before_us = false;
            continue;
        }
        let Some(way) = of_module(finder, &module) else { continue };
        let is_ahead = match way.claim.load(Ordering::SeqCst) {
            RECORDS => way.recording() != Recording::Off,
            STARTS => is_before_us,
            _ => false,
        };
        if is_ahead {
            give_up();
            ANOTHER.set(way);
            return false;
        }
    }
    true
}

/// We have not started after all.
pub(crate) fn give_up() {
    OWN.way.claim.store(NONE, Ordering::SeqCst);
}

/// We record from now on.
pub(crate) fn take(shared: &'static Shared) {
    SHARED.set(shared);
    let _ = (&raw const OWN).expose_provenance();
    OWN.way.claim.store(RECORDS, Ordering::SeqCst);
}

/// Who records in this process instead of us.
pub fn another() -> Option<&'static Way> {
    if OWN.way.claim.load(Ordering::Acquire) == RECORDS { None } else { ANOTHER.get() }
}

/// Whether this is a forked child that we record from now on: where nothing is recorded, somebody has asked.
#[cold]
pub fn begins_in_child() -> bool {
    own_shared().is_some_and(family::begin)
}

/// Who records in this process, as far as we know: we ourselves, or whoever was there before us.
pub fn recorder() -> Option<&'static Way> {
    if OWN.way.claim.load(Ordering::Acquire) == RECORDS {
        return Some(&OWN.way);
    }
    ANOTHER.get()
}
