//! The debug sections of a file: mapped as they are, or unpacked.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use gimli::{RunTimeEndian, SectionId};

use super::meter::{Meter, Trouble};
use super::{Dwarf, Slice};
use crate::elf::{Image, Packing, SectionPlace};

/// The sections that naming an address needs. Nothing else is unpacked.
const NEEDED: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// A compressed section may claim this many bytes, and…
const UNPACKED_BASE: u64 = 16 << 20;
/// …this many more for each of its own. Real sections stay below ten; a bomb of zeroes
/// reaches thousands.
const UNPACKED_RATIO: u64 = 64;

/// Bytes that are uncompressed in a microsecond, on a machine that has other work, too.
const UNPACKED_PER_US: u64 = 100;

/// The bytes of the sections, independent of lifetimes.
#[derive(Debug)]
pub(crate) struct Sections {
    image: Arc<Image>,
    contents: Vec<(SectionId, Content)>,
}

#[derive(Debug)]
enum Content {
    Mapped(Range<usize>),
    Unpacked(Vec<u8>),
}

impl Sections {
    /// Reads the sections, and says which could not be read. Late if there is no time to uncompress them.
    pub(crate) fn read(image: &Arc<Image>, meter: &Meter) -> Result<(Sections, Vec<String>), Trouble> {
        let mut contents = Vec::new();
        let mut unreadable = Vec::new();
        let places = NEEDED.iter().filter_map(|id| image.section(id.name().trim_start_matches('.')));
        let packed = places.map(|place| match place.packing {
            Packing::Zlib { size } | Packing::Zstd { size } => size,
            Packing::Plain | Packing::Unknown => 0,
        });
        let unpacked = packed.fold(0, u64::saturating_add);
        if unpacked > 0 {
            meter.reserve(Duration::from_micros(unpacked / UNPACKED_PER_US))?;
        }
        for id in NEEDED {
            let name = id.name().trim_start_matches('.');
            let Some(place) = image.section(name) else { continue };
            if place.packing == Packing::Plain {
                contents.push((id, Content::Mapped(place.bytes.clone())));
                continue;
            }
            meter.spend(1)?;
            match unpack(image, place) {
                Some(bytes) => contents.push((id, Content::Unpacked(bytes))),
                None => unreadable.push(format!("its section {} cannot be uncompressed", id.name())),
            }
        }
        Ok((Sections { image: Arc::clone(image), contents }, unreadable))
    }

    pub(crate) fn get(&self, id: SectionId) -> &[u8] {
        match self.contents.iter().find(|(own, _)| *own == id) {
            Some((_, Content::Mapped(range))) => self.image.bytes(range),
            Some((_, Content::Unpacked(bytes))) => bytes,
            None => &[],
        }
    }

    /// All sections together, unpacked.
    pub(crate) fn len(&self) -> u64 {
        self.contents.iter().map(|(id, _)| self.get(*id).len() as u64).sum()
    }

    fn slice(&self, id: SectionId) -> Slice<'_> {
        let endian = if self.image.little_endian { RunTimeEndian::Little } else { RunTimeEndian::Big };
        Slice::new(self.get(id), endian)
    }

    pub(crate) fn dwarf<'a>(&'a self, shared: Option<&'a Sections>) -> Dwarf<'a> {
        let own = |sections: &'a Sections| Dwarf::load(|id| Ok::<_, std::convert::Infallible>(sections.slice(id)));
        let Ok(mut dwarf) = own(self);
        if let Some(shared) = shared {
            let Ok(shared) = own(shared);
            dwarf.set_sup(shared);
        }
        dwarf
    }
}

fn unpack(image: &Image, place: &SectionPlace) -> Option<Vec<u8>> {
    let packed = image.bytes(&place.bytes);
    let bound = UNPACKED_BASE.saturating_add(UNPACKED_RATIO.saturating_mul(packed.len() as u64));
    let (reader, size): (Box<dyn Read + '_>, u64) = match place.packing {
        Packing::Zlib { size } => (Box::new(flate2::read::ZlibDecoder::new(packed)), size),
        Packing::Zstd { size } => (Box::new(ruzstd::decoding::StreamingDecoder::new(packed).ok()?), size),
        Packing::Plain | Packing::Unknown => return None,
    };
    if size > bound {
        return None;
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(size).ok()?).ok()?;
    // One byte more than promised, to see that it was a lie.
    reader.take(size.saturating_add(1)).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 == size).then_some(bytes)
}
