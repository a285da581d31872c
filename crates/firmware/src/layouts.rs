//! The functions of the three layouts. Which of them is linked, the header says with the one table that it names.
//!
//! # Safety
//! A room with `unsafe`: C calls these, and says where something is to be stored.

#[cfg(not(feature = "fixed"))]
use core::ffi::c_void;
use core::ffi::{CStr, c_char};

use heapledger::chip::Reallocated::{Failed, Freed, Gave};
use heapledger::chip::{Address, Books, ChipAccount, ChipWindow, Frame, InRealloc, Kind, NewBlock, Placed};

#[cfg(not(feature = "fixed"))]
use crate::board::{Everything, EverythingSurviving, Minimal, MinimalSurviving, Tasks, TasksSurviving};
use crate::entering;
use crate::exceptions::{self, ToldFault, ToldWritten};
#[cfg(feature = "fixed")]
use crate::fixed::Fixed;

/// What is called for each allocation. C hands its address on, and looks at nothing in it.
#[cfg(not(feature = "fixed"))]
pub(crate) struct Functions {
    /// A block of so many bytes, given by a call with this frame; 0: the call gave none. Returns the block, so that
    /// who calls this last has nothing left to do.
    pub(crate) begin: fn(Given, Address, Address, *const usize) -> Address,
    /// It is about to be given back.
    pub(crate) end: fn(Kind, Address, *const usize) -> bool,
}

/// What is called for each block that is resized.
#[cfg(not(feature = "fixed"))]
pub(crate) struct Resizing {
    /// It is about to be.
    pub(crate) resizing: fn(Address) -> Option<InRealloc<Address>>,
    /// It was. (A null block of no bytes: it was given back.)
    pub(crate) resized: fn(&Resized, *const usize) -> bool,
}

/// By which function, and from which heap, if that is said.
#[derive(Clone, Copy)]
pub(crate) struct Given {
    /// The function.
    pub(crate) kind: Kind,
    /// The heap.
    pub(crate) heap: Option<u8>,
    /// Bytes that its allocator was asked for, if that is more.
    #[cfg(feature = "guard")]
    pub(crate) actual: Option<Address>,
}

impl Given {
    /// Those.
    #[inline(always)]
    pub(crate) fn of(kind: Kind, heap: Option<u8>) -> Given {
        Given {
            kind,
            heap,
            #[cfg(feature = "guard")]
            actual: None,
        }
    }
}

/// How a resizing came out.
pub(crate) struct Resized {
    /// What is known of the block before.
    pub(crate) kept: Option<InRealloc<Address>>,
    /// By which function, and in which heap.
    pub(crate) given: Given,
    /// The new block; 0 if there is none.
    pub(crate) block: Address,
    /// Its bytes.
    pub(crate) bytes: Address,
}

#[cfg(not(feature = "fixed"))]
impl Functions {
    const fn of<B: Placed>() -> Functions {
        Functions { begin: begin::<B>, end: end::<B> }
    }
}

#[cfg(not(feature = "fixed"))]
impl Resizing {
    const fn of<B: Placed>() -> Resizing {
        Resizing { resizing: |block| Books::<B>::of().realloc_begins(block), resized: resized::<B> }
    }
}

#[inline(always)]
fn new_block<B: Placed>(given: Given, address: Address, size: Address) -> NewBlock<Address> {
    #[cfg(feature = "guard")]
    if given.actual.is_some() {
        return NewBlock { kind: given.kind, address, size, actual: given.actual, heap: given.heap };
    }
    let actual = if B::CONFIG.actual_sizes && address != 0 { entering::actual(address) } else { None };
    NewBlock { kind: given.kind, address, size, actual, heap: given.heap }
}

fn at(frame: *const usize) -> Frame {
    // SAFETY: `stub` has pushed it.
    unsafe { Frame::at(frame) }
}

#[inline(always)]
pub(crate) fn begin<B: Placed>(given: Given, block: Address, bytes: Address, frame: *const usize) -> Address {
    Books::<B>::of().allocated(&new_block::<B>(given, block, bytes), at(frame));
    block
}

#[inline(always)]
pub(crate) fn end<B: Placed>(by: Kind, block: Address, frame: *const usize) -> bool {
    Books::<B>::of().freed(block, by, at(frame))
}

pub(crate) fn resized<B: Placed>(how: &Resized, frame: *const usize) -> bool {
    let outcome = match (how.block, how.bytes) {
        (0, 0) => Freed,
        (0, _) => Failed,
        (block, bytes) => Gave(new_block::<B>(how.given, block, bytes)),
    };
    Books::<B>::of().realloc_ends(how.kept, how.given.kind, outcome, at(frame))
}

/// A text of C's.
fn text<'a>(text: *const c_char) -> &'a [u8] {
    // SAFETY: a text, as the caller promises.
    if text.is_null() { &[] } else { unsafe { CStr::from_ptr(text) }.to_bytes() }
}

