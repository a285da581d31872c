//! Taking the stack of a call.
#![forbid(unsafe_code)]

use crate::entry;
use crate::once::Noted;
use crate::options::Unwind;
use crate::shared::Shared;
use crate::sites::StackPath;
use crate::state::{Entered, ThreadBooks, ThreadState, last_of};
use crate::surroundings::{Surroundings, still_hold};
use core::cell::Cell;
use heapledger_format::{CodeId, Site, TallyCounter};
use heapledger_linux::apart;
use heapledger_linux::stack::StackRange;
use heapledger_recorder::backend::CallEffect;
use heapledger_unwind::{
    Candidate, End, Registers, Remembered, RuleCache, Shape, Strategy, Walk, resolve, take, walk, walk_frames,
    walk_in_full,
};

/// Whether a frame of [our own code](crate::entry) lies on the stack outside of `registers`: then a hook was interrupted.
/// Where that cannot be told, it is assumed. Uses nothing that an interrupted hook may have left half done.
#[cold]
pub fn own_code_is_on_stack(shared: &Shared, stack: StackRange, registers: &Registers) -> bool {
    const FRAMES: usize = 96;
    const SETS: usize = 4;
    let stack = Cell::new(stack);
    let surroundings = Surroundings::new(shared, &stack, None);
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
    let stack = Cell::new(stack);
    let surroundings = Surroundings::new(shared, &stack, None);
    let mut frames = [0; FRAMES];
    let mut cache = RuleCache::<SETS>::new();
    let walk = walk(&surroundings, &mut cache, registers, FRAMES, Strategy::Tables, &mut frames);
    frames.iter().take(walk.depth).any(|frame| shared.modules.is_loader(*frame as usize))
}

/// Tells the frames of a stack, with the stack pointer of each, and remembers nothing.
#[cold]
pub(crate) fn each_frame(shared: &Shared, thread: &ThreadState, registers: &Registers, tell: &mut dyn FnMut(u64, u64)) {
    let mut here = || {
        let surroundings = Surroundings::new(shared, &thread.native, None);
        walk_frames(&surroundings, registers, shared.settings().unwind.strategy(), &mut |pc, sp| {
            tell(pc, sp);
            true
        });
    };
    apart::run(&mut here);
}

/// Compares a stack with what another unwinder says, in test builds.
pub type Check = fn(registers: &Registers, frames: &[u64], complete: bool);

static CHECK: Noted<Check> = Noted::new();

/// Has every stack checked from now on.
pub fn set_check(check: &'static Check) {
    CHECK.set(check);
}

/// The call site that leads to `registers`; none if there is no room for it. `is_usual`: see [`crate::shared::Settings`].
#[inline(always)]
pub fn capture(shared: &Shared, state: Entered, registers: &Registers, effect: CallEffect, is_usual: bool) -> Site {
    let generation = shared.modules.generation();
    // A stack on the alternate stack is not among them: its stack pointer is not.
    // Of a stack that is not the thread's own nobody knows the end, nor when it goes: nothing of it is remembered.
    let thread = state.thread();
    if !thread.on_alternate.get()
        && thread.native.get().is_own()
        && !(CHECK.is_set() || !is_usual && shared.settings().check_stacks)
        && let Some(Candidate { words, found }) = state.memo.noted(registers, stamp(generation))
        && still_hold(thread.native.get(), &words)
    {
        return remembered(thread, &found);
    }
    capture_anew(shared, state, registers, effect)
}

