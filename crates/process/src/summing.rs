//! What was freed of each call site over the whole run: rows in the ledger, and which row a call site has.
//!
//! How threads add to rows is in `sums.rs`. Each of the first threads has rows of its own, and needs no locked instruction; a reader adds
//! up the rows of a call site. The others share theirs. A thread adds up the entries of the history that it has leased when it gives them back: they
//! are in the cache still, and several are looked up at once. Where there is no history, or no room in it, each free is added by itself.
#![forbid(unsafe_code)]

use crate::cells::SLOTS_MAX;
use crate::ledger::Ledger;
use crate::private::{Alone, Run};
use crate::shared::{Shared, TICK_NS};
use crate::state::ThreadBooks;
use crate::sums::{self, CutWords, Freed, Generation, SumWords};
use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use heapledger_format::layout::mask;
use heapledger_format::record::{
    FREED_NEXT_SHIFT, FREED_SUMMED_SHIFT, HISTORY_WORDS, NUMBER_MAX, SIZE_ESCAPE, TIME_MAX,
};
use heapledger_format::sums::PEAK_AT_WORD;
use heapledger_format::{GlobalCounter, SectionKind};
use heapledger_linux::apart;

/// Most rows.
pub(crate) const SUMS_MAX: u64 = 1 << 22;
const _: () = assert!(SUMS_MAX < SLOTS_MAX as u64);

/// States of threads with rows of their own.
const OWN: usize = 8;
/// Sites of the first part of an index, 1 MiB of addresses, of which only what is used is ever touched; each further part has as many
/// as all before it.
const FIRST_BITS: u32 = 18;
/// How often a thread asks again for a row where others are busy with that. Each time it may wait half a second.
const PATIENCE: u32 = 3;
/// Numbers of sites have 31 bits.
const PARTS: usize = 32 - FIRST_BITS as usize;
const NUMBER_MASK: u64 = mask(48);
const THREAD_SHIFT: u32 = 48;
const _: () = assert!(NUMBER_MAX < NUMBER_MASK);
const IS_SUMMED: u64 = 1 << FREED_SUMMED_SHIFT;

/// Where the row of each call site is.
pub struct Sums {
    /// Those that threads share, then those of the first states.
    indexes: [SumIndex; OWN + 1],
}

/// By call site: its row; 0: none yet.
struct SumIndex([Run<AtomicU32>; PARTS]);

/// Adds up what one thread has freed. `ALONE`: nobody else adds to these rows. `SAMPLED`: each stands for more than itself.
struct Summing<'a, const ALONE: bool, const SAMPLED: bool> {
    shared: &'a Shared,
    index: &'a SumIndex,
    /// The first part of the index, once it is there.
    first_sites: &'static [AtomicU32],
    peak_bytes: u64,
    /// The generation of that, if it is known to have one.
    peak: Option<Generation<'a>>,
    /// The thread, where a commit word has it.
    own: u64,
    /// Its numbers plus 1 that lie before the peak end here.
    own_cut: u64,
    /// The first word of a block behind that, and how many there can be: what was allocated since the peak was not there then.
    since_peak: (u64, u64),
    /// Another thread whose block was freed, and the same of that.
    others: (u64, u64),
}

/// A word of an entry. Each is looked at where it is needed: there are more of them than registers.
trait EntryWord {
    fn value(&self) -> u64;
}

impl EntryWord for AtomicU64 {
    #[inline(always)]
    fn value(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }
}

impl EntryWord for u64 {
    #[inline(always)]
    fn value(&self) -> u64 {
        *self
    }
}

/// In place of a cut: all of a thread's numbers lie before the peak.
const ALL_BEFORE: u64 = u64::MAX;

impl Sums {
    /// None.
    pub(crate) const fn new() -> Sums {
        Sums { indexes: [const { SumIndex([const { Run::new() }; PARTS]) }; OWN + 1] }
    }

    /// Takes the row that no call site has, and what the first thread needs. False if there is no room.
    pub(crate) fn start(&self, ledger: &Ledger) -> bool {
        let [_, SumIndex([first, ..]), ..] = &self.indexes;
        first.map(1 << FIRST_BITS).is_some() && ledger.ensure(SectionKind::Sums, 1)
    }

    fn parts(&self) -> impl Iterator<Item = &Run<AtomicU32>> {
        self.indexes.iter().flat_map(|SumIndex(parts)| parts)
    }

