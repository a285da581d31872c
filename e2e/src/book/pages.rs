//! Pages of the book, and the fenced blocks in them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;

/// A page.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its path, from the root of the repository.
    pub name: String,
    /// All of it.
    pub text: String,
    /// What is fenced in it, in order.
    pub blocks: Vec<Block>,
}

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its fence, from 1.
    pub line: usize,
    /// The first word behind the fence: `console`.
    pub language: String,
    /// The words behind that: `exact`, `file=leak.c`.
    pub words: Vec<String>,
    /// What is in it.
    pub text: String,
}

impl Block {
    /// What stands behind `KEY=`.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    /// Programs without which its commands cannot be typed, if only this block needs them: `needs=node`, `needs=gcc,make`.
    pub fn needs(&self) -> impl Iterator<Item = &str> {
        self.value("needs").into_iter().flat_map(|names| names.split(','))
    }

    /// Whether a word of its own is there.
    pub fn says(&self, word: &str) -> bool {
        self.words.iter().any(|said| said == word)
    }
}

/// All pages below a directory of the repository, in order of their names.
pub fn all(root: &Path, below: &str) -> Result<Vec<Page>> {
    let mut found = Vec::new();
    collect(&root.join(below), &mut found)?;
    found.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let blocks = blocks(&text).map_err(|problem| format!("{name}: {problem}"))?;
        Ok(Page { name, text, blocks })
    };
    found.into_iter().map(read).collect()
}

fn collect(directory: &Path, found: &mut Vec<PathBuf>) -> Result {
    let items = fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    for path in items.flatten().map(|item| item.path()) {
        if path.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|end| end == "md") {
            found.push(path);
        }
    }
    Ok(())
}

impl Page {
    /// Programs that the page links to, by name: who reads it has them beside him.
    pub fn programs(&self) -> Vec<&str> {
        let links = self.text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let mut names: Vec<&str> =
            links.filter_map(|link| link.split_once("programs/")).map(|(_, name)| name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Programs without which its commands cannot be typed: `<!-- needs: node -->`.
    pub fn needs(&self) -> Vec<&str> {
        let rest = self.text.split("<!-- needs: ").nth(1).and_then(|rest| rest.split(" -->").next());
        rest.map(|names| names.split(' ').collect()).unwrap_or_default()
    }
}

/// The fenced blocks of a text. One that is not closed is an error: all that follows would be taken for its content.
pub fn blocks(text: &str) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (line, number) in text.lines().zip(1..) {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(rest)) => {
                let mut words = rest.split_ascii_whitespace().map(str::to_owned);
                let language = words.next().unwrap_or_default();
                open = Some(Block { line: number, language, words: words.collect(), text: String::new() });
            }
            (Some(_), Some("")) => blocks.extend(open.take()),
            (Some(block), _) => block.text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    match open {
        Some(block) => Err(format!("the block of line {} is not closed", block.line)),
        None => Ok(blocks),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_words_and_lines() {
        let text = "a\n```c file=leak.c\nint x;\n```\nb\n```console exact\n$ true\n```\n";
        let found = blocks(text).expect("blocks");
        assert_eq!((found[0].line, found[0].language.as_str(), found[0].value("file")), (2, "c", Some("leak.c")));
        assert_eq!(found[0].text, "int x;\n");
        assert!(found[1].says("exact") && !found[1].says("file") && found.len() == 2);
        assert!(blocks("```c\nint x;\n").is_err());
    }
}
