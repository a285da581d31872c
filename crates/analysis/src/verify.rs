//! Whether what lies around a program's blocks is whole, seen from outside: the guard's tables in its memory lead to the blocks.
//!
//! The program goes on meanwhile. What looks damaged is looked at again, with memory that is read anew, when all else was seen: damage
//! is what is still there then, on the same block. Who allocated it and who freed it, the ledger says.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use heapledger_format::errors::{
    Direction, ErrorEntry, ErrorKind, ErrorStack, FoundAt, FoundBy, Neighbour, StackTag, Whereabouts,
};
use heapledger_format::guard::{GuardTables, Kept};
use heapledger_format::session::{guard, process as key};
use heapledger_format::{Entry, ThreadRow, ThreadRowPlus1, Ticks};
use heapledger_guard::{
    Bits, Checked, Damage, Finding, Life, Memory, NextBit, Region, Rows, RowsOf, Secret, Width, check,
};
use heapledger_source::{FoundError, Ledger, ProgramMemory, SourceError};

use crate::whereis::{KnownAddress, KnownAddresses};

mod cached;
mod chip;

pub use chip::verify_chip;

use cached::Cached;

/// Damaged blocks that are told at most: as many as a ledger has errors.
const DAMAGED_MAX: usize = 1024;
/// So often a block that looks damaged is looked at again, and so long after each time.
const LOOKS: usize = 8;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);
/// Blocks that may look damaged at most, before they are looked at again.
const SUSPECTS_MAX: usize = 16 * DAMAGED_MAX;
/// Between two looks: a thread that was in the middle of something has got on.
const BETWEEN: Duration = Duration::from_millis(20);
/// So long all of it may take: some hundred million blocks.
const LOOKING_MAX: Duration = Duration::from_secs(120);
/// The clock is asked after so many blocks.
const BLOCKS_AT_ONCE: u64 = 4096;
/// Bytes around damage that are shown.
const AROUND_BYTES: u64 = 64;

/// What a look at all blocks has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Live blocks that were looked at.
    pub live: u64,
    /// Freed ones that wait, and were looked at.
    pub waiting: u64,
    /// Blocks that are damaged.
    pub damaged: u64,
    /// Blocks that could not be read, and parts of tables that could not.
    pub unread: u64,
    /// Whether it took too long, and blocks were left.
    pub is_cut: bool,
    /// Whether there may be blocks at closed pages of which the program's recorder, an earlier one, says nothing.
    pub has_pages: bool,
    /// What is damaged: up to two of each block, most of which are told.
    pub errors: Vec<FoundError>,
}

impl Verified {
    /// Whether all was looked at.
    pub fn is_whole(&self) -> bool {
        self.unread == 0 && !self.is_cut && !self.has_pages
    }
}

/// A block on which something may be wrong.
#[derive(Clone, Copy)]
enum Suspect {
    Dressed(u64),
    /// In which side table, and in which row.
    Row(usize, u32),
}

/// A damage that is still there.
#[derive(Clone)]
struct Certain {
    block: u64,
    size: Option<u64>,
    damage: Damage,
    /// Who allocated and freed it, if that is kept beside it.
    kept: [Option<Kept>; 2],
    /// What of memory belongs to the block.
    range: (u64, u64),
    /// What is wrong, where that does not follow from the damage.
    kind: Option<ErrorKind>,
}

/// The guard's tables, as the guard's own code reads them.
struct Guard {
    bits: Bits,
    secret: Secret,
    tables: Vec<SideTable>,
    /// Memory is that of a core dump.
    is_dump: bool,
}

/// A side table.
struct SideTable {
    rows: Rows,
    /// Rows that there is room for.
    rows_max: u64,
    /// Where it stands how many were ever used.
    used_at: u64,
}

