//! Fields: each that can be asked of a block or an event, and each key of the reports in JSON, is told of in a document.

use super::{Breach, Tree};

/// The list of fields.
const LIST: &str = "crates/analysis/src/fields/list.rs";
/// What a page brings for its own script is no report.
const PAGES: &str = "crates/report/src/flame/page.rs";

/// Each row of the list says what it is, and the documents have its names; they have the keys of all lines of JSON, too.
pub(super) fn documented(tree: &Tree) -> Vec<Breach> {
    let document = |name: &str| tree.text(name).unwrap_or_default();
    let (queries, json) = (document("docs/queries.md"), document("docs/json.md"));
    let mut breaches = Vec::new();
    let mut add = |what: String, why: String| breaches.push(Breach { rule: "fields", what, why });
    for (said, row) in rows(tree.text(LIST).unwrap_or_default()) {
        let field = row.split(',').next().unwrap_or_default();
        if !said {
            add(format!("{LIST} {field}"), "it has no line of documentation".to_owned());
        }
        let names = [quoted(row, "row(", 0), quoted(row, ".ends(", 0), quoted(row, ".ends(", 1)];
        for name in names.into_iter().flatten().filter(|name| !has(queries, name) && !has_end(queries, name)) {
            add(format!("{LIST} {field}"), format!("docs/queries.md does not name `{name}`"));
        }
        if let Some(key) = quoted(row, ".json(", 0).filter(|key| !has(json, key)) {
            add(format!("{LIST} {field}"), format!("docs/json.md does not name `{key}`"));
        }
    }
    for (path, text) in tree.product("report").filter(|(path, _)| *path != PAGES) {
        for key in keys(text).into_iter().filter(|key| !has(json, key)) {
            add(format!("{path} {key}"), "docs/json.md does not name this key".to_owned());
        }
    }
    breaches
}

/// Whether a document names it: as code, or in an example.
fn has(document: &str, name: &str) -> bool {
    document.contains(&format!("`{name}`")) || document.contains(&format!("\"{name}\":"))
}

/// Columns of an event's two ends are named by their two halves.
fn has_end(document: &str, name: &str) -> bool {
    name.split_once('_').is_some_and(|(end, field)| has(document, &format!("{end}_")) && has(document, field))
}

/// The rows of the list, each with whether a line of documentation stands before it.
fn rows(list: &str) -> impl Iterator<Item = (bool, &str)> {
    let (_, rows) = list.split_once("\nfields! {\n").unwrap_or_default();
    let (rows, _) = rows.split_once("\n}\n").unwrap_or((rows, ""));
    rows.split(";\n").map(str::trim).filter(|row| !row.is_empty()).map(|row| {
        let code = row.lines().position(|line| !line.trim().starts_with("//")).unwrap_or(0);
        let at = row.split_inclusive('\n').take(code).map(str::len).sum();
        (row.starts_with("///"), row.get(at..).unwrap_or_default().trim())
    })
}

/// Of the texts in quotes behind `mark`, the one of this index.
fn quoted<'r>(row: &'r str, mark: &str, index: usize) -> Option<&'r str> {
    row.split_once(mark)?.1.split('"').nth(2 * index + 1)
}

/// The fields of structures that are written as JSON.
fn keys(text: &str) -> Vec<&str> {
    let mut keys = Vec::new();
    for derived in text
        .split("#[derive(")
        .skip(1)
        .filter(|rest| rest.lines().next().is_some_and(|line| line.contains("Serialize")))
    {
        let lines = derived.lines().map(str::trim).skip_while(|line| !line.contains("struct ")).skip(1);
        let mut before = "";
        for line in lines.take_while(|line| *line != "}") {
            let name = line.split_once(": ").and_then(|(name, _)| name.rsplit(' ').next());
            if let Some(name) = name.filter(|_| !line.starts_with(['#', '/']) && !before.contains("flatten")) {
                keys.push(name.strip_prefix("r#").unwrap_or(name));
            }
            before = line;
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_without_a_word_is_found() {
        let list = "\nfields! {\n    /// Told.\n    Told, |a| None,\n        row(&[\"told\", \"t\"], Unit::Bytes, &[]).json([1, 1], \"told\", \"\");\n    Silent, |a| None,\n        row(&[\"silent\"], Unit::Bytes, &[]).json([2, 2], \"hush\", \"\")\n            .ends([\"alloc_told\", \"free_silent\"]);\n}\n";
        let line = "#[derive(Serialize)]\nstruct Line<'a> {\n    r#type: &'static str,\n    #[serde(flatten)]\n    block: Fields<'a>,\n    odd: Option<u64>,\n}\n#[derive(Debug)]\nstruct Other {\n    other: u32,\n}\n";
        let tree = Tree::of(&[
            (LIST, list),
            ("docs/queries.md", "| `told` | `alloc_` and `free_` |"),
            ("docs/json.md", "{\"type\":1} `told`"),
            ("crates/report/Cargo.toml", ""),
            ("crates/report/src/a.rs", line),
        ]);
        let found = documented(&tree);
        let found: Vec<String> = found.iter().map(|breach| format!("{}: {}", breach.what, breach.why)).collect();
        let silent = |why: &str| format!("{LIST} Silent: {why}");
        assert_eq!(
            found,
            [
                silent("it has no line of documentation"),
                silent("docs/queries.md does not name `silent`"),
                silent("docs/queries.md does not name `free_silent`"),
                silent("docs/json.md does not name `hush`"),
                "crates/report/src/a.rs odd: docs/json.md does not name this key".to_owned(),
            ]
        );
    }
}
