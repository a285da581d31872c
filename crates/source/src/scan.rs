//! All records or the whole history, read by several threads at once.
//!
//! Pieces of a finished ledger and chunks of a live one do not depend on each other. Each worker takes the next one
//! that nobody has, and adds what it finds to a state of its own; who asked adds the states up.
//!
//! # Large ledgers
//!
//! Pieces and chunks do not depend on each other, so `Ledger::scan_records` and `scan_freed` give each thread the
//! next one that nobody has, decode 256 elements at a time, and hand these to a closure with a state of that thread's
//! own. Who asked joins the states. There are as many threads
//! as processors, 8 at most, and one for a ledger of a few pieces. A `Ledger` is `Sync`; caches and damage are behind
//! mutexes that nobody holds while reading. `Ledger::records` and `freed` walk in order for those who want that.
//!
//! A finished ledger packs *planes* (`planes.rs`, FORMAT.md): each byte combined by exclusive or with that of the
//! element before, bytes of the same place together. Of 20 million blocks of `victims/bench_scale.c` a record takes
//! 3.3 bytes instead of 5.8, of `jq` and Python a seventh to a fourteenth of what it took, and packing and unpacking
//! got faster by half.
//!
//! No totals are kept in the file: a sum that nobody reckoned from the records could be wrong without notice, and
//! filters need the records anyway. `cargo xtask scale` measures (docs/benchmarks.md), `e2e/tests/scale.rs` holds
//! memory below the size of the unpacked ledger.

use std::marker::PhantomData;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use heapledger_format::{Entry, FreedEntry, LabelId};

use crate::decode::Decoder;
use crate::records::{Buffers, Elements};
use crate::{Ledger, SourceError, locked};

/// Elements handed over at a time: so few stay in the nearest cache between being decoded and being added up.
const BATCH: usize = 256;
/// More workers are not worth their memory.
const WORKERS_MAX: usize = 8;
/// Chunks for each worker below which it is not worth a thread.
const CHUNKS_PER_WORKER: u64 = 16;

/// What a scan found.
#[derive(Debug)]
pub struct Scanned<S> {
    /// One state for each worker, at least one, in no particular order.
    pub states: Vec<S>,
    /// Elements that changed each time they were looked at.
    pub in_flight: u64,
}

impl Ledger {
    /// Goes through the records of live blocks with as many threads as there are processors, but at most `workers`, and
    /// 8. `make` makes a worker's state, `each` adds some records to it. In no particular order. `progress` hears
    /// how far it is, from 0 to 1, in the calling thread.
    ///
    /// # Errors
    /// If the file can no longer be read. Damage is no error: see [`Ledger::damage`].
    pub fn scan_records<S: Send>(
        &self,
        workers: usize,
        make: &(dyn Fn() -> S + Sync),
        each: &(dyn Fn(&mut S, &[Entry]) + Sync),
        progress: &mut dyn FnMut(f32),
    ) -> Result<Scanned<S>, SourceError> {
        let elements = Elements::records(self).labelled();
        let wide_scans = AtomicUsize::new(0);
        let scan = Scan::new(&elements, make, Decoder::labelled, |state: &mut S, entries: &mut [Entry]| {
            elements.add_wide(entries, &wide_scans)?;
            each(state, entries);
            Ok(())
        });
        scan.run(workers, progress)
    }

    /// The same for the history.
    ///
    /// # Errors
    /// If the file can no longer be read. Damage is no error: see [`Ledger::damage`].
    pub fn scan_freed<S: Send>(
        &self,
        workers: usize,
        make: &(dyn Fn() -> S + Sync),
        each: &(dyn Fn(&mut S, &[FreedEntry]) + Sync),
        progress: &mut dyn FnMut(f32),
    ) -> Result<Scanned<S>, SourceError> {
        let elements = Elements::history(self);
        let scan = Scan::new(
            &elements,
            make,
            |decoder: &Decoder, bytes: &[u8], _| decoder.freed(bytes),
            |state: &mut S, entries: &mut [FreedEntry]| {
                each(state, entries);
                Ok(())
            },
        );
        scan.run(workers, progress)
    }
}

