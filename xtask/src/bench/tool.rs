//! The tools that are compared, and how each is put around a program.

use std::path::Path;
use std::process::Command;

use super::kit::{Kit, find};
use super::program::Work;
use crate::step::{Result, output};

/// A way to run a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tool {
    /// By itself.
    Plain,
    /// The synthetic program, making its calls without malloc and free.
    Walk,
    /// `heapledger run`.
    Ours,
    /// `heapledger run --free-depth whole`.
    WholeFrees,
    /// `heapledger run --without stack`.
    WithoutStack,
    /// `heapledger run --sample 512K`.
    Sample,
    /// `heapledger run --unwind frame-pointers`.
    FramePointers,
    /// Our library told to keep nothing from one stack to the next: a plain walk with cached rules.
    NoReuse,
    /// heaptrack as people run it.
    Heaptrack,
    /// heaptrack's library alone, which writes to a plain file: no interpreter, no compressor.
    HeaptrackInside,
    /// A build with the address sanitizer, leaks looked for at the end.
    Asan,
    /// A build with the leak sanitizer alone.
    Lsan,
    /// memray, for Python.
    Memray,
    /// gperftools' heap profiler.
    Gperftools,
    /// valgrind's massif.
    Massif,
    /// `heapledger run --guard=light`.
    GuardLight,
    /// The same, with `--without stack,time,thread --history 0`: little but the guard.
    LightWithoutStack,
    /// `heapledger run --guard=full`.
    GuardFull,
    /// `heapledger run --guard=page=1/1000`.
    GuardRarely,
    /// `heapledger run --guard=page`.
    GuardPage,
    /// The address sanitizer's library, preloaded into a program that was not built for it.
    AsanPreloaded,
    /// LLVM's hardened allocator, preloaded.
    Scudo,
    /// valgrind's memcheck.
    Memcheck,
    /// Electric Fence.
    ElectricFence,
}

/// heaptrack 1.4.0's interpreter takes all memory there is when it meets some data that it hashes badly.
const HEAPTRACK_DATA_LIMIT: &str = "--data=8589934592";

impl Tool {
    /// Those that find what a program does wrong with its heap, and what they are compared with.
    pub(super) const GUARDS: &[Tool] = &[
        Tool::Plain,
        Tool::Ours,
        Tool::WholeFrees,
        Tool::WithoutStack,
        Tool::GuardLight,
        Tool::LightWithoutStack,
        Tool::GuardFull,
        Tool::GuardRarely,
        Tool::GuardPage,
        Tool::AsanPreloaded,
        Tool::Scudo,
        Tool::Memcheck,
        Tool::ElectricFence,
    ];

    /// All but those, in the order of the tables.
    pub(super) const ALL: &[Tool] = &[
        Tool::Plain,
        Tool::Walk,
        Tool::Ours,
        Tool::WholeFrees,
        Tool::WithoutStack,
        Tool::Sample,
        Tool::FramePointers,
        Tool::NoReuse,
        Tool::Heaptrack,
        Tool::HeaptrackInside,
        Tool::Asan,
        Tool::Lsan,
        Tool::Memray,
        Tool::Gperftools,
        Tool::Massif,
    ];

