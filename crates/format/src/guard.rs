//! What a guarded program says of its guard: a few words of its memory, by which a reader outside finds the guard's tables.
//!
//! The section `process` says where they lie ([`crate::session::process::GUARD_AT`]). What they say is true for good once the
//! magic stands there, which is written last. FORMAT.md has the list.

use crate::ids::{Site, ThreadRow, Ticks};
use crate::kind::Kind;
use crate::layout::mask;
use crate::record::RECORD_WORDS;

/// The first word, once all others are there.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HLguard\n");
/// The second word. A reader of another version does not know what the tables hold.
pub const VERSION: u64 = 1;
/// How many words there always are. The last but one says how many more follow, which a reader may pass over.
pub const WORDS: usize = 16;
/// So many follow that are known here.
pub const MORE_WORDS: usize = 6;
/// All that are known here.
pub const ALL_WORDS: usize = WORDS + MORE_WORDS;

/// Where a guard's tables lie in the memory of its process, and what is in them. Zeros where there is no such table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuardTables {
    /// Which level it is: its place in [`crate::session::guard::ALL`].
    pub level: u64,
    /// What headers of blocks are signed with.
    pub secret: u64,
    /// The bitmap of dressed blocks: addresses of its leaves.
    pub bitmap: u64,
    /// How many of them.
    pub leaves: u64,
    /// Words of 32 bits of a leaf.
    pub leaf_words: u64,
    /// The first address of the guard's own memory.
    pub first: u64,
    /// Bytes of it.
    pub bytes: u64,
    /// The side table: rows of 64 bytes.
    pub slots: u64,
    /// How many rows it has room for.
    pub slots_max: u64,
    /// Where it stands how many were ever used.
    pub slots_used_at: u64,
    /// So many bytes of a freed block are filled at most.
    pub fill_bytes_max: u64,
    /// With this byte; above 255 with none.
    pub freed_fill: u64,
    /// Blocks at closed pages; `None`: a reader is told nothing of them, or there are none.
    pub closed: Option<ClosedTables>,
}

/// The same of blocks at closed pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClosedTables {
    /// The first address of the memory for them.
    pub first: u64,
    /// Bytes of it.
    pub bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Their side table: rows of 64 bytes.
    pub slots: u64,
    /// How many rows it has room for.
    pub slots_max: u64,
    /// Where it stands how many were ever used.
    pub slots_used_at: u64,
}

impl ClosedTables {
    fn words(&self) -> [u64; MORE_WORDS] {
        let ClosedTables { first, bytes, page_bytes, slots, slots_max, slots_used_at } = *self;
        [first, bytes, page_bytes, slots, slots_max, slots_used_at]
    }
}

/// Why words are not those of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoGuard {
    /// They are no guard's, or it has not begun.
    NotBegun,
    /// They are of another version, this one.
    Version(u64),
}

impl GuardTables {
    /// The words, the magic first.
    pub fn words(&self) -> [u64; ALL_WORDS] {
        let mut all = [0; ALL_WORDS];
        let more = self.closed.unwrap_or_default().words();
        all.iter_mut().zip(self.first_words().into_iter().chain(more)).for_each(|(place, word)| *place = word);
        all
    }

    fn first_words(&self) -> [u64; WORDS] {
        [
            MAGIC,
            VERSION,
            self.level,
            self.secret,
            self.bitmap,
            self.leaves,
            self.leaf_words,
            self.first,
            self.bytes,
            self.slots,
            self.slots_max,
            self.slots_used_at,
            self.fill_bytes_max,
            self.freed_fill,
            if self.closed.is_some() { MORE_WORDS as u64 } else { 0 },
            0,
        ]
    }

    /// How many of the words behind the first ones, which these are, are needed: none, or [`MORE_WORDS`].
    pub fn wants_more(words: &[u64; WORDS]) -> bool {
        let [.., more, _] = *words;
        more >= MORE_WORDS as u64
    }

    /// What such words say; `more`: those behind them, if they are [wanted](Self::wants_more).
    ///
    /// # Errors
    /// If they are none.
    pub fn of_words(words: &[u64; WORDS], more: Option<&[u64; MORE_WORDS]>) -> Result<GuardTables, NoGuard> {
        let closed = more.map(|[first, bytes, page_bytes, slots, slots_max, slots_used_at]| ClosedTables {
            first: *first,
            bytes: *bytes,
            page_bytes: *page_bytes,
            slots: *slots,
            slots_max: *slots_max,
            slots_used_at: *slots_used_at,
        });
        let [
            magic,
            version,
            level,
            secret,
            bitmap,
            leaves,
            leaf_words,
            first,
            bytes,
            slots,
            slots_max,
            slots_used_at,
            fill_bytes_max,
            freed_fill,
            ..,
        ] = *words;
        match (magic, version) {
            (MAGIC, VERSION) => Ok(GuardTables {
                level,
                secret,
                bitmap,
                leaves,
                leaf_words,
                first,
                bytes,
                slots,
                slots_max,
                slots_used_at,
                fill_bytes_max,
                freed_fill,
                closed,
            }),
            (MAGIC, other) => Err(NoGuard::Version(other)),
            _ => Err(NoGuard::NotBegun),
        }
    }
}

