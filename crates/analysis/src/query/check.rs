//! Whether a ledger can serve a filter.

use heapledger_format::TallyCounter;
use heapledger_source::Ledger;
use thiserror::Error;

use super::expr::{Filter, Test};
use super::lex::short;
use super::moments;
use super::parse::{NAMED_MAX, TESTS_MAX};
use super::sort::SortKeys;
use super::value::Value;
use crate::fields::{Field, Unit};

/// What a filter is to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Live blocks.
    Blocks,
    /// Allocations and frees.
    Events,
}

/// Why a ledger cannot serve something that was asked for.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// It was not recorded.
    #[error("'{asked}' cannot be asked of this ledger: it records no {what}{}", hint(.option))]
    NotRecorded {
        /// What was asked for.
        asked: String,
        /// What would have been needed.
        what: &'static str,
        /// What `run --without` calls it, if it has a name there.
        option: Option<&'static str>,
    },
    /// Only a history has it.
    #[error("'{0}' is known of events only: ask `history`; the blocks here are not freed")]
    EventsOnly(Field),
    /// The clock's ticks have no known length.
    #[error(
        "'{0}' cannot be compared with seconds: the ticks of this ledger's clock have no known length; write {0} >= 4000ticks"
    )]
    TicksOnly(Field),
    /// A thread was asked for by the number that the kernel gave it.
    #[error(
        "no thread has row {id} in this ledger; {id} is the kernel's number of the thread in row {row}: ask for thread {row}"
    )]
    ThreadId {
        /// What was asked for.
        id: u64,
        /// The row of the thread with that number.
        row: u32,
    },
    /// It was recorded before ledgers said which stacks were guessed.
    #[error(
        "'exact' cannot be asked of this ledger: it has guessed stacks and does not say which; an earlier heapledger recorded it"
    )]
    GuessesUntold,
    /// The program set no mark, opened no window, or gave no label.
    #[error("'{}' cannot be asked of this ledger: its program {}", .0, told_none(.0))]
    NothingTold(Field),
    /// No label has the key.
    #[error("'{asked}' cannot be asked of this ledger: its labels have the keys {}", .keys.join(", "))]
    NoSuchKey {
        /// What was asked for.
        asked: Field,
        /// The keys that there are.
        keys: Vec<String>,
    },
    /// Too many conditions.
    #[error("too many conditions: {TESTS_MAX} are the most, {NAMED_MAX} of them on names of code")]
    TooMany,
}

fn hint(option: &Option<&'static str>) -> String {
    option.map_or_else(String::new, |option| format!(" (`run --without {option}`, or a device that cannot)"))
}

fn told_none(field: &Field) -> &'static str {
    match field.unit() {
        Unit::Label => "gave no label",
        Unit::Window => "opened no window",
        _ => "set no mark",
    }
}

/// Whether the program told anything of the kind that `field` is about.
fn told(ledger: &Ledger, field: Field) -> Result<(), Unsupported> {
    // A table that cannot be read is told of by whoever reads it for its names.
    let is_none = match field.unit() {
        Unit::Mark | Unit::Window => moments::names(field, ledger).is_ok_and(|names| names.is_empty()),
        Unit::Label => ledger.labels().is_ok_and(|labels| labels.count() == 0),
        _ => false,
    };
    match field.label_key() {
        _ if is_none => Err(Unsupported::NothingTold(field)),
        Some(key) => match ledger.labels() {
            Ok(labels) if !labels.keys().contains(key) => {
                let keys = labels.keys().into_iter().map(short).collect();
                Err(Unsupported::NoSuchKey { asked: field, keys })
            }
            _ => Ok(()),
        },
        None => Ok(()),
    }
}

/// Whether `ledger` records what `field` needs. `asked` is what it was called by who asked.
pub(crate) fn recorded(ledger: &Ledger, field: Field, asked: &str) -> Result<(), Unsupported> {
    let options = ledger.header().options;
    match field.needs().iter().find(|(option, ..)| !options.has(*option)) {
        Some((_, what, option)) => Err(Unsupported::NotRecorded { asked: asked.to_owned(), what, option: *option }),
        None => told(ledger, field),
    }
}

impl Filter {
    /// Whether `ledger` records what this asks for.
    ///
    /// # Errors
    /// If not: the first field that is missing, and why.
    pub fn check(&self, ledger: &Ledger, scope: Scope) -> Result<(), Unsupported> {
        self.check_size()?;
        let Some(expr) = &self.expr else { return Ok(()) };
        let mut found = Ok(());
        expr.for_each(&mut |test| {
            if found.is_ok() {
                found = check(test, ledger, scope);
            }
        });
        found
    }

    /// Whether this has no more conditions than any ledger is asked for at a time: what was joined by
    /// [`Filter::and`] may have.
    ///
    /// # Errors
    /// [`Unsupported::TooMany`].
    pub fn check_size(&self) -> Result<(), Unsupported> {
        let (mut tests, mut named) = (0, 0);
        if let Some(expr) = &self.expr {
            expr.for_each(&mut |test| {
                tests += 1;
                named += usize::from(test.field.is_of_stack());
            });
        }
        if tests > TESTS_MAX || named > NAMED_MAX { Err(Unsupported::TooMany) } else { Ok(()) }
    }
}

/// Whether threads are asked for by their rows. The kernel's numbers are often what is at hand; blocks that are none
/// would be a wrong answer.
fn check_rows(test: &Test, ledger: &Ledger) -> Result<(), Unsupported> {
    let numbers =
        || test.values.iter().filter_map(|value| if let Value::Number(id) = value { Some(*id) } else { None });
    if test.field != Field::Thread || numbers().next().is_none() {
        return Ok(());
    }
    // A table that cannot be read is told of by whoever reads it for its names.
    let threads = ledger.threads().unwrap_or_default();
    for id in numbers().filter(|id| threads.iter().all(|thread| u64::from(thread.row.0) != *id)) {
        if let Some(thread) = threads.iter().find(|thread| u64::from(thread.id) == id) {
            return Err(Unsupported::ThreadId { id, row: thread.row.0 });
        }
    }
    Ok(())
}

fn check(test: &Test, ledger: &Ledger, scope: Scope) -> Result<(), Unsupported> {
    test.field.check_in(ledger, scope)?;
    if test.field == Field::Exact && !ledger.tells_guesses() {
        // Where nothing was guessed, all is exact.
        let guessed = ledger.tallies().map_or(0, |tallies| tallies.get(TallyCounter::StacksGuessed));
        if guessed != 0 {
            return Err(Unsupported::GuessesUntold);
        }
    }
    let seconds = |value: &Value| matches!(value, Value::Span(ns) if *ns != 0);
    if ledger.header().tick_ns == 0 && test.values.iter().any(seconds) {
        return Err(Unsupported::TicksOnly(test.field));
    }
    check_rows(test, ledger)
}

impl SortKeys {
    /// Whether `ledger` records what is sorted by.
    ///
    /// # Errors
    /// If not: the first key that is missing, and why.
    pub fn check(&self, ledger: &Ledger) -> Result<(), Unsupported> {
        for key in self.keys() {
            recorded(ledger, key.by, key.by.name())?;
        }
        Ok(())
    }
}
