//! Ledgers of forked processes, made for tests.

use heapledger_format::bytes::{ByteOrder, Codec, WordSize};
use heapledger_format::family::{ForkCut, InheritedFree};
use heapledger_format::session::process as key;
use heapledger_format::{Entry, Kind, SectionKind, Site, ThreadRow, ThreadRowPlus1, Ticks, Word};
use heapledger_testing::Builder;

const CODEC: Codec = Codec { order: ByteOrder::NATIVE, word: WordSize::W64 };
const MAIN: Option<ThreadRow> = Some(ThreadRow(0));

/// A block of the main thread's, allocated at the time of its number.
pub(super) fn block(address: u64, number: u64, size: u64) -> Entry {
    let time = Some(Ticks(number));
    Entry { address, number, thread: MAIN, size: Some(size), kind: Kind::MALLOC, time, ..Entry::NONE }
}

/// A ledger of this process.
pub(super) fn named(pid: u32) -> Builder {
    let mut builder = Builder::new();
    builder.codec(CODEC.order, CODEC.word).id([pid as u8; 16]);
    builder.process("pid", &pid.to_string()).process(key::START_TICKS, "1").process("program", "worker");
    builder
}

/// Says that it was forked before this number of its parent's main thread, and freed blocks `(address, number)` of its.
pub(super) fn forked(builder: &mut Builder, parent: u32, number: u64, freed: &[(u64, u64)]) {
    builder.process("ppid", &parent.to_string()).process("parent_id", &format!("{parent:02x}").repeat(16));
    let (mut cut, mut frees) = (vec![0; 16], vec![0; 40 * freed.len()]);
    assert!(ForkCut { time: Word(1), number_plus_1: Word(number + 1) }.write(CODEC, &mut cut));
    for ((address, number), element) in freed.iter().zip(frees.chunks_exact_mut(40)) {
        let (address, time, thread) = (Word(*address), Ticks(*number), ThreadRowPlus1(1));
        let (site, by, number_plus_1) = (Site(9), u32::from(Kind::FREE.0), Word(number + 1));
        assert!(InheritedFree { address, time, site, thread, by, reserved: 0, number_plus_1 }.write(CODEC, element));
    }
    builder.section(SectionKind::Cut as u16, 16, cut).section(SectionKind::Inherited as u16, 40, frees);
}
