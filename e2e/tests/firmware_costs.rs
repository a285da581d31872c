//! What recording costs on chips, with six sets of switches, with room for 100, 1,000 and 10,000 blocks: bytes of the program, of memory by its parts and of
//! stack, and instructions, over the same firmware without it (`e2e/firmware/measure.rs`: 83 of 100 blocks live, 40 stacks of five frames). Each
//! figure has a ceiling: it may not grow unseen.

use std::collections::BTreeMap;

use heapledger_e2e::chip::{MACHINES, Machine, Room};
use heapledger_e2e::{Result, check};

/// Ceilings with room for 100 blocks: bytes of the program, instructions of an allocation and its free, of the longest single call, and bytes of
/// stack. Instructions depend a little on where code lies: its addresses are hashed.
struct Ceiling {
    set: &'static str,
    what: &'static str,
    flash: [u64; 2],
    pair: [u64; 2],
    longest: [u64; 2],
    stack: [u64; 2],
    /// Bytes of the whole ledger, with room for 100, 1,000 and 10,000 blocks.
    region: [u64; 3],
}

/// Room for so many blocks.
const ROOMS: [u64; 3] = [100, 1000, 10_000];

/// With room for more than 100 blocks the program may be so much longer: larger numbers take longer instructions.
const MORE_FLASH: u64 = 260;

/// And an allocation and its free may take so many more instructions, in hundredths: chains of the index are longer.
const MORE_INSTRUCTIONS: u64 = 15;

/// What others take of memory for a live block, as far as they have what is in the set: said beside ours.
const SEEDS: [(&str, &str); 6] = [
    ("bare", "eCos 16"),
    ("minimal", "eCos 32, libwebsockets 36 with four levels; ESP-IDF 24 + 8 for each level"),
    ("history", "eCos 50 for a freed one"),
    ("time", ""),
    ("tasks", "eCos 36 with its defaults"),
    ("everything", ""),
];

const CEILINGS: [Ceiling; 8] = [
    Ceiling {
        set: "bare",
        what: "who is live",
        flash: [930, 1230],
        pair: [330, 370],
        longest: [300, 300],
        stack: [72, 72],
        region: [1600, 14800, 145500],
    },
    Ceiling {
        set: "minimal",
        what: "+ call stacks",
        flash: [1480, 1680],
        pair: [560, 570],
        longest: [420, 420],
        stack: [120, 116],
        region: [5750, 23000, 218500],
    },
    Ceiling {
        set: "history",
        what: "+ history",
        flash: [1960, 2210],
        pair: [880, 870],
        longest: [560, 560],
        stack: [144, 132],
        region: [7100, 28300, 267500],
    },
    Ceiling {
        set: "time",
        what: "+ time",
        flash: [2130, 2330],
        pair: [910, 900],
        longest: [560, 560],
        stack: [152, 132],
        region: [8000, 34400, 324000],
    },
    Ceiling {
        set: "tasks",
        what: "+ tasks",
        flash: [2700, 2820],
        pair: [1040, 1020],
        longest: [620, 600],
        stack: [160, 148],
        region: [8900, 39600, 324200],
    },
    Ceiling {
        set: "everything",
        what: "+ heaps, sizes",
        flash: [2830, 2950],
        pair: [1040, 1020],
        longest: [640, 600],
        stack: [160, 148],
        region: [9000, 39700, 324300],
    },
    Ceiling {
        set: "crowded",
        what: "call stacks, no room",
        flash: [1510, 1740],
        pair: [640, 640],
        longest: [500, 480],
        stack: [120, 116],
        region: [1770, 0, 0],
    },
    Ceiling {
        set: "full",
        what: "history, no room for stacks",
        flash: [2000, 2290],
        pair: [1000, 1020],
        longest: [580, 580],
        stack: [144, 132],
        region: [3150, 0, 0],
    },
];

/// Memory that the recorder has beside its region.
const OUTSIDE_MAX: u64 = 0;

/// What firmware with one set of switches takes.
struct Taken {
    room: Room,
    said: BTreeMap<String, u64>,
}

impl Taken {
    fn by(machine: &Machine, set: &str, blocks: u64) -> Result<Option<Taken>> {
        let Some(firmware) = machine.firmware(&format!("measure_{set}_{blocks}"), &[]) else { return Ok(None) };
        Ok(Some(Taken { room: machine.room(&firmware)?, said: machine.says(&firmware)?.into_iter().collect() }))
    }

    fn said(&self, word: &str) -> Result<u64> {
        self.said.get(word).copied().ok_or(format!("the firmware does not say {word}"))
    }
}

/// The parts of a ledger, as the firmware says them.
const PARTS: [&str; 6] =
    ["header_bytes", "records_bytes", "index_bytes", "history_bytes", "sites_bytes", "others_bytes"];

