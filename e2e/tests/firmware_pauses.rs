//! For how many instructions interrupts are off on a chip while a call is recorded (`e2e/firmware/pauses.rs`), with 10 to 10,000 blocks that live: it hardly
//! depends on how many there are, and there is a longest.

use heapledger_e2e::chip::{MACHINES, Machine};
use heapledger_e2e::{Result, check};

/// Sets with the most that 999 of 1,000 calls take. `full`: of everything, with no room for stacks.
const SETS: [(&str, u64); 3] = [("minimal", 600), ("everything", 900), ("full", 900)];

/// The mean with 10,000 blocks may differ by so much from that with 10.
const APART: f64 = 0.2;

/// The most that any call takes.
const LONGEST: u64 = 2000;

/// Calls with one number of live blocks, by how many instructions interrupts were off.
struct Pauses {
    live: u64,
    times: Vec<(u64, u64)>,
}

impl Pauses {
    /// What the firmware says: how many blocks live, then pairs of instructions and how often.
    fn said(lines: &[(String, u64)]) -> Result<Vec<Pauses>> {
        let mut all: Vec<Pauses> = Vec::new();
        for (word, number) in lines {
            if word == "live" {
                all.push(Pauses { live: *number, times: Vec::new() });
                continue;
            }
            let last = all.last_mut().ok_or("it does not say how many live")?;
            match (word.as_str(), last.times.last_mut()) {
                ("off", _) => last.times.push((*number, 0)),
                ("times", Some(time)) => time.1 = *number,
                _ => return Err(format!("it says {word} {number}")),
            }
        }
        Ok(all)
    }

    fn calls(&self) -> u64 {
        self.times.iter().map(|(_, times)| times).sum()
    }

    fn mean(&self) -> f64 {
        let sum: u64 = self.times.iter().map(|(instructions, times)| instructions * times).sum();
        sum as f64 / self.calls() as f64
    }

    /// The most that so many of 1,000 calls take.
    fn within(&self, thousandths: u64) -> u64 {
        let (mut seen, wanted) = (0, (self.calls() * thousandths).div_ceil(1000));
        let mut times = self.times.iter();
        let most = times.find(|(_, times)| {
            seen += times;
            seen >= wanted
        });
        most.map_or(0, |(instructions, _)| *instructions)
    }
}

fn pauses(machine: &Machine) -> Result {
    println!(
        "{:<10} {:<11} {:>6} {:>5} {:>5} {:>5} {:>5} {:>7}",
        machine.name, "recorded", "live", "mean", "50 %", "99 %", "99.9%", "longest"
    );
    for (set, most) in SETS {
        let Some(firmware) = machine.firmware(&format!("pauses_{set}"), &[]) else { return Ok(()) };
        let all = Pauses::said(&machine.says(&firmware)?)?;
        check!(
            all.iter().map(|pauses| pauses.live).eq([10, 100, 1000, 10_000]),
            "{set}: not with each number of blocks"
        );
        for pauses in &all {
            let longest = pauses.within(1000);
            println!(
                "{:<10} {set:<11} {:>6} {:>5.0} {:>5} {:>5} {:>5} {longest:>7}",
                "",
                pauses.live,
                pauses.mean(),
                pauses.within(500),
                pauses.within(990),
                pauses.within(999)
            );
            check!(pauses.calls() == 20_000, "{set}: {} calls", pauses.calls());
            check!(pauses.within(999) <= most, "{set}, {} live: 99.9 % take {}", pauses.live, pauses.within(999));
            check!(longest <= LONGEST, "{set}, {} live: one takes {longest}", pauses.live);
        }
        let (few, many) = (all[0].mean(), all[3].mean());
        check!((many - few).abs() <= few * APART, "{set}: {few} with 10 blocks, {many} with 10,000");
    }
    Ok(())
}

#[test]
fn interrupts_of_a_cortex_m3_are_not_off_for_long() -> Result {
    pauses(&MACHINES[0])
}

#[test]
fn interrupts_of_a_risc_v_processor_are_not_off_for_long() -> Result {
    pauses(&MACHINES[1])
}
