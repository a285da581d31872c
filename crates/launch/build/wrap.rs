//! Object files for what the linker wraps.
//!
//! One for C and one for C++ have all functions of the family: `__wrap_malloc` jumps to our `heapledger_wrap_malloc`, and so on. They are
//! taken out of the archive where the program calls one of them: a program in C has no `operator new`. (C++ brings C, whose functions
//! its libraries call, and which linkers look for only once.) They need those real functions
//! that would not be there otherwise: ours knows all of them by weak names, which take nothing out of an archive, and under `--wrap`
//! nobody else asks a static C library for its `malloc`.
//!
//! Where only some functions are wrapped, the names of the other real ones stay as they are: an object file for each says that there is
//! none. Nobody calls it then.

/// What our functions begin with; the name of what they stand for follows.
pub(crate) const OWN: &str = "heapledger_wrap_";
/// What the linker lets programs call instead.
pub(crate) const CALLED: &str = "__wrap_";
/// And what it calls the ones that are wrapped.
pub(crate) const REAL: &str = "__real_";

const HEADER_BYTES: usize = 64;
const SYMBOL_BYTES: u64 = 24;
const RELOCATION_BYTES: u64 = 24;

/// `endbr64`, a jump whose distance the linker sets, and what is left of sixteen bytes.
const CODE: [u8; 16] = [0xf3, 0x0f, 0x1e, 0xfa, 0xe9, 0, 0, 0, 0, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc];
const DISTANCE_AT: u64 = 5;

/// Common information (version 1, "zR", the frame's address is 8 above the stack pointer, the return address lies there), then the
/// beginning of that of the code, whose address and length follow.
const FRAMES: [u8; 32] = [
    20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0, // common
    20, 0, 0, 0, 28, 0, 0, 0, // of the code
];

/// Rows of the table of sections.
const TEXT: u16 = 1;
const SYMBOLS: u16 = 5;
const NAMES: u16 = 6;
/// Where a symbol lies that is defined elsewhere, and one that is a number.
const UNDEFINED: u16 = 0;
const NUMBER: u16 = 0xfff1;

struct Section {
    name: u32,
    kind: u32,
    flags: u64,
    bytes: Vec<u8>,
    link: u16,
    info: u32,
    align: u64,
    entry_bytes: u64,
}

/// Names with zeros between.
struct Names(Vec<u8>);

impl Names {
    fn add(&mut self, parts: &[&str]) -> u32 {
        let at = self.0.len() as u32;
        self.0.extend(parts.concat().as_bytes());
        self.0.push(0);
        at
    }
}

/// The symbols of an object file, whose first two are none and the code's section.
struct Symbols {
    bytes: Vec<u8>,
    names: Names,
}

impl Symbols {
    const OF_TEXT: u64 = 1;
    const LOCAL: u32 = 2;

    fn new() -> Symbols {
        const SECTION: u8 = 3;
        let mut symbols = Symbols { bytes: vec![0; SYMBOL_BYTES as usize], names: Names(vec![0]) };
        symbols.push(0, SECTION, 0, TEXT, 0);
        symbols
    }

    fn push(&mut self, name: u32, info: u8, visibility: u8, section: u16, at: usize) {
        self.bytes.extend(name.to_le_bytes());
        self.bytes.extend([info, visibility]);
        self.bytes.extend(section.to_le_bytes());
        self.bytes.extend((at as u64).to_le_bytes());
        self.bytes.extend((if section == TEXT { CODE.len() } else { 0 } as u64).to_le_bytes());
    }

    /// Returns its number.
    fn global(&mut self, parts: &[&str], visibility: u8, section: u16, at: usize) -> u64 {
        const GLOBAL: u8 = 1 << 4;
        const FUNCTION: u8 = 2;
        let number = self.bytes.len() as u64 / SYMBOL_BYTES;
        let name = self.names.add(parts);
        self.push(name, GLOBAL | if section == TEXT { FUNCTION } else { 0 }, visibility, section, at);
        number
    }
}

fn relocation(at: u64, symbol: u64, kind: u64, addend: i64) -> Vec<u8> {
    [at.to_le_bytes(), (symbol << 32 | kind).to_le_bytes(), addend.to_le_bytes()].concat()
}

