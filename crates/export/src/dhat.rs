//! DHAT's JSON, version 2, for `dh_view.html` of valgrind and for the Firefox Profiler.

use std::io::{self, Write};

use heapledger_analysis::tree::Measure;

use crate::formats::{Comparison, ExportFormat};
use crate::frames::{Files, FrameTexts};
use crate::merged::Merged;
use crate::profile::Profile;
use crate::text::{json, list, shown};

pub(crate) const FORMAT: ExportFormat = ExportFormat {
    name: "dhat",
    about: "For dh_view.html of valgrind: one figure",
    ending: "dhat.json",
    packed: None,
    comparison: Comparison::Never,
    needs_sizes: false,
    untold: "more than one figure without lifetimes by stack, which the ledger does not sum",
    holds,
    remarks,
    write,
};

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

fn remarks(profile: &Profile) -> Vec<String> {
    vec![format!(
        "the viewer's \"Total\" is of blocks \"{}\" where it shows",
        verb(profile.about.measure).to_lowercase()
    )]
}

fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let about = &profile.about;
    let (bytes, blocks) = (about.measure, about.measure.other());
    let mut frames = FrameTexts::new(&[], "", Files::Paths);
    // The viewer refuses two points with the same frames.
    let merged = Merged::new(profile, |told| frames.id(profile, told));
    out.write_all(b"{\"dhatFileVersion\":2,\"mode\":\"heap\",\"verb\":")?;
    json(out, verb(about.measure))?;
    out.write_all(b",\"bklt\":false,\"bkacc\":false,\"tu\":\"\xc2\xb5s\",\"Mtu\":\"s\",\"cmd\":")?;
    let remarks = about.remarks();
    let command = std::iter::once(about.command()).chain(remarks.into_iter().skip(1));
    json(out, &command.collect::<Vec<_>>().join("; "))?;
    write!(out, ",\"pid\":{},\"te\":{},\"pps\":", about.pid.unwrap_or(0), about.span_ns.unwrap_or(0) / 1000)?;
    let points = merged.ends().map(|(node, own)| (node, own[0].get(bytes), own[0].get(blocks)));
    list(out, points.filter(|(_, bytes, blocks)| (*bytes, *blocks) != (0, 0)), |out, (node, bytes, blocks)| {
        write!(out, "{{\"tb\":{bytes},\"tbk\":{blocks},\"fs\":")?;
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
