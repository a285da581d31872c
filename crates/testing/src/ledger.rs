//! Ledgers made to measure, for tests of readers.

use std::io;
use std::path::Path;

use heapledger_format::bytes::{ByteOrder, Codec, WordSize};
use heapledger_format::counter::{TALLY_KINDS_AT, TALLY_WORDS};
use heapledger_format::header::{Header, State, flag};
use heapledger_format::kind::KIND_LIMIT;
use heapledger_format::label::Label;
use heapledger_format::layout::{Field, RecordLayout};
use heapledger_format::record::{Options, labelled_layout_64, layout_64};
use heapledger_format::section::{SectionRow, heap, module, pc, site, thread, wide};
use heapledger_format::{
    Entry, FreedEntry, GlobalCounter, Kind, LabelId, SectionKind, Site, TallyCounter, ThreadRow, Ticks,
};

const PAGE: usize = 4096;

/// Puts a live ledger together.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) codec: Codec,
    options: Options,
    pub(crate) records: Vec<Entry>,
    pub(crate) history: Vec<FreedEntry>,
    sites: Vec<(Site, u32)>,
    pcs: Vec<u64>,
    threads: Vec<Vec<u8>>,
    heaps: Vec<(String, u64, u64)>,
    modules: Vec<(String, Vec<u8>, [u64; 3])>,
    process: Vec<u8>,
    pub(crate) globals: Vec<(GlobalCounter, u64)>,
    tallies: Vec<(TallyCounter, u64)>,
    counters: [usize; 2],
    skew: usize,
    id: [u8; 16],
    depth_limit: u16,
    tick_ns: u32,
    pub(crate) strings: Vec<u8>,
    pub(crate) others: Vec<(u16, usize, Vec<u8>)>,
    pub(crate) labels: Vec<Label>,
    pub(crate) label_of_vacant: LabelId,
}

impl Default for Builder {
    fn default() -> Self {
        Builder::new()
    }
}

/// The end of a block: a `free` of thread 0, without a stack, at the tick of its number.
pub fn freed_at(block: Entry, number: u64) -> FreedEntry {
    let (thread, time) = (Some(ThreadRow(0)), Some(Ticks(number)));
    FreedEntry { block, number, later: 0, by: Kind::FREE, site: Site::NONE, thread, time, core: None }
}

impl Builder {
    /// An empty ledger of a 64-bit little-endian program.
    pub fn new() -> Builder {
        Builder {
            codec: Codec { order: ByteOrder::Little, word: WordSize::W64 },
            options: Options::ALL,
            records: Vec::new(),
            history: Vec::new(),
            sites: vec![(Site::NONE, 0)],
            pcs: vec![0],
            threads: Vec::new(),
            heaps: Vec::new(),
            modules: Vec::new(),
            process: Vec::new(),
            globals: Vec::new(),
            tallies: Vec::new(),
            counters: [GlobalCounter::COUNT, TallyCounter::COUNT],
            skew: 0,
            id: *b"made for testing",
            depth_limit: 512,
            tick_ns: 1000,
            strings: Vec::new(),
            others: Vec::new(),
            labels: vec![Label::default()],
            label_of_vacant: LabelId::NONE,
        }
    }

    /// Byte order and word size.
    pub fn codec(&mut self, order: ByteOrder, word: WordSize) -> &mut Self {
        self.codec = Codec { order, word };
        self
    }

    /// What is recorded (64-bit ledgers only).
    pub fn options(&mut self, options: Options) -> &mut Self {
        self.options = options;
        self
    }

    /// A block from `malloc`, with the next number.
    pub fn block(&mut self, address: u64, size: u64) -> &mut Self {
        let number = (self.records.len() + self.history.len()) as u64;
        self.entry(Entry {
            number,
            address,
            size: Some(size),
            actual: Some(size.next_multiple_of(16) + 8),
            kind: Kind::MALLOC,
            site: Site::NONE,
            thread: Some(ThreadRow(0)),
            heap: Some(0),
            time: Some(Ticks(number * 1000)),
            ..Entry::NONE
        })
    }

