//! Names for code addresses, later and elsewhere than where they were recorded.
//!
//! You supply a module (the path it had and its build id) and addresses inside it; this
//! crate finds the file or its separate debug file, checks that it is the *same* file, and
//! answers with functions, source lines and inline frames.
//!
//! * A file whose build id differs from the recorded one is never used: a wrong name is
//!   worse than none. [`ModuleStatus`] says in sentences what could not be seen and why.
//! * What is not on disk may be brought by a [`Fetch`]; this crate itself asks no network.
//! * Code that was made at run time has the names that its engine wrote down for `perf`.
//! * Files are memory-mapped and read piecewise: one compilation unit at a time is parsed,
//!   answered from, and dropped.
//! * Nothing in a file is believed. Forged ELF or DWARF costs bounded time and memory and
//!   ends in missing names, never in a panic.
//!
//! Not supported, and answered with plain symbols instead: functions of split DWARF
//! (`.dwo`, `.dwp`; their lines are read), relocatable objects (`.o`), the xz-compressed
//! `.gnu_debugdata`, names of PLT entries.
//!
//! ```
//! use heapledger_symbols::{ModuleId, Options, Symbolizer};
//!
//! let own = std::env::current_exe()?;
//! let mut symbolizer = Symbolizer::new(Options::default());
//! let module = ModuleId { path: &own, build_id: &[] };
//! let resolved = symbolizer.resolve(&module, &[0x1234], &mut |_done, _total| {}, None);
//! assert_eq!(resolved.len(), 1);
//! for note in &symbolizer.status(&module).notes {
//!     eprintln!("{note}");
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
#![deny(missing_docs)]
#![deny(unsafe_code)]

mod symbolizer;

mod fetch;
mod frame;
mod generated;
mod given;
mod locate;
mod status;

mod called;
mod debugdir;
mod demangle;
mod distribution;
mod dwarf;
mod elf;
mod intern;
mod mapping;
mod near;
mod symtab;

mod source;

pub use distribution::Distribution;
pub use fetch::{Fetch, Fetched, check_debug_file};
pub use frame::{Frame, Resolved};
pub use given::{Assigned, GivenFile, machine_name};
pub use source::SourceReader;
pub use status::{Hex, ModuleStatus, Note, Seen};
pub use symbolizer::{Level, ModuleId, Options, Symbolizer};
