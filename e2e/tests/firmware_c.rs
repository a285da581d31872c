//! Firmware in C and C++ (`e2e/firmware/commands.c`, `commands.cpp`), linked with the static library: on a Cortex-M3 with newlib, on RISC-V with
//! picolibc. What the image of its memory says is what a model of the same 10,000 commands knows. And what the library costs.

use heapledger_e2e::chip::{MACHINES, Machine};
use heapledger_e2e::commands::{Called, agrees, functions, is_exact};
use heapledger_e2e::tools::command;
use heapledger_e2e::{Result, check, process};

#[test]
fn ten_thousand_commands_in_c_on_a_cortex_m3_agree_with_a_model() -> Result {
    agrees(&MACHINES[0], Called::NEWLIB, is_exact)
}

/// It has no more than a Cortex-M0 has, which cannot compare and swap.
#[test]
fn what_is_made_for_a_cortex_m0_agrees_with_a_model() -> Result {
    agrees(&MACHINES[0], Called::SMALLER, is_exact)
}

/// The compiler knew the layout of this one.
#[test]
fn with_a_library_that_is_built_for_it_a_firmware_agrees_with_a_model() -> Result {
    agrees(&MACHINES[0], Called::FIXED, is_exact)
}

#[test]
fn ten_thousand_commands_in_c_on_risc_v_agree_with_a_model() -> Result {
    agrees(&MACHINES[1], Called::PICOLIBC, is_exact)
}

/// Of what is whole nothing is told, over an allocator with words of its own in what it has back.
#[test]
fn with_blocks_that_are_guarded_ten_thousand_commands_agree_with_a_model() -> Result {
    agrees(&MACHINES[0], Called::NEWLIB_LIGHT, is_exact)?;
    agrees(&MACHINES[0], Called::NEWLIB_FULL, is_exact)?;
    // Made for a Cortex-M0.
    agrees(&MACHINES[0], Called::SMALLER_LIGHT, is_exact)?;
    agrees(&MACHINES[0], Called::SMALLER_FULL, is_exact)?;
    agrees(&MACHINES[1], Called::PICOLIBC_LIGHT, is_exact)?;
    agrees(&MACHINES[1], Called::PICOLIBC_FULL, is_exact)
}

#[test]
fn damage_is_told() -> Result {
    let line = "CORRUPT HEAP: Bad tail at 0x20000104. Expected 0xbaad5678 got 0xbaad5679\n";
    // The second is made for a Cortex-M0.
    for (machine, program) in [(&MACHINES[0], "guard_c"), (&MACHINES[0], "guard_c_m0"), (&MACHINES[1], "guard_c")] {
        for level in ["LIGHT", "FULL"] {
            let Some(firmware) = machine.firmware(&format!("{program}_{level}"), &[]) else { return Ok(()) };
            let is_full = u64::from(level == "FULL");
            // picolibc stores zeros in what it gives: nobody knows what was there.
            let is_left_alone = u64::from(machine.name != "RV32");
            let expected = [
                ("new_is_filled", is_full),
                ("zeroed", 1),
                ("whole", 0),
                ("behind", 1),
                ("overflow", 1),
                ("letters", line.len() as u64),
                ("this_block", 1),
                ("other_block", 0),
                ("no_block", 1),
                ("in_steps", 1),
                ("at_free", 1),
                ("heap", 1),
                ("underflow", 1),
                ("kept", 1),
                ("grown_is_filled", is_full),
                ("interior", 1),
                ("freed_is_filled", is_full),
                ("twice", 1),
                ("in_freed", is_full),
                ("again", 1),
                ("handed_out", is_full * is_left_alone),
                ("end", 0),
            ];
            let expected: Vec<(String, u64)> = expected.map(|(what, number)| (what.to_owned(), number)).into();
            let said = machine.says(&firmware)?;
            check!(said == expected, "{}, {program}_{level}: not {expected:?}, but {said:?}", machine.name);
        }
    }
    Ok(())
}

/// Where it stops at one of the functions for it, the stack is whole: what stands before the C library's functions has tables.
#[test]
fn a_debugger_sees_who_has_called() -> Result {
    let machine = MACHINES[0];
    let Some(firmware) = machine.firmware("commands_c", &["gdb-multiarch"]) else { return Ok(()) };
    let qemu = machine.qemu().join(" ");
    let remote =
        format!("target remote | exec {qemu} -no-reboot -no-shutdown -S -gdb stdio -kernel {}", firmware.display());
    let mut gdb = command("gdb-multiarch");
    gdb.args(["-nx", "-batch", "-q"]).env_remove("DEBUGINFOD_URLS");
    for line in ["set confirm off", &remote, "hbreak heapledger_history_full", "continue", "bt 12", "kill"] {
        gdb.args(["-ex", line]);
    }
    let ran = process::run(gdb.arg(&firmware))?;
    let frames = ["heapledger_history_full ()", "__wrap_", "perform (command=", "deeper (levels=0", " start ()"];
    let said = ran.out();
    let mut left = said.as_str();
    for frame in frames {
        let at = left.find(frame).ok_or_else(|| format!("{frame} is not there, or out of order: {said}"))?;
        left = &left[at..];
    }
    Ok(())
}

/// `new` calls `malloc`, which calls `_malloc_r`; where it throws, the exception is a block. A stack is the address behind the call here, as where
/// nobody says how stacks are found.
#[test]
fn ten_thousand_commands_in_cxx_agree_with_a_model() -> Result {
    agrees_in_cxx(Called::CXX)
}

