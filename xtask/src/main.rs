//! The one door: `cargo xtask demo` shows what this is, `cargo xtask test` says whether it works,
//! `cargo xtask bench` what it costs.
//!
//! Nothing but the standard library, so that the door opens at once.

use std::process::ExitCode;

mod again;
mod bench;
mod children;
mod demo;
mod dist;
mod docs;
mod faults;
mod logs;
mod package;
mod scale;
mod short;
mod stress;
mod test;
mod tidy;
mod viewers;
mod watching;

mod built;
mod packages;
mod planted;
#[cfg(test)]
mod spelled;
mod step;
mod symbols;
mod thumb;
mod tsan;

const USAGE: &str = "\
cargo xtask demo       build heapledger, run a real program under it, leave the report on screen and a ledger
cargo xtask test       everything that must hold before a change is taken; add the name of a step to run only that
cargo xtask again      every test again and again, alone and beside load, to find those that pass by a toss; takes a number of rounds
cargo xtask bench      what tracking costs, beside what other tools cost; takes names of programs, --quick and more
cargo xtask children   what it costs that children are recorded, one by one and in a build of thousands; takes a number of rounds
cargo xtask dist       a tarball, a .deb and an .rpm in target/dist, each installed and tried; --twice builds them again elsewhere,
                       which must give the same bytes
cargo xtask docs       the book in docs as pages in target/book, with all links looked at; installs mdbook into target/tools
cargo xtask faults     lets each system call of `run` and of the recorder fail in turn, and prints what came of it; takes how many
                       of each kind at most (0: all), names of errors and of victims
cargo xtask families   servers, builds and thousands of forks under `run --children`, beside a counting library in each process; takes names
cargo xtask firmware   firmware in QEMU: resets at each instruction of an update, 10,000 random commands with other numbers on each processor,
                       memory cut at each byte; after `cargo xtask test thumb`; takes how many numbers, and cuts, images or commands
cargo xtask judges     what heaptrack, DHAT and massif say of the same programs: equal, or by a difference that has a name
cargo xtask logs       logs larger than any memory, by a pipe into `heapledger stats`: what that takes; takes a number of gigabytes
cargo xtask package    packs every crate that is published, and installs the command from a registry made of the packages
cargo xtask pages      pages of `flame` in Chromium: how long frames take in a zoom and a search, and pictures in docs/pictures
cargo xtask scale      what reading large ledgers takes, from 1 to 20 million blocks; needs 4 GB of memory and 2 of disk
cargo xtask kill       SIGKILL at random moments, of programs, `run` and `recover`: nothing may be lost; takes a number of kills
cargo xtask short      what `heapledger run` itself adds to a program that ends at once
cargo xtask stress     every victim with threads, signals or forks 2,000 times, on two busy processors
cargo xtask tidy       the rules of the house that no compiler knows; --map prints what each file is for
cargo xtask tsan       the model tests under ThreadSanitizer, where a nightly compiler with its sources is installed
cargo xtask viewers    exported files, read by pprof, speedscope, heaptrack_print, dh_view.html, ms_print and others; --write keeps
                       them for the tests
cargo xtask watching   what it costs a program that `heapledger top` watches it
";

/// The random killer, which is a program of its own: `e2e/examples/killer.rs`.
fn kill(words: &[&str]) -> step::Result {
    let mut command = step::cargo(&["run", "--quiet", "--package", "heapledger-e2e", "--example", "killer", "--"]);
    step::run(command.args(words))
}

/// Real programs with many processes: `e2e/examples/families.rs`.
fn families(words: &[&str]) -> step::Result {
    let mut command =
        step::cargo(&["run", "--quiet", "--release", "--package", "heapledger-e2e", "--example", "families", "--"]);
    step::run(command.args(words))
}

/// Firmware in QEMU, for longer than a test may take: `e2e/examples/firmware.rs`.
fn firmware(words: &[&str]) -> step::Result {
    let mut command =
        step::cargo(&["run", "--quiet", "--release", "--package", "heapledger-e2e", "--example", "firmware", "--"]);
    step::run(command.args(words))
}

/// A program of the end-to-end tests that is no test: `e2e/examples`.
fn example(name: &str) -> step::Result {
    step::run(&mut step::cargo(&["run", "--quiet", "--package", "heapledger-e2e", "--example", name]))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        [_, ..] if step::root().as_os_str().is_empty() => Err("there is no checkout of heapledger here".to_owned()),
        ["demo"] => demo::run(),
        ["test", only @ ..] => test::run(only),
        ["again", words @ ..] => again::run(words),
        ["bench", words @ ..] => bench::run(words),
        ["children", words @ ..] => children::run(words),
        ["dist", words @ ..] => dist::run(words),
        ["docs"] => docs::run(),
        ["faults", words @ ..] => faults::run(words),
        ["families", words @ ..] => families(words),
        ["firmware", words @ ..] => firmware(words),
        ["judges"] => example("judges"),
        ["pages"] => example("pages"),
        ["logs", words @ ..] => logs::run(words),
        ["package"] => package::run(),
        ["scale", words @ ..] => scale::run(words),
        ["short", words @ ..] => short::run(words),
        ["stress", words @ ..] => stress::run(words),
        ["kill", words @ ..] => kill(words),
        ["tidy", words @ ..] => tidy::run(words),
        ["tsan"] => tsan::run(),
        ["viewers", words @ ..] => viewers::run(words),
        ["watching", words @ ..] => watching::run(words),
        _ => {
            print!("{USAGE}");
            return if words.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) };
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("xtask: {problem}");
            ExitCode::FAILURE
        }
    }
}
