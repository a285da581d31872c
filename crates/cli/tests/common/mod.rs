//! A scratch directory, programs compiled by gcc, and a stand-in for the preload library: it opens a ledger that the
//! test has prepared, so that these tests are about `run` alone.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use heapledger_format::TallyCounter;
use heapledger_testing::Builder;

/// Nothing here takes this long unless it hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);

/// The stand-in: copies the file in `STAND_IN_LEDGER` to where a recorder would open its ledger.
const STAND_IN: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int value(const char *all, const char *key, char *out, size_t room) {
    size_t length = strlen(key);
    for (const char *at = all; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : 0)
        if (!strncmp(at, key, length) && at[length] == '=') {
            size_t n = strcspn(at + length + 1, ",");
            snprintf(out, room, "%.*s", (int)n, at + length + 1);
            return 1;
        }
    return 0;
}
__attribute__((constructor)) static void begin(void) {
    const char *all = getenv("HEAPLEDGER"), *from = getenv("STAND_IN_LEDGER");
    char dir[4096], session[99], pid[32], path[5000], line[4096];
    if (!all || !from || !value(all, "dir", dir, sizeof dir) || !value(all, "session", session, sizeof session)
        || !value(all, "pid", pid, sizeof pid) || atoi(pid) != getpid()) return;
    FILE *out = 0;
    for (int image = 0; !out && image < 9; image++) {
        snprintf(path, sizeof path, "%s/heapledger-%d/%s-%d.hlive", dir, (int)getuid(), session, image);
        out = fopen(path, "wx");
    }
    FILE *in = fopen(from, "r");
    if (!in || !out) { perror(path); return; }
    for (size_t n; (n = fread(line, 1, sizeof line, in)) > 0;) fwrite(line, 1, n, out);
    fclose(in); fclose(out);
    if (getenv("STAND_IN_CHILDREN")) {
        snprintf(path, sizeof path, "%s/heapledger-%d/%s.children", dir, (int)getuid(), session);
        FILE *children = fopen(path, "w");
        fputs(getenv("STAND_IN_CHILDREN"), children);
        fclose(children);
    }
}
"#;

/// A directory for one test, with a place for unfinished ledgers and one to work in.
pub(crate) struct Scratch(pub(crate) heapledger_testing::Scratch);

impl Scratch {
    pub(crate) fn new(name: &str) -> Scratch {
        let scratch = heapledger_testing::Scratch::new(&format!("cli-{name}"));
        for inside in ["live", "cwd"] {
            fs::create_dir(scratch.join(inside)).expect("a directory");
        }
        Scratch(scratch)
    }

    /// The working directory of what is run.
    pub(crate) fn cwd(&self) -> PathBuf {
        self.0.join("cwd")
    }

    /// Compiles a C program or library.
    pub(crate) fn compile(&self, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let (code, product) = (self.0.join(format!("{name}.c")), self.0.join(name));
        fs::write(&code, source).expect("source written");
        let status = Command::new("gcc").arg("-o").arg(&product).arg(&code).args(options).status();
        assert!(status.expect("gcc is needed for this test").success());
        product
    }

    /// A prepared ledger of a program of this name.
    pub(crate) fn ledger(&self, program: &str) -> PathBuf {
        let path = self.0.join("prepared");
        let mut builder = Builder::new();
        builder.block(0x1000, 24).block(0x2000, 1000).process("program", program).process("pid", "4242");
        builder.tally(TallyCounter::Allocations, 3).tally(TallyCounter::Frees, 3);
        builder.write(&path).expect("written");
        path
    }

    /// `heapledger run` with the stand-in and these further arguments.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let stand_in = self.0.join("stand-in.so");
        if !stand_in.exists() {
            self.compile("stand-in.so", STAND_IN, &["-shared", "-fPIC"]);
        }
        let mut command = heapledger();
        command.arg("run").arg("--preload").arg(stand_in).arg("--ledger-dir").arg(self.0.join("live"));
        command.args(arguments).current_dir(self.cwd());
        command
    }

    /// The finished ledgers in the working directory, by name.
    pub(crate) fn finished(&self) -> Vec<String> {
        names(&self.cwd())
    }

    /// What is left in the directory of unfinished ledgers.
    pub(crate) fn unfinished(&self) -> Vec<String> {
        let inside = fs::read_dir(self.0.join("live")).expect("list").next();
        inside.map(|item| names(&item.expect("an item").path())).unwrap_or_default()
    }
}

fn names(directory: &Path) -> Vec<String> {
    let items = fs::read_dir(directory).expect("list");
    let mut names: Vec<String> =
        items.map(|item| item.expect("an item").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The program under test, with nothing in its environment that would change it, but for places that are the tests'
/// own: whatever a test forgets to say, no ledger of the user is taken, and none of a test lies among them.
pub(crate) fn heapledger() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heapledger"));
    let own = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let ledgers = own.join("ledgers");
    fs::create_dir_all(&ledgers).expect("a directory");
    command.env_remove("HEAPLEDGER_PRELOAD").env_remove("LD_PRELOAD");
    command.env("HEAPLEDGER", format!("dir={}", ledgers.display())).env("XDG_CACHE_HOME", own.join("cache"));
    command
}

pub(crate) fn output(command: &mut Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    finish(child)
}

/// Waits for the end, but not for ever.
pub(crate) fn finish(mut child: Child) -> Output {
    let begun = Instant::now();
    let read = |stream: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stream.map(|mut stream| stream.read_to_end(&mut bytes));
            bytes
        })
    };
    let stdout = read(child.stdout.take().map(|stream| Box::new(stream) as _));
    let stderr = read(child.stderr.take().map(|stream| Box::new(stream) as _));
    let status = loop {
        match child.try_wait().expect("waited") {
            Some(status) => break status,
            None if begun.elapsed() > LIMIT => {
                let _ = child.kill();
                panic!("it hangs");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    Output { status, stdout: stdout.join().expect("read"), stderr: stderr.join().expect("read") }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until something becomes true.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LIMIT, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The state letter of a process; `None` if it is gone.
pub(crate) fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.get(stat.rfind(')')? + 2..)?.chars().next()
}

/// Children of a process.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

pub(crate) fn kill(pid: u32, signal: &str) {
    let status = Command::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).status();
    assert!(status.expect("sh").success());
}
