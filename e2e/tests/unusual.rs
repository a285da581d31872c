//! What few programs do, and what must not become of them: `e2e/guests/unusual.c`.

use std::path::PathBuf;

use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::process::{self, Ran};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger, preload, root};
use heapledger_e2e::tracked::{recover, under_run};
use heapledger_e2e::{Result, check, skip};

const LEVELS: [&str; 4] = ["--guard=off", "--guard=light", "--guard=full", "--guard=page"];

/// The program, in a place of the test's own.
struct Unusual {
    scratch: Scratch,
    program: PathBuf,
}

impl Unusual {
    fn built() -> Result<Unusual> {
        let scratch = Scratch::new();
        let program = scratch.path("unusual");
        let mut compile = command("gcc");
        compile.args(["-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&program);
        process::run(compile.arg(root().join("e2e/guests/unusual.c")))?.good()?;
        Ok(Unusual { scratch, program })
    }

    /// What it does with a word, which ends as it does without us, and what its ledger says.
    fn does(&self, word: &str, level: &str) -> Result<(Ran, Stats)> {
        let words = [word.to_owned()];
        let plain = process::run(command(&self.program).args(&words))?.good()?;
        let name = format!("{word}{level}").replace('/', "-");
        let ran = process::run(&mut under_run(&self.scratch, &name, &[level], &self.program, &words))?.good()?;
        check!(ran.out() == plain.out(), "{word} with {level}: {ran}, and not {plain}");
        Ok((ran, Stats::of(self.scratch.path(&format!("{name}.hl")))?))
    }

    /// The same with its children; what is recorded is none of this.
    fn does_with_children(&self, word: &str, level: &str) -> Result {
        let plain = process::run(command(&self.program).arg(word))?.good()?;
        let mut run = command(heapledger());
        let name = format!("{word}{level}").replace('/', "-");
        run.args(["run", "-q", "--children", level, "-o"]).arg(self.scratch.path(&name));
        run.arg("--ledger-dir").arg(self.scratch.live()).arg("--").arg(&self.program).arg(word);
        let ran = process::run(&mut run)?.good()?;
        check!(ran.out() == plain.out(), "{word} with {level}: {ran}, and not {plain}");
        Ok(())
    }

    /// What it does at `light`, where nobody reads the ledger meanwhile: lines tell of damage.
    fn by_itself(&self, word: &str) -> Result<Ran> {
        let settings = format!("guard=light,dir={}", self.scratch.live().display());
        let mut run = command(&self.program);
        run.arg(word).env("LD_PRELOAD", preload()).env("HEAPLEDGER", settings).current_dir(self.scratch.work());
        process::run(&mut run)?.good()
    }
}

fn losses(stats: &Stats, name: &str) -> u64 {
    stats.losses().get(name).copied().unwrap_or(0)
}

/// Places of records are in no two lists, whatever a handler jumps out of: records would be written over each other, or anywhere.
#[test]
fn a_handler_may_leave_the_recorder_for_good() -> Result {
    let (_, stats) = Unusual::built()?.does("jump", "--guard=off")?;
    check!(stats.number("allocations") > 4096, "nothing was recorded");
    Ok(())
}

/// The new block is in no ledger, and the old one stays there: both are said.
#[test]
fn a_block_that_is_resized_within_the_recorder_is_lost_twice() -> Result {
    let (_, stats) = Unusual::built()?.does("resize", "--guard=off")?;
    let lost = ["lost_busy", "frees_busy"].map(|name| losses(&stats, name));
    check!(lost[0] > 0 && lost[0] == lost[1], "{lost:?}");
    Ok(())
}

/// The child's thread is another one, which ends.
#[test]
fn a_thread_whose_first_block_a_vfork_child_has_is_recorded_as_others() -> Result {
    const THREADS: u64 = 8 * 40;
    let (_, stats) = Unusual::built()?.does("first", "--guard=off")?;
    let blocks = THREADS * (60 * 300 + 1);
    let found = stats.number("allocations");
    // The C library has some for its threads and for reading a file.
    check!((blocks..blocks + 2 * THREADS + 20).contains(&found), "{found} blocks, and not {blocks}");
    Ok(())
}

#[test]
fn what_a_vfork_child_sets_is_its_own() -> Result {
    let unusual = Unusual::built()?;
    for level in LEVELS {
        let (_, stats) = unusual.does("handler", level)?;
        let less = losses(&stats, "guarded_less");
        check!(less == 0, "{level}: {less} blocks were guarded less, because a child has limited itself");
    }
    Ok(())
}

#[test]
fn a_block_that_cannot_be_dressed_when_it_has_moved_has_its_bytes() -> Result {
    let unusual = Unusual::built()?;
    for level in LEVELS {
        unusual.does("move", level)?;
    }
    Ok(())
}

#[test]
fn calls_that_give_no_block_are_none_that_is_guarded_less() -> Result {
    let unusual = Unusual::built()?;
    for level in LEVELS {
        let (_, stats) = unusual.does("refuse", level)?;
        let less = losses(&stats, "guarded_less");
        check!(less == 0, "{level}: {less}");
    }
    Ok(())
}

/// glibc gives back the end of its heap without a call that anybody could see.
#[test]
fn what_was_readable_above_a_stack_may_be_gone() -> Result {
    let unusual = Unusual::built()?;
    for level in ["--guard=off", "--guard=light"] {
        let (ran, _) = unusual.does("shrink", level)?;
        check!(ran.out() == "gone\n", "{ran}");
    }
    Ok(())
}

/// Where pieces of the parent's ledger were, other things lie.
#[test]
fn a_child_of_a_limited_program_takes_nothing_from_it() -> Result {
    let unusual = Unusual::built()?;
    LEVELS.iter().try_for_each(|level| unusual.does_with_children("limit", level))
}

/// What is reserved for blocks is private memory that can be written, which such a limit counts.
#[test]
fn a_program_that_limits_its_data_has_as_much_as_without_a_guard() -> Result {
    let unusual = Unusual::built()?;
    for level in LEVELS.iter().chain(&["--guard=page=1/10"]) {
        let is_of_own_memory = ["--guard=full", "--guard=page"].contains(level);
        for word in ["data", "data64", "prdata", "plenty"] {
            let (_, stats) = unusual.does(word, level)?;
            let less = losses(&stats, "guarded_less");
            check!((less > 0) == (is_of_own_memory && word != "plenty"), "{word} with {level}: {less} guarded less");
        }
        unusual.does_with_children("data", level)?;
    }
    Ok(())
}

/// Its ledger is its parent's.
#[test]
fn a_forked_child_of_the_same_number_finishes_no_ledger() -> Result {
    const FIRST: [&str; 5] = ["--pid", "--fork", "--mount-proc", "sh", "-c"];
    const BY_HAND: &str = "LD_PRELOAD=$1 HEAPLEDGER=dir=$2,at-exit=finish exec $3 namespace";
    let unusual = Unusual::built()?;
    for rights in [&[][..], &["-r"]] {
        let mut unshare = command("unshare");
        unshare.args(rights).args(FIRST).args([BY_HAND, "sh"]).arg(preload()).arg(unusual.scratch.live());
        let ran = process::run(unshare.arg(&unusual.program).current_dir(unusual.scratch.work()))?;
        if !ran.err().contains("unshare") && ran.out() != "no right\n" {
            check!(ran.status.success() && ran.out() == "number 1\n", "{ran}");
            // It ends without a word of its own.
            let ledgers = recover(&unusual.scratch)?;
            check!(ledgers.len() == 1, "{ledgers:?}");
            let found = Stats::of(&ledgers[0])?.number("allocations");
            check!(found >= 1001, "{found} blocks");
            return Ok(());
        }
    }
    skip("a child of the same number", "no right to make namespaces");
    Ok(())
}

/// A program's data, and those to whom it talks, are none of our business.
#[test]
fn lines_go_to_standard_error_and_what_else_is_for_messages() -> Result {
    let unusual = Unusual::built()?;
    let ran = unusual.by_itself("becomes")?;
    check!(ran.out() == "data 0, socket 0, pipe 1, log 1\n".repeat(2), "{ran}");
    check!(ran.err().matches("heap-buffer-overflow").count() == 4, "{ran}");
    Ok(())
}

/// By what a filter kills for no line is written.
#[test]
fn no_program_dies_of_a_line() -> Result {
    let unusual = Unusual::built()?;
    let ran = unusual.by_itself("unseen")?;
    check!(ran.err().matches("heap-buffer-overflow").count() == 1, "{ran}");
    Ok(())
}

/// It has an eighth of that.
#[test]
fn a_program_whose_data_is_limited_from_the_start_is_guarded_in_a_part_of_that() -> Result {
    let unusual = Unusual::built()?;
    for level in LEVELS {
        let mut run = command("sh");
        run.args(["-c", "ulimit -d 4000000; exec \"$@\"", "sh"]).arg(heapledger()).args(["run", "-q", level, "-o"]);
        run.arg(unusual.scratch.path(&format!("limited{level}"))).arg("--ledger-dir").arg(unusual.scratch.live());
        let ran = process::run(run.arg("--").arg(&unusual.program).arg("data"))?.good()?;
        check!(ran.out() == "had all\n", "{level}: {ran}");
    }
    Ok(())
}

#[test]
fn a_child_may_lock_its_memory_before_its_first_call() -> Result {
    let unusual = Unusual::built()?;
    LEVELS.iter().try_for_each(|level| unusual.does_with_children("lock", level))
}

#[test]
fn a_program_that_forbids_itself_nearly_all_calls_ends_by_itself() -> Result {
    let unusual = Unusual::built()?;
    for level in LEVELS.iter().chain(&["--guard=page=1/10"]) {
        unusual.does("filter", level)?;
    }
    for options in ["--guard=light", "--guard=full", "--guard=page=1/10"] {
        unusual.does("opens", options)?;
    }
    for options in ["--sample=2000", "--guard=page=1/10"] {
        unusual.does("draws", options)?;
    }
    Ok(())
}

#[test]
fn pages_that_a_program_protects_itself_are_its_own() -> Result {
    let unusual = Unusual::built()?;
    for level in LEVELS.iter().chain(&["--guard=page=under"]) {
        let (ran, _) = unusual.does("protect", level)?;
        let told = read("errors", unusual.scratch.path(&format!("protect{level}.hl")), &[])?;
        let errors = told.iter().filter(|line| line["type"] == "error").count();
        check!(ran.out() == "3 faults\n" && errors == 0, "{level}: {errors} errors; {ran}");
    }
    Ok(())
}

#[test]
fn calls_that_are_refused_touch_nothing() -> Result {
    let unusual = Unusual::built()?;
    for level in LEVELS {
        unusual.does("nonsense", level)?;
        let told = read("errors", unusual.scratch.path(&format!("nonsense{level}.hl")), &[])?;
        let errors: Vec<_> = told.iter().filter(|line| line["type"] == "error").collect();
        check!(errors.is_empty(), "{level}: {errors:?}");
    }
    Ok(())
}
