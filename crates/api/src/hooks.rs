//! Functions of the program that are told of its calls.

use crate::error::{ApiError, answer};
use crate::handles::Handles;
use crate::heaps::capabilities_of;
use crate::moments::number;
use core::ffi::{c_char, c_int, c_uint, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use heapledger_format::Kind;
use heapledger_linux::syscall;
use heapledger_linux::text::Text;
use heapledger_process::breaks::heapledger_break_threshold;
use heapledger_process::ways;
use heapledger_watch::hooks::{self, HOOKS, NewHook, Stage, Told, When};
use heapledger_watch::inside::{HookFigures, hook_figures};
use heapledger_watch::{caller, live, state};

/// What `heapledger_event.what` says.
pub const EVENTS: &[(&str, c_int)] =
    &[("GAVE", 1), ("STAYS", 2), ("TAKES_BACK", 3), ("REFUSED", 4), ("LIVE_ABOVE", 5), ("OVERFLOW", 6)];

/// What functions are told.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Event {
    /// Bytes of this structure.
    pub size: usize,
    /// See [`EVENTS`].
    pub what: c_int,
    /// The function that is called, of the kinds of the ledger.
    pub kind: c_int,
    /// Its name.
    pub function: *const c_char,
    /// The block.
    pub block: *const c_void,
    /// Its bytes, or those that were asked for.
    pub bytes: usize,
    /// Its alignment, if one was asked for.
    pub alignment: usize,
    /// Its heap, if that is of the program's own; else 0.
    pub heap: c_int,
    /// The capabilities of that, or of the C library's.
    pub capabilities: c_uint,
    /// The kernel's number of the thread.
    pub thread: c_uint,
    /// 1: it is in the ledger.
    pub recorded: c_int,
    /// 1: more was asked for than can be counted.
    pub overflow: c_int,
    /// Nanoseconds since the ledger began.
    pub time_ns: u64,
}

/// A function of the program.
type HookFunction = unsafe extern "C" fn(*const Event, *mut c_void);

/// Bytes of the longest name of a function, with the zero.
const NAME_BYTES: usize = 32;
/// Capabilities of what the C library gives, in the words of ESP-IDF.
const DEFAULT_CAPABILITIES: u32 = 1 << 12;

static HANDLES: Handles<HOOKS> = Handles::new();
/// Whether the program ends when a call gives no block.
static ABORTS: AtomicBool = AtomicBool::new(false);
/// The rounds of the history that were told of.
static ROUNDS: AtomicU64 = AtomicU64::new(0);
/// Where the C library says where a thread's `errno` is; 0: not known.
static ERRNO: AtomicUsize = AtomicUsize::new(0);
/// Its `abort`; 0: not known.
static ABORT: AtomicUsize = AtomicUsize::new(0);

/// Functions of the C library, found when nobody unloads anything: `__errno_location`, `abort`; 0: not known.
pub fn c_library(errno_location: usize, abort: usize) {
    ERRNO.store(errno_location, Ordering::Relaxed);
    ABORT.store(abort, Ordering::Relaxed);
}

/// Calls a hook: what [`hooks::tell`] takes.
pub fn call(told: &Told, [function, data]: [usize; 2]) -> bool {
    if told.when == When::LiveAbove {
        heapledger_break_threshold();
    }
    if function == 0 {
        return true;
    }
    let block = told.block;
    let way = ways::recorder();
    let mut name = [0; NAME_BYTES];
    let called = if block.kind == Kind::NONE { "" } else { block.kind.name().unwrap_or("") };
    for (place, byte) in name.iter_mut().take(NAME_BYTES.saturating_sub(1)).zip(called.bytes()) {
        *place = byte;
    }
    let is_uncountable = block.size == usize::MAX && matches!(block.kind, Kind::CALLOC | Kind::REALLOCARRAY);
    let event = Event {
        size: size_of::<Event>(),
        what: what(told),
        kind: c_int::from(block.kind.0),
        function: name.as_ptr().cast(),
        block: block.address as *const c_void,
        bytes: block.size,
        alignment: block.align,
        heap: block.heap as c_int,
        capabilities: of_heap(block.heap),
        thread: caller::thread(),
        recorded: c_int::from(block.address != 0 && way.is_some_and(|way| way.holds(block.address))),
        overflow: c_int::from(is_uncountable),
        time_ns: way.and_then(|way| way.now_ns()).unwrap_or(u64::MAX),
    };
    // SAFETY: such a function was registered, with this data.
    let function = unsafe { transmute::<usize, HookFunction>(function) };
    keeping_errno(|| {
        // SAFETY: as the program has promised.
        unsafe { function(&raw const event, data as *mut c_void) }
    });
    true
}

