//! Reports in the shape of `ecosmdd`, letter for letter: the examples of its manual, from ledgers that hold the same
//! values. A 32-bit target with a clock of 100 Hz and stacks of one level.
//!
//! In the manual's history two threads have the handle and the name of a third; here they are given so.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use heapledger_analysis::{
    Clock, Event, Events, NamedFrame, NamedStack, Note, Sampling, Sections, Selection, Sort, Summary,
};
use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_format::{Entry, FreedEntry, GlobalCounter, Kind, Site, TallyCounter, ThreadRow, Ticks};
use heapledger_report::ecos::{EcosSide, Records, diff_gone, diff_head, diff_new};
use heapledger_report::{Abilities, Context, Form, Format, Paint, Report, Stacks, StatsReport};
use heapledger_source::{Ledger, SourceError};
use heapledger_testing::Builder;

/// Return address, function, file, line, source line.
type Place = (u64, &'static str, &'static str, u32, &'static str);

const CONSUME: &str = "/tmp/mdd/consume.cxx";
const SET_BUFFER: Place = (
    0x4da74,
    "Cyg_StdioStreamBuffer::set_buffer(unsigned, unsigned char*)",
    "/opt/ecos/packages/language/c/libc/stdio/current/src/common/streambuf.cxx",
    96,
    "        malloced_buf = (cyg_uint8 * )malloc( size );",
);
const SPARE: Place = (0x415b4, "main", CONSUME, 575, "    spare   = malloc(128 * 1024);");
const CHARS: Place = (0x40ed8, "worker2()", CONSUME, 393, "            allocs[index].data.c    = malloc(size);");
const LARGE: Place =
    (0x40c48, "worker1(int)", CONSUME, 315, "            allocs[index].data.large    = new(std::nothrow) Large;");
const SMALL: Place = (
    0x40f4c,
    "worker2()",
    "/tmp//consume.cxx",
    409,
    "            allocs[index].data.small    = new(std::nothrow) Small;",
);
const SMALLS: Place =
    (0x40fc0, "worker2()", CONSUME, 417, "            allocs[index].data.smallv   = new(std::nothrow) Small[count];");
const MEDIUM: Place =
    (0x40b78, "worker1(int)", CONSUME, 296, "            allocs[index].data.medium    = new(std::nothrow) Medium;");
const MEDIUM_2: Place =
    (0x41028, "worker2()", CONSUME, 424, "            allocs[index].data.medium    = new(std::nothrow) Medium;");
const DELETES: Place = (0x40cb8, "worker1(int)", CONSUME, 251, "        break;");
const FREES: Place = (0x409a4, "worker1(int)", CONSUME, 216, "            free(allocs[index].data.c);");

/// The target that the manual's examples are from.
struct Target {
    builder: Builder,
    path: PathBuf,
    places: HashMap<Site, Place>,
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Target {
    fn new(test: &str) -> Target {
        let mut builder = Builder::new();
        builder.codec(ByteOrder::Little, WordSize::W32).tick_ns(10_000_000).depth_limit(1);
        builder.module("/tmp/mdd/consume", &[], 0, 0x4_0000, 0x5_0000);
        builder.heap("", 0x9_7d68, 0x200_0000);
        let path = std::env::temp_dir().join(format!("heapledger-ecos-{test}-{}", std::process::id()));
        Target { builder, path, places: HashMap::new() }
    }

    /// The threads of the manual; ids count from 1. In the history, the last ones are called as the third.
    fn threads(&mut self, all_differ: bool) {
        self.builder.thread(0, 0, 0, "", [0; 3]);
        let last = [(0x7_3af0, "thread_2"), (0x7_3b90, "thread_3")];
        let last = if all_differ { last } else { [(0x7_39b0, "thread_0"); 2] };
        let first = [(0x7_5670, "Idle Thread"), (0x9_3af8, "main"), (0x7_39b0, "thread_0"), (0x7_3a50, "thread_1")];
        for (index, (handle, name)) in first.into_iter().chain(last).enumerate() {
            self.builder.thread(1, index as u32 + 1, handle, name, [0; 3]);
        }
    }

    fn entry(&mut self, address: u64, what: (Kind, u64, u64), number: u64, time: u64, by: (u32, Place)) -> Entry {
        let (kind, size, actual) = what;
        let site = self.builder.stack(&[(Some(0), by.1.0)]);
        self.places.insert(site, by.1);
        let (size, actual, thread, time) = (Some(size), Some(actual), Some(ThreadRow(by.0)), Some(Ticks(time)));
        Entry { number, address, size, actual, kind, site, thread, heap: Some(0), time, ..Entry::NONE }
    }

    fn live(&mut self, address: u64, what: (Kind, u64, u64), number: u64, time: u64, by: (u32, Place)) {
        let entry = self.entry(address, what, number, time, by);
        self.builder.entry(entry);
    }

    fn freed(&mut self, block: Entry, by: Kind, number: u64, time: u64, (thread, place): (u32, Place)) {
        let site = self.builder.stack(&[(Some(0), place.0)]);
        self.places.insert(site, place);
        self.builder.freed(FreedEntry {
            block,
            number,
            later: 0,
            by,
            site,
            thread: Some(ThreadRow(thread)),
            time: Some(Ticks(time)),
            core: None,
        });
    }

    fn open(&self) -> (Ledger, Context) {
        self.builder.write(&self.path).expect("written");
        let ledger = Ledger::open(&self.path).expect("a ledger");
        let context = Context {
            parts: Vec::new(),
            ledger: "mddout.0".to_owned(),
            clock: Clock::new(&ledger, SystemTime::UNIX_EPOCH).expect("readable"),
            threads: ledger.threads().expect("readable").into_iter().map(|thread| (thread.row, thread)).collect(),
            heaps: ledger.heaps().expect("readable").into_iter().map(|heap| (heap.row, heap)).collect(),
            told: Arc::default(),
            sampling: Sampling::of(&ledger),
            free_depths: ledger.free_depths().expect("marks"),
            paint: Paint::default(),
        };
        (ledger, context)
    }

    fn dump(&self, form: &Form, sort: Sort, executable: bool) -> String {
        let (ledger, context) = self.open();
        let blocks = Selection::of(&ledger, sort, 0, &mut |_| {}).expect("readable").blocks;
        let mut out = Vec::new();
        let mut stacks = Told { target: self, ledger: &ledger, executable };
        let mut report = Records::new(&mut out, &context, form);
        for block in &blocks {
            report.block(&block, &mut stacks).expect("written");
        }
        String::from_utf8(out).expect("text")
    }

    fn history(&self, form: &Form, reverse: bool, wanted: impl Fn(&Event) -> bool) -> String {
        let (ledger, context) = self.open();
        let events = if reverse { Events::last } else { Events::first };
        let events = events(&ledger, 0, &mut |_| {}).expect("readable");
        let mut out = Vec::new();
        let mut stacks = Told { target: self, ledger: &ledger, executable: true };
        let mut report = Records::new(&mut out, &context, form);
        if events.frees_missing != 0 {
            report.caution().expect("written");
        }
        for event in events.events.iter().filter(|event| wanted(event)) {
            report.event(&event, &mut stacks).expect("written");
        }
        String::from_utf8(out).expect("text")
    }
}

/// Stacks as the ledger has them, with what an executable would tell, if there is one.
struct Told<'t> {
    target: &'t Target,
    ledger: &'t Ledger,
    executable: bool,
}

impl Stacks for Told<'_> {
    fn stack(&mut self, site: Site) -> Result<NamedStack, SourceError> {
        let codes = self.ledger.stack(site).expect("readable").codes;
        let frames = codes.into_iter().map(|code| {
            let code = self.ledger.code(code).expect("readable").expect("there");
            let named = self.target.places.get(&site).filter(|_| self.executable);
            NamedFrame {
                address: Some(code.offset),
                function: named.map(|place| place.1.into()),
                file: named.map(|place| place.2.into()),
                line: named.map(|place| place.3),
                source: named.map(|place| place.4.into()),
                ..NamedFrame::default()
            }
        });
        Ok(NamedStack { frames: frames.collect(), damaged: false })
    }

    fn notes(&mut self) -> Vec<Note> {
        Vec::new()
    }
}

