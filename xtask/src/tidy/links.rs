//! Links in texts for people lead somewhere, and every page of the book is in its list of contents.

use super::{Breach, Tree};

/// The list of contents.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Every link of a text to a file of the repository, or to a heading of one.
pub(super) fn lead_somewhere(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, text) in tree.files("", ".md") {
        for link in links(text) {
            if let Some(why) = astray(tree, path, link) {
                breaches.push(Breach { rule: "links", what: path.to_owned(), why: format!("{link}: {why}") });
            }
        }
    }
    breaches
}

/// Every page in `docs` stands in the list of contents, where readers of the book find it; and what stands there is a page.
pub(super) fn of_the_book(tree: &Tree) -> Vec<Breach> {
    let listed: Vec<String> =
        links(tree.text(SUMMARY).unwrap_or_default()).map(|link| resolved(SUMMARY, link)).collect();
    let pages = tree.files("docs/", ".md").map(|(path, _)| path).filter(|path| *path != SUMMARY);
    let missing = pages.filter(|path| !listed.iter().any(|listed| listed == path));
    let breach = |path: &str| Breach { rule: "book", what: path.to_owned(), why: format!("it is not in {SUMMARY}") };
    missing.map(breach).collect()
}

/// Why a link leads nowhere.
fn astray(tree: &Tree, path: &str, link: &str) -> Option<String> {
    // What is elsewhere in the world is not looked at: a test must not fail because somebody's server is slow.
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = link.split_once('#').map_or((link, None), |(file, heading)| (file, Some(heading)));
    let target = if file.is_empty() { path.to_owned() } else { resolved(path, file) };
    let directory = format!("{}/", target.trim_end_matches('/'));
    let Some(text) = tree.text(&target) else {
        let is_directory = tree.files(&directory, "").next().is_some();
        return if is_directory { None } else { Some(format!("there is no {target}")) };
    };
    let heading = heading?;
    let found = !target.ends_with(".md") || headings(text).any(|there| there == heading);
    if found { None } else { Some(format!("{target} has no heading with that name")) }
}

/// What stands in round brackets behind square ones with a text in them (`new[](align)` is none), outside of code.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    let lines = text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence && !line.starts_with("    ")
    });
    lines.flat_map(|line| {
        let outside = line.split('`').step_by(2);
        outside.flat_map(|part| {
            let starts = part.match_indices("](").filter(|(at, _)| !part[..*at].ends_with('['));
            starts.filter_map(|(at, mark)| part[at + mark.len()..].split([')', ' ']).next())
        })
    })
}

/// The path that a link means, from the root of what the path is below.
pub(crate) fn resolved(path: &str, link: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Names of headings, as links have them: small letters, figures, `-` for spaces.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let mut fenced = false;
    let lines = text.lines().filter(move |line| {
        fenced ^= line.starts_with("```");
        !fenced && line.starts_with('#')
    });
    lines.map(|line| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let letters = words.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
        letters.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let page =
            "# A page\n[a](b.md) [b](../README.md#what-is-it) [c](https://x.y) `[d](no)` ![e](p/e.png) [f](#a-page)\n";
        let files = |page| {
            Tree::of(&[
                ("README.md", "## What is it?\n"),
                ("docs/a.md", page),
                ("docs/b.md", "x"),
                ("docs/p/e.png", ""),
            ])
        };
        assert_eq!(lead_somewhere(&files(page)), []);
        let astray = "[a](c.md) [b](../README.md#why) [c](#no) [d](p/f.png)\n```\n[e](no.md)\n```\n";
        assert_eq!(lead_somewhere(&files(astray)).len(), 4);
        assert_eq!(lead_somewhere(&files("[p](p) [p](p/) new[](align)")), []);
    }

    #[test]
    fn a_page_that_nobody_finds_is_found() {
        let files = [(SUMMARY, "- [a](a.md)\n  - [b](b/c.md)\n"), ("docs/a.md", ""), ("docs/b/c.md", "")];
        assert_eq!(of_the_book(&Tree::of(&files)), []);
        let one_more = [&files[..], &[("docs/d.md", "")]].concat();
        assert_eq!(of_the_book(&Tree::of(&one_more)).len(), 1);
    }
}
