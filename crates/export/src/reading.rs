//! Stacks of a ledger, with their names, as a [`Profile`].

use std::collections::HashMap;

use heapledger_analysis::tree::{Side, SiteSums};
use heapledger_analysis::{Clock, HeapTimeline, Holders, Identity, NamedFrame, Names, Peak, Sampling, SizeSum};
use heapledger_format::{CodeId, GlobalCounter, Site, ThreadRow};
use heapledger_source::{Ledger, Module, SourceError};

use crate::about::{KnownFigures, ProfileAbout};
use crate::profile::{CodePlace, LoadedModule, PlaceLine, Profile, ProfileFunction, StackBlocks, TextId};

/// One of the ledgers of a profile, and what was added up in it.
#[derive(Clone, Copy, Debug)]
pub struct LedgerSums<'a> {
    /// What it is called.
    pub shown: &'a str,
    /// The ledger.
    pub ledger: &'a Ledger,
    /// Its clock.
    pub clock: Clock,
    /// What its stacks hold.
    pub sums: &'a SiteSums,
}

impl KnownFigures {
    /// Which figures sums have.
    pub fn of(sums: &SiteSums) -> KnownFigures {
        KnownFigures {
            freed: sums.frees_recorded,
            peak: sums.is_whole && sums.peak_error.is_some(),
            temporary: sums.is_whole && sums.sampled.is_none(),
            lifetimes: sums.lifetimes.is_some(),
        }
    }

    /// Those that both have.
    #[must_use]
    pub fn and(self, other: KnownFigures) -> KnownFigures {
        KnownFigures {
            freed: self.freed && other.freed,
            peak: self.peak && other.peak,
            temporary: self.temporary && other.temporary,
            lifetimes: self.lifetimes && other.lifetimes,
        }
    }
}

impl ProfileAbout {
    /// What is known of `of`; the figure is not chosen yet.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(of: &LedgerSums<'_>) -> Result<ProfileAbout, SourceError> {
        let identity = Identity::of(of.ledger);
        let header = of.ledger.current_header()?;
        let events = header.global(GlobalCounter::NextNumber);
        let peak_events = of.ledger.peak_place()?.and_then(|place| place.number());
        // What lived at the peak is what lives in the end.
        let is_end = of.sums.peak_is_end;
        Ok(ProfileAbout {
            ledgers: vec![of.shown.to_owned()],
            program: identity.program,
            exe: identity.exe,
            args: identity.args,
            pid: identity.pid,
            host: identity.run.host,
            labels: identity.run.labels,
            start_unix_ns: of.clock.start_unix_ns(),
            span_ns: of.clock.span_ns(),
            peak_ns: Peak::summed_ns(of.ledger, &of.clock)?,
            events,
            peak_events: peak_events.filter(|_| !is_end).unwrap_or(events),
            sample_interval: Sampling::of(of.ledger).interval_bytes,
            filter: of.sums.filter.clone(),
            known: KnownFigures::of(of.sums),
            by_thread: of.sums.by_thread,
            ..ProfileAbout::default()
        })
    }
}

/// What is known of one ledger while its stacks are read.
struct Reading<'a, 'n> {
    ledger: &'a Ledger,
    names: &'a mut Names<'n>,
    holders: &'a Holders,
    /// By row of the table.
    modules: HashMap<u16, u32>,
    /// By path, where there is no table of modules.
    files: HashMap<String, u32>,
    table: HashMap<u16, Module>,
}

impl Profile {
    /// Adds the stacks of a ledger, whose names `names` knows. Functions that `holders` hides are left out. `thread` says what the
    /// thread of a row is called.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn read(
        &mut self,
        side: Side,
        of: &LedgerSums<'_>,
        names: &mut Names<'_>,
        holders: &Holders,
        thread: &dyn Fn(Option<ThreadRow>) -> String,
    ) -> Result<HashMap<Site, u32>, SourceError> {
        if side == Side::Old {
            self.about.ledgers.push(of.shown.to_owned());
            self.about.known = self.about.known.and(KnownFigures::of(of.sums));
        }
        let table = of.ledger.modules()?;
        let exe = of.ledger.process().exe();
        let own = table.iter().find(|module| Some(&module.path) == exe.as_ref()).map(|module| module.row);
        let table = table.into_iter().map(|module| (module.row, module)).collect();
        let (modules, files) = (HashMap::new(), HashMap::new());
        let mut reading = Reading { ledger: of.ledger, names, holders, modules, files, table };
        if let Some(row) = own {
            reading.module(self, row);
        }
        let mut known: HashMap<(u32, CodeId), u32> = HashMap::new();
        let mut nodes: HashMap<Site, u32> = HashMap::new();
        let mut threads: HashMap<Option<ThreadRow>, TextId> = HashMap::new();
        for sum in &of.sums.sites {
            let node = match nodes.get(&sum.site) {
                Some(node) => *node,
                None => {
                    let node = reading.stack(self, sum.site, &mut known)?;
                    nodes.insert(sum.site, node);
                    node
                }
            };
            let thread = match of.sums.by_thread {
                true => *threads.entry(sum.thread).or_insert_with(|| self.texts.id(&thread(sum.thread))),
                false => TextId::default(),
            };
            self.add(node, thread, side, sum.amounts);
        }
        if side == Side::New {
            // It is of all blocks.
            let noted = match of.sums.filter {
                None => HeapTimeline::of(of.ledger, &of.clock)?,
                Some(_) => HeapTimeline::default(),
            };
            self.points = self.curve(&noted);
        }
        Ok(nodes)
    }

    /// Live blocks by size, of stacks whose nodes are known; `None` if they do not come to what the stacks hold: the program may have
    /// gone on meanwhile.
    pub fn sized(&self, sizes: &[SizeSum], nodes: &HashMap<Site, u32>) -> Option<Vec<StackBlocks>> {
        let blocks = sizes
            .iter()
            .map(|sum| Some(StackBlocks { node: *nodes.get(&sum.site)?, size: sum.size, blocks: sum.blocks }));
        let blocks: Vec<StackBlocks> = blocks.collect::<Option<_>>()?;
        let mut by_node: HashMap<u32, (u64, u64)> = HashMap::new();
        for part in &blocks {
            let (bytes, count) = by_node.entry(part.node).or_default();
            *bytes = bytes.saturating_add(part.size.saturating_mul(part.blocks));
            *count = count.saturating_add(part.blocks);
        }
        for stack in &self.stacks {
            let (bytes, count) = by_node.entry(stack.node).or_default();
            *bytes = bytes.wrapping_sub(stack.own[0].live_bytes);
            *count = count.wrapping_sub(stack.own[0].live_blocks);
        }
        by_node.values().all(|rest| *rest == (0, 0)).then_some(blocks)
    }
}

