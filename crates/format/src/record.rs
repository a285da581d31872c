//! What is entered for a block, and the default 64-bit packing of it.
//!
//! ```text
//!          63            48 47                                                            0
//! word 0  | THREAD      16 | NUMBER (number + 1, the commit word)                       48 |
//! word 1  | HEAP 8 | S 1 | N 1 | KIND 6 | ADDRESS                                       48 |
//! word 2  | SITE                             32 | SIZE                                  32 |
//! word 3  | EXCESS           20 | TIME                                                  44 |
//!          ---- a record ends here; a history entry goes on ----
//! word 4  | FREED_THREAD 16 | FREED_NUMBER (number + 1, the entry's commit word)        48 |
//! word 5  | FREED_LATER       26 | FREED_BY 6 | FREED_SITE                               32 |
//! word 6  | FREED_LABEL      20 | FREED_TIME                                            44 |
//! word 7  | FREED_WIDE                                                                  64 |
//! ```
//!
//! S and N are FREED_SUMMED and FREED_NEXT: 0 in records.

use crate::bytes::{Codec, WordSize};
use crate::ids::{LabelId, Site, ThreadRow, Ticks};
use crate::kind::Kind;
use crate::layout::{Field, Figures, RecordLayout, mask};
use crate::sample::SampleRule;

mod options;

pub use options::Options;

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Sequence number of the allocation, from 0.
    pub number: u64,
    /// What the allocation function returned.
    pub address: u64,
    /// Bytes asked for; `None` where the ledger does not say (an escape whose figure was lost).
    pub size: Option<u64>,
    /// Bytes that the block really has; `None` if not recorded.
    pub actual: Option<u64>,
    /// The allocation function.
    pub kind: Kind,
    /// Call site.
    pub site: Site,
    /// `None` if not recorded or the thread has no row.
    pub thread: Option<ThreadRow>,
    /// Row in `heaps`.
    pub heap: Option<u8>,
    /// When it was allocated.
    pub time: Option<Ticks>,
    /// What was in force when it was allocated. Records of the default packing have no room for it: it lies beside them.
    pub label: LabelId,
    /// The processor core that it was allocated on; `None` if not recorded.
    pub core: Option<u8>,
    /// The counter of that core, as it was read: it wraps, and each core has its own.
    pub cycles: Option<u32>,
}

/// A block that was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreedEntry {
    /// The block as it was entered.
    pub block: Entry,
    /// Sequence number of the free. That of the new block if `realloc` freed, but for `later`.
    pub number: u64,
    /// By how much the number of the block that a `realloc` gave is higher, if not both could have one number: see
    /// [`FreedEntry::became`].
    pub later: u32,
    /// The function that freed.
    pub by: Kind,
    /// Call site of the free.
    pub site: Site,
    /// Who freed.
    pub thread: Option<ThreadRow>,
    /// When it was freed.
    pub time: Option<Ticks>,
    /// The processor core that freed; `None` if not recorded.
    pub core: Option<u8>,
}

/// Words of a default 64-bit record.
pub const RECORD_WORDS: usize = 4;
/// Words of a default 64-bit history entry.
pub const HISTORY_WORDS: usize = 8;

/// Figures that blocks which follow each other mostly have in common.
pub const STEADY: usize = 5;

/// Numbers are 48 bits wide; a ledger stops entering when they end.
pub const NUMBER_MAX: u64 = mask(48) - 1;
/// Addresses are 48 bits wide; blocks above are counted, not entered.
pub const ADDRESS_MAX: u64 = mask(48);
/// A size of this or more is kept in the `wide` section.
pub const SIZE_ESCAPE: u64 = mask(32);
/// An excess of this or more is kept in the `wide` section.
pub const EXCESS_ESCAPE: u64 = mask(20);
/// Where an excess stands in its word.
pub const EXCESS_SHIFT: u32 = 44;
/// Where the allocation function begins in word 1.
pub const KIND_SHIFT: u32 = 48;
/// A time of this or more saturates (203 days of microseconds).
pub const TIME_MAX: Ticks = Ticks(mask(44));
/// In the history a label is 20 bits wide; this value stands for a label with a higher number.
pub const LABEL_OTHER: u32 = mask(20) as u32;
/// Where it stands in its word.
pub const FREED_LABEL_SHIFT: u32 = 44;
/// Where FREED_NEXT stands, in word 1 of a history entry.
pub const FREED_NEXT_SHIFT: u32 = 54;
/// Where FREED_SUMMED stands, in word 1 of a history entry.
pub const FREED_SUMMED_SHIFT: u32 = 55;
/// The two numbers of a `realloc` are so far apart at most.
pub const LATER_MAX: u32 = mask(26) as u32;