    /// Bytes of private memory that are present. Asks the kernel.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.parts().map(Run::resident_bytes).sum()
    }

    /// Gives the memory back.
    pub(crate) fn unmap(&self, alone: &Alone) {
        self.parts().for_each(|part| part.unmap(alone));
    }

    /// The index of a state, and whether nobody else adds to its rows.
    #[inline(always)]
    fn index_of(&self, state: &ThreadBooks) -> (&SumIndex, bool) {
        let [of_others, ..] = &self.indexes;
        // From 1 on.
        match self.indexes.get(state.number_plus_1 as usize) {
            Some(own) => (own, true),
            None => (of_others, false),
        }
    }
}

impl SumIndex {
    /// The part of the index with a site, how many there are in it, and which one it is.
    #[inline(always)]
    fn place(site: u32) -> (usize, u32, u32) {
        match (site >> FIRST_BITS).checked_ilog2() {
            None => (0, 1 << FIRST_BITS, site),
            Some(part) => {
                let count = 1 << part.wrapping_add(FIRST_BITS);
                (part.wrapping_add(1) as usize, count, site ^ count)
            }
        }
    }

    fn find(&self, site: u32) -> Option<u32> {
        let (part, _, place) = Self::place(site);
        let row = self.0.get(part)?.all().get(place as usize)?.load(Ordering::Acquire);
        (row != 0).then_some(row)
    }

    /// The row of a call site, which is made if there is none. `None` if there is no room. `with_lifetimes`: for these, too.
    fn find_or_make(&self, ledger: &Ledger, site: u32, with_lifetimes: bool) -> Option<u32> {
        // The ledger grows far below the hook.
        self.find(site).or_else(|| apart::result_of(None, || self.make(ledger, site, with_lifetimes)))
    }

    fn make(&self, ledger: &Ledger, site: u32, with_lifetimes: bool) -> Option<u32> {
        let (part, count, place) = Self::place(site);
        let known = self.0.get(part)?.map(count)?.get(place as usize)?;
        let mut tries = 0..PATIENCE;
        // Whoever makes the ledger longer takes long, and nobody has said that there is no room.
        let mut again = |kind| if ledger.is_short_of(kind, 1) { None } else { tries.next() };
        let fresh = loop {
            match ledger.lease(SectionKind::Sums, 1) {
                Some(fresh) => break fresh,
                None => drop(again(SectionKind::Sums)?),
            }
        };
        while with_lifetimes && !ledger.ensure(SectionKind::Lifetimes, fresh.wrapping_add(1)) {
            again(SectionKind::Lifetimes)?;
        }
        let [whose, ..]: &SumWords = ledger.section(SectionKind::Sums).element(fresh);
        whose.store(u64::from(site).wrapping_add(1), Ordering::Release);
        match known.compare_exchange(0, fresh as u32, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(fresh as u32),
            // Somebody else was faster: the fresh one stays empty.
            Err(theirs) => Some(theirs),
        }
    }
}

/// The word that says which generation the present peak has.
fn present(ledger: &Ledger) -> &AtomicU64 {
    let first: &SumWords = ledger.section(SectionKind::Sums).element(0);
    const { assert!(PEAK_AT_WORD < size_of::<SumWords>() / 8) };
    let [_, present, ..] = first;
    present
}

impl<'a, const ALONE: bool, const SAMPLED: bool> Summing<'a, ALONE, SAMPLED> {
    #[inline(always)]
    fn new(shared: &'a Shared, state: &ThreadBooks, events: u64) -> Self {
        let ledger = shared.ledger();
        let peak_bytes = ledger.global(GlobalCounter::PeakBytes).load(Ordering::SeqCst);
        // What is being freed now is not folded in yet: it was no part of that peak.
        state.note_known_peak(peak_bytes, events);
        let own_cut = state.cut.and_then(|cut| sums::cut(cut, peak_bytes)).unwrap_or(ALL_BEFORE);
        let own = u64::from(state.row.0) << THREAD_SHIFT;
        let (index, _) = shared.sums.index_of(state);
        let SumIndex([first_sites, ..]) = index;
        Summing {
            shared,
            index,
            first_sites: first_sites.all(),
            peak_bytes,
            peak: Generation::find(present(ledger), peak_bytes),
            own,
            own_cut,
            since_peak: match own_cut {
                // Nothing was done since then.
                ALL_BEFORE => (0, u64::MAX),
                _ => (own.wrapping_add(own_cut).wrapping_add(1), NUMBER_MASK.saturating_sub(own_cut)),
            },
            others: (u64::MAX, 0),
        }
    }

