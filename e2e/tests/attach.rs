//! `attach` on programs that were started without us: what they allocate from then on is in the ledger, exactly; nothing else of them
//! changes, whatever they were doing, and whatever becomes of `attach`.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use heapledger_e2e::ledger::{Stats, check_totals, read};
use heapledger_e2e::nobody::Nobody;
use heapledger_e2e::process::{self, Ran, kill, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, find, heapledger, root, system_library};
use heapledger_e2e::{Result, check, skip};

/// A program of `e2e/attach`.
fn built(scratch: &Scratch, source: &str, options: &[&str]) -> Result<PathBuf> {
    let compiler = if source.ends_with(".cc") { "c++" } else { "cc" };
    let product = scratch.path(source.split('.').next().unwrap_or(source));
    let mut compile = Command::new(compiler);
    compile.args(["-g", "-O1", "-pthread"]).args(options).arg("-o").arg(&product);
    process::run(compile.arg(root().join("e2e/attach").join(source)))?.good()?;
    Ok(product)
}

/// A program that runs, and has said a point.
struct Stranger {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Stranger {
    fn start(command: &mut Command) -> Result<Stranger> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        let mut point = [0];
        stdout.read_exact(&mut point).map_err(|error| error.to_string())?;
        check!(&point == b".", "it says {point:?}");
        Ok(Stranger { child, stdin, stdout })
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends its input, after this; its end, and the last line that it says.
    fn end(mut self, input: &str) -> Result<String> {
        let mut stdin = self.stdin.take().ok_or("no stdin")?;
        stdin.write_all(input.as_bytes()).map_err(|error| error.to_string())?;
        drop(stdin);
        let mut said = String::new();
        while self.stdout.read_line(&mut said).map_err(|error| error.to_string())? != 0 {}
        let status = self.child.wait().map_err(|error| error.to_string())?;
        check!(status.success(), "it ends with {status}, and says {said}");
        Ok(said.trim().to_owned())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn attaching(scratch: &Scratch, pid: u32, more: &[&str]) -> Command {
    let mut attach = command(heapledger());
    attach.arg("attach").arg("--ledger-dir").arg(scratch.live()).arg("-o").arg(scratch.path("x.hl")).args(more);
    attach.arg(pid.to_string());
    attach
}

fn attach(scratch: &Scratch, pid: u32, more: &[&str]) -> Result<Ran> {
    let ran = process::run(&mut attaching(scratch, pid, more))?;
    check!(ran.status.success() && ran.out().is_empty(), "attach: {ran}");
    check!(!ran.err().contains("not seen"), "attach: {ran}");
    Ok(ran)
}

/// What it says, if it does not attach.
fn refused(scratch: &Scratch, pid: u32) -> Result<String> {
    let ran = process::run(&mut attaching(scratch, pid, &[]))?;
    check!(ran.status.code() == Some(1) && ran.out().is_empty(), "attach is not refused: {ran}");
    Ok(ran.err())
}

/// How many blocks of a ledger a function has made that live, and their bytes.
fn made_by(ledger: &Path, function: &str) -> Result<(usize, u64)> {
    let blocks = read("dump", ledger, &["--where", &format!("function == '{function}'")])?;
    let sizes: Vec<u64> =
        blocks.iter().filter(|line| line["type"] == "block").filter_map(|line| line["size"].as_u64()).collect();
    Ok((sizes.len(), sizes.iter().sum()))
}

/// In each of the ways in which a program waits: the call goes on as if nobody had been there, and the books are exact.
#[test]
fn a_program_is_recorded_wherever_it_waits() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "waits.c", &[])?;
    let ways = [
        "read",
        "poll",
        "select",
        "epoll",
        "condition",
        "semaphore",
        "join",
        "child",
        "busy",
        "timed-sleep",
        "timed-poll",
        "timed-epoll",
        "timed-select",
        "timed-semaphore",
    ];
    for way in ways {
        let scratch = Scratch::new();
        let stranger = Stranger::start(command(&program).arg(way))?;
        // It says the point before it waits.
        sleep(Duration::from_millis(20));
        let told = attach(&scratch, stranger.pid(), &[])?.err();
        check!(told.contains("is recorded from now on") && told.contains("heapledger top"), "{way}: {told}");
        let said = stranger.end("x")?;
        check!(said == "result 0", "{way}: {said}");
        let ledger = scratch.path("x.hl");
        let stats = Stats::of(&ledger)?;
        let (allocations, frees) = (stats.number("allocations"), stats.number("frees"));
        check!((allocations, frees) == (1000, 900), "{way}: {allocations} allocations, {frees} frees");
        check!(made_by(&ledger, "made")? == (100, 10_000), "{way}: {:?}", made_by(&ledger, "made")?);
        check_totals(&stats, &[])?;
        let notes = process::run(command(heapledger()).args(["stats", "--json"]).arg(&ledger))?.good()?.out();
        check!(notes.contains("\"attached\"") && notes.contains("Recorded since attach"), "{way}: {notes}");
        check_says_end(&ledger, way)?;
        check!(scratch.unfinished().is_empty(), "{way}: {:?}", scratch.unfinished());
    }
    Ok(())
}

/// Its program wrote it at its end, and no other moment is spoken of.
fn check_says_end(ledger: &Path, way: &str) -> Result {
    let limits = ["check", "--max-live", "1G", "--max-leaked", "1G"];
    let said = process::run(command(heapledger()).args(limits).arg(ledger))?.good()?.out();
    check!(said.contains("live at the end") && said.contains("not freed at the end"), "{way}: {said}");
    check!(!said.contains("copied"), "{way}: {said}");
    Ok(())
}

#[test]
fn libraries_that_are_opened_later_are_seen() -> Result {
    let scratch = Scratch::new();
    let (program, library) = (built(&scratch, "waits.c", &[])?, built(&scratch, "later.c", &["-shared", "-fPIC"])?);
    let stranger = Stranger::start(command(&program).arg("poll").arg(&library))?;
    attach(&scratch, stranger.pid(), &["-q"])?;
    let said = stranger.end("x")?;
    check!(said == "result 0", "{said}");
    let seen = made_by(&scratch.path("x.hl"), "allocates_here")?;
    check!(seen == (10, 33_330), "{seen:?}");
    Ok(())
}

/// Attached to again and again, and the attaching killed at any moment: the program is right to its end.
#[test]
fn busy_threads_go_on_as_before() -> Result {
    const ROUNDS: u64 = 12;
    let scratch = Scratch::new();
    let program = built(&scratch, "steady.cc", &[])?;
    let (mut recorded, mut killed) = (0, 0);
    for round in 0..ROUNDS {
        let scratch = Scratch::new();
        let stranger = Stranger::start(&mut command(&program))?;
        let mut attach = attaching(&scratch, stranger.pid(), &["-q"]);
        if round % 2 == 0 {
            process::run(&mut attach)?.good()?;
            recorded += 1;
        } else {
            let mut attach = attach.spawn().map_err(|error| error.to_string())?;
            // From before it stops a thread to after it has let the last one go.
            sleep(Duration::from_micros(3000 * round));
            let _ = attach.kill();
            killed += i32::from(!attach.wait().map_err(|error| error.to_string())?.success());
        }
        sleep(Duration::from_millis(20));
        let said = stranger.end("")?;
        check!(said == "0 wrong", "round {round}: {said}");
        let ledger = scratch.path("x.hl");
        if round % 2 == 0 {
            let stats = Stats::of(&ledger)?;
            check!(stats.number("allocations") > 0, "round {round} has seen nothing");
            check_totals(&stats, &[])?;
        }
    }
    check!(recorded == ROUNDS / 2 && killed > 0, "{recorded} recorded, {killed} killed");
    Ok(())
}

#[test]
fn allocators_of_others_are_followed() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "waits.c", &[])?;
    for name in ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"] {
        let Some(library) = system_library(name) else {
            skip("attach", &format!("{name} is not installed"));
            continue;
        };
        let scratch = Scratch::new();
        let stranger = Stranger::start(command(&program).arg("poll").env("LD_PRELOAD", library))?;
        attach(&scratch, stranger.pid(), &["-q"])?;
        let said = stranger.end("x")?;
        check!(said == "result 0", "{name}: {said}");
        let ledger = scratch.path("x.hl");
        check!(made_by(&ledger, "made")? == (100, 10_000), "{name}: {:?}", made_by(&ledger, "made")?);
        check_totals(&Stats::of(&ledger)?, &[])?;
    }
    Ok(())
}

