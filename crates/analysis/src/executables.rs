//! Files that somebody says are modules of a ledger: which, and whether they can be.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use heapledger_format::session::process::BUILD_ID;
use heapledger_source::{Ledger, Module, SourceError};
use heapledger_symbols::{Assigned, GivenFile, Hex, machine_name};
use thiserror::Error;

/// What a file is to a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// These modules of it: one, unless it was loaded several times.
    Modules(Vec<Assigned>),
    /// All of it: the ledger has no modules, so its code addresses are those of the program's file. So it is of chips.
    Everything(ProgramFile),
}

/// A file with the code of a ledger that has no modules, or with part of it: a program, a boot loader, a chip's ROM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its build id; empty if it has none.
    pub build_id: Vec<u8>,
    /// Whether it is the build that the ledger is of.
    pub build: SameBuild,
}

/// Whether a file is the build that a ledger without modules is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SameBuild {
    /// Both say so.
    Yes,
    /// One of them does not say.
    Unknown,
    /// They say something else.
    No,
}

impl Given {
    /// A file with the code of a ledger without modules.
    pub fn program(self) -> Option<ProgramFile> {
        match self {
            Given::Everything(file) => Some(file),
            Given::Modules(_) => None,
        }
    }
}

/// Why a file is not what ran.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotOurs {
    /// Its build id says so.
    #[error("{} is not {} as it ran: its build id is {}, the ledger has {}", file.display(), module.display(), Hex(found), Hex(expected))]
    OtherBuild {
        /// The file.
        file: PathBuf,
        /// The module that it could be.
        module: PathBuf,
        /// Its build id.
        found: Vec<u8>,
        /// The one recorded.
        expected: Vec<u8>,
    },
    /// Its size says so, for want of a build id in one of the two.
    #[error("{} is not {} as it ran: loaded, it takes {found} bytes of addresses, that took {expected}", file.display(), module.display())]
    OtherSize {
        /// The file.
        file: PathBuf,
        /// The module that it could be.
        module: PathBuf,
        /// Bytes from its first segment to the end of its last.
        found: u64,
        /// The same of the module.
        expected: u64,
    },
    /// It is for another machine.
    #[error("{} is for {found}, and the ledger is of {expected}", file.display())]
    OtherMachine {
        /// The file.
        file: PathBuf,
        /// What it is for.
        found: String,
        /// What the ledger is of.
        expected: String,
    },
    /// A firmware's ledger says of which build it is, and none of the files is that.
    #[error("{} is not the firmware that ran: {}, and the ledger is of build id {expected}", file.display(), own_id(found))]
    OtherFirmware {
        /// The file.
        file: PathBuf,
        /// Its build id.
        found: Vec<u8>,
        /// What the ledger says.
        expected: String,
    },
    /// The program had nothing of that kind.
    #[error("{} is none of the modules that the program had loaded: its build id is {}", file.display(), Hex(found))]
    NoModule {
        /// The file.
        file: PathBuf,
        /// Its build id.
        found: Vec<u8>,
    },
}

fn own_id(build_id: &[u8]) -> String {
    if build_id.is_empty() {
        "it has another build id".to_owned()
    } else {
        format!("its build id is {}", Hex(build_id))
    }
}

/// Whether a file is of the build that is called so: by the linker's note, in hexadecimal digits, or by a text that the program
/// holds as its ledger does.
fn same_build(file: &GivenFile, called: &str) -> SameBuild {
    let own = Hex(&file.build_id).to_string();
    // A note may be longer than there is room for in the ledger.
    if !file.build_id.is_empty() && called.len() >= BUILD_ID_DIGITS_MIN && own.starts_with(called) {
        return SameBuild::Yes;
    }
    let begin = format!("{BUILD_ID}=");
    if file.holds(format!("{begin}{called}\0").as_bytes()) {
        return SameBuild::Yes;
    }
    if !file.build_id.is_empty() || file.holds(begin.as_bytes()) { SameBuild::No } else { SameBuild::Unknown }
}

/// Fewest digits of a build id by which two are the same.
const BUILD_ID_DIGITS_MIN: usize = 8;

/// Refuses `files` for a ledger without modules that says of which build it is, if they are others, and none of them is that.
/// (What is beside that one may be a boot loader, or a ROM.)
///
/// # Errors
/// The first that is another.
pub fn check_firmware(ledger: &Ledger, files: &[ProgramFile]) -> Result<(), NotOurs> {
    let is_there = files.iter().any(|file| file.build == SameBuild::Yes);
    let Some(other) = files.iter().find(|file| file.build == SameBuild::No).filter(|_| !is_there) else {
        return Ok(());
    };
    let expected = ledger.process().text(BUILD_ID).unwrap_or_default();
    Err(NotOurs::OtherFirmware { file: other.path.clone(), found: other.build_id.clone(), expected })
}

