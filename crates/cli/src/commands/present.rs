//! Reports on their way out: the one place where they are written.

use std::io::{self, Write};

use anyhow::Result;
use heapledger_report::{Form, Report, ReportError, Stepwise};

use crate::commands::ViewArgs;
use crate::say;
use crate::terminal::{Output, Paging};

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
            Form::Json | Form::Csv => Output::data(),
            Form::Lines { .. } => text(pager).open(),
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

/// Nobody reads any further (`heapledger dump … | head`): that is no failure.
pub(super) fn unless_pipe_closed(result: Result<()>) -> Result<()> {
    let closed = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    match result {
        Err(error) if error.chain().any(closed) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let closed = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(unless_pipe_closed(Err(closed.into())).is_ok());
        assert!(unless_pipe_closed(Err(io::Error::from(io::ErrorKind::StorageFull).into())).is_err());
        assert!(unless_pipe_closed(Ok(())).is_ok());
    }
}
