//! What is said about names that are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use heapledger_format::session::process as key;
use heapledger_source::Code;
use heapledger_symbols::{ModuleId, Note as SymbolsNote};

use super::Names;
use crate::notes::Note;

impl Names<'_> {
    /// What stood in the way of names, for the modules that were asked for.
    pub fn notes(&mut self) -> Vec<Note> {
        let mut notes = Vec::new();
        if self.damaged != 0 {
            notes.push(Note::StacksDamaged(self.damaged));
        }
        notes.extend(self.has_no_program().then(|| Note::NoProgram(self.ledger.process().text(key::BUILD_ID))));
        let mut without_debug_info = BTreeSet::new();
        let mut not_fetched: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut lacking: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        let files =
            self.files.each().map(|(path, id, is_checked)| (path, id, path.to_string_lossy().into_owned(), is_checked));
        let asked = self.modules.values().filter(|(module, _)| self.asked.contains(&module.row));
        let asked = asked.map(|(module, path)| (&*module.path, &*module.build_id, path.to_string(), false));
        for (file, build_id, path, is_checked) in asked.chain(files) {
            let status = self.symbolizer.status(&ModuleId { path: file, build_id });
            if status.lacks_debug_info() {
                lacking.insert(file.to_owned(), build_id.to_owned());
            }
            let is_news = |note: &&SymbolsNote| !(is_checked && matches!(note, SymbolsNote::Unchecked { .. }));
            for note in status.notes.iter().filter(is_news) {
                // The usual case, and the same sentence for every module: one line for all of them.
                if let SymbolsNote::NoDebugInfo { .. } = note {
                    without_debug_info.insert(path.clone());
                    continue;
                }
                // Whoever cannot be asked cannot be asked for any of them.
                if let SymbolsNote::NotFetched { reason, .. } = note {
                    not_fetched.entry(reason.clone()).or_default().insert(path.clone());
                    continue;
                }
                let note = Note::Module { path: path.clone(), reason: note.to_string() };
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
        for (reason, paths) in not_fetched {
            notes.push(Note::NotFetched { paths: paths.into_iter().collect(), reason });
        }
        if !without_debug_info.is_empty() {
            notes.push(Note::WithoutDebugInfo(without_debug_info.into_iter().collect()));
        }
        if !lacking.is_empty() {
            notes.push(Note::Advice(self.advice(lacking)));
        }
        notes.extend(self.silent_engines().into_iter().map(Note::Engine));
        notes.extend(self.why_no_lines().map(Note::NoScriptLines));
        notes
    }

    /// Whether there are code addresses that nobody can name, because nobody said which program they are of.
    fn has_no_program(&self) -> bool {
        let is_named = |code: &Code| self.frames.get(code).is_some_and(|resolved| !resolved.frames.is_empty());
        let mut codes = self.codes.values().flatten();
        self.modules.is_empty() && self.files.is_empty() && codes.any(|code| !is_named(code))
    }
}
