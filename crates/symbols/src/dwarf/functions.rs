//! The functions of a unit, and what was inlined into them.

use std::rc::Rc;

use gimli::AttributeValue;

use super::meter::{Meter, Trouble};
use super::scopes::{Gathered, Scopes};
use super::spans::{Span, Spans};
use super::units::{Language, ranges_of};
use super::{Dwarf, Slice, Unit, UnitOffset};
use crate::elf::Image;

/// Functions and their address ranges kept of one unit.
const FUNCTIONS_MAX: usize = 4 << 20;
/// Inlined calls and their ranges kept of one function.
const INLINED_MAX: usize = 1 << 20;
/// Inlined calls inside each other. Compilers stop far below.
const DEPTH_MAX: usize = 128;

/// The functions of one unit by address.
pub(crate) struct Functions {
    entries: Vec<UnitOffset>,
    spans: Spans,
    /// What lies around the entries of a unit where that belongs to names.
    pub(crate) scopes: Option<Rc<Scopes>>,
}

/// A function that holds an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) entry: UnitOffset,
    /// Start of the piece of it that holds the address.
    pub(crate) begin: u64,
}

/// Everything inlined into one function, in the order of the debug information, in which a
/// call comes before the calls inside it.
pub(crate) struct Inlined {
    calls: Vec<Call>,
    ranges: Vec<(u64, u64)>,
}

/// One call that was inlined.
pub(crate) struct Call {
    depth: usize,
    ranges: std::ops::Range<usize>,
    pub(crate) entry: UnitOffset,
    pub(crate) file: Option<u64>,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// The attributes that say where code is and where it was called from.
#[derive(Default)]
struct CodeAttributes<'a> {
    low: Option<AttributeValue<Slice<'a>>>,
    high: Option<AttributeValue<Slice<'a>>>,
    ranges: Option<AttributeValue<Slice<'a>>>,
    file: Option<u64>,
    line: u32,
    column: u32,
}

impl<'a> CodeAttributes<'a> {
    fn read(
        entries: &mut gimli::EntriesRaw<'_, Slice<'a>>,
        abbreviation: &gimli::Abbreviation,
        version: u16,
    ) -> Result<CodeAttributes<'a>, Trouble> {
        let mut place = CodeAttributes::default();
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification)?;
            let value = attribute.value();
            let number =
                |value: AttributeValue<Slice<'a>>| value.udata_value().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
            match attribute.name() {
                gimli::DW_AT_low_pc => place.low = Some(value),
                gimli::DW_AT_high_pc => place.high = Some(value),
                gimli::DW_AT_ranges => place.ranges = Some(value),
                gimli::DW_AT_call_line => place.line = number(value),
                gimli::DW_AT_call_column => place.column = number(value),
                gimli::DW_AT_call_file => {
                    // Before version 5, file 0 meant "none"; since then it is a file.
                    if let AttributeValue::FileIndex(index) = value {
                        place.file = (index > 0 || version >= 5).then_some(index);
                    }
                }
                _ => {}
            }
        }
        Ok(place)
    }
}

