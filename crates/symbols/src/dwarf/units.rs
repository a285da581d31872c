//! Which compilation unit holds which addresses.
//!
//! Units are read here by hand rather than by gimli's own constructor, because that one
//! parses the line program's header as well, which an index does not need, and which a
//! forged file can make long and shared by all its units.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use gimli::{
    Abbreviations, AttributeValue, DebugAbbrev, DebugAddrBase, DebugInfoOffset, DebugLineOffset, DebugLocListsBase,
    DebugRngListsBase, DebugStrOffsetsBase, Reader, Section, UnitHeader, UnitType,
};

use super::lines::Lines;
use super::meter::{Meter, Tally, Trouble};
use super::spans::{Span, Spans};
use super::{Dwarf, Slice, Unit};
use crate::elf::Image;

/// Units listed.
const UNITS_MAX: usize = 4 << 20;
/// Address ranges of units kept.
const RANGES_MAX: usize = 8 << 20;
/// Abbreviation tables kept at a time.
const TABLES_MAX: usize = 256;

/// Where the units of one file begin.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    units: Vec<usize>,
    /// Where abbreviation tables begin, sorted.
    tables: Vec<usize>,
}

/// The units of a file by address.
#[derive(Debug)]
pub(crate) struct UnitIndex {
    pub(crate) catalogue: Catalogue,
    spans: Spans,
    pub(crate) split_units: usize,
    pub(crate) damage: Option<String>,
}

/// What the root entry of a unit says, besides what gimli's unit holds.
pub(crate) struct Root<'a> {
    low_pc: Option<AttributeValue<Slice<'a>>>,
    high_pc: Option<AttributeValue<Slice<'a>>>,
    ranges: Option<AttributeValue<Slice<'a>>>,
    pub(crate) lines: Option<DebugLineOffset>,
    pub(crate) language: Language,
    pub(crate) is_split: bool,
}

/// How a function's name has to do with its symbol, and with what its entry lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// Its name is the symbol's, wherever it lies.
    C,
    /// Its name is written behind those of what it lies in, with `::`. So is that of a language that is not said.
    Scoped,
    Other,
}

/// Abbreviation tables, kept while units share them.
#[derive(Default)]
pub(crate) struct Tables(HashMap<usize, Arc<Abbreviations>>);

