//! The dump of a trace as text, in the form in which ESP-IDF's `heap_trace_dump` prints it (5.5 and later), so that scripts made for
//! that go on working.
//!
//! The CPU is always 0, since records are of threads; `ccount` is the lower half of the time. Addresses have eight digits at least.
//! "total frees" are all frees while the trace ran or was paused, of blocks with a record or without.

use super::{TraceFigures, TraceMode, TraceRecord};
use crate::inspect::text::{Sink, Writer};

/// Where a block lies, as far as the dump says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracePlace {
    /// In memory of which nothing is said.
    Somewhere,
    /// In internal memory.
    Internal,
    /// In external memory.
    External,
    /// The dump leaves it out.
    Hidden,
}

/// What is dumped.
pub trait TraceSource {
    /// The mode of the trace.
    fn mode(&self) -> TraceMode;
    /// How many frames its records have room for.
    fn frames(&self) -> usize;
    /// What it has seen until now.
    fn figures(&mut self) -> TraceFigures;
    /// The record behind another one, or the oldest.
    fn after(&mut self, record: Option<&TraceRecord>) -> Option<TraceRecord>;
    /// Where a block lies.
    fn place(&self, address: usize) -> TracePlace;
}

/// Writes the dump.
pub fn dump<S: Sink>(source: &mut impl TraceSource, text: &mut Writer<S>) {
    let before = source.figures();
    text.push(b"====== Heap Trace: ").number(before.records, 1).push(b" records (").number(before.capacity, 1);
    text.push(b" capacity) ======\n");
    let (mut live_blocks, mut live_bytes) = (0u64, 0u64);
    let mut last = None;
    while let Some(record) = source.after(last.as_ref()).filter(|_| !text.is_refused()) {
        let place = source.place(record.address);
        if place != TracePlace::Hidden {
            if record.freed.is_none() {
                live_blocks = live_blocks.wrapping_add(1);
                live_bytes = live_bytes.wrapping_add(record.size as u64);
            }
            write_record(text, &record, place, source.frames());
        }
        last = Some(record);
    }
    let after = source.figures();
    write_summary(text, source.mode(), &after, (live_blocks, live_bytes));
    if after.allocations != before.allocations {
        text.push(NEW_ENTRIES);
    }
    if after.has_overflowed() {
        text.push(OVERFLOWED);
    }
    text.push(b"================================\n");
}

const NEW_ENTRIES: &[u8] = b"(NB: New entries were traced while dumping, so trace dump may have duplicate entries.)\n";
const OVERFLOWED: &[u8] = b"(NB: Internal Buffer has overflowed, so trace data is incomplete.)\n";

fn write_record<S: Sink>(text: &mut Writer<S>, record: &TraceRecord, place: TracePlace, frames_max: usize) {
    text.number(record.size as u64, 6).push(b" bytes (@ ").address(record.address as u64);
    text.push(match place {
        TracePlace::Internal => b", Internal",
        TracePlace::External => b",    PSRAM",
        TracePlace::Somewhere | TracePlace::Hidden => b"",
    });
    text.push(b") allocated CPU 0 ccount ").address(record.time & 0xFFFF_FFFF);
    let stack = record.stack();
    if frames_max > 0 {
        write_frames(text.push(b" caller "), stack, 0);
        if stack.len() < frames_max && !stack.is_empty() {
            text.push(b":");
        }
    }
    match &record.freed {
        // A frame that is zero is none.
        Some(freed) if freed.stack().first().is_some_and(|first| *first != 0) => {
            write_frames(text.push(b"\nfreed by "), freed.stack(), frames_max);
        }
        Some(_) => _ = text.push(b" freed"),
        None => {}
    }
    text.push(b"\n");
}

/// The frames, and zeros for those that are not there, if that is wanted.
fn write_frames<S: Sink>(text: &mut Writer<S>, frames: &[usize], zeros: usize) {
    let missing = core::iter::repeat_n(&0, zeros.saturating_sub(frames.len()));
    for (index, frame) in frames.iter().chain(missing).enumerate() {
        if index > 0 {
            text.push(b":");
        }
        text.address(*frame as u64);
    }
}

fn write_summary<S: Sink>(
    text: &mut Writer<S>,
    mode: TraceMode,
    figures: &TraceFigures,
    (live_blocks, live_bytes): (u64, u64),
) {
    text.push(b"====== Heap Trace Summary ======\n");
    let (name, what): (&[u8], &[u8]) = match mode {
        TraceMode::All => (b"Mode: Heap Trace All\n", b" bytes alive in trace ("),
        TraceMode::Leaks => (b"Mode: Heap Trace Leaks\n", b" bytes 'leaked' in trace ("),
    };
    text.push(name).number(live_bytes, 1).push(what).number(live_blocks, 1);
    if mode == TraceMode::All {
        text.push(b"/").number(figures.records, 1);
    }
    text.push(b" allocations)\nrecords: ").number(figures.records, 1).push(b" (").number(figures.capacity, 1);
    text.push(b" capacity, ").number(figures.most_records, 1).push(b" high water mark)\n");
    let frees = figures.frees.wrapping_add(figures.unknown_frees);
    text.push(b"total allocations: ").number(figures.allocations, 1);
    text.push(b"\ntotal frees: ").number(frees, 1).push(b"\n");
}