/// Programs that people have.
#[test]
fn real_programs_go_on_and_are_recorded() -> Result {
    let python = "print('.', end='', flush=True)\nkept = [input() for _ in range(1)]\nkept += [bytearray(3000) for _ in range(500)]\nprint(len(kept))\n";
    let busy = "import select, sys\nprint('.', end='', flush=True)\nwhile not select.select([sys.stdin], [], [], 0)[0]:\n    kept = [bytearray(3000) for _ in range(500)]\nprint(len(kept))\n";
    let perl = "$| = 1; print '.'; <STDIN>; my @kept = map { 'x' x 3000 } 1 .. 500; print scalar(@kept), \"\\n\";";
    let programs: [(&str, &[&str], &str); 3] =
        [("python3", &["-c", python], "501"), ("python3", &["-c", busy], "500"), ("perl", &["-e", perl], "500")];
    for (name, words, last) in programs {
        let Some(program) = find(&[name]) else {
            skip("attach", &format!("{name} is not installed"));
            continue;
        };
        let scratch = Scratch::new();
        let stranger = Stranger::start(command(program).args(words))?;
        sleep(Duration::from_millis(20));
        attach(&scratch, stranger.pid(), &["-q"])?;
        let pid = stranger.pid().to_string();
        let live = process::run(command(heapledger()).args(["stats", &pid]))?.good()?;
        check!(live.out().contains("Recorded since attach"), "{name}: {live}");
        let said = stranger.end("\n")?;
        check!(said == last, "{name}: {said}");
        let stats = Stats::of(scratch.path("x.hl"))?;
        check!(stats.number("allocations") >= 500, "{name}: {} allocations", stats.number("allocations"));
        check_totals(&stats, &[])?;
    }
    Ok(())
}

