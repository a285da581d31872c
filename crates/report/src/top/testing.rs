//! A made-up ledger that is watched, for tests: here, and of the screen that shows it (`crates/cli/src/top.rs`).

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use heapledger_analysis::fields::Field;
use heapledger_analysis::watch::{Mark, Reader, Readings, RowFigure, View};
use heapledger_analysis::{Holders, Names};
use heapledger_source::Ledger;
use heapledger_symbols::{Options, SourceReader, Symbolizer};
use heapledger_testing::Watched;

use super::{Namer, Paint};

/// The view that one begins with.
pub(super) fn view() -> View {
    View::new(Field::Function, Some(RowFigure::Bytes))
}

/// A program that is watched, and what was read of it.
pub(super) struct Made {
    pub(super) program: Watched,
    pub(super) readings: Readings,
    looks: u64,
}

impl Made {
    pub(super) fn new() -> Made {
        Made { program: Watched::new(), readings: Readings::default(), looks: 0 }
    }

    /// A block more.
    pub(super) fn block(&mut self, site: usize, thread: u32, size: u64) -> &mut Made {
        self.program.block(site, thread, size);
        self
    }

    /// Looks at it, a second after the last time. With `mark`: what comes after is young.
    pub(super) fn look(&mut self, mark: bool) -> &mut Made {
        let (readings, sites, at_ns) = (&mut self.readings, self.program.sites, self.looks * 1_000_000_000);
        self.looks += 1;
        self.program.with_file(|path| {
            let ledger = Ledger::open(path).expect("a ledger");
            let reader = Reader::new(&ledger, Instant::now());
            let mut totals = reader.totals(SystemTime::now()).expect("read");
            (totals.at_ns, totals.identity.running) = (at_ns, true);
            readings.add_totals(Box::new(totals));
            let mut sample = reader.sample(readings.mark.as_ref(), None).expect("read");
            (sample.at_ns, sample.took_ns) = (at_ns, 1_000_000);
            let sample = Arc::new(sample);
            if mark {
                readings.set_mark(Some(Mark::at(Arc::clone(&sample))), "");
            }
            readings.add_sample(sample, "");
            let symbolizer = Symbolizer::new(Options::default());
            let names = Names::new(&ledger, symbolizer, SourceReader::new(None)).expect("read");
            let mut namer = Namer::new(names, Holders::default(), Paint::default());
            if readings.names.site(sites[0]).is_none() {
                readings.names.add(namer.sites(&sites).expect("named"));
            }
        });
        self
    }
}
