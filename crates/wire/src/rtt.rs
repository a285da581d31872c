//! A ring in memory that a debugger empties while the device runs: one upward channel of SEGGER's RTT.
//!
//! The debugger finds it by its first bytes. It holds addresses as numbers, and so needs no `unsafe`; the ring must be a
//! `static`, and be begun before anything is sent.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::line::Line;
use crate::{FRAME_BYTES_MAX, cobs};

const NAME: &[u8; 11] = b"heapledger\0";
/// What a debugger looks for, backwards, so that it is found in memory only where a ring was begun.
const ID_BACKWARDS: [u8; 16] = *b"\0\0\0\0\0\0TTR REGGES";

/// The ring, with room for `N` bytes.
#[derive(Debug)]
#[repr(C)]
pub struct Ring<const N: usize> {
    id: [AtomicU8; 16],
    up_channels: AtomicUsize,
    down_channels: AtomicUsize,
    name: AtomicUsize,
    buffer: AtomicUsize,
    bytes: AtomicUsize,
    written: AtomicUsize,
    read: AtomicUsize,
    mode: AtomicUsize,
    data: [AtomicU8; N],
}

impl<const N: usize> Ring<N> {
    /// An empty one, which no debugger finds yet.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Ring<N> {
        Ring {
            id: [const { AtomicU8::new(0) }; 16],
            up_channels: AtomicUsize::new(1),
            down_channels: AtomicUsize::new(0),
            name: AtomicUsize::new(0),
            buffer: AtomicUsize::new(0),
            bytes: AtomicUsize::new(N),
            written: AtomicUsize::new(0),
            read: AtomicUsize::new(0),
            // What has no room is left out.
            mode: AtomicUsize::new(0),
            data: [const { AtomicU8::new(0) }; N],
        }
    }

    /// Lets debuggers find it.
    pub fn begin(&'static self) {
        self.name.store(NAME.as_ptr() as usize, Ordering::Relaxed);
        self.buffer.store(self.data.as_ptr() as usize, Ordering::Relaxed);
        self.mode.store(0, Ordering::Release);
        for (place, byte) in self.id.iter().zip(ID_BACKWARDS.iter().rev()) {
            place.store(*byte, Ordering::Release);
        }
    }

    /// Puts all of the bytes in, or none. One at a time may do this.
    pub fn put(&self, bytes: &[u8]) -> bool {
        let (mut at, read) = (self.written.load(Ordering::Relaxed), self.read.load(Ordering::Acquire));
        // One place stays free: else full would look like empty.
        let used = if at >= read { at.wrapping_sub(read) } else { at.wrapping_add(N).wrapping_sub(read) };
        if bytes.len() >= N.wrapping_sub(used) {
            return false;
        }
        for byte in bytes {
            if let Some(place) = self.data.get(at) {
                place.store(*byte, Ordering::Relaxed);
            }
            at = at.wrapping_add(1);
            if at >= N {
                at = 0;
            }
        }
        self.written.store(at, Ordering::Release);
        true
    }

    /// Takes bytes out, as a debugger does; how many.
    pub fn take(&self, out: &mut [u8]) -> usize {
        let (mut at, written) = (self.read.load(Ordering::Relaxed), self.written.load(Ordering::Acquire));
        let mut count = 0usize;
        for place in out {
            if at == written {
                break;
            }
            *place = self.data.get(at).map_or(0, |byte| byte.load(Ordering::Relaxed));
            at = at.wrapping_add(1);
            if at >= N {
                at = 0;
            }
            count = count.wrapping_add(1);
        }
        self.read.store(at, Ordering::Release);
        count
    }
}

impl<const N: usize> Line for &Ring<N> {
    fn send(&mut self, frame: &[u8]) -> bool {
        let mut packed = [0; FRAME_BYTES_MAX + cobs::OVERHEAD_BYTES];
        cobs::pack(frame, &mut packed).is_some_and(|bytes| self.put(packed.get(..bytes).unwrap_or(&[])))
    }
}
