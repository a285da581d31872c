//! The modules of this process, read from the loader's own list, without the loader's lock.
//!
//! `dlsym` may allocate and takes locks; `dl_iterate_phdr` takes the lock that a thread inside
//! `dlopen` holds while it waits for us. So symbols are looked up here, over the list that
//! debuggers use (`_r_debug`), and code addresses through `_dl_find_object` (glibc 2.35), which is
//! lock-free and safe in signal handlers.

use super::debug_list::{LinkMap, ProgramHeader, debug_list, first_listed};
use super::dynamic::{SYMBOL_BYTES, dynamic_entries, each_import_in, find_in_dynamic, hash_lookup};
use super::find_object::{FoundObject, ask, finder_of_static, stack_end_of_static};
use super::segment::MappedSegment;
use crate::process;
use core::arch::asm;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicUsize, Ordering};

/// A loaded module. Valid as long as the module stays loaded.
#[derive(Clone, Copy)]
pub struct Module {
    map: *const LinkMap,
}

/// A symbol that a module defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its address. For an indirect function that of the chosen implementation.
    pub address: usize,
    /// Bytes of it.
    pub bytes: usize,
}

/// All modules, in the order in which symbols are looked up at program start: the executable,
/// what is preloaded, then libraries. Meant for the first call into the recorder, when there is
/// one thread; later the list may change while it is walked, only by growing at its end or by
/// `dlclose`.
pub fn modules() -> impl Iterator<Item = Module> {
    let mut first = first_listed();
    if first.is_null() {
        // A static program: what its C library finds us in begins the same list, which it has, too.
        let us = modules as *const () as usize;
        first = ask(finder_of_static(), us).map_or(core::ptr::null(), |found| found.map);
    }
    let valid = |map: *const LinkMap| (!map.is_null()).then_some(Module { map });
    // SAFETY: the loader keeps the list well-formed; see above for when it changes.
    core::iter::successors(valid(first), move |module| valid(unsafe { (*module.map).next }))
}

/// Address of the dynamic section of the module that contains this code; 0 in a static program at a fixed address.
fn own_dynamic() -> usize {
    let address: usize;
    // SAFETY: takes an address that the linker defines.
    unsafe {
        asm!(
            ".weak _DYNAMIC",
            ".hidden _DYNAMIC",
            "mov {}, qword ptr [rip + _DYNAMIC@GOTPCREL]",
            out(reg) address, options(nostack, preserves_flags, readonly)
        );
    }
    address
}

/// Modules behind the one that contains this code, in symbol order: where the next definition of
/// a symbol that this module also defines is found.
pub fn modules_after_us() -> impl Iterator<Item = Module> {
    modules().skip_while(|module| !module.is_us()).skip(1)
}

/// Modules in front of the one that contains this code.
pub fn modules_before_us() -> impl Iterator<Item = Module> {
    modules().take_while(|module| !module.is_us())
}

/// All modules but the one that contains this code.
pub fn modules_but_us() -> impl Iterator<Item = Module> {
    modules().filter(|module| !module.is_us())
}

/// Whether the program's C library is glibc.
pub fn is_glibc() -> bool {
    modules().any(|module| module.symbol(b"gnu_get_libc_version").is_some())
}

/// Whether any module defines this symbol.
pub fn is_defined(name: &[u8]) -> bool {
    modules().any(|module| module.symbol(name).is_some())
}

/// Whether any module is linked with a library of this name.
pub fn is_needed(name: &[u8]) -> bool {
    modules().any(|module| module.needs(name))
}

const DT_NEEDED: usize = 1;
const DT_PLTRELSZ: usize = 2;
const DT_HASH: usize = 4;
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_RELA: usize = 7;
const DT_RELASZ: usize = 8;
const DT_JMPREL: usize = 23;
const DT_GNU_HASH: usize = 0x6fff_fef5;
const DT_VERSYM: usize = 0x6fff_fff0;
const STT_TLS: u8 = 6;
const STT_GNU_IFUNC: u8 = 10;
const HIDDEN_VERSION: u16 = 0x8000;

impl Module {
    /// What is added to the addresses in the module's file.
    pub fn bias(&self) -> usize {
        // SAFETY: the module is loaded.
        unsafe { (*self.map).bias }
    }

