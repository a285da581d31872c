//! Options of the command line: each says in the help what it does.

use super::{Breach, Tree};

/// Each option and argument has a line of documentation, from which help, manual pages and completions are made.
pub(super) fn documented(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, text) in tree.product("cli") {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("#[arg(")) {
            let above = lines[..at].iter().rev().find(|line| !line.starts_with("#["));
            let is_told = above.is_some_and(|line| line.starts_with("///"));
            // The attribute may go over several lines.
            let whole: Vec<&str> = lines[at..].iter().take_while(|line| !line.ends_with(")]")).copied().collect();
            let tells = format!("{}{line}", whole.join(" "));
            if !is_told && !tells.contains("help = ") && !tells.contains("hide = true") {
                let name = lines[at..].iter().find_map(|line| field(line)).unwrap_or("?");
                let why = "it has no line of documentation".to_owned();
                breaches.push(Breach { rule: "options", what: format!("{path} {name}"), why });
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
