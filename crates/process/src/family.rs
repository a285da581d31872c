//! Children of the recorded process that are recorded, too, each in a ledger of its own: `run --children`.
//!
//! What another program starts finds the variable in its environment. A forked child has no program of its own: it begins at its first
//! call after the fork, from a copy of the variable that its parent has kept, since programs clear their environment.
//!
//! A child that is in the middle of a hook (a signal handler forked there) waits until it is not: the hook goes on in the parent's
//! ledger, which the child still has in its memory. What such a hook carries across a real call says which fork it is of
//! ([`forks`]), and counts for nothing in another ledger.
#![forbid(unsafe_code)]

use crate::access::Access;
use crate::anew;
use crate::arenas;
use crate::frees;
use crate::guarded::GUARD;
use crate::life;
use crate::once::{Early, Starting};
use crate::options::Request;
use crate::place::push_ledger_dir;
use crate::private::Passing;
use crate::reallocation::Reallocation;
use crate::shared::{Phase, Shared};
use crate::start::{self, NotStarted};
use crate::state::ThreadState;
use core::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use heapledger_format::family::{ForkCut, InheritedFree, children_match};
use heapledger_format::guard::Kept;
use heapledger_format::session::{self, ending};
use heapledger_format::{Kind, SectionKind, Site, TallyCounter, Ticks, Word, WordSize};
use heapledger_guard::Life;
use heapledger_linux::memory::PATH_BYTES_MAX;
use heapledger_linux::syscall::{self, open_flag};
use heapledger_linux::text::Text;
use heapledger_linux::{apart, process};
use heapledger_unwind::Registers;

/// Frees of a parent's blocks that are noted; others are counted as of unknown blocks.
pub(crate) const INHERITED_MAX: u64 = 1 << 20;

/// How many times this process, and what it was forked from, has begun anew.
static FORKS: AtomicU16 = AtomicU16::new(0);
/// What the person asked for.
static WISH: Early<Text<{ session::VARIABLE_BYTES_MAX }>> = Early::new(Text::new());

/// The id of this process's ledger, when that began, in nanoseconds since 1970, and the process's number: for children.
static PARENT: Early<([u8; 16], u64, u32)> = Early::new(([0; 16], 0, 0));

/// The path of the program's file, as it was found by the first process that began: its forked children have the same.
static EXECUTABLE: Early<Text<1024>> = Early::new(Text::new());
/// What the program was called when the first process began. Forked children are called so, too: by then they, or that, may have written a title
/// over the arguments.
static CALLED: Early<Text<256>> = Early::new(Text::new());
/// The number of the process that has begun last here, and that of the namespace in which that is its number; 0: not known.
static NUMBERED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// The path of the program's file; empty if unknown.
pub(crate) fn executable(starting: &mut Starting) -> &'static [u8] {
    if EXECUTABLE.get().bytes().is_empty() {
        EXECUTABLE.change(starting, |path| *path = process::executable());
    }
    EXECUTABLE.get().bytes()
}

/// Finds out what the program is called.
pub(crate) fn name(starting: &mut Starting, executable: &[u8], has_run: bool) -> &'static [u8] {
    if CALLED.get().bytes().is_empty() {
        CALLED.change(starting, |name| *name = process::program(executable, has_run));
    }
    called()
}

/// What it is called; empty if unknown.
pub(crate) fn called() -> &'static [u8] {
    CALLED.get().bytes()
}

/// The number of the namespace in which this process has its number. A forked child that sees its parent by the number which that has by itself
/// is in the same one: from another one its parent is not to be seen.
pub(crate) fn pid_namespace() -> Option<u64> {
    let [pid, namespace] = &NUMBERED;
    let known = namespace.load(Ordering::Relaxed);
    if known == 0 || u64::from(syscall::getppid()) != pid.load(Ordering::Relaxed) {
        namespace.store(process::pid_namespace().unwrap_or(0), Ordering::Relaxed);
    }
    pid.store(syscall::getpid().into(), Ordering::Relaxed);
    Some(namespace.load(Ordering::Relaxed)).filter(|number| *number != 0)
}

