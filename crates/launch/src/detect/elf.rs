//! What an executable file tells about its loader and its allocator.

use std::fs::File;
use std::path::{Path, PathBuf};

use heapledger_format::session::{self, SANITIZERS};
use object::elf::FileHeader64;
use object::read::ReadCache;
use object::read::elf::{ElfFile64, ElfSymbol64, FileHeader, ProgramHeader, SectionHeader, Sym, SymbolTable};
use object::{Endianness, Object, ObjectSymbol, SymbolKind};

/// An executable file, as far as it matters here.
#[derive(Debug, Default)]
pub(crate) struct Executable {
    /// The loader that it asks for.
    pub(crate) interpreter: Option<PathBuf>,
    /// Whether it is a loader.
    pub(crate) is_loader: bool,
    /// Whether `malloc` is among the symbols that it offers to libraries: then it is also found there before ours.
    pub(crate) exports_malloc: bool,
    /// A sanitizer that is linked into it.
    pub(crate) sanitizer: Option<&'static str>,
    /// Whether a recorder is linked into it.
    pub(crate) records: bool,
    /// An allocator among its internal symbols, which does not tell of its calls by itself.
    pub(crate) built_in_allocator: Option<String>,
}

/// Names that only an allocator defines. Programs that export `malloc` are dealt with before.
const ALLOCATORS: &[&str] = &[
    "malloc",
    "je_malloc",
    "_rjem_malloc",
    "_rjem_je_malloc_default",
    "mi_malloc",
    "tc_malloc",
    "rpmalloc",
    "sn_malloc",
];

/// What only a loader defines.
const LOADERS: &str = "_rtld_global";

type Cache = ReadCache<File>;
type Elf<'c> = ElfFile64<'c, Endianness, &'c Cache>;
type Symbol<'c, 'f> = ElfSymbol64<'c, 'f, Endianness, &'c Cache>;

/// The names of a table of symbols, read as one piece: a program has a hundred thousand of them, and each by itself takes a microsecond.
struct Names<'c> {
    endian: Endianness,
    strings: &'c [u8],
}

impl<'c> Names<'c> {
    fn of(elf: &Elf<'c>, table: &SymbolTable<'c, FileHeader64<Endianness>, &'c Cache>, cache: &'c Cache) -> Self {
        let endian = elf.endian();
        let section = elf.elf_section_table().section(table.string_section());
        Self { endian, strings: section.and_then(|section| section.data(endian, cache)).unwrap_or_default() }
    }

    /// Whether a symbol's name is one that something follows from.
    fn have(&self, symbol: &Symbol<'c, '_>) -> bool {
        let rest = self.strings.get(symbol.elf_symbol().st_name(self.endian) as usize..).unwrap_or_default();
        let is = |name: &str| rest.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0));
        ALLOCATORS.iter().any(|name| is(name)) || is(LOADERS) || SANITIZERS.iter().any(|sanitizer| is(sanitizer.symbol))
    }
}

/// Reads what is needed of the file, and no more: executables of some gigabytes exist.
pub(crate) fn read(file: File) -> Option<Executable> {
    let cache = ReadCache::new(file);
    let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    let endian = elf.endian();
    let header: &FileHeader64<Endianness> = elf.elf_header();
    let mut image = Executable::default();
    for segment in header.program_headers(endian, &cache).ok()? {
        let mut notes = segment.notes(endian, &cache).ok().flatten();
        while let Some(note) = notes.as_mut().and_then(|notes| notes.next().ok().flatten()) {
            image.records |= note.name() == session::RECORDER_NOTE.as_bytes()
                && note.n_type(endian).0 == session::RECORDER_NOTE_KIND;
        }
        if let Ok(Some(path)) = segment.interpreter(endian, &cache) {
            use std::os::unix::ffi::OsStrExt;
            image.interpreter = Some(PathBuf::from(std::ffi::OsStr::from_bytes(path)));
        }
    }
    let defines = |symbol: &Symbol<'_, '_>, names: &[&str]| -> Option<String> {
        let name = symbol.name().ok().filter(|name| names.contains(name))?;
        let defined = symbol.is_definition() && matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown);
        defined.then(|| name.to_owned())
    };
    let sanitizer =
        |symbol: &Symbol<'_, '_>| super::sanitizer::of_symbol(symbol.name().ok()?).filter(|_| symbol.is_definition());
    let looked_for = Names::of(&elf, elf.elf_dynamic_symbol_table(), &cache);
    for symbol in elf.dynamic_symbols().filter(|symbol| looked_for.have(symbol)) {
        image.sanitizer = image.sanitizer.or_else(|| sanitizer(&symbol));
        image.exports_malloc |= defines(&symbol, &["malloc"]).is_some();
        image.is_loader |= symbol.is_definition() && symbol.name() == Ok(LOADERS);
    }
    let looked_for = Names::of(&elf, elf.elf_symbol_table(), &cache);
    for symbol in elf.symbols().filter(|symbol| looked_for.have(symbol)) {
        image.sanitizer = image.sanitizer.or_else(|| sanitizer(&symbol));
        image.built_in_allocator = image.built_in_allocator.or_else(|| defines(&symbol, ALLOCATORS));
    }
    // A program with the crate tells `run`'s recorder what does not come to `malloc`.
    image.built_in_allocator = image.built_in_allocator.filter(|_| !image.records);
    Some(image)
}

/// The version of the glibc that belongs to a loader: they are installed side by side.
pub(crate) fn glibc_of(interpreter: &Path) -> Option<(u32, u32)> {
    let libc = interpreter.canonicalize().ok()?.with_file_name("libc.so.6");
    let cache = ReadCache::new(File::open(libc).ok()?);
    // Its thousands of symbols are not looked at.
    let header = FileHeader64::<Endianness>::parse(&cache).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, &cache).ok()?;
    let (mut definitions, strings) = sections.gnu_verdef(endian, &cache).ok()??;
    let strings = sections.strings(endian, &cache, strings).ok()?;
    let mut newest = None;
    while let Ok(Some((_, mut names))) = definitions.next() {
        while let Ok(Some(name)) = names.next() {
            let version = name.name(endian, strings).ok().and_then(version);
            newest = newest.max(version);
        }
    }
    newest
}

/// `GLIBC_2.35` as numbers; the third place of old ones does not matter.
fn version(name: &[u8]) -> Option<(u32, u32)> {
    let numbers = std::str::from_utf8(name).ok()?.strip_prefix("GLIBC_")?;
    let mut parts = numbers.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers() {
        assert_eq!(version(b"GLIBC_2.36"), Some((2, 36)));
        assert_eq!(version(b"GLIBC_2.2.5"), Some((2, 2)));
        assert_eq!(version(b"GLIBC_PRIVATE"), None);
        assert!(version(b"GLIBC_2.4") < version(b"GLIBC_2.35"));
    }

    #[test]
    fn our_own_glibc_has_a_version() {
        let own = File::open("/proc/self/exe").ok().and_then(read).expect("an ELF file");
        let interpreter = own.interpreter.expect("linked dynamically");
        assert!(glibc_of(&interpreter).expect("found") >= (2, 17));
        let loader = File::open(interpreter).ok().and_then(read).expect("an ELF file");
        assert!(loader.is_loader && loader.interpreter.is_none());
    }
}
