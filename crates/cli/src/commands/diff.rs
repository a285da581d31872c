//! `heapledger diff`: what became of the blocks between two ledgers, or two moments of a process.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use heapledger_analysis::diff::{Census, Change, ChangeKind, Diff, StackKeys, one_run};
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{Evaluator, Scope, SortKeys, Unknown};
use heapledger_analysis::{NamedStack, Names, Note, Seen, Sort};
use heapledger_format::session::process as key;
use heapledger_report::{CONVERSIONS, DiffJson, DiffSide, DiffText, Ending, clean};
use heapledger_source::Ledger;

use super::form::Records;
use super::proposed::proposed;
use super::standard::{FilterArgs, SortArgs, Usage, groups as groups_of_blocks};
use super::{FormArgs, FramesArgs, LedgerArgs, NamingArgs, Opened, Progress, ViewArgs, find_names, unless_pipe_closed};
use crate::terminal::Output;
use crate::text::parse_span;

mod groups;
mod intervals;
mod one_by_one;
mod watch;

/// Stacks of each list that are shown to a person who did not say how many.
const STACKS: usize = 10;
/// Frames of a stack that are shown to a person who did not say how many.
const FRAMES: usize = 5;

/// Arguments of `diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("\
Two ledgers of one run (two snapshots, or one and the process itself) are
compared by number: an address that is freed and used again fools nobody.
Ledgers of two runs, of two builds too, are compared by stack: by the names of
functions, whatever their lines and addresses are. Stacks that grew come first,
most growth first. One process is compared with itself, by --every or --after.

Examples:
  heapledger diff 4711.0.hl 4711.1.hl          what grew between two snapshots
  heapledger diff --group-by fn 4711.0.hl 4711.1.hl   a table, by function
  heapledger diff --blocks 4711.0.hl 4711.1.hl each new block, each freed one
  heapledger diff 4711.0.hl 4711               since then, in the process itself
  heapledger diff old-build.hl new-build.hl    what the new build holds more
  heapledger diff --every 10s 4711             what grows now, until Ctrl-C
  heapledger diff --after 1m --group-by fn 4711   what grows within a minute
  heapledger diff --where 'thread == \"io\"' a.hl b.hl  of one thread only
  heapledger diff -Fsize_min=10240 -f '%n bytes at %p by %f1' -SN a.hl b.hl
  heapledger diff --json a.hl b.hl | jq 'select(.change == \"new\")'

Conversions of -f, which shows blocks one by one:
{CONVERSIONS}"))]
pub(crate) struct DiffArgs {
    /// Two ledgers, the earlier one first: files, or numbers of processes that are being recorded (which are not
    /// stopped); or one such process with --every or --after. The program's executable may stand before them, as with --exe
    #[arg(value_name = "FILE|PID", required = true, num_args = 1..=3)]
    pub(crate) ledgers: Vec<OsString>,
    /// Compare a process with itself, so often: 500ms, 10s, 1m
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) every: Option<Duration>,
    /// Stop after so many intervals
    #[arg(long, value_name = "N", requires = "every", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Compare a process with itself after this time
    #[arg(long, value_name = "TIME", value_parser = parse_span, conflicts_with = "every")]
    pub(crate) after: Option<Duration>,
    /// Show blocks one by one; within one run
    #[arg(short, long, conflicts_with_all = ["every", "after"])]
    pub(crate) blocks: bool,
    /// Compare sums by one or several of fn, file, module, thread, size, kind, heap; fn, file and module are those of
    /// the function that holds a block [default: by call stack]
    #[arg(short, long, value_name = "LIST", conflicts_with = "blocks")]
    #[arg(value_parser = proposed(groups_of_blocks), hide_possible_values = true)]
    pub(crate) group_by: Option<String>,
    /// Show at most so many of each list, 0 for all [default: 10 stacks, 20 groups or 100 blocks, of intervals 5; all in any
    /// format but text]
    #[arg(short, long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Show the N largest of each list, 0 for all: those that changed most, as --limit does, or with --blocks the
    /// largest blocks
    #[arg(long, value_name = "N", conflicts_with = "limit")]
    pub(crate) top: Option<usize>,
    /// Show so many frames of each stack, 0 for all [default: 5; of intervals none]
    #[arg(long, value_name = "N")]
    pub(crate) frames: Option<usize>,
    #[command(flatten)]
    pub(crate) view: ViewArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) sort: SortArgs,
    #[command(flatten)]
    pub(crate) form: FormArgs<Records>,
    #[command(flatten)]
    pub(crate) lines: FramesArgs,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
}

