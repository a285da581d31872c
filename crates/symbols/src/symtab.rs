//! Names from ELF symbol tables.

use std::cmp::Reverse;
use std::sync::Arc;

use object::elf;
use object::read::elf::{FileHeader, Sym};
use object::{Endianness, pod};

use crate::elf::{Image, until_nul};

/// Symbols kept of one module. The largest browsers have about two million.
const SYMBOLS_MAX: usize = 8 << 20;
/// Longest symbol name read.
const NAME_MAX: usize = 64 * 1024;
/// Bytes that a name without size reaches at most where no code is known to lie: in a chip's ROM, of which a linker script tells where some functions begin.
const UNKNOWN_CODE_BYTES: u64 = 16 << 10;
/// Symbols looked at for one address. More overlap only in forged files.
const STEPS_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Symbol {
    start: u64,
    rank: Rank,
    /// Longer first: of two names for one place, the one that covers more is the function.
    size: Reverse<u64>,
    table: u8,
    name: u32,
}

/// What makes one of several symbols at the same place the better name; least is best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_label: bool,
    binding: Binding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Global,
    Local,
    Weak,
}

/// The functions of a module by address.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    symbols: Vec<Symbol>,
    /// The farthest end of this symbol and all before it: where a walk backwards may stop.
    ends: Vec<u64>,
    tables: Vec<Strings>,
}

#[derive(Debug)]
struct Strings {
    image: Arc<Image>,
    range: std::ops::Range<usize>,
}

/// A symbol that covers an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedSymbol<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) start: u64,
}

impl SymbolTable {
    /// All function symbols of the given files, which describe the same module.
    pub(crate) fn read(images: &[Arc<Image>]) -> SymbolTable {
        let mut table = SymbolTable::default();
        for image in images {
            if image.is_64 {
                table.add::<elf::FileHeader64<Endianness>>(image);
            } else {
                table.add::<elf::FileHeader32<Endianness>>(image);
            }
        }
        table.finish(images);
        table
    }

    fn add<Elf: FileHeader<Endian = Endianness>>(&mut self, image: &Arc<Image>) {
        let endian = if image.little_endian { Endianness::Little } else { Endianness::Big };
        for place in &image.symbol_tables {
            let Ok(table) = u8::try_from(self.tables.len()) else { return };
            let bytes = image.bytes(&place.entries);
            let count = bytes.len() / size_of::<Elf::Sym>();
            let Ok((entries, _)) = pod::slice_from_bytes::<Elf::Sym>(bytes, count) else { continue };
            self.tables.push(Strings { image: Arc::clone(image), range: place.strings.clone() });
            for entry in entries {
                if self.symbols.len() >= SYMBOLS_MAX {
                    return;
                }
                let strings = image.bytes(&place.strings);
                self.symbols.extend(function(entry, endian, image, strings, table));
            }
        }
    }

    fn finish(&mut self, images: &[Arc<Image>]) {
        self.symbols.sort_unstable();
        // The dynamic table repeats the full one, and a debug file repeats the binary.
        let SymbolTable { symbols, tables, .. } = self;
        symbols.dedup_by(|b, a| {
            a.start == b.start
                && a.rank == b.rank
                && a.size == b.size
                && a.table != b.table
                && name(tables, a) == name(tables, b)
        });
        let mut farthest = 0;
        self.ends = Vec::with_capacity(self.symbols.len());
        let mut next_start = 0;
        for at in 0..self.symbols.len() {
            let symbol = self.symbols[at];
            let end = if symbol.size.0 > 0 {
                symbol.start.saturating_add(symbol.size.0)
            } else {
                // Up to the next symbol, or to where the code ends.
                while self.symbols.get(next_start).is_some_and(|next| next.start <= symbol.start) {
                    next_start += 1;
                }
                let is_of_chip = images.iter().all(|image| !image.is_64);
                let unknown = || is_of_chip.then(|| symbol.start.saturating_add(UNKNOWN_CODE_BYTES));
                let bound = images.iter().find_map(|image| image.code_end(symbol.start)).or_else(unknown);
                let next = self.symbols.get(next_start).map(|next| next.start);
                next.into_iter().chain(bound).min().unwrap_or(symbol.start)
            };
            farthest = farthest.max(end);
            self.ends.push(farthest);
        }
    }

