//! A made-up ledger that is watched, for tests.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Instant, SystemTime};

use heapledger_analysis::watch::{Mark, Reader};
use heapledger_analysis::{Holders, Names};
use heapledger_format::{Entry, GlobalCounter, Kind, TallyCounter};
use heapledger_source::Ledger;
use heapledger_symbols::{Options, SourceReader, Symbolizer};
use heapledger_testing::Builder;

use super::namer::Namer;
use super::view::{Data, Group, Sort, View};

/// The view that one begins with.
pub(crate) fn view() -> View {
    View {
        group: Group::Function,
        sort: Sort::Bytes,
        reverse: false,
        wrappers: false,
        filter: String::new(),
        within: Vec::new(),
    }
}

/// A ledger of two modules without files, so functions are called by their places.
pub(crate) struct Made {
    builder: Builder,
    pub(crate) sites: [u32; 3],
    pub(crate) data: Data,
    next: u64,
    looks: u64,
}

impl Made {
    pub(crate) fn new() -> Made {
        let mut builder = Builder::new();
        let program = builder.module("/nonexistent/program", &[], 0x40_0000, 0x40_0000, 0x48_0000);
        let library = builder.module("/nonexistent/library.so", &[], 0x3000_0000, 0x3000_0000, 0x3010_0000);
        let sites = [
            builder.stack(&[(Some(library), 0x10), (Some(program), 0x20)]),
            builder.stack(&[(Some(library), 0x10), (Some(program), 0x30)]),
            builder.stack(&[(Some(program), 0x40)]),
        ];
        builder.thread(1, 4711, 0, "main", [10, 2, 1000]).thread(1, 4712, 0, "worker", [5, 0, 500]);
        builder.process("program", "made-up").process("pid", "4711").global(GlobalCounter::LastTime, 62_000_000);
        Made { builder, sites, data: Data::default(), next: 0, looks: 0 }
    }

    /// A block more.
    pub(crate) fn block(&mut self, site: usize, thread: u32, size: u64) -> &mut Made {
        self.builder.entry(Entry {
            number: self.next,
            address: 0x1000 + self.next * 64,
            size: Some(size),
            actual: Some(size),
            kind: Kind::MALLOC,
            site: self.sites[site],
            thread: Some(thread),
            heap: None,
            time: Some(self.next * 1000),
        });
        self.next += 1;
        self
    }

    pub(crate) fn lost(&mut self, blocks: u64) -> &mut Made {
        self.builder.tally(TallyCounter::LostNoRecord, blocks);
        self
    }

    pub(crate) fn sampled(&mut self) -> &mut Made {
        self.builder.sampled(1000);
        self
    }

    /// Looks at it, a second after the last time. With `mark`: what comes after is young.
    pub(crate) fn look(&mut self, mark: bool) -> &mut Made {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("heapledger-top-{}-{}.hlive", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path: PathBuf = std::env::temp_dir().join(name);
        self.builder.global(GlobalCounter::NextNumber, self.next);
        self.builder.write(&path).expect("written");
        let ledger = Ledger::open(&path).expect("a ledger");
        let reader = Reader::new(&ledger, Instant::now());
        let at_ns = self.looks * 1_000_000_000;
        self.looks += 1;
        let mut totals = reader.totals(SystemTime::now()).expect("read");
        (totals.at_ns, totals.identity.running) = (at_ns, true);
        self.data.readings.add_totals(Box::new(totals));
        let mut sample = reader.sample(self.data.readings.mark.as_ref(), None).expect("read");
        (sample.at_ns, sample.took_ns) = (at_ns, 1_000_000);
        let sample = Arc::new(sample);
        if mark {
            self.data.readings.set_mark(Some(Mark::at(Arc::clone(&sample))), "");
        }
        self.data.readings.add_sample(sample, "");
        let symbolizer = Symbolizer::new(Options::default());
        let names = Names::new(&ledger, symbolizer, SourceReader::new(None)).expect("read");
        let mut namer = Namer::new(names, Holders::default());
        let wanted: Vec<u32> =
            self.sites.iter().copied().filter(|site| self.data.names.site(*site).is_none()).collect();
        if !wanted.is_empty() {
            let named = namer.sites(&wanted).expect("named");
            self.data.names.add(named);
        }
        std::fs::remove_file(&path).expect("removed");
        self
    }
}
