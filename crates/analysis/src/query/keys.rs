//! Lists such as `size:desc,number`.

use std::ops::Range;

use super::{SyntaxError, nearest};
use crate::fields::Field;

/// Things by name: what a thing is called, and what else it may be called.
pub(crate) type Known<T> = [(T, &'static [&'static str])];

/// What is called by a name that is in no list: what stands behind a key of labels.
pub(crate) trait OfLabel: Sized {
    /// The thing of that name.
    fn of_label(name: &str) -> Option<Self> {
        let _ = name;
        None
    }
}

impl OfLabel for Field {
    fn of_label(name: &str) -> Option<Field> {
        Field::of_label(name)
    }
}

/// The first name of each thing, in a line.
pub(crate) fn firsts<T>(known: &Known<T>) -> String {
    known.iter().filter_map(|(_, names)| names.first().copied()).collect::<Vec<_>>().join(", ")
}

/// The first name of a thing.
pub(crate) fn name_of<T: PartialEq>(known: &Known<T>, thing: &T) -> &'static str {
    known.iter().find(|(known, _)| known == thing).and_then(|(_, names)| names.first()).copied().unwrap_or("")
}

/// The parts of a list, and where they stand, without the space around them.
pub(crate) fn parts(text: &str) -> impl Iterator<Item = (&str, Range<usize>)> {
    let mut at = 0;
    text.split(',').map(move |part| {
        let begin = at + part.len() - part.trim_start().len();
        at += part.len() + 1;
        (part.trim(), begin..begin + part.trim().len())
    })
}

/// The thing called `name`; `what` it is called in an error.
pub(crate) fn find<T: Copy + OfLabel>(
    known: &Known<T>,
    what: &str,
    name: &str,
    text: &str,
    place: Range<usize>,
) -> Result<T, SyntaxError> {
    let lower = name.to_ascii_lowercase();
    if let Some((thing, _)) = known.iter().find(|(_, names)| names.contains(&lower.as_str())) {
        return Ok(*thing);
    }
    if let Some(thing) = T::of_label(name) {
        return Ok(thing);
    }
    let said = if name.is_empty() { format!("a {what} is missing") } else { format!("unknown {what}") };
    let names = known.iter().flat_map(|(_, names)| names.iter().copied());
    Err(SyntaxError::new(said, text, place).help(match nearest(name, names) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("expected {}", firsts(known)),
    }))
}

/// Reads a list of different things.
pub(crate) fn list<T: Copy + PartialEq + OfLabel>(
    known: &Known<T>,
    what: &str,
    text: &str,
) -> Result<Vec<T>, SyntaxError> {
    let mut things = Vec::new();
    for (part, place) in parts(text) {
        let thing = find(known, what, part, text, place.clone())?;
        if things.contains(&thing) {
            return Err(SyntaxError::new(format!("'{}' is there twice", name_of(known, &thing)), text, place));
        }
        things.push(thing);
    }
    Ok(things)
}

/// Reads sort keys, each with whether it is descending. `descends` says so for keys without a direction.
pub(crate) fn sort<T: Copy + PartialEq + OfLabel>(
    known: &Known<T>,
    descends: fn(T) -> bool,
    text: &str,
) -> Result<Vec<(T, bool)>, SyntaxError> {
    let mut keys: Vec<(T, bool)> = Vec::new();
    for (part, place) in parts(text) {
        let (name, direction) = match part.split_once(':') {
            Some((name, direction)) => (name.trim_end(), Some(direction.trim())),
            None => (part, None),
        };
        let by = find(known, "sort key", name, text, place.clone())?;
        let descending = match direction.map(str::to_ascii_lowercase).as_deref() {
            None => descends(by),
            Some("asc" | "ascending") => false,
            Some("desc" | "descending") => true,
            Some(_) => {
                return Err(SyntaxError::new("unknown direction", text, place).help("expected asc or desc"));
            }
        };
        if keys.iter().any(|(known, _)| *known == by) {
            return Err(SyntaxError::new(format!("'{}' is there twice", name_of(known, &by)), text, place));
        }
        keys.push((by, descending));
    }
    Ok(keys)
}
