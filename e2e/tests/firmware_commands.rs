//! Firmware that allocates and frees 10,000 times as random numbers say (`e2e/firmware/commands.rs`), on a Cortex-M3 and on RISC-V: what the
//! image of its memory says is what a model of the same commands knows. Totals, losses, each live block and each freed one with function,
//! size, task, time and call stack are compared.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use heapledger_e2e::chip::{MACHINES, Machine};
use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger, root};
use heapledger_e2e::{Result, check, process};
use serde_json::Value;

const COMMANDS: u64 = 10_000;
const SLOTS: usize = 48;
/// Entries of the ring.
const HISTORY: usize = 200;

/// Who asked, when, from how deep.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    function: &'static str,
    task: &'static str,
    time_ns: u64,
    levels: u64,
}

/// Number, size, and who asked.
type Block = (u64, u64, Asked);

/// What the firmware does, done again.
#[derive(Default)]
struct Model {
    slots: Vec<Option<Block>>,
    live: BTreeMap<u64, Block>,
    /// The number of the end, who asked for it, the block.
    freed: Vec<(u64, Asked, Block)>,
    numbers: u64,
    counts: BTreeMap<&'static str, u64>,
    live_bytes: u64,
    peak_bytes: u64,
}

impl Model {
    fn count(&mut self, what: &'static str, amount: u64) {
        *self.counts.entry(what).or_default() += amount;
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers - 1
    }

    fn begin(&mut self, number: u64, bytes: u64, asked: Asked) -> Option<Block> {
        let block = (number, bytes, asked);
        self.live.insert(number, block.clone());
        self.count("allocations", 1);
        self.live_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
        Some(block)
    }

    fn end(&mut self, number: u64, block: Block, asked: Asked) {
        self.live.remove(&block.0);
        self.live_bytes -= block.1;
        self.count("frees", 1);
        self.freed.push((number, asked, block));
    }

    fn perform(&mut self, command: u64, now: u64) {
        let in_interrupt = command >> 27 & 7 == 0;
        let asked = |function| Asked {
            function,
            task: match (in_interrupt, command >> 26 & 1) {
                (true, _) => "interrupts",
                (false, 0) => "first",
                (false, _) => "second",
            },
            time_ns: now * 1_000_000,
            levels: 1 + (command >> 24 & 3),
        };
        let slot = command as usize % SLOTS;
        let bytes = 1 + (command >> 16) % 96;
        let what = command >> 8 & 0x1F;
        let had = self.slots[slot].take();
        self.slots[slot] = match (had, what) {
            (None, 0) => {
                self.count("failed_calls", 1);
                None
            }
            (None, 1) => {
                self.count("unknown_frees", 1);
                None
            }
            (None, _) => {
                let number = self.number();
                self.begin(number, bytes, asked(if what < 8 { "__rust_alloc_zeroed" } else { "__rust_alloc" }))
            }
            // Lost.
            (Some(_), 0) if command >> 16 & 0x1F == 0 => None,
            (Some(block), 0..12) => {
                let number = self.number();
                self.count("reallocs", 1);
                self.end(number, block, asked("__rust_realloc"));
                self.begin(number, bytes, asked("__rust_realloc"))
            }
            (Some(block), 12) => {
                // Its number was taken, and is nobody's.
                self.number();
                self.count("numbers_unused", 1);
                self.count("failed_calls", 1);
                Some(block)
            }
            (Some(block), _) => {
                let number = self.number();
                self.end(number, block, asked("__rust_dealloc"));
                None
            }
        };
    }

    fn of_all() -> Model {
        let mut model = Model { slots: vec![None; SLOTS], ..Model::default() };
        let mut random = 1u32;
        for now in 1..=COMMANDS {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            model.perform(u64::from(random.rotate_left(16) | 1 << 31), now);
        }
        model
    }
}

/// The firmware's own functions in a stack, the innermost first.
fn functions(line: &Value) -> Vec<String> {
    let frames = line["frames"].as_array().into_iter().flatten();
    let names = frames.filter(|frame| frame["inlined"] != true).filter_map(|frame| frame["function"].as_str());
    let own = |name: &str| match name.split_once("::") {
        Some(("commands" | "commands_scan", own)) => Some(own.to_owned()),
        None if ["Tick", "start"].contains(&name) => Some(name.to_owned()),
        _ => None,
    };
    names.filter_map(own).collect()
}

fn expected_functions(asked: &Asked, machine: &Machine) -> Vec<String> {
    let mut names = vec!["perform"];
    names.extend(std::iter::repeat_n("deeper", asked.levels as usize));
    match (asked.task, machine.name) {
        ("interrupts", "Cortex-M3") => names.extend(["Tick", "interrupted", "start"]),
        // Behind the trap's assembly the interrupted function is missing, and its callers follow.
        ("interrupts", _) => names.push("Tick"),
        _ => names.push("start"),
    }
    names.into_iter().map(str::to_owned).collect()
}

