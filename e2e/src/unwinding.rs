//! Victims whose blocks say by which calls they came: whether the ledger says the same.
//!
//! A victim of this kind encodes the way to each allocation in the size that it asks for, a *mark*. So stacks are held
//! against what was called, and not against another unwinder, which may be wrong in the same way.

pub mod marks;

use std::collections::HashMap;

use crate::ledger::{Block, Blocks, Frame, Stats, check_totals};
use crate::process;
use crate::scratch::Scratch;
use crate::tracked::{images, run_cleanly, under_run};
use crate::victim::{self, Run, Victim};
use crate::{Result, check};

/// A part of a stack, as a mark tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A frame of this function.
    In(String),
    /// A frame of one of these functions.
    OneOf(&'static [&'static str]),
    /// A frame of this function, at one of its calls: equal numbers are equal addresses, others are others.
    At(String, u64),
    /// A frame of this function in a module of this name.
    Of(String, String),
    /// A frame that has no name and no module.
    Unnamed,
    /// So many frames of any functions.
    Frames(usize),
    /// At most so many frames of any functions, and no more than it takes to come to the next part.
    Any(usize),
    /// Nothing is outside of the last part.
    End,
}

/// What a mark says, innermost frame first. `None`: this size is no mark.
pub type Reading<'a> = &'a dyn Fn(u64) -> Option<Vec<Part>>;

/// Parts for frames of these functions.
pub fn functions(names: &[&str]) -> Vec<Part> {
    names.iter().map(|name| Part::In((*name).to_owned())).collect()
}

/// The digits of `size`, last one first, if a 1 stands in front of `digits` others.
pub fn digits(size: u64, base: u64, counts: std::ops::RangeInclusive<u32>) -> Option<Vec<u64>> {
    let count = counts.into_iter().find(|count| size / base.pow(*count) == 1)?;
    Some((0..count).map(|place| size / base.pow(place) % base).collect())
}

/// Steps of a storm, in the order of `storm_steps` in `victims/unwind_storm.h`.
const STEPS: [&str; 10] =
    ["small_one", "small_two", "wide_one", "wide_two", "busy", "framed", "of_any_size", "realigned", "huge", "looped"];
/// This one calls itself so many times before it does anything.
const LOOPED: (usize, usize) = (9, 3);

/// A mark of `victims/unwind_storm.h`; `outside` is who called the storm.
pub fn storm(size: u64, outside: &[&str]) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    for digit in digits(size, 2 * STEPS.len() as u64, 3..=5)? {
        let step = digit as usize / 2;
        parts.push(Part::At(STEPS[step].to_owned(), digit));
        let again = if step == LOOPED.0 { LOOPED.1 } else { 0 };
        parts.extend((0..again).map(|_| Part::At(STEPS[step].to_owned(), u64::MAX)));
    }
    parts.push(Part::In("storm".to_owned()));
    parts.extend(functions(outside));
    Some(parts)
}

/// Addresses of calls by number, and numbers by address. What is innermost, an allocation or a free, is apart.
#[derive(Debug, Default)]
struct Calls {
    addresses: HashMap<(String, u64, Option<bool>), String>,
    numbers: HashMap<String, (String, u64, Option<bool>)>,
}

impl Calls {
    fn is_one(&mut self, function: &str, number: u64, innermost: Option<bool>, address: &str) -> bool {
        let call = (function.to_owned(), number, innermost);
        let known = self.addresses.entry(call.clone()).or_insert_with(|| address.to_owned());
        let owner = self.numbers.entry(address.to_owned()).or_insert_with(|| call.clone());
        known == address && *owner == call
    }
}

fn fits(frames: &[Frame], parts: &[Part], calls: &mut Calls, is_free: bool) -> bool {
    let frames: Vec<&Frame> = frames.iter().filter(|frame| !frame.inlined).collect();
    let named = |frame: &Frame, name: &str| frame.names.iter().any(|own| own == name);
    let (mut at, mut may_skip) = (0, 0);
    for part in parts {
        match part {
            Part::Any(most) => {
                may_skip = *most;
                continue;
            }
            Part::Frames(count) => {
                at += count;
                continue;
            }
            Part::End => return at == frames.len(),
            _ => {}
        }
        loop {
            let Some(frame) = frames.get(at) else { return false };
            let innermost = (at == 0).then_some(is_free);
            let is_it = match part {
                Part::In(name) => named(frame, name),
                Part::OneOf(names) => names.iter().any(|name| named(frame, name)),
                Part::At(name, number) => named(frame, name) && calls.is_one(name, *number, innermost, &frame.address),
                Part::Of(name, module) => named(frame, name) && frame.module == *module,
                Part::Unnamed => frame.names.iter().all(String::is_empty) && frame.module.is_empty(),
                Part::Frames(_) | Part::Any(_) | Part::End => false,
            };
            at += 1;
            if is_it {
                break;
            }
            if may_skip == 0 {
                return false;
            }
            may_skip -= 1;
        }
        may_skip = 0;
    }
    true
}

