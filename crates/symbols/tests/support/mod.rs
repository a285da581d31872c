//! Fixtures built with the machine's compiler, and the answers of binutils.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "every test file uses its own part of it")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use heapledger_symbols::{Frame, ModuleId, ModuleStatus, Options, Resolved, Symbolizer};

/// A directory that goes away with the test.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("heapledger-symbols-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a scratch directory");
        Scratch(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// Runs a program in the directory, and insists that it succeeds.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program).args(arguments).current_dir(&self.0).output();
        let output = output.unwrap_or_else(|error| panic!("{program} does not start: {error}"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A symbolizer that searches this directory only.
    pub fn options(&self) -> Options {
        let mut options = Options::default();
        options.debug_dirs = vec![self.path("debug")];
        options
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Addresses of all instructions of a function, by `objdump`.
pub fn instructions(scratch: &Scratch, file: &str, function: &str) -> Vec<u64> {
    let text = scratch.run("objdump", &["-d", "--no-show-raw-insn", &format!("--disassemble={function}"), file]);
    text.lines().filter_map(|line| u64::from_str_radix(line.trim().split_once(":\t")?.0, 16).ok()).collect()
}

/// The build id of a file, by `readelf`.
pub fn build_id(scratch: &Scratch, file: &str) -> Vec<u8> {
    let text = scratch.run("readelf", &["-n", file]);
    let hex = text.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).expect("a build id");
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex")).collect()
}

/// `.build-id/ab/cdef….debug` below the debug directory.
pub fn build_id_path(id: &[u8]) -> String {
    let rest: String = id[1..].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("debug/.build-id/{:02x}/{rest}.debug", id[0])
}

pub fn resolve(options: &Options, path: &Path, id: &[u8], addresses: &[u64]) -> (Vec<Resolved>, ModuleStatus) {
    let mut symbolizer = Symbolizer::new(options.clone());
    let module = ModuleId { path, build_id: id };
    let resolved = symbolizer.resolve(&module, addresses, &mut |_, _| {}, None);
    let status = symbolizer.status(&module);
    (resolved, status)
}

pub fn function(frame: &Frame) -> &str {
    frame.function.as_deref().unwrap_or("??")
}

/// `function file:line` of each frame; the file without its directory.
pub fn shown(resolved: &Resolved) -> Vec<String> {
    let frame = |frame: &Frame| {
        let file = frame.file.as_deref().map_or("??", |file| file.rsplit('/').next().unwrap_or(file));
        format!("{} {file}:{}", function(frame), frame.line.unwrap_or(0))
    };
    resolved.frames.iter().map(frame).collect()
}

pub const INLINED_C: &str = r#"
#include <stdlib.h>
volatile int sink;
static inline __attribute__((always_inline)) void *innermost(int n) {
    sink = n;
    return malloc(n + 3);
}
static inline __attribute__((always_inline)) void *middle(int n) {
    return innermost(n * 2);
}
__attribute__((noinline)) void *outer(int n) {
    void *p = middle(n + 1);
    sink = 5;
    return p;
}
static __attribute__((noinline)) int hidden(int n) {
    sink = n;
    return sink * 3;
}
int main(int argc, char **argv) {
    (void)argv;
    return outer(argc) != 0 && hidden(argc);
}
"#;