impl Catalogue {
    /// Lists the units, and whether a header did not parse.
    pub(crate) fn read(dwarf: &Dwarf<'_>) -> (Catalogue, bool) {
        let mut catalogue = Catalogue::default();
        let mut headers = dwarf.units();
        let damaged = loop {
            match headers.next() {
                Ok(Some(_)) if catalogue.units.len() >= UNITS_MAX => break true,
                Ok(Some(header)) => {
                    catalogue.units.extend(header.debug_info_offset().map(|offset| offset.0));
                    catalogue.tables.push(header.debug_abbrev_offset().0);
                }
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        catalogue.tables.sort_unstable();
        catalogue.tables.dedup();
        (catalogue, damaged)
    }

    /// The unit that holds the entry at `offset`.
    pub(crate) fn holding(&self, offset: usize) -> Option<usize> {
        let after = self.units.partition_point(|start| *start <= offset);
        self.units.get(after.checked_sub(1)?).copied()
    }

    /// Reads the unit that begins at `start`, without its line program.
    pub(crate) fn unit<'a>(
        &self,
        dwarf: &Dwarf<'a>,
        start: usize,
        tables: &mut Tables,
        meter: &Meter,
    ) -> Result<(Unit<'a>, Root<'a>), Trouble> {
        let header = dwarf.debug_info.header_from_offset(DebugInfoOffset(start))?;
        let abbreviations = tables.get(self, dwarf, header.debug_abbrev_offset().0, meter)?;
        read_root(dwarf, header, abbreviations)
    }
}

impl Tables {
    /// A table ends where the next one begins. Saying so keeps forged units, which point
    /// one byte apart into a large section, from having it parsed over and over.
    fn get(
        &mut self,
        catalogue: &Catalogue,
        dwarf: &Dwarf<'_>,
        at: usize,
        meter: &Meter,
    ) -> Result<Arc<Abbreviations>, Trouble> {
        if let Some(table) = self.0.get(&at) {
            return Ok(Arc::clone(table));
        }
        let whole = dwarf.debug_abbrev.reader();
        let after = catalogue.tables.partition_point(|start| *start <= at);
        let end = catalogue.tables.get(after).map_or(whole.len(), |end| *end).min(whole.len());
        meter.spend(end.saturating_sub(at) as u64)?;
        let section = DebugAbbrev::from(Slice::new(&whole.slice()[..end], whole.endian()));
        let table = Arc::new(section.abbreviations(gimli::DebugAbbrevOffset(at))?);
        if self.0.len() >= TABLES_MAX {
            self.0.clear();
        }
        self.0.insert(at, Arc::clone(&table));
        Ok(table)
    }
}

fn read_root<'a>(
    dwarf: &Dwarf<'a>,
    header: UnitHeader<Slice<'a>>,
    abbreviations: Arc<Abbreviations>,
) -> Result<(Unit<'a>, Root<'a>), Trouble> {
    let encoding = header.encoding();
    let mut root =
        Root { low_pc: None, high_pc: None, ranges: None, lines: None, language: Language::Scoped, is_split: false };
    let dwo_id = match header.type_() {
        UnitType::Skeleton(id) | UnitType::SplitCompilation(id) => Some(id),
        _ => None,
    };
    let mut unit = Unit {
        header,
        abbreviations,
        name: None,
        comp_dir: None,
        low_pc: 0,
        str_offsets_base: DebugStrOffsetsBase::default_for_encoding_and_file(encoding, dwarf.file_type),
        addr_base: DebugAddrBase(0),
        loclists_base: DebugLocListsBase::default_for_encoding_and_file(encoding, dwarf.file_type),
        rnglists_base: DebugRngListsBase::default_for_encoding_and_file(encoding, dwarf.file_type),
        line_program: None,
        dwo_id,
    };
    let (mut name, mut comp_dir) = (None, None);
    let abbreviations = Arc::clone(&unit.abbreviations);
    let mut entries = unit.header.entries_raw(&abbreviations, None)?;
    let Some(abbreviation) = entries.read_abbreviation()? else { return Ok((unit, root)) };
    for specification in abbreviation.attributes() {
        let attribute = entries.read_attribute(*specification)?;
        let value = attribute.value();
        match (attribute.name(), &value) {
            (gimli::DW_AT_name, _) => name = Some(value),
            (gimli::DW_AT_comp_dir, _) => comp_dir = Some(value),
            (gimli::DW_AT_low_pc, _) => root.low_pc = Some(value),
            (gimli::DW_AT_high_pc, _) => root.high_pc = Some(value),
            (gimli::DW_AT_ranges, _) => root.ranges = Some(value),
            (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(offset)) => root.lines = Some(*offset),
            (gimli::DW_AT_language, AttributeValue::Language(language)) => root.language = Language::of(*language),
            (gimli::DW_AT_str_offsets_base, AttributeValue::DebugStrOffsetsBase(base)) => unit.str_offsets_base = *base,
            (gimli::DW_AT_addr_base | gimli::DW_AT_GNU_addr_base, AttributeValue::DebugAddrBase(base)) => {
                unit.addr_base = *base
            }
            (gimli::DW_AT_rnglists_base | gimli::DW_AT_GNU_ranges_base, AttributeValue::DebugRngListsBase(base)) => {
                unit.rnglists_base = *base;
            }
            (gimli::DW_AT_GNU_dwo_name | gimli::DW_AT_dwo_name, _) => root.is_split = true,
            _ => {}
        }
    }
    root.is_split |= unit.dwo_id.is_some();
    // Only now: how these are to be read depends on bases that may come after them.
    unit.name = name.and_then(|value| dwarf.attr_string(&unit, value).ok());
    unit.comp_dir = comp_dir.and_then(|value| dwarf.attr_string(&unit, value).ok());
    let low = root.low_pc.and_then(|value| dwarf.attr_address(&unit, value).ok().flatten());
    unit.low_pc = low.unwrap_or(0);
    Ok((unit, root))
}