struct Scan<'a, S, T, D, F> {
    elements: &'a Elements<'a>,
    make: &'a (dyn Fn() -> S + Sync),
    decode: D,
    add: F,
    /// The next chunk that nobody has taken.
    next: AtomicU64,
    in_flight: AtomicU64,
    /// No chunk is to be taken any more.
    stop: AtomicBool,
    failure: Mutex<Option<SourceError>>,
    element: PhantomData<fn(T)>,
}

impl<'a, S, T, D, F> Scan<'a, S, T, D, F>
where
    S: Send,
    D: Fn(&Decoder, &[u8], Option<LabelId>) -> Option<T> + Sync,
    F: Fn(&mut S, &mut [T]) -> Result<(), SourceError> + Sync,
{
    fn new(elements: &'a Elements<'a>, make: &'a (dyn Fn() -> S + Sync), decode: D, add: F) -> Self {
        Scan {
            elements,
            make,
            decode,
            add,
            next: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            failure: Mutex::default(),
            element: PhantomData,
        }
    }

    fn run(self, workers: usize, progress: &mut dyn FnMut(f32)) -> Result<Scanned<S>, SourceError> {
        let chunks = self.elements.end().div_ceil(self.elements.stride());
        let useful = (chunks / CHUNKS_PER_WORKER).min(WORKERS_MAX as u64) as usize;
        let useful = workers.min(useful).max(1);
        // To ask how many processors there are takes longer than to read a small ledger: files of control groups are looked into.
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let workers = if useful > 1 { useful.min(processors()) } else { 1 };
        let states = std::thread::scope(|scope| {
            // A thread that cannot be had is done without.
            let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, || self.work(&mut |_| {})).ok();
            let others: Vec<_> = (1..workers).filter_map(spawn).collect();
            let own = self.work(&mut |done| {
                progress(if chunks == 0 { 1.0 } else { (done as f32 / chunks as f32).min(1.0) });
            });
            let others = others.into_iter().filter_map(|other| other.join().ok());
            std::iter::once(own).chain(others).collect()
        });
        match locked(&self.failure).take() {
            Some(failure) => Err(failure),
            None => Ok(Scanned { states, in_flight: self.in_flight.load(Ordering::Relaxed) }),
        }
    }

    fn work(&self, progress: &mut dyn FnMut(u64)) -> S {
        let mut state = (self.make)();
        let mut buffers = Buffers::default();
        let mut batch = Vec::with_capacity(BATCH);
        while !self.stop.load(Ordering::Relaxed) {
            let chunk = self.next.fetch_add(1, Ordering::Relaxed);
            progress(chunk);
            match self.chunk(chunk, &mut state, &mut buffers, &mut batch) {
                Ok(true) => {}
                Ok(false) => break,
                Err(failure) => {
                    self.stop.store(true, Ordering::Relaxed);
                    locked(&self.failure).get_or_insert(failure);
                }
            }
        }
        state
    }

    /// Adds a chunk; false if there is none.
    fn chunk(&self, chunk: u64, state: &mut S, buffers: &mut Buffers, batch: &mut Vec<T>) -> Result<bool, SourceError> {
        let mut result = Ok(());
        let first = chunk.saturating_mul(self.elements.stride());
        let step = self.elements.read(first, buffers, &mut |decoder, bytes, label| {
            if let Some(element) = (self.decode)(decoder, bytes, label) {
                batch.push(element);
            }
            if batch.len() == BATCH {
                if result.is_ok() {
                    result = (self.add)(state, batch);
                }
                batch.clear();
            }
        })?;
        result?;
        (self.add)(state, batch)?;
        batch.clear();
        self.in_flight.fetch_add(step.in_flight, Ordering::Relaxed);
        Ok(step.passed != 0)
    }
}
