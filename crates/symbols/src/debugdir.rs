//! Where separate debug files lie.

use std::path::{Path, PathBuf};

use crate::symbolizer::{Options, under};

/// The debug directories to search: those below the sysroot first.
fn roots(options: &Options) -> impl Iterator<Item = PathBuf> + '_ {
    let inside = options.sysroot.as_deref();
    let below = options.debug_dirs.iter().filter_map(move |dir| inside.map(|root| under(Some(root), dir)));
    below.chain(options.debug_dirs.iter().cloned())
}

/// `<debugdir>/.build-id/ab/cdef….debug`; with an empty suffix, the binary itself, which
/// some systems link there.
pub(crate) fn by_build_id(options: &Options, build_id: &[u8], suffix: &str) -> Vec<PathBuf> {
    // One byte names the directory, so there must be more than one.
    let [first, rest @ ..] = build_id else { return Vec::new() };
    if rest.is_empty() {
        return Vec::new();
    }
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!(".build-id/{first:02x}/{rest}{suffix}");
    roots(options).map(|root| root.join(&name)).collect()
}

/// Beside the binary, in `.debug/` there, and in the debug directories under its path.
pub(crate) fn by_debug_link(options: &Options, binary: &Path, name: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    // The path as recorded, and the one with symbolic links followed: `/lib` is `/usr/lib`
    // on most systems, and packages use either.
    let real = binary.canonicalize().ok();
    for binary in [Some(binary), real.as_deref()].into_iter().flatten() {
        let Some(directory) = binary.parent() else { continue };
        found.push(directory.join(name));
        found.push(directory.join(".debug").join(name));
        let inside = options.sysroot.as_deref().and_then(|root| directory.strip_prefix(root).ok());
        for root in roots(options) {
            found.push(under(Some(&root), inside.unwrap_or(directory)).join(name));
        }
    }
    let mut seen = std::collections::HashSet::new();
    found.retain(|path| path != binary && seen.insert(path.clone()));
    found
}
