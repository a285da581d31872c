//! Core dumps, `whereis`, and the commands in gdb.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use heapledger_e2e::process::{self, Ran, Running, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger, products, root};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check, skip};

/// Allocates 64 blocks, frees half of them and one that the next takes the place of, says where, and waits.
const HOLD: &str = r#"
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
const FIRMWARE: &str = r#"
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

fn text(reason: impl ToString) -> String {
    reason.to_string()
}

fn compile(source: &str, directory: &Path, name: &str) -> Result<PathBuf> {
    let (file, program) = (directory.join(format!("{name}.c")), directory.join(name));
    fs::write(&file, source).map_err(text)?;
    let mut gcc = command(Path::new("gcc"));
    process::run(gcc.args(["-g", "-O1", "-o"]).arg(&program).arg(&file).current_dir(directory))?.good()?;
    Ok(program)
}

fn hold() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(|| compile(HOLD, &products(), "gdb_hold")).clone()
}

/// A program that waits, under `run`.
struct Held {
    run: Running,
    pid: u32,
    /// A live block, and one that was freed.
    live: u64,
    freed: u64,
}

fn start(scratch: &Scratch, options: &[&str], word: &str) -> Result<Held> {
    let said = scratch.path("said");
    let script = r#"exec "$1" "$2" > "$3""#;
    let arguments =
        ["-c", script, "sh", &hold()?.to_string_lossy(), word, &said.to_string_lossy()].map(str::to_owned).to_vec();
    let mut command = under_run(scratch, "x", options, Path::new("/bin/sh"), &arguments);
    let run = process::start(&mut command)?;
    until("it says where its blocks are", || fs::read_to_string(&said).is_ok_and(|text| text.contains('\n')))?;
    let line = fs::read_to_string(&said).map_err(text)?;
    let mut addresses =
        line.split_ascii_whitespace().map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16));
    let mut next = || addresses.next().and_then(|address| address.ok()).ok_or("no address");
    let pid = *process::children(run.pid()).first().ok_or("no child")?;
    Ok(Held { live: next()?, freed: next()?, run, pid })
}

fn tell(words: &[&str]) -> Result<Ran> {
    process::run(command(heapledger()).args(words))
}

