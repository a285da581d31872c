//! Starting a program where something is in the way: it runs as without us, and a sentence says what was not to be had.

use std::path::Path;

use heapledger_e2e::process::{self, Ran};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, preload};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check, victim};

/// Runs a script of the shell under `run`; `$1` is the program.
fn script(scratch: &Scratch, name: &str, options: &[&str], script: &str, program: &Path) -> Result<Ran> {
    let words = ["-c", script, "sh"].map(str::to_owned).into_iter().chain([program.to_string_lossy().into_owned()]);
    process::run(&mut under_run(scratch, name, options, Path::new("/bin/sh"), &words.collect::<Vec<_>>()))
}

#[test]
fn sanitized_programs_run_wherever_the_library_meets_them() -> Result {
    for (victim, name) in [
        ("sanitizer_address", "AddressSanitizer"),
        ("sanitizer_thread", "ThreadSanitizer"),
        ("sanitizer_leak", "LeakSanitizer"),
    ] {
        let (scratch, program) = (Scratch::new(), victim::named(victim)?.build()?);
        let said =
            format!("heapledger: this program has {name} inside, which replaces malloc itself: nothing is recorded\n");
        let child = script(&scratch, "child", &[], "\"$1\"; echo $?", &program)?;
        check!(child.out() == "sanitized\n0\n" && child.err().is_empty(), "{victim} as a child: {child}");
        let became = script(&scratch, "became", &[], "exec \"$1\"", &program)?;
        check!(became.status.success() && became.out() == "sanitized\n", "{victim} by exec: {became}");
        check!(became.err().starts_with(&said) && became.err().contains("sh became "), "{victim} by exec: {became}");
        let mut by_hand = command(&program);
        by_hand.env("LD_PRELOAD", preload()).env("ASAN_OPTIONS", "verify_asan_link_order=0");
        by_hand.env("HEAPLEDGER", format!("dir={}", scratch.live().display()));
        let by_hand = process::run(&mut by_hand)?;
        check!(by_hand.status.success() && by_hand.out() == "sanitized\n", "{victim} by hand: {by_hand}");
        check!(by_hand.err() == said, "{victim} by hand: {by_hand}");
    }
    Ok(())
}
