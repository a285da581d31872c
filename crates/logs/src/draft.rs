//! A ledger that is being made of something else: blocks come one after another, in any number, and are kept in a file that
//! has no name; stacks, threads and heaps are kept in memory, each once.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use heapledger_format::account::Account;
use heapledger_format::bytes::{ByteOrder, Codec, WordSize};
use heapledger_format::counter::{TALLY_KINDS_AT, TALLY_WORDS};
use heapledger_format::errors::ErrorEntry;
use heapledger_format::header::{HEADER_BYTES_MAX, Header, State};
use heapledger_format::kind::KIND_LIMIT;
use heapledger_format::record::Options;
use heapledger_format::section::{SectionRow, heap, heap_figures, thread, wide};
use heapledger_format::session::process as key;
use heapledger_format::{Entry, FreedEntry, GlobalCounter, Kind, SectionKind, Site, TallyCounter, ThreadRow};

mod shape;
mod spool;
mod stacks;

pub use shape::{Cores, DraftShape};
use spool::Spool;
pub(crate) use spool::{copy_part, nameless};
use stacks::StackTable;

/// As the host that makes it.
const CODEC: Codec = Codec { order: ByteOrder::Little, word: WordSize::W64 };
const WORD: WordSize = CODEC.word;
/// Bytes of a heap's row, figures of its own included.
const HEAP_BYTES: usize = heap_figures::bytes(WORD);
/// Sections begin at multiples of this.
const ALIGN_BYTES: u64 = 64;
/// Tables of no more than that are written together.
const SMALL_BYTES: usize = 64 << 10;
/// Most sentences about one thing: the rest is counted.
const SENTENCES_MAX: usize = 20;

/// Where in a heap's row a figure of its own lies: one of [`heap_figures`].
pub type HeapPlace = fn(WordSize) -> usize;

/// A ledger that is being made.
#[derive(Debug)]
pub struct LedgerDraft {
    shape: DraftShape,
    header: Header,
    records: Spool,
    history: Spool,
    element: Vec<u8>,
    stacks: StackTable,
    threads: Vec<u8>,
    heaps: Vec<u8>,
    strings: Vec<u8>,
    process: Vec<u8>,
    wide: Vec<u8>,
    errors: Vec<u8>,
    accounts: Vec<u8>,
    tallies: [u64; TALLY_WORDS],
    sentences: [usize; 2],
    live_bytes: u64,
    next_number: u64,
    identity: u128,
}

impl LedgerDraft {
    /// An empty one.
    pub fn new(shape: DraftShape) -> LedgerDraft {
        let layout = shape.layout();
        let mut header = Header::new(CODEC, layout, shape.options());
        header.tick_ns = shape.tick_ns.unwrap_or(0);
        header.state = State::Recording;
        LedgerDraft {
            shape,
            header,
            records: Spool::new(HEADER_BYTES_MAX as u64),
            history: Spool::new(0),
            element: Vec::new(),
            stacks: StackTable::default(),
            threads: Vec::new(),
            heaps: Vec::new(),
            strings: Vec::new(),
            process: Vec::new(),
            wide: Vec::new(),
            errors: Vec::new(),
            accounts: Vec::new(),
            tallies: [0; TALLY_WORDS],
            sentences: [0; 2],
            live_bytes: 0,
            next_number: 0,
            identity: 0,
        }
    }

    /// Another one with the same in it.
    ///
    /// # Errors
    /// If the files cannot be read, or written.
    pub fn copy(&self) -> io::Result<LedgerDraft> {
        Ok(LedgerDraft {
            shape: self.shape,
            header: self.header.clone(),
            records: self.records.copy()?,
            history: self.history.copy()?,
            element: Vec::new(),
            stacks: self.stacks.clone(),
            threads: self.threads.clone(),
            heaps: self.heaps.clone(),
            strings: self.strings.clone(),
            process: self.process.clone(),
            wide: self.wide.clone(),
            errors: self.errors.clone(),
            accounts: self.accounts.clone(),
            ..*self
        })
    }

    /// How long a tick is, once that is known; 0: it is not.
    pub fn tick_ns(&mut self, tick_ns: u32) {
        self.header.tick_ns = tick_ns;
    }

    /// Gives a thread another name.
    pub fn rename(&mut self, row: ThreadRow, name: &str) {
        let bytes = thread::bytes(WORD).next_multiple_of(8);
        let at = (row.0 as usize).saturating_mul(bytes).saturating_add(thread::name(WORD));
        let name = name.bytes().chain(std::iter::repeat(0)).take(16);
        for (place, byte) in self.threads.iter_mut().skip(at).zip(name) {
            *place = byte;
        }
    }

