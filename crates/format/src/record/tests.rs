//! Records at the edges of their fields, packed and read again.

use super::*;
use crate::bytes::ByteOrder;
use crate::ids::{Site, ThreadRow, Ticks};

fn bytes_of<const N: usize>(words: [u64; N]) -> std::vec::Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

const CODEC: Codec = Codec { order: ByteOrder::Little, word: WordSize::W64 };

fn sample() -> Entry {
    Entry {
        number: 41,
        address: 0x7f12_3456_7890,
        size: Some(100),
        actual: Some(104),
        kind: Kind::NEW_ARRAY,
        site: Site(0xdead_beef),
        thread: Some(ThreadRow(513)),
        heap: Some(2),
        time: Some(Ticks(12_345_678)),
        ..Entry::NONE
    }
}

#[test]
fn the_fast_packing_is_what_the_descriptors_say() {
    let entry = sample();
    let layout = layout_64(Options::ALL);
    assert_eq!(Entry::read(&layout, CODEC, &bytes_of(entry.pack())), Some(entry));
    assert_eq!(Entry::unpack(&entry.pack()), Some(entry));
    let mut slow = [0u8; 32];
    assert!(!entry.write(&layout, CODEC, &mut slow));
    assert_eq!(slow.as_slice(), bytes_of(entry.pack()));

    let freed = FreedEntry {
        block: entry,
        number: 77,
        later: 0,
        by: Kind::DELETE_ARRAY,
        site: Site(9),
        thread: Some(ThreadRow(3)),
        time: Some(Ticks(99)),
        core: None,
    };
    assert_eq!(FreedEntry::read(&layout, CODEC, &bytes_of(freed.pack())), Some(freed));
    let mut slow = [0u8; 64];
    freed.write(&layout, CODEC, &mut slow);
    assert_eq!(slow.as_slice(), bytes_of(freed.pack()));
}

#[test]
fn every_narrow_field_at_its_edge() {
    let layout = layout_64(Options::ALL);
    let read = |entry: &Entry| Entry::read(&layout, CODEC, &bytes_of(entry.pack()));

    let last = Entry {
        number: NUMBER_MAX,
        address: ADDRESS_MAX,
        size: Some(SIZE_ESCAPE - 1),
        actual: Some(SIZE_ESCAPE - 1 + EXCESS_ESCAPE - 1),
        kind: Kind(63),
        site: Site(u32::MAX),
        thread: Some(ThreadRow(ThreadRow::OTHER.0 - 1)),
        heap: Some(255),
        time: Some(TIME_MAX),
        ..Entry::NONE
    };
    assert_eq!(read(&last), Some(last), "the last value of each field is exact");
    assert!(!last.is_wide());

    let huge = Entry { size: Some(SIZE_ESCAPE), actual: Some(SIZE_ESCAPE + 8), ..last };
    assert!(huge.is_wide());
    assert_eq!(read(&huge).map(|e| (e.size, e.actual)), Some((None, None)));

    let padded = Entry { size: Some(1), actual: Some(1 + EXCESS_ESCAPE), ..last };
    assert!(padded.is_wide());
    assert_eq!(read(&padded).map(|e| (e.size, e.actual)), Some((Some(1), None)));

    let crowd = Entry { thread: Some(ThreadRow(ThreadRow::OTHER.0 + 1)), ..last };
    assert_eq!(read(&crowd).map(|e| e.thread), Some(None), "a thread without a row");

    let late = Entry { time: Some(Ticks(TIME_MAX.0 + 1)), ..last };
    assert_eq!(read(&late).and_then(|e| e.time), Some(TIME_MAX), "time saturates");

    // A history entry keeps the figure that the record had to put elsewhere.
    for block in [huge, padded] {
        let freed = FreedEntry {
            block,
            number: 1,
            later: 0,
            by: Kind::FREE,
            site: Site::NONE,
            thread: None,
            time: Some(Ticks(0)),
            core: None,
        };
        let back = FreedEntry::read(&layout, CODEC, &bytes_of(freed.pack())).expect("an entry");
        assert_eq!(back.block.size, block.size);
        if block.size != Some(SIZE_ESCAPE) {
            assert_eq!(back.block.actual, block.actual);
        }
    }
}

#[test]
fn a_vacant_element_is_no_entry() {
    let layout = layout_64(Options::ALL);
    assert_eq!(Entry::read(&layout, CODEC, &[0; 32]), None);
    assert_eq!(FreedEntry::read(&layout, CODEC, &[0; 64]), None);
    assert_eq!(Entry::read(&layout, CODEC, &[]), None);
}

#[test]
fn what_is_switched_off_is_not_described() {
    let layout = layout_64(Options(Options::THREAD));
    let entry = Entry::read(&layout, CODEC, &bytes_of(sample().pack())).expect("an entry");
    assert_eq!((entry.time, entry.actual, entry.heap, entry.site), (None, None, None, Site::NONE));
    assert_eq!((entry.thread, entry.size), (Some(ThreadRow(513)), Some(100)));
    assert!(!layout.has(Field::FreedNumber));
}
