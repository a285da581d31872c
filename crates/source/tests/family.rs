//! Sessions of several processes: their file as it is written, cut, forged and outgrown, and who began whom.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use heapledger_source::{
    Family, FamilyEnded, FamilyHead, FamilyLine, FamilyMemory, FamilyProcess, FamilyWriter, MemberEnd, MemberLedger,
    SESSION_FILE, SourceError,
};
use heapledger_testing::{Builder, Scratch};

const SESSION: &str = "0123456789abcdef";

fn head() -> FamilyHead {
    FamilyHead::new(SESSION, 0, 1_000, vec!["make".into(), "-j2".into()], "0.1.0")
}

/// A process that lived from `began` to `ended`.
fn process(pid: u32, ppid: u32, began: u64, ended: Option<u64>) -> FamilyProcess {
    FamilyProcess {
        pid,
        ppid,
        start_ticks: began / 10,
        program: format!("p{pid}"),
        began_unix_ns: began,
        ended_unix_ns: ended,
        end: ended.map(|_| MemberEnd::Exit(0)),
        ..FamilyProcess::default()
    }
}

fn ledger_of(process: &FamilyProcess, directory: &Path, name: &str) {
    let mut builder = Builder::new();
    builder.block(0x1000, 24).process("pid", &process.pid.to_string()).process("ppid", &process.ppid.to_string());
    builder.process("start_ticks", &process.start_ticks.to_string()).process("image", &process.image.to_string());
    builder.process("program", &process.program).process("session", SESSION);
    builder.write(&directory.join(name)).unwrap();
}

/// Appends bytes as they are.
fn append(directory: &Path, bytes: &[u8]) {
    OpenOptions::new().append(true).open(directory.join(SESSION_FILE)).unwrap().write_all(bytes).unwrap();
}

#[test]
fn what_is_written_is_read() {
    let scratch = Scratch::new("family");
    let mut writer = FamilyWriter::create(scratch.path(), &head()).unwrap();
    let first = process(10, 1, 100, None);
    let ended = FamilyProcess { ledger: Some("p10.10.hl".into()), ..process(10, 1, 100, Some(900)) };
    let moment = FamilyMemory { at_unix_ns: 5, live_bytes: 7, most: vec![(10, 10, 7)], ..FamilyMemory::default() };
    let end = FamilyEnded { unix_ns: 9, exit: MemberEnd::Signal(9), not_seen: 1, ..FamilyEnded::default() };
    ledger_of(&ended, scratch.path(), "p10.10.hl");
    writer.append(&FamilyLine::Process(first)).unwrap();
    writer.append(&FamilyLine::Memory(moment.clone())).unwrap();
    let before = Family::open(scratch.path()).unwrap();
    assert!(before.members[0].is_unended() && before.ended.is_none());
    // Its line says nothing of a ledger yet; the ledger says whose it is.
    assert!(matches!(&before.members[0].ledger, MemberLedger::Finished(path) if path.ends_with("p10.10.hl")));
    writer.append(&FamilyLine::Process(ended.clone())).unwrap();
    writer.append(&FamilyLine::Ended(end.clone())).unwrap();
    let family = Family::open(scratch.join(SESSION_FILE)).unwrap();
    assert_eq!((&family.head, &family.memory, &family.ended), (&head(), &vec![moment], &Some(end)));
    assert_eq!(family.members.len(), 1, "{:?}", family.members);
    assert_eq!(family.members[0].process, ended);
    assert_eq!(family.members[0].open().unwrap().unwrap().process().pid(), Some(10));
    assert_eq!(family.loss, Default::default());
    assert!(FamilyWriter::create(scratch.path(), &head()).is_err(), "a session is never written over");
}

#[test]
fn a_cut_line_is_none_and_the_next_one_is_whole() {
    let scratch = Scratch::new("family-cut");
    let mut writer = FamilyWriter::create(scratch.path(), &head()).unwrap();
    writer.append(&FamilyLine::Process(process(10, 1, 100, None))).unwrap();
    let whole = std::fs::read(scratch.join(SESSION_FILE)).unwrap();
    writer.append(&FamilyLine::Process(process(10, 1, 100, Some(200)))).unwrap();
    let all = std::fs::read(scratch.join(SESSION_FILE)).unwrap();
    for bytes in 0..=all.len() {
        scratch.write(SESSION_FILE, &all[..bytes]);
        let family = Family::open(scratch.path()).unwrap();
        assert_eq!(family.members.first().is_some_and(|one| !one.is_unended()), bytes == all.len(), "{bytes}");
        assert_eq!(family.members.len(), usize::from(bytes >= whole.len()));
        assert_eq!(family.loss.lines, 0, "a cut last line is no damage");
        // Whoever recovers the session goes on behind it.
        FamilyWriter::reopen(scratch.path()).unwrap().append(&FamilyLine::Process(process(11, 10, 150, None))).ok();
        let family = Family::open(scratch.path());
        let names: Vec<u32> = family.iter().flat_map(|family| &family.members).map(|one| one.process.pid).collect();
        assert_eq!(names.contains(&11), bytes >= whole.len() - 1 || names == [11], "{bytes} {names:?}");
    }
}

