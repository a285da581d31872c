//! A page's commands, typed into one shell.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::compare;
use super::pages::{Block, Page};
use crate::process::{self, start};
use crate::scratch::Scratch;
use crate::tools::{command, find, heapledger, python, root};
use crate::{Result, check, skip};

/// No page takes this long, on a machine that does other things as well.
const PATIENCE: Duration = Duration::from_secs(300);
/// Between what one command prints and what the next one does: no program prints this.
const MARK: char = '\u{1e}';
/// One stream, as on a terminal; and what still runs at the end is ended, because it would hold that stream open.
const BEGINNING: &str = "exec 2>&1 </dev/null\ntrap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n";
/// Who reads a page starts a program and looks at it a moment later, on a machine that is not busy. Here that moment begins when the
/// program is recorded.
const WAIT: &str = "for _i in $(seq 600); do for _p in $(pgrep -P $!); do \
                    heapledger stats $_p >/dev/null 2>&1 && break 2; done; sleep 0.1; done";
/// Columns of the pages.
const COLUMNS: &str = "110";

/// A command of a page, and what it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    /// The line of the page.
    pub line: usize,
    /// What is typed; several lines where the page has several.
    pub command: String,
    /// What the page says that it prints.
    pub shown: String,
    /// Whether that is all, to the letter.
    pub exact: bool,
}

/// The commands of a block.
pub fn commands(block: &Block) -> Result<Vec<Typed>> {
    let mut all: Vec<Typed> = Vec::new();
    for (text, line) in block.text.lines().zip(block.line + 1..) {
        let last = all.last_mut();
        if let Some(command) = text.strip_prefix("$ ") {
            all.push(Typed { line, command: command.to_owned(), shown: String::new(), exact: block.says("exact") });
        } else if let (Some(more), Some(last)) = (text.strip_prefix("> "), last.filter(|last| last.shown.is_empty())) {
            last.command += &format!("\n{more}");
        } else if let Some(last) = all.last_mut() {
            last.shown += &format!("{text}\n");
        } else {
            return Err(format!("line {line}: output comes before any command"));
        }
    }
    if all.is_empty() { Err(format!("line {}: a console without a command", block.line)) } else { Ok(all) }
}

/// What happens on a page, in order.
enum Step {
    Types(Typed),
    Writes { name: String, text: String },
}

fn steps(page: &Page) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for block in &page.blocks {
        if let Some(name) = block.value("file") {
            steps.push(Step::Writes { name: name.to_owned(), text: block.text.clone() });
        } else if block.language == "console" && block.value("not-run").is_none() {
            match block.needs().find(|name| program(name).is_none()) {
                Some(name) => skip(&format!("{}:{}", page.name, block.line), &format!("there is no {name}")),
                None => steps.extend(commands(block)?.into_iter().map(Step::Types)),
            }
        }
    }
    Ok(steps)
}

/// A program that a page or a block of it needs.
pub fn program(name: &str) -> Option<PathBuf> {
    if name.starts_with("python3.") { python(name) } else { find(&[name]) }
}

/// Whether there is something to be typed.
pub fn has_commands(page: &Page) -> bool {
    page.blocks.iter().any(|block| block.language == "console" && block.value("not-run").is_none())
}

