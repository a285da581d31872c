//! Several ledgers of one run as one history, and the lives of an address.

use std::path::PathBuf;

use heapledger_analysis::{Event, EventKind, EventList, Events, Lives, Wanted, in_order};
use heapledger_format::{Entry, FreedEntry, GlobalCounter, Kind, Site, TallyCounter, ThreadRow, Ticks};
use heapledger_source::Ledger;
use heapledger_testing::Builder;

/// Ledgers in files of one test.
struct Files(Vec<PathBuf>);

impl Drop for Files {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Files {
    fn open(&mut self, test: &str, builder: &Builder) -> Ledger {
        let name = format!("heapledger-runs-{test}-{}-{}", std::process::id(), self.0.len());
        let path = std::env::temp_dir().join(name);
        builder.write(&path).expect("written");
        self.0.push(path.clone());
        Ledger::open(&path).expect("a ledger")
    }
}

fn block(number: u64, address: u64, kind: Kind) -> Entry {
    let (size, actual, time) = (Some(100), Some(104), Some(Ticks(number * 10)));
    Entry {
        number,
        address,
        size,
        actual,
        kind,
        site: Site::NONE,
        thread: Some(ThreadRow(0)),
        heap: Some(0),
        time,
        ..Entry::NONE
    }
}

fn freed(block: Entry, by: Kind, number: u64) -> FreedEntry {
    FreedEntry {
        block,
        number,
        later: 0,
        by,
        site: Site::NONE,
        thread: Some(ThreadRow(0)),
        time: Some(Ticks(number * 10)),
        core: None,
    }
}

/// A ledger after so many numbers, with the frees of `ring`, of `frees` that there were.
fn moment(next: u64, live: &[u64], ring: std::ops::Range<u64>, frees: u64) -> Builder {
    let mut builder = Builder::new();
    for number in live {
        builder.entry(block(*number, 0x1000 + number * 256, Kind::MALLOC));
    }
    for number in ring.clone() {
        builder.freed(freed(block(number, 0x1000 + number * 256, Kind::MALLOC), Kind::FREE, 1000 + number));
    }
    builder.tally(TallyCounter::Frees, frees - (ring.end - ring.start)).global(GlobalCounter::NextNumber, next);
    builder
}

fn wanted(reverse: bool, limit: usize) -> Wanted<'static, 'static> {
    Wanted { keys: None, reverse, limit, filter: None }
}

fn told(events: &EventList) -> Vec<String> {
    let name = |event: Event| match &event.kind {
        EventKind::Allocation { freed: Some(_) } => "freed",
        EventKind::Allocation { freed: None } => "live",
        EventKind::Free(_) => "free",
    };
    events.iter().map(|event| format!("{} {}", name(event), event.number())).collect()
}

#[test]
fn the_rings_of_all_and_what_lives_by_the_last() {
    let mut files = Files(Vec::new());
    // The second ring has lost two frees of the first, which the first has, and two more that nobody has.
    let first = files.open("rings", &moment(10, &[8, 9], 2..6, 6));
    let second = files.open("rings", &moment(20, &[9, 18], 8..9, 9));
    let ledgers = [second, first];
    let order = in_order(&ledgers).expect("one run");
    assert_eq!(order, [1, 0], "by what they had reached, not by their names");
    let run: Vec<&Ledger> = order.iter().map(|place| &ledgers[*place]).collect();
    let events = Events::of_run(&run, wanted(false, 0), &mut |_| {}).expect("readable");
    let expected = [
        "freed 2",
        "freed 3",
        "freed 4",
        "freed 5",
        "freed 8",
        "live 9",
        "live 18",
        "free 1002",
        "free 1003",
        "free 1004",
        "free 1005",
        "free 1008",
    ];
    assert_eq!(told(&events.events), expected);
    assert_eq!((events.gaps.as_slice(), events.frees_missing), (&[2, 2][..], 4));
    for (reverse, limit) in [(false, 5), (true, 5), (true, 0), (false, 12), (true, 100)] {
        let some = Events::of_run(&run, wanted(reverse, limit), &mut |_| {}).expect("readable");
        let mut all = expected.to_vec();
        if reverse {
            all.reverse();
        }
        all.truncate(if limit == 0 { usize::MAX } else { limit });
        assert_eq!((told(&some.events), some.total), (all.iter().map(ToString::to_string).collect(), 12));
    }
}

#[test]
fn the_same_entry_is_one_event() {
    let mut files = Files(Vec::new());
    let first = files.open("same", &moment(10, &[], 0..5, 5));
    let second = files.open("same", &moment(12, &[], 2..7, 7));
    let run = [&first, &first, &second, &second];
    let events = Events::of_run(&run, wanted(false, 0), &mut |_| {}).expect("readable");
    assert_eq!((events.total, events.frees_missing), (14, 0));
    assert_eq!(events.gaps, [0; 4]);
}

#[test]
fn a_block_that_is_freed_while_it_is_read_is_one_event() {
    let mut files = Files(Vec::new());
    let mut builder = moment(10, &[3], 0..0, 1);
    builder.freed(freed(block(3, 0x1300, Kind::MALLOC), Kind::FREE, 7));
    let ledger = files.open("meanwhile", &builder);
    for limit in [0, 1, 2, 10] {
        let events = Events::first(&ledger, limit, &mut |_| {}).expect("readable");
        let all = ["freed 3", "free 7"];
        let shown = if limit == 0 { 2 } else { limit.min(2) };
        assert_eq!(told(&events.events), all[..shown]);
        assert_eq!(events.total, 2);
    }
}

#[test]
fn ledgers_of_other_runs_are_refused() {
    let mut files = Files(Vec::new());
    let one = files.open("other", &moment(10, &[], 0..5, 5));
    let other =
        files.open("other", moment(10, &[], 0..5, 5).id(*b"another run of it"[..16].first_chunk().expect("16")));
    let refused = in_order(&[one, other]).expect_err("two runs");
    assert_eq!((refused.first, refused.second, refused.by_exec), (0, 1, false));
    assert_eq!(refused.to_string(), "ledgers 1 and 2 are of different runs");

    let by_exec = |image: u8| {
        let mut builder = moment(10, &[], 0..5, 5);
        builder.id([image; 16]).process("session", "0123456789abcdef").process("image", &image.to_string());
        builder
    };
    let images = [files.open("other", &by_exec(0)), files.open("other", &by_exec(1))];
    assert!(in_order(&images).expect_err("two programs").by_exec);
    assert_eq!(in_order(&[]).expect("nothing to refuse"), [0usize; 0]);
}

/// Blocks as address, whether it holds, and how it ends, chain by chain.
fn chains(lives: &Lives) -> Vec<Vec<(u64, bool, Option<u64>)>> {
    let life = |life: &heapledger_analysis::Life| (life.block.address, life.holds, life.end.map(|end| end.number));
    lives.chains.iter().map(|chain| chain.lives.iter().map(life).collect()).collect()
}

#[test]
fn every_life_of_an_address() {
    let mut builder = Builder::new();
    // 0x2000 grows away over 0x5000 to 0x9000, is used again, freed, used again; 0x3000 never had to do with it.
    builder
        .freed(freed(block(1, 0x2000, Kind::MALLOC), Kind::REALLOC, 5))
        .freed(freed(block(5, 0x5000, Kind::REALLOC), Kind::REALLOC, 7))
        .entry(block(7, 0x9000, Kind::REALLOC))
        .freed(freed(block(8, 0x1fe0, Kind::CALLOC), Kind::FREE, 9))
        .freed(freed(block(10, 0x2000, Kind::MALLOC), Kind::REALLOC, 11))
        .entry(block(11, 0x2000, Kind::REALLOC))
        .entry(block(12, 0x3000, Kind::MALLOC))
        .freed(freed(block(2, 0x3000, Kind::MALLOC), Kind::REALLOC, 6))
        .freed(freed(block(6, 0x4000, Kind::REALLOC), Kind::FREE, 13));
    let mut files = Files(Vec::new());
    let ledger = files.open("lives", &builder);
    let of = |address, reverse, limit| {
        Lives::of(&[&ledger], address, wanted(reverse, limit), &mut |_| {}).expect("readable")
    };
    let first = vec![(0x2000, true, Some(5)), (0x5000, false, Some(7)), (0x9000, false, None)];
    let last = vec![(0x2000, true, Some(11)), (0x2000, true, None)];
    // The third contains it, but does not begin there.
    let expected = [first.clone(), vec![(0x1fe0, true, Some(9))], last.clone()];
    let lives = of(0x2010, false, 0);
    assert_eq!(chains(&lives), expected);
    assert_eq!((lives.total, lives.left_out, lives.frees_missing), (4, 0, 0));
    assert_eq!(chains(&of(0x2010, true, 0)).into_iter().rev().collect::<Vec<_>>(), expected);

    let one = of(0x2000, false, 1);
    assert_eq!((chains(&one), one.total, one.left_out), (vec![first], 4, 3));
    let newest = of(0x2000, true, 1);
    assert_eq!((chains(&newest), newest.left_out), (vec![last], 2), "its chain holds it twice");

    // From the middle of a chain, both ways.
    let middle = vec![(0x2000, false, Some(5)), (0x5000, true, Some(7)), (0x9000, false, None)];
    assert_eq!(chains(&of(0x5067, false, 0)), [middle]);
    assert_eq!(of(0x5068, false, 0).total, 0, "one behind what it really has");
    assert_eq!(of(u64::MAX, false, 0).total, 0);
}

#[test]
fn chains_that_go_in_circles_end() {
    let mut builder = Builder::new();
    builder
        .freed(freed(block(1, 0x2000, Kind::REALLOC), Kind::REALLOC, 2))
        .freed(freed(block(2, 0x2000, Kind::REALLOC), Kind::REALLOC, 1))
        .freed(freed(block(3, 0x2000, Kind::REALLOC), Kind::REALLOC, 3));
    let mut files = Files(Vec::new());
    let ledger = files.open("circles", &builder);
    let lives = Lives::of(&[&ledger], 0x2000, wanted(false, 0), &mut |_| {}).expect("readable");
    let blocks: usize = lives.chains.iter().map(|chain| chain.lives.len()).sum();
    assert_eq!((blocks, lives.total), (3, 3));
}

#[test]
fn a_long_chain_is_quick() {
    let mut builder = Builder::new();
    for number in 0..60_000 {
        builder.freed(freed(block(number, 0x2000, Kind::REALLOC), Kind::REALLOC, number + 1));
    }
    builder.entry(block(60_000, 0x2000, Kind::REALLOC));
    let mut files = Files(Vec::new());
    let ledger = files.open("long", &builder);
    let before = heapledger_testing::processor::time();
    let lives = Lives::of(&[&ledger], 0x2000, wanted(false, 0), &mut |_| {}).expect("readable");
    assert_eq!((lives.chains.len(), lives.chains[0].lives.len()), (1, 60_001));
    let taken = heapledger_testing::processor::time() - before;
    assert!(taken.as_secs() < 20, "{taken:?}");
}

/// Earlier recorders leased numbers and read clocks in a way that a free could be numbered, and timed, before the allocation of
/// another thread's block.
#[test]
fn a_free_that_seems_to_come_first_comes_behind_its_allocation() {
    let mut files = Files(Vec::new());
    let mut builder = Builder::new();
    builder
        .entry(block(150, 0x9000, Kind::MALLOC))
        .freed(freed(block(100, 0x1000, Kind::MALLOC), Kind::FREE, 90))
        .freed(freed(block(200, 0x2000, Kind::MALLOC), Kind::FREE, 120))
        .freed(FreedEntry { time: Some(Ticks(50)), ..freed(block(110, 0x3000, Kind::MALLOC), Kind::FREE, 300) });
    let ledger = files.open("first", &builder);
    let expected =
        ["freed 100", "free 90", "freed 110", "free 300", "live 150", "freed 200", "free 120"].map(str::to_owned);
    let events = Events::first(&ledger, 0, &mut |_| {}).expect("readable");
    assert_eq!(told(&events.events), expected);
    let reversed = Events::last(&ledger, 0, &mut |_| {}).expect("readable");
    assert!(told(&reversed.events).iter().rev().eq(&expected));
}

#[test]
fn halves_of_a_realloc_that_could_not_share_a_number() {
    let mut files = Files(Vec::new());
    let mut builder = Builder::new();
    // Another thread was given the old place before the new block's number was taken.
    builder
        .freed(FreedEntry { later: 7, ..freed(block(10, 0x1000, Kind::MALLOC), Kind::REALLOC, 20) })
        .freed(freed(block(22, 0x1000, Kind::MALLOC), Kind::FREE, 25))
        .entry(block(27, 0x5000, Kind::REALLOC));
    let ledger = files.open("halves", &builder);
    let events = Events::first(&ledger, 0, &mut |_| {}).expect("readable");
    assert_eq!(told(&events.events), ["freed 10", "free 20", "freed 22", "free 25", "live 27"]);
    let lives = Lives::of(&[&ledger], 0x1000, wanted(false, 0), &mut |_| {}).expect("readable");
    assert_eq!(
        chains(&lives),
        [vec![(0x1000, true, Some(20)), (0x5000, false, None)], vec![(0x1000, true, Some(25))]],
        "the chain is whole, and the other block apart"
    );
}