impl Language {
    fn of(language: gimli::DwLang) -> Language {
        match language {
            gimli::DW_LANG_C
            | gimli::DW_LANG_C89
            | gimli::DW_LANG_C99
            | gimli::DW_LANG_C11
            | gimli::DW_LANG_C17
            | gimli::DW_LANG_Mips_Assembler => Language::C,
            gimli::DW_LANG_C_plus_plus
            | gimli::DW_LANG_C_plus_plus_03
            | gimli::DW_LANG_C_plus_plus_11
            | gimli::DW_LANG_C_plus_plus_14
            | gimli::DW_LANG_C_plus_plus_17
            | gimli::DW_LANG_C_plus_plus_20
            | gimli::DW_LANG_ObjC_plus_plus
            | gimli::DW_LANG_Rust => Language::Scoped,
            _ => Language::Other,
        }
    }
}

/// Calls `each` with every range that a low and high address or a range list describe.
pub(crate) fn ranges_of<'a>(
    dwarf: &Dwarf<'a>,
    unit: &Unit<'a>,
    low: Option<AttributeValue<Slice<'a>>>,
    high: Option<AttributeValue<Slice<'a>>>,
    ranges: Option<AttributeValue<Slice<'a>>>,
    tally: &mut Tally<'_>,
    mut each: impl FnMut(u64, u64),
) -> Result<(), Trouble> {
    if let Some(value) = ranges {
        let Some(mut list) = dwarf.attr_ranges(unit, value)? else { return Ok(()) };
        while let Some(range) = list.next()? {
            tally.step()?;
            if range.begin < range.end {
                each(range.begin, range.end);
            }
        }
        return Ok(());
    }
    let (Some(low), Some(high)) = (low, high) else { return Ok(()) };
    let Some(begin) = dwarf.attr_address(unit, low)? else { return Ok(()) };
    let end = match high {
        AttributeValue::Udata(size) => begin.wrapping_add(size),
        other => match other.udata_value() {
            Some(size) => begin.wrapping_add(size),
            None => dwarf.attr_address(unit, other)?.unwrap_or(0),
        },
    };
    if begin < end {
        each(begin, end);
    }
    Ok(())
}

