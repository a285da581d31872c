//! Which tool finds what: prints `docs/guard-victims.md`, each victim of `e2e/guard` under each tool that there is.
//!
//!     cargo run --release -p heapledger-e2e --example guard_victims > docs/guard-victims.md
//!
//! A quarter of an hour, nearly all of it memcheck's. `--without-memcheck` takes a minute; names choose programs (`lives.c`). Where a level
//! does not keep what `e2e/src/guard/promise.rs` promises, that is said on standard error, and the end is a failure.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use heapledger_e2e::Result;
use heapledger_e2e::guard::{Build, Case, Level, SOURCES, built, cases, told};
use heapledger_e2e::process::{self, Ran};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, find};
use heapledger_e2e::tracked::under_run;

/// Who looks.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Tool {
    /// Nobody but the allocator.
    Glibc,
    Ours(Level),
    /// `page`, where blocks end at their page to the byte.
    ToTheByte,
    Memcheck(PathBuf),
    /// Its runtime in a program that knows nothing of it.
    SanitizerPreloaded(PathBuf),
    SanitizerRebuilt,
}

impl Tool {
    fn all(memcheck: bool) -> Result<Vec<Tool>> {
        let mut all = vec![Tool::Glibc];
        all.extend(Level::known()?.into_iter().map(Tool::Ours));
        all.push(Tool::ToTheByte);
        all.extend(find(&["valgrind"]).filter(|_| memcheck).map(Tool::Memcheck));
        let runtime = process::run(command("gcc").arg("-print-file-name=libasan.so"))?.out();
        let runtime = Path::new(runtime.trim()).canonicalize().ok().filter(|path| path.is_absolute());
        if let Some(runtime) = runtime {
            all.extend([Tool::SanitizerPreloaded(runtime), Tool::SanitizerRebuilt]);
        }
        Ok(all)
    }

    fn name(&self) -> String {
        match self {
            Tool::Glibc => "glibc".to_owned(),
            Tool::Ours(level) => format!("`{}`", level.name()),
            Tool::ToTheByte => "`page` to the byte".to_owned(),
            Tool::Memcheck(_) => "memcheck".to_owned(),
            Tool::SanitizerPreloaded(_) => "ASan preloaded".to_owned(),
            Tool::SanitizerRebuilt => "ASan rebuilt".to_owned(),
        }
    }

    /// Runs a program under it. `None` if it cannot look at this one.
    fn run(&self, source: &str, scratch: &Scratch, words: &[String]) -> Result<Option<Ran>> {
        let build = if *self == Tool::SanitizerRebuilt { Build::AddressSanitizer } else { Build::O2 };
        let Some(program) = built(source, build)? else { return Ok(None) };
        let in_place = |mut command: Command| {
            command.env("ASAN_OPTIONS", "detect_leaks=0");
            process::run(command.args(words).current_dir(scratch.work()))
        };
        let ran = match self {
            Tool::Ours(level) => process::run(&mut under_run(scratch, "x", level.options(), &program, words))?,
            Tool::ToTheByte => {
                process::run(&mut under_run(scratch, "x", &["--guard=page", "--guard-align=1"], &program, words))?
            }
            Tool::Glibc | Tool::SanitizerRebuilt => in_place(command(&program))?,
            Tool::Memcheck(valgrind) => {
                let mut command = command(valgrind);
                command.args(["-q", "--leak-check=no", "--undef-value-errors=no"]).arg(&program);
                in_place(command)?
            }
            Tool::SanitizerPreloaded(runtime) => {
                let mut command = command(&program);
                command.env("LD_PRELOAD", runtime);
                in_place(command)?
            }
        };
        Ok(Some(ran))
    }

