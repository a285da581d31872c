//! Commands that write files, on a disk that is full: a sentence, a failure, and nothing left behind.

use std::fs;
use std::path::Path;

use heapledger_e2e::c_programs::built;
use heapledger_e2e::ledger::Stats;
use heapledger_e2e::process::{self, Ran};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, find, heapledger, preload};
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check, skip, victim};

/// Mounts a small file system on `$1` that the caller's files all but fill, and calls the command there. Says what is
/// left there then.
const ON_A_SMALL_DISK: &str = r#"mount -t tmpfs -o size="$2" none "$1" || exit 99
cd "$1" && shift 2 && "$@"
status=$?
ls -A | sed 's/^/left: /'
exit $status"#;

/// Runs the command line in a directory with room for so much; `None` if nothing can be mounted here.
fn on_a_small_disk(scratch: &Scratch, size: &str, words: &[&str]) -> Result<Option<Ran>> {
    calling_on_a_small_disk(scratch, size, &[&[&*shown(heapledger())], words].concat())
}

/// The same of any program.
fn calling_on_a_small_disk(scratch: &Scratch, size: &str, words: &[&str]) -> Result<Option<Ran>> {
    let directory = scratch.path("small");
    fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    let Some(unshare) = find(&["unshare"]) else { return Ok(None) };
    for rights in [&["-m"][..], &["-r", "-m"]] {
        let mut command = command(&unshare);
        command.args(rights).args(["sh", "-c", ON_A_SMALL_DISK, "sh"]).arg(&directory).arg(size);
        let ran = process::run(command.args(words))?;
        if ran.status.code() != Some(99) && !ran.err().contains("unshare") {
            return Ok(Some(ran));
        }
    }
    Ok(None)
}

/// As in a container: 16 MiB of `/dev/shm`, and room elsewhere. Says what is left there then.
const WITH_LITTLE_SHARED_MEMORY: &str = r#"mount -t tmpfs -o size=16m none /dev/shm || exit 99
mount -t tmpfs -o size=9g none "$TMPDIR" || exit 99
"$@"
status=$?
ls "$TMPDIR"/heapledger-* | sed 's/^/left: /'
exit $status"#;

/// `None` if nothing can be mounted here.
fn with_little_shared_memory(scratch: &Scratch, words: &[&str], by_hand: bool) -> Result<Option<Ran>> {
    let roomy = scratch.path("roomy");
    fs::create_dir_all(&roomy).map_err(|error| error.to_string())?;
    let Some(unshare) = find(&["unshare"]) else { return Ok(None) };
    for rights in [&["-m"][..], &["-r", "-m"]] {
        let mut command = command(&unshare);
        command.args(rights).args(["sh", "-c", WITH_LITTLE_SHARED_MEMORY, "sh"]);
        if by_hand {
            command.args(["env".into(), format!("LD_PRELOAD={}", preload().display())]);
        }
        command
            .args(words)
            .env("TMPDIR", &roomy)
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("HEAPLEDGER")
            .current_dir(scratch.work());
        let ran = process::run(&mut command)?;
        if ran.status.code() != Some(99) && !ran.err().contains("unshare") {
            return Ok(Some(ran));
        }
    }
    Ok(None)
}

