//! Taking the stack of a call.
#![forbid(unsafe_code)]

use crate::entry;
use crate::once::Noted;
use crate::options::Unwind;
use crate::shared::Shared;
use crate::sites::CodeId;
use crate::state::{Entered, Stacks, ThreadBooks, ThreadState};
use core::cell::Cell;
use heapledger_format::TallyCounter;
use heapledger_linux::apart;
use heapledger_linux::stack::StackRange;
use heapledger_recorder::backend::Site;
use heapledger_unwind::{
    Candidate, End, Environment, Lookup, PackedWords, Registers, Remembered, Rule, RuleCache, Shape, Strategy, Taken,
    Walk, Word, resolve, take, walk, walk_in_full,
};

/// Pages of a stack that may be asked about at once: 8 MiB.
const PAGES_MAX: usize = 2048;

/// Stack and unwind tables of the calling thread.
struct Surroundings<'a> {
    shared: &'a Shared,
    here: Cell<StackRange>,
    below_handler: Cell<StackRange>,
    is_in_handler: bool,
    /// Code unloadings when the stack was begun; `None`: rules are not shared.
    generation: Option<u32>,
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
fn still_hold(here: StackRange, words: &PackedWords) -> bool {
    here.words(words.low, words.high).is_some_and(|stack| words.hold(|address| stack.word(address)))
}

impl Surroundings<'_> {
    fn new(shared: &Shared, here: StackRange, below: StackRange, generation: Option<u32>) -> Surroundings<'_> {
        let (here, below_handler) = (Cell::new(here), Cell::new(below));
        Surroundings { shared, here, below_handler, is_in_handler: false, generation }
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
        if !self.is_in_handler {
            return None;
        }
        // A handler on the alternate stack: outside of it, the interrupted one goes on, wherever that is.
        let mut below = self.below_handler.get();
        let mut word = below.ask_word(address, PAGES_MAX);
        if word.is_none()
            && let Some(page) = StackRange::of_readable(address as usize)
        {
            below = page;
            word = below.word(address);
        }
        self.below_handler.set(below);
        word
    }
}

/// Whether a frame of [our own code](crate::entry) lies on the stack outside of `registers`: then a hook was interrupted.
/// Where that cannot be told, it is assumed. Uses nothing that an interrupted hook may have left half done.
#[cold]
pub fn own_code_is_on_stack(shared: &Shared, stack: StackRange, registers: &Registers) -> bool {
    const FRAMES: usize = 96;
    const SETS: usize = 4;
    let surroundings = Surroundings::new(shared, stack, stack, None);
    let mut frames = [0; FRAMES];
    let mut cache = RuleCache::<SETS>::new();
    let walk = walk(&surroundings, &mut cache, registers, FRAMES, Strategy::Auto, &mut frames);
    let own = entry::code();
    let frames = frames.get(..walk.depth).unwrap_or(&[]);
    // Only a stack known to its outermost frame tells that there is none.
    walk.end != End::Outermost || frames.iter().any(|frame| own.contains(&(*frame as usize)))
}

/// Whether the loader is among the first frames outside of `registers`.
#[cold]
pub fn loader_is_near(shared: &Shared, stack: StackRange, registers: &Registers) -> bool {
    const FRAMES: usize = 4;
    const SETS: usize = 4;
    let surroundings = Surroundings::new(shared, stack, stack, None);
    let mut frames = [0; FRAMES];
    let mut cache = RuleCache::<SETS>::new();
    let walk = walk(&surroundings, &mut cache, registers, FRAMES, Strategy::Tables, &mut frames);
    frames.iter().take(walk.depth).any(|frame| shared.modules.is_loader(*frame as usize))
}

/// Compares a stack with what another unwinder says, in test builds.
pub type Check = fn(registers: &Registers, frames: &[u64], complete: bool);

static CHECK: Noted<Check> = Noted::new();

/// Has every stack checked from now on.
pub fn set_check(check: &'static Check) {
    CHECK.set(check);
}

