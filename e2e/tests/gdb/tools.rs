//! The program that is looked at, and gdb.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use heapledger_e2e::process::{self, Ran, Running, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger, products, root};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, skip};

/// Allocates 64 blocks, frees half of them and one that the next takes the place of, says where, and waits.
pub(super) const HOLD: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
char *kept[64];
__attribute__((noinline)) char *take(int size) { return malloc(size); }
__attribute__((noinline)) void give_back(char *block) { free(block); }
int main(int count, char **words) {
    setvbuf(stdout, 0, _IONBF, 0);
    for (int i = 0; i < 64; i++) kept[i] = take(101 + i);
    for (int i = 0; i < 64; i += 2) give_back(kept[i]);
    fprintf(stdout, "%p %p\n", (void *)kept[1], (void *)kept[2]);
    if (count > 1 && words[1][0] == 'a') abort();
    if (count > 1 && words[1][0] == 'f' && fork() == 0) { printf("child %d\n", getpid()); pause(); }
    pause();
}
"#;

/// A ledger in memory of its own, as firmware has it, and the functions that its recorder would call.
pub(super) const FIRMWARE: &str = r#"
__asm__(".section .data\n.balign 16\n.globl heapledger_ledger\nheapledger_ledger: .incbin \"region.bin\"\n.text\n");
extern volatile unsigned char heapledger_ledger[];
__attribute__((noinline)) void heapledger_update_done(void) { __asm__ volatile(""); }
__attribute__((noinline)) void heapledger_history_full(void) { __asm__ volatile(""); }
__attribute__((noinline)) void middle(void) { __asm__ volatile(""); }
int main(void) {
    heapledger_ledger[54] = 1;
    middle();
    heapledger_ledger[54] = 0;
    heapledger_update_done();
    heapledger_history_full();
    return 0;
}
"#;

pub(super) fn text(reason: impl ToString) -> String {
    reason.to_string()
}

pub(super) fn compile(source: &str, directory: &Path, name: &str) -> Result<PathBuf> {
    let (file, program) = (directory.join(format!("{name}.c")), directory.join(name));
    fs::write(&file, source).map_err(text)?;
    let mut gcc = command(Path::new("gcc"));
    process::run(gcc.args(["-g", "-O1", "-o"]).arg(&program).arg(&file).current_dir(directory))?.good()?;
    Ok(program)
}

pub(super) fn hold() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(|| compile(HOLD, &products(), "gdb_hold")).clone()
}

/// A program that waits, under `run`.
pub(super) struct Held {
    pub(super) run: Running,
    pub(super) pid: u32,
    /// A live block, and one that was freed.
    pub(super) live: u64,
    pub(super) freed: u64,
}

/// A program under `run` that says something, into the file `said`, and waits; its process id.
pub(super) fn start_this(scratch: &Scratch, options: &[&str], program: &Path, word: &str) -> Result<(Running, u32)> {
    let said = scratch.path("said");
    let script = r#"exec "$1" "$2" > "$3""#;
    let arguments =
        ["-c", script, "sh", &program.to_string_lossy(), word, &said.to_string_lossy()].map(str::to_owned).to_vec();
    let mut command = under_run(scratch, "x", options, Path::new("/bin/sh"), &arguments);
    let run = process::start(&mut command)?;
    until("it says something", || fs::read_to_string(&said).is_ok_and(|text| text.contains('\n')))?;
    let pid = *process::children(run.pid()).first().ok_or("no child")?;
    Ok((run, pid))
}

pub(super) fn start(scratch: &Scratch, options: &[&str], word: &str) -> Result<Held> {
    let (run, pid) = start_this(scratch, options, &hold()?, word)?;
    let said = scratch.path("said");
    let line = fs::read_to_string(&said).map_err(text)?;
    let mut addresses =
        line.split_ascii_whitespace().map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16));
    let mut next = || addresses.next().and_then(|address| address.ok()).ok_or("no address");
    Ok(Held { live: next()?, freed: next()?, run, pid })
}

pub(super) fn tell(words: &[&str]) -> Result<Ran> {
    process::run(command(heapledger()).args(words))
}

/// Addresses of all blocks, and the text of the note that tells of the moment.
pub(super) fn blocks(ledger: &Path) -> Result<(Vec<String>, String)> {
    let ran = tell(&["dump", "--json", &ledger.to_string_lossy()])?.good()?;
    let lines: Vec<serde_json::Value> =
        ran.out().lines().map(|line| serde_json::from_str(line).map_err(text)).collect::<Result<_>>()?;
    let of = |kind: &'static str| lines.iter().filter(move |line| line["type"] == kind);
    let addresses = of("block").filter_map(|line| Some(line["address"].as_str()?.to_owned())).collect();
    let end = of("end").next().ok_or("no end")?;
    let notes = end["notes"].as_array().ok_or("no notes")?;
    let moment = notes.iter().find(|note| note["kind"] == "found_by").and_then(|note| note["text"].as_str());
    Ok((addresses, moment.unwrap_or_default().to_owned()))
}

pub(super) fn gdb(directory: &Path) -> Command {
    let mut command = command(Path::new("gdb"));
    // Half of what a start of gdb takes is reading debug information of the C library: once for all of them.
    let cache = format!("set index-cache directory {}", products().join("gdb-index").display());
    command.args(["-nx", "-batch", "-q", "-iex", &cache, "-iex", "set index-cache enabled on"]);
    command.env("HEAPLEDGER_COMMAND", heapledger()).current_dir(directory).env_remove("DEBUGINFOD_URLS");
    command
}

/// The script of the project, or its first part alone, as a gdb without Python has it.
pub(super) fn script(scratch: &Scratch, with_python: bool) -> Result<PathBuf> {
    let whole = root().join("gdb/heapledger.gdb");
    if with_python {
        return Ok(whole);
    }
    let all = fs::read_to_string(&whole).map_err(text)?;
    let (plain, _) = all.split_once("# -- Part 2").ok_or("the script has no second part")?;
    let path = scratch.path("plain.gdb");
    fs::write(&path, plain).map_err(text)?;
    Ok(path)
}

/// Runs gdb with the script and these commands.
pub(super) fn in_gdb(scratch: &Scratch, with_python: bool, arguments: &[&str], commands: &[&str]) -> Result<Ran> {
    let mut command = gdb(scratch.work());
    command.args(arguments);
    command.arg("-ex").arg(format!("source {}", script(scratch, with_python)?.display()));
    for one in commands {
        command.args(["-ex", one]);
    }
    process::run(&mut command)
}

/// Whether gdb may attach to a process here.
pub(super) fn may_attach(pid: u32) -> Result<bool> {
    let ran = process::run(gdb(Path::new("/")).args(["-p", &pid.to_string(), "-ex", "info inferiors"]))?;
    let may = ran.out().contains(&format!("process {pid}"));
    if !may {
        skip("gdb on a running process", "this system does not let it attach");
    }
    Ok(may)
}

/// What the script leaves in the working directory that nobody asked for.
pub(super) fn left_behind(scratch: &Scratch) -> Vec<String> {
    let names = fs::read_dir(scratch.work()).into_iter().flatten().flatten();
    let names = names.map(|item| item.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with('.') || name == "mddout.target" || name.contains(".part")).collect()
}
