//! What a person types wrongly, and what programs read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use heapledger_e2e::ledger::{Blocks, Stats, check_totals, read};
use heapledger_e2e::process::{self, PATIENCE, Ran, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, copy_program, find, heapledger, system_library};
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check, victim};

const READERS: [&str; 3] = ["stats", "dump", "history"];

fn tell(words: &[&str]) -> Result<Ran> {
    process::run(command(heapledger()).args(words))
}

/// It failed, and said why in one sentence on stderr, which names what it is about.
fn check_refused(ran: &Ran, about: &str) -> Result {
    let said = ran.err();
    check!(ran.status.code().is_some_and(|code| code != 0), "it should fail: {ran}");
    check!(ran.stdout.is_empty(), "it should print nothing: {ran}");
    check!(said.starts_with("heapledger: ") && said.lines().count() == 1, "it should say one sentence: {said}");
    check!(said.contains(about), "the sentence should speak of {about}: {said}");
    for odd in ["os error", "Os {", "panicked", "RUST_BACKTRACE", "  "] {
        check!(!said.contains(odd), "the sentence should not hold {odd:?}: {said}");
    }
    Ok(())
}

/// A finished ledger of `standing`.
fn ledger(scratch: &Scratch) -> Result<PathBuf> {
    let program = victim::named("standing")?.build()?;
    run_cleanly(scratch, &mut under_run(scratch, "x", &[], &program, &[]))?.good()?;
    Ok(scratch.path("x.hl"))
}

#[test]
fn what_is_not_a_ledger() -> Result {
    let scratch = Scratch::new();
    for (name, bytes) in [("empty", vec![]), ("text", b"hello, world\n".repeat(1000)), ("zeros", vec![0; 100_000])] {
        let path = scratch.path(name);
        fs::write(&path, bytes).map_err(|error| error.to_string())?;
        for reader in READERS {
            check_refused(&tell(&[reader, &path.to_string_lossy()])?, name)?;
            check_refused(&tell(&[reader, "--json", &path.to_string_lossy()])?, name)?;
        }
    }
    for reader in READERS {
        check_refused(&tell(&[reader, "/no/such/file.hl"])?, "/no/such/file.hl")?;
        check_refused(&tell(&[reader, "/tmp"])?, "/tmp")?;
        check_refused(&tell(&[reader, "/dev/null"])?, "/dev/null")?;
        // Process 1 is not recorded; no process has the largest number.
        check_refused(&tell(&[reader, "1"])?, "1")?;
        check_refused(&tell(&[reader, "4194304"])?, "4194304")?;
    }
    Ok(())
}

#[test]
fn no_permission() -> Result {
    let scratch = Scratch::new();
    let path = ledger(&scratch)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).map_err(|error| error.to_string())?;
    for reader in READERS {
        let mut command = command(heapledger());
        command.arg(reader).arg(&path);
        // Root may read everything: ask as somebody else, from a place where he may execute.
        let copy = std::env::temp_dir().join(format!("heapledger-e2e-cli-{}", std::process::id()));
        if fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0) {
            copy_program(heapledger(), &copy)?;
            // Whatever is taken from the rights of new files here.
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).map_err(|error| error.to_string())?;
            command = Command::new(&copy);
            command.arg(reader).arg(&path).uid(65534).gid(65534);
            fs::set_permissions(scratch.work(), fs::Permissions::from_mode(0o755))
                .map_err(|error| error.to_string())?;
        }
        let ran = process::run(&mut command);
        let _ = fs::remove_file(&copy);
        check_refused(&ran?, "x.hl")?;
    }
    Ok(())
}

#[test]
fn a_newer_version_is_refused() -> Result {
    let scratch = Scratch::new();
    let path = ledger(&scratch)?;
    let bytes = fs::read(&path).map_err(|error| error.to_string())?;
    // Whichever byte of the first ones holds the version: one of these must be told as such, none may be read wrongly.
    let mut told = false;
    for at in 0..32 {
        let mut forged = bytes.clone();
        forged[at] = forged[at].wrapping_add(9);
        let forged_path = scratch.path("forged");
        fs::write(&forged_path, forged).map_err(|error| error.to_string())?;
        let ran = tell(&["stats", &forged_path.to_string_lossy()])?;
        if !ran.status.success() {
            check_refused(&ran, "forged")?;
            told |= ran.err().contains("version");
        }
    }
    check!(told, "no changed byte was told to be a version");
    Ok(())
}