const PLACES_64: &[(Field, u8, u16, u32)] = &[
    (Field::Number, 48, 0, 0),
    (Field::Thread, 16, 48, Options::THREAD),
    (Field::Address, 48, 64, 0),
    (Field::Kind, 6, 112, 0),
    (Field::Heap, 8, 120, Options::HEAP),
    (Field::Size, 32, 128, 0),
    (Field::Site, 32, 160, Options::STACK),
    (Field::Time, 44, 192, Options::TIME),
    (Field::Excess, 20, 236, Options::ACTUAL_SIZE),
    (Field::FreedNumber, 48, 256, Options::HISTORY),
    (Field::FreedThread, 16, 304, Options::HISTORY | Options::THREAD),
    (Field::FreedSite, 32, 320, Options::HISTORY | Options::STACK),
    (Field::FreedBy, 6, 352, Options::HISTORY),
    (Field::FreedLater, 26, 358, Options::HISTORY),
    (Field::FreedTime, 44, 384, Options::HISTORY | Options::TIME),
    (Field::FreedWide, 64, 448, Options::HISTORY),
];

/// The default 64-bit layout with only what `options` ask for described.
pub fn layout_64(options: Options) -> RecordLayout {
    PLACES_64
        .iter()
        .filter(|(.., needs)| options.0 & needs == *needs)
        .fold(RecordLayout::empty(WordSize::W64), |layout, (field, width, at, _)| {
            layout.with(*field as u8, *width, *at).unwrap_or(layout)
        })
}

/// The same with a label for each block of the history, and what its sums by call site need: of a recorder that can be given labels,
/// and that sums.
pub fn labelled_layout_64(options: Options) -> RecordLayout {
    const PLACES: [(Field, u8, u16); 3] =
        [(Field::FreedLabel, 20, 428), (Field::FreedNext, 1, 118), (Field::FreedSummed, 1, 119)];
    let layout = layout_64(options);
    let places = if options.has(Options::HISTORY) { &PLACES[..] } else { &[] };
    places.iter().fold(layout, |layout, (field, width, at)| layout.with(*field as u8, *width, *at).unwrap_or(layout))
}

impl Entry {
    /// The default 64-bit packing, escapes included. Whether an escape was used: [`Entry::is_wide`].
    #[inline]
    pub fn pack(&self) -> [u64; RECORD_WORDS] {
        let size = self.size.unwrap_or(SIZE_ESCAPE).min(SIZE_ESCAPE);
        let thread = u64::from(self.thread.unwrap_or(ThreadRow(0)).min(ThreadRow::OTHER).0);
        [
            self.number.wrapping_add(1) & mask(48) | thread << 48,
            self.address & mask(48) | (u64::from(self.kind.0) & 63) << 48 | u64::from(self.heap.unwrap_or(0)) << 56,
            size | u64::from(self.site.0) << 32,
            self.time.unwrap_or_default().min(TIME_MAX).0 | self.excess().min(EXCESS_ESCAPE) << EXCESS_SHIFT,
        ]
    }

    /// Whether size or actual size do not fit and belong into the `wide` section.
    #[inline]
    pub fn is_wide(&self) -> bool {
        self.size.is_none_or(|size| size >= SIZE_ESCAPE) || self.excess() >= EXCESS_ESCAPE
    }

    #[inline]
    fn excess(&self) -> u64 {
        match (self.size, self.actual) {
            (Some(size), Some(actual)) => actual.saturating_sub(size),
            _ => 0,
        }
    }

    /// For how many blocks of its size this one stands in a ledger that was [sampled](crate::sample) so.
    /// One whose size was lost is huge and stands for itself.
    #[inline]
    pub fn weight(&self, rule: SampleRule) -> u64 {
        if rule.interval == 0 { 1 } else { rule.weight(self.size.unwrap_or(u64::MAX), self.number) }
    }

