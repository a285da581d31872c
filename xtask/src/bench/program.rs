//! The programs that are measured, and how much work each is given.

use std::path::PathBuf;
use std::process::Command;

use super::inputs;
use super::kit::{Kit, find};
use super::tool::Tool;
use crate::step::{Result, output};

/// How much work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// About a second without any tool.
    Full,
    /// A quarter of that.
    Quick,
    /// A sixteenth: for tools that take 20 times as long and more.
    Small,
}

impl Size {
    fn of(self, full: u64) -> u64 {
        match self {
            Size::Full => full,
            Size::Quick => full / 4,
            Size::Small => full / 16,
        }
    }
}

/// One run of a program.
pub(super) struct Work {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(&'static str, String)>,
    /// Requests to send, if it is redis-server.
    pub(super) requests: Option<u64>,
}

/// What kind of program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `bench_paths`: mode, depth, millions of pairs, whether with frame pointers.
    Paths(&'static str, u32, u64, bool),
    /// `bench_threads`: threads.
    Threads(u32),
    /// A real one.
    Real,
}

/// A program that is measured.
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

const fn paths(
    name: &'static str,
    mode: &'static str,
    depth: u32,
    million_pairs: u64,
    frame_pointers: bool,
) -> Program {
    Program { name, kind: Kind::Paths(mode, depth, million_pairs, frame_pointers) }
}

const fn threads(name: &'static str, count: u32) -> Program {
    Program { name, kind: Kind::Threads(count) }
}

const fn real(name: &'static str) -> Program {
    Program { name, kind: Kind::Real }
}

/// All of them, in groups. The programs of a group are compared with each other, so their runs are interleaved too.
pub(super) const GROUPS: &[&[Program]] = &[
    &[
        paths("burst-10", "burst", 10, 16, false),
        paths("burst-20", "burst", 20, 12, false),
        paths("burst-40", "burst", 40, 8, false),
        paths("same-20", "same", 20, 24, false),
        paths("same-40", "same", 40, 24, false),
        paths("leaf-20", "leaf", 20, 4, false),
        paths("random-20", "random", 20, 3, false),
        paths("burst-20-fp", "burst", 20, 12, true),
    ],
    &[threads("threads-1", 1), threads("threads-2", 2), threads("threads-8", 8), threads("threads-32", 32)],
    &[real("jq")],
    &[real("python3")],
    &[real("perl")],
    &[real("xmllint")],
    &[real("sqlite3")],
    &[real("cc1plus")],
    &[real("redis")],
];

/// Operations of all threads together, in millions.
const THREADS_MILLION_OPERATIONS: u64 = 24;

impl Program {
    /// Whether a tool is of interest here.
    pub(super) fn wants(&self, tool: Tool) -> bool {
        let is_burst = matches!(self.kind, Kind::Paths("burst", _, _, false));
        let is_real = self.kind == Kind::Real;
        match tool {
            Tool::Plain | Tool::Ours | Tool::WholeFrees => true,
            Tool::Walk => matches!(self.kind, Kind::Paths(..)),
            Tool::FramePointers => matches!(self.kind, Kind::Paths(.., true)),
            Tool::NoReuse => matches!(self.kind, Kind::Paths("random", ..)),
            Tool::WithoutStack => !matches!(self.kind, Kind::Paths(.., true)),
            Tool::Sample => is_real || is_burst || matches!(self.kind, Kind::Threads(1 | 2)),
            Tool::Heaptrack | Tool::HeaptrackInside => !matches!(self.kind, Kind::Paths(.., true) | Kind::Threads(3..)),
            Tool::Asan | Tool::Lsan => matches!(self.kind, Kind::Paths(.., false)),
            Tool::Memray => self.name == "python3",
            Tool::Gperftools | Tool::Massif => is_real || is_burst,
            Tool::GuardLight | Tool::GuardFull | Tool::GuardRarely | Tool::GuardPage => is_real,
            Tool::LightWithoutStack | Tool::AsanPreloaded | Tool::Scudo => is_real,
            Tool::Memcheck | Tool::ElectricFence => is_real,
        }
    }

