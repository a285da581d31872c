//! Which module a code address belongs to, and its row in the ledger.
//!
//! A row stands for one loading of a module. It is made when an address of it is first seen and
//! never changes; after `dlclose` (a new generation) known modules are compared with what the
//! loader says now, because the same addresses can hold other code.

#![forbid(unsafe_code)]

use crate::ledger::{CODEC, Ledger};
use crate::once::Appended;
use crate::python::Python;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use heapledger_format::SectionKind;
use heapledger_format::bytes::WordSize;
use heapledger_format::section::{BUILD_ID_BYTES_MAX, module, pc};
use heapledger_linux::apart;
use heapledger_linux::loader::{CodeFinder, CodeModule};
use heapledger_linux::segment::MappedSegment;
use heapledger_unwind::{Lookup, Table};

const KNOWN_MAX: usize = 4096;

/// What is kept of a module for looking addresses up.
struct Known {
    low: usize,
    high: usize,
    bias: usize,
    eh_frame_header: usize,
    /// The segment that holds it.
    segment: MappedSegment,
    /// From the first executable segment to the end of the last.
    code: (usize, usize),
    build_id_start: u64,
    row_plus_1: u16,
}

struct SeenModule {
    known: Known,
    /// The generation in which it was last seen loaded, plus 1; 0 if it is known to be gone.
    seen_plus_1: AtomicU32,
}

/// Where the loader and its functions lie, and we ourselves. It is the same in a forked child.
pub(crate) struct Landmarks {
    finder: CodeFinder,
    loader: [AtomicUsize; 2],
    loader_entry: AtomicUsize,
    own: [AtomicUsize; 2],
}

impl Landmarks {
    /// Nothing is known.
    pub(crate) const fn new() -> Landmarks {
        Landmarks {
            finder: CodeFinder::new(),
            loader: [const { AtomicUsize::new(0) }; 2],
            loader_entry: AtomicUsize::new(0),
            own: [const { AtomicUsize::new(0) }; 2],
        }
    }

    /// Takes what is known there.
    pub(crate) fn take_from(&self, other: &Landmarks) {
        self.finder.start_from(other.finder.address());
        let words = |landmarks: &Landmarks| {
            let Landmarks { loader: [low, high], loader_entry, own: [first, end], .. } = landmarks;
            [low, high, loader_entry, first, end].map(|word| word.load(Ordering::Relaxed))
        };
        let [low, high, entry, first, end] = words(other);
        let Landmarks { loader, loader_entry, own, .. } = self;
        for (word, value) in loader.iter().chain([loader_entry]).chain(own).zip([low, high, entry, first, end]) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// False if the loader's function is not there.
    fn find(&self) -> bool {
        if self.finder.address() != 0 {
            return true;
        }
        if !self.finder.start() {
            return false;
        }
        let own = self.finder.find(Modules::start as *const () as usize);
        for (range, module) in [(&self.loader, self.finder.loader()), (&self.own, own)] {
            if let Some(module) = module {
                range[0].store(module.low, Ordering::Relaxed);
                range[1].store(module.high, Ordering::Relaxed);
            }
        }
        if let Some(loader) = self.finder.loader() {
            self.loader_entry.store(loader.entry(), Ordering::Relaxed);
        }
        true
    }
}

/// The modules seen so far.
pub struct Modules {
    seen: Appended<SeenModule, KNOWN_MAX>,
    generation: AtomicU32,
    /// Nobody tells when code is unloaded. All zeros at first, as all of these: what is not costs no room in the library's file.
    asks: AtomicBool,
    landmarks: Landmarks,
    /// Where the path of the program's own file stands in the ledger, shifted by [`LENGTH_BITS`], and its length; 0 if it is not known.
    executable: AtomicU64,
    /// Python, if it is among them and wanted.
    pub(crate) python: Python,
}

const LENGTH_BITS: u32 = 16;
const LENGTH_MASK: u64 = (1 << LENGTH_BITS) - 1;

const NO_MODULE: Known = Known {
    low: 0,
    high: 0,
    bias: 0,
    eh_frame_header: 0,
    segment: MappedSegment::NONE,
    code: (0, 0),
    build_id_start: 0,
    row_plus_1: 0,
};

impl Modules {
    /// No modules.
    pub const fn new() -> Modules {
        Modules {
            seen: Appended::over(
                [const { SeenModule { known: NO_MODULE, seen_plus_1: AtomicU32::new(0) } }; KNOWN_MAX],
            ),
            generation: AtomicU32::new(0),
            asks: AtomicBool::new(false),
            landmarks: Landmarks::new(),
            executable: AtomicU64::new(0),
            python: Python::new(),
        }
    }

    /// Finds the loader's function. False if there is none. Where nobody tells when code is unloaded, the loader is asked whenever
    /// an address is looked up.
    pub fn start(&self, is_told: bool) -> bool {
        self.asks.store(!is_told, Ordering::Relaxed);
        self.landmarks.find()
    }

