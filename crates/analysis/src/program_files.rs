//! Where the names of a ledger without modules come from: files that were given, which have all of its code addresses.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use heapledger_source::Code;
use heapledger_symbols::{ModuleId, Resolved, Symbolizer};

use crate::{NamingOptions, ProgramFile, SameBuild};

/// The files, and which of them knows which address.
#[derive(Debug, Default)]
pub(crate) struct ProgramFiles {
    /// In the order in which they are asked.
    files: Vec<AskedFile>,
    of: HashMap<Code, usize>,
}

#[derive(Debug)]
struct AskedFile {
    path: PathBuf,
    shown: Arc<str>,
    /// What its build id must be; empty where that is not known.
    build_id: Vec<u8>,
    /// It is what it is said to be, as far as anybody can tell.
    is_checked: bool,
}

impl AskedFile {
    fn id(&self) -> ModuleId<'_> {
        ModuleId { path: &self.path, build_id: &self.build_id }
    }
}

impl ProgramFiles {
    /// One more. `called`: what the ledger calls its build, if it does.
    pub(crate) fn add(&mut self, file: ProgramFile, called: Option<String>) {
        let ProgramFile { path, build_id, build } = file;
        let build_id = if build == SameBuild::Unknown {
            called.map(|called| from_hex(&called).unwrap_or_else(|| called.into_bytes())).unwrap_or_default()
        } else {
            build_id
        };
        let shown = Arc::from(path.to_string_lossy());
        self.files.push(AskedFile { path, shown, build_id, is_checked: build != SameBuild::Unknown });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The file that knows an address, as it is shown; the first, if none does.
    pub(crate) fn shown(&self, code: Code) -> Option<Arc<str>> {
        let file = self.of.get(&code).copied().unwrap_or(0);
        self.files.get(file).filter(|_| code.module.is_none()).map(|file| Arc::clone(&file.shown))
    }

    /// Looks addresses up, each in the first file that knows it; `found` hears what they are.
    pub(crate) fn resolve(
        &mut self,
        symbolizer: &mut Symbolizer,
        mut addresses: Vec<u64>,
        options: NamingOptions,
        found: &mut dyn FnMut(Code, Resolved),
    ) {
        for (index, file) in self.files.iter().enumerate() {
            let named = options.ask(symbolizer, &file.id(), &addresses, &mut |_, _| {});
            let mut unknown = Vec::new();
            for (address, resolved) in addresses.into_iter().zip(named) {
                if resolved.frames.is_empty() {
                    unknown.push(address);
                    continue;
                }
                let code = Code { module: None, offset: address.wrapping_add(1) };
                self.of.insert(code, index);
                found(code, resolved);
            }
            addresses = unknown;
        }
    }

    /// For each: its path, its build id, and whether it is certain that it is what it is said to be.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Path, &[u8], bool)> {
        self.files.iter().map(|file| (&*file.path, &*file.build_id, file.is_checked))
    }
}

/// Bytes in hexadecimal digits.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits: Vec<u8> = text.bytes().map(|byte| digit(&byte)).collect::<Option<_>>()?;
    digits.len().is_multiple_of(2).then(|| digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
