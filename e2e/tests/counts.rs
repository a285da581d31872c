//! Every victim once more, with a counting library next in line behind ours: allocations and frees are equal,
//! function by function.

use std::process::ExitCode;

use heapledger_e2e::cases::{self, Case};
use heapledger_e2e::counts::Counts;
use heapledger_e2e::ledger::{Stats, check_totals};
use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::system_library;
use heapledger_e2e::tracked::{by_hand, recover};
use heapledger_e2e::victim::{self, Run, Victim};
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
    for victim in victims.into_iter().filter(|victim| victim.untracked.is_none()) {
        for run in victim.runs.clone() {
            let name = [&[victim.name.clone()][..], &run.arguments].concat().join("-");
            let own = victim.clone();
            all.push(Case::new(&name, {
                let run = run.clone();
                move || count(&own, &run, None)
            }));
            for library in victim.also_under.clone() {
                let (own, run) = (victim.clone(), run.clone());
                all.push(Case::new(format!("{name}-over-{library}"), move || count(&own, &run, Some(&library))));
            }
        }
    }
    cases::main(all)
}

/// `over` is the allocator behind the counter.
fn count(victim: &Victim, run: &Run, over: Option<&str>) -> Result {
    let over = match over {
        Some(name) => match system_library(name) {
            Some(library) => Some(library),
            None => {
                skip(&victim.name, &format!("{name} is not installed"));
                return Ok(());
            }
        },
        None => None,
    };
    if let Some(package) = &victim.needs {
        skip(&victim.name, &format!("{package} is not installed"));
        return Ok(());
    }
    let (scratch, program, counter) = (Scratch::new(), victim.build()?, victim::counter()?);
    let mut behind = vec![counter.as_path()];
    behind.extend(over.as_deref());
    let base = scratch.path("counts");
    let mut command = by_hand(&scratch, &behind, &program, &run.arguments);
    let ran = process::run(command.env("COUNTER_OUT", &base))?;
    check!(ran.status == run.status, "it should end with {}: {ran}", run.status);
    let ledgers = recover(&scratch)?;
    check!(!ledgers.is_empty(), "there is no ledger");
    for ledger in ledgers {
        let stats = Stats::of(&ledger)?;
        // tcmalloc makes an object of itself when it is first asked how long a block is.
        let own = u64::from(over.is_some());
        Counts::of(&base, &stats)?.without(&victim.uncounted).check(&stats, own)?;
        check_totals(&stats, &victim.losses)?;
    }
    Ok(())
}