impl Functions {
    /// Walks the whole unit once.
    pub(crate) fn read<'a>(
        dwarf: &Dwarf<'a>,
        unit: &Unit<'a>,
        language: Language,
        image: &Image,
        meter: &Meter,
    ) -> Result<Functions, Trouble> {
        let mut gathered = (language == Language::Scoped).then(Gathered::default);
        let mut functions = Vec::new();
        let mut spans = Vec::new();
        let mut tally = meter.tally();
        let mut entries = unit.entries_raw(None)?;
        while !entries.is_empty() {
            tally.step()?;
            let (entry, depth) = (entries.next_offset(), entries.next_depth());
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            if let Some(gathered) = &mut gathered {
                gathered.enter(entry, depth, abbreviation);
            }
            if abbreviation.tag() != gimli::DW_TAG_subprogram || functions.len() >= FUNCTIONS_MAX {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let place = CodeAttributes::read(&mut entries, abbreviation, unit.header.version())?;
            let before = spans.len();
            let owner = functions.len() as u32; // at most FUNCTIONS_MAX
            let push = |begin, end| {
                if spans.len() < FUNCTIONS_MAX && image.is_claim_of_code(begin, end) {
                    spans.push(Span { begin, end, owner });
                }
            };
            // One function whose ranges are damaged does not spoil the others.
            match ranges_of(dwarf, unit, place.low, place.high, place.ranges, &mut tally, push) {
                Ok(()) | Err(Trouble::Damaged) => {}
                Err(trouble) => return Err(trouble),
            }
            if spans.len() > before {
                functions.push(entry);
            }
        }
        let scopes = gathered.map(|gathered| Rc::new(gathered.done()));
        Ok(Functions { entries: functions, spans: Spans::new(spans), scopes })
    }

    /// The smallest function around `address`; of equal ones, which the linker folded
    /// together, the one that was written first.
    pub(crate) fn find(&self, address: u64) -> Option<Found> {
        let best = self.spans.around(address).min_by_key(|span| (span.end - span.begin, span.owner))?;
        Some(Found { entry: *self.entries.get(best.owner as usize)?, begin: best.begin })
    }
}

impl Inlined {
    /// Walks one function. Not recursive: the depth of a forged tree is as the file's size.
    pub(crate) fn read<'a>(
        dwarf: &Dwarf<'a>,
        unit: &Unit<'a>,
        function: UnitOffset,
        meter: &Meter,
    ) -> Result<Inlined, Trouble> {
        let mut inlined = Inlined { calls: Vec::new(), ranges: Vec::new() };
        let mut tally = meter.tally();
        let mut entries = unit.entries_raw(Some(function))?;
        let outside = entries.next_depth();
        if let Some(abbreviation) = entries.read_abbreviation()? {
            entries.skip_attributes(abbreviation.attributes())?;
        }
        // Depths in the tree of the inlined calls that enclose the entry being read.
        let mut open: Vec<isize> = Vec::new();
        // Depth of a function inside this one, whose entries are not ours.
        let mut foreign: Option<isize> = None;
        while !entries.is_empty() && entries.next_depth() > outside {
            tally.step()?;
            let (entry, depth) = (entries.next_offset(), entries.next_depth());
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            while open.last().is_some_and(|enclosing| *enclosing >= depth) {
                open.pop();
            }
            if foreign.is_some_and(|enclosing| depth <= enclosing) {
                foreign = None;
            }
            let is_ours = foreign.is_none();
            match abbreviation.tag() {
                gimli::DW_TAG_inlined_subroutine
                    if is_ours && open.len() < DEPTH_MAX && inlined.calls.len() < INLINED_MAX =>
                {
                    let place = CodeAttributes::read(&mut entries, abbreviation, unit.header.version())?;
                    let start = inlined.ranges.len();
                    let push = |begin, end| {
                        if inlined.ranges.len() < INLINED_MAX {
                            inlined.ranges.push((begin, end));
                        }
                    };
                    ranges_of(dwarf, unit, place.low, place.high, place.ranges, &mut tally, push)?;
                    inlined.calls.push(Call {
                        depth: open.len(),
                        ranges: start..inlined.ranges.len(),
                        entry,
                        file: place.file,
                        line: place.line,
                        column: place.column,
                    });
                    open.push(depth);
                }
                gimli::DW_TAG_subprogram => {
                    entries.skip_attributes(abbreviation.attributes())?;
                    foreign = foreign.or(Some(depth));
                }
                _ => entries.skip_attributes(abbreviation.attributes())?,
            }
        }
        Ok(inlined)
    }

    /// The calls around `address`, outermost first.
    pub(crate) fn around(&self, address: u64) -> Vec<&Call> {
        let mut chain: Vec<&Call> = Vec::new();
        for call in &self.calls {
            if call.depth < chain.len() {
                // The tree has left the innermost call that holds the address.
                break;
            }
            let ranges = self.ranges.get(call.ranges.clone()).unwrap_or(&[]);
            let holds = ranges.iter().any(|(begin, end)| (*begin..*end).contains(&address));
            if call.depth == chain.len() && holds {
                chain.push(call);
            }
        }
        chain
    }
}