/// What a forked child that is recorded by itself knows of its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkedFrom {
    /// The id of its ledger.
    pub ledger: [u8; 16],
    /// When the child noticed it, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// Its number.
    pub pid: u32,
}

/// A number that is another one in each process of a family that was forked from one another.
#[inline(always)]
pub(crate) fn forks() -> u16 {
    FORKS.load(Ordering::Relaxed)
}

/// The same, as it is kept beside blocks that have ended.
pub(crate) fn forks_kept() -> u8 {
    forks().min(Kept::FORKS_MAX.into()) as u8
}

/// Which of this process' ancestors has kept something: 0 itself, 1 its parent. `None` if that is not known any more.
pub(crate) fn ancestor(kept: &Kept) -> Option<u16> {
    match kept.forks {
        Kept::FORKS_MAX => None,
        then => forks().checked_sub(then.into()),
    }
}

/// Another one from now on.
pub(crate) fn has_forked() {
    FORKS.store(forks().wrapping_add(1), Ordering::Relaxed);
}

/// Keeps what forked children will need.
#[inline(never)]
pub(crate) fn keep_wish(starting: &mut Starting, request: &Request) {
    if request.children.bytes().is_empty() || forks() != 0 {
        return;
    }
    let value = process::environment::<{ session::VARIABLE_BYTES_MAX }>(session::VARIABLE.as_bytes());
    WISH.change(starting, |wish| *wish = value.unwrap_or_default());
}

/// Keeps what a child says of its parent.
pub(crate) fn keep_own(starting: &mut Starting, id: [u8; 16], start_unix_ns: u64) {
    PARENT.change(starting, |parent| *parent = (id, start_unix_ns, syscall::getpid()));
}

/// What becomes of forked children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ForkedChildren {
    /// Nothing.
    PassBy = 0,
    /// They leave a word that they are not recorded: see [`Request::notes_children`].
    Noted,
    /// They are recorded by themselves.
    Begin,
}

impl ForkedChildren {
    /// What was asked for.
    pub(crate) fn of(request: &Request) -> ForkedChildren {
        if !request.children.bytes().is_empty() {
            ForkedChildren::Begin
        } else if request.notes_children || request.session.is_some() {
            ForkedChildren::Noted
        } else {
            ForkedChildren::PassBy
        }
    }
}

/// Tells of the row, the next number and the time of its lease of each thread.
type EachCut<'a> = &'a dyn Fn(&mut dyn FnMut(usize, u64, Ticks));

/// What is to become of a process that is not the one that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// It is recorded.
    Yes,
    /// It is not, and nobody asked for it.
    NotChosen,
    /// It is not, and that is to be told.
    Refused,
}

/// Whether this process is to be recorded as a child of the one that was started.
pub(crate) fn wanted(request: &Request, session: u64) -> Wanted {
    if request.children.bytes().is_empty() {
        return Wanted::Refused;
    }
    // To look for its name takes as long as much of what begins then.
    if request.children.bytes() != b"*" && !is_chosen(request) {
        return Wanted::NotChosen;
    }
    if is_full(request, session) { Wanted::Refused } else { Wanted::Yes }
}

/// Whether the process is called as one of those that are asked for.
#[inline(never)]
fn is_chosen(request: &Request) -> bool {
    let exe = process::executable::<PATH_BYTES_MAX>();
    let is = |name: &[u8]| children_match(request.children.bytes(), name);
    let name = exe.bytes().rsplit(|byte| *byte == b'/').next().unwrap_or(&[]);
    // A script goes by its interpreter's name, or its own.
    is(name) || is(process::program::<256>(exe.bytes(), false).bytes())
}

/// Whether `run` wants no more of them.
fn is_full(request: &Request, session: u64) -> bool {
    let Some(dir) = request.dir() else { return false };
    let mut path = Text::<PATH_BYTES_MAX>::new();
    push_ledger_dir(&mut path, dir);
    path.push(b"/").push_hex(session).push(ending::FULL.as_bytes());
    let found = syscall::open(path.c_str(), open_flag::NO_FOLLOW | open_flag::CLOSE_ON_EXEC, 0);
    found.map(syscall::close).is_ok()
}

