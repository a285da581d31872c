//! The errors of a session: a report for each process that has some, one after the other. One ledger is open at a time.

use std::cell::RefCell;
use std::io::{self, Write};

use anyhow::Result;
use heapledger_analysis::{FamilyNote, Seen, excuse, sites_of};
use heapledger_report::{ErrorsReport, Form, Report, ReportError, clean, counted, nothing_found, sentence};
use heapledger_source::{Family, Ledger};
use heapledger_symbols::Symbolizer;

use super::{ErrorsArgs, origin};
use crate::commands::sessions::{self, ProcessLabels, TopLevel};
use crate::commands::standard::Usage;
use crate::commands::{SourceText, find_names};

/// All of them, as one report.
struct SessionErrors<'a> {
    args: &'a ErrorsArgs,
    family: &'a Family,
    seen: Seen,
    symbolizer: RefCell<Option<Symbolizer>>,
}

/// Shows the errors of `family`.
pub(super) fn show(args: &ErrorsArgs, family: &Family) -> Result<()> {
    args.suppress.get()?;
    if *args.form.get() == Form::Csv {
        return Err(Usage::new("--csv is a table of one process: SESSION:PID; --json has all").into());
    }
    let (seen, symbolizer) = (Seen::default(), RefCell::new(None));
    let mut report = SessionErrors { args, family, seen, symbolizer };
    args.ledger.view.present(args.form.get(), &mut report)
}

impl Report for SessionErrors<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        let mut labels = ProcessLabels::new(TopLevel::Process);
        let (mut errors, mut processes) = (0u64, 0u64);
        let notes = sessions::each_ledger(self.family, &self.args.naming, &mut |member, ledger| {
            let label = labels.next(member);
            let found = self.one(form, &label, processes == 0, ledger, out)?;
            errors += found;
            processes += u64::from(found != 0);
            Ok(Vec::new())
        });
        let notes: Vec<FamilyNote> = notes.map_err(|error| match error.downcast::<io::Error>() {
            Ok(error) => ReportError::Write(error),
            Err(error) => ReportError::Write(io::Error::other(format!("{error:#}"))),
        })?;
        self.seen = sessions::seen(notes);
        if *form == Form::Json && processes == 0 {
            nothing_found(&self.args.ledger.ledger.to_string_lossy(), &self.seen, out)?;
        }
        if *form == Form::Text {
            let paint = self.args.ledger.paint();
            let of = counted(self.family.tree().processes.len() as u64, "process", "processes");
            if errors == 0 {
                writeln!(out, "No errors in {of}.")?;
            } else {
                let errors = counted(errors, "error", "errors");
                writeln!(out, "{errors} in {} of {of}.", counted(processes, "process", "processes"))?;
            }
            for note in &self.seen.notes {
                writeln!(out, "Not seen: {}", paint.lines(&clean(&sentence(note)), 10, 10))?;
            }
        }
        Ok(out.flush()?)
    }

    fn seen(&self) -> &Seen {
        &self.seen
    }
}

impl SessionErrors<'_> {
    /// Writes the report of one process, if there are errors that count; how many.
    fn one(&self, form: &Form, label: &str, is_first: bool, ledger: Ledger, out: &mut dyn Write) -> Result<u64> {
        let args = self.args;
        let mut errors = ledger.errors()?;
        if errors.is_empty() {
            return Ok(0);
        }
        let path = ledger.path().as_os_str().to_owned();
        let opened = args.ledger.opened(&[&path], ledger)?;
        let ledger = &opened.ledger;
        let mut names = args.naming.names_with(ledger, self.symbolizer.take())?;
        find_names(&mut names, sites_of(&errors), SourceText::Shown)?;
        let excused = excuse(&mut errors, &args.suppress.get()?, &mut |site| names.stack(site))?;
        let found = errors.len() as u64;
        if found != 0 {
            let left_out = if args.limit == 0 { 0 } else { errors.len().saturating_sub(args.limit) };
            errors.truncate(errors.len() - left_out);
            if *form == Form::Text {
                let paint = args.ledger.paint();
                writeln!(out, "{}{}", if is_first { "" } else { "\n" }, paint.strong(format!("== {}", clean(label))))?;
            }
            let origins = &origin::origins(self.family, ledger, &errors, &args.naming, &mut names)?;
            let (labels, seen, tokens) = (&ledger.labels()?, Seen::of(ledger, 0)?, args.dedup_token);
            let (context, errors, excused, left_out) = (&opened.context, &errors, &excused, left_out as u64);
            let names = &mut names;
            ErrorsReport { context, errors, origins, excused, left_out, tokens, labels, names, seen }
                .write(form, out)?;
            if *form == Form::Text {
                writeln!(out)?;
            }
        }
        self.symbolizer.replace(Some(names.into_symbolizer()));
        Ok(found)
    }
}
