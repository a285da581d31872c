//! What a program tells of its blocks beside their records: the labels, and which mark came last and which windows were open
//! when something happened. Here it is looked up and put into words, for columns, groups, orders and objects.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use heapledger_format::LabelId;
use heapledger_source::{Labels, Ledger, SourceError};

use crate::fields::{Field, Unit};
use crate::query::{Subject, Timeline};

/// Where it is not known which label a block had.
const NOT_KNOWN: &str = "?";

/// All that a program has told, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    labels: Labels,
    marks: Timeline,
    windows: Timeline,
}

impl Told {
    /// What `ledger` has of it now.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(ledger: &Ledger) -> Result<Told, SourceError> {
        let (labels, marks) = (ledger.labels()?, Timeline::of_marks(ledger)?);
        Ok(Told { labels, marks, windows: Timeline::of_windows(ledger)? })
    }

    /// The same, if one of these fields needs it; else nothing.
    pub(crate) fn for_fields(ledger: &Ledger, mut fields: impl Iterator<Item = Field>) -> Result<Told, SourceError> {
        if fields.any(Field::is_told) { Told::of(ledger) } else { Ok(Told::default()) }
    }

    /// Whether a program said anything of the kind that this field is about.
    pub fn has(&self, field: Field) -> bool {
        match field.unit() {
            Unit::Label => self.labels.count() != 0,
            Unit::Mark => !self.marks.is_empty(),
            Unit::Window => !self.windows.is_empty(),
            _ => true,
        }
    }

    /// The figure of a field; that of what is told is good for [`Told::text`].
    #[inline]
    pub fn figure(&self, field: Field, subject: &Subject<'_>) -> Option<u64> {
        match field.unit() {
            Unit::Mark => self.marks.value(subject.number(), subject.thread()).map(u64::from),
            Unit::Window => self.windows.value(subject.number(), subject.thread()).map(u64::from),
            _ => field.figure(subject),
        }
    }

    /// The keys and values of a label, innermost first; `None` if it is not known which label it is.
    pub fn pairs(&self, label: LabelId) -> Option<Vec<(&str, &str)>> {
        (label != LabelId::UNKNOWN).then(|| self.labels.pairs(label))
    }

    /// The names of the windows that were open.
    pub fn windows(&self, subject: &Subject<'_>) -> &[String] {
        self.windows.value(subject.number(), subject.thread()).map_or(&[], |value| self.windows.names(value))
    }

    /// What a figure of a field of this kind is in words; `None` if there is none, or the label has no such key.
    pub fn text(&self, field: Field, figure: u64) -> Option<Cow<'_, str>> {
        let names = |timeline: &'_ Timeline| timeline.names(figure as u32).join(", ");
        Some(match field.unit() {
            Unit::Mark => names(&self.marks).into(),
            Unit::Window => names(&self.windows).into(),
            _ => {
                let Some(pairs) = self.pairs(LabelId(figure as u32)) else { return Some(NOT_KNOWN.into()) };
                match field.label_key() {
                    Some(key) => pairs.into_iter().find(|(known, _)| *known == key)?.1.into(),
                    None => Some(self.labels.text(LabelId(figure as u32))).filter(|text| !text.is_empty())?.into(),
                }
            }
        })
    }

    /// The same of a block or an event.
    pub fn text_of(&self, field: Field, subject: &Subject<'_>) -> Option<Cow<'_, str>> {
        self.text(field, self.figure(field, subject)?)
    }

    /// Where the figures of a field come in an order, from 1: labels by their text, marks and windows by time.
    pub(crate) fn places(&self, field: Field) -> HashMap<u64, u64> {
        let label = |label: LabelId| Some((self.text(field, u64::from(label.0))?, label));
        let mut by_text: BTreeMap<Cow<'_, str>, Vec<LabelId>> = BTreeMap::new();
        for (text, label) in self.labels.numbers().filter_map(label) {
            by_text.entry(text).or_default().push(label);
        }
        let places = by_text.into_values().zip(1..);
        places.flat_map(|(labels, place)| labels.into_iter().map(move |label| (u64::from(label.0), place))).collect()
    }
}
