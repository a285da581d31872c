//! Who holds how much of which heap: an account for each thread and heap that ever met.
//!
//! How threads share an account is in `folding.rs`. Here is where its rows lie: an account's own and its inbox, both in the ledger, are
//! found by thread and heap in a table of private memory; a thread keeps those of its own accounts at hand, and the rows in
//! which it notes what it frees of others', a few that take turns.
//!
//! Threads without a row share an account, which all change by locked instructions.
#![forbid(unsafe_code)]

use crate::access::Access;
use crate::folding::{self, AccountWords, Amount, FreedWords};
use crate::ledger::Ledger;
use crate::private::{Alone, Run};
use crate::state::{HEAPS_MAX, ThreadBooks};
use core::sync::atomic::{AtomicU64, Ordering};
use heapledger_format::{SectionKind, TallyCounter, ThreadRow, ThreadRowPlus1};
use heapledger_linux::apart;
use heapledger_recorder::backend::{Backend as _, Slot};

/// Most accounts of a ledger.
pub(crate) const ACCOUNTS_MAX: u64 = 1 << 17;
/// Most rows of frees.
pub(crate) const FREED_ROWS_MAX: u64 = 1 << 20;
/// Rows in which a thread notes what it frees of others'.
const NOTED_MAX: usize = 16;

/// All accounts.
pub struct Accounts {
    /// By thread and heap: an account's row plus 1, and above that its inbox. The key is on top.
    index: Run<AtomicU64>,
}

const ACCOUNT_BITS: u32 = 18;
const _: () = assert!(ACCOUNTS_MAX < 1 << ACCOUNT_BITS && FREED_ROWS_MAX <= 1 << (folding::VALUE_BITS - ACCOUNT_BITS));

/// What a thread knows of accounts. All zeros: nothing.
pub(crate) struct AccountBooks {
    /// Its own in each of the first heaps; where there is no room for one, a place that takes what is lost. A place for each number that
    /// a heap can have, so that nobody has to look whether there is one: no more than the first of them are ever touched.
    own: [Option<&'static AccountWords>; 1 << u8::BITS],
    inboxes: [Option<&'static FreedWords>; HEAPS_MAX],
    /// Its rows of frees: the first, plus 1.
    first_row: u64,
    /// Of which account each is.
    noted: [FreedAccount; NOTED_MAX],
    /// Those that hold something: a bit for each.
    filled: u32,
}

#[derive(Clone, Copy)]
struct FreedAccount {
    /// Thread and heap; 0: none.
    key: u32,
    inbox: u32,
}

const NOBODY: FreedAccount = FreedAccount { key: 0, inbox: 0 };

impl AccountBooks {
    /// Another thread has these books now, or none. (Its rows of frees stay theirs.)
    pub(crate) fn begin_thread(&mut self) {
        self.own.iter_mut().zip(&mut self.inboxes).for_each(|(own, inbox)| (*own, *inbox) = (None, None));
        (self.noted, self.filled) = ([NOBODY; NOTED_MAX], 0);
    }
}

/// An account, and its inbox.
#[derive(Clone, Copy)]
struct Found {
    account: u64,
    inbox: u64,
}

impl Found {
    fn value(self) -> u64 {
        self.account.wrapping_add(1) | self.inbox << ACCOUNT_BITS
    }

    fn of(value: u64) -> Found {
        Found { account: (value & ((1 << ACCOUNT_BITS) - 1)).wrapping_sub(1), inbox: value >> ACCOUNT_BITS }
    }

    fn words(self, ledger: &Ledger) -> &AccountWords {
        ledger.section(SectionKind::Accounts).element(self.account)
    }

    fn inbox(self, ledger: &Ledger) -> &FreedWords {
        freed_row(ledger, self.inbox)
    }
}

fn freed_row(ledger: &Ledger, row: u64) -> &FreedWords {
    ledger.section(SectionKind::AccountFrees).element(row)
}

/// Not 0, and no more than 25 bits.
#[inline(always)]
fn key(thread: ThreadRow, heap: u8) -> u32 {
    (thread.0 << 8 | u32::from(heap)).wrapping_add(1)
}

/// As it stands in the ledger.
fn row_plus_1(thread: ThreadRow) -> u64 {
    let named = if thread == ThreadRow::OTHER { ThreadRowPlus1::WITHOUT_ROW } else { thread.into() };
    u64::from(named.0)
}

impl Accounts {
    /// No accounts.
    pub(crate) const fn new() -> Accounts {
        Accounts { index: Run::new() }
    }

    /// From now on there are some. False if there is no memory.
    pub(crate) fn start(&self, ledger: &Ledger) -> bool {
        let slots = ledger.section(SectionKind::Accounts).capacity().wrapping_mul(2).next_power_of_two();
        u32::try_from(slots).is_ok_and(|slots| self.index.map(slots).is_some())
    }

    /// Whether accounts are kept.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.index.count() != 0
    }

    /// Bytes of private memory that are present. Asks the kernel.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.index.resident_bytes()
    }

