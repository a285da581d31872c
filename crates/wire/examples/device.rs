//! A device that is none: sends events of blocks that come and go, on standard output, for trying `heapledger receive`.
//!
//! `cargo run -p heapledger-wire --example device -- [text] [EVENTS] | heapledger receive -`

use std::io::Write;

use heapledger_wire::line::{Binary, Text};
use heapledger_wire::{Line, Sender, WireEvent};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let as_text = words.iter().any(|word| word == "text");
    let events = words.iter().find_map(|word| word.parse().ok()).unwrap_or(1000);
    let write = |bytes: &[u8]| std::io::stdout().write_all(bytes).is_ok();
    if as_text { send(Text(|line: &str| write(line.as_bytes())), events) } else { send(Binary(write), events) }
}

fn send(line: impl Line, events: u32) {
    let mut sender: Sender<_, 64> = Sender::new(line, 0, std::process::id(), 1_000_000);
    sender.task(1, b"main", 0);
    for event in 0..events {
        let stack = [0x4008_0000 + event % 7 * 0x40, 0x4008_1000, 0x4008_2000];
        let address = 0x2000_0000 + event % 100 * 64;
        let told = WireEvent { kind: 1, address, size: 16 + event % 40, stack: &stack, task: 1, time: event };
        if event >= 100 {
            sender.free(&WireEvent { kind: 32, ..told });
        }
        sender.alloc(&told);
    }
    sender.flush();
}
