//! Tables: aligned for a terminal, or in Markdown for the README.

use std::fmt::Write as _;

use super::figures::{Figure, Row};
use super::goals::{Goal, MANY_BLOCKS};
use super::tool::Tool;

/// A table of words. The first column is at the left, the others at the right.
struct Table(Vec<Vec<String>>);

impl Table {
    fn new(head: Vec<String>) -> Table {
        Table(vec![head])
    }

    fn aligned(&self) -> String {
        let columns = self.0.iter().map(Vec::len).max().unwrap_or(0);
        let width =
            |column: usize| self.0.iter().filter_map(|row| row.get(column)).map(|word| word.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        let mut out = String::new();
        for row in &self.0 {
            let mut line = String::new();
            for (column, (word, width)) in row.iter().zip(&widths).enumerate() {
                let _ = if column == 0 { write!(line, "{word:<width$}") } else { write!(line, "  {word:>width$}") };
            }
            out += line.trim_end();
            out.push('\n');
        }
        out
    }

    fn markdown(&self) -> String {
        let mut out = String::new();
        for (index, row) in self.0.iter().enumerate() {
            let _ = writeln!(out, "| {} |", row.join(" | "));
            if index == 0 {
                let rules: Vec<&str> = (0..row.len()).map(|column| if column == 0 { "---" } else { "---:" }).collect();
                let _ = writeln!(out, "|{}|", rules.join("|"));
            }
        }
        out
    }
}

fn head(first: &str, tools: &[Tool]) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(tools.iter().map(|tool| tool.name().to_owned())).collect()
}

