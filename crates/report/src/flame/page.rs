//! The data of a page, compact: the tree in columns.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use heapledger_analysis::tree::{Amounts, CallTree, LevelKind, Measure, Side};
use heapledger_analysis::{Holders, is_in_python_library, is_in_rust_library};
use serde::Serialize;

use super::{FlameFacts, FlameView, hues};
use crate::form::units::{Paint, clean};

/// The function is inlined everywhere in this node.
const INLINED: u8 = 1;
/// Other lines lead through this node too.
const SEVERAL_LINES: u8 = 2;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    compared: &'a Option<[String; 2]>,
    estimated: bool,
    exact_bytes: bool,
    gap: &'a Option<String>,
    /// What figures of allocated and of freed blocks are of, if that is not all.
    parts: &'a Option<[String; 2]>,
    by_process: bool,
    by_thread: bool,
    view: View,
    names: Vec<std::borrow::Cow<'a, str>>,
    /// Levels whose names have a short form, and that.
    short: Vec<(usize, std::borrow::Cow<'a, str>)>,
    /// By level: function, address, thread, none, process.
    kinds: Vec<u8>,
    /// By level: index into `modules`, or -1. The first modules hold most.
    module_of: Vec<i64>,
    modules: Vec<std::borrow::Cow<'a, str>>,
    /// Levels that a reader sees only when asked: wrappers, standard libraries, what comes before `main`.
    plumbing: Vec<usize>,
    files: Vec<std::borrow::Cow<'a, str>>,
    /// By node: how many nodes back its parent is.
    up: Vec<u32>,
    level: Vec<u32>,
    /// By node: index into `files`, or -1.
    file: Vec<i64>,
    /// By node: the line, or 0.
    line: Vec<u32>,
    flags: Vec<u8>,
    /// Of nodes with something of their own: node, live bytes, live blocks, freed bytes, freed blocks, the same two of the peak,
    /// and of temporary blocks.
    own: Vec<u64>,
    old: Vec<u64>,
}

#[derive(Serialize)]
struct View {
    by: &'static str,
    inverted: bool,
    upwards: bool,
    wrappers: bool,
}

/// A figure's name in data.
fn figure(measure: Measure) -> &'static str {
    match measure {
        Measure::LiveBytes => "live_bytes",
        Measure::LiveBlocks => "live_blocks",
        Measure::AllocatedBytes => "allocated_bytes",
        Measure::AllocatedBlocks => "allocated_blocks",
        Measure::FreedBytes => "freed_bytes",
        Measure::FreedBlocks => "freed_blocks",
        Measure::PeakBytes => "peak_bytes",
        Measure::PeakBlocks => "peak_blocks",
        Measure::TemporaryBytes => "temporary_bytes",
        Measure::TemporaryBlocks => "temporary_blocks",
    }
}

fn own(tree: &CallTree, side: Side) -> Vec<u64> {
    let all = tree.nodes.iter().zip(0u64..).map(|(node, id)| (id, node.own[side as usize]));
    all.filter(|(_, own)| !own.is_zero())
        .flat_map(|(id, own)| {
            let Amounts { live_bytes, live_blocks, freed_bytes, freed_blocks, .. } = own;
            let Amounts { peak_bytes, peak_blocks, temporary_bytes, temporary_blocks, .. } = own;
            let always = [id, live_bytes, live_blocks, freed_bytes, freed_blocks];
            always.into_iter().chain([peak_bytes, peak_blocks, temporary_bytes, temporary_blocks])
        })
        .collect()
}

/// Places of those `levels` that a person sees only if he wants to: functions of libraries, wrappers, and what comes before `main`.
fn plumbing(tree: &CallTree, levels: &[u32]) -> Vec<usize> {
    // A function may have lines of several files, by what is inlined: of a library are those that have none elsewhere.
    let (mut in_library, mut elsewhere) = (HashSet::new(), HashSet::new());
    for node in &tree.nodes {
        if let Some(file) = node.file.and_then(|file| tree.files.get(file as usize)) {
            let whose =
                if is_in_rust_library(file) || is_in_python_library(file) { &mut in_library } else { &mut elsewhere };
            whose.insert(node.level);
        }
    }
    let holders = Holders::of_tree();
    let is_shown = |index: u32| {
        let level = tree.levels.get(index as usize).filter(|level| level.kind == LevelKind::Function);
        let of_library = in_library.contains(&index) && !elsewhere.contains(&index);
        level.is_none_or(|level| holders.holds_name(level.plain_name()) && !of_library)
    };
    levels.iter().enumerate().filter(|(_, index)| !is_shown(**index)).map(|(place, _)| place).collect()
}

