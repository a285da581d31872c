//! A ledger with all that a program can say of itself: labels, marks, windows, errors, accounts, figures over time,
//! and a section that no reader knows.

use heapledger_format::account::{Account, FreedOfOthers};
use heapledger_format::bytes::{ByteOrder, Codec, WordSize};
use heapledger_format::errors::{
    Direction, ErrorEntry, ErrorKind, ErrorStack, FoundAt, FoundBy, Neighbour, StackTag, Whereabouts,
};
use heapledger_format::label::Label;
use heapledger_format::mark::{Mark, MarkKind, Window, WindowMode, WindowState, reach};
use heapledger_format::sample::SampleRule;
use heapledger_format::section::label_column;
use heapledger_format::timeline::{TimePoint, by, known};
use heapledger_format::{Entry, GlobalCounter, Kind, LabelId, SectionKind, Site, ThreadRowPlus1, Ticks, Word};

use crate::ledger::{Builder, sample};

/// The number of a section that this version knows nothing of.
pub const UNKNOWN_SECTION: u16 = 999;
/// What that has in it: elements of 12 bytes.
pub const UNKNOWN_ELEMENTS: &[u8] = b"nobody knowswhat this isbut it stays";

/// The label of the record with this number, in a ledger of [`everything`].
pub fn label_of(number: u64) -> LabelId {
    LabelId((number % 4) as u32)
}

/// [`sample`] with all of that.
pub fn everything(order: ByteOrder, word: WordSize) -> Builder {
    let mut builder = sample(order, word);
    let codec = builder.codec;
    labels(&mut builder);
    windows(&mut builder, codec);
    errors(&mut builder, codec);
    accounts(&mut builder, codec);
    timeline(&mut builder, codec);
    builder.section(UNKNOWN_SECTION, 12, UNKNOWN_ELEMENTS.to_vec());
    builder.process("label.service", "api").process("label.version", "1.2").process("moment", "end");
    builder.process("kind.52", "arena_get").process("kind_free.52", "arena_put").process("host", "build-7");
    builder
}

impl Builder {
    /// Text that other sections point to; where it lies, and how many bytes. A slice of bytes need not be text.
    pub fn text(&mut self, text: impl AsRef<[u8]>) -> (u32, u32) {
        let at = self.strings.len() as u32;
        self.strings.extend_from_slice(text.as_ref());
        (at, text.as_ref().len() as u32)
    }

    /// A label within another, for entries to have; returns its number. Call [`Builder::codec`] before.
    pub fn label(&mut self, parent: LabelId, key: &str, value: &str) -> LabelId {
        let ((key_at, key_bytes), (value_at, value_bytes)) = (self.text(key), self.text(value));
        let (key_bytes, value_bytes) = (key_bytes as u16, value_bytes as u16);
        self.labels.push(Label { parent: parent.0, key_at, value_at, key_bytes, value_bytes });
        LabelId(self.labels.len() as u32 - 1)
    }

    /// The sections with labels, if there are any.
    pub(crate) fn label_sections(&self) -> Vec<(u16, usize, Vec<u8>)> {
        if self.labels.len() == 1 {
            return Vec::new();
        }
        let codec = self.codec;
        let rows = elements(&self.labels, Label::bytes(codec.word), |label, out| label.write(codec, out));
        // The first slot of the records is vacant.
        let of_records = self.records.iter().map(|entry| entry.label);
        let column: Vec<LabelId> = std::iter::once(self.label_of_vacant).chain(of_records).collect();
        let column = elements(&column, label_column::BYTES, |label, out| codec.put(out, 0, 4, u64::from(label.0)));
        vec![
            (SectionKind::Labels as u16, Label::bytes(codec.word), rows),
            (SectionKind::LabelColumn as u16, label_column::BYTES, column),
        ]
    }

    /// Windows by name, and marks: number, what it is, name, the one thread whose events it divides, and what it is about. Call
    /// [`Builder::codec`] before.
    pub fn told(&mut self, windows: &[&str], marks: &[(u64, MarkKind, &str, Option<u32>, u32)]) -> &mut Self {
        let codec = self.codec;
        let mark = |(number, kind, name, own, about): &(u64, MarkKind, &str, Option<u32>, u32)| {
            let (name_at, name_bytes) = self.text(name);
            let (reach, thread) = own.map_or((reach::ALL_THREADS, 1), |thread| (reach::OWN_THREAD, thread + 1));
            let (number, kind, about) = (number + 1, *kind as u16, *about);
            Mark { number, name_at, name_bytes, thread: ThreadRowPlus1(thread), kind, reach, about, ..Mark::default() }
        };
        let marks: Vec<Mark> = marks.iter().map(mark).collect();
        let window = |name: &&str| {
            let (name_at, name_bytes) = self.text(name);
            Window { state: WindowState::Stopped as u32, name_at, name_bytes, starts: 1, ..Window::default() }
        };
        let windows: Vec<Window> = windows.iter().map(window).collect();
        let marks = elements(&marks, Mark::bytes(codec.word), |mark, out| mark.write(codec, out));
        let windows = elements(&windows, Window::bytes(codec.word), |window, out| window.write(codec, out));
        self.section(SectionKind::Marks as u16, Mark::bytes(codec.word), marks);
        self.section(SectionKind::Windows as u16, Window::bytes(codec.word), windows)
    }

