//! A backtrace, packed before its block is there.

use heapledger_lws::{DEPTH_MAX, encode, encode_any};

/// Innermost frames that are left out: those of the instrumentation. The original's default.
pub const PRE: usize = 2;
/// Outermost frames that are left out: those of the start of a program. The original's default.
pub const POST: usize = 1;
/// Most bytes of a backtrace: 31 frames of 64 bits.
pub const BLOB_BYTES_MAX: usize = 300;
/// Blocks stay at multiples of this.
const ALIGN_BYTES: usize = 16;
/// Frames that the original stores before it leaves out the outermost ones.
const STORED_MAX: usize = 32;

/// Of the frames of a stack, innermost first, those that are kept: without the `pre` innermost and, if there are more
/// than these, without the `post` outermost of the first 32.
pub fn snip<T>(frames: &[T], pre: usize, post: usize) -> &[T] {
    let inner = frames.get(pre..).unwrap_or(&[]);
    let stored = inner.get(..STORED_MAX).unwrap_or(inner);
    let kept = if stored.len() > post { stored.len().saturating_sub(post) } else { stored.len() };
    stored.get(..kept.min(DEPTH_MAX)).unwrap_or(stored)
}

/// A backtrace that is to stand before a block.
#[derive(Clone, Copy, Debug)]
pub struct Prepared {
    blob: [u8; BLOB_BYTES_MAX],
    bytes: usize,
}

impl Prepared {
    /// Packs the frames of whoever asks for `size` bytes. No lock is needed.
    pub fn new(frames: &[u64], size: usize) -> Prepared {
        let mut prepared = Prepared { blob: [0; BLOB_BYTES_MAX], bytes: 0 };
        let size = size as u64;
        // Of what does not fit, the size alone does.
        let written =
            encode_any(frames, size, &mut prepared.blob).or_else(|_| encode_any(&[], size, &mut prepared.blob));
        prepared.bytes = written.unwrap_or(0);
        prepared
    }

    /// The same of a 32-bit target, in less code.
    pub fn narrow(frames: &[u32], size: u32) -> Prepared {
        let mut prepared = Prepared { blob: [0; BLOB_BYTES_MAX], bytes: 0 };
        let written = encode(frames, size, &mut prepared.blob).or_else(|_| encode(&[], size, &mut prepared.blob));
        prepared.bytes = written.unwrap_or(0);
        prepared
    }

    /// The backtrace, its length at the end included.
    pub fn blob(&self) -> &[u8] {
        self.blob.get(..self.bytes).unwrap_or(&[])
    }

    /// How many bytes more the allocator is to be asked for.
    pub fn extra(&self) -> usize {
        extra(self.bytes)
    }
}

/// Bytes of the node before a block.
pub(crate) const NODE_BYTES: usize = 3 * size_of::<usize>();

/// Bytes in front of a block whose backtrace has so many.
pub(crate) const fn extra(blob: usize) -> usize {
    NODE_BYTES.saturating_add(blob).div_ceil(ALIGN_BYTES).saturating_mul(ALIGN_BYTES)
}
