//! What is written is read: live and finished, in every word size and byte order.

use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_format::{Entry, FreedEntry, GlobalCounter, Kind, SectionKind, Site, TallyCounter};
use heapledger_source::{Code, Damage, Ledger, SourceError, finish};
use heapledger_testing::{Builder, Scratch, sample};

fn records(ledger: &Ledger) -> Vec<Entry> {
    let mut all = Vec::new();
    let mut records = ledger.records();
    while let Some(chunk) = records.next_chunk().expect("readable") {
        all.extend_from_slice(chunk);
    }
    assert_eq!(records.in_flight(), 0);
    all.sort_by_key(|entry| entry.number);
    all
}

fn freed(ledger: &Ledger) -> Vec<FreedEntry> {
    let mut all = Vec::new();
    let mut freed = ledger.freed();
    while let Some(chunk) = freed.next_chunk().expect("readable") {
        all.extend_from_slice(chunk);
    }
    all
}

#[test]
fn a_finished_ledger_says_what_the_live_one_said() {
    let place = Scratch::in_memory("reading-a_finished_ledger_says_what_the_live_one_said");
    for order in [ByteOrder::Little, ByteOrder::Big] {
        for word in [WordSize::W32, WordSize::W64] {
            let live_path = place.join(format!("{order:?}{word:?}.hlive"));
            let path = place.join(format!("{order:?}{word:?}.hl"));
            sample(order, word).write(&live_path).expect("written");
            let live = Ledger::open(&live_path).expect("a ledger");
            let extra = [("exit", "3".to_owned()), ("wall_ns", "77".to_owned())];
            let written = finish(&live, &path, &extra, &mut |_, _| {}).expect("finished");
            assert_eq!(written.bytes, std::fs::metadata(&path).expect("there").len());
            let finished = Ledger::open(&path).expect("a ledger");
            assert!(finished.is_finished() && !live.is_finished());
            assert_eq!((live.damage(), finished.damage()), (Damage::default(), Damage::default()));

            let entries = records(&live);
            assert_eq!(entries.len(), 48);
            assert_eq!(entries, records(&finished));
            assert_eq!(written.records, 48);
            let wide = entries.iter().find(|entry| entry.number == 7).expect("number 7");
            assert_eq!((wide.size, wide.actual), (Some(3_000_000), Some(6_000_000)));
            let mut history = freed(&live);
            history.sort_by_key(|entry| entry.number);
            assert_eq!(history.len(), 12);
            assert_eq!(history, freed(&finished), "in order of the numbers");

            assert_eq!(live.tallies().expect("tallies"), finished.tallies().expect("tallies"));
            let tallies = finished.tallies().expect("tallies");
            assert_eq!(tallies.get(TallyCounter::Allocations), 60);
            assert_eq!(tallies.begun().get(&Kind::MALLOC.0), Some(&4));
            assert_eq!(live.threads().expect("threads"), finished.threads().expect("threads"));
            assert_eq!(live.heaps().expect("heaps"), finished.heaps().expect("heaps"));
            assert_eq!(live.modules().expect("modules"), finished.modules().expect("modules"));
            assert_eq!(live.modules().expect("modules")[0].build_id, [0xab; 20]);
            for entry in &entries {
                let stack = live.stack(entry.site).expect("readable");
                assert_eq!(stack, finished.stack(entry.site).expect("readable"));
                assert!(!stack.damaged);
                assert_eq!(stack.codes.is_empty(), entry.site == Site::NONE);
            }
            let stack = finished.stack(entries[0].site).expect("readable");
            let outermost = finished.code(*stack.codes.last().expect("frames")).expect("readable");
            assert_eq!(outermost, Some(Code { module: Some(0), offset: 0x1010 }));
            assert_eq!(finished.process().number("exit"), Some(3));
            assert_eq!(finished.process().args(), ["program", "two words"]);
            assert!(matches!(finish(&finished, &path, &[], &mut |_, _| {}), Err(SourceError::AlreadyFinished(_))));
        }
    }
}

#[test]
fn what_sections_took_is_known_afterwards() {
    let place = Scratch::in_memory("reading-what_sections_took_is_known_afterwards");
    let (live_path, path) = (place.join("took.hlive"), place.join("took.hl"));
    sample(ByteOrder::Little, WordSize::W64).write(&live_path).expect("written");
    let live = Ledger::open(&live_path).expect("a ledger");
    finish(&live, &path, &[], &mut |_, _| {}).expect("finished");
    let finished = Ledger::open(&path).expect("a ledger");
    let mut packed = 0;
    for section in live.header().sections() {
        let kind = SectionKind::from_number(section.kind).expect("known");
        let storage = live.section_storage(kind).expect("readable").expect("there");
        assert_eq!(storage.used, section.used, "{}", kind.name());
        assert_eq!(storage.bytes, section.backed * u64::from(section.element_bytes), "{}", kind.name());
        // The first and every 64th element of the history is the ring's own: finished, there are fewer elements.
        assert_eq!(finished.section_storage(kind).expect("readable"), Some(storage), "{}", kind.name());
        assert_eq!(live.packed_bytes(kind).expect("readable"), None);
        packed += finished.packed_bytes(kind).expect("readable").expect("finished");
    }
    // The rest is header, index and trailer.
    let file_bytes = finished.storage().expect("readable").file_bytes;
    assert!(packed < file_bytes && packed > file_bytes / 3, "{packed} of {file_bytes}");
    assert_eq!(finished.section_storage(SectionKind::Events).expect("readable"), None);
}

