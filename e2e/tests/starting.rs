//! Starting a program where something is in the way: it runs as without us, and a sentence says what was not to be had.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use heapledger_e2e::ledger::{Stats, check_totals};
use heapledger_e2e::process::{self, PATIENCE, Ran};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, find, heapledger, preload, root};
use heapledger_e2e::tracked::{by_hand, recover, run_cleanly, under_run};
use heapledger_e2e::{Result, check, skip, victim};

/// Runs a script of the shell under `run`; `$1` is the program.
fn script(scratch: &Scratch, name: &str, options: &[&str], script: &str, program: &Path) -> Result<Ran> {
    let words = ["-c", script, "sh"].map(str::to_owned).into_iter().chain([program.to_string_lossy().into_owned()]);
    process::run(&mut under_run(scratch, name, options, Path::new("/bin/sh"), &words.collect::<Vec<_>>()))
}

#[test]
fn sanitized_programs_run_wherever_the_library_meets_them() -> Result {
    for (victim, name) in [
        ("sanitizer_address", "AddressSanitizer"),
        ("sanitizer_thread", "ThreadSanitizer"),
        ("sanitizer_leak", "LeakSanitizer"),
    ] {
        let (scratch, program) = (Scratch::new(), victim::named(victim)?.build()?);
        let said =
            format!("heapledger: this program has {name} inside, which replaces malloc itself: nothing is recorded\n");
        let child = script(&scratch, "child", &[], "\"$1\"; echo $?", &program)?;
        check!(child.out() == "sanitized\n0\n" && child.err().is_empty(), "{victim} as a child: {child}");
        let became = script(&scratch, "became", &[], "exec \"$1\"", &program)?;
        check!(became.status.success() && became.out() == "sanitized\n", "{victim} by exec: {became}");
        check!(became.err().starts_with(&said) && became.err().contains("sh became "), "{victim} by exec: {became}");
        let mut by_hand = command(&program);
        by_hand.env("LD_PRELOAD", preload()).env("ASAN_OPTIONS", "verify_asan_link_order=0");
        by_hand.env("HEAPLEDGER", format!("dir={}", scratch.live().display()));
        let by_hand = process::run(&mut by_hand)?;
        check!(by_hand.status.success() && by_hand.out() == "sanitized\n", "{victim} by hand: {by_hand}");
        check!(by_hand.err() == said, "{victim} by hand: {by_hand}");
    }
    Ok(())
}

#[test]
fn of_two_copies_in_a_process_one_records() -> Result {
    let (scratch, program) = (Scratch::new(), victim::named("small_blocks")?.build()?);
    let second = scratch.path("second.so");
    fs::copy(preload(), &second).map_err(|error| error.to_string())?;
    let alone = process::run(&mut by_hand(&scratch, &[], &program, &[]))?.good()?;
    let [of_one] = recover(&scratch)?[..].to_vec().try_into().map_err(|found| format!("{found:?}; {alone}"))?;
    let blocks = Stats::of(&of_one)?.number("allocations");
    fs::remove_file(&of_one).map_err(|error| error.to_string())?;
    let both = process::run(&mut by_hand(&scratch, &[&second], &program, &[]))?.good()?;
    let [of_both] = recover(&scratch)?[..].to_vec().try_into().map_err(|found| format!("{found:?}; {both}"))?;
    let stats = Stats::of(&of_both)?;
    check!(stats.number("allocations") == blocks && blocks > 0, "{} and {blocks} blocks", stats.number("allocations"));
    check_totals(&stats, &[])
}

