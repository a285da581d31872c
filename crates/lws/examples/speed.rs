//! How long encoding and decoding take: `cargo run --release -p heapledger-lws --example speed`. Of many short rounds the fastest is told: other work on
//! the machine is not in it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use heapledger_lws::{BLOB_BYTES_MAX_32, Width, decode, encode};

const ROUNDS: u32 = 500;
const TURNS: u32 = 2000;
const DEPTHS: [usize; 3] = [4, 16, 31];

/// Nanoseconds of one turn, in the fastest round.
fn fastest(mut turn: impl FnMut(u32)) -> f64 {
    let round = |_| {
        let begun = Instant::now();
        (0..TURNS).for_each(&mut turn);
        begun.elapsed()
    };
    let fastest = (0..ROUNDS).map(round).min().unwrap_or(Duration::MAX);
    fastest.as_nanos() as f64 / f64::from(TURNS)
}

fn main() {
    let steps = [0x19u64, 0x1e2, 0x3f001, 0x88, 0x12345, 0x777, 0x40, 0x10203];
    let mut at = 0x40_1000;
    let frames: [u64; 31] = std::array::from_fn(|index| {
        at += steps[index % steps.len()];
        at
    });
    for depth in DEPTHS {
        let (mut blob, mut out) = ([0; BLOB_BYTES_MAX_32], [0; 31]);
        let mut bytes = 0;
        let encoded = fastest(|size| {
            bytes = encode(black_box(&frames[..depth]), u64::from(size), black_box(&mut blob)).unwrap_or(0);
        });
        let decoded = fastest(|_| {
            let decoded = decode(black_box(&blob[..bytes]), Width::W64, black_box(&mut out));
            assert!(decoded.is_ok_and(|decoded| decoded.frames.len() == depth));
        });
        println!("{depth} frames, {bytes} bytes: encoded in {encoded:.0} ns, decoded in {decoded:.0} ns");
    }
}
