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

/// Names frames in a report: a line for each; nothing: frames stay addresses.
pub type HostNames<'n> = dyn FnMut(&[u64]) -> Vec<String> + 'n;

impl SysTrace {
    /// Writes the report.
    ///
    /// # Errors
    /// Those of `out`.
    pub(crate) fn report(mut self, names: &mut HostNames<'_>, out: &mut dyn Write) -> io::Result<()> {
        self.events.sort_by_key(|happened| happened.ns);
        let mut running: BTreeMap<u8, Running> = BTreeMap::new();
        let mut live: BTreeMap<u32, (u64, HeldInTrace<'_>)> = BTreeMap::new();
        let mut unmatched: Vec<(u32, String, &[u64])> = Vec::new();
        for (number, Happened { ns, core, event }) in (0u64..).zip(&self.events) {
            let on_core = running.entry(*core).or_default();
            on_core.take(*core, event);
            let stack = |index: u32| self.stacks.get(index as usize).map_or(&[][..], Vec::as_slice);
            let time = format!("[{}.{:09}] HEAP: ", ns / 1_000_000_000, ns % 1_000_000_000);
            let by = format!("from {} on core {core} by: ", on_core.called(&self.names));
            match *event {
                HeapEvent::Alloc { address, size, stack: frames } if address != 0 => {
                    let line = format!("{time}Allocated {size} bytes @ {address:#x} {by}");
                    live.insert(address, (number, HeldInTrace { size, line, stack: stack(frames) }));
                }
                HeapEvent::Free { address, stack: frames } if address != 0 && live.remove(&address).is_none() => {
                    unmatched.push((address, format!("{time}Freed bytes @ {address:#x} {by}"), stack(frames)));
                }
                _ => {}
            }
        }
        writeln!(out, "Processed {} events", self.all_events)?;
        writeln!(out, "=============== LOG TRACE REPORT ===============\nProcessed {} log messages.", self.messages)?;
        writeln!(
            out,
            "=============== HEAP TRACE REPORT ===============\nProcessed {} heap events.",
            self.heap_events
        )?;
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
            for (freed, line, stack) in &unmatched {
                if *freed > **address && u64::from(*freed) < end {
                    writeln!(out, "Possible wrong free operation found")?;
                    write(line, stack, out)?;
                }
            }
        }
        match held.len() {
            0 => writeln!(out, "OK - Heap errors was not found."),
            blocks => writeln!(out, "Found {bytes} leaked bytes in {blocks} blocks."),
        }
    }
}
