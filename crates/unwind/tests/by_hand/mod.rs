//! A thread with one stack, the words of which a test stores one by one.

#![allow(dead_code, reason = "each test uses its part")]

use crate::maker::{LINKAGE, Maker, SIGNAL, code};
use crate::recorder::{Stack, Thread, node_of};
use heapledger_unwind::{Environment, Lookup, PackedWords, Registers, Strategy, Word, walk_in_full};
use std::cell::Cell;

/// Where the stack begins.
pub(crate) const STACK: u64 = 0x7000_0000;

/// Functions of 0x100 bytes.
pub(crate) mod function {
    /// A return address alone.
    pub(crate) const BARE: u64 = 0x20_0000;
    /// 32 bytes; `rbp` is saved below the return address.
    pub(crate) const SAVES: u64 = 0x20_0100;
    /// Keeps a frame pointer.
    pub(crate) const POINTER: u64 = 0x20_0200;
    /// Realigned by gcc: the top is stored below `rbp`, the caller's `rbp` at it.
    pub(crate) const REALIGNED: u64 = 0x20_0300;
    /// 16 bytes; `rbp` is in the last word of what it called.
    pub(crate) const SAVES_AT_EDGE: u64 = 0x20_0400;
    /// 16 bytes; `rbp` is below that.
    pub(crate) const SAVES_BELOW: u64 = 0x20_0500;
    /// 16 bytes; `rbp` is 64 bytes above its frame.
    pub(crate) const SAVES_ABOVE: u64 = 0x20_0600;
    pub(crate) const LINKAGE: u64 = 0x20_0700;
    pub(crate) const SIGNAL: u64 = 0x20_0800;
    /// Has no caller.
    pub(crate) const OUTERMOST: u64 = 0x20_0900;
    /// Nothing on the stack but the return address, like [`BARE`].
    pub(crate) const OTHER: u64 = 0x20_0a00;
    /// Has no table.
    pub(crate) const GENERATED: u64 = 0x40_0000;
}
use function::*;

/// A stack whose words can be altered while it is looked at, and a count of the looks.
pub(crate) struct World {
    segment: Vec<u8>,
    words: Vec<Cell<u64>>,
    /// Code of all places without a table.
    pub(crate) code: Cell<Option<[u8; 8]>>,
    /// Words that were read one by one.
    pub(crate) read: Cell<usize>,
    /// Words that were compared.
    pub(crate) compared: Cell<usize>,
}

impl World {
    pub(crate) fn new(words: usize) -> Self {
        let realigned = [code::DEF_CFA_EXPRESSION, 3, 0x76, 0x78, 0x06, code::EXPRESSION, 6, 2, 0x76, 0];
        let at_sp = |offset: i8| [code::DEF_CFA, 7, 16, code::EXPRESSION, 6, 2, 0x77, offset as u8 & 0x7f];
        let maker = Maker::new()
            .function(BARE, &[])
            .function(SAVES, &[code::DEF_CFA, 7, 32, code::OFFSET | 6, 2])
            .function(POINTER, &[code::DEF_CFA, 6, 16, code::OFFSET | 6, 2])
            .function(REALIGNED, &realigned)
            .function(SAVES_AT_EDGE, &at_sp(-8))
            .function(SAVES_BELOW, &at_sp(-16))
            .function(SAVES_ABOVE, &[code::DEF_CFA, 7, 16, code::OFFSET_SIGNED, 6, 0x78])
            .function(function::LINKAGE, &LINKAGE)
            .signal(function::SIGNAL, &SIGNAL)
            .function(OUTERMOST, &[code::UNDEFINED, 16])
            .function(OTHER, &[]);
        let words = vec![Cell::new(0); words];
        Self { segment: maker.segment(), words, code: Cell::new(None), read: Cell::new(0), compared: Cell::new(0) }
    }

    /// Stores words from this offset of the stack on.
    pub(crate) fn store(&self, offset: u64, values: &[u64]) {
        for (word, &value) in self.words[offset as usize / 8..].iter().zip(values) {
            word.set(value);
        }
    }

