//! Options of the command line: each says in the help what it does.

use super::{Breach, Tree};

/// Each option and argument has a line of documentation, from which help, manual pages and completions are made.
pub(super) fn documented(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, text) in tree.product("cli") {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let (mut told, mut inside) = (false, false);
        // What stands above a field: documentation, and attributes, each maybe over several lines.
        for line in lines {
            if line.starts_with("///") {
                told = true;
            } else if line.starts_with("#[arg(") || inside && field(line).is_none() && !line.is_empty() {
                told |= line.contains("help = ") || line.contains("hide = true");
                inside = true;
            } else {
                if let Some(name) = field(line).filter(|_| inside && !told) {
                    let why = "it has no line of documentation".to_owned();
                    breaches.push(Breach { rule: "options", what: format!("{path} {name}"), why });
                }
                (told, inside) = (false, false);
            }
        }
    }
    breaches
}

/// The name of a field: `pub(crate) name: Type,`.
fn field(line: &str) -> Option<&str> {
    let name = line.split_once(':')?.0.rsplit(' ').next()?;
    (line.ends_with(',') && !name.is_empty() && name.chars().all(|c| c.is_lowercase() || c == '_')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_without_a_word_is_found() {
        let text = "struct A {\n    /// Says it\n    #[arg(long)]\n    told: bool,\n\n    #[arg(long, value_name = \"N\")]\n    untold: u32,\n    #[arg(long, hide = true)]\n    hidden: bool,\n    #[arg(\n        long,\n        help = \"x\",\n    )]\n    helped: bool,\n}\n";
        let tree = Tree::of(&[("crates/cli/Cargo.toml", ""), ("crates/cli/src/a.rs", text)]);
        let found = documented(&tree);
        assert_eq!(found.iter().map(|breach| breach.what.as_str()).collect::<Vec<_>>(), ["crates/cli/src/a.rs untold"]);
    }
}
