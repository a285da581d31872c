//! What `docs` say of the functions of others: each of theirs has a row, and each test that a row names is there.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::fs;
use std::path::{Path, PathBuf};

const ESP_IDF: &str = include_str!("../../../docs/esp-idf.md");
const OTHERS: &str = include_str!("../../../docs/ecos-libwebsockets.md");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What ESP-IDF's page on heap debugging and its headers name.
const OF_ESP_IDF: &[&str] = &[
    "heap_caps_malloc",
    "heap_caps_calloc",
    "heap_caps_realloc",
    "heap_caps_free",
    "heap_caps_aligned_alloc",
    "heap_caps_malloc_prefer",
    "heap_caps_get_total_size",
    "heap_caps_get_free_size",
    "heap_caps_get_minimum_free_size",
    "heap_caps_get_largest_free_block",
    "heap_caps_get_info",
    "multi_heap_info_t",
    "heap_caps_print_heap_info",
    "heap_caps_dump",
    "heap_caps_dump_all",
    "heap_caps_get_allocated_size",
    "heap_caps_get_containing_block_size",
    "heap_caps_walk",
    "heap_caps_walk_all",
    "heap_caps_monitor_local_minimum_free_size_start",
    "heap_caps_monitor_local_minimum_free_size_stop",
    "heap_caps_add_region",
    "heap_caps_add_region_with_caps",
    "esp_get_free_heap_size",
    "esp_get_free_internal_heap_size",
    "esp_get_minimum_free_heap_size",
    "heap_caps_check_integrity",
    "heap_caps_check_integrity_all",
    "heap_caps_check_integrity_addr",
    "CONFIG_HEAP_CORRUPTION_DETECTION",
    "esp_cpu_set_watchpoint",
    "esp_heap_trace_alloc_hook",
    "esp_heap_trace_free_hook",
    "CONFIG_HEAP_USE_HOOKS",
    "heap_caps_register_failed_alloc_callback",
    "CONFIG_HEAP_ABORT_WHEN_ALLOCATION_FAILS",
    "heap_caps_get_per_task_info",
    "heap_caps_get_all_task_stat",
    "heap_caps_get_single_task_stat",
    "heap_caps_print_all_task_stat",
    "heap_caps_print_single_task_stat",
    "heap_caps_print_all_task_stat_overview",
    "heap_caps_print_single_task_stat_overview",
    "heap_caps_alloc_all_task_stat_arrays",
    "heap_caps_alloc_single_task_stat_arrays",
    "heap_caps_free_all_task_stat_arrays",
    "heap_caps_free_single_task_stat_arrays",
    "CONFIG_HEAP_TASK_TRACKING",
    "CONFIG_HEAP_TRACK_DELETED_TASKS",
    "heap_trace_init_standalone",
    "heap_trace_init_tohost",
    "heap_trace_start",
    "heap_trace_stop",
    "heap_trace_resume",
    "heap_trace_alloc_pause",
    "heap_trace_get_count",
    "heap_trace_get",
    "heap_trace_dump",
    "heap_trace_dump_caps",
    "heap_trace_summary",
    "heap_trace_record_t",
    "HEAP_TRACE_ALL",
    "HEAP_TRACE_LEAKS",
    "CONFIG_HEAP_TRACING_DEST",
    "CONFIG_HEAP_TRACING_STACK_DEPTH",
    "CONFIG_HEAP_TRACE_HASH_MAP",
    "CONFIG_HEAP_TRACE_HASH_MAP_SIZE",
    "CONFIG_HEAP_TRACE_HASH_MAP_IN_EXT_RAM",
    "sysviewtrace_proc.py",
];

/// What eCos' page on memory debug data names, and libwebsockets' on call stacks and metadata.
const OF_OTHERS: &[&str] = &[
    "mdd_dump",
    "mdd_dumpnow",
    "mdd_reset",
    "ecosmdd stats",
    "dump",
    "history",
    "diff",
    "cyg_memalloc_dd_done",
    "cyg_memalloc_dd_history_overflow",
    "mallinfo",
    "CYGDBG_MEMALLOC_DEBUG_DEBUGDATA",
    "CYGDBG_MEMALLOC_DEBUG_DEBUGDATA_ACTUAL_SIZE",
    "CYGDBG_MEMALLOC_DEBUG_DEBUGDATA_BACKTRACE",
    "CYGDBG_MEMALLOC_DEBUG_DEBUGDATA_THREAD",
    "CYGDBG_MEMALLOC_DEBUG_DEBUGDATA_TIMESTAMP",
    "CYGDBG_MEMALLOC_DEBUG_DEBUGDATA_HISTORY",
    "CYGDBG_MEMALLOC_DEBUG_DEBUGDATA_HISTORY_RECORDS",
    "CYGFUN_MEMALLOC_MALLOC_CXX_OPERATORS",
    "mddout.0",
    "lws_backtrace",
    "lws_backtrace_compression_",
    "LWS_WITH_COMPRESSED_BACKTRACES",
    "LWS_COMPRESSED_BACKTRACES_SNIP_PRE",
    "LWS_COMPRESSED_BACKTRACES_SNIP_POST",
    "LWS_WITH_ALLOC_METADATA_LWS",
    "lws_alloc_metadata_gen",
    "_lws_alloc_metadata_adjust",
    "_lws_alloc_metadata_trim",
    "lws_alloc_metadata_parse",
    "_lws_alloc_metadata_dump",
    "lws_alloc_metadata_dump_stdout",
    "_lws_alloc_metadata_dump_lws",
];

