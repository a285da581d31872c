//! For people.

use std::io::{self, Write};

use heapledger_analysis::{Doubt, Excused, Figure, Finding, Note, ProcessShare, Responsible, Verdict};

use super::{CheckOutcome, CheckReport, rule};
use crate::errors::excused_words;
use crate::form::fit::Fit;
use crate::form::notes::sentence;
use crate::form::units::{clean, count, counted};
use crate::record::frames::callers;

impl CheckReport<'_> {
    /// Writes a line for each limit, and below those that are exceeded the stacks that have most part in it.
    pub(super) fn text(&self, out: impl Write) -> io::Result<()> {
        let mut out = Fit::new(out, self.paint);
        self.text_lines(&mut out, "")?;
        let verdict = self.verdict_words();
        writeln!(out, "{}", self.paint.lines(&format!("{}: {verdict}", clean(self.ledger)), 0, 2))?;
        out.flush()
    }

    /// All but the last line; each limit behind `whose`, which is a process of several and a colon, or nothing.
    pub(super) fn text_lines(&self, mut out: &mut dyn Write, whose: &str) -> io::Result<()> {
        let paint = self.paint;
        let say = |out: &mut &mut dyn Write, word: &str, text: &str| {
            let padded = format!("{word:<8}");
            let calm = ["", "ok", "sampled"].contains(&word);
            let word = if calm { padded } else { paint.strong(padded) };
            writeln!(out, "{word} {}", paint.lines(text, INDENT, INDENT))
        };
        if let Some(from) = self.summary.sampled {
            say(&mut out, "sampled", &self.figures().sampled(from, "of live blocks"))?;
        }
        // All lists have the same columns.
        let of = |finding| self.shares(finding).into_iter().map(|(amounts, _)| amounts).chain(self.amounts(finding));
        let parts: Vec<[String; 2]> = self.findings.iter().flat_map(of).collect();
        let [bytes_width, blocks_width] =
            [0, 1].map(|part: usize| parts.iter().map(|parts| parts[part].chars().count()).max().unwrap_or(0));
        for finding in self.findings {
            let verdict = match finding.verdict {
                Verdict::Holds => "ok",
                Verdict::Uncertain => "UNCLEAR",
                Verdict::Exceeded => "EXCEEDED",
            };
            say(&mut out, verdict, &format!("{whose}{} (--{})", self.sentence(finding), option(rule(finding.figure))))?;
            for ([bytes, blocks], process) in self.shares(finding) {
                writeln!(out, "{:INDENT$}  {bytes:>bytes_width$}  {blocks:>blocks_width$}  {process}", "")?;
            }
            if let Some(heading) = self.heading(finding) {
                say(&mut out, "", &format!("{heading}:"))?;
            }
            let errors = self.errors_of(finding);
            for error in errors.iter().take(self.top) {
                writeln!(out, "{:INDENT$}  {}", "", error.summary)?;
            }
            if let Some(more @ 1..) = errors.len().checked_sub(self.top) {
                writeln!(out, "{:INDENT$}  and {} more", "", count(more as u64))?;
            }
            for (responsible, [bytes, blocks]) in finding.responsible.iter().zip(self.amounts(finding)) {
                let who = callers(&responsible.stack, self.paint);
                writeln!(out, "{:INDENT$}  {bytes:>bytes_width$}  {blocks:>blocks_width$}  {who}", "")?;
            }
            for not_counted in self.not_counted(finding) {
                say(&mut out, "", &not_counted)?;
            }
        }
        for blocks in self.findings.iter().flat_map(|finding| &finding.doubts).filter_map(|doubt| match doubt {
            Doubt::WithoutStack { blocks } => Some(*blocks),
            _ => None,
        }) {
            let blocks = self.figures().counted(blocks, "block has", "blocks have");
            say(&mut out, "LOST", &format!("{blocks} no stack: who allocated them is not known."))?;
        }
        for note in self.unseen() {
            say(&mut out, "LOST", &clean(&sentence(note)))?;
        }
        for note in self.seen.notes.iter().filter(|note| matches!(note, Note::FoundBy(_) | Note::CopiedSometime)) {
            say(&mut out, "MOMENT", &clean(&sentence(note)))?;
        }
        Ok(())
    }

    /// What was left out of a figure, and why.
    fn not_counted(&self, finding: &Finding) -> Vec<String> {
        match finding.figure {
            Figure::Errors => {
                let words =
                    |excused: &Excused| format!("not counted: {}, {}", excused_words(excused), clean(&excused.by));
                self.excused.iter().map(words).collect()
            }
            Figure::Leaked => {
                let excused = self.leaked.iter().flat_map(|leaked| &leaked.excused);
                let words = |(reason, blocks, bytes): &(String, u64, u64)| {
                    let blocks = self.figures().counted(*blocks, "block", "blocks");
                    format!("not counted: {} in {blocks}, {}", self.figures().bytes(*bytes), clean(reason))
                };
                excused.map(words).collect()
            }
            _ => Vec::new(),
        }
    }

    /// What came of all limits.
    fn verdict_words(&self) -> String {
        let limits = counted(self.findings.len() as u64, "limit", "limits");
        match self.outcome() {
            CheckOutcome::Held if self.findings.len() == 1 => format!("{limits}, and it holds"),
            CheckOutcome::Held => format!("{limits}, all hold"),
            CheckOutcome::Exceeded => {
                let open = match self.count(Verdict::Uncertain) {
                    0 => String::new(),
                    number => format!(", {number} inconclusive"),
                };
                format!("{limits}, {} exceeded{open}", self.count(Verdict::Exceeded))
            }
            CheckOutcome::Inconclusive => self.inconclusive(&limits),
        }
    }

    /// How it ends where nobody knows, and what can be done.
    fn inconclusive(&self, limits: &str) -> String {
        let number = self.count(Verdict::Uncertain);
        let mut text = format!("{limits}, {number} inconclusive: the ledger does not tell whether it holds");
        if number > 1 {
            text = format!("{limits}, {number} inconclusive: the ledger does not tell whether they hold");
        }
        let advice = match (self.lenient, self.losses().is_empty()) {
            (true, _) => "passed by --inconclusive pass",
            (false, true) => "--inconclusive pass lets it pass",
            (false, false) => "--allow-losses takes the figures as they are",
        };
        format!("{text} ({advice})")
    }

    /// Bytes and blocks of the processes that have part in it, in words.
    fn shares(&self, finding: &Finding) -> Vec<([String; 2], String)> {
        let words = |share: &ProcessShare| {
            let found = self.amount(finding.figure, share.found);
            let blocks = share.blocks.map(|blocks| self.figures().counted(blocks, "block", "blocks"));
            let amounts = match finding.figure.is_bytes() {
                true => [found, blocks.unwrap_or_default()],
                false => [String::new(), found],
            };
            (amounts, self.share_name(finding, share))
        };
        finding.processes.iter().map(words).collect()
    }

    /// Bytes and blocks of those responsible, in words.
    fn amounts(&self, finding: &Finding) -> Vec<[String; 2]> {
        let more = if finding.figure.is_growth() { "+" } else { "" };
        let words = |responsible: &Responsible| {
            let bytes = self.figures().bytes(responsible.totals.bytes);
            let blocks = self.figures().counted(responsible.totals.blocks, "block", "blocks");
            [format!("{more}{bytes}"), format!("{more}{blocks}")]
        };
        finding.responsible.iter().map(words).collect()
    }
}

/// Columns before a sentence.
const INDENT: usize = 9;

/// The option that sets the limit of a rule.
fn option(rule: &'static str) -> &'static str {
    if rule.starts_with("max-growth") { "max-growth" } else { rule }
}