    /// What it has seen: empty if nothing.
    fn seen(&self, ran: &Ran, scratch: &Scratch, kind: &str) -> Result<Seen> {
        let text = ran.err();
        let report = match self {
            Tool::Glibc => None,
            Tool::Ours(_) | Tool::ToTheByte => {
                let errors = told::errors(&scratch.path("x.hl"))?;
                let this = errors.iter().find(|error| error.kind() == kind);
                match (this, errors.first()) {
                    (Some(error), _) => Some(format!("at {}", error.found_at())),
                    (None, Some(error)) => Some(format!("as {}", error.kind())),
                    (None, None) => None,
                }
            }
            Tool::Memcheck(_) => {
                let words = ["Invalid ", "Mismatched ", "unaddressable", "overlap", "realloc() with size"];
                words.iter().any(|word| text.contains(word)).then(|| "yes".to_owned())
            }
            Tool::SanitizerPreloaded(_) | Tool::SanitizerRebuilt => {
                let is_report = text.contains("ERROR: AddressSanitizer") && !text.contains("AddressSanitizer: SEGV");
                is_report.then(|| "yes".to_owned())
            }
        };
        Ok(match report {
            Some(how) => Seen::Found(how),
            None if !ran.status.success() => Seen::Died,
            None => Seen::Nothing,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Found(String),
    Died,
    Nothing,
    NotRun,
}

struct Victim {
    source: &'static str,
    case: Case,
    seen: Vec<Seen>,
    broken: Vec<String>,
}

fn look(victim: &mut Victim, tools: &[Tool]) -> Result {
    let words = [victim.case.name.clone(), "bad".to_owned()];
    for tool in tools {
        let scratch = Scratch::new();
        let seen = match tool.run(victim.source, &scratch, &words)? {
            Some(ran) => tool.seen(&ran, &scratch, &victim.case.kind)?,
            None => Seen::NotRun,
        };
        if let (Tool::Ours(level), true) = (tool, seen != Seen::NotRun) {
            let errors = told::errors(&scratch.path("x.hl"))?;
            victim.broken.extend(told::compare(&victim.case, *level, &errors).err());
        }
        victim.seen.push(seen);
    }
    Ok(())
}

/// Does it for all, on as many processors as there are.
fn for_each<T: Send>(items: &mut [T], act: impl Fn(&mut T) -> Result + Sync) -> Result {
    let items: Vec<Mutex<&mut T>> = items.iter_mut().map(Mutex::new).collect();
    let (next, problems) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = item.lock().map_err(|_| "a thread panicked".to_owned()).and_then(|mut item| act(&mut item));
            if let (Err(problem), Ok(mut problems)) = (result, problems.lock()) {
                problems.push(problem);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let problems = problems.into_inner().unwrap_or_default();
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

fn of_programs(source: &str) -> &'static str {
    match source {
        "past_ends.c" => "past the ends: sizes, distances, types, loops",
        "libc_calls.c" => "calls of the C library",
        "lives.c" => "after the end, freed twice, realloc, threads",
        "habits.c" => "mistakes as people make them",
        "objects.cc" => "C++",
        "raw.rs" => "Rust, unsafe",
        _ => "",
    }
}

/// Programs that do nothing wrong and of which a tool says that they do.
fn false_reports(sources: &[&'static str], tools: &[Tool]) -> Result<Vec<String>> {
    let mut all: Vec<(&str, &Tool, Option<String>)> =
        sources.iter().flat_map(|source| tools.iter().map(move |tool| (*source, tool, None))).collect();
    for_each(&mut all, |(source, tool, found)| {
        let scratch = Scratch::new();
        let Some(ran) = tool.run(source, &scratch, &["all".to_owned(), "good".to_owned()])? else { return Ok(()) };
        let seen = tool.seen(&ran, &scratch, "")?;
        if seen != Seen::Nothing {
            *found = Some(format!("- {} of {source}: {seen:?}", tool.name()));
        }
        Ok(())
    })?;
    Ok(all.into_iter().filter_map(|(_, _, found)| found).collect())
}

fn row(cells: impl IntoIterator<Item = String>) -> String {
    format!("| {} |\n", cells.into_iter().collect::<Vec<_>>().join(" | "))
}

fn head(first: &str, tools: &[Tool]) -> String {
    let names = [first.to_owned()].into_iter().chain(tools.iter().map(Tool::name));
    row(names) + &row(std::iter::repeat_n("---".to_owned(), tools.len() + 1))
}

fn sums(victims: &[Victim], sources: &[&'static str], tools: &[Tool]) -> String {
    let mut out = head("victims", tools);
    let mut sum = |title: String, chosen: &dyn Fn(&Victim) -> bool| {
        let those: Vec<&Victim> = victims.iter().filter(|victim| chosen(victim)).collect();
        let cell = |at: usize| {
            let count = |wanted: fn(&Seen) -> bool| {
                those.iter().filter(|victim| victim.seen.get(at).is_some_and(wanted)).count()
            };
            let found = count(|seen| matches!(seen, Seen::Found(_)));
            let died = count(|seen| *seen == Seen::Died);
            let runs = those.len() - count(|seen| *seen == Seen::NotRun);
            let died = if died == 0 { String::new() } else { format!(", dies {died}") };
            if runs == 0 { "not run".to_owned() } else { format!("{found} of {runs}{died}") }
        };
        if !those.is_empty() {
            out += &row([title].into_iter().chain((0..tools.len()).map(cell)));
        }
    };
    for source in sources {
        sum(format!("{} (`{source}`)", of_programs(source)), &|victim| victim.source == *source);
    }
    let mut kinds: Vec<(String, String)> = victims
        .iter()
        .map(|victim| (victim.case.kind.clone(), format!("{:?}", victim.case.access).to_lowercase()))
        .collect();
    kinds.sort();
    kinds.dedup();
    for (kind, access) in kinds {
        let title = if access == "free" { kind.clone() } else { format!("{kind}, {access}") };
        let is_this =
            |victim: &Victim| victim.case.kind == kind && format!("{:?}", victim.case.access).to_lowercase() == access;
        sum(title, &is_this);
    }
    sum("all".to_owned(), &|_| true);
    out
}

/// What runs under two levels find together, beside a program that was rebuilt with AddressSanitizer; and what that one alone finds.
fn together(victims: &[Victim], tools: &[Tool]) -> String {
    let place = |wanted: &Tool| tools.iter().position(|tool| tool == wanted);
    let Some(asan) = place(&Tool::SanitizerRebuilt) else { return String::new() };
    let has = |victim: &Victim, at: usize| matches!(victim.seen.get(at), Some(Seen::Found(_)));
    let built: Vec<&Victim> = victims.iter().filter(|victim| victim.seen.get(asan) != Some(&Seen::NotRun)).collect();
    let (found, all) = (built.iter().filter(|victim| has(victim, asan)).count(), built.len());
    let mut out = format!(
        "\nOf the {all} that can be rebuilt, ASan finds {found}. Two runs without a rebuild find together:\n\n"
    );
    for behind in [Tool::Ours(Level::Page), Tool::ToTheByte] {
        let Some((behind, before)) = place(&behind).zip(place(&Tool::Ours(Level::Under))) else { continue };
        let either = |victim: &&&Victim| has(victim, behind) || has(victim, before);
        let of_both = built.iter().filter(either).count();
        let missed = built.iter().filter(|victim| has(victim, asan) && !either(victim));
        let missed: Vec<String> = missed.map(|victim| format!("`{}`", victim.case.name)).collect();
        let names = [behind, before].map(|at| tools.get(at).map(Tool::name).unwrap_or_default());
        let _ = write!(out, "- {} and {}: {of_both}", names[0], names[1]);
        out += &match missed.len() {
            0 => "; all that ASan finds is among them\n".to_owned(),
            count => format!("; {count} that ASan finds are not among them: {}\n", missed.join(", ")),
        };
    }
    out + "\nWhat they miss are reads between a block's end and the next multiple of 16, which the allocator gives with each block.\n"
}

fn text(victims: &[Victim], sources: &[&'static str], tools: &[Tool], wrong: &[String]) -> String {
    let mut out = String::from(
        "# Which tool finds what\n\n\
         Made by `cargo run --release -p heapledger-e2e --example guard_victims > docs/guard-victims.md`, which takes a quarter of an hour.\n\n\
         Each victim is a case of a program in `e2e/guard`, and does one thing wrong, on the heap. `glibc` is the program alone, `off` is `heapledger run`\n\
         without `--guard`. ASan is gcc's: its runtime preloaded into a program that was not built for it, and a program that was built with\n\
         `-fsanitize=address`. All are built with `-O2`.\n\n\
         `yes`, `at PLACE`: it was reported, and where. `dies`: no report, but the allocator or the processor has ended the program. `–`: nobody noticed.\n\
         memcheck knows no `pvalloc`: a program that calls it dies of the free. ASan does not look at all of the C library's wide functions, and takes a\n\
         block of no bytes for one of one.\n\n",
    );
    out += &sums(victims, sources, tools);
    out += &together(victims, tools);
    out += "\nDone rightly, the same cases must be silent. ";
    if wrong.is_empty() {
        out += "They were, under every tool.\n";
    } else {
        let _ = write!(out, "They were not here:\n\n{}\n", wrong.join("\n"));
    }
    for source in sources {
        let _ = write!(out, "\n## {} (`e2e/guard/{source}`)\n\n{}", of_programs(source), head("victim", tools));
        for victim in victims.iter().filter(|victim| victim.source == *source) {
            let cell = |seen: &Seen| match seen {
                Seen::Found(how) => how.clone(),
                Seen::Died => "dies".to_owned(),
                Seen::Nothing => "–".to_owned(),
                Seen::NotRun => "not run".to_owned(),
            };
            out += &row([victim.case.name.clone()].into_iter().chain(victim.seen.iter().map(cell)));
        }
    }
    out
}

/// The document, and what was promised and not kept.
fn all() -> Result<(String, Vec<String>)> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let chosen: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let is_chosen = |source: &&&str| chosen.is_empty() || chosen.iter().any(|name| name == *source);
    let sources: Vec<&'static str> = SOURCES.iter().filter(is_chosen).copied().collect();
    let tools = Tool::all(!words.iter().any(|word| word == "--without-memcheck"))?;
    let mut victims = Vec::new();
    for source in &sources {
        let Some(program) = built(source, Build::O2)? else { continue };
        victims.extend(cases(&program)?.into_iter().map(|case| Victim { source, case, seen: vec![], broken: vec![] }));
    }
    for_each(&mut victims, |victim| look(victim, &tools))?;
    let wrong = false_reports(&sources, &tools)?;
    let text = text(&victims, &sources, &tools, &wrong);
    Ok((text, victims.into_iter().flat_map(|victim| victim.broken).collect()))
}

fn main() -> ExitCode {
    match all() {
        Ok((text, broken)) => {
            print!("{text}");
            broken.iter().for_each(|problem| eprintln!("{problem}"));
            if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}