/// The rows of tables that end in tests: theirs, and the tests.
fn rows(document: &str) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    for line in document.lines().filter(|line| line.starts_with("| ") && !line.contains("| test |")) {
        // A bar within a word of code is none of the table's.
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if let [theirs, .., tests] = &cells[..] {
            rows.push(((*theirs).to_owned(), (*tests).to_owned()));
        }
    }
    rows
}

/// Words in backticks.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn each_name_of_theirs_has_a_row_with_a_test() {
    for (document, names) in [(ESP_IDF, OF_ESP_IDF), (OTHERS, OF_OTHERS)] {
        let rows = rows(document);
        assert!(rows.len() > 15, "{} rows", rows.len());
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for name in names {
            let has = |theirs: &str| {
                words(theirs).any(|word| {
                    word.match_indices(name).any(|(at, _)| {
                        let around = [word[..at].chars().next_back(), word[at + name.len()..].chars().next()];
                        name.ends_with('_') || !around.into_iter().flatten().any(is_part)
                    })
                })
            };
            assert!(rows.iter().any(|(theirs, _)| has(theirs)), "no row has `{name}`");
        }
        for (theirs, tests) in &rows {
            assert!(!tests.is_empty(), "no test shows {theirs}");
        }
    }
}

/// What documents call a function of ours is one.
#[test]
fn each_name_of_ours_is_there() {
    let headers = [
        include_str!("../include/heapledger.h"),
        include_str!("../../../crates/metadata-c/include/heapledger-metadata.h"),
    ];
    let known = |name: &str| {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let breaks = heapledger_api::list::BREAKS.iter().any(|function| function.name == name);
        breaks || headers.iter().any(|header| header.split(|c| !is_name(c)).any(|word| word == name))
    };
    for document in [ESP_IDF, OTHERS, include_str!("../../../docs/c-api.md")] {
        let mut names = 0;
        for word in words(document).filter(|word| word.starts_with("heapledger_") && !word.contains('/')) {
            let name = word.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or("");
            names += 1;
            assert!(name == "heapledger_" || known(name), "there is no {name}: `{word}`");
        }
        assert!(names > 10, "{names} names");
    }
}

/// The text of all files below a directory of the repository.
fn sources(directory: &str, endings: &[&str]) -> Vec<(PathBuf, String)> {
    let mut all = Vec::new();
    let mut left = vec![root().join(directory)];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).expect("a directory").map(|entry| entry.expect("an entry").path()));
        } else if path.extension().is_some_and(|ending| endings.iter().any(|one| *one == ending)) {
            let text = fs::read_to_string(&path).expect("a text");
            all.push((path, text));
        }
    }
    all
}

#[test]
fn each_test_that_is_named_is_there() {
    let tests = sources("e2e/tests", &["rs"]);
    let programs = sources("e2e/c_api", &["c", "cc"]);
    let of_recorder = sources("crates/recorder/src", &["rs"]);
    let is_test = |word: &str| {
        let (places, name) = word.rsplit_once("::").unwrap_or((word, ""));
        let in_place = |path: &Path| {
            let path = path.with_extension("").to_string_lossy().replace("/main", "");
            places.split("::").all(|place| path.split('/').any(|part| part == place))
        };
        let defines = |text: &str| name.is_empty() || text.contains(&format!("fn {name}("));
        let last = |path: &Path| name.is_empty() || path.file_stem().is_some_and(|stem| stem == name);
        tests
            .iter()
            .chain(&of_recorder)
            .any(|(path, text)| in_place(path) && defines(text) || in_place(&path.with_file_name("")) && last(path))
    };
    let is_function = |word: &str| programs.iter().any(|(_, text)| text.contains(&format!(" {word}(")));
    for (theirs, cell) in rows(ESP_IDF).into_iter().chain(rows(OTHERS)) {
        for word in words(&cell) {
            let is_there = if word.ends_with(".rs") { root().join(word).is_file() } else { is_test(word) };
            assert!(is_there || is_function(word), "there is no test `{word}`, which is to show {theirs}");
        }
    }
}