fn expected(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ecos").join(name);
    std::fs::read_to_string(path).expect("an expectation")
}

fn format(text: &str) -> Form {
    Form::Lines { template: Format::parse(text).expect("a format"), cautioned: true }
}

#[test]
fn stats() {
    let mut target = Target::new("stats");
    target.threads(true);
    let kinds = [
        (Kind::MALLOC, 1009),
        (Kind::NEW_NOTHROW, 788),
        (Kind::NEW_ARRAY_NOTHROW, 451),
        (Kind::CALLOC, 251),
        (Kind::REALLOC, 17),
    ];
    let kinds = kinds.iter().flat_map(|(kind, count)| std::iter::repeat_n(*kind, *count));
    for (number, kind) in (0u64..).zip(kinds) {
        let size = if number == 0 { 1110 } else { 516 };
        let actual = size + if number < 1882 { 98 } else { 97 };
        target.live(0x9_8000 + number * 2048, (kind, size, actual), number, 0, (1 + number as u32 % 6, SPARE));
    }
    for number in 0..2006u64 {
        let block = target.entry(0x9_8000, (Kind::MALLOC, 8, 24), 10_000 + number, 1, (2, SPARE));
        target.freed(block, Kind::FREE, 20_000 + number, 2, (2, FREES));
    }
    target.builder.tally(TallyCounter::Allocations, 132_773 - 2516 - 2006).tally(TallyCounter::Frees, 130_257 - 2006);
    target.builder.global(GlobalCounter::NextNumber, 263_030);
    let (ledger, context) = target.open();
    let mut summary = Summary::of(&ledger, context.clock, 0, &mut |_| {}).expect("readable");
    // What the recorder takes is another's: records of eCos have another size.
    summary.storage.ledger_bytes = 110_280 + 94_628;
    summary.storage.private_bytes = Some(0);
    let rest = Sections { history_bytes: 110_280, ..Sections::default() };
    summary.memory.sections = Some(Sections { records_bytes: 94_628, ..rest });
    let mut out = Vec::new();
    let (summary, paint) = (&summary, Paint::default());
    let mut report = StatsReport { ledger: "mddout.0", summary, top: &[], modules: &[], threads: 0, paint };
    report.write(&Form::Ecos, &mut out).expect("written");
    assert_eq!(String::from_utf8(out).expect("text"), expected("stats.txt"));
}

