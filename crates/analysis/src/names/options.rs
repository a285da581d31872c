//! How names are looked for.

use std::time::Instant;

use heapledger_symbols::{ModuleId, Resolved, Symbolizer};

/// How names are looked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamingOptions {
    /// Whether the text of source lines is read.
    pub source_text: bool,
    /// When to stop looking into debug information; functions still get the names of their symbols, until they are
    /// asked for again.
    pub deadline: Option<Instant>,
    /// Whether the symbols' names will do, which are there at once: as if the deadline had passed.
    pub from_symbols: bool,
}

impl NamingOptions {
    /// Looks addresses of a module up so.
    pub(crate) fn ask(
        self,
        symbolizer: &mut Symbolizer,
        module: &ModuleId<'_>,
        addresses: &[u64],
        progress: &mut dyn FnMut(usize, usize),
    ) -> Vec<Resolved> {
        match self.from_symbols {
            true => symbolizer.resolve_from_symbols(module, addresses),
            false => symbolizer.resolve(module, addresses, progress, self.deadline),
        }
    }
}