/// A script of the shell in the usual environment of a user, whose places are all in the scratch directory. `$1` is the
/// command line, `$2` the work directory, `$3` the base of unfinished ledgers, `$4` and so on the program.
fn as_user(scratch: &Scratch, before: &[&str], script: &str) -> Command {
    let words: Vec<&str> = before.iter().copied().chain(["bash", "-c", script, "bash"]).collect();
    let mut command = command(words[0]);
    command.args(&words[1..]).arg(heapledger()).arg(scratch.work()).arg(scratch.live());
    command.args(["sh", "-c", "echo out; exit 7"]).current_dir(scratch.work());
    let own = |name: &str| scratch.path(name);
    for name in ["cache", "tmp"] {
        fs::create_dir_all(own(name)).expect("a directory in the scratch directory");
    }
    command.env_remove("HEAPLEDGER").env("XDG_RUNTIME_DIR", scratch.live());
    command.env("XDG_CACHE_HOME", own("cache")).env("TMPDIR", own("tmp"));
    // As /dev/shm: whoever the program becomes makes a directory there.
    let open_to_all = fs::Permissions::from_mode(0o1777);
    fs::set_permissions(scratch.live(), open_to_all).expect("our own directory");
    command
}

/// The program ran as without us; and there is a whole ledger, or a sentence that has this in it.
fn ran_as_without_us(scratch: &Scratch, what: &str, ran: &Ran, sentence: Option<&str>) -> Result {
    check!(ran.status.code() == Some(7) && ran.out() == "out\n", "{what}: {ran}");
    let told = ran.err().lines().any(|line| line.starts_with("heapledger: ") && line.contains(sentence.unwrap_or("")));
    match sentence {
        Some(sentence) => {
            check!(told, "{what}: it should say {sentence:?}: {ran}");
        }
        None => {
            let finished = scratch.finished();
            check!(finished.len() == 1 && scratch.unfinished().is_empty(), "{what}: {finished:?}, {ran}");
            check_totals(&Stats::of(&finished[0])?, &[])?;
        }
    }
    Ok(())
}

#[test]
fn limits_are_not_taken_for_the_programs_end() -> Result {
    const TOO_MANY_FILES: Option<&str> = Some("Too many open files");
    const ADDRESSES: Option<&str> = Some("ulimit -v");
    for (limit, sentence) in [
        ("-s 32", None),
        ("-s 64", None),
        ("-s 128", None),
        ("-n 4", TOO_MANY_FILES),
        ("-n 5", TOO_MANY_FILES),
        ("-n 8", None),
        ("-Sn 4", None),
        ("-Sn 5", None),
        ("-v 24000", ADDRESSES),
        ("-v 90000", None),
        // The library cannot be written, or, if it is there, the ledger.
        ("-Sf 0", Some("")),
        ("-f 4", Some("")),
    ] {
        let scratch = Scratch::new();
        let script = format!("run=$1; shift 3; ulimit {limit}; exec \"$run\" run -q -- \"$@\"");
        // Some leave their ledger unfinished: not where the user's are.
        let place = format!("dir={}", scratch.live().display());
        // An environment is on the stack, too.
        let environment = "x".repeat(4000);
        let ran = process::run(as_user(&scratch, &[], &script).env("HEAPLEDGER", place).env("ABOUT", environment))?;
        ran_as_without_us(&scratch, limit, &ran, sentence)?;
        if sentence == TOO_MANY_FILES {
            check!(ran.err().contains("to finish it elsewhere: heapledger recover "), "{limit}: {ran}");
        }
    }
    Ok(())
}

#[test]
fn commands_that_read_need_little_stack() -> Result {
    let (scratch, program) = (Scratch::new(), victim::named("leaky")?.build()?);
    run_cleanly(&scratch, &mut under_run(&scratch, "x", &[], &program, &["200".to_owned()]))?.good()?;
    for words in [
        "help",
        "man run",
        "stats x.hl",
        "stats --json x.hl",
        "dump --group-by fn --where 'size > 1 && fn ~ \"leak\"' x.hl",
        "dump x.hl",
        "history x.hl",
        "tree x.hl",
        "flame -o x.html x.hl",
        "diff x.hl x.hl",
        "top --batch 1 x.hl",
        "check --max-live 1G x.hl",
        "whereis x.hl 0x1000",
        "recover --list .",
    ] {
        let script = format!("ulimit -s 64; exec \"$1\" {words}");
        let ran = process::run(&mut as_user(&scratch, &[], &script))?;
        let ended = ran.status.code().is_some_and(|code| code <= 1);
        check!(
            ended && !ran.err().contains("overflow") && !ran.out().is_empty() || words.contains("flame"),
            "{words}: {ran}"
        );
    }
    check!(scratch.path("x.html").exists(), "no page");
    Ok(())
}

