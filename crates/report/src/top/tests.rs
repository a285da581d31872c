//! Looks as text, in several widths.

use heapledger_analysis::watch::RowFigure;

use super::*;
use crate::form::units::span;

fn held(blocks: u64, bytes: u64) -> Amount {
    Amount { samples: blocks, blocks, bytes }
}

fn look() -> Look {
    Look {
        program: "redis-server".to_owned(),
        pid: Some(4711),
        uptime_ns: Some(185_000_000_000),
        live_bytes: 12 << 20,
        live_blocks: 1234,
        peak_bytes: 13 << 20,
        bytes_per_second: Some(-2048.0),
        allocations_per_second: Some(99.6),
        frees_per_second: Some(0.2),
        group: "function",
        rows_total: 3,
        losses: vec!["1 block was not entered: there was no room for another record.".to_owned()],
        ..Look::default()
    }
}

fn rows() -> Vec<LookRow> {
    vec![
        LookRow {
            label: "zmalloc_usable".to_owned(),
            live: held(1000, 11 << 20),
            young: held(2, 100),
            bytes_per_second: Some(1536.0),
            growth_bytes: -70,
            oldest_ns: Some(61_000_000_000),
            ..LookRow::default()
        },
        LookRow { label: "x\x1b[31m".repeat(9), live: held(20_000_000, 5), ..LookRow::default() },
    ]
}

fn report<'a>(look: &'a Look, rows: &'a [LookRow]) -> LookReport<'a> {
    let (paint, seen) = (Paint::default(), Seen::default());
    LookReport { ledger: "4711", sampled: None, look, rows, columns: &[], paint, in_flight: 3, seen }
}

fn text(look: &Look, rows: &[LookRow]) -> String {
    let mut out = Vec::new();
    let columns =
        [RowFigure::Bytes, RowFigure::Blocks, RowFigure::Rate, RowFigure::Growth, RowFigure::Oldest].map(LookColumn);
    let paint = Paint { columns: 80, ..Paint::default() };
    LookReport { columns: &columns, paint, ..report(look, rows) }.write(&Form::Text, &mut out).expect("memory");
    String::from_utf8(out).expect("text")
}

