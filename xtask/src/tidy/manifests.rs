//! Manifests: every crate keeps the lints of the workspace, and no dependency needs a later compiler than we promise.

use super::{Breach, Tree};

/// Lints that hold everywhere: comments of `unsafe` among them.
const LINTS: &[&str] =
    &["unsafe_op_in_unsafe_fn = \"deny\"", "undocumented_unsafe_blocks = \"deny\"", "incompatible_msrv = \"deny\""];

/// The workspace has these lints, every crate takes them from there, and none allows what they deny.
pub(super) fn lints(tree: &Tree) -> Vec<Breach> {
    let breach = |what: &str, why: String| Breach { rule: "lints", what: what.to_owned(), why };
    let workspace = tree.text("Cargo.toml").unwrap_or_default();
    let missing = LINTS.iter().filter(|lint| !workspace.contains(*lint));
    let mut breaches: Vec<Breach> = missing.map(|lint| breach("Cargo.toml", format!("`{lint}` is missing"))).collect();
    for (path, text) in tree.files("", "/Cargo.toml") {
        // Lints of a crate's own are beside those of the workspace.
        if !text.contains("[lints]\nworkspace = true") && !text.contains("undocumented_unsafe_blocks = \"deny\"") {
            breaches.push(breach(path, "it does not take the lints of the workspace".to_owned()));
        }
    }
    for (path, text) in tree.files("", ".rs").filter(|(path, _)| !path.starts_with("xtask/src/tidy")) {
        for lint in ["undocumented_unsafe_blocks", "incompatible_msrv"] {
            if text.contains(&format!("allow(clippy::{lint}")) || text.contains(&format!("expect(clippy::{lint}")) {
                breaches.push(breach(path, format!("it allows {lint}")));
            }
        }
    }
    breaches
}

/// What a registry shows of a crate. Where its repository is, there is nothing to say yet.
const SHOWN: &[&str] = &["description", "readme", "keywords", "categories", "license", "rust-version", "version"];
/// A registry takes no more of either.
const MOST_WORDS: usize = 5;

/// Every crate that is published says what a registry shows, itself or by the workspace, and the workspace says what it is asked for.
pub(super) fn published(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let workspace = tree.text("Cargo.toml").unwrap_or_default();
    for name in tree.crates() {
        let path = format!("crates/{name}/Cargo.toml");
        let text = tree.text(&path).unwrap_or_default();
        if text.contains("publish = false") {
            continue;
        }
        for key in SHOWN {
            let told = line(text, &format!("{key} = ")).or_else(|| {
                line(text, &format!("{key}.workspace = true")).and_then(|_| line(workspace, &format!("{key} = ")))
            });
            // Cargo finds that one by itself.
            let beside = *key == "readme" && tree.text(&format!("crates/{name}/README.md")).is_some();
            let words = told.map_or(0, |told| told.matches('"').count() / 2);
            if !beside && !(1..=MOST_WORDS).contains(&words) {
                breaches.push(Breach {
                    rule: "published",
                    what: path.clone(),
                    why: format!("its {key} is missing, or too much"),
                });
            }
        }
    }
    breaches
}

/// The rest of the line that begins so.
fn line<'a>(text: &'a str, begin: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(begin))
}

/// No package that `cargo metadata` lists needs a later Rust than the workspace's manifest promises.
pub(super) fn rust_versions(metadata: &str, manifest: &str) -> Vec<Breach> {
    let ours = quoted(manifest, "rust-version = \"").map(parts).unwrap_or_default();
    let mut breaches = Vec::new();
    let mut package = String::new();
    // Objects with a name are packages, their dependencies and their targets; packages have a version behind it.
    for object in metadata.split("{\"name\":\"") {
        let (name, rest) = object.split_once('"').unwrap_or_default();
        if let Some(version) = quoted(rest, ",\"version\":\"").filter(|_| rest.starts_with(",\"version\":")) {
            package = format!("{name} {version}");
        }
        if let Some(needed) = quoted(object, "\"rust_version\":\"").filter(|needed| parts(needed) > ours) {
            let why = format!("it needs Rust {needed}");
            breaches.push(Breach { rule: "rust-version", what: package.clone(), why });
        }
    }
    breaches
}

/// What stands between these words and the next quotation mark.
fn quoted<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split('"').next()
}

fn parts(version: &str) -> Vec<u32> {
    let mut parts: Vec<u32> = version.split('.').map(|part| part.parse().unwrap_or(0)).collect();
    parts.resize(3, 0);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_a_registry_would_show_bare_is_found() {
        let keys = |left_out: &str| -> String {
            SHOWN.iter().filter(|key| **key != left_out).map(|key| format!("{key}.workspace = true\n")).collect()
        };
        let whole: String = SHOWN.iter().map(|key| format!("{key} = \"x\"\n")).collect();
        let found =
            |root: &str, text: &str| published(&Tree::of(&[("Cargo.toml", root), ("crates/a/Cargo.toml", text)])).len();
        assert_eq!(found(&whole, &keys("")), 0);
        for key in SHOWN {
            assert_eq!(found(&whole, &keys(key)), 1, "{key}");
            assert_eq!(found(&whole, &(keys(key) + "publish = false\n")), 0);
        }
        assert_eq!(found("", &keys("")), SHOWN.len(), "the workspace does not say it either");
        let six = r#"keywords = ["a", "b", "c", "d", "e", "f"]"#;
        assert_eq!(found(&whole, &(keys("keywords") + six)), 1);
    }

    #[test]
    fn a_crate_without_lints_is_found() {
        let root = LINTS.join("\n");
        let good = "[lints]\nworkspace = true\n";
        let files = [("Cargo.toml", root.as_str()), ("crates/a/Cargo.toml", good), ("crates/a/src/lib.rs", "x")];
        assert_eq!(lints(&Tree::of(&files)), []);
        assert_eq!(
            lints(&Tree::of(&[("Cargo.toml", &root), ("crates/a/Cargo.toml", "[package]")]))[0].what,
            "crates/a/Cargo.toml"
        );
        assert_eq!(lints(&Tree::of(&[("Cargo.toml", "")])).len(), LINTS.len());
        let allows = "#[allow(clippy::undocumented_unsafe_blocks)]";
        assert_eq!(lints(&Tree::of(&[("Cargo.toml", &root), ("crates/a/src/lib.rs", allows)])).len(), 1);
    }

    #[test]
    fn a_dependency_that_needs_a_later_compiler_is_found() {
        let metadata = r#"{"packages":[{"name":"a","version":"1.2.0","dependencies":[{"name":"b","source":null}],"rust_version":"1.89"},{"name":"b","version":"2.0.0","targets":[{"name":"b","src_path":""}],"rust_version":"1.88.0"},{"name":"c","version":"1.0.0","rust_version":null}]}"#;
        let found = rust_versions(metadata, "rust-version = \"1.88\"  # why");
        assert_eq!(found.iter().map(|breach| breach.what.as_str()).collect::<Vec<_>>(), ["a 1.2.0"]);
        assert_eq!(rust_versions(metadata, "rust-version = \"1.89\""), []);
    }
}