fn dumped(test: &str) -> Target {
    let mut target = Target::new(test);
    target.threads(true);
    target.live(0xc_0f70, (Kind::NEW_NOTHROW, 1024, 1040), 251_083, 4329, (5, LARGE));
    target.live(0x9_7d78, (Kind::MALLOC, 256, 272), 0, 0, (1, SET_BUFFER));
    target.live(0xc_0f50, (Kind::MALLOC, 13, 32), 229_605, 3960, (3, CHARS));
    target
}

#[test]
fn dump() {
    let target = dumped("dump");
    assert_eq!(target.dump(&Form::Ecos, Sort::Address, true), expected("dump.txt"));
    let bare = target.dump(&Form::Ecos, Sort::Address, false);
    assert!(bare.starts_with(&expected("dump_bare.txt")), "{bare}");
    assert_eq!(bare.lines().count(), 9);
}

#[test]
fn the_usual_format_is_a_dump() {
    let target = dumped("usual");
    let usual = r#"%p : %a %n bytes, %m (+%o), seqno %s, time %T\n By thread %t, %h %N\n 1) backtrace %b1 function %f1\n %w1\n \"%l1\""#;
    let shown = target.dump(&format(usual), Sort::Address, true);
    assert!(shown.starts_with(&expected("dump_usual_format.txt")), "{shown}");
    // With the words and blanks that the dump has besides, it is the dump.
    let whole = r#"%p : %a %n bytes, actual size %m (+%o), seqno %s, time %T\n  By thread %t, %h %N\n  1) backtrace %b1 function %f1\n     %w1\n     \"%l1\""#;
    assert_eq!(target.dump(&format(whole), Sort::Address, true), expected("dump.txt"));
    let deeper = Format::parse("%b2").expect("a format").check(Abilities::of(&target.open().0));
    let deeper = deeper.expect_err("one level is recorded").to_string();
    assert!(deeper.starts_with("this ledger has stacks of 1 level at most\n"), "{deeper}");
}

#[test]
fn dump_with_formats() {
    let mut target = Target::new("formats");
    target.threads(true);
    let rest = [(0x2a_43e8, Kind::MALLOC, 1553, 4079), (0xf_9308, Kind::MALLOC, 1139, 4149)];
    let all = [
        (0xc_2a80, Kind::NEW_NOTHROW, 1024, 4104),
        (0x29_2428, Kind::NEW_ARRAY_NOTHROW, 388, 4194),
        (0xe_0998, Kind::MALLOC, 240, 4147),
        (0x27_5678, Kind::NEW_NOTHROW, 128, 4013),
        (0x23_8c40, Kind::NEW_NOTHROW, 128, 4104),
        (0x23_f7a8, Kind::NEW_NOTHROW, 128, 4194),
        (0xe_1048, Kind::MALLOC, 18, 4014),
        (0x32_cfe8, Kind::NEW_NOTHROW, 16, 4106),
        (0x13_1fa0, Kind::MALLOC, 8, 4107),
        (0x15_d1a8, Kind::MALLOC, 8, 4125),
        (0x21_62d8, Kind::MALLOC, 7, 4129),
        (0x12_17c0, Kind::MALLOC, 7, 4190),
    ];
    for (address, kind, size, time) in all.into_iter().chain(rest) {
        target.live(address, (kind, size, size + 16), 200_000 + time * 4 + address % 4, time, (4, CHARS));
    }
    assert_eq!(target.dump(&format("%p %a %n @ %T"), Sort::Size, false), expected("dump_thread_4.txt"));

    let mut target = Target::new("short");
    target.threads(true);
    target.live(0x9_7e88, (Kind::MALLOC, 131_072, 131_088), 1, 0, (2, SPARE));
    target.live(0xb_7eb0, (Kind::CALLOC, 3724, 3740), 3, 0, (2, SPARE));
    target.live(0x9_7d78, (Kind::MALLOC, 256, 272), 0, 0, (1, SET_BUFFER));
    target.live(0xb_7e98, (Kind::MALLOC, 4, 24), 2, 0, (2, SPARE));
    assert_eq!(target.dump(&format("%a for %n bytes -> %p"), Sort::Address, false), expected("dump_short.txt"));
}

