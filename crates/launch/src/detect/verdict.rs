//! The answer, in one sentence for a person.

use std::fmt;
use std::path::PathBuf;

/// What is known of a program before it runs.
#[derive(Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The file that is executed in the end: for a script, its interpreter.
    pub path: PathBuf,
    /// Why its allocations cannot be seen, if so.
    pub why: Option<Why>,
}

/// Why allocations cannot be seen.
#[derive(Debug, PartialEq, Eq)]
pub enum Why {
    /// No loader, so nothing can be preloaded.
    Static,
    /// No loader either, but it was linked with a recorder.
    RecordsItself,
    /// It runs with another user's rights.
    SetUid,
    /// It runs with another group's rights.
    SetGid,
    /// It runs with file capabilities.
    Capabilities,
    /// Another C library.
    Musl,
    /// A C library from before the first supported one.
    OldGlibc((u32, u32)),
    /// For another processor.
    Foreign {
        /// 32 or 64.
        bits: u8,
        /// ELF machine number.
        machine: u16,
    },
    /// Built with this sanitizer, which replaces `malloc` itself.
    Sanitizer(&'static str),
    /// It defines `malloc` for itself and its libraries, ahead of every preloaded library.
    OwnAllocator,
    /// An allocator is linked into it under this name. Libraries that call the usual one are still seen.
    BuiltInAllocator(String),
}

impl Why {
    /// Whether some allocations are seen all the same, so that a ledger makes sense.
    pub fn partly(&self) -> bool {
        matches!(self, Why::BuiltInAllocator(_) | Why::RecordsItself)
    }
}

impl Why {
    /// Whether it does not even notice what is preloaded: then that may stay for what it becomes by exec. (Entry points of
    /// containers that change the user, such as gosu, are statically linked.)
    pub fn may_become_another(&self) -> bool {
        matches!(self, Why::Static | Why::RecordsItself)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        let Some(why) = &self.why else { return write!(f, "{path} can be tracked") };
        match why {
            Why::Static => write!(f, "{path} is statically linked, so nothing can be preloaded into it")?,
            Why::RecordsItself => {
                return write!(f, "{path} is statically linked: what its own recorder does not see is not seen");
            }
            Why::SetUid => write!(f, "{path} runs as another user (set-uid), so the loader allows no preloading")?,
            Why::SetGid => write!(f, "{path} runs as another group (set-gid), so the loader allows no preloading")?,
            Why::Capabilities => write!(f, "{path} has file capabilities, so the loader allows no preloading")?,
            Why::Musl => write!(f, "{path} is built for musl; heapledger works with glibc 2.35 or later")?,
            Why::OldGlibc((major, minor)) => {
                write!(f, "{path} uses glibc {major}.{minor}; heapledger works with glibc 2.35 or later")?;
            }
            Why::Foreign { bits, machine } => {
                let (bits, name) = (*bits, machine_name(*machine, *bits));
                write!(f, "{path} is a {bits}-bit program for {name}; heapledger works with x86-64")?;
            }
            Why::Sanitizer(name) => write!(f, "{path} is built with {name}, which replaces malloc itself")?,
            Why::OwnAllocator => write!(f, "{path} brings its own allocator (it defines malloc itself)")?,
            Why::BuiltInAllocator(name) => {
                return write!(
                    f,
                    "{path} has its own allocator linked in ({name}): its own calls are not seen, only its libraries'"
                );
            }
        }
        f.write_str(": it runs untracked")
    }
}

fn machine_name(machine: u16, bits: u8) -> String {
    use object::elf;
    match elf::Machine(machine) {
        elf::EM_386 => "i386".into(),
        elf::EM_X86_64 if bits == 32 => "x86-64 (x32)".into(),
        elf::EM_X86_64 => "x86-64".into(),
        elf::EM_ARM => "ARM".into(),
        elf::EM_AARCH64 => "aarch64".into(),
        elf::EM_RISCV => "RISC-V".into(),
        elf::EM_PPC64 => "PowerPC".into(),
        elf::EM_S390 => "s390x".into(),
        other => format!("ELF machine {}", other.0),
    }
}