impl SideTable {
    /// How many rows were used. `None` if that cannot be read.
    fn used(&self, memory: &impl Memory) -> Option<u32> {
        let used = u64::from_le_bytes(memory.read(self.used_at)?).min(self.rows_max);
        Some(u32::try_from(used).unwrap_or(u32::MAX))
    }
}

impl Guard {
    fn of(tables: &GuardTables, is_dump: bool) -> Guard {
        let of =
            RowsOf::Full { fill_bytes_max: tables.fill_bytes_max, freed_fill: u8::try_from(tables.freed_fill).ok() };
        let full = (tables.slots != 0).then_some(SideTable {
            rows: Rows { first: tables.first, slots: tables.slots, of },
            rows_max: tables.slots_max,
            used_at: tables.slots_used_at,
        });
        let closed = tables.closed.map(|closed| SideTable {
            rows: Rows {
                first: closed.first,
                slots: closed.slots,
                of: RowsOf::Closed { page_bytes: closed.page_bytes },
            },
            rows_max: closed.slots_max,
            used_at: closed.slots_used_at,
        });
        Guard {
            bits: Bits { root: tables.bitmap, leaves: tables.leaves, leaf_words: tables.leaf_words },
            secret: Secret::new(tables.secret),
            tables: full.into_iter().chain(closed).collect(),
            is_dump,
        }
    }

    fn look(&self, memory: &impl Memory, address: u64) -> Option<Checked> {
        check(memory, self.secret, Width::Bits64, address)
    }
}

/// Looks at all guarded blocks of the program. `progress` hears what part of it is done, as far as that is known.
///
/// # Errors
/// If the ledger can no longer be read, or the program ended meanwhile.
pub fn verify(
    ledger: &Ledger,
    memory: &ProgramMemory,
    tables: &GuardTables,
    progress: &mut dyn FnMut(f32),
) -> Result<Verified, SourceError> {
    let begin = Instant::now();
    let is_late = || begin.elapsed() > LOOKING_MAX;
    let (guard, cached) = (Guard::of(tables, ledger.found().is_some()), Cached::new(memory));
    let page = guard::ALL.iter().position(|level| *level == guard::PAGE);
    let has_pages = tables.closed.is_none() && page.is_some_and(|page| tables.level >= page as u64);
    let (mut verified, mut suspects) = (Verified { has_pages, ..Verified::default() }, Vec::new());
    dressed(&guard, &cached, &mut verified, &mut suspects, &is_late);
    for number in 0..guard.tables.len() {
        rows(&guard, number, &cached, (&mut verified, &mut suspects), &is_late, progress);
    }
    if !suspects.is_empty() && ledger.is_running() {
        std::thread::sleep(BETWEEN);
    }
    let mut certain = Vec::new();
    for still in dressed_again(&guard, memory, &suspects).into_iter().chain(rows_again(&guard, memory, &suspects)) {
        verified.damaged += u64::from(!still.is_empty());
        if certain.len() < DAMAGED_MAX {
            certain.extend(still);
        }
    }
    if ledger.found().is_none() && !ledger.is_running() {
        // What was not there any more is no damage.
        return Err(SourceError::NoMemory(ledger.path().to_owned()));
    }
    verified.errors = told(ledger, memory, &certain)?;
    Ok(verified)
}

/// Goes through the dressed blocks.
fn dressed(
    guard: &Guard,
    memory: &Cached<'_>,
    verified: &mut Verified,
    suspects: &mut Vec<Suspect>,
    is_late: &dyn Fn() -> bool,
) {
    let mut next = 0;
    loop {
        let address = match guard.bits.next_from(memory, next) {
            NextBit::End => break,
            NextBit::Unread(_, behind) => {
                verified.unread += 1;
                next = behind;
                continue;
            }
            NextBit::Block(address) => address,
        };
        next = address.saturating_add(1);
        verified.live += 1;
        if verified.live.is_multiple_of(BLOCKS_AT_ONCE) && is_late() {
            verified.is_cut = true;
            break;
        }
        match guard.look(memory, address) {
            Some(checked) if checked.is_whole() => {}
            Some(_) => suspect(suspects, verified, Suspect::Dressed(address)),
            None => {
                // Perhaps it was given back meanwhile, with its memory.
                memory.forget();
                if guard.bits.begins(memory, address) != Some(false) {
                    (verified.unread, verified.live) = (verified.unread + 1, verified.live - 1);
                }
            }
        }
    }
    memory.has_missed();
}

