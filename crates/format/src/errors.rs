//! What was found or refused: one element holds all that a report says of it.

use crate::element::{named, parts, published};
use crate::ids::{Site, ThreadRowPlus1, Ticks};

named! {
    /// What is wrong, by the names that scripts know.
    ErrorKind: u16 {
        /// A call of the malloc family gave no block.
        FailedAllocation = 1, "failed-allocation";
        /// A block was given back with another size or alignment than it was asked for with.
        WrongLayout = 2, "wrong-layout";
        /// A block was freed that had been freed.
        DoubleFree = 3, "double-free";
        /// What was freed is no block.
        BadFree = 4, "bad-free";
        /// What was passed to `realloc` is no block.
        BadRealloc = 5, "bad-realloc";
        /// Two threads ended a block at once.
        RacingFree = 6, "racing-free";
        /// A block was freed by a function of another family.
        AllocDeallocMismatch = 7, "alloc-dealloc-mismatch";
        /// `delete` of another size or alignment than `new`.
        NewDeleteTypeMismatch = 8, "new-delete-type-mismatch";
        /// `malloc_usable_size` of what is no block.
        BadMallocUsableSize = 9, "bad-malloc_usable_size";
        /// Count times size does not fit.
        CallocOverflow = 10, "calloc-overflow";
        /// The same of `reallocarray`.
        ReallocarrayOverflow = 11, "reallocarray-overflow";
        /// A size that rounded up to a page does not fit.
        PvallocOverflow = 12, "pvalloc-overflow";
        /// An alignment that is none.
        InvalidAllocationAlignment = 13, "invalid-allocation-alignment";
        /// The same of `aligned_alloc`.
        InvalidAlignedAllocAlignment = 14, "invalid-aligned-alloc-alignment";
        /// The same of `posix_memalign`.
        InvalidPosixMemalignAlignment = 15, "invalid-posix-memalign-alignment";
        /// More than any block can have.
        AllocationSizeTooBig = 16, "allocation-size-too-big";
        /// More memory in use than was allowed.
        RssLimitExceeded = 17, "rss-limit-exceeded";
        /// The system had no more memory.
        OutOfMemory = 18, "out-of-memory";
        /// A size that is a negative number.
        NegativeSize = 19, "negative-size-param";
        /// Two ranges of a copy that must not overlap do.
        MemcpyOverlap = 20, "memcpy-param-overlap";
        /// The same of a copy of strings.
        StrcpyOverlap = 21, "strcpy-param-overlap";
        /// Behind the end of a block.
        BufferOverflow = 22, "heap-buffer-overflow";
        /// In front of a block.
        BufferUnderflow = 23, "heap-buffer-underflow";
        /// In a block that had been freed.
        UseAfterFree = 24, "heap-use-after-free";
        /// The words that a block or a heap is managed by are damaged.
        CorruptMetadata = 25, "corrupt-metadata";
        /// The program had asked who writes there.
        WatchedWrite = 26, "watched-write";
        /// A chip's processor could not go on.
        ProcessorFault = 27, "processor-fault";
        /// The program's own; `function` says what it is called.
        Custom = 32, "custom";
    }
}

impl ErrorKind {
    /// Whether an error of this number is a call that gave no block: nothing was done to one.
    pub const fn is_failed_call(number: u16) -> bool {
        number == ErrorKind::FailedAllocation as u16
            || ErrorKind::CallocOverflow as u16 <= number && number <= ErrorKind::OutOfMemory as u16
    }
}

named! {
    /// What showed it.
    FoundBy: u8 {
        /// An argument of a call.
        Argument = 1, "argument";
        /// What is known of the block.
        State = 2, "state";
        /// The answer of the allocator.
        Answer = 3, "answer";
        /// Bytes beside a block that were to stay as they are.
        Canary = 4, "canary";
        /// Bytes of a free block that were to stay as they are.
        Fill = 5, "fill";
        /// A page that cannot be accessed.
        GuardPage = 6, "guard page";
        /// The range of a block that was passed to a function of libc.
        Range = 7, "range";
        /// A checksum.
        Checksum = 8, "checksum";
        /// The program said so.
        Program = 9, "program";
        /// A log of another tool.
        Log = 10, "log";
    }
}

named! {
    /// When it was found; hence how sure the place is.
    FoundAt: u8 {
        /// At the very instruction.
        Instruction = 1, "instruction";
        /// In the call that was wrong.
        Call = 2, "call";
        /// When the block was freed.
        Free = 3, "free";
        /// When it was to be resized.
        Realloc = 4, "realloc";
        /// When the memory was handed out again.
        Allocation = 5, "allocation";
        /// When the block left the quarantine.
        Quarantine = 6, "quarantine";
        /// In a check that was asked for, or runs now and then.
        Sweep = 7, "sweep";
        /// When the program ended.
        Exit = 8, "exit";
        /// When the program was about to die of a signal.
        Signal = 9, "signal";
    }
}

