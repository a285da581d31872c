//! Names of functions, which debug information often keeps elsewhere.

use std::collections::HashMap;
use std::rc::Rc;

use gimli::AttributeValue;

use super::meter::{Meter, Trouble};
use super::qualified::Around;
use super::units::{Catalogue, Language, Tables};
use super::{DebugFile, DebugInfo, Dwarf, Slice, Unit, UnitOffset};

/// References followed from an inlined call to its name. Honest chains have three links.
const HOPS_MAX: usize = 16;
/// Units kept for references from other units.
const UNITS_MAX: usize = 512;

/// What an entry is called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named<'a> {
    /// As the linker knows it.
    pub(crate) linkage: Option<&'a [u8]>,
    /// As the programmer knows it, without the names around it.
    pub(crate) plain: Option<&'a [u8]>,
    /// The linker knows it by some name, in every file.
    pub(super) is_external: bool,
    /// Where the references led at last.
    pub(super) place: Option<Entry<'a>>,
}

/// Where following references ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    LinkageName,
    /// At what was declared first, which lies where it belongs.
    Declaration,
}

/// Follows references, within a unit, to other units and to the shared file.
pub(crate) struct Names<'b, 'a> {
    debug: &'b DebugInfo,
    dwarf: &'b Dwarf<'a>,
    pub(super) meter: &'b Meter,
    tables: HashMap<DebugFile, Tables>,
    units: HashMap<(DebugFile, usize), (Rc<Unit<'a>>, Language)>,
    pub(super) around: Around,
}

/// An entry, and the unit it is in.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'a> {
    pub(super) part: DebugFile,
    pub(super) unit: Rc<Unit<'a>>,
    pub(super) language: Language,
    pub(super) at: UnitOffset,
}

impl<'b, 'a> Names<'b, 'a> {
    pub(crate) fn new(debug: &'b DebugInfo, dwarf: &'b Dwarf<'a>, meter: &'b Meter) -> Self {
        let around = Around::default();
        Names { debug, dwarf, meter, tables: HashMap::new(), units: HashMap::new(), around }
    }

    /// The name of the entry `at` in a unit of the main file. A reference that leads
    /// nowhere ends the search with what was found before it.
    pub(crate) fn find(
        &mut self,
        unit: &Rc<Unit<'a>>,
        language: Language,
        at: UnitOffset,
    ) -> Result<Named<'a>, Trouble> {
        self.chase(Entry { part: DebugFile::Main, unit: Rc::clone(unit), language, at }, Until::LinkageName)
    }

    pub(super) fn chase(&mut self, mut entry: Entry<'a>, until: Until) -> Result<Named<'a>, Trouble> {
        let mut named = Named::default();
        for _ in 0..HOPS_MAX {
            self.meter.spend(1)?;
            let next = match self.read(&entry, &mut named) {
                Ok(next) => next,
                Err(Trouble::Damaged) => None,
                Err(trouble) => return Err(trouble),
            };
            if named.linkage.is_some() && until == Until::LinkageName {
                break;
            }
            let Some(next) = next else { break };
            entry = match self.follow(&entry, next) {
                Ok(Some(entry)) => entry,
                Ok(None) | Err(Trouble::Damaged) => break,
                Err(trouble) => return Err(trouble),
            };
        }
        named.place = Some(entry);
        Ok(named)
    }

    pub(super) fn dwarf_of(&self, part: DebugFile) -> Option<&'b Dwarf<'a>> {
        match part {
            DebugFile::Main => Some(self.dwarf),
            DebugFile::Shared => self.dwarf.sup(),
        }
    }

    fn read(&self, entry: &Entry<'a>, named: &mut Named<'a>) -> Result<Option<AttributeValue<Slice<'a>>>, Trouble> {
        let Some(dwarf) = self.dwarf_of(entry.part) else { return Ok(None) };
        let mut next = None;
        let mut entries = entry.unit.entries_raw(Some(entry.at))?;
        let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(None) };
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification)?;
            let text = |value| dwarf.attr_string(&entry.unit, value).ok().map(|slice| slice.slice());
            match attribute.name() {
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => named.linkage = text(attribute.value()),
                gimli::DW_AT_name if named.plain.is_none() => named.plain = text(attribute.value()),
                gimli::DW_AT_external => named.is_external |= attribute.value() == AttributeValue::Flag(true),
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => next = Some(attribute.value()),
                _ => {}
            }
        }
        Ok(next)
    }

    fn follow(&mut self, from: &Entry<'a>, to: AttributeValue<Slice<'a>>) -> Result<Option<Entry<'a>>, Trouble> {
        let (part, offset) = match to {
            AttributeValue::UnitRef(at) => {
                return Ok(Some(Entry { at, ..from.clone() }));
            }
            AttributeValue::DebugInfoRef(offset) => (from.part, offset),
            AttributeValue::DebugInfoRefSup(offset) => (DebugFile::Shared, offset),
            _ => return Ok(None),
        };
        let debug = self.debug;
        let catalogue: &Catalogue = match part {
            DebugFile::Main => &debug.index.catalogue,
            DebugFile::Shared => &debug.shared_units,
        };
        let (Some(dwarf), Some(start)) = (self.dwarf_of(part), catalogue.holding(offset.0)) else { return Ok(None) };
        let (unit, language) = match self.units.get(&(part, start)) {
            Some((unit, language)) => (Rc::clone(unit), *language),
            None => {
                let tables = self.tables.entry(part).or_default();
                let (unit, root) = catalogue.unit(dwarf, start, tables, self.meter)?;
                if self.units.len() >= UNITS_MAX {
                    self.units.clear();
                }
                let unit = Rc::new(unit);
                self.units.insert((part, start), (Rc::clone(&unit), root.language));
                (unit, root.language)
            }
        };
        Ok(offset.to_unit_offset(&unit.header).map(|at| Entry { part, unit, language, at }))
    }
}
