//! Keys of labels as fields: `label.route` is what stands behind the key `route` of a block's label.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::Field;

/// What is before the key in the name of a field.
const LABEL_DOT: &str = "label.";

/// A key of labels, as the name of a field: `label.route`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelKey(&'static str);

impl LabelKey {
    /// Of the name of a field, if it is one of these.
    fn of(name: &str) -> Option<LabelKey> {
        // All that were ever asked for. They are kept for ever, because fields are copied everywhere; people type few.
        static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
        let key = name.get(LABEL_DOT.len()..).filter(|key| !key.is_empty())?;
        if !name.get(..LABEL_DOT.len())?.eq_ignore_ascii_case(LABEL_DOT) {
            return None;
        }
        let name = format!("{LABEL_DOT}{key}");
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        Some(LabelKey(names.get(name.as_str()).copied().unwrap_or_else(|| {
            let name: &'static str = name.leak();
            names.insert(name);
            name
        })))
    }

    /// The name of the field.
    pub(super) fn name(self) -> &'static str {
        self.0
    }
}

impl Field {
    /// What stands behind a key of a block's label: `label.route`.
    pub(crate) fn of_label(name: &str) -> Option<Field> {
        LabelKey::of(name).map(Field::LabelOf)
    }

    /// The key of a label that it is about.
    pub(crate) fn label_key(self) -> Option<&'static str> {
        match self {
            Field::LabelOf(key) => key.name().get(LABEL_DOT.len()..),
            _ => None,
        }
    }
}