/// Of a line of JSON: who asked, but for how deep.
fn asked(line: &Value, asked: &Asked) -> Result {
    check!(line["function"] == asked.function, "{} is not {asked:?}", line["function"]);
    check!(line["thread"]["name"] == asked.task, "{line}: {asked:?}");
    check!(line["time_ns"] == asked.time_ns, "{line}: {asked:?}");
    Ok(())
}

fn stack(line: &Value, asked: &Asked, machine: &Machine) -> Result {
    let (is, expected) = (functions(line), expected_functions(asked, machine));
    let is = if asked.task == "interrupts" && machine.name != "Cortex-M3" {
        &is[..is.len().min(expected.len())]
    } else {
        &is[..]
    };
    check!(is == expected, "{}: the stack is {is:?}, not {expected:?}: {line}", machine.name);
    Ok(())
}

fn agrees(machine: &Machine) -> Result {
    let Some(firmware) = machine.firmware("commands", &[]) else { return Ok(()) };
    let scratch = Scratch::new();
    let image = scratch.path("ram.bin");
    machine.image(&firmware, &image)?;
    let model = Model::of_all();
    check!(model.numbers > 5000 && model.live.len() > 20, "too little happens");

    let stats = Stats::of(&image)?;
    let of_model = |key| model.counts.get(key).copied().unwrap_or(0);
    for key in [
        "allocations",
        "frees",
        "failed_calls",
        "unknown_frees",
        "numbers_unused",
        "displaced",
        "lost_busy",
        "lost_no_record",
        "lost_no_index",
        "sites_full",
        "stacks_cut",
        "threads_unnamed",
        "wide_lost",
    ] {
        let is = stats.inner("counters", key);
        check!(is == of_model(key), "{key} is {is}, not {}", of_model(key));
    }
    for (key, expected) in [("live_bytes", model.live_bytes), ("peak_bytes", model.peak_bytes)] {
        check!(stats.number(key) == expected, "{key} is {}, not {expected}", stats.number(key));
    }

    let exe = firmware.to_string_lossy();
    let mut left = model.live.clone();
    let lines = read("dump", &image, &["--exe", &exe])?;
    for line in lines.iter().filter(|line| line["type"] == "block") {
        let number = line["number"].as_u64().unwrap_or(u64::MAX);
        let (_, bytes, by) = left.remove(&number).ok_or_else(|| format!("no block has this number: {line}"))?;
        check!(line["size"] == bytes && line["heap"] == "sram", "{line}: {bytes}");
        asked(line, &by)?;
        stack(line, &by, machine)?;
    }
    check!(left.is_empty(), "not in the ledger: {left:?}");

    // The ring holds the last of them.
    let lines = read("history", &image, &["--exe", &exe])?;
    ends(&lines, model.freed.get(model.freed.len() - HISTORY..).ok_or("too few are freed")?, machine)
}

/// The frees among these lines are those of the model, each once.
fn ends(lines: &[Value], freed: &[(u64, Asked, Block)], machine: &Machine) -> Result {
    let mut ends: BTreeMap<u64, (Asked, Block)> =
        freed.iter().map(|(number, by, block)| (*number, (by.clone(), block.clone()))).collect();
    for line in lines.iter().filter(|line| line["event"] == "free") {
        let number = line["number"].as_u64().unwrap_or(u64::MAX);
        let (by, (_, bytes, _)) = ends.remove(&number).ok_or_else(|| format!("nothing has ended with: {line}"))?;
        check!(line["size"] == bytes, "{line}: {bytes}");
        asked(line, &by)?;
        stack(line, &by, machine)?;
    }
    check!(ends.is_empty(), "not in the history: {ends:?}");
    Ok(())
}

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
    let model = Model::of_all();
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
    ends(&lines, &model.freed, machine)?;
    let allocated = lines.iter().filter(|line| line["event"] == "allocation").count() as u64;
    check!(allocated == model.counts.get("allocations").copied().unwrap_or(0), "{allocated} blocks began");
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
    let model = Model::of_all();
    let of_model = |key| model.counts.get(key).copied().unwrap_or(0);
    let guessed = Stats::of(&image)?.inner("counters", "stacks_guessed");
    // A realloc has one stack, for what ends and what begins.
    check!(guessed == of_model("allocations") + of_model("frees") - of_model("reallocs"), "{guessed} are guessed");

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
    agrees(&MACHINES[0])
}

#[test]
fn ten_thousand_commands_on_risc_v_agree_with_a_model() -> Result {
    agrees(&MACHINES[1])
}
