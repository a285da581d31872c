//! Debug information from elsewhere. This crate opens files and nothing else, so somebody else brings them.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use crate::elf::Image;

/// Brings debug files that are not on this machine's disks, by build id: a client of debuginfod, say.
///
/// It is asked once for each module whose addresses are to be named and for which no debug information was found. What
/// it brings is only used if its build id is the one that was asked for.
pub trait Fetch: Debug + Send + Sync {
    /// Brings the debug file of a build. `module` is for messages.
    fn debug_info(&mut self, module: &Path, build_id: &[u8]) -> Fetched;
}

/// What came of fetching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// It is there now.
    File(PathBuf),
    /// Nobody who was asked has it.
    Unknown,
    /// It could not be found out; why, as half a sentence.
    Failed(String),
}

/// Whether a file is whole enough to be read and has debug information or symbols of this build. If not: why, as half a
/// sentence.
///
/// # Errors
/// If it is not.
pub fn check_debug_file(path: &Path, build_id: &[u8]) -> Result<(), String> {
    let image = Image::open(path)?;
    if image.build_id.is_empty() {
        Err("it has no build id".to_owned())
    } else if image.build_id != build_id {
        Err("it belongs to another build".to_owned())
    } else if !image.has_debug_info() && !image.has_symtab() {
        Err("it holds no debug information".to_owned())
    } else {
        Ok(())
    }
}
