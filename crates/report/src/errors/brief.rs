//! An error with its names, as a part of other reports.

use heapledger_analysis::NamedStack;
use heapledger_format::LabelId;
use heapledger_source::{FoundError, Labels};

use super::place::{culprit, summary};
use super::token::token;
use super::{kind_name, stack_name, stacks, text};
use crate::{Context, Paint, ReportError, Stacks};

/// An error with its names.
#[derive(Clone, Debug, Default)]
pub struct ErrorBrief {
    /// What is wrong, by the name that scripts know.
    pub kind: String,
    /// The kind, and file, line and function: the last line of its report.
    pub summary: String,
    /// By what the same error is known again.
    pub token: String,
    /// All of its report, without colours.
    pub report: String,
    /// Its stacks, and whose they are.
    pub stacks: Vec<(String, NamedStack)>,
    /// The stack of what was wrong, or the next best.
    pub culprit: Option<NamedStack>,
}

impl ErrorBrief {
    /// Of `found`; its sites have been named.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(
        context: &Context,
        found: &FoundError,
        labels: &Labels,
        names: &mut dyn Stacks,
    ) -> Result<ErrorBrief, ReportError> {
        let error = &found.entry;
        let plain = Context { paint: Paint::default(), ..context.clone() };
        let mut report = Vec::new();
        text::one(&mut report, (&plain, false), names, (found, None), &labels.text(LabelId(error.label)))?;
        let culprit = culprit(error).map(|stack| names.stack(stack.site)).transpose()?;
        let mut named = Vec::new();
        for stack in stacks(error) {
            named.push((stack_name(stack), names.stack(stack.site)?));
        }
        Ok(ErrorBrief {
            kind: kind_name(error),
            summary: summary(error, culprit.as_ref()),
            token: token(error, names)?,
            report: String::from_utf8_lossy(&report).into_owned(),
            stacks: named,
            culprit,
        })
    }
}
