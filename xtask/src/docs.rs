//! `cargo xtask docs`: the book in `docs`, as pages on disk, and whether all that is linked in them is there.
//!
//! mdBook is installed beside what is built, once: as a dependency it would be built by whoever runs the tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{Result, cargo, output, root, run as run_command, target};
use crate::tidy::links::resolved;

/// The one that the pages were looked at with.
const VERSION: &str = "0.5.4";

/// Builds and checks.
pub(crate) fn run() -> Result {
    let mdbook = mdbook()?;
    let book = target().join("book");
    run_command(Command::new(mdbook).arg("build").arg("--dest-dir").arg(&book).arg(root()))?;
    let pages = Pages::read(&book)?;
    let problems = pages.astray();
    if !problems.is_empty() {
        return Err(format!("links that lead nowhere:\n  {}", problems.join("\n  ")));
    }
    println!("{} pages with {} links: {}", pages.pages.len(), pages.links(), book.join("index.html").display());
    Ok(())
}

/// The program that makes the pages, installed if it is not there.
fn mdbook() -> Result<PathBuf> {
    let tools = target().join("tools");
    let program = tools.join("bin/mdbook");
    let is_there = program.exists()
        && output(Command::new(&program).arg("--version")).is_ok_and(|said| said.trim().ends_with(VERSION));
    if !is_there {
        println!("installing mdbook {VERSION} into {} …", tools.display());
        let mut install = cargo(&["install", "mdbook", "--locked", "--quiet", "--version", VERSION]);
        // Without a server and without watching: the pages are on the disk.
        install.args(["--no-default-features", "--features", "search", "--root"]).arg(&tools);
        run_command(install.arg("--target-dir").arg(tools.join("build")))?;
    }
    Ok(program)
}

/// What was made.
struct Pages {
    place: PathBuf,
    /// Pages by their paths below that, each with its text.
    pages: BTreeMap<String, String>,
}

impl Pages {
    fn read(place: &Path) -> Result<Pages> {
        let mut pages = Pages { place: place.to_owned(), pages: BTreeMap::new() };
        pages.read_below("")?;
        Ok(pages)
    }

    fn read_below(&mut self, below: &str) -> Result {
        let directory = self.place.join(below);
        let fail = |error: std::io::Error| format!("{}: {error}", directory.display());
        for item in fs::read_dir(&directory).map_err(fail)? {
            let path = item.map_err(fail)?.path();
            let name = format!("{below}{}", path.file_name().unwrap_or_default().to_string_lossy());
            if path.is_dir() {
                self.read_below(&format!("{name}/"))?;
            } else if name.ends_with(".html") && !["print.html", "404.html", "toc.html"].contains(&name.as_str()) {
                // The first is all pages at once, the second is for servers, the third is a frame with the contents.
                self.pages.insert(name, fs::read_to_string(&path).map_err(fail)?);
            }
        }
        Ok(())
    }

    fn links(&self) -> usize {
        self.pages.values().map(|text| links(text).count()).sum()
    }

    /// A sentence for each link that leads nowhere.
    fn astray(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let names: BTreeMap<&str, BTreeSet<&str>> =
            self.pages.iter().map(|(name, text)| (name.as_str(), attributes(text, "id").collect())).collect();
        for (name, text) in &self.pages {
            for link in links(text) {
                let (file, part) = link.split_once('#').map_or((link, None), |(file, part)| (file, Some(part)));
                let meant = if file.is_empty() { name.clone() } else { resolved(name, file) };
                if !self.place.join(&meant).exists() {
                    problems.push(format!("{name}: {link}: there is no {meant}"));
                } else if let (Some(part), Some(there)) = (part, names.get(meant.as_str()))
                    && !part.is_empty()
                    && !there.contains(part)
                {
                    problems.push(format!("{name}: {link}: {meant} has nothing of that name"));
                }
            }
        }
        problems
    }
}

/// Links of a page to something beside it.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let all = attributes(text, "href").chain(attributes(text, "src"));
    all.filter(|link| {
        !link.contains("://") && !link.starts_with("data:") && !link.starts_with("mailto:") && !link.is_empty()
    })
}

/// What an attribute is, each time that there is one.
fn attributes<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let begin = format!(" {name}=\"");
    let starts: Vec<usize> = text.match_indices(&begin).map(|(at, _)| at + begin.len()).collect();
    starts.into_iter().filter_map(|at| text.get(at..)?.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_pages_are_held_against_what_is_there() {
        let place = std::env::temp_dir().join(format!("heapledger-docs-{}", std::process::id()));
        fs::create_dir_all(place.join("a")).expect("a directory");
        let write = |name: &str, text: &str| fs::write(place.join(name), text).expect("written");
        write(
            "index.html",
            r##"<h1 id="top"></h1><a href="a/b.html#part">b</a> <a href="#top">t</a> <a href="https://x.y">x</a>"##,
        );
        write("a/b.html", r#"<h2 id="part"></h2> <a href="../index.html">i</a><img src="p.png">"#);
        write("a/p.png", "");
        let pages = Pages::read(&place).expect("read");
        assert_eq!((pages.pages.len(), pages.links(), pages.astray()), (2, 4, Vec::new()));
        write("a/b.html", r##"<h2 id="other"></h2> <a href="index.html">i</a> <img src="q.png"> <a href="#no">n</a>"##);
        assert_eq!(Pages::read(&place).expect("read").astray().len(), 4);
        fs::remove_dir_all(&place).expect("removed");
    }
}
