//! heaptrack's interpreted data, version 3, for `heaptrack_print` and `heaptrack_gui`: the blocks of one moment, none of them freed.

use std::collections::HashMap;
use std::io::{self, Write};

use heapledger_analysis::tree::{Amounts, Measure};

use crate::formats::{Comparison, ExportFormat};
use crate::profile::{Profile, StackBlocks, TextId};

pub(crate) const FORMAT: ExportFormat = ExportFormat {
    name: "heaptrack",
    about: "For heaptrack_print and heaptrack_gui: blocks of one moment",
    ending: "heaptrack.zst",
    packed: None,
    comparison: Comparison::Never,
    needs_sizes: true,
    untold: "threads, and frees by stack: in the file nothing is freed, and all of it counts as leaked and as the peak",
    holds,
    remarks,
    write,
};

/// As heaptrack 1.4, of which this is the form: `major << 16 | minor << 8 | patch`.
const VERSION: u32 = 0x0001_0400;
const FILE_VERSION: u32 = 3;

/// Most lines of blocks: some 3 GB.
const BLOCKS_MAX: u64 = 1 << 28;
/// Lines that are written together.
const LINES: u64 = 1024;

fn holds(measure: Measure) -> bool {
    matches!(measure, Measure::LiveBytes | Measure::PeakBytes)
}

/// Whether the file has blocks with their own sizes.
fn sizes(profile: &Profile) -> Option<&[StackBlocks]> {
    profile.sizes.as_deref().filter(|_| profile.about.measure == Measure::LiveBytes)
}

fn remarks(profile: &Profile) -> Vec<String> {
    let of = if profile.about.measure == Measure::PeakBytes { "at the peak" } else { "when the ledger ends" };
    let means = sizes(profile).is_none();
    let means =
        means.then(|| "single sizes are not known: blocks of a stack have its mean size, in whole bytes".to_owned());
    std::iter::once(format!("the file is what lived {of}")).chain(means).collect()
}

/// Blocks of whole bytes that come to what a stack holds.
fn mean(node: u32, bytes: u64, blocks: u64) -> impl Iterator<Item = StackBlocks> {
    let (size, larger) = (bytes.checked_div(blocks).unwrap_or(0), bytes.checked_rem(blocks).unwrap_or(0));
    let one = StackBlocks { node, size, blocks: blocks - larger };
    let other = StackBlocks { node, size: size.saturating_add(1), blocks: larger };
    [one, other].into_iter().filter(|part| part.blocks != 0)
}

/// Numbers that begin with 1, in the order in which things are written.
struct Numbers {
    texts: HashMap<TextId, u32>,
    places: HashMap<u32, u32>,
    traces: HashMap<u32, u32>,
}

impl Numbers {
    fn text(&mut self, profile: &Profile, out: &mut dyn Write, id: TextId) -> io::Result<u32> {
        if id == TextId::default() {
            return Ok(0);
        }
        if let Some(number) = self.texts.get(&id) {
            return Ok(*number);
        }
        let text = profile.texts.get(id);
        writeln!(out, "s {:x} {text}", text.len())?;
        let number = self.texts.len() as u32 + 1;
        self.texts.insert(id, number);
        Ok(number)
    }

    fn place(&mut self, profile: &Profile, out: &mut dyn Write, index: u32) -> io::Result<u32> {
        if let Some(number) = self.places.get(&index) {
            return Ok(*number);
        }
        let place = &profile.places[index as usize];
        let module = profile.module(place.module_plus_1).map_or(TextId::default(), |module| module.path);
        let mut words = vec![place.address.unwrap_or(0), u64::from(self.text(profile, out, module)?)];
        if place.is_named || place.address.is_none() {
            for line in &place.lines {
                let function = profile.functions[line.function as usize];
                words.push(self.text(profile, out, function.name)?.into());
                // Where others follow, the file cannot be left out.
                words.extend([self.text(profile, out, function.file)?.into(), u64::from(line.line)]);
            }
        }
        let words: Vec<String> = words.iter().map(|word| format!("{word:x}")).collect();
        writeln!(out, "i {}", words.join(" "))?;
        let number = self.places.len() as u32 + 1;
        self.places.insert(index, number);
        Ok(number)
    }