/// The call site that leads to `registers`; none if there is no room for it. `gives` says whether the call gives a block
/// or takes one.
#[inline(always)]
pub fn capture(shared: &Shared, mut state: Entered, registers: &Registers, gives: bool) -> Site {
    let generation = shared.modules.generation();
    // A stack on the alternate stack is not among them: its stack pointer is not.
    // Of a stack that is not the thread's own nobody knows the end, nor when it goes: nothing of it is remembered.
    let thread = state.thread();
    if !thread.on_alternate.get()
        && thread.native.get().is_own()
        && !is_checked(shared)
        && let Some(Candidate { words, found }) = state.memo.noted(registers, stamp(generation))
        && still_hold(thread.native.get(), &words)
    {
        return remembered(thread, &found);
    }
    // One after the other, not one inside of the other: that takes less stack.
    match capture_elsewhere(shared, state.again(), registers) {
        Some(site) => site,
        None => capture_changed(shared, state, registers, gives),
    }
}

/// The call site of a stack that was remembered.
#[inline(always)]
fn remembered(thread: &ThreadState, found: &Remembered) -> Site {
    thread.count(TallyCounter::FramesVerified, u64::from(found.callers) + 1);
    if found.is_guessed {
        thread.count(TallyCounter::StacksGuessed, 1);
    }
    Site(found.node)
}

/// A stack that is not the one last taken from such a place.
#[inline(never)]
fn capture_elsewhere(shared: &Shared, mut state: Entered, registers: &Registers) -> Option<Site> {
    let (thread, here) = (state.thread(), state.thread().native.get());
    if !thread.on_alternate.get() && here.is_own() {
        let surroundings = Surroundings::new(shared, here, here, None);
        let stamp = stamp(shared.modules.generation());
        let books: &mut ThreadBooks = &mut state;
        if let Some(found) = books.memo.find(&surroundings, &books.cache, registers, stamp) {
            if is_checked(shared) {
                check_remembered(shared, state, registers);
            }
            return Some(remembered(thread, &found));
        }
    }
    None
}

/// What stacks that were remembered are stamped with: code that they were taken in may have been unloaded since.
#[inline(always)]
fn stamp(generation: u32) -> u32 {
    generation.wrapping_add(1)
}

/// A stack that was not taken lately.
#[inline(never)]
fn capture_changed(shared: &Shared, mut state: Entered, registers: &Registers, gives: bool) -> Site {
    let generation = shared.modules.generation();
    let settings = shared.settings();
    if state.generation != generation {
        state.forget_code();
        state.generation = generation;
    }
    let steps = !state.thread().on_alternate.get() && settings.unwind.remembers();
    let Some(taken) = steps.then(|| take_steps(shared, state.again(), registers, gives)).flatten() else {
        return capture_apart(shared, state, registers, gives);
    };
    let site = intern_taken(shared, state.again(), registers, gives, &taken);
    if site != Site::NONE && is_checked(shared) {
        check_taken(shared, state, registers, gives, &taken);
    }
    site
}

#[cold]
#[inline(never)]
fn capture_apart(shared: &Shared, state: Entered, registers: &Registers, gives: bool) -> Site {
    apart::result_of(Site::NONE, || capture_plainly(shared, state, registers, gives))
}

/// Walks as far as the stack is new.
#[inline(never)]
fn take_steps(shared: &Shared, mut state: Entered, registers: &Registers, gives: bool) -> Option<Taken> {
    let settings = shared.settings();
    let (thread, here, generation) = (state.thread(), state.thread().native.get(), state.generation);
    let mut stacks = state.stacks(gives);
    let surroundings = Surroundings::new(shared, here, here, Some(generation));
    let reuse = settings.reuse && here.is_own();
    let strategy = settings.unwind.strategy();
    let taken = take(&surroundings, stacks.cache, &mut stacks.last, registers, strategy, reuse);
    thread.native.set(surroundings.here.get());
    let taken = taken?;
    if taken.end != End::Outermost || taken.guessed_from.is_some() {
        let outermost = taken.fresh.checked_sub(1).and_then(|last| stacks.last.fresh.get(last));
        note_end(shared, thread, taken.end, outermost.map_or(0, |frame| frame.pc), taken.guessed_from.is_some());
    }
    thread.count(TallyCounter::FramesVerified, taken.kept as u64);
    thread.count(TallyCounter::FramesWalked, taken.fresh as u64);
    Some(taken)
}

