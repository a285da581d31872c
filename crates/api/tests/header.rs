//! The header, the list of functions and the documentation say the same.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use heapledger_api::error::ERRORS;
use heapledger_api::heaps::KNOWN;
use heapledger_api::hooks::EVENTS;
use heapledger_api::lines::LINES;
use heapledger_api::list::{BREAKS, FUNCTIONS};
use heapledger_api::measures::RULES;
use heapledger_api::recording::{API_VERSION, GUARD_LEVELS, STATES};
use heapledger_api::tasks::KNOWN as TASK_KNOWN;
use heapledger_api::windows::MODES;
use heapledger_format::Kind;

const HEADER: &str = include_str!("../include/heapledger.h");

/// The part of the header that declares the functions, without those for programs that look for them.
fn declarations() -> &'static str {
    let rest = HEADER.split_once("\n#else\n\n/* ----").expect("the declarations").1;
    rest.split_once("\n#endif\n").expect("their end").0
}

/// Each `NAME = NUMBER` of the header that begins so, without that beginning.
fn numbers(prefix: &str) -> Vec<(String, i32)> {
    let rows = HEADER.split([',', '{', '\n']).filter_map(|row| row.trim().strip_prefix(prefix)?.split_once(" = "));
    let number = |text: &str| text.split([' ', '}']).next().expect("a word").parse().expect("a number");
    rows.map(|(name, rest)| (name.to_owned(), number(rest))).collect()
}

fn owned(rows: &[(&str, i32)]) -> Vec<(String, i32)> {
    rows.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
}

#[test]
fn it_declares_each_function_once_and_no_other() {
    let declared: Vec<_> = declarations()
        .lines()
        .filter(|line| line.ends_with(");") && !line.starts_with("/*"))
        .map(|line| {
            let name = line.split('(').next().expect("a name");
            name.rsplit([' ', '*']).next().expect("a name")
        })
        .collect();
    assert_eq!(declared, FUNCTIONS.iter().map(|function| function.name).collect::<Vec<_>>());
}

#[test]
fn programs_that_look_for_them_have_each_under_its_name() {
    for function in FUNCTIONS {
        let weak = function.name.replacen("heapledger_", "heapledger_weak_", 1);
        let name = function.name.trim_start_matches("heapledger_");
        let is_row = |line: &&str| line.starts_with("HEAPLEDGER_WEAK_(") && line.contains(&format!(", {name}, ("));
        assert_eq!(HEADER.lines().filter(is_row).count(), 1, "{name}");
        assert_eq!(HEADER.matches(&format!("#define {} {weak}\n", function.name)).count(), 1, "{name}");
    }
    assert_eq!(HEADER.matches("\nHEAPLEDGER_WEAK_(").count(), FUNCTIONS.len());
}

#[test]
fn numbers_are_ours() {
    let errors: Vec<_> = ERRORS.iter().map(|(name, number, _)| ((*name).to_owned(), *number)).collect();
    assert_eq!(numbers("HEAPLEDGER_E_"), errors);
    for (names, prefix) in [
        (STATES, "HEAPLEDGER_"),
        (GUARD_LEVELS, "HEAPLEDGER_GUARD_"),
        (MODES, "HEAPLEDGER_"),
        (KNOWN, "HEAPLEDGER_KNOWS_"),
        (EVENTS, "HEAPLEDGER_EVENT_"),
        (LINES, "HEAPLEDGER_LINES_"),
        (RULES, "HEAPLEDGER_RULE_"),
        (TASK_KNOWN, "HEAPLEDGER_TASK_KNOWS_"),
    ] {
        let known = numbers(prefix);
        assert!(owned(names).iter().all(|row| known.contains(row)), "{names:?}");
    }
    assert!(HEADER.contains(&format!("#define HEAPLEDGER_API_VERSION {API_VERSION}\n")));
    assert!(FUNCTIONS.iter().all(|function| (1..=API_VERSION).contains(&function.since)));
}

/// So a later version can tell which one it is given, whatever it adds.
#[test]
fn structures_begin_with_their_size() {
    // Elements of arrays are as the structure says that has the arrays; nobody looks into the last one.
    const OTHERS: [&str; 6] = ["task", "task_heap", "task_allocation", "task_total", "task_block", "resize"];
    let structures = HEADER.split("\nstruct heapledger_").skip(1).filter_map(|rest| rest.split_once(" {\n"));
    let without: Vec<_> = structures
        .clone()
        .filter(|(_, fields)| !fields.trim_start().starts_with("size_t size;"))
        .map(|(name, _)| name)
        .collect();
    assert!(structures.count() > 15);
    assert!(without.len() == OTHERS.len() && OTHERS.iter().all(|name| without.contains(name)), "{without:?}");
}

#[test]
fn kinds_are_those_of_the_ledger() {
    let kinds = numbers("HEAPLEDGER_KIND_");
    assert!(kinds.len() > 10 && kinds.first() == Some(&("POOL".to_owned(), 0)), "{kinds:?}");
    for (name, number) in kinds.iter().skip(1) {
        let kind = Kind(u8::try_from(*number).expect("a kind"));
        let known = kind.name().expect("a name").replace("[]", "_array").to_lowercase();
        let name = name.to_lowercase().replace("pv_port_", "pvport");
        assert_eq!(known.to_lowercase(), name, "kind {number}");
    }
}

#[test]
fn the_documentation_has_a_row_for_each() {
    let documented = include_str!("../../../docs/c-api.md");
    let rows: Vec<_> = FUNCTIONS
        .iter()
        .chain(BREAKS)
        .map(|function| format!("| `{}` | {} | {} |", function.name, function.about, function.since))
        .collect();
    assert!(documented.contains(&rows.join("\n")), "docs/c-api.md must hold these rows:\n{}", rows.join("\n"));
}

#[test]
fn the_documentation_declares_what_the_header_does() {
    let documented = include_str!("../../../docs/c-api.md");
    let declared: Vec<_> =
        documented.lines().filter(|line| line.starts_with("int heapledger_") && line.ends_with(");")).collect();
    assert!(declared.len() >= 12, "{declared:?}");
    for line in declared {
        assert!(declarations().lines().any(|there| there == line), "{line}");
    }
}
