//! Commands that write files, on a disk that is full: a sentence, a failure, and nothing left behind.

use std::fs;
use std::path::Path;

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
    let directory = scratch.path("small");
    fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    let Some(unshare) = find(&["unshare"]) else { return Ok(None) };
    for rights in [&["-m"][..], &["-r", "-m"]] {
        let mut command = command(&unshare);
        command.args(rights).args(["sh", "-c", ON_A_SMALL_DISK, "sh"]).arg(&directory).arg(size);
        let ran = process::run(command.arg(heapledger()).args(words))?;
        if ran.status.code() != Some(99) && !ran.err().contains("unshare") {
            return Ok(Some(ran));
        }
    }
    Ok(None)
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
