//! The one way through all that a ledger holds: elements come from [`Elements`], several threads add up those that a filter
//! means, each in a [`Fold`] of its own, and these are joined. What the filter cannot decide on with what it knew (new
//! threads and stacks of a running program) is kept aside and decided at the end.
//!
//! What is added up need not fit into memory, and neither need the elements: whoever hands them over in batches can be
//! gone through.

use heapledger_format::{Entry, FreedEntry, SectionKind};
use heapledger_source::{Ledger, Scanned, SourceError};

use crate::Sampling;
use crate::blocks::BlockRun;
use crate::query::{Evaluator, Subject};

/// Bytes of a record in a 64-bit ledger.
const RECORD_BYTES: u64 = 32;

/// What can have happened to a block. Filters decide on each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// It was allocated.
    Allocation,
    /// It was freed.
    Free,
}

/// What a ledger holds many of.
pub(crate) trait Element: Copy + Send + Sync {
    /// Where those are kept that are not decided on.
    type Aside: Aside<Self>;
    /// The block.
    fn block(&self) -> &Entry;
    /// What a filter decides on.
    fn subject(&self, act: Act) -> Subject<'_>;
}

impl Element for Entry {
    type Aside = BlockRun;

    #[inline]
    fn block(&self) -> &Entry {
        self
    }

    #[inline]
    fn subject(&self, _: Act) -> Subject<'_> {
        Subject::live(self)
    }
}

impl Element for FreedEntry {
    type Aside = Vec<FreedEntry>;

    #[inline]
    fn block(&self) -> &Entry {
        &self.block
    }

    #[inline]
    fn subject(&self, act: Act) -> Subject<'_> {
        match act {
            Act::Allocation => Subject::allocation(self),
            Act::Free => Subject::free(self),
        }
    }
}

/// Elements put aside.
pub(crate) trait Aside<T>: Default + Send {
    /// Puts one aside.
    fn put(&mut self, element: &T);
    /// Those that were put aside.
    fn all(&self) -> impl Iterator<Item = T>;
}

impl Aside<Entry> for BlockRun {
    fn put(&mut self, element: &Entry) {
        self.push(element);
    }

    fn all(&self) -> impl Iterator<Item = Entry> {
        self.iter()
    }
}

impl Aside<FreedEntry> for Vec<FreedEntry> {
    fn put(&mut self, element: &FreedEntry) {
        self.push(*element);
    }

    fn all(&self) -> impl Iterator<Item = FreedEntry> {
        self.iter().copied()
    }
}

/// Where elements come from: a ledger, or whatever hands them over in batches.
pub(crate) trait Elements<T> {
    /// How they were chosen.
    fn sampling(&self) -> Sampling;

    /// Hands every element over once, in batches, to one of `workers` states at most; see [`Ledger::scan_records`].
    fn scan<S: Send>(
        &self,
        workers: usize,
        make: &(dyn Fn() -> S + Sync),
        each: &(dyn Fn(&mut S, &[T]) + Sync),
        progress: &mut dyn FnMut(f32),
    ) -> Result<Scanned<S>, SourceError>;
}

impl Elements<Entry> for Ledger {
    fn sampling(&self) -> Sampling {
        Sampling::of(self)
    }

    fn scan<S: Send>(
        &self,
        workers: usize,
        make: &(dyn Fn() -> S + Sync),
        each: &(dyn Fn(&mut S, &[Entry]) + Sync),
        progress: &mut dyn FnMut(f32),
    ) -> Result<Scanned<S>, SourceError> {
        self.scan_records(workers, make, each, progress)
    }
}

impl Elements<FreedEntry> for Ledger {
    fn sampling(&self) -> Sampling {
        Sampling::of(self)
    }

