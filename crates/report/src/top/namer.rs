//! Names for call sites, as the rows of a live view have them.

use std::collections::HashMap;
use std::sync::Arc;

use heapledger_analysis::watch::{FoundNames, FrameLabels, NameTable, Readings, RowId, SiteName, UNNAMED};
use heapledger_analysis::{Holders, NamedFrame, NamedStack, Names, NamingOptions};
use heapledger_format::Site;
use heapledger_source::{SourceError, ThreadState};

use crate::record::columns::without_symbols;
use crate::{Paint, clean, name_of};

/// Functions of a stack that are named in one line: what a wide screen has room for.
const LINE_FRAMES: usize = 8;

/// Finds names.
pub struct Namer<'a> {
    holders: Holders,
    paint: Paint,
    names: Names<'a>,
    ids: HashMap<Arc<str>, u32>,
    fresh: Vec<Arc<str>>,
}

impl<'a> Namer<'a> {
    /// Finds them with `names`; `holders` says which function of a stack holds a block, `paint` whether functions have
    /// their whole names.
    pub fn new(names: Names<'a>, holders: Holders, paint: Paint) -> Namer<'a> {
        let mut ids = HashMap::new();
        ids.insert(Arc::from(NameTable::default().label(UNNAMED)), UNNAMED);
        Namer { holders, paint, names, ids, fresh: Vec::new() }
    }

    /// Names of sites. What is known of code addresses is kept, so asking again costs little.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn sites(&mut self, sites: &[Site]) -> Result<FoundNames, SourceError> {
        let options = NamingOptions::default();
        self.names.resolve(sites.iter().copied(), options, &mut |_| {})?;
        let mut found = Vec::with_capacity(sites.len());
        for site in sites {
            let stack = self.names.stack(*site)?;
            let holder = self.holders.holder(&stack).cloned().map(|frame| self.place(&frame));
            let innermost = stack.frames.first().map(|frame| self.place(frame));
            let none = self.id("(no stack recorded)");
            let none = FrameLabels { function: none, file: none, module: none };
            let line = self.id(&self.line(&stack));
            found
                .push((*site, SiteName { holder: holder.unwrap_or(none), innermost: innermost.unwrap_or(none), line }));
        }
        Ok(FoundNames { labels: std::mem::take(&mut self.fresh), sites: found })
    }

    /// A stack with the text of its source lines.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn stack(&mut self, site: Site) -> Result<NamedStack, SourceError> {
        let options = NamingOptions { source_text: true, ..NamingOptions::default() };
        self.names.resolve([site], options, &mut |_| {})?;
        self.names.stack(site)
    }

    /// The functions of a stack in one line, from the one that holds the block outwards:
    /// `hash_create (hash.c:7) < read_all < main`.
    fn line(&self, stack: &NamedStack) -> String {
        let inner = stack.frames.iter().position(|frame| self.holders.holds(frame)).unwrap_or(0);
        let mut names: Vec<String> = Vec::new();
        let mut last = String::new();
        let mut guessed = false;
        for frame in stack.frames.iter().skip(inner) {
            let name = name_of(frame, self.paint);
            // A function and the part of it that the compiler made a function of its own have one name and are one.
            if name == last {
                continue;
            }
            if names.len() == LINE_FRAMES {
                break;
            }
            let place = frame.file.as_deref().zip(frame.line).filter(|_| names.is_empty());
            names.push(match place {
                Some((file, line)) => format!("{name} ({}:{line})", clean(file.rsplit('/').next().unwrap_or(file))),
                // Once: all outside of it are.
                None if frame.guessed && !guessed => format!("{name} (guessed)"),
                None => name.clone(),
            });
            guessed |= frame.guessed;
            last = name;
        }
        if names.is_empty() { "(no stack recorded)".to_owned() } else { names.join(" < ") }
    }

    fn place(&mut self, frame: &NamedFrame) -> FrameLabels {
        let module = frame.module.as_deref().unwrap_or("(unknown code)");
        let file = match &frame.file {
            Some(file) => clean(file).into_owned(),
            None => format!("({}, no lines known)", clean(module.rsplit('/').next().unwrap_or(module))),
        };
        let function = match (&frame.function, &frame.module) {
            (None, Some(module)) => clean(&without_symbols(module)).into_owned(),
            (None, None) => "(unknown code)".to_owned(),
            _ => name_of(frame, self.paint),
        };
        let function = self.id(&function);
        FrameLabels { function, file: self.id(&file), module: self.id(&clean(module)) }
    }

    fn id(&mut self, label: &str) -> u32 {
        if let Some(id) = self.ids.get(label) {
            return *id;
        }
        let (label, id) = (Arc::<str>::from(label), self.ids.len() as u32);
        self.ids.insert(Arc::clone(&label), id);
        self.fresh.push(label);
        id
    }
}

/// What a row is called.
pub fn row_label(readings: &Readings, id: RowId) -> String {
    let names = &readings.names;
    match id {
        RowId::Label(label) => names.label(label).to_owned(),
        RowId::Site(site) => names.label(names.site(site).map_or(UNNAMED, |name| name.line)).to_owned(),
        RowId::Thread(None) => "(threads without a row)".to_owned(),
        RowId::Thread(Some(row)) => match readings.thread(row) {
            None => format!("thread {row}"),
            Some(thread) => {
                let gone = if thread.state == ThreadState::Gone { ", gone" } else { "" };
                format!("{} {} (thread {row}{gone})", thread.id, clean(&thread.name))
            }
        },
        RowId::Kind(kind) => kind.to_string(),
    }
}
