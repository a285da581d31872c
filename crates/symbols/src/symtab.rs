//! Names from ELF symbol tables.

use std::cmp::Reverse;
use std::sync::Arc;

use object::elf;
use object::read::elf::{FileHeader, Sym};
use object::{Endianness, pod};

use crate::elf::{Image, until_nul};
use crate::near::Bounds;

/// Symbols kept of one module. The largest browsers have about two million.
const SYMBOLS_MAX: usize = 8 << 20;
/// Longest symbol name read.
const NAME_MAX: usize = 64 * 1024;
/// Bytes that a name without size reaches at most where no code is known to lie: in a chip's ROM, of which a linker script tells where some functions begin.
const UNKNOWN_CODE_BYTES: u64 = 16 << 10;
/// Symbols looked at for one address. More overlap only in forged files.
pub(crate) const STEPS_MAX: usize = 4096;
/// So many symbols for each address make it worth to look for those that matter to it alone.
const SYMBOLS_PER_ADDRESS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Symbol {
    pub(crate) start: u64,
    rank: Rank,
    /// Longer first: of two names for one place, the one that covers more is the function.
    pub(crate) size: Reverse<u64>,
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

/// Which of a file's symbols are taken.
pub(crate) trait Choice {
    /// Whether one of this start and size may be, if it is a function's. It is asked for all that could be one's.
    fn may_matter(&mut self, start: u64, size: u64) -> bool;
    /// Takes one for which it may matter.
    fn take(&mut self, symbol: Symbol);
}

impl Choice for Vec<Symbol> {
    fn may_matter(&mut self, _: u64, _: u64) -> bool {
        self.len() < SYMBOLS_MAX
    }

    fn take(&mut self, symbol: Symbol) {
        self.push(symbol);
    }
}

impl SymbolTable {
    /// All function symbols of the given files, which describe the same module.
    pub(crate) fn read(images: &[Arc<Image>]) -> SymbolTable {
        let mut symbols = Vec::new();
        let tables = choose(images, &mut symbols);
        SymbolTable::of(symbols, tables, images)
    }

    /// Of these as many as [`SymbolTable::find`] needs to say of `addresses` what it says with all; `None` if to read all takes no longer.
    pub(crate) fn read_for(images: &[Arc<Image>], addresses: &[u64]) -> Option<SymbolTable> {
        let entry_bytes = |image: &Image| {
            if image.is_64 { size_of::<elf::Sym64<Endianness>>() } else { size_of::<elf::Sym32<Endianness>>() }
        };
        let places = images.iter().flat_map(|image| image.symbol_tables.iter().map(move |place| (image, place)));
        let all: usize = places.map(|(image, place)| image.bytes(&place.entries).len() / entry_bytes(image)).sum();
        if addresses.is_empty() {
            return Some(SymbolTable::default());
        }
        if all > SYMBOLS_MAX || all / SYMBOLS_PER_ADDRESS < addresses.len() {
            return None;
        }
        let mut bounds = Bounds::around(addresses, all);
        choose(images, &mut bounds);
        let mut starts = bounds.starts()?;
        let tables = choose(images, &mut starts);
        Some(SymbolTable::of(starts.symbols()?, tables, images))
    }

    fn of(symbols: Vec<Symbol>, tables: Vec<Strings>, images: &[Arc<Image>]) -> SymbolTable {
        let mut table = SymbolTable { symbols, ends: Vec::new(), tables };
        table.finish(images);
        table
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

/// Has `choice` take function symbols of the given files. Gives where their names are.
fn choose(images: &[Arc<Image>], choice: &mut impl Choice) -> Vec<Strings> {
    let mut tables = Vec::new();
    for image in images {
        if image.is_64 {
            choose_in::<elf::FileHeader64<Endianness>>(image, &mut tables, choice);
        } else {
            choose_in::<elf::FileHeader32<Endianness>>(image, &mut tables, choice);
        }
    }
    tables
}

fn choose_in<Elf: FileHeader<Endian = Endianness>>(
    image: &Arc<Image>,
    tables: &mut Vec<Strings>,
    choice: &mut impl Choice,
) {
    let endian = if image.little_endian { Endianness::Little } else { Endianness::Big };
    for place in &image.symbol_tables {
        let Ok(table) = u8::try_from(tables.len()) else { return };
        let bytes = image.bytes(&place.entries);
        let count = bytes.len() / size_of::<Elf::Sym>();
        let Ok((entries, _)) = pod::slice_from_bytes::<Elf::Sym>(bytes, count) else { continue };
        tables.push(Strings { image: Arc::clone(image), range: place.strings.clone() });
        let strings = image.bytes(&place.strings);
        for entry in entries {
            let may_be = start(entry, endian, image)
                .is_some_and(|(start, _)| choice.may_matter(start, entry.st_size(endian).into()));
            if let Some(symbol) =
                Some(entry).filter(|_| may_be).and_then(|entry| function(entry, endian, image, strings, table))
            {
                choice.take(symbol);
            }
        }
    }
}

/// Where what may be a function begins, and whether it is a label.
#[inline]
fn start<S: Sym<Endian = Endianness>>(entry: &S, endian: Endianness, image: &Image) -> Option<(u64, bool)> {
    let is_label = match entry.st_type() {
        elf::STT_FUNC | elf::STT_GNU_IFUNC => false,
        elf::STT_NOTYPE => true,
        _ => return None,
    };
    let start: u64 = entry.st_value(endian).into();
    // The lowest bit says "Thumb" and is no part of the address.
    let is_thumb = image.is_arm && (!is_label || entry.st_shndx(endian) == elf::SHN_ABS);
    Some((if is_thumb { start & !1 } else { start }, is_label))
}

fn function<S: Sym<Endian = Endianness>>(
    entry: &S,
    endian: Endianness,
    image: &Image,
    strings: &[u8],
    table: u8,
) -> Option<Symbol> {
    let (start, is_label) = start(entry, endian, image)?;
    let section = entry.st_shndx(endian);
    if section == elf::SHN_UNDEF || section == elf::SHN_COMMON || entry.st_name(endian) == 0 {
        return None;
    }
    // Functions of a chip's ROM have a place, and no section; on larger machines such symbols are numbers.
    let is_absolute = section == elf::SHN_ABS;
    if is_absolute && (image.is_64 || entry.st_value(endian).into() == 0) {
        return None;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in no order, the same ones each time.
    fn numbers() -> impl FnMut(u64) -> u64 {
        let mut seed = 88172645463325252u64;
        move |below| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 20) % below
        }
    }

    /// Shows them to a choice as a file does.
    fn show(symbols: &[Symbol], choice: &mut impl Choice) {
        for symbol in symbols {
            if choice.may_matter(symbol.start, symbol.size.0) {
                choice.take(*symbol);
            }
        }
    }

    #[test]
    fn a_few_symbols_say_what_all_say() {
        let mut next = numbers();
        let mut short = 0;
        for round in 0..3000u64 {
            let (count, room) = (1 + next(60), 1 + next(300));
            // Sometimes more of them begin at one place than are looked at.
            let count = if round % 100 == 0 { count + 2 * STEPS_MAX as u64 } else { count };
            let mut symbol = |_| {
                let longest = if next(9) == 0 { room } else { 9 };
                Symbol {
                    start: next(room),
                    rank: Rank { is_label: next(3) == 0, binding: Binding::Global },
                    size: Reverse(if next(3) == 0 { 0 } else { next(longest) }),
                    table: 0,
                    name: 0,
                }
            };
            let symbols: Vec<Symbol> = (0..count).map(&mut symbol).collect();
            let wanted: Vec<u64> = (0..1 + next(12)).map(|_| next(room + 20)).collect();
            let mut bounds = Bounds::around(&wanted, symbols.len());
            show(&symbols, &mut bounds);
            let Some(mut starts) = bounds.starts() else { continue };
            show(&symbols, &mut starts);
            let Some(few) = starts.symbols() else { continue };
            short += usize::from(few.len() < symbols.len());
            let [few, all] = [few, symbols].map(|symbols| SymbolTable::of(symbols, Vec::new(), &[]));
            for address in wanted {
                let [few, all] = [&few, &all].map(|table| table.find(address).map(|found| found.start));
                assert_eq!(few, all, "{address} in round {round}");
            }
        }
        assert!(short > 1000, "{short} tables were made shorter");
    }

    /// Each of them covers all addresses, and is nearer to them than those before.
    #[test]
    fn symbols_over_each_other_do_not_take_for_ever() {
        const END: u64 = 1 << 20;
        let wanted: Vec<u64> = (END - 4096..END).collect();
        let is_shown = |count: u64| {
            let rank = Rank { is_label: false, binding: Binding::Global };
            let symbol = |start| Symbol { start, rank, size: Reverse(END - start), table: 0, name: 0 };
            let symbols: Vec<Symbol> = (1..=count).map(symbol).collect();
            let mut bounds = Bounds::around(&wanted, symbols.len());
            show(&symbols, &mut bounds);
            bounds.starts().is_some()
        };
        assert_eq!((is_shown(100), is_shown(20_000)), (true, false));
    }

    #[test]
    fn a_few_symbols_of_a_file_say_what_all_of_it_say() {
        let own = std::env::current_exe().expect("a program");
        let images = [Arc::new(Image::open(&own).expect("an ELF file"))];
        let all = SymbolTable::read(&images);
        let (end, mut next) = (images[0].extent_bytes, numbers());
        for _ in 0..20 {
            let mut wanted: Vec<u64> = (0..next(40)).map(|_| next(end)).collect();
            let known = wanted.iter().filter_map(|address| all.find(*address)).map(|found| found.start);
            wanted.extend(known.flat_map(|start| [start.wrapping_sub(1), start]).collect::<Vec<_>>());
            let few = SymbolTable::read_for(&images, &wanted).expect("it has many symbols");
            assert!(few.symbols.len() * 10 < all.symbols.len());
            for address in wanted {
                let [few, all] = [&few, &all].map(|table| table.find(address).map(|found| (found.start, found.name)));
                assert_eq!(few, all, "{address:#x}");
            }
        }
    }
}