/// Interns a stack that was walked, and remembers it.
#[inline(never)]
fn intern_taken(shared: &Shared, mut state: Entered, registers: &Registers, gives: bool, taken: &Taken) -> Site {
    let (thread, generation) = (state.thread(), state.generation);
    let mut stacks = state.stacks(gives);
    let Some(site) = intern(shared, &mut stacks, taken, generation) else {
        stacks.last.forget();
        thread.count(TallyCounter::SitesFull, 1);
        return Site::NONE;
    };
    if taken.keeps && stacks.memo.pays() {
        let surroundings = Surroundings::new(shared, thread.native.get(), thread.native.get(), None);
        let Stacks { last, memo, cache, .. } = &mut stacks;
        memo.keep(&surroundings, cache, (last, taken.kept + taken.fresh), registers, stamp(generation));
    }
    site
}

#[inline(always)]
fn is_checked(shared: &Shared) -> bool {
    shared.settings().check_stacks || CHECK.is_set()
}

/// The call site of a stack in the trie: only frames that are new are looked up. (Not compiled into its caller: each of the two loops needs
/// all registers for itself.)
#[inline(never)]
fn intern(shared: &Shared, stacks: &mut Stacks, taken: &Taken, generation: u32) -> Option<Site> {
    let last = &mut stacks.last;
    let mut site = Site(last.node(taken.kept));
    if taken.fresh == 0 {
        return Some(site);
    }
    if taken.keeps {
        last.cut(taken);
    }
    for index in (0..taken.fresh).rev() {
        let frame = last.fresh.get(index)?;
        let code = match frame.tag {
            0 => shared.sites.code(shared.ledger(), &shared.modules, frame.pc, generation, None)?,
            tag => CodeId(tag),
        };
        site = shared.sites.site(shared.ledger(), site, code)?;
        if taken.keeps {
            last.keep(taken, index, site.0);
        }
    }
    Some(site)
}

/// Takes the stack whole and remembers nothing of it: on an alternate stack, where all registers have to be tracked,
/// and where the options say so.
#[cold]
#[inline(never)]
fn capture_plainly(shared: &Shared, mut state: Entered, registers: &Registers, gives: bool) -> Site {
    let settings = shared.settings();
    let (thread, generation) = (state.thread(), state.generation);
    let (is_on_alternate, native) = (thread.on_alternate.get(), thread.native.get());
    let stacks = state.stacks(gives);
    let here = if is_on_alternate { thread.alternate.get() } else { native };
    let mut surroundings = Surroundings::new(shared, here, native, Some(generation));
    surroundings.is_in_handler = is_on_alternate;
    let Stacks { pcs, cache, .. } = stacks;
    let mut found = match settings.unwind {
        Unwind::Slow => {
            let mut places = pcs.iter_mut();
            let mut sink = |pc| places.next().map(|place| *place = pc).is_some();
            walk_in_full(&surroundings, registers, Strategy::Auto, &mut sink)
        }
        how => walk(&surroundings, cache, registers, settings.depth_limit, how.strategy(), pcs),
    };
    if settings.unwind == Unwind::Fast && found.end != End::LimitReached && found.depth < settings.fallback {
        found = walk(&surroundings, cache, registers, settings.depth_limit, Strategy::Auto, pcs);
    }
    if !is_on_alternate {
        thread.native.set(surroundings.here.get());
    }
    let Walk { depth, end, guessed_from, restarted } = found;
    let frames = pcs.get(..depth).unwrap_or(&[]);
    note_end(shared, thread, end, frames.last().copied().unwrap_or(0), guessed_from.is_some());
    if restarted {
        thread.count(TallyCounter::StacksGeneral, 1);
    }
    thread.count(TallyCounter::FramesWalked, depth as u64);
    check_frames(registers, frames, end, guessed_from);
    // A walk with all registers tracked makes no rules, by which it could be told of its frames what they are.
    let is_plain = restarted || settings.unwind == Unwind::Slow;
    let rule_of = |address: u64| is_plain.then(|| resolve(&surroundings, address));
    let intern = || {
        frames.iter().rev().try_fold(Site::NONE, |site, address| {
            let rule = rule_of(*address).filter(|rule| matches!(rule.shape(), Shape::NoTable | Shape::Signal { .. }));
            let code = shared.sites.code(shared.ledger(), &shared.modules, *address, generation, rule)?;
            shared.sites.site(shared.ledger(), site, code)
        })
    };
    intern().unwrap_or_else(|| {
        thread.count(TallyCounter::SitesFull, 1);
        Site::NONE
    })
}

