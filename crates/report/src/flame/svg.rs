//! A flame graph as a picture: readable in any viewer, without a script.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use heapledger_analysis::tree::{CallTree, LevelKind, Measure, TreeNode};

use super::html::escaped;
use super::{FlameFacts, FlameView, hues, widths};
use crate::form::units::{Figures, Paint, clean};
use crate::tree::text::{amount, measure_name, share};

/// Width of the picture.
const WIDTH: f64 = 1200.0;
/// Left and right of the graph.
const MARGIN: f64 = 10.0;
/// Height of a function.
const ROW: f64 = 18.0;
/// Height of a line of facts.
const LINE: f64 = 16.0;
/// Narrower functions are not drawn.
const LEAST: f64 = 0.3;
/// Width of a letter.
const LETTER: f64 = 7.25;
/// Letters of a line of facts; longer ones go on in the next.
const LINE_LETTERS: usize = 150;

/// Hues of modules, those that hold most first.
const HUES: [u32; 10] = [28, 205, 140, 265, 50, 175, 335, 95, 230, 5];
/// Shades of each hue.
const SHADES: u32 = 3;

/// A colour from hue (degrees), saturation and lightness (0 to 1).
fn rgb(hue: f64, saturation: f64, lightness: f64) -> String {
    let chroma = saturation * lightness.min(1.0 - lightness);
    let part = |offset: f64| {
        let k = (offset + hue / 30.0) % 12.0;
        let value = lightness - chroma * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0);
        (value * 255.0).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", part(0.0), part(8.0), part(4.0))
}

/// Class and colours by light and by dark.
fn colours() -> Vec<(String, [String; 2])> {
    let mut all = vec![("g".to_owned(), [rgb(215.0, 0.14, 0.85), rgb(215.0, 0.08, 0.32)])];
    for (index, hue) in HUES.iter().enumerate() {
        for shade in 0..SHADES {
            let (hue, step) = (f64::from(*hue), f64::from(shade) * 0.035);
            all.push((format!("m{index}{shade}"), [rgb(hue, 0.72, 0.74 + step), rgb(hue, 0.38, 0.28 + step)]));
        }
    }
    // Grown and shrunk, from a little to wholly.
    for (class, hue) in [("u", 6.0), ("d", 217.0)] {
        for step in 0..=4u8 {
            let part = f64::from(step) / 4.0;
            let (light, dark) = (rgb(hue, 0.8, 0.86 - 0.24 * part), rgb(hue, 0.25 + 0.35 * part, 0.3 + 0.15 * part));
            all.push((format!("{class}{step}"), [light, dark]));
        }
    }
    all
}

struct Picture<'a> {
    facts: &'a FlameFacts,
    tree: &'a CallTree,
    measure: Measure,
    figures: Figures,
    compared: Option<&'a [String; 2]>,
    hues: HashMap<&'a str, usize>,
}