/// With room for so many blocks: prints, and returns what is above a ceiling. None: it cannot be run here.
fn costs_with(machine: &Machine, nth: usize, (size, blocks): (usize, u64)) -> Result<Option<Vec<String>>> {
    let Some(without) = Taken::by(machine, "none", blocks)? else { return Ok(None) };
    println!(
        "{}, {blocks} blocks\n{:<28} {:>6} {:>5} {:>5} {:>5} {:>7} {:>5} | {:>7} {:>6} {:>7} {:>6} {:>7} {:>6} {:>6} {:>7}",
        machine.name,
        "recorded",
        "flash",
        "alloc",
        "free",
        "pair",
        "longest",
        "stack",
        "region",
        "header",
        "records",
        "index",
        "history",
        "stacks",
        "others",
        "a block"
    );
    let mut above = Vec::new();
    for Ceiling { set, what, flash, pair, longest, stack, region: region_max } in &CEILINGS {
        if region_max[size] == 0 {
            continue;
        }
        let Some(with) = Taken::by(machine, set, blocks)? else { return Ok(None) };
        let region = with.room.symbols.get("heapledger_ledger").map_or(0, |(_, bytes)| *bytes);
        let parts = PARTS.iter().map(|word| with.said(word)).collect::<Result<Vec<u64>>>()?;
        check!(region == parts.iter().sum::<u64>(), "{set}: the ledger has {region} bytes, its parts {parts:?}");
        let more = |word: &str| Ok::<u64, String>(with.said(word)?.saturating_sub(without.said(word)?));
        let pairs = with.said("pairs")?;
        let (alloc, free) = (more("alloc")?.div_ceil(pairs), more("free")?.div_ceil(pairs));
        let figures = [
            with.room.flash - without.room.flash,
            (more("alloc")? + more("free")?).div_ceil(pairs),
            more("alloc_most")?.max(more("free_most")?),
            more("alloc_stack")?.max(more("free_stack")?),
            region,
        ];
        let outside = with.room.ram.saturating_sub(without.room.ram + region);
        let seed = SEEDS.iter().find(|(of, _)| of == set).map_or("", |(_, seed)| *seed);
        println!(
            "{what:<28} {:>6} {alloc:>5} {free:>5} {:>5} {:>7} {:>5} | {region:>7} {:>6} {:>7} {:>6} {:>7} {:>6} {:>6} {:>7.1} {seed}",
            figures[0],
            figures[1],
            figures[2],
            figures[3],
            parts[0],
            parts[1],
            parts[2],
            parts[3],
            parts[4],
            parts[5],
            (parts[1] + parts[2]) as f64 / blocks as f64,
        );
        if ["crowded", "full"].contains(set) {
            check!(with.said("live_bytes")? == 83 * 24, "{} bytes live", with.said("live_bytes")?);
        }
        let is_larger = u64::from(blocks > ROOMS[0]);
        let ceilings = [
            ("flash", flash[nth] + is_larger * MORE_FLASH),
            ("pair", pair[nth] * (100 + is_larger * MORE_INSTRUCTIONS) / 100),
            ("longest", longest[nth]),
            ("stack", stack[nth]),
            ("region", region_max[size]),
        ];
        for (figure, (name, ceiling)) in figures.iter().zip(ceilings) {
            if *figure > ceiling {
                above.push(format!("{set}, {blocks} blocks: {name} is {figure}, at most {ceiling} is allowed"));
            }
        }
        if outside > OUTSIDE_MAX {
            above.push(format!("{set}: {outside} bytes lie outside of the region"));
        }
    }
    Ok(Some(above))
}

fn costs(machine: &Machine, nth: usize) -> Result {
    let mut above = Vec::new();
    for room in ROOMS.into_iter().enumerate() {
        let Some(more) = costs_with(machine, nth, room)? else { return Ok(()) };
        above.extend(more);
    }
    check!(above.is_empty(), "{}: {}", machine.name, above.join("; "));
    Ok(())
}