    /// Makes its input. `None` if the program is not installed.
    pub(super) fn work(&self, kit: &Kit, size: Size) -> Result<Option<Work>> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let work = |program, arguments| Work { program, arguments, environment: vec![], requests: None };
        Ok(match self.kind {
            Kind::Paths(mode, depth, million_pairs, frame_pointers) => {
                let program = if frame_pointers { &kit.paths_fp } else { &kit.paths };
                let (depth, pairs) = (depth.to_string(), size.of(million_pairs * 1_000_000).to_string());
                Some(work(program.clone(), words(&[mode, &depth, &pairs, "time"])))
            }
            Kind::Threads(count) => {
                let operations = size.of(THREADS_MILLION_OPERATIONS * 1_000_000) / u64::from(count);
                Some(work(kit.threads.clone(), words(&[&count.to_string(), &operations.to_string(), "time"])))
            }
            Kind::Real => self.real(kit, size)?.map(|(program, arguments, environment)| Work {
                program,
                arguments,
                environment,
                requests: (self.name == "redis").then(|| size.of(64_000)),
            }),
        })
    }

    #[expect(clippy::type_complexity, reason = "the three parts of a command, for one caller")]
    fn real(&self, kit: &Kit, size: Size) -> Result<Option<(PathBuf, Vec<String>, Vec<(&'static str, String)>)>> {
        let mut environment = vec![("LC_ALL", "C.UTF-8".to_owned())];
        let mut set = |name, value: &str| environment.push((name, value.to_owned()));
        let (found, arguments): (Option<PathBuf>, Vec<String>) = match self.name {
            "jq" => {
                let input = kit.input("people-jq.json", &inputs::json(size.of(100_000)))?;
                let question = "[.[] | select(.age > 30)] | group_by(.city) | map({city: .[0].city, n: length, \
                                names: (map(.name) | sort | .[:3])})";
                (find(&["jq"]), vec![question.into(), input])
            }
            "python3" => {
                set("PYTHONMALLOC", "malloc");
                set("PYTHONHASHSEED", "0");
                let input = kit.input("people-python.json", &inputs::json(size.of(36_000)))?;
                // Not what a version manager puts in front of it.
                (find(&["/usr/bin/python3", "python3"]), vec![kit.input("work.py", inputs::PYTHON)?, input])
            }
            "perl" => {
                set("PERL_HASH_SEED", "0");
                set("PERL_PERTURB_KEYS", "0");
                (find(&["perl"]), vec![kit.input("work.pl", inputs::PERL)?, size.of(480_000).to_string()])
            }
            "xmllint" => {
                let input = kit.input("list.xml", &inputs::xml(size.of(280_000)))?;
                (find(&["xmllint"]), vec!["--xpath".into(), "count(//item[@n mod 7 = 0]/name)".into(), input])
            }
            "sqlite3" => {
                let script = kit.input("work.sql", &inputs::sql(size.of(300_000)))?;
                (find(&["sqlite3"]), vec!["-batch".into(), ":memory:".into(), format!(".read {script}")])
            }
            "cc1plus" => match compiler() {
                Some(compiler) => (Some(compiler), cc1plus_arguments(kit, size)?),
                None => (None, vec![]),
            },
            "redis" => {
                let socket = redis_socket().to_string_lossy().into_owned();
                let arguments = ["--port", "0", "--unixsocket", &socket, "--save", "", "--appendonly", "no"];
                let both = find(&["redis-server"]).filter(|_| find(&["redis-benchmark"]).is_some());
                (both, arguments.map(str::to_owned).into())
            }
            other => return Err(format!("there is no program {other}")),
        };
        Ok(found.map(|program| (program, arguments, environment)))
    }
}

/// The compiler proper, without the driver around it.
fn compiler() -> Option<PathBuf> {
    let path = output(Command::new("g++").arg("-print-prog-name=cc1plus")).ok()?;
    Some(PathBuf::from(path.trim())).filter(|path| path.is_absolute())
}

fn cc1plus_arguments(kit: &Kit, size: Size) -> Result<Vec<String>> {
    let source = kit.input("input.cc", &inputs::cxx(size.of(2)))?;
    let preprocessed = format!("{source}.ii");
    output(Command::new("g++").args(["-std=c++17", "-E", &source, "-o", &preprocessed]))?;
    let assembly = kit.scratch.join("input.s").to_string_lossy().into_owned();
    let arguments = ["-quiet", "-std=c++17", "-O2", "-fpreprocessed", &preprocessed, "-o", &assembly];
    Ok(arguments.map(str::to_owned).into())
}

/// Not in the build directory: a path to a socket has at most 107 characters.
pub(super) fn redis_socket() -> PathBuf {
    std::env::temp_dir().join(format!("heapledger-bench-{}.sock", std::process::id()))
}
