/* heapledger.h: how a program speaks to heapledger, which records its heap.
 *
 * `heapledger run -- PROGRAM` brings these functions along. A program that should also run without it defines HEAPLEDGER_WEAK
 * before it includes this file: then all calls may stay as they are, answer HEAPLEDGER_E_ABSENT (or nothing) where heapledger is
 * not there, and cost a look at a pointer. Nothing has to be linked.
 *
 *     #define HEAPLEDGER_WEAK
 *     #include <heapledger.h>
 *
 *     heapledger_mark("loaded");
 *
 * Answers below 0 are errors, see enum heapledger_errors. All functions may be called at any time, by any thread, in signal handlers and
 * forked children: where nothing can be done they say so. Names are UTF-8; of longer ones than 4,095 bytes the beginning counts.
 *
 * C89 and C++. What is recorded: programs on x86-64 Linux with glibc. Licence: MIT OR Apache-2.0.
 */
#ifndef HEAPLEDGER_H
#define HEAPLEDGER_H

#include <stddef.h>
/* For heapledger_file(), and for arrays that are allocated here: some programs do without. */
#ifdef HEAPLEDGER_STDIO
#include <stdio.h>
#endif
#ifdef HEAPLEDGER_STDLIB
#include <stdlib.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this file. */
#define HEAPLEDGER_API_VERSION 1

/* C++98 has no long long: it is taken only where a long is too short. */
#if defined(__GNUC__) && !defined(__LP64__)
__extension__ typedef unsigned long long heapledger_u64;
#else
typedef unsigned long heapledger_u64;
#endif

/* What heapledger_state() answers. */
enum heapledger_states { HEAPLEDGER_OFF = 0, HEAPLEDGER_PAUSED = 1, HEAPLEDGER_ON = 2 };

/* How blocks are guarded: what heapledger_guard_level() takes and answers. */
enum heapledger_guard_levels {
    HEAPLEDGER_GUARD_OFF = 0,
    HEAPLEDGER_GUARD_LIGHT = 1,
    HEAPLEDGER_GUARD_FULL = 2,
    HEAPLEDGER_GUARD_PAGE = 3,
    HEAPLEDGER_GUARD_SAMPLED = 4 /* page=1/N */
};

/* Modes of a trace window. */
enum heapledger_modes {
    HEAPLEDGER_ALL = 0,
    HEAPLEDGER_LEAKS = 1,
    HEAPLEDGER_WHOLE_FREES = 256 /* beside one of these */
};

/* Answers below 0. */
enum heapledger_errors {
    HEAPLEDGER_E_OFF = -1,       /* nothing is recorded in this process */
    HEAPLEDGER_E_NO_ROOM = -2,   /* the ledger has no room for it; that was counted */
    HEAPLEDGER_E_BUSY = -3,      /* the thread is in the middle of entering something */
    HEAPLEDGER_E_UNKNOWN = -4,   /* there is no such thing, or it is over */
    HEAPLEDGER_E_INVALID = -5,   /* an argument cannot be */
    HEAPLEDGER_E_ABSENT = -6,    /* the program does not run under heapledger */
    HEAPLEDGER_E_TOO_SMALL = -7, /* a structure or buffer is too small */
    HEAPLEDGER_E_NOT_SO = -8,    /* it is not so, or is so already */
    HEAPLEDGER_E_UNSUPPORTED = -9, /* the program's malloc cannot tell that */
    HEAPLEDGER_E_IMPOSSIBLE = -10, /* this program cannot be recorded; why was told on standard error */
    HEAPLEDGER_E_OVERLAPS = -11   /* the range is that of another heap, or reaches over its edge */
};

/* Functions that give blocks, and that take them: what reports call them. */
enum heapledger_kinds {
    HEAPLEDGER_KIND_POOL = 0,
    HEAPLEDGER_KIND_MALLOC = 1,
    HEAPLEDGER_KIND_CALLOC = 2,
    HEAPLEDGER_KIND_REALLOC = 3,
    HEAPLEDGER_KIND_REALLOCARRAY = 4,
    HEAPLEDGER_KIND_POSIX_MEMALIGN = 5,
    HEAPLEDGER_KIND_ALIGNED_ALLOC = 6,
    HEAPLEDGER_KIND_MEMALIGN = 7,
    HEAPLEDGER_KIND_NEW = 16,
    HEAPLEDGER_KIND_NEW_ARRAY = 17,
    HEAPLEDGER_KIND_PV_PORT_MALLOC = 25,
    HEAPLEDGER_KIND_HEAP_CAPS_MALLOC = 27,
    HEAPLEDGER_KIND_FREE = 32,
    HEAPLEDGER_KIND_K_MALLOC = 36,
    HEAPLEDGER_KIND_DELETE = 40,
    HEAPLEDGER_KIND_DELETE_ARRAY = 41
};

/* What a trace window has seen. If blocks are sampled, these are estimates. */
struct heapledger_figures {
    size_t size;                    /* of this structure: set by the caller */
    heapledger_u64 allocations;     /* blocks allocated in it */
    heapledger_u64 frees;           /* frees since it was opened, of its blocks or others */
    heapledger_u64 bytes_allocated; /* bytes asked for in its blocks */
    heapledger_u64 bytes_freed;     /* bytes of its blocks that were freed */
    heapledger_u64 live_blocks;     /* its blocks that live */
    heapledger_u64 live_bytes;      /* bytes in these */
    heapledger_u64 peak_bytes;      /* most bytes that were found to live, when somebody asked */
    heapledger_u64 peak_error;      /* by how much there may have been more in between */
};

/* What the C library's heap holds, all arenas together. */
struct heapledger_c_heap {
    size_t size;             /* of this structure: set by the caller */
    size_t system_bytes;     /* from the system, mappings of single blocks among them */
    size_t in_use_bytes;     /* in blocks, with what lies in front of each, and what threads keep ready */
    size_t free_bytes;       /* from the system, and nobody uses them */
    size_t releasable_bytes; /* at the end of the main heap: malloc_trim() gives them back */
    size_t mapped_blocks;    /* large blocks that have a mapping of their own */
    size_t mapped_bytes;     /* in these */
};

/* Capabilities of memory, as ESP-IDF numbers them: of heaps of the program's own. */
enum heapledger_capabilities {
    HEAPLEDGER_CAP_EXEC = 1 << 0,
    HEAPLEDGER_CAP_32BIT = 1 << 1,
    HEAPLEDGER_CAP_8BIT = 1 << 2,
    HEAPLEDGER_CAP_DMA = 1 << 3,
    HEAPLEDGER_CAP_SPIRAM = 1 << 10,
    HEAPLEDGER_CAP_INTERNAL = 1 << 11,
    HEAPLEDGER_CAP_DEFAULT = 1 << 12
};

/* What is kept while a block is resized. Nobody looks inside. */
struct heapledger_resize {
    heapledger_u64 kept[6];
};

/* A program that is linked with heapledger may define this text, of items of the environment variable HEAPLEDGER, which goes before it:
   what is recorded from the first call on, where the ledger lies, and what becomes of it. `begin=later`: nothing is recorded before
   heapledger_start().

       const char heapledger_options[] = "begin=later,at-exit=finish,output=server.hl"; */