/// Addresses of all blocks, and the text of the note that tells of the moment.
fn blocks(ledger: &Path) -> Result<(Vec<String>, String)> {
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

fn gdb(directory: &Path) -> Command {
    let mut command = command(Path::new("gdb"));
    command.args(["-nx", "-batch", "-q"]).env("HEAPLEDGER_COMMAND", heapledger()).current_dir(directory);
    command.env_remove("DEBUGINFOD_URLS");
    command
}

/// The script of the project, or its first part alone, as a gdb without Python has it.
fn script(scratch: &Scratch, with_python: bool) -> Result<PathBuf> {
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
fn in_gdb(scratch: &Scratch, with_python: bool, arguments: &[&str], commands: &[&str]) -> Result<Ran> {
    let mut command = gdb(scratch.work());
    command.args(arguments);
    command.arg("-ex").arg(format!("source {}", script(scratch, with_python)?.display()));
    for one in commands {
        command.args(["-ex", one]);
    }
    process::run(&mut command)
}

/// Whether gdb may attach to a process here.
fn may_attach(pid: u32) -> Result<bool> {
    let ran = process::run(gdb(Path::new("/")).args(["-p", &pid.to_string(), "-ex", "info inferiors"]))?;
    let may = ran.out().contains(&format!("process {pid}"));
    if !may {
        skip("gdb on a running process", "this system does not let it attach");
    }
    Ok(may)
}

#[test]
fn a_core_dump_leads_to_the_ledger() -> Result {
    let scratch = Scratch::new();
    let held = start(&scratch, &[], "w")?;
    if !may_attach(held.pid)? {
        return Ok(());
    }
    let (mut running, _) = blocks(Path::new(&held.pid.to_string()))?;
    running.sort();
    check!(running.len() >= 32, "32 blocks and more should live, not {}", running.len());
    let pid = held.pid.to_string();
    process::run(command(Path::new("gcore")).args(["-o", "gcore", &pid]).current_dir(scratch.work()))?.good()?;
    let filter = format!("/proc/{pid}/coredump_filter");
    process::run(gdb(scratch.work()).args(["-p", &pid, "-ex", "generate-core-file small"]))?.good()?;
    fs::write(&filter, "0x3b").map_err(text)?;
    process::run(gdb(scratch.work()).args(["-p", &pid, "-ex", "generate-core-file full"]))?.good()?;
    let gcore = scratch.path(&format!("gcore.{pid}"));
    let [small, full] = ["small", "full"].map(|name| scratch.path(name));
    let check_one = |core: &Path, says: &str| -> Result {
        let (mut found, moment) = blocks(core)?;
        found.sort();
        check!(found == running, "{} blocks of {} in {}", found.len(), running.len(), core.display());
        check!(moment.contains(says), "the moment should speak of {says:?}: {moment}");
        Ok(())
    };
    check_one(&gcore, "the report is of now")?;
    check_one(&small, "the report is of now")?;
    check_one(&full, "itself")?;
    process::kill(i64::from(held.pid), "TERM")?;
    held.run.finish(process::PATIENCE)?;
    for core in [&gcore, &small] {
        check_one(core, "x.hl: the report is of the program's end")?;
    }
    check_one(&full, "itself")?;
    let stats = tell(&["stats", &full.to_string_lossy()])?.good()?;
    check!(stats.out().contains("as it was when this was copied"), "stats: {stats}");
    // Its ledger is gone: a sentence that says what was looked for.
    fs::rename(scratch.path("x.hl"), scratch.path("other")).map_err(text)?;
    let ran = tell(&["stats", &small.to_string_lossy()])?;
    check!(ran.status.code() == Some(1) && ran.err().contains("which is gone"), "no sentence: {ran}");
    // Cut anywhere: an answer or a sentence.
    let bytes = fs::read(&full).map_err(text)?;
    for part in 0..12 {
        let cut = scratch.path("cut");
        fs::write(&cut, &bytes[..bytes.len() * part / 12]).map_err(text)?;
        let ran = tell(&["dump", "--limit", "1", &cut.to_string_lossy()])?;
        let said = ran.err();
        check!(ran.status.success() || said.starts_with("heapledger: ") && said.lines().count() == 1, "cut: {ran}");
    }
    Ok(())
}

#[test]
fn a_core_dump_of_the_kernel_leads_to_the_end() -> Result {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.contains(['/', '|', '%']) {
        skip("a core dump of the kernel", "core_pattern sends it elsewhere");
        return Ok(());
    }
    let scratch = Scratch::new();
    let mut inner = under_run(&scratch, "x", &[], &hold()?, &["abort".to_owned()]);
    let words: Vec<_> =
        std::iter::once(inner.get_program().to_owned()).chain(inner.get_args().map(ToOwned::to_owned)).collect();
    inner = command(Path::new("/bin/sh"));
    inner.args(["-c", "ulimit -c unlimited; exec \"$@\"", "sh"]).args(words).current_dir(scratch.work());
    process::run(&mut inner)?;
    let cores = fs::read_dir(scratch.work()).map_err(text)?.filter_map(|item| Some(item.ok()?.path()));
    let core =
        cores.into_iter().find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("core")));
    let Some(core) = core else {
        skip("a core dump of the kernel", "there is none: limits");
        return Ok(());
    };
    let (found, moment) = blocks(&core)?;
    check!(found == blocks(&scratch.path("x.hl"))?.0, "the core dump leads to another ledger");
    // In gdb: its memory is not there, and what the program left is.
    for with_python in [true, false] {
        let words =
            ["mdd_dump", "heapledger stats --top 0", "heapledger snapshot", "heapledger tree", "info inferiors"];
        let ran = in_gdb(&scratch, with_python, &[&hold()?.to_string_lossy(), &core.to_string_lossy()], &words)?;
        let said = ran.out() + &ran.err();
        for part in ["was not dumped with the core", "killed by signal 6", "its own snapshot", "→ main → take"] {
            check!(said.contains(part), "python {with_python}: {part:?} is missing: {said}");
        }
        check!(!scratch.path("mddout.0").exists() && left_behind(&scratch).is_empty(), "files: {said}");
    }
    check!(moment.contains("when the core dump was written"), "the moment: {moment}");
    Ok(())
}