#[test]
fn forged_files_are_read_as_far_as_they_make_sense() {
    let scratch = Scratch::new("family-forged");
    let mut writer = FamilyWriter::create(scratch.path(), &head()).unwrap();
    let outside = FamilyProcess { ledger: Some("../other.hl".into()), ..process(1, 0, 0, None) };
    let device = FamilyProcess { live: Some("/dev/zero".into()), ..process(2, 0, 0, None) };
    let gone = FamilyProcess { ledger: Some("gone.hl".into()), ..process(3, 0, 0, None) };
    for process in [outside, device, gone] {
        writer.append(&FamilyLine::Process(process)).unwrap();
    }
    append(scratch.path(), b"{\"of\":\"a later version\"}\n{\"process\":{\"pid\":-1}}\n\xff\xfe\n");
    append(scratch.path(), &[b'['; 200_000]);
    append(scratch.path(), b"\n");
    append(
        scratch.path(),
        &[&[b'['; 60_000][..], b"\n{\"process\":{\"pid\":4,\"start_ticks\":0,\"more\":[[]],\"end\":\"later\"}}\n"]
            .concat(),
    );
    scratch.write("broken.hl", b"HEAPLED");
    std::fs::create_dir(scratch.join("directory.hl")).unwrap();
    let family = Family::open(scratch.path()).unwrap();
    let ledgers: Vec<_> = family.members.iter().map(|member| &member.ledger).collect();
    assert_eq!(ledgers[..2], [&MemberLedger::NotYet, &MemberLedger::Missing("/dev/zero".into())]);
    assert_eq!(ledgers[2..], [&MemberLedger::Missing("gone.hl".into()), &MemberLedger::NotYet]);
    assert_eq!(family.members[3].process.end, Some(MemberEnd::Unknown));
    assert_eq!((family.loss.lines, family.loss.ledgers, family.loss.unreadable), (4, 2, 2));
}

/// A ledger that somebody copied inside of the session, with a line in its list or without one, is no second process.
#[test]
fn a_copy_of_a_ledger_is_no_further_process() {
    let scratch = Scratch::new("family-copies");
    let mut writer = FamilyWriter::create(scratch.path(), &head()).unwrap();
    let listed = FamilyProcess { ledger: Some("p10.10.hl".into()), ..process(10, 1, 100, Some(900)) };
    let again = FamilyProcess { image: 1, ..process(10, 1, 100, Some(900)) };
    let begun = process(11, 10, 150, None);
    writer.append(&FamilyLine::Process(listed.clone())).unwrap();
    writer.append(&FamilyLine::Process(begun.clone())).unwrap();
    let unlisted = process(12, 10, 160, Some(170));
    for (process, names) in [
        (&listed, &["a.999.hl", "p10.10.hl"][..]),
        (&begun, &["p11.11.hl", "p11.998.hl", "p11.999.hl"]),
        (&unlisted, &["p12.12.hl", "p12.999.hl"]),
        // What it became by exec is another program, which has no line.
        (&again, &["p10.10-2.hl"]),
    ] {
        names.iter().for_each(|name| ledger_of(process, scratch.path(), name));
    }
    let family = Family::open(scratch.path()).unwrap();
    let mut there: Vec<_> =
        family.members.iter().map(|one| (one.process.pid, one.process.image, one.path().unwrap().to_owned())).collect();
    there.sort();
    let expected = [(10, 0, "p10.10.hl"), (10, 1, "p10.10-2.hl"), (11, 0, "p11.11.hl"), (12, 0, "p12.12.hl")];
    assert_eq!(there, expected.map(|(pid, image, name)| (pid, image, scratch.join(name))));
    assert_eq!((family.loss.copies, family.loss.unreadable, family.loss.ledgers), (4, 0, 0));
}