/// Goes through the rows of a side table.
fn rows(
    guard: &Guard,
    table: usize,
    memory: &Cached<'_>,
    (verified, suspects): (&mut Verified, &mut Vec<Suspect>),
    is_late: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(f32),
) {
    let Some(side) = guard.tables.get(table) else { return };
    let (rows, Some(used)) = (side.rows, side.used(memory)) else {
        verified.unread += 1;
        return;
    };
    for number in 0..used {
        if u64::from(number).is_multiple_of(BLOCKS_AT_ONCE) {
            progress(number as f32 / used as f32);
            if verified.is_cut || is_late() {
                verified.is_cut = true;
                break;
            }
        }
        memory.has_missed();
        let mut is_damaged = false;
        let mut is_there = true;
        let mut look = || {
            is_damaged = false;
            rows.examine(memory, number, &mut |finding| {
                is_damaged = true;
                is_there &= !guard.is_dump || is_dumped(&rows, memory, finding);
            })
        };
        let mut life = look();
        let mut missed = memory.has_missed();
        for _ in 0..LOOKS {
            if !missed {
                break;
            }
            // Perhaps it was freed meanwhile, and its pages were closed.
            memory.forget();
            life = look();
            missed = memory.has_missed();
        }
        missed |= !is_there;
        match life {
            Some(Life::Live | Life::Freed) if missed => verified.unread += 1,
            None if missed => verified.unread += 1,
            Some(Life::Live) => verified.live += 1,
            Some(Life::Freed) => verified.waiting += 1,
            _ => {}
        }
        if is_damaged && is_there {
            suspect(suspects, verified, Suspect::Row(table, number));
        }
    }
}

/// Whether the page in which damage lies is in the core dump. (`gcore` comes to a closed page and leaves out what is behind it: zeros.)
fn is_dumped(rows: &Rows, memory: &Cached<'_>, finding: &Finding) -> bool {
    let RowsOf::Closed { page_bytes } = rows.of else { return true };
    let at = finding.block.start.wrapping_add(finding.damage.offset as u64);
    memory.first_other(at & !page_bytes.wrapping_sub(1), page_bytes, 0).is_some()
}

fn suspect(suspects: &mut Vec<Suspect>, verified: &mut Verified, one: Suspect) {
    if suspects.len() < SUSPECTS_MAX {
        suspects.push(one);
    } else {
        // Nobody will look at it again.
        verified.is_cut = true;
    }
}

/// What is damaged of each dressed block in several looks, if it was there all the time. (A program that gives it back and is given it
/// again between two looks could pass for that, if it were only two.) All wait together: one by one, a thousand took ten seconds.
fn dressed_again(guard: &Guard, memory: &ProgramMemory, suspects: &[Suspect]) -> Vec<Vec<Certain>> {
    let cached = Cached::short(memory);
    let is_there = |address| {
        cached.forget();
        guard.bits.begins(&cached, address) == Some(true)
    };
    let look = |address| if is_there(address) { guard.look(&cached, address) } else { None };
    let seen = suspects.iter().filter_map(|suspect| match suspect {
        Suspect::Dressed(address) => Some((*address, look(*address)?)),
        Suspect::Row(..) => None,
    });
    let mut seen: Vec<(u64, Checked)> = seen.filter(|(_, checked)| !checked.is_whole()).collect();
    for _ in 0..LOOKS {
        if seen.is_empty() {
            break;
        }
        std::thread::sleep(BETWEEN_LOOKS);
        seen.retain(|(address, checked)| look(*address) == Some(*checked));
    }
    seen.retain(|(address, _)| is_there(*address));
    let damage = |(address, checked): (u64, Checked)| {
        let range = checked.block.map_or((address.saturating_sub(16), address), |block| {
            (block.given(), block.end().saturating_add(heapledger_guard::TAIL_BYTES).saturating_add(block.slack))
        });
        let size = checked.block.map(|block| block.size);
        let certain = |damage| Certain { block: address, size, damage, kept: [None, None], range, kind: None };
        [checked.below, checked.above].into_iter().flatten().map(certain).collect()
    };
    seen.into_iter().map(damage).collect()
}

