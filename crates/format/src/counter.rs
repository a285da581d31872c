//! Totals and losses. Every figure that a report shows as "not seen" is one of these.

macro_rules! counters {
    ($(#[$outer:meta])* $enum:ident { $($(#[$doc:meta])* $id:ident = $number:literal, $name:literal;)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $enum { $($(#[$doc])* $id = $number),* }
        impl $enum {
            /// All of them, by number.
            pub const ALL: &'static [$enum] = &[$($enum::$id),*];
            /// How many there are in this version. A ledger may hold fewer or more.
            pub const COUNT: usize = Self::ALL.len();
            /// The name used in JSON.
            pub const fn name(self) -> &'static str {
                match self { $($enum::$id => $name),* }
            }
        }
    };
}

counters! {
    /// Words of the header's counter list that exist once. They come first in that list.
    GlobalCounter {
        /// The next sequence number to be leased. Starts at 0.
        NextNumber = 0, "next_number";
        /// Requested bytes of all live blocks. On a target with threads it lags by what they have not yet folded in.
        LiveBytes = 1, "live_bytes";
        /// The highest value that `LiveBytes` had.
        PeakBytes = 2, "peak_bytes";
        /// When that was, in ticks.
        PeakTime = 3, "peak_time";
        /// By how much `PeakBytes` may be off (0 as long as one thread allocated), in bytes.
        PeakError = 4, "peak_error";
        /// Memory outside the ledger that the recorder mapped for itself, in bytes.
        PrivateBytes = 5, "private_bytes";
        /// How often code was unloaded (`dlclose`).
        Generation = 6, "generation";
        /// When the recorder last heard of a new lease, in ticks: about the end of the recording.
        LastTime = 7, "last_time";
        /// Live blocks when `PeakBytes` was reached.
        PeakBlocks = 8, "peak_blocks";
        /// Mean bytes between two samples, see [`crate::sample`]; 0: every block is entered. Set before the
        /// ledger can be read, and never changed.
        SampleInterval = 9, "sample_interval";
        /// Bytes of the call-site table's hash tables that are present in memory, part of `PrivateBytes`.
        SitesPrivateBytes = 10, "sites_private_bytes";
        /// Bytes of the address index that are present in memory, part of `PrivateBytes`.
        ShadowBytes = 11, "shadow_bytes";
        /// Bytes of threads' states that are present in memory, part of `PrivateBytes`.
        ThreadsPrivateBytes = 12, "threads_private_bytes";
        /// Frees with a number below this one are shown by a copy that a debugger made, unless they are later than
        /// `HistoryShownTime`. The debugger sets it; recorders leave it alone.
        HistoryShown = 13, "history_shown";
        /// The time of the last free that such a copy shows, in ticks.
        HistoryShownTime = 14, "history_shown_time";
        /// Bytes of tables of the guard that are present in memory, part of `PrivateBytes`: where dressed blocks begin, and what is known
        /// of blocks in the guard's own memory.
        GuardTablesBytes = 15, "guard_tables_bytes";
        /// Freed blocks that wait in the guard's quarantine.
        GuardWaitingBlocks = 16, "guard_waiting_blocks";
        /// Their bytes with the least that lies around them, part of `PrivateBytes`.
        GuardWaitingBytes = 17, "guard_waiting_bytes";
        /// Freed blocks whose pages are closed.
        GuardClosedBlocks = 18, "guard_closed_blocks";
        /// Bytes of addresses that these take; there is no memory behind them.
        GuardClosedBytes = 19, "guard_closed_bytes";
        /// The status with which the program ended itself, and one more; 0: it did not, or nobody notes it.
        ExitStatus = 20, "exit_status";
        /// What weights of samples are rounded by, see [`crate::sample`]: a random word. 0: as older writers did, by the number alone. Set
        /// before the ledger can be read, and never changed.
        SampleSeed = 21, "sample_seed";
    }
}

