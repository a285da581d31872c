//! The Firefox Profiler's processed format, version 55, which later versions of <https://profiler.firefox.com> bring up to date when
//! they load it: a "thread" for each figure, as it shows DHAT's, and how much was held over the run as its memory track.

use std::io::{self, Write};

use heapledger_analysis::tree::Measure;

use crate::about::TOOL;
use crate::columns::{ValueColumn, columns};
use crate::curve;
use crate::formats::{Comparison, ExportFormat};
use crate::merged::{Merged, MergedFrame};
use crate::profile::{PlaceLine, Profile, TextId};
use crate::text::{base_name, json, list, shown};

pub(crate) const FORMAT: ExportFormat = ExportFormat {
    name: "firefox",
    about: "For profiler.firefox.com, a track for each figure",
    ending: "firefox.json.gz",
    packed: None,
    comparison: Comparison::Possible,
    needs_sizes: false,
    untold: "numbers of blocks, and single blocks with their times",
    holds,
    remarks: curve::remarks,
    write,
};

/// The version that is written.
const VERSION: u32 = 55;

fn holds(measure: Measure) -> bool {
    measure.is_bytes() && crate::columns::has_column(measure)
}

/// A column that says the same of every row.
fn same(out: &mut dyn Write, value: &str, rows: usize) -> io::Result<()> {
    shown(out, std::iter::repeat_n(value, rows))
}

/// A frame as the profiler knows it: a place and one of its functions, or the name of a thread.
type FoxFrame = (u32, PlaceLine, TextId);

/// What is the same for every figure.
struct Tables<'p> {
    profile: &'p Profile,
    frames: Vec<FoxFrame>,
    merged: Merged<u32>,
}

impl<'p> Tables<'p> {
    fn of(profile: &'p Profile) -> Tables<'p> {
        let mut frames: Vec<FoxFrame> = Vec::new();
        let mut known = std::collections::HashMap::new();
        let merged = Merged::new(profile, |told| {
            let frame = match told {
                MergedFrame::Line(place, line) => (place, line, TextId::default()),
                MergedFrame::Thread(name) => (u32::MAX, PlaceLine::default(), name),
            };
            *known.entry(frame).or_insert_with(|| {
                frames.push(frame);
                frames.len() as u32 - 1
            })
        });
        Tables { profile, frames, merged }
    }

    /// Of each frame its function: those of the profile, and behind them the names of threads.
    fn function(&self, frame: &FoxFrame) -> usize {
        match frame {
            (u32::MAX, _, name) => self.profile.functions.len() + name.0 as usize,
            (_, line, _) => line.function as usize,
        }
    }

    /// Functions of the file: of threads there is one for each text, whether it is the name of one or not.
    fn functions(&self) -> usize {
        self.profile.functions.len() + if self.profile.about.by_thread { self.profile.texts.count() } else { 0 }
    }

    fn frame_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let (profile, frames, rows) = (self.profile, &self.frames, self.frames.len());
        write!(out, ",\"frameTable\":{{\"length\":{rows},\"address\":")?;
        list(out, frames, |out, (place, _, _)| {
            let place = profile.places.get(*place as usize);
            let address = place.and_then(|place| {
                let module = profile.module(place.module_plus_1)?;
                Some(place.address?.wrapping_sub(module.bias))
            });
            match address {
                Some(address) => write!(out, "{address}"),
                None => write!(out, "-1"),
            }
        })?;
        out.write_all(b",\"inlineDepth\":")?;
        shown(
            out,
            frames.iter().map(|(place, line, _)| {
                let lines = profile.places.get(*place as usize).map_or(&[][..], |place| &place.lines);
                // The outermost function has depth 0, and stands last.
                lines.iter().rev().position(|other| other == line).unwrap_or(0)
            }),
        )?;
        for name in ["category", "subcategory", "innerWindowID"] {
            write!(out, ",\"{name}\":")?;
            same(out, "0", rows)?;
        }
        for name in ["nativeSymbol", "column"] {
            write!(out, ",\"{name}\":")?;
            same(out, "null", rows)?;
        }
        out.write_all(b",\"line\":")?;
        list(out, frames, |out, (_, line, _)| match line.line {
            0 => write!(out, "null"),
            line => write!(out, "{line}"),
        })?;
        out.write_all(b",\"func\":")?;
        shown(out, frames.iter().map(|frame| self.function(frame)))?;
        out.write_all(b"}\n")
    }