    /// Gives the memory back.
    pub(crate) fn unmap(&self, alone: &Alone) {
        self.index.unmap(alone);
    }

    fn find(&self, thread: ThreadRow, heap: u8) -> Option<Found> {
        folding::find(self.index.all(), key(thread, heap)).map(Found::of)
    }

    /// A new account of a thread and a heap; that of who was first, if there is one meanwhile.
    fn make(&self, ledger: &Ledger, thread: ThreadRow, heap: u8) -> Option<Found> {
        let account = ledger.lease(SectionKind::Accounts, 1)?;
        let inbox = ledger.lease(SectionKind::AccountFrees, 1)?;
        let fresh = Found { account, inbox };
        let found = Found::of(folding::put(self.index.all(), key(thread, heap), fresh.value())?);
        if found.account == account {
            let [whose, ..] = found.words(ledger);
            whose.store(row_plus_1(thread) | u64::from(heap) << 32, Ordering::Release);
            let [whose, ..] = found.inbox(ledger);
            whose.store(account.wrapping_add(1), Ordering::Release);
        }
        Some(found)
    }

    /// Tells the owners what a thread has freed of theirs, and takes over what others have freed of its own.
    pub(crate) fn fold(&self, ledger: &Ledger, state: &mut ThreadBooks) {
        if !self.is_on() {
            return;
        }
        let books = &mut state.accounts;
        let first_row = books.first_row.wrapping_sub(1);
        for (index, noted) in (0..NOTED_MAX as u64).zip(&books.noted) {
            if books.filled >> index & 1 != 0 {
                folding::push(freed_row(ledger, first_row.wrapping_add(index)), freed_row(ledger, noted.inbox.into()));
            }
        }
        books.filled = 0;
        for (own, inbox) in books.own.iter().zip(&books.inboxes) {
            if let (Some(own), Some(inbox)) = (own, inbox) {
                folding::pull(own, inbox);
            }
        }
    }
}

