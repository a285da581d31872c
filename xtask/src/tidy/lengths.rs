//! How long a file and a function may be.

use super::{Breach, Tree, is_test, without_tests};

/// A file has one subject.
const FILE_LINES_MAX: usize = 500;
/// A function can be seen as a whole.
const FUNCTION_LINES_MAX: usize = 100;

/// What a command does is seen at a glance: the rest belongs to `report`, `analysis` and `launch`.
const COMMAND_LINES_MAX: usize = 100;

/// Where commands stand.
const COMMANDS: &str = "crates/cli/src/commands";

/// No file of a command has more code, without comments, what is printed, and tests.
pub(super) fn commands(tree: &Tree) -> Vec<Breach> {
    let files = tree.files(COMMANDS, ".rs").filter(|(path, _)| !is_test(path));
    let long = files.map(|(path, text)| (path, code_lines(without_tests(text))));
    long.filter(|(_, lines)| *lines > COMMAND_LINES_MAX)
        .map(|(path, lines)| Breach {
            rule: "command-lines",
            what: path.to_owned(),
            why: format!("{lines} lines of code, {COMMAND_LINES_MAX} at most"),
        })
        .collect()
}

/// Lines that have code: more than a comment or the inside of a text.
fn code_lines(text: &str) -> usize {
    let mut count = 0;
    let mut in_text = false;
    for line in text.lines() {
        let mut letters = line.trim().chars().peekable();
        let mut has_code = false;
        while let Some(letter) = letters.next() {
            match letter {
                '\\' if in_text => drop(letters.next()),
                '"' => {
                    in_text = !in_text;
                    // The end of a text is none of its own.
                    has_code |= in_text;
                }
                _ if in_text => {}
                // A quotation mark as a letter begins no text.
                '\'' if letters.peek() == Some(&'"') => drop(letters.next()),
                '/' if letters.peek() == Some(&'/') => break,
                _ => has_code = true,
            }
        }
        count += usize::from(has_code);
    }
    count
}

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
    fn long_commands_are_found() {
        let help = "#[command(after_help = \"\\\nExamples:\n  x // \\\" y\n  z\")]\n";
        let code =
            |lines: usize| format!("//! It.\n\n{help}/// Help\nstruct A(char);\n{}", "x('\"'); // why\n".repeat(lines));
        // Of the help, the line that it begins in and what closes it.
        assert_eq!(code_lines(&code(0)), 3);
        let tests = "\n#[cfg(test)]\nmod tests {\n    x();\n}\n".to_owned();
        let long = |lines: usize| code(lines) + &tests;
        let tree = Tree::of(&[
            ("crates/cli/src/commands.rs", &long(97)),
            ("crates/cli/src/commands/a.rs", &long(98)),
            ("crates/cli/src/commands/a/b.rs", &long(200)),
            ("crates/cli/src/run.rs", &long(200)),
        ]);
        let found: Vec<String> = commands(&tree).into_iter().map(|breach| breach.to_string()).collect();
        assert_eq!(
            found,
            [
                "command-lines: crates/cli/src/commands/a.rs: 101 lines of code, 100 at most",
                "command-lines: crates/cli/src/commands/a/b.rs: 203 lines of code, 100 at most"
            ]
        );
    }

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
