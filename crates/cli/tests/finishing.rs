//! What is left when the program has ended: the finished ledger, the summary, and the way back when it went wrong.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

mod common;
use common::{Scratch, heapledger, output, text};
use heapledger_format::TallyCounter;
use heapledger_source::Ledger;

#[test]
fn the_ledger_is_finished_and_told_of() {
    let scratch = Scratch::new("finished");
    let seen = output(scratch.run(&["sh", "-c", "exit 7"]).env("STAND_IN_LEDGER", scratch.ledger("sh")));
    assert_eq!(seen.status.code(), Some(7));
    assert_eq!(scratch.finished(), ["heapledger.sh.4242.hl"]);
    assert!(scratch.unfinished().is_empty());
    let said = text(&seen.stderr);
    assert!(said.starts_with("heapledger: sh ended with status 7 after "), "{said}");
    assert!(said.contains("5 blocks") && said.contains("1.00 KiB in 2 blocks"), "{said}");
    assert!(said.ends_with("  next         heapledger tree heapledger.sh.4242.hl\n"), "{said}");
    assert!(said.lines().count() <= 10);
    assert!(seen.stdout.is_empty());
    let ledger = Ledger::open(scratch.cwd().join("heapledger.sh.4242.hl")).expect("a ledger");
    assert!(ledger.is_finished());
    assert_eq!(ledger.process().number("exit"), Some(7));
    assert!(ledger.process().number("wall_ns").is_some_and(|wall| wall > 0));
    assert_eq!(ledger.process().text("run_version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_chain_of_execs_leaves_a_ledger_for_each_program() {
    let scratch = Scratch::new("chain");
    let mut command = scratch.run(&["-o", "out.hl", "sh", "-c", "exec sh -c 'exec sh -c :'"]);
    let seen = output(command.env("STAND_IN_LEDGER", scratch.ledger("sh")));
    assert_eq!(scratch.finished(), ["out.hl", "out.hl.1", "out.hl.2"], "{}", text(&seen.stderr));
    let ledger = |name: &str| Ledger::open(scratch.cwd().join(name)).expect("a ledger");
    assert_eq!(ledger("out.hl").process().number("exit"), Some(0), "the last program has the name asked for");
    assert_eq!(ledger("out.hl.1").process().number("exit"), None);
    let said = text(&seen.stderr);
    assert!(said.contains("before exec  out.hl.2 and 1 more\n") && said.contains("tree out.hl\n"), "{said}");
    assert!(scratch.unfinished().is_empty());
}

#[test]
fn children_that_were_not_watched_are_mentioned() {
    let scratch = Scratch::new("children");
    let ledger = scratch.ledger("sh");
    let seen =
        output(scratch.run(&["sh", "-c", ":"]).env("STAND_IN_LEDGER", ledger).env("STAND_IN_CHILDREN", "7\n8\n7\n9\n"));
    assert!(text(&seen.stderr).contains("3 child processes were not watched"), "{}", text(&seen.stderr));
    assert!(scratch.unfinished().is_empty(), "the count is removed too");
}

#[test]
fn no_ledger_is_said_to_be_missing() {
    let scratch = Scratch::new("missing");
    let seen = output(&mut scratch.run(&["sh", "-c", "exit 3"]));
    assert_eq!(seen.status.code(), Some(3));
    let said = text(&seen.stderr);
    assert!(said.starts_with("heapledger: no ledger of sh was opened: ") && said.lines().count() == 1, "{said}");
}

#[test]
fn a_full_disk_keeps_the_unfinished_ledger() {
    let scratch = Scratch::new("full");
    let small = scratch.0.join("small");
    fs::create_dir(&small).expect("created");
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=4k,nr_inodes=20", "none"]).arg(&small).status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("skipped: a small file system cannot be mounted here");
        return;
    }
    fs::write(small.join("ballast"), [0; 4096]).expect("written");
    let out = small.join("out.hl");
    let mut command = scratch.run(&["-o", out.to_str().expect("text"), "sh", "-c", "exit 4"]);
    let seen = output(command.env("STAND_IN_LEDGER", scratch.ledger("sh")));
    let left: Vec<_> = fs::read_dir(&small).expect("list").map(|item| item.expect("item").file_name()).collect();
    assert!(Command::new("umount").arg(&small).status().expect("umount").success());
    assert_eq!(seen.status.code(), Some(4));
    assert_eq!(left, ["ballast"], "nothing half written stays");
    let said = text(&seen.stderr);
    assert!(said.contains("no room on the disk") && said.contains("heapledger recover "), "{said}");
    assert_eq!(scratch.unfinished().len(), 1);
    // And so it is finished elsewhere.
    let recovered = output(heapledger().arg("recover").arg(scratch.0.join("live")).arg("-o").arg(scratch.cwd()));
    assert!(recovered.status.success(), "{}", text(&recovered.stderr));
    assert_eq!(scratch.finished(), ["heapledger.sh.4242.hl"]);
    assert!(scratch.unfinished().is_empty());
}

#[test]
fn a_second_interrupt_gives_up_and_leaves_the_ledger() {
    let scratch = Scratch::new("give-up");
    let prepared = scratch.0.join("large");
    let mut builder = heapledger_testing::Builder::new();
    (1..300_000).for_each(|block| _ = builder.block(block * 4096, block));
    builder.process("program", "large").process("pid", "77").write(&prepared).expect("written");
    let mut command = scratch.run(&["sh", "-c", "exit 6"]);
    command.env("STAND_IN_LEDGER", &prepared).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().expect("started");
    common::until("the ledger is being written", || !scratch.finished().is_empty());
    common::kill(child.id(), "INT");
    let seen = common::finish(child);
    let said = text(&seen.stderr);
    if said.contains("next ") {
        eprintln!("skipped: the ledger was written before the signal came");
        return;
    }
    assert_eq!(seen.status.code(), Some(6), "{said}");
    assert!(said.contains("given up; the ledger is left unfinished") && said.contains("heapledger recover "), "{said}");
    assert!(scratch.finished().is_empty(), "nothing half written stays");
    assert_eq!(scratch.unfinished().len(), 1);
}

/// Maps a ledger as a recorder does. With the word `fork` it forks, and ends: the child has the mapping, too. With
/// `thread` its first thread ends, and another goes on.
const MAPPER: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void *go_on(void *first) {
    pthread_join(*(pthread_t *)first, 0);
    puts("mapped");
    fflush(stdout);
    pause();
    return 0;
}
static pthread_t first, other;
int main(int count, char **words) {
    int file = open(words[1], O_RDWR);
    void *at = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (at == MAP_FAILED) return 1;
    if (count > 2 && !strcmp(words[2], "thread")) {
        first = pthread_self();
        pthread_create(&other, 0, go_on, &first);
        pthread_exit(0);
    }
    if (count > 2) {
        char byte;
        if (read(0, &byte, 1) == 0 && fork()) return 0;
    }
    puts("mapped");
    fflush(stdout);
    pause();
}
"#;

struct Mapper(Child);

impl Drop for Mapper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that maps the file, and the ledger of that process in it.
fn mapped(scratch: &Scratch, path: &Path, how: &[&str]) -> Mapper {
    let program = scratch.compile("mapper", MAPPER, &["-pthread"]);
    fs::write(path, [0; 1 << 16]).expect("written");
    let child = Command::new(program).arg(path).args(how).stdout(Stdio::piped()).spawn().expect("started");
    let mut mapper = Mapper(child);
    let mut said = String::new();
    let out = mapper.0.stdout.take().expect("piped");
    BufReader::new(out).read_line(&mut said).expect("read");
    assert_eq!(said, "mapped\n");
    fill_in(path, mapper.0.id());
    mapper
}

/// `main` has ended by `pthread_exit`: the system shows a dead process, whose other threads go on and write.
#[test]
fn a_program_without_its_first_thread_still_runs() {
    let scratch = Scratch::new("recover-thread");
    let path = scratch.0.join("live/00000000000000aa-0.hlive");
    let mapper = mapped(&scratch, &path, &["thread"]);
    let pid = mapper.0.id();
    common::until("the first thread has ended", || common::state(pid) == Some('Z'));
    let listed = output(heapledger().args(["recover", "--list"]).arg(scratch.0.join("live")));
    assert!(text(&listed.stdout).contains("still running"), "{}", text(&listed.stdout));
    for target in [pid.to_string(), path.to_string_lossy().into_owned()] {
        let stats = output(heapledger().args(["stats", "--json", &target]));
        assert!(text(&stats.stdout).contains("\"running\":true"), "{target}: {}", text(&stats.stderr));
    }
    drop(mapper);
    let listed = output(heapledger().args(["recover", "--list"]).arg(scratch.0.join("live")));
    assert!(text(&listed.stdout).contains(&format!("own (process {pid}), ended")), "{}", text(&listed.stdout));
}

fn fill_in(path: &Path, pid: u32) {
    let ticks = heapledger_source::start_ticks(pid).expect("it runs").to_string();
    let mut builder = heapledger_testing::Builder::new();
    builder.process("program", "own").process("pid", &pid.to_string()).process("start_ticks", &ticks);
    let file = fs::File::options().write(true).open(path).expect("open");
    std::os::unix::fs::FileExt::write_all_at(&file, &builder.bytes(), 0).expect("written in place");
}

/// A forked child maps its parent's ledger, and writes nothing: `stats` says that its process is gone, and so it is.
#[test]
fn a_ledger_that_only_a_child_maps_is_finished() {
    let scratch = Scratch::new("recover-child");
    let path = scratch.0.join("live/00000000000000aa-0.hlive");
    fs::write(&path, [0; 1 << 16]).expect("written");
    let program = scratch.compile("mapper", MAPPER, &["-pthread"]);
    let mut parent = Command::new(program)
        .arg(&path)
        .arg("fork")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    fill_in(&path, parent.id());
    let recover = |words: &[&str]| {
        let mut command = heapledger();
        output(command.arg("recover").args(words).arg(scratch.0.join("live")).current_dir(scratch.cwd()))
    };
    common::until("it maps", || text(&recover(&["--list"]).stdout).contains("still running"));
    drop(parent.stdin.take());
    let mut said = String::new();
    let out = parent.stdout.take().expect("piped");
    BufReader::new(out).read_line(&mut said).expect("the child lives");
    let (pid, mut status) = (parent.id(), None);
    common::until("the parent has ended", || {
        status = parent.try_wait().expect("waited");
        status.is_some()
    });
    let maps = |process: u32| fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    let processes =
        || fs::read_dir("/proc").expect("list").filter_map(|item| item.ok()?.file_name().to_str()?.parse().ok());
    let child =
        processes().find(|process| maps(*process).contains(&*path.to_string_lossy())).expect("the child maps it");
    let stats = text(&output(heapledger().arg("stats").arg(pid.to_string())).stderr);
    assert!(stats.contains(&format!("there is no process {pid}")), "{stats}");
    let listed = text(&recover(&["--list"]).stdout);
    assert!(listed.contains(&format!("own (process {pid}), ended")), "{listed}");
    let done = recover(&[]);
    common::kill(child, "KILL");
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(scratch.finished(), [format!("heapledger.own.{pid}.hl")]);
    assert!(scratch.unfinished().is_empty());
}

/// While `run` lives, what it has not finished yet is its own: the lock says so, whoever else looks.
#[test]
fn recover_leaves_what_run_finishes() {
    let scratch = Scratch::new("recover-run");
    let ledger = scratch.ledger("sh");
    let run = |script: &str| {
        let mut command = scratch.run(&["-q", "-o", "own.hl", "sh", "-c", script]);
        command.env("STAND_IN_LEDGER", &ledger);
        command
    };
    // The stand-in's ledger is of a process that is no more: as if it had ended just now.
    let mut child = run("read line").stdin(Stdio::piped()).spawn().expect("started");
    common::until("there is a ledger", || scratch.unfinished().iter().any(|name| name.ends_with(".hlive")));
    let live = scratch.0.join("live");
    let recover =
        |words: &[&str]| output(heapledger().arg("recover").args(words).arg(&live).current_dir(scratch.cwd()));
    let words = format!("its `heapledger run` (process {}) finishes it", child.id());
    common::until("it is whole", || text(&recover(&["--list"]).stdout).contains(&words));
    let done = recover(&[]);
    assert!(done.status.success() && text(&done.stdout).contains(&words), "{}", text(&done.stdout));
    assert!(scratch.finished().is_empty(), "it was taken");
    drop(child.stdin.take());
    assert_eq!(child.wait().expect("waited").code(), Some(1));
    assert_eq!(scratch.finished(), ["own.hl"]);
    assert!(scratch.unfinished().is_empty());

    // Killed, it has no say any more; and what it leaves beside the ledger goes with that.
    let mut child = run("read line").stdin(Stdio::piped()).spawn().expect("started");
    common::until("it is whole", || text(&recover(&["--list"]).stdout).contains("finishes it"));
    child.kill().expect("killed");
    child.wait().expect("waited");
    assert!(scratch.unfinished().iter().any(|name| name.ends_with(".run")));
    assert!(recover(&[]).status.success());
    assert_eq!(scratch.finished(), ["heapledger.sh.4242.hl", "own.hl"]);
    assert!(fs::read_dir(&live).expect("list").next().is_none(), "the empty directory goes, too");
}

/// What processes leave that are killed: half a ledger, a live file without a word, notes beside ledgers.
#[test]
fn recover_takes_remains_away() {
    let scratch = Scratch::new("remains");
    let cwd = scratch.cwd();
    let live = scratch.0.join("live").join(format!("heapledger-{}", own_uid()));
    let make = |path: &Path| fs::DirBuilder::new().mode(0o700).recursive(true).create(path).expect("made");
    make(&live);
    let old = |path: &Path| {
        let times = fs::FileTimes::new().set_modified(std::time::SystemTime::now() - Duration::from_secs(3600));
        fs::File::options().write(true).open(path).and_then(|file| file.set_times(times)).expect("made old");
    };
    let blank = live.join("00000000000000aa-0.hlive");
    fs::write(&blank, [0; 1 << 16]).expect("written");
    let young = live.join("00000000000000ab-0.hlive");
    fs::copy(&blank, &young).expect("copied");
    old(&blank);
    for name in ["00000000000000ac.children", "00000000000000ac.run"] {
        fs::write(live.join(name), "1 1\n").expect("written");
    }
    std::os::unix::fs::symlink("/bin/true", live.join("00000000000000ac.unrecorded")).expect("linked");

    // The number of a process that is no more.
    let mut gone = Command::new("true").spawn().expect("started");
    gone.wait().expect("waited");
    let left = |directory: &Path, pid: u32, name: &str| {
        let path = directory.join(format!(".x.hl.{pid}.part"));
        make(&path);
        fs::write(path.join(name), "half").expect("written");
        path
    };
    let here = left(&cwd, gone.id(), ".ledger.77.tmp");
    let elsewhere = left(&scratch.0.join("elsewhere"), gone.id(), "ledger");
    std::os::unix::fs::symlink(&elsewhere, live.join("00000000000000ad-0.part")).expect("linked");
    // Not ours, or in use: something else is in it, others may enter it, its process lives.
    let foreign = left(&scratch.0.join("cwd"), gone.id() + 1_000_000, "thesis.txt");
    let open = left(&scratch.0.join("elsewhere"), gone.id() + 1_000_001, "ledger");
    fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("chmod");
    std::os::unix::fs::symlink(&open, live.join("00000000000000ae-0.part")).expect("linked");
    let living = left(&cwd, std::process::id(), "ledger");

    let recover = |words: &[&str]| {
        let seen = output(heapledger().arg("recover").args(words).arg(scratch.0.join("live")).current_dir(&cwd));
        assert!(seen.status.success(), "{}", text(&seen.stderr));
        text(&seen.stdout)
    };
    let listed = recover(&["--list"]);
    assert_eq!(listed.matches("left half written").count(), 2, "{listed}");
    assert!(here.exists() && elsewhere.exists() && blank.exists(), "listing changes nothing");
    let said = recover(&[]);
    assert!(said.contains("nothing was recorded; removed") && said.matches("half written").count() == 2, "{said}");
    assert!(!here.exists() && !elsewhere.exists() && !blank.exists());
    assert!(young.exists(), "its recorder may be at work on it");
    assert!(foreign.exists() && open.join("ledger").exists() && living.exists());
    assert_eq!(scratch.unfinished(), ["00000000000000ab-0.hlive"]);
    old(&young);
    recover(&[]);
    assert!(!live.exists(), "the empty directory goes, too");
    assert_eq!(recover(&[]), "no unfinished ledger found\n");
}

fn own_uid() -> u32 {
    fs::metadata("/proc/self").expect("this process").uid()
}

#[test]
fn a_failure_while_finishing_is_not_the_programs_end() {
    for signal in ["SEGV", "ABRT", "KILL"] {
        let scratch = Scratch::new("failing");
        let prepared = scratch.0.join("large");
        let mut builder = heapledger_testing::Builder::new();
        (1..300_000).for_each(|block| _ = builder.block(block * 4096, block));
        builder.process("program", "large").process("pid", "77").write(&prepared).expect("written");
        let mut command = scratch.run(&["sh", "-c", "exit 6"]);
        command.env("STAND_IN_LEDGER", &prepared).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().expect("started");
        common::until("the ledger is being written", || !scratch.finished().is_empty());
        // In a process of its own: the program is gone.
        for apart in common::children(child.id()) {
            common::kill(apart, signal);
        }
        let seen = common::finish(child);
        let said = text(&seen.stderr);
        assert_eq!(seen.status.code(), Some(6), "{signal}: {said}");
        if said.contains("next ") {
            eprintln!("skipped: the ledger was written before the signal came");
            continue;
        }
        assert!(
            said.contains("finishing the ledger failed") && said.contains("heapledger recover "),
            "{signal}: {said}"
        );
        assert_eq!(scratch.unfinished().len(), 1, "{signal}");
    }
}

#[test]
fn recover_leaves_the_living_alone() {
    let scratch = Scratch::new("recover");
    let live = scratch.0.join("live");
    let (path, ended) = (live.join("00000000000000aa-0.hlive"), live.join("00000000000000bb-0.hlive"));
    let mapper = mapped(&scratch, &path, &[]);
    let own = mapper.0.id().to_string();
    fs::copy(scratch.ledger("gone"), &ended).expect("copied");
    let unset = live.join("00000000000000cc-0.hlive");
    fs::write(&unset, [&b"\x89HLEDG\r\n"[..], &[0; 4088]].concat()).expect("written");
    let set_up = live.join("00000000000000dd-0.hlive");
    fs::copy(&unset, &set_up).expect("copied");
    let old = fs::FileTimes::new().set_modified(std::time::SystemTime::now() - Duration::from_secs(3600));
    fs::File::options().write(true).open(&unset).and_then(|file| file.set_times(old)).expect("made old");

    let list = output(heapledger().args(["recover", "--list"]).arg(&live));
    let said = text(&list.stdout);
    assert!(list.status.success() && said.lines().count() == 4, "{said}{}", text(&list.stderr));
    assert!(
        said.contains(&format!("own (process {own}), still running")) && said.contains("gone (process 4242), ended")
    );

    let refused = output(heapledger().arg("recover").arg(&path));
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("still running") && path.exists());

    let done = output(heapledger().arg("recover").arg(&live).current_dir(scratch.cwd()));
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(scratch.finished(), ["heapledger.gone.4242.hl"]);
    assert!(path.exists() && !ended.exists() && !unset.exists());
    assert!(set_up.exists(), "its recorder may be at work on it");

    let wrong = output(heapledger().arg("recover").arg("/etc/passwd"));
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("not a ledger"), "{}", text(&wrong.stderr));
    let again = output(heapledger().arg("recover").arg(scratch.cwd().join("heapledger.gone.4242.hl")));
    assert!(text(&again.stderr).contains("finished already"), "{}", text(&again.stderr));
}