/// A way to mount something that nobody else sees, if there is one here.
fn mounting() -> Option<&'static [&'static str]> {
    let ways: [&[&str]; 2] = [&["unshare", "-m"], &["unshare", "-r", "-m"]];
    let mounts = |way: &&&[&str]| {
        let mut test = command(way[0]);
        test.args(&way[1..]).args(["mount", "-t", "tmpfs", "none", "/mnt"]);
        find(&[way[0]]).is_some() && process::run(&mut test).is_ok_and(|ran| ran.status.success())
    };
    ways.iter().find(mounts).copied()
}

#[test]
fn what_is_not_there_keeps_no_program_from_running() -> Result {
    let Some(mounting) = mounting() else {
        skip("places that are not there", "no right to mount");
        return Ok(());
    };
    const NO_EXEC: &str = "mount -t tmpfs -o noexec none";
    const READ_ONLY: &str = "mount -t tmpfs -o ro none";
    let untracked = "sh runs untracked";
    for (what, prepare, sentence, elsewhere) in [
        ("no random numbers", "mount -t tmpfs none /dev".to_owned(), None, false),
        ("no /proc", "mount -t tmpfs none /proc".to_owned(), None, false),
        (
            "a working directory that is read-only",
            format!("mkdir ro; {READ_ONLY} ro; cd ro"),
            Some("the ledger goes to"),
            true,
        ),
        (
            "a working directory that was removed",
            "mkdir gone; cd gone; rmdir ../gone".to_owned(),
            Some("the ledger goes to"),
            true,
        ),
        ("a cache that does not execute", format!("{NO_EXEC} cache"), None, false),
        ("a full cache", "mount -t tmpfs -o size=4k none cache".to_owned(), None, false),
        (
            "no place for the library",
            format!(
                "for place in cache tmp /dev/shm /var/tmp /var/cache; do {NO_EXEC} $place; done; cd /; {NO_EXEC} /tmp"
            ),
            Some(untracked),
            false,
        ),
        (
            "no place for the ledger",
            format!("for place in \"$live\" /dev/shm tmp; do {READ_ONLY} $place; done; cd /; {READ_ONLY} /tmp"),
            Some(untracked),
            false,
        ),
    ] {
        for require in ["", "--require"] {
            let scratch = Scratch::new();
            let script =
                // The command line itself may lie below what is mounted over.
                format!("run=$1 live=$3; shift 3; exec 9<\"$run\"; {prepare} || exit 99; [ -e \"$run\" ] || run=/dev/fd/9; exec \"$run\" run -q {require} -- \"$@\"");
            let ran = process::run(&mut as_user(&scratch, mounting, &script))?;
            if !require.is_empty() && sentence == Some(untracked) {
                let refused = ran.status.code() == Some(125) && ran.out().is_empty();
                check!(refused && ran.err().contains("--require"), "{what}: {ran}");
                continue;
            }
            ran_as_without_us(&scratch, what, &ran, sentence)?;
            if elsewhere {
                let there = fs::read_dir(scratch.path("tmp")).map_err(|error| error.to_string())?;
                let count =
                    there.filter(|item| item.as_ref().is_ok_and(|item| item.path().extension() == Some("hl".as_ref())));
                check!(count.count() == 1, "{what}: no ledger in the other place: {ran}");
            }
        }
    }
    Ok(())
}

