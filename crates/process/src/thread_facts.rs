//! Threads and accounts as they are told to the program: [`walk`](crate::walk) tells of the rest.
#![forbid(unsafe_code)]

use crate::access::{Access, Sign};
use crate::hooks;
use crate::ledger::CODEC;
use crate::marks::NotTold;
use crate::shared::Shared;
use crate::threads;
use core::sync::atomic::Ordering;
use heapledger_format::bytes::WordSize;
use heapledger_format::section::{thread, thread_state};
use heapledger_format::{SectionKind, ThreadRow, ThreadRowPlus1};
use heapledger_linux::text::Text;
use heapledger_linux::{apart, syscall};
use heapledger_unwind::Registers;

/// Bytes of a thread's name.
pub const NAME_BYTES: usize = 16;

/// A thread. Its order never changes, as that of [`BlockFacts`](crate::walk::BlockFacts).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ThreadFacts {
    /// What the program knows it by.
    pub handle: u64,
    /// Its number in the kernel.
    pub id: u32,
    /// 1: it is there.
    pub is_alive: u32,
    /// Filled up with zeros.
    pub name: [u8; NAME_BYTES],
}

/// What a thread has of a heap, where accounts are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct AccountFacts {
    /// The most bytes that it had.
    pub peak_bytes: u64,
    /// The thread's row, plus 1; 0: threads without one.
    pub thread_plus_1: u32,
    /// The heap's row.
    pub heap: u32,
}

/// What is known of a thread.
///
/// # Errors
/// If there is none in this row, or nothing is recorded.
pub fn thread(shared: &Shared, row: u32) -> Result<ThreadFacts, NotTold> {
    if !hooks::follows(shared) {
        return Err(NotTold::Off);
    }
    const BYTES: usize = thread::bytes(WordSize::W64);
    let rows = shared.ledger().section(SectionKind::Threads);
    if u64::from(row) >= rows.used() {
        return Err(NotTold::Unknown);
    }
    let mut words = [0; BYTES / 8];
    rows.copy_words((row as usize).wrapping_mul(rows.element_bytes() / 8), &mut words);
    let mut bytes = [0; BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    let get = |field| thread::get(CODEC, &bytes, field);
    let state = thread_state::of(get(thread::state) as u32);
    let id = get(thread::id) as u32;
    let mut facts = ThreadFacts { handle: get(thread::handle), id, ..ThreadFacts::default() };
    let name_at = thread::name(WordSize::W64);
    facts.name.iter_mut().zip(bytes.iter().skip(name_at)).for_each(|(place, byte)| *place = *byte);
    // That a thread is gone is noted later than it goes.
    let was_there = state == thread_state::ALIVE || state == thread_state::AT_EXIT;
    if was_there && syscall::thread_exists(syscall::getpid(), id) {
        facts.is_alive = 1;
        facts.name = name_now(id).unwrap_or(facts.name);
    }
    Ok(facts)
}

/// The name that a thread has at this moment: it may have got it after it was first seen.
fn name_now(id: u32) -> Option<[u8; NAME_BYTES]> {
    let mut path = Text::<64>::new();
    path.push(b"/proc/self/task/").push_number(id.into());
    path.push(b"/comm");
    let fd = syscall::open(path.c_str(), syscall::open_flag::READ, 0).ok()?;
    let mut name = [0; NAME_BYTES];
    let read = syscall::read(fd, &mut name);
    syscall::close(fd);
    let bytes = read.ok().filter(|bytes| *bytes > 0)?;
    for place in name.iter_mut().skip(bytes.saturating_sub(1)) {
        *place = 0; // from the line's end on
    }
    Some(name)
}

/// An account. `None`: there are no more.
pub fn account(shared: &Shared, index: u64) -> Option<AccountFacts> {
    if !hooks::follows(shared) || !shared.accounts.is_on() {
        return None;
    }
    let accounts = shared.ledger().section(SectionKind::Accounts);
    if index >= accounts.used() {
        return None;
    }
    let [whose, _, peak, ..]: &crate::folding::AccountWords = accounts.element(index);
    let whose = whose.load(Ordering::Acquire);
    let thread_plus_1 = ThreadRowPlus1(whose as u32).row().map_or(0, |row| row.0.wrapping_add(1));
    Some(AccountFacts { peak_bytes: peak.load(Ordering::Relaxed), thread_plus_1, heap: (whose >> 32) as u32 })
}

/// The row of the calling thread, which gets one if it has none.
///
/// # Errors
/// If it has none then either, or nothing is recorded.
pub fn own_row(shared: &'static Shared) -> Result<u32, NotTold> {
    if !hooks::follows(shared) {
        return Err(NotTold::Off);
    }
    let sign = Sign::new();
    let registers = Registers { sp: &raw const sign as u64, ..Registers::default() };
    apart::result_of(Err(NotTold::NoRoom), || {
        let mut access = Access::enter(shared, &registers, &sign).map_err(|_| NotTold::Busy)?;
        threads::refresh_name(&mut access.state);
        Some(access.state.row).filter(|row| *row < ThreadRow::OTHER).map(|row| row.0).ok_or(NotTold::NoRoom)
    })
}
