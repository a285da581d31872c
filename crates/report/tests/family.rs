//! The tree of a session's processes, its sums, and what is said where something is not known.

use std::path::Path;
use std::time::SystemTime;

use heapledger_analysis::{FamilyCurve, FamilySummary, Seen};
use heapledger_format::{GlobalCounter, TallyCounter};
use heapledger_report::{
    FamilyReport, FamilyRun, FamilyTimelineReport, Form, Paint, ProgramEnd, Report, RunSite, largest_holder,
};
use heapledger_source::{
    Family, FamilyEnded, FamilyHead, FamilyLine, FamilyMemory, FamilyProcess, FamilyWriter, MemberEnd,
};
use heapledger_testing::{Builder, Scratch};

const BEGAN: u64 = 1_795_000_000_000_000_000;
const MS: u64 = 1_000_000;

/// A session in a directory, as it is made.
struct Made {
    scratch: Scratch,
    writer: FamilyWriter,
}

impl Made {
    fn new(name: &str) -> Made {
        let scratch = Scratch::new(name);
        let command = ["make", "-j2"].map(str::to_owned).to_vec();
        let head = FamilyHead::new("0123456789abcdef", 0, BEGAN, command, "0.1.0");
        let writer = FamilyWriter::create(scratch.path(), &head).unwrap();
        Made { scratch, writer }
    }

    /// A process from one millisecond to another that held `bytes` at its end, and at most `peak`.
    fn process(&mut self, (pid, ppid): (u32, u32), program: &str, (from, to): (u64, u64), (peak, bytes): (u64, u64)) {
        let name = format!("{program}.{pid}.hl");
        let process = FamilyProcess { ledger: Some(name.clone()), ..line(pid, ppid, program, from, to) };
        ledger(&self.scratch.join(name), &process, peak, bytes);
        self.writer.append(&FamilyLine::Process(process)).unwrap();
    }

    fn line(&mut self, line: FamilyLine) {
        self.writer.append(&line).unwrap();
    }