    fn func_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let (functions, rows) = (&self.profile.functions, self.functions());
        let threads = rows - functions.len();
        write!(out, ",\"funcTable\":{{\"length\":{rows},\"name\":")?;
        shown(out, functions.iter().map(|function| function.name.0).chain(0..threads as u32))?;
        for name in ["isJS", "relevantForJS"] {
            write!(out, ",\"{name}\":")?;
            same(out, "false", rows)?;
        }
        out.write_all(b",\"resource\":")?;
        let resources = functions.iter().map(|function| i64::from(function.module_plus_1) - 1);
        shown(out, resources.chain(std::iter::repeat_n(-1, threads)))?;
        out.write_all(b",\"fileName\":")?;
        let files =
            functions.iter().map(|function| function.file).chain(std::iter::repeat_n(TextId::default(), threads));
        list(out, files, |out, file| match file {
            TextId(0) => write!(out, "null"),
            TextId(file) => write!(out, "{file}"),
        })?;
        for name in ["lineNumber", "columnNumber"] {
            write!(out, ",\"{name}\":")?;
            same(out, "null", rows)?;
        }
        out.write_all(b"}\n")
    }

    fn stack_table(&self, out: &mut dyn Write) -> io::Result<()> {
        // The root is no stack.
        let rows = self.merged.parents.len() - 1;
        write!(out, ",\"stackTable\":{{\"length\":{rows},\"prefix\":")?;
        list(out, self.merged.parents.iter().skip(1), |out, parent| match parent {
            0 => write!(out, "null"),
            parent => write!(out, "{}", parent - 1),
        })?;
        out.write_all(b",\"frame\":")?;
        shown(out, self.merged.frames.iter().skip(1))?;
        out.write_all(b"}\n")
    }

    /// Modules, as those of functions, and texts.
    fn resources(&self, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.profile.modules.len();
        write!(out, ",\"resourceTable\":{{\"length\":{rows},\"lib\":")?;
        shown(out, 0..rows)?;
        out.write_all(b",\"name\":")?;
        shown(out, self.profile.modules.iter().map(|module| module.path.0))?;
        out.write_all(b",\"host\":")?;
        same(out, "null", rows)?;
        out.write_all(b",\"type\":")?;
        same(out, "1", rows)?;
        out.write_all(
            b"},\"nativeSymbols\":{\"length\":0,\"address\":[],\"functionSize\":[],\"libIndex\":[],\"name\":[]}",
        )?;
        out.write_all(b",\"stringArray\":")?;
        list(out, self.profile.texts.iter(), |out, text| {
            json(out, text)?;
            out.write_all(b"\n")
        })
    }

    /// One figure, as a thread.
    fn thread(&self, out: &mut dyn Write, number: usize, column: &ValueColumn) -> io::Result<()> {
        let about = &self.profile.about;
        let end = about.span_ns.unwrap_or(0);
        let moment = if column.measure.is_of_peak() { about.peak_ns.unwrap_or(end) } else { end };
        out.write_all(b"{\"name\":")?;
        json(out, column.title)?;
        out.write_all(b",\"processName\":")?;
        json(out, &about.name())?;
        write!(
            out,
            ",\"isMainThread\":{},\"pid\":\"{}\",\"tid\":\"{number}\",\"processType\":\"default\",\"pausedRanges\":[],\
             \"processStartupTime\":0,\"processShutdownTime\":null,\"registerTime\":0,\"unregisterTime\":null,\
             \"showMarkersInTimeline\":false,\
             \"samples\":{{\"length\":0,\"weightType\":\"samples\",\"stack\":[],\"time\":[],\"weight\":null}},\
             \"markers\":{{\"length\":0,\"category\":[],\"data\":[],\"endTime\":[],\"name\":[],\"phase\":[],\"startTime\":[]}}",
            number == 0,
            about.pid.unwrap_or(0),
        )?;
        let ends = || self.merged.ends().map(|(node, own)| (node, column.grown(own))).filter(|(_, bytes)| *bytes != 0);
        let rows = ends().count();
        write!(out, ",\"nativeAllocations\":{{\"length\":{rows},\"weightType\":\"bytes\",\"time\":")?;
        same(out, &format!("{:.6}", moment as f64 / 1e6), rows)?;
        out.write_all(b",\"weight\":")?;
        shown(out, ends().map(|(_, bytes)| bytes))?;
        out.write_all(b",\"stack\":")?;
        shown(out, ends().map(|(node, _)| node - 1))?;
        out.write_all(b"}\n")?;
        self.frame_table(out)?;
        self.func_table(out)?;
        self.stack_table(out)?;
        self.resources(out)?;
        out.write_all(b"}\n")
    }
}

