//! Filters on ledgers: what is chosen, and what is refused.

use std::path::PathBuf;
use std::time::SystemTime;

use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{Evaluator, Filter, Scope, SortKeys, Subject};
use heapledger_analysis::{Clock, Event, EventKind, Holders, Names, Selection};
use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_format::record::Options;
use heapledger_format::{Entry, FreedEntry, Kind, Site, ThreadRow, Ticks};
use heapledger_source::Ledger;
use heapledger_symbols::{self as symbols, SourceReader, Symbolizer};
use heapledger_testing::{Builder, everything};

struct Made(PathBuf, Ledger);

impl Made {
    fn new(test: &str, builder: &Builder) -> Made {
        let path = std::env::temp_dir().join(format!("heapledger-query-{test}-{}", std::process::id()));
        builder.write(&path).expect("written");
        let ledger = Ledger::open(&path).expect("a ledger");
        Made(path, ledger)
    }

    fn evaluator(&self, text: &str) -> Evaluator<'_> {
        let filter = Filter::parse(text).unwrap_or_else(|error| panic!("{error}"));
        let clock = Clock::new(&self.1, SystemTime::UNIX_EPOCH).expect("a clock");
        let names = Names::new(&self.1, Symbolizer::new(symbols::Options::default()), SourceReader::new(None));
        Evaluator::new(&self.1, &filter, clock, names.expect("readable"), Holders::default()).expect("readable")
    }

    /// The numbers of the live blocks that are meant.
    fn live(&self, text: &str) -> Vec<u64> {
        let mut evaluator = self.evaluator(text);
        let selection =
            Selection::matching(&self.1, Some(&mut evaluator), &SortKeys::default(), 0, &mut |_| {}).expect("readable");
        assert_eq!(selection.total, selection.blocks.len() as u64);
        assert_eq!(selection.total_bytes, selection.blocks.iter().filter_map(|block| block.size).sum::<u64>());
        // One by one, without having prepared anything, it is the same.
        let mut alone = self.evaluator(text);
        for block in &selection.blocks {
            assert!(alone.block(&block).expect("readable"), "{text}");
        }
        selection.blocks.iter().map(|block| block.number).collect()
    }

    fn check(&self, text: &str, scope: Scope) -> String {
        let filter = Filter::parse(text).unwrap_or_else(|error| panic!("{error}"));
        filter.check(&self.1, scope).map_or_else(|why| why.to_string(), |()| "good".to_owned())
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Ten blocks: number, size 100 × number, threads 0 to 2, one a second, from two stacks.
fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.heap("main heap", 0, 1 << 40);
    for (row, name) in ["main", "worker-1", "worker-2"].into_iter().enumerate() {
        builder.thread(1, 100 + row as u32, 0, name, [0, 0, 0]);
    }
    let module = builder.module("/usr/lib/libparse.so.1", b"", 0x1000, 0x1000, 0x9000);
    let program = builder.module("/usr/bin/jq", b"", 0, 0x10000, 0x90000);
    let both = builder.stack(&[(Some(module), 0x10), (Some(program), 0x20)]);
    let one = builder.stack(&[(Some(program), 0x20)]);
    for number in 0..10 {
        builder.entry(block(number, if number < 4 { both } else { one }));
    }
    builder
}

fn block(number: u64, site: Site) -> Entry {
    Entry {
        number,
        address: 0x1000 + number * 0x100,
        size: Some(number * 100),
        actual: Some((number * 100).next_multiple_of(64)),
        kind: if number.is_multiple_of(5) { Kind::NEW_ARRAY } else { Kind::MALLOC },
        site,
        thread: if number == 9 { None } else { Some(ThreadRow(number as u32 % 3)) },
        heap: Some(0),
        time: Some(Ticks(number * 1_000_000)),
        ..Entry::NONE
    }
}

