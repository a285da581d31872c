//! The one list of functions. What the preload library offers, the header and the table of the documentation are compared with it.
#![forbid(unsafe_code)]

use crate::{
    blocks, error, heaps, hooks, life, lines, measures, moments, recording, stacks, task_totals, tasks, traces,
    watching, windows,
};
use heapledger_process::breaks;

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// Since which version of the API.
    pub since: u32,
    /// What it does.
    pub about: &'static str,
}

macro_rules! list {
    ($(#[$doc:meta])* $list:ident: $($module:ident::$name:ident $since:literal $about:literal)*) => {
        $(#[$doc])*
        pub const $list: &[Function] =
            &[$(Function { name: stringify!($name), since: $since, about: $about }),*];

        /// Each is there.
        const _: &[fn()] = &[$(|| { let _ = $module::$name; }),*];
    };
}

list! {
    /// All of them, in the order of the header.
    FUNCTIONS:
    recording::heapledger_version 1 "the version of the recorder, as text"
    recording::heapledger_api_version 1 "the version of these functions"
    error::heapledger_error_text 1 "a sentence on an answer below 0"
    recording::heapledger_state 1 "off, paused or on"
    recording::heapledger_pause 1 "new blocks pass by; frees are entered"
    recording::heapledger_resume 1 "new blocks are entered again"
    recording::heapledger_now_ns 1 "nanoseconds since the ledger began"
    recording::heapledger_snapshot 1 "writes what the ledger holds now to a file"
    recording::heapledger_is_live 1 "whether a block is in the ledger"
    recording::heapledger_check_integrity 1 "how many guarded blocks are damaged"
    recording::heapledger_guard_level 1 "new blocks are guarded less from now on"
    recording::heapledger_free_depth 1 "how much is taken of the stacks of frees from now on"
    watching::heapledger_watch 1 "SIGTRAP to whoever writes to a few bytes"
    watching::heapledger_unwatch 1 "no longer; how often somebody did"
    recording::heapledger_heap_info 1 "what the C library says of its heap"
    moments::heapledger_mark 1 "names this moment"
    moments::heapledger_mark_thread 1 "names this moment of the calling thread"
    moments::heapledger_scope_begin 1 "a part of the program begins"
    moments::heapledger_scope_end 1 "it ends"
    moments::heapledger_label 1 "the number of a label"
    moments::heapledger_label_set 1 "labels what the calling thread allocates from now on"
    moments::heapledger_label_now 1 "the label of the calling thread"
    windows::heapledger_window_open 1 "a trace window opens"
    windows::heapledger_window_pause 1 "it pauses"
    windows::heapledger_window_resume 1 "it goes on"
    windows::heapledger_window_stop 1 "it is over"
    windows::heapledger_window_figures 1 "what it has seen"
    stacks::heapledger_backtrace 1 "the stack of the caller"
    stacks::heapledger_backtrace_of 1 "the stack that a signal has interrupted"
    stacks::heapledger_stack_put 1 "keeps a stack in the ledger, for a number"
    stacks::heapledger_stack_get 1 "the stack of a number"
    blocks::heapledger_heap_begin 1 "a heap of the program's own, with a row in the ledger"
    blocks::heapledger_heap_end 1 "it is gone"
    blocks::heapledger_allocated 1 "an allocator of the program's own has given a block"
    blocks::heapledger_freed 1 "it is about to take one back"
    blocks::heapledger_resizing 1 "it is about to resize one"
    blocks::heapledger_resized 1 "it has, or could not"
    blocks::heapledger_refused 1 "it had no block"
    life::heapledger_start 1 "recording begins, in a program that records itself"
    life::heapledger_stop 1 "it ends, for good"
    life::heapledger_discard 1 "it ends, and the ledger is removed"
    heaps::heapledger_heap_shape 1 "what a heap's allocator takes beside what it is asked for"
    heaps::heapledger_heap_figures 1 "total, used, free, largest, least of a heap"
    heaps::heapledger_heaps_figures 1 "the same of all heaps that have some capabilities"
    heaps::heapledger_minimum_watch_start 1 "the least that is free counts from now on"
    heaps::heapledger_minimum_watch_stop 1 "it counts from the beginning again"
    heaps::heapledger_heap_walk 1 "all blocks and gaps of a heap"
    heaps::heapledger_heaps_walk 1 "the same of all heaps that have some capabilities"
    heaps::heapledger_block_at 1 "the block in which an address lies"
    heaps::heapledger_heaps_print 1 "prints what heaps have"
    heaps::heapledger_heaps_dump 1 "prints all their blocks"
    hooks::heapledger_on_alloc 1 "a function is called for each block that was given"
    hooks::heapledger_on_free 1 "a function is called for each block that is about to be given back, or resized"
    hooks::heapledger_on_refused 1 "a function is called for each call that gave no block"
    hooks::heapledger_on_request_above 1 "a function is called for each request of more than so many bytes"
    hooks::heapledger_on_live_above 1 "a function is called when live bytes have risen above a limit"
    hooks::heapledger_on_overflow 1 "a function is called when the history of frees is full"
    hooks::heapledger_hook_end 1 "it is called no longer"
    hooks::heapledger_hook_calls 1 "how often it was called"
    hooks::heapledger_hook_running 1 "it is called no longer; how many calls of it are under way"
    hooks::heapledger_hook_figures 1 "what hooks were not told, and what was odd about them"
    hooks::heapledger_abort_when_refused 1 "whether the program ends when a call gives no block"
    traces::heapledger_trace_words 1 "how large a trace's buffer is to be"
    traces::heapledger_trace_start 1 "a trace begins, in a buffer of the caller's"
    traces::heapledger_trace_pause 1 "no block becomes a record; frees are noted"
    traces::heapledger_trace_resume 1 "it goes on"
    traces::heapledger_trace_stop 1 "nothing changes any more"
    traces::heapledger_trace_restart 1 "it begins anew, without records"
    traces::heapledger_trace_end 1 "it is over, and the buffer the caller's"
    traces::heapledger_trace_count 1 "how many records it has"
    traces::heapledger_trace_get 1 "one of them"
    traces::heapledger_trace_figures 1 "what it has seen"
    traces::heapledger_trace_dump 1 "all of it, as text in the form of ESP-IDF"
    measures::heapledger_region_begin 1 "measures what is allocated from now on"
    measures::heapledger_region_figures 1 "what was allocated meanwhile"
    measures::heapledger_region_end 1 "it is over"
    measures::heapledger_fail 1 "calls fail on purpose from now on"
    measures::heapledger_fail_calls 1 "how many calls it was asked about"
    measures::heapledger_fail_failed 1 "how many of them failed by it"
    measures::heapledger_fail_end 1 "they fail no longer"
    tasks::heapledger_all_tasks 1 "what all threads hold, by heaps, with their blocks"
    tasks::heapledger_one_task 1 "what one thread holds"
    tasks::heapledger_all_tasks_print 1 "prints a tree of threads, heaps and blocks"
    tasks::heapledger_one_task_print 1 "the same of one thread"
    tasks::heapledger_all_tasks_overview 1 "prints a table of threads"
    tasks::heapledger_one_task_overview 1 "the same of one thread"
    lines::heapledger_live_lines 1 "a line of libwebsockets for each live block, oldest first"
    task_totals::heapledger_task_totals 1 "what threads hold of four classes of heaps, and their blocks"
}

list! {
    /// Functions that do nothing, for a debugger to break on. The header does not declare them.
    BREAKS:
    breaks::heapledger_break_refused 1 "an empty function to break on: a call gave no block"
    breaks::heapledger_error 1 "an empty function to break on: an error was entered, or found again"
    breaks::heapledger_break_overflow 1 "an empty function to break on: the history of frees is full"
    breaks::heapledger_break_threshold 1 "an empty function to break on: live bytes have risen above a limit"
}