/// Nothing is recorded here: if that is because this is a forked child, it says so, once, or is recorded by itself from now on. True if
/// that has begun.
#[inline]
pub fn note_fork(shared: &'static Shared) -> bool {
    if shared.phase.load(Ordering::Relaxed) != Phase::On as u8 || shared.switch.follows() {
        return false;
    }
    if shared.settings().forked_children == ForkedChildren::Begin {
        return begin(shared);
    }
    start::note_forked_child(shared);
    false
}

/// Whether blocks of the ledger are followed in this process: from now on, if it is a forked child whose first call this is.
#[inline]
pub fn follows(shared: &'static Shared) -> bool {
    shared.switch.follows() || note_fork(shared)
}

/// The same as [`note_fork`], before the process forbids itself what that takes: if it cannot begin now, it never will.
#[cold]
pub fn note_fork_for_good(shared: &'static Shared) {
    if !note_fork(shared) && is_to_begin(shared) {
        let (on, off) = (Phase::On as u8, Phase::Off as u8);
        let _ = shared.phase.compare_exchange(on, off, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// In a forked child that nobody has recorded yet: whether it is recorded by itself from now on.
#[cold]
#[inline(never)]
pub fn begin(shared: &'static Shared) -> bool {
    if !is_to_begin(shared) || ThreadState::of_this_thread().is_some_and(ThreadState::is_guarded) {
        return false; // when it is not inside of a hook any more
    }
    apart::forget_others();
    let here = 0u8;
    let stack_pointer = &raw const here as usize;
    let mut has_begun = false;
    apart::run_in(life::ROOM_BYTES, &mut || has_begun = begin_here(shared, stack_pointer)) && has_begun
}

/// Whether this process is a child that may begin, once its thread is not inside of a hook.
pub(crate) fn is_to_begin(shared: &Shared) -> bool {
    let is_child = shared.phase.load(Ordering::Acquire) == Phase::On as u8 && !shared.switch.follows();
    is_child && shared.settings().forked_children == ForkedChildren::Begin
}

#[inline(never)]
fn begin_here(shared: &'static Shared, stack_pointer: usize) -> bool {
    let mut request = Request::default().under(WISH.get().bytes());
    request.begins_late = true;
    let (ledger, start_unix_ns, pid) = *PARENT.get();
    request.forked = Some(ForkedFrom { ledger, unix_ns: start_unix_ns.wrapping_add(shared.clock.now_ns()), pid });
    let mut begun = Err(NotStarted::Again);
    life::with_hooks(&mut |hooks| begun = anew::begin_in_child(shared, hooks, &request, stack_pointer));
    if let Err(why) = begun {
        why.complain();
    }
    begun.is_ok()
}

/// Where a fork lies in the numbers of the parent's threads, taken before the parent's tables go.
pub(crate) struct Cuts {
    /// Of the first rows: most programs that fork have few threads, and mapping memory for these takes longer than all else that is done here.
    first: [[u64; 2]; Cuts::FIRST],
    /// Of those behind them, if there are any.
    others: Option<Passing<[u64; 2]>>,
}

impl Cuts {
    const FIRST: usize = 8;

    /// Looks at all states that the parent's threads had. `each` tells of the row, the next number and the time of each; of each row is kept
    /// the next number plus 1, and the time of its lease.
    pub(crate) fn taken(each: EachCut<'_>) -> Cuts {
        let mut count = 0;
        each(&mut |row, _, _| count = row.wrapping_add(1).max(count));
        let others = count.checked_sub(Cuts::FIRST).filter(|more| *more != 0).and_then(Passing::new);
        let mut cuts = Cuts { first: [[0; 2]; Cuts::FIRST], others };
        each(&mut |row, number, time| {
            let cut = match row.checked_sub(Cuts::FIRST) {
                None => cuts.first.get_mut(row),
                Some(behind) => cuts.others.as_mut().and_then(|others| others.all().get_mut(behind)),
            };
            if let Some(cut) = cut {
                *cut = [number.wrapping_add(1), time.0];
            }
        });
        cuts
    }

    /// Writes them to the child's ledger.
    pub(crate) fn write(mut self, shared: &Shared) {
        let others = self.others.as_mut().map_or(&mut [][..], Passing::all);
        let last = self.first.iter().rposition(|cut| *cut != [0; 2]).map_or(0, |last| last.wrapping_add(1));
        let first = if others.is_empty() { last } else { Cuts::FIRST };
        for [number_plus_1, time] in self.first.iter().take(first).chain(others.iter()) {
            let cut = ForkCut { number_plus_1: Word(*number_plus_1), time: Word(*time) };
            let mut element = [0; CUT_BYTES];
            cut.write(crate::ledger::CODEC, &mut element);
            if shared.ledger().enter(SectionKind::Cut, &element).is_none() {
                return;
            }
        }
    }
}

/// Bytes of an element of `cut`.
pub(crate) const CUT_BYTES: usize = 16;
/// Bytes of an element of `inherited`.
pub(crate) const INHERITED_BYTES: usize = 40;

impl Access<'_> {
    /// Notes that a block ends which this process has not allocated: its parent had. False if that is certainly none.
    #[cold]
    #[inline(never)]
    pub(crate) fn inherited_ends(&mut self, address: u64, by: Kind, site: Site) -> bool {
        if !is_inherited(address as usize) {
            self.state.count(TallyCounter::UnknownFrees, 1);
            return false;
        }
        self.inherited_has_ended(address, by, site);
        true
    }

    /// The same of a block that certainly was a parent's.
    fn inherited_has_ended(&mut self, address: u64, by: Kind, site: Site) {
        let shared = self.shared;
        let free = InheritedFree {
            number_plus_1: Word(self.state.next_number.wrapping_add(1)),
            address: Word(address),
            time: shared.now(),
            site,
            thread: self.state.row.into(),
            by: u32::from(by.0),
            reserved: 0,
        };
        arenas::annotate_inherited(&free);
        let mut element = [0; INHERITED_BYTES];
        debug_assert_eq!(InheritedFree::bytes(WordSize::W64), element.len());
        free.write(crate::ledger::CODEC, &mut element);
        if apart::result_of(None, || shared.ledger().enter(SectionKind::Inherited, &element)).is_none() {
            self.state.count(TallyCounter::UnknownFrees, 1);
        }
    }
}

/// In a forked child: whether an address that the ledger does not know is a block of its parent's. Where blocks are guarded they say so
/// themselves; else nobody knows, and it is taken for one.
pub(crate) fn is_inherited(address: usize) -> bool {
    if arenas::contains(address) {
        return arenas::lookup(address as u64).is_some_and(|block| block.offset == 0 && block.life == Life::Live);
    }
    !GUARD.knows_all() || GUARD.begins(address)
}

/// In a forked child: how the block of its parent's ended that began here, if this process has ended it. Most recent first.
pub(crate) fn inherited_free(shared: &Shared, address: u64) -> Option<InheritedFree> {
    const WORDS: usize = INHERITED_BYTES / 8;
    if !shared.settings().is_forked {
        return None;
    }
    let section = shared.ledger().section(SectionKind::Inherited);
    let used = section.used().min(section.backed()) as usize;
    (0..used).rev().find_map(|index| {
        let mut words = [0; WORDS];
        section.copy_words(index.wrapping_mul(WORDS), &mut words);
        let mut element = [0; INHERITED_BYTES];
        for (place, word) in element.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        InheritedFree::read(crate::ledger::CODEC, &element).filter(|free| free.address.0 == address)
    })
}

/// In a forked child: `realloc` has given a block for one that is not in the ledger. What was known of that when the call began is
/// asked, for by now the memory may be somebody else's.
#[cold]
#[inline(never)]
pub(crate) fn old_block_ends(
    access: &mut Access,
    registers: &Registers,
    begun: &Reallocation,
    (address, by): (usize, Kind),
) {
    if begun.is_of_inherited() {
        let site = frees::site_apart(access, registers);
        access.inherited_has_ended(address as u64, by, site);
    } else if address != 0 && access.shared.settings().sample == 0 {
        access.state.count(TallyCounter::UnknownFrees, 1);
    }
}
