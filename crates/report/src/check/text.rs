//! For people.

use std::io::{self, Write};

use heapledger_analysis::{Figure, Note, Verdict};

use super::{CheckOutcome, CheckReport, rule};
use crate::seen::sentence;
use crate::units::{Paint, clean, counted};

impl CheckReport<'_> {
    /// Writes a line for each limit, and below those that are exceeded the stacks that have most part in it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn text(&self, mut out: impl Write, paint: Paint) -> io::Result<()> {
        if let Some(from) = self.summary.sampled {
            writeln!(out, "Sampled: {}", self.figures().sampled(from, "of live blocks"))?;
        }
        for finding in self.findings {
            let verdict = match finding.verdict {
                Verdict::Holds => "ok      ".to_owned(),
                Verdict::Uncertain => paint.strong("warning ".to_owned()).to_string(),
                Verdict::Exceeded => paint.strong("EXCEEDED".to_owned()).to_string(),
            };
            writeln!(out, "{verdict} {} (--{})", self.sentence(finding), option(rule(finding.figure)))?;
            if let Some(heading) = heading(finding.figure).filter(|_| !finding.responsible.is_empty()) {
                writeln!(out, "         {heading}:")?;
            }
            for responsible in &finding.responsible {
                writeln!(out, "           {}", self.responsible(finding, responsible))?;
            }
        }
        for (reason, blocks, of_bytes) in self.leaked.iter().flat_map(|leaked| &leaked.excused) {
            let blocks = self.figures().counted(*blocks, "block", "blocks");
            writeln!(
                out,
                "         not counted: {} in {blocks}, {}",
                self.figures().known().bytes(*of_bytes),
                clean(reason)
            )?;
        }
        for note in self.losses {
            writeln!(out, "{} {}", paint.strong("LOST    ".to_owned()), clean(&sentence(note)))?;
        }
        for note in self.seen.notes.iter().filter(|note| matches!(note, Note::FoundBy(_))) {
            writeln!(out, "{} {}", paint.strong("MOMENT  ".to_owned()), clean(&sentence(note)))?;
        }
        let limits = counted(self.findings.len() as u64, "limit", "limits");
        let verdict = match self.outcome() {
            CheckOutcome::Held if self.findings.len() == 1 => format!("{limits}, and it holds"),
            CheckOutcome::Held => format!("{limits}, all hold"),
            CheckOutcome::Exceeded => format!("{limits}, {} exceeded", self.count(Verdict::Exceeded)),
            CheckOutcome::Inconclusive => {
                format!("{limits}; none is known to be exceeded, but the ledger is not complete (--allow-losses)")
            }
        };
        writeln!(out, "{}: {verdict}", clean(self.ledger))?;
        out.flush()
    }
}

/// What the stacks below a figure are of, where that is not the figure itself: a ledger does not hold everything.
fn heading(figure: Figure) -> Option<&'static str> {
    match figure {
        Figure::Peak => Some("which stacks it was is not known; the biggest that are left"),
        Figure::Allocations | Figure::Allocated => Some("of blocks that live or are in the history"),
        Figure::PeakGrowth => Some("of blocks that live"),
        _ => None,
    }
}

/// The option that sets the limit of a rule.
fn option(rule: &'static str) -> &'static str {
    if rule.starts_with("max-growth") { "max-growth" } else { rule }
}
