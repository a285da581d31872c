//! One ELF file: where its sections lie, which build it is, which files belong to it.
//!
//! Everything kept is a number or a copy, never a borrow, so that an [`Image`] can own its
//! mapping and be handed around freely.

use std::ops::Range;
use std::path::{Path, PathBuf};

use object::elf;
use object::read::elf::{CompressionHeader, FileHeader, NoteIterator, ProgramHeader, SectionHeader};
use object::{Endianness, FileKind};

use crate::mapping::Mapping;

/// Sections looked at. Real files with a section per function have some hundred thousand.
const SECTIONS_MAX: usize = 1 << 20;
/// Longest build id believed.
const BUILD_ID_MAX: usize = 64;
/// Fewer bytes than this lie behind a function until the next one begins, or its table of lines ends.
const CODE_PADDING_BYTES: u64 = 16;

/// An ELF file that can be asked for its parts.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) path: PathBuf,
    pub(crate) mapping: Mapping,
    pub(crate) little_endian: bool,
    pub(crate) is_64: bool,
    pub(crate) is_arm: bool,
    /// `e_machine`.
    pub(crate) machine: u16,
    /// Whether it is a program or a shared library, not an object file nor a core dump.
    pub(crate) is_linked: bool,
    /// Whether it is a program.
    pub(crate) is_program: bool,
    /// Bytes of address space from the page of the first segment to the end of the last.
    pub(crate) extent_bytes: u64,
    pub(crate) build_id: Vec<u8>,
    pub(crate) debug_link: Option<DebugLink>,
    pub(crate) shared_debug: Option<SharedDebug>,
    /// Address ranges that hold instructions, sorted. Debug information of functions that
    /// the linker threw away points outside of them.
    code: Vec<Range<u64>>,
    /// Where code lies at address 0, as flash may: bytes of the function that the symbol table has there.
    at_zero_bytes: Option<u64>,
    debug_sections: Vec<(String, SectionPlace)>,
    pub(crate) symbol_tables: Vec<SymbolTablePlace>,
}

/// `.gnu_debuglink`.
#[derive(Clone, Debug)]
pub(crate) struct DebugLink {
    pub(crate) name: PathBuf,
    pub(crate) crc: u32,
}

/// `.gnu_debugaltlink`, written by dwz.
#[derive(Clone, Debug)]
pub(crate) struct SharedDebug {
    pub(crate) path: PathBuf,
    pub(crate) build_id: Vec<u8>,
}

/// Where a section's bytes lie in the file, and how.
#[derive(Clone, Debug)]
pub(crate) struct SectionPlace {
    pub(crate) bytes: Range<usize>,
    pub(crate) packing: Packing,
}

/// How a section's bytes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Zlib {
        size: u64,
    },
    Zstd {
        size: u64,
    },
    /// A kind we do not know; the section is passed over.
    Unknown,
}

/// A symbol table and the strings that go with it.
#[derive(Clone, Debug)]
pub(crate) struct SymbolTablePlace {
    pub(crate) dynamic: bool,
    pub(crate) entries: Range<usize>,
    pub(crate) strings: Range<usize>,
}

impl Image {
    /// Opens and reads the headers. The error is half a sentence.
    pub(crate) fn open(path: &Path) -> Result<Image, String> {
        let mapping = Mapping::open(path).map_err(|error| error.to_string())?;
        let kind = FileKind::parse(&*mapping).map_err(|_| "it is not an ELF file".to_owned())?;
        let parsed = match kind {
            FileKind::Elf32 => parse::<elf::FileHeader32<Endianness>>(&mapping),
            FileKind::Elf64 => parse::<elf::FileHeader64<Endianness>>(&mapping),
            _ => return Err("it is not an ELF file".to_owned()),
        };
        let mut image = parsed.map_err(|error| format!("its ELF headers are damaged ({error})"))?;
        image.path = path.to_owned();
        image.mapping = mapping;
        Ok(image)
    }

    pub(crate) fn section(&self, name: &str) -> Option<&SectionPlace> {
        self.debug_sections.iter().find(|(own, _)| own == name).map(|(_, place)| place)
    }

    pub(crate) fn bytes(&self, range: &Range<usize>) -> &[u8] {
        self.mapping.get(range.clone()).unwrap_or(&[])
    }

    pub(crate) fn has_debug_info(&self) -> bool {
        self.section("debug_info").is_some_and(|place| !place.bytes.is_empty())
    }

    pub(crate) fn has_symtab(&self) -> bool {
        self.symbol_tables.iter().any(|table| !table.dynamic && !table.entries.is_empty())
    }