#[test]
fn blocks_are_chosen() {
    let mut builder = builder();
    builder.global(heapledger_format::GlobalCounter::LastTime, 10_000_000);
    let made = Made::new("blocks", &builder);
    for (text, numbers) in [
        ("size >= 700", &[7, 8, 9][..]),
        ("size in (100, 300, 999)", &[1, 3]),
        ("size < 0", &[]),
        ("size > 100 and size <= 300", &[2, 3]),
        ("size == 0 or number == 4", &[0, 4]),
        ("overhead == 28", &[1]),
        ("actual == 128", &[1]),
        ("addr < 0x1200", &[0, 1]),
        ("time >= 8s", &[8, 9]),
        ("time in (3s, 4000000ticks)", &[3, 4]),
        ("age > 7s", &[0, 1, 2]),
        ("age <= 2000000ticks", &[8, 9]),
        ("thread == 1", &[1, 4, 7]),
        ("thread == worker-1", &[1, 4, 7]),
        ("thread ~ '^work'", &[1, 2, 4, 5, 7, 8]),
        ("thread in (main, 2)", &[0, 2, 3, 5, 6, 8]),
        ("thread !~ '^work'", &[0, 3, 6, 9]),
        ("thread != main", &[1, 2, 4, 5, 7, 8, 9]),
        ("kind == new[]", &[0, 5]),
        ("kind ~ new and size > 1", &[5]),
        ("kind == 17", &[0, 5]),
        ("heap == 'main heap' and number < 2", &[0, 1]),
        ("heap ~ other", &[]),
        ("module ~ libparse", &[0, 1, 2, 3]),
        ("module == libparse.so.1", &[0, 1, 2, 3]),
        ("module == /usr/lib/libparse.so.1 and number > 1", &[2, 3]),
        ("module == lib", &[]),
        ("module !~ libparse and size > 700", &[8, 9]),
        ("not (module == libparse.so.1 or size > 500)", &[4, 5]),
        ("fn ~ anything", &[]),
        ("fn !~ anything and number == 1", &[1]),
        ("site == 0", &[]),
    ] {
        assert_eq!(made.live(text), numbers, "{text}");
    }
}

#[test]
fn events_are_chosen_by_what_happened() {
    let mut builder = builder();
    let freed = FreedEntry {
        block: block(20, Site::NONE),
        number: 30,
        later: 0,
        by: Kind::DELETE,
        site: Site(1),
        thread: Some(ThreadRow(1)),
        time: Some(Ticks(20_500_000)),
        core: None,
    };
    builder.freed(freed);
    let made = Made::new("events", &builder);
    let live = block(1, Site::NONE);
    for (text, holds) in [
        ("number == 20", [false, true, false]),
        ("number == 30", [false, false, true]),
        ("thread == 2", [false, true, false]),
        ("thread == worker-1", [true, false, true]),
        ("kind == delete", [false, false, true]),
        ("kind == new[]", [false, true, false]),
        ("event == free", [false, false, true]),
        ("event != free", [true, true, false]),
        ("event in (allocation, free)", [true, true, true]),
        ("freed", [false, true, true]),
        ("not freed", [true, false, false]),
        ("lifetime < 1s", [false, true, true]),
        ("lifetime > 1s", [false, false, false]),
        ("time > 20s", [false, false, true]),
        ("size == 2000", [false, true, true]),
        ("site == 1", [false, false, true]),
    ] {
        let mut evaluator = made.evaluator(text);
        evaluator.prepare_events(&mut |_| {}).expect("readable");
        let subjects = [Subject::live(&live), Subject::allocation(&freed), Subject::free(&freed)];
        let is = subjects.map(|subject| evaluator.subject(&subject).expect("readable"));
        assert_eq!(is, holds, "{text}");
        let event = Event { block: freed.block, kind: EventKind::Free(freed) };
        assert_eq!(evaluator.event(&event).expect("readable"), holds[2], "{text}");
    }
}

#[test]
fn a_thread_is_asked_for_by_its_row_and_not_by_its_number() {
    let made = Made::new("thread-ids", &builder());
    let refused =
        "no thread has row 102 in this ledger; 102 is the kernel's number of the thread in row 2: ask for thread 2";
    for text in ["thread == 102", "thread != 102", "thread in (1, 102)", "size > 1 and not thread == 102"] {
        assert_eq!(made.check(text, Scope::Blocks), refused, "{text}");
    }
    // A row that may still come, a name, and another field with such a number.
    for text in ["thread == 2", "thread == 7", "thread == '102'", "size == 102"] {
        assert_eq!(made.check(text, Scope::Blocks), "good", "{text}");
    }
}

