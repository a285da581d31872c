//! Names of firmware's functions: files that are said to be it, those that are refused, what gdb has loaded; and what is told of a chip's ledger.

use std::path::{Path, PathBuf};

use heapledger_e2e::chip::{MACHINES, Machine};
use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::process::Ran;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::{Result, check, process};

const ARM: &Machine = &MACHINES[0];
const RISC_V: &Machine = &MACHINES[1];

fn tell(words: &[&str]) -> Result<Ran> {
    process::run(command(heapledger()).args(words))
}

/// Firmware, and an image of its memory at its end.
struct Image {
    firmware: PathBuf,
    ram: PathBuf,
}

impl Image {
    fn of(machine: &Machine, name: &str, scratch: &Scratch) -> Result<Option<Image>> {
        let Some(firmware) = machine.firmware(name, &[]) else { return Ok(None) };
        let ram = scratch.path(&format!("{}-{name}.bin", machine.name));
        machine.image(&firmware, &ram)?;
        Ok(Some(Image { firmware, ram }))
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

#[test]
fn every_command_names_firmware_by_a_file_before_its_ledger() -> Result {
    let scratch = Scratch::new();
    let Some(Image { firmware, ram }) = Image::of(ARM, "firmware", &scratch)? else { return Ok(()) };
    let lines = read("dump", &ram, &["--limit", "1"])?;
    let block = lines.iter().find(|line| line["type"] == "block").and_then(|line| line["address"].as_str());
    let block = block.ok_or("no block")?;
    let (firmware, ram) = (text(&firmware), text(&ram));
    for words in [
        &["stats"][..],
        &["dump"],
        &["dump", "--group-by", "fn"],
        &["history"],
        &["tree"],
        &["check", "--max-live", "1"],
        &["top", "--batch", "1"],
        &["flame", "-o", "-", "--format", "folded"],
        &["whereis"],
    ] {
        let (name, options) = words.split_first().ok_or("no command")?;
        let mut before = vec![*name, firmware, ram];
        let mut with_option = vec![*name, "--exe", firmware, ram];
        if *name == "whereis" {
            [&mut before, &mut with_option].into_iter().for_each(|all| all.push(block));
        }
        for mut all in [before, with_option] {
            all.extend(options);
            let ran = tell(&all)?;
            let said = ran.out();
            check!(said.contains("firmware::hoards"), "{all:?} names nothing: {ran}");
            check!(!said.contains("could not be checked"), "{all:?}: the build is not known: {ran}");
        }
    }
    // Two builds that are compared have a file each, in any order.
    if let Some(other) = Image::of(ARM, "commands", &scratch)? {
        let ran = tell(&[
            "diff",
            "--group-by",
            "fn",
            "--exe",
            firmware,
            "--exe",
            text(&other.firmware),
            text(&other.ram),
            ram,
        ])?;
        let said = ran.good()?.out();
        check!(said.contains("firmware::hoards") && said.contains("commands::perform"), "two builds: {said}");
    }
    // What the program itself does, and not its allocator.
    let functions = tell(&["dump", "--columns", "fn", firmware, ram])?.good()?.out();
    check!(!functions.contains("ChipAllocator"), "blocks are held by the allocator: {functions}");
    Ok(())
}

#[test]
fn another_build_and_another_machine_are_refused() -> Result {
    let scratch = Scratch::new();
    let Some(arm) = Image::of(ARM, "firmware", &scratch)? else { return Ok(()) };
    let Some(risc_v) = Image::of(RISC_V, "commands", &scratch)? else { return Ok(()) };
    let Some(other) = ARM.firmware("commands", &[]) else { return Ok(()) };
    let Some(plain) = RISC_V.firmware("survivor", &[]) else { return Ok(()) };
    let refused = |words: &[&str], reason: &str| -> Result {
        let ran = tell(words)?;
        check!(!ran.status.success() && ran.err().contains(reason), "{words:?} is not refused for {reason}: {ran}");
        check!(ran.out().is_empty(), "{words:?} shows something: {ran}");
        Ok(())
    };
    let (ram, other) = (text(&arm.ram), text(&other));
    refused(
        &["dump", "--exe", other, ram],
        "is not the firmware that ran: it has another build id, and the ledger is of build id ",
    )?;
    refused(&["stats", "--exe", text(&risc_v.firmware), ram], "is for RISC-V, and the ledger is of ARM")?;
    refused(&["tree", "--exe", text(&arm.firmware), text(&risc_v.ram)], "is for ARM, and the ledger is of RISC-V")?;
    // Beside the firmware there may be others.
    let both = tell(&["dump", "--exe", other, "--exe", text(&arm.firmware), ram])?.good()?;
    check!(both.out().contains("firmware::hoards"), "with another file beside it: {both}");

    // The library for C finds it in the linker's note, too.
    if let Some(in_c) = Image::of(ARM, "survivor_c", &scratch)? {
        let ran = tell(&["dump", text(&in_c.firmware), text(&in_c.ram)])?.good()?;
        check!(ran.out().contains("allocates") && !ran.out().contains("could not be checked"), "{ran}");
        refused(&["dump", text(&arm.firmware), text(&in_c.ram)], "is not the firmware that ran: its build id is ")?;
    }

    // The firmware says it itself.
    let own = tell(&["dump", text(&risc_v.firmware), text(&risc_v.ram)])?.good()?;
    check!(own.out().contains("commands::perform") && !own.out().contains("could not be checked"), "{own}");
    // Of a file that does not say it, nobody knows.
    let unknown = tell(&["dump", text(&plain), text(&risc_v.ram)])?.good()?;
    check!(unknown.out().contains("could not be checked: the file has no build id"), "{unknown}");
    // Without a file there is a sentence that says what to type.
    for (image, build) in [(&arm, "build id "), (&risc_v, "build id commands of the tests")] {
        let ran = tell(&["dump", text(&image.ram)])?.good()?;
        check!(ran.out().contains(build) && ran.out().contains("`--exe FILE`"), "without names: {ran}");
        let ran = tell(&["dump", "--json", text(&image.ram)])?.good()?;
        check!(ran.out().contains(r#""kind":"no_program""#), "without names, in JSON: {ran}");
    }
    Ok(())
}

#[test]
fn statistics_of_a_chip_are_those_of_its_region() -> Result {
    let scratch = Scratch::new();
    for (machine, name) in [(ARM, "firmware"), (ARM, "survivor"), (RISC_V, "commands"), (RISC_V, "survivor")] {
        let Some(Image { firmware, ram }) = Image::of(machine, name, &scratch)? else { return Ok(()) };
        let room = machine.room(&firmware)?;
        let (address, bytes) = room.symbols.get("heapledger_ledger").copied().ok_or("no ledger")?;
        let stats = Stats::of(&ram)?;
        let said = stats.inner("memory", "ledger_bytes");
        check!(said == bytes, "{} {name}: the ledger takes {bytes} bytes, and stats says {said}", machine.name);
        // Nor is anything said that is not known.
        let ran = tell(&["stats", text(&ram)])?.good()?;
        let said = ran.out();
        check!(!said.contains("  calls ") && !said.contains("ended;"), "{} {name}: {said}", machine.name);
        let json = tell(&["stats", "--json", text(&ram)])?.good()?.out();
        check!(json.contains(r#""calls":null"#) && !json.contains(r#""calls":0"#), "{} {name}: {json}", machine.name);
        // The region alone, as a firmware sends it, is the same ledger.
        let all = std::fs::read(&ram).map_err(|error| error.to_string())?;
        let first = (address - machine.ram) as usize;
        let region = scratch.path("region");
        std::fs::write(&region, &all[first..first + bytes as usize]).map_err(|error| error.to_string())?;
        let ran = tell(&["stats", text(&region)])?.good()?;
        check!(ran.out().contains("as it was when this was copied"), "{} {name}: {ran}", machine.name);
        let ran = tell(&["top", "--batch", "1", text(&region)])?.good()?;
        check!(!ran.out().contains("ended"), "{} {name}: {ran}", machine.name);
    }
    Ok(())
}
