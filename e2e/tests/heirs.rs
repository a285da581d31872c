//! `run --children --guard`: what forked children do wrong with blocks of their own and of their parent's is in their own ledgers.

use std::path::{Path, PathBuf};

use heapledger_e2e::c_programs::built;
use heapledger_e2e::guard::told::errors;
use heapledger_e2e::ledger::{Stats, check_totals, read};
use heapledger_e2e::process::{Ran, run};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::{Result, check, victim};
use serde_json::Value;

const LEVELS: [&str; 3] = ["light", "full", "page"];

/// A victim's run; its session is `s`.
fn guarded(scratch: &Scratch, level: &str, program: &Path, arguments: &[&str]) -> Result<Ran> {
    let mut command = command(heapledger());
    command.args(["run", "-q", "--children", "-o"]).arg(scratch.path("s")).arg("--ledger-dir").arg(scratch.live());
    command.arg(format!("--guard={level}")).arg("--").arg(program).args(arguments).current_dir(scratch.work());
    run(&mut command)
}

/// The ledgers of a session.
fn ledgers(scratch: &Scratch) -> Result<Vec<PathBuf>> {
    let items = std::fs::read_dir(scratch.path("s")).map_err(|error| error.to_string())?;
    let paths = items.filter_map(|item| Some(item.ok()?.path()));
    Ok(paths.filter(|path| path.extension().is_some_and(|end| end == "hl")).collect())
}

/// An error: what it is, how it was found, and of each stack whose it is and its innermost function.
type Told = (String, String, Vec<(String, String)>);

/// All errors of a session.
fn told(scratch: &Scratch) -> Result<Vec<Told>> {
    let mut all = Vec::new();
    for ledger in ledgers(scratch)? {
        for error in errors(&ledger)? {
            let first = |functions: &Vec<String>| functions.first().cloned().unwrap_or_default();
            let stacks = error.stacks.iter().map(|(of, functions)| (of.clone(), first(functions)));
            let text = |key: &str| error.json[key].as_str().unwrap_or_default().to_owned();
            all.push((text("kind"), text("found_by"), stacks.collect()));
        }
    }
    Ok(all)
}

#[test]
fn each_wrong_of_a_child_is_an_error_of_its_own_ledger() -> Result {
    const OWN: (&str, &str) = ("allocation", "childs_block");
    // A stack of the parent's: the child's ledger says that there is one, and not where.
    const PARENTS: (&str, &str) = ("allocation", "");
    const FREED: (&str, &str) = ("free", "child_frees");
    const CALL: (&str, &str) = ("access", "child_frees");
    let program = victim::named("heirs")?.build()?;
    let over = "heap-buffer-overflow";
    let after = "heap-use-after-free";
    let above_light = &LEVELS[1..];
    type Expected<'a> = (&'a str, &'a [&'a str], Option<(&'a str, &'a [(&'a str, &'a str)])>);
    let all: [Expected; 11] = [
        ("nothing", &LEVELS, None),
        ("resize", &LEVELS, None),
        ("overflow-own", &LEVELS, Some((over, &[OWN, FREED]))),
        ("overflow-inherited", &LEVELS, Some((over, &[FREED]))),
        ("overflow-left", &LEVELS, Some((over, &[]))),
        ("twice-own", &LEVELS, Some(("double-free", &[OWN, FREED, CALL]))),
        ("twice-inherited", &LEVELS, Some(("double-free", &[FREED, CALL]))),
        ("twice-across", above_light, Some(("double-free", &[PARENTS, ("free", ""), CALL]))),
        ("middle", &LEVELS, Some(("bad-free", &[CALL]))),
        ("write-freed", above_light, Some((after, &[PARENTS, ("free", "")]))),
        ("grandchild", above_light, Some((after, &[PARENTS, ("free", "")]))),
    ];
    for (word, levels, expected) in all {
        for level in levels {
            let scratch = Scratch::new();
            let ran = guarded(&scratch, level, &program, &[word])?;
            let what = format!("{word} at {level}");
            // It goes its way, and a line says it at once.
            check!(ran.status.success() && ran.out() == format!("{word} 0 2\n"), "{what}: {ran}");
            let lines = ran.err().lines().filter(|line| line.starts_with("heapledger: ")).count();
            check!(lines == usize::from(expected.is_some()), "{what}: {ran}");
            let told = told(&scratch)?;
            let Some((kind, stacks)) = expected else {
                check!(told.is_empty(), "{what}: {told:?}");
                continue;
            };
            let mut wanted: Vec<(String, String)> =
                stacks.iter().map(|(of, function)| ((*of).to_owned(), (*function).to_owned())).collect();
            // Where a closed page tells of it there is the instruction, too.
            let by_page = told.first().is_some_and(|(_, by, _)| by == "guard page");
            if by_page {
                wanted.push(("access".to_owned(), "wrong".to_owned()));
            }
            check!(by_page == (*level == "page" && kind == after), "{what}: {told:?}");
            let is_it = |one: &Told| one.0 == kind && one.2 == wanted;
            check!(told.len() == 1 && told.iter().all(is_it), "{what}: {told:?}, not {kind} {wanted:?}");
        }
    }
    Ok(())
}

