//! Stacks taken by what is remembered of earlier ones, against a walk in full, in a made-up program that does all it
//! can to be remembered wrongly.

mod machine;
mod maker;
mod recorder;

use heapledger_unwind::BasePointer::{AtCfa, Same};
use heapledger_unwind::{End, Fresh, Registers, RuleCache, Shape, Strategy, Taken, resolve, walk, walk_in_full};
use machine::{Frame, Machine, Memory};
use recorder::{Stack, Thread, node_of};

/// How much is remembered, and how.
struct Settings {
    /// Most frames of a stack.
    limit: usize,
    /// Further words for each frame of a last stack.
    words_per_frame: usize,
    /// See [`Memory::knows_all`].
    knows_all: bool,
    /// Stacks are remembered even while that does not pay.
    persists: bool,
}

/// How a stack was taken.
#[derive(Clone, Copy, Debug)]
enum How {
    Remembered,
    Taken(Taken),
    /// All registers had to be tracked.
    Whole,
}

/// What happened, and how often.
#[derive(Debug, Default)]
struct Counts {
    taken: u64,
    /// How: found whole; by steps, of which all frames were kept, some, or none; with all registers tracked.
    remembered: u64,
    kept_all: u64,
    kept_some: u64,
    kept_none: u64,
    whole: u64,
    /// Cut at the limit; ended before an outermost frame; guessed in part.
    cut: u64,
    unfinished: u64,
    guessed: u64,
    /// A word was altered, and the stack was another one.
    altered: u64,
    /// Taken again at once, and all was kept and remembered, as must be.
    proven: u64,
    /// Taken again at once, and not all was kept.
    blocked: u64,
    /// Not remembered, because it did not pay.
    passed_over: u64,
    /// There was no room for a node.
    given_up: u64,
    /// Another stack by rules than in full.
    apart: u64,
    unloads: u64,
    loads: u64,
    /// Words of stacks that were remembered, less than there were.
    words_entered: u64,
}

struct Trial<const SETS: usize, const WORDS: usize> {
    settings: Settings,
    machine: Machine,
    thread: Thread<SETS, WORDS>,
    /// Code unloadings.
    generation: u32,
    counts: Counts,
    /// The words that the last walk in full has read.
    asked: Vec<u64>,
}

impl<const SETS: usize, const WORDS: usize> Trial<SETS, WORDS> {
    fn new(seed: u64, settings: Settings) -> Self {
        Self {
            machine: Machine::new(seed, settings.knows_all),
            thread: Thread::new(settings.limit, settings.words_per_frame, settings.persists),
            settings,
            generation: 0,
            counts: Counts::default(),
            asked: vec![],
        }
    }

    /// The stack, from its tables alone.
    fn in_full(&self, registers: &Registers) -> Stack {
        let mut frames = vec![];
        let walk = walk_in_full(&self.machine.memory, registers, Strategy::Auto, &mut |pc| {
            let has_room = frames.len() < self.settings.limit;
            frames.extend(Some(pc).filter(|_| has_room));
            has_room
        });
        Stack { frames, end: walk.end, guessed_from: walk.guessed_from }
    }

    /// Takes the stack in every way. `is_sane`: all words are as the functions left them.
    #[expect(clippy::fn_params_excessive_bools, reason = "called with variables of these names only")]
    fn check(&mut self, registers: &Registers, gives: bool, is_sane: bool) -> Stack {
        self.machine.memory.asked.borrow_mut().clear();
        let full = self.in_full(registers);
        self.asked = self.machine.memory.asked.take();
        let denies = self.machine.dice.one_in(50);
        self.machine.memory.denies.set(denies);
        let asks = !self.machine.dice.one_in(3);
        let memory = &self.machine.memory;
        let found = if asks { self.thread.find(memory, registers, self.generation) } else { None };
        let (stack, node, how) = match found {
            Some((stack, node)) => (stack, node, How::Remembered),
            None => {
                let reuse = !self.machine.dice.one_in(40);
                let limit = self.settings.limit;
                let gives_up_at = if self.machine.dice.one_in(300) { 3 } else { limit };
                let taken = self.thread.take(memory, registers, self.generation, (gives, reuse, gives_up_at));
                let Some((stack, node, taken)) = taken else {
                    self.counts.given_up += 1;
                    return full;
                };
                (stack, node, taken.map_or(How::Whole, How::Taken))
            }
        };
        memory.denies.set(false);
        self.compare(registers, &full, &stack, how);
        assert_eq!(node, node_of(&stack.frames), "{how:x?} {stack:x?}");
        self.count(how, &stack);
        let How::Taken(taken) = how else { return full };
        for &Fresh { pc, tag, .. } in &self.thread.fresh[..taken.fresh] {
            assert!(tag == Memory::tag(pc), "{pc:x} {tag:x}");
        }
        if taken.keeps && !stack.frames.is_empty() {
            self.check_again(registers, gives, is_sane && !denies, &full);
        }
        full
    }

