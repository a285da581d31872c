//! Firmware for chips, as `cargo xtask test thumb` links it, and what can be seen of it from outside: how much room it takes, which
//! symbols it has, and what it says when QEMU runs it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::scratch::Scratch;
use crate::tools::{command, find, is_fresh, root, target};
use crate::{Result, check, process, skip};

/// A chip that QEMU has.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// What it is called here.
    pub name: &'static str,
    triple: &'static str,
    qemu: &'static str,
    /// Whether time goes by instructions, 64 ns each: interrupts come at the same ones each time, however busy this machine is. Several cores run in turns then.
    is_counted: bool,
    /// Where its RAM begins.
    pub ram: u64,
}

/// Bytes of RAM that firmware has.
pub const RAM_BYTES: u64 = 64 << 10;

/// How QEMU is asked for a machine without a screen.
const QUIET: &str = "-display none -monitor none -serial none -semihosting-config enable=on,target=native";
/// And how, that time goes by instructions.
const COUNTED: &str = "-icount shift=6,sleep=off";

/// The chips.
pub const MACHINES: [Machine; 2] = [
    Machine {
        name: "Cortex-M3",
        triple: "thumbv7m-none-eabi",
        qemu: "qemu-system-arm -machine mps2-an385",
        is_counted: true,
        ram: 0x2000_0000,
    },
    Machine {
        name: "RV32",
        triple: "riscv32imac-unknown-none-elf",
        qemu: "qemu-system-riscv32 -machine virt -m 4M -bios none",
        is_counted: true,
        ram: 0x8010_0000,
    },
];

/// Others of the same kind, for which less is linked. (QEMU has a Cortex-M0 with 16 KiB of RAM only: a Cortex-M3 runs what is made for one.)
pub const OTHERS: [Machine; 2] = [
    Machine {
        name: "Cortex-M4F",
        triple: "thumbv7em-none-eabihf",
        qemu: "qemu-system-arm -machine mps2-an386",
        is_counted: true,
        ram: 0x2000_0000,
    },
    Machine {
        name: "Cortex-M0",
        triple: "thumbv6m-none-eabi",
        qemu: "qemu-system-arm -machine mps2-an385",
        is_counted: true,
        ram: 0x2000_0000,
    },
];

/// RISC-V with two cores, which run at the same time.
pub const TWO_CORES: Machine = Machine {
    name: "RV32 with two cores",
    triple: "riscv32imac-unknown-none-elf",
    qemu: "qemu-system-riscv32 -machine virt -smp 2 -m 4M -bios none",
    is_counted: false,
    ram: 0x8010_0000,
};

