//! Commands on a session of several processes: as a whole, and one of it.

mod added_up;
mod common;

use std::path::Path;

use common::{heapledger, output, text};
use heapledger_format::bytes::{ByteOrder, Codec, WordSize};
use heapledger_format::errors::{ERROR_BYTES_MAX, ErrorEntry, ErrorKind};
use heapledger_format::family::{ForkCut, InheritedFree};
use heapledger_format::{Kind, SectionKind, ThreadRowPlus1, Ticks, Word};
use heapledger_source::{FamilyEnded, FamilyHead, FamilyLine, FamilyMemory, FamilyProcess, FamilyWriter, MemberEnd};
use heapledger_testing::{Builder, Scratch};

/// A session: `make`, two of `cc1`, and `su` that was not recorded.
fn session(scratch: &Scratch, name: &str) {
    let directory = scratch.join(name);
    std::fs::create_dir(&directory).unwrap();
    let head = FamilyHead::new("0123456789abcdef", 0, 1_000, vec!["make".into()], "0.1.0");
    let mut writer = FamilyWriter::create(&directory, &head).unwrap();
    for (pid, ppid, program, blocks) in
        [(100, 1, "make", 1), (101, 100, "cc1", 2), (102, 100, "cc1", 3), (103, 100, "su", 0)]
    {
        let ledger = (blocks != 0).then(|| format!("{program}.{pid}.hl"));
        if let Some(name) = &ledger {
            write(&directory.join(name), pid, program, blocks);
        }
        let unrecorded = ledger.is_none().then(|| "it runs with more rights".to_owned());
        let process = FamilyProcess {
            pid,
            ppid,
            start_ticks: u64::from(pid),
            program: program.into(),
            ledger,
            unrecorded,
            end: Some(MemberEnd::Exit(0)),
            ..FamilyProcess::default()
        };
        writer.append(&FamilyLine::Process(process)).unwrap();
    }
    let ended = FamilyEnded { unix_ns: 5_000, exit: MemberEnd::Exit(0), ..FamilyEnded::default() };
    writer.append(&FamilyLine::Ended(ended)).unwrap();
}

fn write(path: &Path, pid: u32, program: &str, blocks: u64) {
    let mut builder = Builder::new();
    for block in 0..blocks {
        builder.block(0x1000 * (block + 1), 100);
    }
    builder.process("pid", &pid.to_string()).process("program", program).process("start_ticks", &pid.to_string());
    builder.write(path).unwrap();
}

/// Status, standard output and standard error of a command in `scratch`.
fn tell(scratch: &Scratch, words: &[&str]) -> (i32, String, String) {
    let out = output(heapledger().args(words).current_dir(scratch.path()));
    (out.status.code().unwrap_or(-1), text(&out.stdout), text(&out.stderr))
}

#[test]
fn totals_of_all_and_of_one() {
    let scratch = Scratch::new("cli-sessions");
    session(&scratch, "build");
    for target in ["build", "build/", "build/session.jsonl", "./build"] {
        let (status, out, _) = tell(&scratch, &["stats", target]);
        assert_eq!(status, 0, "{target}");
        assert!(out.contains("Current   : 600 B in 6 blocks") && out.contains("└─ su"), "{target}:\n{out}");
    }
    for words in [&["build:102"][..], &["build", "--pid", "102"], &["build/cc1.102.hl"]] {
        let (status, out, err) = tell(&scratch, &[&["stats"], words].concat());
        assert_eq!(status, 0, "{words:?}: {err}");
        assert!(out.contains("pid 102") && out.contains("300 B in 3 blocks"), "{words:?}:\n{out}");
    }
    for words in [&["build:make"][..], &["build", "--process", "make"]] {
        let (status, out, _) = tell(&scratch, &[&["stats"], words].concat());
        assert_eq!((status, out.contains("pid 100")), (0, true), "{words:?}:\n{out}");
    }
}

