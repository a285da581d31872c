//! Figures over time: in a live ledger, in what is made of it, in ledgers without any, and in damaged and forged ones.

use heapledger_format::bytes::{ByteOrder, Codec, WordSize};
use heapledger_format::timeline::{TimePoint, WORDS, by, known};
use heapledger_format::{SectionKind, Ticks};
use heapledger_source::{Ledger, Meanwhile, More, POINTS_MAX, Snapshot, finish, finish_with};
use heapledger_testing::{Scratch, sample};

const CODECS: [(ByteOrder, WordSize); 4] = [
    (ByteOrder::Little, WordSize::W64),
    (ByteOrder::Big, WordSize::W64),
    (ByteOrder::Little, WordSize::W32),
    (ByteOrder::Big, WordSize::W32),
];

fn point(seen_by: u16, begin: u64, end: u64, highest: u64) -> TimePoint {
    TimePoint {
        begin: Ticks(begin),
        looks: 1,
        by: seen_by,
        known: known::TOTALS,
        live_bytes: highest / 2,
        highest_bytes: highest,
        highest_time: Ticks(end),
        lowest_bytes: highest / 2,
        allocations: end,
        bytes_allocated: 1 << 20,
        ..TimePoint::default()
    }
    .with_end(Ticks(end))
}

fn elements(codec: Codec, points: &[TimePoint]) -> Vec<u8> {
    let mut bytes = vec![0; points.len() * WORDS * 8];
    for (element, point) in bytes.chunks_exact_mut(WORDS * 8).zip(points) {
        assert!(point.write(codec, element));
    }
    bytes
}

/// With a vacant element in the middle.
fn noted() -> Vec<TimePoint> {
    let mut points: Vec<TimePoint> =
        (0..40).map(|index| point(by::RECORDER, index * 10_000, index * 10_000 + 10_000, 100 + index)).collect();
    points.insert(20, TimePoint::default());
    points
}

fn ledger_of(scratch: &Scratch, (order, word): (ByteOrder, WordSize), bytes: Vec<u8>) -> Ledger {
    let mut builder = sample(order, word);
    builder.section(SectionKind::Timeline as u16, WORDS * 8, bytes);
    builder.write(&scratch.join("live")).expect("written");
    Ledger::open(scratch.join("live")).expect("a ledger")
}

#[test]
fn each_form_has_the_same_points() {
    for (order, word) in CODECS {
        let scratch = Scratch::new(&format!("timeline-{order:?}-{}", word.bytes()));
        let live = ledger_of(&scratch, (order, word), elements(Codec { order, word }, &noted()));
        let expected: Vec<TimePoint> = noted().into_iter().filter(|point| point.looks != 0).collect();
        assert!(live.has_timeline());
        assert_eq!(live.timeline().expect("read"), expected);
        finish(&live, &scratch.join("finished"), &[], &mut |_, _| ()).expect("finished");
        let copy =
            Snapshot::copy(&live, &scratch.join("copy"), 1_700_000_000_500_000_000, Meanwhile::Held).expect("copied");
        copy.finish(&scratch.join("taken"), &[], &mut |_, _| ()).expect("finished");
        for name in ["finished", "taken"] {
            let ledger = Ledger::open(scratch.join(name)).expect("a ledger");
            assert!(!ledger.damage().is_any() && ledger.left_out().is_empty(), "{name}");
            assert_eq!(ledger.timeline().expect("read"), expected, "{name}");
        }
    }
}

#[test]
fn what_was_seen_from_outside_is_written_with_it_also_where_there_was_no_section() {
    for (order, word) in CODECS {
        let scratch = Scratch::new(&format!("timeline-outside-{order:?}-{}", word.bytes()));
        let outside: Vec<TimePoint> =
            (5..9).map(|index| point(by::OUTSIDE, index * 10_000, index * 10_000 + 10_000, 7)).collect();
        let more = More { pairs: &[("exit", "0".to_owned())], timeline: &outside };
        let path = scratch.join("finished");
        let live = ledger_of(&scratch, (order, word), elements(Codec { order, word }, &noted()));
        finish_with(&live, &path, more, &mut |_, _| ()).expect("finished");
        let both = Ledger::open(&path).expect("a ledger").timeline().expect("read");
        assert_eq!(both.len(), 40, "{order:?} {word:?}");
        assert_eq!(both.iter().filter(|point| point.by == by::OUTSIDE).count(), 4);
        assert!(both.windows(2).all(|pair| pair[0].end() == pair[1].begin));
        assert_eq!(both[6].highest_bytes, 106, "what the recorder knew was more");

        sample(order, word).write(&scratch.join("older")).expect("written");
        let older = Ledger::open(scratch.join("older")).expect("a ledger");
        assert!(!older.has_timeline() && older.timeline().expect("read").is_empty());
        finish(&older, &path, &[], &mut |_, _| ()).expect("finished");
        assert!(!Ledger::open(&path).expect("a ledger").has_timeline());
        finish_with(&older, &path, more, &mut |_, _| ()).expect("finished");
        let finished = Ledger::open(&path).expect("a ledger");
        assert_eq!(finished.timeline().expect("read"), outside);
        assert_eq!(finished.process().text("exit").as_deref(), Some("0"));
        assert!(!finished.damage().is_any());
    }
}

