//! The encoder of backtraces and nothing else, to see what it takes of a chip's flash.
#![no_std]
#![no_main]

use core::panic::PanicInfo;

use heapledger_lws::{BLOB_BYTES_MAX_32, DEPTH_MAX, encode};

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    loop {}
}

/// What a firmware would call.
#[unsafe(no_mangle)]
extern "C" fn encode_backtrace(
    frames: &[u32; DEPTH_MAX],
    depth: usize,
    size: u32,
    out: &mut [u8; BLOB_BYTES_MAX_32],
) -> usize {
    encode(frames.get(..depth).unwrap_or(&[]), size, out).unwrap_or(0)
}