#[test]
fn what_is_not_recorded_is_refused() {
    let mut bare = Builder::new();
    bare.options(Options(Options::HISTORY)).block(0x1000, 16);
    let made = Made::new("bare", &bare);
    for (text, said) in [
        ("size > 3", "good"),
        ("kind == malloc or not addr > 3 or number == 1", "good"),
        ("thread == 1", "records no threads"),
        ("size > 3 and not age > 1s", "records no times"),
        ("time > 4ticks", "records no times"),
        ("actual > 3", "records no actual sizes"),
        ("fn ~ x", "records no call stacks (`run --without stack`"),
        ("heap == x", "records no heaps"),
        ("freed", "ask `history`"),
    ] {
        let is = made.check(text, Scope::Blocks);
        assert!(is.contains(said), "{text}: {is}");
    }
    assert_eq!(made.check("freed", Scope::Events), "good");
    let full = Made::new("full", &builder());
    assert_eq!(full.check("age > 1s and fn ~ x and thread == 1 and lifetime < 1s", Scope::Events), "good");
    let too_many =
        (0..5).fold(Filter::all(), |all, _| all.and(Filter::parse(&["fn ~ a"; 60].join(" or ")).expect("good")));
    assert!(too_many.check(&full.1, Scope::Blocks).is_err() && too_many.check_size().is_err());
    assert_eq!(Filter::parse("fn ~ a or size > 1").map(|few| few.check_size()), Ok(Ok(())));
    let sorted = |text: &str| SortKeys::parse(text).expect("good").check(&made.1).map_err(|why| why.to_string());
    assert_eq!(sorted("size,addr,seq,kind"), Ok(()));
    assert!(sorted("size,thread").is_err_and(|why| why.contains("no threads")));
    assert!(sorted("age").is_err_and(|why| why.contains("no times")));
}

#[test]
fn the_first_of_many_are_the_first_of_all() {
    let mut builder = Builder::new();
    for number in 0..5000u64 {
        builder.block(0x10_0000 + number * 64, number.wrapping_mul(0x9E37_79B9) % 1000);
    }
    let made = Made::new("first", &builder);
    for text in ["size", "size:asc,addr:desc", "addr", "seq:desc", "kind,size", "overhead,size:asc"] {
        let keys = SortKeys::parse(text).expect("good");
        let all = Selection::matching(&made.1, None, &keys, 0, &mut |_| {}).expect("readable").blocks;
        let all: Vec<Entry> = all.iter().collect();
        assert_eq!(all.len(), 5000);
        assert!(all.is_sorted_by(|one, other| keys.compare(one, other).is_le()), "{text}");
        for limit in [1, 7, 600, 4999, 6000] {
            let some = Selection::matching(&made.1, None, &keys, limit, &mut |_| {}).expect("readable");
            let blocks: Vec<Entry> = some.blocks.iter().collect();
            assert_eq!((some.total, &blocks[..]), (5000, &all[..limit.min(5000)]), "{text}");
        }
    }
}

#[test]
fn marks_and_windows_of_a_program_divide_its_blocks() {
    for word in [WordSize::W64, WordSize::W32] {
        let builder = everything(ByteOrder::Little, word);
        let made = Made::new(&format!("moments-{}", word.bytes()), &builder);
        let all = made.live("size >= 0 or not size >= 0");
        let between = |low: u64, high: u64| -> Vec<u64> {
            all.iter().copied().filter(|number| (low..high).contains(number)).collect()
        };
        assert!(!between(0, 20).is_empty() && !between(30, 50).is_empty() && !between(50, 1000).is_empty(), "{all:?}");
        // The mark has number 20, the window's are 30 and 50.
        assert_eq!(made.live("since == warm"), between(21, u64::MAX));
        assert_eq!(made.live("mark ~ '^w'"), between(21, u64::MAX));
        assert_eq!(made.live("mark != warm"), between(0, 21), "none came before them");
        assert_eq!(made.live("window == requests"), between(31, 50));
        assert_eq!(
            made.live("since == warm and window not in (requests, others)").len(),
            between(21, 31).len() + between(50, 1000).len()
        );
        let odd = Filter::named(Field::Window, "1 \" '");
        assert_eq!(Filter::parse(&odd.to_string()), Ok(odd));
        for (text, why) in [("since == worm", "mark"), ("mark == worm", "mark"), ("window == reqests", "window")] {
            assert_eq!(made.live(text), [0; 0]);
            assert_eq!(made.check(text, Scope::Events), "good");
            let mut names = made.evaluator(text).into_names();
            let unknown =
                Filter::parse(text).expect("a filter").unknown(&made.1, &mut names, &mut |_| ()).expect("read");
            let told = unknown[0].to_string();
            assert!(
                told.starts_with(&format!("no {why} of this ledger is named")) && told.contains("did you mean"),
                "{told}"
            );
        }
    }
}

#[test]
fn who_set_no_mark_is_not_asked_for_one() {
    let made = Made::new("no-moments", &builder());
    for field in ["mark", "since"] {
        let refused = format!("'{field}' cannot be asked of this ledger: its program set no mark");
        assert_eq!(made.check(&format!("{field} == x"), Scope::Blocks), refused);
    }
    let refused = "'window' cannot be asked of this ledger: its program opened no window";
    assert_eq!(made.check("not window == x", Scope::Events), refused);
    let wrong = Filter::parse("mark >= x").expect_err("marks have no order").to_string();
    assert!(wrong.contains("'mark' cannot be compared with '>='"), "{wrong}");
}
