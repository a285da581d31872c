//! Speedscope's own JSON: <https://www.speedscope.app/file-format-schema.json>.

use std::collections::HashMap;
use std::io::{self, Write};

use heapledger_analysis::tree::Amounts;

use crate::about::TOOL;
use crate::columns::{ValueColumn, columns};
use crate::formats::{Comparison, ExportFormat, any_column, no_remarks};
use crate::merged::{Merged, MergedFrame};
use crate::profile::{Profile, TextId};
use crate::text::{json, list, shown};

pub(crate) const FORMAT: ExportFormat = ExportFormat {
    name: "speedscope",
    about: "For speedscope, a profile for each figure",
    ending: "speedscope.json",
    packed: None,
    comparison: Comparison::Possible,
    needs_sizes: false,
    untold: "modules, addresses and times",
    holds: any_column,
    remarks: no_remarks,
    write,
};

/// A frame as speedscope tells them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct ScopeFrame {
    name: TextId,
    file: TextId,
    line: u32,
}

/// One of the profiles in the file.
struct ScopeProfile {
    column: ValueColumn,
    title: String,
    /// How much of a stack it shows.
    value: fn(ValueColumn, &[Amounts; 2]) -> u64,
}

/// A figure each; of a comparison what has grown and what has shrunk, for no weight may be below 0.
fn profiles(profile: &Profile) -> Vec<ScopeProfile> {
    let make = |column: ValueColumn, word: &str, value| {
        let title = format!("{}{word}", column.title);
        ScopeProfile { column, title, value }
    };
    let grown = |column: ValueColumn, own: &[Amounts; 2]| u64::try_from(column.grown(own)).unwrap_or(0);
    let shrunk =
        |column: ValueColumn, own: &[Amounts; 2]| u64::try_from(column.grown(own).saturating_neg()).unwrap_or(0);
    let columns = columns(profile).into_iter().rev();
    match profile.about.is_comparison() {
        true => columns.flat_map(|column| [make(column, ", grown", grown), make(column, ", shrunk", shrunk)]).collect(),
        false => columns.map(|column| make(column, "", grown)).collect(),
    }
}

fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let mut frames: Vec<ScopeFrame> = Vec::new();
    let mut known: HashMap<ScopeFrame, u32> = HashMap::new();
    let merged = Merged::new(profile, |told| {
        let frame = match told {
            MergedFrame::Line(_, line) => {
                let function = &profile.functions[line.function as usize];
                ScopeFrame { name: function.name, file: function.file, line: line.line }
            }
            MergedFrame::Thread(name) => ScopeFrame { name, ..ScopeFrame::default() },
        };
        *known.entry(frame).or_insert_with(|| {
            frames.push(frame);
            frames.len() as u32 - 1
        })
    });
    let profiles = profiles(profile);
    let first = profiles.iter().position(|one| one.column.measure == profile.about.measure);
    out.write_all(b"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":")?;
    json(out, &TOOL.replace(' ', "@"))?;
    out.write_all(b",\"name\":")?;
    json(out, &profile.about.remarks().join("; "))?;
    write!(out, ",\"activeProfileIndex\":{},\"shared\":{{\"frames\":", first.unwrap_or(0))?;
    list(out, &frames, |out, frame| {
        out.write_all(b"{\"name\":")?;
        json(out, profile.texts.get(frame.name))?;
        if frame.file != TextId::default() {
            out.write_all(b",\"file\":")?;
            json(out, profile.texts.get(frame.file))?;
        }
        if frame.line != 0 {
            write!(out, ",\"line\":{}", frame.line)?;
        }
        out.write_all(b"}\n")
    })?;
    out.write_all(b"},\"profiles\":")?;
    list(out, &profiles, |out, one| {
        let value = |own: &[Amounts; 2]| (one.value)(one.column, own);
        let ends = || merged.ends().map(|(node, own)| (node, value(own))).filter(|(_, value)| *value != 0);
        let total = ends().map(|(_, value)| value).fold(0, u64::saturating_add);
        out.write_all(b"{\"type\":\"sampled\",\"name\":")?;
        json(out, &one.title)?;
        let unit = if one.column.measure.is_bytes() { "bytes" } else { "none" };
        write!(out, ",\"unit\":\"{unit}\",\"startValue\":0,\"endValue\":{total},\"samples\":")?;
        let mut path: Vec<u32> = Vec::new();
        list(out, ends(), |out, (node, _)| {
            path.clear();
            path.extend(merged.path(node));
            path.reverse();
            shown(out, &path)
        })?;
        out.write_all(b",\n\"weights\":")?;
        shown(out, ends().map(|(_, value)| value))?;
        out.write_all(b"}\n")
    })?;
    out.write_all(b"}\n")
}
