//! `heapledger diff`: what became of the blocks between two ledgers, or two moments of a process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use heapledger_analysis::diff::one_run;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::Unknown;
use heapledger_report::clean;

use super::figure::At;
use super::ledgers::is_elf;
use super::standard::Usage;
use super::{Opened, unless_pipe_closed};
use every::{GroupsFollowed, StacksFollowed};

mod args;
mod blocks;
mod every;
mod group_by;
mod peak;
mod sessions;
mod stacks;

pub(crate) use args::DiffArgs;

/// Compares.
pub(crate) fn run(mut args: DiffArgs) -> Result<()> {
    if let Some(families) = sessions::both(&args)? {
        return unless_pipe_closed(sessions::compare(&args, &families));
    }
    let by = prepare(&mut args)?;
    let (args, by) = (&args, by.as_deref());
    if args.at == At::Peak {
        return unless_pipe_closed(peak::compare(args));
    }
    let result = match (args.ledgers.as_slice(), args.every.or(args.after), by) {
        ([one], Some(interval), by) => itself(args, &every::open(args, one)?, interval, by),
        ([a, b], None, by) => two(args, [args.open(a)?, args.open(b)?], by),
        (_, Some(_), _) => return Err(Usage::new("--every and --after take one process").into()),
        (_, None, _) => {
            return Err(Usage::new("two ledgers are needed, or one process with --every or --after").into());
        }
    };
    unless_pipe_closed(result)
}

/// Tells mistakes before anything is read, takes an executable from before the ledgers, and says what sums are made by,
/// if not by call stack.
fn prepare(args: &mut DiffArgs) -> Result<Option<Vec<Field>>> {
    args.filter.parse()?;
    let interval = args.every.or(args.after);
    if args.form.get().is_of_records() && (args.group_by.is_some() || interval.is_some()) {
        return Err(Usage::new("-f and --format ecos are for single blocks of two ledgers").into());
    }
    if args.sort.parse()?.is_some() && !args.one_by_one() {
        return Err(Usage::new("an order is one of blocks: add --blocks; stacks come with most growth first").into());
    }
    let wanted = if interval.is_some() { 1 } else { 2 };
    // With the peak there may be one or two.
    let may_lead =
        args.at == At::Peak && args.ledgers.len() == 2 && is_elf(Path::new(&args.ledgers[0])).unwrap_or(false);
    if args.ledgers.len() == wanted + 1 || may_lead {
        let first = PathBuf::from(args.ledgers.remove(0));
        if !(first.is_file() && is_elf(&first).unwrap_or(false)) {
            return Err(Usage::new(format!("{} is no executable, and one ledger too many", first.display())).into());
        }
        args.naming.exe.insert(0, first);
    }
    group_by::by(args)
}

/// Compares a process with itself.
fn itself(args: &DiffArgs, opened: &Opened, interval: Duration, by: Option<&[Field]>) -> Result<()> {
    let ledger = &opened.ledger;
    match by {
        Some(by) => every::follow(args, ledger, interval, || GroupsFollowed::begin(args, opened, by)),
        None => every::follow(args, ledger, interval, || StacksFollowed::begin(args, opened)),
    }
}

/// Compares two ledgers.
fn two(args: &DiffArgs, opened: [Opened; 2], by: Option<&[Field]>) -> Result<()> {
    let [a, b] = &opened;
    args.naming.check(&[&a.ledger, &b.ledger])?;
    let by_number = one_run(&a.ledger, &b.ledger);
    ensure!(
        by_number || !args.one_by_one(),
        "{} and {} are of different runs: blocks can only be compared one by one within one run",
        a.context.ledger,
        b.context.ledger
    );
    match by {
        Some(by) => group_by::compare(args, &opened, by_number, by),
        None => stacks::compare(args, &opened, by_number),
    }
}

/// Where neither has any such block: says which names that were asked for neither knows.
fn tell_unknown([first, second]: &[Vec<Unknown>; 2]) {
    for unknown in second.iter().filter(|unknown| first.iter().any(|other| other.is_same(unknown))) {
        crate::say(&clean(&unknown.to_string()));
    }
}
