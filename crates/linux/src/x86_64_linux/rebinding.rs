//! Calls of modules that are loaded and bound already, led to functions of ours: the words through which they call are changed.
//!
//! For a library that is opened in a program that runs. It stands where one that was preloaded does only if the program's modules
//! are bound anew; the loader does that for none. A word is changed if its relocation names the function and it holds the address
//! that the function had, or leads to the loader, which would look for it at the first call. Threads may call through the words
//! meanwhile: each is exchanged at once, and holds a function of that name before and after.
//!
//! To be called with the loader's lock, as a constructor is: no module is then halfway loaded.
//!
//! # Safety
//! Writes into tables of modules, where their own relocations say that the loader has.

use super::debug_list::LinkMap;
use super::dynamic::SYMBOL_BYTES;
use super::loader::{CodeFinder, Module, modules, modules_but_us};
use crate::syscall;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicUsize, Ordering};

const PAGE: usize = 4096;
const RELOCATION_BYTES: usize = 24;

/// Where calls of a function go, and where they are to go.
#[derive(Clone, Copy, Debug)]
pub struct Lead {
    /// The address that the program's modules are bound to.
    pub from: usize,
    /// Ours.
    pub to: usize,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rebound {
    /// Words that lead to us now.
    pub words: usize,
    /// Words whose page cannot be written.
    pub refused: usize,
}

/// A part of a module that is closed for writing once it is relocated.
#[derive(Clone, Copy)]
struct Closed {
    low: usize,
    high: usize,
    is_open: bool,
}

impl Closed {
    fn of(finder: &CodeFinder, module: &Module) -> Closed {
        let range = finder.of(module).and_then(|code| code.closed_after_relocation());
        // What lies in a page with other data stays open.
        let (low, high) = range.map_or((0, 0), |(low, high)| (low & !(PAGE - 1), high & !(PAGE - 1)));
        Closed { low, high, is_open: false }
    }

    /// Whether the word can be written.
    fn opens(&mut self, place: usize) -> bool {
        if !(self.low..self.high).contains(&place) {
            return true;
        }
        if !self.is_open {
            let bytes = self.high.wrapping_sub(self.low);
            self.is_open = syscall::make_accessible(self.low as *mut u8, bytes).is_ok();
        }
        self.is_open
    }

    fn close(&self) {
        if self.is_open {
            // Open it is as right as it was.
            let _ = syscall::make_read_only(self.low as *mut u8, self.high.wrapping_sub(self.low));
        }
    }
}

impl Rebound {
    fn exchange(&mut self, closed: &mut Closed, place: usize, from: usize, to: usize) {
        if !place.is_multiple_of(align_of::<AtomicUsize>()) {
            return;
        }
        if !closed.opens(place) {
            self.refused = self.refused.wrapping_add(1);
            return;
        }
        // SAFETY: a word of a loaded module's own table, aligned and writable; others only read it, or store the same at once.
        let word = unsafe { AtomicUsize::from_ptr(place as *mut usize) };
        let is_done = word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        self.words = self.words.wrapping_add(usize::from(is_done));
    }
}

/// Changes the words of all modules but our own. `lead` says where calls of a function of this name are to go.
pub fn rebind(lead: &dyn Fn(&[u8]) -> Option<Lead>) -> Rebound {
    let finder = CodeFinder::new();
    finder.start();
    let mut all = Rebound::default();
    for module in modules_but_us() {
        let mut closed = Closed::of(&finder, &module);
        let extent = finder.of(&module).map_or((0, 0), |code| code.extent());
        module.each_bound(&mut |name, bound| {
            let Some(lead) = lead(name) else { return };
            // SAFETY: a word of the module's own table, which is mapped for reading.
            let value = unsafe { (bound.place as *const usize).read_volatile() };
            let is_lazy = bound.is_call && !bound.is_defined_here && (extent.0..extent.1).contains(&value);
            if value == lead.from || is_lazy {
                all.exchange(&mut closed, bound.place, value, lead.to);
            }
        });
        closed.close();
    }
    all
}

/// Changes the words in which the loader keeps the addresses of the program's allocator for itself. They have no relocations: each
/// word of the part of it that is closed after relocation counts that holds an address of `leads`.
pub fn rebind_loader(leads: &[Lead]) -> Rebound {
    let finder = CodeFinder::new();
    finder.start();
    let mut all = Rebound::default();
    let Some(code) = finder.loader() else { return all };
    let mut closed = Closed::of(&finder, &code.module);
    let words = (closed.low..closed.high).step_by(size_of::<usize>());
    for place in words {
        // SAFETY: a part of the loader that its own headers describe, mapped for reading.
        let value = unsafe { (place as *const usize).read_volatile() };
        if let Some(lead) = leads.iter().find(|lead| lead.from == value && value != 0) {
            all.exchange(&mut closed, place, value, lead.to);
        }
    }
    closed.close();
    all
}

/// Addresses of what the loader keeps of the executable and of the module that contains this code.
pub fn own_maps() -> Option<(usize, usize)> {
    let first = modules().next()?;
    let own = modules().find(Module::is_us)?;
    Some((first.map_address(), own.map_address()))
}

/// A word through which a module calls, or takes the address of, a function.
struct Bound {
    place: usize,
    /// It is only jumped through, and may be filled at the first call.
    is_call: bool,
    /// The module has the function itself.
    is_defined_here: bool,
}

impl Module {
    fn map_address(&self) -> usize {
        let map: *const LinkMap = self.map();
        map as usize
    }