    /// The call site of these return addresses, innermost first. Zeros are left out.
    pub fn stack(&mut self, frames: &[u64]) -> Site {
        self.stacks.site(frames)
    }

    /// One more thread or task; its row.
    pub fn thread(&mut self, name: &str, id: u32, handle: u64) -> ThreadRow {
        let bytes = thread::bytes(WORD).next_multiple_of(8);
        let row = self.threads.len() / bytes;
        let mut element = vec![0u8; bytes];
        CODEC.put(&mut element, thread::state(WORD), 4, 1);
        CODEC.put(&mut element, thread::id(WORD), 4, u64::from(id));
        CODEC.put(&mut element, thread::handle(WORD), WORD.bytes(), handle);
        for (place, byte) in element.iter_mut().skip(thread::name(WORD)).take(16).zip(name.bytes()) {
            *place = byte;
        }
        self.threads.extend_from_slice(&element);
        ThreadRow(row as u32)
    }

    /// Says that a thread is gone.
    pub fn thread_gone(&mut self, row: ThreadRow) {
        self.thread_word(row, thread::state, 4, |_| 2);
    }

    /// Adds to what a thread has done.
    fn thread_word(&mut self, row: ThreadRow, field: fn(WordSize) -> usize, width: usize, new: impl Fn(u64) -> u64) {
        let bytes = thread::bytes(WORD).next_multiple_of(8);
        let at = (row.0 as usize).saturating_mul(bytes);
        if let Some(element) = self.threads.get_mut(at..).and_then(|rest| rest.get_mut(..bytes)) {
            let value = new(CODEC.number(element, field(WORD), width));
            CODEC.put(element, field(WORD), width, value);
        }
    }

    /// One more heap, `None` if there is no number for it. Its range may be unknown: all ones, 0.
    pub fn heap(&mut self, name: &str, range: [u64; 2], capabilities: u32) -> Option<u8> {
        self.heap_with(name, range, capabilities, &[])
    }

    /// The same with what the heap knows of itself: places of [`heap_figures`], and figures.
    pub fn heap_with(
        &mut self,
        name: &str,
        [low, high]: [u64; 2],
        capabilities: u32,
        figures: &[(HeapPlace, u64)],
    ) -> Option<u8> {
        let row = u8::try_from(self.heaps.len() / HEAP_BYTES).ok()?;
        let mut element = vec![0xffu8; HEAP_BYTES];
        CODEC.put(&mut element, heap::state(WORD), 4, 1);
        CODEC.put(&mut element, heap::name_at(WORD), 4, self.strings.len() as u64);
        CODEC.put(&mut element, heap::name_bytes(WORD), 4, name.len() as u64);
        CODEC.put(&mut element, heap::capabilities(WORD), 4, u64::from(capabilities));
        CODEC.put(&mut element, heap::low(WORD), WORD.bytes(), low);
        CODEC.put(&mut element, heap::high(WORD), WORD.bytes(), high);
        for (place, figure) in figures {
            CODEC.put(&mut element, place(WORD), WORD.bytes(), *figure);
        }
        self.strings.extend_from_slice(name.as_bytes());
        self.heaps.extend_from_slice(&element);
        Some(row)
    }

    /// What a thread holds of a heap.
    pub fn account(&mut self, account: &Account) {
        let at = self.accounts.len();
        self.accounts.resize(at + Account::bytes(WORD), 0);
        if let Some(element) = self.accounts.get_mut(at..) {
            account.write(CODEC, element);
        }
    }

