//! `dump` of a session, and what all commands count of it once.

use heapledger_source::{FamilyLine, FamilyProcess, FamilyWriter, MemberEnd};
use heapledger_testing::Scratch;

use super::{json, session, tell};

#[test]
fn live_blocks_of_all_processes_are_added_up() {
    let scratch = Scratch::new("cli-sessions-dump");
    session(&scratch, "build");
    for (by, groups) in [
        ("process", &[("cc1 102", 300, 3), ("cc1 101", 200, 2), ("make 100", 100, 1)][..]),
        ("program", &[("cc1", 500, 5), ("make", 100, 1)]),
    ] {
        let lines = json(&scratch, &["dump", "--group-by", by, "build", "--json"]);
        assert_eq!(
            (&lines[0]["group_by"][0], &lines[0]["bytes"], &lines[0]["blocks"]),
            (&by.into(), &600.into(), &6.into())
        );
        let found: Vec<_> = lines.iter().filter(|line| line["type"] == "group").collect();
        let shown: Vec<_> = found
            .iter()
            .map(|group| {
                (
                    group["keys"][by].as_str().unwrap(),
                    group["bytes"].as_u64().unwrap(),
                    group["blocks"].as_u64().unwrap(),
                )
            })
            .collect();
        assert_eq!(shown, groups, "{by}");
    }
    let (status, out, err) = tell(&scratch, &["dump", "--group-by", "program,module", "build"]);
    assert!(status == 0 && out.contains("83.3%") && out.contains("2 groups: 6 blocks, 600 B."), "{out}{err}");
    assert!(out.contains("Not seen") && out.contains("it runs with more rights"), "{out}");
    let (status, out, _) = tell(&scratch, &["dump", "--group-by", "fn", "--where", "addr == 0x3000", "build", "--csv"]);
    assert_eq!(
        (status, out.lines().next(), out.lines().count()),
        (0, Some("bytes,share,blocks,largest,function"), 2),
        "{out}"
    );
    assert!(out.lines().nth(1).is_some_and(|line| line.starts_with("100,1.000000,1,100,")), "{out}");
    let (status, out, _) = tell(&scratch, &["dump", "--group-by", "process", "--top", "1", "build"]);
    assert!(status == 0 && out.contains("1 of 3 groups, with 50.0% of 6 blocks"), "{out}");
    for words in [
        &["dump", "build"][..],
        &["dump", "--group-by", "thread", "build"],
        &["dump", "--group-by", "process,stack", "build"],
        &["dump", "--group-by", "fn", "--at", "peak", "build"],
        &["dump", "--group-by", "program", "build/cc1.101.hl"],
        &["dump", "--group-by", "program", "build:101"],
    ] {
        let (status, out, err) = tell(&scratch, words);
        assert!(status == 2 && out.is_empty() && err.contains("process"), "{words:?}: {status} {out}{err}");
    }
    // What a program held that became another one went with its memory.
    let mut writer = FamilyWriter::reopen(&scratch.join("build")).unwrap();
    let (pid, start_ticks, end) = (101, 101, Some(MemberEnd::Exec));
    let (program, ledger) = ("cc1".to_owned(), Some("cc1.101.hl".to_owned()));
    writer
        .append(&FamilyLine::Process(FamilyProcess {
            pid,
            start_ticks,
            end,
            program,
            ledger,
            ..FamilyProcess::default()
        }))
        .unwrap();
    assert_eq!(json(&scratch, &["dump", "--group-by", "program", "build", "--json"])[0]["bytes"], 400);
}

/// A ledger that somebody copied inside of the session counts once, for every command, and each says so. Nothing is missing for it.
#[test]
fn a_copy_of_a_ledger_counts_once() {
    let scratch = Scratch::new("cli-sessions-copy");
    session(&scratch, "build");
    std::fs::copy(scratch.join("build/cc1.102.hl"), scratch.join("build/w.999.hl")).unwrap();
    for (words, part) in [
        (&["stats", "build"][..], "600 B in 6 blocks"),
        (&["dump", "--group-by", "process", "build"], "3 groups: 6 blocks, 600 B"),
        (
            &["check", "--of", "sum", "--max-live", "600", "--allow-losses", "build"],
            "live at the end: 600 B in 6 blocks",
        ),
    ] {
        let (status, out, err) = tell(&scratch, words);
        assert_eq!(status, 0, "{words:?}: {out}{err}");
        assert!(
            out.contains(part) && out.contains("1 file in the session's directory is left out"),
            "{words:?}:\n{out}"
        );
    }
}
