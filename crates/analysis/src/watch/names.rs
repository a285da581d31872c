//! What call sites are called: a few numbers for each site, and the labels that they stand for. Who finds names makes the
//! labels.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Sample;
use heapledger_format::Site;

/// The label of what has no name yet.
pub const UNNAMED: u32 = 0;

/// Labels of what one frame belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameLabels {
    /// The function.
    pub function: u32,
    /// Its source file.
    pub file: u32,
    /// Its program or library.
    pub module: u32,
}

/// Labels of a call site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteName {
    /// Of the frame that holds the block: the innermost that does not only allocate for others.
    pub holder: FrameLabels,
    /// Of the innermost frame.
    pub innermost: FrameLabels,
    /// The innermost functions in one line.
    pub line: u32,
}

/// Names that were found.
#[derive(Clone, Debug, Default)]
pub struct FoundNames {
    /// Labels that were not there before; they go on where the last ones ended.
    pub labels: Vec<Arc<str>>,
    /// The sites.
    pub sites: Vec<(Site, SiteName)>,
}

/// All names found so far.
#[derive(Clone, Debug)]
pub struct NameTable {
    labels: Vec<Arc<str>>,
    sites: HashMap<Site, SiteName>,
    /// Sites whose names were asked for.
    asked: HashSet<Site>,
}

impl Default for NameTable {
    fn default() -> Self {
        NameTable { labels: vec![Arc::from("(name not found yet)")], sites: HashMap::new(), asked: HashSet::new() }
    }
}

impl NameTable {
    /// Adds what was found.
    pub fn add(&mut self, found: FoundNames) {
        self.labels.extend(found.labels);
        self.sites.extend(found.sites);
    }

    /// What is known of a site.
    pub fn site(&self, site: Site) -> Option<&SiteName> {
        self.sites.get(&site)
    }

    /// The text of a label.
    pub fn label(&self, id: u32) -> &str {
        self.labels.get(id as usize).map_or("", |label| label)
    }

    /// Sites of a reading that nobody asked for yet, those that hold most first. From now on they are asked for.
    pub(super) fn ask(&mut self, sample: &Sample) -> Vec<Site> {
        let fresh = sample.cells.iter().filter(|cell| !self.asked.contains(&cell.key.site));
        let mut bytes: HashMap<Site, u64> = HashMap::new();
        for cell in fresh {
            let sum = bytes.entry(cell.key.site).or_default();
            *sum = sum.saturating_add(cell.live.bytes);
        }
        let mut sites: Vec<(Site, u64)> = bytes.into_iter().collect();
        sites.sort_unstable_by_key(|(site, bytes)| (std::cmp::Reverse(*bytes), *site));
        self.asked.extend(sites.iter().map(|(site, _)| *site));
        sites.into_iter().map(|(site, _)| site).collect()
    }
}
