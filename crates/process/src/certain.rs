//! Whether what the ledger says of a block can be relied on so far that the program may be told that it is wrong.
//!
//! Blocks that somebody else gave or took, whom the recorder does not see, may lie where its books say something else: what is counted as
//! lost, calls of modules that go past it, blocks of a time in which it was paused, samples. Then nothing is claimed: a false report is
//! worse than a missed one.
#![forbid(unsafe_code)]

use crate::guarded::GUARD;
use crate::shared::Shared;
use heapledger_format::TallyCounter;

/// Whether nobody frees blocks but through the recorder, so that a block that is in the ledger lives.
pub(crate) fn sees_all_frees(shared: &Shared) -> bool {
    // Where it is told of all memory, it stands in front of the allocator for all modules.
    shared.settings().tells_of_memory && knows_all_frees(shared)
}

/// Whether all frees that came to the recorder are in the ledger.
fn knows_all_frees(shared: &Shared) -> bool {
    use TallyCounter::{DeepBound, Displaced, FreesBusy, LostNoThread};
    shared.settings().sample == 0
        && [FreesBusy, LostNoThread, DeepBound, Displaced].iter().all(|counter| shared.ledger().total(*counter) == 0)
}

/// Whether nobody has had blocks either but through the recorder, ever since the process began: memory of a block that was freed is
/// nobody's, if the ledger has none there.
pub(crate) fn sees_all(shared: &Shared) -> bool {
    shared.settings().tells_of_memory && knows_all(shared)
}

/// Whether the blocks that passed by are those that a forked child has inherited, and the guard knows them.
fn has_only_inherited(shared: &Shared) -> bool {
    shared.settings().is_forked && !shared.switch.has_paused() && GUARD.knows_all()
}

/// Whether all blocks that came to the recorder, and their frees, are in the ledger, ever since the process began.
pub(crate) fn knows_all(shared: &Shared) -> bool {
    use TallyCounter::{LostBusy, LostNoIndex, LostNoRecord};
    knows_all_frees(shared)
        && (!shared.switch.was_paused() || has_only_inherited(shared))
        && [LostBusy, LostNoIndex, LostNoRecord].iter().all(|counter| shared.ledger().total(*counter) == 0)
}
