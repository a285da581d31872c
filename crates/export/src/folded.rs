//! Folded stacks: `root;…;leaf COUNT`, a line each, for `flamegraph.pl` and all that read the same; two counts in a comparison, as
//! `difffolded.pl` writes them.

use std::io::{self, Write};

use crate::formats::{Comparison, ExportFormat, any, no_remarks};
use crate::merged::{Merged, MergedFrame};
use crate::profile::{Profile, TextId};
use crate::text::without;

pub(crate) const FORMAT: ExportFormat = ExportFormat {
    name: "folded",
    about: "For flamegraph.pl and others: stacks and one figure",
    ending: "folded",
    packed: None,
    comparison: Comparison::Never,
    needs_sizes: false,
    untold: "lines, modules and addresses, more than one figure, times",
    holds: any,
    remarks: no_remarks,
    write: one,
};

pub(crate) const COMPARED: ExportFormat = ExportFormat {
    name: "difffolded",
    about: "The same of two ledgers, older figure first; with --diff",
    comparison: Comparison::Always,
    write: two,
    ..FORMAT
};

/// A frame: `;` parts frames. What stands last is no figure, whatever a function is called: `flamegraph.pl` takes two for those of a
/// comparison.
fn frame(name: &str) -> String {
    let name = without(name, &[';'], ":");
    let name = if name.is_empty() { "?" } else { &name };
    match name.rsplit_once(char::is_whitespace) {
        Some((before, last)) if last.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
            format!("{before}_{last}")
        }
        _ => name.to_owned(),
    }
}

fn one(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    lines(profile, out, false)
}

fn two(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    lines(profile, out, true)
}

fn lines(profile: &Profile, out: &mut dyn Write, compared: bool) -> io::Result<()> {
    let frames: Vec<String> = profile.texts.iter().map(frame).collect();
    let merged = Merged::new(profile, |told| match told {
        MergedFrame::Line(_, line) => profile.functions[line.function as usize].name,
        MergedFrame::Thread(name) => name,
    });
    let mut path: Vec<TextId> = Vec::new();
    for (node, own) in merged.ends() {
        let [new, old] = own.map(|own| own.get(profile.about.measure));
        if new == 0 && !(compared && old != 0) {
            continue;
        }
        path.clear();
        path.extend(merged.path(node));
        for (index, name) in path.iter().rev().enumerate() {
            out.write_all(if index == 0 { b"" } else { b";" })?;
            out.write_all(frames[name.0 as usize].as_bytes())?;
        }
        match compared {
            true => writeln!(out, " {old} {new}")?,
            false => writeln!(out, " {new}")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_one_word_for_the_reader() {
        assert_eq!(frame("operator new(unsigned long)"), "operator new(unsigned long)");
        assert_eq!(frame("a;b"), "a:b");
        assert_eq!(frame("f 12"), "f_12");
        assert_eq!(frame("f 1.5"), "f_1.5");
        assert_eq!(frame(""), "?");
    }
}