    /// Any block.
    pub fn entry(&mut self, entry: Entry) -> &mut Self {
        self.records.push(entry);
        self
    }

    /// A block that was freed.
    pub fn freed(&mut self, entry: FreedEntry) -> &mut Self {
        self.history.push(entry);
        self
    }

    /// A stack of (module row or `None`, offset), innermost first; returns its site.
    pub fn stack(&mut self, frames: &[(Option<u16>, u64)]) -> Site {
        let mut parent = Site::NONE;
        for (module, offset) in frames.iter().rev() {
            let word = pc::pack(module.map_or(0, |row| row + 1), *offset);
            let code = self.pcs.iter().position(|known| *known == word).unwrap_or_else(|| {
                self.pcs.push(word);
                self.pcs.len() - 1
            });
            let node = (parent, code as u32);
            let known = self.sites.iter().skip(1).position(|known| *known == node).map(|at| at + 1);
            let index = known.unwrap_or_else(|| {
                self.sites.push(node);
                self.sites.len() - 1
            });
            parent = Site(index as u32);
        }
        parent
    }

    /// A node of the trie as it is given, for damaged ones.
    pub fn site_node(&mut self, parent: Site, code: u32) -> Site {
        self.sites.push((parent, code));
        Site(self.sites.len() as u32 - 1)
    }

    /// A thread; `state` as in the format. Call [`Builder::codec`] before.
    pub fn thread(&mut self, state: u32, id: u32, handle: u64, name: &str, figures: [u64; 3]) -> &mut Self {
        let word = self.codec.word;
        let mut bytes = vec![0u8; thread::bytes(word).next_multiple_of(8)];
        let mut put = |at, width, value| self.codec.put(&mut bytes, at, width, value);
        put(thread::state(word), 4, u64::from(state));
        put(thread::id(word), 4, u64::from(id));
        put(thread::handle(word), word.bytes(), handle);
        let places = [thread::allocations, thread::frees, thread::bytes_allocated];
        for (place, figure) in places.into_iter().zip(figures) {
            put(place(word), word.bytes(), figure);
        }
        let at = thread::name(word);
        for (place, byte) in bytes.iter_mut().skip(at).take(16).zip(name.bytes()) {
            *place = byte;
        }
        self.threads.push(bytes);
        self
    }

    /// A heap.
    pub fn heap(&mut self, name: &str, low: u64, high: u64) -> &mut Self {
        self.heaps.push((name.to_owned(), low, high));
        self
    }

    /// A module; returns its row.
    pub fn module(&mut self, path: &str, build_id: &[u8], bias: u64, low: u64, high: u64) -> u16 {
        self.modules.push((path.to_owned(), build_id.to_vec(), [bias, low, high]));
        self.modules.len() as u16 - 1
    }

    /// Something known of the process.
    pub fn process(&mut self, key: &str, value: &str) -> &mut Self {
        self.process.extend_from_slice(format!("{key}={value}\0").as_bytes());
        self
    }

    /// A counter that exists once.
    pub fn global(&mut self, counter: GlobalCounter, value: u64) -> &mut Self {
        self.globals.push((counter, value));
        self
    }

    /// Adds to a total; allocations and frees of the entries are there already.
    pub fn tally(&mut self, counter: TallyCounter, value: u64) -> &mut Self {
        self.tallies.push((counter, value));
        self
    }

    /// Samples the blocks: each stands for several in the totals. For blocks that were added before and that come.
    pub fn sampled(&mut self, interval: u64) -> &mut Self {
        self.globals.retain(|(counter, _)| *counter != GlobalCounter::SampleInterval);
        self.global(GlobalCounter::SampleInterval, interval)
    }

    /// Has only so many counters that exist once, and that are summed, as an older writer or a chip.
    pub fn counters(&mut self, globals: usize, tallies: usize) -> &mut Self {
        self.counters = [globals, tallies];
        self
    }

    /// Which run it is of: ledgers of one id are of one run.
    pub fn id(&mut self, id: [u8; 16]) -> &mut Self {
        self.id = id;
        self
    }

