//! Words: the field has terms for what we do, and who searches for them shall find us.

use super::{Breach, Tree};

/// A line each: `odd => better`. `#` begins a comment.
const WORDS: &str = include_str!("words.txt");

/// No text of ours has a phrase of the list.
pub(super) fn ours(tree: &Tree) -> Vec<Breach> {
    find(tree, WORDS)
}

fn find(tree: &Tree, list: &str) -> Vec<Breach> {
    let rows = list.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" => "));
    let rows: Vec<(&str, &str)> = rows.collect();
    let mut breaches = Vec::new();
    let texts = tree.files("", ".md").chain(tree.files("", ".rs")).filter(|(path, _)| *path != "CHANGELOG.md");
    for (path, text) in texts {
        // A phrase may go over the end of a line, also of a comment.
        let lines = text.lines().map(|line| line.trim_start().trim_start_matches('/').trim_start_matches('!').trim());
        let flat = lines.collect::<Vec<_>>().join(" ");
        for (odd, better) in rows.iter().filter(|(odd, _)| flat.contains(odd)) {
            breaches.push(Breach { rule: "words", what: path.to_owned(), why: format!("`{odd}`: say `{better}`") });
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_phrase_is_found_over_the_end_of_a_line() {
        let list = "# why\nscreen that is alive => live view\n";
        let tree = Tree::of(&[
            ("a.md", "a screen\nthat is alive"),
            ("b.rs", "/// a screen that\n/// is alive\n"),
            ("c.md", "live view"),
        ]);
        assert_eq!(find(&tree, list).iter().map(|breach| breach.what.as_str()).collect::<Vec<_>>(), ["a.md", "b.rs"]);
    }
}