impl UnitIndex {
    /// Reads the root of every unit. Fails only when time is up.
    pub(crate) fn build(dwarf: &Dwarf<'_>, image: &Image, meter: &Meter) -> Result<UnitIndex, Trouble> {
        let (catalogue, cut) = Catalogue::read(dwarf);
        let mut tables = Tables::default();
        let mut spans: Vec<Span> = Vec::new();
        let mut silent = Vec::new();
        let (mut split_units, mut broken, mut too_much) = (0, 0, false);
        for (number, start) in catalogue.units.iter().enumerate() {
            let owner = number as u32; // at most UNITS_MAX
            let before = spans.len();
            let result = catalogue.unit(dwarf, *start, &mut tables, meter).and_then(|(unit, root)| {
                if matches!(unit.header.type_(), UnitType::Partial | UnitType::Type { .. } | UnitType::SplitType { .. })
                {
                    return Ok(());
                }
                split_units += usize::from(root.is_split);
                let mut tally = meter.tally();
                let push = |begin, end| push(&mut spans, image, begin, end, owner);
                ranges_of(dwarf, &unit, root.low_pc, root.high_pc, root.ranges, &mut tally, push)?;
                if spans.len() == before && root.lines.is_some() {
                    silent.push((*start, owner));
                }
                Ok(())
            });
            match result {
                Ok(()) => {}
                Err(Trouble::Late) => return Err(Trouble::Late),
                Err(Trouble::Damaged) => broken += 1,
                Err(Trouble::TooMuch) => {
                    too_much = true;
                    break;
                }
            }
        }
        let listed = from_aranges(dwarf, image, &silent, &mut spans, meter);
        match listed.and_then(|listed| {
            silent.retain(|(_, owner)| !listed.contains(owner));
            from_lines(dwarf, image, &catalogue, &silent, &mut spans, meter)
        }) {
            Err(Trouble::Late) => return Err(Trouble::Late),
            Err(Trouble::TooMuch) => too_much = true,
            Ok(()) | Err(Trouble::Damaged) => {}
        }
        let damage = match (too_much, cut, broken) {
            (true, ..) => Some("it would take too much work to read".to_owned()),
            (_, true, _) => Some("its list of units breaks off".to_owned()),
            (_, _, 1..) => Some(format!("{broken} of its units do not parse")),
            _ => None,
        };
        Ok(UnitIndex { catalogue, spans: Spans::new(spans), split_units, damage })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The units that claim `address`, the best guess first.
    pub(crate) fn around(&self, address: u64) -> impl Iterator<Item = usize> + '_ {
        self.spans.around(address).filter_map(|span| self.catalogue.units.get(span.owner as usize).copied())
    }
}

/// What the linker dropped still has debug information, at address zero or beyond all
/// code, depending on the linker; without this check it would claim the file's first bytes.
fn push(spans: &mut Vec<Span>, image: &Image, begin: u64, end: u64, owner: u32) {
    if spans.len() < RANGES_MAX && image.is_code(begin) {
        spans.push(Span { begin, end, owner });
    }
}

/// Units that do not say where their code is, as some assemblers leave them.
/// `.debug_aranges` may know. Returns the owners it knows.
fn from_aranges(
    dwarf: &Dwarf<'_>,
    image: &Image,
    silent: &[(usize, u32)],
    spans: &mut Vec<Span>,
    meter: &Meter,
) -> Result<HashSet<u32>, Trouble> {
    let mut listed = HashSet::new();
    if silent.is_empty() {
        return Ok(listed);
    }
    let owners: HashMap<usize, u32> = silent.iter().copied().collect();
    let mut tally = meter.tally();
    let mut headers = dwarf.debug_aranges.headers();
    while let Ok(Some(header)) = headers.next() {
        tally.step()?;
        let Some(owner) = owners.get(&header.debug_info_offset().0) else { continue };
        let mut entries = header.entries();
        while let Ok(Some(entry)) = entries.next() {
            tally.step()?;
            let range = entry.range();
            if range.begin < range.end {
                push(spans, image, range.begin, range.end, *owner);
                listed.insert(*owner);
            }
        }
    }
    Ok(listed)
}

/// The last resort: what the line program covers is the unit's code.
fn from_lines(
    dwarf: &Dwarf<'_>,
    image: &Image,
    catalogue: &Catalogue,
    silent: &[(usize, u32)],
    spans: &mut Vec<Span>,
    meter: &Meter,
) -> Result<(), Trouble> {
    let mut tables = Tables::default();
    for (start, owner) in silent {
        let read = catalogue.unit(dwarf, *start, &mut tables, meter).and_then(|(unit, root)| {
            root.lines.map(|offset| Lines::read(dwarf, &unit, offset, image, meter)).transpose()
        });
        match read {
            Ok(Some(lines)) => lines.extents().for_each(|(begin, end)| push(spans, image, begin, end, *owner)),
            Ok(None) | Err(Trouble::Damaged) => {}
            Err(trouble) => return Err(trouble),
        }
    }
    Ok(())
}