impl Machine {
    /// The words that run it.
    pub fn qemu(&self) -> Vec<&'static str> {
        let counted = self.is_counted.then(|| COUNTED.split(' ')).into_iter().flatten();
        self.qemu.split(' ').chain(QUIET.split(' ')).chain(counted).collect()
    }

    /// A program that `cargo xtask test thumb` has linked for it, if that is so and there is all that runs it; else a line says why not.
    pub fn firmware(&self, name: &str, programs: &[&str]) -> Option<PathBuf> {
        let qemu = self.qemu.split(' ').next().unwrap_or_default();
        if let Some(missing) = [&[qemu], programs].concat().iter().find(|name| find(&[name]).is_none()) {
            skip(name, &format!("{missing} is not installed"));
            return None;
        }
        let product = target().join("thumb/out").join(self.triple).join(name);
        if !product.exists() {
            skip(name, "`cargo xtask test thumb` has not linked it here");
            return None;
        }
        if !is_fresh(&product, &sources()) {
            skip(name, "`cargo xtask test thumb` has linked it of other sources");
            return None;
        }
        Some(product)
    }

    /// What firmware says, in order: words, and a number for each. It ends QEMU with 0.
    ///
    /// # Errors
    /// If it ends otherwise.
    pub fn says(&self, firmware: &Path) -> Result<Vec<(String, u64)>> {
        Ok(words(&self.console(firmware)?))
    }

    /// What firmware loads from its ledger and stores there between the last two stores to its variable `MARK`: loads, their bytes, stores, and their bytes. `None`: it cannot be
    /// counted here, and a line says why not.
    ///
    /// # Errors
    /// If it has no ledger, or sets no mark.
    pub fn accesses(&self, firmware: &Path) -> Result<Option<[u64; 4]>> {
        let compiler = std::env::var_os("CC").unwrap_or("cc".into());
        let scratch = Scratch::new();
        let plugin = scratch.path("accesses.so");
        let mut compile = command(compiler);
        compile.args(["-shared", "-fPIC", "-o"]).arg(&plugin).arg(root().join("e2e/firmware/accesses.c"));
        process::run(&mut compile)?.good()?;
        let qemu = self.qemu.split(' ').next().unwrap_or_default();
        if !process::run(command(qemu).arg("-help"))?.out().contains("-plugin") {
            skip("accesses", &format!("{qemu} takes no plugins"));
            return Ok(None);
        }
        let symbols = self.room(firmware)?.symbols;
        let symbol = |name: &str| symbols.get(name).copied().ok_or_else(|| format!("the firmware has no {name}"));
        let ((first, bytes), (mark, _)) = (symbol("heapledger_ledger")?, symbol("MARK")?);
        let told = format!("{},first={first},bytes={bytes},mark={mark}", plugin.display());
        let said = words(&self.console_with(firmware, &["-plugin", &told])?);
        // (What was before the first of these was said with it.)
        let last = |word: &str| said.iter().rev().find(|(said, _)| said == word).map(|(_, number)| *number);
        let all = ["loads", "loaded", "stores", "stored"].map(last);
        let [Some(loads), Some(loaded), Some(stores), Some(stored)] = all else {
            return Err(format!("the plugin says {all:?}"));
        };
        Ok(Some([loads, loaded, stores, stored]))
    }

    /// All that firmware says. It ends QEMU with 0.
    ///
    /// # Errors
    /// If it ends otherwise.
    pub fn console(&self, firmware: &Path) -> Result<String> {
        self.console_with(firmware, &[])
    }

    /// The same, with more words for QEMU.
    ///
    /// # Errors
    /// If it ends otherwise.
    pub fn console_with(&self, firmware: &Path, more: &[&str]) -> Result<String> {
        // What hangs is ended from outside.
        let mut qemu = command("timeout");
        qemu.arg("120").args(self.qemu()).args(more).arg("-kernel").arg(firmware).stdin(Stdio::null());
        let ran = qemu.output().map_err(text)?;
        let text = String::from_utf8_lossy(&ran.stderr).into_owned();
        if !ran.status.success() {
            return Err(format!("{} ends with {}, and says {text}", firmware.display(), ran.status));
        }
        Ok(text)
    }

    /// A copy of linked firmware in which a constant has another value.
    ///
    /// # Errors
    /// If there is no such constant.
    pub fn with_word(&self, firmware: &Path, (name, value): (&str, u32), to: &Path) -> Result {
        let mut elf = fs::read(firmware).map_err(text)?;
        let (address, _) =
            self.room(firmware)?.symbols.get(name).copied().ok_or_else(|| format!("the firmware has no {name}"))?;
        let place =
            Room::place_of(&elf, address as usize)?.ok_or_else(|| format!("{name} has no place in the file"))?;
        elf.get_mut(place..place + 4).ok_or("the file ends before it")?.copy_from_slice(&value.to_le_bytes());
        fs::write(to, elf).map_err(text)
    }

    /// Runs firmware until it asks for a reset, and saves the RAM as it is then.
    ///
    /// # Errors
    /// If QEMU says something else.
    pub fn image(&self, firmware: &Path, image: &Path) -> Result {
        self.saved(firmware, &[self.ram_to(image)])
    }

    /// The same, and a core dump of all memory, as QEMU writes it.
    ///
    /// # Errors
    /// If QEMU says something else.
    pub fn image_and_core(&self, firmware: &Path, image: &Path, core: &Path) -> Result {
        let place = json!({ "paging": false, "protocol": format!("file:{}", core.display()) });
        self.saved(firmware, &[self.ram_to(image), json!({ "execute": "dump-guest-memory", "arguments": place })])
    }

    fn ram_to(&self, image: &Path) -> Value {
        let place = json!({ "val": self.ram, "size": RAM_BYTES, "filename": image.to_string_lossy() });
        json!({ "execute": "pmemsave", "arguments": place })
    }

    /// Runs firmware until it asks for a reset, and then these commands of QEMU's.
    fn saved(&self, firmware: &Path, commands: &[Value]) -> Result {
        // What hangs is ended from outside: nobody waits for a line for ever.
        let mut timed = command("timeout");
        timed
            .arg("300")
            .args(self.qemu())
            .args(["-S", "-no-reboot", "-no-shutdown", "-qmp", "stdio", "-kernel"])
            .arg(firmware);
        let child = timed.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
        let mut chip = Running(child.map_err(text)?);
        let mut asks = chip.0.stdin.take().ok_or("no stdin")?;
        let mut lines = BufReader::new(chip.0.stdout.take().ok_or("no stdout")?).lines();
        let mut until = |key: &str| -> Result {
            for line in lines.by_ref() {
                let line: Value = serde_json::from_str(&line.map_err(text)?).map_err(text)?;
                check!(line.get("error").is_none(), "QEMU refuses: {line}");
                if line.get(key).is_some() && (key != "event" || line["event"] == "STOP") {
                    return Ok(());
                }
            }
            Err(format!("QEMU has ended before it said {key}"))
        };
        // In one piece: told to quit, QEMU does so at the last brace, and what comes behind that would find nobody.
        let mut ask = |what: Value| asks.write_all(format!("{what}\n").as_bytes()).map_err(text);
        until("QMP")?;
        ask(json!({ "execute": "qmp_capabilities" }))?;
        until("return")?;
        // Only now: what happens before somebody has said that is not told.
        ask(json!({ "execute": "cont" }))?;
        until("event")?;
        for command in commands {
            ask(command.clone())?;
            until("return")?;
        }
        ask(json!({ "execute": "quit" }))?;
        chip.0.wait().map_err(text)?;
        Ok(())
    }

    /// The room that firmware takes on this machine.
    ///
    /// # Errors
    /// If it is no ELF file of 32 bits.
    pub fn room(&self, firmware: &Path) -> Result<Room> {
        Room::of(&fs::read(firmware).map_err(text)?, self.ram)
    }
}