impl Picture<'_> {
    fn class(&self, node: &TreeNode) -> String {
        if self.compared.is_some() {
            let [new, old] = node.total.map(|total| total.get(self.measure));
            let larger = new.max(old);
            if new == old {
                return "g".to_owned();
            }
            let step = (new.abs_diff(old) as f64 / larger as f64).sqrt() * 4.0;
            return format!("{}{}", if new > old { "u" } else { "d" }, step.round() as u64);
        }
        let level = self.tree.level(node);
        let hash = level.name.bytes().fold(7u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)));
        match level.module.as_deref().and_then(|module| self.hues.get(module)) {
            Some(hue) => format!("m{}{}", hue % HUES.len(), hash % SHADES),
            None => "g".to_owned(),
        }
    }

    /// What a figure is, and of what if that is not all.
    fn measure(&self, measure: Measure) -> String {
        let part = self.facts.part(measure).map_or_else(String::new, |part| format!(" ({part})"));
        format!("{}{part}", measure_name(measure))
    }

    fn name(&self, node: &TreeNode) -> &str {
        if node.depth == 0 { "all" } else { &self.tree.level(node).name }
    }

    /// What stands above the graph.
    fn head(&self, inverted: bool) -> Vec<String> {
        let facts = self.facts;
        let mut head: Vec<String> = facts.facts.iter().flat_map(|fact| wrapped(fact, LINE_LETTERS)).collect();
        if let Some(gap) = facts.gap.as_ref().filter(|_| self.measure.needs_history()) {
            head.extend(wrapped(gap, LINE_LETTERS));
        }
        let direction = if inverted { "allocating functions first" } else { "callers first" };
        let width = self.measure(self.measure);
        head.push(format!("Width: {width}, {direction}. Narrower than {LEAST} of a pixel is not drawn."));
        head
    }

    /// What stands below it.
    fn foot(&self) -> Vec<String> {
        let mut foot = Vec::new();
        for (heading, notes) in [("Not seen:", &self.facts.notes), ("Names:", &self.facts.names)] {
            if !notes.is_empty() {
                foot.push(heading.to_owned());
                foot.extend(notes.iter().flat_map(|note| wrapped(note, LINE_LETTERS)));
            }
        }
        foot
    }

    /// Writes a function, whose upper edge is at `y`. `light` has the colours of classes.
    fn write_box(
        &self,
        out: &mut impl Write,
        one: &FlameBox,
        y: f64,
        light: &HashMap<String, String>,
    ) -> io::Result<()> {
        let FlameBox { node, x, width } = *one;
        let node = &self.tree.nodes[node as usize];
        let class = self.class(node);
        let fill = light.get(&class).map_or("#dddddd", String::as_str);
        let drawn = if width > 2.0 { width - 0.5 } else { width };
        write!(
            out,
            "<g><title>{}</title><rect class=\"{class}\" fill=\"{fill}\" x=\"{x:.2}\" y=\"{y:.0}\" width=\"{drawn:.2}\" \
             height=\"{}\"/>",
            self.hover(node).lines().map(escaped).collect::<Vec<_>>().join("\n"),
            ROW - 1.0
        )?;
        let letters = ((width - 6.0) / LETTER) as usize;
        if letters >= 3 {
            let paint = Paint { full_names: self.facts.full_names, ..Paint::default() };
            let name = match self.tree.level(node).kind {
                LevelKind::Function if node.depth > 0 => paint.function(self.name(node)),
                _ => self.name(node).into(),
            };
            let text = if name.chars().count() > letters {
                name.chars().take(letters - 1).chain(['…']).collect()
            } else {
                name.into_owned()
            };
            write!(out, "<text x=\"{:.2}\" y=\"{:.1}\">{}</text>", x + 3.0, y + ROW - 5.5, escaped(&text))?;
        }
        writeln!(out, "</g>")
    }

    /// What is told when the pointer rests on it.
    fn hover(&self, node: &TreeNode) -> String {
        // A line end in a name is no line end of ours.
        let mut text = clean(self.name(node)).into_owned();
        if let Some(file) = self.tree.file(node) {
            let _ = write!(text, "\n{file}");
            if let Some(line) = node.line {
                let _ = write!(text, ":{line}");
            }
            if node.several_lines {
                text.push_str(" and other lines");
            }
        }
        if node.inlined {
            text.push_str("\ninlined");
        }
        if let Some(module) = self.tree.level(node).module.as_deref().filter(|_| node.depth > 0) {
            let _ = write!(text, "\nin {module}");
        }
        let root = self.tree.root();
        for measure in [self.measure, self.measure.other()] {
            let of = |side: usize| {
                let (part, whole) = (node.total[side].get(measure), root.total[side].get(measure));
                format!("{} ({})", amount(self.figures, measure, part), share(part, whole))
            };
            let _ = match self.compared {
                Some([old, new]) => write!(text, "\n{}: {old} {}, {new} {}", self.measure(measure), of(1), of(0)),
                None => write!(text, "\n{}: {}", self.measure(measure), of(0)),
            };
        }
        text
    }
}

