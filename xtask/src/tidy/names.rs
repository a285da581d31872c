//! Names: one type of a name in a crate, so that who reads `Row` knows which; names that say the room; one way of naming
//! the file of a module.

use std::collections::BTreeMap;

use super::{Breach, Tree};

/// The type that a line declares, at the margin: what stands in functions is nobody else's.
fn declared(line: &str) -> Option<&str> {
    let mut rest = line;
    if let Some(visible) = rest.strip_prefix("pub") {
        rest = visible.strip_prefix('(').map_or(visible, |inner| inner.split_once(')').map_or("", |(_, rest)| rest));
        rest = rest.strip_prefix(' ')?;
    }
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let (kind, rest) = rest.split_once(' ')?;
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (["struct", "enum", "union", "trait", "type"].contains(&kind) && !name.is_empty()).then_some(name)
}

/// Names that could stand in every room, and say none.
const VAGUE: &[&str] = &["First", "Held", "Item", "Part", "Place"];

/// No type has a name that says nothing of what it is for.
pub(super) fn vague(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for name in tree.crates() {
        for (path, text) in tree.product(name) {
            for declared in text.lines().filter_map(declared).filter(|declared| VAGUE.contains(declared)) {
                let why = "the name could stand anywhere: let it say of what".to_owned();
                breaches.push(Breach { rule: "vague", what: format!("{path} {declared}"), why });
            }
        }
    }
    breaches
}

/// A module with a folder is `name.rs` beside it. (In `tests`, cargo takes only `mod.rs` for no test of its own.)
pub(super) fn modules(tree: &Tree) -> Vec<Breach> {
    let is_ours = |path: &&str| path.contains("/src/");
    let files = tree.files("", "/mod.rs").map(|(path, _)| path).filter(is_ours);
    files
        .map(|path| {
            let why = format!("call it {}.rs, as all others are", path.trim_end_matches("/mod.rs"));
            Breach { rule: "modules", what: path.to_owned(), why }
        })
        .collect()
}

/// No crate has two types of one name.
pub(super) fn types(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for name in tree.crates() {
        let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (path, text) in tree.product(name) {
            // A program has no names in common with the library beside it.
            if !path.contains("/bin/") {
                text.lines().filter_map(declared).for_each(|declared| places.entry(declared).or_default().push(path));
            }
        }
        for (declared, paths) in places.iter().filter(|(_, paths)| paths.len() > 1) {
            let why = format!("it is {} types: {}", paths.len(), paths.join(", "));
            breaches.push(Breach { rule: "types", what: format!("{name} {declared}"), why });
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(breaches: &[Breach]) -> Vec<&str> {
        breaches.iter().map(|breach| breach.what.as_str()).collect()
    }

    #[test]
    fn a_name_that_says_nothing_is_found() {
        let files = [("crates/a/Cargo.toml", ""), ("crates/a/src/lib.rs", "struct Places;\npub type Part = u8;\n")];
        assert_eq!(found(&vague(&Tree::of(&files))), ["crates/a/src/lib.rs Part"]);
    }

    #[test]
    fn the_other_way_of_naming_modules_is_found() {
        let tree = Tree::of(&[("a/src/b/mod.rs", ""), ("a/tests/common/mod.rs", ""), ("a/src/c.rs", "")]);
        assert_eq!(found(&modules(&tree)), ["a/src/b/mod.rs"]);
    }

    #[test]
    fn two_types_of_a_name_are_found() {
        assert_eq!(declared("pub(crate) struct Row<'a> {"), Some("Row"));
        assert_eq!(declared("pub unsafe trait Backend {"), Some("Backend"));
        assert_eq!(declared("type Rule = fn();"), Some("Rule"));
        assert_eq!(declared("    struct Inner;"), None);
        assert_eq!(declared("struct_like!(x)"), None);
        let tree = Tree::of(&[
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", "struct Row;\nenum Other {}\n#[cfg(test)]\nmod tests {\nstruct Other;\n}\n"),
            ("crates/a/src/x.rs", "pub enum Row {}\n"),
            ("crates/b/Cargo.toml", ""),
            ("crates/b/src/lib.rs", "struct Other;\n"),
        ]);
        assert_eq!(found(&types(&tree)), ["a Row"]);
    }
}