fn of_heap(heap: u32) -> u32 {
    let own = if heap == 0 { None } else { capabilities_of(heap) };
    own.unwrap_or(DEFAULT_CAPABILITIES)
}

fn what(told: &Told) -> c_int {
    match told.stage {
        _ if told.when == When::LiveAbove => 5,
        Stage::Gave => 1,
        Stage::Stays => 2,
        Stage::TakesBack => 3,
        Stage::Refused => 4,
        Stage::Happened => 6,
    }
}

/// Calls `f`, after which `errno` is as it was.
fn keeping_errno(f: impl FnOnce()) {
    let location = ERRNO.load(Ordering::Relaxed);
    if location == 0 {
        return f();
    }
    // SAFETY: the C library's function, which returns the calling thread's `errno`.
    let errno = unsafe { transmute::<usize, extern "C" fn() -> *mut c_int>(location)() };
    // SAFETY: it is there as long as the thread.
    let before = unsafe { *errno };
    f();
    // SAFETY: as before.
    unsafe { *errno = before };
}

/// If the history has begun to overwrite what it holds, who wants to know is told.
pub fn look_at_history() {
    let Some(way) = ways::recorder() else { return };
    let rounds = way.history_rounds();
    if rounds > ROUNDS.load(Ordering::Relaxed) && ROUNDS.fetch_max(rounds, Ordering::Relaxed) < rounds {
        let block =
            heapledger_watch::watched::Block { kind: Kind::NONE, address: 0, size: 0, counted: 0, align: 0, heap: 0 };
        hooks::tell(&Told { stage: Stage::Happened, when: When::Happened, block }, call);
    }
}

/// A call gave no block: all who want to know have been told. The program ends here if it wants to.
pub fn refused(bytes: usize, capabilities: Option<u32>) {
    if !ABORTS.load(Ordering::Relaxed) {
        return;
    }
    let mut text = Text::<96>::new();
    text.push(b"Mem alloc fail. size 0x").push_hex_digits(bytes as u64, 8);
    text.push(b" caps 0x").push_hex_digits(u64::from(capabilities.unwrap_or(DEFAULT_CAPABILITIES)), 8).push(b"\n");
    let _ = syscall::write(2, text.bytes());
    let abort = ABORT.load(Ordering::Relaxed);
    if abort != 0 {
        // SAFETY: the C library's function, called outside of the recorder, after a call that has come back.
        unsafe { transmute::<usize, extern "C" fn()>(abort)() };
    }
}

fn register(when: When, limits: (isize, isize), function: usize, data: *mut c_void) -> c_int {
    answer(begin(when, limits, function, data))
}

fn begin(when: When, (limit, again_at): (isize, isize), function: usize, data: *mut c_void) -> Result<u32, ApiError> {
    caller::prepare();
    let new = NewHook { when, limit, again_at, data: [function, data as usize] };
    let place = hooks::register(&new).ok_or(ApiError::NO_ROOM)?;
    Ok(HANDLES.give(place))
}

fn bytes(bytes: usize) -> isize {
    isize::try_from(bytes).unwrap_or(isize::MAX)
}

macro_rules! registers {
    ($($(#[$doc:meta])* $name:ident $when:ident)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub extern "C" fn $name(function: Option<HookFunction>, data: *mut c_void) -> c_int {
                match function {
                    Some(function) => register(When::$when, (0, 0), function as usize, data),
                    None => ApiError::INVALID.0,
                }
            }
        )*
    };
}

registers! {
    /// A function is called for each block that was given, from now on.
    heapledger_on_alloc Gave
    /// A function is called for each block that is about to be given back, or resized.
    heapledger_on_free TakesBack
    /// A function is called for each call that gave no block.
    heapledger_on_refused Refused
}

