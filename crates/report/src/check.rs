//! Whether limits hold: for people, and in the forms that CI systems read.

mod github;
mod json;
mod junit;
mod sarif;
mod session;
mod text;

pub use session::{CheckedPart, FamilyCheck};

use std::io::Write;

use heapledger_analysis::{
    Doubt, Excused, Figure, Finding, Holders, Leaked, NamedFrame, NamedStack, Note, ProcessShare, Responsible, Seen,
    Summary, Verdict,
};

use crate::form::notes::part_of_frees;
use crate::form::units::{Figures, clean, counted};
use crate::record::frames::callers;
use crate::{ErrorBrief, Form, Paint, Report, ReportError};

/// What a check has found.
#[derive(Debug)]
pub struct CheckReport<'a> {
    /// What the ledger is called.
    pub ledger: &'a str,
    /// Its totals.
    pub summary: &'a Summary,
    /// One for each limit.
    pub findings: &'a [Finding],
    /// What the limit of leaked bytes was held against, if there is one.
    pub leaked: Option<&'a Leaked>,
    /// The errors that count, if they have a limit.
    pub errors: &'a [ErrorBrief],
    /// Those that are excused, by what.
    pub excused: &'a [Excused],
    /// How many stacks or errors a person wants to see of each limit.
    pub top: usize,
    /// Whether a limit of which nobody knows whether it holds lets the check pass.
    pub lenient: bool,
    /// What was not seen, losses included.
    pub seen: &'a Seen,
    /// Source files below this directory, with a `/` at its end, are named from there.
    pub base: &'a str,
    /// How text is emphasized, and whether bytes are written exactly, without units.
    pub paint: Paint,
}

impl Report for CheckReport<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => self.text(out)?,
            Form::Json => self.json(out)?,
            Form::Junit => self.junit(out)?,
            Form::Sarif => self.sarif(out)?,
            Form::Github => self.github(out)?,
            _ => return Err(ReportError::no_form(form)),
        }
        Ok(())
    }

    fn seen(&self) -> &Seen {
        self.seen
    }
}

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// All limits hold.
    Held,
    /// At least one does not.
    Exceeded,
    /// No limit is known to be exceeded, but of at least one nobody knows whether it holds.
    Inconclusive,
}

impl CheckOutcome {
    /// What it is called in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            CheckOutcome::Held => "held",
            CheckOutcome::Exceeded => "exceeded",
            CheckOutcome::Inconclusive => "inconclusive",
        }
    }
}

