//! What somebody can do who misses names: which packages, which server, how to start an engine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use heapledger_format::session::process as key;
use heapledger_source::Module;
use heapledger_symbols::{Distribution, ModuleId};

use super::Names;
use crate::Engine;
use crate::notes::Advice;

impl Names<'_> {
    /// The same for the modules of these paths alone: what could be done for them. `None` if nothing is lacking.
    pub fn advice_on(&mut self, modules: &BTreeSet<Arc<str>>) -> Option<Advice> {
        let asked: Vec<Module> = self
            .modules
            .values()
            .filter(|(_, path)| modules.contains(path))
            .map(|(module, _)| module.clone())
            .collect();
        let lacking = asked.into_iter().filter(|module| {
            let id = ModuleId { path: &module.path, build_id: &module.build_id };
            self.symbolizer.status(&id).lacks_debug_info()
        });
        let lacking: BTreeMap<_, _> = lacking.map(|module| (module.path, module.build_id)).collect();
        (!lacking.is_empty()).then(|| self.advice(lacking))
    }

    /// Why there are no lines of Python though they were asked for, if that is so.
    pub fn why_no_lines(&self) -> Option<String> {
        self.ledger.process().text(key::PYTHON)?.strip_prefix('!').map(str::to_owned)
    }

    /// Engines among the modules that were asked for, if they have told nobody what code they make.
    pub fn silent_engines(&self) -> BTreeSet<Engine> {
        if self.symbolizer.knows_generated_code() {
            return BTreeSet::new();
        }
        let asked = self.modules.values().filter(|(module, _)| self.asked.contains(&module.row));
        let told = self.ledger.process().text(key::PYTHONMALLOC);
        let engines = asked.filter_map(|(module, _)| Engine::of(&module.path.to_string_lossy()));
        let has_lines = self.ledger.process().text(key::PYTHON).is_some_and(|told| !told.starts_with('!'));
        let engines = engines.map(|engine| engine.told(told.as_deref(), has_lines));
        engines.filter(|engine| !matches!(engine, Engine::Python { has_pools: false, has_lines: true, .. })).collect()
    }

    /// What could be done for modules without debug information.
    pub(super) fn advice(&self, lacking: BTreeMap<PathBuf, Vec<u8>>) -> Advice {
        let options = self.symbolizer.options();
        let distribution = Distribution::installed(options.sysroot.as_deref());
        let module_of = |path: &PathBuf| self.modules.values().find(|(module, _)| module.path == *path);
        let shown = |path: &PathBuf| {
            module_of(path).map_or(path.to_string_lossy().into_owned(), |(_, shown)| shown.to_string())
        };
        let packages = distribution.debug_packages(&lacking.keys().cloned().collect::<Vec<_>>());
        let ask = distribution.manager();
        let is_of_manager = |path: &PathBuf| ask.is_some() && distribution.has(path);
        let files: Vec<String> = lacking.keys().filter(|path| is_of_manager(path)).map(shown).collect();
        let has_files = !files.is_empty();
        let files = ask.filter(|_| has_files).map(|ask| (ask, files));
        let own = lacking.into_iter().filter(|(path, _)| !packages.contains_key(path) && !is_of_manager(path));
        let own = own.map(|(path, build_id)| (shown(&path), build_id)).collect();
        let packages = BTreeSet::from_iter(packages.into_values());
        let archive = distribution.archive().filter(|_| packages.iter().any(|package| package.ends_with("-dbgsym")));
        let server = options.suggests_servers && (!packages.is_empty() || has_files);
        let server = server.then(|| distribution.server().to_owned());
        Advice { packages: packages.into_iter().collect(), archive, server, files, own }
    }
}
