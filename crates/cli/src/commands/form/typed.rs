//! How a form is typed: `--format`, and short ways to say the same.

use std::marker::PhantomData;

use anyhow::Result;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, Error, FromArgMatches};
use heapledger_report::{Form, Format};

use super::{FormArgs, Forms};

/// The heading of these options in help texts.
const HEADING: &str = "Output format";

/// The forms that have an option of their own, by its name, and what is said of it.
const SHORT_WAYS: [(&str, Form, &str); 2] = [
    ("json", Form::Json, "Short for --format json: one JSON object a line, as described in docs/json.md"),
    ("csv", Form::Csv, "Short for --format csv: a table with plain numbers, bytes and nanoseconds"),
];

impl<F: Forms> clap::Args for FormArgs<F> {
    fn augment_args(command: Command) -> Command {
        let values = F::ALL.iter().map(Form::words).map(|(name, about)| PossibleValue::new(name).help(about));
        let format = Arg::new("format").long("format").value_name("FORM").help("Output format");
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