impl DiffArgs {
    /// Which blocks of a ledger are meant, as seen at the time of another.
    fn filter_for<'a>(&self, opened: &'a Opened, at: &Opened) -> Result<Evaluator<'a>> {
        self.filter.evaluator(&opened.ledger, at.context.clock, Scope::Blocks, self.names(&opened.ledger)?)
    }

    /// What will find names, and has found none yet.
    fn names<'a>(&self, ledger: &'a Ledger) -> Result<Names<'a>> {
        let mut names = self.naming.no_names(ledger)?;
        names.pass_over(self.lines.passing());
        Ok(names)
    }

    fn limit(&self, otherwise: usize) -> usize {
        self.top.or(self.limit).unwrap_or(if self.form.get().is_for_programs() { 0 } else { otherwise })
    }

    /// The order of blocks.
    fn order(&self, ledger: &Ledger) -> Result<SortKeys> {
        if self.top.is_some() && !self.sort.is_given() {
            return Ok(Sort::Size.into());
        }
        self.sort.get(ledger)
    }

    /// Whether blocks are shown one by one.
    fn one_by_one(&self) -> bool {
        self.blocks || self.form.get().is_of_records()
    }

    fn open(&self, target: &OsStr) -> Result<Opened> {
        let ledger = target.to_owned();
        let opened = LedgerArgs { ledger, view: self.view }.open()?;
        self.lines.explain(&opened.ledger);
        Ok(opened)
    }
}

/// Compares.
pub(crate) fn run(mut args: DiffArgs) -> Result<()> {
    args.filter.parse()?;
    if args.form.get().is_of_records() && (args.group_by.is_some() || args.every.or(args.after).is_some()) {
        return Err(Usage::new("-f and --format ecos are for single blocks of two ledgers").into());
    }
    if args.sort.parse()?.is_some() && !args.one_by_one() {
        return Err(Usage::new("an order is one of blocks: add --blocks; stacks come with most growth first").into());
    }
    let interval = args.every.or(args.after);
    let wanted = if interval.is_some() { 1 } else { 2 };
    if args.ledgers.len() == wanted + 1 {
        let first = PathBuf::from(args.ledgers.remove(0));
        if !is_program(&first) {
            return Err(Usage::new(format!("{} is no executable, and one ledger too many", first.display())).into());
        }
        args.naming.exe.insert(0, first);
    }
    let args = &args;
    let by = groups::by(args)?;
    let result = match (args.ledgers.as_slice(), interval) {
        ([one], Some(interval)) => match &by {
            Some(by) => intervals::run(args, one, interval, by),
            None => watch::run(args, one, interval),
        },
        ([a, b], None) => two(args, a, b),
        (_, Some(_)) => return Err(Usage::new("--every and --after take one process").into()),
        (_, None) => {
            return Err(Usage::new("two ledgers are needed, or one process with --every or --after").into());
        }
    };
    unless_pipe_closed(result)
}

/// Whether this is an ELF file.
fn is_program(path: &Path) -> bool {
    let mut magic = [0u8; 4];
    path.is_file() && File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}