    fn trace(&mut self, profile: &Profile, out: &mut dyn Write, node: u32) -> io::Result<u32> {
        let mut new = Vec::new();
        let mut at = node;
        let mut trace = loop {
            if at == 0 {
                break 0;
            }
            if let Some(trace) = self.traces.get(&at) {
                break *trace;
            }
            new.push(at);
            at = profile.nodes[at as usize].parent;
        };
        for at in new.into_iter().rev() {
            let place = self.place(profile, out, profile.nodes[at as usize].place)?;
            writeln!(out, "t {place:x} {trace:x}")?;
            trace = self.traces.len() as u32 + 1;
            self.traces.insert(at, trace);
        }
        Ok(trace)
    }
}

/// Writes a line so many times: of millions of blocks not each by itself.
fn repeated(out: &mut dyn Write, line: &str, times: u64) -> io::Result<()> {
    let many = line.repeat(usize::try_from(times.min(LINES)).unwrap_or(1));
    for _ in 0..times / LINES {
        out.write_all(many.as_bytes())?;
    }
    let rest = usize::try_from(times % LINES).unwrap_or(0) * line.len();
    out.write_all(many.as_bytes().get(..rest).unwrap_or_default())
}

fn too_many() -> io::Error {
    io::Error::other(format!(
        "heaptrack's form has a line for each block, and there are more than {BLOCKS_MAX}: use another one"
    ))
}

fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "v {VERSION:x} {FILE_VERSION:x}")?;
    writeln!(out, "X {}", &profile.about.command())?;
    for remark in profile.about.remarks() {
        writeln!(out, "# {}", &remark)?;
    }
    let mut numbers = Numbers { texts: HashMap::new(), places: HashMap::new(), traces: HashMap::new() };
    let (mut next, mut left) = (0u64, BLOCKS_MAX);
    let mut put = |out: &mut dyn Write, part: StackBlocks| -> io::Result<()> {
        left = left.checked_sub(part.blocks).ok_or_else(too_many)?;
        let trace = numbers.trace(profile, out, part.node)?;
        writeln!(out, "a {:x} {trace:x}", part.size)?;
        repeated(out, &format!("+ {next:x}\n"), part.blocks)?;
        next += 1;
        Ok(())
    };
    let measure = profile.about.measure;
    match sizes(profile) {
        Some(sizes) => sizes.iter().try_for_each(|part| put(out, *part))?,
        None => profile.stacks.iter().try_for_each(|stack| {
            let own: &Amounts = &stack.own[0];
            mean(stack.node, own.get(measure), own.get(measure.other())).try_for_each(|part| put(out, part))
        })?,
    }
    let moment = if measure == Measure::PeakBytes { profile.about.peak_ns } else { profile.about.span_ns };
    writeln!(out, "c {:x}", moment.unwrap_or(0) / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_as_often_as_there_are_blocks() {
        for times in [0, 1, 2, LINES - 1, LINES, LINES + 1, 3 * LINES + 5] {
            let mut out = Vec::new();
            repeated(&mut out, "+ a\n", times).expect("memory takes it");
            assert_eq!(out, "+ a\n".repeat(times as usize).as_bytes());
        }
    }

    #[test]
    fn means_come_to_the_whole() {
        for (bytes, blocks) in [(10, 3), (0, 4), (7, 7), (1, 5), (u64::MAX, 2), (0, 0)] {
            let parts: Vec<StackBlocks> = mean(1, bytes, blocks).collect();
            assert_eq!(parts.iter().map(|part| part.size * part.blocks).sum::<u64>(), bytes);
            assert_eq!(parts.iter().map(|part| part.blocks).sum::<u64>(), blocks);
        }
    }
}
