//! Victims: what their first lines say, and how they are built. See `victims/README.md`.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Mutex;

use crate::expect::Expectation;
use crate::stress;
use crate::tools::{self, is_fresh, products, root, system_library};
use crate::{Result, check};

/// Why the tracker cannot see a program's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untracked {
    /// No loader.
    Static,
    /// It defines malloc.
    OwnAllocator,
    /// It has an allocator under other names.
    HiddenAllocator,
}

/// One way to run a victim.
#[derive(Clone, Debug)]
pub struct Run {
    /// From 1, in the order of the `run:` lines.
    pub number: usize,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// How it ends.
    pub status: ExitStatus,
}

/// A program with one behaviour.
#[derive(Clone, Debug)]
pub struct Victim {
    /// Name of the source, without ending.
    pub name: String,
    source: PathBuf,
    flags: Vec<String>,
    libraries: Vec<String>,
    shared: Vec<Vec<String>>,
    shared_object: Option<String>,
    /// Missing package, if it cannot be built here.
    pub needs: Option<String>,
    /// Ways to run it.
    pub runs: Vec<Run>,
    /// Ways to run it very often, where those of `runs` take too long.
    pub stress: Vec<Run>,
    /// Whether it has threads, signals or forks.
    pub is_timed: bool,
    /// Allocators to run it over, beside libc's.
    pub also_under: Vec<String>,
    /// Why it is not seen.
    pub untracked: Option<Untracked>,
    /// What the ledger must show.
    pub expectations: Vec<Expectation>,
    /// Losses that it may have, by name.
    pub losses: Vec<String>,
    /// What it does wrong on purpose, by kinds of errors.
    pub errors: Vec<String>,
    /// Functions that the counting library sees and the ledger does not.
    pub uncounted: Vec<String>,
}

/// Where the victims lie.
pub fn directory() -> PathBuf {
    root().join("victims")
}

/// All victims, in the order of their names.
pub fn all() -> Result<Vec<Victim>> {
    let mut all = Vec::new();
    for item in fs::read_dir(directory()).map_err(|error| error.to_string())? {
        let path = item.map_err(|error| error.to_string())?.path();
        if path.extension().is_some_and(|ending| ending == "c" || ending == "cc") {
            let victim = Victim::read(&path)?;
            if victim.shared_object.is_none() {
                all.push(victim);
            }
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// A victim by name.
pub fn named(name: &str) -> Result<Victim> {
    let path =
        ["c", "cc"].iter().map(|ending| directory().join(name).with_extension(ending)).find(|path| path.exists());
    Victim::read(&path.ok_or_else(|| format!("there is no victim {name}"))?)
}

/// The counting library.
pub fn counter() -> Result<PathBuf> {
    named("counter")?.build()
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split_ascii_whitespace().map(str::to_owned)
}

impl Victim {
    /// Reads the leading comment of a source.
    pub fn read(source: &Path) -> Result<Victim> {
        let text = fs::read_to_string(source).map_err(|error| format!("{}: {error}", source.display()))?;
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut victim = Victim {
            name,
            source: source.to_owned(),
            flags: vec![],
            libraries: vec![],
            shared: vec![],
            shared_object: None,
            needs: None,
            runs: vec![],
            stress: vec![],
            is_timed: stress::is_timed(&text),
            also_under: vec![],
            untracked: None,
            expectations: vec![],
            losses: vec![],
            errors: vec![],
            uncounted: vec![],
        };
        let mut package = None;
        for line in text.lines().map_while(|line| line.strip_prefix("//")) {
            let Some((key, value)) = line.trim().split_once(':') else { continue };
            let value = value.trim();
            match key {
                "flags" => victim.flags.extend(words(value)),
                "libs" => victim.libraries.extend(words(value)),
                "package" => package = Some(value.to_owned()),
                "shared" => victim.shared.push(words(value).collect()),
                "shared-object" => victim.shared_object = Some(value.to_owned()),
                "run" => victim.runs.push(Run::parse(victim.runs.len() + 1, value)?),
                "stress" => victim.stress.push(Run::parse(victim.stress.len() + 1, value)?),
                "also-under" => victim.also_under.extend(words(value)),
                "uncounted" => victim.uncounted.extend(words(value)),
                "losses" => victim.losses.extend(words(value)),
                "errors" => victim.errors.extend(words(value)),
                "untracked" => {
                    victim.untracked = Some(match value {
                        "static" => Untracked::Static,
                        "own-allocator" => Untracked::OwnAllocator,
                        "hidden-allocator" => Untracked::HiddenAllocator,
                        other => return Err(format!("{}: untracked: {other}?", source.display())),
                    });
                }
                key if key.starts_with("expect") => victim.expectations.push(Expectation::parse(key, value)?),
                _ => {}
            }
        }
        if victim.runs.is_empty() {
            victim.runs.push(Run::parse(1, "")?);
        }
        let missing = |name: &String| name.strip_prefix("-l:").is_some_and(|file| system_library(file).is_none());
        if victim.libraries.iter().any(missing) {
            victim.needs = Some(package.unwrap_or_else(|| victim.libraries.join(" ")));
        }
        Ok(victim)
    }

    /// Builds it unless that was done; returns its path.
    pub fn build(&self) -> Result<PathBuf> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _one = ONE_AT_A_TIME.lock();
        let out = products().join("victims");
        fs::create_dir_all(&out).map_err(|error| error.to_string())?;
        for shared in &self.shared {
            let [source, library, flags @ ..] = shared.as_slice() else {
                return Err(format!("{}: shared:", self.name));
            };
            let mut all: Vec<&str> = vec!["-shared", "-fPIC"];
            all.extend(flags.iter().map(String::as_str));
            compile(&directory().join("plugins").join(source), &out.join(library), &all, &[])?;
        }
        let product = out.join(self.shared_object.as_deref().unwrap_or(&self.name));
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        compile(&self.source, &product, &flags, &self.libraries)?;
        Ok(product)
    }
}

impl Run {
    fn parse(number: usize, text: &str) -> Result<Run> {
        let (arguments, way) = text.split_once("=>").unwrap_or((text, "0"));
        let way = way.trim();
        let odd = |_| format!("run: {text}?");
        let raw = match way.strip_prefix("signal ") {
            Some(signal) => signal.parse().map_err(odd)?,
            None => way.parse::<i32>().map_err(odd)? << 8,
        };
        Ok(Run { number, arguments: words(arguments).collect(), status: ExitStatus::from_raw(raw) })
    }
}

/// `-O1`: at `-O2` gcc makes jumps of tail calls, and frames vanish from stacks.
fn compile(source: &Path, product: &Path, flags: &[&str], libraries: &[String]) -> Result {
    let mut sources = vec![source.to_owned()];
    let headers =
        fs::read_dir(directory()).map_err(|error| error.to_string())?.filter_map(|item| Some(item.ok()?.path()));
    sources.extend(headers.filter(|path| path.extension().is_some_and(|ending| ending == "h")));
    if is_fresh(product, &sources) {
        return Ok(());
    }
    let compiler = if source.extension().is_some_and(|ending| ending == "cc") { "g++" } else { "gcc" };
    // Another test may build the same at the same time, and a third one run it.
    let temporary = product.with_extension(format!("{}.part", std::process::id()));
    let mut command = tools::command(compiler);
    command.args(["-O1", "-g"]).args(flags).arg("-o").arg(&temporary).arg(source).args(libraries);
    let ran = crate::process::run(&mut command)?;
    check!(ran.status.success(), "{command:?}: {}", ran.err());
    fs::rename(&temporary, product).map_err(|error| error.to_string())
}
