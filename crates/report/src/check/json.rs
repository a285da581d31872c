//! JSON lines, described in `docs/json.md`.

use std::io::{self, Write};

use heapledger_analysis::{Doubt, Excused, NamedFrame, ProcessShare, Verdict};
use serde::Serialize;

use super::{CheckReport, rule};
use crate::ErrorBrief;
use crate::form::json::{HeaderLine, NoteJson, frames, line};
use crate::form::notes::name;

#[derive(Serialize)]
struct LimitLine<'a> {
    r#type: &'static str,
    /// Of a session: which process, or all together.
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<&'a str>,
    limit: &'static str,
    verdict: &'static str,
    found: u64,
    most: u64,
    at_least: u64,
    at_most: Option<u64>,
    margin: Option<u64>,
    doubts: Vec<&'static str>,
    baseline: Option<u64>,
    blocks: Option<u64>,
    text: String,
    /// What `responsible` is of, if that is not the figure itself.
    responsible_of: Option<String>,
    responsible: Vec<ResponsibleJson<'a>>,
    /// Of all processes together: those with the greatest part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    processes: Vec<ShareJson<'a>>,
    errors: Vec<ErrorJson<'a>>,
}

#[derive(Serialize)]
struct ErrorJson<'a> {
    kind: &'a str,
    summary: &'a str,
    token: &'a str,
    stacks: Vec<ErrorFramesJson<'a>>,
}

#[derive(Serialize)]
struct ErrorFramesJson<'a> {
    of: &'a str,
    #[serde(serialize_with = "frames")]
    stack: &'a [NamedFrame],
}

impl<'a> ErrorJson<'a> {
    fn of(error: &'a ErrorBrief) -> ErrorJson<'a> {
        let stacks = error.stacks.iter().map(|(of, stack)| ErrorFramesJson { of, stack: &stack.frames });
        let ErrorBrief { kind, summary, token, .. } = error;
        ErrorJson { kind, summary, token, stacks: stacks.collect() }
    }
}

#[derive(Serialize)]
struct ResponsibleJson<'a> {
    blocks: u64,
    bytes: u64,
    stacks: u64,
    #[serde(serialize_with = "frames")]
    stack: &'a [NamedFrame],
}

#[derive(Serialize)]
struct ShareJson<'a> {
    process: &'a str,
    found: u64,
    blocks: Option<u64>,
}

impl<'a> ShareJson<'a> {
    fn of(share: &'a ProcessShare) -> ShareJson<'a> {
        let ProcessShare { process, found, blocks } = share;
        ShareJson { process, found: *found, blocks: *blocks }
    }
}

#[derive(Serialize)]
struct ExcusedJson<'a> {
    by: &'a str,
    blocks: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct SuppressedJson<'a> {
    by: &'a str,
    errors: u64,
    times: u64,
}

#[derive(Serialize)]
struct CheckEndLine<'a> {
    r#type: &'static str,
    outcome: &'static str,
    exit: u8,
    limits: usize,
    exceeded: usize,
    uncertain: usize,
    not_counted: Vec<ExcusedJson<'a>>,
    errors_not_counted: Vec<SuppressedJson<'a>>,
    losses: Vec<NoteJson>,
    notes: Vec<NoteJson>,
}

fn doubt_name(doubt: &Doubt) -> &'static str {
    match doubt {
        Doubt::Sampled => "sampled",
        Doubt::PeakError => "peak_error",
        Doubt::Together => "together",
        Doubt::WithoutStack { .. } => "without_stack",
        Doubt::Unseen(note) => name(note),
    }
}

impl CheckReport<'_> {
    /// Writes a line for each limit between the header and the end.
    pub(super) fn json(&self, mut out: impl Write) -> io::Result<()> {
        line(&mut out, &HeaderLine::new("check", self.ledger, self.summary.sampled))?;
        self.limit_lines(&mut out, None)?;
        self.end_line(&mut out)?;
        out.flush()
    }

    /// A line for each limit; of a session, of which process.
    pub(super) fn limit_lines(&self, out: &mut dyn Write, process: Option<&str>) -> io::Result<()> {
        for finding in self.findings {
            let responsible = finding.responsible.iter().map(|responsible| ResponsibleJson {
                blocks: responsible.totals.blocks,
                bytes: responsible.totals.bytes,
                stacks: responsible.stacks,
                stack: &responsible.stack.frames,
            });
            let limit = LimitLine {
                r#type: "limit",
                process,
                limit: rule(finding.figure),
                verdict: match finding.verdict {
                    Verdict::Holds => "holds",
                    Verdict::Uncertain => "uncertain",
                    Verdict::Exceeded => "exceeded",
                },
                found: finding.found,
                most: finding.limit,
                at_least: finding.least,
                at_most: finding.most,
                margin: finding.most.map(|most| (finding.found - finding.least).max(most - finding.found)),
                doubts: finding.doubts.iter().map(doubt_name).collect(),
                baseline: finding.before,
                blocks: finding.blocks,
                text: self.sentence(finding),
                responsible_of: self.heading(finding),
                responsible: responsible.collect(),
                processes: finding.processes.iter().map(ShareJson::of).collect(),
                errors: self.errors_of(finding).iter().map(ErrorJson::of).collect(),
            };
            line(&mut *out, &limit)?;
        }
        Ok(())
    }

    fn end_line(&self, out: &mut dyn Write) -> io::Result<()> {
        let excused = self.leaked.iter().flat_map(|leaked| &leaked.excused);
        let suppressed = self.excused.iter().map(|Excused { by, errors, times }| SuppressedJson {
            by,
            errors: *errors,
            times: *times,
        });
        let end = CheckEndLine {
            r#type: "end",
            outcome: self.outcome().name(),
            exit: self.code(),
            limits: self.findings.len(),
            exceeded: self.count(Verdict::Exceeded),
            uncertain: self.count(Verdict::Uncertain),
            not_counted: excused
                .map(|(by, blocks, bytes)| ExcusedJson { by, blocks: *blocks, bytes: *bytes })
                .collect(),
            errors_not_counted: suppressed.collect(),
            losses: self.unseen().into_iter().map(NoteJson::of).collect(),
            notes: self.seen.notes.iter().map(NoteJson::of).collect(),
        };
        line(&mut *out, &end)
    }
}