/// What firmware that says so knows to be live, in an image of its memory: sizes and who allocated, by address.
///
/// # Errors
/// If it says nothing.
pub fn truth(ram: &[u8]) -> Result<BTreeMap<u64, (u64, u64)>> {
    /// The bytes before the firmware's own table.
    const MAGIC: &[u8] = b"what is live is:";
    let at =
        ram.windows(MAGIC.len()).position(|bytes| bytes == MAGIC).ok_or("the firmware's table is not in its memory")?;
    let mut words = ram[at + MAGIC.len()..].chunks_exact(4).map(|word| {
        let bytes: [u8; 4] = word.try_into().unwrap_or_default();
        u64::from(u32::from_le_bytes(bytes))
    });
    let count = words.next().unwrap_or_default() as usize;
    let words: Vec<u64> = words.take(count * 3).collect();
    Ok(words.chunks_exact(3).map(|block| (block[0], (block[1], block[2]))).collect())
}

/// QEMU, for as long as somebody asks it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// Words, and a number for each, of lines that are such.
fn words(console: &str) -> Vec<(String, u64)> {
    let line = |line: &str| {
        let (word, number) = line.split_once(' ')?;
        Some((word.to_owned(), number.parse().ok()?))
    };
    console.lines().filter_map(line).collect()
}

