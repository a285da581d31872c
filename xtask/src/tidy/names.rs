//! One type of a name in a crate: who reads `Row` knows which.

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
        assert_eq!(types(&tree).iter().map(|breach| breach.what.as_str()).collect::<Vec<_>>(), ["a Row"]);
    }
}
