//! Call stacks, each once: a trie of code addresses.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use heapledger_format::Site;
use heapledger_format::section::{pc, site};

/// A hash is one already.
#[derive(Clone, Copy, Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct StackTable {
    /// Code addresses by their numbers, less 1.
    codes: Vec<u64>,
    code_of: HashMap<u64, u32>,
    /// Nodes by their numbers, less 1: parent and code.
    nodes: Vec<(u32, u32)>,
    node_of: HashMap<(u32, u32), u32>,
    /// Whole stacks by a hash that nobody knows beforehand, so that most stacks take one look; with each another hash of it.
    site_of: HashMap<u64, (u64, Site), BuildHasherDefault<AsItIs>>,
    hasher: RandomState,
    /// What the other hash begins with.
    seed: u64,
    /// Frames of the deepest.
    pub(super) deepest: usize,
}

impl StackTable {
    /// The site of these frames, innermost first.
    pub(super) fn site(&mut self, frames: &[u64]) -> Site {
        if self.seed == 0 {
            self.seed = self.hasher.hash_one(0u64) | 1;
        }
        let key = self.hasher.hash_one(frames);
        let other = frames.iter().fold(self.seed, |hash, frame| (hash ^ frame).wrapping_mul(self.seed).rotate_left(29));
        if let Some((_, site)) = self.site_of.get(&key).filter(|(known, _)| *known == other) {
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
        self.site_of.insert(key, (other, Site(parent)));
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