    /// Most frames of a stack.
    pub fn depth_limit(&mut self, frames: u16) -> &mut Self {
        self.depth_limit = frames;
        self
    }

    /// Nanoseconds of a tick.
    pub fn tick_ns(&mut self, ns: u32) -> &mut Self {
        self.tick_ns = ns;
        self
    }

    /// Moves the records by so many bytes, so that some of them straddle the border of two pages.
    pub fn skew(&mut self, bytes: usize) -> &mut Self {
        self.skew = bytes;
        self
    }

    /// The layout of the records.
    pub fn layout(&self) -> RecordLayout {
        match self.codec.word {
            WordSize::W64 if self.labels.len() > 1 => labelled_layout_64(self.options),
            WordSize::W64 => layout_64(self.options),
            WordSize::W32 => layout_32(),
        }
    }

    fn tally_bytes(&self) -> Vec<u8> {
        let word = self.codec.word.bytes();
        let mut words = [0u64; TALLY_WORDS];
        let mut add = |at: usize, value: u64| words[at] = words[at].wrapping_add(value);
        let rule = self.sample_rule();
        for block in self.records.iter().chain(self.history.iter().map(|freed| &freed.block)) {
            let weight = block.weight(rule);
            add(TallyCounter::Allocations as usize, weight);
            add(TallyCounter::BytesAllocated as usize, weight * block.size.unwrap_or(0));
            add(TALLY_KINDS_AT + usize::from(block.kind.number()), weight);
        }
        for freed in &self.history {
            let weight = freed.block.weight(rule);
            add(TallyCounter::Frees as usize, weight);
            add(TallyCounter::BytesFreed as usize, weight * freed.block.size.unwrap_or(0));
            add(TallyCounter::HistoryEntered as usize, 1);
            add(TALLY_KINDS_AT + KIND_LIMIT + usize::from(freed.by.number()), weight);
        }
        for (counter, value) in &self.tallies {
            add(*counter as usize, *value);
        }
        let mut bytes = vec![0u8; TALLY_WORDS * word];
        for (index, value) in words.iter().enumerate() {
            self.codec.put(&mut bytes, index * word, word, *value);
        }
        bytes
    }

