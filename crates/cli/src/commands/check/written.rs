//! Where the report of a check goes.

use std::io;
use std::path::Path;

use anyhow::Result;
use heapledger_launch::output::replace;
use heapledger_report::{Form, Paint, Report, ReportError};

use super::CheckArgs;
use crate::commands::present::unwritten;
use crate::terminal::Output;

/// Writes the report to where it was asked for; `set_paint` says how its text looks.
pub(super) fn write<R: Report>(args: &CheckArgs, report: &mut R, set_paint: fn(&mut R, Paint)) -> Result<()> {
    let (view, form) = (&args.ledger.view, args.form.get());
    let paint = args.ledger.paint();
    let plain = Paint { exact_bytes: paint.exact_bytes, ..Paint::default() };
    // `-` is standard output, where it goes anyway.
    match args.output.as_ref().filter(|path| *path != Path::new("-")) {
        None if *form == Form::Text => view.present(form, report),
        None => report.write(form, &mut Output::data()).map_err(unwritten),
        Some(path) => {
            set_paint(report, plain);
            replace(path, |out| match report.write(form, out) {
                Err(ReportError::Write(error)) => Err(error),
                other => other.map_err(io::Error::other),
            })?;
            set_paint(report, paint);
            view.present(&Form::Text, report)
        }
    }
}