/// What shows a ledger of the time before a reset. Its words, how many, and what the firmware has given.
#[cfg(not(feature = "fixed"))]
type Look = extern "C" fn(*const Address, usize, *mut c_void);

#[cfg(not(feature = "fixed"))]
macro_rules! survivor {
    ($board:ident, $survivor:ident) => {
        #[unsafe(no_mangle)]
        extern "C" fn $survivor(look: Option<Look>, context: *mut c_void) -> i32 {
            let seen = Books::<$board>::of().survivor(|words| {
                if let Some(look) = look {
                    look(words.as_ptr(), words.len(), context);
                }
            });
            seen.is_some().into()
        }
    };
}

#[cfg(not(feature = "fixed"))]
macro_rules! layout {
    ($board:ident, $functions:ident, $resizing:ident, $task_begins:ident, $task_ends:ident, $note_time:ident, $stop:ident, $live_bytes:ident, $is_live:ident, $window:ident, $account:ident, $copy:ident, $written:ident, $faulted:ident) => {
        /// The table. Its name has the version of the header.
        #[unsafe(no_mangle)]
        static $functions: Functions = Functions::of::<$board>();

        #[unsafe(no_mangle)]
        static $resizing: Resizing = Resizing::of::<$board>();

        functions!(
            $board,
            $task_begins,
            $task_ends,
            $note_time,
            $stop,
            $live_bytes,
            $is_live,
            $window,
            $account,
            $copy,
            $written,
            $faulted
        );
    };
}

/// What C calls, under these names.
macro_rules! functions {
    ($board:ident, $task_begins:ident, $task_ends:ident, $note_time:ident, $stop:ident, $live_bytes:ident, $is_live:ident, $window:ident, $account:ident, $copy:ident, $written:ident, $faulted:ident) => {
        #[unsafe(no_mangle)]
        extern "C" fn $task_begins(handle: usize, id: u32, name: *const c_char) -> i32 {
            Books::<$board>::of().task_begins(handle as Address, id, text(name)).into()
        }

        #[unsafe(no_mangle)]
        extern "C" fn $task_ends(handle: usize) {
            Books::<$board>::of().task_ends(handle as Address);
        }

        #[unsafe(no_mangle)]
        extern "C" fn $note_time() {
            Books::<$board>::of().note_time();
        }

        #[unsafe(no_mangle)]
        extern "C" fn $stop() {
            Books::<$board>::of().stop();
        }

        #[unsafe(no_mangle)]
        extern "C" fn $live_bytes() -> Address {
            Books::<$board>::of().live_bytes()
        }

        #[unsafe(no_mangle)]
        extern "C" fn $is_live(block: usize) -> i32 {
            Books::<$board>::of().is_live(block).into()
        }

        /// # Safety
        /// There is room for a window.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $window(to: *mut ChipWindow<Address>) -> i32 {
            // SAFETY: the caller's promise.
            Books::<$board>::of().window().map(|window| unsafe { to.write(window) }).is_some().into()
        }

        /// # Safety
        /// There is room for an account.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $account(task: usize, to: *mut ChipAccount<Address>) -> i32 {
            let account = Books::<$board>::of().account(task as Address);
            // SAFETY: the caller's promise.
            account.map(|account| unsafe { to.write(account) }).is_some().into()
        }

        /// # Safety
        /// There is room for so many words.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $copy(to: *mut Address, words: usize) -> usize {
            // SAFETY: the caller's promise.
            let room = if to.is_null() { &mut [] } else { unsafe { core::slice::from_raw_parts_mut(to, words) } };
            Books::<$board>::of().copy(room)
        }

        /// # Safety
        /// A handler that has found that when it began, and has room for what it is to know.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $written(found: *const [usize; 4], to: *mut ToldWritten) -> i32 {
            // SAFETY: the caller's promise.
            unsafe { exceptions::written::<$board>(found, to) }
        }

        /// # Safety
        /// The same.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $faulted(found: *const [usize; 4], to: *mut ToldFault) {
            // SAFETY: the caller's promise.
            unsafe { exceptions::faulted::<$board>(found, to) }
        }
    };
}