impl Reading<'_, '_> {
    /// The node of a call site.
    fn stack(
        &mut self,
        profile: &mut Profile,
        site: Site,
        known: &mut HashMap<(u32, CodeId), u32>,
    ) -> Result<u32, SourceError> {
        let stack = self.ledger.stack(site)?;
        let mut node = 0;
        for id in stack.codes.iter().rev() {
            node = match known.get(&(node, *id)) {
                Some(next) => *next,
                None => {
                    let place = self.place(profile, *id)?;
                    let next = place.map_or(node, |place| {
                        let place = profile.place(place);
                        profile.node(node, place)
                    });
                    known.insert((node, *id), next);
                    next
                }
            };
        }
        if node == 0 {
            let name = if stack.codes.is_empty() { "code without a stack" } else { "hidden functions" };
            let name = profile.texts.id(name);
            let function = profile.function(ProfileFunction { name, ..ProfileFunction::default() });
            let lines = vec![PlaceLine { function, line: 0 }];
            let place = profile.place(CodePlace { lines, ..CodePlace::default() });
            node = profile.node(0, place);
        }
        Ok(node)
    }

    /// A code address; `None` if all of its functions are hidden.
    fn place(&mut self, profile: &mut Profile, id: CodeId) -> Result<Option<CodePlace>, SourceError> {
        let frames = self.names.frames(id)?;
        let row = self.ledger.code(id)?.and_then(|code| code.module).filter(|row| self.table.contains_key(row));
        let path = frames.first().and_then(|frame| frame.module.clone());
        let module_plus_1 = match (row, path) {
            (Some(row), _) => self.module(profile, row) + 1,
            (None, Some(path)) => self.file(profile, &path) + 1,
            (None, None) => 0,
        };
        let is_named = frames.iter().any(|frame| frame.function.is_some());
        // Both a return address and what is kept of an interrupted one lie one behind what is meant.
        let address = frames.first().and_then(|frame| frame.address).map(|address| address.saturating_sub(1));
        let mut lines = Vec::new();
        for frame in &frames {
            let name = name_of(frame);
            if self.holders.hides(&name) {
                continue;
            }
            let raw_name = profile.texts.id(frame.raw_name.as_deref().unwrap_or_default());
            let (name, file) = (profile.texts.id(&name), profile.texts.id(frame.file.as_deref().unwrap_or_default()));
            let function = profile.function(ProfileFunction { name, raw_name, file, module_plus_1 });
            lines.push(PlaceLine { function, line: frame.line.unwrap_or(0) });
        }
        Ok((!lines.is_empty()).then_some(CodePlace { address, module_plus_1, lines, is_named }))
    }

    /// The number of a module of the table.
    fn module(&mut self, profile: &mut Profile, row: u16) -> u32 {
        let (next, table) = (profile.modules.len() as u32, &self.table);
        let number = *self.modules.entry(row).or_insert(next);
        if number == next
            && let Some(module) = table.get(&row)
        {
            let path = match module.path.to_string_lossy() {
                path if path.is_empty() => "[code without a file]".into(),
                path => path,
            };
            let build_id: String = module.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
            let (path, build_id) = (profile.texts.id(&path), profile.texts.id(&build_id));
            let Module { low, high, bias, .. } = *module;
            profile.modules.push(LoadedModule { path, build_id, low, high, bias });
        }
        number
    }

    /// The number of a file that is all of a program.
    fn file(&mut self, profile: &mut Profile, path: &str) -> u32 {
        let next = profile.modules.len() as u32;
        let number = *self.files.entry(path.to_owned()).or_insert(next);
        if number == next {
            let path = profile.texts.id(path);
            profile.modules.push(LoadedModule { path, ..LoadedModule::default() });
        }
        number
    }
}

/// What a frame is called, as in a call tree.
fn name_of(frame: &NamedFrame) -> String {
    match (&frame.function, &frame.module) {
        (Some(function), _) => function.to_string(),
        (None, Some(module)) => {
            let module = module.rsplit('/').next().unwrap_or(module);
            format!("{module}+{:#x}", frame.offset.unwrap_or(0))
        }
        (None, None) => frame.address.map_or_else(|| "unknown code".to_owned(), |address| format!("{address:#x}")),
    }
}
