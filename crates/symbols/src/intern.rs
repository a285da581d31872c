//! One copy of each name, shared by every frame that carries it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::demangle::{SHOWN_MAX, demangle, has_scope, shorten};

/// Longest raw name kept, in bytes. Longer ones are told apart by this much or not at all.
const RAW_MAX: usize = 64 * 1024;

/// A function's two names.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) raw: Arc<str>,
    pub(crate) shown: Arc<str>,
}

/// Names and paths seen so far. Shared between the threads of a batch.
#[derive(Debug)]
pub(crate) struct Interner {
    demangle: bool,
    names: Mutex<HashMap<Box<[u8]>, Name>>,
    paths: Mutex<HashMap<String, Arc<str>>>,
}

impl Interner {
    pub(crate) fn new(demangle: bool) -> Self {
        Interner { demangle, names: Mutex::default(), paths: Mutex::default() }
    }

    pub(crate) fn name(&self, bytes: &[u8]) -> Name {
        let bytes = &bytes[..bytes.len().min(RAW_MAX)];
        if let Some(name) = lock(&self.names).get(bytes) {
            return name.clone();
        }
        // Demangled outside the lock: it is the slow part, and doing it twice is harmless.
        let raw: Arc<str> = Arc::from(String::from_utf8_lossy(bytes));
        let shown = if self.demangle { demangle(&raw) } else { shorten(&raw, RAW_MAX) };
        let shown = if *shown == *raw { Arc::clone(&raw) } else { Arc::from(shown) };
        let name = Name { raw, shown };
        lock(&self.names).entry(bytes.into()).or_insert(name).clone()
    }

    /// Whether the linker's name was to be made readable, and is in no mangling that is understood.
    pub(crate) fn is_unreadable(&self, name: &Name) -> bool {
        self.demangle && name.raw.starts_with("_Z") && *name.shown == *name.raw
    }

    /// The same, shown as debug information calls it, if that can be the whole of it.
    pub(crate) fn readable(&self, name: Name, qualified: &str) -> Name {
        let is_whole = qualified.contains("::") || !has_scope(&name.raw);
        match is_whole {
            true => Name { shown: Arc::from(shorten(qualified, SHOWN_MAX)), ..name },
            // Right in `std`, and in no class of it.
            false if name.raw.starts_with("_ZSt") => {
                Name { shown: Arc::from(shorten(&format!("std::{qualified}"), SHOWN_MAX)), ..name }
            }
            false => name,
        }
    }

    pub(crate) fn path(&self, text: String) -> Arc<str> {
        let mut paths = lock(&self.paths);
        if let Some(path) = paths.get(&text) {
            return Arc::clone(path);
        }
        let path: Arc<str> = Arc::from(text.as_str());
        paths.insert(text, Arc::clone(&path));
        path
    }
}

/// A poisoned lock only means that another thread panicked between two whole insertions.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_for_a_mangled_name_that_is_not_understood() {
        let interner = Interner::new(true);
        for (raw, qualified, shown) in [
            ("_ZNSt6vectorIXquuxE4growEv", "std::vector<int>::grow", "std::vector<int>::grow"),
            // Debug information has nothing around it, and yet there is something: what that is would be a guess.
            ("_ZNSt6vectorIXquuxE4growEv", "grow", "_ZNSt6vectorIXquuxE4growEv"),
            ("_ZN5Store1fIXquuxE", "f<int>", "_ZN5Store1fIXquuxE"),
            ("_ZSt1fIXquuxE", "f<int>", "std::f<int>"),
            ("_Z1fIXquuxE", "f<int>", "f<int>"),
        ] {
            let name = interner.name(raw.as_bytes());
            assert!(interner.is_unreadable(&name), "{raw}");
            let name = interner.readable(name, qualified);
            assert_eq!((&*name.shown, &*name.raw), (shown, raw));
        }
        assert!(!interner.is_unreadable(&interner.name(b"_Z1fv")) && !interner.is_unreadable(&interner.name(b"f")));
    }
}
