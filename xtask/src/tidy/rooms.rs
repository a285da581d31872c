//! `unsafe` in crates that live in a program: in rooms that ARCHITECTURE.md names, each with its reason, and nowhere else.

use std::collections::BTreeMap;

use super::{Breach, Tree};

const MAP: &str = "ARCHITECTURE.md";
/// The heading of the table of rooms.
const HEADING: &str = "## Rooms with `unsafe`";
/// Crates that live in a program.
const INSIDE: &[&str] = &[
    "format",
    "unwind",
    "linux",
    "recorder",
    "guard",
    "process",
    "watch",
    "api",
    "preload",
    "calls",
    "heapledger",
    "firmware",
];
const FORBIDS: &str = "#![forbid(unsafe_code)]";

/// The rows of the table: paths, and what is said of each.
fn named(tree: &Tree) -> BTreeMap<&str, &str> {
    let text = tree.text(MAP).unwrap_or_default();
    let table = text.split_once(HEADING).map_or("", |(_, rest)| rest.split("\n## ").next().unwrap_or_default());
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    rows.map(|(path, why)| (path, why.trim_matches([' ', '|']))).collect()
}

/// Whether a file needs leave: assembly beside functions counts, as it does for the compiler, and what a macro makes of a list.
fn needs_leave(text: &str) -> bool {
    if ["\nhooked! {", "\njudged! {"].iter().any(|list| text.contains(list)) {
        return true;
    }
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let mut words = code.flat_map(|line| line.split(|letter: char| !letter.is_alphanumeric() && letter != '_'));
    words.any(|word| word == "unsafe" || word == "global_asm")
}

/// Every file of these crates is a room of the table, and has its reason, or forbids `unsafe`.
pub(super) fn of_unsafe(tree: &Tree) -> Vec<Breach> {
    let breach = |what: &str, why: &str| Breach { rule: "rooms", what: what.to_owned(), why: why.to_owned() };
    let named = named(tree);
    let mut breaches = Vec::new();
    for name in INSIDE {
        let root = format!("crates/{name}/src/lib.rs");
        let all_forbid = tree.text(&root).is_some_and(|text| text.contains(FORBIDS));
        for (path, text) in tree.product(name) {
            match named.get(path).copied() {
                Some("") => breaches.push(breach(path, "the table of rooms does not say why")),
                Some(_) if !needs_leave(text) => breaches.push(breach(path, "it is a room without need")),
                Some(_) => {}
                None if needs_leave(text) => breaches.push(breach(path, "`unsafe`, and it is no room of the table")),
                None if !all_forbid && path != root && !text.contains(FORBIDS) => {
                    breaches.push(breach(path, "it does not forbid `unsafe`"));
                }
                None => {}
            }
        }
    }
    for path in named.keys().filter(|path| tree.text(path).is_none()) {
        breaches.push(breach(path, "a room that is not there"));
    }
    breaches
}

/// What keeps code that lives in a program from a panic.
const PANICS: &[&str] =
    &["indexing_slicing", "arithmetic_side_effects", "unwrap_used", "expect_used", "panic", "unreachable"];

/// Every one of these crates denies what could panic.
pub(super) fn of_panics(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for name in INSIDE {
        let path = format!("crates/{name}/src/lib.rs");
        let Some(denied) = tree.text(&path).map(denied) else { continue };
        for lint in PANICS.iter().filter(|lint| !denied.contains(*lint)) {
            let why = format!("crates/{name} does not deny it");
            breaches.push(Breach { rule: "panics", what: format!("{name} {lint}"), why });
        }
    }
    breaches
}

/// The lints of clippy's that a crate denies but for its tests.
fn denied(root: &str) -> Vec<&str> {
    let list = root.split_once("deny(").and_then(|(_, rest)| rest.split_once(')')).map_or("", |(list, _)| list);
    list.split(',').filter_map(|lint| lint.trim().strip_prefix("clippy::")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_outside_of_a_room_is_found() {
        let map =
            "## Rooms with `unsafe`\n\n| file | why |\n|---|---|\n| `crates/process/src/a.rs` | memory |\n\n## More\n";
        let files = [
            ("ARCHITECTURE.md", map),
            ("crates/process/src/lib.rs", "//! Root.\nmod a;\n"),
            ("crates/process/src/a.rs", "fn a() { unsafe { b() } }\n#[cfg(test)]\nmod tests {}\n"),
            ("crates/process/src/b.rs", "#![forbid(unsafe_code)]\n// Nothing unsafe.\n"),
            ("crates/recorder/src/lib.rs", "#![forbid(unsafe_code)]\n"),
            ("crates/recorder/src/c.rs", "fn c() {}\n"),
            ("crates/source/src/d.rs", "unsafe fn d() {}\n"),
        ];
        assert_eq!(of_unsafe(&Tree::of(&files)), []);
        let found = |path: &str, text: &str| {
            let mut tree = Tree::of(&files);
            tree.0.insert(path.to_owned(), text.to_owned());
            of_unsafe(&tree).into_iter().map(|breach| (breach.what, breach.why)).collect::<Vec<_>>()
        };
        let one = |path: &str, why: &str| vec![(path.to_owned(), why.to_owned())];
        let (a, b) = ("crates/process/src/a.rs", "crates/process/src/b.rs");
        assert_eq!(found(b, "unsafe fn b() {}"), one(b, "`unsafe`, and it is no room of the table"));
        assert_eq!(found(b, "global_asm!(\"\");"), one(b, "`unsafe`, and it is no room of the table"));
        assert_eq!(found(b, "fn b() {}"), one(b, "it does not forbid `unsafe`"));
        assert_eq!(found(a, FORBIDS), one(a, "it is a room without need"));
        assert_eq!(found("ARCHITECTURE.md", &map.replace("memory", "")), one(a, "the table of rooms does not say why"));
        let gone = map.replace("\n\n## More", "\n| `crates/process/src/z.rs` | why |\n\n## More");
        assert_eq!(found("ARCHITECTURE.md", &gone), one("crates/process/src/z.rs", "a room that is not there"));
    }

    #[test]
    fn a_crate_that_may_panic_is_found() {
        let all: Vec<String> = PANICS.iter().map(|lint| format!("clippy::{lint}")).collect();
        let root = |lints: &[String]| format!("#![cfg_attr(\n    not(test),\n    deny({})\n)]\n", lints.join(",\n"));
        let breaches = |text: &str| of_panics(&Tree::of(&[("crates/linux/src/lib.rs", text)]));
        assert_eq!(breaches(&root(&all)), []);
        let found = breaches(&root(&all[1..]));
        assert_eq!(found.iter().map(|breach| breach.what.as_str()).collect::<Vec<_>>(), ["linux indexing_slicing"]);
    }
}