/// What `file` is to `ledger`: a module with its build id. Where one of the two has none, the module of that path or name,
/// or the program itself, if it takes as much room in memory.
///
/// # Errors
/// If the ledger can no longer be read.
pub fn given(ledger: &Ledger, file: &GivenFile) -> Result<Result<Given, NotOurs>, SourceError> {
    let modules = ledger.modules()?;
    if modules.is_empty() {
        let machine = ledger.header().machine;
        if machine != 0 && file.machine != machine {
            let [found, expected] = [file.machine, machine].map(machine_name);
            return Ok(Err(NotOurs::OtherMachine { file: file.path.clone(), found, expected }));
        }
        let called = ledger.process().text(BUILD_ID).filter(|called| !called.is_empty());
        let build = called.map_or(SameBuild::Unknown, |called| same_build(file, &called));
        let (path, build_id) = (file.path.clone(), file.build_id.clone());
        return Ok(Ok(Given::Everything(ProgramFile { path, build_id, build })));
    }
    Ok(among(&modules, ledger.process().exe().as_deref(), file))
}

fn among(modules: &[Module], program: Option<&Path>, file: &GivenFile) -> Result<Given, NotOurs> {
    let assigned = |module: &Module| Assigned {
        module: module.path.clone(),
        build_id: module.build_id.clone(),
        file: file.path.clone(),
    };
    let same = modules.iter().filter(|module| !file.build_id.is_empty() && module.build_id == file.build_id);
    let same: Vec<Assigned> = same.map(assigned).collect();
    if !same.is_empty() {
        return Ok(Given::Modules(same));
    }
    let real = file.path.canonicalize().unwrap_or_else(|_| file.path.clone());
    let by_path = modules.iter().find(|module| module.path == real || module.path == file.path);
    let by_name = || modules.iter().find(|module| name(&module.path).is_some_and(|own| Some(own) == name(&file.path)));
    let as_program = || {
        let own = program.and_then(|program| modules.iter().find(|module| module.path == program));
        own.or(modules.first()).filter(|_| file.is_program)
    };
    let Some(module) = by_path.or_else(by_name).or_else(as_program) else {
        return Err(NotOurs::NoModule { file: file.path.clone(), found: file.build_id.clone() });
    };
    let (path, of) = (file.path.clone(), module.path.clone());
    if !file.build_id.is_empty() && !module.build_id.is_empty() {
        let (found, expected) = (file.build_id.clone(), module.build_id.clone());
        return Err(NotOurs::OtherBuild { file: path, module: of, found, expected });
    }
    let (found, expected) = (file.extent_bytes, module.high.saturating_sub(module.low));
    if found != 0 && expected != 0 && found.div_ceil(PAGE) != expected.div_ceil(PAGE) {
        return Err(NotOurs::OtherSize { file: path, module: of, found, expected });
    }
    Ok(Given::Modules(vec![assigned(module)]))
}

/// What memory is mapped by.
const PAGE: u64 = 4096;

/// The name of a file, without what a debug file's name ends in and what the kernel adds where the file is gone.
fn name(path: &Path) -> Option<&str> {
    let name = path.file_name().and_then(OsStr::to_str)?;
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    Some(name.strip_suffix(".debug").unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(path: &str, build_id: &[u8], bytes: u64) -> Module {
        Module {
            row: 0,
            path: path.into(),
            build_id: build_id.to_vec(),
            bias: 0x1000,
            low: 0x1000,
            high: 0x1000 + bytes,
            generation: 0,
        }
    }

    fn file(path: &str, build_id: &[u8], extent_bytes: u64, is_program: bool) -> GivenFile {
        GivenFile { path: path.into(), build_id: build_id.to_vec(), extent_bytes, is_program, machine: 62 }
    }

    #[test]
    fn the_build_id_decides() {
        let modules =
            [module("/no/lib.so", b"lib", 8000), module("/no/app", b"app", 9000), module("/no/old", b"", 5000)];
        let of = |file: GivenFile| among(&modules, Some(Path::new("/no/app")), &file);
        let module = |file: GivenFile| match of(file) {
            Ok(Given::Modules(all)) => all[0].module.to_string_lossy().into_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!(module(file("/no/build/x", b"app", 1, true)), "/no/app");
        assert_eq!(module(file("/no/build/y", b"lib", 1, true)), "/no/lib.so");
        // Without one, the name, else the program; and the size.
        assert_eq!(module(file("/no/build/lib.so.debug", b"", 8000, false)), "/no/lib.so");
        assert_eq!(module(file("/no/build/app-unstripped", b"", 9001, true)), "/no/app");
        assert_eq!(module(file("/no/old", b"new", 4097, true)), "/no/old");
        let refused = |file: GivenFile| of(file).expect_err("refused");
        assert!(matches!(refused(file("/no/build/app", b"other", 9000, true)), NotOurs::OtherBuild { .. }));
        assert!(matches!(refused(file("/no/bin/ls", b"ls", 9000, true)), NotOurs::OtherBuild { .. }));
        assert!(matches!(refused(file("/no/bin/ls", b"", 20_000, true)), NotOurs::OtherSize { .. }));
        assert!(matches!(refused(file("/no/libz.so", b"z", 9000, false)), NotOurs::NoModule { .. }));
    }
}