/// Writes the data of `tree`. In it there is no `<`: nothing can end the element that it stands in.
pub(super) fn data(out: &mut impl Write, tree: &CallTree, facts: &FlameFacts, view: FlameView) -> io::Result<()> {
    let hues = hues(tree);
    let mut modules: Vec<(&str, usize)> = hues.iter().map(|(module, hue)| (*module, *hue)).collect();
    modules.sort_unstable_by_key(|(_, hue)| *hue);
    // Only levels and files that occur: a tree may have been pruned.
    let mut places: HashMap<u32, u32> = HashMap::new();
    let mut levels: Vec<u32> = Vec::new();
    let mut file_places: HashMap<u32, usize> = HashMap::new();
    let mut files: Vec<u32> = Vec::new();
    let mut level_of = Vec::with_capacity(tree.nodes.len());
    let mut file_of = Vec::with_capacity(tree.nodes.len());
    for node in &tree.nodes {
        level_of.push(*places.entry(node.level).or_insert_with(|| {
            levels.push(node.level);
            levels.len() as u32 - 1
        }));
        file_of.push(node.file.map_or(-1, |file| {
            *file_places.entry(file).or_insert_with(|| {
                files.push(file);
                files.len() - 1
            }) as i64
        }));
    }
    let paint = Paint { full_names: facts.full_names, ..Paint::default() };
    let level = |index: &u32| &tree.levels[*index as usize];
    let data = Data {
        compared: &facts.compared,
        estimated: facts.estimated,
        exact_bytes: facts.exact_bytes,
        gap: &facts.gap,
        parts: &facts.parts,
        by_process: tree.processes.is_some(),
        by_thread: tree.by_thread,
        view: View {
            by: figure(view.measure),
            inverted: view.inverted,
            upwards: view.upwards,
            wrappers: view.wrappers,
        },
        names: levels.iter().map(|index| clean(&level(index).name)).collect(),
        short: {
            let functions = levels.iter().enumerate().filter(|(_, index)| level(index).kind == LevelKind::Function);
            let short = functions.map(|(place, index)| (place, &level(index).name, paint.function(&level(index).name)));
            short.filter(|(_, name, short)| clean(name) != *short).map(|(place, _, short)| (place, short)).collect()
        },
        kinds: levels
            .iter()
            .map(|index| match level(index).kind {
                LevelKind::Function => 0,
                LevelKind::Address => 1,
                LevelKind::Thread => 2,
                LevelKind::NoStack => 3,
                LevelKind::Process => 4,
            })
            .collect(),
        module_of: levels
            .iter()
            .map(|index| level(index).module.as_deref().and_then(|path| hues.get(path)).map_or(-1, |hue| *hue as i64))
            .collect(),
        modules: modules.iter().map(|(module, _)| clean(module)).collect(),
        plumbing: plumbing(tree, &levels),
        files: files.iter().map(|index| clean(&tree.files[*index as usize])).collect(),
        up: tree.nodes.iter().zip(0u32..).map(|(node, id)| id - node.parent).collect(),
        level: level_of,
        file: file_of,
        line: tree.nodes.iter().map(|node| node.line.unwrap_or(0)).collect(),
        flags: tree
            .nodes
            .iter()
            .map(|node| u8::from(node.inlined) * INLINED + u8::from(node.several_lines) * SEVERAL_LINES)
            .collect(),
        own: own(tree, Side::New),
        old: own(tree, Side::Old),
    };
    crate::form::outside::json(Unopened(out), &data)
}

/// Writes `<` as `\u003c`. In JSON it occurs in strings only.
struct Unopened<W>(W);

impl<W: Write> Write for Unopened<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for (index, part) in bytes.split(|byte| *byte == b'<').enumerate() {
            if index > 0 {
                self.0.write_all(b"\\u003c")?;
            }
            self.0.write_all(part)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
