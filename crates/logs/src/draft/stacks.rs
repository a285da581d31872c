//! Call stacks, each once: a trie of code addresses.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use heapledger_format::Site;
use heapledger_format::section::{pc, site};

#[derive(Clone, Debug, Default)]
pub(super) struct StackTable {
    /// Code addresses by their numbers, less 1.
    codes: Vec<u64>,
    code_of: HashMap<u64, u32>,
    /// Nodes by their numbers, less 1: parent and code.
    nodes: Vec<(u32, u32)>,
    node_of: HashMap<(u32, u32), u32>,
    /// Whole stacks by two hashes that nobody knows beforehand, so that most stacks take one look.
    site_of: HashMap<[u64; 2], Site>,
    hashers: [RandomState; 2],
    /// Frames of the deepest.
    pub(super) deepest: usize,
}

impl StackTable {
    /// The site of these frames, innermost first.
    pub(super) fn site(&mut self, frames: &[u64]) -> Site {
        let key = [0, 1].map(|which: usize| self.hashers.get(which).map_or(0, |hasher| hasher.hash_one(frames)));
        if let Some(site) = self.site_of.get(&key) {
            return *site;
        }
        self.deepest = self.deepest.max(frames.len());
        let mut parent = 0;
        for frame in frames.iter().rev().filter(|frame| **frame != 0) {
            let code = self.code(*frame);
            parent = *self.node_of.entry((parent, code)).or_insert_with(|| {
                self.nodes.push((parent, code));
                self.nodes.len() as u32
            });
        }
        self.site_of.insert(key, Site(parent));
        Site(parent)
    }

    fn code(&mut self, frame: u64) -> u32 {
        *self.code_of.entry(frame).or_insert_with(|| {
            self.codes.push(frame);
            self.codes.len() as u32
        })
    }

    /// The sections `sites` and `pcs`; element 0 of each is unused.
    pub(super) fn sections(&self) -> [Vec<u8>; 2] {
        let mut sites = vec![0; site::BYTES];
        for (parent, code) in &self.nodes {
            sites.extend_from_slice(&parent.to_le_bytes());
            sites.extend_from_slice(&code.to_le_bytes());
        }
        let mut pcs = vec![0; pc::BYTES];
        for code in &self.codes {
            pcs.extend_from_slice(&pc::pack(0, *code).to_le_bytes());
        }
        [sites, pcs]
    }
}