/// `new` is dressed once, whoever it calls; aligned blocks are cut out of larger ones by `memalign`, which looks at what lies before these.
#[test]
fn with_blocks_that_are_guarded_ten_thousand_commands_in_cxx_agree_with_a_model() -> Result {
    agrees_in_cxx(Called::CXX_LIGHT)?;
    agrees_in_cxx(Called::CXX_FULL)
}

fn agrees_in_cxx(called: Called) -> Result {
    agrees(&MACHINES[0], called, |line, asked, _| {
        let frames = line["frames"].as_array().map_or(&[][..], Vec::as_slice);
        let physical: Vec<&str> = frames
            .iter()
            .filter(|frame| frame["inlined"] != true)
            .filter_map(|frame| frame["function"].as_str())
            .collect();
        check!(physical.len() == 1, "{physical:?}: {line}");
        check!(asked.is_of_a_library() || physical == ["perform"], "{physical:?}: {line}");
        Ok(())
    })
}

/// gcc's frame pointers lead nowhere on Thumb: a scan of the stack knows the innermost frame, and guesses at the others.
#[test]
fn compiled_by_gcc_the_innermost_frame_is_certain() -> Result {
    agrees(&MACHINES[0], Called::SCANNED, |line, asked, _| {
        let first = line["frames"][0]["function"].as_str().unwrap_or_default().to_owned();
        let expected = if asked.is_copy() { "_strdup_r" } else { "perform" };
        check!(first == expected, "{first} is the innermost frame, not {expected}: {line}");
        check!(functions(line).len() > 1, "nothing more is found: {line}");
        Ok(())
    })
}

/// A layout with ceilings, for the Cortex-M3 and RISC-V: bytes of the program and instructions of a `malloc` and its `free`, over the same firmware without the library;
/// and bytes of stack below who calls `malloc` or `free`, with those of the C library.
struct Ceiling {
    layout: &'static str,
    flash: [u64; 2],
    pair: [u64; 2],
    stack: [u64; 2],
}

const CEILINGS: [Ceiling; 4] = [
    // Built for this firmware: of the same as MINIMAL.
    Ceiling { layout: "FIXED", flash: [1480, 1530], pair: [570, 560], stack: [120, 120] },
    Ceiling { layout: "MINIMAL", flash: [2720, 2790], pair: [840, 820], stack: [208, 220] },
    Ceiling { layout: "TASKS", flash: [4550, 4680], pair: [1680, 1640], stack: [280, 300] },
    Ceiling { layout: "EVERYTHING", flash: [4900, 5100], pair: [1720, 1690], stack: [280, 300] },
];

/// Beside the ledger: four marks of calls that are under way. (Those of the smallest layout lie in none.)
const OUTSIDE_MAX: u64 = 32;

fn costs(machine: &Machine, nth: usize) -> Result {
    let Some(without) = machine.firmware("measure_c_none", &[]) else { return Ok(()) };
    let figure = |said: &[(String, u64)], word: &str| {
        let found = said.iter().find(|(said, _)| said == word);
        found.map(|(_, number)| *number).ok_or_else(|| format!("the firmware does not say {word}"))
    };
    let pair = |said: &[(String, u64)]| Ok::<u64, String>(figure(said, "alloc")? + figure(said, "free")?);
    let (room, instructions) = (machine.room(&without)?, pair(&machine.says(&without)?)?);
    println!(
        "{:<10} {:<12} {:>6} {:>7} {:>8} {:>6} {:>6} {:>6}",
        machine.name, "layout", "flash", "region", "outside", "pair", "malloc", "free"
    );
    let mut above = Vec::new();
    for Ceiling { layout, flash: flash_max, pair: pair_max, stack: stack_max } in CEILINGS {
        let Some(with) = machine.firmware(&format!("measure_c_{layout}"), &[]) else { return Ok(()) };
        let taken = machine.room(&with)?;
        let region = taken.symbols.get("heapledger_ledger").map_or(0, |(_, bytes)| *bytes);
        let flash = taken.flash - room.flash;
        let outside = taken.ram.saturating_sub(room.ram + region);
        let said = machine.says(&with)?;
        let instructions = pair(&said)?.saturating_sub(instructions);
        let (of_malloc, of_free) = (figure(&said, "alloc_stack")?, figure(&said, "free_stack")?);
        println!(
            "{:<10} {layout:<12} {flash:>6} {region:>7} {outside:>8} {instructions:>6} {of_malloc:>6} {of_free:>6}",
            ""
        );
        let stack = of_malloc.max(of_free);
        let panics: Vec<&String> = taken.symbols.keys().filter(|name| name.contains("panic")).collect();
        check!(panics.is_empty(), "{layout}: {panics:?} can be reached");
        for needed in ["heapledger_update_done", "heapledger_records_full", "heapledger_sites_full"] {
            check!(taken.symbols.contains_key(needed), "{layout}: {needed} is not there");
        }
        if flash > flash_max[nth] || instructions > pair_max[nth] || stack > stack_max[nth] || outside > OUTSIDE_MAX {
            above.push(format!(
                "{layout}: {flash} bytes, {instructions} instructions, {stack} bytes of stack, {outside} bytes outside of the ledger"
            ));
        }
    }
    check!(above.is_empty(), "{}: more than is allowed: {}", machine.name, above.join("; "));
    Ok(())
}

#[test]
fn what_the_library_costs_a_cortex_m3() -> Result {
    costs(&MACHINES[0], 0)
}

#[test]
fn what_the_library_costs_a_risc_v_processor() -> Result {
    costs(&MACHINES[1], 1)
}
