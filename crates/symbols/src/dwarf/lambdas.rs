//! Which of the lambdas of a function one is.
//!
//! Their types have no names. In mangled names they are numbered among those of the function that take the same, in the
//! order of the source.

use std::collections::HashMap;

use gimli::AttributeValue;

use super::meter::Trouble;
use super::names::{Entry, Names};
use super::qualified::NAMES_MAX;
use super::{Dwarf, Slice, Unit, UnitOffset};

/// Types beside a lambda that are looked at.
const BESIDE_MAX: usize = 4096;
/// Entries of each that are looked at.
const ENTRIES_MAX: usize = 1024;
/// Stands for the type of a parameter that is a template's.
const ANY_TYPE: u64 = u64::MAX;

/// A type without a name that can be called.
struct Lambda {
    at: UnitOffset,
    line: u64,
    column: u64,
    /// What it takes, by the entries of the types.
    takes: Vec<u64>,
}

/// What an entry in a lambda's type says.
#[derive(Default)]
struct LambdaEntry<'a> {
    name: Option<&'a [u8]>,
    of_type: Option<u64>,
    line: u64,
    column: u64,
    is_artificial: bool,
}

impl<'a> Names<'_, 'a> {
    /// The number of a lambda among those around it that take the same.
    pub(super) fn lambda(&mut self, entry: &Entry<'a>) -> Result<Option<u32>, Trouble> {
        if let Some(known) = self.around.lambdas.get(&entry.place()) {
            return Ok(*known);
        }
        if self.around.lambdas.len() >= NAMES_MAX {
            self.around.lambdas.clear();
        }
        self.around.lambdas.insert(entry.place(), None);
        let scopes = self.scopes(entry)?;
        let mut found = Vec::new();
        for at in scopes.types_beside(entry.at).take(BESIDE_MAX) {
            match self.read_lambda(&Entry { at, ..entry.clone() }) {
                Ok(lambda) => found.extend(lambda),
                Err(Trouble::Damaged) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        found.sort_by_key(|lambda| (lambda.line, lambda.column, lambda.at));
        let mut counts: HashMap<&[u64], u32> = HashMap::new();
        for lambda in &found {
            let count = counts.entry(&lambda.takes).or_default();
            *count += 1;
            self.around.lambdas.insert(Entry { at: lambda.at, ..entry.clone() }.place(), Some(*count));
        }
        Ok(self.around.lambdas.get(&entry.place()).copied().flatten())
    }

    fn read_lambda(&self, entry: &Entry<'a>) -> Result<Option<Lambda>, Trouble> {
        let Some(dwarf) = self.dwarf_of(entry.part) else { return Ok(None) };
        let mut tally = self.meter.tally();
        let mut lambda = Lambda { at: entry.at, line: 0, column: 0, takes: Vec::new() };
        let mut entries = entry.unit.entries_raw(Some(entry.at))?;
        let outside = entries.next_depth();
        // The depth of the call operator, and whether it is a template.
        let mut operator: Option<(isize, bool)> = None;
        for step in 0..ENTRIES_MAX {
            tally.step()?;
            if entries.is_empty() {
                break;
            }
            let depth = entries.next_depth();
            let is_over = depth <= outside || operator.is_some_and(|(level, _)| depth <= level);
            if step > 0 && is_over {
                break;
            }
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            let part = LambdaEntry::read(&mut entries, abbreviation, dwarf, &entry.unit)?;
            if step == 0 {
                if part.name.is_some() {
                    return Ok(None);
                }
                (lambda.line, lambda.column) = (part.line, part.column);
                continue;
            }
            match (abbreviation.tag(), operator) {
                (gimli::DW_TAG_subprogram, None) if depth == outside + 1 => {
                    let arguments = part.name.and_then(|name| name.strip_prefix(b"operator()"));
                    operator = arguments.map(|arguments| (depth, !arguments.is_empty()));
                }
                (gimli::DW_TAG_formal_parameter, Some((level, is_template)))
                    if depth == level + 1 && !part.is_artificial =>
                {
                    lambda.takes.push(part.of_type.filter(|_| !is_template).unwrap_or(ANY_TYPE));
                }
                _ => {}
            }
        }
        Ok(operator.map(|_| lambda))
    }
}

impl<'a> LambdaEntry<'a> {
    fn read(
        entries: &mut gimli::EntriesRaw<'_, Slice<'a>>,
        abbreviation: &gimli::Abbreviation,
        dwarf: &Dwarf<'a>,
        unit: &Unit<'a>,
    ) -> Result<LambdaEntry<'a>, Trouble> {
        let mut part = LambdaEntry::default();
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification)?;
            let value = attribute.value();
            match attribute.name() {
                gimli::DW_AT_name => part.name = dwarf.attr_string(unit, value).ok().map(|slice| slice.slice()),
                gimli::DW_AT_artificial => part.is_artificial = true,
                gimli::DW_AT_decl_line => part.line = value.udata_value().unwrap_or(0),
                gimli::DW_AT_decl_column => part.column = value.udata_value().unwrap_or(0),
                gimli::DW_AT_type => {
                    part.of_type = match value {
                        AttributeValue::UnitRef(offset) => Some(offset.0 as u64),
                        AttributeValue::DebugInfoRef(offset) => Some(offset.0 as u64),
                        AttributeValue::DebugInfoRefSup(offset) => Some(offset.0 as u64),
                        _ => None,
                    }
                }
                _ => {}
            }
        }
        Ok(part)
    }
}