fn written(frames: &[Frame]) -> String {
    let name = |frame: &Frame| {
        let name = if frame.names[0].is_empty() { &frame.module } else { &frame.names[0] };
        format!("{name} {}", frame.address)
    };
    frames.iter().map(name).collect::<Vec<_>>().join(" < ")
}

/// What was found out about the marks of one ledger.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// Allocations that are marks.
    pub allocations: usize,
    /// Frees of marks.
    pub frees: usize,
}

/// Holds all marks of a ledger against their stacks.
/// Where `frees_whole` is false, stacks of frees are to be their callers alone.
pub fn check_marks(allocations: &Blocks, frees: &Blocks, read: Reading, frees_whole: bool) -> Result<Found> {
    let mut calls = Calls::default();
    let mut check_all = |blocks: &Blocks, is_free: bool| -> Result<usize> {
        let mut seen: HashMap<(u64, u64), bool> = HashMap::new();
        let (mut marks, mut wrong, mut first) = (0, 0, String::new());
        for Block { size, site, .. } in &blocks.blocks {
            let Some(mut parts) = read(*size) else { continue };
            marks += 1;
            let frames = blocks.stacks.get(site).map_or(&[][..], Vec::as_slice);
            if is_free && !frees_whole {
                // The innermost frame, and none behind it.
                let may_be_any = matches!(parts.first(), Some(Part::Any(_) | Part::Frames(_)));
                parts = if may_be_any { vec![Part::Frames(1)] } else { parts.into_iter().take(1).collect() };
                parts.push(Part::End);
            }
            if *seen.entry((*size, *site)).or_insert_with(|| fits(frames, &parts, &mut calls, is_free)) {
                continue;
            }
            wrong += 1;
            if first.is_empty() {
                let what = if is_free { "freed" } else { "allocated" };
                first = format!("{size} bytes were {what} by\n{parts:?}\nand not by\n{}", written(frames));
            }
        }
        check!(wrong == 0, "{wrong} of {marks} stacks are wrong: {first}");
        Ok(marks)
    };
    Ok(Found { allocations: check_all(allocations, false)?, frees: check_all(frees, true)? })
}

/// With it stacks of frees are whole.
pub const WHOLE: &str = "--free-depth=whole";

/// A victim, and how its marks are read.
pub struct Marked<'a> {
    /// The name of its source.
    pub victim: &'a str,
    /// What its marks mean.
    pub read: Reading<'a>,
}

/// One run of a victim: its ledger's totals and blocks.
pub struct Recorded {
    /// What `stats` says.
    pub stats: Stats,
    /// All allocations.
    pub allocations: Blocks,
    /// All frees, with the stacks of the frees.
    pub frees: Blocks,
}

impl Recorded {
    /// The stack of each allocation and of each free.
    pub fn stacks(&self) -> impl Iterator<Item = &Vec<Frame>> {
        let of = |blocks: &'_ Blocks| blocks.blocks.iter().map(|block| block.site).collect::<Vec<_>>();
        let (allocations, frees) = (&self.allocations.stacks, &self.frees.stacks);
        let of_allocations = of(&self.allocations).into_iter().filter_map(|site| allocations.get(&site));
        of_allocations.chain(of(&self.frees).into_iter().filter_map(|site| frees.get(&site)))
    }
}

/// Enough for all that these victims free.
const HISTORY: [&str; 2] = ["--history", "200000"];

/// Runs a victim with options of the recorder, and reads its ledger.
pub fn record(victim: &Victim, run: &Run, options: &[&str]) -> Result<Recorded> {
    let scratch = Scratch::new();
    let options = [&HISTORY[..], options].concat();
    let command = &mut under_run(&scratch, "x", &options, &victim.build()?, &run.arguments);
    let ran = run_cleanly(&scratch, command)?;
    check!(ran.status == run.status, "{command:?}: {ran}");
    let ledger = images(&scratch, "x").pop().ok_or("there is no ledger")?;
    let stats = Stats::of(&ledger)?;
    check_totals(&stats, &victim.losses)?;
    let [allocations, frees] = Blocks::ever_and_freed(&ledger)?;
    Ok(Recorded { stats, allocations, frees })
}