impl CheckReport<'_> {
    /// The exit code of `heapledger check`.
    pub fn code(&self) -> u8 {
        match self.outcome() {
            CheckOutcome::Held => 0,
            CheckOutcome::Exceeded => 1,
            CheckOutcome::Inconclusive if self.lenient => 0,
            CheckOutcome::Inconclusive => 3,
        }
    }

    /// What was not seen and leaves open whether a limit holds.
    fn losses(&self) -> Vec<&Note> {
        notes(self.findings.iter().flat_map(|finding| &finding.doubts))
    }

    /// What was not seen of the figures that have limits.
    fn unseen(&self) -> Vec<&Note> {
        notes(self.findings.iter().flat_map(|finding| &finding.reasons))
    }

    /// What came of it. A limit that is exceeded for certain is, whatever is not known of others.
    pub fn outcome(&self) -> CheckOutcome {
        if self.count(Verdict::Exceeded) != 0 {
            CheckOutcome::Exceeded
        } else if self.count(Verdict::Uncertain) != 0 {
            CheckOutcome::Inconclusive
        } else {
            CheckOutcome::Held
        }
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.findings.iter().filter(|finding| finding.verdict == verdict).count()
    }

    fn figures(&self) -> Figures {
        Figures { estimated: self.summary.sampled.is_some(), exact_bytes: self.paint.exact_bytes }
    }

    fn program(&self) -> &str {
        self.summary.identity.program.as_deref().unwrap_or("unknown")
    }

    fn amount(&self, figure: Figure, number: u64) -> String {
        match figure {
            figure if figure.is_bytes() => self.figures().bytes(number),
            Figure::Allocations => self.figures().counted(number, "allocation", "allocations"),
            Figure::Errors => counted(number, "error", "errors"),
            _ => self.figures().counted(number, "block", "blocks"),
        }
    }

    /// `1.95 GiB in 20,000,004 blocks`.
    fn found(&self, finding: &Finding) -> String {
        let mut text = match (finding.figure, self.summary.peak.error_bytes) {
            (Figure::Peak | Figure::PeakGrowth, error @ 1..) => self.figures().within(finding.found, error),
            (figure, _) => self.amount(figure, finding.found),
        };
        if let Some(blocks) = finding.blocks {
            text += &format!(" in {}", self.figures().counted(blocks, "block", "blocks"));
        }
        if let Some(before) = finding.before {
            text += &format!(", {} in the baseline", self.figures().known().bytes(before));
        }
        text
    }

    /// The limit as it is told: `64.0 MiB`.
    fn limit(&self, finding: &Finding) -> String {
        match finding.figure {
            figure if figure.is_bytes() => self.figures().known().bytes(finding.limit),
            Figure::Allocations => counted(finding.limit, "allocation", "allocations"),
            Figure::Errors => counted(finding.limit, "error", "errors"),
            _ => counted(finding.limit, "block", "blocks"),
        }
    }

    /// The finding in a sentence without its end: `live at the end: 1.95 GiB in 20,000,004 blocks, the limit is 64.0 MiB`.
    fn sentence(&self, finding: &Finding) -> String {
        let name = name(finding.figure, self.summary);
        let text = format!("{name}: {}, the limit is {}", self.found(finding), self.limit(finding));
        match finding.verdict {
            Verdict::Uncertain => format!("{text}: inconclusive, {}", self.bounds(finding)),
            Verdict::Holds | Verdict::Exceeded => text,
        }
    }

    /// Between what bounds a figure lies: `it may be anything from 64.0 KiB to 320 KiB`.
    fn bounds(&self, finding: &Finding) -> String {
        let figures = self.figures().known();
        let amount = |number| if finding.figure.is_bytes() { figures.bytes(number) } else { figures.count(number) };
        let among = match (finding.least, finding.most) {
            (0, None) if finding.found != 0 => "it may be less, and it may be more".to_owned(),
            (least, None) if least == finding.found => "it may be more".to_owned(),
            (least, None) => format!("it may be {} or any more", amount(least)),
            (least, Some(most)) => format!("it may be anything from {} to {}", amount(least), amount(most)),
        };
        if finding.doubts.contains(&Doubt::Sampled) {
            format!("{among} (estimate, twice its standard error)")
        } else {
            among
        }
    }

    /// What the stacks below a figure are of, where that is not the figure itself: a ledger does not hold everything.
    fn heading(&self, finding: &Finding) -> Option<String> {
        let of = self.heading_of_one(finding);
        match finding.processes.first() {
            Some(_) if finding.responsible.is_empty() => None,
            Some(share) => {
                let of = of.map(|of| format!(", {of}")).unwrap_or_default();
                Some(format!("stacks of {}{of}", clean(&share.process)))
            }
            None => of,
        }
    }

    fn heading_of_one(&self, finding: &Finding) -> Option<String> {
        let part = finding.of_frees.and_then(|held| part_of_frees(held, false));
        match finding.figure {
            _ if finding.responsible.is_empty() => None,
            Figure::Peak if finding.at_peak => Some("at the peak".to_owned()),
            Figure::Peak => {
                Some("the largest stacks that are still live; the peak itself is not broken down by stack".to_owned())
            }
            Figure::PeakGrowth => Some("growth of live blocks; the peak itself is not broken down by stack".to_owned()),
            _ => part,
        }
    }

    /// `1.28 MiB in 8,796 blocks   block (bench.c:36) < end_of_path < main`.
    fn responsible(&self, finding: &Finding, responsible: &Responsible) -> String {
        let totals = &responsible.totals;
        let more = if finding.figure.is_growth() { "+" } else { "" };
        let bytes = self.figures().bytes(totals.bytes);
        let blocks = self.figures().counted(totals.blocks, "block", "blocks");
        let of = self.heading(finding).map_or_else(String::new, |heading| format!(" ({heading})"));
        format!("{more}{bytes} in {more}{blocks}{of}   {}", callers(&responsible.stack, self.paint))
    }

    /// What a process is called that has part in a figure of several.
    fn share_name(&self, finding: &Finding, share: &ProcessShare) -> String {
        let peak = if finding.figure == Figure::Peak { ", at its own peak" } else { "" };
        format!("{}{peak}", clean(&share.process))
    }

    /// The processes that have part in a figure of several: a line for each.
    fn share_lines(&self, finding: &Finding) -> Vec<String> {
        let line = |share: &ProcessShare| {
            let blocks =
                share.blocks.map(|blocks| format!(" in {}", self.figures().counted(blocks, "block", "blocks")));
            let found = self.amount(finding.figure, share.found);
            format!("{found}{}   {}", blocks.unwrap_or_default(), self.share_name(finding, share))
        };
        finding.processes.iter().map(line).collect()
    }

    /// The errors that belong to a finding.
    fn errors_of(&self, finding: &Finding) -> &[ErrorBrief] {
        if finding.figure == Figure::Errors && finding.verdict != Verdict::Holds { self.errors } else { &[] }
    }

    /// The name of a source file as others look for it: from the base, if it lies below that.
    fn file<'a>(&self, file: &'a str) -> &'a str {
        file.strip_prefix(self.base).filter(|_| !self.base.is_empty()).unwrap_or(file)
    }
}

