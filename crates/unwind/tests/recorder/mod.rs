//! What a recorder does with a thread's stacks, without a ledger.

#![allow(dead_code, reason = "each test uses its part")]

use heapledger_unwind::{
    End, Environment, FrameNote, Fresh, Head, LastStack, Memo, Registers, RuleCache, Strategy, Taken, Word, take, walk,
};

/// A stack as it was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stack {
    /// Innermost first.
    pub(crate) frames: Vec<u64>,
    pub(crate) end: End,
    pub(crate) guessed_from: Option<usize>,
}

/// A recorder's thread.
pub(crate) struct Thread<const SETS: usize, const WORDS: usize> {
    pub(crate) memo: Box<Memo<SETS, WORDS>>,
    cache: RuleCache<64>,
    /// The last stack of a call that took a block, and of one that gave one.
    kept: [LastStack<'static>; 2],
    /// The frames last found by stepping.
    pub(crate) fresh: Vec<Fresh>,
    /// Code unloadings when the rules were last flushed.
    generation: u32,
    persists: bool,
    /// Stacks that were not remembered because it did not pay.
    pub(crate) passed_over: u64,
}

/// The node of a stack with one frame more. Two stacks have the same one by a chance of one in two billion.
fn node(outer: u32, pc: u64) -> u32 {
    let mixed = (u64::from(outer) << 32 ^ pc).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 32) as u32 | 1
}

/// The node of a whole stack.
pub(crate) fn node_of(frames: &[u64]) -> u32 {
    frames.iter().rev().fold(0, |outer, &pc| node(outer, pc))
}

impl<const SETS: usize, const WORDS: usize> Thread<SETS, WORDS> {
    /// With room for `limit` frames, and so many further words for each. `persists`: whole stacks are remembered even while
    /// that does not pay.
    pub(crate) fn new(limit: usize, words_per_frame: usize, persists: bool) -> Self {
        let kept = || LastStack {
            head: Head::new(),
            frames: vec![Word::default(); limit].leak(),
            places: vec![FrameNote::default(); limit].leak(),
            words: vec![Word::default(); words_per_frame * limit].leak(),
        };
        Self {
            memo: Box::default(),
            cache: RuleCache::new(),
            kept: [kept(), kept()],
            fresh: vec![Fresh::default(); limit],
            generation: 0,
            persists,
            passed_over: 0,
        }
    }

    /// A stack that was taken lately, and its node.
    pub(crate) fn find(
        &mut self,
        environment: &impl Environment,
        registers: &Registers,
        generation: u32,
    ) -> Option<(Stack, u32)> {
        let found = self.memo.find(environment, &self.cache, registers, generation + 1)?;
        let frames: Vec<u64> = [registers.ip].into_iter().chain(self.memo.callers(&found)).collect();
        assert_eq!(frames.len(), found.callers as usize + 1);
        let guessed_from = found.is_guessed.then_some(0);
        Some((Stack { frames, end: End::Outermost, guessed_from }, found.node))
    }

    /// Forgets everything, as after a hook that was left in the middle.
    pub(crate) fn forget(&mut self) {
        self.forget_code();
        self.memo.forget();
    }

    fn forget_code(&mut self) {
        self.cache.flush();
        self.kept.iter_mut().for_each(LastStack::forget);
    }

    /// Takes a stack that was not found, and says how; without that, if all registers had to be tracked. Where it would
    /// need a node for more than `nodes` frames, there is none, and all is forgotten.
    pub(crate) fn take(
        &mut self,
        environment: &impl Environment,
        registers: &Registers,
        generation: u32,
        (gives, reuse, nodes): (bool, bool, usize),
    ) -> Option<(Stack, u32, Option<Taken>)> {
        if self.generation != generation {
            self.forget_code();
            self.generation = generation;
        }
        let (last, stepped) = (&mut self.kept[usize::from(gives)], &mut self.fresh);
        let limit = stepped.len();
        let Some(taken) = take(environment, &mut self.cache, (last, stepped), registers, Strategy::Auto, reuse) else {
            let mut frames = vec![0; limit];
            let walk = walk(environment, &mut self.cache, registers, limit, Strategy::Auto, &mut frames);
            frames.truncate(walk.depth);
            let node = node_of(&frames);
            return Some((Stack { frames, end: walk.end, guessed_from: walk.guessed_from }, node, None));
        };
        let Taken { kept, fresh, keeps, end, guessed_from, .. } = taken;
        assert!(kept + fresh <= limit && (reuse || kept == 0), "{taken:?}");
        assert_eq!(keeps, reuse && end != End::LimitReached);
        let (mut at, path) = last.node(kept);
        assert_eq!(path, if kept == 0 { 0 } else { !at }, "both are kept, and zeros for none");
        if keeps && fresh > 0 {
            last.cut(&taken);
        }
        for index in (0..fresh).rev() {
            if kept + fresh - index > nodes {
                last.forget();
                return None;
            }
            at = node(at, stepped[index].pc);
            if keeps {
                last.keep(&taken, stepped[index], (at, !at));
            }
        }
        let mut frames: Vec<u64> = stepped[..fresh].iter().map(|frame| frame.pc).collect();
        if keeps && fresh > 0 {
            assert_eq!(last.depth(), kept + fresh);
            frames.extend(last.pcs().take(kept).rev());
            assert!(last.pcs().rev().eq(frames.iter().copied()));
        } else {
            frames.extend(last.pcs().take(kept).rev());
        }
        if keeps {
            if self.memo.pays() || self.persists {
                self.memo.choose(environment, &self.cache, registers);
                self.memo.keep((last, kept + fresh), registers, generation + 1);
            } else {
                self.passed_over += 1;
            }
        }
        Some((Stack { frames, end, guessed_from }, at, Some(taken)))
    }
}