    fn written(&self, form: &Form, all: bool, paint: Paint) -> String {
        let family = Family::open(self.scratch.path()).unwrap();
        let summary = FamilySummary::of(&family, SystemTime::UNIX_EPOCH, &mut |_| ());
        let mut report = FamilyReport::new("build", &family, &summary, paint);
        report.all = all;
        let mut out = Vec::new();
        report.write(form, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn text(&self) -> String {
        self.written(&Form::Text, false, Paint::default())
    }
}

fn line(pid: u32, ppid: u32, program: &str, from: u64, to: u64) -> FamilyProcess {
    FamilyProcess {
        pid,
        ppid,
        start_ticks: from / 10,
        program: program.to_owned(),
        began_unix_ns: BEGAN + from * MS,
        ended_unix_ns: Some(BEGAN + to * MS),
        end: Some(MemberEnd::Exit(0)),
        ..FamilyProcess::default()
    }
}

fn ledger(path: &Path, process: &FamilyProcess, peak: u64, bytes: u64) {
    let mut builder = Builder::new();
    builder.block(0x1000, bytes).process("pid", &process.pid.to_string()).process("program", &process.program);
    builder.tally(TallyCounter::Allocations, 3).tally(TallyCounter::Frees, 2);
    builder.global(GlobalCounter::PeakBytes, peak).global(GlobalCounter::PeakBlocks, 2);
    builder.write(path).unwrap();
}

#[test]
fn each_process_has_a_line_and_the_sums_are_theirs() {
    let mut made = Made::new("report-family");
    made.process((100, 1), "make", (0, 900), (4096, 100));
    made.process((101, 100), "cc1", (100, 300), (1 << 20, 0));
    made.process((102, 100), "cc1", (200, 400), (2 << 20, 24));
    made.process((103, 102), "as", (250, 260), (10, 10));
    made.line(FamilyLine::Process(FamilyProcess {
        unrecorded: Some("it runs with more rights".into()),
        end: Some(MemberEnd::Signal(9)),
        ..line(104, 100, "su", 500, 510)
    }));
    let most = vec![(102, 20, 2 << 20), (101, 10, 1 << 20)];
    let moment = FamilyMemory {
        at_unix_ns: BEGAN + 250 * MS,
        live_bytes: 3_145_800,
        most,
        processes: 4,
        ..FamilyMemory::default()
    };
    made.line(FamilyLine::Memory(moment));
    made.line(FamilyLine::Ended(FamilyEnded {
        unix_ns: BEGAN + 901 * MS,
        exit: MemberEnd::Exit(2),
        not_seen: 1,
        ..FamilyEnded::default()
    }));
    let text = made.text();
    for part in [
        "Command   : make -j2\n",
        "ended with status 2 after 901 ms",
        "Processes : 5, 4 with a ledger, 1 that could not be recorded or read, 1 more that never began to record",
        "Current   : 134 B in 4 blocks",
        "Peak      : 3.00 MiB (3,145,800 B) in all processes together, after 250 ms, by 1 look",
        "made by cc1 102 with 2.00 MiB, cc1 101 with 1.00 MiB and 2 more",
        "  make      100    0 ns   900 ms  4.00 KiB   100 B       1  status 0\n",
        "  ├─ cc1    101  100 ms   200 ms  1.00 MiB     0 B       1  status 0\n",
        "  │  └─ as  103  250 ms ",
        "  └─ su     104  500 ms ",
        "signal 9, not recorded\n",
        "1 process began without the recorder",
        "1 process without figures: it runs with more rights.",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert!(!text.contains("--all"), "nothing is left out:\n{text}");
    let json = made.written(&Form::Json, false, Paint::default());
    let lines: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["type"], &lines[1]["type"]), (&"header".into(), &"session".into()));
    assert_eq!((&lines[1]["live_bytes"], &lines[1]["peak"]["live_bytes"]), (&134.into(), &3_145_800.into()));
    // Two compilers were there at once, make, and the assembler of one of them.
    assert_eq!(lines[1]["together_at_most_bytes"], 4096 + (3 << 20) + 10);
    let process = |pid: u32| lines.iter().find(|line| line["type"] == "process" && line["pid"] == pid).unwrap();
    assert_eq!((&process(103)["ppid"], &process(103)["depth"]), (&102.into(), &2.into()));
    assert_eq!(
        (&process(102)["figures"]["peak_bytes"], &process(104)["figures"]),
        (&(2 << 20).into(), &serde_json::Value::Null)
    );
    assert_eq!(lines.last().unwrap()["shown"], 5);
    let csv = made.written(&Form::Csv, false, Paint::default());
    assert_eq!(csv.lines().count(), 6, "{csv}");
    let cells: Vec<&str> = csv.lines().find(|line| line.starts_with("102,")).unwrap().split(',').collect();
    assert_eq!((cells[1], cells[6], cells[7]), ("100", "2097152", "24"));
}

/// A process whose end nobody saw, recovered later: it lasted as long as its ledger knows, or longer.
#[test]
fn how_long_a_process_lasted_whose_end_nobody_saw_is_not_made_up() {
    let mut made = Made::new("report-family-unseen");
    let process = FamilyProcess {
        ledger: Some("daemon.100.hl".into()),
        began_unix_ns: 1_700_000_000_000_000_000,
        ended_unix_ns: None,
        ..line(100, 1, "daemon", 0, 0)
    };
    let mut builder = Builder::new();
    builder.block(0x1000, 8).process("pid", "100").tick_ns(1000).global(GlobalCounter::LastTime, 345_000);
    builder.write(&made.scratch.join("daemon.100.hl")).unwrap();
    made.line(FamilyLine::Process(process));
    let text = made.text();
    assert!(text.contains("  ≥ 345 ms  "), "{text}");
}

#[test]
fn any_number_of_processes_is_one_screen() {
    let mut made = Made::new("report-family-many");
    made.process((100, 1), "make", (0, 9_000), (4096, 100));
    for index in 0..300u64 {
        let pid = 200 + index as u32 * 2;
        let failed = index == 150;
        made.process((pid, 100), "sh", (index * 10, index * 10 + 9), (100, 1));
        let program = if failed { "cc1plus" } else { "cc1" };
        made.process((pid + 1, pid), program, (index * 10 + 1, index * 10 + 8), (1000 + index, 1));
    }
    let text = made.text();
    assert!(text.lines().count() <= 24, "{text}");
    for part in [
        "sh × 300 ",
        "cc1 × 299 ",
        "cc1plus ",
        "≤ 1.27 KiB",
        "(--all shows each process)",
        "Processes : 601, 601 with a ledger",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    // One after the other: no two of the compilers were there at once.
    assert!(text.contains("not known (nobody looked at all processes at once), at most 5.3"), "{text}");
    assert!(text.contains("how it ended is not known") && text.contains("The session has no end"), "{text}");
    let all = made.written(&Form::Text, true, Paint::default());
    assert_eq!(all.lines().filter(|line| line.contains("cc1 ")).count(), 299, "{all}");
    assert!(!all.contains("×"), "{all}");
    let narrow = made.written(&Form::Text, false, Paint { columns: 60, ascii: true, ..Paint::default() });
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
}

#[test]
fn what_stands_deep_is_shown_with_those_above_it() {
    let mut made = Made::new("report-family-deep");
    for pid in 100..160u32 {
        let peak = if pid == 159 { 1 << 30 } else { 10 };
        made.process((pid, pid - 1), &format!("p{pid}"), (u64::from(pid) * 10, 5_000), (peak, 1));
    }
    for pid in 300..360u32 {
        made.process((pid, 1), &format!("q{pid}"), (u64::from(pid) * 10, 5_000), (u64::from(pid), 1));
    }
    let text = made.text();
    assert!(text.lines().count() <= 24, "{text}");
    assert!(text.contains(" more processes with peaks up to "), "{text}");
    let deepest = text.lines().find(|line| line.contains("p159 ")).unwrap();
    assert!(deepest.starts_with("  …59 p159") && deepest.contains("1.00 GiB"), "{text}");
    let all = made.written(&Form::Text, true, Paint::default());
    assert!(all.lines().any(|line| line.contains("p159") && line.contains("1.00 GiB")), "{all}");
}

#[test]
fn the_summary_of_run_is_one_screen() {
    let mut made = Made::new("report-family-run");
    made.process((100, 1), "make", (0, 9_000), (4096, 100));
    for index in 0..40u64 {
        let program = if index < 30 { "cc1".to_owned() } else { format!("tool{index}") };
        made.process((200 + index as u32, 100), &program, (index * 10, index * 10 + 9), (5000 + index, 1000 + index));
    }
    for at in 0..10u64 {
        let most = vec![(239, 39, 5039)];
        let moment = FamilyMemory {
            at_unix_ns: BEGAN + at * MS,
            live_bytes: 6000 + at,
            most,
            processes: 2,
            ..FamilyMemory::default()
        };
        made.line(FamilyLine::Memory(moment));
    }
    made.line(FamilyLine::Ended(FamilyEnded {
        unix_ns: BEGAN,
        exit: MemberEnd::Exit(0),
        not_seen: 3,
        ..FamilyEnded::default()
    }));
    let family = Family::open(made.scratch.path()).unwrap();
    let summary = FamilySummary::of(&family, SystemTime::UNIX_EPOCH, &mut |_| ());
    let largest = largest_holder(&summary).unwrap();
    assert_eq!(summary.tree.processes[largest].pid, 239);
    let sites = [RunSite { bytes: 1039, blocks: 1, name: "grow (tool.c:7)".into(), is_least: false }];
    let shown = |paint| {
        let (family, summary, sites) = (&family, &summary, Some((largest, &sites[..])));
        let (end, span) = (ProgramEnd::Status(0), std::time::Duration::from_secs(9));
        FamilyRun { name: "make", end, span, family, summary, path: "build", bytes: 1 << 20, sites, paint }.to_string()
    };
    let text = shown(Paint::default());
    assert!(text.lines().count() <= 32, "{text}");
    for part in [
        "heapledger: make ended with status 0 after 9.00 s\n",
        "  processes    41, 41 with a ledger, 3 more that never began to record\n",
        "  peak         5.87 KiB (6,009 B) in all processes together",
        "               made by tool39 239 with 4.92 KiB and 1 more\n",
        "  live at end  39.9 KiB in 41 blocks; most of it in:\n",
        "     29.7 KiB in 30 blocks      cc1 × 30\n",
        "  the most in  tool39 239; its biggest call sites:\n",
        "grow (tool.c:7)\n",
        "more processes with peaks up to",
        "  session      build (41 ledgers, 1.00 MiB)\n",
        "  next         heapledger stats build\n",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    let narrow = shown(Paint { columns: 70, ascii: true, ..Paint::default() });
    assert!(narrow.lines().all(|line| line.chars().count() <= 70), "{narrow}");
}

#[test]
fn memory_of_all_over_time_is_a_chart_a_picture_and_figures() {
    let mut made = Made::new("report-family-timeline");
    for pid in 100..110u32 {
        made.process((pid, 1), &format!("p{pid}"), (u64::from(pid - 100), 900), (10, 1));
    }
    for at in 0..50u64 {
        // One after the other is the largest.
        let most = vec![(100 + (at / 5) as u32, at / 50, 1000 + at), (109, 0, 500)];
        made.line(FamilyLine::Memory(FamilyMemory {
            at_unix_ns: BEGAN + at * 10 * MS,
            live_bytes: if at == 30 { 1 << 20 } else { 2000 + at },
            rss_bytes: 9 << 20,
            pss_bytes: (at != 7).then_some(3 << 20),
            processes: 10,
            most,
        }));
    }
    let written = |form: &Form, made: &Made, paint| {
        let family = Family::open(made.scratch.path()).unwrap();
        let curve = FamilyCurve::of(&family);
        let (seen, is_sampled) = (&Seen::default(), false);
        let (session, program) = ("build", "make");
        let mut out = Vec::new();
        let mut report = FamilyTimelineReport { session, program, curve: &curve, is_sampled, paint, seen };
        report.write(form, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let text = written(&Form::Text, &made, Paint::default());
    for part in [
        "Heaps of make and its processes over 490 ms\n",
        "peak 1.00 MiB, after 300 ms ▼\n",
        "   RSS\n",
        "1.00 MiB in 10 processes at most, after 300 ms; 2.00 KiB at the last look",
        "pages that processes share count for each",
        "  p109 109  ",
        "  p104 104                  ████                     1.00 KiB at most\n",
        "9.00 MiB at most, after 0 ns",
        "  4 more processes\n",
        "by 50 looks of run",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    let narrow = written(&Form::Text, &made, Paint { columns: 60, ascii: true, ..Paint::default() });
    assert!(narrow.is_ascii() && narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    let csv = written(&Form::Csv, &made, Paint::default());
    assert_eq!(csv.lines().next(), Some("time_ns,live_bytes,rss_bytes,pss_bytes,processes,most"));
    assert_eq!(csv.lines().nth(8), Some("70000000,2007,9437184,,10,101:1007 109:500"));
    let json = written(&Form::Json, &made, Paint::default());
    let lines: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[1]["memory"], &lines[1]["peak_time_ns"]), (53, &"rss".into(), &300_000_000.into()));
    assert_eq!((&lines[2]["type"], &lines[3]["most"][1]["pid"]), (&"moment".into(), &109.into()));
    let svg = written(&Form::Svg, &made, Paint::default());
    let areas = |class: &str| svg.matches(&format!("<path class=\"{class}\"")).count();
    let classes = ["so", "s0", "s5", "s6", "rss", "peak"];
    assert_eq!(classes.map(areas), [1, 1, 1, 0, 1, 1], "{svg}");
    assert!(svg.contains("p109 109: ") && svg.contains("all others") && svg.trim_end().ends_with("</svg>"), "{svg}");
    // Those in front are drawn last.
    assert!(
        svg.find("path class=\"so\"") < svg.find("path class=\"s5\"")
            && svg.find("path class=\"s5\"") < svg.find("path class=\"s0\"")
    );
}