    /// A number for the next event.
    pub fn number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    /// A live block.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn block(&mut self, block: &Entry) -> io::Result<()> {
        self.begun(block);
        // What lines say may be anything.
        self.live_bytes = self.live_bytes.saturating_add(block.size.unwrap_or(0));
        self.element.clear();
        self.element.resize(self.shape.record_bytes(), 0);
        let is_wide = block.write(&self.header.layout, CODEC, &mut self.element);
        if is_wide {
            self.huge(block);
        }
        self.records.add(&self.element)
    }

    /// A block that was freed.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn freed(&mut self, freed: &FreedEntry) -> io::Result<()> {
        self.begun(&freed.block);
        self.add(TallyCounter::Frees as usize, 1);
        self.add(TallyCounter::BytesFreed as usize, freed.block.size.unwrap_or(0));
        self.add(TallyCounter::HistoryEntered as usize, 1);
        self.add(TALLY_KINDS_AT + KIND_LIMIT + usize::from(freed.by.number()), 1);
        if let Some(row) = freed.thread {
            self.thread_word(row, thread::frees, WORD.bytes(), |frees| frees + 1);
        }
        self.identify(&[freed.number, u64::from(freed.site.0)]);
        self.element.clear();
        self.element.resize(self.shape.history_bytes(), 0);
        freed.write(&self.header.layout, CODEC, &mut self.element);
        self.history.add(&self.element)
    }

    /// What every block counts for.
    fn begun(&mut self, block: &Entry) {
        let bytes = block.size.unwrap_or(0);
        self.add(TallyCounter::Allocations as usize, 1);
        self.add(TallyCounter::BytesAllocated as usize, bytes);
        self.add(TALLY_KINDS_AT + usize::from(block.kind.number()), 1);
        if let Some(row) = block.thread {
            self.thread_word(row, thread::allocations, WORD.bytes(), |blocks| blocks + 1);
            self.thread_word(row, thread::bytes_allocated, WORD.bytes(), |all| all.wrapping_add(bytes));
        }
        self.identify(&[block.number, block.address, bytes, u64::from(block.site.0)]);
    }

    fn add(&mut self, word: usize, more: u64) {
        if let Some(word) = self.tallies.get_mut(word) {
            *word = word.saturating_add(more);
        }
    }

    /// Adds to a total that says what is missing.
    pub fn count(&mut self, counter: TallyCounter, more: u64) {
        self.add(counter as usize, more);
    }

    fn huge(&mut self, block: &Entry) {
        let at = self.wide.len();
        self.wide.resize(at + wide::BYTES, 0);
        if let Some(element) = self.wide.get_mut(at..) {
            CODEC.put(element, wide::NUMBER, 8, block.number + 1);
            CODEC.put(element, wide::SIZE, 8, block.size.unwrap_or(0));
            CODEC.put(element, wide::ACTUAL, 8, block.actual.unwrap_or(0));
        }
    }

    /// Something that was found wrong, with a text that it names; the memory around may be such a text, too.
    pub fn error(&mut self, mut error: ErrorEntry, name: &str) {
        if !name.is_empty() {
            (error.function_at, error.function_bytes) = (self.strings.len() as u32, name.len() as u32);
            self.strings.extend_from_slice(name.as_bytes());
        }
        let at = self.errors.len();
        self.errors.resize(at + ErrorEntry::bytes(WORD), 0);
        if let Some(element) = self.errors.get_mut(at..) {
            error.write(CODEC, element);
        }
    }

    /// How many errors there are.
    pub fn errors(&self) -> u64 {
        (self.errors.len() / ErrorEntry::bytes(WORD)) as u64
    }

    /// Something known of the device or the program.
    pub fn process(&mut self, key: &str, value: &str) {
        for part in [key, "=", value, "\0"] {
            // A zero ends a pair.
            self.process.extend(
                part.bytes()
                    .enumerate()
                    .filter(|(at, byte)| *byte != 0 || part.len() == at + 1 && part == "\0")
                    .map(|(_, byte)| byte),
            );
        }
    }

    /// A sentence about what is missing: figures may be wrong.
    pub fn missing(&mut self, sentence: &str) {
        self.sentence(0, key::MISSING_PREFIX, sentence);
    }

    /// A sentence about something else.
    pub fn remark(&mut self, sentence: &str) {
        self.sentence(1, key::REMARK_PREFIX, sentence);
    }

    fn sentence(&mut self, which: usize, prefix: &str, sentence: &str) {
        let Some(said) = self.sentences.get_mut(which) else { return };
        *said += 1;
        match *said {
            number if number <= SENTENCES_MAX => self.process(&format!("{prefix}{number}"), sentence),
            number if number == SENTENCES_MAX + 1 => {
                self.process(&format!("{prefix}{number}"), "There is more of this kind, which is not listed.");
            }
            _ => {}
        }
    }

    /// How many blocks there are, live or freed.
    pub fn blocks(&self) -> u64 {
        self.tallies.first().copied().unwrap_or(0)
    }

    /// Sets a total that exists once.
    pub fn set(&mut self, counter: GlobalCounter, value: u64) {
        self.header.set_global(counter, value);
    }

    /// What kind of file it is of, as an ELF says it.
    pub fn machine(&mut self, machine: u16) {
        self.header.machine = machine;
    }

    /// Ledgers of the same blocks have the same number.
    fn identify(&mut self, words: &[u64]) {
        const PRIME: u128 = 0x0100_0000_0000_0000_0000_0000_013b;
        for word in words {
            self.identity = (self.identity ^ u128::from(*word)).wrapping_mul(PRIME).rotate_left(29);
        }
    }

    /// The ledger, in a file without a name.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(self) -> io::Result<File> {
        self.finish_in(None)
    }

    /// The same, in an empty file without a name that is there already, if the blocks are not in one of their own.
    pub(crate) fn finish_in(mut self, spare: Option<File>) -> io::Result<File> {
        self.header.id = (self.identity ^ 0x6865_6170_6c65_6467_6572_206f_6620_6c6f).to_le_bytes();
        self.header.depth_limit = u16::try_from(self.stacks.deepest).unwrap_or(u16::MAX);
        self.header.set_global(GlobalCounter::NextNumber, self.next_number);
        self.header.set_global(GlobalCounter::LiveBytes, self.live_bytes);
        if self.header.global(GlobalCounter::PeakBytes) == 0 {
            // Nobody knows what lived at one time: no less than lives, and no more than was allocated.
            let allocated = self.tallies.get(TallyCounter::BytesAllocated as usize).copied().unwrap_or(0);
            self.header.set_global(GlobalCounter::PeakError, allocated);
        }
        let tallies: Vec<u8> = self.tallies.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (file, mut at) = self.records.end(spare)?;
        let mut section = |kind: SectionKind, element_bytes: usize, offset: u64, bytes: u64| {
            let used = bytes / element_bytes.max(1) as u64;
            let (kind, element_bytes) = (kind as u16, element_bytes as u16);
            self.header.add_section(SectionRow { kind, element_bytes, offset, capacity: used, used, backed: used });
        };
        let first = HEADER_BYTES_MAX as u64;
        section(SectionKind::Records, self.shape.record_bytes(), first, at - first);
        at = at.next_multiple_of(ALIGN_BYTES);
        if self.shape.history {
            let bytes = self.history.copy_to(&file, at)?;
            section(SectionKind::History, self.shape.history_bytes(), at, bytes);
            at = (at + bytes).next_multiple_of(ALIGN_BYTES);
        }
        let [sites, pcs] = self.stacks.sections();
        let tables: [(SectionKind, usize, &[u8]); 10] = [
            (SectionKind::Sites, heapledger_format::section::site::BYTES, &sites),
            (SectionKind::Pcs, heapledger_format::section::pc::BYTES, &pcs),
            (SectionKind::Threads, thread::bytes(WORD).next_multiple_of(8), &self.threads),
            (SectionKind::Heaps, HEAP_BYTES, &self.heaps),
            (SectionKind::Strings, 1, &self.strings),
            (SectionKind::Process, 1, &self.process),
            (SectionKind::Tallies, TALLY_WORDS * WORD.bytes(), &tallies),
            (SectionKind::Wide, wide::BYTES, &self.wide),
            (SectionKind::Errors, ErrorEntry::bytes(WORD), &self.errors),
            (SectionKind::Accounts, Account::bytes(WORD), &self.accounts),
        ];
        // Small ones go out together.
        let (mut small, mut small_at) = (Vec::new(), at);
        for (kind, element_bytes, bytes) in tables {
            if bytes.len() > SMALL_BYTES || small.len() > SMALL_BYTES {
                file.write_all_at(&small, small_at)?;
                small.clear();
                small_at = at;
            }
            if bytes.len() > SMALL_BYTES {
                file.write_all_at(bytes, at)?;
            } else {
                small.resize((at - small_at) as usize, 0);
                small.extend_from_slice(bytes);
            }
            section(kind, element_bytes, at, bytes.len() as u64);
            at = (at + bytes.len() as u64).next_multiple_of(ALIGN_BYTES);
            if bytes.len() > SMALL_BYTES {
                small_at = at;
            }
        }
        file.write_all_at(&small, small_at)?;
        file.set_len(at)?;
        let mut bytes = vec![0u8; HEADER_BYTES_MAX];
        self.header.write(&mut bytes).ok_or_else(|| io::Error::other("the header is too long"))?;
        file.write_all_at(&bytes, 0)?;
        Ok(file)
    }
}

/// A block of which little is known.
pub fn unknown_block(number: u64, size: u64, site: Site) -> Entry {
    Entry { number, size: Some(size), site, kind: Kind(0), ..Entry::NONE }
}

/// What is recorded, as the header says it.
impl DraftShape {
    fn options(&self) -> Options {
        let parts = [
            (self.tick_ns.is_some(), Options::TIME),
            (self.threads, Options::THREAD),
            (true, Options::STACK),
            (self.history, Options::HISTORY),
            (self.heaps, Options::HEAP),
        ];
        Options(parts.iter().filter(|(recorded, _)| *recorded).map(|(_, option)| option).sum())
    }
}