#[cfg(not(feature = "fixed"))]
layout!(
    Minimal,
    heapledger_minimal_1,
    heapledger_minimal_resizing_1,
    heapledger_minimal_task_begins,
    heapledger_minimal_task_ends,
    heapledger_minimal_note_time,
    heapledger_minimal_stop,
    heapledger_minimal_live_bytes,
    heapledger_minimal_is_live,
    heapledger_minimal_window_now,
    heapledger_minimal_account,
    heapledger_minimal_copy,
    heapledger_minimal_written,
    heapledger_minimal_faulted
);
#[cfg(not(feature = "fixed"))]
layout!(
    MinimalSurviving,
    heapledger_minimal_surviving_1,
    heapledger_minimal_surviving_resizing_1,
    heapledger_minimal_surviving_task_begins,
    heapledger_minimal_surviving_task_ends,
    heapledger_minimal_surviving_note_time,
    heapledger_minimal_surviving_stop,
    heapledger_minimal_surviving_live_bytes,
    heapledger_minimal_surviving_is_live,
    heapledger_minimal_surviving_window_now,
    heapledger_minimal_surviving_account,
    heapledger_minimal_surviving_copy,
    heapledger_minimal_surviving_written,
    heapledger_minimal_surviving_faulted
);
#[cfg(not(feature = "fixed"))]
layout!(
    Tasks,
    heapledger_tasks_1,
    heapledger_tasks_resizing_1,
    heapledger_tasks_task_begins,
    heapledger_tasks_task_ends,
    heapledger_tasks_note_time,
    heapledger_tasks_stop,
    heapledger_tasks_live_bytes,
    heapledger_tasks_is_live,
    heapledger_tasks_window_now,
    heapledger_tasks_account,
    heapledger_tasks_copy,
    heapledger_tasks_written,
    heapledger_tasks_faulted
);
#[cfg(not(feature = "fixed"))]
layout!(
    TasksSurviving,
    heapledger_tasks_surviving_1,
    heapledger_tasks_surviving_resizing_1,
    heapledger_tasks_surviving_task_begins,
    heapledger_tasks_surviving_task_ends,
    heapledger_tasks_surviving_note_time,
    heapledger_tasks_surviving_stop,
    heapledger_tasks_surviving_live_bytes,
    heapledger_tasks_surviving_is_live,
    heapledger_tasks_surviving_window_now,
    heapledger_tasks_surviving_account,
    heapledger_tasks_surviving_copy,
    heapledger_tasks_surviving_written,
    heapledger_tasks_surviving_faulted
);
#[cfg(not(feature = "fixed"))]
layout!(
    Everything,
    heapledger_everything_1,
    heapledger_everything_resizing_1,
    heapledger_everything_task_begins,
    heapledger_everything_task_ends,
    heapledger_everything_note_time,
    heapledger_everything_stop,
    heapledger_everything_live_bytes,
    heapledger_everything_is_live,
    heapledger_everything_window_now,
    heapledger_everything_account,
    heapledger_everything_copy,
    heapledger_everything_written,
    heapledger_everything_faulted
);
#[cfg(not(feature = "fixed"))]
layout!(
    EverythingSurviving,
    heapledger_everything_surviving_1,
    heapledger_everything_surviving_resizing_1,
    heapledger_everything_surviving_task_begins,
    heapledger_everything_surviving_task_ends,
    heapledger_everything_surviving_note_time,
    heapledger_everything_surviving_stop,
    heapledger_everything_surviving_live_bytes,
    heapledger_everything_surviving_is_live,
    heapledger_everything_surviving_window_now,
    heapledger_everything_surviving_account,
    heapledger_everything_surviving_copy,
    heapledger_everything_surviving_written,
    heapledger_everything_surviving_faulted
);

#[cfg(feature = "fixed")]
functions!(
    Fixed,
    heapledger_task_begins,
    heapledger_task_ends,
    heapledger_note_time,
    heapledger_stop,
    heapledger_live_bytes,
    heapledger_is_live,
    heapledger_window_open,
    heapledger_task_account,
    heapledger_copy,
    heapledger_written,
    heapledger_faulted
);

/// What guards blocks, and looks at them. Their names have the version of the header.
#[cfg(feature = "guard")]
macro_rules! guards {
    ($($board:ident $guarding:ident $checking:ident;)*) => {
        $(
            #[unsafe(no_mangle)]
            static $guarding: crate::guarding::Guarding = crate::guarding::Guarding::of::<$board>();

            #[unsafe(no_mangle)]
            static $checking: crate::guarding::Checking = crate::guarding::Checking::of::<$board>();
        )*
    };
}

#[cfg(feature = "guard")]
guards! {
    Minimal heapledger_minimal_guarding_1 heapledger_minimal_checking_1;
    MinimalSurviving heapledger_minimal_surviving_guarding_1 heapledger_minimal_surviving_checking_1;
    Tasks heapledger_tasks_guarding_1 heapledger_tasks_checking_1;
    TasksSurviving heapledger_tasks_surviving_guarding_1 heapledger_tasks_surviving_checking_1;
    Everything heapledger_everything_guarding_1 heapledger_everything_checking_1;
    EverythingSurviving heapledger_everything_surviving_guarding_1 heapledger_everything_surviving_checking_1;
}

#[cfg(not(feature = "fixed"))]
survivor!(MinimalSurviving, heapledger_minimal_surviving_survivor);
#[cfg(not(feature = "fixed"))]
survivor!(TasksSurviving, heapledger_tasks_surviving_survivor);
#[cfg(not(feature = "fixed"))]
survivor!(EverythingSurviving, heapledger_everything_surviving_survivor);
