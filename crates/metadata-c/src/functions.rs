//! The functions. Their names, arguments and results are those of the header.
#![allow(unsafe_code, reason = "it is given pointers by C, and calls its functions")]

use core::cell::Cell;
use core::ffi::{c_char, c_int, c_void};
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::slice;

use heapledger_metadata::{Came, Owner, Prepared, snip};

/// `struct heapledger_metadata_list`: zeros are an empty one.
#[repr(C)]
pub(crate) struct ListOfC {
    owner: Owner,
    told: Cell<Option<ToldC>>,
}

/// `struct heapledger_metadata`.
type Metadata = MaybeUninit<Prepared>;

/// Is told of a block that came, or is about to go: what, the list, the block, its backtrace.
type ToldC =
    unsafe extern "C" fn(came: c_int, list: *const ListOfC, user: *const c_void, blob: *const u8, bytes: usize);
type Each = unsafe extern "C" fn(user: *const c_void, blob: *const u8, bytes: usize, context: *mut c_void) -> c_int;
type Out = unsafe extern "C" fn(text: *const c_char, bytes: usize, context: *mut c_void) -> c_int;

/// What the header makes room for.
const LIST_WORDS: usize = 6;
const METADATA_BYTES: usize = 320;
const _: () = assert!(size_of::<ListOfC>() <= LIST_WORDS * size_of::<usize>());
const _: () = assert!(size_of::<Prepared>() <= METADATA_BYTES && align_of::<Prepared>() <= align_of::<usize>());

/// Most frames of a backtrace.
const DEPTH_MAX: usize = 31;

fn tell(list: &ListOfC, came: Came, user: *const u8) {
    if let Some(told) = list.told.get() {
        // SAFETY: the block is live, as its caller says.
        let blob = unsafe { Owner::blob(user) };
        // SAFETY: C's own function, with what it is for.
        unsafe { told(c_int::from(came == Came::Freed), list, user.cast(), blob.as_ptr(), blob.len()) };
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapledger_metadata_tell(list: *const ListOfC, told: Option<ToldC>) {
    // SAFETY: C's own list.
    if let Some(list) = unsafe { list.as_ref() } {
        list.told.set(told);
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapledger_metadata_prepare(
    metadata: *mut Metadata,
    frames: *const usize,
    count: usize,
    pre: usize,
    post: usize,
    low: usize,
    high: usize,
    size: usize,
) -> usize {
    // SAFETY: C's own.
    let Some(metadata) = (unsafe { metadata.as_mut() }) else { return 0 };
    let given = match NonNull::new(frames.cast_mut()) {
        // SAFETY: there are so many.
        Some(frames) => unsafe { slice::from_raw_parts(frames.as_ptr(), count) },
        None => &[],
    };
    let mut room = [0; DEPTH_MAX];
    let is_all = low == 0 && high == 0;
    let within = snip(given, pre, post).iter().filter(|frame| is_all || (low..high).contains(*frame));
    let mut kept = 0usize;
    for (place, frame) in room.iter_mut().zip(within) {
        *place = frame.wrapping_sub(low) as _;
        kept = kept.saturating_add(1);
    }
    metadata.write(prepared(room.get(..kept).unwrap_or(&[]), size)).extra()
}

/// Frames are as wide as an address: a chip has the smaller code.
#[cfg(target_pointer_width = "64")]
fn prepared(frames: &[u64], size: usize) -> Prepared {
    Prepared::new(frames, size)
}

#[cfg(not(target_pointer_width = "64"))]
fn prepared(frames: &[u32], size: usize) -> Prepared {
    Prepared::narrow(frames, size as u32)
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapledger_metadata_adjust(
    list: *const ListOfC,
    start: *mut c_void,
    metadata: *const Metadata,
) -> *mut c_void {
    // SAFETY: C's own list and metadata; these were prepared.
    let (Some(list), Some(metadata)) = (unsafe { list.as_ref() }, unsafe { metadata.as_ref() }) else {
        return core::ptr::null_mut();
    };
    let Some(start) = NonNull::new(start.cast::<u8>()) else { return core::ptr::null_mut() };
    // SAFETY: they were prepared, and the allocator gave so many bytes more.
    let user = unsafe { list.owner.adjust(start, metadata.assume_init_ref()) };
    tell(list, Came::Allocated, user.as_ptr());
    user.as_ptr().cast()
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapledger_metadata_trim(user: *mut c_void) -> *mut c_void {
    let Some(user) = NonNull::new(user.cast::<u8>()) else { return core::ptr::null_mut() };
    // SAFETY: a block that is live; the list is the first thing of one of C's lists.
    unsafe {
        if let Some(list) = Owner::of(user.as_ptr()).cast::<ListOfC>().as_ref() {
            tell(list, Came::Freed, user.as_ptr());
        }
        Owner::trim(user).as_ptr().cast()
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapledger_metadata_count(list: *const ListOfC) -> usize {
    // SAFETY: C's own list.
    unsafe { list.as_ref() }.map_or(0, |list| list.owner.count())
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapledger_metadata_walk(list: *const ListOfC, each: Option<Each>, context: *mut c_void) {
    // SAFETY: C's own list.
    let (Some(list), Some(each)) = (unsafe { list.as_ref() }, each) else { return };
    list.owner.walk(&mut |user, blob| {
        // SAFETY: C's own function, with what it is for.
        unsafe { each(user.cast(), blob.as_ptr(), blob.len(), context) == 0 }
    });
}

/// A function of C that takes text.
struct Taker {
    out: Out,
    context: *mut c_void,
}

impl fmt::Write for Taker {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: C's own function, with what it is for.
        let result = unsafe { (self.out)(text.as_ptr().cast(), text.len(), self.context) };
        if result == 0 { Ok(()) } else { Err(fmt::Error) }
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapledger_metadata_write(
    list: *const ListOfC,
    plain: c_int,
    out: Option<Out>,
    context: *mut c_void,
) -> c_int {
    // SAFETY: C's own list.
    let (Some(list), Some(out)) = (unsafe { list.as_ref() }, out) else { return -1 };
    let mut taker = Taker { out, context };
    let written = if plain == 0 { list.owner.write_compressed(&mut taker) } else { list.owner.write_plain(&mut taker) };
    if written.is_ok() { 0 } else { -1 }
}

// The compiler's own library names it, and nothing here unwinds: a program in C++ brings another one.
#[cfg(all(panic = "abort", target_os = "linux"))]
core::arch::global_asm!(".weak rust_eh_personality", "rust_eh_personality:");

/// Nothing here panics. If something did, going on would be worse.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