counters! {
    /// Words that are summed: over the header's list (after the global ones) and over every
    /// element of the `tallies` section. Only ever added to.
    TallyCounter {
        /// Blocks entered.
        Allocations = 0, "allocations";
        /// Entered blocks that were freed.
        Frees = 1, "frees";
        /// Requested bytes of all blocks entered.
        BytesAllocated = 2, "bytes_allocated";
        /// Requested bytes of all entered blocks that were freed.
        BytesFreed = 3, "bytes_freed";
        /// Blocks not entered: no room for another record.
        LostNoRecord = 4, "lost_no_record";
        /// Blocks not entered: no room in the index, or an address it cannot hold.
        LostNoIndex = 5, "lost_no_index";
        /// Blocks not entered: the call came while its thread was inside the recorder (a signal handler).
        LostBusy = 6, "lost_busy";
        /// Blocks not entered: no memory for the thread's state.
        LostNoThread = 7, "lost_no_thread";
        /// Frees of blocks that the ledger does not know: from before it began, or not entered.
        UnknownFrees = 8, "unknown_frees";
        /// Stacks cut at the depth limit.
        StacksCut = 9, "stacks_cut";
        /// Stacks that ended before the outermost frame: no rule, or unreadable memory.
        StacksBroken = 10, "stacks_broken";
        /// Stacks in which a frame was found by the frame-pointer chain for want of unwind tables.
        StacksGuessed = 11, "stacks_guessed";
        /// Stacks left out: the call-site table is full.
        SitesFull = 12, "sites_full";
        /// Frees written into the history ring.
        HistoryEntered = 13, "history_entered";
        /// Frees that found no room in the ring.
        HistoryLost = 14, "history_lost";
        /// Numbers that were leased and never used.
        NumbersUnused = 15, "numbers_unused";
        /// Blocks whose address was handed out again without a free being seen (also in `Frees`).
        Displaced = 16, "displaced";
        /// Exact figures of huge blocks that found no room in the `wide` section.
        WideLost = 17, "wide_lost";
        /// Allocation calls that returned no block.
        FailedCalls = 18, "failed_calls";
        /// Stacks that needed the general evaluator of call-frame rules.
        StacksGeneral = 19, "stacks_general";
        /// Threads that got no row of their own.
        ThreadsUnnamed = 20, "threads_unnamed";
        /// Frees that came while their thread was inside the recorder; the block stays in the ledger.
        FreesBusy = 21, "frees_busy";
        /// Stacks that were taken twice, the second time by a full walk, and compared.
        StacksCompared = 22, "stacks_compared";
        /// Of these, stacks that differed.
        StacksDiffering = 23, "stacks_differing";
        /// Frames that were proven to be those of the thread's last stack.
        FramesVerified = 24, "frames_verified";
        /// Frames that were found by one step of unwinding.
        FramesWalked = 25, "frames_walked";
        /// Steps for which unwind tables had to be read.
        RulesMade = 26, "rules_made";
        /// Calls of `dlopen` with `RTLD_DEEPBIND`: calls that such a library makes to the C library are not seen.
        DeepBound = 27, "deep_bound";
        /// Labels that found no room: blocks have the label around them instead.
        LabelsLost = 28, "labels_lost";
        /// Marks that found no room.
        MarksLost = 29, "marks_lost";
        /// Windows that found no room.
        WindowsLost = 30, "windows_lost";
        /// Errors that found no room.
        ErrorsLost = 31, "errors_lost";
        /// Accounts that found no room.
        AccountsLost = 32, "accounts_lost";
        /// Files of the program that were not linked with the recorder, where that sees nothing but what was: calls that they make
        /// are not seen.
        FilesUnseen = 33, "files_unseen";
        /// Blocks that are guarded less than was asked for: there was no room for more.
        GuardedLess = 34, "guarded_less";
        /// Bytes asked for in blocks that were not entered for want of room, where the recorder counts them: on a chip.
        LostBytes = 35, "lost_bytes";
        /// Errors found where nothing is recorded, in forked children and after the end of the recording: standard error has them.
        ErrorsUnrecorded = 36, "errors_unrecorded";
        /// Frees that found no room in the sums by call site.
        SumsLost = 37, "sums_lost";
        /// Stacks without lines of the script that the program runs: what lay in memory did not look like them, or a table is full.
        ScriptsLost = 38, "scripts_lost";
        /// Stacks of whose lines the outermost are left out: there were too many.
        ScriptsCut = 39, "scripts_cut";
        /// Guarded blocks that nobody looked at when the program ended, because they could not be read or there was no time for all.
        GuardedUnseen = 40, "guarded_unseen";
        /// Calls of `dlopen` from which `RTLD_DEEPBIND` was taken away, because blocks are guarded.
        DeepUnbound = 41, "deep_unbound";
    }
}

impl GlobalCounter {
    /// How many of them a target has that samples nothing and keeps everything in the ledger: a chip.
    pub const SMALL_COUNT: usize = GlobalCounter::PeakBlocks as usize + 1;
    /// How many of them a chip has whose history a debugger carries off in parts.
    pub const HISTORY_COUNT: usize = GlobalCounter::HistoryShownTime as usize + 1;
}

/// Words of one element of the `tallies` section: [`TallyCounter`] in the first half (room for 64),
/// then calls per [`crate::Kind`].
pub const TALLY_WORDS: usize = TALLY_KINDS_AT + crate::kind::KIND_LIMIT * 2;
/// First word of the calls per kind: blocks begun at `TALLY_KINDS_AT + kind`, blocks ended
/// `KIND_LIMIT` words later (`realloc` does both).
pub const TALLY_KINDS_AT: usize = 64;
