//! What each record looks like: arguments of commands that show records.

use anyhow::Result;
use heapledger_analysis::source::Ledger;
use heapledger_analysis::{NamedStack, Names, Seen};
use heapledger_report::ecos::Shape;
use heapledger_report::{Abilities, Ending, Format, count, sentence};

use crate::say;

/// Arguments of commands that show records.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "What records look like")]
pub(crate) struct ShapeArgs {
    /// A line for each record, made of conversions: '%p : %a %n bytes by %f1'; they are listed below
    #[arg(short, long, value_name = "FORMAT", value_parser = format, allow_hyphen_values = true,
        conflicts_with = "json")]
    format: Option<Format>,
    #[command(flatten)]
    style: StyleArgs,
}

/// Whether a report looks as ours or as that of `ecosmdd`.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct StyleArgs {
    /// The shape of the report
    #[arg(long, value_enum, value_name = "STYLE", default_value_t = Style::Plain, conflicts_with = "json")]
    style: Style,
}

/// Shapes of reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Style {
    /// For people
    #[default]
    Plain,
    /// As ecosmdd writes it
    Ecos,
}

impl StyleArgs {
    /// Whether it is that of `ecosmdd`.
    pub(crate) fn is_ecos(self) -> bool {
        self.style == Style::Ecos
    }
}

fn format(text: &str) -> Result<Format, String> {
    Format::parse(text).map_err(|error| error.to_string())
}

impl ShapeArgs {
    /// What was asked for; `None` if nothing was. Refused if the ledger does not record what the format asks for.
    pub(crate) fn get(&self, ledger: &Ledger) -> Result<Option<Shape>> {
        match &self.format {
            Some(format) => {
                format.check(Abilities::of(ledger))?;
                Ok(Some(Shape::Format(format.clone())))
            }
            None => Ok(self.style.is_ecos().then_some(Shape::Ecos)),
        }
    }

    /// Whether the style is that of `ecosmdd`.
    pub(crate) fn is_ecos(&self) -> bool {
        self.style.is_ecos()
    }

    /// Whether records are shown for programs, who want all of them.
    pub(crate) fn is_for_programs(&self) -> bool {
        self.format.is_some() || self.is_ecos()
    }
}

/// The stack of `site` as far as the shape shows any of it.
pub(crate) fn shown_stack(shape: &Shape, names: &mut Names<'_>, site: u32) -> Result<NamedStack> {
    Ok(if shape.needs_stack() { names.stack(site)? } else { NamedStack::default() })
}

/// Says on stderr what a report has no place for: what it left out and what it could not see.
pub(crate) fn tell_ending(ending: Ending, seen: &Seen) {
    if ending.left_out != 0 {
        say(&format!("{} left out (--limit 0 shows all)", count(ending.left_out)));
    }
    tell_notes(seen);
}

/// Says on stderr what could not be seen, where a table has no place for that.
pub(crate) fn tell_notes(seen: &Seen) {
    for note in &seen.notes {
        say(&sentence(note));
    }
}
