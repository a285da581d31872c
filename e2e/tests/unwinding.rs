//! Stacks of victims that are made to mislead an unwinder which remembers its last stack: those of the ledger are held
//! against what the victims' marks say, and against a walk of the same stack that remembers nothing.

use std::collections::{BTreeMap, BTreeSet};

use heapledger_e2e::ledger::{Blocks, Frame};
use heapledger_e2e::unwinding::{Marked, Part, Reading, Recorded, WHOLE, marks, record};
use heapledger_e2e::{Result, check, skip, victim};

/// Frames of a stack, each inlined function with its caller as one.
fn depth_of(stack: &[Frame]) -> usize {
    stack.iter().filter(|frame| !frame.inlined).count()
}

/// Every stack that stops at the limit is counted, and no other.
fn cut_stacks_are_counted(recorded: &Recorded, limit: usize) -> Result {
    let is_cut = |stack: &&Vec<Frame>| {
        depth_of(stack) == limit && stack.last().is_some_and(|frame| !frame.names.contains(&"_start".to_owned()))
    };
    let cut = recorded.stacks().filter(is_cut).count() as u64;
    let counted = recorded.stats.inner("losses", "stacks_cut");
    check!(cut > 50 && cut == counted, "{cut} stacks are cut, and {counted} are counted");
    Ok(())
}

/// Every stack that passes code without a table is counted as guessed, or as broken.
fn guesses_are_counted(recorded: &Recorded) -> Result {
    guesses_are_counted_but(recorded, 0..0)
}

/// In `unwind_jit`, what passes code that says itself where its frame ends may be known without a guess: its marks are whole then.
fn guesses_of_jit_are_counted(recorded: &Recorded) -> Result {
    guesses_are_counted_but(recorded, 9_010..9_013)
}

/// In `unwind_jit_library` there is no other code.
fn guesses_of_jit_library_are_counted(recorded: &Recorded) -> Result {
    guesses_are_counted_but(recorded, 9_000..9_001)
}

/// Each stack that passes code without tables is counted as guessed or broken, but those of blocks with such `sizes`, of which any number may be.
fn guesses_are_counted_but(recorded: &Recorded, sizes: std::ops::Range<u64>) -> Result {
    let passes = |stack: &Vec<Frame>| stack.iter().any(|frame| frame.names[0].is_empty() && frame.module.is_empty());
    let passing = |blocks: &Blocks| {
        let passing = blocks.blocks.iter().filter(|block| blocks.stacks.get(&block.site).is_some_and(passes));
        passing.map(|block| block.size).collect::<Vec<u64>>()
    };
    let passed = [passing(&recorded.allocations), passing(&recorded.frees)].concat();
    let (all, may_be) = (passed.len() as u64, passed.iter().filter(|size| sizes.contains(size)).count() as u64);
    let counted = ["stacks_guessed", "stacks_broken"].map(|name| recorded.stats.inner("losses", name));
    let is_counted = (all - may_be..=all).contains(&counted.iter().sum());
    check!(all > 0 && is_counted, "{all} pass such code, {may_be} may be certain; counted are {counted:?}");
    Ok(())
}

fn nothing_more(_: &Recorded) -> Result {
    Ok(())
}

/// Victims all of whose stacks are other ones than the thread's own, of which nothing is remembered.
const ON_OTHER_STACKS: &[&str] = &["copied_stacks", "holes"];

/// What the last stack saved was used, and never wrong.
fn none_differs(name: &str, recorded: &Recorded) -> Result {
    let counter = |name: &str| recorded.stats.inner("counters", name);
    let (compared, differing) = (counter("stacks_compared"), counter("stacks_differing"));
    check!(compared > 0 && differing == 0, "of {compared} stacks {differing} differ");
    // Where every stack passes code without tables, or with wrong ones, nothing can be kept.
    let uncertain = ["stacks_guessed", "stacks_broken"].map(|name| recorded.stats.inner("losses", name));
    let all_uncertain = uncertain.iter().sum::<u64>() >= compared;
    let may_be_none = all_uncertain || ON_OTHER_STACKS.contains(&name);
    check!(may_be_none || counter("frames_verified") > 0, "no frame was taken from the last stack");
    Ok(())
}

