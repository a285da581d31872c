//! Names of functions with those of what they lie in, as demanglers write them.
//!
//! GCC gives no linkage name to what no other file can see: static functions, members of types in anonymous namespaces and
//! in functions, lambdas. Inlined, such a function has no symbol either, and only its entry's place says which it is.

use std::collections::HashMap;
use std::rc::Rc;

use super::meter::Trouble;
use super::names::{Entry, Named, Names, Until};
use super::scopes::{Kind, Scopes};
use super::units::Language;
use super::{DebugFile, Unit, UnitOffset};
use crate::demangle::understood;

/// Names before a function's.
const PARTS_MAX: usize = 32;
/// Bytes of them all.
const BYTES_MAX: usize = 16 * 1024;
/// Scopes kept, of all units together.
const KEPT_MAX: usize = 1 << 20;
/// Names kept, and lambdas.
pub(super) const NAMES_MAX: usize = 1 << 16;

pub(super) type EntryPlace = (DebugFile, usize, UnitOffset);

/// What is known of the surroundings of entries.
#[derive(Default)]
pub(super) struct Around {
    scopes: HashMap<(DebugFile, usize), Rc<Scopes>>,
    kept: usize,
    names: HashMap<EntryPlace, Option<Rc<str>>>,
    pub(super) lambdas: HashMap<EntryPlace, Option<u32>>,
}

impl<'a> Entry<'a> {
    pub(super) fn place(&self) -> EntryPlace {
        let (part, start) = unit_place(self.part, &self.unit);
        (part, start, self.at)
    }
}

impl<'a> Names<'_, 'a> {
    /// The function's name behind the names around it; by itself where there are none.
    pub(crate) fn qualified(&mut self, named: &Named<'a>) -> Result<Option<Rc<str>>, Trouble> {
        let Some(entry) = &named.place else { return Ok(named.plain.map(|plain| Rc::from(text(plain)))) };
        let place = entry.place();
        if let Some(known) = self.around.names.get(&place) {
            return Ok(known.clone());
        }
        let declared = match named.linkage {
            Some(_) => self.chase(entry.clone(), Until::Declaration)?,
            None => named.clone(),
        };
        let plain = named.plain.or(declared.plain);
        let name = match plain {
            Some(plain) => Some(Rc::from(self.behind_scopes(plain, named.linkage.is_some(), declared)?)),
            None => None,
        };
        if self.around.names.len() >= NAMES_MAX {
            self.around.names.clear();
        }
        self.around.names.insert(place, name.clone());
        Ok(name)
    }

    fn behind_scopes(&mut self, plain: &[u8], has_linkage: bool, declared: Named<'a>) -> Result<String, Trouble> {
        let mut name = text(plain);
        let mut inner = Kind::Function;
        let Named { place: Some(mut entry), is_external, .. } = declared else { return Ok(name) };
        for part in 0..PARTS_MAX {
            if entry.language != Language::Scoped || name.len() > BYTES_MAX {
                break;
            }
            let Some(scope) = self.scopes(&entry)?.around(entry.at) else { break };
            // `extern "C"` in a namespace: the linker's name is the programmer's, and has none around it.
            let is_of_c = part == 0 && is_external && !has_linkage && scope.kind != Kind::Type;
            // What a function only declares is none of its own.
            let is_declared_here = scope.kind == Kind::Function && inner == Kind::Function;
            if is_of_c || is_declared_here {
                break;
            }
            let around = self.chase(Entry { at: scope.at, ..entry }, Until::Declaration)?;
            let Some(next) = around.place.clone() else { break };
            let (whole, piece) = match (scope.kind, around.plain) {
                (_, Some(plain)) => (false, text(plain)),
                (Kind::Namespace, None) => (false, "(anonymous namespace)".to_owned()),
                (Kind::Type, None) => self.unnamed_type(&around, &next)?,
                (Kind::Function, None) => break,
            };
            name = format!("{piece}::{name}");
            if whole {
                break;
            }
            (inner, entry) = (scope.kind, next);
        }
        Ok(name)
    }

    /// What to call a type without a name, and whether that has the names around it.
    fn unnamed_type(&mut self, named: &Named<'a>, entry: &Entry<'a>) -> Result<(bool, String), Trouble> {
        // (`typedef struct {} name;`)
        if let Some(known) = named.linkage.and_then(|linkage| understood(&format!("_Z{}", text(linkage)))) {
            return Ok((true, known));
        }
        Ok((
            false,
            self.lambda(entry)?.map_or_else(|| "{unnamed type}".to_owned(), |number| format!("{{lambda#{number}}}")),
        ))
    }

    pub(super) fn scopes(&mut self, entry: &Entry<'a>) -> Result<Rc<Scopes>, Trouble> {
        let place = unit_place(entry.part, &entry.unit);
        if let Some(scopes) = self.around.scopes.get(&place) {
            return Ok(Rc::clone(scopes));
        }
        let scopes = Rc::new(Scopes::read(&entry.unit, self.meter)?);
        self.around.keep(place, &scopes);
        Ok(scopes)
    }

    /// The scopes of a unit of the main file, which was walked already.
    pub(crate) fn keep_scopes(&mut self, unit: &Unit<'a>, scopes: &Rc<Scopes>) {
        self.around.keep(unit_place(DebugFile::Main, unit), scopes);
    }
}

impl Around {
    fn keep(&mut self, place: (DebugFile, usize), scopes: &Rc<Scopes>) {
        if self.kept > KEPT_MAX {
            self.scopes.clear();
            self.kept = 0;
        }
        self.kept += scopes.len() + 1;
        self.scopes.insert(place, Rc::clone(scopes));
    }
}

fn unit_place(part: DebugFile, unit: &Unit<'_>) -> (DebugFile, usize) {
    (part, unit.header.debug_info_offset().map_or(usize::MAX, |offset| offset.0))
}

pub(super) fn text(bytes: &[u8]) -> String {
    let bytes = bytes.get(..BYTES_MAX).unwrap_or(bytes);
    String::from_utf8_lossy(bytes).into_owned()
}
