//! Taking a stack for somebody who asks, without any recording: in any thread, from any stack, in a signal handler.
//!
//! Nothing is remembered, so nothing has to be known of the thread: each frame is stepped out of by its module's unwind table, with
//! all registers, or by its frame pointer. The loader's function that finds tables takes no lock; the kernel says what may be
//! read.
#![forbid(unsafe_code)]

use core::cell::Cell;
use heapledger_linux::loader::{CodeFinder, CodeModule};
use heapledger_linux::stack::StackRange;
use heapledger_unwind::{
    End, Environment, Lookup, Registers, Strategy, Table, Walk, walk_by_frame_pointers, walk_in_full,
};

/// Pages of a stack that may be asked about: 8 MiB.
const PAGES_MAX: usize = 2048;
/// Fewest frames with which a stack found by frame pointers is believed.
const BELIEVED: usize = 3;

/// How a stack is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackMethod {
    /// By unwind tables, and by frame pointers where there are none.
    Auto,
    /// By unwind tables only.
    Tables,
    /// By frame pointers only.
    FramePointers,
    /// By frame pointers, and as [`StackMethod::Auto`] if that finds fewer than three frames.
    Fast,
}

/// What was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backtrace {
    /// Frames that were stored.
    pub frames: usize,
    /// Why there are no more.
    pub end: End,
    /// The first of those that rest on a frame pointer found without proof.
    pub guessed_from: Option<usize>,
}

/// Looks modules up for whoever asks.
static FINDER: CodeFinder = CodeFinder::new();

/// Stack and unwind tables of whoever asks.
struct Anywhere {
    /// The stack where the walk begins.
    here: Cell<StackRange>,
    /// Another one, that a signal handler has interrupted.
    elsewhere: Cell<StackRange>,
    /// The module that was looked up last: neighbours are often of one.
    last: Cell<Option<CodeModule>>,
}

impl Anywhere {
    fn at(registers: &Registers) -> Anywhere {
        if FINDER.address() == 0 {
            FINDER.start();
        }
        // The stack of registers that somebody gave need not be there.
        let here = StackRange::of_readable(registers.sp as usize & !7).unwrap_or_default();
        Anywhere { here: Cell::new(here), elsewhere: Cell::new(StackRange::default()), last: Cell::new(None) }
    }

    fn module(&self, address: usize) -> Option<CodeModule> {
        let holds = |known: &CodeModule| (known.low..known.high).contains(&address);
        let known = self.last.take().filter(holds).or_else(|| FINDER.find(address))?;
        self.last.set(Some(known));
        Some(known)
    }
}

impl Environment for Anywhere {
    fn read_word(&self, address: u64) -> Option<u64> {
        for range in [&self.here, &self.elsewhere] {
            let mut known = range.get();
            let word = known.word(address).or_else(|| known.ask_word(address, PAGES_MAX));
            if word.is_some() {
                range.set(known);
                return word;
            }
        }
        let page = StackRange::of_readable(address as usize)?;
        self.elsewhere.set(page);
        page.word(address)
    }

    fn find_table(&self, pc: u64) -> Lookup<'_> {
        let Some(module) = self.module(pc as usize).filter(|module| module.eh_frame_header != 0) else {
            return Lookup::NoTable;
        };
        let header_address = module.eh_frame_header as u64;
        match module.segment(module.eh_frame_header) {
            Some(segment) if !segment.bytes().is_empty() => Lookup::Found(Table {
                segment: segment.bytes(),
                segment_address: segment.address() as u64,
                header_address,
            }),
            _ => Lookup::NoTable,
        }
    }

    fn may_be_code(&self, pc: u64) -> bool {
        let last = (pc as usize).wrapping_sub(1);
        let is_code = |module: CodeModule| {
            let (low, high) = module.executable();
            (low..high).contains(&last)
        };
        !self.here.get().contains(pc as usize) && self.module(last).is_none_or(is_code)
    }
}

/// Takes the stack that leads to `registers`: innermost frame first, without the first `before` ones, as many as there is room
/// for. Of a stack that ends within that room the last `after` ones are left out.
///
/// Each frame is an address of which the byte before lies in the instruction that was executing.
#[cold]
#[inline(never)]
pub fn take(registers: &Registers, how: StackMethod, (before, after): (usize, usize), into: &mut [usize]) -> Backtrace {
    let around = Anywhere::at(registers);
    let mut walk_as = |strategy: Strategy| {
        let (mut seen, mut stored) = (0usize, 0usize);
        let mut sink = |pc: u64| {
            seen = seen.wrapping_add(1);
            if seen <= before {
                return true;
            }
            let place = into.get_mut(stored);
            stored = stored.wrapping_add(usize::from(place.is_some()));
            place.map(|place| *place = pc as usize).is_some()
        };
        let walk = match strategy {
            Strategy::FramePointers => walk_by_frame_pointers(&around, registers, &mut sink),
            _ => walk_in_full(&around, registers, strategy, &mut sink),
        };
        (walk, stored)
    };
    let (mut found, mut stored) = walk_as(match how {
        StackMethod::Auto => Strategy::Auto,
        StackMethod::Tables => Strategy::Tables,
        StackMethod::FramePointers | StackMethod::Fast => Strategy::FramePointers,
    });
    if how == StackMethod::Fast && found.end != End::LimitReached && found.depth < BELIEVED {
        (found, stored) = walk_as(Strategy::Auto);
    }
    let Walk { end, guessed_from, .. } = found;
    let frames = if end == End::LimitReached { stored } else { stored.saturating_sub(after) };
    let guessed_from = guessed_from.map(|first| first.saturating_sub(before)).filter(|first| *first < frames);
    Backtrace { frames, end, guessed_from }
}

/// The addresses of the function to which this one belongs, as unwind tables say.
pub fn function_of(address: usize) -> Option<core::ops::Range<usize>> {
    match Anywhere::at(&Registers::default()).find_table(address as u64) {
        Lookup::Found(table) => table.function(address as u64).map(|code| code.start as usize..code.end as usize),
        _ => None,
    }
}

/// Whether the stack that leads to `registers` has code of these addresses in it, among its innermost frames.
#[cold]
#[inline(never)]
pub fn leads_through(registers: &Registers, code: &core::ops::Range<usize>) -> bool {
    const FRAMES: usize = 256;
    let mut frames = [0; FRAMES];
    let taken = take(registers, StackMethod::Auto, (0, 0), &mut frames);
    frames.iter().take(taken.frames).any(|frame| code.contains(&frame.wrapping_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_its_addresses() {
        let function = function_of as fn(usize) -> Option<core::ops::Range<usize>> as usize;
        let code = function_of(function).expect("it has a table");
        assert!(code.start == function && code.len() > 16 && function_of(code.end - 1) == Some(code.clone()));
        assert_ne!(function_of(code.end), Some(code));
        assert_eq!(function_of(&raw const function as usize), None, "a stack");
    }

    #[test]
    fn registers_that_lead_nowhere_are_no_fault() {
        let mut frames = [0; 8];
        for how in [StackMethod::Auto, StackMethod::Tables, StackMethod::FramePointers, StackMethod::Fast] {
            for (ip, sp, bp) in [(0, 0, 0), (1, 7, 9), (u64::MAX, u64::MAX, u64::MAX - 7), (1, 1 << 46, (1 << 46) + 8)]
            {
                let taken = take(&Registers { ip, sp, bp, ..Registers::default() }, how, (0, 0), &mut frames);
                assert!(taken.frames <= 1 && taken.end != End::LimitReached, "{how:?}: {taken:?}");
            }
        }
    }
}
