//! Which of ESP-IDF's texts a line could be of: one look for all words that these have, since most lines have none.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

/// Texts that a line could be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct About(u8);

impl About {
    pub(super) const NOTHING: About = About(0);
    /// A dump of a heap trace.
    pub(super) const DUMP: About = About(1);
    /// Damage, and calls that failed.
    pub(super) const FAULTS: About = About(2);
    /// Tasks and heaps.
    pub(super) const STATS: About = About(4);
    /// The start of a device.
    pub(super) const BOOT: About = About(8);
    /// The summary at the end of a dump.
    pub(super) const SAYS: About = About(16);

    pub(super) fn has(self, other: About) -> bool {
        self.0 & other.0 != 0
    }
}

/// Words without which a line is not of such a text.
const WORDS: [(&str, About); 31] = [
    ("====", About::DUMP),
    (" bytes (@ ", About::DUMP),
    (" allocations trace (", About::DUMP),
    ("freed by 0x", About::DUMP),
    ("records: ", About::SAYS),
    ("total allocations", About::SAYS),
    ("total frees", About::SAYS),
    (" in trace (", About::SAYS),
    ("uffer has overflowed", About::SAYS),
    ("New entries were traced", About::SAYS),
    ("linked list is corrupt", About::SAYS),
    ("CORRUPT HEAP: ", About::FAULTS),
    ("Mem alloc fail.", About::FAULTS),
    ("failed to allocate", About::FAULTS),
    ("already marked as free", About::FAULTS),
    ("outside heap areas", About::FAULTS),
    ("block must be free", About::FAULTS),
    ("null entry", About::FAULTS),
    ("block_size(block)", About::FAULTS),
    ("CURRENT MEMORY USAGE", About::STATS),
    ("\u{2518}", About::STATS),
    ("ALIVE", About::STATS),
    ("DELETED", About::STATS),
    ("HEAP: ", About::STATS),
    ("ALLOC 0x", About::STATS),
    ("Heap summary for capabilities", About::STATS),
    ("_free", About::STATS),
    ("Showing data for heap", About::STATS),
    ("Block 0x", About::STATS),
    ("SHA256", About::BOOT),
    ("rst:0x", About::BOOT),
];

/// Finds the words; made once, which takes longer than a short log. Of two that overlap the first counts: none needs both
/// (what `CORRUPT HEAP: ` hides is `HEAP: `, which is another text's).
static FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let words = WORDS.iter().map(|(word, _)| word);
    AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(words).ok()
});

/// What a line could be about.
pub(super) fn about(line: &[u8]) -> About {
    // Without it, anything.
    let Some(finder) = &*FINDER else { return About(u8::MAX) };
    finder.find_iter(line).fold(About::NOTHING, |about, found| {
        let word = WORDS.get(found.pattern().as_usize()).map_or(About::NOTHING, |(_, about)| *about);
        About(about.0 | word.0)
    })
}