#[test]
fn a_finished_ledger_has_not_more_than_so_many() {
    let scratch = Scratch::new("timeline-many");
    let codec = CODECS[0];
    let many: Vec<TimePoint> =
        (0..9000).map(|index| point(by::RECORDER, index * 10_000, index * 10_000 + 10_000, index % 7000)).collect();
    let live = ledger_of(&scratch, codec, elements(Codec { order: codec.0, word: codec.1 }, &many));
    assert_eq!(live.timeline().expect("read").len(), 9000);
    finish(&live, &scratch.join("finished"), &[], &mut |_, _| ()).expect("finished");
    let points = Ledger::open(scratch.join("finished")).expect("a ledger").timeline().expect("read");
    assert!(points.len() <= POINTS_MAX && points.len() > POINTS_MAX / 3, "{}", points.len());
    assert_eq!(points.iter().map(|point| point.highest_bytes).max(), Some(6999));
    assert_eq!((points[0].begin, points[points.len() - 1].end()), (Ticks(0), Ticks(90_000_000)));
}

/// Numbers that nobody meant anything by.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

#[test]
fn forged_ones_give_intervals_in_order_or_none() {
    let scratch = Scratch::new("timeline-forged");
    let codec = CODECS[0];
    for seed in 0..40 {
        let mut bytes = noise(seed, 100 * WORDS * 8);
        if seed % 2 == 0 {
            // Times that could be, so that more comes through.
            for (index, element) in bytes.chunks_exact_mut(WORDS * 8).enumerate() {
                for (place, seed) in [(0, index as u64 + seed), (8, seed)] {
                    let time = u64::from(u32::from_le_bytes(noise(seed, 4).try_into().expect("four"))) >> 8;
                    element[place..place + 8].copy_from_slice(&time.to_le_bytes());
                }
            }
        }
        let live = ledger_of(&scratch, codec, bytes);
        let check = |ledger: &Ledger| {
            let points = ledger.timeline().expect("read");
            assert!(points.windows(2).all(|pair| pair[0].end() <= pair[1].begin), "{seed}: {points:?}");
            for point in points {
                assert!(point.begin <= point.highest_time && point.highest_time <= point.end() && point.looks != 0);
                assert!(point.lowest_bytes <= point.live_bytes && point.live_bytes <= point.highest_bytes);
            }
        };
        check(&live);
        finish(&live, &scratch.join("finished"), &[], &mut |_, _| ()).expect("finished");
        check(&Ledger::open(scratch.join("finished")).expect("a ledger"));
    }
}

#[test]
fn one_cut_anywhere_has_what_is_there() {
    let scratch = Scratch::new("timeline-cut");
    let codec = Codec { order: CODECS[0].0, word: CODECS[0].1 };
    let live = ledger_of(&scratch, CODECS[0], elements(codec, &noted()));
    finish(&live, &scratch.join("finished"), &[], &mut |_, _| ()).expect("finished");
    for name in ["live", "finished"] {
        let whole = std::fs::read(scratch.join(name)).expect("read");
        let step = (whole.len() / 97).max(1);
        for length in (0..whole.len()).step_by(step) {
            std::fs::write(scratch.join("cut"), &whole[..length]).expect("written");
            if let Ok(ledger) = Ledger::open(scratch.join("cut")) {
                let points = ledger.timeline().expect("read");
                assert!(points.len() <= 40 && points.iter().all(|point| noted().contains(point)), "{name} {length}");
            }
        }
    }
    // Elements that are too short for what is in them are none.
    let mut builder = sample(codec.order, codec.word);
    builder.section(SectionKind::Timeline as u16, 64, vec![1; 640]);
    builder.write(&scratch.join("short")).expect("written");
    let short = Ledger::open(scratch.join("short")).expect("a ledger");
    assert!(short.timeline().expect("read").is_empty());
    assert_ne!(short.damage().elements_wrong, 0);
}
