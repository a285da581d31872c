//! Core dumps as ESP-IDF writes them, made of the memory of firmware that QEMU has run: as a serial line says them, and as they lie in the device's flash. Every command
//! that reads cores reads them; what is cut or damaged is said.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use heapledger_e2e::chip::{MACHINES, Machine};
use heapledger_e2e::process::Ran;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::{Result, check, process};
use sha2::{Digest, Sha256};

fn text(error: impl ToString) -> String {
    error.to_string()
}

fn tell(words: &[&str]) -> Result<Ran> {
    process::run(command(heapledger()).args(words))
}

fn name(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// What follows a header's length.
#[derive(Clone, Copy, Debug)]
struct Form {
    version: u32,
    words: usize,
    has_sha: bool,
}

/// The forms that ESP-IDF has had, for an ESP32-C3.
const FORMS: [Form; 7] = [
    Form { version: 1, words: 4, has_sha: false },
    Form { version: 0x5_0002, words: 5, has_sha: false },
    Form { version: 0x5_0003, words: 6, has_sha: false },
    Form { version: 0x5_0100, words: 5, has_sha: false },
    Form { version: 0x5_0101, words: 5, has_sha: true },
    Form { version: 0x5_0102, words: 6, has_sha: false },
    Form { version: 0x5_0103, words: 6, has_sha: true },
];

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Memory from addresses on, as an ELF core of 32 bits.
fn elf_core(memory: &[(u32, &[u8])]) -> Vec<u8> {
    let mut core = b"\x7fELF\x01\x01\x01".to_vec();
    core.resize(16, 0);
    // A core, of RISC-V; headers follow at 52.
    core.extend(words(&[243 << 16 | 4, 1, 0, 52, 0, 0, 32 << 16 | 52, memory.len() as u32, 0]));
    core.truncate(52);
    let mut place = 52 + 32 * memory.len() as u32;
    for (address, bytes) in memory {
        let count = bytes.len() as u32;
        core.extend(words(&[1, place, *address, *address, count, count, 6, 0]));
        place += count;
    }
    core.extend(memory.iter().flat_map(|(_, bytes)| bytes.iter().copied()));
    core
}

/// A dump of a task and of memory.
fn dump(form: Form, memory: &[(u32, &[u8])]) -> Vec<u8> {
    let (stack, block) = ([0x55u8; 64], [0xAAu8; 340]);
    let is_elf = form.version & 0x100 != 0;
    let data = if is_elf {
        elf_core(&[&[(0x3fc9_0b8c, block.as_slice()), (0x3fc9_0940, &stack)], memory].concat())
    } else {
        let task = [words(&[0x3fc9_0b8c, 0x3fc9_0940, 0x3fc9_0980]), block.to_vec(), stack.to_vec()].concat();
        let segment = |(address, bytes): &(u32, &[u8])| [&words(&[*address, bytes.len() as u32]), *bytes].concat();
        [task, memory.iter().flat_map(segment).collect()].concat()
    };
    let length = form.words * 4 + data.len() + if form.has_sha { 32 } else { 4 };
    let tasks = if is_elf { [0, 0, 0] } else { [1, 340, memory.len() as u32] };
    let mut header = vec![length as u32, form.version, tasks[0], tasks[1], tasks[2], 3];
    header.truncate(form.words);
    let mut all = [words(&header), data].concat();
    let sum = if form.has_sha { Sha256::digest(&all).to_vec() } else { crc32fast::hash(&all).to_le_bytes().to_vec() };
    all.extend(sum);
    all
}

/// As the serial line says it: pieces of other lengths than 48 bytes end in "=".
fn lines(dump: &[u8]) -> String {
    let mut lines = String::from(
        "I (312) main_task: Calling app_main()\r\nGuru Meditation Error: Core  0 panic'ed (Load access fault).\r\n",
    );
    lines.push_str("================= CORE DUMP START =================\r\n");
    for part in dump.chunks(340) {
        part.chunks(48).for_each(|line| lines.push_str(&format!("{}\r\n", STANDARD.encode(line))));
    }
    lines.push_str(
        "================= CORE DUMP END =================\r\nCoredump checksum='1af5fea2'\r\nRebooting...\r\n",
    );
    lines
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