#[test]
fn nothing_is_lost_where_shared_memory_is_small() -> Result {
    let scratch = Scratch::new();
    let program = shown(&victim::named("many_live")?.build()?);
    let cli = shown(heapledger());
    let block_count = "1000000"; // 32 MB of records
    let words = [&cli, "run", "-o", "x.hl", "--", &program, block_count, "1"];
    let Some(ran) = with_little_shared_memory(&scratch, &words, false)? else {
        skip("ledgers beside a small /dev/shm", "no right to mount");
        return Ok(());
    };
    check!(ran.status.success() && !ran.err().contains("not entered"), "{ran}");
    let stats = Stats::of(scratch.path("x.hl"))?;
    let live = stats.number("live_blocks");
    check!(live >= 1_000_000 && stats.not_entered() == 0, "{live} live blocks, {:?}", stats.losses());
    // The library chooses for itself where it was preloaded by hand.
    let words = [&*program, block_count, "1"];
    let ran = with_little_shared_memory(&scratch, &words, true)?.ok_or("no mount")?;
    check!(ran.status.success() && ran.err().is_empty(), "{ran}");
    check!(ran.out().contains("-0.hlive"), "no ledger where there is room: {ran}");
    // Where a place without room is asked for, what to type is said.
    let words = [&cli, "run", "--ledger-dir", "/dev/shm", "-o", "y.hl", "--", &program, block_count, "1"];
    let ran = with_little_shared_memory(&scratch, &words, false)?.ok_or("no mount")?;
    let told = ran.err().split_whitespace().collect::<Vec<_>>().join(" ");
    check!(told.contains("not entered") && told.contains("run --ledger-dir DIR on a disk with room"), "{ran}");
    Ok(())
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A ledger of many stacks and blocks, finished.
fn ledger(scratch: &Scratch) -> Result<String> {
    let program = victim::named("leaky")?.build()?;
    run_cleanly(scratch, &mut under_run(scratch, "x", &[], &program, &["40000".to_owned()]))?.good()?;
    Ok(shown(&scratch.path("x.hl")))
}

/// The same, as the program left it.
fn unfinished(scratch: &Scratch) -> Result<String> {
    let program = victim::named("leaky")?.build()?;
    let mut command = command(program);
    command.arg("40000").env("LD_PRELOAD", preload());
    let session = format!("dir={},session=00000000000000aa", scratch.live().display());
    process::run(command.env("HEAPLEDGER", session).current_dir(scratch.work()))?.good()?;
    let left = scratch.unfinished();
    let live = left.iter().find(|path| path.extension().is_some_and(|end| end == "hlive"));
    Ok(shown(live.ok_or("no unfinished ledger")?))
}

#[test]
fn nothing_is_left_of_what_did_not_fit() -> Result {
    let scratch = Scratch::new();
    let (whole, live) = (ledger(&scratch)?, unfinished(&scratch)?);
    let limits = ["check", "--max-live", "1", "--top", "100", "--format", "sarif", "-o", "report.sarif"];
    let check = [&limits[..], &[&whole]].concat();
    let mut tried = 0;
    for (size, words, file) in [
        ("16k", &["flame", "-o", "page.html", &whole][..], "page.html"),
        ("16k", &["flame", &whole], "x.html"),
        ("4k", &["flame", "-o", "page.svg", &whole], "page.svg"),
        ("64k", &["snapshot", "-o", "taken.%i", &live], "taken.0"),
        ("64k", &["snapshot", &live], "heapledger.leaky."),
        ("16k", &["recover", &live, "-o", "."], "heapledger.leaky."),
        ("4k", &check, "report.sarif"),
    ] {
        let Some(ran) = on_a_small_disk(&scratch, size, words)? else {
            skip("commands on a full disk", "no right to mount");
            return Ok(());
        };
        let said = ran.err();
        check!(
            ran.status.code().is_some_and(|code| code == if words[0] == "check" { 2 } else { 1 }),
            "{words:?}: {ran}"
        );
        check!(!ran.out().contains("left: "), "{words:?} leaves a part behind: {ran}");
        let told = ["No space left on device", "there is no room on the disk"].iter().any(|part| said.contains(part));
        check!(told && said.contains(file), "{words:?}: {ran}");
        check!(said.starts_with("heapledger: ") && !said.contains("os error"), "{words:?}: {ran}");
        tried += 1;
    }
    check!(tried == 7, "only {tried}");
    // The unfinished ledger is there still, and what fits is written.
    check!(Path::new(&live).exists(), "the unfinished ledger is gone");
    let ran = on_a_small_disk(&scratch, "9m", &["recover", &live, "-o", "."])?.ok_or("no mount")?;
    check!(ran.status.success() && ran.out().contains("left: heapledger.leaky."), "{ran}");
    Ok(())
}

/// What the history gave back, because blocks that live needed it more, is read by nobody: there is no room to have it back.
#[test]
fn what_was_freed_is_looked_up_where_there_is_no_room_any_more() -> Result {
    const BY_HAND: &str = "LD_PRELOAD=$1 HEAPLEDGER=guard=light,dir=$PWD,history=20000 exec $2 hole";
    let scratch = Scratch::new();
    let program = shown(&built(&scratch, "gcc", "../guests/unusual.c", "unusual", &["-O1", "-pthread"])?);
    let words = ["sh", "-c", BY_HAND, "sh", &shown(preload()), &program];
    let Some(ran) = calling_on_a_small_disk(&scratch, "6m", &words)? else {
        skip("a history without room", "no right to mount");
        return Ok(());
    };
    check!(ran.status.success() && ran.out().starts_with("all freed\n"), "{ran}");
    check!(
        ran.err().matches("heap-buffer-overflow: 1 byte was written 0 bytes after the 40-byte block").count() == 4,
        "{ran}"
    );
    Ok(())
}

/// On a disk that is full at once, and on one that is full when the list of processes has begun.
#[test]
fn of_processes_without_room_each_thing_is_said_once() -> Result {
    let twenty = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do /bin/true; done";
    for (before, told) in [
        ("head -c 4096 /dev/zero > ballast", "No space left on device: the ledgers of child processes stay unfinished"),
        ("mkdir out && head -c 4096 /dev/zero > ballast", "no room on the disk for out/sh."),
        ("true", "the list of processes cannot be written"),
    ] {
        let scratch = Scratch::new();
        let script = format!("{before}; exec \"$@\"");
        let (cli, live) = (shown(heapledger()), shown(scratch.live()));
        let words = [&*cli, "run", "--children", "--ledger-dir", &live, "-o", "out", "--", "/bin/sh", "-c", twenty];
        let Some(ran) = calling_on_a_small_disk(&scratch, "4k", &[&["sh", "-c", &script, "sh"], &words[..]].concat())?
        else {
            skip("`run --children` on a full disk", "no right to mount");
            return Ok(());
        };
        check!(ran.status.success(), "{before}: {ran}");
        check!(ran.err().matches(told).count() == 1, "{before}: {ran}");
        check!(!ran.err().contains("is a directory"), "{before}: {ran}");
        check!(ran.out().contains("left: out") != before.starts_with("head"), "{before}: {ran}");
    }
    Ok(())
}