    /// Undoes [`Entry::pack`]: `None` if the commit word is 0. Fields come back as they lie there,
    /// whether or not the options describe them; escaped figures come back as `None`.
    #[inline]
    pub fn unpack(words: &[u64; RECORD_WORDS]) -> Option<Entry> {
        let number = (words[0] & mask(48)).checked_sub(1)?;
        let size = Some(words[2] & mask(32)).filter(|size| *size != SIZE_ESCAPE);
        let excess = Some(words[3] >> EXCESS_SHIFT).filter(|excess| *excess != EXCESS_ESCAPE);
        Some(Entry {
            number,
            address: words[1] & mask(48),
            size,
            actual: size.zip(excess).map(|(size, excess)| size.wrapping_add(excess)),
            kind: Kind((words[1] >> 48 & 63) as u8),
            site: Site((words[2] >> 32) as u32),
            thread: Some(ThreadRow((words[0] >> 48) as u32)),
            heap: Some((words[1] >> 56) as u8),
            time: Some(Ticks(words[3] & mask(44))),
            label: LabelId::NONE,
            core: None,
            cycles: None,
        })
    }

    /// The size in word 2 of a packed record; `None` if it is escaped.
    #[inline(always)]
    pub fn packed_size(word: u64) -> Option<u64> {
        Some(word & mask(32)).filter(|size| *size != SIZE_ESCAPE)
    }

    /// The actual size in a packed record; `None` if a figure is escaped.
    #[inline(always)]
    pub fn packed_actual(words: &[u64; RECORD_WORDS]) -> Option<u64> {
        let excess = words[3] >> EXCESS_SHIFT;
        let size = Self::packed_size(words[2])?;
        (excess != EXCESS_ESCAPE).then_some(size.wrapping_add(excess))
    }

    /// The one figure for which a history entry has 64 bits: the size if that is huge, else the actual size.
    pub fn history_figure(&self) -> u64 {
        match self.size {
            Some(size) if size >= SIZE_ESCAPE => size,
            _ => self.actual.unwrap_or(0),
        }
    }

    /// Reads a record through the ledger's own layout; `None` if it is vacant or being written.
    pub fn read(layout: &RecordLayout, codec: Codec, bytes: &[u8]) -> Option<Entry> {
        Entry::of(&layout.figures(codec, bytes))
    }

    /// What a record says; `None` if it is vacant or being written.
    #[inline]
    pub fn of(record: &impl Figures) -> Option<Entry> {
        let size = record.unescaped(Field::Size);
        let excess = record.unescaped(Field::Excess);
        Some(Entry {
            number: record.figure(Field::Number)?.checked_sub(1)?,
            address: record.figure(Field::Address).unwrap_or(0),
            size,
            actual: size.zip(excess).map(|(size, excess)| size.saturating_add(excess)),
            kind: Kind(record.figure(Field::Kind).unwrap_or(0) as u8),
            site: Site(record.figure(Field::Site).unwrap_or(0) as u32),
            thread: record.unescaped(Field::Thread).map(|row| ThreadRow(row as u32)),
            heap: record.figure(Field::Heap).map(|row| row as u8),
            time: record.figure(Field::Time).map(Ticks),
            label: LabelId(record.figure(Field::Label).unwrap_or(0) as u32),
            core: record.figure(Field::Core).map(|core| core as u8),
            cycles: record.figure(Field::Cycles).map(|cycles| cycles as u32),
        })
    }