#[test]
fn a_cut_ledger_is_read_up_to_there() -> Result {
    let scratch = Scratch::new();
    let path = ledger(&scratch)?;
    let bytes = fs::read(&path).map_err(|error| error.to_string())?;
    let cut = scratch.path("cut");
    let mut shown = 0;
    for part in 0..40 {
        fs::write(&cut, &bytes[..bytes.len() * part / 40]).map_err(|error| error.to_string())?;
        for reader in READERS {
            let ran = tell(&[reader, &cut.to_string_lossy()])?;
            if ran.status.success() {
                shown += 1;
                let all = ran.out().to_lowercase();
                let told = ["cut", "damage", "incomplete", "missing"].iter().any(|word| all.contains(word));
                check!(told, "{reader} does not say that {part}/40 of a ledger is not all of it: {all}");
                read(reader, &cut, &[])?;
            } else {
                check_refused(&ran, "cut")?;
            }
        }
    }
    check!(shown > 10, "only {shown} of 120 looks at cut ledgers showed something");
    Ok(())
}

#[test]
fn wrong_options_are_named() -> Result {
    for (words, about) in [
        (&["stat", "x.hl"][..], "stat"),
        (&["dump"], "FILE|PID"),
        (&["dump", "x.hl", "--limit", "many"], "many"),
        (&["dump", "x.hl", "--colour", "never"], "--colour"),
        (&["run"], "PROGRAM"),
        (&["run", "--depth", "0", "--", "true"], "depth"),
        (&["run", "--max-ledger", "lots", "--", "true"], "lots"),
        (&["run", "--suppress", "/dev/zero", "--", "true"], "too much\n"),
        (&["run", "--without", "everything", "--", "true"], "everything"),
        (&["run", "-o", "/no/such/directory/x.hl", "--", "true"], "/no/such/directory"),
        (&["run", "--ledger-dir", "/no/such/directory", "--", "true"], "/no/such/directory"),
    ] {
        let ran = tell(words)?;
        check!(ran.status.code().is_some_and(|code| [1, 2, 125].contains(&code)), "{words:?}: {ran}");
        check!(ran.err().starts_with("heapledger: ") && ran.err().contains(about), "{words:?}: {ran}");
        check!(ran.stdout.is_empty(), "{words:?}: {ran}");
    }
    Ok(())
}

#[test]
fn programs_that_cannot_be_started() -> Result {
    let scratch = Scratch::new();
    let text = scratch.path("not-executable");
    fs::write(&text, "hello").map_err(|error| error.to_string())?;
    for (program, code) in
        [("no-such-program-anywhere", 127), ("/no/such/program", 127), (&text.to_string_lossy(), 126)]
    {
        let mut run = command(heapledger());
        let ran = process::run(run.args(["run", "--", program]).current_dir(scratch.work()))?;
        check_refused(&ran, program)?;
        check!(ran.status.code() == Some(code), "{program}: a shell would say {code}: {ran}");
    }
    check!(scratch.finished().is_empty(), "there is a ledger of nothing");
    Ok(())
}

#[test]
fn a_setuid_program_is_said_to_be_untracked() -> Result {
    let scratch = Scratch::new();
    let copy = scratch.path("setuid");
    copy_program(&victim::named("standing")?.build()?, &copy)?;
    let set_user = |path: &PathBuf| {
        std::os::unix::fs::chown(path, Some(65534), None).is_ok()
            && fs::set_permissions(path, fs::Permissions::from_mode(0o4755)).is_ok()
    };
    // Where the file system is mounted `nosuid`, and for that user himself, it is a program like any other.
    let other = scratch.path("id");
    copy_program(&find(&["id"]).ok_or("no id")?, &other)?;
    let says = |word: &str| process::run(command(&other).arg(word))?.good().map(|ran| ran.out());
    if !(set_user(&copy) && set_user(&other) && says("-u")? != says("-ru")?) {
        heapledger_e2e::skip("a setuid program", "no right to make one");
        return Ok(());
    }
    fs::set_permissions(scratch.work(), fs::Permissions::from_mode(0o755)).map_err(|error| error.to_string())?;
    let ran = run_cleanly(&scratch, &mut under_run(&scratch, "x", &[], &copy, &[]))?;
    check!(ran.status.success() && ran.out() == "standing\n", "{ran}");
    check!(
        ran.err().lines().count() == 1 && ran.err().contains("untracked"),
        "it should say so in one sentence: {ran}"
    );
    check!(scratch.finished().is_empty(), "there is a ledger of a program that was not seen");
    Ok(())
}