/// The call site of a stack that is not the one last taken from such a place. One after the other, not one inside of the other: that
/// takes less stack.
#[cold]
#[inline(never)]
fn capture_anew(shared: &Shared, mut state: Entered, registers: &Registers, effect: CallEffect) -> Site {
    if let Some(site) = capture_elsewhere(shared, state.again(), registers) {
        return site;
    }
    if !take_steps(shared, state.again(), registers, effect) {
        return capture_frames(shared, state, registers, usize::MAX);
    }
    match intern(shared, state.again(), effect) {
        Some(site) => remember(shared, state, registers, effect, site),
        None => without_room(state, effect),
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
        let surroundings = Surroundings::new(shared, &thread.native, None);
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

/// The call site of at most so many frames of the stack, the innermost ones.
#[cold]
#[inline(never)]
pub(crate) fn capture_frames(shared: &Shared, state: Entered, registers: &Registers, frames: usize) -> Site {
    apart::result_of(Site::NONE, || capture_plainly(shared, state, registers, frames))
}

/// Walks as far as the stack is new; the result is in the books. `false`: it has to be taken whole.
#[inline(never)]
fn take_steps(shared: &Shared, mut state: Entered, registers: &Registers, effect: CallEffect) -> bool {
    let generation = shared.modules.generation();
    if state.generation != generation {
        state.forget_code();
        state.generation = generation;
    }
    let (thread, settings) = (state.thread(), shared.settings());
    if thread.on_alternate.get() || !settings.unwind.remembers() {
        return false;
    }
    let surroundings = Surroundings::new(shared, &thread.native, Some(generation));
    let reuse = settings.reuse && thread.native.get().is_own();
    let strategy = settings.unwind.strategy();
    let ThreadBooks { last, fresh, cache, taken, .. } = &mut *state;
    let stacks = (&*last_of(last, effect), &mut **fresh);
    let Some(new) = take(&surroundings, cache, stacks, registers, strategy, reuse) else { return false };
    if new.end != End::Outermost || new.guessed_from.is_some() {
        let outermost = new.fresh.checked_sub(1).and_then(|last| fresh.get(last));
        note_end(shared, thread, new.end, outermost.map_or(0, |frame| frame.pc), new.guessed_from.is_some());
    }
    thread.count(TallyCounter::FramesVerified, new.kept as u64);
    thread.count(TallyCounter::FramesWalked, new.fresh as u64);
    *taken = new;
    true
}

/// Remembers the stack that was taken and leads to a call site.
#[inline(never)]
fn remember(shared: &Shared, mut state: Entered, registers: &Registers, effect: CallEffect, site: Site) -> Site {
    let (thread, generation) = (state.thread(), state.generation);
    let ThreadBooks { last, cache, memo, taken, .. } = &mut *state;
    if taken.keeps && memo.pays() {
        memo.choose(&Surroundings::new(shared, &thread.native, None), cache, registers);
        memo.keep((last_of(last, effect), taken.kept.wrapping_add(taken.fresh)), registers, stamp(generation));
    }
    if site != Site::NONE && is_checked(shared) {
        check_taken(shared, state, registers, effect);
    }
    site
}

/// There is no call site for the stack that was taken.
#[cold]
#[inline(never)]
fn without_room(mut state: Entered, effect: CallEffect) -> Site {
    last_of(&mut state.last, effect).forget();
    state.count(TallyCounter::SitesFull, 1);
    Site::NONE
}

#[inline(always)]
fn is_checked(shared: &Shared) -> bool {
    shared.settings().check_stacks || CHECK.is_set()
}

/// The call site of the stack that was taken, in the trie: only frames that are new are looked up.
#[inline(never)]
fn intern(shared: &Shared, mut state: Entered, effect: CallEffect) -> Option<Site> {
    let generation = state.generation;
    let ThreadBooks { last, fresh, taken, .. } = &mut *state;
    let last = last_of(last, effect);
    let (node, hash) = last.node(taken.kept);
    let mut path = StackPath { site: Site(node), hash };
    if taken.fresh == 0 {
        return Some(path.site);
    }
    shared.sites.fetch_soon(path, fresh.get(..taken.fresh)?.iter().rev().map(|frame| CodeId(frame.tag)));
    if taken.keeps {
        last.cut(taken);
    }
    for index in (0..taken.fresh).rev() {
        let frame = fresh.get(index)?;
        let code = match frame.tag {
            0 => shared.sites.code(shared.ledger(), &shared.modules, frame.pc, generation, None)?,
            tag => CodeId(tag),
        };
        path = shared.sites.inwards(shared.ledger(), path, code)?;
        if taken.keeps {
            last.keep(taken, *frame, (path.site.0, path.hash));
        }
    }
    Some(path.site)
}

/// Takes the stack whole and remembers nothing of it: on an alternate stack, where all registers have to be tracked,
/// and where the options say so.
#[cold]
#[inline(never)]
fn capture_plainly(shared: &Shared, mut state: Entered, registers: &Registers, frames: usize) -> Site {
    let settings = shared.settings();
    let limit = frames.min(settings.depth_limit);
    let (thread, generation) = (state.thread(), state.generation);
    let (alternate, native) = (Cell::new(thread.alternate.get()), Cell::new(thread.native.get()));
    let mut surroundings = Surroundings::new(shared, &thread.native, Some(generation));
    if thread.on_alternate.get() {
        (surroundings.here, surroundings.below_handler) = (&alternate, Some(&native));
    }
    let ThreadBooks { pcs, cache, .. } = &mut *state;
    let mut found = match settings.unwind {
        Unwind::Slow => {
            let mut places = pcs.iter_mut().take(limit);
            let mut sink = |pc| places.next().map(|place| *place = pc).is_some();
            walk_in_full(&surroundings, registers, Strategy::Auto, &mut sink)
        }
        how => walk(&surroundings, cache, registers, limit, how.strategy(), pcs),
    };
    if settings.unwind == Unwind::Fast && found.end != End::LimitReached && found.depth < settings.fallback {
        found = walk(&surroundings, cache, registers, limit, Strategy::Auto, pcs);
    }
    let Walk { depth, end, guessed_from, restarted } = found;
    let frames = pcs.get(..depth).unwrap_or(&[]);
    // What was cut on purpose is not counted.
    if end != End::LimitReached || limit == settings.depth_limit {
        note_end(shared, thread, end, frames.last().copied().unwrap_or(0), guessed_from.is_some());
    }
    if restarted {
        thread.count(TallyCounter::StacksGeneral, 1);
    }
    thread.count(TallyCounter::FramesWalked, depth as u64);
    check_frames(&surroundings, registers, frames, (end, guessed_from));
    // A walk with all registers tracked makes no rules, by which it could be told of its frames what they are.
    let is_plain = restarted || settings.unwind == Unwind::Slow;
    let rule_of = |address: u64| is_plain.then(|| resolve(&surroundings, address));
    let intern = || {
        frames.iter().rev().try_fold(StackPath::ROOT, |outer, address| {
            let rule = rule_of(*address).filter(|rule| matches!(rule.shape(), Shape::NoTable | Shape::Signal { .. }));
            let code = shared.sites.code(shared.ledger(), &shared.modules, *address, generation, rule)?;
            shared.sites.inwards(shared.ledger(), outer, code)
        })
    };
    intern().map(|path| path.site).unwrap_or_else(|| {
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
    let ThreadBooks { pcs, memo, cache, .. } = &mut *state;
    let surroundings = Surroundings::new(shared, &thread.native, None);
    let Some(found) = memo.find(&surroundings, cache, registers, stamp(shared.modules.generation())) else { return };
    let depth = (found.callers as usize).wrapping_add(1);
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
fn check_taken(shared: &Shared, mut state: Entered, registers: &Registers, effect: CallEffect) {
    let thread = state.thread();
    let ThreadBooks { last, fresh, taken, pcs, .. } = &mut *state;
    let last = last_of(last, effect);
    let depth = taken.kept.wrapping_add(taken.fresh);
    let fresh = fresh.iter().take(taken.fresh).map(|frame| frame.pc);
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
    let surroundings = Surroundings::new(shared, &thread.native, None);
    check_frames(&surroundings, registers, frames, (end, guessed_from));
    if !shared.settings().check_stacks {
        return;
    }
    let limit = shared.settings().depth_limit;
    let (mut same, mut count) = (true, 0);
    let full = walk_in_full(&surroundings, registers, shared.settings().unwind.strategy(), &mut |pc| {
        let has_room = count < limit;
        same &= !has_room || frames.get(count) == Some(&pc);
        count = count.wrapping_add(usize::from(has_room));
        has_room
    });
    same &= count == frames.len() && full.end == end;
    thread.count(TallyCounter::StacksCompared, 1);
    if !same {
        thread.count(TallyCounter::StacksDiffering, 1);
    }
}

fn check_frames(
    surroundings: &Surroundings,
    registers: &Registers,
    frames: &[u64],
    (end, guessed_from): (End, Option<usize>),
) {
    let Some(check) = CHECK.get() else { return };
    // Where code has no tables other unwinders stop: only what lies inside of it can be compared.
    let has_no_table = |pc: &u64| matches!(resolve(surroundings, *pc).shape(), Shape::NoTable | Shape::ByCode);
    let left = frames.iter().position(has_no_table).map(|last| last.wrapping_add(1)).into_iter().chain(guessed_from);
    let sure = left.min().unwrap_or(usize::MAX).min(frames.len());
    check(registers, frames.get(..sure).unwrap_or(frames), end == End::Outermost && sure == frames.len());
}
