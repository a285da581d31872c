//! Whether what lies around blocks is whole: what was looked at, and what of it is damaged, as `errors` tells it.

use std::io::Write;

use heapledger_analysis::{Seen, Verified};
use serde::Serialize;

use crate::errors::{self, ErrorsReport};
use crate::form::units::counted;
use crate::{Ending, Form, Report, ReportError, count};

/// What a look at all blocks of a program has come to.
pub struct VerifyReport<'r> {
    /// What is damaged.
    pub damage: ErrorsReport<'r>,
    /// What was looked at.
    pub verified: &'r Verified,
    /// How the blocks are guarded.
    pub level: &'r str,
}

#[derive(Serialize)]
struct VerifiedLine<'a> {
    r#type: &'static str,
    level: &'a str,
    live: u64,
    waiting: u64,
    damaged: u64,
    unread: u64,
    complete: bool,
}

impl Report for VerifyReport<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => self.text(out),
            Form::Json => {
                let verified = self.verified;
                let line = VerifiedLine {
                    r#type: "verified",
                    level: self.level,
                    live: verified.live,
                    waiting: verified.waiting,
                    damaged: verified.damaged,
                    unread: verified.unread,
                    complete: verified.is_whole(),
                };
                errors::json::write_for("verify", &mut self.damage, Some(&line), out)
            }
            other => self.damage.write(other, out),
        }
    }

    fn seen(&self) -> &Seen {
        self.damage.seen()
    }

    fn ending(&self) -> Ending {
        self.damage.ending()
    }

    fn beside(&self) -> Vec<String> {
        std::iter::once(self.summary()).chain(self.missing()).chain(self.damage.beside()).collect()
    }
}

impl VerifyReport<'_> {
    fn text(&mut self, out: &mut dyn Write) -> Result<(), ReportError> {
        let (summary, missing) = (self.summary(), self.missing());
        if !self.damage.errors.is_empty() {
            errors::text::each(&mut self.damage, out)?;
            writeln!(out)?;
        }
        writeln!(out, "{summary}")?;
        for sentence in missing {
            writeln!(out, "{sentence}")?;
        }
        errors::text::ending(&mut self.damage, out)
    }

    /// `2 of 1,234 blocks are damaged: 1,200 live ones, 34 freed ones that wait.`
    fn summary(&self) -> String {
        let Verified { live, waiting, damaged, .. } = *self.verified;
        let blocks = counted(live + waiting, "block", "blocks");
        let parts = match (self.level, waiting) {
            ("light", 0) => String::new(),
            // Who would have written there would have been told at once: there is nothing to look at.
            (level, _) if level.starts_with("page") => {
                format!(" ({} live, {} freed, in closed pages)", count(live), count(waiting))
            }
            _ => format!(" ({} live, {} freed and waiting)", count(live), count(waiting)),
        };
        match damaged {
            0 if live + waiting == 0 => "No guarded block was there to look at.".to_owned(),
            0 => format!("{blocks}{parts} {} whole.", if live + waiting == 1 { "is" } else { "are" }),
            1 => format!("1 of {blocks}{parts} is damaged."),
            _ => format!("{} of {blocks}{parts} are damaged.", count(damaged)),
        }
    }

    /// What was not looked at, in sentences.
    fn missing(&self) -> Vec<String> {
        let unread = (self.verified.unread != 0).then(|| {
            let (count, are) = (counted(self.verified.unread, "more", "more"), "could not be read");
            format!("{count} {are}: blocks whose memory is not there, or parts of the guard's tables.")
        });
        let cut = self.verified.is_cut.then(|| "Not all were looked at: it took too long.".to_owned());
        let pages = "Blocks at closed pages were not looked at: the program's recorder, of an earlier version, does not say where they are.";
        let pages = self.verified.has_pages.then(|| pages.to_owned());
        unread.into_iter().chain(cut).chain(pages).collect()
    }
}

#[cfg(test)]
mod tests;
