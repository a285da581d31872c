//! 10,000 random commands that firmware carries out (`e2e/firmware/commands.rs`, `commands.c`), and a model of them: what the image of a
//! chip's memory says is held against it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::chip::Machine;
use crate::ledger::{Stats, read};
use crate::scratch::Scratch;
use crate::{Result, check};

/// What functions of the firmware are called in its ledger, and where its frames are missing.
#[derive(Clone, Copy, Debug)]
pub struct Called {
    /// The firmware.
    pub name: &'static str,
    alloc: &'static str,
    zeroed: &'static str,
    realloc: &'static str,
    free: &'static str,
    /// The library allocates for itself: a copy of a text. None: this firmware does something else then.
    copy: Option<&'static str>,
    /// It calls `new` and `delete`, which throw.
    throws: bool,
    /// In which heap a block is, is recorded.
    has_heaps: bool,
}

impl Called {
    /// Rust's.
    pub const RUST: Called = Called {
        name: "commands",
        alloc: "__rust_alloc",
        zeroed: "__rust_alloc_zeroed",
        realloc: "__rust_realloc",
        free: "__rust_dealloc",
        copy: None,
        throws: false,
        has_heaps: true,
    };
    /// The same, with canaries around blocks.
    pub const GUARDED_LIGHT: Called = Called { name: "commands_light", ..Called::RUST };
    /// The same, and fills.
    pub const GUARDED_FULL: Called = Called { name: "commands_full", ..Called::RUST };
    /// C's, over newlib, whose `strdup` calls `_malloc_r`.
    pub const NEWLIB: Called = Called {
        name: "commands_c",
        alloc: "malloc",
        zeroed: "calloc",
        realloc: "realloc",
        free: "free",
        copy: Some("_malloc_r"),
        throws: false,
        has_heaps: true,
    };
    /// The same, with canaries around blocks.
    pub const NEWLIB_LIGHT: Called = Called { name: "commands_c_LIGHT", ..Called::NEWLIB };
    /// The same, and fills.
    pub const NEWLIB_FULL: Called = Called { name: "commands_c_FULL", ..Called::NEWLIB };
    /// The same, where gcc has compiled it, whose frame pointers lead nowhere.
    pub const SCANNED: Called = Called { name: "commands_c_scan", ..Called::NEWLIB };
    /// The same, made for a Cortex-M0.
    pub const SMALLER: Called = Called { name: "commands_c_m0", ..Called::NEWLIB };
    /// The same, with a library that was built for it: no function that is led there calls another one.
    pub const FIXED: Called = Called { name: "commands_c_FIXED", copy: None, has_heaps: false, ..Called::NEWLIB };
    /// The same, with canaries around blocks.
    pub const SMALLER_LIGHT: Called = Called { name: "commands_c_m0_LIGHT", ..Called::NEWLIB };
    /// The same, and fills.
    pub const SMALLER_FULL: Called = Called { name: "commands_c_m0_FULL", ..Called::NEWLIB };
    /// C++'s, over newlib.
    pub const CXX: Called = Called { name: "commands_cpp", throws: true, ..Called::NEWLIB };
    /// The same, with canaries around blocks.
    pub const CXX_LIGHT: Called = Called { name: "commands_cpp_LIGHT", ..Called::CXX };
    /// The same, and fills.
    pub const CXX_FULL: Called = Called { name: "commands_cpp_FULL", ..Called::CXX };
    /// C's, over picolibc.
    pub const PICOLIBC: Called = Called { copy: Some("malloc"), ..Called::NEWLIB };
    /// The same, with canaries around blocks.
    pub const PICOLIBC_LIGHT: Called = Called { name: "commands_c_LIGHT", ..Called::PICOLIBC };
    /// The same, and fills.
    pub const PICOLIBC_FULL: Called = Called { name: "commands_c_FULL", ..Called::PICOLIBC };
}

const COMMANDS: u64 = 10_000;
const SLOTS: usize = 48;
/// Entries of the ring.
pub const HISTORY: usize = 200;

/// Who asked, when, from how deep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    function: &'static str,
    task: &'static str,
    time_ns: u64,
    levels: u64,
    /// Between the firmware's function and the allocator there is one of the library's.
    is_copy: bool,
}

/// Number, size, and who asked.
type Block = (u64, u64, Asked);

/// What the firmware does, done again.
pub struct Model {
    called: Called,
    slots: Vec<Option<Block>>,
    /// Blocks that live, by number.
    pub live: BTreeMap<u64, Block>,
    /// All that ended: the number of the end, who asked for it, the block.
    pub freed: Vec<(u64, Asked, Block)>,
    numbers: u64,
    counts: BTreeMap<&'static str, u64>,
    live_bytes: u64,
    peak_bytes: u64,
    exception_bytes: u64,
}

impl Asked {
    /// C++'s library has called a function of C's: for itself, or for an exception.
    pub fn is_of_a_library(&self) -> bool {
        ["malloc", "free"].contains(&self.function)
    }