named! {
    /// What was done to the address.
    Direction: u8 {
        /// It was read.
        Read = 1, "read";
        /// It was written.
        Write = 2, "write";
    }
}

named! {
    /// Where an address lies.
    Whereabouts: u8 {
        /// In a live block.
        Block = 1, "block";
        /// In a freed block.
        FreedBlock = 2, "freed block";
        /// In memory of a heap, in no block.
        Heap = 3, "heap";
        /// On a stack.
        Stack = 4, "stack";
        /// In a module's data or code.
        Module = 5, "module";
        /// In another mapping.
        Mapping = 6, "mapping";
        /// Nothing is there.
        Nothing = 7, "nothing";
    }
}

named! {
    /// Whose stack one is.
    StackTag: u16 {
        /// Of the call that gave the block.
        Allocation = 1, "allocation";
        /// Of the call that ended it.
        Free = 2, "free";
        /// Of the access, or of the call that was refused.
        Access = 3, "access";
        /// The program's own: see its number.
        Custom = 4, "custom";
    }
}

parts! {
    /// A stack of an error, with its thread and time.
    ErrorStack {
        /// When; 0 not known.
        time: Ticks,
        /// Call site, 0 none.
        site: Site,
        /// The thread, if it is known.
        thread: ThreadRowPlus1,
        /// A [`StackTag`]; 0: there is no such stack.
        tag: u16,
        /// Of whose ledger site, thread and time are: 0 of this one, 1 of that of the process which forked this one, 2 of that one's.
        ancestor: u16,
        /// The program's number of a custom stack.
        custom: u32,
    }
}

parts! {
    /// The live block in front of a block, or behind it.
    Neighbour {
        /// Where it lies; 0: there is none, or it is not known.
        address: u64,
        /// Bytes asked for.
        bytes: u64,
        /// Call site of its allocation, 0 none.
        site: Site,
        /// Who allocated it, if that is known.
        thread: ThreadRowPlus1,
    }
}

/// Bytes that an element of `errors` has at most, of which this version knows.
pub const ERROR_BYTES_MAX: usize = 304;

published! {
    /// An element of `errors`. 0 is "not known" in each field, and an element may end behind any of them.
    ErrorEntry by kind {
        /// An [`ErrorKind`]; the commit word.
        kind: u16,
        /// A [`FoundBy`].
        found_by: u8,
        /// A [`FoundAt`].
        found_at: u8,
        /// A [`Direction`].
        direction: u8,
        /// What `address` is: a [`Whereabouts`].
        whereabouts: u8,
        /// The function that gave the block: number of a [`crate::Kind`].
        given_by: u8,
        /// The function that was called: number of a [`crate::Kind`] that ends blocks or, of a failed allocation, begins them.
        called: u8,
        /// Row in `heaps` plus 1.
        heap: u32,
        /// Capabilities that were asked for.
        capabilities: u32,
        /// The address accessed or passed; of damage that was found later, its first byte.
        address: u64,
        /// Bytes accessed or damaged.
        bytes: u64,
        /// Where the block lies that it is about.
        block: u64,
        /// Bytes asked for.
        block_bytes: u64,
        /// Alignment asked for.
        alignment: u64,
        /// What the call was given that contradicts: count and size of an overflow, size and alignment of another layout,
        /// the other range of a copy, a limit.
        operands: [u64; 2],
        /// Sequence number of the allocation plus 1.
        allocated: u64,
        /// Sequence number of the free plus 1.
        freed: u64,
        /// How often the same was found again.
        repeats: u64,
        /// When it was found first, at least 1.
        first_time: Ticks,
        /// When it was found last.
        last_time: Ticks,
        /// Up to three stacks.
        stacks: [ErrorStack; 3],
        /// Bytes at `address` as they were to be.
        expected: [u8; 8],
        /// Bytes at `address` as they were.
        found: [u8; 8],
        /// The address of the first of the bytes in `strings`.
        around_address: u64,
        /// Memory around, at most 64 bytes: where it lies in `strings`.
        around_at: u32,
        /// And how many bytes.
        around_bytes: u32,
        /// The name of the function that was called, if it is none of the kinds: where it lies in `strings`.
        function_at: u32,
        /// And how many bytes.
        function_bytes: u32,
        /// The live blocks in front and behind.
        neighbours: [Neighbour; 2],
        /// Program counter of the access.
        program_counter: u64,
        /// Stack pointer there.
        stack_pointer: u64,
        /// Frame pointer there.
        frame_pointer: u64,
        /// The label in force.
        label: u32,
        /// How many of `expected` and `found` count.
        compared: u16,
        /// The processor core plus 1.
        core: u16,
    }
}
