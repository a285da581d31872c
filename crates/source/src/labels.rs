//! Labels: what they say, and which record has which.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use heapledger_format::label::{Label, TEXT_BYTES_MAX};
use heapledger_format::section::label_column;
use heapledger_format::{LabelId, SectionKind};

use crate::SourceError;
use crate::ledger::{Ledger, Store};

/// Most labels that are read: numbers are 20 bits wide in the history.
const LABELS_MAX: u64 = 1 << 20;
/// Most bytes of their texts: a forged ledger may have the same ones a million times.
const TEXTS_BYTES_MAX: usize = 256 << 20;
/// Most labels around one that count.
const DEPTH_MAX: usize = 64;

/// The section that has a label for each slot of the records.
pub(crate) struct LabelColumn<'a> {
    ledger: &'a Ledger,
    element_bytes: usize,
}

impl<'a> LabelColumn<'a> {
    /// Of the records of `ledger`, if it has one.
    pub(crate) fn of(ledger: &'a Ledger) -> Option<LabelColumn<'a>> {
        let element_bytes = ledger.element_bytes(SectionKind::LabelColumn);
        (element_bytes >= label_column::BYTES).then_some(LabelColumn { ledger, element_bytes })
    }

    /// Appends the labels of the slots from `first` on, up to the first that there is none for.
    pub(crate) fn read(&self, first: u64, count: u64, out: &mut Vec<LabelId>) -> Result<(), SourceError> {
        let kind = SectionKind::LabelColumn;
        let mut bytes = Vec::new();
        match &self.ledger.store {
            Store::Finished(pieces) => pieces.append(kind, self.element_bytes, first, count, &mut bytes)?,
            Store::Live(live) => {
                let extent = live.extent(self.ledger.header(), kind)?;
                let count = count.min(extent.count.saturating_sub(first));
                bytes.resize(count as usize * extent.element_bytes, 0);
                if !bytes.is_empty() && extent.element_bytes == self.element_bytes {
                    let there = live.read(&extent, first, &mut bytes)?;
                    bytes.truncate(there as usize * self.element_bytes);
                }
            }
        }
        let codec = self.ledger.header().codec;
        out.extend(bytes.chunks_exact(self.element_bytes).map(|element| LabelId(codec.u32(element, 0))));
        Ok(())
    }
}

/// One label, without those around it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LabelRow {
    parent: u32,
    key: String,
    value: String,
}

/// All labels of a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    rows: BTreeMap<u32, LabelRow>,
}

impl Labels {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.rows.len()
    }

    /// Their numbers, in order.
    pub fn numbers(&self) -> impl Iterator<Item = LabelId> {
        self.rows.keys().copied().map(LabelId)
    }

    /// All keys.
    pub fn keys(&self) -> BTreeSet<&str> {
        self.rows.values().map(|row| row.key.as_str()).filter(|key| !key.is_empty()).collect()
    }

    /// Keys and values of a label and of those around it, innermost first; of one key only the innermost.
    pub fn pairs(&self, label: LabelId) -> Vec<(&str, &str)> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        let mut next = label.0;
        for _ in 0..DEPTH_MAX {
            let Some(row) = self.rows.get(&next) else { break };
            if !row.key.is_empty() && !pairs.iter().any(|(key, _)| *key == row.key) {
                pairs.push((&row.key, &row.value));
            }
            // A parent has a lower number: what says otherwise is damaged, and may lead in a circle.
            next = if row.parent < next { row.parent } else { 0 };
        }
        pairs
    }

    /// The same as text: `user=7 route=/x`. Empty if there is no such label.
    pub fn text(&self, label: LabelId) -> String {
        let pairs = self.pairs(label);
        let texts: Vec<Cow<'_, str>> = pairs.iter().map(|(key, value)| format!("{key}={value}").into()).collect();
        texts.join(" ")
    }
}

impl Ledger {
    /// The labels.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn labels(&self) -> Result<Labels, SourceError> {
        let codec = self.header().codec;
        let mut rows: BTreeMap<u32, LabelRow> = BTreeMap::new();
        let needed = Label::bytes(codec.word);
        let (mut left, mut wrong) = (TEXTS_BYTES_MAX, 0);
        self.each_row(SectionKind::Labels, needed, LABELS_MAX, &mut |row, element| {
            let text = |at: u32, bytes: u16| self.text_at(at.into(), bytes.min(TEXT_BYTES_MAX).into());
            // Label 0 is no label.
            if let Some(label) = Label::read(codec, element).filter(|_| row != 0) {
                let (key, value) = (text(label.key_at, label.key_bytes)?, text(label.value_at, label.value_bytes)?);
                match left.checked_sub(key.len() + value.len()) {
                    Some(rest) => {
                        left = rest;
                        rows.insert(row, LabelRow { parent: label.parent, key, value });
                    }
                    None => wrong += 1,
                }
            }
            Ok(())
        })?;
        self.count_wrong(wrong);
        Ok(Labels { rows })
    }
}