    /// Whether instructions can lie at `address`. A file that does not say is believed.
    pub(crate) fn is_code(&self, address: u64) -> bool {
        self.code.is_empty() || self.code_around(address).is_some()
    }

    /// Whether the file says that instructions lie at `address`.
    pub(crate) fn is_known_code(&self, address: u64) -> bool {
        self.code_around(address).is_some()
    }

    /// Whether debug information may be believed that claims these addresses for code. Of what the linker threw away it says that it
    /// begins at 0. Where that is code all the same, in flash, only the function is believed that symbols know there.
    pub(crate) fn is_claim_of_code(&self, begin: u64, end: u64) -> bool {
        let is_believed = |bytes: u64| (bytes..bytes.saturating_add(CODE_PADDING_BYTES)).contains(&end);
        self.is_code(begin) && (begin != 0 || self.code.is_empty() || self.at_zero_bytes.is_some_and(is_believed))
    }

    /// The end of the code that holds `address`.
    pub(crate) fn code_end(&self, address: u64) -> Option<u64> {
        self.code_around(address).map(|range| range.end)
    }

    fn code_around(&self, address: u64) -> Option<&Range<u64>> {
        let after = self.code.partition_point(|range| range.start <= address);
        let range = self.code.get(after.checked_sub(1)?)?;
        (address < range.end).then_some(range)
    }
}

fn parse<Elf: FileHeader<Endian = Endianness>>(data: &[u8]) -> object::Result<Image> {
    let header = Elf::parse(data)?;
    let endian = header.endian()?;
    let mut image = Image {
        path: PathBuf::new(),
        mapping: Mapping::default(),
        little_endian: header.is_little_endian(),
        is_64: header.is_type_64(),
        is_arm: header.e_machine(endian) == elf::EM_ARM,
        machine: header.e_machine(endian).0,
        is_linked: matches!(header.e_type(endian), elf::ET_EXEC | elf::ET_DYN),
        is_program: header.e_type(endian) == elf::ET_EXEC,
        extent_bytes: 0,
        build_id: Vec::new(),
        debug_link: None,
        shared_debug: None,
        code: Vec::new(),
        at_zero_bytes: None,
        debug_sections: Vec::new(),
        symbol_tables: Vec::new(),
    };
    let headers = header.section_headers(endian, data)?;
    let headers = &headers[..headers.len().min(SECTIONS_MAX)];
    let names = header
        .shstrndx(endian, data)
        .ok()
        .and_then(|index| headers.get(index as usize))
        .and_then(|section| section.data(endian, data).ok())
        .unwrap_or(&[]);

    for section in headers {
        if section.sh_flags(endian).contains(elf::SHF_ALLOC | elf::SHF_EXECINSTR) {
            push_code(&mut image.code, section.sh_addr(endian).into(), section.sh_size(endian).into());
        }
        let Some(bytes) = place(section, endian, data) else { continue };
        let kind = section.sh_type(endian);
        match kind {
            elf::SHT_SYMTAB | elf::SHT_DYNSYM => {
                let strings = headers.get(section.sh_link(endian) as usize);
                let strings = strings.and_then(|strings| place(strings, endian, data));
                image.symbol_tables.push(SymbolTablePlace {
                    dynamic: kind == elf::SHT_DYNSYM,
                    entries: bytes,
                    strings: strings.unwrap_or(0..0),
                });
                continue;
            }
            elf::SHT_NOTE if image.build_id.is_empty() => {
                let align = section.sh_addralign(endian);
                image.build_id = build_id::<Elf>(endian, align, &data[bytes]);
                continue;
            }
            _ => {}
        }
        let name = names.get(section.sh_name(endian) as usize..).unwrap_or(&[]);
        let name = until_nul(&name[..name.len().min(64)]);
        match name {
            b".gnu_debuglink" => image.debug_link = debug_link(&data[bytes], endian),
            b".gnu_debugaltlink" => image.shared_debug = shared_debug(&data[bytes]),
            _ => {
                if let Some(named) = debug_section::<Elf>(name, section, endian, data, bytes) {
                    image.debug_sections.push(named);
                }
            }
        }
    }

    let (mut first, mut end) = (u64::MAX, 0);
    // A file without section headers still tells its build and its code by its segments.
    for segment in header.program_headers(endian, data).unwrap_or(&[]) {
        if image.build_id.is_empty() && segment.p_type(endian) == elf::PT_NOTE {
            let bytes = segment.data(endian, data).unwrap_or(&[]);
            image.build_id = build_id::<Elf>(endian, segment.p_align(endian), bytes);
        }
        image.is_program |= segment.p_type(endian) == elf::PT_INTERP;
        if segment.p_type(endian) == elf::PT_LOAD {
            let begin: u64 = segment.p_vaddr(endian).into();
            first = first.min(begin & !0xfff);
            end = end.max(begin.saturating_add(segment.p_memsz(endian).into()));
        }
        let executable = segment.p_flags(endian).contains(elf::PF_X);
        if headers.is_empty() && executable && segment.p_type(endian) == elf::PT_LOAD {
            push_code(&mut image.code, segment.p_vaddr(endian).into(), segment.p_memsz(endian).into());
        }
    }
    image.extent_bytes = end.saturating_sub(first);
    image.code.sort_unstable_by_key(|range| (range.start, range.end));
    if image.is_code(0) && !image.code.is_empty() {
        image.at_zero_bytes = crate::symtab::function_at_zero_bytes::<Elf>(&image, endian, data);
    }
    Ok(image)
}

