//! Readers that print lines.

use std::fs;
use std::path::Path;

use super::{Exported, Figures, Found, Tools, beside, is_here};
use crate::tools::command;
use crate::{Result, check, process};

/// `flamegraph.pl`, as Debian's package of a profiler for Perl brings it.
const FLAMEGRAPH: &str = "/usr/share/perl5/Devel/NYTProf/flamegraph.pl";

/// pprof's names of figures.
const FIGURES: &[(&str, &str)] = &[
    ("inuse_space", "LiveBytes"),
    ("inuse_objects", "LiveBlocks"),
    ("alloc_space", "AllocatedBytes"),
    ("alloc_objects", "AllocatedBlocks"),
    ("peak_space", "PeakBytes"),
    ("peak_objects", "PeakBlocks"),
    ("temporary_space", "TemporaryBytes"),
    ("temporary_objects", "TemporaryBlocks"),
];

fn figure(name: &str) -> Option<String> {
    FIGURES.iter().find(|(known, _)| *known == name).map(|(_, figure)| (*figure).to_owned())
}

/// `1,234` or `-5`.
fn number(text: &str) -> Option<i64> {
    text.replace(',', "").parse().ok()
}

/// What the live blocks are in a file of one figure.
fn shown(exported: &Exported) -> &'static str {
    if exported.variant == "peak" { "PeakBytes" } else { "LiveBytes" }
}

fn printed(program: &str, words: &[&str], path: &Path) -> Result<String> {
    Ok(process::run(command(program).args(words).arg(path))?.good()?.out())
}

/// `go tool pprof -raw`: every sample.
pub(super) fn pprof_raw(_: &mut Tools, exported: &Exported) -> Result<Option<Found>> {
    if !is_here("go") {
        return Ok(None);
    }
    let text = printed("go", &["tool", "pprof", "-symbolize=none", "-raw"], &exported.path)?;
    let samples =
        text.split_once("Samples:\n").ok_or("no samples")?.1.split("\nLocations\n").next().unwrap_or_default();
    let (types, rows) = samples.split_once('\n').ok_or("no samples")?;
    let names: Vec<&str> = types.split_whitespace().filter_map(|word| word.split('/').next()).collect();
    let mut sums = vec![0i64; names.len()];
    for row in rows.lines() {
        // Labels are lines of their own.
        let Some((values, _)) = row.split_once(": ") else { continue };
        let values: Vec<i64> = values.split_whitespace().filter_map(number).collect();
        check!(values.len() == sums.len(), "a sample with other values: {row}");
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }
    let figures: Figures = names.iter().zip(sums).filter_map(|(name, sum)| Some((figure(name)?, sum))).collect();
    check!(figures.len() == names.len(), "figures that nobody knows: {names:?}");
    Ok(Some(Found { figures, text }))
}

/// `go tool pprof -top`: functions.
pub(super) fn pprof_top(_: &mut Tools, exported: &Exported) -> Result<Option<Found>> {
    if !is_here("go") {
        return Ok(None);
    }
    let tags = if exported.variant == "threads" { "-tagroot=thread" } else { "-tagroot=" };
    let words = ["tool", "pprof", "-symbolize=none", "-top", "-nodefraction=0", "-nodecount=1000", tags];
    let (mut figures, mut all) = (Figures::new(), String::new());
    for (name, known) in FIGURES {
        let bytes = if name.ends_with("space") { "-unit=B" } else { "-unit=count" };
        let index = format!("-sample_index={name}");
        let text = printed("go", &[&words[..], &[&index, bytes]].concat(), &exported.path)?;
        // `Showing nodes accounting for 49113B, 100% of 49120B total`; of a comparison the changes are added up.
        let total = text.lines().find_map(|line| line.split_once("% of ")?.1.strip_suffix(" total"));
        let total = total.and_then(|total| number(total.trim_end_matches('B')));
        if let Some(total) = total.filter(|_| exported.variant != "diff") {
            figures.insert((*known).to_owned(), total);
        }
        all += &text;
    }
    if exported.variant == "diff" {
        // Those are held against by the raw rows.
        figures.insert("shown".to_owned(), 0);
    }
    Ok(Some(Found { figures, text: all }))
}

