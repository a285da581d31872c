//! Every victim: the same without us and with us, and a ledger that says what it did.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use heapledger_e2e::cases::{self, Case};
use heapledger_e2e::ledger::{Blocks, Stats, check_nothing_wrong, check_totals};
use heapledger_e2e::process::{self, Ran};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, system_library};
use heapledger_e2e::tracked::{by_hand, images, recover, run_cleanly, under_run};
use heapledger_e2e::victim::{self, Run, Untracked, Victim};
use heapledger_e2e::{Result, check, skip};

fn main() -> ExitCode {
    let victims = match victim::all() {
        Ok(victims) => victims,
        Err(problem) => {
            println!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    let mut all = Vec::new();
    for victim in victims {
        for run in victim.runs.clone() {
            let name = [&[victim.name.clone()][..], &run.arguments].concat().join("-");
            let own = victim.clone();
            all.push(Case::new(&name, {
                let run = run.clone();
                move || under_libc(&own, &run)
            }));
            for library in victim.also_under.clone() {
                let (own, run) = (victim.clone(), run.clone());
                all.push(Case::new(format!("{name}-under-{library}"), move || under_another(&own, &run, &library)));
            }
        }
    }
    cases::main(all)
}

fn under_libc(victim: &Victim, run: &Run) -> Result {
    if let Some(package) = &victim.needs {
        skip(&victim.name, &format!("{package} is not installed"));
        return Ok(());
    }
    let (scratch, program) = (Scratch::new(), victim.build()?);
    let plain = process::run(command(&program).args(&run.arguments).current_dir(scratch.work()))?;
    check!(plain.status == run.status, "without us, it should end with {}: {plain}", run.status);
    let history =
        if victim.expectations.iter().any(|expectation| expectation.needs_history()) { "1000000" } else { "65536" };
    let tracked =
        run_cleanly(&scratch, &mut under_run(&scratch, "x", &["--history", history], &program, &run.arguments))?;
    let ledgers = images(&scratch, "x");
    match victim.untracked {
        None => {
            plain.compare(&tracked)?;
            check_ledgers(victim, run, &ledgers)
        }
        Some(why) => check_untracked(why, &plain, tracked, &ledgers),
    }
}

fn under_another(victim: &Victim, run: &Run, library: &str) -> Result {
    let Some(library) = system_library(library) else {
        skip(&victim.name, &format!("{library} is not installed"));
        return Ok(());
    };
    let (scratch, program) = (Scratch::new(), victim.build()?);
    let plain = process::run(command(&program).args(&run.arguments).env("LD_PRELOAD", &library))?;
    let tracked = process::run(&mut by_hand(&scratch, &[&library], &program, &run.arguments))?;
    plain.compare(&tracked)?;
    check_ledgers(victim, run, &recover(&scratch)?)
}

fn check_ledgers(victim: &Victim, run: &Run, ledgers: &[PathBuf]) -> Result {
    check!(!ledgers.is_empty(), "there is no ledger");
    for (index, ledger) in ledgers.iter().enumerate() {
        let (image, is_last) = (index + 1, index + 1 == ledgers.len());
        check_ledger(victim, run, ledger, image, is_last).map_err(|problem| format!("image {image}: {problem}"))?;
    }
    Ok(())
}

fn check_ledger(victim: &Victim, run: &Run, ledger: &Path, image: usize, is_last: bool) -> Result {
    let stats = Stats::of(ledger)?;
    check_totals(&stats, &victim.losses)?;
    check_nothing_wrong(ledger, &victim.errors)?;
    let live = Blocks::live(ledger)?;
    live.check(&stats)?;
    for expectation in &victim.expectations {
        let is_meant = expectation.run.is_none_or(|number| number == run.number)
            && expectation.image.map_or(is_last, |number| number == image);
        if is_meant && expectation.needs_history() {
            expectation.check(&stats, Some(&Blocks::ever(ledger)?))?;
        } else if is_meant {
            expectation.check(&stats, Some(&live))?;
        }
    }
    Ok(())
}

/// It runs as without us, and one sentence says why there is nothing to see.
fn check_untracked(why: Untracked, plain: &Ran, mut tracked: Ran, ledgers: &[PathBuf]) -> Result {
    let said = tracked.err();
    if why != Untracked::HiddenAllocator {
        check!(
            said.lines().count() == 1 && said.starts_with("heapledger: "),
            "it should say one sentence, not {said:?}"
        );
        check!(said.contains("untracked"), "the sentence should say that it runs untracked: {said:?}");
        check!(ledgers.is_empty(), "there is a ledger of a program that was not seen");
    } else if let Some(ledger) = ledgers.last() {
        check_totals(&Stats::of(ledger)?, &[])?;
    }
    tracked.stderr.clone_from(&plain.stderr);
    plain.compare(&tracked)
}
