//! Which crate may use which: the drawing, and what hides an arrow of it.

use super::{Breach, Tree};

/// The drawing: each crate with those that it uses. Nothing else is allowed, and nothing here is left over.
/// Tests may use more.
const DRAWING: &[(&str, &[&str])] = &[
    // Inside of programs.
    ("format", &[]),
    ("unwind", &[]),
    ("linux", &[]),
    ("recorder", &["format"]),
    ("guard", &[]),
    ("lws", &[]),
    ("metadata", &["lws"]),
    ("metadata-c", &["metadata"]),
    ("wire", &["lws"]),
    ("process", &["format", "guard", "linux", "lws", "recorder", "unwind"]),
    ("api", &["format", "linux", "process", "recorder", "unwind", "watch"]),
    ("preload", &["api", "format", "guard", "linux", "process", "unwind", "watch"]),
    ("calls", &["guard", "linux"]),
    ("watch", &["format", "linux", "process", "recorder", "unwind"]),
    // (It uses the crate that is called as the whole is.)
    ("firmware", &[]),
    ("heapledger", &["format", "guard", "linux", "lws", "process", "recorder", "unwind", "watch", "wire"]),
    // Outside of them.
    ("source", &["format"]),
    ("logs", &["format", "lws", "wire"]),
    ("symbols", &[]),
    ("launch", &["format", "source", "unwind"]),
    ("debuginfod", &["symbols"]),
    ("analysis", &["format", "guard", "source", "symbols"]),
    ("report", &["analysis", "format", "source", "symbols"]),
    ("export", &["analysis", "format", "report", "source"]),
    (
        "cli",
        &["analysis", "debuginfod", "export", "format", "launch", "logs", "lws", "report", "source", "symbols", "wire"],
    ),
    // Tests only.
    ("testing", &["format"]),
];

/// Our crates that a manifest's `[dependencies]` names, in order.
fn uses(manifest: &str) -> Vec<&str> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in manifest.lines() {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.split(']').next().unwrap_or_default();
            inside = section == "dependencies" || section == "build-dependencies" || is_of_a_target(section);
            // A section of its own: `[dependencies.heapledger-x]`.
            found.extend(section.strip_prefix("dependencies.heapledger-"));
        } else if inside && let Some(rest) = line.strip_prefix("heapledger-") {
            found.extend(rest.split(['.', ' ', '=']).next());
        }
    }
    found.sort_unstable();
    found
}

fn is_of_a_target(section: &str) -> bool {
    section.starts_with("target.") && section.ends_with(".dependencies")
}

/// Manifests say what the drawing says.
pub(super) fn manifests(tree: &Tree) -> Vec<Breach> {
    compare(tree, DRAWING)
}

fn compare(tree: &Tree, drawing: &[(&str, &[&str])]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut breach = |what: &str, why: String| breaches.push(Breach { rule: "arrows", what: what.to_owned(), why });
    for name in tree.crates() {
        let used = uses(tree.text(&format!("crates/{name}/Cargo.toml")).unwrap_or_default());
        let Some((_, drawn)) = drawing.iter().find(|(drawn, _)| *drawn == name) else {
            breach(name, "the drawing does not have this crate".to_owned());
            continue;
        };
        for one in used.iter().filter(|one| !drawn.contains(one)) {
            breach(&format!("{name} {one}"), format!("{name} uses {one}, and the drawing has no such arrow"));
        }
        for one in drawn.iter().filter(|one| !used.contains(one)) {
            breach(&format!("{name} {one}"), format!("the drawing has an arrow to {one} that is not used"));
        }
    }
    for (name, _) in drawing.iter().filter(|(name, _)| !tree.crates().any(|there| there == *name)) {
        breach(name, "the drawing has a crate that is not there".to_owned());
    }
    breaches
}

