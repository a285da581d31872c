//! Processes that were forked: where a child's ledger begins in its parent's, and what the child freed of its parent's blocks.
//!
//! A forked child has copies of its parent's blocks, which its own ledger does not have. It says instead where in the numbers of each
//! thread of its parent the fork lies, and notes the frees of addresses that it did not allocate itself. A reader who has both ledgers
//! finds the blocks: a block of the parent's was there at the fork if its allocation lies before the cut of the thread that allocated
//! it, and it lives, or its free does not lie before the cut of the thread that freed it.

use crate::element::{Word, published};
use crate::ids::{Site, ThreadRowPlus1, Ticks};
use crate::kind::Kind;

published! {
    /// An element of `cut`, of the thread with the same row in the parent's `threads`: its numbers below `number` lie before the fork.
    /// Where it is vacant all of its numbers do; so they do not of threads beyond the last element, which began later.
    ForkCut by number_plus_1 {
        /// When it leased it, in ticks of the parent's.
        time: Word,
        /// The next number of the thread at the fork plus 1: the commit word.
        number_plus_1: Word,
    }
}

published! {
    /// An element of `inherited`: a free of a block that this process did not allocate, or a `realloc` that moved or freed it.
    InheritedFree by number_plus_1 {
        /// The address.
        address: Word,
        /// When, in ticks of this ledger.
        time: Ticks,
        /// The call's stack.
        site: Site,
        /// The thread.
        thread: ThreadRowPlus1,
        /// The function, a [`Kind`].
        by: u32,
        /// 0.
        reserved: u32,
        /// Its number among the events of this ledger plus 1: the commit word. Several may have the same.
        number_plus_1: Word,
    }
}

impl InheritedFree {
    /// The function.
    pub fn kind(&self) -> Kind {
        u8::try_from(self.by).map_or(Kind(0), Kind)
    }
}

/// Where the fork lies in a parent's numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForkCuts<'a> {
    /// Those of the parent's threads, by row.
    pub rows: &'a [Option<ForkCut>],
}

impl ForkCuts<'_> {
    /// Whether what this thread of the parent's did under this number was done before the fork.
    pub fn is_before(&self, thread: usize, number: u64) -> bool {
        match self.rows.get(thread) {
            Some(Some(cut)) => number < cut.number_plus_1.0.saturating_sub(1),
            Some(None) => true,
            None => false,
        }
    }
}

/// Longest value of [`Key::Children`](crate::session::Key::Children).
pub const CHILDREN_BYTES_MAX: usize = 255;

/// Whether the name of a program (of its file, without directories) is one of these, with `|` between them: `*` stands for any
/// characters, `?` for one.
pub fn children_match(patterns: &[u8], name: &[u8]) -> bool {
    patterns.split(|byte| *byte == b'|').any(|pattern| pattern_matches(pattern, name))
}

fn pattern_matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut pattern, mut name) = (pattern, name);
    // What follows the last `*`, and what it has not been tried at yet.
    let mut again: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern.split_first(), name.split_first()) {
            (Some((b'*', rest)), _) => {
                again = Some((rest, name));
                pattern = rest;
            }
            (Some((wanted, rest)), Some((there, left))) if wanted == there || *wanted == b'?' => {
                (pattern, name) = (rest, left);
            }
            (None, None) => return true,
            _ => {
                let Some((rest, from)) = again else { return false };
                let Some((_, left)) = from.split_first() else { return false };
                again = Some((rest, left));
                (pattern, name) = (rest, left);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::{ByteOrder, Codec, WordSize};

    #[test]
    fn elements_come_back_as_they_were() {
        let codec = Codec { order: ByteOrder::NATIVE, word: WordSize::W64 };
        let free = InheritedFree {
            number_plus_1: Word(8),
            address: Word(0x7f00_1234_5678),
            time: Ticks(99),
            site: Site(5),
            thread: ThreadRowPlus1(2),
            by: u32::from(Kind::FREE.0),
            reserved: 0,
        };
        let mut element = [0; 64];
        assert!(free.write(codec, &mut element));
        assert_eq!((InheritedFree::read(codec, &element), free.kind()), (Some(free), Kind::FREE));
        assert_eq!((InheritedFree::bytes(WordSize::W64), ForkCut::bytes(WordSize::W64)), (40, 16));
        assert_eq!(InheritedFree::read(codec, &[0; 40]), None);
    }

    #[test]
    fn what_a_thread_did_lies_before_or_after() {
        let cut = |number: u64| Some(ForkCut { number_plus_1: Word(number + 1), time: Word(3) });
        let rows = [cut(10), None, cut(0)];
        let cuts = ForkCuts { rows: &rows };
        assert!(cuts.is_before(0, 9) && !cuts.is_before(0, 10), "its own numbers");
        assert!(cuts.is_before(1, u64::MAX), "it had ended");
        assert!(!cuts.is_before(2, 0) && !cuts.is_before(3, 0), "it had done nothing yet, or was not there");
    }

    #[test]
    fn names_of_programs_are_matched() {
        let yes = |patterns: &str, name: &str| children_match(patterns.as_bytes(), name.as_bytes());
        for (patterns, name) in [
            ("*", ""),
            ("*", "x"),
            ("cc1plus|python*", "python3.11"),
            ("cc1plus|python*", "cc1plus"),
            ("a?c", "abc"),
            ("*a*b", "xaxxbab"),
        ] {
            assert!(yes(patterns, name), "{patterns} {name}");
        }
        for (patterns, name) in
            [("cc1plus|python*", "cc1"), ("", "x"), ("a?c", "ac"), ("*a*b", "xaxxba"), ("a|b", "a|b")]
        {
            assert!(!yes(patterns, name), "{patterns} {name}");
        }
    }
}