/// The same of the blocks of rows.
fn rows_again(guard: &Guard, memory: &ProgramMemory, suspects: &[Suspect]) -> Vec<Vec<Certain>> {
    let again = |suspect: &Suspect| match suspect {
        Suspect::Row(table, number) => row_again(&guard.tables.get(*table)?.rows, memory, *number),
        Suspect::Dressed(_) => None,
    };
    suspects.iter().filter_map(again).collect()
}

/// What is damaged of the block of a row, if that is the same one before and behind.
fn row_again(rows: &Rows, memory: &ProgramMemory, number: u32) -> Option<Vec<Certain>> {
    let cached = Cached::short(memory);
    let before = rows.life(&cached, number)?;
    cached.forget();
    let mut findings: Vec<Finding> = Vec::new();
    rows.examine(&cached, number, &mut |finding| findings.push(*finding))?;
    cached.forget();
    if rows.life(&cached, number)? != before {
        return None;
    }
    let same = |finding: &Finding| (finding.block.life, finding.block.life_number) == before;
    let certain = |Finding { block, damage }: Finding| Certain {
        block: block.start,
        size: Some(block.size),
        damage,
        kept: match block.life {
            Life::Freed => [block.allocated, block.freed].map(Kept::of_words),
            _ => [None, None],
        },
        range: rows.around(&block),
        kind: None,
    };
    Some(findings.into_iter().filter(same).map(certain).collect())
}

/// Damage as errors, each with who allocated the block, and who freed it.
fn told(ledger: &Ledger, memory: &ProgramMemory, certain: &[Certain]) -> Result<Vec<FoundError>, SourceError> {
    if certain.is_empty() {
        return Ok(Vec::new());
    }
    let mut addresses: Vec<u64> = certain.iter().map(|one| one.block).collect();
    addresses.dedup();
    let places = KnownAddresses::of(ledger, &addresses, 1, &mut |_| ())?;
    let places: BTreeMap<u64, KnownAddress> = places.places.into_iter().map(|place| (place.address, place)).collect();
    let now = crate::Clock::new(ledger, std::time::SystemTime::now())?.end().max(Ticks(1));
    let cached = Cached::short(memory);
    let forks = ledger.process().number(key::FORKS).unwrap_or(0);
    // What an ancestor has kept is of that one's ledger.
    let is_own = |kept: &Kept| kept.forks < Kept::FORKS_MAX && u64::from(kept.forks) == forks;
    let error = |(row, one): (usize, &Certain)| {
        let one = &Certain { kept: one.kept.map(|kept| kept.filter(is_own)), ..one.clone() };
        let (around_address, around) = around(&cached, one);
        let entry = ErrorEntry {
            around_address,
            around_bytes: around.len() as u32,
            first_time: now,
            last_time: now,
            ..entry(one, places.get(&one.block))
        };
        FoundError { row: row as u32, entry, function: String::new(), around, of_ancestors: Vec::new() }
    };
    Ok(certain.iter().enumerate().map(error).collect())
}

