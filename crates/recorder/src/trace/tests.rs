//! Traces: against a model that keeps everything in lists, and case by case.

use super::*;
use std::vec;
use std::vec::Vec;

const SHAPE: TraceShape = TraceShape { mode: TraceMode::Leaks, frames: 3 };
const ALL: TraceShape = TraceShape { mode: TraceMode::All, ..SHAPE };

fn by(thread: u32, frames: &[usize]) -> TraceCaller<'_> {
    TraceCaller { thread, time: u64::MAX - 5, frames }
}

fn trace(words: &mut Vec<usize>, shape: TraceShape, records: usize) -> TraceBuffer<'_> {
    *words = vec![usize::MAX; shape.words(records)];
    let mut trace = TraceBuffer::new(words, shape, None).expect("room");
    assert_eq!(trace.state(), TraceState::Stopped);
    trace.start();
    trace
}

fn addresses(trace: &mut TraceBuffer) -> Vec<usize> {
    let by_index: Vec<usize> = (0..).map_while(|index| trace.get(index)).map(|record| record.address).collect();
    let mut last = None;
    let mut by_age = Vec::new();
    while let Some(record) = trace.after(last.as_ref()) {
        by_age.push(record.address);
        last = Some(record);
    }
    assert_eq!(by_index, by_age);
    assert_eq!(by_index.len() as u64, trace.figures().records);
    by_index
}

#[test]
fn what_was_freed_is_gone_or_has_both_stacks() {
    let mut words = Vec::new();
    let mut leaks = trace(&mut words, SHAPE, 8);
    leaks.allocated(0x100, 64, &by(1, &[11, 12, 13, 14]));
    leaks.allocated(0x200, 96, &by(2, &[21]));
    let first = leaks.get(0).expect("a record");
    assert_eq!((first.address, first.size, first.number, first.thread), (0x100, 64, 1, 1));
    assert_eq!((first.stack(), first.time, first.freed), (&[11, 12, 13][..], u64::MAX - 5, None));
    assert!(leaks.freed(0x100, &by(3, &[])) && !leaks.freed(0x100, &by(3, &[])));
    assert_eq!(addresses(&mut leaks), [0x200]);
    let figures = leaks.figures();
    assert_eq!((figures.allocations, figures.frees, figures.unknown_frees, figures.most_records), (2, 1, 1, 2));
    assert_eq!(
        (figures.allocated_bytes, figures.freed_bytes, figures.live_bytes, figures.peak_bytes),
        (160, 64, 96, 160)
    );
    leaks.start();
    assert_eq!(leaks.figures(), TraceFigures { capacity: 8, ..TraceFigures::default() });
    assert_eq!(leaks.get(0), None);

    let mut all = trace(&mut words, ALL, 8);
    all.allocated(0x100, 10, &by(1, &[1, 2]));
    all.freed(0x100, &by(2, &[3]));
    all.allocated(0x100, 16, &by(1, &[4]));
    all.freed(0x100, &by(3, &[5, 6, 7, 8]));
    assert_eq!(addresses(&mut all), [0x100, 0x100]);
    let ends = [0, 1].map(|index| all.get(index).expect("a record")).map(|record| {
        let freed = record.freed.expect("it is freed");
        (record.size, record.stack().to_vec(), freed.thread, freed.stack().to_vec())
    });
    assert_eq!(ends, [(10, vec![1, 2], 2, vec![3]), (16, vec![4], 3, vec![5, 6, 7])]);
    assert_eq!(all.figures().live_blocks, 0);
}

#[test]
fn what_goes_for_want_of_room_is_counted_and_freed_ones_go_first() {
    let mut words = Vec::new();
    let mut leaks = trace(&mut words, SHAPE, 8);
    for block in 1..=9 {
        leaks.allocated(block * 8, 1, &by(1, &[]));
    }
    assert_eq!(addresses(&mut leaks), [16, 24, 32, 40, 48, 56, 64, 72]);
    leaks.allocated(800, 5, &by(1, &[]));
    assert!(
        (1..=9)
            .map(|block| leaks.freed(block * 8, &by(1, &[])))
            .eq([false, false, true, true, true, true, true, true, true])
    );
    assert_eq!(addresses(&mut leaks), [800]);
    let figures = leaks.figures();
    assert_eq!((figures.lost_live, figures.lost_live_bytes, figures.frees, figures.unknown_frees), (2, 2, 7, 2));
    assert!(figures.has_overflowed() && figures.lost_freed == 0);

    let mut all = trace(&mut words, ALL, 4);
    for block in 1..=4 {
        all.allocated(block * 8, 1, &by(1, &[]));
    }
    all.freed(24, &by(1, &[]));
    all.freed(16, &by(1, &[]));
    all.allocated(80, 1, &by(1, &[]));
    assert_eq!(addresses(&mut all), [8, 16, 32, 80]);
    all.allocated(88, 1, &by(1, &[]));
    all.allocated(96, 1, &by(1, &[]));
    assert_eq!(addresses(&mut all), [32, 80, 88, 96]);
    let figures = all.figures();
    assert_eq!((figures.lost_freed, figures.lost_live, figures.live_blocks, figures.most_records), (2, 1, 4, 4));
}