/// All that firmware is made of.
fn sources() -> Vec<PathBuf> {
    let within = |name: &str| fs::read_dir(root().join(name)).into_iter().flatten().flatten().map(|file| file.path());
    let mut sources: Vec<PathBuf> =
        ["crates/heapledger/src/chip.rs", "crates/recorder/src/chip.rs", "crates/guard/src/small.rs"]
            .map(|path| root().join(path))
            .into();
    sources.extend(
        [
            "crates/heapledger/src/chip",
            "crates/guard/src/small",
            "crates/firmware/src",
            "crates/firmware/include",
            "crates/wire/src",
            "crates/lws/src",
            "crates/metadata/src",
            "crates/metadata-c/src",
            "crates/metadata-c/include",
            "e2e/firmware",
            "e2e/own_firmware/src",
            "e2e/own_firmware/src/bin",
        ]
        .into_iter()
        .flat_map(within),
    );
    sources.extend(within("crates/recorder/src/chip"));
    sources.retain(|path| !path.ends_with("tests.rs"));
    sources
}

/// What a program takes of a chip's memory, in bytes.
#[derive(Clone, Debug, Default)]
pub struct Room {
    /// Code, constants, and what variables are at first.
    pub flash: u64,
    /// Variables.
    pub ram: u64,
    /// Address and bytes of each symbol.
    pub symbols: BTreeMap<String, (u64, u64)>,
}

/// A number of 2 or 4 bytes of a little-endian file.
fn number(bytes: &[u8], at: usize, width: usize) -> Result<usize> {
    let there = bytes.get(at..at + width).ok_or("an ELF file that ends too early")?;
    Ok(there.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}

impl Room {
    /// Where in the file the byte lies that is loaded to an address.
    fn place_of(elf: &[u8], address: usize) -> Result<Option<usize>> {
        let (first, count) = (number(elf, 28, 4)?, number(elf, 44, 2)?);
        for at in (0..count).map(|nth| first + nth * 32) {
            let (place, begin, bytes) = (number(elf, at + 4, 4)?, number(elf, at + 8, 4)?, number(elf, at + 16, 4)?);
            if number(elf, at, 4)? == 1 && address >= begin && address - begin < bytes {
                return Ok(Some(place + address - begin));
            }
        }
        Ok(None)
    }

    fn of(elf: &[u8], ram: u64) -> Result<Room> {
        const LOADED: usize = 1;
        const SYMBOLS: usize = 2;
        if elf.get(..6) != Some(b"\x7fELF\x01\x01") {
            return Err("no little-endian ELF file of 32 bits".to_owned());
        }
        let mut room = Room::default();
        let (first, count) = (number(elf, 28, 4)?, number(elf, 44, 2)?);
        for at in (0..count).map(|nth| first + nth * 32).filter(|at| number(elf, *at, 4) == Ok(LOADED)) {
            room.flash += number(elf, at + 16, 4)? as u64;
            if number(elf, at + 8, 4)? as u64 >= ram {
                room.ram += number(elf, at + 20, 4)? as u64;
            }
        }
        let (first, count) = (number(elf, 32, 4)?, number(elf, 48, 2)?);
        let section = |nth: usize| first + nth * 40;
        for at in (0..count).map(section).filter(|at| number(elf, at + 4, 4) == Ok(SYMBOLS)) {
            let (symbols, bytes) = (number(elf, at + 16, 4)?, number(elf, at + 20, 4)?);
            let names = number(elf, section(number(elf, at + 24, 4)?) + 16, 4)?;
            for symbol in (symbols..symbols + bytes).step_by(16) {
                let name = elf.get(names + number(elf, symbol, 4)?..).unwrap_or_default();
                let name = String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap_or_default());
                let (address, bytes) = (number(elf, symbol + 4, 4)?, number(elf, symbol + 8, 4)?);
                room.symbols.insert(name.into_owned(), (address as u64, bytes as u64));
            }
        }
        Ok(room)
    }
}
