//! Lines of Python in stacks: which frames the thread's interpreter runs, read from CPython's own structures, without a call into it
//! but for two functions that load a word ([`python_calls`](crate::python_calls)), and without a change of anything.
//!
//! A stack is taken as ever. Where the calling thread has a state of Python's, its frames follow: they are nodes of the same trie, with
//! rows of `lines` in place of code addresses, below no caller; and one more node below the stack's own says which of these were
//! there ([`pc::Scripted`]). So code addresses and lines are each stored once, and everything that remembers stacks stays as it is.
//! Readers put the two together: a frame of code that [interprets](pc::Mark::Interprets) runs the frames up to
//! the next [`pc::Scripted::LoopBegins`].
#![forbid(unsafe_code)]

mod chain;
mod code;
mod layout;
mod lines;

pub(crate) use chain::{Chain, site};
pub use layout::{LAYOUTS, Layout};

use crate::ledger::Ledger;
use crate::once::{Appended, Noted};
use crate::private::Alone;
use crate::python_calls::PythonCalls;
use code::Types;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use heapledger_format::SectionKind;
use heapledger_format::section::pc;
use heapledger_format::session::process as key;
use heapledger_linux::loader::Module;
use heapledger_linux::peek::Peek;
use heapledger_linux::text::Text;
use lines::Lines;

/// Stacks of which nothing is believed: of each word the kernel is asked.
const TRIALS: u32 = 64;
/// Code addresses that interpret and lie elsewhere than their function says.
const PARTS_MAX: usize = 256;

/// Python in this process. All zeros at first.
pub struct Python {
    is_wanted: AtomicBool,
    layout: Noted<Layout>,
    calls: PythonCalls,
    /// Addresses of types: of code, texts, bytes.
    types: [AtomicU64; 3],
    /// The function that interprets, as code addresses of it stand in the ledger: the first, and one past the last.
    loop_codes: [AtomicU64; 2],
    /// Code addresses of parts of it that the compiler has put elsewhere.
    loop_parts: Appended<u64, PARTS_MAX>,
    trials: AtomicU32,
    lines: Lines,
}

impl Python {
    /// Not wanted.
    pub(crate) const fn new() -> Python {
        Python {
            is_wanted: AtomicBool::new(false),
            layout: Noted::new(),
            calls: PythonCalls::new(),
            types: [const { AtomicU64::new(0) }; 3],
            loop_codes: [const { AtomicU64::new(0) }; 2],
            loop_parts: Appended::over([0; PARTS_MAX]),
            trials: AtomicU32::new(0),
            lines: Lines::new(),
        }
    }

    /// Stacks are to have lines, if there is a Python.
    pub(crate) fn want(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    /// Whether there are lines.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.layout.is_set()
    }

    /// Gives the memory beside the ledger back.
    pub(crate) fn unmap(&self, alone: &Alone) {
        self.lines.unmap(alone);
    }

    /// A module was seen first: that of Python, perhaps. The ledger is told what was found.
    #[cold]
    pub(crate) fn look_at(&self, ledger: &Ledger, module: &Module, row_plus_1: u16) {
        if !self.is_wanted.load(Ordering::Relaxed) || row_plus_1 == 0 || module.symbol(b"Py_GetVersion").is_none() {
            return;
        }
        let mut told = Text::<64>::new();
        let version = module.symbol(b"Py_Version").and_then(|symbol| Peek::asking().word(symbol.address as u64));
        match self.found(module, version.unwrap_or(0) as u32, row_plus_1) {
            Ok(layout) => {
                self.trials.store(0, Ordering::Relaxed);
                push_version(&mut told, version.unwrap_or(0) as u32);
                self.layout.set(layout);
            }
            Err(why) => {
                told.push(b"!").push(why);
            }
        }
        self.tell(ledger, told.bytes());
        self.is_wanted.store(false, Ordering::Relaxed);
    }