impl Access<'_> {
    /// Blocks of a heap are on the calling thread's account from now on.
    #[inline(always)]
    pub(crate) fn put_on_account(&mut self, heap: u8, amount: Amount) {
        match self.state.accounts.own.get(usize::from(heap)) {
            Some(Some(own)) => folding::begins(own, amount),
            // What is handed on fits into registers, so that nobody keeps it in memory for the sake of what is rare.
            _ if amount.blocks == 1 => {
                let bytes = amount.bytes;
                self.aside(move |access| access.put_on_new_account(heap, Amount { bytes, blocks: 1 }));
            }
            _ => self.aside(move |access| access.put_on_new_account(heap, amount)),
        }
    }

    #[inline(never)]
    fn put_on_new_account(&mut self, heap: u8, amount: Amount) {
        match self.shared.accounts.find(self.state.row, heap) {
            Some(found) => self.put_on_found_account(heap, found, amount),
            None => self.put_on_made_account(heap, amount),
        }
    }

    /// Apart from what looks and books: it stands on the program's stack while the ledger grows, far below the hook.
    #[cold]
    #[inline(never)]
    fn put_on_made_account(&mut self, heap: u8, amount: Amount) {
        let (shared, thread, mut made) = (self.shared, self.state.row, 0);
        apart::run(&mut || made = shared.accounts.make(shared.ledger(), thread, heap).map_or(0, Found::value));
        if made != 0 {
            return self.put_on_found_account(heap, Found::of(made), amount);
        }
        self.state.count(TallyCounter::AccountsLost, 1);
        if thread != ThreadRow::OTHER {
            let own = self.state.no_account();
            folding::begins(own, amount);
            self.keep_account(heap, own, None);
        }
    }

    #[inline(never)]
    fn put_on_found_account(&mut self, heap: u8, found: Found, amount: Amount) {
        let ledger = self.shared.ledger();
        let (own, inbox) = (found.words(ledger), found.inbox(ledger));
        if self.state.row == ThreadRow::OTHER {
            return folding::begins_shared(own, amount);
        }
        // Of heaps beyond the first it is looked for each time.
        folding::pull(own, inbox);
        folding::begins(own, amount);
        self.keep_account(heap, own, Some(inbox));
    }

    fn keep_account(&mut self, heap: u8, own: &'static AccountWords, inbox: Option<&'static FreedWords>) {
        let books = &mut self.state.accounts;
        if let (Some(kept), Some(kept_inbox)) =
            (books.own.get_mut(usize::from(heap)), books.inboxes.get_mut(usize::from(heap)))
        {
            (*kept, *kept_inbox) = (Some(own), inbox);
        }
    }

    /// The block whose record is in a slot is on nobody's account any more.
    #[inline(always)]
    pub(crate) fn take_off_account(&mut self, slot: Slot, amount: Amount) {
        let (thread, heap) = self.whose(slot);
        match self.state.accounts.own.get(usize::from(heap)) {
            Some(Some(own)) if thread == self.state.row => folding::ends(own, amount),
            // As above.
            _ if amount.blocks == 1 => {
                let bytes = amount.bytes;
                self.aside(move |access| access.take_off_anothers(slot, Amount { bytes, blocks: 1 }));
            }
            _ => self.aside(move |access| access.take_off_anothers(slot, amount)),
        }
    }

    /// The thread that has allocated the block in a slot, and its heap.
    #[inline(always)]
    fn whose(&self, slot: Slot) -> (ThreadRow, u8) {
        let [commit, address, ..] = self.shared.record(slot);
        let thread = ThreadRow((commit.load(Ordering::Relaxed) >> 48) as u32);
        (thread, (address.load(Ordering::Relaxed) >> 56) as u8)
    }

    #[inline(never)]
    fn take_off_anothers(&mut self, slot: Slot, amount: Amount) {
        let (thread, heap) = self.whose(slot);
        let ledger = self.shared.ledger();
        let key = key(thread, heap);
        let index = ((thread.0 ^ u32::from(heap) << 2) as usize) % NOTED_MAX;
        let books = &mut self.state.accounts;
        let is_noted = books.noted.get(index).is_some_and(|noted| noted.key == key);
        if is_noted || self.take_row(thread, heap, index, amount) {
            let books = &mut self.state.accounts;
            books.filled |= 1 << index;
            folding::note(freed_row(ledger, books.first_row.wrapping_sub(1).wrapping_add(index as u64)), amount);
        }
    }

    /// Lets one of the thread's rows be of another account from now on. False if what was freed is on that already, or lost with it.
    #[cold]
    #[inline(never)]
    fn take_row(&mut self, thread: ThreadRow, heap: u8, index: usize, amount: Amount) -> bool {
        let ledger = self.shared.ledger();
        // One that found no room was counted.
        let Some(found) = self.shared.accounts.find(thread, heap) else { return false };
        let own_row = self.state.row;
        if thread == ThreadRow::OTHER {
            folding::ends_shared(found.words(ledger), amount, own_row == ThreadRow::OTHER);
            return false;
        }
        if thread == own_row {
            folding::ends(found.words(ledger), amount);
            return false;
        }
        let books = &mut self.state.accounts;
        if books.first_row == 0 {
            // The other half is kept for new accounts.
            let end_max = ledger.section(SectionKind::AccountFrees).capacity() / 2;
            let lease = || ledger.lease_within(SectionKind::AccountFrees, NOTED_MAX as u64, end_max);
            let first = apart::result_of(None, lease);
            books.first_row = first.map_or(0, |first| first.wrapping_add(1));
        }
        let (Some(first), Some(noted)) = (books.first_row.checked_sub(1), books.noted.get_mut(index)) else {
            folding::add_to_inbox(found.inbox(ledger), amount);
            return false;
        };
        let row = freed_row(ledger, first.wrapping_add(index as u64));
        if noted.key != 0 {
            folding::push(row, freed_row(ledger, noted.inbox.into()));
        }
        let [whose, ..] = row;
        whose.store(found.account.wrapping_add(1) | row_plus_1(own_row) << 32, Ordering::Release);
        *noted = FreedAccount { key: key(thread, heap), inbox: found.inbox as u32 };
        true
    }
}
