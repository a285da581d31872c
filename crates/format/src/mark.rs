//! Moments that a program names, and the trace windows between them.

use crate::element::{named, published};
use crate::ids::{ThreadRowPlus1, Ticks};

named! {
    /// What a mark is.
    MarkKind: u16 {
        /// A moment with a name.
        Mark = 1, "mark";
        /// A scope of the whole program begins.
        ScopeBegins = 2, "scope begins";
        /// It ends.
        ScopeEnds = 3, "scope ends";
        /// A window starts.
        WindowStarts = 4, "window starts";
        /// It pauses: allocations are passed over, frees followed.
        WindowPauses = 5, "window pauses";
        /// It goes on.
        WindowResumes = 6, "window resumes";
        /// It stops.
        WindowStops = 7, "window stops";
        /// From now on this much is taken of the stacks of calls that end blocks: its name is a [`FreeDepth`](crate::FreeDepth).
        FreeDepth = 8, "free depth";
    }
}

published! {
    /// An element of `marks`. Rows of others are 1 more than their number, 0 for none.
    Mark by number {
        /// Its sequence number plus 1; the commit word.
        number: u64,
        /// When it was set.
        time: Ticks,
        /// Where its name lies in `strings`.
        name_at: u32,
        /// Bytes of the name.
        name_bytes: u32,
        /// Who set it.
        thread: ThreadRowPlus1,
        /// A [`MarkKind`].
        kind: u16,
        /// One of [`reach`].
        reach: u16,
        /// What it belongs to, plus 1: of a scope's end its beginning, a row of `marks`; of a window's, a row of `windows`.
        about: u32,
        /// The label in force.
        label: u32,
    }
}

/// Whose events a mark divides.
pub mod reach {
    /// Those of all threads.
    pub const ALL_THREADS: u16 = 0;
    /// Those of the thread that set it; of others nothing is said.
    pub const OWN_THREAD: u16 = 1;
}

named! {
    /// What a window does.
    WindowState: u32 {
        /// Allocations and frees are followed.
        Started = 1, "started";
        /// Frees are followed, allocations passed over.
        Paused = 2, "paused";
        /// Nothing is followed any more; its figures stay.
        Stopped = 3, "stopped";
    }
}

named! {
    /// What a window keeps.
    WindowMode: u16 {
        /// Blocks that live.
        Leaks = 1, "leaks";
        /// Those that were freed, too.
        All = 2, "all";
    }
}

published! {
    /// An element of `windows`: blocks that were allocated while it was started, and what became of them.
    Window by state {
        /// A [`WindowState`]; the commit word.
        state: u32,
        /// A [`WindowMode`].
        mode: u16,
        /// Most frames of a stack that it keeps; 0: as many as the ledger.
        depth: u16,
        /// Where its name lies in `strings`.
        name_at: u32,
        /// Bytes of the name.
        name_bytes: u32,
        /// The one thread that it is of; none is named: all.
        thread: ThreadRowPlus1,
        /// How often it was started; its figures are since the last time.
        starts: u32,
        /// Records that there is room for in a buffer of the program's; 0: its blocks are those of the ledger.
        capacity: u64,
        /// Blocks that were allocated in it.
        allocations: u64,
        /// Frees while it was started or paused, of its own blocks or others.
        frees: u64,
        /// Bytes asked for in its blocks.
        bytes_allocated: u64,
        /// Bytes of its blocks that were freed.
        bytes_freed: u64,
        /// Its blocks that live.
        live_blocks: u64,
        /// Bytes in these.
        live_bytes: u64,
        /// Most records that it held at a time.
        peak_records: u64,
        /// Most bytes that lived at a time.
        peak_bytes: u64,
        /// By how much that may be off.
        peak_error: u64,
        /// Records of freed blocks that it dropped for want of room.
        dropped_freed: u64,
        /// Records of live blocks that it dropped, or never had, for want of room.
        dropped_live: u64,
    }
}
