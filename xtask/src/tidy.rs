//! `cargo xtask tidy`: the rules of the house that no compiler knows, as a test.
//!
//! Each rule is a function from the texts of the repository to its breaches, so that a small planted tree can show that
//! it finds one. What breaks a rule for the time being stands in `tidy/exceptions.txt` with a reason; an exception that
//! is needed no more is a breach itself.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::step::{Result, cargo, output, root};

mod arrows;
mod fields;
mod lengths;
pub(crate) mod links;
mod manifests;
mod names;
mod options;
mod places;
mod rooms;
mod words;

/// Texts of the repository by their paths from its root.
#[derive(Debug, Default)]
pub(crate) struct Tree(BTreeMap<String, String>);

impl Tree {
    /// All that is text and not built.
    fn read(root: &Path) -> Result<Tree> {
        let mut tree = Tree::default();
        tree.read_below(root, "")?;
        Ok(tree)
    }

    fn read_below(&mut self, root: &Path, below: &str) -> Result {
        let directory = root.join(below);
        let fail = |error: std::io::Error| format!("{}: {error}", directory.display());
        for item in std::fs::read_dir(&directory).map_err(fail)? {
            let item = item.map_err(fail)?;
            let name = item.file_name().to_string_lossy().into_owned();
            let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
            let kind = item.file_type().map_err(fail)?;
            // A link leads to what is looked at where it is.
            if kind.is_dir() && !["target", ".git"].contains(&name.as_str()) {
                self.read_below(root, &path)?;
            } else if kind.is_file() {
                // What is no text has nothing in it that is ours to judge, but it is there: pages have pictures.
                self.0.insert(path, std::fs::read_to_string(item.path()).unwrap_or_default());
            }
        }
        Ok(())
    }

    /// A planted one, for tests of rules.
    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Tree {
        Tree(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect())
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Files whose paths begin and end so.
    fn files<'a>(&'a self, begin: &'a str, end: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .filter(move |(path, _)| path.starts_with(begin) && path.ends_with(end))
    }

    /// Names of the crates in `crates`.
    fn crates(&self) -> impl Iterator<Item = &str> {
        let manifests = self.files("crates/", "/Cargo.toml");
        manifests.filter_map(|(path, _)| path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
    }

    /// The code of a crate without its tests.
    fn product<'a>(&'a self, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let begin = format!("crates/{name}/src/");
        let files = self.0.iter().filter(move |(path, _)| path.starts_with(&begin) && path.ends_with(".rs"));
        files.filter(|(path, _)| !is_test(path)).map(|(path, text)| (path.as_str(), without_tests(text)))
    }
}

/// Whether a file has tests only.
fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/") || path.ends_with("/testing.rs")
}

/// A file's text up to its tests, which stand at the end.
fn without_tests(text: &str) -> &str {
    text.find("\n#[cfg(test)]\nmod ").map_or(text, |at| &text[..at])
}

/// What breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Breach {
    /// The rule's name.
    rule: &'static str,
    /// What of the repository it is: a path, or a crate and a name. Exceptions name it.
    what: String,
    /// What is wrong.
    why: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.rule, self.what, self.why)
    }
}

type Rule = fn(&Tree) -> Vec<Breach>;

const RULES: &[Rule] = &[
    arrows::manifests,
    arrows::inside_programs,
    arrows::re_exports,
    places::on_the_map,
    places::first_lines,
    names::types,
    names::vague,
    names::modules,
    rooms::of_unsafe,
    rooms::of_panics,
    lengths::commands,
    lengths::files,
    lengths::functions,
    manifests::lints,
    manifests::published,
    words::ours,
    links::lead_somewhere,
    links::of_the_book,
    options::documented,
    fields::documented,
];

/// Dependencies for other systems are nobody's here.
const LINUX: &str = "x86_64-unknown-linux-gnu";

/// Breaks of rules that are known, a line each: rule, what, reason.
const EXCEPTIONS: &str = include_str!("tidy/exceptions.txt");

/// Breaches that no exception names, and exceptions that name no breach.
fn judge(breaches: Vec<Breach>, exceptions: &str) -> Vec<Breach> {
    let lines = exceptions.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let known: Vec<(&str, &str, &str)> = lines
        .map(|line| {
            let (rule, rest) = line.split_once(' ').unwrap_or((line, ""));
            let (what, reason) = rest.trim().split_once("  ").unwrap_or((rest.trim(), ""));
            (rule, what, reason.trim())
        })
        .collect();
    let mut left = Vec::new();
    for (rule, what, reason) in &known {
        if reason.is_empty() {
            let what = format!("{rule} {what}");
            left.push(Breach { rule: "exceptions", what, why: "it has no reason".to_owned() });
        } else if !breaches.iter().any(|breach| (breach.rule, breach.what.as_str()) == (rule, *what)) {
            let what = format!("{rule} {what}");
            left.push(Breach { rule: "exceptions", what, why: "it is needed no more".to_owned() });
        }
    }
    let is_known =
        |breach: &Breach| known.iter().any(|(rule, what, _)| (breach.rule, breach.what.as_str()) == (*rule, *what));
    left.extend(breaches.into_iter().filter(|breach| !is_known(breach)));
    left.sort();
    left
}

/// Looks at the repository; `--map` prints what each file is for instead.
pub(crate) fn run(words: &[&str]) -> Result {
    let tree = Tree::read(&root())?;
    match words {
        [] => {}
        ["--map"] => {
            print!("{}", places::map(&tree));
            return Ok(());
        }
        _ => return Err(format!("tidy takes --map or nothing, and not {}", words.join(" "))),
    }
    let mut breaches: Vec<Breach> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    let metadata = output(&mut cargo(&["metadata", "--locked", "--format-version", "1", "--filter-platform", LINUX]))?;
    breaches.extend(manifests::rust_versions(&metadata, tree.text("Cargo.toml").unwrap_or_default()));
    let left = judge(breaches, EXCEPTIONS);
    for breach in &left {
        println!("{breach}");
    }
    if left.is_empty() {
        println!("{} files keep {} rules", tree.0.len(), RULES.len() + 1);
        Ok(())
    } else {
        Err(format!("{} breaches of the rules of the house", left.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_have_reasons_and_are_needed() {
        let breach = |what: &str| Breach { rule: "lines", what: what.to_owned(), why: "long".to_owned() };
        let told = |exceptions: &str| -> Vec<String> {
            judge(vec![breach("a.rs"), breach("b.rs")], exceptions).iter().map(Breach::to_string).collect()
        };
        assert_eq!(told(""), ["lines: a.rs: long", "lines: b.rs: long"]);
        assert_eq!(told("# why\nlines a.rs  one table\n"), ["lines: b.rs: long"]);
        let all = "lines a.rs  one table\nlines b.rs  another\nlines c.rs  a third\n";
        assert_eq!(told(all), ["exceptions: lines c.rs: it is needed no more"]);
        assert_eq!(told("lines a.rs\nlines b.rs  x"), ["exceptions: lines a.rs: it has no reason"]);
    }

    #[test]
    fn tests_are_no_product() {
        assert_eq!(without_tests("fn a() {}\n#[cfg(test)]\nmod tests {}\n"), "fn a() {}");
        assert_eq!(without_tests("fn a() {}\n"), "fn a() {}\n");
        assert!(is_test("crates/a/src/b/tests.rs") && !is_test("crates/a/src/b.rs"));
    }
}