    /// The row of a call site that has none yet, or none in the first part of the index.
    #[cold]
    #[inline(never)]
    fn make_row(&mut self, site: u32) -> Option<u32> {
        let row = self.index.find_or_make(self.shared.ledger(), site, !SAMPLED)?;
        let SumIndex([first_sites, ..]) = self.index;
        self.first_sites = first_sites.all();
        Some(row)
    }

    /// Adds a free, as the history has it. False if there is no room for its call site.
    #[inline(always)]
    fn add<W: EntryWord>(&mut self, entry: &[W; HISTORY_WORDS]) -> bool {
        let [block, address, size, time, end, _, end_time, wide] = entry;
        let size = size.value();
        let site = (size >> 32) as u32;
        let number = match self.first_sites.get(site as usize).map_or(0, |row| row.load(Ordering::Acquire)) {
            0 => match self.make_row(site) {
                Some(row) => row,
                None => return false,
            },
            row => row,
        };
        let ledger = self.shared.ledger();
        let row = ledger.section(SectionKind::Sums).element(number.into());
        let bytes = match size as u32 {
            u32::MAX => wide.value(),
            bytes => bytes.into(),
        };
        let freed = match SAMPLED {
            false => Freed { blocks: 1, bytes, is_temporary: address.value() >> FREED_NEXT_SHIFT & 1 != 0 },
            true => {
                let number = (block.value() & NUMBER_MASK).wrapping_sub(1);
                // One whose size was lost stands for itself.
                let drawn = if bytes == 0 && size & SIZE_ESCAPE != 0 { u64::MAX } else { bytes };
                let blocks = self.shared.settings().sample_rule().weight(drawn, number);
                Freed { blocks, bytes: bytes.wrapping_mul(blocks), is_temporary: false }
            }
        };
        sums::add_freed(row, freed, ALONE);
        if !SAMPLED {
            let lifetimes = ledger.section(SectionKind::Lifetimes).element(number.into());
            let events = end.value().wrapping_sub(block.value()) & NUMBER_MASK;
            sums::add_lived(row, events, ALONE);
            sums::count_events(lifetimes, events, ALONE);
            let ticks = end_time.value().wrapping_sub(time.value()) & TIME_MAX.0;
            sums::count_time(lifetimes, ticks.wrapping_mul(TICK_NS.into()), ALONE);
        }
        // Numbers plus 1 on both sides. The thread's own, without the thread; those of others are more than any cut then.
        let ((first, count), block) = (self.since_peak, block.value());
        if block.wrapping_sub(first) >= count && end.value() ^ self.own > self.own_cut {
            match block ^ self.own {
                own if own <= self.own_cut => self.add_at_peak(row, freed),
                other if other > NUMBER_MASK => self.add_others_at_peak(row, block, freed),
                _ => {}
            }
        }
        true
    }

    /// Another thread's block was freed since the peak.
    #[inline(never)]
    fn add_others_at_peak(&mut self, row: &SumWords, block: u64, freed: Freed) {
        let thread = block >> THREAD_SHIFT;
        if self.others.0 != thread {
            self.others = (thread, self.shared.cut_of(thread, self.peak_bytes).unwrap_or(ALL_BEFORE));
        }
        if block & NUMBER_MASK <= self.others.1 {
            self.add_at_peak(row, freed);
        }
    }

    /// Not compiled into the loop over entries, which is to keep what it needs in registers.
    #[inline(never)]
    fn add_at_peak(&mut self, row: &SumWords, freed: Freed) {
        if self.peak.is_none() {
            self.peak = begin_peak(self.shared.ledger(), self.peak_bytes);
        }
        if let Some(peak) = self.peak {
            sums::add_at_peak(row, freed, peak, ALONE);
        }
    }
}

/// The first block of those that had lived at a peak was freed. `None`: the peak has been raised since.
#[cold]
#[inline(never)]
fn begin_peak(ledger: &Ledger, peak_bytes: u64) -> Option<Generation<'_>> {
    let (peak, is_time) = Generation::find_or_begin(present(ledger), peak_bytes)?;
    if is_time {
        let rows = ledger.section(SectionKind::Sums);
        (1..rows.used()).for_each(|row| peak.make_void(rows.element(row)));
    }
    Some(peak)
}

