//! Names for call sites: a few numbers for each site, and the labels that they stand for.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Result;
use heapledger_analysis::{Holders, NamedFrame, NamedStack, Names, NamingOptions};
use heapledger_report::{clean, short_name};

/// The label of what has no name yet.
pub(crate) const UNNAMED: u32 = 0;

/// Functions of a stack that are named in one line: what a wide screen has room for.
const LINE_FRAMES: usize = 8;

/// Labels of what one frame belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameLabels {
    pub(crate) function: u32,
    pub(crate) file: u32,
    pub(crate) module: u32,
}

/// Labels of a call site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SiteName {
    /// Of the frame that holds the block: the innermost that does not only allocate for others.
    pub(crate) holder: FrameLabels,
    /// Of the innermost frame.
    pub(crate) innermost: FrameLabels,
    /// The innermost functions in one line.
    pub(crate) line: u32,
}

/// Names that were found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named {
    /// Labels that were not there before; they go on where the last ones ended.
    pub(crate) labels: Vec<Arc<str>>,
    /// The sites.
    pub(crate) sites: Vec<(u32, SiteName)>,
}

/// All names found so far.
#[derive(Clone, Debug)]
pub(crate) struct NameTable {
    labels: Vec<Arc<str>>,
    sites: HashMap<u32, SiteName>,
}

impl Default for NameTable {
    fn default() -> Self {
        NameTable { labels: vec![Arc::from("(name not found yet)")], sites: HashMap::new() }
    }
}

impl NameTable {
    /// Adds what was found.
    pub(crate) fn add(&mut self, named: Named) {
        self.labels.extend(named.labels);
        self.sites.extend(named.sites);
    }

    /// What is known of a site.
    pub(crate) fn site(&self, site: u32) -> Option<&SiteName> {
        self.sites.get(&site)
    }

    /// The text of a label.
    pub(crate) fn label(&self, id: u32) -> &str {
        self.labels.get(id as usize).map_or("", |label| label)
    }
}

/// Finds names.
pub(crate) struct Namer<'a> {
    holders: Holders,
    names: Names<'a>,
    ids: HashMap<Arc<str>, u32>,
    fresh: Vec<Arc<str>>,
}

impl<'a> Namer<'a> {
    pub(crate) fn new(names: Names<'a>, holders: Holders) -> Namer<'a> {
        let mut ids = HashMap::new();
        NameTable::default().labels.into_iter().for_each(|label| {
            ids.insert(label, UNNAMED);
        });
        Namer { holders, names, ids, fresh: Vec::new() }
    }

    /// Names of sites. What is known of code addresses is kept, so asking again costs little.
    pub(crate) fn sites(&mut self, sites: &[u32]) -> Result<Named> {
        let options = NamingOptions { source_text: false, deadline: None };
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
        Ok(Named { labels: std::mem::take(&mut self.fresh), sites: found })
    }

    /// A stack with the text of its source lines.
    pub(crate) fn stack(&mut self, site: u32) -> Result<NamedStack> {
        self.names.resolve([site], NamingOptions { source_text: true, deadline: None }, &mut |_| {})?;
        Ok(self.names.stack(site)?)
    }

    /// The functions of a stack in one line, from the one that holds the block outwards:
    /// `hash_create (hash.c:7) < read_all < main`.
    fn line(&self, stack: &NamedStack) -> String {
        let inner = stack.frames.iter().position(|frame| self.holders.holds(frame)).unwrap_or(0);
        let mut names: Vec<String> = Vec::new();
        let mut last = String::new();
        let mut guessed = false;
        for frame in stack.frames.iter().skip(inner) {
            let name = short_name(frame);
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
        FrameLabels { function: self.id(&short_name(frame)), file: self.id(&file), module: self.id(&clean(module)) }
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
