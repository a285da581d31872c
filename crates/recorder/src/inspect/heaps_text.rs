//! Heaps and their blocks as ESP-IDF prints them, byte for byte.

use super::heaps::HeapFigures;
use super::text::{Sink, Writer};

/// The line before all heaps that have these capabilities.
pub fn summary_begins<S: Sink>(text: &mut Writer<S>, capabilities: u32) {
    text.push(b"Heap summary for capabilities ").upper_hex(capabilities.into()).push(b":\n");
}

/// A heap at an address.
pub fn summary_heap<S: Sink>(text: &mut Writer<S>, address: u64, heap: &HeapFigures) {
    let blocks = heap.used_blocks.saturating_add(heap.free_blocks);
    text.push(b"  At ").address(address);
    pairs(text, &[(b" len ", heap.total_bytes), (b" free ", heap.free_bytes)]);
    pairs(text, &[(b" allocated ", heap.used_bytes), (b" min_free ", heap.minimum_free_bytes)]);
    pairs(text, &[(b"\n    largest_free_block ", heap.largest_free_bytes), (b" alloc_blocks ", heap.used_blocks)]);
    pairs(text, &[(b" free_blocks ", heap.free_blocks), (b" total_blocks ", blocks)]);
    text.push(b"\n");
}

/// All of them.
pub fn summary_ends<S: Sink>(text: &mut Writer<S>, all: &HeapFigures) {
    text.push(b"  Totals:\n   ");
    pairs(text, &[(b" free ", all.free_bytes), (b" allocated ", all.used_bytes)]);
    let least = [(&b" min_free "[..], all.minimum_free_bytes), (b" largest_free_block ", all.largest_free_bytes)];
    pairs(text, &least);
    text.push(b"\n");
}

/// Names and numbers.
fn pairs<S: Sink>(text: &mut Writer<S>, pairs: &[(&[u8], usize)]) {
    for (name, number) in pairs {
        text.push(name).number(*number as u64, 0);
    }
}

/// The line before a heap's blocks.
pub fn dump_begins<S: Sink>(text: &mut Writer<S>, address: u64) {
    text.push(b"Showing data for heap: ").address(address).push(b" \n");
}

/// A block, or a gap.
pub fn dump_block<S: Sink>(text: &mut Writer<S>, address: u64, bytes: u64, is_free: bool) {
    text.push(b"Block ").address(address).push(b" data, size: ").number(bytes, 0);
    text.push(if is_free { b" bytes, Free: Yes \n" } else { b" bytes, Free: No \n" });
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::written;
    use super::*;

    #[test]
    fn the_summary_has_the_form_of_esp_idf() {
        let full = HeapFigures {
            heaps: 1,
            total_bytes: 6432,
            free_bytes: 4,
            used_bytes: 4676,
            minimum_free_bytes: 4,
            used_blocks: 32,
            ..HeapFigures::NONE
        };
        let large = HeapFigures {
            heaps: 1,
            total_bytes: 183_792,
            free_bytes: 166_372,
            used_bytes: 15_740,
            minimum_free_bytes: 165_372,
            largest_free_bytes: 163_840,
            used_blocks: 14,
            free_blocks: 1,
            ..HeapFigures::NONE
        };
        let mut all = HeapFigures::NONE;
        all.add(&full);
        all.add(&large);
        let text = written(|text| {
            summary_begins(text, 0xab4);
            summary_heap(text, 0x3ffa_e6e0, &full);
            summary_heap(text, 0x3ffb_3210, &large);
            summary_ends(text, &all);
        });
        assert_eq!(
            text,
            "Heap summary for capabilities 0x00000AB4:\n\
             \x20 At 0x3ffae6e0 len 6432 free 4 allocated 4676 min_free 4\n\
             \x20   largest_free_block 0 alloc_blocks 32 free_blocks 0 total_blocks 32\n\
             \x20 At 0x3ffb3210 len 183792 free 166372 allocated 15740 min_free 165372\n\
             \x20   largest_free_block 163840 alloc_blocks 14 free_blocks 1 total_blocks 15\n\
             \x20 Totals:\n\
             \x20   free 166376 allocated 20416 min_free 165376 largest_free_block 163840\n"
        );
    }

    #[test]
    fn a_dump_has_its_trailing_blanks() {
        let text = written(|text| {
            dump_begins(text, 0x3ffb_3210);
            dump_block(text, 0x3ffb_3468, 20, false);
            dump_block(text, 0x3ffb_34c0, 3616, true);
        });
        assert_eq!(
            text,
            "Showing data for heap: 0x3ffb3210 \n\
             Block 0x3ffb3468 data, size: 20 bytes, Free: No \n\
             Block 0x3ffb34c0 data, size: 3616 bytes, Free: Yes \n"
        );
    }
}
