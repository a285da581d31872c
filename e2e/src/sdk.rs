//! Programs in C that record themselves, linked with what `heapledger sdk` writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ledger::Blocks;
use crate::process;
use crate::scratch::Scratch;
use crate::tools::{command, heapledger, root};
use crate::{Result, check};

/// What programs are built with, in a directory of the test's own.
pub struct Sdk {
    /// Where all of it is.
    pub scratch: Scratch,
    /// Where the library is.
    pub prefix: PathBuf,
}

impl Sdk {
    /// In a place of its own.
    pub fn new() -> Result<Sdk> {
        let scratch = Scratch::new();
        let prefix = scratch.path("sdk");
        process::run(command(heapledger()).arg("sdk").arg(&prefix))?.good()?;
        Ok(Sdk { scratch, prefix })
    }

    /// The directory of the libraries.
    pub fn library(&self) -> PathBuf {
        self.prefix.join("lib")
    }

    /// Compiles one of the programs.
    pub fn built(&self, compiler: &str, source: &str, name: &str, options: &[&str]) -> Result<PathBuf> {
        let program = self.scratch.path(name);
        let mut compile = Command::new(compiler);
        compile.args(["-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]).arg(self.prefix.join("include"));
        compile.arg(root().join("e2e/c_api").join(source)).arg("-L").arg(self.library());
        process::run(compile.args(options).arg("-o").arg(&program))?.good()?;
        Ok(program)
    }

    /// The same, linked with the shared library.
    pub fn linked(&self, name: &str, options: &[&str]) -> Result<PathBuf> {
        let search = format!("-Wl,-rpath,{}", self.library().display());
        self.built("gcc", "own.c", name, &[options, &["-lheapledger", &search]].concat())
    }

    /// What a program is linked with that calls the archive's functions in place of the C library's.
    pub fn wraps(&self) -> Result<Vec<String>> {
        let mut asked = command("pkg-config");
        asked.env("PKG_CONFIG_PATH", self.library().join("pkgconfig")).args(["--libs", "heapledger-wrapped"]);
        Ok(process::run(&mut asked)?.good()?.out().split_ascii_whitespace().map(str::to_owned).collect())
    }

    /// A program that is linked so.
    pub fn wrapped(&self, compiler: &str, source: &str, name: &str, options: &[&str]) -> Result<PathBuf> {
        let wraps = self.wraps()?;
        self.built(compiler, source, name, &[options, &wraps.iter().map(String::as_str).collect::<Vec<_>>()].concat())
    }

    /// A program in the work directory, its unfinished ledgers in the test's own place.
    pub fn command(&self, program: &Path, items: &str, words: &[&str]) -> Command {
        let mut command = command(program);
        let items = if items.is_empty() { String::new() } else { format!(",{items}") };
        command.args(words).current_dir(self.scratch.work());
        command.env("HEAPLEDGER", format!("dir={}{items}", self.scratch.live().display()));
        command
    }

    /// What it says.
    pub fn run(&self, program: &Path, items: &str, words: &[&str]) -> Result<process::Ran> {
        process::run(&mut self.command(program, items, words))
    }

    /// The one finished ledger that is there, taken away.
    pub fn ledger(&self) -> Result<Ledger> {
        let all = self.scratch.finished();
        let [path] = &all[..] else { return Err(format!("not one finished ledger: {all:?}")) };
        let taken = self.scratch.path("taken");
        fs::rename(path, &taken).map_err(|error| error.to_string())?;
        Ok(Ledger { name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(), path: taken })
    }

    /// No ledger is left.
    pub fn check_nothing_left(&self, what: &str) -> Result {
        let (finished, unfinished) = (self.scratch.finished(), self.scratch.unfinished());
        check!(finished.is_empty() && unfinished.is_empty(), "{what} leaves {finished:?}, {unfinished:?}");
        Ok(())
    }
}

/// A finished ledger.
pub struct Ledger {
    /// What it was called.
    pub name: String,
    /// Where it is now.
    pub path: PathBuf,
}

/// The live blocks of the program's own functions: size, kind, functions from the innermost to `main`.
pub fn own_blocks(ledger: &Path) -> Result<Vec<String>> {
    const OWN: [&str; 3] = ["leaf", "family", "pool"];
    let live = Blocks::live(ledger)?;
    let mut all = Vec::new();
    for block in &live.blocks {
        let names: Vec<_> = live.stacks[&block.site].iter().map(|frame| frame.names[0].as_str()).collect();
        if names.first().is_some_and(|name| OWN.contains(name)) {
            let to_main = names.iter().position(|name| *name == "main").ok_or_else(|| format!("no main: {names:?}"))?;
            all.push(format!("{} {} {}", block.size, live.kinds[block.kind], names[..=to_main].join(" ")));
        }
    }
    all.sort();
    Ok(all)
}

/// What `own work` holds in the end.
pub const WORK: [&str; 8] = [
    "1234 malloc leaf work main",
    "1280 aligned_alloc family work main",
    "2560 memalign family work main",
    "275 reallocarray family work main",
    "321 realloc family work main",
    "333 calloc family work main",
    "5000 realloc family work main",
    "640 posix_memalign family work main",
];