/// A module, as the profiler names those that it has symbols for.
fn library(profile: &Profile, out: &mut dyn Write, index: usize) -> io::Result<()> {
    let module = &profile.modules[index];
    let (path, build_id) = (profile.texts.get(module.path), profile.texts.get(module.build_id));
    for (before, text) in [
        ("{\"name\":", base_name(path)),
        (",\"path\":", path),
        (",\"debugName\":", base_name(path)),
        (",\"debugPath\":", path),
        // A build id in the form of breakpad would be half of it.
        (",\"breakpadId\":", ""),
        (",\"codeId\":", build_id),
    ] {
        out.write_all(before.as_bytes())?;
        json(out, text)?;
    }
    out.write_all(b",\"arch\":null}\n")
}

fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let about = &profile.about;
    let start = about.start_unix_ns.unwrap_or(0) as f64 / 1e6;
    write!(
        out,
        "{{\"meta\":{{\"version\":24,\"preprocessedProfileVersion\":{VERSION},\"interval\":1,\"startTime\":{start:.3},\
         \"processType\":0,\"stackwalk\":1,\"debug\":false,\"symbolicated\":true,\"usesOnlyOneStackType\":true,\
         \"sourceCodeIsNotOnSearchfox\":true,\"markerSchema\":[],\"pausedRanges\":[],\
         \"extensions\":{{\"length\":0,\"baseURL\":[],\"id\":[],\"name\":[]}},\
         \"categories\":[{{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]}}],\
         \"sampleUnits\":{{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"ns\"}},\"product\":"
    )?;
    json(out, &about.name())?;
    out.write_all(b",\"importedFrom\":")?;
    json(out, TOOL)?;
    out.write_all(b",\"arguments\":")?;
    json(out, &about.remarks().join("; "))?;
    out.write_all(b"},\n\"libs\":")?;
    list(out, 0..profile.modules.len(), |out, index| library(profile, out, index))?;
    out.write_all(b",\"pages\":[],\"threads\":")?;
    let tables = Tables::of(profile);
    // What was asked for comes first: that is what is shown.
    let mut columns: Vec<ValueColumn> =
        columns(profile).into_iter().rev().filter(|one| one.measure.is_bytes()).collect();
    columns.sort_by_key(|column| column.measure != about.measure);
    list(out, columns.iter().enumerate(), |out, (number, column)| tables.thread(out, number, column))?;
    out.write_all(b",\"counters\":")?;
    let points = if about.is_comparison() { &[] } else { profile.points.as_slice() };
    let live: Vec<(u64, u64)> = points.iter().map(|point| (point.ns, point.live_bytes)).collect();
    let memory: Vec<(u64, u64)> = points.iter().filter_map(|point| Some((point.ns, point.own_memory_bytes?))).collect();
    let counters = [("malloc", "Live bytes", live), ("RssAnon", "Anonymous memory, present or swapped out", memory)];
    let counters = counters.iter().filter(|(_, _, values)| !values.is_empty());
    list(out, counters, |out, (name, description, values)| {
        write!(
            out,
            "{{\"name\":\"{name}\",\"category\":\"Memory\",\"description\":\"{description}\",\"pid\":\"{}\",\"mainThreadIndex\":0,\
             \"samples\":{{\"length\":{},\"time\":",
            about.pid.unwrap_or(0),
            values.len()
        )?;
        list(out, values, |out, (ns, _)| write!(out, "{:.6}", *ns as f64 / 1e6))?;
        // By how much more it is than at the point before.
        out.write_all(b",\"count\":")?;
        let before = std::iter::once(0).chain(values.iter().map(|(_, value)| *value));
        shown(out, values.iter().zip(before).map(|((_, value), before)| i128::from(*value) - i128::from(before)))?;
        out.write_all(b"}}")
    })?;
    out.write_all(b"}\n")
}