    fn scan<S: Send>(
        &self,
        workers: usize,
        make: &(dyn Fn() -> S + Sync),
        each: &(dyn Fn(&mut S, &[FreedEntry]) + Sync),
        progress: &mut dyn FnMut(f32),
    ) -> Result<Scanned<S>, SourceError> {
        self.scan_freed(workers, make, each, progress)
    }
}

/// What elements are added up in: one for each thread, and all joined at the end.
pub(crate) trait Fold<T>: Send {
    /// On which acts a filter decides, and which are added if it means them.
    const ACTS: &'static [Act] = &[Act::Allocation];

    /// Is shown every element, whatever a filter means. False: it is left out.
    #[inline]
    fn meet(&mut self, element: &T, weight: u64) -> bool {
        let _ = (element, weight);
        true
    }

    /// Adds one that the filter means, and that stands for `weight` of its size.
    fn add(&mut self, element: &T, act: Act, weight: u64);

    /// Adds what another one has.
    fn join(&mut self, other: Self);
}

/// What all elements came to.
#[derive(Debug)]
pub(crate) struct Folded<F> {
    pub(crate) sum: F,
    /// Elements that were being written.
    pub(crate) in_flight: u64,
}

/// How many threads may have sums of their own for all of `sites`, each of `sum_bytes`: they are worth that as long as
/// the records take more.
pub(crate) fn workers(ledger: &Ledger, sites: usize, sum_bytes: usize) -> Result<usize, SourceError> {
    let records_bytes = ledger.count(SectionKind::Records)?.saturating_mul(RECORD_BYTES);
    let sums_bytes = (sites as u64).saturating_mul(sum_bytes as u64).max(1);
    Ok(usize::try_from(records_bytes / 4 / sums_bytes).unwrap_or(usize::MAX))
}

/// Adds up what `filter` means of all elements, all without one, by `workers` threads at most. A filter that is
/// [prepared](Evaluator::prepare_blocks) decides faster.
pub(crate) fn fold<T: Element, F: Fold<T>>(
    elements: &impl Elements<T>,
    filter: Option<&mut Evaluator<'_>>,
    workers: usize,
    fresh: &(dyn Fn() -> F + Sync),
    progress: &mut dyn FnMut(f32),
) -> Result<Folded<F>, SourceError> {
    let mut filter = filter.filter(|filter| !filter.is_all());
    let (sampling, decided) = (elements.sampling(), filter.as_deref());
    let scanned = elements.scan(
        workers,
        &|| (fresh(), T::Aside::default()),
        &|(sum, aside): &mut (F, T::Aside), elements| {
            for element in elements {
                let weight = sampling.weight(element.block());
                if !sum.meet(element, weight) {
                    continue;
                }
                match decided {
                    None => F::ACTS.iter().for_each(|act| sum.add(element, *act, weight)),
                    Some(filter) if add_meant(sum, element, weight, filter) => {}
                    Some(_) => aside.put(element),
                }
            }
        },
        progress,
    )?;
    let mut states = scanned.states.into_iter();
    let (mut sum, first_aside) = states.next().unwrap_or_else(|| (fresh(), T::Aside::default()));
    let mut asides = vec![first_aside];
    for (part, aside) in states {
        sum.join(part);
        asides.push(aside);
    }
    let Some(filter) = &mut filter else { return Ok(Folded { sum, in_flight: scanned.in_flight }) };
    for element in asides.iter().flat_map(Aside::all) {
        let weight = sampling.weight(element.block());
        for act in F::ACTS {
            if filter.subject(&element.subject(*act))? {
                sum.add(&element, *act, weight);
            }
        }
    }
    Ok(Folded { sum, in_flight: scanned.in_flight })
}

/// Adds an element's acts that are meant; false, and none is added, if that is not known of all.
#[inline]
fn add_meant<T: Element, F: Fold<T>>(sum: &mut F, element: &T, weight: u64, filter: &Evaluator<'_>) -> bool {
    let mut adds = [false; 2];
    for (add, act) in adds.iter_mut().zip(F::ACTS) {
        match filter.known(&element.subject(*act)) {
            Some(meant) => *add = meant,
            None => return false,
        }
    }
    for (_, act) in adds.iter().zip(F::ACTS).filter(|(add, _)| **add) {
        sum.add(element, *act, weight);
    }
    true
}