#[test]
fn a_server_with_an_allocator_of_its_own_is_recorded_and_waited_for() -> Result {
    let (Some(server), Some(client)) = (find(&["redis-server"]), find(&["redis-cli"])) else {
        skip("attach", "redis is not installed");
        return Ok(());
    };
    let scratch = Scratch::new();
    let socket = scratch.path("socket");
    let mut redis = command(server);
    redis.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket).current_dir(scratch.work());
    let redis = process::start(redis.stdin(Stdio::null()))?;
    until("a socket", || socket.exists())?;
    let ask = |words: &[&str]| process::run(command(&client).arg("-s").arg(&socket).args(words));
    let attach = process::start(attaching(&scratch, redis.pid(), &["--wait"]).stdin(Stdio::null()))?;
    let pid = redis.pid().to_string();
    until("a ledger", || {
        process::run(command(heapledger()).args(["stats", &pid])).is_ok_and(|ran| ran.status.success())
    })?;
    let set =
        ask(&["eval", "for i = 1, 1000 do redis.call('set', 'key' .. i, string.rep('x', 500)) end return 'set'", "0"])?;
    check!(set.out().trim() == "set", "{set}");
    let count = ask(&["dbsize"])?;
    check!(count.out().contains("1000"), "{count}");
    ask(&["shutdown", "nosave"])?;
    redis.finish(process::PATIENCE)?.good()?;
    let attach = attach.finish(process::PATIENCE)?.good()?;
    check!(attach.err().contains("has ended with status 0; look: heapledger stats"), "{attach}");
    let stats = Stats::of(scratch.path("x.hl"))?;
    check!(stats.number("live_bytes") > 500_000, "{} bytes live", stats.number("live_bytes"));
    check_totals(&stats, &[])
}

