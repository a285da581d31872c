//! Guards that are watched, and a ledger that lies in memory, as firmware's does.

use std::fs;

use heapledger_e2e::process::{self};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::{Result, check, skip};

use super::tools::*;

#[test]
fn a_watched_block_that_is_overrun_stops_the_program() -> Result {
    const OVERRUN: &str = r#"
#include <stdlib.h>
#include <unistd.h>
char *volatile block;
__attribute__((noinline)) void ready(void) { __asm__ volatile(""); }
__attribute__((noinline)) void overrun(void) { block[101] = 1; }
int main(void) { block = malloc(101); ready(); block[100] = 1; overrun(); return 0; }
"#;
    let scratch = Scratch::new();
    let program = compile(OVERRUN, scratch.work(), "overrun")?;
    let library = heapledger_e2e::tools::preload();
    let environment =
        format!("set exec-wrapper env LD_PRELOAD={} HEAPLEDGER=dir={}", library.display(), scratch.live().display());
    let commands = [
        environment.as_str(),
        "set startup-with-shell on",
        "break ready",
        "run",
        "heapledger watch block",
        "continue",
        "backtrace",
    ];
    for with_python in [true, false] {
        let ran = in_gdb(&scratch, with_python, &[&program.to_string_lossy()], &commands)?;
        if !ran.out().contains("Breakpoint 1, ") {
            skip("gdb on a program that it starts", "this system does not let it trace");
            return Ok(());
        }
        check!(ran.out().contains("Hardware watchpoint 2"), "watch: {ran}");
        check!(
            ran.out().contains("New value = 1") && ran.out().contains(" overrun ("),
            "the write was not caught: {}",
            ran.out()
        );
    }
    Ok(())
}

#[test]
fn the_place_of_an_error_is_watched_in_the_next_run() -> Result {
    const DAMAGED: &str = r#"
#include <stdlib.h>
#include <string.h>
char *volatile block;
__attribute__((noinline)) void fills(void) { memset(block, 7, 104); }
__attribute__((noinline)) void overrun(void) { block[104] = 1; }
__attribute__((noinline)) void give_back(void) { free(block); __asm__ volatile(""); }
int main(void) { block = malloc(104); fills(); overrun(); give_back(); free(block); return 0; }
"#;
    let scratch = Scratch::new();
    let program = compile(DAMAGED, scratch.work(), "damaged")?;
    let library = heapledger_e2e::tools::preload();
    let environment = format!(
        "set exec-wrapper env LD_PRELOAD={} HEAPLEDGER=dir={},guard=light",
        library.display(),
        scratch.live().display()
    );
    let commands = [
        environment.as_str(),
        "set startup-with-shell on",
        "set breakpoint pending on",
        "break heapledger_error",
        "run",
        "heapledger errors",
        "heapledger watch-error 9",
        "heapledger watch-error 0",
        // The free of what was freed, which comes last, has no bytes.
        "continue",
        "heapledger watch-error",
        "run",
        "backtrace 2",
    ];
    for with_python in [true, false] {
        let ran = in_gdb(&scratch, with_python, &[&program.to_string_lossy()], &commands)?;
        if !ran.out().contains("Breakpoint 1, ") {
            skip("gdb on a program that it starts", "this system does not let it trace");
            return Ok(());
        }
        let (out, said) = (ran.out(), (ran.out() + &ran.err()).to_lowercase());
        check!(said.contains("heap-buffer-overflow"), "python {with_python}: {ran}");
        check!(said.contains("there is no such error") && said.contains("of no bytes that"), "{with_python}: {said}");
        check!(out.contains("Watching 8 byte(s) at 0x") && out.contains("where error 0 was found"), "{ran}");
        let (_, second) = out.split_once("was found").ok_or("no watch")?;
        let (_, second) = second.split_once("New value").ok_or_else(|| format!("the write was not caught: {ran}"))?;
        check!(second.contains(" overrun (") && !second.contains("give_back"), "python {with_python}: {ran}");
        check!(left_behind(&scratch).is_empty(), "left behind: {:?}", left_behind(&scratch));
    }
    Ok(())
}