#[test]
fn history() {
    let mut target = Target::new("history");
    target.threads(false);
    target.live(0x9_7d78, (Kind::MALLOC, 256, 272), 0, 0, (1, SET_BUFFER));
    let spare = target.entry(0x9_7e88, (Kind::MALLOC, 131_072, 131_088), 1, 0, (2, SPARE));
    target.freed(spare, Kind::FREE, 263_029, 4531, (2, SPARE));
    let small = target.entry(0x31_9270, (Kind::NEW_NOTHROW, 16, 32), 223_425, 3851, (3, SMALL));
    target.freed(small, Kind::DELETE, 260_000, 4480, (3, DELETES));
    let deleted = target.entry(0x15_6218, (Kind::NEW_NOTHROW, 16, 40), 230_000, 3970, (5, SMALL));
    target.freed(deleted, Kind::DELETE, 258_950, 4461, (5, DELETES));
    let chars = target.entry(0x1e_6b08, (Kind::MALLOC, 347, 368), 231_000, 3980, (6, CHARS));
    target.freed(chars, Kind::FREE, 258_951, 4461, (6, FREES));
    target.live(0x18_2cc0, (Kind::NEW_NOTHROW, 128, 144), 263_027, 4530, (5, MEDIUM));
    let eleven = target.entry(0x30_2490, (Kind::MALLOC, 11, 32), 240_000, 4100, (6, CHARS));
    target.freed(eleven, Kind::FREE, 263_028, 4531, (6, FREES));
    target.builder.tally(TallyCounter::Frees, 125_000).tally(TallyCounter::Allocations, 125_000);

    let all = target.history(&Form::Ecos, false, |_| true);
    assert!(all.starts_with(&expected("history.txt")), "{all}");
    assert!(all.contains(&expected("history_frees.txt")), "{all}");
    let last = target.history(&format("%a %p, %n bytes, seqno %s"), true, |event| event.number() >= 263_027);
    assert_eq!(last, expected("history_reverse.txt"));
}

fn side(name: &str, bytes: u64, blocks: u64) -> EcosSide {
    EcosSide { name: name.to_owned(), blocks, bytes }
}

/// The two lists of blocks with the head of a comparison.
fn diff(new: &Target, gone: &Target, form: &Form, sort: Sort) -> String {
    let [first, second] = [side("mddout.1", 1_532_048, 2543), side("mddout.2", 1_523_769, 2483)];
    let sides = [&first, &second];
    let mut out = Vec::new();
    diff_head(&mut out, sides, 1331, 1391).expect("written");
    let head = String::from_utf8(out).expect("text");
    let [new, gone] = [new, gone].map(|target| target.dump(form, sort, true));
    format!("{head}{}\n{new}\n{}\n{gone}", diff_new(sides), diff_gone(sides))
}

#[test]
fn diff_of_two_dumps() {
    let (mut new, mut gone) = (Target::new("new"), Target::new("gone"));
    new.threads(true);
    gone.threads(true);
    new.live(0xb_a8a8, (Kind::NEW_ARRAY_NOTHROW, 228, 256), 11_001, 214, (3, SMALLS));
    new.live(0xb_a9a8, (Kind::NEW_NOTHROW, 128, 144), 11_528, 222, (5, MEDIUM));
    gone.live(0xb_a9a8, (Kind::NEW_NOTHROW, 128, 144), 8213, 162, (5, MEDIUM));
    gone.live(0xb_aa68, (Kind::NEW_NOTHROW, 128, 144), 9539, 185, (6, MEDIUM_2));
    assert_eq!(diff(&new, &gone, &Form::Ecos, Sort::Address), expected("diff.txt"));
}

#[test]
fn diff_with_a_format() {
    let (mut new, mut gone) = (Target::new("large-new"), Target::new("large-gone"));
    new.live(0x27_3758, (Kind::MALLOC, 19_233, 19_264), 2, 2, (5, CHARS));
    new.live(0x25_d498, (Kind::MALLOC, 19_691, 19_712), 1, 1, (5, MEDIUM));
    gone.live(0x1a_2bf8, (Kind::MALLOC, 18_085, 18_112), 2, 2, (5, MEDIUM_2));
    gone.live(0x25_d498, (Kind::MALLOC, 19_858, 19_872), 1, 1, (5, CHARS));
    assert_eq!(diff(&new, &gone, &format("%n bytes at %p by %f1"), Sort::Size), expected("diff_format.txt"));
}