/// The functions of one family, and what has to be there besides.
pub(crate) fn family(functions: &[&str], needed: &[String]) -> Vec<u8> {
    const HIDDEN: u8 = 2;
    const PC32: u64 = 2;
    const PLT32: u64 = 4;
    let mut symbols = Symbols::new();
    let mut relocations = Vec::new();
    for (row, function) in functions.iter().enumerate() {
        let at = row * CODE.len();
        symbols.global(&[CALLED, function], 0, TEXT, at);
        let own = symbols.global(&[OWN, function], HIDDEN, UNDEFINED, 0);
        relocations.extend(relocation(at as u64 + DISTANCE_AT, own, PLT32, -4));
    }
    for symbol in needed {
        symbols.global(&[symbol], 0, UNDEFINED, 0);
    }
    let mut frames = FRAMES.to_vec();
    let address = relocation(frames.len() as u64, Symbols::OF_TEXT, PC32, 0);
    frames.extend(0u32.to_le_bytes());
    frames.extend((functions.len() as u32 * CODE.len() as u32).to_le_bytes());
    frames.extend([0; 8]);
    object(CODE.repeat(functions.len()), relocations, frames, address, symbols)
}

/// Says that there is no real one of a function.
pub(crate) fn nothing(function: &str) -> Vec<u8> {
    let mut symbols = Symbols::new();
    symbols.global(&[REAL, function], 0, NUMBER, 0);
    object(Vec::new(), Vec::new(), Vec::new(), Vec::new(), symbols)
}

fn object(code: Vec<u8>, of_code: Vec<u8>, frames: Vec<u8>, of_frames: Vec<u8>, symbols: Symbols) -> Vec<u8> {
    const PROGRAM: u32 = 1;
    const SYMBOL_TABLE: u32 = 2;
    const STRINGS: u32 = 3;
    const RELOCATIONS: u32 = 4;
    const ALLOCATED: u64 = 2;
    const EXECUTED: u64 = 4;
    const INFO_IS_SECTION: u64 = 0x40;
    let Symbols { bytes: symbols, mut names } = symbols;
    let plain = |name, kind, bytes| Section { name, kind, flags: 0, bytes, link: 0, info: 0, align: 1, entry_bytes: 0 };
    let relocations = |name, bytes, of| Section {
        flags: INFO_IS_SECTION,
        link: SYMBOLS,
        info: of,
        align: 8,
        entry_bytes: RELOCATION_BYTES,
        ..plain(name, RELOCATIONS, bytes)
    };
    let text = Section { flags: ALLOCATED | EXECUTED, align: 16, ..plain(names.add(&[".text"]), PROGRAM, code) };
    let of_text = relocations(names.add(&[".rela.text"]), of_code, 1);
    let frames = Section { flags: ALLOCATED, align: 8, ..plain(names.add(&[".eh_frame"]), PROGRAM, frames) };
    let of_frames = relocations(names.add(&[".rela.eh_frame"]), of_frames, 3);
    let symbols = Section {
        link: NAMES,
        info: Symbols::LOCAL,
        align: 8,
        entry_bytes: SYMBOL_BYTES,
        ..plain(names.add(&[".symtab"]), SYMBOL_TABLE, symbols)
    };
    let stack = plain(names.add(&[".note.GNU-stack"]), PROGRAM, Vec::new());
    let own = names.add(&[".strtab"]);
    write(&[plain(0, 0, Vec::new()), text, of_text, frames, of_frames, symbols, plain(own, STRINGS, names.0), stack])
}

/// Header, sections, table of sections.
fn write(sections: &[Section]) -> Vec<u8> {
    const SECTION_BYTES: u16 = 64;
    const RELOCATABLE: u16 = 1;
    const X86_64: u16 = 62;
    let mut contents = Vec::new();
    let mut table = Vec::new();
    for section in sections {
        contents.resize(contents.len().next_multiple_of(16), 0);
        let at = (HEADER_BYTES + contents.len()) as u64;
        contents.extend(&section.bytes);
        table.extend(section.name.to_le_bytes());
        table.extend(section.kind.to_le_bytes());
        for word in [section.flags, 0, at, section.bytes.len() as u64] {
            table.extend(word.to_le_bytes());
        }
        table.extend(u32::from(section.link).to_le_bytes());
        table.extend(section.info.to_le_bytes());
        table.extend(section.align.to_le_bytes());
        table.extend(section.entry_bytes.to_le_bytes());
    }
    contents.resize(contents.len().next_multiple_of(16), 0);

    let mut out = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    out.extend([RELOCATABLE.to_le_bytes(), X86_64.to_le_bytes()].concat());
    out.extend(1u32.to_le_bytes());
    for word in [0, 0, (HEADER_BYTES + contents.len()) as u64] {
        out.extend(word.to_le_bytes());
    }
    out.extend(0u32.to_le_bytes());
    for half in [HEADER_BYTES as u16, 0, 0, SECTION_BYTES, sections.len() as u16, NAMES] {
        out.extend(half.to_le_bytes());
    }
    out.extend(contents);
    out.extend(table);
    out
}
