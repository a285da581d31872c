//! The list of live blocks, and what lies before each.
#![allow(unsafe_code, reason = "it writes before blocks, and follows the nodes there")]

use core::cell::Cell;
use core::fmt;
use core::ptr::{self, NonNull};
use core::slice;

use heapledger_lws::{LENGTH_BYTES, Width, decode, extension, line};

use crate::Prepared;
use crate::prepared::{NODE_BYTES, extra};

/// Before the user's block.
#[repr(C)]
struct Node {
    before: *mut Node,
    after: *mut Node,
    owner: *const Owner,
}

const _: () = assert!(size_of::<Node>() == NODE_BYTES);

/// What happened to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// It was allocated.
    Allocated,
    /// It is about to be freed.
    Freed,
}

/// Is told of blocks that come and go: what, where, and the backtrace. It is called with the lock held.
pub type Told = fn(Came, *const u8, &[u8]);

/// A list of live blocks, oldest first. A list must not be moved while it has blocks: they know where it is.
#[derive(Debug)]
pub struct Owner {
    oldest: Cell<*mut Node>,
    newest: Cell<*mut Node>,
    count: Cell<usize>,
    told: Option<Told>,
}

// SAFETY: its pointers lead to blocks that nobody else reaches, and it is not `Sync`: whoever shares it has a lock.
unsafe impl Send for Owner {}

impl Owner {
    /// An empty one.
    pub const fn new(told: Option<Told>) -> Owner {
        Owner { oldest: Cell::new(ptr::null_mut()), newest: Cell::new(ptr::null_mut()), count: Cell::new(0), told }
    }

    /// How many blocks live.
    pub fn count(&self) -> usize {
        self.count.get()
    }

    /// Puts the backtrace and a node of this list before a block, and gives the user's part of it.
    ///
    /// # Safety
    /// `start` is what the allocator gave for at least [`Prepared::extra`] bytes more than the user wants, at a multiple of
    /// the size of a word. This list stays where it is until the block is given to [`Owner::trim`].
    pub unsafe fn adjust(&self, start: NonNull<u8>, prepared: &Prepared) -> NonNull<u8> {
        let blob = prepared.blob();
        let user_at = prepared.extra();
        let blob_at = user_at.saturating_sub(NODE_BYTES).saturating_sub(blob.len());
        // SAFETY: the caller says that there are `extra` bytes, and backtrace and node end at their end. The node lies at a
        // multiple of a word: so does `start`, and `extra` and the node have such lengths.
        let (user, node) = unsafe {
            ptr::copy_nonoverlapping(blob.as_ptr(), start.as_ptr().add(blob_at), blob.len());
            let user = start.add(user_at);
            (user, user.as_ptr().sub(NODE_BYTES).cast::<Node>())
        };
        // SAFETY: as above; the newest node is one of a live block of this list.
        unsafe {
            node.write(Node { before: self.newest.get(), after: ptr::null_mut(), owner: self });
            match self.newest.get().as_mut() {
                Some(newest) => newest.after = node,
                None => self.oldest.set(node),
            }
        }
        self.newest.set(node);
        self.count.set(self.count.get().wrapping_add(1));
        if let Some(told) = self.told {
            told(Came::Allocated, user.as_ptr(), blob);
        }
        user
    }

    /// Takes a block out of the list that it is in, and gives what the allocator gave for it.
    ///
    /// # Safety
    /// `user` is from [`Owner::adjust`], and was not given here before. The lock of its list is held.
    pub unsafe fn trim(user: NonNull<u8>) -> NonNull<u8> {
        // SAFETY: the caller says that a node lies there, with its list; neighbours are nodes of live blocks.
        unsafe {
            let node = user.as_ptr().sub(NODE_BYTES).cast::<Node>();
            let (blob, space) = blob_before(node);
            let Node { before, after, owner } = node.read();
            if let Some(owner) = owner.as_ref() {
                if let Some(told) = owner.told {
                    told(Came::Freed, user.as_ptr(), blob);
                }
                match before.as_mut() {
                    Some(before) => before.after = after,
                    None => owner.oldest.set(after),
                }
                match after.as_mut() {
                    Some(after) => after.before = before,
                    None => owner.newest.set(before),
                }
                owner.count.set(owner.count.get().wrapping_sub(1));
            }
            user.sub(space)
        }
    }

    /// The list that a block is in.
    ///
    /// # Safety
    /// `user` is from [`Owner::adjust`], and was not trimmed.
    pub unsafe fn of(user: *const u8) -> *const Owner {
        // SAFETY: the caller says that a node lies there.
        unsafe { (*user.sub(NODE_BYTES).cast::<Node>()).owner }
    }

    /// The backtrace of a block, its length at the end included.
    ///
    /// # Safety
    /// As for [`Owner::of`]; the block stays live while the backtrace is looked at.
    pub unsafe fn blob<'b>(user: *const u8) -> &'b [u8] {
        // SAFETY: the caller says that a node lies there.
        unsafe { blob_before(user.sub(NODE_BYTES).cast::<Node>()).0 }
    }

    /// Calls `each` with every live block and its backtrace, oldest first, until that says false.
    pub fn walk(&self, each: &mut dyn FnMut(*const u8, &[u8]) -> bool) {
        let mut node = self.oldest.get();
        while !node.is_null() {
            // SAFETY: nodes of the list are those of live blocks, with a backtrace before each.
            let (user, blob, after) = unsafe {
                let (blob, _) = blob_before(node);
                (node.cast::<u8>().add(NODE_BYTES), blob, (*node).after)
            };
            if !each(user, blob) {
                return;
            }
            node = after;
        }
    }

    /// Writes a line `~m#…` for every live block, oldest first.
    ///
    /// # Errors
    /// Those of `out`; the rest is not written.
    pub fn write_compressed(&self, out: &mut impl fmt::Write) -> fmt::Result {
        self.write(|blob| {
            line::write_compressed(blob, out)?;
            out.write_str("\n")
        })
    }

    /// Writes a line `~b#size: …` for every live block, oldest first.
    ///
    /// # Errors
    /// Those of `out`; the rest is not written.
    pub fn write_plain(&self, out: &mut impl fmt::Write) -> fmt::Result {
        let width = if size_of::<usize>() == 4 { Width::W32 } else { Width::W64 };
        self.write(|blob| {
            let mut frames = [0; extension::DEPTH_MAX];
            if let Ok(decoded) = decode(blob, width, &mut frames) {
                line::write_plain(decoded.frames, decoded.size, out)?;
                out.write_str("\n")?;
            }
            Ok(())
        })
    }

    fn write(&self, mut line: impl FnMut(&[u8]) -> fmt::Result) -> fmt::Result {
        let mut result = Ok(());
        self.walk(&mut |_, blob| {
            result = line(blob);
            result.is_ok()
        });
        result
    }
}

/// The backtrace before a node, and how far the true start is before the user's block.
///
/// # Safety
/// `node` is one of a live block.
unsafe fn blob_before<'b>(node: *const Node) -> (&'b [u8], usize) {
    // SAFETY: the caller says so; before a node stands a length, and so many bytes end with it.
    unsafe {
        let end = node.cast::<u8>();
        let length = slice::from_raw_parts(end.sub(LENGTH_BYTES), LENGTH_BYTES);
        let length = length.first_chunk().map_or(0, |length| u16::from_be_bytes(*length)) & !extension::LENGTH_MARK;
        let bytes = usize::from(length);
        (slice::from_raw_parts(end.sub(bytes), bytes), extra(bytes))
    }
}