    /// Changes each block that it has, living or freed.
    pub fn each_block(&mut self, change: impl Fn(&mut Entry)) -> &mut Self {
        let freed = self.history.iter_mut().map(|freed| &mut freed.block);
        self.records.iter_mut().chain(freed).for_each(change);
        self
    }

    /// Samples the blocks, with weights that are rounded by a seed.
    pub fn sampled_by(&mut self, rule: SampleRule) -> &mut Self {
        self.sampled(rule.interval).global(GlobalCounter::SampleSeed, rule.seed)
    }

    /// How they are sampled.
    pub(crate) fn sample_rule(&self) -> SampleRule {
        let mut rule = SampleRule::default();
        for (counter, value) in &self.globals {
            match counter {
                GlobalCounter::SampleInterval => rule.interval = *value,
                GlobalCounter::SampleSeed => rule.seed = *value,
                _ => {}
            }
        }
        rule
    }

    /// A section with these elements, of any kind that has none yet.
    pub fn section(&mut self, kind: u16, element_bytes: usize, elements: Vec<u8>) -> &mut Self {
        self.others.push((kind, element_bytes, elements));
        self
    }
}

/// Elements one after another.
fn elements<T>(list: &[T], bytes: usize, write: impl Fn(&T, &mut [u8]) -> bool) -> Vec<u8> {
    let mut all = vec![0u8; list.len() * bytes];
    for (element, value) in all.chunks_exact_mut(bytes).zip(list) {
        assert!(write(value, element), "an element has room for its value");
    }
    all
}

/// Seen by the recorder at first, and then from outside, up to a peak that the header does not know of.
fn timeline(builder: &mut Builder, codec: Codec) {
    let points: Vec<TimePoint> = (0..20u64)
        .map(|index| {
            let is_outside = index > 8;
            let outside = known::RESIDENT | known::FAULTS;
            let bytes = 1000 + 300 * (index * 7 % 20);
            TimePoint {
                begin: Ticks(index * 50_000),
                looks: 2,
                by: if is_outside { by::OUTSIDE } else { by::RECORDER },
                known: known::TOTALS | known::BLOCKS | if is_outside { outside } else { 0 },
                live_bytes: bytes,
                highest_bytes: bytes + 80,
                highest_blocks: 9,
                highest_time: Ticks(index * 50_000 + 1),
                lowest_bytes: bytes,
                allocations: index * 3,
                frees: index,
                bytes_allocated: index * 900,
                resident_bytes: if is_outside { bytes * 3 } else { 0 },
                minor_faults: if is_outside { index * 10 } else { 0 },
                ..TimePoint::default()
            }
            .with_end(Ticks(index * 50_000 + 50_000))
        })
        .collect();
    let bytes = TimePoint::bytes(codec.word);
    let points = elements(&points, bytes, |point, out| point.write(codec, out));
    builder.section(SectionKind::Timeline as u16, bytes, points);
}

fn labels(builder: &mut Builder) {
    let route = builder.label(LabelId::NONE, "route", "/x");
    let tenant = builder.label(route, "tenant", "blue");
    builder.label(tenant, "route", "/x/y");
    // What stands at a vacant slot means nothing.
    builder.label_of_vacant = LabelId(77);
    builder.each_block(|block| block.label = label_of(block.number));
}