/// The C library writes into what is freed, and into what is reallocated: that is no overrun.
#[test]
fn a_watch_ends_when_the_block_is_freed() -> Result {
    const FREED: &str = r#"
#include <stdlib.h>
#include <string.h>
char *volatile block;
char *volatile other;
__attribute__((noinline)) void ready(void) { __asm__ volatile(""); }
__attribute__((noinline)) void give_back(void) { free(block); __asm__ volatile(""); }
__attribute__((noinline)) void enlarge(void) { block = realloc(block, 9000); __asm__ volatile(""); }
int main(int count, char **words) {
    // The last eight of its bytes are the C library's once it is free.
    block = malloc(2003);
    other = malloc(3000);
    ready();
    if (count > 1) enlarge();
    give_back();
    other = malloc(1503);
    memset(other, 7, 1503);
    block = malloc(2003);
    memset(block, 7, 2008);
    return 0;
}
"#;
    let scratch = Scratch::new();
    let program = compile(FREED, scratch.work(), "freed")?;
    let library = heapledger_e2e::tools::preload();
    let environment =
        format!("set exec-wrapper env LD_PRELOAD={} HEAPLEDGER=dir={}", library.display(), scratch.live().display());
    for (run, says) in [("run", "by free in give_back at "), ("run again", "by realloc in enlarge at ")] {
        let commands = [
            environment.as_str(),
            "break ready",
            run,
            "heapledger watch block",
            "continue",
            "info breakpoints",
            "delete",
            "continue",
        ];
        for with_python in [true, false] {
            let ran = in_gdb(&scratch, with_python, &[&program.to_string_lossy()], &commands)?;
            if !ran.out().contains("Breakpoint 1, ") {
                skip("gdb on a program that it starts", "this system does not let it trace");
                return Ok(());
            }
            let (said, sentence) = (ran.out(), format!("freed {says}"));
            check!(said.contains(&sentence), "python {with_python}, {run}: who freed it is not said: {said}");
            check!(said.matches("watch has ended").count() == 1, "python {with_python}, {run}: {said}");
            check!(
                !said.contains("New value"),
                "python {with_python}, {run}: a write that is right stopped it: {said}"
            );
            let after = said.split_once("the watch has ended.").map_or("", |(_, after)| after);
            check!(!after.contains("watchpoint"), "python {with_python}, {run}: a watchpoint is left: {said}");
            check!(after.contains("exited normally"), "python {with_python}, {run}: it does not go on: {said}");
            check!(left_behind(&scratch).is_empty(), "left behind: {:?}", left_behind(&scratch));
        }
    }
    Ok(())
}

#[test]
fn a_ledger_in_memory_is_dumped_when_it_is_not_busy() -> Result {
    let scratch = Scratch::new();
    // A region of memory with a ledger: a small one of a real program.
    let held = start(&scratch, &["--max-ledger", "256K", "--history", "64"], "w")?;
    let live = scratch.unfinished();
    // The shell that became the program has one of its own before it.
    let live = live.iter().rfind(|path| path.extension().is_some_and(|end| end == "hlive")).ok_or("no live file")?;
    let region = fs::read(live).map_err(text)?;
    check!(region.len() < 16 << 20, "the region is too large: {}", region.len());
    fs::write(scratch.path("region.bin"), &region).map_err(text)?;
    process::kill(i64::from(held.pid), "TERM")?;
    held.run.finish(process::PATIENCE)?;
    let (mut expected, _) = blocks(&scratch.path("x.hl"))?;
    expected.sort();
    let program = compile(FIRMWARE, scratch.work(), "firmware")?;
    for with_python in [true, false] {
        let commands = [
            "break middle",
            "run",
            "mdd_dump",
            "mdd_dumpnow",
            "tbreak heapledger_update_done",
            "continue",
            "mdd_dump",
            "break heapledger_history_full",
            "continue",
            "mdd_dump",
            "generate-core-file core",
            "dump binary memory ram.bin (char*)&heapledger_ledger-64 (char*)&heapledger_ledger+65536",
        ];
        let ran = in_gdb(&scratch, with_python, &[&program.to_string_lossy()], &commands)?;
        if !ran.out().contains("Breakpoint 1, ") {
            skip("gdb on a program that it starts", "this system does not let it trace");
            return Ok(());
        }
        let said = ran.out() + &ran.err();
        check!(said.contains("in the middle of an update"), "the busy mark is not respected: {said}");
        check!(said.contains("heapledger_update_done"), "it should say what to do: {said}");
        for number in 0..3 {
            let path = scratch.path(&format!("mddout.{number}"));
            let (mut found, _) = blocks(&path)?;
            found.sort();
            check!(found == expected, "python {with_python}: {} blocks of {}", found.len(), expected.len());
            let stats = tell(&["stats", &path.to_string_lossy()])?.good()?;
            let busy = stats.out().contains("halted in the middle of an update");
            check!(busy == (number == 0), "mddout.{number}: {stats}");
            let events = tell(&["history", "--json", &path.to_string_lossy()])?.good()?;
            let frees = events.out().lines().filter(|line| line.contains(r#""event":"free""#)).count();
            check!(frees == if number == 0 { 32 } else { 0 }, "{frees} frees in mddout.{number}");
            fs::remove_file(&path).map_err(text)?;
        }
        check!(!scratch.path("mddout.3").exists(), "a dump too many");
        // The memory holds the ledger itself, so its core dump does.
        let (mut found, moment) = blocks(&scratch.path("core"))?;
        found.sort();
        check!(found == expected && moment.contains("itself"), "of the core dump: {} blocks, {moment}", found.len());
        let ran = tell(&["stats", &scratch.path("ram.bin").to_string_lossy()])?.good()?;
        check!(ran.out().contains("64 B into"), "an image of memory: {ran}");
    }
    Ok(())
}
