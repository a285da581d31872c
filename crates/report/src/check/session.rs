//! Limits of a session: of each of its processes, and of all together.

use std::io::{self, Write};

use heapledger_analysis::{Note, Seen};
use serde::Serialize;
use serde_json::{Value, json};

use super::junit::{JunitCounts, escaped};
use super::{CheckOutcome, CheckReport, github, sarif};
use crate::form::fit::Fit;
use crate::form::json::{HeaderLine, NoteJson, line};
use crate::form::notes::{is_loss, sentence};
use crate::form::units::{clean, count, counted};
use crate::{Form, Paint, Report, ReportError};

/// Processes whose limits do not hold that a person sees; other forms have all.
const PROCESSES: usize = 20;

/// One process that was checked, or all together.
#[derive(Debug)]
pub struct CheckedPart<'a> {
    /// What it is called.
    pub name: &'a str,
    /// What was found.
    pub report: CheckReport<'a>,
}

/// What a check of a session has found.
#[derive(Debug)]
pub struct FamilyCheck<'a> {
    /// What the session is called.
    pub session: &'a str,
    /// Its processes, and all together, if that is asked for.
    pub parts: Vec<CheckedPart<'a>>,
    /// Whether the last of them is all together.
    pub has_sum: bool,
    /// How many programs' blocks do not count as live or leaked, because their processes became other programs.
    pub went_on: usize,
    /// What was not seen of the session.
    pub seen: &'a Seen,
    /// Whether processes that were not seen count as if there were none.
    pub allow_losses: bool,
    /// Whether a limit of which nobody knows whether it holds lets the check pass.
    pub lenient: bool,
    /// How text is emphasized.
    pub paint: Paint,
}

impl Report for FamilyCheck<'_> {
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

#[derive(Serialize)]
struct FamilyEndLine {
    r#type: &'static str,
    outcome: &'static str,
    exit: u8,
    processes: usize,
    limits: usize,
    exceeded: usize,
    uncertain: usize,
    went_on: usize,
    notes: Vec<NoteJson>,
}