#[test]
fn what_was_asked_for_by_name_is_had_or_nothing_runs() -> Result {
    for (options, what) in [
        ("-o gone/x.hl", "gone"),
        ("--ledger-dir gone", "gone"),
        ("--ledger-dir file", "file"),
        ("--preload gone.so", "gone.so"),
    ] {
        let scratch = Scratch::new();
        let script = format!("run=$1; shift 3; : > file; exec \"$run\" run {options} -- \"$@\"");
        let ran = process::run(&mut as_user(&scratch, &[], &script))?;
        check!(ran.status.code() == Some(125) && ran.out().is_empty(), "{options}: {ran}");
        check!(ran.err().lines().count() == 1 && ran.err().contains(what), "{options}: {ran}");
    }
    // The recorder finds out by itself, before the program has begun.
    let scratch = Scratch::new();
    let little = "ulimit -v 50000; run=$1; shift 3; exec \"$run\" run --require -- \"$@\"";
    let ran = process::run(&mut as_user(&scratch, &[], little))?;
    check!(ran.status.code() == Some(125) && ran.out().is_empty() && ran.err().contains("--require"), "{ran}");
    // Its children are not the program: they run.
    let child =
        "exec \"$1\" run --children --require -- bash -c '(ulimit -v 50000; exec sh -c \"echo child\"); echo $?'";
    let ran = process::run(&mut as_user(&scratch, &[], child))?;
    let told = ran.err().contains("too little room: nothing is recorded");
    check!(ran.status.success() && ran.out() == "child\n0\n" && told, "{ran}");
    let (scratch, program) = (Scratch::new(), victim::named("static_program")?.build()?);
    let ran = process::run(&mut under_run(&scratch, "x", &["--require"], &program, &[]))?;
    check!(
        ran.status.code() == Some(125) && ran.err().contains("--require"),
        "a program that cannot be tracked: {ran}"
    );
    Ok(())
}

#[test]
fn a_pipe_is_neither_waited_for_nor_replaced() -> Result {
    let scratch = Scratch::new();
    let script = "run=$1; shift 3; mkfifo pipe; chmod 755 pipe; \"$run\" run ./pipe; echo $?; \"$run\" run --force -o pipe -- \"$@\"; echo $?; [ -p pipe ] && echo there";
    let ran = process::run_within(&mut as_user(&scratch, &[], script), PATIENCE)?;
    check!(ran.out() == "126\n125\nthere\n" && ran.err().contains("pipe is no regular file"), "{ran}");
    Ok(())
}

/// What each ledger of a run is about: the program, and how it ended.
fn programs(scratch: &Scratch) -> Result<Vec<String>> {
    let finished = scratch.finished();
    finished
        .iter()
        .map(|path| Ok(Stats::of(path)?.0["process"]["program"].as_str().unwrap_or("?").to_owned()))
        .collect()
}

#[test]
fn a_program_that_becomes_another_users_is_recorded() -> Result {
    const AS_NOBODY: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    let Some(mounting) = mounting().filter(|way| way.len() == 2 && find(&["setpriv"]).is_some()) else {
        skip("a program that becomes another user's", "only root can");
        return Ok(());
    };
    for closed_cache in [false, true] {
        let scratch = Scratch::new();
        fs::set_permissions(scratch.work(), fs::Permissions::from_mode(0o755)).map_err(|error| error.to_string())?;
        let close = if closed_cache { "chmod 700 cache" } else { "chmod 755 cache" };
        let script = format!(
            "run=$1; shift 3; {close}; mount -t tmpfs none /var/cache; exec \"$run\" run -o x.hl -- {AS_NOBODY} \"$@\""
        );
        let ran = process::run(&mut as_user(&scratch, mounting, &script))?;
        check!(ran.status.code() == Some(7) && ran.out() == "out\n", "{ran}");
        check!(!ran.err().contains("ld.so"), "the loader complains: {ran}");
        check!(ran.err().starts_with("heapledger: sh, which setpriv became, ended with status 7"), "{ran}");
        check!(programs(&scratch)? == ["sh", "setpriv"], "{:?}, {ran}", programs(&scratch)?);
        check!(scratch.unfinished().is_empty(), "left behind: {:?}", scratch.unfinished());
    }
    // `su` has a child that becomes the program: children are not watched, but counted.
    let scratch = Scratch::new();
    let script =
        "run=$1; shift 3; chmod 755 .; exec \"$run\" run -o x.hl -- su nobody -s /bin/sh -c 'echo out; exit 7'";
    let ran = process::run(&mut as_user(&scratch, &[], script))?;
    check!(ran.status.code() == Some(7) && ran.err().contains("not watched"), "{ran}");
    check!(scratch.unfinished().is_empty(), "left behind: {:?}", scratch.unfinished());
    Ok(())
}