/// A function is called for each request of more than so many bytes, whether it was granted or not.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_on_request_above(
    limit: usize,
    function: Option<HookFunction>,
    data: *mut c_void,
) -> c_int {
    match function {
        Some(function) => register(When::RequestAbove, (bytes(limit), 0), function as usize, data),
        None => ApiError::INVALID.0,
    }
}

/// A function is called when live bytes have risen above a limit, and again when they have been at the second one or below. (Without
/// a function, only `heapledger_break_threshold` is.)
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_on_live_above(
    limit: usize,
    again_at: usize,
    function: Option<HookFunction>,
    data: *mut c_void,
) -> c_int {
    if again_at > limit {
        return ApiError::INVALID.0;
    }
    answer(counted(|| {
        // What lived before calls were counted.
        let before = ways::recorder().map_or(0, |way| way.live_bytes()) as isize;
        let since = before.wrapping_sub(live::signed_bytes());
        let limits = (bytes(limit).saturating_sub(since), bytes(again_at).saturating_sub(since));
        begin(When::LiveAbove, limits, function.map_or(0, |function| function as usize), data)
    }))
}

/// Calls are counted as long as what `begin` begins is there.
fn counted(begin: impl FnOnce() -> Result<u32, ApiError>) -> Result<u32, ApiError> {
    if !state::join(state::Want::Counted) {
        return Err(ApiError::NO_ROOM);
    }
    let begun = begin();
    if begun.is_err() {
        state::leave(state::Want::Counted);
    }
    begun
}

/// A function is called when the history of frees has begun to overwrite what it holds.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_on_overflow(function: Option<HookFunction>, data: *mut c_void) -> c_int {
    let Some(function) = function else { return ApiError::INVALID.0 };
    let rounds = ways::recorder().map_or(0, |way| way.history_rounds());
    ROUNDS.fetch_max(rounds, Ordering::Relaxed);
    register(When::Happened, (0, 0), function as usize, data)
}

/// It is called no longer.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_hook_end(hook: c_int) -> c_int {
    answer(number(hook).and_then(|handle| {
        let place = HANDLES.place(handle).ok_or(ApiError::UNKNOWN)?;
        let when = hooks::when(place).ok_or(ApiError::UNKNOWN)?;
        if !HANDLES.take_back(handle) || !hooks::unregister(place) {
            return Err(ApiError::UNKNOWN);
        }
        if when == When::LiveAbove {
            state::leave(state::Want::Counted);
        }
        Ok(0)
    }))
}

/// How often it was called.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_hook_calls(hook: c_int) -> u64 {
    let place = number(hook).ok().and_then(|handle| HANDLES.place(handle));
    place.and_then(hooks::calls).unwrap_or(0)
}

/// It is called no longer; how many calls of it have not come back yet.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_hook_running(hook: c_int) -> c_int {
    answer(number(hook).and_then(|handle| {
        let running = HANDLES.place(handle).and_then(hooks::silence).ok_or(ApiError::UNKNOWN)?;
        Ok(u32::try_from(running).unwrap_or(u32::MAX))
    }))
}

/// What hooks were not told, and what was odd about them.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HookSums {
    /// Bytes of this structure, as the caller knows it.
    pub size: usize,
    /// In the order of the header.
    pub figures: [u64; 4],
}

/// What hooks were not told since the program began, and what was odd about them.
///
/// # Safety
/// There must be a structure whose size stands in it, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_hook_figures(into: *mut HookSums) -> c_int {
    if into.is_null() {
        return ApiError::INVALID.0;
    }
    // SAFETY: it begins with its size.
    let size = unsafe { (*into).size };
    if size < size_of::<HookSums>() {
        return ApiError::TOO_SMALL.0;
    }
    let HookFigures { nested, left, untold, refused, .. } = hook_figures();
    // SAFETY: there is room for it.
    unsafe { *into = HookSums { size, figures: [nested, left, untold, refused] } };
    0
}

/// Whether the program is to end when a call gives no block; gives what was so before.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_abort_when_refused(is_to: c_int) -> c_int {
    let is_to = is_to != 0;
    if is_to && !state::join(state::Want::Asked) {
        return ApiError::NO_ROOM.0;
    }
    let was_to = ABORTS.swap(is_to, Ordering::Relaxed);
    // Each that has joined leaves: this one that is no longer, or the second of two.
    if was_to {
        state::leave(state::Want::Asked);
    }
    c_int::from(was_to)
}