/// A victim, what its marks mean, and what else has to be so.
type Case = (&'static str, fn(u64) -> Option<Vec<Part>>, &'static [&'static str], fn(&Recorded) -> Result);

fn at_512(recorded: &Recorded) -> Result {
    cut_stacks_are_counted(recorded, 512)
}

fn at_16(recorded: &Recorded) -> Result {
    cut_stacks_are_counted(recorded, 16)
}

fn run((victim, read, options, more): Case, further: &[&str], and: impl Fn(&Recorded) -> Result) -> Result {
    let read: Reading = &read;
    Marked { victim, read }.check(&[options, further].concat(), |recorded| {
        more(recorded)?;
        and(recorded)
    })
}

macro_rules! victims {
    ($($name:ident: $case:expr;)*) => {
        /// With the options that everybody has.
        mod as_usual {
            use super::*;
            $(#[test]
            fn $name() -> Result {
                run($case, &[], nothing_more)
            })*
        }

        /// Stacks of calls that free are whole, too.
        mod whole {
            use super::*;
            $(#[test]
            fn $name() -> Result {
                run($case, &[WHOLE], nothing_more)
            })*
        }

        /// Each stack is also taken in full, and compared.
        mod compared {
            use super::*;
            $(#[test]
            fn $name() -> Result {
                run($case, &["--check-stacks", WHOLE], |recorded| none_differs(stringify!($name), recorded))
            })*
        }

        /// Without remembering anything, as the other two are compared with.
        mod slow {
            use super::*;
            $(#[test]
            fn $name() -> Result {
                run($case, &["--unwind", "slow", WHOLE], |recorded| {
                    let verified = recorded.stats.inner("counters", "frames_verified");
                    check!(verified == 0, "{verified} frames were taken from the last stack");
                    Ok(())
                })
            })*
        }
    };
}

victims! {
    longjmp: ("unwind_longjmp", marks::longjmp, &[], nothing_more);
    exceptions: ("unwind_exceptions", marks::exceptions, &[], nothing_more);
    levels: ("unwind_levels", marks::levels, &[], nothing_more);
    registers: ("unwind_registers", marks::registers, &[], nothing_more);
    alloca: ("unwind_alloca", marks::alloca, &[], nothing_more);
    drap: ("unwind_drap", marks::drap, &[], nothing_more);
    lazy: ("unwind_lazy", marks::lazy, &[], nothing_more);
    signal_edits: ("unwind_signal_edits", marks::signal_edits, &[], nothing_more);
    signal_steps: ("unwind_signal_steps", marks::signal_steps, &[], nothing_more);
    signal_storm: ("unwind_signal_storm", marks::signal_storm, &[], nothing_more);
    signal_first: ("unwind_signal_first", marks::signal_first, &[], nothing_more);
    coroutines: ("unwind_coroutines", marks::coroutines, &[], nothing_more);
    copied_stacks: ("unwind_copied_stacks", marks::copied_stacks, &[], nothing_more);
    holes: ("unwind_holes", marks::holes, &[], nothing_more);
    plugins: ("unwind_plugins", marks::plugins, &[], nothing_more);
    dlopen_fails: ("unwind_dlopen_fails", marks::dlopen_fails, &[], nothing_more);
    jit: ("unwind_jit", marks::jit, &[], guesses_of_jit_are_counted);
    jit_steady: ("unwind_jit_steady", marks::jit_steady, &[], guesses_are_counted);
    jit_library: ("unwind_jit_library", marks::jit_library, &[], guesses_of_jit_library_are_counted);
    depth: ("unwind_depth", |size| marks::depth(size, 512), &[], at_512);
    depth_of_16: ("unwind_depth", |size| marks::depth(size, 16), &["--depth", "16"], at_16);
    children: ("unwind_children", marks::children, &[], nothing_more);
    threads: ("unwind_threads", marks::threads, &[], nothing_more);
}

/// Modules that libc's converters of each function of `victims/unwind_iconv.c` and its like may lie in.
const CONVERTERS: [(&str, &[&str]); 6] = [
    ("open_charset_0", &["UTF-16.so"]),
    ("open_charset_1", &["UTF-32.so"]),
    ("open_charset_2", &["UNICODE.so"]),
    ("open_charset_3", &["ISO-2022-JP.so"]),
    ("open_charset_4", &["ISO-2022-CN-EXT.so"]),
    ("open_charset_5", &["ISO646.so"]),
];

/// Converters are loaded and unloaded by libc alone. Each one's frame is in its own module, although another had the address.
fn converters(name: &str) -> Result {
    let victim = victim::named(name)?;
    let run = victim.runs.first().ok_or("no run")?;
    let recorded = record(&victim, run, &[])?;
    let mut pages: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut seen = 0;
    for stack in recorded.stacks() {
        let named = |name: &str| stack.iter().any(|frame| frame.names.iter().any(|own| own == name));
        let Some((opener, modules)) = CONVERTERS.iter().find(|(opener, _)| named(opener)) else { continue };
        for frame in stack.iter().filter(|frame| frame.names.iter().any(|name| name == "gconv_init")) {
            let module = frame.module.as_str();
            check!(modules.contains(&module), "below {opener} lies a converter of {module} at {}", frame.address);
            let page = frame.address[..frame.address.len() - 3].to_owned();
            pages.entry(page).or_default().insert(module.to_owned());
            seen += 1;
        }
    }
    if seen == 0 {
        skip(name, "libc's converters are not installed");
        return Ok(());
    }
    let shared = pages.values().filter(|modules| modules.len() > 1).count();
    check!(shared > 0, "no converter got an address that another had, so nothing was tested: {pages:?}");
    Ok(())
}

#[test]
fn converters_by_iconv() -> Result {
    converters("unwind_iconv")
}

#[test]
fn converters_of_wide_streams() -> Result {
    converters("unwind_wide_streams")
}

/// Stacks that pass code without a table are remembered like others.
#[test]
fn most_of_what_passes_generated_code_is_not_walked() -> Result {
    let victim = victim::named("unwind_jit_steady")?;
    let recorded = record(&victim, victim.runs.first().ok_or("no run")?, &[])?;
    let counter = |name: &str| recorded.stats.inner("counters", name);
    let (verified, walked) = (counter("frames_verified"), counter("frames_walked"));
    check!(verified > 20 * walked, "{verified} frames are verified, {walked} walked");
    Ok(())
}
