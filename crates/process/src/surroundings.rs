//! What unwinding asks for of the calling thread and its process: words of stacks, code, unwind tables.
#![forbid(unsafe_code)]

use crate::shared::Shared;
use core::cell::Cell;
use heapledger_linux::apart;
use heapledger_linux::stack::StackRange;
use heapledger_unwind::{Environment, Lookup, PackedWords, Rule, Word};

/// Pages of a stack that may be asked about at once: 8 MiB.
const PAGES_MAX: usize = 2048;

/// Stack and unwind tables of the calling thread.
pub(crate) struct Surroundings<'a> {
    pub(crate) shared: &'a Shared,
    /// What is known of the stack; more of it when asked for.
    pub(crate) here: &'a Cell<StackRange>,
    /// In a handler on an alternate stack: the one that it interrupted.
    pub(crate) below_handler: Option<&'a Cell<StackRange>>,
    /// Code unloadings when the stack was begun; `None`: rules are not shared.
    generation: Option<u32>,
    /// In the page of code without a table that was read last: frames of such code lie near each other, and asking the kernel for each
    /// of them would cost more than all else. 0: none was.
    code_read: Cell<usize>,
}

impl Environment for Surroundings<'_> {
    #[inline(always)]
    fn read_word(&self, address: u64) -> Option<u64> {
        match self.here.get().word(address) {
            Some(word) => Some(word),
            None => self.read_elsewhere(address),
        }
    }

    fn find_table(&self, pc: u64) -> Lookup<'_> {
        self.shared.modules.table(self.shared.ledger(), pc)
    }

    fn may_be_code(&self, pc: u64) -> bool {
        // The words of a stack are full of addresses of it.
        !self.here.get().contains(pc as usize) && self.shared.modules.may_be_code(self.shared.ledger(), pc)
    }

    fn read_code(&self, pc: u64) -> Option<[u8; 8]> {
        // Code is mapped where a call returns to; but it was a guess that led here, perhaps, and code need not be readable.
        let aligned = pc & !7;
        let word = |address: u64| {
            let mut page = StackRange::around(self.code_read.get());
            if self.code_read.get() == 0 || !page.contains(address as usize) {
                page = StackRange::of_readable(address as usize)?;
                self.code_read.set(address as usize);
            }
            page.word(address)
        };
        let both = u128::from(word(aligned)?) | u128::from(word(aligned.wrapping_add(8))?) << 64;
        // Of sixteen bytes, the eight at `pc`: it narrows on purpose.
        Some(((both >> ((pc & 7) << 3)) as u64).to_le_bytes())
    }

    #[inline(always)]
    fn still_hold(&self, words: &[Word], low: u64, high: u64) -> bool {
        // Another stack, or one that this range knows too little of?
        let Some(stack) = self.here.get().words(low, high) else { return false };
        let differs = |word: &Word| stack.word(word.address) ^ word.value;
        // Four at a time: one jump for four loads that do not wait for each other.
        let (fours, rest) = words.as_chunks::<4>();
        for [a, b, c, d] in fours {
            if differs(a) | differs(b) | differs(c) | differs(d) != 0 {
                return false;
            }
        }
        for word in rest {
            if differs(word) != 0 {
                return false;
            }
        }
        true
    }

    #[inline(always)]
    fn packed_still_hold(&self, words: &PackedWords) -> bool {
        still_hold(self.here.get(), words)
    }

    fn recall(&self, pc: u64) -> Option<(Rule, u32)> {
        self.shared.sites.recall(pc, self.generation?).map(|(rule, code)| (rule, code.0))
    }

    fn apart(&self, work: &mut dyn FnMut()) {
        apart::run(work);
    }

    fn remember(&self, pc: u64, rule: Rule) -> u32 {
        let Shared { sites, modules, .. } = self.shared;
        let code = self.generation.and_then(|now| sites.code(self.shared.ledger(), modules, pc, now, Some(rule)));
        code.map_or(0, |code| code.0)
    }
}

/// Whether words that [`Environment::read_word`] gave hold what they held.
#[inline(always)]
pub(crate) fn still_hold(here: StackRange, words: &PackedWords) -> bool {
    here.words(words.low, words.high).is_some_and(|stack| words.hold(|address| stack.word(address)))
}

impl Surroundings<'_> {
    #[inline(always)]
    pub(crate) fn new<'a>(shared: &'a Shared, here: &'a Cell<StackRange>, generation: Option<u32>) -> Surroundings<'a> {
        Surroundings { shared, here, below_handler: None, generation, code_read: Cell::new(0) }
    }

    /// Extends what is known of the stack.
    #[cold]
    #[inline(never)]
    fn read_elsewhere(&self, address: u64) -> Option<u64> {
        let mut here = self.here.get();
        if let Some(word) = here.ask_word(address, PAGES_MAX) {
            self.here.set(here);
            return Some(word);
        }
        // A handler on the alternate stack: outside of it, the interrupted one goes on, wherever that is.
        let below_handler = self.below_handler?;
        let mut below = below_handler.get();
        let mut word = below.ask_word(address, PAGES_MAX);
        if word.is_none()
            && let Some(page) = StackRange::of_readable(address as usize)
        {
            below = page;
            word = below.word(address);
        }
        below_handler.set(below);
        word
    }
}
