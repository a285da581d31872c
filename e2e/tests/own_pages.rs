//! Programs that close pages of their own blocks, jump into blocks, or have handlers for that: `e2e/guests/closed.c`.

use std::path::{Path, PathBuf};

use heapledger_e2e::guard::told;
use heapledger_e2e::process::{self, PATIENCE};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger, root};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check};

const LEVELS: [&str; 4] = ["light", "full", "page", "page=1/10"];

fn built(scratch: &Scratch) -> Result<PathBuf> {
    let program = scratch.path("closed");
    let mut compile = command("gcc");
    compile.args(["-g", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    process::run(compile.arg(root().join("e2e/guests/closed.c")))?.good()?;
    Ok(program)
}

/// It ends as without us, with the same words; its ledger.
fn says_the_same(scratch: &Scratch, program: &Path, word: &str, level: &str) -> Result<PathBuf> {
    let plain = process::run(command(program).arg(word))?.good()?;
    let (option, words) = (format!("--guard={level}"), [word.to_owned()]);
    let name = format!("{word}-{}", level.replace(['/', '='], "-"));
    let mut run = under_run(scratch, &name, &[&option, "--errors=quiet"], program, &words);
    let ran = process::run_within(&mut run, PATIENCE)?.good()?;
    check!(ran.out() == plain.out() && !plain.out().is_empty(), "{word} at {level}: {ran}, and not {plain}");
    Ok(scratch.path(&format!("{name}.hl")))
}

/// The same at each level, and nothing is found.
fn does(word: &str) -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch)?;
    for level in LEVELS {
        let errors = told::errors(&says_the_same(&scratch, &program, word, level)?)?;
        check!(errors.is_empty(), "{word} at {level}: {errors:#?}");
    }
    Ok(())
}

/// The last page of a stack that comes from `posix_memalign`: the block goes, and what has its place later has all of it.
#[test]
fn a_page_may_be_closed_when_its_block_is_given_back() -> Result {
    does("stack")?;
    does("whole")
}

#[test]
fn a_page_may_be_closed_when_the_program_ends() -> Result {
    does("kept")
}

/// The program had no handler of SIGABRT, and is told that it had none.
#[test]
fn a_handler_that_was_there_before_is_none_of_ours() -> Result {
    does("chain")
}

/// It would be the end of the program if the guard asked the kernel for anything when it finds that.
#[test]
fn a_program_that_shut_itself_in_may_be_wrong() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch)?;
    LEVELS.iter().try_for_each(|level| says_the_same(&scratch, &program, "shut", level).map(drop))
}

#[test]
fn a_child_need_not_have_all_of_its_parents_blocks() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch)?;
    let plain = process::run(command(&program).arg("apart"))?.good()?;
    for level in LEVELS {
        let mut run = command(heapledger());
        run.args(["run", "-q", "--children", "--guard", level, "-o"]).arg(scratch.path(&level.replace('/', "-")));
        run.arg("--ledger-dir").arg(scratch.live()).arg("--").arg(&program).arg("apart");
        let ran = process::run_within(&mut run, PATIENCE)?.good()?;
        check!(ran.out() == plain.out(), "{level}: {ran}, and not {plain}");
    }
    Ok(())
}

/// It is told once, with who has jumped, and then the program has the fault that it would have.
#[test]
fn a_jump_into_a_block_is_told_and_faults() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch)?;
    let plain = process::run(command(&program).arg("jump"))?.good()?;
    check!(plain.out() == "faults 2\n", "{plain}");
    for level in ["light", "full", "page"] {
        let ledger = says_the_same(&scratch, &program, "jump", level)?;
        let errors = told::errors(&ledger)?;
        let kinds: Vec<_> = errors.iter().map(|error| error.kind().to_owned()).collect();
        let wanted: &[&str] = if level == "page" { &["heap-use-after-free", "heap-buffer-overflow"] } else { &[] };
        check!(kinds == wanted, "{level}: {errors:#?}");
        if level == "page" {
            let said = process::run(command(heapledger()).arg("errors").arg(&ledger))?.good()?.out();
            let accesses = said.split("access, time").skip(1);
            let jumps = accesses.filter(|access| access.lines().nth(2).is_some_and(|line| line.ends_with(" jump")));
            check!(jumps.count() == 2, "{said}");
        }
    }
    Ok(())
}

/// glibc's malloc makes itself ready when it is first called, without a lock: with threads, when the guard has no more blocks to give, that is
/// too late.
#[test]
fn the_c_librarys_malloc_is_ready_before_it_is_needed() -> Result {
    does("ready")
}