    /// Tells of each such word, with the name of the function.
    fn each_bound(&self, tell: &mut dyn FnMut(&[u8], &Bound)) {
        const ABSOLUTE: u32 = 1;
        const GLOBAL: u32 = 6;
        const JUMP: u32 = 7;
        let Some((symbols, strings)) = self.symbols_and_strings() else { return };
        for (table, bytes) in self.relocation_tables().into_iter().flatten() {
            for index in 0..bytes / RELOCATION_BYTES {
                let at = table.wrapping_add(index.wrapping_mul(RELOCATION_BYTES));
                // SAFETY: the module's own table, as long as it says; the loader has read it, too.
                let [offset, info, addend] = unsafe { *(at as *const [usize; 3]) };
                let (kind, symbol) = (info as u32, info >> 32);
                if symbol == 0 || !(matches!(kind, GLOBAL | JUMP) || kind == ABSOLUTE && addend == 0) {
                    continue;
                }
                let at = symbols.wrapping_add(symbol.wrapping_mul(SYMBOL_BYTES));
                // SAFETY: the number comes from a relocation of the module, so the symbol is inside its table.
                let (name_at, section) = unsafe { (*(at as *const u32), *(at.wrapping_add(6) as *const u16)) };
                // SAFETY: a name offset of the module points to a string in its string table.
                let name = unsafe { CStr::from_ptr(strings.wrapping_add(name_at as usize) as *const c_char) };
                let place = self.bias().wrapping_add(offset);
                tell(name.to_bytes(), &Bound { place, is_call: kind == JUMP, is_defined_here: section != 0 });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn free();
        fn calloc();
    }

    #[test]
    fn words_that_lead_to_a_function_are_found_and_no_others() {
        let real = free as *const () as usize;
        // To where they lead already, so that nothing changes for those who call meanwhile.
        let found = rebind(&|name| (name == b"free").then_some(Lead { from: real, to: real }));
        assert!(found.words > 0, "the C library calls its own by such a word");
        assert_eq!(found.refused, 0, "also where the loader has closed them");
        let other = rebind(&|name| (name == b"no_such_function").then_some(Lead { from: real, to: real }));
        assert_eq!(other, Rebound::default());
        let leads = [Lead { from: calloc as *const () as usize, to: calloc as *const () as usize }];
        let found = rebind_loader(&leads);
        assert_eq!((found.words > 0, found.refused), (true, 0), "the loader has it from the C library");
        assert_eq!(rebind_loader(&[Lead { from: 0, to: 0 }]), Rebound::default());
    }

    #[test]
    fn the_executable_is_first() {
        let (first, own) = own_maps().expect("both are listed");
        assert_eq!(first, own, "a test is an executable");
    }
}
