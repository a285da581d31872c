//! `preload-path` and `gdb-script`: what travels in the command, told to those who start programs themselves.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

mod common;
use common::{Scratch, heapledger, output, text};

/// The command, with a cache of this test's own.
fn command(scratch: &Scratch) -> Command {
    let mut command = heapledger();
    command.current_dir(scratch.cwd()).env("XDG_CACHE_HOME", scratch.0.join("cache"));
    command
}

/// The path that it prints, which must be one line.
fn path(command: &mut Command) -> PathBuf {
    let seen = output(command);
    assert!(seen.status.success() && seen.stderr.is_empty(), "{}", text(&seen.stderr));
    let line = text(&seen.stdout);
    let path = line.strip_suffix('\n').expect("a line");
    assert!(path.starts_with('/') && !path.contains('\n'), "{path}");
    path.into()
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn the_library_is_told_and_records_when_it_is_preloaded_by_hand() {
    let scratch = Scratch::new("preload-path");
    let library = path(command(&scratch).arg("preload-path"));
    assert!(fs::read(&library).expect("a library").starts_with(b"\x7fELF"));
    assert_eq!(path(command(&scratch).arg("preload-path")), library, "it is the same each time");
    let calls = path(command(&scratch).args(["preload-path", "--calls"]));
    assert!(calls != library && fs::read(&calls).expect("a library").starts_with(b"\x7fELF"));

    let live = scratch.0.join("live");
    let mut program = Command::new("ls");
    program.env("LD_PRELOAD", &library).env("HEAPLEDGER", format!("dir={}", live.display()));
    assert!(output(program.current_dir(scratch.cwd())).status.success());
    assert_eq!(scratch.unfinished().len(), 1, "it has left its ledger");
    let recovered = output(command(&scratch).arg("recover").arg(live));
    assert!(recovered.status.success(), "{}", text(&recovered.stderr));
    assert!(scratch.finished().iter().any(|name| name.starts_with("heapledger.ls.")), "{:?}", scratch.finished());
}

#[test]
fn the_library_that_somebody_names_is_the_one_that_run_takes() {
    let scratch = Scratch::new("preload-named");
    let own = scratch.0.join("own.so");
    fs::write(&own, "a library").expect("written");
    let link = scratch.cwd().join("link.so");
    std::os::unix::fs::symlink(&own, &link).expect("a link");
    let whole = own.canonicalize().expect("a path");
    assert_eq!(path(command(&scratch).arg("preload-path").env("HEAPLEDGER_PRELOAD", "link.so")), whole);

    let missing = output(command(&scratch).arg("preload-path").env("HEAPLEDGER_PRELOAD", "missing.so"));
    assert_eq!((missing.status.code(), missing.stdout.is_empty()), (Some(1), true));
    assert!(text(&missing.stderr).contains("missing.so"), "{}", text(&missing.stderr));
}

#[test]
fn gdb_scripts_are_written_as_they_are() {
    let scratch = Scratch::new("gdb-script");
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("gdb");
    for (word, file) in
        [("heapledger", "heapledger.gdb"), ("receive", "heapledger-receive.gdb"), ("rtt", "heapledger-rtt.gdb")]
    {
        let wanted = fs::read(own.join(file)).expect("a script");
        let written = path(command(&scratch).args(["gdb-script", word]));
        assert_eq!(written.extension().and_then(|end| end.to_str()), Some("gdb"), "gdb tells the language by it");
        assert_eq!(fs::read(&written).expect("written"), wanted, "{word}");
        assert_eq!(output(command(&scratch).args(["gdb-script", "--print", word])).stdout, wanted, "{word}");
    }
    let (none, first) =
        (command(&scratch).arg("gdb-script").output(), command(&scratch).args(["gdb-script", "heapledger"]).output());
    assert_eq!(
        none.expect("ran").stdout,
        first.expect("ran").stdout,
        "it is the one that is meant where none is named"
    );
    // What somebody has changed is written anew, and nothing is written where it is only printed.
    let written = path(command(&scratch).arg("gdb-script"));
    fs::write(&written, "quit").expect("changed");
    path(command(&scratch).arg("gdb-script"));
    assert_ne!(fs::read(&written).expect("written"), b"quit");
    let cache = scratch.0.join("other");
    output(command(&scratch).args(["gdb-script", "--print"]).env("XDG_CACHE_HOME", &cache));
    assert!(!cache.exists());
}
