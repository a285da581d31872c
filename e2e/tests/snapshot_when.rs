//! `run --snapshot-when`: a snapshot when the program holds more than so much, while it goes on.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use heapledger_e2e::ledger::{Stats, check_totals};
use heapledger_e2e::process::PATIENCE;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check};

/// Holds as many MiB as each line of its input says, and answers each line.
const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    static char *held[1024];
    int count = 0, wanted;
    while (scanf("%d", &wanted) == 1 && wanted >= 0 && wanted <= 1024) {
        while (count < wanted) *(held[count++] = malloc(1 << 20)) = 1;
        while (count > wanted) free(held[--count]);
        printf("%d\n", count);
        fflush(stdout);
    }
    return 0;
}
"#;

const MIB: u64 = 1 << 20;

struct Swings {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Swings {
    fn start(scratch: &Scratch, options: &[&str]) -> Result<Swings> {
        let (source, program) = (scratch.path("swings.c"), scratch.path("swings"));
        fs::write(&source, SOURCE).map_err(|error| error.to_string())?;
        let compiled = Command::new("gcc").arg("-O1").arg("-o").arg(&program).arg(&source).status();
        check!(compiled.is_ok_and(|status| status.success()), "gcc");
        let mut command = under_run(scratch, "swings", options, &program, &[]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let (input, output) = (child.stdin.take().ok_or("stdin")?, child.stdout.take().ok_or("stdout")?);
        Ok(Swings { child, input, output: BufReader::new(output) })
    }

    /// Comes back when the program holds so much.
    fn hold(&mut self, mib: u64) -> Result {
        writeln!(self.input, "{mib}").map_err(|error| error.to_string())?;
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| error.to_string())?;
        check!(line.trim() == mib.to_string(), "it answers {line:?}");
        Ok(())
    }

    /// Ends it. What was on stderr.
    fn end(self) -> Result<String> {
        drop(self.input);
        let ended = self.child.wait_with_output().map_err(|error| error.to_string())?;
        check!(ended.status.success(), "{}", ended.status);
        Ok(String::from_utf8_lossy(&ended.stderr).into_owned())
    }
}

/// The snapshot of this number, when it is there.
fn snapshot(scratch: &Scratch, number: u32, mut meanwhile: impl FnMut() -> Result) -> Result<PathBuf> {
    let path = scratch.path(&format!("swings.{number}.hl"));
    let end = Instant::now() + PATIENCE;
    while !path.exists() {
        check!(Instant::now() < end, "no snapshot {number} comes");
        meanwhile()?;
        sleep(Duration::from_millis(20));
    }
    Ok(path)
}

fn live(ledger: &PathBuf) -> Result<u64> {
    let stats = Stats::of(ledger)?;
    check_totals(&stats, &[])?;
    Ok(stats.number("live_bytes"))
}

#[test]
fn a_snapshot_is_taken_when_it_holds_more() -> Result {
    let scratch = Scratch::new();
    let mut swings = Swings::start(&scratch, &["--snapshot-when", "live > 32M"])?;
    swings.hold(30)?;
    swings.hold(64)?;
    let first = live(&snapshot(&scratch, 0, || Ok(()))?)?;
    check!((64 * MIB..65 * MIB).contains(&first), "{first} bytes");
    // A little less is not enough for another one. (That it has been looked at meanwhile nobody says: this can only miss one.)
    for mib in [31, 60, 29, 64] {
        swings.hold(mib)?;
        sleep(Duration::from_millis(120));
    }
    check!(!scratch.path("swings.1.hl").exists(), "another snapshot");
    let mut is_high = true;
    let again = snapshot(&scratch, 1, || {
        is_high = !is_high;
        swings.hold(if is_high { 80 } else { 2 })
    })?;
    check!(live(&again)? <= 81 * MIB, "{} bytes", live(&again)?);
    swings.end()?;
    check!(live(&scratch.path("swings.hl"))? < 81 * MIB, "the ledger itself");
    Ok(())
}

#[test]
fn what_is_no_condition_is_refused() -> Result {
    let scratch = Scratch::new();
    let refused = under_run(&scratch, "none", &["--snapshot-when", "live < 1G"], "true".as_ref(), &[]).output();
    let refused = refused.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    check!(refused.status.code() == Some(2) && said.contains("'live > 512M'"), "{}: {said}", refused.status);
    Ok(())
}
