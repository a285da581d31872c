//! What recording costs on chips, with six sets of switches: bytes of the program, of memory and of stack, and instructions, over the same
//! firmware without it (`e2e/firmware/measure.rs`: 83 blocks live, 40 stacks of five frames). Each figure has a ceiling: it may not grow
//! unseen.

use std::collections::BTreeMap;

use heapledger_e2e::chip::{MACHINES, Machine, Room};
use heapledger_e2e::{Result, check};

/// Ceilings: bytes of the program, instructions of an allocation and its free, of the longest single call, and bytes of stack. Instructions
/// depend a little on where code lies: its addresses are hashed.
struct Ceiling {
    set: &'static str,
    what: &'static str,
    flash: [u64; 2],
    pair: [u64; 2],
    longest: [u64; 2],
    stack: [u64; 2],
}

const CEILINGS: [Ceiling; 7] = [
    Ceiling {
        set: "bare",
        what: "who is live",
        flash: [1200, 1580],
        pair: [320, 450],
        longest: [1000, 1000],
        stack: [80, 80],
    },
    Ceiling {
        set: "minimal",
        what: "+ call stacks",
        flash: [1790, 2090],
        pair: [580, 670],
        longest: [1000, 1000],
        stack: [144, 140],
    },
    Ceiling {
        set: "history",
        what: "+ history",
        flash: [2300, 2600],
        pair: [910, 970],
        longest: [1000, 1000],
        stack: [160, 160],
    },
    Ceiling {
        set: "time",
        what: "+ time",
        flash: [2480, 2690],
        pair: [950, 1000],
        longest: [1000, 1000],
        stack: [160, 160],
    },
    Ceiling {
        set: "tasks",
        what: "+ tasks",
        flash: [3040, 3180],
        pair: [1080, 1110],
        longest: [1000, 1000],
        stack: [160, 164],
    },
    Ceiling {
        set: "everything",
        what: "+ heaps, sizes",
        flash: [3190, 3320],
        pair: [1070, 1120],
        longest: [1000, 1000],
        stack: [160, 164],
    },
    Ceiling {
        set: "full",
        what: "history, no room for stacks",
        flash: [2350, 2680],
        pair: [1470, 1400],
        longest: [1000, 1000],
        stack: [160, 160],
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
    fn by(machine: &Machine, set: &str) -> Result<Option<Taken>> {
        let Some(firmware) = machine.firmware(&format!("measure_{set}"), &[]) else { return Ok(None) };
        Ok(Some(Taken { room: machine.room(&firmware)?, said: machine.says(&firmware)?.into_iter().collect() }))
    }

    fn said(&self, word: &str) -> Result<u64> {
        self.said.get(word).copied().ok_or(format!("the firmware does not say {word}"))
    }
}

fn costs(machine: &Machine, nth: usize) -> Result {
    let Some(without) = Taken::by(machine, "none")? else { return Ok(()) };
    println!(
        "{:<10} {:<28} {:>6} {:>7} {:>8} {:>6} {:>6} {:>6} {:>8} {:>6}",
        machine.name, "recorded", "flash", "region", "outside", "alloc", "free", "pair", "longest", "stack"
    );
    let mut above = Vec::new();
    for Ceiling { set, what, flash, pair, longest, stack } in &CEILINGS {
        let Some(with) = Taken::by(machine, set)? else { return Ok(()) };
        let region = with.room.symbols.get("heapledger_ledger").map_or(0, |(_, bytes)| *bytes);
        check!(region > 1000, "the ledger has {region} bytes");
        let more = |word: &str| Ok::<u64, String>(with.said(word)?.saturating_sub(without.said(word)?));
        let pairs = with.said("pairs")?;
        let (alloc, free) = (more("alloc")?.div_ceil(pairs), more("free")?.div_ceil(pairs));
        let figures = [
            with.room.flash - without.room.flash,
            (more("alloc")? + more("free")?).div_ceil(pairs),
            more("alloc_most")?.max(more("free_most")?),
            more("alloc_stack")?.max(more("free_stack")?),
        ];
        let outside = with.room.ram.saturating_sub(without.room.ram + region);
        println!(
            "{:<10} {what:<28} {:>6} {region:>7} {outside:>8} {alloc:>6} {free:>6} {:>6} {:>8} {:>6}",
            "", figures[0], figures[1], figures[2], figures[3]
        );
        if *set == "full" {
            check!(with.said("live_bytes")? == 83 * 24, "{} bytes live", with.said("live_bytes")?);
        }
        let ceilings = [("flash", flash), ("pair", pair), ("longest", longest), ("stack", stack)];
        for (figure, (name, ceiling)) in figures.iter().zip(ceilings) {
            if *figure > ceiling[nth] {
                above.push(format!("{set}: {name} is {figure}, at most {} is allowed", ceiling[nth]));
            }
        }
        if outside > OUTSIDE_MAX {
            above.push(format!("{set}: {outside} bytes lie outside of the region"));
        }
    }
    check!(above.is_empty(), "{}: {}", machine.name, above.join("; "));
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
        let Some(firmware) = machine.firmware("measure_everything", &[]) else { return Ok(()) };
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