fn two(args: &DiffArgs, a: &OsStr, b: &OsStr) -> Result<()> {
    let opened = [args.open(a)?, args.open(b)?];
    let [a, b] = &opened;
    args.naming.check(&[&a.ledger, &b.ledger])?;
    let by_number = one_run(&a.ledger, &b.ledger);
    ensure!(
        by_number || !args.one_by_one(),
        "{} and {} are of different runs: blocks can only be compared one by one within one run",
        a.context.ledger,
        b.context.ledger
    );
    if let Some(by) = groups::by(args)? {
        return groups::show(args, &opened, by_number, &by);
    }
    if args.group_by.is_some() || !by_number {
        let named = |here: &Opened| {
            Field::Stack.check_in(&here.ledger, Scope::Blocks).with_context(|| here.context.ledger.clone())
        };
        opened.iter().try_for_each(named)?;
    }
    let keys = args.order(&b.ledger)?;
    args.form.check(&a.ledger)?;
    args.form.check(&b.ledger)?;
    let form = args.form.get();
    // What is so many seconds old is the same block in both, if it is one.
    let mut filters = [args.filter_for(a, if by_number { b } else { a })?, args.filter_for(b, b)?];
    let [filter_a, filter_b] = &mut filters;
    let mut progress = Progress::new("reading");
    let a_moment = moment_of(&a.ledger, SystemTime::now());
    filter_a.prepare_blocks(&mut |_| ())?;
    // The totals of `ecosmdd` are those of the whole files; only its lists are filtered.
    let filtered = !form.is_of_records();
    let chosen = Some(filter_a).filter(|_| filtered);
    let before = Census::of(&a.ledger, chosen, by_number, &mut |part| progress.show(part / 2.0))?;
    let b_moment = moment_of(&b.ledger, SystemTime::now());
    filter_b.prepare_blocks(&mut |_| ())?;
    let chosen = Some(filter_b).filter(|_| filtered);
    let mut show = |part| progress.show(0.5 + part / 2.0);
    let (diff, after) = if by_number {
        Diff::since(&before, &b.ledger, chosen, args.one_by_one(), &mut show)?
    } else {
        let after = Census::of(&b.ledger, chosen, false, &mut show)?;
        (across(args, [&a.ledger, &b.ledger], &mut filters, &before, &after)?, after)
    };
    drop(progress);
    if diff.all.iter().all(|all| all.blocks == 0) {
        let [of_a, of_b] = &mut filters;
        let unknown = [(&a.ledger, of_a), (&b.ledger, of_b)];
        let [of_a, of_b] = unknown.map(|(ledger, filter)| args.filter.unknown(ledger, filter.names()));
        tell_unknown(&[of_a?, of_b?]);
    }
    let [name_a, name_b] = [a.context.ledger.as_str(), b.context.ledger.as_str()];
    let sides = [DiffSide { ledger: name_a, unix_ns: a_moment }, DiffSide { ledger: name_b, unix_ns: b_moment }];
    let mut out = args.view.output(form, true);
    if form.is_of_records() {
        return one_by_one::records(args, &opened, &mut filters, [&before, &after], &keys, &diff, &mut out);
    }
    let mut report = Comparison::new(args, out, &diff, [name_a, name_b], b.context.paint, &filters[1])?;
    report.totals(&diff, sides)?;
    if args.blocks {
        return one_by_one::blocks(args, &opened, &mut filters, [&before, &after], &keys, report);
    }
    let mut names = ChangeNames { names: filters.map(Evaluator::into_names) };
    grouped(args, [&a.ledger, &b.ledger], &diff, &mut names, report)
}

/// Where neither has any such block: says which names that were asked for neither knows.
fn tell_unknown([first, second]: &[Vec<Unknown>; 2]) {
    for unknown in second.iter().filter(|unknown| first.iter().any(|other| other.is_same(unknown))) {
        crate::say(&clean(&unknown.to_string()));
    }
}

/// What both could not see, each thing once.
fn seen_of(ledgers: [&Ledger; 2]) -> Result<Seen> {
    let mut seen = Seen::of(ledgers[0], 0)?;
    add_notes(&mut seen, Seen::of(ledgers[1], 0)?.notes);
    Ok(seen)
}

fn add_notes(seen: &mut Seen, notes: Vec<Note>) {
    let is_list = |note: &Note| matches!(note, Note::WithoutDebugInfo(_));
    let is_advice = |note: &Note| matches!(note, Note::Advice(_));
    for note in notes {
        // Modules without debug information are one list for both.
        if let (Note::WithoutDebugInfo(more), Some(Note::WithoutDebugInfo(paths))) =
            (&note, seen.notes.iter_mut().find(|note| is_list(note)))
        {
            paths.extend(more.iter().filter(|path| !paths.contains(path)).cloned().collect::<Vec<_>>());
            paths.sort();
        } else if let (Note::Advice(more), Some(Note::Advice(advice))) =
            (&note, seen.notes.iter_mut().find(|note| is_advice(note)))
        {
            advice.join(more);
        } else if !seen.notes.contains(&note) {
            seen.notes.push(note);
        }
    }
}

/// The moment that a ledger tells of, in nanoseconds since 1970.
fn moment_of(ledger: &Ledger, now: SystemTime) -> Option<u64> {
    if let Some(moment) = ledger.moment_unix_ns() {
        return Some(moment);
    }
    if ledger.is_running() {
        return Some(u64::try_from(now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()).unwrap_or(u64::MAX));
    }
    // When it ended, as far as that is known.
    let start = Some(ledger.header().start_unix_ns).filter(|start| *start != 0)?;
    let wall = ledger.process().number(key::WALL_NS);
    wall.and_then(|wall| start.checked_add(wall))
}