extern const char heapledger_options[];

/* In place of the number of a heap: that of the C library. */
#define HEAPLEDGER_C_HEAP (-1)

/* What an allocator takes beside what it is asked for. */
struct heapledger_shape {
    size_t size;    /* of this structure: set by the caller */
    size_t before;  /* bytes in front of each block */
    size_t after;   /* bytes behind each block */
    size_t granule; /* a block's bytes are a multiple of this; 0: of 1 */
    size_t least;   /* and at least so many */
    size_t first;   /* bytes at the beginning of the range that no block gets */
    size_t last;    /* and at its end */
};

/* What is known of heaps. */
enum heapledger_known {
    HEAPLEDGER_KNOWS_TOTAL = 1,     /* how many bytes there are, and how many are free */
    HEAPLEDGER_KNOWS_OVERHEAD = 2,  /* what the allocator takes; if not, that is part of what is free */
    HEAPLEDGER_KNOWS_GAPS = 4,      /* what lies between blocks: free_blocks and largest_free_bytes */
    HEAPLEDGER_KNOWS_MINIMUM = 8,   /* the least that was free */
    HEAPLEDGER_KNOWS_ALL_BLOCKS = 16 /* every block: none has passed by */
};

/* What heaps have. What is not known is 0. Where the total is known, it is free_bytes + used_bytes + overhead_bytes. */
struct heapledger_heap {
    size_t size;               /* of this structure: set by the caller */
    size_t heaps;              /* how many these figures are of */
    size_t total_bytes;        /* of their ranges */
    size_t free_bytes;
    size_t used_bytes;         /* asked for, in blocks */
    size_t overhead_bytes;     /* what allocators take for themselves: all the rest */
    size_t largest_free_bytes; /* of the largest block that could be had */
    size_t minimum_free_bytes; /* the least that was free, of each heap; since heapledger_minimum_watch_start() */
    size_t least_free_bytes;   /* the least that ever was free, of each heap */
    size_t used_blocks;
    size_t free_blocks;        /* gaps */
    unsigned known;            /* of enum heapledger_known */
    unsigned late_heaps;       /* that began when others had blocks: a sum of minima has nothing of theirs */
};

/* A block, or a gap between blocks. */
struct heapledger_block {
    size_t size;           /* of this structure: set by whoever has it filled */
    const void *address;
    size_t bytes;          /* asked for; of a gap: of the largest block that it has room for */
    size_t usable_bytes;   /* that it really has, as far as is known */
    size_t taken_bytes;    /* with what its allocator takes; of a gap: all of it */
    heapledger_u64 number; /* of its allocation: a higher one was later */
    int heap;              /* its number, or HEAPLEDGER_C_HEAP */
    int is_used;           /* 0: it is a gap */
    const void *heap_first; /* where its heap begins, if that is known */
    size_t heap_bytes;     /* of its heap; 0: not known */
    int kind;              /* of enum heapledger_kinds, or one that reports know */
    int spare;
};

/* Is told of a block; 0: of this heap no more. */
typedef int (*heapledger_walk)(const struct heapledger_block *block, void *user);

/* In place of the number of a thread (its gettid()): the calling one; blocks whose thread nobody knows. */
#define HEAPLEDGER_THIS_TASK 0u
#define HEAPLEDGER_PRE_SCHEDULER (~0u)

/* Threads that are gone are left out. */
#define HEAPLEDGER_ALIVE_ONLY 1u

/* What is known of a task's figures. */
enum heapledger_task_known {
    HEAPLEDGER_TASK_KNOWS_PEAK = 1,         /* the peak, exactly: with `run --accounts` */
    HEAPLEDGER_TASK_KNOWS_PEAK_AT_MOST = 2, /* no more than this: the sum of its peaks in several heaps */
    HEAPLEDGER_TASK_KNOWS_SIZE = 4          /* the size of the heap */
};

/* A live block of a task. */
struct heapledger_task_allocation {
    void *address;
    size_t bytes;          /* asked for */
    heapledger_u64 number; /* of its allocation: they are in this order */
};

/* What a task holds of a heap. */
struct heapledger_task_heap {
    char name[32];
    int heap; /* its number */
    unsigned capabilities;
    size_t heap_bytes;    /* its size; 0: not known */
    size_t current_bytes; /* asked for, in live blocks */
    size_t peak_bytes;    /* 0: not known */
    size_t allocation_count;
    struct heapledger_task_allocation *allocations; /* NULL: none, or they did not all find room */
    unsigned known;       /* of enum heapledger_task_known */
    unsigned spare;
};

/* What a task holds: a block is the thread's that allocated it, until it is freed by whichever. */
struct heapledger_task {
    char name[32];
    void *handle; /* its pthread_self() */
    unsigned id;  /* its gettid() */
    int is_alive; /* 0: it is gone */
    size_t current_bytes;
    size_t peak_bytes; /* 0: not known */
    size_t heap_count;
    struct heapledger_task_heap *heaps; /* NULL: none, or they did not all find room */
    unsigned known;    /* of enum heapledger_task_known */
    unsigned spare;
};

/* Arrays for what is asked: each count says how much room there is, then how much is filled. */
struct heapledger_tasks {
    size_t size; /* of this structure: set by the caller */
    unsigned options; /* HEAPLEDGER_ALIVE_ONLY, or 0 */
    unsigned spare;
    size_t task_count;
    struct heapledger_task *tasks;
    size_t heap_count; /* of all tasks together */
    struct heapledger_task_heap *heaps;
    size_t allocation_count; /* of all heaps together */
    struct heapledger_task_allocation *allocations;
    size_t tasks_there; /* how many there are, however much room there was */
    size_t heaps_there;
    size_t allocations_there;
};

/* What a task holds of each class of heaps. */
struct heapledger_task_total {
    unsigned task; /* its id */
    unsigned spare;
    size_t bytes[4];
    size_t count[4];
};

/* A block of a task. */
struct heapledger_task_block {
    void *address;
    size_t bytes;
    unsigned task; /* its id */
    unsigned spare;
};

/* What is asked by heapledger_task_totals(). */
struct heapledger_task_info {
    size_t size; /* of this structure: set by the caller */
    unsigned capabilities[4]; /* a heap is of the first class i for which (its capabilities & masks[i]) == capabilities[i] */
    unsigned masks[4];        /* all zeros: every heap is of the first class; one that is of none is left out */
    const unsigned *tasks;    /* whose blocks are asked for; NULL: those of all */
    size_t task_count;
    struct heapledger_task_total *totals; /* may be NULL */
    size_t total_count; /* how many are there: they keep their places, and begin at 0; then: how many there are now */
    size_t totals_max;  /* for how many there is room; more tasks are left out */
    struct heapledger_task_block *blocks; /* may be NULL */
    size_t blocks_max;
};

/* How heapledger_live_lines() writes: added together. */
enum heapledger_lines { HEAPLEDGER_LINES_COMPRESSED = 0, HEAPLEDGER_LINES_PLAIN = 1, HEAPLEDGER_LINES_OF_PROGRAM = 2 };

/* Where text goes: to a function that answers below 0 if it has failed, or, without one, to a descriptor. */
struct heapledger_output {
    size_t size; /* of this structure: set by the caller */
    int (*write)(void *to, const char *text, size_t bytes);
    void *to;
    int descriptor;
};

