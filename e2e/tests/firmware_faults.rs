//! Who writes to what a firmware watches, without a debugger, and where a processor could not go on: what handlers in C are told, and what the ledger says
//! (`e2e/firmware/faults.c`). QEMU has triggers of a RISC-V processor, and no comparators of a Cortex-M3: there the firmware is told that there are none,
//! and what is written to registers, tests of the crate look at.

use std::path::Path;

use heapledger_e2e::chip::{MACHINES, Machine};
use heapledger_e2e::ledger::read;
use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::{Result, check};
use serde_json::Value;

/// Where nothing is that could be written to, and what the processor says to that: a precise data bus error; a store access fault.
const NOTHING_THERE: [(u64, u64); 2] = [(0x6000_0000, 0x8200), (0x1800_0000, 7)];

/// Whether an address is in a function of the firmware.
fn is_in(machine: &Machine, firmware: &Path, code: u64, function: &str) -> Result<bool> {
    let (first, bytes) = *machine.room(firmware)?.symbols.get(function).ok_or("the firmware has no such function")?;
    let first = first & !1;
    Ok((first..first + bytes).contains(&code))
}

/// The functions of one of an error's stacks.
fn stack(lines: &[Value], error: &Value, whose: &str) -> Vec<String> {
    let of = error["stacks"].as_array().into_iter().flatten().find(|stack| stack["of"] == whose);
    let site = of.map(|of| &of["site"]);
    let line = lines.iter().find(|line| line["type"] == "site" && Some(&line["site"]) == site);
    let frames = line.and_then(|line| line["frames"].as_array()).into_iter().flatten();
    frames.filter_map(|frame| frame["function"].as_str()).map(str::to_owned).collect()
}

fn is_told(nth: usize) -> Result {
    let machine = &MACHINES[nth];
    let (Some(firmware), Some(ends)) = (machine.firmware("faults_c", &[]), machine.firmware("faults_c_ends", &[]))
    else {
        return Ok(());
    };
    let said = machine.says(&ends)?;
    let of = |word: &str| said.iter().find(|(is, _)| is == word).map(|(_, number)| *number);
    check!(of("unaligned") == Some(5) && of("nobody") == Some(4), "{said:?}");
    let can_watch = machine.name == "RV32";
    if can_watch {
        // Of writes beside it and not of the second one: it was over with the first.
        let words: Vec<&str> = said.iter().map(|(word, _)| word.as_str()).collect();
        let expected =
            ["unaligned", "watch", "not", "written", "address", "code", "over", "value", "unwatch", "nobody"];
        check!(words.starts_with(&expected), "{words:?}");
        check!(of("over") == Some(1) && of("value") == Some(7) && of("unwatch") == Some(4), "{said:?}");
        check!(is_in(machine, &ends, of("code").unwrap_or(0), "writer")?, "somebody else has written: {said:?}");
    } else {
        check!(of("cannot") == Some(6) && of("watch").is_none(), "{said:?}");
    }
    let (address, status) = NOTHING_THERE[nth];
    check!(of("fault") == Some(status) && of("accessed") == Some(address), "{said:?}");
    check!(is_in(machine, &ends, of("at").unwrap_or(0), "writer")?, "it was somewhere else: {said:?}");

    let scratch = Scratch::new();
    let image = scratch.path("ram.bin");
    machine.image(&firmware, &image)?;
    let ran = process::run(command(heapledger()).args(["errors", "--json", "--exe"]).arg(&firmware).arg(&image))?;
    let parsed = |line: &str| serde_json::from_str(line).map_err(|error| format!("{line}: {error}"));
    let lines: Vec<Value> = ran.good()?.out().lines().map(parsed).collect::<Result<_>>()?;
    let errors: Vec<&Value> = lines.iter().filter(|line| line["type"] == "error").collect();
    let kinds: Vec<&str> = errors.iter().filter_map(|error| error["kind"].as_str()).collect();
    let expected = if can_watch { &["watched-write", "processor-fault"][..] } else { &["processor-fault"] };
    check!(kinds == expected, "{kinds:?}");
    for error in &errors {
        check!(error["found_at"] == "instruction", "{error}");
        let names = stack(&lines, error, "access");
        // (It calls nobody, and has no frame of its own: further ones are not certain.)
        check!(names.first().is_some_and(|name| name == "writer"), "{names:?}: {error}");
    }
    if let [written, _] = errors[..] {
        check!(written["block_bytes"] == 24 && written["direction"] == "write", "{written}");
        let names = stack(&lines, written, "allocation");
        check!(names.first().is_some_and(|name| name == "start"), "{names:?}: {written}");
    }
    let fault = errors.last().ok_or("there is no error")?;
    check!(fault["address"] == format!("{address:#x}"), "{fault}");
    check!(fault["operands"][0] == status, "{fault}");
    // Readers know that it was the end.
    let stats = read("stats", &image, &[])?;
    let notes = stats.last().and_then(|end| end["notes"].as_array()).ok_or("no end")?;
    check!(notes.iter().any(|note| note["kind"] == "stopped"), "{notes:?}");
    Ok(())
}

#[test]
fn a_cortex_m3_tells_where_it_could_not_go_on() -> Result {
    is_told(0)
}

#[test]
fn a_risc_v_processor_tells_who_has_written_and_where_it_could_not_go_on() -> Result {
    is_told(1)
}