    /// Looks up what is needed of a Python of this version.
    fn found(&self, module: &Module, version: u32, row_plus_1: u16) -> Result<&'static Layout, &'static [u8]> {
        let [major, minor, ..] = version.to_be_bytes();
        if version == 0 {
            return Err(b"it is older than 3.11");
        }
        let layout = LAYOUTS.iter().find(|layout| (major, minor) == (3, layout.minor));
        let layout = layout.ok_or(&b"its version is newer than 3.13"[..])?;
        // Builds for debugging count references; their structures have more fields.
        if [&b"_Py_NegativeRefcount"[..], b"_Py_RefTotal"].iter().any(|name| module.symbol(name).is_some()) {
            return Err(b"it is a build for debugging");
        }
        let address = |name: &[u8]| module.symbol(name).map(|symbol| symbol.address as u64);
        let missing = &b"it does not say where its parts are"[..];
        let runtime = address(b"_PyRuntime").ok_or(missing)?;
        if !layout::is_told(layout, runtime) {
            return Err(b"it is built otherwise than its version says");
        }
        let is_finalizing = address(b"Py_IsFinalizing").or_else(|| address(b"_Py_IsFinalizing"));
        let (Some(thread_state), Some(is_finalizing)) = (address(b"PyGILState_GetThisThreadState"), is_finalizing)
        else {
            return Err(missing);
        };
        for (place, name) in self.types.iter().zip([&b"PyCode_Type"[..], b"PyUnicode_Type", b"PyBytes_Type"]) {
            place.store(address(name).ok_or(missing)?, Ordering::Relaxed);
        }
        let interprets = module.symbol(b"_PyEval_EvalFrameDefault").ok_or(missing)?;
        let start = interprets.address.wrapping_sub(module.bias()) as u64;
        // A return address lies behind its call.
        for (place, at) in self.loop_codes.iter().zip([start, start.wrapping_add(interprets.bytes as u64)]) {
            place.store(pc::pack(row_plus_1, at.wrapping_add(1)), Ordering::Relaxed);
        }
        self.calls.set(thread_state as usize, is_finalizing as usize);
        Ok(layout)
    }

    /// What was believed of its structures is not so: no lines any more.
    #[cold]
    fn refuse(&self, ledger: &Ledger) {
        self.calls.set(0, 0);
        self.tell(ledger, b"!it is built otherwise than its version says");
    }

    fn tell(&self, ledger: &Ledger, value: &[u8]) {
        let mut pair = Text::<128>::new();
        pair.push(key::PYTHON.as_bytes()).push(b"=").push(value).push(b"\0");
        // If there is no room for it, readers know by the lines themselves.
        let _ = ledger.enter(SectionKind::Process, pair.bytes());
    }

    fn types(&self) -> Types {
        let [code, text, bytes] = self.types.each_ref().map(|address| address.load(Ordering::Relaxed));
        Types { code, text, bytes }
    }

    /// How its structures are read now, and whether that is a trial.
    #[inline(always)]
    fn peek(&self) -> (Peek, bool) {
        let is_trial = self.trials.load(Ordering::Relaxed) < TRIALS;
        (if is_trial { Peek::asking() } else { self.calls.trusting() }, is_trial)
    }

    /// Whether a code address, as the ledger has it, is in the loop of the interpreter.
    #[inline(always)]
    pub(crate) fn interprets(&self, code: u64) -> bool {
        let [first, end] = self.loop_codes.each_ref().map(|code| code.load(Ordering::Relaxed));
        (first..end).contains(&code) || self.loop_parts.all().contains(&code)
    }

    /// A code address is in a part of the loop that lies elsewhere. False if that was known, or there is no room.
    fn add_part(&self, code: u64) -> bool {
        let Some(mut adding) = self.loop_parts.lock() else { return false };
        !self.loop_parts.all().contains(&code) && adding.add(code).is_some()
    }
}

/// `3.11.2`
fn push_version(text: &mut Text<64>, version: u32) {
    let [major, minor, micro, _] = version.to_be_bytes();
    text.push_number(major.into()).push(b".").push_number(minor.into()).push(b".").push_number(micro.into());
}