#[test]
fn commands_that_take_one_process_say_which_there_are() {
    let scratch = Scratch::new("cli-sessions-one");
    session(&scratch, "build");
    std::fs::copy(scratch.join("build/make.100.hl"), scratch.join("one.hl")).unwrap();
    for (words, status, said) in [
        (&["whereis", "build", "0x1000"][..], 2, "build:101  cc1 (cc1.101.hl)"),
        (&["timeline", "build:cc1"], 2, "build:102  cc1 (cc1.102.hl)"),
        (&["timeline", "build:ld"], 1, "no process called ld; `heapledger stats build --all`"),
        (&["timeline", "build:7"], 1, "no process 7"),
        (&["timeline", "build:103"], 1, "has no ledger: it runs with more rights"),
        (&["timeline", "one.hl", "--pid", "100"], 2, "no session"),
        (&["timeline", "build", "--pid", "100", "--process", "make"], 2, "cannot be used with"),
        (&["stats", "build", "--where", "size > 3"], 2, "SESSION:PID"),
        (&["stats", "build", "--at", "peak"], 2, "SESSION:PID"),
        (&["stats", "build", "--format", "ecos"], 2, "SESSION:PID"),
        (&["stats", "."], 1, "is a directory, not a ledger"),
    ] {
        let (code, out, err) = tell(&scratch, words);
        assert_eq!(code, status, "{words:?}: {out}{err}");
        assert!(err.starts_with("heapledger: ") && err.contains(said), "{words:?}: {err}");
    }
    // Of one that recorded alone there is no choice.
    for name in ["cc1.101.hl", "cc1.102.hl"] {
        std::fs::remove_file(scratch.join("build").join(name)).unwrap();
    }
    let (status, out, err) = tell(&scratch, &["whereis", "build", "0x1000"]);
    assert_eq!((status, out.contains("malloc 100 B")), (0, true), "{out}{err}");
    let (_, out, _) = tell(&scratch, &["stats", "build"]);
    assert!(out.contains("2 processes without figures: its ledger is gone."), "{out}");
}

