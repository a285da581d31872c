//! `heapledger man`: manual pages, from the definition of the command line.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Command as Process, Stdio};

use anyhow::{Context, Result, bail};
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};
use heapledger_format::session::VARIABLE;

use crate::commands::standard::Usage;
use crate::{help, terminal};
use heapledger_launch::exec;

/// Arguments of `man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  heapledger man
  heapledger man dump
  heapledger man dump > heapledger-dump.1
  heapledger man --dir ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The command that the page is of [default: heapledger itself]
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    pub(crate) command: Option<String>,
    /// Write the pages of all commands into this directory, which is made
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// What is looked at, for the page of the whole.
const ENVIRONMENT: &[(&str, &str)] = &[
    (VARIABLE, "Options of the recorder; see heapledger-run(1)."),
    (
        "HEAPLEDGER_PAGER, PAGER, LESS",
        "What text that is longer than the screen is shown with: less, if nothing is set; an empty value or cat for none. \
         LESS is set to FRX if it is not set.",
    ),
    ("NO_COLOR", "If it is not empty, nothing is emphasized with colour."),
    (
        "CLICOLOR_FORCE, CLICOLOR",
        "If the first is set and not 0, colour is also written to files. If the second is 0, never.",
    ),
    (
        "LC_ALL, LC_CTYPE, LANG",
        "The first that is set says whether text may hold more than ASCII: its character set must be UTF-8.",
    ),
    ("COLUMNS", "How wide text may be where standard output is no terminal."),
    (
        "DEBUGINFOD_URLS",
        "Servers that are asked for debug information that is not on this machine. DEBUGINFOD_CACHE_PATH, \
         DEBUGINFOD_TIMEOUT, DEBUGINFOD_PROGRESS, DEBUGINFOD_MAXSIZE, DEBUGINFOD_MAXTIME and DEBUGINFOD_HEADERS_FILE mean \
         what they mean to debuginfod-find(1).",
    ),
    ("XDG_RUNTIME_DIR, TMPDIR", "Where ledgers lie while programs run; see heapledger-run(1)."),
    ("XDG_CACHE_HOME, HOME", "Where the preload library and fetched debug information are kept."),
];

/// What commands end with, for the page of the whole.
const EXIT_STATUS: &[(&str, &str)] = &[
    ("0", "All went well. What could not be seen is said at the end of a report."),
    ("1", "It could not be done; standard error says why."),
    ("2", "The command line is wrong."),
    ("others", "Those of the program that ran, with heapledger-run(1)."),
];

/// Prints a manual page or writes them all. On a terminal it is shown by `man`, if there is one.
pub(crate) fn run(args: &ManArgs) -> Result<()> {
    if let Some(directory) = &args.dir {
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        for (name, page) in pages() {
            let path = directory.join(format!("{name}.1"));
            fs::write(&path, page).with_context(|| path.display().to_string())?;
        }
        return Ok(());
    }
    let wanted = match &args.command {
        Some(name) => format!("heapledger-{name}"),
        None => "heapledger".to_owned(),
    };
    let Some((_, page)) = pages().into_iter().find(|(name, _)| *name == wanted) else {
        let name = args.command.as_deref().unwrap_or_default();
        bail!(Usage::new(format!("there is no command {name}; `heapledger help` lists them")));
    };
    if io::stdout().is_terminal() && shown_by_man(&page).is_ok_and(|shown| shown) {
        return Ok(());
    }
    Ok(terminal::print(&page)?)
}

/// Has the page shown; false if `man` did not do it.
fn shown_by_man(page: &str) -> io::Result<bool> {
    let program = exec::find(OsStr::new("man"))?;
    let mut man = Process::new(program).args(["-l", "-"]).stdin(Stdio::piped()).spawn()?;
    // It is no matter if it is left before its end.
    let _ = man.stdin.take().map(|mut stdin| stdin.write_all(page.as_bytes()));
    Ok(man.wait()?.success())
}