#[test]
fn moments_stay_few_and_the_highest_is_among_them() {
    let scratch = Scratch::new("family-moments");
    let mut text = serde_json::to_string(&head()).unwrap();
    for at in 0..100_000u64 {
        let live = if at == 77_777 { 1 << 40 } else { at };
        text += &format!("\n{{\"memory\":{{\"at_unix_ns\":{at},\"live_bytes\":{live}}}}}");
    }
    text += "\n";
    scratch.write(SESSION_FILE, text);
    let family = Family::open(scratch.path()).unwrap();
    assert!((8_000..40_000).contains(&family.memory.len()), "{}", family.memory.len());
    assert_eq!(family.peak().map(|moment| (moment.at_unix_ns, moment.live_bytes)), Some((77_777, 1 << 40)));
    assert!(family.memory.windows(2).all(|two| two[0].at_unix_ns < two[1].at_unix_ns));
}

#[test]
fn parents_are_those_who_lived_then() {
    let scratch = Scratch::new("family-tree");
    let mut writer = FamilyWriter::create(scratch.path(), &head()).unwrap();
    let lines = [
        process(10, 1, 100, None),
        process(20, 10, 200, Some(400)),
        process(21, 20, 300, Some(350)),
        // The number comes again; the child is that of the second.
        process(20, 10, 1_000, Some(2_000)),
        process(22, 20, 1_500, Some(1_600)),
        // Its parent had ended: a daemon, taken in by init.
        process(23, 20, 3_000, None),
        // It knows who forked it; and so does one whose parent is there by now, which goes before.
        FamilyProcess { parent_pid: 20, ..process(25, 1, 3_500, None) },
        FamilyProcess { parent_pid: 20, ..process(26, 10, 3_600, None) },
        // The first of another namespace, which has taken in nobody of these.
        process(1, 10, 2_500, None),
        // In a circle, as only a forged file says it.
        process(30, 31, 5_000, None),
        process(31, 30, 5_000, None),
        process(32, 32, 5_000, None),
    ];
    for line in &lines {
        writer.append(&FamilyLine::Process(line.clone())).unwrap();
    }
    let second = FamilyProcess { image: 1, program: "cc1".into(), ..process(22, 20, 1_500, Some(1_700)) };
    writer.append(&FamilyLine::Process(second)).unwrap();
    let unlisted = process(24, 10, 4_000, None);
    ledger_of(&unlisted, scratch.path(), "p24.24.hl");
    let family = Family::open(scratch.path()).unwrap();
    assert_eq!(family.members.iter().filter(|member| !member.is_listed).count(), 1);
    let tree = family.tree();
    let shown: Vec<(u32, u64, usize)> = tree
        .walk()
        .iter()
        .map(|(index, depth)| (&tree.processes[*index], *depth))
        .map(|(one, depth)| (one.pid, one.start_ticks, depth))
        .collect();
    assert_eq!(
        shown,
        [
            (10, 10, 0),
            (20, 20, 1),
            (21, 30, 2),
            (20, 100, 1),
            (22, 150, 2),
            (25, 350, 2),
            (1, 250, 1),
            (26, 360, 1),
            (24, 400, 1),
            (23, 300, 0),
            (30, 500, 0),
            (31, 500, 1),
            (32, 500, 0),
        ]
    );
    let exec = tree.processes.iter().find(|one| one.pid == 22).unwrap();
    assert_eq!(exec.images.iter().map(|at| family.members[*at].process.image).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn what_is_no_session_is_said() {
    let scratch = Scratch::new("family-none");
    assert!(matches!(Family::open(scratch.join("nowhere")), Err(SourceError::NotFound(_))));
    assert!(matches!(Family::open(scratch.path()), Err(SourceError::NotASession(_))));
    assert!(!Family::is_at(scratch.path()));
    for (text, said) in [
        ("{\"heapledger_session\":2,\"session\":\"\"}\n", "of version 2"),
        ("{}\n", "something else"),
        ("hello\n", "something else"),
    ] {
        scratch.write(SESSION_FILE, text);
        let refused = Family::open(scratch.path()).unwrap_err().to_string();
        assert!(refused.contains(said), "{refused}");
    }
    scratch.write(SESSION_FILE, "");
    assert!(Family::open(scratch.path()).unwrap().members.is_empty(), "whoever made it was killed at once");
}

#[test]
fn a_long_command_line_is_cut_and_not_refused() {
    let scratch = Scratch::new("family-long");
    let long = FamilyHead { command: vec!["x".repeat(100_000), "y".into()], ..head() };
    let mut writer = FamilyWriter::create(scratch.path(), &long).unwrap();
    let process = FamilyProcess { arguments: vec!["z".repeat(100_000)], ..process(10, 1, 100, None) };
    writer.append(&FamilyLine::Process(process)).unwrap();
    let family = Family::open(scratch.path()).unwrap();
    assert_eq!(family.head.command, ["x".repeat(1024)]);
    assert!(family.members[0].process.arguments.is_empty());
}