/// A multiple, as precise as it is worth.
fn multiple(value: f64) -> String {
    match value {
        _ if value >= 99.5 => format!("{value:.0}"),
        _ if value >= 9.95 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn both(figure: Figure, show: impl Fn(f64) -> String) -> String {
    format!("{} ({})", show(figure.median), show(figure.least))
}

/// 1234567 as `1,234,567`.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index != 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn mib(bytes: f64) -> String {
    let mib = bytes / f64::from(1 << 20);
    if mib < 9.95 { format!("{mib:.1}") } else { format!("{mib:.0}") }
}

/// What one tool shows of one program: a figure, a dash where it was not run, a word where it failed.
fn cell(row: &Row, tool: Tool, figure: Option<String>) -> String {
    figure.unwrap_or_else(|| {
        let failed = row.runs.get(&tool).is_some_and(|runs| runs.failure.is_some());
        if failed { "failed".to_owned() } else { "-".to_owned() }
    })
}

/// Tools that were run at all, without the plain run and what only serves to explain.
fn shown_tools(rows: &[Row]) -> Vec<Tool> {
    let was_run = |tool: &&Tool| rows.iter().any(|row| row.runs.contains_key(*tool));
    let explains = |tool: &&Tool| matches!(tool, Tool::Plain | Tool::Walk | Tool::NoReuse | Tool::FramePointers);
    let guards = Tool::GUARDS.iter().filter(|tool| !Tool::ALL.contains(tool));
    Tool::ALL.iter().chain(guards).filter(was_run).filter(|tool| !explains(tool)).copied().collect()
}

/// All tables for a terminal.
pub(super) fn text(rows: &[Row], goals: &[Goal], rounds: usize) -> String {
    let tools = shown_tools(rows);
    let mut out = format!(
        "\nTime of processors, user and system, of all processes, as a multiple of the program by itself:\n\
         median of {rounds} rounds, and in brackets the quotient of the fastest runs. Everything from start to end of\n\
         a tool is in it. Slow tools ran once, on a sixteenth of the work, beside a plain run of that.\n\n"
    );
    let mut table = Table::new(head("program", &tools));
    table.0[0].splice(1..1, ["plain s".to_owned(), "allocations".to_owned()]);
    for row in rows {
        let plain = row.each(Tool::Plain, |sample| sample.cpu_ns).map(|figure| format!("{:.2}", figure.median / 1e9));
        let allocations = row.ledger.map(|ledger| grouped(ledger.allocations));
        let mut line = vec![row.name.to_owned(), cell(row, Tool::Plain, plain), allocations.unwrap_or("-".into())];
        line.extend(tools.iter().map(|tool| cell(row, *tool, row.ratio(*tool).map(|ratio| both(ratio, multiple)))));
        table.0.push(line);
    }
    out += &table.aligned();

    out += "\nNanoseconds of that added for each allocation (which in most cases is freed, too):\n\n";
    let quick: Vec<Tool> = tools.iter().filter(|tool| !tool.is_slow()).copied().collect();
    let mut table = Table::new(head("program", &quick));
    for row in rows {
        let figure = |tool: &Tool| row.added_per_allocation(*tool).map(|added| both(added, |ns| format!("{ns:.0}")));
        let cells = quick.iter().map(|tool| cell(row, *tool, figure(tool)));
        table.0.push(std::iter::once(row.name.to_owned()).chain(cells).collect());
    }
    out += &table.aligned();

    out += "\nPeak memory of the largest process, MiB (slow tools: with less work):\n\n";
    let with_plain: Vec<Tool> = std::iter::once(Tool::Plain).chain(tools.iter().copied()).collect();
    let mut table = Table::new(head("program", &with_plain));
    for row in rows {
        let figure = |tool: &Tool| row.each(*tool, |sample| sample.peak_bytes).map(|peak| mib(peak.median));
        let cells = with_plain.iter().map(|tool| cell(row, *tool, figure(tool)));
        table.0.push(std::iter::once(row.name.to_owned()).chain(cells).collect());
    }
    out += &table.aligned();
    out += &loops(rows);
    out += &ledgers(rows);
    out += &parts(rows);
    out += &failures(rows);
    out += &goal_lines(goals);
    out
}

/// Inside the loops of the synthetic programs, where start and end of a tool do not count.
fn loops(rows: &[Row]) -> String {
    let adds = |tool: &&Tool| !matches!(tool, Tool::Plain | Tool::Walk | Tool::Heaptrack) && !tool.is_slow();
    let was_run = |tool: &&Tool| rows.iter().any(|row| row.loop_added_ns(**tool).is_some());
    let tools: Vec<Tool> = Tool::ALL.iter().filter(adds).filter(was_run).copied().collect();
    let timed: Vec<&Row> = rows.iter().filter(|row| row.loop_ns(Tool::Plain).is_some()).collect();
    if timed.is_empty() {
        return String::new();
    }
    let mut out = "\nThe loop of the synthetic programs alone, ns for each pair of malloc and free: the calls around \
                   it (walk), the pair itself,\nand what each tool adds. heaptrack's other processes are not in it.\n\n"
        .to_owned();
    let mut table = Table::new(head("program", &tools));
    table.0[0].splice(1..1, ["walk".to_owned(), "pair".to_owned()]);
    for row in timed {
        let whole = |ns: f64| format!("{ns:.0}");
        let walk = row.loop_ns(Tool::Walk).map(|figure| whole(figure.median));
        let pair = row.pair_ns().or_else(|| Some(row.loop_ns(Tool::Plain)?.median)).map(whole);
        let mut line = vec![row.name.to_owned(), walk.unwrap_or("-".into()), pair.unwrap_or("-".into())];
        let figure = |tool: Tool| row.loop_added_ns(tool).map(|added| both(added, |ns| format!("{ns:+.0}")));
        line.extend(tools.iter().map(|tool| cell(row, *tool, figure(*tool))));
        table.0.push(line);
    }
    out += &table.aligned();
    out
}

/// What the ledgers took.
fn ledgers(rows: &[Row]) -> String {
    let head = [
        "program",
        "ledger MiB",
        "beside it",
        "blocks",
        "B a record",
        "index B",
        "threads KiB",
        "stacks",
        "frames",
        "B a stack",
        "in the file",
        "depot",
        "verified",
        "new",
    ];
    let mut table = Table::new(head.map(str::to_owned).into());
    for row in rows {
        let Some(ledger) = row.ledger else { continue };
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let whole = |value: f64| format!("{value:.0}");
        let tenths = |value: f64| format!("{value:.1}");
        let many = ledger.blocks >= MANY_BLOCKS;
        let (verified, new) = ledger.frames_of_a_call();
        table.0.push(vec![
            row.name.to_owned(),
            mib(ledger.ledger_bytes),
            mib(ledger.private_bytes),
            grouped(ledger.blocks),
            or_dash(ledger.record_bytes.filter(|_| many).map(tenths)),
            or_dash(ledger.shadow_bytes.filter(|_| many).map(|bytes| tenths(bytes / ledger.blocks))),
            or_dash(ledger.thread_bytes.map(|bytes| whole(bytes / 1024.0))),
            grouped(ledger.stacks),
            or_dash(ledger.frames.map(tenths)),
            or_dash(ledger.stack_bytes.map(whole)),
            or_dash(ledger.stack_file_bytes.map(whole)),
            or_dash(ledger.depot_bytes().map(whole)),
            tenths(verified),
            format!("{new:.2}"),
        ]);
    }
    if table.0.len() == 1 {
        return String::new();
    }
    let words = "\nLedgers: what they took in the program, and beside it; blocks at the peak, and for each of them its \
                 record and its share of\nthe index by address; the state of each thread; distinct stacks, frames of \
                 each, bytes for each in memory (nodes, addresses\nand indexes, with room for more), in the finished \
                 file, and as the sanitizers' depot would keep them (a model, without its\ntable of 4 MiB); frames of \
                 each call of malloc or free that were verified, and that were unwound.\n\n";
    words.to_owned() + &table.aligned()
}

/// The memory that the ledgers took, by part.
fn parts(rows: &[Row]) -> String {
    let head = ["program", "plain", "ours", "of plain", "records", "index", "history", "call sites", "threads", "rest"];
    let mut table = Table::new(head.map(str::to_owned).into());
    for row in rows {
        let (Some(ledger), Some(plain)) = (row.ledger, row.each(Tool::Plain, |sample| sample.peak_bytes)) else {
            continue;
        };
        let (all, parts) = (ledger.ledger_bytes + ledger.private_bytes, ledger.parts);
        let each = [parts.records, parts.index, parts.history, parts.sites, parts.threads, all - parts.known()];
        let ratio = format!("{:.2}", all / plain.median.max(1.0));
        let first = [row.name.to_owned(), mib(plain.median), mib(all), ratio];
        table.0.push(first.into_iter().chain(each.map(mib)).collect());
    }
    if table.0.len() == 1 {
        return String::new();
    }
    let words = "\nMemory by part, MiB: what the program has at its peak by itself, what the ledger took at most, in its \
                 storage and beside it, as a\npart of that; and of this the records of live blocks, the index by address, \
                 the history, call sites with what leads to them,\nstates of threads, and the rest: sums by call site, \
                 tables of modules and threads, the library's own pages.\n\n";
    words.to_owned() + &table.aligned()
}

fn failures(rows: &[Row]) -> String {
    let failed = |row: &Row| {
        let runs = row.runs.iter().filter_map(|(tool, runs)| Some((*tool, runs.failure.clone()?)));
        runs.map(|(tool, problem)| (row.name, tool, problem)).collect::<Vec<_>>()
    };
    let mut out = String::new();
    for (name, tool, problem) in rows.iter().flat_map(failed) {
        let _ = writeln!(out, "failed: {name} with {}: {}", tool.name(), problem.trim());
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

pub(super) fn goal_lines(goals: &[Goal]) -> String {
    let width = |part: fn(&Goal) -> &String| goals.iter().map(|goal| part(goal).chars().count()).max().unwrap_or(0);
    let (what, wanted) = (width(|goal| &goal.what), width(|goal| &goal.wanted));
    let mut out = String::from("\nGoals:\n\n");
    for goal in goals {
        let verdict = match goal.reached {
            Some(true) => "reached",
            Some(false) => "MISSED",
            None => "open",
        };
        let _ = writeln!(out, "{verdict:<8} {:<what$}  {:<wanted$}  {}", goal.what, goal.wanted, goal.measured);
    }
    out
}

/// What a block pays more, if it was seen at all: of runs that differ by less than what disturbs them, the faster may be either.
fn seen(added_ns: f64) -> String {
    if added_ns < 0.5 { "none seen".to_owned() } else { format!("+{added_ns:.0} ns") }
}

/// The table for the README, of the fastest runs.
pub(super) fn markdown(rows: &[Row]) -> String {
    let tools: Vec<Tool> = shown_tools(rows);
    let mut table = Table::new(head("program", &tools));
    for row in rows {
        let figure = |tool: Tool| {
            let ratio = multiple(row.ratio(tool)?.least);
            let added = row.added_per_allocation(tool).map(|added| format!(", {}", seen(added.least)));
            Some(format!("{ratio}{}", added.unwrap_or_default()))
        };
        let cells = tools.iter().map(|tool| cell(row, *tool, figure(*tool)));
        table.0.push(std::iter::once(row.name.to_owned()).chain(cells).collect());
    }
    table.markdown()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned() {
        let table = Table(vec![vec!["a".into(), "bb".into()], vec!["ccc".into(), "d".into()]]);
        assert_eq!(table.aligned(), "a    bb\nccc   d\n");
        assert_eq!(table.markdown(), "| a | bb |\n|---|---:|\n| ccc | d |\n");
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(grouped(1_234_567.0), "1,234,567");
        assert_eq!(grouped(12.0), "12");
        assert_eq!((multiple(1.234), multiple(12.34), multiple(123.4)), ("1.23".into(), "12.3".into(), "123".into()));
        assert_eq!(mib(1_048_576.0), "1.0");
        assert_eq!((seen(126.4), seen(0.4), seen(-28.0)), ("+126 ns".into(), "none seen".into(), "none seen".into()));
    }
}
