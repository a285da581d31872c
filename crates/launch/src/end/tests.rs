//! Ledgers as programs leave them, finished without a program and without a command.

use super::*;

use std::os::unix::fs::symlink;
use std::process::ExitStatus;
use std::time::Duration;

use heapledger_testing::{Builder, Scratch};

use crate::live::Live;
use crate::options::Settings;
use heapledger_format::session::Key;

/// A session in a directory of its own; what is preloaded is only named.
fn session(scratch: &Scratch) -> Session {
    let library = scratch.write("libx.so", "");
    let mut settings = Settings::default();
    settings.set(Key::Dir, scratch.path().into());
    let session = Session::begin(&mut settings, Some(&library)).expect("everything is ready");
    assert_eq!(settings.get(Key::Session), Some(session.name.as_ref()));
    session
}

/// What a program of the session leaves.
fn put(session: &Session, image: u32, program: &str) -> PathBuf {
    let path = live::directory_in(&session.base).join(Live::name(&session.name, image, None));
    let mut builder = Builder::new();
    builder.process("program", program).process("pid", "1").process("start_ticks", "1").block(0x1000, 8);
    builder.write(&path).expect("written");
    path
}

fn finisher(scratch: &Scratch) -> Finisher {
    let pattern = scratch.join("%n.hl").into();
    Finisher { nameless: true, ..Finisher::new(pattern) }
}

/// The program was killed by signal 9.
fn killed() -> Ended {
    let (status, span) = (ExitStatus::from_raw(9), Duration::from_millis(3));
    Ended { status, span, refused: None, last_name: Some("second".to_owned()), unknown: None }
}

#[test]
fn each_program_of_a_process_gets_its_ledger_and_the_rest_goes() {
    let scratch = Scratch::new("end-each");
    let session = session(&scratch);
    let lives = [put(&session, 0, "first"), put(&session, 1, "second")];
    let directory = live::directory_in(&session.base);
    fs::write(session::children_file(&directory, &session.name), "7\n8\n7\n").expect("written");
    symlink("/usr/bin/third", session::unrecorded_file(&directory, &session.name)).expect("a link");
    let left = Left::by(session);
    assert_eq!((left.children, left.directory()), (2, directory.clone()));
    let mut told = Vec::new();
    let finished = left.finish(&mut finisher(&scratch), None, &killed(), &mut |news| told.push(format!("{news:?}")));
    let (ledger, written) = finished.last.as_ref().expect("the last one");
    assert_eq!(written.path, scratch.join("second.hl"));
    assert_eq!(
        finished.earlier.iter().map(|earlier| earlier.path.clone()).collect::<Vec<_>>(),
        [scratch.join("first.hl")]
    );
    assert_eq!((finished.became.as_deref(), finished.kept), (Some(Path::new("/usr/bin/third")), false));
    assert!(lives.iter().all(|live| !live.exists()));
    assert_eq!([told.first(), told.last()].map(|news| news.map(String::as_str)), [Some("Begun"), Some("Done")]);
    assert!(told.iter().any(|news| news.starts_with("Written(")), "{told:?}");
    assert!(left.no_ledger(&finished).is_none() && left.give_up().is_empty(), "nothing is left to say");
    assert_eq!(other_name(&killed(), ledger), None, "no thread tells what it was called");
    let read = |name: &str| Ledger::open(scratch.join(name)).expect("a finished ledger");
    let (first, second) = (read("first.hl"), read("second.hl"));
    assert_eq!(
        (first.process().text(key::ENDED).as_deref(), first.process().number(key::SIGNAL)),
        (Some("exec"), None)
    );
    assert_eq!(
        (second.process().number(key::SIGNAL), second.process().number(key::WALL_NS)),
        (Some(9), Some(3_000_000))
    );
    drop(left);
    assert_eq!(fs::read_dir(directory).expect("it is there").count(), 0, "the sign is gone, too");
}

#[test]
fn programs_of_one_name_are_told_apart_in_the_directory_of_a_session() {
    let scratch = Scratch::new("end-family");
    let session = session(&scratch);
    for (image, program) in ["env", "env", "true"].into_iter().enumerate() {
        put(&session, image as u32, program);
    }
    let directory = scratch.join("family");
    fs::create_dir(&directory).expect("made");
    let finished = Left::by(session).finish(&mut finisher(&scratch), Some(&directory), &killed(), &mut |_| {});
    let names = ["true.1-3.hl", "env.1-2.hl", "env.1.hl"].map(|name| directory.join(name));
    let written = finished.last.iter().map(|(_, written)| written).chain(&finished.earlier);
    assert_eq!(written.map(|written| written.path.clone()).collect::<Vec<_>>(), names);
}

#[test]
fn what_cannot_be_written_stays_and_what_was_removed_gets_a_name_again() {
    let scratch = Scratch::new("end-kept");
    let session = session(&scratch);
    let live = put(&session, 0, "held");
    let mut session = session;
    session.keeper.look();
    fs::remove_file(&live).expect("somebody clears up");
    let left = Left::by(session);
    let mut nowhere = finisher(&scratch);
    nowhere.pattern = scratch.join("no/such/directory/%n.hl").into();
    let mut kept = Vec::new();
    let finished = left.finish(&mut nowhere, None, &killed(), &mut |news| {
        if let News::Kept { why, at } = news {
            kept.push((why.to_string(), at.expect("it has a name again")));
        }
    });
    assert!(finished.kept && finished.last.is_none());
    assert_eq!(kept.len(), 1);
    assert!(kept[0].0.starts_with("the ledger cannot be written to "), "{}", kept[0].0);
    assert_eq!(kept[0].1, live);
    assert!(left.no_ledger(&finished).is_none(), "that it is kept was said");
    // Somebody who gives up instead: the same, by its name.
    assert!(left.give_up().iter().all(|path| path.exists()));

    let session = self::session(&scratch);
    let live = put(&session, 0, "saved");
    let mut session = session;
    session.keeper.look();
    fs::remove_file(&live).expect("somebody clears up");
    let mut saved = 0;
    let finished = Left::by(session).finish(&mut finisher(&scratch), None, &killed(), &mut |news| {
        saved += usize::from(matches!(news, News::Saved(path) if path == live));
    });
    assert!(finished.last.is_some() && saved == 1 && !live.exists());
}

#[test]
fn why_there_is_none_is_known() {
    let scratch = Scratch::new("end-none");
    let nothing = |session: Session| {
        let left = Left::by(session);
        let finished = left.finish(&mut finisher(&scratch), None, &killed(), &mut |_| {});
        assert!(finished.last.is_none() && finished.earlier.is_empty());
        left.no_ledger(&finished)
    };
    assert!(matches!(nothing(session(&scratch)), Some(NoLedger::NeverOpened)));
    assert!(nothing(Session { expected: false, ..session(&scratch) }).is_none());
    let gone = session(&scratch);
    fs::remove_file(put(&gone, 0, "gone")).expect("removed at once");
    assert!(matches!(nothing(gone), Some(NoLedger::RemovedAtOnce)));
    // A file without a word in it is none, and goes.
    let blank = session(&scratch);
    let live = live::directory_in(&blank.base).join(Live::name(&blank.name, 0, None));
    fs::write(&live, vec![0; 8192]).expect("written");
    assert!(matches!(nothing(blank), Some(NoLedger::NeverOpened)));
    assert!(!live.exists());
}
