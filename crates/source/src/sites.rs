//! Call stacks, from the trie of call sites.

use heapledger_format::SectionKind;
use heapledger_format::section::{pc, site};

use crate::SourceError;
use crate::ledger::Ledger;

/// Most frames of a stack that are followed: a damaged trie may lead in a circle.
const DEPTH_MAX: usize = 4096;

/// A call stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// Ids of code addresses, innermost first. What an id means is told by [`Ledger::code`].
    pub codes: Vec<u32>,
    /// Whether the trie could not be followed to the outermost frame.
    pub damaged: bool,
}

/// A code address: the byte before it belongs to the instruction that was executing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code {
    /// Row in the `modules` section; `None` if the code belongs to no known module.
    pub module: Option<u16>,
    /// Address within the module's file, or an absolute address if there is no module.
    pub offset: u64,
}

impl Ledger {
    /// The stack that `site` stands for; empty if `site` is 0.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn stack(&self, site: u32) -> Result<Stack, SourceError> {
        let mut stack = Stack::default();
        let mut node = site;
        while node != 0 {
            let mut bytes = [0u8; site::BYTES];
            let there = stack.codes.len() < DEPTH_MAX
                && self.element_bytes(SectionKind::Sites) >= site::BYTES
                && self.element(SectionKind::Sites, u64::from(node), &mut bytes)?;
            if !there {
                stack.damaged = true;
                self.count_wrong(1);
                break;
            }
            let codec = self.header().codec;
            stack.codes.push(codec.u32(&bytes, site::CODE));
            node = codec.u32(&bytes, site::PARENT);
        }
        Ok(stack)
    }

    /// Calls `each` with (node, its caller's node) for every node of the trie of call sites. Elements that stand
    /// for nothing are passed over: the unused first one, those that were made in vain or not written yet, and on
    /// a chip places that were never taken.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn for_each_site(&self, each: &mut dyn FnMut(u32, u32)) -> Result<(), SourceError> {
        let element_bytes = self.element_bytes(SectionKind::Sites);
        if element_bytes < site::BYTES {
            return Ok(());
        }
        let codec = self.header().codec;
        self.for_each_chunk(SectionKind::Sites, &mut |first, bytes| {
            for (index, element) in bytes.chunks_exact(element_bytes).enumerate() {
                let Ok(node) = u32::try_from(first.saturating_add(index as u64)) else { break };
                let (parent, code) = (codec.u32(element, site::PARENT), codec.u32(element, site::CODE));
                if node != 0 && parent != node && (parent, code) != (0, 0) {
                    each(node, parent);
                }
            }
            Ok(())
        })
    }

    /// What the id of a code address stands for; `None` if the ledger does not say.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn code(&self, id: u32) -> Result<Option<Code>, SourceError> {
        if self.header().section(SectionKind::Pcs).is_none() {
            return Ok(Some(Code { module: None, offset: u64::from(id) }));
        }
        let mut bytes = [0u8; pc::BYTES];
        if self.element_bytes(SectionKind::Pcs) < pc::BYTES
            || id == 0
            || !self.element(SectionKind::Pcs, u64::from(id), &mut bytes)?
        {
            return Ok(None);
        }
        let (module, offset) = pc::unpack(self.header().codec.u64(&bytes, 0));
        Ok(Some(Code { module: module.checked_sub(1), offset }))
    }
}
