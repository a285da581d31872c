//! What ESP-IDF's own script prints of a trace to a host: all that was allocated and not freed, suspicious frees, sums.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::SysTrace;
use super::books::{Happened, HeapEvent, Running};

/// A block that lives, as the report tells of it.
struct HeldInTrace<'t> {
    size: u32,
    line: String,
    stack: &'t [u64],
}

/// Frees of blocks that nobody knows that are kept, to look which of them are within others.
const UNMATCHED_MAX: usize = 1 << 20;

/// In which form a report is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostForm {
    /// In words.
    Text,
    /// All events, as JSON.
    Json,
}

/// Names frames in a report: a line for each; nothing: frames stay addresses.
pub type HostNames<'n> = dyn FnMut(&[u64]) -> Vec<String> + 'n;

impl SysTrace {
    /// Writes the report; what is missing in it, in sentences.
    ///
    /// # Errors
    /// Those of `out`.
    pub(crate) fn report(self, names: &mut HostNames<'_>, out: &mut dyn Write) -> io::Result<Vec<String>> {
        let mut running: BTreeMap<u8, Running> = BTreeMap::new();
        let mut live: BTreeMap<u32, (u64, HeldInTrace<'_>)> = BTreeMap::new();
        let mut unmatched: Vec<(u32, String, &[u64])> = Vec::new();
        let (mut twice, mut number, mut unmatched_left) = (0u64, 0u64, 0u64);
        self.events.each(&mut |Happened { ns, core, event }, _| {
            number += 1;
            let on_core = running.entry(*core).or_default();
            on_core.take(*core, event);
            let stack = |index: u32| self.stacks.get(index as usize).map_or(&[][..], Vec::as_slice);
            let time = format!("[{}.{:09}] HEAP: ", ns / 1_000_000_000, ns % 1_000_000_000);
            let by = format!("from {} on core {core} by: ", on_core.called(&self.names));
            match *event {
                HeapEvent::Alloc { address, size, stack: frames } if address != 0 => {
                    let line = format!("{time}Allocated {size} bytes @ {address:#x} {by}");
                    let block = HeldInTrace { size, line, stack: stack(frames) };
                    twice += u64::from(live.insert(address, (number, block)).is_some());
                }
                HeapEvent::Free { address, stack: frames } if address != 0 && live.remove(&address).is_none() => {
                    if unmatched.len() < UNMATCHED_MAX {
                        unmatched.push((address, format!("{time}Freed bytes @ {address:#x} {by}"), stack(frames)));
                    } else {
                        unmatched_left += 1;
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        writeln!(out, "Processed {} events", self.all_events)?;
        writeln!(out, "=============== LOG TRACE REPORT ===============\nProcessed {} log messages.", self.messages)?;
        writeln!(
            out,
            "=============== HEAP TRACE REPORT ===============\nProcessed {} heap events.",
            self.heap_events
        )?;
        // By address, so that few are looked at for each block.
        let mut by_address: Vec<usize> = (0..unmatched.len()).collect();
        let address_of = |index: &usize| unmatched.get(*index).map_or(0, |(address, ..)| *address);
        by_address.sort_by_key(address_of);
        let mut held: Vec<(&u32, &(u64, HeldInTrace<'_>))> = live.iter().collect();
        held.sort_by_key(|(_, (number, _))| *number);
        let (mut bytes, mut write) = (0u64, |line: &str, stack: &[u64], out: &mut dyn Write| -> io::Result<()> {
            let named = names(stack);
            if named.is_empty() {
                let frames: Vec<String> = stack.iter().map(|frame| format!("{frame:#x}")).collect();
                return writeln!(out, "{line}{}", frames.join(":"));
            }
            writeln!(out, "{line}\n{}\n", named.join("\n"))
        });
        for (address, (_, block)) in &held {
            bytes += u64::from(block.size);
            write(&block.line, block.stack, out)?;
            let end = u64::from(**address) + u64::from(block.size);
            let first = by_address.partition_point(|index| address_of(index) <= **address);
            let within = by_address.iter().skip(first).take_while(|index| u64::from(address_of(index)) < end);
            let mut within: Vec<usize> = within.copied().collect();
            within.sort_unstable();
            for (_, line, stack) in within.into_iter().filter_map(|index| unmatched.get(index)) {
                writeln!(out, "Possible wrong free operation found")?;
                write(line, stack, out)?;
            }
        }
        match held.len() {
            0 => writeln!(out, "OK - Heap errors was not found.")?,
            blocks => writeln!(out, "Found {bytes} leaked bytes in {blocks} blocks.")?,
        }
        let mut missing = self.missing();
        if unmatched_left != 0 {
            missing.push(format!(
                "{unmatched_left} frees of blocks that nobody knows were not looked at: there are too many."
            ));
        }
        if twice != 0 {
            let blocks = if twice == 1 { "1 block was" } else { &format!("{twice} blocks were") };
            missing.push(format!(
                "{blocks} given out at an address at which another one still lived: frees are missing, perhaps those of another core."
            ));
        }
        Ok(missing)
    }
}