/// Each once.
fn notes<'a>(doubts: impl Iterator<Item = &'a Doubt>) -> Vec<&'a Note> {
    let mut notes: Vec<&Note> = Vec::new();
    for note in doubts.filter_map(Doubt::note) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// The figure's name, as in the options and for programs.
pub(crate) fn rule(figure: Figure) -> &'static str {
    match figure {
        Figure::Live => "max-live",
        Figure::LiveBlocks => "max-live-blocks",
        Figure::Leaked => "max-leaked",
        Figure::Peak => "max-peak",
        Figure::Allocations => "max-allocs",
        Figure::Allocated => "max-allocated",
        Figure::LiveGrowth => "max-growth-live",
        Figure::PeakGrowth => "max-growth-peak",
        Figure::Errors => "max-errors",
    }
}

/// What a figure is, for a person.
fn name(figure: Figure, summary: &Summary) -> &'static str {
    let identity = &summary.identity;
    match figure {
        Figure::Live | Figure::LiveBlocks | Figure::LiveGrowth => match () {
            () if identity.running => "live now",
            () if identity.is_midway() => "live when this was copied",
            () if identity.taken.is_some() => "live at the snapshot",
            () => "live at the end",
        },
        Figure::Leaked if identity.is_midway() => "not freed when this was copied",
        Figure::Leaked if identity.taken.is_some() => "not freed at the snapshot",
        Figure::Leaked => "not freed at the end",
        Figure::Peak | Figure::PeakGrowth => "peak",
        Figure::Allocations | Figure::Allocated => "allocated in all",
        Figure::Errors => "found wrong",
    }
}

/// A sentence about a rule.
fn rule_text(figure: Figure) -> &'static str {
    match figure {
        Figure::Live => "Bytes in live blocks must stay within a limit.",
        Figure::LiveBlocks => "The number of live blocks must stay within a limit.",
        Figure::Leaked => "Bytes in blocks that are not freed when the program ends must stay within a limit.",
        Figure::Peak => "The highest number of bytes in live blocks must stay within a limit.",
        Figure::Allocations => "The number of allocations must stay within a limit.",
        Figure::Allocated => "The bytes allocated in all must stay within a limit.",
        Figure::LiveGrowth => "Bytes in live blocks must not grow beyond a baseline.",
        Figure::PeakGrowth => "The peak must not grow beyond a baseline.",
        Figure::Errors => "The number of errors (double frees and the like) must stay within a limit.",
    }
}

/// Where files lie that belong to the system.
const SYSTEM: &[&str] = &["/usr/include/", "/usr/lib", "/usr/src/", "/lib/", "/lib32/", "/lib64/", "/rustc/"];

/// Where a stack that has part in a limit is in the program's own source: where text says that it begins. A function that passes allocations on has its
/// place only where there is no other.
fn holding_frame(stack: &NamedStack) -> Option<(&NamedFrame, &str, u32)> {
    let holders = Holders::default();
    stack.shown().filter(|frame| holders.holds(frame)).find_map(own_source).or_else(|| own_frame(stack))
}

/// The innermost frame whose source is the program's own: that of an error, which any function can make.
fn own_frame(stack: &NamedStack) -> Option<(&NamedFrame, &str, u32)> {
    stack.shown().find_map(own_source).or_else(|| stack.frames.iter().find_map(own_source))
}

/// The place of a frame, unless that is in a header or a library of the system.
fn own_source(frame: &NamedFrame) -> Option<(&NamedFrame, &str, u32)> {
    let is_system = |path: &str| SYSTEM.iter().any(|place| path.starts_with(place)) || path.contains("/include/c++/");
    let (file, line) = frame.file.as_deref().zip(frame.line)?;
    let own = !is_system(file) && !frame.module.as_deref().is_some_and(is_system);
    own.then_some((frame, file, line))
}

/// The frames of a stack, one a line.
fn stack_lines(stack: &NamedStack, paint: Paint) -> String {
    let mut text = String::new();
    for frame in &stack.frames {
        let module = frame.module.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path));
        let function = frame.function.as_deref().unwrap_or("?");
        text.push_str("    ");
        text.push_str(&paint.function(function));
        match (&frame.file, frame.line, module) {
            (Some(file), Some(line), _) => text.push_str(&format!(" at {}:{line}", clean(file))),
            (_, _, Some(module)) => text.push_str(&format!(" in {}", clean(module))),
            _ => {}
        }
        text.push('\n');
    }
    text
}
