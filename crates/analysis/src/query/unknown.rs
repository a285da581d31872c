//! Names that a filter asks for and that do not occur in a ledger at all: most often they are misspelt.

use std::collections::BTreeSet;
use std::fmt;

use heapledger_format::{CodeId, SectionKind};
use heapledger_source::{Ledger, SourceError};

use super::expr::{Expr, Filter, Test};
use super::lex::short;
use super::nearest;
use super::plan::TextTest;
use super::rows;
use super::stacks::{holds_frame, of_path, without_parameters};
use super::value::Value;
use crate::fields::{Field, Op, Type};
use crate::{NamedFrame, Names, NamingOptions};

/// Names that are shown where none is like the one that was asked for.
const SHOWN: usize = 5;
/// Code addresses that are looked through at most.
const CODES_MAX: u64 = 1 << 22;

/// What was asked for and does not occur.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    field: Field,
    asked: Asked,
    /// The name that is most like it.
    near: Option<String>,
    /// Some of those that there are, and how many there are.
    known: (Vec<String>, usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    Name(String),
    Pattern(String),
    Row(u64),
}

impl Unknown {
    /// Whether another ledger does not have the same.
    pub fn is_same(&self, other: &Unknown) -> bool {
        self.field == other.field && self.asked == other.asked
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.field {
            Field::Function | Field::Holder => "function",
            Field::File => "source file",
            Field::Since => "mark",
            field => field.name(),
        };
        match &self.asked {
            Asked::Name(name) if matches!(self.field, Field::File | Field::Module) => {
                write!(f, "no {what} of this ledger is \"{}\"", short(name))?;
            }
            Asked::Name(name) => write!(f, "no {what} of this ledger is named \"{}\"", short(name))?,
            Asked::Pattern(pattern) => write!(f, "no {what} of this ledger matches \"{}\"", short(pattern))?,
            Asked::Row(row) => {
                return write!(f, "no {what} of this ledger has row {row}; `stats` lists them with their rows");
            }
        }
        let (known, all) = &self.known;
        match (&self.near, known.as_slice()) {
            (Some(near), _) => write!(f, "; did you mean \"{}\"?", short(near)),
            (None, []) => Ok(()),
            (None, known) => {
                let more = all.saturating_sub(known.len());
                let more = if more == 0 { String::new() } else { format!(" and {more} more") };
                write!(f, "; there {} {}{more}", if *all == 1 { "is" } else { "are" }, known.join(", "))
            }
        }
    }
}

/// The conditions that must hold of a name for anything to be meant: not those that are negated.
fn positive<'e>(expr: &'e Expr, negated: bool, each: &mut dyn FnMut(&'e Test)) {
    match expr {
        Expr::All(parts) | Expr::Any(parts) => parts.iter().for_each(|part| positive(part, negated, each)),
        Expr::Not(part) => positive(part, !negated, each),
        Expr::Test(test) => {
            let own = matches!(test.op, Op::Unequal | Op::MatchesNot);
            if own == negated {
                each(test);
            }
        }
    }
}

/// A value of a test by itself.
fn asked(test: &Test) -> impl Iterator<Item = (Asked, TextTest)> {
    test.values.iter().filter_map(|value| {
        let single = Test { values: vec![value.clone()], ..test.clone() };
        let asked = match value {
            Value::Text(text) if test.op.is_pattern() => Asked::Pattern(text.clone()),
            Value::Text(text) => Asked::Name(text.clone()),
            Value::Number(row) => Asked::Row(*row),
            _ => return None,
        };
        Some((asked, TextTest::of(&single)))
    })
}

/// The one of `names` that is most like `name`; those of another length are not.
fn like<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<String> {
    let letters = name.len();
    let near = names.filter(|other| other.len().abs_diff(letters) <= letters / 3 + 1);
    nearest(name, near).map(str::to_owned)
}

/// Of `names`, so many are listed.
fn unknown(field: Field, asked: Asked, names: &[&str], listed: usize) -> Unknown {
    let near = match &asked {
        Asked::Name(name) => like(name, names.iter().copied()),
        _ => None,
    };
    let shown = names.iter().take(listed).map(|name| format!("\"{}\"", short(name)));
    Unknown { field, asked, near, known: (shown.collect(), names.len()) }
}

impl Filter {
    /// What this asks for by a name that does not occur in `ledger`, in no block and no event. `names` looks all
    /// functions up, if any is asked for: to be called where nothing was found.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn unknown(
        &self,
        ledger: &Ledger,
        names: &mut Names<'_>,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Vec<Unknown>, SourceError> {
        let mut tests = Vec::new();
        if let Some(expr) = &self.expr {
            positive(expr, false, &mut |test| tests.push(test));
        }
        let mut found = Vec::new();
        for test in tests.iter().filter(|test| matches!(test.field.kind(), Type::Row | Type::Moment | Type::Label)) {
            let rows = rows::named(test.field, ledger)?;
            let known: BTreeSet<&str> = rows.iter().map(|(_, name)| name.as_str()).collect();
            let known: Vec<&str> = known.into_iter().filter(|name| !name.is_empty()).collect();
            for (asked, text) in asked(test) {
                let there = match &asked {
                    Asked::Row(number) => rows.iter().any(|(row, _)| u64::from(*row) == *number),
                    _ => rows.iter().any(|(_, name)| text.holds(name)),
                };
                if !there && !rows.is_empty() {
                    found.push(unknown(test.field, asked, &known, SHOWN));
                }
            }
        }
        for test in tests.iter().filter(|test| test.field == Field::Module) {
            let paths = names.module_paths();
            let started = names.started();
            let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
            let known: Vec<String> = paths.iter().map(|path| last(path)).filter(|name| !name.is_empty()).collect();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            for (asked, text) in asked(test) {
                let there = paths.iter().any(|path| of_path(&text, path));
                if !there
                    && !started
                        .as_ref()
                        .is_some_and(|started| of_path(&text, &started.name) || of_path(&text, &started.file))
                {
                    found.push(unknown(test.field, asked, &known, SHOWN));
                }
            }
        }
        let of_code = |test: &&&Test| matches!(test.field, Field::Function | Field::Holder | Field::File);
        let mut left: Vec<(Field, Asked, TextTest)> = tests
            .iter()
            .filter(of_code)
            .flat_map(|test| asked(test).map(|(name, text)| (test.field, name, text)))
            .collect();
        let codes = ledger.count(SectionKind::Pcs)?;
        if left.is_empty() || codes > CODES_MAX {
            return Ok(found);
        }
        let ids = (1..u32::try_from(codes).unwrap_or(u32::MAX)).map(CodeId);
        names.resolve_codes(ids.clone(), NamingOptions::default(), progress)?;
        let (mut functions, mut files) = (BTreeSet::new(), BTreeSet::new());
        for id in ids {
            for frame in names.frames(id)? {
                left.retain(|(field, _, text)| !holds_frame(*field, text, &frame, None));
                let NamedFrame { function, file, .. } = frame;
                functions.extend(function);
                files.extend(file);
            }
            if left.is_empty() {
                return Ok(found);
            }
        }
        let functions: Vec<&str> = functions.iter().map(|name| without_parameters(name)).collect();
        let files: Vec<&str> = files.iter().map(|path| path.rsplit('/').next().unwrap_or_default()).collect();
        found.extend(left.into_iter().map(|(field, asked, _)| {
            let known = if field == Field::File { &files } else { &functions };
            unknown(field, asked, known, 0)
        }));
        Ok(found)
    }
}
