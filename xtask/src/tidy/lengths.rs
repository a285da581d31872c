//! How long a file and a function may be.

use super::{Breach, Tree};

/// A file has one subject.
const FILE_LINES_MAX: usize = 500;
/// A function can be seen as a whole.
const FUNCTION_LINES_MAX: usize = 100;

/// No file of Rust is longer.
pub(super) fn files(tree: &Tree) -> Vec<Breach> {
    let long = tree.files("", ".rs").map(|(path, text)| (path, text.lines().count()));
    long.filter(|(_, lines)| *lines > FILE_LINES_MAX)
        .map(|(path, lines)| Breach {
            rule: "file-lines",
            what: path.to_owned(),
            why: format!("{lines} lines, {FILE_LINES_MAX} at most"),
        })
        .collect()
}

/// No function is longer.
pub(super) fn functions(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, text) in tree.files("", ".rs") {
        for (name, lines) in measured(text).into_iter().filter(|(_, lines)| *lines > FUNCTION_LINES_MAX) {
            breaches.push(Breach {
                rule: "function-lines",
                what: format!("{path} {name}"),
                why: format!("{lines} lines, {FUNCTION_LINES_MAX} at most"),
            });
        }
    }
    breaches
}

/// Functions with their lines. `cargo fmt` puts the end of each under its beginning.
fn measured(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = lines[at..].iter().position(|line| {
            line.strip_prefix(indent)
                .is_some_and(|rest| rest == "}" || (rest.starts_with([')', 'f']) && rest.ends_with(';')))
        });
        // One that ends in its own line, or is only declared, is short.
        if !line.ends_with('}') && !line.ends_with(';') {
            found.extend(end.map(|end| (name, end + 1)));
        }
    }
    found
}

/// The name of the function that begins in this line.
fn function(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let words = ["", "pub", "const", "async", "unsafe", "extern", "\"C\"", "pub(crate)", "pub(super)"];
    let is_plain = before.trim().split(' ').all(|word| words.contains(&word) || word.starts_with("pub("));
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (is_plain && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ones_are_found() {
        let body = |lines: usize| "    x();\n".repeat(lines);
        let text = format!(
            "fn short() {{}}\n\npub(crate) fn long(\n    a: u8,\n) {{\n{}}}\n\nimpl A {{\n    fn b() {{\n{}    }}\n}}\n",
            body(98),
            body(10)
        );
        assert_eq!(measured(&text), [("long", 102), ("b", 12)]);
        let tree = Tree::of(&[("a/b.rs", &text), ("a/c.rs", &"x\n".repeat(501)), ("a/d.md", &"x\n".repeat(501))]);
        assert_eq!(functions(&tree)[0].what, "a/b.rs long");
        assert_eq!(functions(&tree).len(), 1);
        assert_eq!(files(&tree).iter().map(|breach| breach.what.as_str()).collect::<Vec<_>>(), ["a/c.rs"]);
    }
}