    /// Between the firmware's function and the allocator there is one of the library's.
    pub fn is_copy(&self) -> bool {
        self.is_copy
    }
}

impl Model {
    /// How often something happened, by the name of its counter.
    pub fn of(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

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

    fn perform_at(&mut self, command: u64, now: u64) {
        let in_interrupt = command >> 27 & 7 == 0;
        let called = self.called;
        let asked = |function| Asked {
            function,
            is_copy: false,
            task: match (in_interrupt, command >> 26 & 1) {
                (true, _) => "interrupts",
                (false, 0) => "first",
                (false, _) => "second",
            },
            time_ns: now * 1_000_000,
            levels: 1 + (command >> 24 & 3),
        };
        if called.throws { self.perform_cxx(command, asked) } else { self.perform(command, asked) }
    }

    fn perform(&mut self, command: u64, asked: impl Fn(&'static str) -> Asked) {
        let called = self.called;
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
                let by = match (what, called.copy) {
                    (2..5, Some(copy)) => Asked { is_copy: true, ..asked(copy) },
                    (..8, _) => asked(called.zeroed),
                    _ => asked(called.alloc),
                };
                self.begin(number, bytes, by)
            }
            // Lost.
            (Some(_), 0) if command >> 16 & 0x1F == 0 => None,
            (Some(block), 0..12) => {
                let number = self.number();
                self.count("reallocs", 1);
                self.end(number, block, asked(called.realloc));
                self.begin(number, bytes, asked(called.realloc))
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
                self.end(number, block, asked(called.free));
                None
            }
        };
    }