#[test]
fn recover_writes_to_a_file_or_a_directory() {
    let scratch = Scratch::new("recover-to");
    let live = scratch.0.join("live");
    let [first, second] = ["aa", "bb"].map(|name| live.join(format!("00000000000000{name}-0.hlive")));
    fs::copy(scratch.ledger("gone"), &first).expect("copied");
    fs::copy(&first, &second).expect("copied");
    let recover = |from: &std::path::Path, to: &str| {
        output(heapledger().arg("recover").arg(from).args(["-o", to]).current_dir(scratch.cwd()))
    };
    let refused = recover(&live, "both.hl");
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("one file for 2 ledgers"), "{}", text(&refused.stderr));
    assert!(recover(&first, "100%p.hl").status.success());
    assert!(recover(&second, "new/er").status.success());
    assert!(scratch.cwd().join("100%p.hl").is_file() && scratch.cwd().join("new/er/heapledger.gone.4242.hl").is_file());
}

#[test]
fn the_library_inside_records_and_survives_the_death_of_run() {
    let scratch = Scratch::new("built-in");
    let run = |script: &str| {
        let mut command = heapledger();
        command.args(["run", "--ledger-dir"]).arg(scratch.0.join("live")).args(["--", "/bin/sh", "-c", script]);
        command.current_dir(scratch.cwd()).env("XDG_CACHE_HOME", scratch.0.join("cache"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let seen = output(&mut run("exit 7"));
    assert_eq!(seen.status.code(), Some(7), "{}", text(&seen.stderr));
    assert_eq!(scratch.finished().len(), 1, "{}", text(&seen.stderr));
    let path = scratch.cwd().join(&scratch.finished()[0]);
    let ledger = Ledger::open(&path).expect("a ledger");
    assert!(ledger.tallies().expect("read").get(TallyCounter::Allocations) > 0);
    assert_eq!(ledger.process().number("exit"), Some(7));
    fs::remove_file(path).expect("removed");

    // `run` is killed; the program goes on, then it is killed as well.
    let mut child = run("while :; do sleep 0.02; done").spawn().expect("started");
    let live = scratch.0.join("live");
    let recover = |list: &[&str]| output(heapledger().arg("recover").args(list).arg(&live).current_dir(scratch.cwd()));
    common::until("it records", || text(&recover(&["--list"]).stdout).contains("still running"));
    let program = common::children(child.id())[0];
    child.kill().expect("killed");
    child.wait().expect("waited");
    assert!(text(&recover(&["--list"]).stdout).contains("still running"));
    common::kill(program, "KILL");
    common::until("it is gone", || common::state(program).is_none_or(|state| state == 'Z'));
    let recovered = recover(&[]);
    assert!(recovered.status.success(), "{}", text(&recovered.stderr));
    assert_eq!(scratch.finished().len(), 1, "{}", text(&recovered.stdout));
    assert!(scratch.unfinished().is_empty());
}