    /// Enters the path of the program's own file, to which the loader gives no name.
    pub(crate) fn enter_executable(&self, ledger: &Ledger, path: &[u8]) {
        let path_at = ledger.enter(SectionKind::Strings, path);
        let word = path_at.map_or(0, |path_at| path_at << LENGTH_BITS | path.len() as u64);
        self.executable.store(word, Ordering::Relaxed);
    }

    /// Where the loader lies, and we: what a forked child keeps.
    pub(crate) fn landmarks(&self) -> &Landmarks {
        &self.landmarks
    }

    /// Looks modules up.
    pub(crate) fn finder(&self) -> &CodeFinder {
        &self.landmarks.finder
    }

    /// Where the module lies that holds the recorder.
    pub fn own_module(&self) -> core::ops::Range<usize> {
        self.landmarks.own[0].load(Ordering::Relaxed)..self.landmarks.own[1].load(Ordering::Relaxed)
    }

    /// Whether an address belongs to the dynamic loader.
    #[inline(always)]
    pub fn is_loader(&self, address: usize) -> bool {
        (self.landmarks.loader[0].load(Ordering::Relaxed)..self.landmarks.loader[1].load(Ordering::Relaxed))
            .contains(&address)
    }

    /// Whether an address belongs to the first instructions of the dynamic loader: the only code of a process that
    /// is outermost without saying so.
    pub fn is_loader_start(&self, address: u64) -> bool {
        const START_BYTES: usize = 256;
        let entry = self.landmarks.loader_entry.load(Ordering::Relaxed);
        entry != 0 && (entry..entry.wrapping_add(START_BYTES)).contains(&(address as usize))
    }

    /// How often code was unloaded.
    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Code is about to be unloaded, or just was.
    pub fn next_generation(&self) -> u32 {
        self.generation.fetch_add(1, Ordering::AcqRel).wrapping_add(1)
    }

    fn find(&self, ledger: Option<&Ledger>, address: usize) -> Option<&Known> {
        let now_plus_1 = self.generation().wrapping_add(1);
        for SeenModule { known, seen_plus_1 } in self.seen.all().iter().rev() {
            if address.wrapping_sub(known.low) >= known.high.wrapping_sub(known.low) {
                continue;
            }
            let seen = seen_plus_1.load(Ordering::Acquire);
            let asks = self.asks.load(Ordering::Relaxed);
            if seen == now_plus_1 && !asks {
                return Some(known);
            }
            if seen != 0 && self.still_there(known) {
                seen_plus_1.store(now_plus_1, Ordering::Release);
                return Some(known);
            }
            seen_plus_1.store(0, Ordering::Release);
            if seen == now_plus_1 {
                // What others have learnt about it is believed no longer, from their next call on.
                self.next_generation();
            }
        }
        apart::result_of(None, || self.add(ledger?, address, now_plus_1))
    }

    fn still_there(&self, known: &Known) -> bool {
        self.landmarks.finder.find(known.low).is_some_and(|code| {
            (code.low, code.high, code.module.bias(), code.eh_frame_header)
                == (known.low, known.high, known.bias, known.eh_frame_header)
                && build_id_start(&code) == known.build_id_start
        })
    }

    #[cold]
    fn add(&self, ledger: &Ledger, address: usize, now_plus_1: u32) -> Option<&Known> {
        let code = self.landmarks.finder.find(address)?;
        let mut adding = self.seen.lock()?;
        let seen = self.seen.all();
        if seen.len() == KNOWN_MAX {
            return None;
        }
        // Another thread may have entered it while this one waited.
        let is_it =
            |seen: &&SeenModule| seen.known.low == code.low && seen.seen_plus_1.load(Ordering::Acquire) == now_plus_1;
        if let Some(seen) = seen.iter().rev().find(is_it) {
            return Some(&seen.known);
        }
        let segment = if code.eh_frame_header == 0 { None } else { code.segment(code.eh_frame_header) };
        let row_plus_1 = Self::row_of_other_segment(&code, seen, now_plus_1);
        let known = Known {
            low: code.low,
            high: code.high,
            bias: code.module.bias(),
            eh_frame_header: code.eh_frame_header,
            segment: segment.unwrap_or(MappedSegment::NONE),
            code: code.executable(),
            build_id_start: build_id_start(&code),
            row_plus_1: row_plus_1.unwrap_or_else(|| self.new_row(ledger, &code, now_plus_1.wrapping_sub(1))),
        };
        adding.add(SeenModule { known, seen_plus_1: AtomicU32::new(now_plus_1) }).map(|seen| &seen.known)
    }