/// How many marks a victim says that it made.
fn promised(victim: &Victim, run: &Run) -> Result<usize> {
    let ran = process::run(crate::tools::command(victim.build()?).args(&run.arguments))?;
    check!(ran.status == run.status, "without us, it should end with {}: {ran}", run.status);
    let out = ran.out();
    let line = out.lines().find_map(|line| line.strip_prefix("marks "));
    line.and_then(|number| number.parse().ok()).ok_or_else(|| format!("it does not say how many marks it made: {out}"))
}

impl Marked<'_> {
    /// Runs it in each of its ways: every mark is in the ledger, and each stack is the one that its mark says.
    pub fn check(&self, options: &[&str], more: impl Fn(&Recorded) -> Result) -> Result {
        let victim = victim::named(self.victim)?;
        for run in &victim.runs {
            let promised = promised(&victim, run)?;
            let recorded = record(&victim, run, options)?;
            let found = check_marks(&recorded.allocations, &recorded.frees, self.read, options.contains(&WHOLE))?;
            check!(
                promised > 0 && (found.allocations, found.frees) == (promised, promised),
                "{promised} marks were made and freed; the ledger has {found:?}"
            );
            more(&recorded)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(names: &[&str]) -> Vec<Frame> {
        let frame = |(index, name): (usize, &&str)| Frame {
            names: [(*name).to_owned(), String::new()],
            address: format!("0x{index}"),
            ..Frame::default()
        };
        names.iter().enumerate().map(frame).collect()
    }

    #[test]
    fn a_mark_is_read_from_its_last_digit() {
        assert_eq!(digits(1_234, 10, 3..=5), Some(vec![4, 3, 2]));
        assert_eq!(digits(2_234, 10, 3..=5), None);
        assert_eq!(digits(12, 10, 3..=5), None);
        let parts = storm(((20 + 2 * 9) * 20 + 7) * 20 + 4, &["main"]).expect("a mark");
        let names: Vec<&str> = parts
            .iter()
            .map(|part| match part {
                Part::In(name) | Part::At(name, _) => name.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(names, ["wide_one", "wide_two", "looped", "looped", "looped", "looped", "storm", "main"]);
    }

    #[test]
    fn every_kind_of_part_can_fail() {
        let fits = |names: &[&str], parts: &[Part]| fits(&stack(names), parts, &mut Calls::default(), false);
        let (a, b) = (|| Part::In("a".to_owned()), || Part::In("b".to_owned()));
        assert!(fits(&["a", "b", "c"], &[a(), b()]));
        assert!(!fits(&["a", "c", "b"], &[a(), b()]));
        assert!(!fits(&["a"], &[a(), b()]));
        assert!(fits(&["a", "c", "b"], &[a(), Part::Any(1), b()]));
        assert!(!fits(&["a", "c", "c", "b"], &[a(), Part::Any(1), b()]));
        assert!(fits(&["a", "b"], &[a(), b(), Part::End]) && !fits(&["a", "b", "c"], &[a(), b(), Part::End]));
        assert!(!fits(&["a"], &[Part::Of("a".to_owned(), "lib.so".to_owned())]));
        assert!(fits(&["", "b"], &[Part::Unnamed, b()]) && !fits(&["a", "b"], &[Part::Unnamed, b()]));
        assert!(fits(&["a", "c", "b"], &[a(), Part::Frames(1), b()]) && !fits(&["a", "b"], &[Part::Frames(2), b()]));
        assert!(fits(&["b"], &[Part::OneOf(&["a", "b"])]) && !fits(&["c"], &[Part::OneOf(&["a", "b"])]));
        let at = |number| Part::At("a".to_owned(), number);
        assert!(fits(&["a", "a"], &[at(1), at(2)]));
        assert!(!fits(&["b", "a", "a"], &[b(), at(1), at(1)]), "one call with two addresses");
        let mut calls = Calls::default();
        assert!(calls.is_one("a", 1, None, "0x1") && calls.is_one("a", 2, None, "0x2"));
        assert!(!calls.is_one("a", 2, None, "0x1") && !calls.is_one("a", 3, None, "0x1"), "two calls with one address");
    }
}