#[cfg(test)]
mod tests {
    use super::super::{TraceBuffer, TraceCaller, TraceShape};
    use super::*;
    use std::string::String;
    use std::vec;
    use std::vec::Vec;

    const RAM: usize = 0x3fc9_0000;
    const EXTERNAL: usize = 0x3c09_0000;

    struct Dumped<'b> {
        trace: TraceBuffer<'b>,
        shape: TraceShape,
        /// Which addresses are shown.
        shows: fn(usize) -> TracePlace,
        /// Allocated while the dump is under way.
        comes: Option<usize>,
    }

    fn anywhere(address: usize) -> TracePlace {
        match address >> 16 {
            0x3fc9 => TracePlace::Internal,
            0x3c09 => TracePlace::External,
            _ => TracePlace::Somewhere,
        }
    }

    fn caller(time: u64, frames: &[usize]) -> TraceCaller<'_> {
        TraceCaller { thread: 1, time, frames }
    }

    impl TraceSource for Dumped<'_> {
        fn mode(&self) -> TraceMode {
            self.shape.mode
        }
        fn frames(&self) -> usize {
            self.shape.frames
        }
        fn figures(&mut self) -> TraceFigures {
            self.trace.figures()
        }
        fn after(&mut self, record: Option<&TraceRecord>) -> Option<TraceRecord> {
            let next = self.trace.after(record);
            if let Some(address) = self.comes.take() {
                self.trace.allocated(address, 1, &caller(0, &[]));
            }
            next
        }
        fn place(&self, address: usize) -> TracePlace {
            (self.shows)(address)
        }
    }

    fn trace(words: &mut Vec<usize>, mode: TraceMode, frames: usize, records: usize) -> Dumped<'_> {
        let shape = TraceShape { mode, frames };
        *words = vec![0; shape.words(records)];
        let mut trace = TraceBuffer::new(words, shape, None).expect("room");
        trace.start();
        Dumped { trace, shape, shows: anywhere, comes: None }
    }

    /// Takes so many pieces.
    struct Taken(Vec<u8>, usize);

    impl Sink for Taken {
        fn take(&mut self, text: &[u8]) -> bool {
            self.0.extend_from_slice(text);
            self.1 -= 1;
            self.1 > 0
        }
    }

    fn taken(dumped: &mut Dumped, pieces: usize) -> String {
        let mut taken = Taken(Vec::new(), pieces);
        let mut writer = Writer::new(&mut taken);
        dump(dumped, &mut writer);
        writer.end();
        String::from_utf8(taken.0).expect("text")
    }

    fn text(dumped: &mut Dumped) -> String {
        taken(dumped, usize::MAX)
    }

    const STACK: &[usize] = &[0x4037_6321, 0x4037_6379];

    #[test]
    fn all_with_two_frames_byte_for_byte() {
        let mut words = Vec::new();
        let mut dumped = trace(&mut words, TraceMode::All, 2, 8);
        let trace = &mut dumped.trace;
        trace.allocated(RAM + 0x10, 10, &caller(0x2414, STACK));
        trace.freed(RAM + 0x10, &caller(1, &[0x4038_39e4, 0x4200_8096]));
        trace.allocated(RAM + 0x10, 16, &caller(0x2818, STACK));
        trace.freed(RAM + 0x10, &caller(2, &[0x4038_39e4]));
        trace.allocated(RAM + 0x20, 7, &caller(0x2c1c, STACK));
        trace.freed(RAM + 0x20, &caller(3, &[]));
        trace.allocated(EXTERNAL + 0x30, 9, &caller(0x3020, &[0x4037_6321]));
        assert_eq!(
            text(&mut dumped),
            "\
====== Heap Trace: 4 records (8 capacity) ======
    10 bytes (@ 0x3fc90010, Internal) allocated CPU 0 ccount 0x00002414 caller 0x40376321:0x40376379
freed by 0x403839e4:0x42008096
    16 bytes (@ 0x3fc90010, Internal) allocated CPU 0 ccount 0x00002818 caller 0x40376321:0x40376379
freed by 0x403839e4:0x00000000
     7 bytes (@ 0x3fc90020, Internal) allocated CPU 0 ccount 0x00002c1c caller 0x40376321:0x40376379 freed
     9 bytes (@ 0x3c090030,    PSRAM) allocated CPU 0 ccount 0x00003020 caller 0x40376321:
====== Heap Trace Summary ======
Mode: Heap Trace All
9 bytes alive in trace (1/4 allocations)
records: 4 (8 capacity, 4 high water mark)
total allocations: 4
total frees: 3
================================
"
        );
        let figures = dumped.trace.figures();
        assert_eq!((figures.frees, figures.unknown_frees), (3, 0), "hits and misses");
    }

    #[test]
    fn with_one_frame() {
        let mut words = Vec::new();
        let mut dumped = trace(&mut words, TraceMode::All, 1, 4);
        let trace = &mut dumped.trace;
        trace.allocated(RAM, 1, &caller(1, STACK));
        trace.freed(RAM, &caller(2, &[0x4200_8096]));
        trace.allocated(RAM, 22, &caller(3, &[]));
        trace.freed(RAM, &caller(4, &[0]));
        let expected = "\
====== Heap Trace: 2 records (4 capacity) ======
     1 bytes (@ 0x3fc90000, Internal) allocated CPU 0 ccount 0x00000001 caller 0x40376321
freed by 0x42008096
    22 bytes (@ 0x3fc90000, Internal) allocated CPU 0 ccount 0x00000003 caller  freed
====== Heap Trace Summary ======
";
        let said = text(&mut dumped);
        assert!(said.starts_with(expected), "{said}");
    }

    #[test]
    fn leaks_after_an_overflow_byte_for_byte() {
        let mut words = Vec::new();
        let mut dumped = trace(&mut words, TraceMode::Leaks, 2, 3);
        let trace = &mut dumped.trace;
        for (index, size) in [40, 20, 30, 50].into_iter().enumerate() {
            let base = if size == 30 { EXTERNAL } else { RAM };
            let frames = if size == 30 { &STACK[..1] } else { STACK };
            trace.allocated(base + index * 0x100, size, &caller(index as u64, frames));
        }
        for address in [RAM + 0x300, RAM, 0x10] {
            trace.freed(address, &caller(9, &[]));
        }
        assert_eq!(
            text(&mut dumped),
            "\
====== Heap Trace: 2 records (3 capacity) ======
    20 bytes (@ 0x3fc90100, Internal) allocated CPU 0 ccount 0x00000001 caller 0x40376321:0x40376379
    30 bytes (@ 0x3c090200,    PSRAM) allocated CPU 0 ccount 0x00000002 caller 0x40376321:
====== Heap Trace Summary ======
Mode: Heap Trace Leaks
50 bytes 'leaked' in trace (2 allocations)
records: 2 (3 capacity, 3 high water mark)
total allocations: 4
total frees: 3
(NB: Internal Buffer has overflowed, so trace data is incomplete.)
================================
"
        );
        let figures = dumped.trace.figures();
        assert_eq!((figures.frees, figures.unknown_frees), (1, 2), "hits and misses");
    }

    #[test]
    fn an_empty_one_and_one_without_stacks() {
        let mut words = Vec::new();
        let mut dumped = trace(&mut words, TraceMode::All, 0, 2);
        let end = "records: 0 (2 capacity, 0 high water mark)\ntotal allocations: 0\ntotal frees: 0\n";
        let empty = text(&mut dumped);
        assert!(empty.starts_with("====== Heap Trace: 0 records (2 capacity) ======\n====== Heap Trace Summary"));
        assert!(empty.contains("0 bytes alive in trace (0/0 allocations)\n") && empty.contains(end), "{empty}");
        dumped.trace.allocated(0x1000, 1_234_567, &caller(0, STACK));
        dumped.trace.freed(0x1000, &caller(0, STACK));
        dumped.trace.allocated(0x2000, 1, &caller(u64::MAX, STACK));
        let both = text(&mut dumped);
        assert!(both.contains("1234567 bytes (@ 0x00001000) allocated CPU 0 ccount 0x00000000 freed\n"), "{both}");
        assert!(both.contains("\n     1 bytes (@ 0x00002000) allocated CPU 0 ccount 0xffffffff\n"), "{both}");
    }

    #[test]
    fn what_is_hidden_is_not_counted_and_what_comes_meanwhile_is_said() {
        let mut words = Vec::new();
        let mut dumped = trace(&mut words, TraceMode::Leaks, 1, 8);
        dumped.trace.allocated(RAM, 10, &caller(0, &[1]));
        dumped.trace.allocated(EXTERNAL, 20, &caller(0, &[1]));
        dumped.shows = |address| if address < RAM { TracePlace::External } else { TracePlace::Hidden };
        let external = text(&mut dumped);
        assert!(external.contains("20 bytes 'leaked' in trace (1 allocations)\nrecords: 2 ("), "{external}");
        dumped.shows = |_| TracePlace::Hidden;
        dumped.comes = Some(RAM + 0x40);
        let none = text(&mut dumped);
        assert!(none.contains("0 bytes 'leaked' in trace (0 allocations)\nrecords: 3 ("), "{none}");
        assert!(none.contains(core::str::from_utf8(NEW_ENTRIES).expect("text")), "{none}");
    }

    #[test]
    fn who_takes_no_more_gets_no_more() {
        let mut words = Vec::new();
        let mut dumped = trace(&mut words, TraceMode::All, 2, 100);
        for index in 0..100 {
            dumped.trace.allocated(RAM + index * 64, 10, &caller(0, STACK));
        }
        let all = text(&mut dumped);
        for pieces in [1, 2, 7] {
            let some = taken(&mut dumped, pieces);
            assert!(some.len() < all.len() && all.starts_with(&some));
        }
    }
}