#[cfg(test)]
mod tests {
    use heapledger_format::{Kind, Site};

    use super::*;

    fn freed(number: u64) -> FreedEntry {
        let block = Entry {
            number,
            address: 0x1000,
            size: Some(16),
            actual: None,
            kind: Kind::MALLOC,
            site: Site::NONE,
            thread: None,
            time: None,
            heap: None,
            ..Entry::NONE
        };
        FreedEntry {
            block,
            number: number + 1,
            by: Kind::FREE,
            later: 0,
            site: Site::NONE,
            thread: None,
            time: None,
            core: None,
        }
    }

    /// So many blocks of which no two are there at a time.
    struct Stream(u64);

    impl Elements<FreedEntry> for Stream {
        fn sampling(&self) -> Sampling {
            Sampling::default()
        }

        fn scan<S: Send>(
            &self,
            _: usize,
            make: &(dyn Fn() -> S + Sync),
            each: &(dyn Fn(&mut S, &[FreedEntry]) + Sync),
            progress: &mut dyn FnMut(f32),
        ) -> Result<Scanned<S>, SourceError> {
            let mut states = [make(), make(), make()];
            for number in 0..self.0 {
                each(&mut states[number as usize % 3], &[freed(number)]);
            }
            progress(1.0);
            Ok(Scanned { states: states.into(), in_flight: 7 })
        }
    }

    #[derive(Default)]
    struct Both {
        met: u64,
        allocated: u64,
        freed: u64,
    }

    impl Fold<FreedEntry> for Both {
        const ACTS: &'static [Act] = &[Act::Allocation, Act::Free];

        fn meet(&mut self, freed: &FreedEntry, weight: u64) -> bool {
            self.met += weight;
            freed.block.number.is_multiple_of(2)
        }

        fn add(&mut self, freed: &FreedEntry, act: Act, weight: u64) {
            match act {
                Act::Allocation => self.allocated += freed.block.number * weight,
                Act::Free => self.freed += freed.number * weight,
            }
        }

        fn join(&mut self, other: Self) {
            self.met += other.met;
            self.allocated += other.allocated;
            self.freed += other.freed;
        }
    }

    #[test]
    fn a_stream_passes_through_and_nothing_of_it_is_held() {
        let mut heard = 0.0;
        let folded = fold(&Stream(10), None, 3, &Both::default, &mut |part| heard = part).expect("no file to fail");
        let Both { met, allocated, freed } = folded.sum;
        assert_eq!((met, allocated, freed, folded.in_flight), (10, 20, 25, 7));
        assert_eq!(heard, 1.0);
    }

    #[test]
    fn without_elements_there_is_an_empty_sum() {
        struct Nothing;
        impl Elements<Entry> for Nothing {
            fn sampling(&self) -> Sampling {
                Sampling::default()
            }

            fn scan<S: Send>(
                &self,
                _: usize,
                _: &(dyn Fn() -> S + Sync),
                _: &(dyn Fn(&mut S, &[Entry]) + Sync),
                _: &mut dyn FnMut(f32),
            ) -> Result<Scanned<S>, SourceError> {
                Ok(Scanned { states: Vec::new(), in_flight: 0 })
            }
        }
        struct Last(u64);
        impl Fold<Entry> for Last {
            fn add(&mut self, entry: &Entry, _: Act, _: u64) {
                self.0 = entry.number;
            }

            fn join(&mut self, _: Self) {}
        }
        let folded = fold(&Nothing, None, 1, &|| Last(5), &mut |_| {}).expect("no file to fail");
        assert_eq!(folded.sum.0, 5);
    }
}
