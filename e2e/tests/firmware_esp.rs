//! Core dumps as ESP-IDF writes them, made of the memory of firmware that QEMU has run: as a serial line says them, and as they lie in the device's flash. Every command
//! that reads cores reads them; what is cut or damaged is said.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use heapledger_e2e::chip::{MACHINES, Machine};
use heapledger_e2e::esp::{FORMS, dump, lines};
use heapledger_e2e::process::Ran;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::{Result, check, process};

fn text(error: impl ToString) -> String {
    error.to_string()
}

fn tell(words: &[&str]) -> Result<Ran> {
    process::run(command(heapledger()).args(words))
}

fn name(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// RAM of firmware that ran, the firmware, and where its RAM begins.
struct Device {
    machine: Machine,
    firmware: PathBuf,
    ram: Vec<u8>,
    image: PathBuf,
}

impl Device {
    fn run(scratch: &Scratch) -> Result<Option<Device>> {
        let machine = MACHINES[1];
        let Some(firmware) = machine.firmware("commands", &[]) else { return Ok(None) };
        let image = scratch.path("ram.bin");
        machine.image(&firmware, &image)?;
        let ram = fs::read(&image).map_err(text)?;
        Ok(Some(Device { machine, firmware, ram, image }))
    }

    fn memory(&self) -> [(u32, &[u8]); 1] {
        [(self.machine.ram as u32, self.ram.as_slice())]
    }
}

/// What a command says of the ledger, without the lines that say where it was found.
fn said(words: &[&str], ledger: &Path) -> Result<String> {
    let ran = tell(&[words, &[name(ledger)]].concat())?.good()?;
    Ok(ran.out().replace(name(ledger), "LEDGER"))
}

#[test]
fn every_command_reads_what_a_device_of_esp_idf_has_said() -> Result {
    let scratch = Scratch::new();
    let Some(device) = Device::run(&scratch)? else { return Ok(()) };
    let exe = name(&device.firmware);
    let base = format!("{:#x}", device.machine.ram);
    let commands = [
        &["dump", "--json", "--exe", exe][..],
        &["history", "--json", "--exe", exe],
        &["tree", "--exe", exe],
        &["dump", "--json"],
    ];
    let expected = commands.map(|words| said(&[words, &["--base", &base]].concat(), &device.image));
    for (nth, form) in FORMS.into_iter().enumerate() {
        let dump = dump(form, &device.memory());
        let log = scratch.path("monitor.log");
        fs::write(&log, lines(&dump)).map_err(text)?;
        let bare = scratch.path("core.b64");
        let only = lines(&dump);
        let only: String =
            only.lines().filter(|line| STANDARD.decode(line).is_ok()).map(|line| format!("{line}\n")).collect();
        fs::write(&bare, only).map_err(text)?;
        // With what is erased behind it.
        let flash = scratch.path("flash.bin");
        fs::write(&flash, [dump.as_slice(), &[0xFF; 4096]].concat()).map_err(text)?;
        for file in [&log, &bare, &flash] {
            // Of the latest, by all commands.
            for (words, expected) in commands.iter().zip(&expected).take(if nth + 1 == FORMS.len() { 4 } else { 1 }) {
                let (is, expected) = (of_blocks(&said(words, file)?), of_blocks(expected.as_ref()?));
                check!(
                    is == expected && is.len() > 500,
                    "{form:x?}, {}, {words:?}: {is}, not {expected}",
                    file.display()
                );
            }
        }
        let stats = said(&["stats"], &log)?;
        let is_told =
            stats.contains("it is as of then") && !stats.contains("ends early") && !stats.contains("checksum");
        check!(is_told, "{form:x?}: {stats}");
        // A monitor may put the time before each line; and a checksum that is another one is said.
        let mut other = dump.clone();
        let at = other.len() - 100;
        other[at] ^= 4;
        let timed: String = lines(&other).lines().map(|line| format!("2026-11-26 10:00:01 {line}\n")).collect();
        fs::write(&log, timed).map_err(text)?;
        let stats = said(&["stats"], &log)?;
        check!(stats.contains("By its checksum, bytes of it were changed"), "{form:x?}: nothing is told: {stats}");
    }
    Ok(())
}

/// Without the lines that tell of what was opened.
fn of_blocks(said: &str) -> String {
    let is_of_file = |line: &&str| !line.contains("\"type\":\"ledger\"") && !line.contains("LEDGER");
    said.lines().filter(is_of_file).map(|line| format!("{line}\n")).collect()
}

#[test]
fn what_is_cut_or_damaged_is_said() -> Result {
    let scratch = Scratch::new();
    let Some(device) = Device::run(&scratch)? else { return Ok(()) };
    let whole = dump(FORMS[5], &device.memory());
    let log = scratch.path("monitor.log");
    let shown = name(&log);
    // The end is missing.
    let all = lines(&whole);
    fs::write(&log, &all[..all.len() - 900]).map_err(text)?;
    let ran = tell(&["stats", shown])?.good()?;
    check!(ran.out().contains("The core dump itself ends early"), "it passes for whole: {ran}");
    // A letter that is none.
    let mut other: Vec<String> = all.lines().map(|line| format!("{line}\r\n")).collect();
    other[40].replace_range(10..11, "?");
    fs::write(&log, other.concat()).map_err(text)?;
    let ran = tell(&["stats", shown])?;
    check!(ran.status.code() == Some(1) && ran.err().contains("line 41"), "the line is not named: {ran}");
    // Nothing but stacks.
    fs::write(&log, lines(&dump(FORMS[5], &[]))).map_err(text)?;
    let ran = tell(&["stats", shown])?;
    check!(ran.status.code() == Some(1) && ran.err().contains("CONFIG_ESP_COREDUMP_CAPTURE_DRAM"), "{ran}");
    // No dump at all between the lines.
    fs::write(&log, lines(b"something else, for whoever reads this")).map_err(text)?;
    let ran = tell(&["stats", shown])?;
    check!(ran.status.code() == Some(1) && ran.err().contains("does not begin as a core dump of ESP-IDF"), "{ran}");
    let flash = scratch.path("flash.bin");
    fs::write(&flash, &whole).map_err(text)?;
    let ran = tell(&["stats", "--base", "0x1000", name(&flash)])?;
    check!(!ran.status.success() && ran.err().contains("leave --base away"), "{ran}");
    Ok(())
}
