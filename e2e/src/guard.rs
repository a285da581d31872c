//! Programs that do one thing wrong with a block (`e2e/guard`): what each does, and at which level of guarding that is to be found where.
//!
//! Facts are the programs' own, told by their `list`; what follows from them for a level is in [`promise`], and nowhere else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::scratch::Scratch;
use crate::tools::{command, find, is_fresh, products, root};
use crate::tracked::under_run;
use crate::{Result, check, process};

pub mod promise;
pub mod told;

/// The programs whose `main` is that of `case.h`, or in Rust understands the same.
pub const SOURCES: [&str; 6] = ["past_ends.c", "libc_calls.c", "lives.c", "habits.c", "objects.cc", "raw.rs"];

/// How a program is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// As it is written.
    O0,
    /// As it is shipped.
    O2,
    /// As it is shipped, with what checks each access.
    AddressSanitizer,
}

/// What is put around blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing: the ledger alone.
    Off,
    /// Canaries.
    Light,
    /// Fills, a quarantine, and checked calls of the C library.
    Full,
    /// A closed page behind each block.
    Page,
    /// A closed page in front of it.
    Under,
}

impl Level {
    /// All of them.
    pub const ALL: [Level; 5] = [Level::Off, Level::Light, Level::Full, Level::Page, Level::Under];

    /// Its name, as `--guard` takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Off => "off",
            Level::Light => "light",
            Level::Full => "full",
            Level::Page => "page",
            Level::Under => "page=under",
        }
    }

    /// What `run` is told: nothing where nothing is wanted.
    pub const fn options(self) -> &'static [&'static str] {
        match self {
            Level::Off => &[],
            Level::Light => &["--guard=light"],
            Level::Full => &["--guard=full"],
            Level::Page => &["--guard=page"],
            Level::Under => &["--guard=page=under"],
        }
    }

    /// Those that the command line understands.
    pub fn known() -> Result<Vec<Level>> {
        let (scratch, mut known) = (Scratch::new(), Vec::new());
        for level in Level::ALL {
            let mut run = under_run(&scratch, "known", level.options(), Path::new("/bin/true"), &[]);
            if process::run(&mut run)?.status.success() {
                known.push(level);
            }
        }
        Ok(known)
    }
}

/// Builds a program, all of its cases at once, unless that was done. `None` if there is no compiler that could.
pub fn built(source: &str, build: Build) -> Result<Option<PathBuf>> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock();
    let out = products().join("guard");
    fs::create_dir_all(&out).map_err(|error| error.to_string())?;
    let product = out.join(format!("{}-{build:?}", source.replace('.', "-")));
    let directory = root().join("e2e/guard");
    let made_from = [directory.join(source), directory.join("case.h"), root().join("victims/victim.h")];
    if is_fresh(&product, &made_from) {
        return Ok(Some(product));
    }
    let Some(mut compile) = compiler(source, build) else { return Ok(None) };
    // Another test may build the same at the same time, and a third one run it.
    let temporary = product.with_extension(format!("{}.part", std::process::id()));
    process::run(compile.arg("-o").arg(&temporary).arg(directory.join(source)))?.good()?;
    fs::rename(&temporary, &product).map_err(|error| error.to_string())?;
    Ok(Some(product))
}

fn compiler(source: &str, build: Build) -> Option<Command> {
    if source.ends_with(".rs") {
        // A stable compiler has no sanitizers.
        let rustc = find(&["rustc"]).filter(|_| build != Build::AddressSanitizer)?;
        let mut compile = command(rustc);
        compile.args(["--edition", "2024", "--crate-name", "raw", "-g"]);
        compile.args(if build == Build::O0 { &[][..] } else { &["-O"] });
        return Some(compile);
    }
    let mut compile = command(if source.ends_with(".cc") { "g++" } else { "gcc" });
    compile.args(["-g", "-w", "-pthread"]).args(match build {
        Build::O0 => &["-O0"][..],
        Build::O2 => &["-O2"],
        Build::AddressSanitizer => &["-O2", "-fsanitize=address"],
    });
    // So that a call of the C library is one.
    compile.args(if ["libc_calls.c", "judged.c", "every_call.c", "call_costs.c"].contains(&source) {
        &["-fno-builtin"][..]
    } else {
        &[]
    });
    Some(compile)
}

/// What is done to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is read.
    Read,
    /// It is written.
    Write,
    /// Nothing: it is the call that gives a block back that is wrong.
    Free,
}

/// One thing that is wrong, as its program tells it.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// The function that does it.
    pub function: String,
    /// What it is called, with the names that scripts know.
    pub kind: String,
    /// What is done to memory.
    pub access: Access,
    /// The function of the C library that does it; `instruction` if the program does itself.
    pub by: String,
    /// Bytes of the block; `None` if that is a matter of libraries, or there is none.
    pub size: Option<i64>,
    /// The first byte that is touched wrongly, from the block's begin on.
    pub offset: i64,
    /// How many bytes are.
    pub bytes: i64,
    /// What the block is aligned to.
    pub alignment: i64,
    /// Where a level finds it, if that does not follow from the rest.
    special: Vec<(String, String)>,
}

/// The cases of a program.
pub fn cases(program: &Path) -> Result<Vec<Case>> {
    let list = process::run(command(program).arg("list"))?.good()?.out();
    list.lines().map(|line| Case::parse(line).ok_or_else(|| format!("{}: {line}?", program.display()))).collect()
}

impl Case {
    fn parse(line: &str) -> Option<Case> {
        let (name, rest) = line.split_once(' ')?;
        let pairs: Vec<(&str, &str)> =
            rest.split_ascii_whitespace().map(|word| word.split_once('=')).collect::<Option<_>>()?;
        let text = |key: &str| pairs.iter().find(|(own, _)| *own == key).map(|(_, value)| (*value).to_owned());
        let number = |key: &str| text(key)?.parse::<i64>().ok();
        let special = |level: &Level| Some((level.name().to_owned(), text(level.name())?));
        Some(Case {
            name: name.to_owned(),
            function: text("function")?,
            kind: text("kind")?,
            access: match &*text("access")? {
                "read" => Access::Read,
                "write" => Access::Write,
                "free" => Access::Free,
                _ => return None,
            },
            by: text("by")?,
            size: Some(number("size")?).filter(|size| *size >= 0),
            offset: number("offset")?,
            bytes: number("bytes")?,
            alignment: number("alignment")?,
            special: Level::ALL.iter().filter_map(special).collect(),
        })
    }

    /// Runs it at a level; the ledger is `x.hl`.
    pub fn run(&self, scratch: &Scratch, program: &Path, level: Level) -> Result<process::Ran> {
        let words = [self.name.clone(), "bad".to_owned()];
        process::run(&mut under_run(scratch, "x", level.options(), program, &words))
    }
}

/// Runs all cases of a program rightly, alone and at a level: nobody can tell which is which, and nothing is reported.
pub fn stays_silent(program: &Path, level: Level) -> Result {
    let (scratch, words) = (Scratch::new(), ["all".to_owned(), "good".to_owned()]);
    let plain = process::run(command(program).args(&words).current_dir(scratch.work()))?.good()?;
    let guarded = process::run(&mut under_run(&scratch, "x", level.options(), program, &words))?;
    plain.compare(&guarded).map_err(|problem| format!("{} at {}: {problem}", program.display(), level.name()))?;
    let errors = told::errors(&scratch.path("x.hl"))?;
    check!(errors.is_empty(), "{} at {}, where nothing is wrong: {errors:#?}", program.display(), level.name());
    Ok(())
}
