//! Commands of ours that are shown and not run: whether they can be typed at all.

use std::collections::BTreeSet;

use super::pages::Page;
use crate::process;
use crate::tools::{command, heapledger};
use crate::{Result, check};

/// How each such line begins.
const OURS: &str = "heapledger";

/// Lines of code of a page that begin with our command, each with its number: fenced as `sh` or `text` or not to be run, or indented.
pub fn lines(page: &Page) -> Vec<(usize, String)> {
    let fenced = page.blocks.iter().filter(|block| {
        matches!(block.language.as_str(), "sh" | "text")
            || (block.language == "console" && block.value("not-run").is_some())
    });
    let mut all: Vec<(usize, String)> =
        fenced.flat_map(|block| (block.line + 1..).zip(block.text.lines().map(str::to_owned))).collect();
    all.retain(|(_, line)| line.trim_start_matches("$ ").starts_with("heapledger "));
    let indented = page.text.lines().zip(1..).filter(|(line, _)| line.starts_with("    heapledger "));
    all.extend(indented.map(|(line, number)| (number, line.to_owned())));
    all.into_iter().map(|(number, line)| (number, line.trim().trim_start_matches("$ ").to_owned())).collect()
}

/// Whether the command takes these words. It is not run: `--help` behind them has it say its options, if it has come so far.
pub fn can_be_typed(line: &str) -> Result {
    let mut words = words(line);
    check!(words.first().is_some_and(|word| word == OURS), "it is not a command of ours");
    words.remove(0);
    let subcommand = words.first().cloned().unwrap_or_default();
    // Processes of a page are none of this machine's.
    words.iter_mut().filter(|word| word.starts_with("/proc/")).for_each(|word| *word = "/".to_owned());
    if subcommand == "run" {
        words.truncate(end_of_options(&words)?);
    }
    if subcommand != "help" && !words.iter().any(|word| word == "--help" || word == "--version") {
        words.push("--help".to_owned());
    }
    let ran = process::run(command(heapledger()).args(&words))?;
    check!(ran.status.success(), "{}", ran.err());
    Ok(())
}

/// Where the program of `run` begins: what is behind that is the program's.
fn end_of_options(words: &[String]) -> Result<usize> {
    let takes_value = options_with_values()?;
    let mut index = 1;
    while let Some(word) = words.get(index) {
        if word == "--" || !word.starts_with('-') {
            break;
        }
        index += if takes_value.contains(word) { 2 } else { 1 };
    }
    Ok(index.min(words.len()))
}

/// Options of `run` whose value is the next word.
fn options_with_values() -> Result<BTreeSet<String>> {
    let help = process::run(command(heapledger()).args(["run", "--help"]))?.good()?.out();
    let lines = help.lines().map(str::trim).filter(|line| line.starts_with('-') && line.contains(" <"));
    Ok(lines.flat_map(|line| line.split(" <").next().unwrap_or_default().split(", ").map(str::to_owned)).collect())
}

/// The words of the first command of a line, as a shell takes them apart; nothing in it is replaced.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut quote, mut inside, mut deep) = (None, false, 0_u32);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(mark), _) if mark == letter => quote = None,
            (None, '\'' | '"') if deep == 0 => {
                (quote, inside) = (Some(letter), start(&mut words, inside));
            }
            (None, '|' | '>' | '<' | ';' | '&') if deep == 0 => break,
            (None, '#') if !inside => break,
            (None, ' ') if deep == 0 => inside = false,
            _ => {
                inside = start(&mut words, inside);
                // `$(…)` is one word, or a part of one.
                deep = match letter {
                    '(' if quote.is_none() => deep + 1,
                    ')' if quote.is_none() => deep.saturating_sub(1),
                    _ => deep,
                };
                let letter =
                    if letter == '\\' && quote != Some('\'') { letters.next().unwrap_or(letter) } else { letter };
                words.last_mut().into_iter().for_each(|word| word.push(letter));
            }
        }
    }
    // Two spaces and words are a remark in lists of commands.
    words
}

/// A word begins, unless one has.
fn start(words: &mut Vec<String>, inside: bool) -> bool {
    if !inside {
        words.push(String::new());
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let line = r#"heapledger dump --where 'size > 4K and fn ~ "x"' -o "a b" $(pgrep x) a\ b | less  # why"#;
        let wanted = ["heapledger", "dump", "--where", "size > 4K and fn ~ \"x\"", "-o", "a b", "$(pgrep x)", "a b"];
        assert_eq!(words(line), wanted);
        assert_eq!(words("heapledger stats a.hl > b"), ["heapledger", "stats", "a.hl"]);
    }
}
