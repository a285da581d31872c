//! Windows, accounts of tasks, hooks and the most that lived since a moment, as firmware in Rust and in C asks for them in QEMU (`e2e/firmware/windows.rs`, `windows.c`): what
//! it says is what a model of the same 3,000 commands knows.

use heapledger_e2e::chip::MACHINES;
use heapledger_e2e::{Result, check};

/// What a window has.
#[derive(Clone, Copy, Default)]
struct Sums {
    allocations: u64,
    bytes_allocated: u64,
    frees: u64,
    bytes_freed: u64,
    failed: u64,
}

impl Sums {
    fn said(&self) -> [(&'static str, u64); 6] {
        [
            ("allocations", self.allocations),
            ("bytes_allocated", self.bytes_allocated),
            ("frees", self.frees),
            ("bytes_freed", self.bytes_freed),
            ("failed_calls", self.failed),
            ("lost", 0),
        ]
    }

    fn add(&mut self, other: Sums) {
        self.allocations += other.allocations;
        self.bytes_allocated += other.bytes_allocated;
        self.frees += other.frees;
        self.bytes_freed += other.bytes_freed;
        self.failed += other.failed;
    }
}

/// A block: bytes, who began it, in which step.
type Block = (u64, usize, u64);

/// All that firmware is to say; the last line is Rust's alone.
fn expected() -> Vec<(&'static str, u64)> {
    let mut slots: [Option<Block>; 32] = [None; 32];
    let (mut windows, mut tasks, mut all) = ([Sums::default(); 2], [Sums::default(); 3], Sums::default());
    let (mut live, mut most, mut random) = (0u64, 0u64, 2_463_534_242u32);
    // Blocks that begin have numbers, and so have their ends.
    let mut first = 0;
    for step in 0..3000u64 {
        let mut now = Sums::default();
        if step == 800 {
            most = live;
        }
        if step == 1000 {
            first = all.allocations + all.frees;
        }
        now.failed = u64::from(step == 1450 || step == 1700);
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        let task = (random >> 8) as usize % 3;
        let slot = &mut slots[random as usize % 32];
        match slot.take() {
            Some((bytes, ..)) => {
                live -= bytes;
                (now.frees, now.bytes_freed) = (1, bytes);
            }
            None => {
                let bytes = u64::from(1 + (random >> 16) % 200);
                *slot = Some((bytes, task, step));
                live += bytes;
                (now.allocations, now.bytes_allocated) = (1, bytes);
            }
        }
        if (800..1600).contains(&step) {
            most = most.max(live);
        }
        if (500..1500).contains(&step) {
            windows[0].add(now);
        }
        if (1000..1200).contains(&step) || step >= 1400 {
            windows[1].add(now);
        }
        tasks[task].add(now);
        all.add(now);
    }
    let mut said: Vec<(&str, u64)> = windows.iter().flat_map(Sums::said).collect();
    let blocks = || slots.iter().flatten();
    for (nth, task) in tasks.iter().enumerate() {
        let owned = || blocks().filter(|(_, owner, _)| *owner == nth);
        let held = [("live_blocks", owned().count() as u64), ("live_bytes", owned().map(|(bytes, ..)| bytes).sum())];
        said.extend(&task.said()[..3]);
        said.extend(held);
    }
    said.extend([
        ("most", most),
        ("began", all.allocations),
        ("ended", all.frees),
        ("gave_none", all.failed),
        ("bytes_told", all.bytes_allocated),
        ("first", first),
        ("kept", blocks().filter(|(_, _, step)| *step >= 1000).count() as u64),
    ]);
    said
}

#[test]
fn windows_accounts_and_hooks_of_firmware_agree_with_a_model() -> Result {
    let expected = expected();
    check!(
        expected.iter().all(|(word, number)| *word == "lost" || *word == "failed_calls" || *number > 0),
        "{expected:?}"
    );
    for machine in &MACHINES {
        for (program, is_rust) in [("windows", true), ("windows_c", false), ("windows_c_FIXED", false)] {
            // The library that is built for one firmware is tried on one.
            if program == "windows_c_FIXED" && machine.name != "Cortex-M3" {
                continue;
            }
            let Some(firmware) = machine.firmware(program, &[]) else { return Ok(()) };
            let said = machine.says(&firmware)?;
            let said: Vec<(&str, u64)> = said.iter().map(|(word, number)| (word.as_str(), *number)).collect();
            let expected = &expected[..expected.len() - usize::from(!is_rust)];
            check!(said == expected, "{}, {program}: {said:?}, not {expected:?}", machine.name);
        }
    }
    Ok(())
}