    /// The C++ library allocates an exception, which is caught.
    fn throw(&mut self, asked: impl Fn(&'static str) -> Asked) {
        let number = self.number();
        let Some(exception) = self.begin(number, self.exception_bytes, asked("malloc")) else { return };
        let number = self.number();
        self.end(number, exception, asked("free"));
    }

    fn perform_cxx(&mut self, command: u64, asked: impl Fn(&'static str) -> Asked) {
        let slot = command as usize % SLOTS;
        let bytes = 1 + (command >> 16) % 96;
        let what = command >> 8 & 0x1F;
        let had = self.slots[slot].take();
        self.slots[slot] = match (had, what) {
            (None, 0) => {
                self.count("failed_calls", 1);
                self.throw(asked);
                None
            }
            (None, 1) => {
                self.count("unknown_frees", 1);
                None
            }
            (None, _) => {
                let forms = match what {
                    2 => ["new(nothrow)", "new[](nothrow)"],
                    3..5 => ["new(align,nothrow)", "new[](align,nothrow)"],
                    5..8 => ["new(align)", "new[](align)"],
                    _ => ["new", "new[]"],
                };
                let number = self.number();
                self.begin(number, bytes, asked(forms[(command >> 23 & 1) as usize]))
            }
            // Lost.
            (Some(_), 0) if command >> 16 & 0x1F == 0 => None,
            (Some(block), 12) => {
                self.count("failed_calls", 1);
                self.throw(asked);
                Some(block)
            }
            (Some(block), _) => {
                let number = self.number();
                let by = ended_by(block.2.function, what < 19);
                self.end(number, block, asked(by));
                None
            }
        };
    }

    /// All commands, carried out.
    pub fn of_all(called: Called) -> Model {
        Model::of_all_in(called, 1, |_| Ok(0)).unwrap_or_else(|_| unreachable!("nothing is asked for"))
    }

    /// The same; `word`: of the image of the memory, by the name of a variable. (C++'s library allocates for itself, and before `start`: how
    /// much, the firmware has noted.)
    fn of_all_in(called: Called, seed: u32, word: impl Fn(&str) -> Result<u64>) -> Result<Model> {
        let mut model = Model {
            called,
            slots: vec![None; SLOTS],
            live: BTreeMap::new(),
            freed: Vec::new(),
            numbers: 0,
            counts: BTreeMap::new(),
            live_bytes: 0,
            peak_bytes: 0,
            exception_bytes: if called.throws { word("exception_bytes")? } else { 0 },
        };
        if called.throws {
            let asked = |function, task| Asked { function, is_copy: false, task, time_ns: 0, levels: 0 };
            let number = model.number();
            model.begin(number, word("bytes_before")?, asked("malloc", ""));
            model.throw(|function| asked(function, "first"));
        }
        let mut random = seed;
        for now in 1..=COMMANDS {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            model.perform_at(u64::from(random.rotate_left(16) | 1 << 31), now);
        }
        Ok(model)
    }
}

/// The form of `delete` for what a form of `new` gave, with or without its size.
fn ended_by(new: &str, is_sized: bool) -> &'static str {
    match (new, is_sized) {
        ("new(nothrow)", _) => "delete(nothrow)",
        ("new[](nothrow)", _) => "delete[](nothrow)",
        ("new(align,nothrow)", _) => "delete(align,nothrow)",
        ("new[](align,nothrow)", _) => "delete[](align,nothrow)",
        ("new(align)", true) => "delete(size,align)",
        ("new(align)", false) => "delete(align)",
        ("new[](align)", true) => "delete[](size,align)",
        ("new[](align)", false) => "delete[](align)",
        ("new[]", true) => "delete[](size)",
        ("new[]", false) => "delete[]",
        (_, true) => "delete(size)",
        (_, false) => "delete",
    }
}

const OWN: [&str; 5] = ["perform", "deeper", "Tick", "interrupted", "start"];

/// The firmware's own functions in a stack, the innermost first.
pub fn functions(line: &Value) -> Vec<String> {
    let frames = line["frames"].as_array().into_iter().flatten();
    let names = frames.filter(|frame| frame["inlined"] != true).filter_map(|frame| frame["function"].as_str());
    let own = |name: &str| match name.split_once("::") {
        Some(("commands" | "commands_scan" | "commands_light" | "commands_full", own)) => Some(own.to_owned()),
        None if OWN.contains(&name) => Some(name.to_owned()),
        _ => None,
    };
    names.filter_map(own).collect()
}

/// Those that there should be.
pub fn expected_functions(asked: &Asked, machine: &Machine) -> Vec<String> {
    // The library has no frame pointers: after its own frame comes the caller of its caller.
    let mut names = if asked.is_copy { Vec::new() } else { vec!["perform"] };
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
    check!(line["thread"]["name"].as_str().unwrap_or_default() == asked.task, "{line}: {asked:?}");
    check!(line["time_ns"] == asked.time_ns, "{line}: {asked:?}");
    if let Some(actual) = line["actual"].as_u64() {
        check!(line["size"].as_u64().is_some_and(|size| size <= actual), "{line}: it has fewer bytes than asked for");
    }
    Ok(())
}

/// A stack that is the expected one.
pub fn is_exact(line: &Value, asked: &Asked, machine: &Machine) -> Result {
    let (is, expected) = (functions(line), expected_functions(asked, machine));
    let is = if asked.task == "interrupts" && machine.name != "Cortex-M3" {
        &is[..is.len().min(expected.len())]
    } else {
        &is[..]
    };
    check!(is == expected, "{}: the stack is {is:?}, not {expected:?}: {line}", machine.name);
    Ok(())
}

/// Runs firmware, if it is there, and compares its ledger with the model: totals, losses, each live block and each freed one. `stack` compares a
/// stack: of an end as well.
pub fn agrees(machine: &Machine, called: Called, stack: impl Fn(&Value, &Asked, &Machine) -> Result) -> Result {
    agrees_with(machine, called, 1, stack).map(|_| ())
}

/// The same, with a number that random numbers begin with; false: it is not there.
pub fn agrees_with(
    machine: &Machine,
    called: Called,
    seed: u32,
    stack: impl Fn(&Value, &Asked, &Machine) -> Result,
) -> Result<bool> {
    let Some(firmware) = machine.firmware(called.name, &[]) else { return Ok(false) };
    let scratch = Scratch::new();
    let firmware = if seed == 1 {
        firmware
    } else {
        let other = scratch.path(called.name);
        machine.with_word(&firmware, ("FIRST_RANDOM", seed), &other)?;
        other
    };
    let image = scratch.path("ram.bin");
    machine.image(&firmware, &image)?;
    let bytes = std::fs::read(&image).map_err(|error| error.to_string())?;
    let symbols = machine.room(&firmware)?.symbols;
    let model = Model::of_all_in(called, seed, |name| {
        let (address, _) = symbols.get(name).ok_or_else(|| format!("the firmware has no {name}"))?;
        let at = (address - machine.ram) as usize;
        let word = bytes.get(at..at + 4).ok_or("the image is too short")?;
        Ok(word.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    })?;
    check!(model.numbers > 5000 && model.live.len() > 20, "too little happens");

    let stats = Stats::of(&image)?;
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
        check!(is == model.of(key), "{key} is {is}, not {}", model.of(key));
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
        check!(
            line["size"] == bytes && (called.throws || !called.has_heaps || line["heap"] == "sram"),
            "{line}: {bytes}"
        );
        asked(line, &by)?;
        stack(line, &by, machine)?;
    }
    check!(left.is_empty(), "not in the ledger: {left:?}");

    // The ring holds the last of them.
    let lines = read("history", &image, &["--exe", &exe])?;
    let last = model.freed.get(model.freed.len().saturating_sub(HISTORY)..).unwrap_or_default();
    ends_are(&lines, last, machine, stack)?;
    Ok(true)
}

/// The frees among these lines are those of the model, each once.
pub fn ends_are(
    lines: &[Value],
    freed: &[(u64, Asked, Block)],
    machine: &Machine,
    stack: impl Fn(&Value, &Asked, &Machine) -> Result,
) -> Result {
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
