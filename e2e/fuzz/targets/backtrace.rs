//! Any bytes as a blob of libwebsockets: read or refused; what is read comes back when it is written again.
#![no_main]

use heapledger_lws::{BLOB_BYTES_MAX, Width, decode, encode_any, extension};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|blob: &[u8]| {
    for width in [Width::W32, Width::W64] {
        let mut frames = [0; extension::DEPTH_MAX];
        let Ok(decoded) = decode(blob, width, &mut frames) else { continue };
        let (frames, size) = (decoded.frames.to_vec(), decoded.size);
        let mut again = vec![0; BLOB_BYTES_MAX];
        let Ok(bytes) = encode_any(&frames, size, &mut again) else { continue };
        let mut back = [0; extension::DEPTH_MAX];
        let read = decode(&again[..bytes], Width::W64, &mut back).expect("what was written is read");
        assert!(read.frames == frames && read.size == size && read.lenient.is_none());
    }
});