/// A program that a signal ends, or that becomes another one, cannot write its ledger; who waits for it does, and says how that was.
#[test]
fn who_waits_writes_what_the_program_cannot() -> Result {
    let compiled = Scratch::new();
    let program = built(&compiled, "waits.c", &[])?;
    for (way, told, stats) in [
        ("terminate", "was ended by SIGTERM", "killed by signal 15"),
        ("become", "has become another program (exec)", "went on as another program (exec)"),
    ] {
        let scratch = Scratch::new();
        let mut stranger = Stranger::start(command(&program).args(["read", way]))?;
        let attach = process::start(attaching(&scratch, stranger.pid(), &["--wait"]).stdin(Stdio::null()))?;
        let pid = stranger.pid().to_string();
        until("a ledger", || {
            process::run(command(heapledger()).args(["stats", &pid])).is_ok_and(|ran| ran.status.success())
        })?;
        // It may still be at work in the program: what it says tells that it is not, and so does its sleep.
        sleep(Duration::from_millis(300));
        stranger.stdin.take().ok_or("no stdin")?.write_all(b"x").map_err(|error| error.to_string())?;
        let attach = attach.finish(process::PATIENCE)?.good()?;
        check!(attach.err().contains(told) && attach.err().contains("look: heapledger stats"), "{way}: {attach}");
        let ledger = scratch.path("x.hl");
        let said = process::run(command(heapledger()).arg("stats").arg(&ledger))?.good()?.out();
        check!(said.contains(stats), "{way}: {said}");
        check!(made_by(&ledger, "made")? == (100, 10_000), "{way}: {:?}", made_by(&ledger, "made")?);
        check!(scratch.unfinished().is_empty(), "{way}: {:?}", scratch.unfinished());
    }
    Ok(())
}

/// A number for a thing that was refused: each has its own sentence, and nothing was done to anybody.
#[test]
fn what_cannot_be_attached_to_is_left_alone() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "waits.c", &[])?;
    let stands = |program: &Path| Stranger::start(command(program).arg("read"));
    // Twice.
    let stranger = stands(&program)?;
    attach(&scratch, stranger.pid(), &["-q"])?;
    let told = refused(&scratch, stranger.pid())?;
    check!(told.contains("is recorded already"), "{told}");
    check!(stranger.end("x")? == "result 0", "it goes on");
    // Statically linked.
    let fixed = built(&scratch, "steady.cc", &["-static"])?;
    let stranger = Stranger::start(&mut command(&fixed))?;
    let told = refused(&scratch, stranger.pid())?;
    check!(told.contains("is statically linked"), "{told}");
    check!(stranger.end("")? == "0 wrong", "it goes on");
    // With its own malloc.
    let allocator = root().join("e2e/attach/own.c");
    let own = built(&scratch, "waits.c", &["-rdynamic", &allocator.to_string_lossy()])?;
    let stranger = stands(&own)?;
    let told = refused(&scratch, stranger.pid())?;
    check!(told.contains("brings its own allocator"), "{told}");
    check!(stranger.end("x")? == "result 0", "it goes on");
    // Stopped.
    let stranger = stands(&program)?;
    kill(i64::from(stranger.pid()), "STOP")?;
    until("a stopped program", || is_stopped(stranger.pid()))?;
    let told = refused(&scratch, stranger.pid())?;
    check!(told.contains("is stopped"), "{told}");
    kill(i64::from(stranger.pid()), "CONT")?;
    check!(stranger.end("x")? == "result 0", "it goes on");
    // Without its main thread, while another one goes on.
    let stranger = Stranger::start(command(&program).arg("alone"))?;
    until("a main thread that has ended", || state(stranger.pid()) == Some('Z'))?;
    let told = refused(&scratch, stranger.pid())?;
    check!(told.contains("main thread") && told.contains("while others go on"), "{told}");
    check!(stranger.end("x")? == "result 0", "it goes on");
    // Gone, and nobody.
    let mut child = command("true").spawn().map_err(|error| error.to_string())?;
    until("a program that has ended", || state(child.id()) == Some('Z'))?;
    let told = refused(&scratch, child.id())?;
    check!(told.contains("has ended"), "{told}");
    child.wait().map_err(|error| error.to_string())?;
    let told = refused(&scratch, 0x3fff_ffff)?;
    check!(told.contains("there is no process"), "{told}");
    // The kernel's, if it is to be seen.
    if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        let told = refused(&scratch, 2)?;
        check!(told.contains("the kernel's own") || told.contains("may not be attached"), "{told}");
    }
    // What cannot be had for a program that runs.
    let guard = process::run(&mut attaching(&scratch, 1, &["--guard", "full"]))?;
    check!(guard.status.code() == Some(2) && guard.err().contains("run --guard"), "{guard}");
    Ok(())
}

fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

fn is_stopped(pid: u32) -> bool {
    state(pid) == Some('T')
}

/// A program that a debugger has, and one that was preloaded and does not record.
#[test]
fn others_come_first() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "waits.c", &[])?;
    let asleep = Stranger::start(
        command(&program)
            .arg("read")
            .env("LD_PRELOAD", heapledger_e2e::tools::preload())
            .env("HEAPLEDGER", "begin=later"),
    )?;
    let told = refused(&scratch, asleep.pid())?;
    check!(told.contains("has the library of heapledger inside"), "{told}");
    check!(asleep.end("x")? == "result 0", "it goes on");
    let Some(strace) = find(&["strace"]) else {
        skip("attach", "strace is not installed");
        return Ok(());
    };
    let stranger = Stranger::start(command(&program).arg("read"))?;
    let pid = stranger.pid().to_string();
    let tracer = process::start(
        command(strace).args([OsStr::new("-p"), OsStr::new(&pid), "-o".as_ref()]).arg(scratch.path("calls")),
    )?;
    until("a tracer", || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|tracer| tracer.trim() != "0"))
    })?;
    let told = refused(&scratch, stranger.pid())?;
    check!(told.contains("is traced already") && told.contains("strace"), "{told}");
    drop(tracer);
    check!(stranger.end("x")? == "result 0", "it goes on");
    Ok(())
}

#[test]
fn a_file_is_replaced_only_if_that_is_asked_for() -> Result {
    for (more, name) in [(&[][..], "x.hl.1"), (&["--force"], "x.hl")] {
        let scratch = Scratch::new();
        let program = built(&scratch, "waits.c", &[])?;
        fs::write(scratch.path("x.hl"), "old").map_err(|error| error.to_string())?;
        let stranger = Stranger::start(command(&program).arg("read"))?;
        attach(&scratch, stranger.pid(), more)?;
        stranger.end("x")?;
        Stats::of(scratch.path(name)).map_err(|error| format!("{more:?}: {error}"))?;
        let is_kept = fs::read(scratch.path("x.hl")).is_ok_and(|bytes| bytes == b"old");
        check!(is_kept == more.is_empty(), "{more:?}: {:?}", scratch.finished());
    }
    Ok(())
}

#[test]
fn another_users_program_is_refused() -> Result {
    let Some(nobody) = Nobody::new() else {
        skip("attach", "no user can be made up here");
        return Ok(());
    };
    let scratch = Scratch::new();
    let program = built(&scratch, "waits.c", &[])?;
    let stranger = Stranger::start(command(&program).arg("read"))?;
    let mut attach = nobody.command(heapledger());
    let told = process::run(attach.arg("attach").arg(stranger.pid().to_string()).current_dir("/tmp"))?;
    check!(told.status.code() == Some(1), "{told}");
    let is_said = ["may not be attached to", "belongs to another user"].iter().any(|words| told.err().contains(words));
    check!(is_said, "{told}");
    check!(stranger.end("x")? == "result 0", "it goes on");
    Ok(())
}
