//! A file that somebody says is a module that ran.

use std::path::{Path, PathBuf};

use crate::elf::Image;
use crate::mapping::Mapping;

/// An ELF file, as far as it tells which module it can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its GNU build id; empty if it has none.
    pub build_id: Vec<u8>,
    /// Bytes of address space from its first segment to its last; 0 if it does not say.
    pub extent_bytes: u64,
    /// Whether it is a program, not a library.
    pub is_program: bool,
    /// The machine that it is for: `e_machine` of its ELF header.
    pub machine: u16,
}

impl GivenFile {
    /// Looks at the headers of a file.
    ///
    /// # Errors
    /// Half a sentence, if it cannot be read or is no ELF file of code.
    pub fn open(path: &Path) -> Result<GivenFile, String> {
        let image = Image::open(path)?;
        if !image.is_linked {
            return Err("it is neither a program nor a shared library".to_owned());
        }
        let Image { build_id, extent_bytes, is_program, machine, .. } = image;
        Ok(GivenFile { path: path.to_owned(), build_id, extent_bytes, is_program, machine })
    }

    /// Whether these bytes are anywhere in the file: constants of a program are.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        let there = Mapping::open(&self.path).ok();
        there.is_some_and(|there| memchr::memmem::find(&there, bytes).is_some())
    }
}

/// A module, and the file that is to be read for it wherever its own lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The path that was recorded.
    pub module: PathBuf,
    /// The build id that was recorded.
    pub build_id: Vec<u8>,
    /// The file.
    pub file: PathBuf,
}

/// What a machine is called of which ELF headers have the number.
pub fn machine_name(machine: u16) -> String {
    let known = match machine {
        3 => "x86",
        8 => "MIPS",
        20 => "PowerPC",
        40 => "ARM",
        62 => "x86-64",
        83 => "AVR",
        94 => "Xtensa",
        183 => "AArch64",
        243 => "RISC-V",
        other => return format!("machine {other}"),
    };
    known.to_owned()
}