/* What heapledger_event.what says. */
enum heapledger_events {
    HEAPLEDGER_EVENT_GAVE = 1,       /* a block was given */
    HEAPLEDGER_EVENT_STAYS = 2,      /* it was about to be resized, and that failed: it is as it was */
    HEAPLEDGER_EVENT_TAKES_BACK = 3, /* a block is about to be given back, or resized: it is still there */
    HEAPLEDGER_EVENT_REFUSED = 4,    /* a call gave no block */
    HEAPLEDGER_EVENT_LIVE_ABOVE = 5, /* live bytes have risen above the limit, by this block */
    HEAPLEDGER_EVENT_OVERFLOW = 6    /* the history of frees is full: no block */
};

/* What functions of the program are told. */
struct heapledger_event {
    size_t size;            /* of this structure */
    int what;               /* one of enum heapledger_events */
    int kind;               /* the function that was called, one of enum heapledger_kinds */
    const char *function;   /* its name */
    const void *block;      /* where the block is; NULL if there is none */
    size_t bytes;           /* what it was asked for; when it is taken back and not in the ledger, what its allocator says that it has */
    size_t alignment;       /* if one was asked for, else 0 */
    int heap;               /* the number of its heap, if that is of the program's own; else 0 */
    unsigned capabilities;  /* of that heap; HEAPLEDGER_CAP_DEFAULT: the C library's */
    unsigned thread;        /* the kernel's number of the thread */
    int recorded;           /* 1: it is in the ledger */
    int overflow;           /* 1: more bytes were asked for than can be counted */
    heapledger_u64 time_ns; /* since the ledger began */
};

/* What hooks were not told since the program began, and what was odd about them. */
struct heapledger_hook_sums {
    size_t size;            /* of this structure: set by the caller */
    heapledger_u64 nested;  /* calls that hooks made themselves: nobody is told of these */
    heapledger_u64 left;    /* hooks that did not come back, by longjmp say, as far as that was found out */
    heapledger_u64 untold;  /* calls of which nobody was told, because 64 threads were inside of hooks already */
    heapledger_u64 refused; /* hooks that freed, or resized, the block that they were just told of: that was not done */
};

/* A function that is told of calls, with what was given for it. */
typedef void (*heapledger_hook)(const struct heapledger_event *event, void *data);

/* Most frames of a record's stacks. */
#define HEAPLEDGER_TRACE_FRAMES 32

/* What a trace is to be. */
struct heapledger_trace_options {
    size_t size;       /* of this structure: set by the caller */
    int mode;          /* HEAPLEDGER_ALL or HEAPLEDGER_LEAKS */
    unsigned depth;    /* frames that are kept of each stack: 0 to HEAPLEDGER_TRACE_FRAMES */
    unsigned without;  /* innermost frames that are left out; the first is the caller of malloc */
    int of_own_thread; /* not 0: only what the calling thread allocates, whoever frees it */
};

/* What a trace has seen. allocations = frees + lost_live + live_blocks, always. */
struct heapledger_trace_sums {
    size_t size;                    /* of this structure: set by the caller */
    heapledger_u64 allocations;     /* blocks that became records */
    heapledger_u64 frees;           /* of these */
    heapledger_u64 unknown_frees;   /* of blocks without a record */
    heapledger_u64 bytes_allocated; /* in all that became records */
    heapledger_u64 bytes_freed;     /* of these */
    heapledger_u64 live_blocks;     /* records of blocks that live */
    heapledger_u64 live_bytes;      /* in these */
    heapledger_u64 peak_bytes;      /* most of them at any moment */
    heapledger_u64 records;         /* in the buffer */
    heapledger_u64 most_records;    /* at any moment */
    heapledger_u64 capacity;        /* records that there is room for */
    heapledger_u64 lost_live;       /* records of live blocks that had to go */
    heapledger_u64 lost_live_bytes; /* in these */
    heapledger_u64 lost_freed;      /* records of freed blocks that had to go */
    heapledger_u64 missed_calls;    /* calls that could not be noted */
    int mode;                       /* HEAPLEDGER_ALL or HEAPLEDGER_LEAKS */
    int state;                      /* 0: stopped, 1: paused, 2: it runs */
};

/* A record of a trace. Of each pair the first is of the allocation, the second of the free. */
struct heapledger_trace_record {
    size_t size;                /* of this structure: set by the caller */
    const void *block;          /* where the block is, or was */
    size_t bytes;               /* what it was asked for */
    heapledger_u64 number;      /* which of the trace it is, from 1 */
    heapledger_u64 times_ns[2]; /* since the trace began */
    unsigned threads[2];        /* the kernel's numbers */
    int freed;                  /* not 0: it is freed */
    unsigned depths[2];         /* how many frames there are */
    void *stacks[2][HEAPLEDGER_TRACE_FRAMES]; /* innermost first: addresses behind calls */
};

/* What was allocated in a region. A resized block is one allocation and one free. */
struct heapledger_region_sums {
    size_t size;                    /* of this structure: set by the caller */
    heapledger_u64 allocations;     /* calls that gave a block */
    heapledger_u64 bytes_allocated; /* that they were asked for */
    heapledger_u64 frees;           /* blocks given back, whenever they were allocated */
    heapledger_u64 bytes_freed;     /* in these */
    heapledger_u64 refused;         /* calls that gave no block */
    heapledger_u64 peak_bytes;      /* by how much live bytes rose at most */
};

/* Which calls fail on purpose: those that ask for a block are counted from 1. */
enum heapledger_rules {
    HEAPLEDGER_RULE_NTH = 0,      /* the n-th */
    HEAPLEDGER_RULE_FROM_NTH = 1, /* the n-th and all after it */
    HEAPLEDGER_RULE_EVERY = 2     /* the n-th, the 2n-th, ... */
};

/* Inlined without optimisation too, so that stacks begin with the caller. */
#ifdef __GNUC__
#define HEAPLEDGER_INLINE_ static __inline__ __attribute__((always_inline, unused))
#else
#define HEAPLEDGER_INLINE_ static
#endif

#ifdef HEAPLEDGER_WEAK

/* Where a function is, or NULL. A weak declaration is not enough: in a program at a fixed address the linker takes it for 0 for
   good. It is looked up through the table that the loader fills. On systems that heapledger does not record, it is nowhere. The
   instruction stands there in both forms of assembly, for -masm=intel. */