    /// The loader's name for it: a path, or empty for the executable.
    pub fn name(&self) -> &CStr {
        // SAFETY: the loader's string, valid as long as the module.
        unsafe {
            let name = (*self.map).name;
            if name.is_null() { c"" } else { CStr::from_ptr(name) }
        }
    }

    /// Whether both are the same one.
    pub fn is_same(&self, other: &Module) -> bool {
        self.map == other.map
    }

    /// Whether this is the module that contains this code.
    pub fn is_us(&self) -> bool {
        self.dynamic() as usize == own_dynamic()
    }

    fn dynamic(&self) -> *const [usize; 2] {
        // SAFETY: the module is loaded.
        unsafe { (*self.map).dynamic }
    }

    fn dynamic_value(&self, tag: usize) -> Option<usize> {
        find_in_dynamic(self.dynamic(), tag)
    }

    fn needs(&self, name: &[u8]) -> bool {
        let Some(strings) = self.dynamic_address(DT_STRTAB) else { return false };
        let needed = dynamic_entries(self.dynamic()).filter(|entry| entry[0] == DT_NEEDED);
        // SAFETY: the module's own offset leads to a string in its string table.
        let string = |at: usize| unsafe { CStr::from_ptr(strings.wrapping_add(at) as *const c_char) };
        needed.into_iter().any(|entry| string(entry[1]).to_bytes() == name)
    }

    /// An address in the dynamic section: the loader adds the bias in place where the section is writable.
    fn dynamic_address(&self, tag: usize) -> Option<usize> {
        let value = self.dynamic_value(tag)?;
        Some(if value < self.bias() { value.wrapping_add(self.bias()) } else { value })
    }

    /// What the loader keeps of it.
    pub(super) fn map(&self) -> *const LinkMap {
        self.map
    }

    /// Where its symbols and their names lie.
    pub(super) fn symbols_and_strings(&self) -> Option<(usize, usize)> {
        Some((self.dynamic_address(DT_SYMTAB)?, self.dynamic_address(DT_STRTAB)?))
    }

    /// Its tables of relocations, and their bytes.
    pub(super) fn relocation_tables(&self) -> [Option<(usize, usize)>; 2] {
        [(DT_JMPREL, DT_PLTRELSZ), (DT_RELA, DT_RELASZ)]
            .map(|(table, bytes)| Some((self.dynamic_address(table)?, self.dynamic_value(bytes)?)))
    }

    /// Tells the name of each symbol that this module takes from others, more than once perhaps: of those that it was relocated for.
    pub fn each_import(&self, tell: &mut dyn FnMut(&[u8])) {
        let Some((symbols, strings)) = self.symbols_and_strings() else { return };
        for table in self.relocation_tables().into_iter().flatten() {
            each_import_in(table, symbols, strings, tell);
        }
    }

    /// The definition of `name` in this module, if it has one; the default version if there are several.
    pub fn symbol(&self, name: &[u8]) -> Option<Symbol> {
        let symbols = self.dynamic_address(DT_SYMTAB)?;
        let strings = self.dynamic_address(DT_STRTAB)?;
        let versions = self.dynamic_address(DT_VERSYM);
        let mut fallback = None;
        let mut consider = |index: usize| -> Option<Symbol> {
            let at = symbols.wrapping_add(index.wrapping_mul(SYMBOL_BYTES));
            // SAFETY: `index` comes from the module's own hash table, so the symbol is inside its table.
            let (name_at, info, section, value, bytes) = unsafe {
                (
                    *(at as *const u32),
                    *(at.wrapping_add(4) as *const u8),
                    *(at.wrapping_add(6) as *const u16),
                    *(at.wrapping_add(8) as *const usize),
                    *(at.wrapping_add(16) as *const usize),
                )
            };
            // SAFETY: a name offset of the module points to a string in its string table.
            let here = unsafe { CStr::from_ptr(strings.wrapping_add(name_at as usize) as *const c_char) };
            if section == 0 || value == 0 || info & 15 == STT_TLS || here.to_bytes() != name {
                return None;
            }
            let mut address = self.bias().wrapping_add(value);
            if info & 15 == STT_GNU_IFUNC {
                // SAFETY: an indirect function's value is its resolver, which takes nothing on x86-64.
                address = unsafe { core::mem::transmute::<usize, extern "C" fn() -> usize>(address)() };
            }
            let symbol = Symbol { address, bytes };
            // SAFETY: the version table runs parallel to the symbols.
            let hidden = versions.is_some_and(
                |table| unsafe { *(table.wrapping_add(index.wrapping_mul(2)) as *const u16) } & HIDDEN_VERSION != 0,
            );
            if hidden {
                fallback = Some(symbol);
                return None;
            }
            Some(symbol)
        };
        let found = match (self.dynamic_address(DT_GNU_HASH), self.dynamic_address(DT_HASH)) {
            (Some(table), _) => gnu_hash_lookup(table, name, &mut consider),
            (None, Some(table)) => hash_lookup(table, name, &mut consider),
            (None, None) => None,
        };
        found.or(fallback)
    }
}