#[test]
fn help_teaches() -> Result {
    let ran = tell(&[])?.good()?;
    check!(ran.out().contains("heapledger run -- ") && ran.out().contains("heapledger dump"), "{}", ran.out());
    for words in [&["help"][..], &["--help"], &["help", "run"], &["run", "--help"], &["dump", "--help"], &["--version"]]
    {
        let ran = tell(words)?.good()?;
        check!(!ran.out().is_empty() && ran.err().is_empty(), "{words:?}: {ran}");
        let long = ran.out().lines().find(|line| line.chars().count() > 120).map(str::to_owned);
        check!(long.is_none(), "{words:?}: a line is too long for a terminal: {long:?}");
    }
    Ok(())
}

#[test]
fn json_and_text_tell_the_same() -> Result {
    let scratch = Scratch::new();
    let path = ledger(&scratch)?;
    let stats = Stats::of(&path)?;
    check_totals(&stats, &[])?;
    Blocks::live(&path)?.check(&stats)?;

    let few = read("dump", &path, &["--limit", "10"])?;
    let end = few.last().ok_or("nothing")?;
    check!(few.len() == 12 && end["shown"] == 10, "dump --limit 10 shows {}", few.len() - 2);
    check!(
        end["left_out"].as_u64() == Some(stats.number("live_blocks") - 10),
        "dump --limit 10 left out {}",
        end["left_out"]
    );

    let history = read("history", &path, &[])?;
    let events = &history[1..history.len() - 1];
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["number"].as_u64()).collect();
    check!(numbers.windows(2).all(|pair| pair[0] <= pair[1]), "the history is not in order");
    let count = |name: &str| events.iter().filter(|event| event["event"] == name).count() as u64;
    check!(count("allocation") == stats.number("allocations"), "{} allocations in the history", count("allocation"));
    check!(count("free") == stats.number("frees"), "{} frees in the history", count("free"));

    for name in READERS {
        let text = tell(&[name, &path.to_string_lossy()])?.good()?.out();
        check!(!text.contains('\x1b'), "{name} has colours in a file");
    }
    let dump = tell(&["dump", &path.to_string_lossy()])?.out();
    check!(dump.contains("standing.c") && dump.contains("standing_block"), "dump shows no source: {dump}");
    let closed = process::run(
        heapledger_e2e::tracked::shell("\"$1\" dump \"$2\" | head -1", &[heapledger().as_os_str(), path.as_os_str()])
            .stdin(Stdio::null()),
    )?;
    check!(closed.err().is_empty() && closed.out().lines().count() == 1, "dump | head -1: {closed}");
    Ok(())
}

#[test]
fn a_run_has_labels_and_a_moment() -> Result {
    let (scratch, program) = (Scratch::new(), victim::named("standing")?.build()?);
    let words = ["--label", "service=api", "--label", "version=0", "--label", "version=1,2=%"];
    run_cleanly(&scratch, &mut under_run(&scratch, "x", &words, &program, &[]))?.good()?;
    let path = scratch.path("x.hl");
    let stats = read("stats", &path, &[])?;
    let process =
        stats.iter().find_map(|line| line.get("process").filter(|process| !process.is_null())).ok_or("no process")?;
    let labels = serde_json::json!({ "service": "api", "version": "1,2=%" });
    check!(process["labels"] == labels, "the labels are {}", process["labels"]);
    check!(process["moment"] == "end" && process["machine_id"].is_null(), "{process}");
    check!(process["host"].as_str().is_some_and(|host| !host.is_empty()), "{process}");
    let text = tell(&["stats", &path.to_string_lossy()])?.good()?.out();
    check!(text.contains("service=api, version="), "the labels are not shown: {text}");
    let long = format!("a={}", "x".repeat(600));
    for (label, about) in [("nothing", "nothing"), ("=x", "=x"), (long.as_str(), "511")] {
        let ran = tell(&["run", "--label", label, "--", "true"])?;
        check!(ran.status.code() == Some(2) && ran.err().contains(about), "{label} should be refused: {ran}");
    }
    Ok(())
}

