//! Firmware in C that instruments a library's own allocator (`e2e/firmware/metadata.c`): the lines that it prints on a Cortex-M3 and on RISC-V, as
//! QEMU runs them, say who asked for each of zlib's blocks.

use heapledger_e2e::chip::{MACHINES, Machine};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::{Result, check, process};
use serde_json::Value;

fn agrees(machine: &Machine) -> Result {
    let Some(firmware) = machine.firmware("metadata_c", &[]) else { return Ok(()) };
    let said = machine.console(&firmware)?;
    let figure = |word: &str| -> Result<u64> {
        let line = said.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        line.and_then(|number| number.parse().ok()).ok_or_else(|| format!("no {word} in {said}"))
    };
    let lines = |lead_in: &str| said.lines().filter(|line| line.starts_with(lead_in)).collect::<Vec<_>>();
    let (compressed, plain) = (lines("~m#"), lines("~b#"));
    // Of two streams one is gone: half of all, all of which were told.
    let live = figure("live")?;
    check!(live >= 5 && compressed.len() as u64 == live && plain.len() as u64 == live, "{said}");
    check!(figure("came")? == 2 * live && figure("went")? == live, "{said}");
    let bits = ["decode", "--bits", "32"];
    let words = process::run(command(heapledger()).args(bits).args(&compressed))?.good()?.out();
    check!(words.lines().eq(plain.iter().copied()), "both forms say the same: {words} {plain:?}");

    let scratch = Scratch::new();
    let log = scratch.path("console.log");
    std::fs::write(&log, &said).map_err(|error| error.to_string())?;
    let mut dump = command(heapledger());
    dump.args(["dump", "--json", "--limit", "0", "--exe"]).arg(&firmware).arg(&log);
    let dumped = process::run(&mut dump)?.good()?.out();
    let lines: Vec<Value> = dumped.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |kind: &'static str| lines.iter().filter(move |line| line["type"] == kind);
    let sizes: Vec<u64> = of("block").filter_map(|block| block["size"].as_u64()).collect();
    // Each line is there in both forms.
    check!(sizes.len() as u64 == 2 * live && sizes.iter().sum::<u64>() == figure("asked")?, "{sizes:?}, {said}");
    for site in of("site") {
        let names: Vec<&str> = site["frames"]
            .as_array()
            .map_or(&[][..], Vec::as_slice)
            .iter()
            .filter_map(|frame| frame["function"].as_str())
            .collect();
        check!(names == ["deflateInit2_", "begin_to_deflate", "start", "begin"], "{}: {names:?} {site}", machine.name);
    }
    Ok(())
}

#[test]
fn blocks_of_a_library_are_named_on_a_cortex_m3() -> Result {
    agrees(&MACHINES[0])
}

/// Its code lies above 2^31.
#[test]
fn blocks_of_a_library_are_named_on_risc_v() -> Result {
    agrees(&MACHINES[1])
}