impl FamilyCheck<'_> {
    /// What came of it.
    pub fn outcome(&self) -> CheckOutcome {
        let any = |outcome| self.parts.iter().any(|part| part.report.outcome() == outcome);
        match () {
            () if any(CheckOutcome::Exceeded) => CheckOutcome::Exceeded,
            () if any(CheckOutcome::Inconclusive) || !self.unseen().is_empty() => CheckOutcome::Inconclusive,
            () => CheckOutcome::Held,
        }
    }

    /// The exit code of `heapledger check`.
    pub fn code(&self) -> u8 {
        match self.outcome() {
            CheckOutcome::Held => 0,
            CheckOutcome::Exceeded => 1,
            CheckOutcome::Inconclusive if self.lenient => 0,
            CheckOutcome::Inconclusive => 3,
        }
    }

    /// Says how text looks.
    pub fn set_paint(&mut self, paint: Paint) {
        self.paint = paint;
        self.parts.iter_mut().for_each(|part| part.report.paint = paint);
    }

    /// What leaves open whether limits hold: processes of which nothing is known. Losses of those that were checked are told with them.
    fn unseen(&self) -> Vec<&Note> {
        let notes = self.seen.notes.iter().filter(|note| is_loss(note) && !self.allow_losses);
        notes.collect()
    }

    fn of(&self, outcome: CheckOutcome) -> impl Iterator<Item = &CheckedPart<'_>> {
        self.parts.iter().filter(move |part| part.report.outcome() == outcome)
    }

    /// A line for each limit that does not hold, and how many processes hold theirs.
    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut out = Fit::new(out, self.paint);
        let open = || self.of(CheckOutcome::Exceeded).chain(self.of(CheckOutcome::Inconclusive));
        for part in open().take(PROCESSES) {
            part.report.text_lines(&mut out, &format!("{}: ", clean(part.name)))?;
        }
        if let Some(more) = open().count().checked_sub(PROCESSES).filter(|more| *more != 0) {
            writeln!(out, "         and {} more (--json has all)", count(more as u64))?;
        }
        let sum = self.parts.last().filter(|_| self.has_sum);
        let sum_held = sum.is_some_and(|sum| sum.report.outcome() == CheckOutcome::Held);
        let held = self.of(CheckOutcome::Held).count() - usize::from(sum_held);
        if held != 0 {
            writeln!(out, "ok       {} all limits", counted(held as u64, "process holds", "processes hold"))?;
        }
        if let Some(sum) = sum.filter(|_| sum_held) {
            sum.report.text_lines(&mut out, &format!("{}: ", clean(sum.name)))?;
        }
        for note in self.unseen() {
            let word = self.paint.strong("LOST    ");
            writeln!(out, "{word} {}", self.paint.lines(&clean(&sentence(note)), 9, 9))?;
        }
        // Of these nothing is missing.
        for note in self.seen.notes.iter().filter(|note| !is_loss(note)) {
            writeln!(out, "note     {}", self.paint.lines(&clean(&sentence(note)), 9, 9))?;
        }
        if self.went_on != 0 {
            let programs = counted(self.went_on as u64, "program", "programs");
            let said = format!(
                "What {programs} held when their processes became other programs (exec) lives no longer: it does not count."
            );
            writeln!(out, "note     {}", self.paint.lines(&said, 9, 9))?;
        }
        let limits = counted(self.limits() as u64, "limit", "limits");
        let [exceeded, uncertain] = self.verdicts();
        let verdict = match self.outcome() {
            CheckOutcome::Held => "all hold".to_owned(),
            CheckOutcome::Exceeded if uncertain == 0 => format!("{} exceeded", count(exceeded)),
            CheckOutcome::Exceeded => format!("{} exceeded, {} inconclusive", count(exceeded), count(uncertain)),
            CheckOutcome::Inconclusive if uncertain == 0 => "inconclusive: not all processes were seen".to_owned(),
            CheckOutcome::Inconclusive => format!("{} inconclusive", count(uncertain)),
        };
        let processes = match self.parts.len() - usize::from(self.has_sum) {
            0 => "of all processes together".to_owned(),
            number => {
                let together = if self.has_sum { " and of all together" } else { "" };
                format!("of {}{together}", counted(number as u64, "process", "processes"))
            }
        };
        writeln!(out, "{}: {limits} {processes}, {verdict}", clean(self.session))?;
        out.flush()
    }

    fn limits(&self) -> usize {
        self.parts.iter().map(|part| part.report.findings.len()).sum()
    }

    /// Limits that are exceeded, and those of which nobody knows.
    fn verdicts(&self) -> [u64; 2] {
        use heapledger_analysis::Verdict;
        [Verdict::Exceeded, Verdict::Uncertain]
            .map(|verdict| self.parts.iter().map(|part| part.report.count(verdict) as u64).sum())
    }

    fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        line(out, &HeaderLine::new("check", self.session, None))?;
        for part in &self.parts {
            part.report.limit_lines(out, Some(part.name))?;
        }
        let [exceeded, uncertain] = self.verdicts();
        let end = FamilyEndLine {
            r#type: "end",
            outcome: self.outcome().name(),
            exit: self.code(),
            processes: self.parts.len() - usize::from(self.has_sum),
            limits: self.limits(),
            exceeded: exceeded as usize,
            uncertain: uncertain as usize,
            went_on: self.went_on,
            notes: self.seen.notes.iter().map(NoteJson::of).collect(),
        };
        line(out, &end)?;
        out.flush()
    }

    /// A suite for each process with a test case for each limit, and one for the session's being complete.
    fn junit(&self, out: &mut dyn Write) -> io::Result<()> {
        let unseen = self.unseen();
        let (errors, skipped) = match (unseen.is_empty(), self.lenient) {
            (true, _) => (0, 0),
            (false, lenient) => (usize::from(!lenient), usize::from(lenient)),
        };
        let own = JunitCounts { tests: 1, failures: 0, errors };
        let mut all = own;
        for (_, counts) in self.parts.iter().map(|part| part.report.junit_counts()) {
            all.tests += counts.tests;
            all.failures += counts.failures;
            all.errors += counts.errors;
        }
        writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
        writeln!(out, "<testsuites name=\"heapledger check\" {}>", all.attributes())?;
        for part in &self.parts {
            part.report.junit_suite(out, part.name)?;
        }
        let name = escaped(self.session);
        writeln!(out, "  <testsuite name=\"{name}\" {} skipped=\"{skipped}\" time=\"0.000\">", own.attributes())?;
        write!(out, "    <testcase classname=\"heapledger.session\" name=\"session-complete\" time=\"0\"")?;
        if unseen.is_empty() {
            writeln!(out, "/>")?;
        } else {
            let element = if self.lenient { "skipped" } else { "error" };
            let kind = if self.lenient { "" } else { " type=\"losses\"" };
            let body: Vec<String> = unseen.into_iter().map(|note| escaped(&sentence(note))).collect();
            let message = "processes that were not seen leave open whether limits hold";
            let body = body.join("\n");
            writeln!(out, ">\n      <{element} message=\"{message}\"{kind}>{body}</{element}>\n    </testcase>")?;
        }
        writeln!(out, "  </testsuite>\n</testsuites>")?;
        out.flush()
    }

    fn sarif(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut results: Vec<Value> = Vec::new();
        let mut notes: Vec<Value> = Vec::new();
        for CheckedPart { name, report } in &self.parts {
            let whose = |mut value: Value| {
                if let Some(text) = value["message"]["text"].as_str() {
                    value["message"]["text"] = json!(format!("{name}: {text}"));
                }
                value
            };
            results.extend(report.sarif_results().into_iter().map(whose));
            notes.extend(report.sarif_notes().into_iter().map(whose));
        }
        let level = if self.lenient { "warning" } else { "error" };
        let unseen = self.unseen().into_iter().map(sentence);
        notes.extend(unseen.map(|text| json!({ "level": level, "message": { "text": text } })));
        sarif::log(out, sarif::rules(), &results, &notes, (self.code(), self.lenient))
    }

    fn github(&self, out: &mut dyn Write) -> io::Result<()> {
        for part in &self.parts {
            part.report.github_lines(out, &format!("{}: ", part.name))?;
        }
        let level = if self.lenient { "warning" } else { "error" };
        for note in self.unseen() {
            writeln!(out, "::{level} title=heapledger session not complete::{}", github::data(&sentence(note)))?;
        }
        out.flush()
    }
}