#if defined(__GNUC__) && defined(__x86_64__) && defined(__LP64__) && defined(__linux__)
#define HEAPLEDGER_FIND_(name, function) \
    __asm__(".weak " #name "\n\t{movq " #name "@GOTPCREL(%%rip), %0|mov %0, qword ptr [rip + " #name "@GOTPCREL]}" : "=r"(function))
#else
#define HEAPLEDGER_FIND_(name, function) ((void)((function) = NULL))
#endif

/* A function that answers `absent` where it is not. */
#define HEAPLEDGER_WEAK_(type, name, parameters, arguments, absent) \
    HEAPLEDGER_INLINE_ type heapledger_weak_##name parameters { \
        type(*found_) parameters; \
        HEAPLEDGER_FIND_(heapledger_##name, found_); \
        return found_ ? found_ arguments : absent; \
    }

HEAPLEDGER_WEAK_(const char *, version, (void), (), "")
HEAPLEDGER_WEAK_(unsigned, api_version, (void), (), 0)
HEAPLEDGER_WEAK_(const char *, error_text, (int error), (error), "the program does not run under heapledger")
HEAPLEDGER_WEAK_(int, state, (void), (), HEAPLEDGER_OFF)
HEAPLEDGER_WEAK_(int, pause, (void), (), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, resume, (void), (), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(heapledger_u64, now_ns, (void), (), (heapledger_u64)-1)
HEAPLEDGER_WEAK_(int, snapshot, (const char *path), (path), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, is_live, (const void *block), (block), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, check_integrity, (const void *block), (block), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, guard_level, (int level), (level), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, free_depth, (const char *depth), (depth), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, watch, (const void *address, unsigned bytes), (address, bytes), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, unwatch, (int watch), (watch), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, heap_info, (struct heapledger_c_heap *heap), (heap), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, mark, (const char *name), (name), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, mark_thread, (const char *name), (name), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, scope_begin, (const char *name), (name), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, scope_end, (int scope), (scope), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, label, (int parent, const char *key, const char *value), (parent, key, value), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, label_set, (int label), (label), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, label_now, (void), (), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, window_open, (const char *name, int mode, int of_own_thread), (name, mode, of_own_thread), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, window_pause, (int window), (window), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, window_resume, (int window), (window), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, window_stop, (int window), (window), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, window_figures, (int window, struct heapledger_figures *figures), (window, figures), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(size_t, backtrace, (void **frames, size_t room, size_t without), (frames, room, without), 0)
HEAPLEDGER_WEAK_(size_t, backtrace_of, (const void *context, void **frames, size_t room, size_t without), (context, frames, room, without), 0)
HEAPLEDGER_WEAK_(int, stack_put, (void *const *frames, size_t count), (frames, count), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, stack_get, (int stack, void **frames, size_t room), (stack, frames, room), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, heap_begin, (const char *name, const void *first, size_t bytes, unsigned capabilities), (name, first, bytes, capabilities), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, heap_end, (int heap), (heap), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, allocated, (int heap, const void *block, size_t bytes, int kind), (heap, block, bytes, kind), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, freed, (const void *block, int kind), (block, kind), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, resizing, (const void *block, struct heapledger_resize *kept), (block, kept), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, resized, (struct heapledger_resize *kept, int heap, const void *block, size_t bytes, int kind), (kept, heap, block, bytes, kind), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, refused, (int heap, size_t bytes, size_t alignment, int kind), (heap, bytes, alignment, kind), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, on_alloc, (heapledger_hook function, void *data), (function, data), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, on_free, (heapledger_hook function, void *data), (function, data), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, on_refused, (heapledger_hook function, void *data), (function, data), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, on_request_above, (size_t bytes, heapledger_hook function, void *data), (bytes, function, data), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, on_live_above, (size_t bytes, size_t again_at, heapledger_hook function, void *data), (bytes, again_at, function, data), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, on_overflow, (heapledger_hook function, void *data), (function, data), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, hook_end, (int hook), (hook), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(heapledger_u64, hook_calls, (int hook), (hook), 0)
HEAPLEDGER_WEAK_(int, hook_running, (int hook), (hook), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, hook_figures, (struct heapledger_hook_sums *figures), (figures), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, abort_when_refused, (int is_to), (is_to), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(size_t, trace_words, (size_t records, const struct heapledger_trace_options *options), (records, options), 0)
HEAPLEDGER_WEAK_(int, trace_start, (size_t *buffer, size_t words, const struct heapledger_trace_options *options), (buffer, words, options), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, trace_pause, (int trace), (trace), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, trace_resume, (int trace), (trace), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, trace_stop, (int trace), (trace), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, trace_restart, (int trace), (trace), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, trace_end, (int trace), (trace), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, trace_count, (int trace), (trace), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, trace_get, (int trace, size_t index, struct heapledger_trace_record *record), (trace, index, record), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, trace_figures, (int trace, struct heapledger_trace_sums *figures), (trace, figures), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, trace_dump, (int trace, unsigned capabilities, const struct heapledger_output *output), (trace, capabilities, output), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, region_begin, (int of_own_thread), (of_own_thread), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, region_figures, (int region, struct heapledger_region_sums *figures), (region, figures), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, region_end, (int region), (region), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, fail, (int rule, size_t n, int of_own_thread, const void *within), (rule, n, of_own_thread, within), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(heapledger_u64, fail_calls, (int fault), (fault), 0)
HEAPLEDGER_WEAK_(heapledger_u64, fail_failed, (int fault), (fault), 0)
HEAPLEDGER_WEAK_(int, fail_end, (int fault), (fault), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, start, (const char *options), (options), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, stop, (void), (), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, discard, (void), (), HEAPLEDGER_E_ABSENT)

HEAPLEDGER_WEAK_(int, heap_shape, (int heap, const struct heapledger_shape *shape), (heap, shape), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, heap_figures, (int heap, struct heapledger_heap *figures), (heap, figures), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, heaps_figures, (unsigned capabilities, struct heapledger_heap *figures), (capabilities, figures), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, minimum_watch_start, (void), (), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, minimum_watch_stop, (void), (), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, heap_walk, (int heap, heapledger_walk each, void *user), (heap, each, user), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, heaps_walk, (unsigned capabilities, heapledger_walk each, void *user), (capabilities, each, user), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, block_at, (const void *address, struct heapledger_block *block), (address, block), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, heaps_print, (unsigned capabilities, const struct heapledger_output *output), (capabilities, output), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, heaps_dump, (unsigned capabilities, const struct heapledger_output *output), (capabilities, output), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, all_tasks, (struct heapledger_tasks *tasks), (tasks), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, one_task, (unsigned id, struct heapledger_tasks *task), (id, task), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, all_tasks_print, (unsigned options, const struct heapledger_output *output), (options, output), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, one_task_print, (unsigned id, const struct heapledger_output *output), (id, output), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, all_tasks_overview, (unsigned options, const struct heapledger_output *output), (options, output), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, one_task_overview, (unsigned id, const struct heapledger_output *output), (id, output), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, live_lines, (unsigned options, const struct heapledger_output *output), (options, output), HEAPLEDGER_E_ABSENT)
HEAPLEDGER_WEAK_(int, task_totals, (struct heapledger_task_info *info), (info), HEAPLEDGER_E_ABSENT)

#define heapledger_version heapledger_weak_version
#define heapledger_api_version heapledger_weak_api_version
#define heapledger_error_text heapledger_weak_error_text
#define heapledger_state heapledger_weak_state
#define heapledger_pause heapledger_weak_pause
#define heapledger_resume heapledger_weak_resume
#define heapledger_now_ns heapledger_weak_now_ns
#define heapledger_snapshot heapledger_weak_snapshot
#define heapledger_is_live heapledger_weak_is_live
#define heapledger_check_integrity heapledger_weak_check_integrity
#define heapledger_guard_level heapledger_weak_guard_level
#define heapledger_free_depth heapledger_weak_free_depth
#define heapledger_watch heapledger_weak_watch
#define heapledger_unwatch heapledger_weak_unwatch
#define heapledger_heap_info heapledger_weak_heap_info
#define heapledger_mark heapledger_weak_mark
#define heapledger_mark_thread heapledger_weak_mark_thread
#define heapledger_scope_begin heapledger_weak_scope_begin
#define heapledger_scope_end heapledger_weak_scope_end
#define heapledger_label heapledger_weak_label
#define heapledger_label_set heapledger_weak_label_set
#define heapledger_label_now heapledger_weak_label_now
#define heapledger_window_open heapledger_weak_window_open
#define heapledger_window_pause heapledger_weak_window_pause
#define heapledger_window_resume heapledger_weak_window_resume
#define heapledger_window_stop heapledger_weak_window_stop
#define heapledger_window_figures heapledger_weak_window_figures
#define heapledger_backtrace heapledger_weak_backtrace
#define heapledger_backtrace_of heapledger_weak_backtrace_of
#define heapledger_stack_put heapledger_weak_stack_put
#define heapledger_stack_get heapledger_weak_stack_get
#define heapledger_heap_begin heapledger_weak_heap_begin
#define heapledger_heap_end heapledger_weak_heap_end
#define heapledger_allocated heapledger_weak_allocated
#define heapledger_freed heapledger_weak_freed
#define heapledger_resizing heapledger_weak_resizing
#define heapledger_resized heapledger_weak_resized
#define heapledger_refused heapledger_weak_refused
#define heapledger_on_alloc heapledger_weak_on_alloc
#define heapledger_on_free heapledger_weak_on_free
#define heapledger_on_refused heapledger_weak_on_refused
#define heapledger_on_request_above heapledger_weak_on_request_above
#define heapledger_on_live_above heapledger_weak_on_live_above
#define heapledger_on_overflow heapledger_weak_on_overflow
#define heapledger_hook_end heapledger_weak_hook_end
#define heapledger_hook_calls heapledger_weak_hook_calls
#define heapledger_hook_running heapledger_weak_hook_running
#define heapledger_hook_figures heapledger_weak_hook_figures
#define heapledger_abort_when_refused heapledger_weak_abort_when_refused
#define heapledger_trace_words heapledger_weak_trace_words
#define heapledger_trace_start heapledger_weak_trace_start
#define heapledger_trace_pause heapledger_weak_trace_pause
#define heapledger_trace_resume heapledger_weak_trace_resume
#define heapledger_trace_stop heapledger_weak_trace_stop
#define heapledger_trace_restart heapledger_weak_trace_restart
#define heapledger_trace_end heapledger_weak_trace_end
#define heapledger_trace_count heapledger_weak_trace_count
#define heapledger_trace_get heapledger_weak_trace_get
#define heapledger_trace_figures heapledger_weak_trace_figures
#define heapledger_trace_dump heapledger_weak_trace_dump
#define heapledger_region_begin heapledger_weak_region_begin
#define heapledger_region_figures heapledger_weak_region_figures
#define heapledger_region_end heapledger_weak_region_end
#define heapledger_fail heapledger_weak_fail
#define heapledger_fail_calls heapledger_weak_fail_calls
#define heapledger_fail_failed heapledger_weak_fail_failed
#define heapledger_fail_end heapledger_weak_fail_end

#define heapledger_start heapledger_weak_start
#define heapledger_stop heapledger_weak_stop
#define heapledger_discard heapledger_weak_discard

#define heapledger_heap_shape heapledger_weak_heap_shape
#define heapledger_heap_figures heapledger_weak_heap_figures
#define heapledger_heaps_figures heapledger_weak_heaps_figures
#define heapledger_minimum_watch_start heapledger_weak_minimum_watch_start
#define heapledger_minimum_watch_stop heapledger_weak_minimum_watch_stop
#define heapledger_heap_walk heapledger_weak_heap_walk
#define heapledger_heaps_walk heapledger_weak_heaps_walk
#define heapledger_block_at heapledger_weak_block_at
#define heapledger_heaps_print heapledger_weak_heaps_print
#define heapledger_heaps_dump heapledger_weak_heaps_dump
#define heapledger_all_tasks heapledger_weak_all_tasks
#define heapledger_one_task heapledger_weak_one_task
#define heapledger_all_tasks_print heapledger_weak_all_tasks_print
#define heapledger_one_task_print heapledger_weak_one_task_print
#define heapledger_all_tasks_overview heapledger_weak_all_tasks_overview
#define heapledger_one_task_overview heapledger_weak_one_task_overview
#define heapledger_live_lines heapledger_weak_live_lines
#define heapledger_task_totals heapledger_weak_task_totals

#else

/* ---- What records ---- */

/* The version of the recorder, as text; empty where there is none. */
const char *heapledger_version(void);

/* The version of these functions, 1 or higher; 0 where they are absent. It rises when functions are added; none is
   ever removed or changed. */
unsigned heapledger_api_version(void);

/* A sentence on an answer below 0. */
const char *heapledger_error_text(int error);

/* HEAPLEDGER_OFF, HEAPLEDGER_PAUSED or HEAPLEDGER_ON. */
int heapledger_state(void);

/* New blocks pass by from now on; frees of blocks that are in the ledger are entered. HEAPLEDGER_E_NOT_SO: it was so
   before. */
int heapledger_pause(void);

/* New blocks are entered again. */
int heapledger_resume(void);

/* Nanoseconds since the ledger began, as times in reports; all ones if there is none. */
heapledger_u64 heapledger_now_ns(void);

/* Writes what the ledger holds now to a file, which heapledger reads as any other; the program goes on. An error of the
   system is -1000 minus its number. */
int heapledger_snapshot(const char *path);

/* 1 if the block at this address is in the ledger, else 0. The caller owns it: nobody frees it meanwhile. */
int heapledger_is_live(const void *block);

/* Looks at the block that begins at this address, or with NULL at all blocks, for damage beside them, and at what was written into freed ones:
   how many are damaged; each is entered as an error, with its stacks. HEAPLEDGER_E_NOT_SO without `run --guard=light` or `full`,
   HEAPLEDGER_E_UNKNOWN if no guarded block begins there, HEAPLEDGER_E_UNSUPPORTED if not all could be looked at and what was is
   whole. Other threads go on meanwhile. With NULL it takes as long as there are blocks, at most ten seconds. */
int heapledger_check_integrity(const void *block);

/* From now on new blocks are guarded as at this level, which is not above that of `run --guard`, nor above one that was set before: HEAPLEDGER_GUARD_OFF,
   and from HEAPLEDGER_GUARD_SAMPLED nothing else; HEAPLEDGER_GUARD_LIGHT; HEAPLEDGER_GUARD_FULL; HEAPLEDGER_GUARD_PAGE. Blocks that are there stay
   guarded as they are, and are looked at when they are freed, in checks and at the end. -1 changes nothing. The level of new blocks before;
   HEAPLEDGER_E_NOT_SO if the level is above that, HEAPLEDGER_E_INVALID if there is none of this number. Calls of the C library are held against
   the blocks of full and page as long as there are some. */
int heapledger_guard_level(int level);

/* From now on this much is taken of the stack of a call that frees, as `run --free-depth` has it: "1" its caller, another number so many frames,
   "0" none, "whole" all of it, "whole/16" of one call in 16. The ledger says when it changed, and reports say of each stack whether it may have been cut.
   0; HEAPLEDGER_E_INVALID if it is nothing of that, HEAPLEDGER_E_NOT_SO where blocks are guarded: there stacks are whole. While a window asks for
   whole stacks (HEAPLEDGER_WHOLE_FREES) they are that, and it holds once that is over. A call that is under way in another thread ends as before. */
int heapledger_free_depth(const char *depth);

/* Sets a watchpoint of the processor, without a debugger: from now on SIGTRAP follows each write to these 1, 2, 4 or 8 bytes, whose address is
   a multiple of that, in the thread that has written and right behind the instruction. If the program has no handler of its own, the recorder handles it: the
   write is an error of the ledger (watched-write) with the writer's stack, and the program goes on. In a forked child, which is not recorded, it
   dies there, and its core dump shows who it was; a debugger stops. Writes of the kernel (read) are not seen, nor those of a thread that another one begins
   at this very moment. The number of the watch, of which there are at most four; HEAPLEDGER_E_INVALID, HEAPLEDGER_E_NO_ROOM if there are no more or too many
   threads, or what the system says: -1013, -1001 it may not be (/proc/sys/kernel/perf_event_paranoid), -1022 it is older than Linux 5.13,
   -1002, -1095 this machine has none. */
int heapledger_watch(const void *address, unsigned bytes);

/* Ends a watch. How many writes there were, if they were survived; HEAPLEDGER_E_UNKNOWN. */
int heapledger_unwatch(int watch);

/* What the C library says of its heap (mallinfo2), beside what the ledger knows: what blocks cost, and how much is free. It waits for
   the locks of the heap: not in a signal handler. `heap->size` has to be sizeof(struct heapledger_c_heap). */
int heapledger_heap_info(struct heapledger_c_heap *heap);

/* ---- Moments and labels ---- */

/* Names this moment: `heapledger dump --since NAME` shows what was allocated after it, by whichever thread. */
int heapledger_mark(const char *name);

/* The same of what the calling thread does; costs other threads nothing. */
int heapledger_mark_thread(const char *name);

/* A part of the program begins. Gives its number. */
int heapledger_scope_begin(const char *name);

/* It ends. */
int heapledger_scope_end(int scope);

/* The number of a label inside of another one (0: of none). The same key and value have the same number. */
int heapledger_label(int parent, const char *key, const char *value);

/* What the calling thread allocates from now on has this label, and those around it; 0: none. Gives the label that was
   in force, to be set again after that. */
int heapledger_label_set(int label);

/* The label of the calling thread; 0: none. */
int heapledger_label_now(void);

/* ---- Trace windows: what was allocated between two moments ---- */

/* Opens one: HEAPLEDGER_ALL or HEAPLEDGER_LEAKS, of the calling thread only if the last argument is not 0. Gives its
   number. `heapledger dump --window NAME` shows it. With `| HEAPLEDGER_WHOLE_FREES` stacks of frees are whole until it is stopped, those of all
   threads, whatever `run --free-depth` says. */
int heapledger_window_open(const char *name, int mode, int of_own_thread);

/* What is allocated from now on is not in it. */
int heapledger_window_pause(int window);

/* It is in it again. */
int heapledger_window_resume(int window);

/* It is over. */
int heapledger_window_stop(int window);

/* What it has seen. `figures->size` has to be sizeof(struct heapledger_figures). */
int heapledger_window_figures(int window, struct heapledger_figures *figures);

/* ---- Call stacks, without any recording ---- */

/* The stack of the caller, whose frame is the first; leaves out so many of the innermost. Stores up to `room` addresses
   behind calls and gives how many. Needs no frame pointers, allocates nothing, works anywhere. */
size_t heapledger_backtrace(void **frames, size_t room, size_t without);

/* The stack that a signal has interrupted: the third argument of a handler with SA_SIGINFO. */
size_t heapledger_backtrace_of(const void *context, void **frames, size_t room, size_t without);

/* Keeps a stack in the ledger. Gives its number; the same stack has the same one. */
int heapledger_stack_put(void *const *frames, size_t count);

/* The stack of a number: stores up to `room` frames and gives how many there are. */
int heapledger_stack_get(int stack, void **frames, size_t room);

/* ---- Allocators of the program's own: pools, arenas, whatever does not come from malloc block by block ---- */

/* Such an allocator begins. Gives the number of its heap, of which there can be some 250. NULL and 0: where its memory
   lies is not known. Capabilities are the program's affair: bits by which heaps are chosen. A range may lie outside of others, up
   to their edge, or be a part of one; else HEAPLEDGER_E_OVERLAPS. */
int heapledger_heap_begin(const char *name, const void *first, size_t bytes, unsigned capabilities);

/* It is gone. Its row stays, and blocks that are still in it; they can be given back, and no more begin there. */
int heapledger_heap_end(int heap);

/* It has given a block. By which function: one of enum heapledger_kinds, 0 for a pool. Its stack is the caller's. HEAPLEDGER_E_UNKNOWN:
   heapledger_heap_begin gave no such number, or that heap is gone; nothing is entered. (0, say, can be a heap of malloc's own, of which nobody
   has to tell.) */
int heapledger_allocated(int heap, const void *block, size_t bytes, int kind);

/* It is about to take one back: called before another thread can get it. */
int heapledger_freed(const void *block, int kind);

/* It is about to resize one. Always followed by: */
int heapledger_resizing(const void *block, struct heapledger_resize *kept);

/* It has; NULL: it could not, and the block is as it was. So it is in the ledger, too, where the answer is below 0. */
int heapledger_resized(struct heapledger_resize *kept, int heap, const void *block, size_t bytes, int kind);

/* It had no block of so many bytes (alignment 0: of any). `heapledger errors` shows it. HEAPLEDGER_E_UNKNOWN: as above. */
int heapledger_refused(int heap, size_t bytes, size_t alignment, int kind);

/* ---- Programs that record themselves: linked with heapledger, and not under `heapledger run`, which decides alone ---- */

/* Recording begins, once in a process. The options go before those of heapledger_options; NULL: these alone. HEAPLEDGER_E_NOT_SO: it has
   begun, or was, and is over. */
int heapledger_start(const char *options);

/* It ends, for good; the ledger tells readers. What becomes of that happens at exit. HEAPLEDGER_E_NOT_SO: under `heapledger run`. */
int heapledger_stop(void);

/* The same, and the ledger is removed now, whether it has ended before or not. */
int heapledger_discard(void);

/* ---- What heaps have: those that the program has told of, and what is told of their blocks ---- */

/* What a heap's allocator takes beside what it is asked for, so that what is free is known to the byte. Said before its first
   block, and once (else HEAPLEDGER_E_NOT_SO). Without it, what the allocator takes counts as free. */
int heapledger_heap_shape(int heap, const struct heapledger_shape *shape);

/* What a heap has; HEAPLEDGER_C_HEAP: that of the C library, by mallinfo2 and the ledger, not in a signal handler.
   `figures->size` has to be sizeof(struct heapledger_heap). It looks at each block: the time grows with the range. */
int heapledger_heap_figures(int heap, struct heapledger_heap *figures);

/* The same of all heaps that have all of these capabilities (0: of all), without the C library's. */
int heapledger_heaps_figures(unsigned capabilities, struct heapledger_heap *figures);

/* minimum_free_bytes counts from now on, in each heap; again: anew. */
int heapledger_minimum_watch_start(void);

/* It counts from the beginning of each heap again. HEAPLEDGER_E_NOT_SO: it did. */
int heapledger_minimum_watch_stop(void);

/* Tells of all blocks and gaps of a heap in the order of their addresses, until told to stop. No lock is held: the function may
   do what it likes. Of a heap without a range, and of the C library's, only of blocks, in no order. */
int heapledger_heap_walk(int heap, heapledger_walk each, void *user);

/* The same of each heap that has all of these capabilities; told to stop, it goes on with the next heap. */
int heapledger_heaps_walk(unsigned capabilities, heapledger_walk each, void *user);

/* The block in which an address lies, its first or any: of the innermost heap that has one there, else of the C library's.
   `block->size` has to be sizeof(struct heapledger_block). HEAPLEDGER_E_UNKNOWN: there is none. */
int heapledger_block_at(const void *address, struct heapledger_block *block);

/* Prints what heaps have that have all of these capabilities. NULL: to the standard output, past what stdio keeps back. */
int heapledger_heaps_print(unsigned capabilities, const struct heapledger_output *output);

/* Prints all their blocks and gaps. */
int heapledger_heaps_dump(unsigned capabilities, const struct heapledger_output *output);

/* ---- Functions of the program that are told of its calls ----
   They are called by the thread whose call it is, on its stack, outside of the recorder. What they allocate themselves is recorded, and
   told to nobody; errno is kept for them. (What they change has to be volatile, or atomic: compilers take it for granted that malloc
   changes no variable of the program's.) There can be 32 at the same time. As long as there is one, each call costs more. A hook may
   register and end hooks; it may not free the block that it is just told of. (If a signal handler on a
   stack of its own interrupts it and tells of blocks, it can be told of what it allocates itself after that.) What comes from shared libraries is told as well. Each
   of the first six gives a number. */

/* Called for each block that was given, when it is in the ledger. A resized one was taken back before, and is given then. */
int heapledger_on_alloc(heapledger_hook function, void *data);

/* Called for each block that is about to be given back, or resized, before its memory can be another thread's. */
int heapledger_on_free(heapledger_hook function, void *data);

/* Called for each call that gave no block. heapledger_backtrace() gives its stack. */
int heapledger_on_refused(heapledger_hook function, void *data);

/* Called for each request of more than so many bytes, when it was granted or refused. */
int heapledger_on_request_above(size_t bytes, heapledger_hook function, void *data);

/* Called when live bytes have risen above a limit; and again only when they have been at `again_at`, or below, meanwhile. Live bytes are
   those of the ledger at this moment, and what follows. Without a function only heapledger_break_threshold() is called, which does
   nothing: for a debugger to break on. */
int heapledger_on_live_above(size_t bytes, size_t again_at, heapledger_hook function, void *data);

/* Called when the history of frees has begun to overwrite its oldest entries, and whenever as many more have come as it holds.
   heapledger_break_overflow() is called at that moment even without this. */
int heapledger_on_overflow(heapledger_hook function, void *data);

/* It is called no longer. Calls of it that are under way in other threads may not have come back yet. */
int heapledger_hook_end(int hook);

/* How often it was called. */
heapledger_u64 heapledger_hook_calls(int hook);

/* It is called no longer; its number stays. How many calls of it have not come back yet: ask until there are none, before its code goes. */
int heapledger_hook_running(int hook);

/* What hooks were not told since the program began, and what was odd about them. */
int heapledger_hook_figures(struct heapledger_hook_sums *figures);

/* Not 0: when a call gives no block, and all have been told, a line on standard error says so ("Mem alloc fail. size 0x... caps 0x..."), and
   the program ends by abort(). Gives what was so before. heapledger_break_refused() is called for each such call even without this. */
int heapledger_abort_when_refused(int is_to);

/* ---- Traces: exact books of a while, in memory of the program's own ----
   Each block that is allocated while a trace runs becomes a record in the caller's buffer; nothing else is allocated for it. If there is
   no room, the record that was freed first goes, and if none is freed the oldest one: that is counted. There can be eight at the same
   time. As long as there is one, each call takes a lock, and a stack if it has a depth. (A trace window, above, costs nothing.) */

/* How many words (of sizeof(size_t)) a buffer for so many records has. 0: the options cannot be. */
size_t heapledger_trace_words(size_t records, const struct heapledger_trace_options *options);

/* Begins one, which runs. It has the buffer until heapledger_trace_end. Gives its number. */
int heapledger_trace_start(size_t *buffer, size_t words, const struct heapledger_trace_options *options);

/* No block becomes a record from now on; frees of those that are one are noted. */
int heapledger_trace_pause(int trace);

/* It runs again, after a pause or a stop. */
int heapledger_trace_resume(int trace);

/* Nothing changes any more; what is freed meanwhile is not noted. */
int heapledger_trace_stop(int trace);

/* It begins anew in the same buffer: without records, all figures 0. */
int heapledger_trace_restart(int trace);

/* It is over, and its buffer the caller's again. */
int heapledger_trace_end(int trace);

/* How many records it has. */
int heapledger_trace_count(int trace);

/* A record by its index: 0 is the oldest one. HEAPLEDGER_E_UNKNOWN: there are fewer. */
int heapledger_trace_get(int trace, size_t index, struct heapledger_trace_record *record);

/* What it has seen. */
int heapledger_trace_figures(int trace, struct heapledger_trace_sums *figures);

/* Writes it as text, in the form of ESP-IDF's heap_trace_dump, line by line. Blocks in memory with one of these capabilities
   (HEAPLEDGER_CAP_INTERNAL, HEAPLEDGER_CAP_SPIRAM); what the C library gives is internal; ~0u: all of them. NULL: to the standard output. */
int heapledger_trace_dump(int trace, unsigned capabilities, const struct heapledger_output *output);

/* ---- Regions: what was allocated from one moment to another ---- */

/* Begins one: of the calling thread only, if the argument is not 0. Gives its number. As long as there is one, each call costs more. */
int heapledger_region_begin(int of_own_thread);

/* What was allocated in it until now. One of a thread can be asked by that thread only. */
int heapledger_region_figures(int region, struct heapledger_region_sums *figures);

/* It is over. */
int heapledger_region_end(int region);

/* ---- Calls that fail on purpose, to see what the program does then ---- */

/* From now on calls of malloc and its like fail by a rule, of the calling thread only if so said, and only if they come from this
   function, however deep, if it is not NULL. Operators of C++ throw. Gives a number. */
int heapledger_fail(int rule, size_t n, int of_own_thread, const void *within);

/* How many calls it was asked about until now. */
heapledger_u64 heapledger_fail_calls(int fault);

/* How many of them failed by it. */
heapledger_u64 heapledger_fail_failed(int fault);

/* They fail no longer. */
int heapledger_fail_end(int fault);

/* ---- What threads hold: each with the heaps that it holds something of, and its live blocks there ---- */

/* Fills the arrays with all threads, in the order in which they were first seen, those that are gone too. What finds no room is left
   out as a whole: a task, the heaps of one, the blocks of a heap. Counts of 0 (and NULL): only how many there are. Last comes what
   belongs to no thread, "Pre-scheduler", if there is any. `tasks->size` has to be sizeof(struct heapledger_tasks). It looks at all
   blocks, and holds no lock. */
int heapledger_all_tasks(struct heapledger_tasks *tasks);

/* The same of one: by its gettid(), HEAPLEDGER_THIS_TASK or HEAPLEDGER_PRE_SCHEDULER. HEAPLEDGER_E_UNKNOWN: there is none. */
int heapledger_one_task(unsigned id, struct heapledger_tasks *task);

/* Prints a tree of threads, heaps and blocks. NULL: to the standard output, past what stdio keeps back. */
int heapledger_all_tasks_print(unsigned options, const struct heapledger_output *output);

/* The same of one thread. */
int heapledger_one_task_print(unsigned id, const struct heapledger_output *output);

/* Prints a table of threads. */
int heapledger_all_tasks_overview(unsigned options, const struct heapledger_output *output);

/* The same of one thread. */
int heapledger_one_task_overview(unsigned id, const struct heapledger_output *output);

/* Writes a line for each live block, oldest first, and gives how many: `~m#...`, a compressed backtrace of libwebsockets with the block's size,
   or, with HEAPLEDGER_LINES_PLAIN, `~b#size: ...` in words. `heapledger decode`, `heapmap` and all commands that read logs read them. With
   HEAPLEDGER_LINES_OF_PROGRAM frames are those of the program's own file, by their addresses in it, which fit into libwebsockets' format, and
   `--exe FILE` names them wherever the program lies; without it, what does not fit is in an extension that libwebsockets' tool refuses.
   Blocks are gathered before the first is written, in memory that malloc knows nothing of; no lock is held. A function may be given parts
   of lines. NULL: to the standard output, past what stdio keeps back. */
int heapledger_live_lines(unsigned options, const struct heapledger_output *output);

/* Totals of threads by classes of heaps, and their blocks: gives how many of these it has stored. `info->size` has to be
   sizeof(struct heapledger_task_info). */
int heapledger_task_totals(struct heapledger_task_info *info);

#endif

/* Arrays from malloc for what there is, where HEAPLEDGER_STDLIB is defined: they are blocks of the calling thread themselves. */
#ifdef HEAPLEDGER_STDLIB
#ifdef __GNUC__
__attribute__((unused))
#endif
static void heapledger_tasks_free(struct heapledger_tasks *tasks) {
    free((void *)tasks->tasks);
    free((void *)tasks->heaps);
    free((void *)tasks->allocations);
    tasks->tasks = NULL;
    tasks->heaps = NULL;
    tasks->allocations = NULL;
    tasks->task_count = tasks->heap_count = tasks->allocation_count = 0;
}

static int heapledger_tasks_alloc_(struct heapledger_tasks *tasks, unsigned options, int is_all) {
    /* Others go on meanwhile, and the arrays are blocks: the calling task has a heap then. */
    size_t more = 16;
    tasks->size = sizeof *tasks;
    tasks->options = options;
    tasks->spare = 0;
    tasks->task_count = tasks->tasks_there + more;
    tasks->heap_count = tasks->heaps_there || is_all ? tasks->heaps_there + more : 0;
    tasks->allocation_count = tasks->allocations_there ? tasks->allocations_there + more : 0;
    tasks->tasks = (struct heapledger_task *)malloc(tasks->task_count * sizeof *tasks->tasks);
    tasks->heaps = tasks->heap_count ? (struct heapledger_task_heap *)malloc(tasks->heap_count * sizeof *tasks->heaps) : NULL;
    tasks->allocations = tasks->allocation_count ? (struct heapledger_task_allocation *)malloc(tasks->allocation_count * sizeof *tasks->allocations) : NULL;
    if (!tasks->tasks || (tasks->heap_count && !tasks->heaps) || (tasks->allocation_count && !tasks->allocations)) {
        heapledger_tasks_free(tasks);
        return HEAPLEDGER_E_NO_ROOM;
    }
    return 0;
}

static void heapledger_tasks_none_(struct heapledger_tasks *tasks, unsigned options) {
    struct heapledger_tasks none = {sizeof(struct heapledger_tasks), 0, 0, 0, NULL, 0, NULL, 0, NULL, 0, 0, 0};
    *tasks = none;
    tasks->options = options;
}

/* As heapledger_all_tasks(), in arrays that heapledger_tasks_free() frees. */
#ifdef __GNUC__
__attribute__((unused))
#endif
static int heapledger_all_tasks_alloc(struct heapledger_tasks *tasks, unsigned options) {
    int done;
    heapledger_tasks_none_(tasks, options);
    done = heapledger_all_tasks(tasks);
    if (done == 0) done = heapledger_tasks_alloc_(tasks, options, 1);
    return done == 0 ? heapledger_all_tasks(tasks) : done;
}

/* As heapledger_one_task(), the same. */
#ifdef __GNUC__
__attribute__((unused))
#endif
static int heapledger_one_task_alloc(unsigned id, struct heapledger_tasks *task) {
    int done;
    heapledger_tasks_none_(task, 0);
    done = heapledger_one_task(id, task);
    if (done == 0) done = heapledger_tasks_alloc_(task, 0, 0);
    return done == 0 ? heapledger_one_task(id, task) : done;
}
#endif

/* An output to a stream of stdio, where HEAPLEDGER_STDIO is defined. */
#ifdef HEAPLEDGER_STDIO
static int heapledger_write_file(void *file, const char *text, size_t bytes) {
    return fwrite(text, 1, bytes, (FILE *)file) == bytes ? 0 : -1;
}

#ifdef __GNUC__
__attribute__((unused))
#endif
static struct heapledger_output heapledger_file(FILE *file) {
    struct heapledger_output output;
    output.size = sizeof output;
    output.write = heapledger_write_file;
    output.to = file;
    output.descriptor = -1;
    return output;
}
#endif

/* In one file of a program, where HEAPLEDGER_HOOKS is defined: the program defines one of these functions, or both, and what it defines is
   called for each block, as by heapledger_on_alloc() and heapledger_on_free(). They are registered before main() begins. */
#if defined(HEAPLEDGER_HOOKS) && defined(__GNUC__)
extern void heapledger_alloc_hook(const struct heapledger_event *event) __attribute__((weak));
extern void heapledger_free_hook(const struct heapledger_event *event) __attribute__((weak));
static void heapledger_gave_(const struct heapledger_event *event, void *data) {
    (void)data;
    heapledger_alloc_hook(event);
}
static void heapledger_takes_(const struct heapledger_event *event, void *data) {
    (void)data;
    heapledger_free_hook(event);
}
static void __attribute__((constructor, used)) heapledger_registers_(void) {
    if (heapledger_alloc_hook) heapledger_on_alloc(heapledger_gave_, NULL);
    if (heapledger_free_hook) heapledger_on_free(heapledger_takes_, NULL);
}
#endif

/* Whether the functions are there: under `heapledger run`. */
#define HEAPLEDGER_PRESENT() (heapledger_api_version() != 0)

#ifdef __cplusplus
}
#endif

#endif