/// Types the page; the error says which line of it is not so. Returns the number of commands.
pub fn type_page(page: &Page) -> Result<usize> {
    let scratch = Scratch::new();
    let fail = |error: std::io::Error| format!("{}: {error}", page.name);
    let bin = scratch.path(".bin");
    fs::create_dir(&bin).map_err(fail)?;
    symlink(fs::canonicalize(heapledger()).map_err(fail)?, bin.join("heapledger")).map_err(fail)?;
    for name in page.blocks.iter().flat_map(Block::needs) {
        // What is in the path already is there by itself; what is not lies where only we look.
        if let Some(found) = program(name).filter(|found| find(&[name]).as_ref() != Some(found)) {
            let link = bin.join(name);
            if !link.exists() {
                symlink(found, link).map_err(fail)?;
            }
        }
    }
    let work = scratch.path("work");
    fs::create_dir(&work).map_err(fail)?;
    for program in page.programs() {
        let from = root().join("docs/programs").join(program);
        fs::copy(&from, work.join(program)).map_err(|error| format!("{}: {}: {error}", page.name, from.display()))?;
    }

    let (mut script, mut typed) = (String::from(BEGINNING), Vec::new());
    for step in steps(page)? {
        match step {
            Step::Writes { name, text } => {
                check!(!name.contains(['/', '\'']), "{}: {name} is no plain name of a file", page.name);
                let kept = scratch.path(&format!(".{}-{name}", typed.len()));
                fs::write(&kept, text).map_err(fail)?;
                let _ = writeln!(script, "cp '{}' '{name}'", kept.display());
            }
            Step::Types(command) => {
                // The status goes on to the next command, which may ask for it.
                let waits = command.command.ends_with('&') && command.command.contains("heapledger run");
                let wait = if waits { WAIT } else { "" };
                let _ = writeln!(script, "{}\n_s=$?; {wait}\nprintf '\\n{MARK}%d\\n' $_s; (exit $_s)", command.command);
                typed.push(command);
            }
        }
    }
    let file = scratch.path(".script");
    fs::write(&file, script).map_err(fail)?;
    let path = std::env::join_paths(
        std::iter::once(bin).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let mut shell = command("bash");
    shell.arg("--norc").arg(file).current_dir(&work).env("PATH", path.map_err(|error| error.to_string())?);
    shell
        .env("HEAPLEDGER", format!("dir={}", scratch.live().display()))
        .env("COLUMNS", COLUMNS)
        .env("LC_ALL", "C.UTF-8");
    shell
        .env("REPO", fs::canonicalize(root()).map_err(fail)?)
        .env("HEAPLEDGER_PAGER", "")
        .env_remove("DEBUGINFOD_URLS");
    let ran = start(&mut shell)?.finish(PATIENCE)?;
    judge(page, &typed, &ran.stdout, &work)?;
    Ok(typed.len())
}

/// The first line that is shown and not printed.
fn missing(one: &Typed, said: &str) -> Option<String> {
    let line = compare::missing(&one.shown, said)?.to_owned();
    if !one.command.contains("heapledger run") {
        return Some(line);
    }
    let [shown, said] = [one.shown.as_str(), said].map(compare::without_places);
    compare::missing(&shown, &said).map(str::to_owned)
}

/// Holds what was printed against the page.
fn judge(page: &Page, typed: &[Typed], printed: &[u8], work: &Path) -> Result {
    let printed = String::from_utf8_lossy(printed).into_owned();
    let mut rest = printed.as_str();
    let mut problems = String::new();
    for (index, one) in typed.iter().enumerate() {
        let place = format!("{}:{}: $ {}", page.name, one.line, one.command);
        let Some((said, after)) = rest.split_once(&format!("\n{MARK}")) else {
            return Err(format!("{problems}{place}\n  the shell ended here, in {}:\n{rest}", work.display()));
        };
        let (status, after) = after.split_once('\n').unwrap_or((after, ""));
        rest = after;
        let asked = typed.get(index + 1).is_some_and(|next| next.command == "echo $?");
        if status != "0" && !asked {
            let _ = writeln!(problems, "{place}\n  ends with {status}:\n{said}");
        }
        if one.exact && one.shown.trim_end() != said.trim_end() {
            let _ = writeln!(problems, "{place}\n  prints, and the page has something else:\n{said}");
        } else if let Some(line) = missing(one, said) {
            let _ = writeln!(problems, "{place}\n  does not print, at this place: {line}\n  but:\n{said}");
        } else if one.command == "echo $?" && one.shown.trim() != said.trim() {
            let _ = writeln!(problems, "{place}\n  the page says {}, and it is {said}", one.shown.trim());
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Whether a shell can read these commands, which are not run.
pub fn can_be_read(text: &str) -> Result {
    let mut shell = command("bash");
    process::run(shell.args(["--norc", "-n", "-c", text]))?.good().map(drop)
}