/// The GNU hash table: header, Bloom filter, buckets, chains.
fn gnu_hash_lookup(table: usize, name: &[u8], consider: &mut dyn FnMut(usize) -> Option<Symbol>) -> Option<Symbol> {
    let hash = name.iter().fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
    // SAFETY: the table's own header says how long its parts are; every index is taken modulo them or from a chain.
    unsafe {
        let word = |index: usize| *(table.wrapping_add(index.wrapping_mul(4)) as *const u32);
        let (buckets, first_symbol, bloom_words) = (word(0), word(1) as usize, word(2) as usize);
        let bucket = hash.checked_rem(buckets)? as usize;
        let buckets_at = table.wrapping_add(16).wrapping_add(bloom_words.wrapping_mul(8));
        let mut index = *(buckets_at.wrapping_add(bucket.wrapping_mul(4)) as *const u32) as usize;
        if index < first_symbol {
            return None;
        }
        let chains_at = buckets_at.wrapping_add((buckets as usize).wrapping_mul(4));
        loop {
            let entry = *(chains_at.wrapping_add(index.wrapping_sub(first_symbol).wrapping_mul(4)) as *const u32);
            if entry | 1 == hash | 1
                && let Some(symbol) = consider(index)
            {
                return Some(symbol);
            }
            if entry & 1 == 1 {
                return None;
            }
            index = index.wrapping_add(1);
        }
    }
}

/// The module that holds a code address.
#[derive(Clone, Copy)]
pub struct CodeModule {
    /// The module.
    pub module: Module,
    /// First address of it, or of the one of its segments that holds the code, where there are gaps between them.
    pub low: usize,
    /// One past the last address of the same.
    pub high: usize,
    /// Address of its `.eh_frame_hdr`, 0 if it has none.
    pub eh_frame_header: usize,
    /// Where the ELF header lies, 0 if that is not known.
    header: usize,
}

/// Looks code addresses up.
pub struct CodeFinder {
    function: AtomicUsize,
    /// Where the kernel put the executable's program headers.
    executable: AtomicUsize,
}

impl CodeFinder {
    /// Finds nothing yet.
    pub const fn new() -> Self {
        CodeFinder { function: AtomicUsize::new(0), executable: AtomicUsize::new(0) }
    }

    /// Looks for glibc's function. False if there is none: glibc is older than 2.35.
    pub fn start(&self) -> bool {
        let listed = modules().find_map(|module| module.symbol(b"_dl_find_object"));
        let function = listed.map_or_else(finder_of_static, |symbol| symbol.address);
        self.start_from(function)
    }

    /// Takes the function's address from another finder; false if that had none.
    pub fn start_from(&self, address: usize) -> bool {
        self.executable.store(process::program_headers(), Ordering::Relaxed);
        self.function.store(address, Ordering::Release);
        address != 0
    }

    /// The function's address; 0 before [`CodeFinder::start`].
    pub fn address(&self) -> usize {
        self.function.load(Ordering::Acquire)
    }

    /// The dynamic loader itself, if there is one.
    pub fn loader(&self) -> Option<CodeModule> {
        // A static program keeps the list in its own data.
        self.find(debug_list() as usize).filter(|found| !found.module.name().is_empty())
    }

