//! Where things are: every directory is on the map, every file says in its first line what it is for.

use std::collections::BTreeSet;

use super::{Breach, Tree};

const MAP: &str = "ARCHITECTURE.md";

/// Directories in which files are, but for those that have tests of the file beside them only.
fn directories(tree: &Tree) -> BTreeSet<&str> {
    let files = tree.0.keys().filter(|path| !path.ends_with("/tests.rs"));
    files.filter_map(|path| Some(path.rsplit_once('/')?.0)).filter(|path| !path.starts_with('.')).collect()
}

/// Every directory is named on the map, between backticks: `crates/*/tests` are those of all crates.
pub(super) fn on_the_map(tree: &Tree) -> Vec<Breach> {
    let map = tree.text(MAP).unwrap_or_default();
    let of_all = |path: &str| match path.split('/').collect::<Vec<_>>()[..] {
        ["crates", _, inside] => format!("crates/*/{inside}"),
        _ => path.to_owned(),
    };
    let is_named = |path: &str| [path, &of_all(path)].iter().any(|path| map.contains(&format!("`{path}`")));
    let mut breaches = Vec::new();
    for path in directories(tree) {
        // Folders of crates have a manifest only; what is planted for a test is named by the test.
        let has_manifest = tree.0.contains_key(&format!("{path}/Cargo.toml"));
        let is_data = path.contains("/tests/") || path.starts_with("victims/");
        if path != "crates" && !has_manifest && !is_data && !is_named(path) {
            let why = format!("{MAP} does not name this directory");
            breaches.push(Breach { rule: "map", what: path.to_owned(), why });
        }
    }
    for word in map.split('`').skip(1).step_by(2).filter(|word| word.starts_with("crates/") && !word.contains('*')) {
        let there = tree.0.keys().any(|path| path == word || path.starts_with(&format!("{word}/")));
        if !there {
            let why = format!("{MAP} names it, and there is no such thing");
            breaches.push(Breach { rule: "map", what: word.to_owned(), why });
        }
    }
    breaches
}

/// Every file of Rust begins with `//!`.
pub(super) fn first_lines(tree: &Tree) -> Vec<Breach> {
    let lacks = |text: &str| !text.starts_with("//! ");
    let files = tree.files("", ".rs").filter(|(_, text)| lacks(text));
    files
        .map(|(path, _)| Breach {
            rule: "first-line",
            what: path.to_owned(),
            why: "it does not begin with `//!` and what it is for".to_owned(),
        })
        .collect()
}

/// Every directory with its files, each with the first sentence that it says of itself.
pub(super) fn map(tree: &Tree) -> String {
    let mut files: Vec<(&str, &str, &str)> = tree
        .files("", ".rs")
        .filter_map(|(path, text)| path.rsplit_once('/').map(|(directory, file)| (directory, file, text)))
        .collect();
    files.sort_unstable();
    let mut out = String::new();
    let mut last = "";
    for (directory, file, text) in files {
        if directory != last {
            last = directory;
            out += &format!("\n{directory}\n");
        }
        let lines = text.lines().map_while(|line| line.strip_prefix("//! "));
        let said = lines.collect::<Vec<_>>().join(" ");
        let sentence = said.split_inclusive(['.', ':']).next().unwrap_or_default();
        out += &format!("  {file:<24} {}\n", sentence.trim_end_matches(['.', ':']));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_not_on_the_map_is_found() {
        let files = [("ARCHITECTURE.md", "`crates/a/src` and\n`crates/a/src/b`"), ("crates/a/Cargo.toml", "")];
        let mut tree = Tree::of(&files);
        tree.0.insert("crates/a/src/b/c.rs".to_owned(), String::new());
        tree.0.insert("crates/a/src/lib.rs".to_owned(), String::new());
        assert_eq!(on_the_map(&tree), []);
        tree.0.insert("crates/a/src/new/c.rs".to_owned(), String::new());
        assert_eq!(on_the_map(&tree)[0].what, "crates/a/src/new");
        let gone = Tree::of(&[("ARCHITECTURE.md", "`crates/a/src`")]);
        assert_eq!(on_the_map(&gone)[0].what, "crates/a/src");
    }

    #[test]
    fn a_file_that_says_nothing_of_itself_is_found() {
        let tree = Tree::of(&[("a/b.rs", "//! What it is.\n//! More.\n\nuse x;\n"), ("a/c.rs", "use x;\n")]);
        assert_eq!(first_lines(&tree).iter().map(|breach| breach.what.as_str()).collect::<Vec<_>>(), ["a/c.rs"]);
        assert!(map(&tree).starts_with("\na\n  b.rs                     What it is\n"));
    }
}