    /// The best name for `address`: a symbol whose size covers it, the innermost of them;
    /// failing that, a symbol without size that nothing follows before the address.
    pub(crate) fn find(&self, address: u64) -> Option<NamedSymbol<'_>> {
        let after = self.symbols.partition_point(|symbol| symbol.start <= address);
        let mut best: Option<Symbol> = None;
        for at in (after.saturating_sub(STEPS_MAX)..after).rev() {
            let symbol = self.symbols[at];
            if best.is_some_and(|best| best.start != symbol.start) || self.ends[at] <= address {
                break;
            }
            let covers = symbol.size.0 > 0 && address - symbol.start < symbol.size.0;
            if covers && best.is_none_or(|best| self.is_better(&symbol, &best)) {
                best = Some(symbol);
            }
        }
        let best = best.or_else(|| self.without_size(after, address))?;
        Some(NamedSymbol { name: name(&self.tables, &best), start: best.start })
    }

    fn without_size(&self, after: usize, address: u64) -> Option<Symbol> {
        let last = self.symbols.get(after.checked_sub(1)?)?;
        let mut best: Option<Symbol> = None;
        for at in (after.saturating_sub(STEPS_MAX)..after).rev() {
            let symbol = self.symbols[at];
            if symbol.start != last.start || self.ends[at] <= address {
                break;
            }
            if symbol.size.0 == 0 && best.is_none_or(|best| self.is_better(&symbol, &best)) {
                best = Some(symbol);
            }
        }
        best
    }

    /// Of two names for one place: functions before labels, global before local before
    /// weak, then the plainer name (`malloc`, not `__libc_malloc`), then the alphabet.
    fn is_better(&self, one: &Symbol, other: &Symbol) -> bool {
        let key = |symbol: &Symbol| {
            let name = name(&self.tables, symbol);
            let underscores = name.iter().take_while(|byte| **byte == b'_').count();
            let underscores = if name.starts_with(b"_Z") || name.starts_with(b"_R") { 0 } else { underscores };
            (symbol.rank, underscores, name.len())
        };
        (key(one), name(&self.tables, one)) < (key(other), name(&self.tables, other))
    }
}

fn function<S: Sym<Endian = Endianness>>(
    entry: &S,
    endian: Endianness,
    image: &Image,
    strings: &[u8],
    table: u8,
) -> Option<Symbol> {
    let is_label = match entry.st_type() {
        elf::STT_FUNC | elf::STT_GNU_IFUNC => false,
        elf::STT_NOTYPE => true,
        _ => return None,
    };
    let section = entry.st_shndx(endian);
    let mut start: u64 = entry.st_value(endian).into();
    if section == elf::SHN_UNDEF || section == elf::SHN_COMMON || entry.st_name(endian) == 0 {
        return None;
    }
    // Functions of a chip's ROM have a place, and no section; on larger machines such symbols are numbers.
    let is_absolute = section == elf::SHN_ABS;
    if is_absolute && (image.is_64 || start == 0) {
        return None;
    }
    if image.is_arm && (!is_label || is_absolute) {
        // The lowest bit says "Thumb" and is no part of the address.
        start &= !1;
    }
    // (A label that a linker script has given a place within the code is none of its functions.)
    let is_there = match is_absolute {
        true => !is_label || !image.is_known_code(start),
        false => image.is_code(start),
    };
    if !is_there {
        return None;
    }
    let symbol = Symbol {
        start,
        rank: Rank {
            is_label,
            binding: match entry.st_bind() {
                elf::STB_LOCAL => Binding::Local,
                elf::STB_WEAK => Binding::Weak,
                _ => Binding::Global,
            },
        },
        size: Reverse(entry.st_size(endian).into()),
        table,
        name: entry.st_name(endian),
    };
    // `$a`, `$t`, `$d`, `$x` mark where ARM and RISC-V code changes its kind. `.L` begins what assemblers and compilers call places within
    // functions; it stays where a linker moves code, as for RISC-V (`.Lpcrel_hi2`).
    let name = strings.get(symbol.name as usize..).unwrap_or_default();
    let is_mark = is_label && (name.starts_with(b"$") || name.starts_with(b".L"));
    (!is_mark).then_some(symbol)
}

/// Bytes of the function at address 0, if there is one with a size.
pub(crate) fn function_at_zero_bytes<Elf: FileHeader<Endian = Endianness>>(
    image: &Image,
    endian: Endianness,
    data: &[u8],
) -> Option<u64> {
    let is_there = |symbol: &Elf::Sym| {
        let address: u64 = symbol.st_value(endian).into();
        let is_defined = symbol.st_shndx(endian) != elf::SHN_UNDEF && symbol.st_type() == elf::STT_FUNC;
        is_defined && (if image.is_arm { address & !1 } else { address }) == 0
    };
    image.symbol_tables.iter().find_map(|place| {
        let bytes = data.get(place.entries.clone())?;
        let count = bytes.len() / size_of::<Elf::Sym>();
        let (entries, _) = pod::slice_from_bytes::<Elf::Sym>(bytes, count).ok()?;
        let found = entries.iter().take(SYMBOLS_MAX).find(|symbol| is_there(symbol))?;
        Some(found.st_size(endian).into()).filter(|bytes| *bytes != 0)
    })
}

fn name<'a>(tables: &'a [Strings], symbol: &Symbol) -> &'a [u8] {
    let Some(strings) = tables.get(usize::from(symbol.table)) else { return &[] };
    let bytes = strings.image.bytes(&strings.range).get(symbol.name as usize..).unwrap_or(&[]);
    until_nul(&bytes[..bytes.len().min(NAME_MAX)])
}
