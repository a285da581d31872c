//! Flame graphs: one self-contained file each, as a page or as a picture; and stacks in lines for other tools.
//!
//! Nothing in them comes from elsewhere, and no name from a program can leave the place where it belongs.

use std::collections::HashMap;
use std::io::{self, Write};

use heapledger_analysis::tree::{Amounts, CallTree, Measure, SiteSums};
use heapledger_analysis::{HeapTimeline, Identity, Seen};

use crate::form::units::clean;
use crate::{Form, Report, ReportError};

mod curve;
mod facts;
mod html;
mod json;
mod page;
mod svg;

pub use facts::{FlameSource, family_facts};
pub(crate) use html::escaped;
pub use html::flame_html;
pub use svg::flame_svg;

/// What stands around a flame graph. All of it is text, to be escaped by whoever writes it.
#[derive(Clone, Debug, Default)]
pub struct FlameFacts {
    /// The heading.
    pub title: String,
    /// What is known of the program and the ledger, a line each.
    pub facts: Vec<String>,
    /// What could not be seen, a sentence each.
    pub notes: Vec<String>,
    /// Whether one of them means that figures may be wrong.
    pub incomplete: bool,
    /// Why functions have no names or lines, a sentence each.
    pub names: Vec<String>,
    /// What the figures of freed blocks leave out.
    pub gap: Option<String>,
    /// What figures of allocated and of freed blocks are of, if that is not all: `of the last 65,536 frees`.
    pub parts: Option<[String; 2]>,
    /// Whether figures are estimates.
    pub estimated: bool,
    /// Whether bytes are written exactly, without units.
    pub exact_bytes: bool,
    /// Whether functions have their whole names where there is room for them; beside the pointer they always have.
    pub full_names: bool,
    /// What the older and the newer ledger are called, if this is a comparison.
    pub compared: Option<[String; 2]>,
    /// How the heap grew, for a page.
    pub curve: Option<HeapTimeline>,
}

impl FlameFacts {
    /// What figures of `measure` are of, if that is not all.
    fn part(&self, measure: Measure) -> Option<&str> {
        let [allocated, freed] = self.parts.as_ref()?;
        match measure {
            // These are of the whole run, or there are none.
            Measure::LiveBytes | Measure::LiveBlocks => None,
            Measure::PeakBytes | Measure::PeakBlocks => None,
            Measure::TemporaryBytes | Measure::TemporaryBlocks => None,
            Measure::AllocatedBytes | Measure::AllocatedBlocks => Some(allocated),
            Measure::FreedBytes | Measure::FreedBlocks => Some(freed),
        }
    }
}

/// How a flame graph is first shown; a page can be told otherwise by its reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlameView {
    /// What widths are.
    pub measure: Measure,
    /// Whether allocating functions come first.
    pub inverted: bool,
    /// Whether what comes first is at the bottom, as flames burn. Otherwise it is on top.
    pub upwards: bool,
    /// Whether a page shows wrappers, standard libraries and what comes before `main`: its tree has them. Of a picture and of lines, the
    /// tree has what is shown.
    pub wrappers: bool,
}

/// A flame graph.
#[derive(Clone, Copy, Debug)]
pub struct FlameReport<'a> {
    /// What it shows, callers first.
    pub tree: &'a CallTree,
    /// What stands around it.
    pub facts: &'a FlameFacts,
    /// How it is first shown.
    pub view: FlameView,
    /// What the ledgers are called: the one shown, or the newer one of two, and then the older one.
    pub ledgers: &'a [&'a str],
    /// The program.
    pub identity: &'a Identity,
    /// What was added up, of the first ledger.
    pub sums: &'a SiteSums,
    /// What was not seen.
    pub seen: &'a Seen,
}