#[test]
fn a_look_as_text() {
    assert_eq!(
        text(&look(), &rows()),
        "\
redis-server, pid 4711: running, after 3m05s
live 12.0 MiB in 1,234 blocks, peak 13.0 MiB, growth -2.00 KiB/s
100 allocations/s, 0 frees/s
not seen: 1 block was not entered: there was no room for another record.
    LIVE     BLOCKS   GROWTH/s      GROWN  OLDEST  FUNCTION
11.0 MiB      1,000  +1.50 KiB      -70 B   1m01s  zmalloc_usable
     5 B     20.0 M          -        0 B       -  x\\u{1b}[31mx\\u{1b}[31mx\\u{1b…
                                                   and 1 more
"
    );
}

#[test]
fn with_a_mark_only_what_came_later_is_shown_and_estimates_are_marked() {
    let marked = Look { mark_age_ns: Some(1), figures: Figures { estimated: true, ..Figures::default() }, ..look() };
    let text = text(&marked, &rows()[..1]);
    assert!(text.contains("\n      NEW ") && text.contains("\n   ~100 B         ~2 "), "{text}");
    assert!(text.contains("live ~12.0 MiB in ~1,234 blocks") && text.contains("~100 allocations/s"), "{text}");
}

#[test]
fn exact_bytes_have_room() {
    let exact = Look { figures: Figures { exact_bytes: true, ..Figures::default() }, ..look() };
    let row = LookRow {
        live: Amount { samples: 0, blocks: 3, bytes: 1_234_567_890 },
        growth_bytes: -2048,
        ..rows()[0].clone()
    };
    let text = text(&exact, &[row]);
    assert!(text.contains("live 12,582,912 B in 1,234 blocks"), "{text}");
    assert!(text.contains(" 1,234,567,890 ") && text.contains(" -2,048 ") && !text.contains("iB"), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let (heading, row) = (lines[lines.len() - 2], lines[lines.len() - 1]);
    assert_eq!(heading.find("LIVE").map(|at| at + 4), row.find("1,234,567,890").map(|at| at + 13), "{text}");
}

#[test]
fn figures_are_short() {
    let figures = Figures::default();
    let (short_signed, short_rate) = (|number| figures.short_signed(number), |rate| figures.short_rate(rate));
    for (number, text) in [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1,000 B"),
        (1024, "1.00 KiB"),
        (1_023_488, "1000 KiB"),
        (12_900_000, "12.3 MiB"),
        (999 << 20, "999 MiB"),
        (u64::MAX, "16.0 EiB"),
    ] {
        assert_eq!(figures.short(number), text);
        assert!(figures.short(number).len() <= LookColumn(RowFigure::Bytes).width(figures));
    }
    assert_eq!(
        (short_signed(-5), short_signed(0), short_signed(2048)),
        ("-5 B".into(), "0 B".into(), "+2.00 KiB".into())
    );
    assert_eq!(
        (short_rate(-0.3), short_rate(f64::NAN), short_rate(f64::INFINITY)),
        ("0 B".into(), "0 B".into(), "+8.00 EiB".into())
    );
    assert_eq!((figures.rate(0.2), figures.rate(1536.0)), ("0 B/s".to_owned(), "+1.50 KiB/s".to_owned()));
    for ns in [
        0,
        9_000_000,
        123_000_000,
        9_900_000_000,
        59_000_000_000,
        3_599_000_000_000,
        86_399_000_000_000,
        34_000_000_000_000_000,
    ] {
        assert!(span(ns).len() <= LookColumn(RowFigure::Oldest).width(figures), "{}", span(ns));
    }
    assert_eq!(
        short_count(9_999_999).len(),
        LookColumn(RowFigure::Blocks).width(figures) - 1,
        "there is room for a tilde"
    );
}

#[test]
fn a_look_as_json() {
    let mut out = Vec::new();
    report(&look(), &rows()).write(&Form::Json, &mut out).expect("memory");
    let lines: Vec<serde_json::Value> =
        String::from_utf8(out).expect("text").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(
        (lines.len(), &lines[0]["command"], &lines[2]["shown"], &lines[2]["in_flight"]),
        (3, &"top".into(), &1.into(), &3.into())
    );
    assert_eq!(
        (&lines[1]["type"], &lines[1]["state"], &lines[1]["bytes_per_second"]),
        (&"look".into(), &"running".into(), &(-2048.0).into())
    );
    let row = &lines[1]["rows"][0];
    assert_eq!(
        (&row["live_blocks"], &row["growth_bytes"], &row["oldest_age_ns"]),
        (&1000.into(), &(-70).into(), &61_000_000_000_u64.into())
    );
    assert!(row["young_bytes"].is_null() && row["allocated_bytes"].is_null());
}

#[test]
fn looks_follow_each_other_in_one_output() {
    let both = |form: &Form| {
        let (look, rows, mut out) = (look(), rows(), Vec::new());
        let mut report = report(&look, &rows[..1]);
        for number in [1, 2] {
            report.step(form, number, &mut out).expect("memory");
        }
        report.end(form, 2, &mut out).expect("memory");
        String::from_utf8(out).expect("text")
    };
    let text = both(&Form::Text);
    assert_eq!((text.matches("redis-server").count(), text.matches("\n\nredis-server").count()), (2, 1), "{text}");
    let json = both(&Form::Json);
    let types: Vec<String> = json
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["type"].to_string())
        .collect();
    assert_eq!(types, ["\"header\"", "\"look\"", "\"look\"", "\"end\""]);
    assert!(json.contains("\"shown\":2,"), "{json}");
    assert_eq!(
        both(&Form::Csv),
        "look,time_ns,function,live_bytes,live_blocks,young_bytes,young_blocks,bytes_per_second,blocks_per_second,\
         growth_bytes,growth_blocks,allocated_blocks,allocated_bytes,oldest_age_ns\r\n\
         1,185000000000,zmalloc_usable,11534336,1000,,,1536,,-70,0,,,61000000000\r\n\
         2,185000000000,zmalloc_usable,11534336,1000,,,1536,,-70,0,,,61000000000\r\n"
    );
    let (look, mut out) = (look(), Vec::new());
    assert!(matches!(report(&look, &[]).write(&Form::Ecos, &mut out), Err(ReportError::NoForm("ecos"))));
}
