//! Ledgers of processes that are gone, in places of their own.

use super::*;

use std::fs::{File, FileTimes};
use std::time::SystemTime;

use heapledger_source::More;
use heapledger_testing::{Builder, Scratch};

use crate::finish::Finisher;
use crate::session::Sign;

const SESSION: &str = "0123456789abcdef";

/// The ledger of a process that is no more, in the directory of this user below the scratch directory.
fn put(scratch: &Scratch, image: u32) -> PathBuf {
    let directory = live::directory_in(scratch.path());
    live::make(&directory).expect("made");
    let path = directory.join(Live::name(SESSION, image, None));
    let mut builder = Builder::new();
    builder.process("program", "gone").process("pid", "1").process("start_ticks", "1").block(0x1000, 8);
    builder.write(&path).expect("written");
    path
}

fn only(places: &[PathBuf]) -> Unfinished {
    let finds = find(places).expect("found");
    assert_eq!(finds.ledgers.len(), 1);
    finds.ledgers[0].clone()
}

fn finish(scratch: &Scratch, unfinished: &Unfinished, ledger: &Ledger) -> Result<PathBuf, LaunchError> {
    let pattern = scratch.join("%n.hl").into();
    let mut finisher = Finisher::new(pattern);
    finisher.finish(&unfinished.live, ledger, More::default(), &mut |_, _| {}).map(|written| written.path)
}

#[test]
fn a_ledger_is_in_the_hands_of_its_run_or_in_nobodys() {
    let scratch = Scratch::new("recover-hands");
    let path = put(&scratch, 0);
    let directory = live::directory_in(scratch.path());
    for place in [scratch.path().to_owned(), directory.clone(), path.clone()] {
        assert_eq!(only(&[place]).live.path, path);
    }
    let unfinished = only(&[path]);
    let hands = || match unfinished.state(Killed::Awaited).expect("read") {
        UnfinishedState::Recorded(_, hands) => hands,
        UnfinishedState::Blank { .. } => panic!("something was recorded"),
    };
    let sign = Sign::put_up(&directory, SESSION).expect("a sign");
    assert_eq!(hands(), Hands::Run(std::process::id()));
    drop(sign);
    assert_eq!(hands(), Hands::Nobody);
}

#[test]
fn who_comes_second_hears_that_it_is_finished() {
    let scratch = Scratch::new("recover-second");
    let path = put(&scratch, 0);
    let unfinished = only(&[scratch.path().to_owned()]);
    let opened = |unfinished: &Unfinished| match unfinished.state(Killed::AsItIs).expect("read") {
        UnfinishedState::Recorded(ledger, _) => ledger,
        UnfinishedState::Blank { .. } => panic!("something was recorded"),
    };
    let (first, second) = (opened(&unfinished), opened(&unfinished));
    assert_eq!(finish(&scratch, &unfinished, &first).expect("finished"), scratch.join("gone.hl"));
    drop(first);
    let gone = format!("{} is not there any more: another heapledger has finished it", path.display());
    // It had the file open already, or came too late to open it.
    // Its lock goes when nobody has the file open: not a child either that another test has forked just now, and that has not begun yet.
    let told = (0..1000).find_map(|_| match finish(&scratch, &unfinished, &second).expect_err("too late") {
        LaunchError::BeingFinished(_) => {
            std::thread::sleep(std::time::Duration::from_millis(5));
            None
        }
        told => Some(told.to_string()),
    });
    assert_eq!(told.as_ref(), Some(&gone));
    assert_eq!(unfinished.state(Killed::AsItIs).expect_err("too late").to_string(), gone);
    assert!(!scratch.join("gone.hl.1").exists());
    // What was never there is told as the system tells it.
    let typed = only(std::slice::from_ref(&path)).state(Killed::AsItIs).expect_err("nothing there").to_string();
    assert!(typed.starts_with(&format!("{}: No such file", path.display())), "{typed}");
    let finished = find(&[scratch.join("gone.hl")]).expect_err("refused");
    assert!(matches!(finished, LaunchError::Finished(_)), "{finished}");
}

#[test]
fn one_at_a_time() {
    let scratch = Scratch::new("recover-held");
    let path = put(&scratch, 0);
    let unfinished = only(std::slice::from_ref(&path));
    let UnfinishedState::Recorded(ledger, _) = unfinished.state(Killed::AsItIs).expect("read") else {
        panic!("something was recorded")
    };
    let other = File::open(&path).expect("open");
    live::hold(&other, &path).expect("held");
    let busy = finish(&scratch, &unfinished, &ledger).expect_err("somebody has it");
    assert!(matches!(busy, LaunchError::BeingFinished(_)), "{busy}");
    drop(other);
    finish(&scratch, &unfinished, &ledger).expect("finished");
}

#[test]
fn an_empty_one_is_removed_when_nobody_will_ever_write_it() {
    let scratch = Scratch::new("recover-blank");
    let directory = live::directory_in(scratch.path());
    live::make(&directory).expect("made");
    let path = directory.join(Live::name(SESSION, 0, None));
    fs::write(&path, vec![0; 8192]).expect("written");
    let unfinished = only(&[scratch.path().to_owned()]);
    let for_good = || match unfinished.state(Killed::AsItIs).expect("read") {
        UnfinishedState::Blank { for_good } => for_good,
        UnfinishedState::Recorded(..) => panic!("nothing was recorded"),
    };
    assert!(!for_good(), "it was made just now");
    let old = FileTimes::new().set_modified(SystemTime::now() - 2 * SETTING_UP);
    File::options().write(true).open(&path).and_then(|file| file.set_times(old)).expect("aged");
    assert!(for_good());
    let sign = Sign::put_up(&directory, SESSION).expect("a sign");
    assert!(!for_good(), "its run lives");
    drop(sign);
    unfinished.remove().expect("removed");
    assert!(find(&[scratch.path().to_owned()]).expect("found").ledgers.is_empty());
}

#[test]
fn what_a_killed_one_left_half_done_is_found_where_it_wrote() {
    let scratch = Scratch::new("recover-half");
    put(&scratch, 0);
    let directory = live::directory_in(scratch.path());
    // No process has this number.
    let workplace = scratch.join(".gone.hl.4194399.part");
    fs::create_dir(&workplace).expect("made");
    fs::set_permissions(&workplace, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("chmod");
    fs::write(workplace.join("ledger"), "half").expect("written");
    let note = directory.join(format!("{SESSION}-0.part"));
    std::os::unix::fs::symlink(&workplace, &note).expect("a note");
    // Who names another session's ledger alone is not concerned.
    let other = directory.join("fedcba9876543210-0.hlive");
    fs::copy(directory.join(format!("{SESSION}-0.hlive")), &other).expect("copied");
    let of_other = find(std::slice::from_ref(&other)).expect("found");
    assert!(of_other.abandoned(scratch.path(), Abandoned::Removed).is_empty() && workplace.exists() && note.exists());
    fs::remove_file(&other).expect("removed");
    let finds = find(&[scratch.path().to_owned()]).expect("found");
    let elsewhere = scratch.join("elsewhere");
    fs::create_dir(&elsewhere).expect("made");
    let whole = workplace.canonicalize().expect("it is there");
    assert_eq!(finds.abandoned(&elsewhere, Abandoned::Kept), BTreeSet::from([whole.clone()]));
    assert!(workplace.exists(), "only looked at");
    assert_eq!(finds.abandoned(&elsewhere, Abandoned::Removed), BTreeSet::from([whole]));
    assert!(!workplace.exists() && !note.exists() && directory.exists());
}