/// Two runs: all stacks are named, and compared by their functions.
fn across(
    args: &DiffArgs,
    [a, b]: [&Ledger; 2],
    filters: &mut [Evaluator<'_>; 2],
    before: &Census,
    after: &Census,
) -> Result<Diff> {
    let mut keys = StackKeys::new(&a.modules()?, &b.modules()?);
    find_names(filters[0].names(), before.sites(), args.form.is_json())?;
    find_names(filters[1].names(), after.sites(), args.form.is_json())?;
    Diff::across(before, after, &mut |side, site| Ok(keys.key(&filters[side.min(1)].names().stack(site)?)))
}

/// Where a comparison is written to.
enum Comparison {
    Text(DiffText<Output>),
    Json(DiffJson<Output>),
}

impl Comparison {
    fn new(
        args: &DiffArgs,
        out: Output,
        diff: &Diff,
        ledgers: [&str; 2],
        paint: heapledger_report::Paint,
        filter: &Evaluator<'_>,
    ) -> Result<Comparison> {
        let filter = Some(filter.text()).filter(|_| !filter.is_all());
        if args.form.is_json() {
            return Ok(Comparison::Json(DiffJson::new(out, ledgers, diff.sampled, filter)?));
        }
        let mut text = DiffText::new(out, diff, args.frames.unwrap_or(FRAMES), paint);
        if let Some(filter) = filter {
            text.filter(filter)?;
        }
        Ok(Comparison::Text(text))
    }

    fn totals(&mut self, diff: &Diff, sides: [DiffSide<'_>; 2]) -> Result<()> {
        match self {
            Comparison::Text(text) => text.totals(diff, sides)?,
            Comparison::Json(json) => json.totals(diff, sides, true)?,
        }
        Ok(())
    }
}

/// The changes that are shown, of `Grown` and of `Shrunk`: most change first.
fn shown(diff: &Diff, limit: usize) -> [Vec<&Change>; 2] {
    let limit = if limit == 0 { usize::MAX } else { limit };
    let up = |change: &&Change| matches!(change.kind, ChangeKind::New | ChangeKind::Grown);
    let grown = diff.changes.iter().filter(up).take(limit).collect();
    let shrunk = diff.changes.iter().rev().filter(|change| !up(change)).take(limit).collect();
    [grown, shrunk]
}

/// Names of the stacks of changes: as the second ledger knows them, or the first where they are gone.
struct ChangeNames<'a> {
    names: [Names<'a>; 2],
}

impl ChangeNames<'_> {
    fn find(&mut self, lists: &[Vec<&Change>; 2], source_text: bool) -> Result<()> {
        for (side, names) in self.names.iter_mut().enumerate() {
            let places = lists.iter().flatten().map(|change| Self::place(change));
            let sites = places.filter(|place| place.0 == side).map(|place| place.1);
            find_names(names, sites, source_text)?;
        }
        Ok(())
    }

    fn place(change: &Change) -> (usize, u32) {
        match change.sites {
            [_, Some(site)] => (1, site),
            [site, None] => (0, site.unwrap_or(0)),
        }
    }

    fn stack(&mut self, change: &Change) -> Result<NamedStack> {
        let (side, site) = Self::place(change);
        Ok(self.names[side].stack(site)?)
    }

    fn add_notes(&mut self, seen: &mut Seen) {
        self.names.iter_mut().for_each(|names| add_notes(seen, names.notes()));
    }
}

fn grouped(
    args: &DiffArgs,
    ledgers: [&Ledger; 2],
    diff: &Diff,
    names: &mut ChangeNames<'_>,
    report: Comparison,
) -> Result<()> {
    let lists = shown(diff, args.limit(STACKS));
    names.find(&lists, args.form.is_json())?;
    let mut seen = seen_of(ledgers)?;
    match report {
        Comparison::Json(mut json) => {
            for change in lists.iter().flatten() {
                json.change(change, &names.stack(change)?)?;
            }
            names.add_notes(&mut seen);
            let shown = lists.iter().map(Vec::len).sum::<usize>() as u64;
            let left_out = (diff.changes.len() as u64).saturating_sub(shown);
            json.end(Ending { shown, left_out, in_flight: diff.in_flight }, &seen)?;
        }
        Comparison::Text(mut text) => {
            for (heading, list, sum) in [("Grown", &lists[0], diff.growth()), ("Shrunk", &lists[1], diff.shrinkage())] {
                if list.is_empty() {
                    continue;
                }
                text.list(heading, sum, list.iter().copied())?;
                for change in list {
                    text.change(change, &names.stack(change)?, true)?;
                }
                let bytes = list.iter().map(|change| change.bytes()).fold(0, i64::saturating_add);
                if let left @ 1.. = sum.0 - list.len() as u64 {
                    text.left_out(left, sum.1.saturating_sub(bytes))?;
                }
            }
            if diff.changes.is_empty() {
                text.line("\nNo stack holds more or less than before.")?;
            }
            names.add_notes(&mut seen);
            text.end(&seen)?;
        }
    }
    Ok(())
}

/// Refuses what nobody writes any more.
fn must_run(ledger: &Ledger, shown: &str) -> Result<()> {
    if !ledger.is_running() {
        bail!("{shown} has ended: there is nothing to wait for");
    }
    Ok(())
}
