//! Arguments of a function that takes any number of them, as `va_arg` reads them.

use crate::format::Values;
use crate::frame::Frame;
use crate::measure;

/// What a `va_list` is. A copy is read here, so that the real one stays where it is.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct List {
    /// Bytes of `registers` that are used up, of words and of vectors.
    words: u32,
    vectors: u32,
    /// The next argument that found no register.
    stack: usize,
    /// Six words, then eight vectors.
    registers: usize,
}

const WORDS_END: u32 = 48;
const VECTORS_END: u32 = 176;

impl List {
    /// Of a call, with so many arguments that are none of these.
    pub(crate) fn of(frame: &Frame, named: usize) -> List {
        List {
            words: (named as u32).wrapping_mul(8),
            vectors: WORDS_END,
            stack: frame.stack(),
            registers: core::ptr::from_ref(frame) as usize,
        }
    }

    /// A copy of the one at an address.
    pub(crate) fn at(address: usize) -> List {
        // SAFETY: the program passes it to a function that reads it.
        unsafe { (address as *const List).read() }
    }

    fn on_stack(&mut self) -> usize {
        let at = self.stack;
        self.stack = at.wrapping_add(8);
        measure::word(at)
    }
}

impl Values for List {
    fn word(&mut self) -> usize {
        if self.words >= WORDS_END {
            return self.on_stack();
        }
        let at = self.registers.wrapping_add(self.words as usize);
        self.words = self.words.wrapping_add(8);
        measure::word(at)
    }

    fn double(&mut self) {
        if self.vectors >= VECTORS_END {
            self.on_stack();
        } else {
            self.vectors = self.vectors.wrapping_add(16);
        }
    }

    fn long_double(&mut self) {
        self.stack = (self.stack.wrapping_add(15) & !15).wrapping_add(16);
    }
}
