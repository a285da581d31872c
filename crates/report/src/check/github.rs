//! Annotations of GitHub's actions: commands that a step prints.

use std::io::{self, Write};

use heapledger_analysis::{NamedFrame, Verdict};

use super::{CheckReport, holding_frame, own_frame, rule, stack_lines};
use crate::form::notes::sentence;
use crate::form::outside::steers;

impl CheckReport<'_> {
    /// Writes a command for each stack that has part in an exceeded limit, at its place in the program's own source.
    pub(super) fn github(&self, mut out: impl Write) -> io::Result<()> {
        self.github_lines(&mut out, "")?;
        out.flush()
    }

    /// The same; each limit behind `whose`, which is a process of several and a colon, or nothing.
    pub(super) fn github_lines(&self, out: &mut dyn Write, whose: &str) -> io::Result<()> {
        for finding in self.findings {
            let level = match finding.verdict {
                Verdict::Holds => continue,
                Verdict::Uncertain => self.level(),
                Verdict::Exceeded => "error",
            };
            let said = format!("{whose}{}", self.sentence(finding));
            let open = if finding.verdict == Verdict::Uncertain { " (inconclusive)" } else { "" };
            let title = format!("heapledger {}{open}", rule(finding.figure));
            let errors = self.errors_of(finding);
            for error in errors {
                let place = self.place(error.culprit.as_ref().and_then(own_frame));
                let title = format!("heapledger {}", error.kind);
                let message = format!("{whose}{}\n{}", error.summary, error.report);
                writeln!(out, "::{level} {place}title={}::{}", property(&title), data(message.trim_end()))?;
            }
            if finding.responsible.is_empty() && errors.is_empty() {
                writeln!(out, "::{level} title={}::{}", property(&title), data(&said))?;
            }
            for responsible in &finding.responsible {
                let place = self.place(holding_frame(&responsible.stack));
                let stack = stack_lines(&responsible.stack, self.paint);
                let message = format!("{said}\n{}\n{stack}", self.responsible(finding, responsible));
                writeln!(out, "::{level} {place}title={}::{}", property(&title), data(message.trim_end()))?;
            }
        }
        for note in self.losses() {
            let said = format!("{whose}{}", sentence(note));
            writeln!(out, "::{} title=heapledger ledger not complete::{}", self.level(), data(&said))?;
        }
        Ok(())
    }

    /// A place in the program's own source, as properties.
    fn place(&self, own: Option<(&NamedFrame, &str, u32)>) -> String {
        own.map_or_else(String::new, |(_, file, line)| format!("file={},line={line},", property(self.file(file))))
    }

    /// How bad it is that nobody knows.
    fn level(&self) -> &'static str {
        if self.lenient { "warning" } else { "error" }
    }
}

/// Text behind the colons. The lines are shown in a log: what could steer a terminal is written out.
pub(super) fn data(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '%' => out += "%25",
            '\r' => out += "%0D",
            '\n' => out += "%0A",
            control if steers(control) && control != '\t' => out.extend(control.escape_unicode()),
            other => out.push(other),
        }
    }
    out
}

/// The value of a property, where colons and commas mean something, too.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_command_is_written_out() {
        assert_eq!(data("50 %\r\nstd::string"), "50 %25%0D%0Astd::string");
        assert_eq!(property("a,b:c\n"), "a%2Cb%3Ac%0A");
        assert_eq!(property("\u{1b}[31m.c"), "\\u{1b}[31m.c");
    }
}
