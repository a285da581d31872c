//! What lies around the entries of a unit: namespaces, types, functions.
//!
//! Entries do not say in which others they lie, so a unit is walked once for all questions about it: a unit with code together
//! with the search for its functions.

use super::meter::{Meter, Trouble};
use super::{Unit, UnitOffset};

/// Scopes kept of one unit.
const SCOPES_MAX: usize = 1 << 20;
/// Scopes inside each other. What lies deeper is not looked for.
const DEPTH_MAX: usize = 64;

/// What kind of scope it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Namespace,
    Type,
    Function,
}

/// One scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    pub(crate) at: UnitOffset,
    pub(crate) kind: Kind,
    /// Where what lies in it ends.
    end: UnitOffset,
}

/// The scopes of a unit, in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    scopes: Vec<Scope>,
    /// Of each the one around it.
    parents: Vec<Option<u32>>,
}

impl Kind {
    fn of(tag: gimli::DwTag) -> Option<Kind> {
        match tag {
            gimli::DW_TAG_namespace | gimli::DW_TAG_module => Some(Kind::Namespace),
            // (An enumeration of Rust has functions.)
            gimli::DW_TAG_class_type
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_interface_type
            | gimli::DW_TAG_enumeration_type => Some(Kind::Type),
            gimli::DW_TAG_subprogram => Some(Kind::Function),
            _ => None,
        }
    }
}

/// Scopes as a walk over a unit meets them.
#[derive(Default)]
pub(crate) struct Gathered {
    scopes: Scopes,
    /// Those around the entry being read, with their depths.
    open: Vec<(isize, u32)>,
}

impl Gathered {
    /// The walk has come to the entry `at`, which so many others lie around.
    pub(crate) fn enter(&mut self, at: UnitOffset, depth: isize, abbreviation: &gimli::Abbreviation) {
        let Scopes { scopes, parents } = &mut self.scopes;
        while let Some((_, closed)) = self.open.pop_if(|(level, _)| *level >= depth) {
            if let Some(scope) = scopes.get_mut(closed as usize) {
                scope.end = at;
            }
        }
        if !abbreviation.has_children() || self.open.len() >= DEPTH_MAX || scopes.len() >= SCOPES_MAX {
            return;
        }
        let Some(kind) = Kind::of(abbreviation.tag()) else { return };
        let number = scopes.len() as u32; // at most SCOPES_MAX
        scopes.push(Scope { at, kind, end: gimli::UnitOffset(usize::MAX) });
        parents.push(self.open.last().map(|(_, around)| *around));
        self.open.push((depth, number));
    }

    pub(crate) fn done(self) -> Scopes {
        self.scopes
    }
}

impl Scopes {
    /// Walks the whole unit once. Where it is damaged it ends.
    pub(crate) fn read(unit: &Unit<'_>, meter: &Meter) -> Result<Scopes, Trouble> {
        let mut gathered = Gathered::default();
        match walk(unit, meter, &mut gathered) {
            Ok(()) | Err(Trouble::Damaged) => Ok(gathered.done()),
            Err(trouble) => Err(trouble),
        }
    }

    /// How many they are.
    pub(crate) fn len(&self) -> usize {
        self.scopes.len()
    }

    /// The innermost scope that the entry lies in.
    pub(crate) fn around(&self, entry: UnitOffset) -> Option<Scope> {
        self.scopes.get(self.number_around(entry)?).copied()
    }

    fn number_around(&self, entry: UnitOffset) -> Option<usize> {
        let mut number = self.scopes.partition_point(|scope| scope.at < entry).checked_sub(1)?;
        // At most as many steps as scopes may lie in each other.
        while self.scopes.get(number)?.end <= entry {
            number = (*self.parents.get(number)?)? as usize;
        }
        Some(number)
    }

    /// The types that lie directly in the same scope as the entry does.
    pub(crate) fn types_beside(&self, entry: UnitOffset) -> impl Iterator<Item = UnitOffset> + '_ {
        let around = self.number_around(entry);
        let end = around.and_then(|number| self.scopes.get(number)).map(|scope| scope.end);
        let inside = self.scopes.iter().zip(&self.parents).skip(around.map_or(0, |number| number + 1));
        let inside = inside.take_while(move |(scope, _)| end.is_none_or(|end| scope.at < end));
        let around = around.and_then(|number| u32::try_from(number).ok());
        inside.filter(move |(scope, parent)| **parent == around && scope.kind == Kind::Type).map(|(scope, _)| scope.at)
    }
}

fn walk(unit: &Unit<'_>, meter: &Meter, gathered: &mut Gathered) -> Result<(), Trouble> {
    let mut tally = meter.tally();
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        tally.step()?;
        let (at, depth) = (entries.next_offset(), entries.next_depth());
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        gathered.enter(at, depth, abbreviation);
        entries.skip_attributes(abbreviation.attributes())?;
    }
    Ok(())
}