/// The list from which `launch` builds the preload library says what manifests and the workspace's profile say.
pub(super) fn inside_programs(tree: &Tree) -> Vec<Breach> {
    const SCRIPT: &str = "crates/launch/build.rs";
    let breach = |why: String| Breach { rule: "arrows", what: SCRIPT.to_owned(), why };
    let Some(script) = tree.text(SCRIPT) else { return Vec::new() };
    let mut breaches = Vec::new();
    for line in script.lines().map(str::trim).filter(|line| line.starts_with("(\"") && line.ends_with("]),")) {
        let mut words = line.split('"').skip(1).step_by(2);
        let Some(part) = words.next() else { continue };
        let mut listed: Vec<&str> = words.collect();
        listed.sort_unstable();
        let manifest = tree.text(&format!("crates/{part}/Cargo.toml")).unwrap_or_default();
        if listed != uses(manifest) {
            breaches
                .push(breach(format!("it builds {part} with {listed:?}, and its manifest says {:?}", uses(manifest))));
        }
    }
    let profile = tree.text("Cargo.toml").and_then(|text| text.split_once("[profile.release]\n")).map(|(_, rest)| rest);
    for line in profile.unwrap_or_default().lines().take_while(|line| !line.starts_with('[') && !line.is_empty()) {
        if !script.contains(&line.replace('"', "\\\"")) {
            breaches.push(breach(format!("it does not build with `{line}`, as the workspace does")));
        }
    }
    breaches
}

/// Nobody reaches a crate through another one: its arrow would not be seen.
pub(super) fn re_exports(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for name in tree.crates() {
        for (path, text) in tree.product(name) {
            for line in text.lines().filter(|line| line.starts_with("pub use heapledger_")) {
                let whole = line.trim_start_matches("pub use ").trim_end_matches(';');
                let other = whole.split([':', ' ']).next().unwrap_or_default();
                breaches.push(Breach {
                    rule: "re-exports",
                    what: format!("{path} {other}"),
                    why: format!("`{line}` lets others use {other} without saying so"),
                });
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &[(&str, &str)] = &[
        ("Cargo.toml", "[profile.release]\npanic = \"abort\"\n\n[profile.other]\nx = 1\n"),
        ("crates/a/Cargo.toml", "[dependencies]\nlibc = \"1\"\n[dev-dependencies]\nheapledger-b.workspace = true\n"),
        ("crates/b/Cargo.toml", "[dependencies]\nheapledger-a = { path = \"../a\" }\n"),
        ("crates/launch/Cargo.toml", ""),
        ("crates/launch/build.rs", "    (\"a\", &[]),\n    (\"b\", &[\"a\"]),\npanic = \\\"abort\\\"\n"),
    ];

    fn with(path: &str, text: &str) -> Tree {
        let mut tree = Tree::of(TREE);
        tree.0.insert(path.to_owned(), text.to_owned());
        tree
    }

    #[test]
    fn an_arrow_that_is_not_drawn_is_found() {
        let drawing: &[(&str, &[&str])] = &[("a", &[]), ("b", &["a"]), ("launch", &[])];
        assert_eq!(compare(&Tree::of(TREE), drawing), []);
        let up = with("crates/a/Cargo.toml", "[target.'cfg(unix)'.dependencies]\nheapledger-b.workspace = true\n");
        assert_eq!(compare(&up, drawing).iter().map(|breach| breach.what.as_str()).collect::<Vec<_>>(), ["a b"]);
        let optional = with("crates/a/Cargo.toml", "[dependencies.heapledger-b]\noptional = true\n");
        assert_eq!(compare(&optional, drawing).len(), 1);
        assert_eq!(
            compare(&with("crates/b/Cargo.toml", "[dependencies]\n"), drawing).len(),
            1,
            "an arrow is left over"
        );
        assert_eq!(compare(&with("crates/c/Cargo.toml", ""), drawing).len(), 1, "a crate is not drawn");
        assert_eq!(compare(&Tree::of(&TREE[..2]), drawing).len(), 2, "crates are drawn that are not there");
    }

    #[test]
    fn what_the_library_is_built_from_is_held_to_manifests() {
        assert_eq!(inside_programs(&Tree::of(TREE)), []);
        assert_eq!(inside_programs(&with("crates/b/Cargo.toml", "[dependencies]\n")).len(), 1);
        assert_eq!(inside_programs(&with("Cargo.toml", "[profile.release]\nlto = \"fat\"\n")).len(), 1);
    }

    #[test]
    fn a_hidden_arrow_is_found() {
        assert_eq!(re_exports(&with("crates/b/src/lib.rs", "use heapledger_a as a;\n")), []);
        let hidden = re_exports(&with("crates/b/src/lib.rs", "pub use heapledger_a as a;\n"));
        assert_eq!(hidden[0].what, "crates/b/src/lib.rs heapledger_a");
    }
}
