//! Functions, lines and inline frames from DWARF.
//!
//! The data flow, which is also the reading order: [`sections`] makes slices of the file,
//! [`units`] finds which compilation unit holds which addresses, [`batch`] hands units to
//! threads, and there [`functions`] finds functions and what was inlined into them,
//! [`names`] follows references to their names, [`scopes`] and [`qualified`] put before those the names around them, and
//! [`lines`] runs the line program.
//! [`meter`] bounds all of it. That is why addr2line does not do this for us: its way through inlined functions (0.27)
//! recurses as deep as a forged file says, and nothing bounds its work.

mod meter;
mod sections;

mod units;

mod batch;
mod functions;
mod lambdas;
mod lines;
mod names;
mod qualified;
mod scopes;

mod spans;

use std::sync::Arc;
use std::time::Instant;

use gimli::{EndianSlice, RunTimeEndian};

use crate::elf::Image;
use crate::status::Note;

pub(crate) use batch::Batch;
use meter::Meter;
use sections::Sections;
use units::{Catalogue, UnitIndex};

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;
type Unit<'a> = gimli::Unit<Slice<'a>, usize>;
type UnitOffset = gimli::UnitOffset<usize>;

/// Which of two files an offset belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum DebugFile {
    Main,
    /// The file that dwz made of what several debug files have in common.
    Shared,
}

/// The debug information of one module, ready for lookups.
#[derive(Debug)]
pub(crate) struct DebugInfo {
    image: Arc<Image>,
    main: Sections,
    shared: Option<Sections>,
    index: UnitIndex,
    shared_units: Catalogue,
}

/// What came of opening debug information.
#[derive(Debug)]
pub(crate) enum Opened {
    Ready(Box<DebugInfo>),
    /// There is none that can be used; trying again is of no use.
    Unusable,
    /// The deadline passed first.
    Late,
}

impl DebugInfo {
    /// Indexes the debug information of `image`, with `shared` as the file its references
    /// may lead to.
    pub(crate) fn open(
        image: &Arc<Image>,
        shared: Option<&Arc<Image>>,
        deadline: Option<Instant>,
    ) -> (Opened, Vec<Note>) {
        let mut notes = Vec::new();
        let unpacking = Meter::new(deadline, u64::MAX);
        let damaged = |what: String| Note::Damaged { path: image.path.clone(), what };
        let main = match Sections::read(image, &unpacking) {
            Ok((main, unreadable)) => {
                notes.extend(unreadable.into_iter().map(&damaged));
                main
            }
            Err(_) => return (Opened::Late, notes),
        };
        let shared = match shared.map(|shared| Sections::read(shared, &unpacking)).transpose() {
            Ok(shared) => shared.map(|(sections, _)| sections),
            Err(_) => return (Opened::Late, notes),
        };
        let meter = Meter::new(deadline, budget(main.len()));
        let dwarf = main.dwarf(shared.as_ref());
        let shared_units = dwarf.sup().map_or_else(Catalogue::default, |sup| Catalogue::read(sup).0);
        let index = match UnitIndex::build(&dwarf, image, &meter) {
            Ok(index) => index,
            Err(_) => return (Opened::Late, notes),
        };
        drop(dwarf);
        if let Some(what) = &index.damage {
            notes.push(damaged(what.clone()));
        }
        if index.split_units > 0 {
            notes.push(Note::SplitDebugInfo { path: image.path.clone(), units: index.split_units });
        }
        if index.is_empty() {
            return (Opened::Unusable, notes);
        }
        let debug = DebugInfo { image: Arc::clone(image), main, shared, index, shared_units };
        (Opened::Ready(Box::new(debug)), notes)
    }
}

/// Steps that reading `bytes` of debug information may take: bytes of abbreviations, ranges,
/// rows of lines, entries. An honest file needs about one for each of its bytes, as each is
/// read about once; only a forged one has a million units point to one long list.
fn budget(bytes: u64) -> u64 {
    (4 << 20) + 4 * bytes
}
