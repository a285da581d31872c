//! Wrong input gets one clear sentence.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_source::{Ledger, Life};
use heapledger_testing::{Scratch, sample};

fn refusal(target: impl AsRef<OsStr>) -> String {
    Ledger::open_target(target.as_ref()).expect_err("refused").to_string()
}

#[test]
fn files_that_are_no_ledgers() {
    let place = Scratch::in_memory("errors-files_that_are_no_ledgers");
    let path = place.join("file");
    assert!(refusal(place.join("absent")).ends_with("/absent does not exist"));
    std::fs::write(&path, b"").expect("written");
    assert!(refusal(&path).ends_with("/file is empty, not a ledger"));
    std::fs::write(&path, b"\x7fELF").expect("written");
    assert!(refusal(&path).ends_with("/file: not a ledger"));
    std::fs::write(&path, b"\x89").expect("written");
    assert!(refusal(&path).ends_with(": not a ledger"));
    let mut bytes = sample(ByteOrder::Little, WordSize::W64).bytes();
    std::fs::write(&path, &bytes[..60]).expect("written");
    assert!(refusal(&path).ends_with("cut inside its header: 60 bytes, 64 needed"));
    bytes[10] = 200;
    std::fs::write(&path, &bytes).expect("written");
    assert!(refusal(&path).contains("format version 200; this heapledger reads up to version 1"));
    bytes[8..10].fill(0);
    std::fs::write(&path, &bytes).expect("written");
    assert!(refusal(&path).contains("was being set up"));
    assert!(refusal(std::env::temp_dir()).ends_with("is a directory, not a ledger"));
    assert!(refusal("/dev/null").ends_with("is a device, not a ledger"));
    let pipe = place.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    assert!(refusal(&pipe).ends_with("is a named pipe, not a ledger"));
}

#[test]
fn a_file_without_permission() {
    let place = Scratch::in_memory("errors-a_file_without_permission");
    let path = place.join("secret");
    std::fs::write(&path, b"x").expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).expect("chmod");
    // Root may read everything; then there is nothing to see here.
    if std::fs::read(&path).is_err() {
        assert!(refusal(&path).ends_with("may not be read by you (permission denied)"));
    }
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn processes() {
    let mut child = Command::new("sleep").arg("100").stdin(Stdio::null()).spawn().expect("sleep");
    let pid = child.id();
    let text = refusal(pid.to_string());
    assert!(text.starts_with(&format!("process {pid} (")) && text.contains("heapledger run -- "), "{text}");
    child.kill().expect("killed");
    // Not waited for yet: it is there as a zombie, and ended all the same.
    let is_zombie = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it was not waited for");
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" Z"))
    };
    while !is_zombie() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(refusal(pid.to_string()), format!("there is no process {pid}, and no file of that name"));
    child.wait().expect("waited");
    assert_eq!(refusal(pid.to_string()), format!("there is no process {pid}, and no file of that name"));
    assert!(refusal("99999999999999999999").ends_with("does not exist"));
    assert!(refusal("").ends_with(" does not exist"));
}

/// A program that maps a file: any will do that maps what it is given and stays.
fn mapper(path: &Path) -> Option<Ended> {
    let script = "import mmap,sys,time\nf=open(sys.argv[1],'r+b')\nm=mmap.mmap(f.fileno(),0)\nf.close()\nprint('ready',flush=True)\ntime.sleep(100)";
    let mut child = Command::new("python3")
        .args(["-c", script])
        .arg(path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut line = String::new();
    let out = child.stdout.take()?;
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).ok()?;
    let child = Ended(child);
    line.starts_with("ready").then_some(child)
}

#[test]
fn the_ledger_of_a_running_process() {
    let place = Scratch::in_memory("errors-the_ledger_of_a_running_process");
    let path = place.join("session-0.hlive");
    sample(ByteOrder::Little, WordSize::W64).write(&path).expect("written");
    let Some(child) = mapper(&path) else {
        println!("skipped: needs python3 to map a file");
        return;
    };
    let pid = child.0.id();
    let text = refusal(pid.to_string());
    assert!(text.ends_with(") is that of process 4711; forked children are not recorded"), "{text}");
    // Where they are, it has not begun.
    std::os::unix::fs::symlink("/", place.join("session.session")).expect("a link");
    let text = refusal(pid.to_string());
    assert!(text.contains("has no ledger yet: it was forked by process 4711, whose children are recorded"), "{text}");
    std::fs::remove_file(place.join("session.session")).expect("removed");
    drop(child);

    // The process is known only once it runs, so the ledger is filled in behind its back.
    let child = mapper(&path).expect("a second time");
    let pid = child.0.id();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
    let ticks = stat.rsplit(')').next().expect("fields").split_whitespace().nth(19).expect("field 22").to_owned();
    for (ticks, right) in [(ticks, true), ("1".to_owned(), false)] {
        let mut builder = heapledger_testing::Builder::new();
        builder.block(0x1000, 10).process("pid", &pid.to_string()).process("start_ticks", &ticks);
        let bytes = builder.bytes();
        let file = std::fs::OpenOptions::new().write(true).open(&path).expect("opened");
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).expect("written in place");
        match Ledger::open_process(pid) {
            Ok(ledger) => {
                assert!(right && ledger.is_running());
                assert_eq!(ledger.path(), path);
            }
            Err(error) => assert!(!right, "{error}"),
        }
    }
}

/// Fills the ledger of a process in behind its back: it is known only once it runs.
fn fill_in(path: &Path, pid: u32) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
    let ticks = stat.rsplit(')').next().expect("fields").split_whitespace().nth(19).expect("field 22").to_owned();
    let mut builder = heapledger_testing::Builder::new();
    builder.block(0x1000, 10).process("pid", &pid.to_string()).process("start_ticks", &ticks);
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("opened");
    std::os::unix::fs::FileExt::write_all_at(&file, &builder.bytes(), 0).expect("written in place");
}

/// This process started the program, as `run` does, and may look into it: the ledger is found without its name, also
/// while another file has that name.
#[test]
fn a_ledger_that_was_removed_while_it_is_mapped() {
    let place = Scratch::in_memory("errors-a_ledger_that_was_removed");
    let path = place.join("session-0.hlive");
    sample(ByteOrder::Little, WordSize::W64).write(&path).expect("written");
    let Some(child) = mapper(&path) else {
        println!("skipped: needs python3 to map a file");
        return;
    };
    let pid = child.0.id();
    fill_in(&path, pid);
    // Opened by its name; its own descriptor would be a way as well.
    assert_eq!(Ledger::open(&path).expect("by its name").life(), Life::Running);
    let mut kept = Some(std::fs::File::open(&path).expect("open"));
    std::fs::remove_file(&path).expect("removed");
    // Held open by the parent, and then by nobody.
    for held in [true, false] {
        if !held {
            kept = None;
            sample(ByteOrder::Little, WordSize::W64).write(&path).expect("another file of this name");
        }
        let ledger = match Ledger::open_process(pid) {
            Ok(ledger) => ledger,
            // Without the right to trace it.
            Err(error) => return assert!(!held && error.to_string().contains("was removed while it runs"), "{error}"),
        };
        assert!(ledger.life() == Life::Running && ledger.process().pid() == Some(pid));
        assert_eq!(ledger.records().next_chunk().expect("read").map(|chunk| chunk.len()), Some(1));
        assert!(ledger.storage().expect("read").file_bytes < 1 << 20);
    }
    assert!(kept.is_none());
    drop(child);
    assert!(matches!(Ledger::open_process(pid), Err(heapledger_source::SourceError::NoProcess(_))));
}