    /// What else the loader knows of a module of its list.
    pub fn of(&self, module: &Module) -> Option<CodeModule> {
        self.find(module.dynamic() as usize)
    }

    /// The module that holds `address`.
    pub fn find(&self, address: usize) -> Option<CodeModule> {
        let found = self.ask(address)?;
        Some(CodeModule {
            module: Module { map: found.map },
            low: found.low,
            high: found.high,
            eh_frame_header: found.eh_frame_header,
            header: self.header(&found),
        })
    }

    fn ask(&self, address: usize) -> Option<FoundObject> {
        ask(self.address(), address)
    }

    /// Where the module's ELF header lies: at its beginning. Of a module with gaps between its segments glibc says where the
    /// one segment begins, and the first one must be found: by the bias in most libraries, by the kernel's word in executables
    /// at a fixed address.
    fn header(&self, found: &FoundObject) -> usize {
        if begins_with_elf(found) {
            return found.low;
        }
        let bias = Module { map: found.map }.bias();
        let candidates = [bias, self.executable.load(Ordering::Relaxed)];
        let first = candidates.into_iter().filter(|address| *address != 0).filter_map(|address| self.ask(address));
        let mut same = first.filter(|first| first.map == found.map && begins_with_elf(first));
        same.next().map_or(0, |first| first.low)
    }
}

fn begins_with_elf(found: &FoundObject) -> bool {
    // SAFETY: the first page of a loaded segment, which is mapped for reading.
    found.high.saturating_sub(found.low) >= 64 && unsafe { *(found.low as *const [u8; 4]) } == *b"\x7fELF"
}

impl Default for CodeFinder {
    fn default() -> Self {
        Self::new()
    }
}

const PT_LOAD: u32 = 1;
const PT_GNU_RELRO: u32 = 0x6474_e552;
const PT_NOTE: u32 = 4;
const NOTE_BUILD_ID: u32 = 3;

impl CodeModule {
    /// Where the module is entered if it is started as a program; 0 if it does not say.
    pub fn entry(&self) -> usize {
        if self.program_headers().is_empty() {
            return 0;
        }
        // SAFETY: there is an ELF header, or there would be no program headers.
        self.module.bias().wrapping_add(unsafe { *(self.header as *const u8).add(24).cast::<usize>() })
    }

    fn program_headers(&self) -> &[ProgramHeader] {
        if self.header == 0 {
            return &[];
        }
        // SAFETY: an ELF header, as its magic has told, and what lies on the same page.
        unsafe {
            let header = self.header as *const u8;
            let at = *(header.add(32).cast::<usize>());
            let (entry_bytes, count) = (*(header.add(54).cast::<u16>()), *(header.add(56).cast::<u16>()));
            let bytes = usize::from(count).wrapping_mul(core::mem::size_of::<ProgramHeader>());
            let inside = at.checked_add(bytes).is_some_and(|end| end <= 4096) && at.is_multiple_of(8);
            if usize::from(entry_bytes) != core::mem::size_of::<ProgramHeader>() || !inside {
                return &[];
            }
            core::slice::from_raw_parts(header.add(at).cast::<ProgramHeader>(), usize::from(count))
        }
    }

    /// First address of the whole module, and one past its last: as `low` and `high`, but with all segments.
    pub fn extent(&self) -> (usize, usize) {
        let segments = self.program_headers().iter().filter(|header| header.kind == PT_LOAD);
        segments.fold((self.low, self.high), |(low, high), segment| {
            let first = self.module.bias().wrapping_add(segment.address);
            (low.min(first & !4095), high.max(first.saturating_add(segment.memory_bytes)))
        })
    }

    /// From the first executable segment to the end of the last; all of it if there are no program headers to say.
    pub fn executable(&self) -> (usize, usize) {
        const EXECUTABLE: u32 = 1;
        let segments = self.program_headers().iter();
        let code = segments.filter(|header| header.kind == PT_LOAD && header.flags & EXECUTABLE != 0);
        let found = code.fold((usize::MAX, 0), |(first, end), segment| {
            let start = self.module.bias().wrapping_add(segment.address);
            (first.min(start), end.max(start.saturating_add(segment.memory_bytes)))
        });
        if found.1 == 0 { (self.low, self.high) } else { found }
    }