#[test]
fn ledgers_of_older_writers_keep_their_counters() {
    let place = Scratch::in_memory("reading-ledgers_of_older_writers_keep_their_counters");
    for (globals, tallies) in [(9, 22), (9, 19), (15, TallyCounter::COUNT), (GlobalCounter::COUNT, TallyCounter::COUNT)]
    {
        let (live_path, path) = (place.join(format!("{tallies}.hlive")), place.join(format!("{tallies}.hl")));
        let mut builder = sample(ByteOrder::Little, WordSize::W64);
        builder
            .counters(globals, tallies)
            .sampled(4096)
            .tally(TallyCounter::StacksDiffering, 3)
            .write(&live_path)
            .expect("written");
        let live = Ledger::open(&live_path).expect("a ledger");
        finish(&live, &path, &[], &mut |_, _| {}).expect("finished");
        let finished = Ledger::open(&path).expect("a ledger");
        let header = finished.header();
        assert_eq!((header.global_count(), header.counter_count()), (globals, globals + tallies));
        for counter in GlobalCounter::ALL {
            assert_eq!(header.global(*counter), live.header().global(*counter), "{}", counter.name());
        }
        assert_eq!(header.global(GlobalCounter::PeakBlocks), 55);
        assert_eq!(finished.sample_interval(), if globals == 9 { 0 } else { 4096 });
        assert_eq!(live.tallies().expect("tallies"), finished.tallies().expect("tallies"));
    }
}

#[test]
fn what_cannot_be_written_leaves_nothing_behind() {
    let place = Scratch::in_memory("reading-what_cannot_be_written_leaves_nothing_behind");
    let live_path = place.join("nowhere.hlive");
    Builder::new().block(0x1000, 1).write(&live_path).expect("written");
    let live = Ledger::open(&live_path).expect("a ledger");
    let nowhere = place.join("no such directory").join("x.hl");
    assert!(matches!(finish(&live, &nowhere, &[], &mut |_, _| {}), Err(SourceError::Write { .. })));
    // A directory cannot be replaced by a file: the last step fails.
    let directory = place.join("directory.hl");
    std::fs::create_dir_all(directory.join("full")).expect("a directory");
    assert!(finish(&live, &directory, &[], &mut |_, _| {}).is_err());
    let left = std::fs::read_dir(directory.parent().expect("a parent")).expect("listed");
    let left: Vec<_> = left.map(|item| item.expect("an item").file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".tmp")), "{left:?}");
}

#[test]
fn stacks_in_a_circle_end() {
    let place = Scratch::in_memory("reading-stacks_in_a_circle_end");
    let path = place.join("circle.hlive");
    let mut builder = Builder::new();
    let next = builder.stack(&[(None, 0x1000)]).0 + 1;
    let node = builder.site_node(Site(next + 1), 1);
    builder.site_node(Site(next), 1);
    builder.site_node(Site(next + 100), 1);
    builder.write(&path).expect("written");
    let ledger = Ledger::open(&path).expect("a ledger");
    let stack = ledger.stack(node).expect("readable");
    assert!(stack.damaged && stack.codes.len() == 4096);
    let stack = ledger.stack(Site(next + 2)).expect("readable");
    assert!(stack.damaged && stack.codes.len() == 1, "a caller that is not there");
    assert!(ledger.damage().elements_wrong > 0);
}

#[test]
fn forged_figures_cost_nothing() {
    let place = Scratch::in_memory("reading-forged_figures_cost_nothing");
    let bytes = sample(ByteOrder::Little, WordSize::W64).bytes();
    let header = heapledger_format::Header::parse(&bytes).expect("a header");
    for section in header.sections() {
        let kind = SectionKind::from_number(section.kind).expect("known");
        for forged in [u64::MAX, 1 << 60, u64::MAX / 32] {
            let mut header = header.clone();
            for row in header.sections_mut().iter_mut().filter(|row| row.kind == section.kind) {
                (row.capacity, row.used, row.backed) = (forged, forged, forged);
            }
            let mut bytes = bytes.clone();
            header.write(&mut bytes).expect("room");
            let path = place.join(format!("forged-{}.hlive", kind.name()));
            std::fs::write(&path, &bytes).expect("written");
            let ledger = Ledger::open(&path).expect("a ledger");
            records(&ledger);
            freed(&ledger);
            ledger.threads().expect("readable");
            ledger.modules().expect("readable");
            ledger.heaps().expect("readable");
            ledger.tallies().expect("readable");
            assert_eq!(ledger.damage().cut_at, Some(bytes.len() as u64), "{}", kind.name());
        }
    }
}
