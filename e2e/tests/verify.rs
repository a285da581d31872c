//! `heapledger verify`: a guarded program is looked at from outside, while it runs and when it has dumped core.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use heapledger_e2e::process::{self, Ran, children, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, find, heapledger, root};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check, skip};
use serde_json::Value;

/// `e2e/guard/verified.c`, which waits for lines.
struct Victim {
    run: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    pid: u32,
    scratch: Scratch,
}

fn built(scratch: &Scratch) -> Result<PathBuf> {
    let program = scratch.path("verified");
    let mut compile = command("gcc");
    compile.args(["-g", "-O0", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&program);
    process::run(compile.arg(root().join("e2e/guard/verified.c")))?.good()?;
    Ok(program)
}

impl Victim {
    fn start(options: &[&str], threads: u32) -> Result<Victim> {
        let scratch = Scratch::new();
        let program = built(&scratch)?;
        // A program that `run` prints nothing of but by `verify`.
        let mut all = vec!["--errors", "quiet"];
        all.extend(options);
        let mut command = under_run(&scratch, "x", &all, &program, &[threads.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut run = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let (stdin, stdout) = (run.stdin.take(), run.stdout.take().ok_or("no stdout")?);
        let mut victim = Victim { run, stdin, stdout: BufReader::new(stdout), pid: 0, scratch };
        victim.said()?;
        let name = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "verified")
        };
        let own = children(victim.run.id()).into_iter().find(name);
        victim.pid = own.ok_or("it has no process")?;
        Ok(victim)
    }

    fn said(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).map_err(|error| error.to_string())?;
        Ok(line.trim().to_owned())
    }

    /// Has it do something, and waits until that is done.
    fn does(&mut self, what: &str) -> Result<String> {
        let stdin = self.stdin.as_mut().ok_or("it has ended")?;
        stdin.write_all(format!("{what}\n").as_bytes()).map_err(|error| error.to_string())?;
        self.said()
    }

    /// It ends by itself.
    fn ends(mut self) -> Result<Scratch> {
        drop(self.stdin.take());
        let status = self.run.wait().map_err(|error| error.to_string())?;
        check!(status.success(), "it should end well: {status}");
        let scratch = std::mem::replace(&mut self.scratch, Scratch::new());
        Ok(scratch)
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It ends when nobody writes any more.
        drop(self.stdin.take());
        let _ = self.run.wait();
    }
}

fn verify(target: &str) -> Result<Ran> {
    process::run(command(heapledger()).args(["verify", "--color", "never"]).arg(target))
}

/// The lines of JSON of one type.
fn told(target: &str, of: &str) -> Result<Vec<Value>> {
    let ran = process::run(command(heapledger()).args(["verify", "--json"]).arg(target))?;
    let lines = ran.out().lines().map(serde_json::from_str).collect::<std::result::Result<Vec<Value>, _>>();
    let lines = lines.map_err(|error| format!("{error}: {ran}"))?;
    Ok(lines.into_iter().filter(|line| line["type"] == of).collect())
}

/// What each line does is told, with the block and who had it.
fn each_damage_is_told(
    victim: &mut Victim,
    target: &dyn Fn(&Victim) -> Result<String>,
    cases: &[(&str, &[&str])],
) -> Result {
    for (line, expected) in cases {
        victim.does(line)?;
        let ran = verify(&target(victim)?)?;
        let code = i32::from(!expected.is_empty());
        check!(ran.status.code() == Some(code), "{line}: {ran}");
        let said = ran.out();
        for part in *expected {
            check!(said.contains(part), "{line}: no '{part}' in {ran}");
        }
        let whole = said.contains("1 of 1,00") && said.contains(" is damaged.") || said.contains(" are whole.");
        check!(whole, "{line}: {ran}");
    }
    Ok(())
}

const BEHIND: (&str, &[&str]) = (
    "behind",
    &[
        "heap-buffer-overflow: WRITE of 1 byte",
        "0 bytes after a 13-byte region",
        "malloc 13 B",
        "in give, where its block was allocated",
    ],
);
const BEFORE: (&str, &[&str]) =
    ("before", &["heap-buffer-underflow: WRITE of 1 byte", "1 byte before a 40-byte region", "allocated by give"]);
const WHOLE: (&str, &[&str]) = ("whole", &[]);

