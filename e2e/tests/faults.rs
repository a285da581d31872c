//! Each kind of system call of `run` and of the recorder fails once; `cargo xtask faults` lets each of them fail in turn.

use heapledger_e2e::faults::{Bench, ERRORS, Fault, Outcome, Who, call_name};
use heapledger_e2e::{Result, check, victim};

/// The first and the last of each kind of call, with one error each.
fn first_and_last(who: Who) -> Result {
    let bench = Bench::new(&victim::named("realloc_chain")?.build()?, &[])?;
    let (mut problems, mut met) = (Vec::new(), 0);
    let of_who = bench.counts.iter().filter(|((own, _), _)| *own == who);
    for (index, ((_, number), count)) in of_who.enumerate() {
        for nth in [1, *count].into_iter().take(if *count > 1 { 2 } else { 1 }) {
            let (error, _) = ERRORS[(index + nth as usize) % ERRORS.len()];
            match bench.inject(Fault { who, number: *number, nth, error }) {
                Ok(outcome) => met += u32::from(outcome != Outcome::NotMet),
                Err(problem) => problems.push(problem),
            }
        }
    }
    if met < 10 {
        problems.push(format!("only {met} calls failed"));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

#[test]
fn of_the_command_line() -> Result {
    first_and_last(Who::Run)
}

#[test]
fn of_the_recorder() -> Result {
    first_and_last(Who::Recorder)
}

/// A mistake of ours before the start (no random numbers for a table is one: the standard library panics), and no process to be
/// had: `run` becomes the program.
#[test]
fn what_ends_run_before_the_start_does_not_end_the_program() -> Result {
    const NO_MEMORY: i32 = 12;
    const TRY_AGAIN: i32 = 11;
    let bench = Bench::new(&victim::named("realloc_chain")?.build()?, &[])?;
    let mut said = 0;
    for (name, error) in [("getrandom", NO_MEMORY), ("clone", TRY_AGAIN), ("clone", NO_MEMORY)] {
        let own = bench.counts.iter().find(|((who, number), _)| *who == Who::Run && call_name(*number) == name);
        let Some(((who, number), count)) = own else { return Err(format!("run makes no {name}")) };
        for nth in 1..=*count {
            let outcome = bench.inject(Fault { who: *who, number: *number, nth, error })?;
            said += u32::from(outcome == Outcome::Said);
        }
    }
    check!(said >= 3, "only {said} sentences");
    Ok(())
}
