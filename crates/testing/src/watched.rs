//! A program that is looked at again and again, as a live view does.

use std::path::Path;

use heapledger_format::{Entry, GlobalCounter, Kind, Site, TallyCounter, ThreadRow, Ticks};

use crate::{Builder, Scratch};

/// A program of two modules without files, so that functions are called by their places: three call sites, two threads.
#[derive(Debug)]
pub struct Watched {
    builder: Builder,
    /// The call sites: two of the library, called from two places of the program, and one of the program.
    pub sites: [Site; 3],
    next: u64,
}

impl Default for Watched {
    fn default() -> Watched {
        Watched::new()
    }
}

impl Watched {
    /// No block yet.
    pub fn new() -> Watched {
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
        Watched { builder, sites, next: 0 }
    }

    /// A block more.
    pub fn block(&mut self, site: usize, thread: u32, size: u64) -> &mut Watched {
        self.builder.entry(Entry {
            number: self.next,
            address: 0x1000 + self.next * 64,
            size: Some(size),
            actual: Some(size),
            kind: Kind::MALLOC,
            site: self.sites[site],
            thread: Some(ThreadRow(thread)),
            heap: None,
            time: Some(Ticks(self.next * 1000)),
            ..Entry::NONE
        });
        self.next += 1;
        self
    }

    /// Blocks that there was no room for.
    pub fn lost(&mut self, blocks: u64) -> &mut Watched {
        self.builder.tally(TallyCounter::LostNoRecord, blocks);
        self
    }

    /// Only some blocks are chosen.
    pub fn sampled(&mut self) -> &mut Watched {
        self.builder.sampled(1000);
        self
    }

    /// Hands out the ledger as it is now, in a file that is gone afterwards.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn with_file<T>(&mut self, read: impl FnOnce(&Path) -> T) -> T {
        let scratch = Scratch::new("watched");
        let path = scratch.join("x.hlive");
        self.builder.global(GlobalCounter::NextNumber, self.next);
        self.builder.write(&path).expect("a ledger for a test");
        read(&path)
    }
}
