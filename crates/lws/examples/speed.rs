//! How long encoding and decoding take: `cargo run --release -p heapledger-lws --example speed`.

use std::hint::black_box;
use std::time::Instant;

use heapledger_lws::{BLOB_BYTES_MAX_32, Width, decode, encode};

const ROUNDS: u32 = 1_000_000;
const DEPTHS: [usize; 3] = [4, 16, 31];

fn main() {
    let steps = [0x19u64, 0x1e2, 0x3f001, 0x88, 0x12345, 0x777, 0x40, 0x10203];
    let mut at = 0x40_1000;
    let frames: [u64; 31] = std::array::from_fn(|index| {
        at += steps[index % steps.len()];
        at
    });
    for depth in DEPTHS {
        let (mut blob, mut out) = ([0; BLOB_BYTES_MAX_32], [0; 31]);
        let begun = Instant::now();
        let mut bytes = 0;
        for size in 0..ROUNDS {
            bytes = encode(black_box(&frames[..depth]), u64::from(size), black_box(&mut blob)).unwrap_or(0);
        }
        let encoded = begun.elapsed();
        let begun = Instant::now();
        for _ in 0..ROUNDS {
            let decoded = decode(black_box(&blob[..bytes]), Width::W64, black_box(&mut out));
            assert!(decoded.is_ok_and(|decoded| decoded.frames.len() == depth));
        }
        let decoded = begun.elapsed();
        let ns = |time: std::time::Duration| time.as_nanos() as f64 / f64::from(ROUNDS);
        println!("{depth} frames, {bytes} bytes: encoded in {:.0} ns, decoded in {:.0} ns", ns(encoded), ns(decoded));
    }
}
