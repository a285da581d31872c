//! What a forked child's ledger says of its parent: where the fork lies in the parent's numbers, and which of its blocks the child freed.

use heapledger_format::SectionKind;
use heapledger_format::family::{ForkCut, ForkCuts, InheritedFree};
use heapledger_format::session::process as key;

use crate::SourceError;
use crate::ledger::Ledger;

/// Most cuts: a row for each thread.
const CUTS_MAX: u64 = 1 << 16;
/// Most rows that are read, and told of one by one.
const ROWS_MAX: u64 = u32::MAX as u64;

/// Where a child's ledger begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fork {
    /// The id of the parent's ledger: that of its header.
    pub parent_id: [u8; 16],
    /// The number of the process that has forked it, as that numbered itself; `None`: not known. (Before there was a key for it, who was the parent
    /// when the child began.)
    pub parent_pid: Option<u64>,
    /// When the child noticed it, at its first call, in nanoseconds since 1970.
    pub unix_ns: u64,
    cuts: Vec<Option<ForkCut>>,
}

impl Fork {
    /// Where it lies in the numbers of the parent's threads.
    pub fn cuts(&self) -> ForkCuts<'_> {
        ForkCuts { rows: &self.cuts }
    }
}

impl Ledger {
    /// The fork that its process comes of, if that was recorded before, too.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn fork(&self) -> Result<Option<Fork>, SourceError> {
        let process = self.process();
        let Some(parent_id) = process.text(key::PARENT_ID).as_deref().and_then(id_of) else { return Ok(None) };
        let parent_pid = process.number(key::PARENT_PID).or_else(|| process.number(key::PPID));
        let unix_ns = process.number(key::FORKED_UNIX_NS).unwrap_or(self.header().start_unix_ns);
        let (codec, mut cuts) = (self.header().codec, Vec::new());
        self.each_row(SectionKind::Cut, ForkCut::bytes(codec.word), CUTS_MAX, &mut |_, element| {
            cuts.push(ForkCut::read(codec, element));
            Ok(())
        })?;
        Ok(Some(Fork { parent_id, parent_pid, unix_ns, cuts }))
    }

    /// Whether its process was forked from one that was recorded.
    pub fn is_of_fork(&self) -> bool {
        self.process().get(key::PARENT_ID).is_some()
    }

    /// Tells of each free of a block that its process had not allocated, in the order in which they were entered.
    ///
    /// # Errors
    /// If the file can no longer be read, or what `each` returns.
    pub fn each_inherited(
        &self,
        each: &mut dyn FnMut(&InheritedFree) -> Result<(), SourceError>,
    ) -> Result<(), SourceError> {
        let codec = self.header().codec;
        self.each_row(SectionKind::Inherited, InheritedFree::bytes(codec.word), ROWS_MAX, &mut |_, element| {
            match InheritedFree::read(codec, element) {
                Some(free) if free.address.0 != 0 => each(&free),
                // Being written.
                _ => Ok(()),
            }
        })
    }
}

/// The id in 32 hexadecimal digits.
fn id_of(text: &str) -> Option<[u8; 16]> {
    let number = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32)?;
    Some(number.to_be_bytes())
}