    fn compare(&mut self, registers: &Registers, full: &Stack, stack: &Stack, how: How) {
        // Of frames that were not walked it is only said whether there is a guess among them.
        let first_known = match how {
            How::Remembered => Some(0),
            How::Whole => None,
            How::Taken(taken) => Some(taken.fresh),
        };
        let claims = stack.guessed_from.filter(|from| Some(*from) == first_known);
        let full = match (claims, full.guessed_from) {
            (Some(claim), Some(from)) if from >= claim => &Stack { guessed_from: Some(claim), ..full.clone() },
            _ => full,
        };
        if stack == full {
            return;
        }
        let mut frames = vec![0; self.settings.limit];
        let memory = &self.machine.memory;
        let walk =
            walk(memory, &mut RuleCache::<1>::new(), registers, self.settings.limit, Strategy::Auto, &mut frames);
        frames.truncate(walk.depth);
        let plain = Stack { frames, end: walk.end, guessed_from: walk.guessed_from };
        // A walk by rules stops where a saved rbp cannot be read, and at an interrupted frame without a return address on
        // the stack. One in full goes on: it may do without either.
        let was_interrupted = match plain.frames[..] {
            [.., inner, _] => self.machine.function_at(inner - 1).is_some_and(|inner| inner.frame == Frame::Signal),
            _ => false,
        };
        let may_differ = match plain.end {
            End::Unreadable { .. } => true,
            End::NotRising { .. } => was_interrupted,
            _ => false,
        };
        assert!(may_differ && plain != *full, "{how:x?}\n{full:x?}\n{stack:x?}");
        assert!(*stack == plain, "{how:x?}\n{full:x?}\n{plain:x?}\n{stack:x?}");
        self.counts.apart += 1;
    }

    fn count(&mut self, how: How, stack: &Stack) {
        let counts = &mut self.counts;
        counts.taken += 1;
        counts.guessed += u64::from(stack.guessed_from.is_some());
        counts.cut += u64::from(stack.end == End::LimitReached);
        counts.unfinished += u64::from(!matches!(stack.end, End::LimitReached | End::Outermost));
        match how {
            How::Remembered => counts.remembered += 1,
            How::Whole => counts.whole += 1,
            How::Taken(taken) => match (taken.kept, taken.fresh) {
                (0, _) => counts.kept_none += 1,
                (_, 0) => counts.kept_all += 1,
                _ => counts.kept_some += 1,
            },
        }
    }

    /// The stack was just taken and kept: nothing has happened since.
    #[expect(clippy::fn_params_excessive_bools, reason = "called with variables of these names only")]
    fn check_again(&mut self, registers: &Registers, gives: bool, is_sane: bool, full: &Stack) {
        let memory = &self.machine.memory;
        let found = self.thread.find(memory, registers, self.generation);
        let (stack, node, taken) = self
            .thread
            .take(memory, registers, self.generation, (gives, true, self.settings.limit))
            .expect("the stack has been taken before, so it could be entered");
        let taken = taken.expect("the stack has been taken without all registers before");
        self.compare(registers, full, &stack, How::Taken(taken));
        assert_eq!(node, node_of(&stack.frames));
        self.counts.words_entered += full.frames.len() as u64;
        if is_sane && stack == *full && self.can_be_proven(registers, full) {
            assert_eq!((taken.kept, taken.fresh), (full.frames.len(), 0), "{registers:x?} {full:x?}");
            assert_eq!(taken.end, End::Outermost);
            // Each frame has read three words at most, and the stack may have ended at one.
            let is_remembered = self.settings.persists && 3 * full.frames.len() < WORDS;
            assert!(found.is_some() || !is_remembered, "{registers:x?} {full:x?}");
            self.counts.proven += 1;
        } else if taken.fresh > 0 && taken.end != End::LimitReached {
            self.counts.blocked += 1;
        }
    }

    /// Whether the words that were read prove the stack, so that it must be kept.
    fn can_be_proven(&self, registers: &Registers, stack: &Stack) -> bool {
        let Some((&outermost, inner)) = stack.frames.split_last() else { return false };
        let can_be_proven = |pc: &u64| {
            let function = self.machine.function_at(pc - 1);
            function.is_some_and(|function| function.frame.can_be_proven())
        };
        let rule = resolve(&self.machine.memory, outermost);
        let ends_well = match rule.shape() {
            Shape::Outermost => true,
            Shape::FromSp(_) | Shape::FromBp(_) => matches!(rule.base_pointer(), Same | AtCfa(_)),
            _ => false,
        };
        // The word below the stack pointer is counted to the stack, and the recorder may not know its page.
        let is_known = self.settings.knows_all || !registers.sp.is_multiple_of(4096);
        let has_room = self.settings.words_per_frame >= 2;
        stack.end == End::Outermost && ends_well && is_known && has_room && inner.iter().all(can_be_proven)
    }