fn push_code(code: &mut Vec<Range<u64>>, start: u64, size: u64) {
    if let Some(end) = start.checked_add(size).filter(|end| *end > start) {
        code.push(start..end);
    }
}

/// The section's place in the file, if it lies inside the file.
fn place<S: SectionHeader<Endian = Endianness>>(section: &S, endian: Endianness, data: &[u8]) -> Option<Range<usize>> {
    let (start, size) = section.file_range(endian)?;
    let end = start.checked_add(size)?;
    let range = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
    data.get(range.clone()).map(|_| range)
}

fn build_id<Elf: FileHeader<Endian = Endianness>>(endian: Endianness, align: Elf::Word, bytes: &[u8]) -> Vec<u8> {
    let Ok(mut notes) = NoteIterator::<Elf>::new(endian, align, bytes) else { return Vec::new() };
    while let Ok(Some(note)) = notes.next() {
        if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
            let id = note.desc();
            return id[..id.len().min(BUILD_ID_MAX)].to_vec();
        }
    }
    Vec::new()
}

/// A name, padded to four bytes, then the CRC in the file's byte order.
fn debug_link(bytes: &[u8], endian: Endianness) -> Option<DebugLink> {
    let name = until_nul(bytes);
    let at = (name.len() + 1).next_multiple_of(4);
    let crc: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    let crc = if endian == Endianness::Little { u32::from_le_bytes(crc) } else { u32::from_be_bytes(crc) };
    // It is the name of a file beside this one. With a slash it could be any file at all.
    if name.is_empty() || name.contains(&b'/') {
        return None;
    }
    Some(DebugLink { name: path_of(name), crc })
}

fn shared_debug(bytes: &[u8]) -> Option<SharedDebug> {
    let name = until_nul(bytes);
    let id = bytes.get(name.len() + 1..)?;
    (!name.is_empty()).then(|| SharedDebug { path: path_of(name), build_id: id[..id.len().min(BUILD_ID_MAX)].to_vec() })
}

/// A `.debug_*` or `.zdebug_*` section, by its name without dot and `z`.
fn debug_section<Elf: FileHeader<Endian = Endianness>>(
    name: &[u8],
    section: &Elf::SectionHeader,
    endian: Endianness,
    data: &[u8],
    bytes: Range<usize>,
) -> Option<(String, SectionPlace)> {
    let plain = name.strip_prefix(b".").filter(|name| name.starts_with(b"debug_"));
    let older = name.strip_prefix(b".z").filter(|name| name.starts_with(b"debug_"));
    let own = String::from_utf8(plain.or(older)?.to_vec()).ok()?;
    if let Ok(Some((header, offset, size))) = section.compression(endian, data) {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(size).ok()?)?;
        let size = header.ch_size(endian).into();
        let packing = match header.ch_type(endian) {
            elf::ELFCOMPRESS_ZLIB => Packing::Zlib { size },
            elf::ELFCOMPRESS_ZSTD => Packing::Zstd { size },
            _ => Packing::Unknown,
        };
        return Some((own, SectionPlace { bytes: start..end, packing }));
    }
    // The older kind: "ZLIB", then the size in big endian whatever the file's byte order.
    if older.is_some() {
        let head = data.get(bytes.start..bytes.start.checked_add(12)?)?;
        let size: [u8; 8] = head.strip_prefix(b"ZLIB")?.try_into().ok()?;
        let packing = Packing::Zlib { size: u64::from_be_bytes(size) };
        let bytes = bytes.start + 12..bytes.end;
        return Some((own, SectionPlace { bytes, packing }));
    }
    Some((own, SectionPlace { bytes, packing: Packing::Plain }))
}

pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or(&[])
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}
