//! Finds the files of a module, and refuses those of another build.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::debugdir;
use crate::elf::{DebugLink, Image};
use crate::fetch::{Fetch, Fetched, check_debug_file};
use crate::status::Note;
use crate::symbolizer::{Level, ModuleId, Options, under};

/// The files that may be used for a module.
#[derive(Debug, Default)]
pub(crate) struct Located {
    /// The module itself.
    pub(crate) binary: Option<Arc<Image>>,
    /// The file with its debug information or, without one, with its full symbol table.
    pub(crate) debug: Option<Arc<Image>>,
    /// The file that several debug files share parts with.
    pub(crate) shared: Option<Arc<Image>>,
    pub(crate) notes: Vec<Note>,
}

impl Located {
    /// Searches for the files of `module`.
    pub(crate) fn find(
        module: &ModuleId<'_>,
        options: &Options,
        mut fetch: Option<&mut (dyn Fetch + 'static)>,
    ) -> Located {
        let mut located = Located::default();
        if is_no_file(module.path) {
            located.notes.push(Note::NotAFile { name: module.path.to_owned() });
            return located;
        }
        located.binary = located.find_binary(module, options);
        let build_id = located.find_debug(module, options);
        if options.level == Level::Full {
            if located.debug.is_none()
                && let Some(fetch) = fetch.as_deref_mut()
            {
                located.debug = located.fetch(module.path, &build_id, fetch);
            }
            located.find_shared(module.path, options, fetch);
        }
        located
    }

    /// Both files, the one with more symbols first.
    pub(crate) fn images(&self) -> Vec<Arc<Image>> {
        let mut images: Vec<_> = self.binary.iter().chain(&self.debug).map(Arc::clone).collect();
        images.dedup_by(|b, a| Arc::ptr_eq(a, b));
        images
    }

    fn find_binary(&mut self, module: &ModuleId<'_>, options: &Options) -> Option<Arc<Image>> {
        let given = options.files.iter().find(|given| given.module == module.path && given.build_id == module.build_id);
        let recorded = match given {
            Some(given) => given.file.clone(),
            None => recorded_path(module.path, options.sysroot.as_deref()),
        };
        let mut found = self.open(&recorded);
        if let Some(image) = &found {
            if module.build_id.is_empty() || image.build_id.is_empty() {
                let side = if module.build_id.is_empty() { "the ledger has" } else { "the file has" };
                self.notes.push(Note::Unchecked { path: recorded, side });
            } else if image.build_id != module.build_id {
                self.notes.push(Note::Rebuilt {
                    path: recorded,
                    expected: module.build_id.to_vec(),
                    found: image.build_id.clone(),
                });
                found = None;
            }
        }
        found.or_else(|| {
            let candidates = debugdir::by_build_id(options, module.build_id, "");
            candidates.iter().find_map(|path| self.open_debug(path, module.build_id))
        })
    }

    /// Looks for the debug file on disk. Returns the build id that it must have.
    fn find_debug(&mut self, module: &ModuleId<'_>, options: &Options) -> Vec<u8> {
        let enough = |image: &Image| match options.level {
            Level::SymbolsOnly => image.has_symtab(),
            Level::Full => image.has_debug_info(),
        };
        if let Some(binary) = &self.binary
            && enough(binary)
        {
            self.debug = Some(Arc::clone(binary));
            return Vec::new();
        }
        let own_id = self.binary.as_ref().map(|binary| binary.build_id.clone());
        let build_id = own_id.filter(|id| !id.is_empty()).unwrap_or_else(|| module.build_id.to_vec());
        let by_id = debugdir::by_build_id(options, &build_id, ".debug");
        self.debug = by_id.iter().find_map(|path| self.open_debug(path, &build_id));
        // Checking a checksum reads the whole file: too slow where only names are wanted.
        if self.debug.is_none() && options.level == Level::Full {
            self.debug = self.follow_debug_link(&build_id, options);
        }
        build_id
    }

    /// Asks for a debug file of this build that is not on disk.
    fn fetch(&mut self, module: &Path, build_id: &[u8], fetch: &mut (dyn Fetch + 'static)) -> Option<Arc<Image>> {
        if build_id.is_empty() {
            return None;
        }
        match fetch.debug_info(module, build_id) {
            // Whoever brought it may be wrong, and a wrong name is worse than none.
            Fetched::File(path) => match check_debug_file(&path, build_id) {
                Ok(()) => self.open(&path),
                Err(reason) => {
                    self.notes.push(Note::Unreadable { path, reason });
                    None
                }
            },
            Fetched::Unknown => None,
            Fetched::Failed(reason) => {
                self.notes.push(Note::NotFetched { path: module.to_owned(), reason });
                None
            }
        }
    }

    fn follow_debug_link(&mut self, build_id: &[u8], options: &Options) -> Option<Arc<Image>> {
        let binary = self.binary.clone()?;
        let DebugLink { name, crc } = binary.debug_link.clone()?;
        for path in debugdir::by_debug_link(options, &binary.path, &name) {
            let Some(image) = self.open_debug(&path, build_id) else { continue };
            let found = crc32fast::hash(&image.mapping);
            if found == crc {
                return Some(image);
            }
            self.notes.push(Note::WrongChecksum { path, module: binary.path.clone(), expected: crc, found });
        }
        None
    }

    fn find_shared(&mut self, module: &Path, options: &Options, fetch: Option<&mut (dyn Fetch + 'static)>) {
        let Some(debug) = &self.debug else { return };
        let Some(wanted) = debug.shared_debug.clone() else { return };
        let own = debug.path.clone();
        // The path is relative to the debug file as it is, not to a link that leads to it.
        let real = own.canonicalize().unwrap_or_else(|_| own.clone());
        let mut candidates = Vec::new();
        if wanted.path.is_absolute() {
            if options.sysroot.is_some() {
                candidates.push(under(options.sysroot.as_deref(), &wanted.path));
            }
            candidates.push(wanted.path.clone());
        } else {
            candidates
                .extend([&real, &own].into_iter().filter_map(|file| file.parent()).map(|dir| dir.join(&wanted.path)));
        }
        candidates.extend(debugdir::by_build_id(options, &wanted.build_id, ".debug"));
        self.shared = candidates.iter().find_map(|path| self.open_debug(path, &wanted.build_id));
        if self.shared.is_none()
            && let Some(fetch) = fetch
        {
            self.shared = self.fetch(module, &wanted.build_id, fetch);
        }
        if self.shared.is_none() {
            self.notes.push(Note::NoSharedDebugFile { path: own, wanted: wanted.path });
        }
    }

    fn open(&mut self, path: &Path) -> Option<Arc<Image>> {
        if !path.exists() {
            self.notes.push(Note::NotFound { path: path.to_owned() });
            return None;
        }
        match Image::open(path) {
            Ok(image) => Some(Arc::new(image)),
            Err(reason) => {
                self.notes.push(Note::Unreadable { path: path.to_owned(), reason });
                None
            }
        }
    }

    /// Opens one of several places where a file may lie; that it is missing is no news.
    fn open_debug(&mut self, path: &Path, expected: &[u8]) -> Option<Arc<Image>> {
        let image = if path.exists() { self.open(path)? } else { return None };
        if !expected.is_empty() && !image.build_id.is_empty() && image.build_id != expected {
            self.notes.push(Note::OtherDebugFile {
                path: path.to_owned(),
                expected: expected.to_vec(),
                found: image.build_id.clone(),
            });
            return None;
        }
        Some(image)
    }
}

/// Names in brackets are the kernel's; the vdso also has a name that looks like a file.
fn is_no_file(path: &Path) -> bool {
    let name = path.as_os_str().as_encoded_bytes();
    name.is_empty() || name.starts_with(b"[") || name == b"linux-vdso.so.1" || name == b"linux-gate.so.1"
}

/// The kernel appends ` (deleted)` to the path of a file that was replaced while mapped.
/// Its successor may well be the same build, which the build id decides.
fn recorded_path(path: &Path, sysroot: Option<&Path>) -> PathBuf {
    let whole = under(sysroot, path);
    match whole.to_str().and_then(|text| text.strip_suffix(" (deleted)")) {
        Some(rest) if !whole.exists() => PathBuf::from(rest),
        _ => whole,
    }
}
