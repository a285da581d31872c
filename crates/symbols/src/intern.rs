//! One copy of each name, shared by every frame that carries it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::demangle::{demangle, readable, shorten};

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

    /// The names of a function of which debug information has the linker's name and, without the names around it, the
    /// programmer's: that is shown where the linker's is in no mangling that is understood.
    pub(crate) fn function(&self, linkage: &[u8], plain: Option<&[u8]>) -> Name {
        let mut name = self.name(linkage);
        if let Some(plain) = plain.filter(|_| self.demangle && linkage.starts_with(b"_Z") && *name.shown == *name.raw) {
            name.shown = Arc::from(readable(&name.raw, &String::from_utf8_lossy(plain)));
        }
        name
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