impl Shared {
    /// Where in a thread's numbers a peak of so many bytes lies, if it has noted that.
    #[inline(always)]
    fn cut_of(&self, thread: u64, peak_bytes: u64) -> Option<u64> {
        let cuts = self.ledger().section(SectionKind::PeakCuts);
        if thread >= cuts.used() {
            return None; // a thread without a row
        }
        let words: &CutWords = cuts.element(thread);
        sums::cut(words, peak_bytes)
    }
}

/// Adds up entries of the history that a thread has filled, all but those that it has added before. How many found no room. `events`: how
/// many of the thread's last numbers are not folded in yet, whatever it may keep to itself: 1 in the middle of an event, else 0.
pub(crate) fn add_entries(shared: &Shared, state: &ThreadBooks, entries: Range<u64>, events: u64) -> u64 {
    match (shared.settings().sample, shared.sums.index_of(state).1) {
        (0, true) => add_all::<true, false>(shared, state, entries, events),
        (0, false) => add_all::<false, false>(shared, state, entries, events),
        _ => add_all::<false, true>(shared, state, entries, events),
    }
}

#[inline(never)]
fn add_all<const ALONE: bool, const SAMPLED: bool>(
    shared: &Shared,
    state: &ThreadBooks,
    entries: Range<u64>,
    events: u64,
) -> u64 {
    let history = shared.ledger().section(SectionKind::History);
    let mut summing = Summing::<ALONE, SAMPLED>::new(shared, state, events);
    let mut lost = 0u64;
    for entry in entries {
        let words: &[AtomicU64; HISTORY_WORDS] = history.element(entry);
        let [_, address, _, _, end, ..] = words;
        // A hook that was left by a jump has filled none.
        if address.value() & IS_SUMMED != 0 || end.value() & NUMBER_MASK == 0 {
            continue;
        }
        if !summing.add(words) {
            lost = lost.wrapping_add(1);
        }
        sums::mark(address, address.value() | IS_SUMMED);
    }
    lost
}

/// Takes what an entry says [in hand](ThreadBooks::at_hand), and marks it as added, which it will be: who looks in between misses one
/// block of this thread.
pub(crate) fn take_in_hand(shared: &Shared, state: &mut ThreadBooks, entry: u64) {
    let history = shared.ledger().section(SectionKind::History);
    let words: &[AtomicU64; HISTORY_WORDS] = history.element(entry);
    let taken = words.each_ref().map(|word| word.load(Ordering::Relaxed));
    let [_, marked, _, _, end, ..] = taken;
    if marked & IS_SUMMED == 0 && end & NUMBER_MASK != 0 {
        (state.at_hand, state.is_at_hand) = (taken, true);
        let [_, address, ..] = words;
        sums::mark(address, marked | IS_SUMMED);
    }
}

/// Adds a free that is not in the history, but [at hand](ThreadBooks::at_hand). False if there is no room for its call site.
#[inline(always)]
pub(crate) fn add_one(shared: &Shared, state: &ThreadBooks) -> bool {
    match (shared.settings().sample, shared.sums.index_of(state).1) {
        (0, true) => add_at_hand::<true, false>(shared, state),
        (0, false) => add_at_hand::<false, false>(shared, state),
        _ => add_at_hand::<false, true>(shared, state),
    }
}

#[inline(never)]
fn add_at_hand<const ALONE: bool, const SAMPLED: bool>(shared: &Shared, state: &ThreadBooks) -> bool {
    Summing::<ALONE, SAMPLED>::new(shared, state, 1).add(&state.at_hand)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_site_has_a_place_of_its_own() {
        let mut before = None;
        const STEP: u32 = 1 << 18;
        for site in (0..1 << 31).step_by(STEP as usize).flat_map(|site| [site, site + STEP - 1]) {
            let (part, count, place) = SumIndex::place(site);
            assert!(part < PARTS && place < count && count >= 1 << FIRST_BITS, "{site}");
            if let Some((last, ended, at)) = before {
                let follows = if part == last { place > at } else { part == last + 1 && place == 0 && at + 1 == ended };
                assert!(follows, "{site}");
            }
            before = Some((part, count, place));
        }
    }
}