/// A level, and ceilings.
type Guard = (&'static str, [u64; 2], [u64; 2], u64, u64);

/// What guarding blocks costs, over the same firmware that only records who is live, with call stacks and room for 100 blocks: ceilings of bytes of the program,
/// of instructions of an allocation and its free, of stack, and of memory beside the ledger: bits for 16 KiB of heap, 256 bytes a row (and 60
/// of the allocator inside, which without a guard is compiled for blocks of one size).
const GUARDS: [Guard; 2] =
    [("light", [5280, 7050], [310, 520], 140, 320), ("filled", [6700, 8500], [1150, 1400], 180, 580)];

fn guard_costs(machine: &Machine, nth: usize) -> Result {
    let Some(without) = Taken::by(machine, "minimal", ROOMS[0])? else { return Ok(()) };
    println!("{:<10} {:<8} {:>6} {:>5} {:>5} {:>7}", machine.name, "level", "flash", "pair", "stack", "beside");
    let mut above = Vec::new();
    for (level, flash, pair, stack, beside) in GUARDS {
        let Some(with) = Taken::by(machine, level, ROOMS[0])? else { return Ok(()) };
        let region = |taken: &Taken| taken.room.symbols.get("heapledger_ledger").map_or(0, |(_, bytes)| *bytes);
        let more = |word: &str| Ok::<u64, String>(with.said(word)?.saturating_sub(without.said(word)?));
        let figures = [
            with.room.flash - without.room.flash,
            (more("alloc")? + more("free")?).div_ceil(with.said("pairs")?),
            more("alloc_stack")?.max(more("free_stack")?),
            (with.room.ram - region(&with)) - (without.room.ram - region(&without)),
        ];
        println!("{:<10} {level:<8} {:>6} {:>5} {:>5} {:>7}", "", figures[0], figures[1], figures[2], figures[3]);
        let panics: Vec<&String> = with.room.symbols.keys().filter(|name| name.contains("panic")).collect();
        check!(panics.is_empty(), "{level}: {panics:?} can be reached");
        let ceilings = [flash[nth], pair[nth], stack, beside];
        for (what, (figure, ceiling)) in ["flash", "pair", "stack", "beside"].iter().zip(figures.iter().zip(ceilings)) {
            if *figure > ceiling {
                above.push(format!("{level}: {what} is {figure}, at most {ceiling} is allowed"));
            }
        }
    }
    check!(above.is_empty(), "{}: {}", machine.name, above.join("; "));
    Ok(())
}

#[test]
fn what_a_guard_costs() -> Result {
    for (nth, machine) in MACHINES.iter().enumerate() {
        guard_costs(machine, nth)?;
    }
    Ok(())
}

/// What an allocation and its free load from the ledger, and store there, words of 4 bytes and parts of them: where it lies in external RAM, each of them waits for that. Sets with
/// ceilings of loads and of stores. (Where the heap lies decides on chains of the index, and so on a few loads.)
const ACCESSES: [(&str, [u64; 2], [u64; 2]); 8] = [
    ("bare", [39, 36], [24, 24]),
    ("minimal", [51, 47], [24, 24]),
    ("history", [72, 67], [34, 34]),
    ("time", [77, 73], [41, 41]),
    ("tasks", [86, 81], [46, 46]),
    ("everything", [86, 81], [46, 46]),
    ("crowded", [58, 54], [26, 26]),
    ("full", [84, 79], [37, 37]),
];

fn accesses(machine: &Machine, nth: usize) -> Result {
    println!("{:<10} {:<11} {:>6} {:>6} {:>6} {:>6}", machine.name, "recorded", "loads", "bytes", "stores", "bytes");
    let mut above = Vec::new();
    for (set, loads_max, stores_max) in ACCESSES {
        let Some(firmware) = machine.firmware(&format!("measure_{set}_100"), &[]) else { return Ok(()) };
        let pairs = machine.says(&firmware)?.iter().find(|(word, _)| word == "pairs").map_or(0, |(_, pairs)| *pairs);
        let Some(counted) = machine.accesses(&firmware)? else { return Ok(()) };
        check!(pairs > 0, "{set}: no pairs");
        let [loads, loaded, stores, stored] = counted.map(|number| number.div_ceil(pairs));
        println!("{:<10} {set:<11} {loads:>6} {loaded:>6} {stores:>6} {stored:>6}", "");
        // Fewer cannot be: the record alone has three words, and a cell leads to it.
        check!(stores >= 8 && loads >= 8 && loaded <= loads * 4 && stored <= stores * 4, "{set}: {counted:?}");
        if loads > loads_max[nth] || stores > stores_max[nth] {
            above.push(format!("{set}: {loads} loads and {stores} stores"));
        }
    }
    check!(above.is_empty(), "{}: more than is allowed: {}", machine.name, above.join("; "));
    Ok(())
}

#[test]
fn how_often_the_ledger_is_looked_at() -> Result {
    for (nth, machine) in MACHINES.iter().enumerate() {
        accesses(machine, nth)?;
    }
    Ok(())
}

#[test]
fn what_recording_costs_a_cortex_m3() -> Result {
    costs(&MACHINES[0], 0)
}

#[test]
fn what_recording_costs_a_risc_v_processor() -> Result {
    costs(&MACHINES[1], 1)
}

#[test]
fn nothing_that_is_recorded_can_panic() -> Result {
    for machine in &MACHINES {
        let Some(firmware) = machine.firmware("measure_everything_100", &[]) else { return Ok(()) };
        let room = machine.room(&firmware)?;
        for needed in
            ["heapledger_update_done", "heapledger_history_full", "heapledger_records_full", "heapledger_sites_full"]
        {
            check!(room.symbols.contains_key(needed), "{}: {needed} is not there", machine.name);
        }
        let panics: Vec<&String> = room.symbols.keys().filter(|name| name.contains("panic")).collect();
        check!(panics.is_empty(), "{}: {panics:?} can be reached", machine.name);
    }
    Ok(())
}