/// All pages with their names, `heapledger-dump`.
fn pages() -> Vec<(String, String)> {
    let command = help::command();
    let subs = command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set());
    let subs: Vec<(String, Command)> =
        subs.map(|sub| (format!("heapledger-{}", sub.get_name()), sub.clone())).collect();
    let mut pages = vec![("heapledger".to_owned(), page("heapledger", &command, true))];
    pages.extend(subs.iter().map(|(name, sub)| (name.clone(), page(name, sub, false))));
    pages
}

fn page(name: &str, command: &Command, whole: bool) -> String {
    let source = concat!("heapledger ", env!("CARGO_PKG_VERSION"));
    // It is no page of its own.
    let shown = if whole { command.clone().mut_subcommand("help", |help| help.hide(true)) } else { command.clone() };
    let man = Man::new(shown).title(name).source(source).manual("Heapledger");
    let mut out = Vec::new();
    let mut render = |part: fn(&Man, &mut dyn Write) -> io::Result<()>| {
        // A vector takes everything.
        let _ = part(&man, &mut out);
    };
    render(Man::render_title);
    render(Man::render_name_section);
    render(Man::render_synopsis_section);
    render(Man::render_description_section);
    if whole {
        render(Man::render_subcommands_section);
    }
    render(Man::render_options_section);
    let more = command.get_after_long_help().or_else(|| command.get_after_help());
    let more = more.map(ToString::to_string).unwrap_or_default();
    let (notes, examples) = more.split_once("Examples:\n").unwrap_or((&more, ""));
    let mut roff = Roff::new();
    // What stands before the examples of the whole is the list of commands once more.
    if !whole && !notes.trim().is_empty() {
        roff.control("SH", ["NOTES"]);
        text(&mut roff, notes);
    }
    if whole {
        for (heading, items) in [("ENVIRONMENT", ENVIRONMENT), ("EXIT STATUS", EXIT_STATUS)] {
            roff.control("SH", [heading]);
            for (item, meaning) in items {
                roff.control("TP", []);
                roff.text([bold(*item)]);
                roff.text([roman(*meaning)]);
            }
        }
    }
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]);
        text(&mut roff, examples);
    }
    roff.control("SH", ["SEE ALSO"]);
    see_also(&mut roff, name, whole);
    out.extend_from_slice(roff.to_roff().as_bytes());
    // roff knows no UTF-8, only names of characters.
    let text = String::from_utf8_lossy(&out);
    let named = |letter: char| match letter.is_ascii() {
        true => letter.to_string(),
        false => format!("\\[u{:04X}]", u32::from(letter)),
    };
    text.chars().map(named).collect()
}

/// Paragraphs; lines that are indented stay as they are.
fn text(roff: &mut Roff, text: &str) {
    let mut kept = false;
    for line in text.trim_matches('\n').lines() {
        let keep = line.starts_with(' ') || (kept && line.is_empty());
        if keep != kept {
            roff.control(if keep { "EX" } else { "EE" }, []);
            kept = keep;
        }
        if line.is_empty() && !kept {
            roff.control("PP", []);
        } else {
            // An empty line, kept.
            let line: Inline =
                if line.is_empty() { roman("\u{a0}") } else { roman(line.strip_prefix("  ").unwrap_or(line)) };
            roff.text([line]);
        }
    }
    if kept {
        roff.control("EE", []);
    }
}

fn see_also(roff: &mut Roff, own: &str, whole: bool) {
    let command = help::command();
    let others = command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set());
    let mut names: Vec<String> = others.map(|sub| format!("heapledger-{}", sub.get_name())).collect();
    if !whole {
        names.insert(0, "heapledger".to_owned());
    }
    names.retain(|name| name != own);
    let mut words = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        if index > 0 {
            words.push(roman(", "));
        }
        words.extend([bold(name), roman("(1)")]);
    }
    roff.text(words);
}
