//! The formats as they are asked for, and as help lists them.

use std::ffi::OsStr;
use std::fmt::Write;

use anyhow::Result;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use heapledger_export::{Comparison, ExportFormat, FORMATS, format_named};

use super::ExportArgs;
use crate::commands::standard::Usage;

/// Takes the name of a format.
#[derive(Clone, Debug)]
pub(super) struct FormatName;

impl TypedValueParser for FormatName {
    type Value = &'static ExportFormat;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<&'static ExportFormat, clap::Error> {
        let name = StringValueParser::new().parse_ref(command, argument, value)?;
        format_named(&name).ok_or_else(|| {
            let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
            error.insert(ContextKind::InvalidArg, ContextValue::String("<FORMAT>".to_owned()));
            error.insert(ContextKind::InvalidValue, ContextValue::String(name));
            let names = FORMATS.iter().map(|format| format.name.to_owned()).collect();
            error.insert(ContextKind::ValidValue, ContextValue::Strings(names));
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.about))))
    }
}

/// What stands behind the options in help: what is written, the list of formats, and examples.
pub(super) fn after_help(before: &str, examples: &str) -> String {
    let width = FORMATS.iter().map(|format| format.name.len()).max().unwrap_or(0);
    let mut text = format!("{before}\n\nFormats:\n");
    for format in FORMATS {
        let _ = writeln!(text, "  {:width$}  {}", format.name, format.about);
    }
    text + "\n" + examples
}

/// Refuses what the format cannot hold.
pub(super) fn check(args: &ExportArgs) -> Result<()> {
    args.filter.parse()?;
    let (format, measure) = (args.format, args.figure.single()?);
    match (format.comparison, &args.diff) {
        (Comparison::Never, Some(_)) => {
            return Err(Usage::new(format!("{} cannot hold a comparison of two ledgers", format.name)).into());
        }
        (Comparison::Always, None) => {
            return Err(
                Usage::new(format!("{} is of two ledgers: give the older one as --diff OLD", format.name)).into()
            );
        }
        _ => {}
    }
    if !format.holds(measure) {
        let figure = heapledger_report::measure_name(measure);
        return Err(Usage::new(format!("{} has no place for this figure: {figure}", format.name)).into());
    }
    Ok(())
}
