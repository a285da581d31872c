//! In which form a report is written: the same options for every command, and the one place where reports are.

use std::io::Write;
use std::marker::PhantomData;

use anyhow::Result;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, Error, FromArgMatches};
use heapledger_analysis::Seen;
use heapledger_report::{Abilities, Form, Format, Report, ReportError, Stepwise, sentence};
use heapledger_source::Ledger;

use super::ViewArgs;
use crate::say;
use crate::terminal::{Output, Paging};

/// The heading of these options in help texts.
const HEADING: &str = "Output format";

/// The forms of the reports of a command.
pub(crate) trait Forms {
    /// All of them; the usual one first.
    const ALL: &'static [Form];
    /// Whether records can be shown as somebody wants them.
    const LINES: bool = false;
}

/// Forms of totals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Totals;
/// Forms of blocks and events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Records;
/// Forms of anything that is a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables;
/// Forms of what is a sentence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sentences;
/// Forms of flame graphs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flames;
/// Forms of a check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checks;

impl Forms for Totals {
    const ALL: &'static [Form] = &[Form::Text, Form::Json, Form::Csv, Form::Ecos];
}

impl Forms for Records {
    const ALL: &'static [Form] = Totals::ALL;
    const LINES: bool = true;
}

impl Forms for Tables {
    const ALL: &'static [Form] = &[Form::Text, Form::Json, Form::Csv];
}

impl Forms for Sentences {
    const ALL: &'static [Form] = &[Form::Text, Form::Json];
}

impl Forms for Flames {
    const ALL: &'static [Form] = &[Form::Html, Form::Svg, Form::Folded, Form::Json];
}

impl Forms for Checks {
    const ALL: &'static [Form] = &[Form::Text, Form::Json, Form::Junit, Form::Sarif, Form::Github];
}

/// In which form a report is written: `--format`, and short ways to say the same.
#[derive(Clone, Debug)]
pub(crate) struct FormArgs<F> {
    given: Option<Form>,
    forms: PhantomData<F>,
}

impl<F> Default for FormArgs<F> {
    fn default() -> FormArgs<F> {
        FormArgs { given: None, forms: PhantomData }
    }
}

impl<F: Forms> FormArgs<F> {
    /// The form: what was asked for, else the usual one.
    pub(crate) fn get(&self) -> &Form {
        self.given.as_ref().unwrap_or(&F::ALL[0])
    }

    /// The form that was asked for, if one was.
    pub(crate) fn given(&self) -> Option<&Form> {
        self.given.as_ref()
    }

    /// Whether it is JSON.
    pub(crate) fn is_json(&self) -> bool {
        *self.get() == Form::Json
    }

    /// Whether it is CSV.
    pub(crate) fn is_csv(&self) -> bool {
        *self.get() == Form::Csv
    }

    /// Refused if the ledger does not record what a line for each record asks for.
    pub(crate) fn check(&self, ledger: &Ledger) -> Result<()> {
        if let Form::Lines { template, .. } = self.get() {
            template.check(Abilities::of(ledger))?;
        }
        Ok(())
    }
}

/// The forms that have an option of their own, by its name, and what is said of it.
const SHORT_WAYS: [(&str, Form, &str); 2] = [
    ("json", Form::Json, "Short for --format json: one JSON object a line, as described in docs/json.md"),
    ("csv", Form::Csv, "Short for --format csv: a table with plain numbers, bytes and nanoseconds"),
];