/// Counts what is not as it should be at the outer end of a stack.
#[cold]
fn note_end(shared: &Shared, thread: &ThreadState, end: End, outermost: u64, guessed: bool) {
    match end {
        End::Outermost => {}
        End::LimitReached => thread.count(TallyCounter::StacksCut, 1),
        _ if shared.modules.is_loader_start(outermost) => {}
        _ => thread.count(TallyCounter::StacksBroken, 1),
    }
    if guessed {
        thread.count(TallyCounter::StacksGuessed, 1);
    }
}

/// Compares a stack that was remembered.
#[cold]
#[inline(never)]
fn check_remembered(shared: &Shared, mut state: Entered, registers: &Registers) {
    let thread = state.thread();
    let Stacks { pcs, memo, cache, .. } = state.stacks(true);
    let surroundings = Surroundings::new(shared, thread.native.get(), thread.native.get(), None);
    let Some(found) = memo.find(&surroundings, cache, registers, stamp(shared.modules.generation())) else { return };
    let depth = found.callers as usize + 1;
    for (place, pc) in pcs.iter_mut().zip(core::iter::once(registers.ip).chain(memo.callers(&found))) {
        *place = pc;
    }
    check_whole(
        shared,
        thread,
        registers,
        pcs.get(..depth).unwrap_or(&[]),
        End::Outermost,
        found.is_guessed.then_some(0),
    );
}

/// Compares a stack that was taken by steps, or in part.
#[cold]
#[inline(never)]
fn check_taken(shared: &Shared, mut state: Entered, registers: &Registers, gives: bool, taken: &Taken) {
    let thread = state.thread();
    let Stacks { last, pcs, .. } = state.stacks(gives);
    let depth = taken.kept + taken.fresh;
    let fresh = last.fresh.iter().take(taken.fresh).map(|frame| frame.pc);
    for (place, pc) in pcs.iter_mut().zip(fresh.chain(last.pcs().take(taken.kept).rev())) {
        *place = pc;
    }
    check_whole(shared, thread, registers, pcs.get(..depth).unwrap_or(&[]), taken.end, taken.guessed_from);
}

/// Compares a stack with one taken in full, and with another unwinder's in test builds.
fn check_whole(
    shared: &Shared,
    thread: &ThreadState,
    registers: &Registers,
    frames: &[u64],
    end: End,
    guessed_from: Option<usize>,
) {
    check_frames(registers, frames, end, guessed_from);
    if !shared.settings().check_stacks {
        return;
    }
    let limit = shared.settings().depth_limit;
    let surroundings = Surroundings::new(shared, thread.native.get(), thread.native.get(), None);
    let (mut same, mut count) = (true, 0);
    let full = walk_in_full(&surroundings, registers, shared.settings().unwind.strategy(), &mut |pc| {
        let has_room = count < limit;
        same &= !has_room || frames.get(count) == Some(&pc);
        count += usize::from(has_room);
        has_room
    });
    same &= count == frames.len() && full.end == end;
    thread.count(TallyCounter::StacksCompared, 1);
    if !same {
        thread.count(TallyCounter::StacksDiffering, 1);
    }
}

fn check_frames(registers: &Registers, frames: &[u64], end: End, guessed_from: Option<usize>) {
    let Some(check) = CHECK.get() else { return };
    // Where code has no tables other unwinders stop: only what was not guessed can be compared.
    let sure = frames.get(..guessed_from.unwrap_or(frames.len())).unwrap_or(frames);
    check(registers, sure, end == End::Outermost && guessed_from.is_none());
}