    /// Sections as kind, element size and bytes.
    fn sections(&self) -> Vec<(SectionKind, usize, Vec<u8>)> {
        let (codec, layout) = (self.codec, self.layout());
        let word = codec.word;
        let (record_bytes, history_bytes) = match word {
            WordSize::W64 => (32, 64),
            WordSize::W32 => (24, 40),
        };
        let mut wides = Vec::new();
        let mut records = vec![0u8; record_bytes];
        for entry in &self.records {
            let at = records.len();
            records.resize(at + record_bytes, 0);
            if entry.write(&layout, codec, &mut records[at..]) {
                let mut element = [0u8; wide::BYTES];
                codec.put(&mut element, wide::NUMBER, 8, entry.number + 1);
                codec.put(&mut element, wide::SIZE, 8, entry.size.unwrap_or(0));
                codec.put(&mut element, wide::ACTUAL, 8, entry.actual.unwrap_or(0));
                wides.extend_from_slice(&element);
            }
        }
        // The first element of a page is the ring's own.
        let mut history = Vec::new();
        for (index, freed) in self.history.iter().enumerate() {
            if index % 63 == 0 {
                history.resize(history.len() + history_bytes, 0x55);
                let at = history.len() - history_bytes;
                layout.put(codec, &mut history[at..], Field::FreedNumber, 0);
            }
            let at = history.len();
            history.resize(at + history_bytes, 0);
            freed.write(&layout, codec, &mut history[at..]);
        }
        let mut sites = vec![0u8; self.sites.len() * site::BYTES];
        for (index, (parent, code)) in self.sites.iter().enumerate() {
            codec.put(&mut sites, index * site::BYTES + site::PARENT, 4, u64::from(parent.0));
            codec.put(&mut sites, index * site::BYTES + site::CODE, 4, u64::from(*code));
        }
        let mut pcs = vec![0u8; self.pcs.len() * pc::BYTES];
        for (index, word) in self.pcs.iter().enumerate() {
            codec.put(&mut pcs, index * pc::BYTES, pc::BYTES, *word);
        }
        let mut strings = self.strings.clone();
        let mut heaps = Vec::new();
        for (name, low, high) in &self.heaps {
            let mut bytes = vec![0u8; heap::bytes(word)];
            codec.put(&mut bytes, heap::state(word), 4, 1);
            codec.put(&mut bytes, heap::name_at(word), 4, strings.len() as u64);
            codec.put(&mut bytes, heap::name_bytes(word), 4, name.len() as u64);
            codec.put(&mut bytes, heap::low(word), word.bytes(), *low);
            codec.put(&mut bytes, heap::high(word), word.bytes(), *high);
            strings.extend_from_slice(name.as_bytes());
            heaps.extend(bytes);
        }
        let mut modules = Vec::new();
        for (path, build_id, places) in &self.modules {
            let mut bytes = vec![0u8; module::bytes(word)];
            for (place, value) in [module::bias, module::low, module::high].into_iter().zip(places) {
                codec.put(&mut bytes, place(word), word.bytes(), *value);
            }
            codec.put(&mut bytes, module::path_at(word), 4, strings.len() as u64);
            codec.put(&mut bytes, module::path_bytes(word), 4, path.len() as u64);
            codec.put(&mut bytes, module::build_id_bytes(word), 4, build_id.len() as u64);
            bytes[module::build_id(word)..][..build_id.len()].copy_from_slice(build_id);
            strings.extend_from_slice(path.as_bytes());
            modules.extend(bytes);
        }
        let tallies = self.tally_bytes();
        vec![
            (SectionKind::Records, record_bytes, records),
            (SectionKind::History, history_bytes, history),
            (SectionKind::Sites, site::BYTES, sites),
            (SectionKind::Pcs, pc::BYTES, pcs),
            (SectionKind::Threads, thread::bytes(word).next_multiple_of(8), self.threads.concat()),
            (SectionKind::Heaps, heap::bytes(word), heaps),
            (SectionKind::Modules, module::bytes(word), modules),
            (SectionKind::Strings, 1, strings),
            (SectionKind::Process, 1, self.process.clone()),
            (SectionKind::Tallies, tallies.len(), tallies),
            (SectionKind::Wide, wide::BYTES, wides),
        ]
    }

    /// The ledger's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut header = Header::new(self.codec, self.layout(), self.options);
        header.limit_counters(self.counters[0], self.counters.iter().sum());
        header.flags = flag::PUBLISHED_SINGLY;
        header.tick_ns = self.tick_ns;
        header.start_unix_ns = 1_700_000_000_000_000_000;
        header.id = self.id;
        header.order_bound = 4096;
        header.depth_limit = self.depth_limit;
        header.state = State::Recording;
        for (counter, value) in &self.globals {
            header.set_global(*counter, *value);
        }
        let mut bytes = vec![0u8; PAGE + self.skew];
        let own = self.sections().into_iter().map(|(kind, element_bytes, bytes)| (kind as u16, element_bytes, bytes));
        let sections: Vec<_> = own.chain(self.label_sections()).chain(self.others.iter().cloned()).collect();
        for (kind, element_bytes, section) in sections {
            let used = (section.len() / element_bytes) as u64;
            header.add_section(SectionRow {
                kind,
                element_bytes: element_bytes as u16,
                offset: bytes.len() as u64,
                capacity: used + 10,
                used,
                backed: used,
            });
            bytes.extend_from_slice(&section);
            bytes.resize(bytes.len().next_multiple_of(64), 0);
        }
        header.write(&mut bytes).expect("a page has room for a header");
        bytes
    }

    /// Writes the ledger to a file.
    ///
    /// # Errors
    /// If the system cannot.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, self.bytes())
    }
}

