//! JUnit's XML, as CI systems read it.

use std::fmt::Write as _;
use std::io::{self, Write};

use heapledger_analysis::Verdict;

use super::{CheckReport, rule, stack_lines};
use crate::Paint;
use crate::form::notes::sentence;
use crate::form::outside::steers;

impl CheckReport<'_> {
    /// Writes a test case for each limit, and one for the ledger's being complete.
    pub(super) fn junit(&self, mut out: impl Write) -> io::Result<()> {
        let (_, counts) = self.junit_counts();
        writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
        writeln!(out, "<testsuites name=\"heapledger check\" {}>", counts.attributes())?;
        self.junit_suite(&mut out, self.ledger)?;
        writeln!(out, "</testsuites>")?;
        out.flush()
    }

    /// How many test cases there are, and how many of them failed; and how many are left out.
    pub(super) fn junit_counts(&self) -> (usize, JunitCounts) {
        let open = self.count(Verdict::Uncertain) + usize::from(!self.losses().is_empty());
        // Of what nobody knows a CI system must not think that it is well, unless it was told so.
        let (errors, skipped) = if self.lenient { (0, open) } else { (open, 0) };
        let failures = self.count(Verdict::Exceeded);
        (skipped, JunitCounts { tests: self.findings.len() + 1, failures, errors })
    }

    /// A suite of this name, with its test cases.
    pub(super) fn junit_suite(&self, out: &mut dyn Write, name: &str) -> io::Result<()> {
        let (skipped, counts) = self.junit_counts();
        let losses = self.losses();
        let element = if self.lenient { "skipped" } else { "error" };
        let seconds = self.summary.identity.wall_ns.unwrap_or(0) as f64 / 1e9;
        let (name, counts) = (escaped(name), counts.attributes());
        writeln!(out, "  <testsuite name=\"{name}\" {counts} skipped=\"{skipped}\" time=\"{seconds:.3}\">")?;
        let class = escaped(self.program());
        for finding in self.findings {
            let name = rule(finding.figure);
            write!(out, "    <testcase classname=\"heapledger.{class}\" name=\"{name}\" time=\"0\"")?;
            let said = self.sentence(finding);
            match finding.verdict {
                Verdict::Holds => writeln!(out, "/>")?,
                Verdict::Uncertain | Verdict::Exceeded => {
                    let mut body = String::new();
                    for share in self.share_lines(finding) {
                        let _ = writeln!(body, "{share}");
                    }
                    // What reads it may look for names, and there is room.
                    let whole = Paint { full_names: true, ..self.paint };
                    for responsible in &finding.responsible {
                        let _ = writeln!(body, "{}", self.responsible(finding, responsible));
                        body += &stack_lines(&responsible.stack, whole);
                    }
                    for error in self.errors_of(finding) {
                        let _ = writeln!(body, "{}", error.report);
                    }
                    let (said, body) = (escaped(&said), escaped(&body));
                    let (element, kind) = match finding.verdict {
                        Verdict::Uncertain if self.lenient => (element, String::new()),
                        Verdict::Uncertain => (element, " type=\"inconclusive\"".to_owned()),
                        _ => ("failure", format!(" type=\"{name}\"")),
                    };
                    writeln!(out, ">\n      <{element} message=\"{said}\"{kind}>{body}</{element}>")?;
                    writeln!(out, "    </testcase>")?;
                }
            }
        }
        // What of the losses turns no answer is in other reports.
        write!(out, "    <testcase classname=\"heapledger.{class}\" name=\"ledger-complete\" time=\"0\"")?;
        if losses.is_empty() {
            writeln!(out, "/>")?;
        } else {
            let sentences: Vec<String> = losses.iter().map(|note| escaped(&sentence(note))).collect();
            let message = "what was not seen leaves open whether limits hold";
            let kind = if self.lenient { "" } else { " type=\"losses\"" };
            let body = sentences.join("\n");
            writeln!(out, ">\n      <{element} message=\"{message}\"{kind}>{body}</{element}>\n    </testcase>")?;
        }
        writeln!(out, "  </testsuite>")
    }
}

/// Figures of a suite, or of all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JunitCounts {
    pub(super) tests: usize,
    pub(super) failures: usize,
    pub(super) errors: usize,
}

impl JunitCounts {
    pub(super) fn attributes(self) -> String {
        let JunitCounts { tests, failures, errors } = self;
        format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\"")
    }
}

/// Text within an element or an attribute. Characters that XML does not know at all become U+FFFD.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\t' | '\n' => out.push(letter),
            '\u{0}'..'\u{20}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            // XML has them, but whoever prints the report has a terminal.
            other if steers(other) => {
                let _ = write!(out, "&#x{:x};", u32::from(other));
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_breaks_the_document() {
        assert_eq!(escaped("a\u{9b}1m\u{202e}\u{7f}"), "a&#x9b;1m&#x202e;&#x7f;");
        assert_eq!(escaped("vec<a&b>\"\u{1b}[1m\u{0}\n"), "vec&lt;a&amp;b&gt;&quot;\u{fffd}[1m\u{fffd}\n");
    }
}