fn light() -> [(&'static str, &'static [&'static str]); 6] {
    let header: (&str, &[&str]) = ("header", &["16 bytes before a 24-byte region"]);
    // What was freed is nobody's at this level.
    [WHOLE, BEHIND, BEFORE, header, ("freed", &[]), WHOLE]
}

fn full() -> [(&'static str, &'static [&'static str]); 6] {
    let header: (&str, &[&str]) = ("header", &["16 bytes before a 24-byte region"]);
    let freed: (&str, &[&str]) = (
        "freed",
        &[
            "heap-use-after-free: WRITE of 1 byte",
            "50 bytes inside a 100-byte region",
            "\nfreed, ",
            " end\n",
            "by fill, at sweep",
        ],
    );
    [WHOLE, BEHIND, BEFORE, header, freed, WHOLE]
}

fn by_number(victim: &Victim) -> Result<String> {
    Ok(victim.pid.to_string())
}

#[test]
fn a_program_at_light_is_seen_from_outside() -> Result {
    let mut victim = Victim::start(&["--guard=light"], 0)?;
    each_damage_is_told(&mut victim, &by_number, &light())?;
    let totals = told(&victim.pid.to_string(), "verified")?;
    check!(totals.len() == 1 && totals[0]["level"] == "light" && totals[0]["complete"] == true, "{totals:?}");
    check!(totals[0]["waiting"] == 0 && totals[0]["live"].as_u64() > Some(1000), "{totals:?}");
    // It did not notice.
    let scratch = victim.ends()?;
    let errors = process::run(command(heapledger()).arg("errors").arg(scratch.path("x.hl")))?.good()?.out();
    check!(errors.contains("No errors"), "{errors}");
    // Its ledger alone is not its memory.
    let ran = verify(&scratch.path("x.hl").to_string_lossy())?;
    check!(ran.status.code() == Some(2) && ran.err().contains("has ended, and its memory is gone"), "{ran}");
    Ok(())
}

/// They are looked at again together, while others come and go.
#[test]
fn many_damaged_blocks_are_all_told() -> Result {
    for level in ["--guard=light", "--guard=full"] {
        let mut victim = Victim::start(&[level], 1)?;
        victim.does("many")?;
        let pid = victim.pid.to_string();
        let ran = process::run(command(heapledger()).args(["verify", "--limit=0", &pid]))?;
        let (said, kind) = (ran.out(), "SUMMARY: heap-buffer-overflow ");
        check!(ran.status.code() == Some(1) && said.contains("500 of "), "{level}: {}", ran.err());
        check!(said.matches(kind).count() == 500, "{level}: {} of 500 are told", said.matches(kind).count());
        victim.ends()?;
    }
    Ok(())
}

#[test]
fn a_program_at_full_is_seen_from_outside() -> Result {
    let mut victim = Victim::start(&["--guard=full"], 0)?;
    each_damage_is_told(&mut victim, &by_number, &full())?;
    let totals = told(&victim.pid.to_string(), "verified")?;
    check!(totals.len() == 1 && totals[0]["level"] == "full" && totals[0]["waiting"].as_u64() > Some(0), "{totals:?}");
    victim.does("freed")?;
    let errors = told(&victim.pid.to_string(), "error")?;
    let of = |at: usize| errors[0]["stacks"][at]["of"].as_str().map(str::to_owned);
    check!(
        errors.len() == 1 && of(0).as_deref() == Some("allocation") && of(1).as_deref() == Some("free"),
        "{errors:?}"
    );
    victim.ends().map(drop)
}

#[test]
fn a_program_at_closed_pages_is_seen_from_outside() -> Result {
    // What faults is told at once, and no damage: who reads or writes a freed block, or what lies in front of one at `page=under`.
    let [whole, behind, before, header, ..] = full();
    let ends = [whole, behind, before, header, ("freed", &[][..]), whole];
    let begins = [whole, behind, ("before", &[][..]), ("freed", &[][..]), whole];
    for (options, cases, level) in [
        (&["--guard=page"][..], &ends[..], "page"),
        (&["--guard=page", "--guard-by=protection"], &ends, "page"),
        (&["--guard=page=under"], &begins, "page=under"),
        // Blocks of new call sites come first, and one in so many of the others.
        (&["--guard=page=1/1000"], &[("whole", &[][..])], "page=1/1000"),
    ] {
        let mut victim = Victim::start(options, 0)?;
        each_damage_is_told(&mut victim, &by_number, cases)?;
        let totals = told(&victim.pid.to_string(), "verified")?;
        check!(totals.len() == 1 && totals[0]["level"] == level && totals[0]["complete"] == true, "{totals:?}");
        let least = if level == "page=1/1000" { 3 } else { 1000 };
        check!(totals[0]["live"].as_u64() > Some(least) && totals[0]["unread"] == 0, "{options:?}: {totals:?}");
        victim.ends()?;
    }
    Ok(())
}

#[test]
fn other_threads_go_on_and_nothing_is_told_of_them() -> Result {
    for level in ["--guard=light", "--guard=full", "--guard=page"] {
        let mut victim = Victim::start(&[level, "--quarantine=1M"], 3)?;
        for _ in 0..10 {
            let ran = verify(&victim.pid.to_string())?;
            check!(ran.status.success() && ran.out().contains(" are whole."), "{level}: {ran}");
        }
        victim.does("behind")?;
        let ran = verify(&victim.pid.to_string())?;
        check!(ran.status.code() == Some(1) && ran.out().contains(BEHIND.1[1]), "{level}: {ran}");
        victim.ends()?;
    }
    Ok(())
}

#[test]
fn a_core_dump_has_what_there_was() -> Result {
    let Some(gcore) = find(&["gcore"]) else {
        skip("gcore", "it is not installed");
        return Ok(());
    };
    let dumped = |victim: &Victim| {
        let core = victim.scratch.path("core");
        let ran = process::run(command(&gcore).arg("-o").arg(&core).arg(victim.pid.to_string()))?;
        let core = victim.scratch.path(&format!("core.{}", victim.pid));
        check!(core.exists(), "{ran}");
        let bytes = std::fs::metadata(&core).map_err(|error| error.to_string())?.len();
        check!(bytes < 1 << 30, "{bytes} bytes, most of them of memory that nobody touched");
        Ok(core.to_string_lossy().into_owned())
    };
    let mut victim = Victim::start(&["--guard=light"], 0)?;
    each_damage_is_told(&mut victim, &dumped, &light()[..2])?;
    let mut victim = Victim::start(&["--guard=full"], 0)?;
    each_damage_is_told(&mut victim, &dumped, &[WHOLE, full()[4]])?;
    // It may not get past closed pages: what it has left out is no damage.
    for how in ["protection", "advice"] {
        let mut victim = Victim::start(&["--guard=page", &format!("--guard-by={how}")], 0)?;
        victim.does("whole")?;
        let ran = verify(&dumped(&victim)?)?;
        let is_all = ran.status.success() && ran.out().contains(" are whole.");
        let is_some = ran.status.code() == Some(2) && ran.out().contains("could not be read");
        check!((is_all || is_some) && !ran.out().contains("heap-"), "{how}: {ran}");
    }
    Ok(())
}

#[test]
fn what_the_kernel_dumps_is_enough() -> Result {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    for (level, line) in [("--guard=light", BEHIND), ("--guard=full", full()[4]), ("--guard=page", BEHIND)] {
        let scratch = Scratch::new();
        let program = built(&scratch)?;
        let shell: Vec<String> =
            ["-c", "ulimit -c unlimited; exec \"$0\"", &program.to_string_lossy()].map(str::to_owned).into();
        let mut command = under_run(&scratch, "x", &["--errors", "quiet", level], Path::new("/bin/sh"), &shell);
        let mut run = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut stdin = run.stdin.take().ok_or("no stdin")?;
        stdin.write_all(format!("{}\nabort\n", line.0).as_bytes()).map_err(|error| error.to_string())?;
        run.wait().map_err(|error| error.to_string())?;
        let entries = std::fs::read_dir(scratch.work()).map_err(|error| error.to_string())?;
        let core = entries
            .filter_map(|item| Some(item.ok()?.path()))
            .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("core")));
        let Some(core) = core else {
            skip("a core dump", &format!("none was written; core_pattern is {}", pattern.trim()));
            return Ok(());
        };
        let ran = verify(&core.to_string_lossy())?;
        check!(ran.status.code() == Some(1), "{level}: {ran}");
        for part in line.1 {
            check!(ran.out().contains(part), "{level}: no '{part}' in {ran}");
        }
    }
    Ok(())
}

#[test]
fn where_nothing_can_be_looked_at_it_says_why() -> Result {
    let refused = |target: &str, why: &str| {
        let ran = verify(target)?;
        check!(ran.status.code() == Some(2) && ran.err().contains(why), "no '{why}': {ran}");
        Ok(())
    };
    let mut victim = Victim::start(&[], 0)?;
    refused(
        &victim.pid.to_string(),
        "the blocks of verified are not guarded; start it with `heapledger run --guard=light",
    )?;
    victim.does("whole")?;
    let pid = victim.pid;
    victim.ends()?;
    until("its end", || !Path::new(&format!("/proc/{pid}")).exists())?;
    refused(&pid.to_string(), "there is no process")?;
    let mut victim = Victim::start(&["--guard=light"], 0)?;
    let child = victim.does("fork")?;
    let child = if child == "ready" { victim.said()? } else { child };
    refused(&child, "forked children are not recorded")?;
    Ok(())
}

/// Where only its parent may read a program's memory, `run` hands it out.
#[test]
fn what_run_hands_out_is_the_same() -> Result {
    let mut victim = Victim::start(&["--guard=light"], 0)?;
    let through = |victim: &Victim| {
        process::run(
            command(heapledger()).args(["verify", "--through-run", "--color", "never"]).arg(by_number(victim)?),
        )
    };
    let whole = through(&victim)?;
    check!(whole.status.code() == Some(0) && whole.out().contains(" are whole."), "{whole}");
    let (line, expected) = BEHIND;
    victim.does(line)?;
    for ran in [through(&victim)?, through(&victim)?] {
        check!(ran.status.code() == Some(1), "{ran}");
        for part in expected {
            check!(ran.out().contains(part), "no '{part}' in {ran}");
        }
    }
    Ok(())
}