/// A layout for 32-bit targets: 24 bytes a record, 40 a history entry.
pub fn layout_32() -> RecordLayout {
    let places = [
        (Field::Number, 32, 0),
        (Field::Address, 32, 32),
        (Field::Size, 20, 64),
        (Field::Kind, 6, 84),
        (Field::Thread, 6, 90),
        (Field::Site, 16, 96),
        (Field::Excess, 16, 112),
        (Field::Time, 32, 128),
        (Field::Heap, 8, 160),
        (Field::FreedNumber, 32, 192),
        (Field::FreedBy, 6, 224),
        (Field::FreedThread, 6, 230),
        (Field::FreedSite, 16, 240),
        (Field::FreedTime, 32, 256),
        (Field::FreedWide, 32, 288),
    ];
    places.iter().fold(RecordLayout::empty(WordSize::W32), |layout, (field, width, at)| {
        layout.with(*field as u8, *width, *at).unwrap_or(layout)
    })
}

/// A ledger with a little of everything, the same in every word size and byte order.
pub fn sample(order: ByteOrder, word: WordSize) -> Builder {
    let mut builder = Builder::new();
    builder.codec(order, word);
    let program = builder.module("/nonexistent/program", &[0xab; 20], 0x0040_0000, 0x0040_0000, 0x0048_0000);
    let library = builder.module("/nonexistent/library.so", &[], 0x3000_0000, 0x3000_0000, 0x3010_0000);
    let outer = [(Some(program), 0x1100), (Some(program), 0x1010)];
    let sites: Vec<Site> = (0..6)
        .map(|site| {
            let inner = [(Some(library), 0x2000 + site * 16), (None, 0x7fff_0000)];
            builder.stack(&[&inner[..1 + site as usize % 2], &outer].concat())
        })
        .collect();
    for number in 0..60u64 {
        let block = Entry {
            number,
            address: 0x1000_0000 + number * 64,
            size: Some(1 + number * 7),
            actual: Some((1 + number * 7).next_multiple_of(16) + 8),
            kind: Kind::ALL[1 + number as usize % 17],
            site: sites.get(number as usize % 7).copied().unwrap_or_default(),
            thread: Some(ThreadRow(number as u32 % 3)).filter(|_| number % 11 != 0),
            heap: Some((number % 2) as u8),
            time: Some(Ticks(number * 1_500)),
            ..Entry::NONE
        };
        match number {
            7 => builder.entry(Entry { size: Some(3_000_000), actual: Some(6_000_000), ..block }),
            _ if number % 5 != 3 => builder.entry(block),
            _ => {
                let actual = if number == 13 { Some(170_000) } else { block.actual };
                builder.freed(FreedEntry {
                    block: Entry { size: if number == 13 { Some(100_000) } else { block.size }, actual, ..block },
                    number: 100 + number,
                    later: 0,
                    by: if number % 2 == 0 { Kind::FREE } else { Kind::DELETE_SIZED },
                    site: sites[2],
                    thread: Some(ThreadRow(1)),
                    time: Some(Ticks(200_000 + number)),
                    core: None,
                })
            }
        };
    }
    builder
        .thread(1, 4711, 0x1234_5678, "main", [40, 3, 1_000_000])
        .thread(2, 4712, 0x1234_9999, "worker\x1b[1m", [10, 8, 2_000])
        .thread(1, 4713, 0x1234_aaaa, "", [9, 0, 3_000])
        .heap("brk", 0x1000_0000, 0x1010_0000)
        .heap("mappings", 0x2000_0000, 0x2000_0000)
        .process("pid", "4711")
        .process("start_ticks", "1")
        .process("exe", "/nonexistent/program")
        .process("arg", "program")
        .process("arg", "two words")
        .process("program", "program")
        .process("ledger_bytes", "65536")
        .global(GlobalCounter::NextNumber, 200)
        .global(GlobalCounter::PeakBytes, 4_000_000)
        .global(GlobalCounter::PeakBlocks, 55)
        .global(GlobalCounter::PeakTime, 90_000)
        .global(GlobalCounter::PeakError, 4096)
        .global(GlobalCounter::LastTime, 300_000)
        .global(GlobalCounter::PrivateBytes, 12_288)
        .tally(TallyCounter::UnknownFrees, 2)
        .tally(TallyCounter::StacksCut, 1)
        .tally(TallyCounter::FailedCalls, 1);
    builder
}