    /// Takes the stack.
    fn take(&mut self) {
        let registers = self.machine.hook();
        let gives = self.machine.dice.one_in(2);
        let is_sane = self.machine.is_sane();
        self.check(&registers, gives, is_sane);
    }

    /// Takes the stack, alters something that it depends on, takes it, puts it back, takes it.
    fn tamper(&mut self) {
        let registers = self.machine.hook();
        let gives = self.machine.dice.one_in(2);
        let is_sane = self.machine.is_sane();
        let before = self.check(&registers, gives, is_sane);
        if self.asked.is_empty() || self.machine.dice.one_in(6) {
            let altered = Registers { bp: self.machine.plausible(registers.sp), ..registers };
            let after = self.check(&altered, gives, false);
            self.counts.altered += u64::from(after != before);
        } else {
            let address = self.machine.dice.pick(&self.asked);
            let other = self.machine.dice.pick(&self.asked);
            let value = self.machine.memory.get(address).unwrap_or(0);
            let new = match self.machine.dice.below(3) {
                0 => self.machine.memory.get(other).unwrap_or(0),
                1 => self.machine.plausible(value),
                _ => self.machine.plausible(address),
            };
            self.machine.memory.set(address, new);
            // It may be another stack; it must be the right one.
            let after = self.check(&registers, gives, false);
            self.counts.altered += u64::from(after != before);
            if self.machine.dice.one_in(40) {
                return self.machine.goes_wild();
            }
            self.machine.memory.set(address, value);
        }
        self.check(&registers, gives, is_sane);
    }

    fn step(&mut self) {
        match self.machine.dice.below(1000) {
            0..300 => self.take(),
            300..530 => self.machine.call(),
            530..695 => self.machine.leave(1),
            695..710 => {
                let count = 2 + self.machine.dice.below(4) as usize;
                self.machine.leave(count);
            }
            710..760 => self.machine.scribble(),
            760..790 => self.machine.alloca(),
            790..930 => self.tamper(),
            930..938 => self.machine.signal(),
            938..960 => self.machine.switch(),
            960..965 => self.machine.recast(),
            965..985 => self.machine.begin(),
            985..987 => {
                self.generation += 2;
                self.machine.unload();
                self.counts.unloads += 1;
            }
            987..990 => {
                self.generation += 1;
                self.counts.loads += u64::from(!self.machine.memory.loaded);
                self.machine.load();
            }
            990 => self.thread.forget(),
            _ => self.machine.alloca(),
        }
    }
}

/// Tries so many steps, and says what happened.
fn try_it<const SETS: usize, const WORDS: usize>(seed: u64, settings: Settings) -> Counts {
    let mut trial = Trial::<SETS, WORDS>::new(seed, settings);
    for _ in 0..STEPS {
        trial.step();
    }
    Counts { passed_over: trial.thread.passed_over, ..trial.counts }
}

const STEPS: u64 = if cfg!(miri) { 300 } else { 120_000 };

impl Counts {
    /// Each thing happened at least once in so many steps.
    fn assert_one_in(&self, steps: u64, counts: impl IntoIterator<Item = u64>) {
        let enough = |count: u64| cfg!(miri) || count * steps >= STEPS;
        assert!(counts.into_iter().all(enough), "{self:?}");
    }

    /// What every trial must have met.
    fn assert_all_happened(&self) {
        self.assert_one_in(4, [self.taken]);
        self.assert_one_in(20, [self.kept_none, self.altered, self.blocked, self.unfinished]);
        self.assert_one_in(80, [self.remembered, self.kept_all, self.kept_some, self.guessed]);
        self.assert_one_in(1000, [self.whole, self.unloads, self.loads]);
        self.assert_one_in(5000, [self.given_up]);
        assert!(self.apart * 10 < self.taken, "{self:?}");
    }
}

#[test]
fn with_room_for_many_words() {
    let settings = Settings { limit: 64, words_per_frame: 2, knows_all: false, persists: true };
    let counts = try_it::<16, 1024>(1, settings);
    counts.assert_all_happened();
    counts.assert_one_in(20, [counts.proven]);
}

#[test]
fn with_few_words_that_are_soon_overwritten() {
    let counts = try_it::<4, 64>(2, Settings { limit: 12, words_per_frame: 2, knows_all: true, persists: true });
    counts.assert_all_happened();
    counts.assert_one_in(20, [counts.proven]);
    counts.assert_one_in(100, [counts.cut]);
    // Each frame but the innermost takes a word at least.
    assert!(cfg!(miri) || counts.words_entered > 64 * 1000);
}

#[test]
fn while_it_pays() {
    let counts = try_it::<2, 128>(3, Settings { limit: 20, words_per_frame: 2, knows_all: false, persists: false });
    counts.assert_all_happened();
    counts.assert_one_in(10, [counts.passed_over]);
}

#[test]
fn without_room_for_further_words() {
    let counts = try_it::<8, 256>(4, Settings { limit: 32, words_per_frame: 0, knows_all: true, persists: true });
    counts.assert_all_happened();
}