    fn at(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(STACK).filter(|offset| offset.is_multiple_of(8))?;
        Some(self.words.get(offset as usize / 8)?.get())
    }

    pub(crate) fn in_full(&self, registers: &Registers, limit: usize) -> Stack {
        let mut frames = vec![];
        let walk = walk_in_full(self, registers, Strategy::Auto, &mut |pc| {
            let has_room = frames.len() < limit;
            frames.extend(Some(pc).filter(|_| has_room));
            has_room
        });
        Stack { frames, end: walk.end, guessed_from: walk.guessed_from }
    }
}

impl Environment for World {
    fn read_word(&self, address: u64) -> Option<u64> {
        self.read.set(self.read.get() + 1);
        self.at(address)
    }

    fn find_table(&self, pc: u64) -> Lookup<'_> {
        match pc {
            0x20_0000..0x30_0000 => Lookup::Found(crate::maker::table(&self.segment)),
            _ => Lookup::NoTable,
        }
    }

    fn read_code(&self, _: u64) -> Option<[u8; 8]> {
        self.code.get()
    }

    fn still_hold(&self, words: &[Word], low: u64, high: u64) -> bool {
        assert!(words.iter().all(|word| (low..=high).contains(&word.address)), "{words:x?} {low:x} {high:x}");
        let holds = |word: &Word| {
            self.compared.set(self.compared.get() + 1);
            self.at(word.address) == Some(word.value)
        };
        words.iter().all(holds)
    }

    fn packed_still_hold(&self, words: &PackedWords) -> bool {
        words.hold(|address| {
            assert!((words.low..=words.high).contains(&address), "{words:x?} {address:x}");
            self.compared.set(self.compared.get() + 1);
            self.at(address).expect("was read before")
        })
    }
}

/// Registers with the stack pointer at this offset of the stack.
pub(crate) fn at(ip: u64, sp: u64, bp: u64) -> Registers {
    Registers { ip, sp: STACK + sp, bp, ..Registers::default() }
}

/// A thread that remembers.
pub(crate) struct Trial<const SETS: usize = 4, const WORDS: usize = 256> {
    pub(crate) world: World,
    pub(crate) thread: Thread<SETS, WORDS>,
    limit: usize,
}

impl Trial {
    pub(crate) fn new(words: usize) -> Self {
        Self::with_limit(words, 16)
    }
}

impl<const SETS: usize, const WORDS: usize> Trial<SETS, WORDS> {
    pub(crate) fn with_limit(words: usize, limit: usize) -> Self {
        Self { world: World::new(words), thread: Thread::new(limit, 2, true), limit }
    }

    /// Takes the stack, which must be what it is, without asking what is remembered of whole stacks. Returns how many
    /// frames were kept, and how many found.
    pub(crate) fn take(&mut self, registers: Registers) -> (usize, usize) {
        let taken = self.thread.take(&self.world, &registers, 0, (true, true, self.limit));
        let (stack, node, taken) = taken.expect("there is room for all nodes");
        assert_eq!(stack, self.world.in_full(&registers, self.limit), "{taken:x?}");
        assert_eq!(node, node_of(&stack.frames));
        let taken = taken.expect("no frame needs all registers");
        (taken.kept, taken.fresh)
    }

    /// Whether the whole stack is remembered; then it must be what it is.
    pub(crate) fn finds(&mut self, registers: Registers) -> bool {
        let found = self.thread.find(&self.world, &registers, 0);
        if let Some((stack, node)) = &found {
            assert_eq!(*stack, self.world.in_full(&registers, self.limit));
            assert_eq!(*node, node_of(&stack.frames));
        }
        found.is_some()
    }

    /// Looks for a stack that is remembered: whether it was found at the first place that was looked at, where no callers
    /// need to be read.
    pub(crate) fn is_noted(&mut self, registers: Registers) -> bool {
        self.world.read.set(0);
        let found = self.thread.find(&self.world, &registers, 0);
        assert!(found.is_some());
        self.world.read.get() == 0
    }
}