/// Who gave a block or ended it, as it is kept beside blocks in two words of their row, neither of them 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Where.
    pub site: Site,
    /// By which thread; [`ThreadRow::OTHER`] if that is not known.
    pub thread: ThreadRow,
    /// By which function.
    pub kind: Kind,
    /// When.
    pub time: Ticks,
    /// How many of its ancestors were recorded before the process that kept this, one forked from the other; [`Kept::FORKS_MAX`]: so many
    /// or more.
    pub forks: u8,
}

/// Bits of a time: two years of nanoseconds.
const TIME_BITS: u32 = 56;

impl Kept {
    /// From here on forks are not told apart.
    pub const FORKS_MAX: u8 = u8::MAX;

    /// The two words.
    pub fn words(&self) -> [u64; 2] {
        let thread = self.thread.0.min(ThreadRow::OTHER.0);
        let who = u64::from(thread).wrapping_shl(32) | u64::from(self.kind.0).wrapping_shl(56);
        let time = self.time.0.clamp(1, u64::MAX.wrapping_shr(u64::BITS.wrapping_sub(TIME_BITS)));
        [u64::from(self.site.0) | who, time | u64::from(self.forks).wrapping_shl(TIME_BITS)]
    }

    /// The two words of how the block of a record began, of which this is the default packing ([`Entry::pack`](crate::Entry::pack)): nothing that is not
    /// kept is unpacked. `None`: there is no block.
    #[inline(always)]
    pub fn words_of_record(&[commit, address, size, time]: &[u64; RECORD_WORDS], forks: u8) -> Option<[u64; 2]> {
        let (thread, kind, site) = (commit >> 48, address >> 48 & 63, size >> 32);
        let time = (time & mask(44)).max(1);
        (commit & mask(48) != 0).then_some([site | thread << 32 | kind << 56, time | u64::from(forks) << TIME_BITS])
    }

    /// What two words say; `None`: nothing was kept.
    pub fn of_words([word, time]: [u64; 2]) -> Option<Kept> {
        (time != 0).then_some(Kept {
            site: Site(word as u32),
            thread: ThreadRow(word.wrapping_shr(32) as u32 & 0x00FF_FFFF),
            kind: Kind(word.wrapping_shr(56) as u8),
            time: Ticks(time & u64::MAX.wrapping_shr(u64::BITS.wrapping_sub(TIME_BITS))),
            forks: time.wrapping_shr(TIME_BITS) as u8,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Entry;

    #[test]
    fn words_of_a_record_are_those_of_what_it_says() {
        let records =
            [[1, 0, 0, 0], [u64::MAX; RECORD_WORDS], [0x0003_0000_0000_0007, 0x0305_0000_1234_5670, 9 << 32 | 40, 77]];
        for (words, forks) in records.into_iter().zip([0, Kept::FORKS_MAX, 3]) {
            let Entry { site, kind, thread, time, .. } = Entry::unpack(&words).expect("a block");
            let kept = Kept { site, kind, thread: thread.expect("packed"), time: time.expect("packed"), forks };
            assert_eq!(Kept::words_of_record(&words, forks), Some(kept.words()), "{words:x?}");
        }
        assert_eq!(Kept::words_of_record(&[0, u64::MAX, 1, 1], 0), None, "vacant");
        // Above the number stands the thread: that alone is no block.
        assert_eq!(Kept::words_of_record(&[1 << 48, 1, 1, 1], 0), None);
    }

    #[test]
    fn words_say_what_was_said() {
        let tables = GuardTables {
            level: 2,
            secret: 3,
            bitmap: 4,
            leaves: 5,
            leaf_words: 6,
            first: 7,
            bytes: 8,
            slots: 9,
            slots_max: 10,
            slots_used_at: 11,
            fill_bytes_max: 12,
            freed_fill: 13,
            closed: None,
        };
        let first = |tables: &GuardTables| *tables.words().first_chunk::<WORDS>().expect("so many");
        let mut words = first(&tables);
        assert_eq!((GuardTables::of_words(&words, None), GuardTables::wants_more(&words)), (Ok(tables), false));
        words[1] = 9;
        assert_eq!(GuardTables::of_words(&words, None), Err(NoGuard::Version(9)));
        assert_eq!(GuardTables::of_words(&[0; WORDS], None), Err(NoGuard::NotBegun));
        let closed = ClosedTables { first: 20, bytes: 21, page_bytes: 22, slots: 23, slots_max: 24, slots_used_at: 25 };
        let with_closed = GuardTables { closed: Some(closed), ..tables };
        let (words, more) = (first(&with_closed), with_closed.words());
        assert!(GuardTables::wants_more(&words));
        assert_eq!(GuardTables::of_words(&words, more.last_chunk()), Ok(with_closed));
        // A reader that knows nothing of them.
        assert_eq!(GuardTables::of_words(&words, None), Ok(tables));
    }

    #[test]
    fn who_it_was_is_kept() {
        for (thread, forks) in [(ThreadRow(7), 0), (ThreadRow::OTHER, 3), (ThreadRow(0), Kept::FORKS_MAX)] {
            let kept = Kept { site: Site(77), thread, kind: Kind(3), time: Ticks(5), forks };
            assert_eq!(Kept::of_words(kept.words()), Some(kept));
        }
        let timeless = Kept { site: Site(0), thread: ThreadRow(0), kind: Kind::NONE, time: Ticks(0), forks: 0 };
        assert_eq!(timeless.words(), [0, 1]);
        assert_eq!(Kept::of_words([0, 0]), None);
    }
}