/// `heaptrack_print`: its totals, and each stack by `-F`.
pub(super) fn heaptrack_print(_: &mut Tools, exported: &Exported) -> Result<Option<Found>> {
    if !is_here("heaptrack_print") {
        return Ok(None);
    }
    let folded = beside(exported, ".folded")?;
    let mut print = command("heaptrack_print");
    print.arg("-F").arg(&folded).args(["--flamegraph-cost-type", "peak"]).arg(&exported.path);
    let text = process::run(&mut print)?.good()?.out();
    let stacks = fs::read_to_string(&folded).map_err(|error| format!("{}: {error}", folded.display()))?;
    let bytes = stacks.lines().filter_map(|line| number(line.rsplit_once(' ')?.1)).sum();
    let calls = text.lines().find_map(|line| line.strip_prefix("calls to allocation functions: "));
    let calls = calls.and_then(|line| number(line.split(' ').next()?)).ok_or("no number of calls")?;
    let which = shown(exported);
    let blocks = which.replace("Bytes", "Blocks");
    Ok(Some(Found { figures: [(which.to_owned(), bytes), (blocks, calls)].into(), text: text + &stacks }))
}

/// `ms_print`: the table of snapshots, and what is over each tree.
pub(super) fn ms_print(_: &mut Tools, exported: &Exported) -> Result<Option<Found>> {
    if !is_here("ms_print") {
        return Ok(None);
    }
    let text = printed("ms_print", &["--threshold=0"], &exported.path)?;
    let row = |line: &str| -> Option<Vec<i64>> {
        let row: Option<Vec<i64>> = line.split_whitespace().map(number).collect();
        row.filter(|row| row.len() == 6)
    };
    let rows: Vec<Vec<i64>> = text.lines().filter_map(row).collect();
    let roots = text.lines().filter_map(|line| line.strip_prefix("100.00% (")?.split("B)").next());
    let roots: Vec<i64> = roots.filter_map(number).collect();
    let end = rows.last().ok_or("no snapshot")?[2];
    let mut figures: Figures = [("LiveBytes".to_owned(), end)].into();
    check!(rows.is_sorted_by_key(|row| row[1]), "time goes backwards");
    if rows.len() > 2 {
        let peak = rows.iter().map(|row| row[2]).max().unwrap_or(0);
        figures.insert("PeakBytes".to_owned(), peak);
        check!(roots == [peak, end], "trees of {roots:?}");
    } else {
        check!(roots == [end], "trees of {roots:?}");
    }
    Ok(Some(Found { figures, text }))
}

/// `callgrind_annotate`: the totals of the program.
pub(super) fn callgrind_annotate(_: &mut Tools, exported: &Exported) -> Result<Option<Found>> {
    if !is_here("callgrind_annotate") {
        return Ok(None);
    }
    let words = ["--show-percs=no", "--threshold=100", "--tree=both"];
    let text = printed("callgrind_annotate", &words, &exported.path)?;
    let names = text.lines().find_map(|line| line.strip_prefix("Events shown:")).ok_or("no events")?;
    let totals = text.lines().find_map(|line| line.split_once("PROGRAM TOTALS")).ok_or("no totals")?.0;
    let values: Vec<i64> = totals.split_whitespace().filter_map(number).collect();
    let names: Vec<String> = names.split_whitespace().filter_map(figure).collect();
    check!(names.len() == values.len() && !names.is_empty(), "other figures than names: {totals}");
    Ok(Some(Found { figures: names.into_iter().zip(values).collect(), text }))
}

/// `flamegraph.pl`: what stands at its root.
pub(super) fn flamegraph(_: &mut Tools, exported: &Exported) -> Result<Option<Found>> {
    if !Path::new(FLAMEGRAPH).is_file() || !is_here("perl") {
        return Ok(None);
    }
    let text = printed("perl", &[FLAMEGRAPH, "--countname=bytes", "--minwidth=0"], &exported.path)?;
    // `<title>all (49,120 bytes, 100%)</title>`; of two figures it is the later one.
    let all = text.split_once("<title>all (").ok_or("no root")?.1.split(' ').next().unwrap_or_default();
    let all = number(all).ok_or("no figure at the root")?;
    let grown = "shown".to_owned();
    let figures =
        if exported.variant == "diff" { [(grown, all)].into() } else { [(shown(exported).to_owned(), all)].into() };
    let lines = fs::read_to_string(&exported.path).map_err(|error| format!("{}: {error}", exported.path.display()))?;
    let sum: i64 = lines.lines().filter_map(|line| number(line.rsplit_once(' ')?.1)).sum();
    check!(sum == all, "its lines come to {sum}, and it shows {all}");
    Ok(Some(Found { figures, text }))
}