#[test]
fn a_resized_block_is_another_one_and_one_that_could_not_be_is_as_it_was() {
    let mut words = Vec::new();
    let mut all = trace(&mut words, ALL, 8);
    all.allocated(0x100, 10, &by(1, &[1]));
    all.resizes(0x100, 1);
    assert!(!all.knows(0x100), "it may be another's already");
    all.resized(0x100, None, &by(1, &[2]));
    assert!(all.knows(0x100) && all.get(0).expect("it").freed.is_none());
    // Two threads resize blocks that have the same address one after the other.
    all.resizes(0x100, 1);
    all.allocated(0x100, 20, &by(2, &[3]));
    all.resizes(0x100, 2);
    all.resized(0x100, Some((0x200, 11)), &by(1, &[4]));
    all.resized(0x100, None, &by(2, &[5]));
    assert_eq!(addresses(&mut all), [0x100, 0x100, 0x200]);
    let live = |all: &mut TraceBuffer| {
        [0, 1, 2].map(|index| all.get(index).expect("a record")).map(|record| (record.size, record.freed.is_none()))
    };
    assert_eq!(live(&mut all), [(10, false), (20, true), (11, true)]);
    // In place.
    all.resizes(0x100, 2);
    all.resized(0x100, Some((0x100, 21)), &by(2, &[]));
    assert!(all.freed(0x100, &by(2, &[])) && all.freed(0x200, &by(2, &[])));
    let figures = all.figures();
    assert_eq!((figures.live_blocks, figures.live_bytes, figures.allocations, figures.unknown_frees), (0, 0, 4, 0));
}

#[test]
fn while_it_is_paused_records_follow_their_blocks_and_none_begin() {
    let mut words = Vec::new();
    let mut leaks = trace(&mut words, SHAPE, 8);
    leaks.allocated(0x100, 10, &by(1, &[1]));
    leaks.allocated(0x200, 20, &by(1, &[2]));
    leaks.set_state(TraceState::Paused);
    leaks.allocated(0x300, 30, &by(1, &[3]));
    leaks.resizes(0x100, 4);
    leaks.resized(0x100, Some((0x400, 40)), &by(4, &[4]));
    leaks.freed(0x200, &by(1, &[]));
    assert_eq!(addresses(&mut leaks), [0x400]);
    let record = leaks.get(0).expect("it");
    assert_eq!((record.size, record.number, record.thread, record.stack()), (40, 1, 1, &[1][..]));
    leaks.set_state(TraceState::Stopped);
    assert!(!leaks.freed(0x400, &by(1, &[])));
    leaks.set_state(TraceState::Running);
    leaks.allocated(0x400, 7, &by(1, &[5]));
    let figures = leaks.figures();
    assert_eq!((figures.allocations, figures.frees, figures.live_blocks, figures.live_bytes), (3, 2, 1, 7));
    assert_eq!(figures.allocated_bytes - figures.freed_bytes, 7);
}

#[test]
fn of_one_thread_only_its_blocks_are_records_whoever_frees_them() {
    let mut words = vec![0; SHAPE.words(4)];
    let mut own = TraceBuffer::new(&mut words, SHAPE, Some(7)).expect("room");
    own.start();
    own.allocated(0x100, 1, &by(8, &[]));
    own.allocated(0x200, 2, &by(7, &[]));
    own.allocated(0x300, 3, &by(7, &[]));
    own.freed(0x100, &by(8, &[]));
    own.freed(0x200, &by(8, &[]));
    own.resizes(0x300, 8);
    own.resized(0x300, Some((0x400, 4)), &by(8, &[]));
    assert_eq!(addresses(&mut own), [0x400]);
    assert_eq!((own.figures().unknown_frees, own.figures().allocations, own.figures().live_bytes), (0, 2, 4));
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    assert!(TraceBuffer::new(&mut [], SHAPE, None).is_none());
    assert!(TraceBuffer::new(&mut vec![0; SHAPE.words(1) - 1], SHAPE, None).is_none());
    assert!(TraceBuffer::new(&mut vec![0; 1000], TraceShape { frames: FRAMES_MAX + 1, ..SHAPE }, None).is_none());
    let mut words = vec![0; SHAPE.words(1)];
    let mut one = TraceBuffer::new(&mut words, TraceShape { frames: 0, ..SHAPE }, None).expect("room");
    one.start();
    one.allocated(0, 5, &by(1, &[]));
    one.freed(0, &by(1, &[]));
    one.resized(0, Some((8, 5)), &by(1, &[1]));
    assert_eq!((one.figures().allocations, one.figures().unknown_frees), (1, 0));
    assert!(one.get(0).expect("it").stack().is_empty());
}

/// What a trace should be: lists, looked through.
#[derive(Default)]
struct Model {
    /// Address, size, freed.
    records: Vec<(usize, usize, bool)>,
    freed: Vec<usize>,
    lost_live: u64,
    lost_freed: u64,
    /// Numbers of the records.
    numbers: Vec<usize>,
    next: usize,
}