    /// The fields that make an entry.
    pub const FIELDS: &'static [Field] = &[
        Field::Number,
        Field::Address,
        Field::Size,
        Field::Excess,
        Field::Kind,
        Field::Site,
        Field::Thread,
        Field::Heap,
        Field::Time,
        Field::Label,
        Field::Core,
        Field::Cycles,
    ];

    /// Of an [unpacked](Entry::unpack) entry, the figures that its ledger records.
    #[inline]
    pub fn only(self, has: impl Fn(Field) -> bool) -> Entry {
        Entry {
            actual: self.actual.filter(|_| has(Field::Excess)),
            site: if has(Field::Site) { self.site } else { Site::NONE },
            thread: self.thread.filter(|row| has(Field::Thread) && *row != ThreadRow::OTHER),
            heap: self.heap.filter(|_| has(Field::Heap)),
            time: self.time.filter(|_| has(Field::Time)),
            ..self
        }
    }

    /// What blocks that follow each other mostly have in common, for whoever packs them closely: none of it is greater
    /// than a `u32`.
    #[inline]
    pub fn steady(&self) -> [Option<u64>; STEADY] {
        [
            Some(u64::from(self.kind.0)),
            self.thread.map(|row| u64::from(row.0)),
            self.heap.map(u64::from),
            Some(u64::from(self.label.0)),
            self.core.map(u64::from),
        ]
    }

    /// The same entry with that.
    #[inline]
    #[must_use]
    pub fn with_steady(self, steady: [Option<u64>; STEADY]) -> Entry {
        let [kind, thread, heap, label, core] = steady;
        Entry {
            kind: Kind(kind.unwrap_or(0) as u8),
            thread: thread.map(|row| ThreadRow(row as u32)),
            heap: heap.map(|row| row as u8),
            label: LabelId(label.unwrap_or(0) as u32),
            core: core.map(|core| core as u8),
            ..self
        }
    }

    /// An entry of which nothing is known.
    pub const NONE: Entry = Entry {
        number: 0,
        address: 0,
        size: None,
        actual: None,
        kind: Kind(0),
        site: Site::NONE,
        thread: None,
        heap: None,
        time: None,
        label: LabelId::NONE,
        core: None,
        cycles: None,
    };

    /// The block with the one figure for which a history entry has room, if that is not 0.
    #[inline]
    fn with_wide(mut self, wide: u64, has_excess: impl FnOnce() -> bool) -> Entry {
        if wide != 0 {
            if self.size.is_none() {
                self.size = Some(wide);
            } else if self.actual.is_none() && has_excess() {
                self.actual = Some(wide);
            }
        }
        self
    }

    /// Writes a record through a layout: the commit word first to 0 and last to its value, so that
    /// a reader which sees it sees the rest. Returns whether a figure had to be escaped.
    pub fn write(&self, layout: &RecordLayout, codec: Codec, bytes: &mut [u8]) -> bool {
        layout.put(codec, bytes, Field::Number, 0);
        layout.put(codec, bytes, Field::Address, self.address);
        let size = self.size.unwrap_or(u64::MAX);
        layout.put(codec, bytes, Field::Size, size);
        layout.put(codec, bytes, Field::Kind, u64::from(self.kind.number()));
        let mut wide = layout.all_ones(Field::Size).is_some_and(|limit| size >= limit);
        if let Some(actual) = self.actual {
            let excess = actual.saturating_sub(size);
            wide |= layout.all_ones(Field::Excess).is_some_and(|limit| excess >= limit);
            layout.put(codec, bytes, Field::Excess, excess);
        }
        layout.put(codec, bytes, Field::Site, u64::from(self.site.0));
        layout.put(codec, bytes, Field::Thread, self.thread.map_or(u64::MAX, |row| u64::from(row.0)));
        layout.put(codec, bytes, Field::Heap, u64::from(self.heap.unwrap_or(0)));
        layout.put(codec, bytes, Field::Time, self.time.unwrap_or_default().0);
        layout.put(codec, bytes, Field::Label, u64::from(self.label.0));
        layout.put(codec, bytes, Field::Core, u64::from(self.core.unwrap_or(0)));
        layout.put(codec, bytes, Field::Cycles, u64::from(self.cycles.unwrap_or(0)));
        layout.put(codec, bytes, Field::Number, self.number.wrapping_add(1));
        wide
    }
}

impl FreedEntry {
    /// The number of the block that a `realloc` gave for this one, if it gave one.
    #[inline]
    pub fn became(&self) -> u64 {
        self.number.saturating_add(u64::from(self.later))
    }

    /// The default 64-bit packing of a history entry. Store word 4 last.
    #[inline]
    pub fn pack(&self) -> [u64; HISTORY_WORDS] {
        let block = self.block.pack();
        let by = (self.by, self.later);
        let (thread, time) = (self.thread.unwrap_or(ThreadRow(0)), self.time.unwrap_or_default());
        let end = Self::pack_end(self.number, by, self.site, thread, time);
        let label = u64::from(self.block.label.0.min(LABEL_OTHER)) << 44;
        [block[0], block[1], block[2], block[3], end[0], end[1], end[2] | label, self.block.history_figure()]
    }

    /// Words 4 to 6: what is added to a record when its block is freed.
    #[inline(always)]
    pub fn pack_end(number: u64, (by, later): (Kind, u32), site: Site, thread: ThreadRow, time: Ticks) -> [u64; 3] {
        [
            number.wrapping_add(1) & mask(48) | u64::from(thread.min(ThreadRow::OTHER).0) << 48,
            u64::from(site.0) | (u64::from(by.0) & 63) << 32 | u64::from(later) << 38,
            time.min(TIME_MAX).0,
        ]
    }