#[test]
fn what_a_program_becomes_is_recorded_or_said() -> Result {
    let scratch = Scratch::new();
    let source = scratch.path("become.c");
    let text = "#include <unistd.h>\nint main(int c, char **v) { return c > 1 ? execvp(v[1], v + 1) : 3; }\n";
    fs::write(&source, text).map_err(|error| error.to_string())?;
    process::run(command("gcc").args(["-static", "-o"]).arg(scratch.path("become")).arg(&source))?.good()?;
    let run = |words: &str| {
        let script = format!("run=$1; shift 3; rm -f *.hl*; exec \"$run\" run -q -o x.hl -- {words}");
        process::run(&mut as_user(&scratch, &[], &script))
    };
    // As entry points of containers that are statically linked (gosu).
    let ran = run("./become \"$@\"")?;
    check!(ran.status.code() == Some(7) && ran.out() == "out\n", "{ran}");
    check!(ran.err().lines().count() == 1 && ran.err().contains("statically linked"), "{ran}");
    check!(programs(&scratch)? == ["sh"], "{:?}, {ran}", programs(&scratch)?);
    let ran = run("./become")?;
    check!(ran.status.code() == Some(3) && ran.err().lines().count() == 1, "{ran}");
    check!(scratch.finished().is_empty() && scratch.unfinished().is_empty(), "{ran}");
    // Without its environment nothing is preloaded.
    let ran = run("env -i /bin/sleep 0")?;
    check!(ran.err().contains("env ended under the name sleep") && ran.status.success(), "{ran}");
    check!(programs(&scratch)? == ["env"], "{ran}");
    // One that goes by another name, but ends by itself, has become nothing.
    if find(&["perl"]).is_some() {
        let ran = run("perl -e '$0 = q(another); exit 3'")?;
        check!(ran.status.code() == Some(3) && ran.err().is_empty(), "{ran}");
    }
    Ok(())
}

/// What the shell becomes has a `malloc` of its own: nothing of it comes to us, and that is said, not "no blocks".
#[test]
fn a_malloc_ahead_of_the_library_is_told_of() -> Result {
    let scratch = Scratch::new();
    let (source, program) = (scratch.path("main.c"), scratch.path("own"));
    let text = "#include <stdlib.h>\nint main(void) { void *volatile p = malloc(100); free(p); return p == 0; }\n";
    fs::write(&source, text).map_err(|error| error.to_string())?;
    let mut gcc = command("gcc");
    gcc.args(["-rdynamic", "-o"]).arg(&program).arg(&source).arg(root().join("e2e/attach/own.c"));
    process::run(&mut gcc)?.good()?;
    let became = script(&scratch, "became", &[], "exec \"$1\"", &program)?;
    check!(became.status.success(), "{became}");
    let child = script(&scratch, "family", &["--children"], "\"$1\"; true", &program)?;
    check!(child.status.success(), "{child}");
    let ledger = |name: &str| scratch.path(name);
    for ledger in [ledger("became.hl"), ledger("family.hl")] {
        let stats = process::run(command(heapledger()).arg("stats").arg(&ledger))?.good()?;
        let said =
            "own has a malloc of its own, to which the program's calls go: what it does not pass on is not seen.";
        check!(stats.out().contains(said), "{}: {stats}", ledger.display());
    }
    let limit = process::run(command(heapledger()).args(["check", "--max-live", "1M"]).arg(ledger("became.hl")))?;
    check!(limit.status.code() == Some(3) && limit.out().contains("inconclusive"), "{limit}");
    Ok(())
}