fn windows(builder: &mut Builder, codec: Codec) {
    let ((name_at, name_bytes), (other_at, other_bytes)) = (builder.text("warm"), builder.text("requests"));
    let mark = |number: u64, kind: MarkKind, about: u32| Mark {
        number: number + 1,
        time: Ticks(number * 1_500),
        name_at,
        name_bytes,
        thread: ThreadRowPlus1(1),
        kind: kind as u16,
        reach: 0,
        about,
        label: 0,
    };
    let marks = [
        mark(20, MarkKind::Mark, 0),
        mark(30, MarkKind::WindowStarts, 1),
        Mark::default(),
        mark(50, MarkKind::WindowStops, 1),
    ];
    let bytes = elements(&marks, Mark::bytes(codec.word), |mark, out| mark.write(codec, out));
    builder.section(SectionKind::Marks as u16, Mark::bytes(codec.word), bytes);
    let window = Window {
        state: WindowState::Stopped as u32,
        mode: WindowMode::Leaks as u16,
        depth: 16,
        name_at: other_at,
        name_bytes: other_bytes,
        thread: ThreadRowPlus1(0),
        starts: 1,
        capacity: 0,
        allocations: 19,
        frees: 4,
        bytes_allocated: 5_000,
        bytes_freed: 700,
        live_blocks: 15,
        live_bytes: 4_300,
        peak_records: 17,
        peak_bytes: 4_500,
        peak_error: 64,
        dropped_freed: 0,
        dropped_live: 0,
    };
    let bytes = elements(&[window], Window::bytes(codec.word), |window, out| window.write(codec, out));
    builder.section(SectionKind::Windows as u16, Window::bytes(codec.word), bytes);
}

fn errors(builder: &mut Builder, codec: Codec) {
    let ((function_at, function_bytes), (around_at, around_bytes)) = (builder.text("memcpy"), builder.text([0x5a; 64]));
    let stack = |tag: StackTag, time| ErrorStack {
        time,
        site: Site(2),
        thread: ThreadRowPlus1(1),
        tag: tag as u16,
        ..ErrorStack::default()
    };
    let overflow = ErrorEntry {
        kind: ErrorKind::BufferOverflow as u16,
        found_by: FoundBy::Canary as u8,
        found_at: FoundAt::Free as u8,
        direction: Direction::Write as u8,
        whereabouts: Whereabouts::Block as u8,
        given_by: Kind::MALLOC.number(),
        called: Kind::FREE.number(),
        heap: 1,
        address: 0x1000_0044,
        bytes: 4,
        block: 0x1000_0040,
        block_bytes: 4,
        allocated: 2,
        first_time: Ticks(200_000),
        last_time: Ticks(200_000),
        stacks: [
            stack(StackTag::Allocation, Ticks(1_500)),
            stack(StackTag::Access, Ticks(200_000)),
            ErrorStack::default(),
        ],
        expected: [0x78, 0x56, 0xad, 0xba, 0, 0, 0, 0],
        found: [0x78, 0x56, 0xad, 0, 0, 0, 0, 0],
        around_address: 0x1000_0020,
        around_at,
        around_bytes,
        function_at,
        function_bytes,
        neighbours: [
            Neighbour { address: 0x1000_0000, bytes: 1, site: Site(1), thread: ThreadRowPlus1(2) },
            Neighbour::default(),
        ],
        compared: 4,
        ..ErrorEntry::default()
    };
    let failed = ErrorEntry {
        kind: ErrorKind::FailedAllocation as u16,
        found_by: FoundBy::Answer as u8,
        found_at: FoundAt::Call as u8,
        called: Kind::CALLOC.number(),
        block_bytes: 1 << 20,
        operands: [1024, 1024],
        repeats: 2,
        first_time: Ticks(1),
        last_time: Ticks(90_000),
        ..ErrorEntry::default()
    };
    let bytes = ErrorEntry::bytes(codec.word);
    let all = elements(&[overflow, failed], bytes, |error, out| error.write(codec, out));
    builder.section(SectionKind::Errors as u16, bytes, all);
}

fn accounts(builder: &mut Builder, codec: Codec) {
    let account = |thread: u32, heap: u32, figures: [u64; 7]| {
        let [bytes, peak_bytes, blocks, peak_blocks, allocations, frees, frees_by_others] = figures.map(Word);
        Account {
            thread: ThreadRowPlus1(thread),
            heap,
            bytes,
            peak_bytes,
            blocks,
            peak_blocks,
            allocations,
            frees,
            frees_by_others,
        }
    };
    let rows = [account(1, 0, [5_000, 9_000, 20, 25, 40, 15, 5]), account(2, 1, [600, 600, 6, 6, 6, 0, 0])];
    let bytes = elements(&rows, Account::bytes(codec.word), |account, out| account.write(codec, out));
    builder.section(SectionKind::Accounts as u16, Account::bytes(codec.word), bytes);
    let rows = [
        FreedOfOthers { account: 1, thread: ThreadRowPlus1(2), blocks: Word(2), bytes: Word(100) },
        FreedOfOthers::default(),
    ];
    let bytes = elements(&rows, FreedOfOthers::bytes(codec.word), |freed, out| freed.write(codec, out));
    builder.section(SectionKind::AccountFrees as u16, FreedOfOthers::bytes(codec.word), bytes);
}
