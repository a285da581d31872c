//! DHAT's JSON, version 2, for `dh_view.html` of valgrind and for the Firefox Profiler.

use std::io::{self, Write};

use heapledger_analysis::tree::{Amounts, Measure};

use crate::formats::{Comparison, ExportFormat};
use crate::frames::{Files, FrameTexts};
use crate::merged::Merged;
use crate::profile::Profile;
use crate::text::{json, list, shown};

pub(crate) const FORMAT: ExportFormat = ExportFormat {
    name: "dhat",
    about: "For dh_view.html of valgrind; lifetimes by --by allocated",
    ending: "dhat.json",
    packed: None,
    comparison: Comparison::Never,
    needs_sizes: false,
    untold: "more than one figure, unless with --by allocated",
    holds,
    remarks,
    write,
};

/// Blocks that lived for no more events count as short-lived in the viewer.
const SHORT_EVENTS: u64 = 10;

fn holds(measure: Measure) -> bool {
    measure.is_bytes()
}

/// What is said of a stack: DHAT's own is "Allocated".
fn verb(measure: Measure) -> &'static str {
    match measure {
        Measure::LiveBytes | Measure::LiveBlocks => "Live, and allocated",
        Measure::AllocatedBytes | Measure::AllocatedBlocks => "Allocated",
        Measure::FreedBytes | Measure::FreedBlocks => "Freed, and allocated",
        Measure::PeakBytes | Measure::PeakBlocks => "Live at the peak, and allocated",
        Measure::TemporaryBytes | Measure::TemporaryBlocks => "Freed at once, and allocated",
    }
}

/// Whether all of DHAT's figures are written that are known, and not one in the place of its total.
fn is_whole(profile: &Profile) -> bool {
    let known = &profile.about.known;
    let is_of_all = matches!(profile.about.measure, Measure::AllocatedBytes | Measure::AllocatedBlocks);
    is_of_all && known.lifetimes && known.peak
}

fn remarks(profile: &Profile) -> Vec<String> {
    let known = &profile.about.known;
    if is_whole(profile) {
        return vec![
            "the viewer's \"Max\" of a stack is the more of what it held at the peak and at the end: what it held between is not known".to_owned(),
        ];
    }
    let total = verb(profile.about.measure).to_lowercase();
    let mut remarks = vec![format!("the viewer's \"Total\" is of blocks \"{total}\" where it shows")];
    if known.lifetimes && known.peak {
        remarks.push("--by allocated gives it lifetimes, what lived at the peak, and what at the end".to_owned());
    }
    remarks
}

fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let about = &profile.about;
    let (bytes, blocks) = (about.measure, about.measure.other());
    let mut frames = FrameTexts::new(&[], "", Files::Paths);
    // The viewer refuses two points with the same frames.
    let merged = Merged::new(profile, |told| frames.id(profile, told));
    out.write_all(b"{\"dhatFileVersion\":2,\"mode\":\"heap\",\"verb\":")?;
    json(out, verb(about.measure))?;
    let is_whole = is_whole(profile);
    // What the clock tells is too coarse for lifetimes: time is what has happened, as valgrind's is.
    let units = if is_whole { ["true", "events", "Mevents"] } else { ["false", "µs", "s"] };
    let [with_lifetimes, unit, million] = units;
    write!(out, ",\"bklt\":{with_lifetimes},\"bkacc\":false,\"tu\":\"{unit}\",\"Mtu\":\"{million}\",\"cmd\":")?;
    let (remarks, own) = (about.remarks(), if is_whole { remarks(profile) } else { Vec::new() });
    let command = std::iter::once(about.command()).chain(remarks.into_iter().skip(1)).chain(own);
    json(out, &command.collect::<Vec<_>>().join("; "))?;
    write!(out, ",\"pid\":{}", about.pid.unwrap_or(0))?;
    match is_whole {
        true => write!(out, ",\"te\":{},\"tg\":{},\"tuth\":{SHORT_EVENTS}", about.events, about.peak_events)?,
        false => write!(out, ",\"te\":{}", about.span_ns.unwrap_or(0) / 1000)?,
    }
    out.write_all(b",\"pps\":")?;
    let points = merged.ends().map(|(node, own)| (node, own[0]));
    let points = points.filter(|(_, own)| (own.get(bytes), own.get(blocks)) != (0, 0));
    list(out, points, |out, (node, own)| {
        write!(out, "{{\"tb\":{},\"tbk\":{}", own.get(bytes), own.get(blocks))?;
        if is_whole {
            let Amounts { lived_events, peak_bytes, peak_blocks, live_bytes, live_blocks, .. } = own;
            let (most_bytes, most_blocks) = (peak_bytes, peak_blocks).max((live_bytes, live_blocks));
            write!(out, ",\"tl\":{lived_events},\"mb\":{most_bytes},\"mbk\":{most_blocks}")?;
            write!(out, ",\"gb\":{peak_bytes},\"gbk\":{peak_blocks},\"eb\":{live_bytes},\"ebk\":{live_blocks}")?;
        }
        out.write_all(b",\"fs\":")?;
        shown(out, merged.path(node))?;
        out.write_all(b"}\n")
    })?;
    out.write_all(b",\"ftbl\":")?;
    let texts = std::iter::once("[root]").chain(frames.iter().skip(1));
    list(out, texts, |out, text| {
        json(out, text)?;
        out.write_all(b"\n")
    })?;
    out.write_all(b"}\n")
}
