//! Where the report of a check goes.

use std::io;

use anyhow::Result;
use heapledger_launch::output::replace;
use heapledger_report::{CheckReport, Form, Paint, Report, ReportError};

use super::CheckArgs;
use crate::commands::present::unwritten;
use crate::terminal::Output;

/// Writes the report to where it was asked for.
pub(super) fn write(args: &CheckArgs, report: &mut CheckReport<'_>) -> Result<()> {
    let (view, form) = (&args.ledger.view, args.form.get());
    let paint = report.paint;
    let plain = Paint { exact_bytes: paint.exact_bytes, ..Paint::default() };
    match &args.output {
        None if *form == Form::Text => view.present(form, report),
        None => report.write(form, &mut Output::data()).map_err(unwritten),
        Some(path) => {
            report.paint = plain;
            replace(path, |out| match report.write(form, out) {
                Err(ReportError::Write(error)) => Err(error),
                other => other.map_err(io::Error::other),
            })?;
            report.paint = paint;
            view.present(&Form::Text, report)
        }
    }
}