#[test]
fn a_child_is_not_taken_for_its_parent() -> Result {
    let scratch = Scratch::new();
    let held = start(&scratch, &[], "fork")?;
    let said = scratch.path("said");
    until("it has a child", || fs::read_to_string(&said).is_ok_and(|text| text.contains("child")))?;
    let child = *process::children(held.pid).first().ok_or("no child")?;
    if !may_attach(child)? {
        return Ok(());
    }
    let pid = child.to_string();
    process::run(command(Path::new("gcore")).args(["-o", "core", &pid]).current_dir(scratch.work()))?.good()?;
    let ran = tell(&["stats", &scratch.path(&format!("core.{pid}")).to_string_lossy()])?;
    check!(ran.status.code() == Some(1) && ran.err().contains("forked child"), "no sentence: {ran}");
    process::kill(i64::from(child), "KILL")?;
    process::kill(i64::from(held.pid), "KILL")?;
    held.run.finish(process::PATIENCE).map(|_| ())
}

#[test]
fn whereis_tells_blocks_and_what_was_there() -> Result {
    let scratch = Scratch::new();
    let held = start(&scratch, &[], "w")?;
    let pid = held.pid.to_string();
    let ask = |words: &[&str]| -> Result<Ran> { tell(&[&["whereis", &pid], words].concat()) };
    let inside = ask(&[&format!("{:#x}", held.live + 5)])?.good()?;
    for part in ["5 B from its start", " take\n", "Heap      : brk heap", "Mapping   : [heap]", "malloc 102 B"] {
        check!(inside.out().contains(part), "{part:?} is missing: {inside}");
    }
    let behind = ask(&[&format!("{}", held.live + 102)])?.good()?;
    check!(behind.out().contains("0 B behind the end of what was asked for"), "behind: {behind}");
    let freed = ask(&[&format!("{:#x}", held.freed)])?;
    check!(freed.status.code() == Some(1), "a freed block is no block: {freed}");
    for part in ["in no live block", "Allocated by malloc", "Freed by free", " take\n", " give_back\n"] {
        check!(freed.out().contains(part), "{part:?} is missing: {freed}");
    }
    let json = ask(&["--json", &format!("{:#x}", held.live), &format!("{:#x}", held.freed), "0x10"])?;
    let found: Vec<String> = json
        .out()
        .lines()
        .filter_map(|line| Some(serde_json::from_str::<serde_json::Value>(line).ok()?["found"].as_str()?.to_owned()))
        .collect();
    check!(found == ["block", "freed", "nothing"] && json.status.code() == Some(1), "found {found:?}: {json}");
    for odd in [vec!["zzz"], vec![], vec!["-1"], vec!["0x1ffffffffffffffff"]] {
        let ran = ask(&odd)?;
        check!(ran.status.code() == Some(2) && ran.stdout.is_empty(), "{odd:?}: {ran}");
    }
    let none = tell(&["whereis", "/no/such/ledger", "1"])?;
    check!(none.status.code() == Some(2), "no ledger: {none}");
    process::kill(i64::from(held.pid), "TERM")?;
    held.run.finish(process::PATIENCE)?;
    let ended = tell(&["whereis", &scratch.path("x.hl").to_string_lossy(), &format!("{:#x}", held.live)])?.good()?;
    check!(!ended.out().contains("Mapping") && ended.out().contains(" take\n"), "after its end: {ended}");
    Ok(())
}