/// Text in lines of at most `most` letters.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let letters = |line: &str| line.chars().count();
        let last = lines.last().map_or(0, |line| letters(line));
        if last > 0 && last + 1 + letters(word) > most {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// Writes `tree`, callers first, as a picture.
///
/// # Errors
/// If it cannot be written.
pub fn flame_svg(mut out: impl Write, tree: &CallTree, facts: &FlameFacts, view: FlameView) -> io::Result<()> {
    let FlameView { measure, inverted, upwards, .. } = view;
    let room = WIDTH - 2.0 * MARGIN;
    // What would be too narrow is not even turned round.
    let least = (widths(tree, measure)[0] as f64 * LEAST / room) as u64;
    let turned =
        inverted.then(|| tree.inverted(|node| node.total[0].get(measure).max(node.total[1].get(measure)) < least));
    let tree = turned.as_ref().unwrap_or(tree);
    let widths = widths(tree, measure);
    let scale = if widths[0] == 0 { 0.0 } else { room / widths[0] as f64 };
    let boxes = boxes(tree, &widths, scale);
    let rows = boxes.iter().map(|one| tree.nodes[one.node as usize].depth).max().unwrap_or(0) + 1;
    let picture = Picture {
        facts,
        tree,
        measure,
        figures: Figures { estimated: facts.estimated, exact_bytes: facts.exact_bytes },
        compared: facts.compared.as_ref(),
        hues: hues(tree),
    };
    let title = match facts.part(measure) {
        Some(part) => format!("{}: {} {part}", facts.title, measure_name(measure)),
        None => facts.title.clone(),
    };
    let (head, foot) = (picture.head(inverted), picture.foot());
    let top = 34.0 + head.len() as f64 * LINE + 8.0;
    let bottom = top + f64::from(rows) * ROW;
    let height = bottom + 12.0 + foot.len() as f64 * LINE;
    writeln!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" \
         height=\"{height:.0}\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\">\n<title>{}</title>",
        escaped(&title)
    )?;
    write_style(&mut out)?;
    writeln!(out, "<rect class=\"back\" width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>")?;
    writeln!(out, "<text class=\"h\" x=\"{MARGIN}\" y=\"24\">{}</text>", escaped(&title))?;
    write_lines(&mut out, &head, 42.0)?;
    let light: HashMap<String, String> = colours().into_iter().map(|(class, [light, _])| (class, light)).collect();
    for one in &boxes {
        let depth = tree.nodes[one.node as usize].depth;
        let row = if upwards { rows - 1 - depth } else { depth };
        picture.write_box(&mut out, one, top + f64::from(row) * ROW, &light)?;
    }
    write_lines(&mut out, &foot, bottom + 20.0)?;
    writeln!(out, "</svg>")?;
    out.flush()
}

/// A function in the picture: which, where from the left, and how wide.
struct FlameBox {
    node: u32,
    x: f64,
    width: f64,
}

/// Everything that is wide enough, callers before what they call; what holds most is on the left.
fn boxes(tree: &CallTree, widths: &[u64], scale: f64) -> Vec<FlameBox> {
    let children = tree.children(|node| node.level);
    let mut boxes = Vec::new();
    let mut waiting = vec![(0u32, MARGIN)];
    while let Some((node, x)) = waiting.pop() {
        boxes.push(FlameBox { node, x, width: widths[node as usize] as f64 * scale });
        let mut below = children.of(node).to_vec();
        below.sort_by_key(|id| !widths[*id as usize]);
        let mut next = x;
        for child in below {
            let width = widths[child as usize] as f64 * scale;
            if width < LEAST {
                break;
            }
            waiting.push((child, next));
            next += width;
        }
    }
    boxes
}

/// Writes small text, the first line at this height.
fn write_lines(out: &mut impl Write, lines: &[String], first: f64) -> io::Result<()> {
    for (index, line) in lines.iter().enumerate() {
        let y = first + index as f64 * LINE;
        writeln!(out, "<text class=\"f\" x=\"{MARGIN}\" y=\"{y:.0}\">{}</text>", escaped(line))?;
    }
    Ok(())
}

fn write_style(out: &mut impl Write) -> io::Result<()> {
    let mut dark = String::new();
    for (class, [_, colour]) in colours() {
        let _ = write!(dark, ".{class}{{fill:{colour}}}");
    }
    writeln!(
        out,
        "<style>\ntext{{font:12px ui-monospace,\"DejaVu Sans Mono\",Menlo,Consolas,monospace;fill:#1b1f24}}\n\
         text.h,text.f{{font-family:system-ui,\"DejaVu Sans\",sans-serif}}\ntext.h{{font-size:17px;font-weight:bold}}\n\
         text.f{{fill:#59636e}}\ng:hover rect{{stroke:#1b1f24}}\n\
         @media (prefers-color-scheme: dark){{\n.back{{fill:#14171b}}text{{fill:#e6e9ec}}text.f{{fill:#9aa4af}}\
         g:hover rect{{stroke:#e6e9ec}}{dark}\n}}\n</style>"
    )
}
