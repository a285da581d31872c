//! Firmware that allocates and frees 10,000 times as random numbers say (`e2e/firmware/commands.rs`), on a Cortex-M3 and on RISC-V: what the
//! image of its memory says is what a model of the same commands knows. Totals, losses, each live block and each freed one with function,
//! size, task, time and call stack are compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use heapledger_e2e::chip::{MACHINES, Machine, OTHERS};
use heapledger_e2e::commands::{Called, HISTORY, Model, agrees, ends_are, expected_functions, functions, is_exact};
use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger, root};
use heapledger_e2e::{Result, check, process};

/// Each time that the history is full a debugger carries the ledger off: together the copies have all that was ever freed.
fn is_carried_off(machine: &Machine, with_python: bool) -> Result {
    let Some(firmware) = machine.firmware("commands", &["gdb-multiarch"]) else { return Ok(()) };
    let scratch = Scratch::new();
    let text = |error: std::io::Error| error.to_string();
    let script = fs::read_to_string(root().join("gdb/heapledger.gdb")).map_err(text)?;
    let plain = script.split("# -- Part 2").next().unwrap_or_default();
    fs::write(scratch.path("script.gdb"), if with_python { &script } else { plain }).map_err(text)?;
    let at_each = "break heapledger_history_full\ncommands\nsilent\nmdd_dump\ncontinue\nend\n";
    fs::write(scratch.path("each.gdb"), at_each).map_err(text)?;
    let mut gdb = debugger(machine, &firmware, &scratch);
    for line in ["source script.gdb", "source each.gdb", "continue", "mdd_dump", "heapledger dump --limit 3", "kill"] {
        gdb.args(["-ex", line]);
    }
    let ran = process::run(gdb.arg(&firmware))?;
    let model = Model::of_all(Called::RUST);
    let overflows = model.freed.len() / HISTORY;
    check!(overflows > 10, "the ring goes round {overflows} times");
    let files: Vec<PathBuf> = (0..=overflows).map(|number| scratch.path(&format!("mddout.{number}"))).collect();
    let missing = files.iter().find(|file| !file.exists());
    check!(missing.is_none(), "{}: {missing:?} is not there: {ran}", machine.name);
    check!(!scratch.path(&format!("mddout.{}", files.len())).exists(), "{}: one copy too many: {ran}", machine.name);
    // What gdb has loaded names the functions.
    check!(ran.out().contains("commands::perform"), "{}: no names in gdb: {ran}", machine.name);
    let (first, more) = files.split_first().ok_or("no files")?;
    let more: Vec<&str> = more.iter().filter_map(|file| file.to_str()).collect();
    let firmware = firmware.to_string_lossy();
    let lines = read("history", first, &[more, vec!["--exe", &firmware, "--limit", "0"]].concat())?;
    ends_are(&lines, &model.freed, machine, is_exact)?;
    let allocated = lines.iter().filter(|line| line["event"] == "allocation").count() as u64;
    check!(allocated == model.of("allocations"), "{allocated} blocks began");
    Ok(())
}

/// gdb, with the firmware in QEMU, halted at its first instruction.
fn debugger(machine: &Machine, firmware: &Path, scratch: &Scratch) -> Command {
    let qemu = machine.qemu().join(" ");
    let remote =
        format!("target remote | exec {qemu} -no-reboot -no-shutdown -S -gdb stdio -kernel {}", firmware.display());
    // What hangs is ended from outside.
    let mut gdb = command("timeout");
    gdb.args(["600", "gdb-multiarch", "-nx", "-batch", "-q", "-ex", "set confirm off", "-ex", &remote]);
    gdb.env("HEAPLEDGER_COMMAND", heapledger()).env_remove("DEBUGINFOD_URLS").current_dir(scratch.path("."));
    gdb
}

#[test]
fn a_debugger_carries_off_all_that_was_freed() -> Result {
    MACHINES.iter().try_for_each(|machine| is_carried_off(machine, true))
}

#[test]
fn so_does_one_without_python() -> Result {
    is_carried_off(&MACHINES[0], false)
}

/// By a scan of the stack: innermost frames are certain. The others are mostly there, with some among them that earlier calls have left; the ledger
/// says that they are guesses.
fn scans(machine: &Machine) -> Result {
    let Some(firmware) = machine.firmware("commands_scan", &[]) else { return Ok(()) };
    let scratch = Scratch::new();
    let image = scratch.path("ram.bin");
    machine.image(&firmware, &image)?;
    let model = Model::of_all(Called::RUST);
    let guessed = Stats::of(&image)?.inner("counters", "stacks_guessed");
    // A realloc has one stack, for what ends and what begins.
    check!(guessed == model.of("allocations") + model.of("frees") - model.of("reallocs"), "{guessed} are guessed");

    let left_out = Stats::of(&image)?.inner("counters", "sites_full");
    check!(left_out == 0, "{}: {left_out} stacks had no room", machine.name);
    let said = process::run(command(heapledger()).arg("stats").arg(&image))?.good()?.out();
    check!(said.contains("were found by a scan of the stack") && !said.contains("frame pointers"), "{said}");

    let lines = read("dump", &image, &["--exe", &firmware.to_string_lossy()])?;
    let (mut exact, mut whole, mut all) = (0, 0, 0);
    for line in lines.iter().filter(|line| line["type"] == "block" && line["thread"]["name"] != "interrupts") {
        let number = line["number"].as_u64().unwrap_or(u64::MAX);
        let (_, _, by) = model.live.get(&number).ok_or_else(|| format!("no block has this number: {line}"))?;
        let (is, expected) = (functions(line), expected_functions(by, machine));
        check!(is.first() == expected.first(), "{}: the innermost frame of {is:?} is wrong", machine.name);
        exact += u32::from(is == expected);
        // All that is expected, in order, and perhaps more.
        let mut left = is.iter();
        whole += u32::from(expected.iter().all(|function| left.any(|found| found == function)));
        all += 1;
    }
    println!(
        "{}: of {all} stacks that were found by a scan, {whole} have all frames, and {exact} no others",
        machine.name
    );
    check!(all > 20 && whole * 10 >= all * 7, "{}: of {all} stacks {whole} have all frames", machine.name);
    Ok(())
}

#[test]
fn a_scan_of_the_stack_finds_most_frames_and_is_said_to_be_a_guess() -> Result {
    MACHINES.iter().try_for_each(scans)
}

#[test]
fn ten_thousand_commands_on_a_cortex_m3_agree_with_a_model() -> Result {
    agrees(&MACHINES[0], Called::RUST, is_exact)
}

/// A processor with a floating-point unit, which is on, and one that cannot compare and swap.
#[test]
fn ten_thousand_commands_on_other_cortexes_agree_with_a_model() -> Result {
    OTHERS.iter().try_for_each(|machine| agrees(machine, Called::RUST, is_exact))
}

#[test]
fn ten_thousand_commands_on_risc_v_agree_with_a_model() -> Result {
    agrees(&MACHINES[1], Called::RUST, is_exact)
}
