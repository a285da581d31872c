//! Programs that were written for other tests, guarded: they say what they say without us, and end as they do.

use heapledger_e2e::process::{self, PATIENCE};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::command;
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::victim;
use heapledger_e2e::{Result, check};

/// Each of them at one of these, in turn.
const LEVELS: [&str; 5] = ["--guard=page", "--guard=light", "--guard=full", "--guard=page=both", "--guard=page=1/10"];

/// Those that look at what a guard changes on purpose.
const EXCEPT: [(&str, &str); 10] = [
    ("arena_limits", "asks glibc about memory that comes from elsewhere"),
    ("mallinfo", "the same"),
    ("entry_points", "prints how much of a block can be used: what was asked for"),
    ("entry_points_cxx", "the same"),
    ("perturb", "has glibc fill blocks"),
    ("stack_need", "measures the stack of an allocation"),
    ("unwind_threads", "wants addresses to be used again"),
    ("counter", "is a library"),
    ("kill_truth", "is killed"),
    ("deep_bind", "has a library free blocks past the guard, which does not work: docs/guard.md"),
];

#[test]
fn they_notice_nothing() -> Result {
    let mut problems = Vec::new();
    for (index, victim) in victim::all()?.iter().enumerate() {
        let is_excepted = EXCEPT.iter().any(|(name, _)| victim.name == *name) || victim.name.starts_with("bench_");
        if victim.needs.is_some() || is_excepted {
            continue;
        }
        let (program, level) = (victim.build()?, LEVELS[index % LEVELS.len()]);
        for run in victim.runs.iter().take(1) {
            let scratch = Scratch::new();
            let plain = process::run(command(&program).args(&run.arguments).current_dir(scratch.work()))?;
            let mut guarded = under_run(&scratch, "x", &[level, "--errors=quiet"], &program, &run.arguments);
            let guarded = process::run_within(&mut guarded, PATIENCE)?;
            if (plain.out(), plain.status) != (guarded.out(), guarded.status) {
                problems.push(format!("{} {level}: {plain}\nand guarded {guarded}", victim.name));
            }
        }
    }
    check!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}