    /// First address and end of what the loader closes for writing once the module is relocated.
    pub fn closed_after_relocation(&self) -> Option<(usize, usize)> {
        let part = self.program_headers().iter().find(|header| header.kind == PT_GNU_RELRO)?;
        let low = self.module.bias().wrapping_add(part.address);
        Some((low, low.wrapping_add(part.memory_bytes)))
    }

    /// The mapped part of the file that holds `address`.
    pub fn segment(&self, address: usize) -> Option<MappedSegment> {
        self.program_headers().iter().filter(|header| header.kind == PT_LOAD).find_map(|header| {
            let first = self.module.bias().wrapping_add(header.address);
            let inside = address.wrapping_sub(first) < header.file_bytes;
            inside.then(|| MappedSegment::new(first, header.file_bytes))
        })
    }

    /// The module's build id, empty if it has none.
    pub fn build_id(&self) -> &[u8] {
        self.note(b"GNU\0", NOTE_BUILD_ID).unwrap_or(&[])
    }

    /// What a note of this name, which ends with a 0, and of this kind says.
    pub fn note(&self, name: &[u8], kind: u32) -> Option<&[u8]> {
        for header in self.program_headers().iter().filter(|header| header.kind == PT_NOTE) {
            let first = self.module.bias().wrapping_add(header.address);
            let Some(segment) = self.segment(first) else { continue };
            let bytes = segment
                .bytes()
                .get(first.wrapping_sub(segment.address())..)
                .and_then(|bytes| bytes.get(..header.memory_bytes));
            let mut left = bytes.unwrap_or(&[]);
            while let Some((head, rest)) = left.split_first_chunk::<12>() {
                let [name_bytes, value_bytes, its_kind] = [0, 4, 8].map(|at| {
                    let word = head.get(at..).and_then(|word| word.first_chunk());
                    word.map_or(0, |word| u32::from_ne_bytes(*word))
                });
                let (its_name, value) = (rest.get(..name_bytes as usize), rest.get(aligned(name_bytes)..));
                let value = value.and_then(|value| value.get(..value_bytes as usize));
                let (Some(its_name), Some(value)) = (its_name, value) else { break };
                if its_name == name && its_kind == kind {
                    return Some(value);
                }
                left = rest.get(aligned(name_bytes).wrapping_add(aligned(value_bytes))..).unwrap_or(&[]);
            }
        }
        None
    }
}

/// So many bytes of a note, with those that follow for the sake of alignment.
fn aligned(bytes: u32) -> usize {
    (bytes as usize).next_multiple_of(4)
}

/// Where the first thread's stack ends: the stack pointer with which the loader was entered, which it keeps in
/// `__libc_stack_end`. `None` if it does not.
pub fn first_stack_end() -> Option<usize> {
    let listed = modules().find_map(|module| module.symbol(b"__libc_stack_end"));
    let place = listed.map_or_else(stack_end_of_static, |symbol| symbol.address);
    // SAFETY: a word of the loader's data, set before any other code ran.
    Some(place).filter(|place| *place != 0).map(|place| unsafe { *(place as *const usize) }).filter(|end| *end != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_the_loader_finds() {
        let libc = modules().find(|module| module.name().to_bytes().ends_with(b"libc.so.6")).expect("libc");
        let ours = libc.symbol(b"qsort").expect("qsort");
        unsafe extern "C" {
            fn qsort();
        }
        assert_eq!(ours.address, qsort as *const () as usize);
        assert!(ours.bytes > 0);
        assert_eq!(libc.symbol(b"no_such_function"), None);
        let finder = CodeFinder::new();
        assert!(finder.start());
        let code = finder.find(ours.address).expect("code");
        assert_eq!(code.module.bias(), libc.bias());
        assert!(code.build_id().len() >= 16);
        let segment = code.segment(code.eh_frame_header).expect("segment");
        let (first, bytes) = (segment.address(), segment.bytes().len());
        assert!((first..first + bytes).contains(&code.eh_frame_header));
        assert!(finder.find(8).is_none());
    }
}