/// `mdd_dump` twice, on a process that gdb attached to or that is remote.
fn dumps(scratch: &Scratch, with_python: bool, held: &Held, arguments: &[&str], before: &[&str]) -> Result {
    let pid = held.pid.to_string();
    let (mut running, _) = blocks(Path::new(&pid))?;
    running.sort();
    let live = format!("{:#x}", held.live);
    let whereis = format!("heapledger whereis {live}");
    let keep = ["set $mdd_keep_history = 1", "mdd_dumpnow", "set $mdd_keep_history = 0"];
    let rest = ["mdd_dump", "mdd_dump", &whereis, "mdd_reset", "detach"];
    let ran = in_gdb(scratch, with_python, arguments, &[before, &keep, &rest].concat())?;
    for number in 0..3 {
        let path = scratch.path(&format!("mddout.{number}"));
        check!(ran.out().contains(&format!("The ledger is in mddout.{number}.")), "no mddout.{number}: {ran}");
        let (mut copied, _) = blocks(&path)?;
        copied.sort();
        check!(copied == running, "{} blocks of {} in mddout.{number}", copied.len(), running.len());
        let events = tell(&["history", "--json", &path.to_string_lossy()])?.good()?;
        let frees = events.out().lines().filter(|line| line.contains(r#""event":"free""#)).count();
        check!(frees == if number < 2 { 32 } else { 0 }, "{frees} frees in mddout.{number}");
        let missing = if number < 2 { 0 } else { 32 };
        check!(events.out().contains(&format!(r#""frees_missing":{missing}"#)), "missing: {events}");
        let stats = tell(&["stats", &path.to_string_lossy()])?.good()?;
        check!(stats.out().contains("as it was when this was copied"), "stats: {stats}");
    }
    check!(ran.out().contains("The next dump is mddout.0"), "mdd_reset: {ran}");
    check!(ran.out().contains(&format!("{live} is in a live block")), "whereis: {ran}");
    for number in 0..3 {
        // Nobody else's business, and no file of gigabytes with holes that `cp` over a network would fill.
        let meta = fs::metadata(scratch.path(&format!("mddout.{number}"))).map_err(text)?;
        check!(meta.mode() & 0o777 == 0o600, "mddout.{number} has mode {:o}", meta.mode());
        check!(meta.len() < 1 << 20 && meta.len() <= meta.blocks() * 512, "mddout.{number} has {} bytes", meta.len());
    }
    check!(left_behind(scratch).is_empty(), "left behind: {:?}", left_behind(scratch));
    Ok(())
}

/// What the script leaves in the working directory that nobody asked for.
fn left_behind(scratch: &Scratch) -> Vec<String> {
    let names = fs::read_dir(scratch.work()).into_iter().flatten().flatten();
    let names = names.map(|item| item.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with('.') || name == "mddout.target" || name.contains(".part")).collect()
}

/// All commands about the program at hand, and a word of what each answers.
fn commands(address: u64, watched: &str) -> Vec<(String, String)> {
    [
        ("stats --top 0", "Current   : "),
        ("dump --where 'size == 102' --columns size,kind", "102 B"),
        ("history --limit 1", "malloc "),
        ("check --max-live 1M", "the limit is 1.00 MiB"),
        ("tree --by blocks", "live blocks"),
        ("flame --format folded -o -", ";main;take "),
        (&format!("whereis {address:#x}"), "is in a live block"),
        (&format!("watch {address:#x}"), watched),
    ]
    .map(|(words, said)| (format!("heapledger {words}"), said.to_owned()))
    .to_vec()
}

/// Runs all of them in one gdb.
fn all_answer(
    scratch: &Scratch,
    with_python: bool,
    arguments: &[&str],
    before: &[&str],
    watched: &str,
    address: u64,
) -> Result {
    let all = commands(address, watched);
    let words: Vec<&str> = before.iter().copied().chain(all.iter().map(|(command, _)| command.as_str())).collect();
    let ran = in_gdb(scratch, with_python, arguments, &words)?;
    let said = ran.out() + &ran.err();
    for (command, word) in &all {
        check!(said.contains(word), "python {with_python}: {command} should say {word:?}: {said}");
    }
    check!(left_behind(scratch).is_empty(), "left behind: {:?}", left_behind(scratch));
    Ok(())
}

#[test]
fn dumps_of_a_process_with_python() -> Result {
    let scratch = Scratch::new();
    let held = start(&scratch, &[], "w")?;
    let pid = held.pid.to_string();
    if !may_attach(held.pid)? {
        return Ok(());
    }
    dumps(&scratch, true, &held, &["-p", &pid], &[])?;
    all_answer(&scratch, true, &["-p", &pid], &[], "behind the 102 asked for", held.live)?;
    // 102 bytes of 104: two to watch. The freed block cannot be watched, nor can an address that is none.
    let watch = format!("heapledger watch {:#x}", held.live);
    let ran = in_gdb(&scratch, true, &["-p", &pid], &[&watch, "info breakpoints", "heapledger recover --list /tmp"])?;
    check!(ran.out().contains("hw watchpoint") && ran.out().contains("behind the 102 asked for"), "watch: {ran}");
    let watch = format!("heapledger watch {:#x}", held.freed);
    let ran = in_gdb(&scratch, true, &["-p", &pid], &[&watch])?;
    check!(ran.err().contains("is in no live block"), "watch: {ran}");
    // After the first write behind the block, the program stands there.
    let write = format!("set var *(char *) {:#x} = 7", held.live + 102);
    check!(in_gdb(&scratch, true, &["-p", &pid], &[&write])?.status.success(), "it cannot be written to");
    process::kill(i64::from(held.pid), "TERM")?;
    held.run.finish(process::PATIENCE).map(|_| ())
}

#[test]
fn dumps_of_a_process_without_python() -> Result {
    let scratch = Scratch::new();
    let held = start(&scratch, &[], "w")?;
    let pid = held.pid.to_string();
    if !may_attach(held.pid)? {
        return Ok(());
    }
    dumps(&scratch, false, &held, &["-p", &pid], &[])?;
    all_answer(&scratch, false, &["-p", &pid], &["generate-core-file core"], "behind the 102 asked for", held.live)?;
    let watch = [format!("heapledger watch {:#x}", held.freed), "heapledger watch".to_owned()];
    let ran = in_gdb(&scratch, false, &["-p", &pid], &[&watch[0], &watch[1], "info breakpoints"])?;
    for part in ["is in no live block", "watch needs one address", "No breakpoints or watchpoints"] {
        check!(ran.out().contains(part), "{part:?} is missing: {ran}");
    }
    let program = hold()?;
    let arguments = [&*program.to_string_lossy(), "core"];
    all_answer(&scratch, false, &arguments, &[], "A core dump does not run", held.live)?;
    let words = ["heapledger dump --limit 1 --json", "mdd_dump", "mdd_dump", "heapledger diff mddout.0 mddout.1"];
    let ran = in_gdb(&scratch, false, &arguments, &words)?;
    check!(ran.out().contains("found_by") && ran.out().contains(r#""type":"block""#), "of a core dump: {ran}");
    check!(ran.out().contains("No stack holds more or less"), "diff: {ran}");
    process::kill(i64::from(held.pid), "TERM")?;
    held.run.finish(process::PATIENCE).map(|_| ())
}

/// A gdbserver that is attached to a process, and the command that connects gdb with it.
fn serve(scratch: &Scratch, pid: &str) -> Result<(Running, String)> {
    // It finds a free port and says which.
    let heard = scratch.path("gdbserver");
    let _ = fs::remove_file(&heard);
    let mut server = command(Path::new("/bin/sh"));
    server.args(["-c", "exec gdbserver --once --attach 127.0.0.1:0 $1 2> $2", "sh", pid]).arg(&heard);
    let served = process::start(&mut server)?;
    let port = || {
        let text = fs::read_to_string(&heard).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Listening on port ").map(str::to_owned));
        line.filter(|_| text.ends_with('\n'))
    };
    until("gdbserver listens", || port().is_some())?;
    Ok((served, format!("target remote 127.0.0.1:{}", port().unwrap_or_default())))
}

#[test]
fn all_commands_on_a_remote_target_of_another_file_system() -> Result {
    let scratch = Scratch::new();
    let held = start(&scratch, &[], "w")?;
    let pid = held.pid.to_string();
    if !may_attach(held.pid)? {
        return Ok(());
    }
    for with_python in [true, false] {
        // gdb finds none of the target's files; the ledger's own program is found by its build id.
        let (served, target) = serve(&scratch, &pid)?;
        let before = ["set sysroot /nowhere", &target];
        all_answer(&scratch, with_python, &[], &before, "behind the 102 asked for", held.live)?;
        drop(served);
        let (served, target) = serve(&scratch, &pid)?;
        let words =
            ["set sysroot /nowhere", &target, "heapledger snapshot -o %i.hl", "heapledger flame", "info inferiors"];
        let ran = in_gdb(&scratch, with_python, &[], &words)?;
        check!(ran.out().contains("32 records, 0 in flight"), "snapshot: {ran}");
        let (found, _) = blocks(&scratch.path(if with_python { "0.hl" } else { "1.hl" }))?;
        check!(found.len() == 32, "{} blocks in the snapshot: {ran}", found.len());
        let page = scratch.path("mddout.target.html");
        check!(fs::remove_file(&page).is_ok(), "no page: {ran}");
        drop(served);
    }
    process::kill(i64::from(held.pid), "TERM")?;
    held.run.finish(process::PATIENCE).map(|_| ())
}

#[test]
fn dumps_of_a_remote_target_and_of_a_core_dump() -> Result {
    let scratch = Scratch::new();
    let held = start(&scratch, &[], "w")?;
    let pid = held.pid.to_string();
    if !may_attach(held.pid)? {
        return Ok(());
    }
    let (served, target) = serve(&scratch, &pid)?;
    dumps(&scratch, true, &held, &[], &[&target])?;
    drop(served);
    // The history of the first is empty now.
    let plain = Scratch::new();
    let other = start(&plain, &[], "w")?;
    let (served, target) = serve(&plain, &other.pid.to_string())?;
    dumps(&plain, false, &other, &[], &[&target])?;
    process::kill(i64::from(other.pid), "TERM")?;
    drop(served);
    other.run.finish(process::PATIENCE)?;
    process::run(gdb(scratch.work()).args(["-p", &pid, "-ex", "generate-core-file small"]))?.good()?;
    let program = hold()?;
    let arguments = [&*program.to_string_lossy(), "small"];
    all_answer(&scratch, true, &arguments, &[], "a core dump does not run", held.live)?;
    fs::write(format!("/proc/{pid}/coredump_filter"), "0x3b").map_err(text)?;
    process::run(gdb(scratch.work()).args(["-p", &pid, "-ex", "generate-core-file full"]))?.good()?;
    for with_python in [true, false] {
        for (core, is_of_now) in [("small", true), ("full", false)] {
            let ran = in_gdb(&scratch, with_python, &[&program.to_string_lossy(), core], &["mdd_dump"])?;
            check!(ran.out().contains("The ledger is in mddout.0"), "a dump of {core}: {ran}");
            check!(ran.out().contains("this copy is of now") == is_of_now, "the moment of {core}: {ran}");
        }
    }
    // Other reports say it too.
    let ran = tell(&["check", "--max-live", "1G", &scratch.path("small").to_string_lossy()])?.good()?;
    check!(ran.out().contains("the report is of now"), "check: {ran}");
    let ran = tell(&["flame", "--format", "folded", &scratch.path("small").to_string_lossy()])?.good()?;
    check!(ran.err().contains("the report is of now"), "flame: {ran}");
    let copy = scratch.path("copy.hl");
    let ran = tell(&["snapshot", "-o", &copy.to_string_lossy(), &scratch.path("small").to_string_lossy()])?.good()?;
    check!(ran.err().contains("the report is of now") && copy.exists(), "snapshot: {ran}");
    process::kill(i64::from(held.pid), "TERM")?;
    held.run.finish(process::PATIENCE).map(|_| ())
}

#[test]
fn a_watched_block_that_is_overrun_stops_the_program() -> Result {
    const OVERRUN: &str = r#"
#include <stdlib.h>
#include <unistd.h>
char *volatile block;
__attribute__((noinline)) void ready(void) { __asm__ volatile(""); }
__attribute__((noinline)) void overrun(void) { block[101] = 1; }
int main(void) { block = malloc(101); ready(); block[100] = 1; overrun(); return 0; }
"#;
    let scratch = Scratch::new();
    let program = compile(OVERRUN, scratch.work(), "overrun")?;
    let library = heapledger_e2e::tools::preload();
    let environment =
        format!("set exec-wrapper env LD_PRELOAD={} HEAPLEDGER=dir={}", library.display(), scratch.live().display());
    let commands = [
        environment.as_str(),
        "set startup-with-shell on",
        "break ready",
        "run",
        "heapledger watch block",
        "continue",
        "backtrace",
    ];
    for with_python in [true, false] {
        let ran = in_gdb(&scratch, with_python, &[&program.to_string_lossy()], &commands)?;
        if !ran.out().contains("Breakpoint 1, ") {
            skip("gdb on a program that it starts", "this system does not let it trace");
            return Ok(());
        }
        check!(ran.out().contains("Hardware watchpoint 2"), "watch: {ran}");
        check!(
            ran.out().contains("New value = 1") && ran.out().contains(" overrun ("),
            "the write was not caught: {}",
            ran.out()
        );
    }
    Ok(())
}

#[test]
fn a_ledger_in_memory_is_dumped_when_it_is_not_busy() -> Result {
    let scratch = Scratch::new();
    // A region of memory with a ledger: a small one of a real program.
    let held = start(&scratch, &["--max-ledger", "256K", "--history", "64"], "w")?;
    let live = scratch.unfinished();
    // The shell that became the program has one of its own before it.
    let live = live.iter().rfind(|path| path.extension().is_some_and(|end| end == "hlive")).ok_or("no live file")?;
    let region = fs::read(live).map_err(text)?;
    check!(region.len() < 16 << 20, "the region is too large: {}", region.len());
    fs::write(scratch.path("region.bin"), &region).map_err(text)?;
    process::kill(i64::from(held.pid), "TERM")?;
    held.run.finish(process::PATIENCE)?;
    let (mut expected, _) = blocks(&scratch.path("x.hl"))?;
    expected.sort();
    let program = compile(FIRMWARE, scratch.work(), "firmware")?;
    for with_python in [true, false] {
        let commands = [
            "break middle",
            "run",
            "mdd_dump",
            "mdd_dumpnow",
            "tbreak heapledger_update_done",
            "continue",
            "mdd_dump",
            "break heapledger_history_full",
            "continue",
            "mdd_dump",
            "generate-core-file core",
            "dump binary memory ram.bin (char*)&heapledger_ledger-64 (char*)&heapledger_ledger+65536",
        ];
        let ran = in_gdb(&scratch, with_python, &[&program.to_string_lossy()], &commands)?;
        if !ran.out().contains("Breakpoint 1, ") {
            skip("gdb on a program that it starts", "this system does not let it trace");
            return Ok(());
        }
        let said = ran.out() + &ran.err();
        check!(said.contains("in the middle of an update"), "the busy mark is not respected: {said}");
        check!(said.contains("heapledger_update_done"), "it should say what to do: {said}");
        for number in 0..3 {
            let path = scratch.path(&format!("mddout.{number}"));
            let (mut found, _) = blocks(&path)?;
            found.sort();
            check!(found == expected, "python {with_python}: {} blocks of {}", found.len(), expected.len());
            let stats = tell(&["stats", &path.to_string_lossy()])?.good()?;
            let busy = stats.out().contains("halted in the middle of an update");
            check!(busy == (number == 0), "mddout.{number}: {stats}");
            let events = tell(&["history", "--json", &path.to_string_lossy()])?.good()?;
            let frees = events.out().lines().filter(|line| line.contains(r#""event":"free""#)).count();
            check!(frees == if number == 0 { 32 } else { 0 }, "{frees} frees in mddout.{number}");
            fs::remove_file(&path).map_err(text)?;
        }
        check!(!scratch.path("mddout.3").exists(), "a dump too many");
        // The memory holds the ledger itself, so its core dump does.
        let (mut found, moment) = blocks(&scratch.path("core"))?;
        found.sort();
        check!(found == expected && moment.contains("itself"), "of the core dump: {} blocks, {moment}", found.len());
        let ran = tell(&["stats", &scratch.path("ram.bin").to_string_lossy()])?.good()?;
        check!(ran.out().contains("64 B into"), "an image of memory: {ran}");
    }
    Ok(())
}