impl Report for FlameReport<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        let FlameReport { tree, facts, view, .. } = *self;
        match form {
            Form::Html => flame_html(out, tree, facts, view)?,
            Form::Svg => flame_svg(out, tree, facts, view)?,
            Form::Json if view.inverted => json::write(out, &tree.inverted(|_| false), self)?,
            Form::Json => json::write(out, tree, self)?,
            Form::Folded => {
                let inverted = view.inverted.then(|| tree.inverted(|_| false));
                folded(out, inverted.as_ref().unwrap_or(tree), view.measure, self.ledgers.len() > 1)?;
            }
            _ => return Err(ReportError::no_form(form)),
        }
        Ok(())
    }

    fn seen(&self) -> &Seen {
        self.seen
    }
}

/// Writes stacks as `root;…;leaf COUNT`, a line each, for flame graph tools; those with nothing are left out. In a
/// comparison lines have two counts, the older one first. `;` in names becomes `:`.
///
/// # Errors
/// If it cannot be written.
pub fn folded(mut out: impl Write, tree: &CallTree, measure: Measure, compared: bool) -> io::Result<()> {
    let names: Vec<String> = tree.levels.iter().map(|level| clean(&level.name).replace(';', ":")).collect();
    let mut path: Vec<&str> = Vec::new();
    let mut waiting = vec![0u32];
    let children = tree.children(|node| node.level);
    while let Some(id) = waiting.pop() {
        let node = &tree.nodes[id as usize];
        path.truncate(node.depth.saturating_sub(1) as usize);
        if id != 0 {
            path.push(&names[node.level as usize]);
        }
        let [new, old] = node.own.map(|own| own.get(measure));
        if !path.is_empty() && (new != 0 || compared && old != 0) {
            let stack = path.join(";");
            match compared {
                true => writeln!(out, "{stack} {old} {new}")?,
                false => writeln!(out, "{stack} {new}")?,
            }
        }
        waiting.extend(children.of(id).iter().rev());
    }
    out.flush()
}

/// The width of a node: its own figure, or the larger one of the two, and those of what is below.
fn widths(tree: &CallTree, measure: Measure) -> Vec<u64> {
    let larger = |own: &[Amounts; 2]| own[0].get(measure).max(own[1].get(measure));
    let mut widths: Vec<u64> = tree.nodes.iter().map(|node| larger(&node.own)).collect();
    for index in (1..widths.len()).rev() {
        let parent = tree.nodes[index].parent as usize;
        widths[parent] = widths[parent].saturating_add(widths[index]);
    }
    widths
}

/// A tree of which `most` nodes are kept: those that are least by every figure go, and what they hold is their caller's
/// own. Also returns up to which part of the whole nodes went; 0 if all stayed.
pub fn limited(tree: CallTree, most: usize) -> (CallTree, f64) {
    if tree.nodes.len() <= most {
        return (tree, 0.0);
    }
    let wholes = tree.root().total;
    let part = |amounts: &[Amounts; 2]| {
        let parts = amounts.iter().zip(&wholes).flat_map(|(part, whole)| {
            Measure::ALL.map(|measure| part.get(measure) as f64 / whole.get(measure).max(1) as f64)
        });
        parts.fold(0.0, f64::max)
    };
    let mut parts: Vec<f64> = tree.nodes.iter().map(|node| part(&node.total)).collect();
    let at = parts.len() - most;
    let (_, least, _) = parts.select_nth_unstable_by(at, f64::total_cmp);
    let least = *least;
    // Of those that are just so large, all go: they may be most of the tree.
    (tree.pruned(|node| part(&node.total) > least), least)
}

/// Colours go by module: a hue each, in the order in which modules hold most.
fn hues(tree: &CallTree) -> HashMap<&str, usize> {
    let mut weights: HashMap<&str, u64> = HashMap::new();
    for node in tree.nodes.iter().skip(1) {
        if let Some(module) = tree.level(node).module.as_deref() {
            let own = node.own[0].get(Measure::AllocatedBytes);
            let weight = weights.entry(module).or_default();
            *weight = weight.saturating_add(own.saturating_add(1));
        }
    }
    let mut modules: Vec<(&str, u64)> = weights.into_iter().collect();
    modules.sort_unstable_by_key(|(module, weight)| (!*weight, *module));
    modules.into_iter().enumerate().map(|(index, (module, _))| (module, index)).collect()
}