/// The lines of a command in JSON.
fn json(scratch: &Scratch, words: &[&str]) -> Vec<serde_json::Value> {
    let (status, out, err) = tell(scratch, words);
    assert_eq!(status, 0, "{words:?}: {err}");
    out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn trees_have_processes_or_programs_on_top() {
    let scratch = Scratch::new("cli-sessions-tree");
    session(&scratch, "build");
    let tops = |lines: &[serde_json::Value]| -> Vec<(String, u64)> {
        let tops = lines.iter().filter(|line| line["kind"] == "process");
        let mut tops: Vec<_> = tops
            .map(|line| (line["function"].as_str().unwrap().to_owned(), line["live_bytes"].as_u64().unwrap()))
            .collect();
        tops.sort();
        tops
    };
    let all = |of: &[(&str, u64)]| of.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect::<Vec<_>>();
    for more in [&[][..], &["--inverted"], &["--threads"]] {
        let lines = json(&scratch, &[&["tree", "build", "--json"], more].concat());
        assert_eq!((&lines[0]["processes"], &lines[1]["live_bytes"]), (&"process".into(), &600.into()), "{more:?}");
        assert_eq!(tops(&lines), all(&[("cc1 101", 200), ("cc1 102", 300), ("make 100", 100)]), "{more:?}");
        let lines = json(&scratch, &[&["tree", "build", "--json", "--group-by", "program"], more].concat());
        assert_eq!(tops(&lines), all(&[("cc1", 500), ("make", 100)]), "{more:?}");
        let notes = lines.last().unwrap()["notes"].as_array().unwrap();
        assert!(notes.iter().any(|note| note["kind"] == "process_without"), "{more:?}: {notes:?}");
    }
    let lines = json(&scratch, &["flame", "build", "--json"]);
    let of_make: Vec<_> = lines.iter().filter(|line| line["process"] == "make 100").collect();
    assert_eq!((of_make.len(), &of_make[0]["live_bytes"]), (1, &100.into()));
    let (_, out, _) = tell(&scratch, &["flame", "build", "--format", "folded", "--group-by", "program"]);
    assert!(out.contains("cc1;code without a stack 500\n"), "{out}");
    let (status, _, err) = tell(&scratch, &["flame", "build"]);
    assert_eq!(status, 0, "{err}");
    let page = std::fs::read_to_string(scratch.join("build.html")).unwrap();
    assert!(page.contains("<title>Heap of make and its processes") && page.contains("\"cc1 102\""), "{err}");
    let (_, out, _) = tell(&scratch, &["tree", "build", "--where", "size > 7", "--threads"]);
    assert!(out.contains("by process and thread") && out.contains("Only where"), "{out}");
    // Made ledgers say nothing of their peaks.
    let (_, out, _) = tell(&scratch, &["tree", "build", "--at", "peak"]);
    assert!(out.contains("3 processes without figures: this ledger does not say what lived at the peak."), "{out}");
    assert!(out.contains("Each process is shown at its own peak"), "{out}");
    for (words, said) in [
        (&["tree", "build", "--where", "siz > 7"][..], "siz"),
        (&["tree", "build", "--at", "peak", "--threads"], "--threads"),
    ] {
        let (status, out, err) = tell(&scratch, words);
        assert!(status == 2 && err.contains(said), "{words:?}: {status} {out}{err}");
    }
}

#[test]
fn limits_are_of_each_process_or_of_all_together() {
    let scratch = Scratch::new("cli-sessions-check");
    session(&scratch, "build");
    // `su` was not recorded: whatever holds of the others, nobody knows of that.
    let losses = "1 process without figures: it runs with more rights.";
    for (more, status, said) in [
        (&["--max-live", "300", "--allow-losses"][..], 0, "build: 3 limits of 3 processes, all hold"),
        (&["--max-live", "300"], 3, losses),
        (&["--max-live", "300", "--inconclusive", "pass"], 0, losses),
        (&["--max-live", "200", "--allow-losses"], 1, "EXCEEDED cc1 102: live at the end: 300 B in 3 blocks"),
        (&["--max-live", "200"], 1, "3 limits of 3 processes, 1 exceeded"),
        (&["--max-live", "600", "--of", "sum", "--allow-losses"], 0, "1 limit of all processes together, all hold"),
        (&["--max-live", "600", "--of", "sum"], 3, "it may be more"),
        (&["--max-live", "599", "--of", "sum"], 1, "all processes together: live at the end: 600 B in 6 blocks"),
        (&["--max-live", "400", "--of", "both"], 1, "4 limits of 3 processes and of all together, 1 exceeded"),
        (&["--max-leaked", "0", "--all-leaks", "--allow-losses"], 1, "3 limits of 3 processes, 3 exceeded"),
        // No peak of one is higher, and together they had no more.
        (&["--max-peak", "600", "--of", "sum", "--allow-losses"], 0, "peak: 300 B, the limit is 600 B"),
        (&["--max-peak", "599", "--of", "sum", "--allow-losses"], 3, "it may be anything from 300 B to 600 B"),
        (&["--max-peak", "299", "--of", "sum", "--allow-losses"], 1, "EXCEEDED all processes together: peak: 300 B"),
    ] {
        let (code, out, err) = tell(&scratch, &[&["check", "build"], more].concat());
        assert_eq!(code, status, "{more:?}: {out}{err}");
        assert!(out.contains(said), "{more:?}:\n{out}{err}");
    }
    let (status, out, _) = tell(&scratch, &["check", "build", "--max-live", "200", "--format", "junit"]);
    assert_eq!(status, 1);
    // A suite for each process, with a case for the limit and one for losses; and one for the session.
    assert!(out.contains("<testsuites name=\"heapledger check\" tests=\"7\" failures=\"1\" errors=\"1\">"), "{out}");
    for part in [
        "<testsuite name=\"cc1 101\"",
        "<testsuite name=\"make 100\"",
        "<failure message=\"live at the end: 300 B",
        "it runs with more rights",
    ] {
        assert!(out.contains(part), "no {part} in\n{out}");
    }
    let (status, out, _) = tell(&scratch, &["check", "build", "--max-live", "200", "--json", "--of", "both"]);
    let lines: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let verdicts: Vec<_> =
        lines[1..5].iter().map(|line| (line["process"].as_str().unwrap(), line["verdict"].as_str().unwrap())).collect();
    let expected =
        [("make 100", "holds"), ("cc1 101", "holds"), ("cc1 102", "exceeded"), ("all processes together", "exceeded")];
    assert_eq!((status, &verdicts[..]), (1, &expected[..]));
    let end = lines.last().unwrap();
    assert_eq!((&end["processes"], &end["limits"], &end["exceeded"]), (&3.into(), &4.into(), &2.into()));
    for format in ["sarif", "github"] {
        let (status, out, err) = tell(&scratch, &["check", "build", "--max-live", "200", "--format", format]);
        assert!(status == 1 && out.contains("cc1 102: live at the end: 300 B"), "{format}: {out}{err}");
    }
    let (status, _, err) = tell(&scratch, &["check", "build", "--baseline", "build:make"]);
    assert!(status == 2 && err.contains("SESSION:PID"), "{err}");
}

#[test]
fn sessions_are_compared_by_program() {
    let scratch = Scratch::new("cli-sessions-diff");
    for name in ["monday", "tuesday"] {
        session(&scratch, name);
    }
    write(&scratch.join("tuesday/cc1.101.hl"), 101, "cc1", 9);
    write(&scratch.join("tuesday/ld.200.hl"), 200, "ld", 1);
    let lines = json(&scratch, &["diff", "monday", "tuesday", "--json"]);
    assert_eq!((&lines[0]["before"], &lines[0]["ledger"]), (&"monday".into(), &"tuesday".into()));
    let rows: Vec<_> = lines.iter().filter(|line| line["type"] == "program").collect();
    let told =
        |name: &str, figure: &str| rows.iter().find(|row| row["program"] == name).unwrap()[figure].as_i64().unwrap();
    assert_eq!(rows[0]["program"], "cc1", "most growth first");
    assert_eq!((told("cc1", "live_bytes"), told("cc1", "live_bytes_growth"), told("cc1", "processes")), (1200, 700, 2));
    assert_eq!(
        (told("ld", "processes_before"), told("ld", "live_bytes_growth"), told("make", "live_bytes_growth")),
        (0, 100, 0)
    );
    let (status, out, err) = tell(&scratch, &["diff", "tuesday", "monday", "--limit", "1"]);
    assert!(status == 0 && out.contains("-700 B") && out.contains("2 programs more"), "{out}{err}");
    let (status, out, _) = tell(&scratch, &["diff", "monday:101", "tuesday:101"]);
    assert!(status == 0 && out.contains("700 B"), "one process of each: {out}");
    for words in [
        &["diff", "monday", "tuesday:101"][..],
        &["diff", "monday"],
        &["diff", "monday", "tuesday", "--blocks"],
        &["diff", "monday", "tuesday", "--where", "size > 3"],
        &["diff", "--after", "1s", "monday"],
    ] {
        let (status, out, err) = tell(&scratch, words);
        assert!(status == 2 && err.contains("SESSION:PID"), "{words:?}: {out}{err}");
    }
}

#[test]
fn errors_are_told_by_process() {
    let scratch = Scratch::new("cli-sessions-errors");
    session(&scratch, "build");
    let (status, out, err) = tell(&scratch, &["errors", "build"]);
    assert!(status == 0 && out.contains("No errors in 4 processes."), "{out}{err}");
    let builder = heapledger_testing::everything(ByteOrder::Little, WordSize::W64);
    for name in ["cc1.101.hl", "make.100.hl"] {
        builder.write(&scratch.join("build").join(name)).unwrap();
    }
    let alone = json(&scratch, &["errors", "build:101", "--json"]);
    let errors = alone.iter().filter(|line| line["type"] == "error").count();
    assert!(errors > 1, "{errors}");
    let (status, out, err) = tell(&scratch, &["errors", "build"]);
    assert!(status == 0, "{err}");
    for part in ["== make 100", "== cc1 101", &format!("{} errors in 2 processes of 4 processes.", errors * 2)] {
        assert!(out.contains(part), "no {part} in\n{out}");
    }
    assert!(!out.contains("cc1 102") && out.contains("Not seen: 1 process without figures"), "{out}");
    // Each report is as it is by itself, but for what its ledger is called.
    let all = json(&scratch, &["errors", "build", "--json"]);
    let ledgers: Vec<&str> = all.iter().filter_map(|line| line["ledger"].as_str()).collect();
    assert_eq!(ledgers, ["build/make.100.hl", "build/cc1.101.hl"]);
    assert_eq!(all[all.len() - alone.len() + 1..], alone[1..]);
    let (status, _, err) = tell(&scratch, &["errors", "build", "--csv"]);
    assert!(status == 2 && err.contains("SESSION:PID"), "{err}");
}

#[test]
fn exported_stacks_begin_with_their_process() {
    let scratch = Scratch::new("cli-sessions-export");
    session(&scratch, "build");
    for (more, expected) in [
        (
            &[][..],
            &[
                "cc1_101;code without a stack 200",
                "cc1_102;code without a stack 300",
                "make_100;code without a stack 100",
            ][..],
        ),
        (&["--group-by", "program"], &["cc1;code without a stack 500", "make;code without a stack 100"]),
    ] {
        let (status, out, err) = tell(&scratch, &[&["export", "folded", "build", "-o", "-"], more].concat());
        let mut lines: Vec<&str> = out.lines().collect();
        lines.sort_unstable();
        assert_eq!((status, &lines[..]), (0, expected), "{more:?}: {err}");
        assert!(err.contains("it runs with more rights"), "{err}");
    }
    let (status, _, err) = tell(&scratch, &["export", "speedscope", "build/"]);
    assert!(status == 0 && scratch.join("build.speedscope.json").exists(), "{err}");
    for more in ["--threads", "--diff=build:make"] {
        let (status, _, err) = tell(&scratch, &["export", "pprof", "build", more]);
        assert!(
            status == 2 && err.contains("SESSION:PID") || more.starts_with("--diff") && status != 0,
            "{more}: {err}"
        );
    }
}

#[test]
fn top_looks_at_the_processes_that_run() {
    let scratch = Scratch::new("cli-sessions-top");
    session(&scratch, "build");
    // A process that has no end in the file, and whose ledger says that it is gone.
    let mut writer = FamilyWriter::reopen(&scratch.join("build")).unwrap();
    write(&scratch.join("build/late.300.hl"), 300, "late", 4);
    let late = FamilyProcess { pid: 300, start_ticks: 300, program: "late".into(), ..FamilyProcess::default() };
    writer.append(&FamilyLine::Process(late)).unwrap();
    let lines = json(&scratch, &["top", "build", "--batch", "0", "--json"]);
    assert_eq!(lines.len(), 3, "the session has ended, and so do the looks: {lines:?}");
    assert_eq!((&lines[0]["command"], &lines[1]["type"]), (&"top".into(), &"family_look".into()));
    assert_eq!((&lines[1]["running"], &lines[1]["ended"], &lines[1]["goes_on"]), (&0.into(), &5.into(), &false.into()));
    let (status, out, err) = tell(&scratch, &["top", "build", "--batch", "3"]);
    assert!(status == 0 && out.contains("0 processes run with 0 B, 5 have ended; the session has ended"), "{out}{err}");
    for words in [&["top", "build", "--mark", "--batch", "1"][..], &["top", "build", "--csv", "--batch", "1"]] {
        let (status, _, err) = tell(&scratch, words);
        assert!(status == 2 && err.contains("SESSION:PID"), "{words:?}: {err}");
    }
}

const CODEC: Codec = Codec { order: ByteOrder::NATIVE, word: WordSize::W64 };

/// A session in which `make` 100 forked before its number 9: 200 freed its block at 0x1000, 100 bytes, as number 3. `more` is added to the
/// ledger of 200.
fn forked_session(scratch: &Scratch, more: impl FnOnce(&mut Builder)) {
    session(scratch, "build");
    let mut parent = Builder::new();
    parent
        .id([7; 16])
        .block(0x1000, 100)
        .process("pid", "100")
        .process("program", "make")
        .process("start_ticks", "100");
    parent.write(&scratch.join("build/make.100.hl")).unwrap();
    let mut child = Builder::new();
    child.codec(CODEC.order, CODEC.word).process("pid", "200").process("ppid", "100").process("program", "make");
    child.process("start_ticks", "200").process("parent_id", &"07".repeat(16));
    let (mut cut, mut free) = (vec![0; 16], vec![0; 40]);
    assert!(ForkCut { time: Word(1), number_plus_1: Word(9) }.write(CODEC, &mut cut));
    let by = u32::from(Kind::FREE.0);
    let (address, time, thread) = (Word(0x1000), Ticks(5), ThreadRowPlus1(1));
    let element =
        InheritedFree { address, time, site: Default::default(), thread, by, reserved: 0, number_plus_1: Word(4) };
    assert!(element.write(CODEC, &mut free));
    child.section(SectionKind::Cut as u16, 16, cut).section(SectionKind::Inherited as u16, 40, free);
    more(&mut child);
    child.write(&scratch.join("build/make.200.hl")).unwrap();
}

#[test]
fn a_free_of_an_inherited_block_leads_to_its_parent() {
    let scratch = Scratch::new("cli-sessions-fork");
    forked_session(&scratch, |_| ());
    let (status, out, err) = tell(&scratch, &["history", "--addr", "0x1000", "build:200"]);
    assert_eq!(status, 0, "{out}{err}");
    for part in
        ["was freed here by free, number 3", "a block of 100 B that was inherited from make 100", "build:100` shows"]
    {
        assert!(err.contains(part), "no {part} in {err}");
    }
    let (status, _, err) = tell(&scratch, &["history", "--addr", "0x2000", "build:200"]);
    assert!(status == 0 && !err.contains("inherited"), "{err}");
}

#[test]
fn what_forked_processes_freed_of_their_parents_is_told_and_not_subtracted() {
    let scratch = Scratch::new("cli-sessions-inherited");
    forked_session(&scratch, |_| ());
    let (status, out, err) = tell(&scratch, &["stats", "build"]);
    assert_eq!(status, 0, "{err}");
    let text = out.replace("\n            ", " ");
    for part in [
        // The parent's own 100 bytes are among them.
        "Current   : 600 B in 6 blocks",
        "Inherited : 1 block of parents (100 B) freed in 1 process that came of them",
        "  INHERITED FREED  ",
        " 1 (100 B) ",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{out}");
    }
    let lines = json(&scratch, &["stats", "build", "--json"]);
    let inherited = |line: &serde_json::Value| line["inherited"].clone();
    let freed = serde_json::json!({"frees": 1, "blocks": 1, "bytes": 100, "unknown": 0});
    assert_eq!(inherited(&lines[1]), freed);
    let of = |pid: u32| lines.iter().find(|line| line["type"] == "process" && line["pid"] == pid).map(inherited);
    assert_eq!((of(200), of(100)), (Some(freed), Some(serde_json::Value::Null)));
    let (_, out, _) = tell(&scratch, &["stats", "build", "--csv"]);
    let ends = |pid: &str, end: &str| out.lines().any(|line| line.starts_with(pid) && line.ends_with(end));
    assert!(ends("200,", ",1,1,100") && ends("100,", ",,,"), "{out}");
    // Where nothing was inherited nothing is said of it.
    let other = Scratch::new("cli-sessions-not-inherited");
    session(&other, "build");
    let (_, out, _) = tell(&other, &["stats", "build"]);
    assert!(!out.contains("Inherited") && !out.contains("INHERITED"), "{out}");
}

#[test]
fn errors_of_a_forked_process_name_whose_block_it_was() {
    let scratch = Scratch::new("cli-sessions-fork-errors");
    let errors = [(ErrorKind::DoubleFree, 0x1000, 9), (ErrorKind::BadFree, 0x2000, 9), (ErrorKind::BadFree, 0x1000, 5)];
    forked_session(&scratch, |child| {
        let mut all = vec![0; ERROR_BYTES_MAX * errors.len()];
        for ((kind, address, time), element) in errors.into_iter().zip(all.chunks_exact_mut(ERROR_BYTES_MAX)) {
            let (kind, first_time) = (kind as u16, Ticks(time));
            assert!(ErrorEntry { kind, address, first_time, ..ErrorEntry::default() }.write(CODEC, element));
        }
        child.section(SectionKind::Errors as u16, ERROR_BYTES_MAX, all);
    });
    let twice = "a block of make 100: 0x1000, malloc 100 B, number 0 there, live at the fork, and freed here before by free, number 3";
    for target in ["build", "build:200", "build/make.200.hl"] {
        let (status, out, err) = tell(&scratch, &["errors", target]);
        assert_eq!(status, 0, "{target}: {err}");
        let out = out.replace("\n            ", " ");
        for part in [
            &format!("Inherited : {twice}\n"),
            "Inherited : no: no parent had a block there",
            "number 0 there, live at the fork\n",
            "allocated by make 100\n",
            "freed here\n",
        ] {
            assert!(out.contains(part), "{target}: no {part} in\n{out}");
        }
        assert_eq!(out.matches("allocated by make 100\n").count(), 2, "{out}");
    }
    let lines = json(&scratch, &["errors", "build", "--json"]);
    let inherited: Vec<_> =
        lines.iter().filter(|line| line["type"] == "error").map(|line| &line["inherited"]).collect();
    let whose: Vec<_> = inherited.iter().map(|inherited| inherited["whose"].as_str().unwrap()).collect();
    assert_eq!(whose, ["ancestor", "nobody", "ancestor"]);
    let block = &inherited[0]["block"];
    assert_eq!((&block["pid"], &block["size"], &block["certain"]), (&100.into(), &100.into(), &true.into()));
    assert_eq!((&block["ledger"], &block["freed"]["number"]), (&"build/make.100.hl".into(), &3.into()));
    assert!(inherited[2]["block"]["freed"].is_null(), "{}", inherited[2]);
    let (_, out, _) = tell(&scratch, &["errors", "build:200", "--csv"]);
    assert!(out.lines().nth(1).is_some_and(|line| line.ends_with(&format!("\"{twice}\""))), "{out}");
    // Where the parent's ledger is gone nothing is guessed.
    std::fs::remove_file(scratch.join("build/make.100.hl")).unwrap();
    let (_, out, _) = tell(&scratch, &["errors", "build:200"]);
    assert_eq!(out.matches("Inherited : not known").count(), 3, "{out}");
}

#[test]
fn a_session_has_a_timeline_if_run_looked() {
    let scratch = Scratch::new("cli-sessions-timeline");
    session(&scratch, "build");
    let (status, _, err) = tell(&scratch, &["timeline", "build"]);
    assert!(status == 1 && err.contains("run looked at no moment") && err.contains("SESSION:PID"), "{err}");
    let mut writer = FamilyWriter::reopen(&scratch.join("build")).unwrap();
    for at in 0..9 {
        let most = vec![(102, 102, 200 + at)];
        let moment = FamilyMemory {
            at_unix_ns: 1_000 + at * 100,
            live_bytes: 300 + at,
            rss_bytes: 4096,
            pss_bytes: Some(2048),
            processes: 3,
            most,
        };
        writer.append(&FamilyLine::Memory(moment)).unwrap();
    }
    let (status, out, err) = tell(&scratch, &["timeline", "build"]);
    assert!(
        status == 0 && out.contains("   Pss\n") && out.contains("  cc1 102  ") && out.contains("308 B"),
        "{out}{err}"
    );
    let (status, out, err) = tell(&scratch, &["timeline", "build", "--svg", "build.svg"]);
    assert!(status == 0 && out.is_empty() && err.contains("build.svg (") && err.contains(", 9 looks)"), "{out}{err}");
    assert!(std::fs::read_to_string(scratch.join("build.svg")).unwrap().contains("cc1 102"));
    let lines = json(&scratch, &["timeline", "build", "--json"]);
    assert_eq!((&lines[1]["span_ns"], lines.len()), (&4_000.into(), 12), "to the end of the session");
    let (status, out, _) = tell(&scratch, &["timeline", "build", "--csv"]);
    assert!(status == 0 && out.lines().count() == 10, "{out}");
}