    /// The row, plus 1, of a module with gaps between its segments of which another segment is known.
    fn row_of_other_segment(code: &CodeModule, seen: &[SeenModule], now_plus_1: u32) -> Option<u16> {
        let extent = code.extent();
        if extent == (code.low, code.high) {
            return None;
        }
        seen.iter().rev().find_map(|SeenModule { known, seen_plus_1 }| {
            let is_same = seen_plus_1.load(Ordering::Acquire) == now_plus_1
                && (extent.0..extent.1).contains(&known.low)
                && (known.bias, known.eh_frame_header, known.build_id_start)
                    == (code.module.bias(), code.eh_frame_header, build_id_start(code));
            (is_same && known.row_plus_1 != 0).then_some(known.row_plus_1)
        })
    }

    fn new_row(&self, ledger: &Ledger, code: &CodeModule, generation: u32) -> u16 {
        let row_plus_1 = self.write_row(ledger, code, generation);
        self.python.look_at(ledger, &code.module, row_plus_1);
        row_plus_1
    }

    /// Writes the module's row; returns its number plus 1, or 0 if there is no room.
    fn write_row(&self, ledger: &Ledger, code: &CodeModule, generation: u32) -> u16 {
        let path = code.module.name().to_bytes();
        let known = self.executable.load(Ordering::Relaxed);
        let (path_at, path_bytes) = if path.is_empty() && known != 0 {
            (known >> LENGTH_BITS, known & LENGTH_MASK)
        } else {
            let Some(path_at) = ledger.enter(SectionKind::Strings, path) else { return 0 };
            (path_at, path.len() as u64)
        };
        let mut bytes = [0; module::bytes(WordSize::W64)];
        let mut put = |field: fn(WordSize) -> usize, width, value: u64| {
            CODEC.put(&mut bytes, field(WordSize::W64), width, value);
        };
        let build_id = code.build_id();
        let build_id = build_id.get(..build_id.len().min(BUILD_ID_BYTES_MAX)).unwrap_or(&[]);
        put(module::bias, 8, code.module.bias() as u64);
        let (low, high) = code.extent();
        put(module::low, 8, low as u64);
        put(module::high, 8, high as u64);
        put(module::generation, 4, u64::from(generation));
        put(module::path_at, 4, path_at);
        put(module::path_bytes, 4, path_bytes);
        put(module::build_id_bytes, 4, build_id.len() as u64);
        let at = module::build_id(WordSize::W64);
        if let Some(place) = bytes.get_mut(at..at.wrapping_add(build_id.len())) {
            place.copy_from_slice(build_id);
        }
        // Nobody refers to it before its number is known.
        ledger.enter(SectionKind::Modules, &bytes).and_then(|row| u16::try_from(row.wrapping_add(1)).ok()).unwrap_or(0)
    }

    /// A code address as the `pcs` section has it. The address is one past the instruction in question.
    pub fn locate(&self, ledger: &Ledger, address: u64) -> u64 {
        match self.find(Some(ledger), (address as usize).wrapping_sub(1)) {
            Some(known) if known.row_plus_1 != 0 => pc::pack(known.row_plus_1, address.wrapping_sub(known.bias as u64)),
            _ => pc::pack(0, address),
        }
    }

    /// Whether a return address can be `address`: outside of modules there may be generated code anywhere, inside of one
    /// there is code in some segments only.
    pub fn may_be_code(&self, ledger: &Ledger, address: u64) -> bool {
        let last = (address as usize).wrapping_sub(1);
        self.find(Some(ledger), last).is_none_or(|known| (known.code.0..known.code.1).contains(&last))
    }

    /// What is added to the addresses in the file of a module that is still loaded, by its row plus 1.
    pub(crate) fn bias_of(&self, row_plus_1: u16) -> Option<usize> {
        let mut all = self.seen.all().iter().rev().filter(|seen| seen.known.row_plus_1 == row_plus_1);
        let found = all.find(|_| row_plus_1 != 0)?;
        (found.seen_plus_1.load(Ordering::Acquire) != 0 && self.still_there(&found.known)).then_some(found.known.bias)
    }

    /// The unwind table for a code address.
    pub fn table(&self, ledger: &Ledger, address: u64) -> Lookup<'_> {
        // In no module lies generated code. Before a library comes to lie there the loader allocates what it keeps of it, which
        // begins a new generation. (Between the two, while the library is relocated, its code would count as generated; nothing
        // of it runs then but what chooses indirect functions.)
        let Some(known) = self.find(Some(ledger), address as usize) else { return Lookup::NoTable };
        let segment = known.segment.bytes();
        if segment.is_empty() {
            return Lookup::NoTable;
        }
        Lookup::Found(Table {
            segment,
            segment_address: known.segment.address() as u64,
            header_address: known.eh_frame_header as u64,
        })
    }
}

impl Default for Modules {
    fn default() -> Self {
        Self::new()
    }
}

fn build_id_start(code: &CodeModule) -> u64 {
    code.build_id().first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
