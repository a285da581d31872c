//! Stacks, tables, and what a walk asks of them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;

use heapledger_unwind::{Environment, Lookup, PackedWords, Rule, Word};

use super::functions::{self, BARE, CODE, GENERATED};
use crate::maker;

/// The first address of each stack. The last one is for signal handlers.
const FIRST: [u64; 3] = [0x7000_0000, 0x6000_0000, 0x7800_0000];
const WORDS: [usize; 3] = [12 << 10, 8 << 10, 6 << 10];
const PAGE: u64 = 4096;

/// The memory of the made-up program.
pub(crate) struct Memory {
    stacks: [Vec<u64>; 3],
    tables: [Vec<u8>; 2],
    table_of_loaded: Vec<u8>,
    /// Which plugin is loaded.
    pub(crate) plugin: usize,
    /// Whether a module is loaded where code was generated.
    pub(crate) loaded: bool,
    /// Whether all stacks are known to be readable, so that only comparing words says whether they hold.
    pub(crate) knows_all: bool,
    /// Denies that words hold, once.
    pub(crate) denies: Cell<bool>,
    /// Addresses of the words that were read.
    pub(crate) asked: RefCell<Vec<u64>>,
    /// What is known to be readable without asking.
    known: RefCell<Range<u64>>,
    /// Rules that other threads have met since code was last unloaded.
    shared: RefCell<HashMap<u64, Rule>>,
}

impl Memory {
    pub(crate) fn new(knows_all: bool) -> Self {
        Self {
            stacks: WORDS.map(|words| vec![0; words]),
            tables: [functions::table_with(0), functions::table_with(1)],
            table_of_loaded: functions::table_of_loaded(),
            plugin: 0,
            loaded: false,
            knows_all,
            denies: Cell::new(false),
            asked: RefCell::default(),
            known: RefCell::default(),
            shared: RefCell::default(),
        }
    }

    /// The addresses of a stack.
    pub(crate) fn range(stack: usize) -> Range<u64> {
        FIRST[stack]..FIRST[stack] + 8 * WORDS[stack] as u64
    }

    /// The stack on which an address lies.
    pub(crate) fn stack_of(address: u64) -> Option<usize> {
        (0..FIRST.len()).find(|&stack| Self::range(stack).contains(&address))
    }

    fn place(address: u64) -> Option<(usize, usize)> {
        let stack = Self::stack_of(address).filter(|_| address.is_multiple_of(8))?;
        Some((stack, ((address - FIRST[stack]) / 8) as usize))
    }

    pub(crate) fn get(&self, address: u64) -> Option<u64> {
        Self::place(address).map(|(stack, index)| self.stacks[stack][index])
    }

    /// Stores a word; nothing if no stack is there.
    pub(crate) fn set(&mut self, address: u64, value: u64) {
        if let Some((stack, index)) = Self::place(address) {
            self.stacks[stack][index] = value;
        }
    }

    /// The thread is seen with this stack pointer, as a recorder sees it.
    pub(crate) fn stands_at(&self, sp: u64) {
        let mut known = self.known.borrow_mut();
        let page = sp & !(PAGE - 1);
        if sp >= known.end || Self::stack_of(sp) != Self::stack_of(known.start) {
            *known = page..page + PAGE;
        }
        known.start = known.start.min(page);
    }

    /// Code was unloaded, or loaded.
    pub(crate) fn forget_rules(&self) {
        self.shared.borrow_mut().clear();
    }

    /// What `remember` says of a pc.
    pub(crate) fn tag(pc: u64) -> u32 {
        pc as u32 ^ 0x5a5a_0000
    }
}

impl Environment for Memory {
    fn read_word(&self, address: u64) -> Option<u64> {
        let value = self.get(address)?;
        self.asked.borrow_mut().push(address);
        let mut known = self.known.borrow_mut();
        if address >= known.end && Self::stack_of(known.start) == Self::stack_of(address) {
            known.end = (address & !(PAGE - 1)) + PAGE;
        }
        Some(value)
    }

    fn find_table(&self, pc: u64) -> Lookup<'_> {
        match pc {
            CODE..BARE => Lookup::Found(maker::table(&self.tables[self.plugin])),
            BARE..GENERATED => Lookup::NoTable,
            GENERATED..0x61_0000 if self.loaded => Lookup::Found(maker::table(&self.table_of_loaded)),
            _ => Lookup::NoTable,
        }
    }

    fn still_hold(&self, words: &[Word], low: u64, high: u64) -> bool {
        if self.denies.take() {
            return false;
        }
        let known = self.known.borrow();
        let is_known = known.contains(&low) && known.contains(&high);
        if !(self.knows_all || is_known) {
            return false;
        }
        words.iter().all(|word| {
            // What a recorder loads without looking: it must have been told the bounds.
            assert!((low..=high).contains(&word.address), "{:x} outside of {low:x}..={high:x}", word.address);
            let value = self.get(word.address).expect("only words that could be read are compared");
            value == word.value
        })
    }

    fn packed_still_hold(&self, words: &PackedWords) -> bool {
        let unpack =
            |(above, value): (&u16, &u64)| Word { address: words.low + (u64::from(*above) << 3), value: *value };
        let plain: Vec<Word> = words.above.iter().zip(words.values).map(unpack).collect();
        self.still_hold(&plain, words.low, words.high)
    }

    fn recall(&self, pc: u64) -> Option<(Rule, u32)> {
        // Not of all: some are known to this thread alone.
        let rule = self.shared.borrow().get(&pc).copied().filter(|_| !pc.is_multiple_of(3))?;
        Some((rule, Self::tag(pc)))
    }

    fn remember(&self, pc: u64, rule: Rule) -> u32 {
        self.shared.borrow_mut().insert(pc, rule);
        Self::tag(pc)
    }
}