impl<F: Forms> clap::Args for FormArgs<F> {
    fn augment_args(command: Command) -> Command {
        let values = F::ALL.iter().map(Form::words).map(|(name, about)| PossibleValue::new(name).help(about));
        let format = Arg::new("format").long("format").value_name("FORM").help("In which form it is written");
        let mut command = command.arg(format.value_parser(PossibleValuesParser::new(values)).help_heading(HEADING));
        let mut all = vec!["format"];
        for (name, _, help) in SHORT_WAYS.into_iter().filter(|(_, form, _)| F::ALL.contains(form)) {
            let short = Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
            command = command.arg(short.help_heading(HEADING));
            all.push(name);
        }
        if F::LINES {
            let lines = Arg::new("template").short('f').long("template").value_name("TEMPLATE");
            let help = "A line for each record, made of conversions: '%p : %a %n bytes by %f1'; they are listed below. \
                        With --format ecos, a history begins with ecosmdd's caution if it is not complete";
            let lines = lines.help(help).value_parser(|text: &str| Format::parse(text)).allow_hyphen_values(true);
            let others = all.iter().copied().filter(|name| *name != "format").collect::<Vec<_>>();
            command = command.arg(lines.conflicts_with_all(others).help_heading(HEADING));
        }
        command.group(ArgGroup::new("form").args(all).multiple(false))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<F: Forms> FromArgMatches for FormArgs<F> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<FormArgs<F>, Error> {
        let set = |name: &str| matches.try_get_one::<bool>(name).ok().flatten().is_some_and(|set| *set);
        let short = SHORT_WAYS.into_iter().find(|(name, ..)| set(name)).map(|(_, form, _)| form);
        let lines = matches.try_get_one::<Format>("template").ok().flatten();
        let named = match matches.get_one::<String>("format") {
            Some(name) => Some(F::ALL.iter().find(|form| form.words().0 == name).ok_or_else(|| {
                Error::raw(ErrorKind::InvalidValue, format!("--format: there is no form '{name}'\n"))
            })?),
            None => None,
        };
        let given = match (lines.cloned(), named) {
            (None, named) => short.or_else(|| named.cloned()),
            (Some(template), None) => Some(Form::Lines { template, cautioned: false }),
            (Some(template), Some(Form::Ecos)) => Some(Form::Lines { template, cautioned: true }),
            (Some(_), Some(other)) => {
                let problem = format!("--template cannot be used with --format {}, only with ecos\n", other.words().0);
                return Err(Error::raw(ErrorKind::ArgumentConflict, problem));
            }
        };
        Ok(FormArgs { given, forms: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = FormArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Reports that come one after the other, bit by bit, and go to one output. Their text goes through no pager.
pub(crate) struct Steps<'a> {
    form: &'a Form,
    view: &'a ViewArgs,
    /// It is opened for the first one.
    out: Option<Output>,
    done: u64,
}

impl<'a> Steps<'a> {
    pub(crate) fn new(form: &'a Form, view: &'a ViewArgs) -> Steps<'a> {
        Steps { form, view, out: None, done: 0 }
    }

    /// Writes the next one, to be seen at once.
    pub(crate) fn step(&mut self, report: &mut dyn Stepwise) -> Result<()> {
        self.done += 1;
        let out = self.out.get_or_insert_with(|| self.view.output(self.form, Paging::Never));
        report.step(self.form, self.done, out).map_err(unwritten)?;
        Ok(out.flush()?)
    }

    /// Writes what stands behind them; a report that is the only one as any.
    pub(crate) fn end(self, report: &mut dyn Stepwise) -> Result<()> {
        let Some(mut out) = self.out else { return self.view.present(self.form, report) };
        report.end(self.form, self.done, &mut out).map_err(unwritten)?;
        out.flush()?;
        tell_beside(self.form, report);
        Ok(())
    }
}

/// Says on standard error what a form of a report has no place for.
fn tell_beside(form: &Form, report: &dyn Report) {
    if !form.says_what_is_missing() {
        report.beside().iter().for_each(|text| say(text));
    }
}

impl ViewArgs {
    /// Standard output for a report of that form. Long text goes through a pager if that is allowed.
    pub(crate) fn output(&self, form: &Form, pager: Paging) -> Output {
        let pager = if self.no_pager { Paging::Never } else { pager };
        let text = |pager| Output::text(pager, self.color.is_on());
        match form {
            Form::Json => Output::data(),
            Form::Lines { .. } => text(pager).open(),
            Form::Csv => text(Paging::Never),
            _ => text(pager),
        }
    }

    /// Writes a report to standard output, and to standard error what its form has no place for.
    pub(crate) fn present(&self, form: &Form, report: &mut dyn Report) -> Result<()> {
        let mut out = self.output(form, Paging::Allowed);
        report.write(form, &mut out).map_err(unwritten)?;
        out.flush()?;
        tell_beside(form, report);
        Ok(())
    }
}

/// An error of a report as what it is.
pub(crate) fn unwritten(error: ReportError) -> anyhow::Error {
    match error {
        ReportError::Write(error) => error.into(),
        ReportError::Read(error) => error.into(),
        error @ ReportError::NoForm(_) => error.into(),
    }
}

/// Says on standard error what could not be seen, where a table has no place for that.
pub(crate) fn tell_notes(seen: &Seen) {
    for note in &seen.notes {
        say(&sentence(note));
    }
}