    /// Reads a history entry through the ledger's own layout; `None` if it is vacant or being written.
    pub fn read(layout: &RecordLayout, codec: Codec, bytes: &[u8]) -> Option<FreedEntry> {
        FreedEntry::of(&layout.figures(codec, bytes), || Entry::read(layout, codec, bytes))
    }

    /// What a history entry says, with `block` for what is a record's; `None` if it is vacant or being written.
    #[inline]
    pub fn of(entry: &impl Figures, block: impl FnOnce() -> Option<Entry>) -> Option<FreedEntry> {
        let number = entry.figure(Field::FreedNumber)?.checked_sub(1)?;
        let wide = entry.figure(Field::FreedWide).unwrap_or(0);
        let mut block = block()?.with_wide(wide, || entry.figure(Field::Excess).is_some());
        if entry.figure(Field::FreedLabel).is_some() {
            block.label = entry.unescaped(Field::FreedLabel).map_or(LabelId::UNKNOWN, |label| LabelId(label as u32));
        }
        Some(FreedEntry {
            block,
            number,
            later: entry.figure(Field::FreedLater).unwrap_or(0) as u32,
            by: Kind::ended_by(entry.figure(Field::FreedBy).unwrap_or(0) as u8),
            site: Site(entry.figure(Field::FreedSite).unwrap_or(0) as u32),
            thread: entry.unescaped(Field::FreedThread).map(|row| ThreadRow(row as u32)),
            time: entry.figure(Field::FreedTime).map(Ticks),
            core: entry.figure(Field::FreedCore).map(|core| core as u8),
        })
    }

    /// The fields that make it, beside those of the block.
    pub const FIELDS: &'static [Field] = &[
        Field::FreedNumber,
        Field::FreedBy,
        Field::FreedSite,
        Field::FreedThread,
        Field::FreedTime,
        Field::FreedWide,
        Field::FreedLater,
        Field::FreedLabel,
        Field::FreedCore,
    ];

    /// Undoes [`FreedEntry::pack`] for words 4 to 7; `None` if the commit word is 0. Earlier recorders knew of no `later` and no label.
    #[inline]
    pub fn unpack_end(
        [end, by, time, wide]: [u64; HISTORY_WORDS - RECORD_WORDS],
        has: impl Fn(Field) -> bool,
        block: impl FnOnce() -> Option<Entry>,
    ) -> Option<FreedEntry> {
        let number = (end & mask(48)).checked_sub(1)?;
        let mut block = block()?.with_wide(wide, || has(Field::Excess));
        if has(Field::FreedLabel) {
            let label = (time >> 44) as u32;
            block.label = if label == LABEL_OTHER { LabelId::UNKNOWN } else { LabelId(label) };
        }
        Some(FreedEntry {
            block,
            number,
            later: if has(Field::FreedLater) { (by >> 38) as u32 } else { 0 },
            by: Kind::ended_by((by >> 32 & 63) as u8),
            site: Site(by as u32),
            thread: Some(ThreadRow((end >> 48) as u32)).filter(|row| *row != ThreadRow::OTHER),
            time: Some(Ticks(time & mask(44))),
            core: None,
        })
    }

    /// Writes a history entry through a layout, its commit word last.
    pub fn write(&self, layout: &RecordLayout, codec: Codec, bytes: &mut [u8]) {
        layout.put(codec, bytes, Field::FreedNumber, 0);
        self.block.write(layout, codec, bytes);
        layout.put(codec, bytes, Field::FreedBy, u64::from(self.by.number()));
        layout.put(codec, bytes, Field::FreedLater, u64::from(self.later));
        layout.put(codec, bytes, Field::FreedSite, u64::from(self.site.0));
        layout.put(codec, bytes, Field::FreedThread, self.thread.map_or(u64::MAX, |row| u64::from(row.0)));
        layout.put(codec, bytes, Field::FreedTime, self.time.unwrap_or_default().0);
        layout.put(codec, bytes, Field::FreedLabel, u64::from(self.block.label.0));
        layout.put(codec, bytes, Field::FreedCore, u64::from(self.core.unwrap_or(0)));
        let wide = match self.block.size {
            Some(size) if layout.all_ones(Field::Size).is_some_and(|limit| size >= limit) => size,
            _ => self.block.actual.unwrap_or(0),
        };
        layout.put(codec, bytes, Field::FreedWide, wide);
        layout.put(codec, bytes, Field::FreedNumber, self.number.wrapping_add(1));
    }
}

#[cfg(test)]
mod tests;