#[test]
fn a_process_is_read_while_it_allocates() -> Result {
    let (scratch, program) = (Scratch::new(), victim::named("ending")?.build()?);
    // A thread allocates and frees without end.
    let mut run = under_run(&scratch, "x", &[], &program, &["for-ever".into()]);
    let running = process::start(run.stdin(Stdio::null()))?;
    let mut pid = 0;
    until("it is recorded", || {
        pid = process::children(running.pid()).first().copied().unwrap_or(0);
        pid != 0 && Stats::of(pid.to_string()).is_ok_and(|stats| stats.number("allocations") > 10_000)
    })?;
    let (mut last, target) = (0, pid.to_string());
    for _ in 0..20 {
        let stats = Stats::of(&target)?;
        check!(stats.0["process"]["running"] == true, "it runs, and stats does not say so");
        let (allocations, frees, live) =
            (stats.number("allocations"), stats.number("frees"), stats.number("live_blocks"));
        check!(allocations >= last, "allocations go back from {last} to {allocations}");
        last = allocations;
        // Counters and records are read one after the other, while a thread goes on.
        check!((allocations - frees).abs_diff(live) < 20_000, "{allocations} - {frees}, and {live} are live");
        let blocks = Blocks::live(&target)?;
        let sevens: Vec<_> = blocks.blocks.iter().filter(|block| blocks.is_from(block, "leak_seven", true)).collect();
        check!(
            sevens.len() == 7 && sevens.iter().all(|block| block.size == 111),
            "{} blocks of leak_seven",
            sevens.len()
        );
        check!(blocks.blocks.len() < 20, "{} blocks are live in a program that keeps a dozen", blocks.blocks.len());
        read("history", &target, &["--limit", "50"])?;
    }
    process::kill(pid.into(), "TERM")?;
    let ran = running.finish(PATIENCE)?;
    check!(process::signal_of(&ran) == Some(15), "{ran}");
    check_totals(&Stats::of(scratch.path("x.hl"))?, &[])
}

#[test]
fn what_is_preloaded_already_stays_behind_us() -> Result {
    let (scratch, program) = (Scratch::new(), victim::named("small_blocks")?.build()?);
    let Some(library) = system_library("libjemalloc.so.2") else {
        heapledger_e2e::skip("LD_PRELOAD under run", "libjemalloc2 is not installed");
        return Ok(());
    };
    let mut run = under_run(&scratch, "x", &[], &program, &[]);
    run_cleanly(&scratch, run.env("LD_PRELOAD", library))?.good()?;
    let stats = Stats::of(scratch.path("x.hl"))?;
    check_totals(&stats, &["stacks_broken".into()])?;
    let heap = &stats.0["heaps"][0]["name"];
    check!(heap.as_str().is_some_and(|name| name.contains("jemalloc")), "the heap is said to be {heap}");
    Ok(())
}

#[test]
fn the_summary_is_short_and_goes_to_stderr() -> Result {
    let (scratch, program) = (Scratch::new(), victim::named("ending")?.build()?);
    let mut run = command(heapledger());
    run.args(["run", "--"]).arg(&program).arg("_exit").current_dir(scratch.work());
    let ran = process::run(&mut run)?;
    check!(ran.status.code() == Some(4) && ran.out() == "_exit\n", "{ran}");
    let said = ran.err();
    check!(said.starts_with("heapledger: ending ended with status 4"), "{said}");
    check!(said.lines().count() <= 15, "{said}");
    check!(said.contains("leak_seven"), "the biggest call sites should have names:\n{said}");
    let ledger = scratch.finished();
    check!(ledger.len() == 1 && said.contains(&*ledger[0].file_name().unwrap_or_default().to_string_lossy()), "{said}");
    Ok(())
}