#[test]
fn children_that_do_nothing_wrong_have_no_errors() -> Result {
    let program = victim::named("family")?.build()?;
    for level in ["light", "full", "page", "page=1/10"] {
        for words in [&["tree"][..], &["threads", "30"], &["handler", "30"]] {
            let scratch = Scratch::new();
            let ran = guarded(&scratch, level, &program, words)?;
            let what = format!("{words:?} at {level}");
            check!(ran.status.success() && ran.err().is_empty(), "{what}: {ran}");
            let ledgers = ledgers(&scratch)?.len();
            let expected = if words.len() == 1 { 7 } else { 31 };
            check!(ledgers == expected, "{what}: {ledgers} ledgers, not {expected}");
            check!(told(&scratch)?.is_empty(), "{what}: {:?}", told(&scratch)?);
        }
    }
    Ok(())
}

/// The guard takes off what tells that a block is a parent's while it is resized: it is told before.
#[test]
fn blocks_of_a_parents_that_a_child_resizes_are_noted_as_those_it_frees() -> Result {
    let program = victim::named("heirs")?.build()?;
    for level in ["off", "light", "full", "page", "page=1/2"] {
        for word in ["nothing", "resize", "shrink"] {
            let scratch = Scratch::new();
            let ran = guarded(&scratch, level, &program, &[word])?;
            check!(ran.status.success() && ran.err().is_empty(), "{word} at {level}: {ran}");
            let mut frees = Vec::new();
            for ledger in ledgers(&scratch)? {
                let stats = Stats::of(&ledger)?;
                frees.push((stats.0["inherited_frees"].as_u64(), stats.0["unknown_frees"].as_u64()));
            }
            frees.sort();
            check!(frees == [(None, Some(0)), (Some(1), Some(0))], "{word} at {level}: {frees:?}");
            let mut limits = command(heapledger());
            run(limits.args(["check", "--max-live", "10K"]).arg(scratch.path("s")))?.good()?;
        }
    }
    Ok(())
}

#[test]
fn hooks_go_on_in_a_child_and_numbers_of_the_api_are_its_own() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "gcc", "kin.c", "kin", &["-O1", "-Wall", "-Wextra", "-Werror"])?;
    let mut command = command(heapledger());
    command.args(["run", "-q", "--children", "--accounts", "-o"]).arg(scratch.path("s"));
    command.arg("--ledger-dir").arg(scratch.live()).arg("--").arg(&program).current_dir(scratch.work());
    run(&mut command)?.good()?;
    let mut seen = Vec::new();
    for ledger in ledgers(&scratch)? {
        let stats = Stats::of(&ledger)?;
        check_totals(&stats, &[])?;
        let accounts = stats.0["accounts"].as_array().map(Vec::as_slice).unwrap_or_default();
        let held: u64 = accounts.iter().filter_map(|account| account["bytes"].as_u64()).sum();
        check!(accounts.len() == 1 && held == 50, "{}: {accounts:?}", ledger.display());
        let blocks = read("dump", &ledger, &[])?;
        let who = |block: &Value| block["label"]["who"].as_str().unwrap_or("nobody").to_owned();
        let labels: Vec<String> = blocks.iter().filter(|line| line["type"] == "block").map(who).collect();
        if let [_] = &labels[..] {
            let since = read("dump", &ledger, &["--since", "called"])?;
            check!(since.iter().any(|line| line["size"] == 50), "{}: {since:?}", ledger.display());
        }
        seen.push(labels.join(" "));
    }
    seen.sort();
    let expected = ["nobody"; 6].into_iter().chain(["nobody child", "parent parent"]).collect::<Vec<_>>();
    check!(seen == expected, "{seen:?}");
    Ok(())
}

/// Who gave and who ended a block that its parent freed before the fork: from the parent's ledger, and where that tells of the block no
/// more, from what the parent had kept beside it.
#[test]
fn a_parents_stacks_are_told_with_an_error_of_its_child() -> Result {
    let program = victim::named("heirs")?.build()?;
    for (history, number) in [("65536", ", number 2 there"), ("0", "")] {
        for word in ["write-freed", "grandchild"] {
            let scratch = Scratch::new();
            let mut ours = command(heapledger());
            ours.args(["run", "-q", "--children", "--history", history, "--guard=full", "-o"]).arg(scratch.path("s"));
            ours.arg("--ledger-dir").arg(scratch.live()).arg("--").arg(&program).arg(word).current_dir(scratch.work());
            run(&mut ours)?.good()?;
            let told = run(command(heapledger()).arg("errors").arg(scratch.path("s")))?.good()?.out();
            let lines: Vec<&str> = told.lines().map(str::trim).collect();
            let origin = lines.iter().find(|line| line.starts_with("Inherited : a block of heirs "));
            check!(origin.is_some_and(|line| line.contains(&format!("malloc 100 B{number}, freed before"))), "{told}");
            for (heading, function) in [("allocated by heirs ", "parents_block"), ("freed by heirs ", "parent_frees")] {
                let at = lines.iter().position(|line| line.starts_with(heading)).ok_or_else(|| told.clone())?;
                check!(lines.get(at + 1).is_some_and(|line| line.ends_with(function)), "{word}: {told}");
            }
        }
    }
    Ok(())
}
