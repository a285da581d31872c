//! `heapledger top`: what lives, again and again.

use std::ffi::OsStr;

use anyhow::Result;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command};
use heapledger_analysis::fields::Field;
use heapledger_analysis::watch::{RowOrder, row_orders};

use super::form::Tables;
use super::standard::{ExecutableArgs, FilterArgs};
use super::{FormArgs, LedgerArgs, NamingArgs};
use crate::top;

/// Arguments of `top`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "heapledger top [OPTIONS] [EXECUTABLE] <FILE|PID>")]
#[command(after_help = "\
Keys: ? lists all. Enter goes into a row: its stacks, then a stack with source
lines; Esc goes back. m sets a mark: from then on only what was allocated since
and still lives is shown; M takes it away. / chooses rows by name, f blocks by
a condition.

The program is not stopped and not slowed down: its ledger is a file, only
read. With very many live blocks the table is read less often than the figures
above it; the first line says how often.

Examples:
  heapledger top 4711                    a process that is being recorded
  heapledger top heapledger.jq.4711.hl   a finished ledger, to explore
  heapledger top build                   the processes of a session
  heapledger top --where 'size >= 64K' --group-by stack 4711
  heapledger top --batch 10 -i 60 4711   ten looks as text, a minute apart
  heapledger top --batch 2 -i 600 --mark 4711   what ten minutes left behind
  heapledger top --batch 1 --json --group-by stack 4711")]
pub(crate) struct TopArgs {
    /// Seconds between two looks
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub(crate) interval: f64,
    /// Print N readings as text and exit; 0: until the program ends
    #[arg(short, long, value_name = "N")]
    pub(crate) batch: Option<u64>,
    /// Set a mark at the first look: later ones show only what was allocated since and still lives
    #[arg(short, long)]
    pub(crate) mark: bool,
    /// What a row stands for at first
    #[arg(short, long, value_name = "GROUP", default_value = "function", value_parser = GroupParser)]
    pub(crate) group_by: Field,
    /// Sort by this column
    #[arg(short, long, value_name = "COLUMN", default_value = row_orders()[0].1, value_parser = OrderParser)]
    pub(crate) sort: RowOrder,
    /// Rows of a look that is printed, 0 for all
    #[arg(short, long, visible_alias = "top", value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) form: FormArgs<Tables>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    #[command(flatten)]
    pub(crate) executable: ExecutableArgs,
}

/// Shortest and longest interval, in seconds.
pub(crate) const INTERVALS: [f64; 2] = [0.1, 3600.0];

/// Reads what rows are.
#[derive(Clone)]
struct GroupParser;

impl GroupParser {
    fn values() -> impl Iterator<Item = PossibleValue> {
        Field::watched().iter().map(|(field, (name, meaning))| {
            let others = field.group_names().iter().filter(move |other| *other != name);
            PossibleValue::new(*name).help(*meaning).aliases(others.copied())
        })
    }
}

impl TypedValueParser for GroupParser {
    type Value = Field;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<Field, clap::Error> {
        let name = PossibleValuesParser::new(Self::values()).parse_ref(command, argument, value)?;
        let named = |field: &&Field| field.watched_name() == name || field.group_names().contains(&name.as_str());
        let mut fields = Field::watched().iter().map(|(field, _)| field);
        Ok(fields.find(named).copied().unwrap_or(Field::Function))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Self::values()))
    }
}

/// Reads what rows are put in order by.
#[derive(Clone)]
struct OrderParser;

impl TypedValueParser for OrderParser {
    type Value = RowOrder;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<RowOrder, clap::Error> {
        let names = row_orders().map(|(_, name, _)| PossibleValue::new(name));
        let wanted = PossibleValuesParser::new(names).parse_ref(command, argument, value)?;
        Ok(row_orders().into_iter().find(|(_, name, _)| *name == wanted).and_then(|(order, ..)| order))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values = row_orders().map(|(_, name, meaning)| PossibleValue::new(name).help(meaning));
        Some(Box::new(values.into_iter()))
    }
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.trim_end_matches('s').parse().map_err(|_| "it is no number of seconds".to_owned())?;
    if (INTERVALS[0]..=INTERVALS[1]).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(format!("it must be from {} to {}", INTERVALS[0], INTERVALS[1]))
    }
}

/// Shows a ledger as it changes.
pub(crate) fn run(mut args: TopArgs) -> Result<()> {
    args.executable.put_apart(&mut args.ledger.ledger, &mut args.naming)?;
    super::unless_pipe_closed(top::run(&args))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals() {
        assert_eq!(interval("2"), Ok(2.0));
        assert_eq!(interval("0.5s"), Ok(0.5));
        for wrong in ["0", "-1", "x", "", "1e9", "NaN", "inf"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
