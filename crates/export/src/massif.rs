//! `massif.out`, as valgrind's massif writes it and `ms_print` reads it.

use std::collections::HashMap;
use std::io::{self, Write};

use heapledger_analysis::tree::{Measure, Side};

use crate::about::TOOL;
use crate::curve;
use crate::formats::{Comparison, ExportFormat};
use crate::frames::FrameTexts;
use crate::merged::Merged;
use crate::profile::{Profile, TimePoint};
use crate::text::without;

pub(crate) const FORMAT: ExportFormat = ExportFormat {
    name: "massif",
    about: "For ms_print and massif-visualizer: peak, end and curve",
    ending: "massif.out",
    packed: None,
    comparison: Comparison::Never,
    needs_sizes: false,
    untold: "blocks, what was allocated in all, and modules of functions with lines",
    holds,
    remarks,
    write,
};

/// Trees leave out what holds less of the whole than one in so many: a tenth of what massif's own leave out.
const PARTS: u64 = 1000;

/// As many snapshots as massif itself takes at most.
const SNAPSHOTS: usize = 100;

fn holds(measure: Measure) -> bool {
    matches!(measure, Measure::LiveBytes | Measure::PeakBytes)
}

fn remarks(profile: &Profile) -> Vec<String> {
    let mut remarks = curve::remarks(profile);
    if !profile.about.known.peak {
        remarks.push("what lived at the peak is not known: the file has the end alone".to_owned());
    }
    remarks.push("mem_heap_extra_B is 0: what the allocator adds to blocks is not summed by stack".to_owned());
    remarks
}

/// Who holds what at one moment.
struct MassifTree<'p> {
    merged: &'p Merged<u32>,
    frames: &'p FrameTexts,
    least: u64,
}

/// A stack from one of its frames outwards: where it goes on, and how much it holds.
type Rest = (u32, u64);

impl MassifTree<'_> {
    /// One frame, and the stacks that go on from it.
    fn write(&self, out: &mut dyn Write, depth: usize, frame: &str, rests: Vec<Rest>) -> io::Result<()> {
        let total: u64 = rests.iter().map(|(_, bytes)| bytes).sum();
        let mut callers: Vec<(u32, Vec<Rest>)> = Vec::new();
        let mut known: HashMap<u32, usize> = HashMap::new();
        for (node, bytes) in rests.into_iter().filter(|(node, _)| *node != 0) {
            let frame = self.merged.frames[node as usize];
            let at = *known.entry(frame).or_insert_with(|| {
                callers.push((frame, Vec::new()));
                callers.len() - 1
            });
            callers[at].1.push((self.merged.parents[node as usize], bytes));
        }
        let held = |rests: &[Rest]| rests.iter().map(|(_, bytes)| bytes).sum::<u64>();
        // Those that have been begun with; the order of what holds as much is that of the ledger.
        callers.sort_by_key(|(_, rests)| std::cmp::Reverse(held(rests)));
        let whole = callers.partition_point(|(_, rests)| held(rests) >= self.least);
        let small = callers.split_off(whole);
        let lines = callers.len() + usize::from(!small.is_empty());
        writeln!(out, "{:depth$}n{lines}: {total} {frame}", "")?;
        for (frame, rests) in callers {
            self.write(out, depth + 1, self.frames.get(frame), rests)?;
        }
        if !small.is_empty() {
            let bytes: u64 = small.iter().map(|(_, rests)| held(rests)).sum();
            let depth = depth + 1;
            let places = if small.len() == 1 { "1 place,".to_owned() } else { format!("{} places, all", small.len()) };
            let share = 100.0 / PARTS as f64;
            writeln!(out, "{:depth$}n0: {bytes} in {places} below massif's threshold ({share:.2}%)", "")?;
        }
        Ok(())
    }
}

/// The head of a snapshot.
fn snapshot(out: &mut dyn Write, number: usize, point: &TimePoint, tree: &str) -> io::Result<()> {
    writeln!(out, "#-----------\nsnapshot={number}\n#-----------\ntime={}", point.ns / 1_000_000)?;
    writeln!(out, "mem_heap_B={}\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree={tree}", point.live_bytes)
}

fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    // `ms_print` cuts lines at `#`.
    let line = |text: &str| without(text, &['#'], ":").into_owned();
    let mut frames = FrameTexts::new(&['#'], ":", crate::frames::Files::BaseNames);
    let merged = Merged::new(profile, |told| frames.id(profile, told));
    writeln!(out, "desc: {}", line(&profile.about.remarks().join("; ")))?;
    let command = line(&profile.about.command());
    writeln!(out, "cmd: {}", if command.is_empty() { TOOL } else { &command })?;
    writeln!(out, "time_unit: ms")?;
    let total = profile.total(Side::New);
    let mut points = profile.thinned(SNAPSHOTS);
    if points.is_empty() {
        // Nobody knows when.
        points.push(TimePoint { ns: 0, live_bytes: total.live_bytes, own_memory_bytes: None });
    }
    let end = points.len() - 1;
    let peak = profile.about.peak_ns.filter(|_| profile.about.known.peak);
    let peak = points.iter().position(|point| Some(point.ns) == peak && point.live_bytes == total.peak_bytes);
    for (number, point) in points.iter().enumerate() {
        let (tree, measure) = match number {
            _ if Some(number) == peak => ("peak", Measure::PeakBytes),
            _ if number == end => ("detailed", Measure::LiveBytes),
            _ => {
                snapshot(out, number, point, "empty")?;
                continue;
            }
        };
        snapshot(out, number, point, tree)?;
        let rests = merged.ends().map(|(node, own)| (node as u32, own[0].get(measure)));
        let rests: Vec<Rest> = rests.filter(|(_, bytes)| *bytes != 0).collect();
        // A place that holds nothing is none.
        let least = point.live_bytes.div_ceil(PARTS).max(1);
        let tree = MassifTree { merged: &merged, frames: &frames, least };
        tree.write(out, 0, "(heap allocation functions) malloc/new/new[], --alloc-fns, etc.", rests)?;
    }
    Ok(())
}
