//! Stacks that the program keeps in its ledger, by their numbers.
#![forbid(unsafe_code)]

use core::fmt;

/// The number of a stack that is kept. In the ledger it is the stack's `site`, as `heapledger` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(u32);

impl StackId {
    /// As a number, to be kept where there is little room.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The stack of such a number. One that no stack has is an error when it is looked up.
    pub const fn of_number(number: u32) -> StackId {
        StackId(number)
    }
}

/// Why a stack is not kept, or not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotKept {
    /// There is no ledger in this process that is written.
    NotRecorded,
    /// There is no room for it in the ledger.
    Full,
    /// One of its frames is no address of a program: 0, or above 48 bits.
    Address,
    /// No stack has this number.
    Unknown,
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotKept::NotRecorded => "no ledger is written in this process",
            NotKept::Full => "the ledger has no room for more stacks",
            NotKept::Address => "a frame of the stack is no address of a program",
            NotKept::Unknown => "no stack has this number",
        })
    }
}

impl core::error::Error for NotKept {}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod here {
    use super::{NotKept, StackId};
    use heapledger_format::Site;
    use heapledger_process::{depot, ways};

    fn not_kept(why: depot::NotKept) -> NotKept {
        match why {
            depot::NotKept::Off => NotKept::NotRecorded,
            depot::NotKept::Full => NotKept::Full,
            depot::NotKept::Address => NotKept::Address,
            depot::NotKept::Unknown => NotKept::Unknown,
        }
    }

    pub(super) fn put(frames: &[usize]) -> Result<StackId, NotKept> {
        let way = ways::recorder().ok_or(NotKept::NotRecorded)?;
        way.put_stack(frames).map(|site| StackId(site.0)).map_err(not_kept)
    }

    pub(super) fn get(id: StackId, into: &mut [usize]) -> Result<usize, NotKept> {
        let way = ways::recorder().ok_or(NotKept::NotRecorded)?;
        way.get_stack(Site(id.0), into).map_err(not_kept)
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod here {
    use super::{NotKept, StackId};

    pub(super) fn put(_: &[usize]) -> Result<StackId, NotKept> {
        Err(NotKept::NotRecorded)
    }
    pub(super) fn get(_: StackId, _: &mut [usize]) -> Result<usize, NotKept> {
        Err(NotKept::NotRecorded)
    }
}

/// Keeps a stack, innermost frame first, in the ledger: the number that stands for it. A stack that is there already has its
/// number, whoever has put it in, the recorder among them; what stacks have in common at their outer ends is kept once, in 8 bytes for each
/// frame that is new.
///
/// There has to be a ledger, and no block has to be entered in it: with [`Options::paused`](crate::Options::paused) (and
/// [`Options::in_memory`](crate::Options::in_memory), if nobody is to see it) the program has a place for stacks and nothing
/// else. All of this may be called from several threads at once and from signal handlers. Nobody waits, but for a moment when the
/// ledger grows.
///
/// Different stacks never have one number. In a ledger with very many stacks, one that is put in by two threads at the same moment can get
/// two; both lead to it.
///
/// ```
/// use heapledger::{Heapledger, Options};
/// use heapledger::stack::{Capture, stack_id, stack_of};
/// use std::alloc::System;
///
/// #[global_allocator]
/// static HEAP: Heapledger<System> = Heapledger::with(System, Options::new().in_memory().paused());
///
/// fn main() -> Result<(), heapledger::stack::NotKept> {
///     # if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) { return Ok(()) }
///     # let _has_allocated = vec![1];
///     let mut frames = [0; 64];
///     let taken = Capture::new().here(&mut frames);
///     let id = stack_id(&frames[..taken.frames])?;
///     assert_eq!(stack_id(&frames[..taken.frames])?, id);
///
///     let mut again = [0; 64];
///     let count = stack_of(id, &mut again)?;
///     assert_eq!(again[..count], frames[..taken.frames]);
///     # heapledger::discard();
///     Ok(())
/// }
/// ```
///
/// # Errors
/// If no ledger is written here, it has no room, or a frame cannot be an address.
pub fn stack_id(frames: &[usize]) -> Result<StackId, NotKept> {
    here::put(frames)
}

/// The frames of a stack that is kept, innermost first: as many as there is room for. Returns how many it has, which may be more.
///
/// # Errors
/// If no ledger is written here, or no stack has this number.
pub fn stack_of(id: StackId, into: &mut [usize]) -> Result<usize, NotKept> {
    here::get(id, into)
}