impl Model {
    fn drop_number(&mut self, number: usize) {
        let index = self.numbers.iter().position(|known| *known == number).expect("it is there");
        self.numbers.remove(index);
        self.records.remove(index);
    }

    fn allocated(&mut self, address: usize, size: usize, capacity: usize) {
        if self.records.len() == capacity {
            if self.freed.is_empty() {
                self.drop_number(self.numbers[0]);
                self.lost_live += 1;
            } else {
                let first = self.freed.remove(0);
                self.drop_number(first);
                self.lost_freed += 1;
            }
        }
        self.next += 1;
        self.numbers.push(self.next);
        self.records.push((address, size, false));
    }

    fn freed(&mut self, address: usize, keeps: bool) -> bool {
        let Some(index) = self.records.iter().position(|record| record.0 == address && !record.2) else { return false };
        let number = self.numbers[index];
        if keeps {
            self.records[index].2 = true;
            self.freed.push(number);
        } else {
            self.drop_number(number);
        }
        true
    }
}

fn agrees_with_a_model(shape: TraceShape, capacity: usize, addresses: usize, mut seed: u64) {
    let mut words = Vec::new();
    let mut trace = trace(&mut words, shape, capacity);
    let mut model = Model::default();
    let mut live = std::collections::BTreeSet::new();
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 20) as usize % below
    };
    let keeps = shape.mode == TraceMode::All;
    for step in 0..4000 {
        let address = (random(addresses) + 1) * 16;
        match (live.contains(&address), random(3)) {
            (false, _) => {
                let size = random(100);
                trace.allocated(address, size, &by(1, &[step]));
                model.allocated(address, size, capacity);
                live.insert(address);
            }
            (true, 0) => {
                let to = (random(addresses) + 1) * 16;
                let size = random(100);
                trace.resizes(address, 1);
                if to == address || !live.contains(&to) {
                    trace.resized(address, Some((to, size)), &by(1, &[step]));
                    model.freed(address, keeps);
                    model.allocated(to, size, capacity);
                    live.remove(&address);
                    live.insert(to);
                } else {
                    trace.resized(address, None, &by(1, &[step]));
                }
            }
            (true, _) => {
                assert_eq!(trace.freed(address, &by(1, &[step])), model.freed(address, keeps));
                live.remove(&address);
            }
        }
        if step % 500 == 77 {
            trace.rebuild();
            // By age then, as nobody knows when they were freed.
            model.freed.sort_unstable();
        }
        if step % 50 == 0 {
            let mut last = None;
            for record in &model.records {
                let own = trace.after(last.as_ref()).expect("a record");
                assert_eq!((own.address, own.size, own.freed.is_some()), *record, "step {step}");
                last = Some(own);
            }
            assert_eq!(trace.after(last.as_ref()), None);
        }
        let figures = trace.figures();
        assert_eq!((figures.lost_live, figures.lost_freed), (model.lost_live, model.lost_freed));
        assert_eq!(figures.allocations, figures.frees + figures.lost_live + figures.live_blocks);
        let model_bytes: usize = model.records.iter().filter(|record| !record.2).map(|record| record.1).sum();
        assert_eq!((figures.live_bytes, figures.records), (model_bytes as u64, model.records.len() as u64));
        assert_eq!(figures.allocated_bytes, figures.freed_bytes + figures.lost_live_bytes + figures.live_bytes);
    }
}

/// All addresses in one bucket, where a free looks through all of them; and so many records that a search through all would not end.
#[test]
fn many_in_one_bucket_and_many_at_all() {
    let mut words = Vec::new();
    let mut small = trace(&mut words, SHAPE, 500);
    let bucket = small.bucket(16);
    let same: Vec<_> =
        (1..).map(|number| number * 16).filter(|address| small.bucket(*address) == bucket).take(500).collect();
    for (step, address) in same.iter().enumerate() {
        small.allocated(*address, step, &by(1, &[]));
    }
    // From both ends and the middle.
    for step in 0..500 {
        let address = same[step * 7 % 500];
        assert!(small.freed(address, &by(1, &[])) && !small.freed(address, &by(1, &[])), "step {step}");
    }
    assert_eq!((small.figures().records, small.figures().unknown_frees), (0, 500));

    let mut words = Vec::new();
    let mut large = trace(&mut words, SHAPE, 100_000);
    for number in 1..=100_000 {
        large.allocated(number * 16, 1, &by(1, &[]));
    }
    for number in 1..=100_000 {
        assert!(large.freed(number * 16, &by(1, &[])));
        large.freed(number * 16 + 8, &by(1, &[]));
    }
    assert_eq!((large.figures().records, large.figures().unknown_frees), (0, 100_000));
}

#[test]
fn traces_agree_with_a_model() {
    for (capacity, addresses) in [(1, 5), (2, 2), (7, 30), (50, 40), (200, 150)] {
        for seed in 1..=3 {
            agrees_with_a_model(SHAPE, capacity, addresses, seed * 0x9E37_79B9);
            agrees_with_a_model(ALL, capacity, addresses, seed * 0x7F4A_7C15);
        }
    }
}