    /// Its name in tables, and for `--tools`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Tool::Plain => "plain",
            Tool::Walk => "walk",
            Tool::Ours => "heapledger",
            Tool::WholeFrees => "whole-frees",
            Tool::WithoutStack => "no-stack",
            Tool::Sample => "sample-512K",
            Tool::FramePointers => "by-fp",
            Tool::NoReuse => "no-reuse",
            Tool::Heaptrack => "heaptrack",
            Tool::HeaptrackInside => "in-process",
            Tool::Asan => "asan",
            Tool::Lsan => "lsan",
            Tool::Memray => "memray",
            Tool::Gperftools => "gperftools",
            Tool::Massif => "massif",
            Tool::GuardLight => "light",
            Tool::LightWithoutStack => "light-alone",
            Tool::GuardFull => "full",
            Tool::GuardRarely => "page=1/1000",
            Tool::GuardPage => "page",
            Tool::AsanPreloaded => "asan-preloaded",
            Tool::Scudo => "scudo",
            Tool::Memcheck => "memcheck",
            Tool::ElectricFence => "efence",
        }
    }

    /// Whether it is so slow that it is run once, on less work.
    pub(super) const fn is_slow(self) -> bool {
        matches!(self, Tool::Gperftools | Tool::Massif | Tool::GuardPage | Tool::Memcheck | Tool::ElectricFence)
    }

    /// Why it cannot be used here, if so.
    pub(super) fn is_missing(self, kit: &Kit) -> Result {
        let need = |name: &str| find(&[name]).map(drop).ok_or_else(|| format!("{name} is not installed"));
        match self {
            Tool::Heaptrack => need("heaptrack"),
            Tool::HeaptrackInside => {
                kit.heaptrack_library.as_ref().map(drop).ok_or_else(|| "heaptrack's library is not there".into())
            }
            Tool::Asan => kit.paths_asan.clone().map(drop),
            Tool::Lsan => kit.paths_lsan.clone().map(drop),
            Tool::Memray => {
                let python = find(&["/usr/bin/python3", "python3"]).ok_or("python3 is not installed")?;
                let output = Command::new(python).args(["-m", "memray", "--version"]).output();
                let there = output.is_ok_and(|output| output.status.success());
                if there { Ok(()) } else { Err("python3 has no module memray".into()) }
            }
            Tool::Gperftools => kit.tcmalloc.as_ref().map(drop).ok_or_else(|| "libtcmalloc.so.4 is not there".into()),
            Tool::Massif | Tool::Memcheck => need("valgrind"),
            Tool::AsanPreloaded | Tool::Scudo | Tool::ElectricFence => self.library().map(drop),
            Tool::Sample => {
                let help = output(Command::new(&kit.heapledger).args(["run", "--help"]))?;
                if help.contains("--sample") { Ok(()) } else { Err("heapledger run has no --sample".into()) }
            }
            _ => Ok(()),
        }
    }

    /// Whether it is our own, with `run` around the program.
    pub(super) const fn option(self) -> Option<&'static [&'static str]> {
        match self {
            Tool::Ours => Some(&[]),
            Tool::WholeFrees => Some(&["--free-depth", "whole"]),
            Tool::WithoutStack => Some(&["--without", "stack"]),
            Tool::Sample => Some(&["--sample", "512K"]),
            Tool::FramePointers => Some(&["--unwind", "frame-pointers"]),
            Tool::GuardLight => Some(&["--guard=light"]),
            Tool::LightWithoutStack => Some(&["--guard=light", "--without", "stack,time,thread", "--history", "0"]),
            Tool::GuardFull => Some(&["--guard=full"]),
            Tool::GuardRarely => Some(&["--guard=page=1/1000"]),
            Tool::GuardPage => Some(&["--guard=page"]),
            _ => None,
        }
    }

    /// The library that is preloaded, wherever compilers and packages have it.
    fn library(self) -> Result<String> {
        let ask = |compiler: &str, question: &str| {
            let path = output(Command::new(compiler).arg(question)).unwrap_or_default().trim().to_owned();
            Path::new(&path).is_absolute().then_some(path)
        };
        let known = match self {
            Tool::AsanPreloaded => ask("gcc", "-print-file-name=libasan.so"),
            Tool::Scudo => ask("clang", "-print-file-name=libclang_rt.scudo_standalone-x86_64.so"),
            _ => Some("/usr/lib/libefence.so.0".to_owned()),
        };
        let name = self.name();
        known.filter(|path| Path::new(path).exists()).ok_or_else(|| format!("the library of {name} is not there"))
    }

    /// The words of a command line that runs the program under this tool: settings of the environment, and behind
    /// them what is run.
    pub(super) fn words(self, kit: &Kit, work: &Work) -> Result<Vec<String>> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let place = |name: &str| text(&kit.scratch.join(name));
        let mut words: Vec<String> = work.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
        if let Some(options) = self.option() {
            add(&[&text(&kit.heapledger), "run", "--force", "-o", &place("ledger.hl")]);
            add(&["--ledger-dir", &text(kit.ledgers.path())]);
            add(options);
            add(&["--"]);
        }
        let mut program = work.program.clone();
        match self {
            Tool::NoReuse => {
                add(&[&format!("LD_PRELOAD={}", text(&kit.preload))]);
                add(&[&format!("HEAPLEDGER=reuse=0,dir={}", place("live"))]);
            }
            Tool::Heaptrack => add(&["prlimit", HEAPTRACK_DATA_LIMIT, "heaptrack", "-o", &place("heaptrack")]),
            Tool::HeaptrackInside => {
                let library = kit.heaptrack_library.as_deref().unwrap_or(Path::new(""));
                add(&[&format!("LD_PRELOAD={}", text(library))]);
                add(&[&format!("DUMP_HEAPTRACK_OUTPUT={}", place("heaptrack.raw"))]);
            }
            Tool::Asan => {
                add(&["ASAN_OPTIONS=detect_leaks=1"]);
                program = kit.paths_asan.clone()?;
            }
            Tool::Lsan => program = kit.paths_lsan.clone()?,
            Tool::Gperftools => {
                add(&[&format!("LD_PRELOAD={}", text(kit.tcmalloc.as_deref().unwrap_or(Path::new(""))))]);
                add(&[&format!("HEAPPROFILE={}", place("profile"))]);
            }
            Tool::AsanPreloaded | Tool::Scudo | Tool::ElectricFence => {
                add(&[
                    &format!("LD_PRELOAD={}", self.library()?),
                    "ASAN_OPTIONS=detect_leaks=0",
                    "EF_ALLOW_MALLOC_0=1",
                ]);
            }
            Tool::Memcheck => add(&["valgrind", "-q", "--tool=memcheck"]),
            Tool::Massif => {
                add(&["valgrind", "--tool=massif", &format!("--massif-out-file={}", place("massif.out"))]);
            }
            _ => {}
        }
        add(&[&text(&program)]);
        if self == Tool::Memray {
            add(&["-m", "memray", "run", "--native", "--force", "--output", &place("memray.bin")]);
        }
        words.extend(work.arguments.iter().cloned());
        words.extend((self == Tool::Walk).then(|| "walk".to_owned()));
        Ok(words)
    }
}