fn entry(one: &Certain, place: Option<&KnownAddress>) -> ErrorEntry {
    let damage = &one.damage;
    let is_freed = damage.region == Region::Freed;
    let [given, taken] = one.kept;
    // Of a block that waits, what the ledger has at its address is another one's.
    let entry = place.and_then(|place| place.block).filter(|block| block.address == one.block && taken.is_none());
    let given = given.or(entry.map(|block| Kept {
        site: block.site,
        thread: block.thread.unwrap_or(ThreadRow::OTHER),
        kind: block.kind,
        time: block.time.unwrap_or_default(),
        forks: 0,
    }));
    let kind = one.kind.unwrap_or(match damage.offset {
        _ if is_freed => ErrorKind::UseAfterFree,
        ..0 => ErrorKind::BufferUnderflow,
        _ => ErrorKind::BufferOverflow,
    });
    let mut stacks = [ErrorStack::default(); 3];
    let wanted = [(StackTag::Allocation, given), (StackTag::Free, taken)];
    for (place, (tag, kept)) in stacks.iter_mut().zip(wanted.into_iter().filter_map(|(tag, kept)| Some((tag, kept?)))) {
        *place = stack(tag, kept);
    }
    let neighbour = |block: Option<Entry>| block.map_or(Neighbour::default(), |block| neighbour(&block));
    let [before, after] = place.map_or([None, None], |place| [place.before, place.after]);
    ErrorEntry {
        kind: kind as u16,
        found_by: if is_freed { FoundBy::Fill } else { FoundBy::Canary } as u8,
        found_at: FoundAt::Sweep as u8,
        direction: Direction::Write as u8,
        whereabouts: if is_freed { Whereabouts::FreedBlock } else { Whereabouts::Heap } as u8,
        given_by: given.map_or(0, |given| given.kind.0),
        heap: entry.and_then(|block| block.heap).map_or(0, |heap| u32::from(heap) + 1),
        address: one.block.wrapping_add(damage.offset as u64),
        bytes: damage.bytes,
        block: one.block,
        block_bytes: one.size.or(entry.and_then(|block| block.size)).unwrap_or(0),
        allocated: entry.map_or(0, |block| block.number.saturating_add(1)),
        stacks,
        expected: eight(damage.expected.as_slice()),
        found: eight(damage.found.as_slice()),
        compared: damage.expected.as_slice().len() as u16,
        neighbours: [neighbour(before), neighbour(after)],
        label: entry.map_or(0, |block| block.label.0),
        ..ErrorEntry::default()
    }
}

fn stack(tag: StackTag, kept: Kept) -> ErrorStack {
    let thread = Some(kept.thread).filter(|row| *row != ThreadRow::OTHER);
    let thread = thread.map_or(ThreadRowPlus1::NONE, Into::into);
    ErrorStack { time: kept.time, site: kept.site, thread, tag: tag as u16, ..ErrorStack::default() }
}

fn neighbour(block: &Entry) -> Neighbour {
    let thread = block.thread.filter(|row| *row != ThreadRow::OTHER);
    Neighbour {
        address: block.address,
        bytes: block.size.unwrap_or(0),
        site: block.site,
        thread: thread.map_or(ThreadRowPlus1::NONE, Into::into),
    }
}

fn eight(bytes: &[u8]) -> [u8; 8] {
    let mut all = [0; 8];
    all.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
    all
}

/// Up to 64 bytes around damage, of what belongs to its block, in rows of sixteen.
fn around(memory: &impl Memory, one: &Certain) -> (u64, Vec<u8>) {
    const BEFORE_BYTES: u64 = 24;
    let (low, high) = one.range;
    let address = one.block.wrapping_add(one.damage.offset as u64);
    let first = (address.saturating_sub(BEFORE_BYTES) & !15).max(low);
    let end = high.min(first.saturating_add(AROUND_BYTES));
    let bytes = (first..end).map_while(|at| memory.read::<1>(at).map(|[byte]| byte)).collect();
    (first, bytes)
}
