//! The command line of heapledger: what a person types, and what becomes of it. Glue; the work is done in the
//! crates below.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use heapledger_launch::deep::deep;
use heapledger_launch::sys;

use crate::run::End;

mod args;
mod attach;
mod ecosmdd;
mod help;

mod commands;
mod completions;
mod man;
mod recover;
mod run;

mod terminal;
mod text;
mod top;
mod whole;

/// Exit code of every failure that has no other.
const FAILURE: u8 = 1;

fn main() -> ExitCode {
    let cli = match deep(|| args::parse(std::env::args_os())) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match cli.command {
        // It starts a process, for which it must have one thread, and sees to its stack itself.
        commands::Command::Run(arguments) => end_as(run::run(arguments)),
        other => deep(|| other.carry_out()),
    }
}

/// Says a sentence on stderr in our name, whatever names and paths are in it. The system's numbers of errors are left out:
/// the words beside them say the same.
fn say(text: &str) {
    say_lines(&heapledger_report::clean(text));
}

/// Says why something failed. What was typed wrongly may be told in several lines.
fn say_problem(problem: &anyhow::Error) {
    let text = format!("{problem:#}");
    let of_what_was_typed = problem.is::<commands::standard::Usage>() || problem.is::<heapledger_report::FormatError>();
    if of_what_was_typed { say_lines(&text) } else { say(&text) }
}

/// As [`say`], in several lines of ours.
fn say_lines(text: &str) {
    let text = format!("heapledger: {}\n", text::without_numbers(text));
    terminal::tell(&terminal::broken(&text, terminal::stderr_paint(false)));
}

/// Ends this process as the program ended: by the same signal if it was one, so that a shell sees the same.
fn end_as(end: End) -> ! {
    let code = match end {
        End::Code(code) => i32::from(code),
        End::Signal(signal) => {
            // The program's own core dump is there; one of ours would only be in its way.
            let _ = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0);
            let _ = nix::sys::prctl::set_dumpable(false);
            sys::raise_default(signal);
            // Here only if it cannot kill us: then what a shell would report.
            128 + signal
        }
    };
    std::process::exit(code)
}
