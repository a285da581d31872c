//! All reports of made ledgers: what they say, and that no damage upsets them.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use heapledger_analysis::format::bytes::{ByteOrder, WordSize};
use heapledger_analysis::source::testing::sample;
use heapledger_analysis::source::{Ledger, SourceError, finish};
use heapledger_analysis::symbols::{self, SourceReader, Symbolizer};
use heapledger_analysis::{Clock, Events, Names, NamingOptions, Seen, Selection, Sort, Summary};
use heapledger_report::{
    Context, DumpJson, DumpText, Ending, HistoryJson, HistoryText, Paint, StatsOptions, stats_json, stats_text,
};

/// A directory of one test, removed at its end.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Place {
        let shm = Path::new("/dev/shm");
        let base = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
        let directory = base.join(format!("heapledger-render-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        Place(directory)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `stats`, `dump` and `history`, each as text and as JSON.
fn reports(path: &Path) -> Result<[String; 6], SourceError> {
    let ledger = Ledger::open(path)?;
    let clock = Clock::new(&ledger, SystemTime::UNIX_EPOCH)?;
    let context = Context {
        ledger: "a ledger".to_owned(),
        clock,
        threads: ledger.threads()?.into_iter().map(|thread| (thread.row, thread)).collect(),
        heaps: ledger.heaps()?.into_iter().map(|heap| (heap.row, heap)).collect(),
        paint: Paint::default(),
    };
    let names = |sites: &mut dyn Iterator<Item = u32>| {
        let symbolizer = Symbolizer::new(symbols::Options::default());
        let mut names = Names::new(&ledger, symbolizer, SourceReader::new(None))?;
        names.resolve(sites, NamingOptions { source_text: true, deadline: None }, &mut |_| {})?;
        Ok::<_, SourceError>(names)
    };
    let mut out: [Vec<u8>; 6] = Default::default();
    let [stats, stats_lines, dump, dump_lines, history, history_lines] = &mut out;

    let mut summary = Summary::of(&ledger, clock, 3, &mut |_| {})?;
    let mut named = names(&mut summary.sites.top.iter().map(|totals| totals.site))?;
    let top = summary.sites.top.iter().map(|totals| named.stack(totals.site)).collect::<Result<Vec<_>, _>>()?;
    summary.seen.notes.extend(named.notes());
    let options = StatsOptions { threads: 2, paint: Paint::default() };
    stats_text(stats, "a ledger", &summary, &top, options).expect("written");
    stats_json(stats_lines, "a ledger", &summary, &top, &ledger.modules()?).expect("written");

    let selection = Selection::of(&ledger, Sort::Address, false, 5, &mut |_| {})?;
    let mut named = names(&mut selection.blocks.iter().map(|block| block.site))?;
    let mut text = DumpText::new(dump, &context, true);
    let mut json = DumpJson::new(dump_lines, &context).expect("written");
    for block in &selection.blocks {
        let stack = named.stack(block.site)?;
        text.block(block, &stack).expect("written");
        json.block(block, &stack).expect("written");
    }
    let mut seen = Seen::of(&ledger, selection.in_flight)?;
    seen.notes.extend(named.notes());
    let shown = selection.blocks.len() as u64;
    let ending = Ending { shown, left_out: selection.left_out(), in_flight: selection.in_flight };
    text.end(ending, selection.total_bytes, &seen).expect("written");
    json.end(ending, &seen).expect("written");

    let events = Events::of(&ledger, true, 5, &mut |_| {})?;
    let mut named = names(&mut events.events.iter().map(|event| event.site()))?;
    let mut text = HistoryText::new(history, &context, true, events.frees_missing).expect("written");
    let mut json = HistoryJson::new(history_lines, &context, events.frees_missing).expect("written");
    for event in &events.events {
        let stack = named.stack(event.site())?;
        text.event(event, &stack).expect("written");
        json.event(event, &stack).expect("written");
    }
    let shown = events.events.len() as u64;
    let ending = Ending { shown, left_out: events.left_out(), in_flight: events.in_flight };
    text.end(ending, &seen).expect("written");
    json.end(ending, &seen).expect("written");
    Ok(out.map(|bytes| String::from_utf8(bytes).expect("text")))
}

/// Without the line that tells how large the ledger is: that differs between word sizes.
fn comparable(reports: &[String; 6]) -> Vec<String> {
    let size = |line: &&str| !line.starts_with("Debugdata");
    let lines = |report: &String| report.lines().filter(size).collect::<Vec<_>>().join("\n");
    let figures = ["\"ledger\":{\"bytes\":", "\"file_bytes\":"];
    let without = |report: String| {
        figures.iter().fold(report, |report, figure| match report.split_once(figure) {
            Some((before, after)) => {
                let rest = after.trim_start_matches(|letter: char| letter.is_ascii_digit());
                format!("{before}{figure}{rest}")
            }
            None => report,
        })
    };
    reports.iter().map(|report| without(lines(report))).collect()
}

#[test]
fn a_ledger_of_any_machine_reads_the_same() {
    let place = Place::new("a_ledger_of_any_machine_reads_the_same");
    let mut all = Vec::new();
    for order in [ByteOrder::Little, ByteOrder::Big] {
        for word in [WordSize::W64, WordSize::W32] {
            let path = place.at(&format!("{order:?}{word:?}"));
            sample(order, word).write(&path).expect("written");
            all.push(comparable(&reports(&path).expect("readable")));
        }
    }
    for other in &all[1..] {
        for (one, other) in all[0].iter().zip(other) {
            assert_eq!(one, other);
        }
    }
}

#[test]
fn a_finished_ledger_reads_as_the_live_one() {
    let place = Place::new("a_finished_ledger_reads_as_the_live_one");
    let (live, finished) = (place.at("same.hlive"), place.at("same.hl"));
    sample(ByteOrder::Little, WordSize::W64).write(&live).expect("written");
    finish(&Ledger::open(&live).expect("a ledger"), &finished, &[], &mut |_, _| {}).expect("finished");
    let [one, two] = [&live, &finished].map(|path| comparable(&reports(path).expect("readable")));
    for (index, (one, two)) in one.iter().zip(&two).enumerate() {
        let two = two.replace("\"finished\":true", "\"finished\":false");
        assert_eq!(*one, two, "report {index}");
    }
}

#[test]
fn what_a_person_sees() {
    let place = Place::new("what_a_person_sees");
    let path = place.at("seen.hlive");
    sample(ByteOrder::Little, WordSize::W64).write(&path).expect("written");
    let [stats, stats_lines, dump, dump_lines, history, history_lines] = reports(&path).expect("readable");
    for line in [
        "a ledger: statistics",
        "Program   : program, pid 4711, began 2023-11-14 22:13:20 UTC, ended after about 300.0 ms; how is not known",
        "          : program 'two words'",
        "Heap      : brk, 0x10000000 to 0x100fffff, size 1.00 MiB (1,048,576 bytes), holds 4.62 KiB in 24 allocations",
        "History   : 60 memory allocations, 12 frees",
        "Current   : 2.87 MiB (3,009,826 bytes) used in 48 allocations",
        "Actual    : approximately 5.73 MiB (6,010,536 bytes)",
        "Overhead  : approximately 2.86 MiB (3,000,710 bytes), 49.9%",
        "Peak      : 3.81 MiB (4,000,000 bytes) ± 4.00 KiB used in 55 allocations, at 0.090 s",
        "        1 : id 4712, handle 0x12349999, worker\\u{1b}[1m, gone, 10 allocations, 2.86 MiB live in 14 allocations",
        "          : 2 threads more with 3.88 KiB in 19 allocations (--all shows them)",
        "          : backtrace enabled, 512 levels at most",
        "          : history enabled, 23 records max, 12 held",
        "  1 stack was cut at the depth limit.",
        "  /nonexistent/library.so is not there.",
    ] {
        assert!(stats.lines().any(|seen| seen == line), "no line {line}\n{stats}");
    }
    assert!(
        dump.starts_with(
            "0x10000000 : malloc 1 byte, actual size 24 (+23), number 0, time 0.000 s, age 300.0 ms\n  \
             By a thread without a row\n  1) 0x30002000 (in library.so+0x2000)\n  2) 0x00401100 (in program+0x1100)\n"
        ),
        "{dump}"
    );
    assert!(
        dump.contains("\n5 of 48 blocks, 2.87 MiB (3,009,826 bytes); 43 left out (--limit 0 shows all).\n"),
        "{dump}"
    );
    assert!(
        history.starts_with(
            "free 407 bytes: 0x10000e80, actual size 424 (+17), number 158, time 0.200058 s, \
             allocated by valloc as number 58\n  By thread 1, 4712 worker\\u{1b}[1m\n"
        ),
        "{history}"
    );
    assert!(history.contains("\n5 of 72 events; 67 left out (--limit 0 shows all).\n"), "{history}");
    for (lines, kind, count) in [(stats_lines, "stats", 1), (dump_lines, "block", 5), (history_lines, "event", 5)] {
        let objects: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
        assert_eq!(objects[0]["schema"], "heapledger/1");
        assert_eq!(objects.iter().filter(|object| object["type"] == kind).count(), count);
        let end = objects.last().expect("an end");
        assert_eq!((&end["type"], &end["shown"]), (&"end".into(), &count.into()));
        assert_eq!(end["notes"][0]["kind"], "unknown_frees");
    }
}

#[test]
fn a_ledger_without_options_has_the_rest() {
    let place = Place::new("a_ledger_without_options_has_the_rest");
    use heapledger_analysis::format::record::Options;
    let path = place.at("bare.hlive");
    let mut builder = sample(ByteOrder::Little, WordSize::W64);
    builder.options(Options(0)).write(&path).expect("written");
    let [stats, _, dump, ..] = reports(&path).expect("readable");
    assert!(!stats.contains("Actual ") && !stats.contains("\nThreads"));
    assert!(stats.contains("backtrace disabled") && stats.contains("history disabled"));
    assert!(dump.starts_with("0x10000000 : malloc 1 byte, number 0\n"), "{dump}");
}

#[test]
fn no_damage_upsets_a_report() {
    let place = Place::new("no_damage_upsets_a_report");
    let live = place.at("damage.hlive");
    let finished = place.at("damage.hl");
    sample(ByteOrder::Little, WordSize::W64).write(&live).expect("written");
    finish(&Ledger::open(&live).expect("a ledger"), &finished, &[], &mut |_, _| {}).expect("finished");
    for path in [live, finished] {
        let bytes = std::fs::read(&path).expect("read");
        let file = std::fs::OpenOptions::new().write(true).open(&path).expect("opened");
        let mut shown = 0;
        for (at, byte) in bytes.iter().enumerate().filter(|(at, _)| *at < 900 || at % 6 == 0) {
            let flip = [0x01, 0x80, 0xff][at % 7 % 3];
            file.write_all_at(&[byte ^ flip], at as u64).expect("written");
            if let Ok(reports) = reports(&path) {
                shown += 1;
                for report in reports {
                    // Five stacks that go in circles until the limit of 4,096 frames.
                    assert!(report.len() < 5 << 20, "changed at {at}: {} bytes", report.len());
                    assert!(!report.contains('\x1b'), "changed at {at}: an escape sequence");
                }
            }
            file.write_all_at(&[*byte], at as u64).expect("written");
        }
        assert!(shown > 500, "{shown} readable");
        for cut in (0..bytes.len()).rev().step_by(7) {
            file.set_len(cut as u64).expect("cut");
            if let Ok(reports) = reports(&path) {
                assert!(reports.iter().all(|report| !report.is_empty()));
            }
        }
    }
}
