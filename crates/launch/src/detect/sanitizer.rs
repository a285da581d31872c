//! Sanitizers: their run-time libraries replace `malloc` themselves, and want to be in front of everybody or give up.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use heapledger_format::session::{SANITIZERS, Sanitizer};

use super::needed;

/// By the name of its library.
fn of_library(file_name: &OsStr) -> Option<&'static str> {
    let name = file_name.to_str()?;
    let (library, by_gcc) = match name.strip_prefix("libclang_rt.") {
        Some(library) => (library, false),
        None => (name.strip_prefix("lib")?, true),
    };
    let is = |sanitizer: &&Sanitizer| match library.strip_prefix(sanitizer.library) {
        Some(rest) if by_gcc => rest.starts_with(".so"),
        Some(rest) => !rest.starts_with(|next: char| next.is_ascii_alphanumeric()),
        None => false,
    };
    SANITIZERS.iter().find(is).map(|sanitizer| sanitizer.name)
}

/// By a symbol of a program that has it inside.
pub(super) fn of_symbol(symbol: &str) -> Option<&'static str> {
    SANITIZERS.iter().find(|sanitizer| sanitizer.symbol == symbol).map(|sanitizer| sanitizer.name)
}

/// That of the libraries which the program needs, or which are preloaded.
pub(super) fn needed_by(program: &Path) -> Option<&'static str> {
    let preloaded = env::var_os("LD_PRELOAD").unwrap_or_default();
    let mut preloaded = preloaded.as_bytes().split(|byte| matches!(byte, b':' | b' '));
    let by_hand = preloaded.find_map(|path| of_library(Path::new(OsStr::from_bytes(path)).file_name()?));
    by_hand.or_else(|| needed::first_of(program, &of_library))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_name() {
        for (library, name) in [
            ("libasan.so.8", Some("AddressSanitizer")),
            ("libtsan.so.2", Some("ThreadSanitizer")),
            ("liblsan.so.0", Some("LeakSanitizer")),
            ("libhwasan.so.0", Some("HWAddressSanitizer")),
            ("libclang_rt.asan-x86_64.so", Some("AddressSanitizer")),
            ("libclang_rt.asan.so", Some("AddressSanitizer")),
            ("libclang_rt.hwasan_aliases-x86_64.so", Some("HWAddressSanitizer")),
            ("libclang_rt.tsan-x86_64.so", Some("ThreadSanitizer")),
            ("libubsan.so.1", None),
            ("libclang_rt.ubsan_standalone-x86_64.so", None),
            ("libasanitary.so", None),
            ("libclang_rt.asanitary.so", None),
            ("asan.so", None),
            ("libc.so.6", None),
        ] {
            assert_eq!(of_library(OsStr::new(library)), name, "{library}");
        }
    }
}
