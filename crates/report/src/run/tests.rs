//! Summaries of made figures.

use heapledger_analysis::{HeapTimeline, TimelinePoint};

use super::*;

fn summary<'a>(figures: &'a RunFigures, ledger: &'a RunLedger) -> RunSummary<'a> {
    let (end, span) = (ProgramEnd::Status(0), Duration::from_millis(1240));
    RunSummary { name: "jq", end, span, figures, ledger, earlier: &[], children: 0, paint: Paint::default() }
}

fn shown(end: ProgramEnd, figures: &RunFigures, children: u64) -> String {
    let ledger = RunLedger { path: "heapledger.jq.42.hl".into(), bytes: 1 << 20 };
    RunSummary { end, children, ..summary(figures, &ledger) }.to_string()
}

#[test]
fn the_summary_is_calm() {
    let site = |name: &str| RunSite { bytes: 2048, blocks: 3, name: name.into(), is_least: false };
    let figures = RunFigures {
        allocations: 1_234_567,
        frees: 1_234_560,
        bytes_allocated: 45 << 20,
        peak_bytes: 12 << 20,
        peak_blocks: 45_678,
        peak_ns: Some(980_000_000),
        live_blocks: 7,
        live_bytes: 4300,
        sites: RunSites {
            live: vec![site("jv_mem_alloc (jv_alloc.c:130) < jvp_string_alloc < jv_string_sized"), site("main")],
            peak: vec![RunSite { bytes: 8 << 20, blocks: 1, is_least: true, ..site("grow (jv.c:7) < main") }],
            calls: vec![RunSite { blocks: 1_000_000, ..site("jv_string (jv.c:9)") }],
            temporary: vec![RunSite { blocks: 900_000, ..site("jv_string (jv.c:9)") }],
            temporary_blocks: 987_654,
            has_peak: true,
            without_stacks: false,
            names: vec!["To see more: `apt install jq-dbgsym`.".into()],
        },
        losses: vec!["12 stacks were cut at the depth limit.".into()],
        ..RunFigures::default()
    };
    let text = shown(ProgramEnd::Status(0), &figures, 2);
    let wanted = "\
heapledger: jq ended with status 0 after 1.24 s
  allocated    1,234,567 blocks, 45.0 MiB in all; 1,234,560 freed
  most calls   1,000,000 (81.0%) jv_string (jv.c:9)
  temporary    987,654 (80.0%) freed by their thread's next event; most by jv_string (jv.c:9)
  peak         12.0 MiB in 45,678 blocks, after 980 ms; held by:
    ≥ 8.00 MiB in 1 block        grow (jv.c:7) < main
  live at end  4.20 KiB in 7 blocks; the biggest call sites:
      2.00 KiB in 3 blocks       jv_mem_alloc (jv_alloc.c:130) < jvp_string_alloc < jv_string_sized
      2.00 KiB in 3 blocks       main
  incomplete   12 stacks were cut at the depth limit.
  names        To see more: `apt install jq-dbgsym`.
  children     2 child processes were not watched; `heapledger run --children` records them, too
  ledger       heapledger.jq.42.hl (1.00 MiB)
  next         heapledger flame --at peak heapledger.jq.42.hl
";
    assert_eq!(text, wanted);
    let sites = RunSites { has_peak: true, without_stacks: true, ..RunSites::default() };
    let stackless = RunFigures { allocations: 7, peak_bytes: 700, sites, ..RunFigures::default() };
    assert!(
        shown(ProgramEnd::Status(0), &stackless, 0).ends_with("  next         heapledger stats heapledger.jq.42.hl\n")
    );
    let nothing = shown(ProgramEnd::Status(0), &RunFigures::default(), 0);
    assert!(nothing.contains("  allocated    nothing\n  ledger "), "{nothing}");
    let told = |errors| shown(ProgramEnd::Status(0), &RunFigures::default().with_errors(errors), 0);
    assert!(told(2).contains("  errors       2 errors were found: heapledger errors "));
    assert!(told(1).contains("  errors       1 error was found: heapledger errors ") && !told(0).contains("errors"));
    assert!(told(1).ends_with("  next         heapledger check --max-errors 0 heapledger.jq.42.hl\n"), "{}", told(1));
    let refused = shown(ProgramEnd::Status(0), &RunFigures { failed_calls: 1, ..RunFigures::default() }, 0);
    assert!(refused.contains("  refused      1 call gave no block: heapledger errors "), "{refused}");
}

#[test]
fn bytes_are_exact_where_that_is_wanted() {
    let ledger = RunLedger { path: "jq.hl".into(), bytes: 1 << 20 };
    let figures = RunFigures {
        bytes_allocated: 45 << 20,
        peak_bytes: 12 << 20,
        peak_error: 4096,
        live_blocks: 7,
        live_bytes: 4300,
        sites: RunSites {
            live: vec![RunSite { bytes: 2048, blocks: 3, name: "main".into(), is_least: false }],
            ..RunSites::default()
        },
        ..RunFigures::default()
    };
    let paint = Paint { exact_bytes: true, ..Paint::default() };
    let text = RunSummary { paint, ..summary(&figures, &ledger) }.to_string();
    assert!(text.contains(", 47,185,920 B in all;"), "{text}");
    assert!(text.contains("peak         12,582,912 B ± 4,096 B in about"), "{text}");
    assert!(text.contains("live at end  4,300 B in 7 blocks"), "{text}");
    assert!(text.contains("\n       2,048 B in 3 blocks "), "{text}");
    assert!(text.contains("jq.hl (1,048,576 B)") && !text.contains("iB"), "{text}");
}

#[test]
fn estimates_are_marked_and_columns_aligned() {
    let site = |bytes, blocks, name: &str| RunSite { bytes, blocks, name: name.into(), is_least: false };
    let figures = RunFigures {
        sampled: Some(Sampled { interval_bytes: 512 << 10, samples: 1_234 }),
        allocations: 1_234_567,
        frees: 1_000_000,
        bytes_allocated: 4500 << 20,
        peak_bytes: 700 << 20,
        peak_blocks: 345_678,
        peak_error: 64 << 10,
        live_blocks: 234_567,
        live_bytes: 650 << 20,
        live_error: 20 << 20,
        sites: RunSites {
            live: vec![site(512 << 20, 1_134_567, "main"), site(1023, 7, "helper < main")],
            ..RunSites::default()
        },
        ..RunFigures::default()
    };
    let text = shown(ProgramEnd::Status(0), &figures, 0);
    let wanted = "\
heapledger: jq ended with status 0 after 1.24 s
  sampled      one block in 512 KiB; figures marked ~ are estimates (Poisson, unbiased), of live blocks from 1,234 samples
  allocated    ~1,234,567 blocks, ~4.39 GiB in all; ~1,000,000 freed
  peak         ~700 MiB in ~345,678 blocks
  live at end  ~650 MiB ± 3.1% in ~234,567 blocks; the biggest call sites:
      ~512 MiB in ~1,134,567 blocks main
      ~1,023 B in ~7 blocks         helper < main
  ledger       heapledger.jq.42.hl (1.00 MiB)
  next         heapledger tree heapledger.jq.42.hl
";
    assert_eq!(text, wanted);
    let nothing = RunFigures { sampled: figures.sampled, ..RunFigures::default() };
    assert!(shown(ProgramEnd::Status(0), &nothing, 0).contains("  live at end  no sample\n"));
}

#[test]
fn a_program_that_did_little_is_told_from_its_children() {
    let text = shown(
        ProgramEnd::Signal { name: "SIGTERM".into(), core_dumped: false },
        &RunFigures { allocations: 9, ..RunFigures::default() },
        1,
    );
    assert!(text.starts_with("heapledger: jq was killed by SIGTERM after"));
    assert!(
        text.contains("1 child process was not watched; this program itself did little; `heapledger run --children`"),
        "{text}"
    );
    assert!(text.contains("live at end  nothing"));
    assert!(!text.contains("incomplete"));
    let text = shown(ProgramEnd::Status(0), &RunFigures { allocations: 9_000, ..RunFigures::default() }, 2);
    assert!(text.contains("  children     2 child processes were not watched; `heapledger run --children`"), "{text}");
}

#[test]
fn lines_fit_a_narrow_terminal() {
    let timeline = (0..50u64).map(|number| TimelinePoint {
        begin_ns: number * 10,
        end_ns: number * 10 + 10,
        looks: 1,
        live_bytes: number << 20,
        highest_bytes: number << 20,
        resident_bytes: Some(90 << 20),
        swapped_bytes: Some(0),
        ..TimelinePoint::default()
    });
    let sparks = RunSparks::of(&HeapTimeline::new(timeline.collect())).expect("long enough");
    let figures = RunFigures {
        allocations: 1_234_567,
        frees: 1_234_560,
        bytes_allocated: 45 << 20,
        peak_bytes: 12 << 20,
        live_blocks: 7,
        failed_calls: 2,
        sites: RunSites { has_peak: true, ..RunSites::default() },
        ..RunFigures::default()
    };
    let figures = figures.with_errors(3).with_sparks(Some(sparks));
    let before = RunLedger { path: "heapledger.python3.14375.hl".into(), bytes: 1 << 20 };
    for (path, next) in [
        ("q.hl", "  next         heapledger check --max-errors 0 q.hl\n"),
        ("jq.42.hl", "  next\n    heapledger check --max-errors 0 jq.42.hl\n"),
        ("heapledger.jq.42.hl", "  next\n    heapledger check --max-errors 0 \\\n    heapledger.jq.42.hl\n"),
    ] {
        let ledger = RunLedger { path: path.into(), bytes: 1 << 20 };
        let paint = Paint { columns: if path == "q.hl" { 52 } else { 44 }, ..Paint::default() };
        let earlier = std::slice::from_ref(&before);
        let text = RunSummary { paint, earlier, children: 2, ..summary(&figures, &ledger) }.to_string();
        assert!(text.ends_with(next), "{text}");
        for line in text.lines().filter(|line| !line.contains(&*before.path)) {
            assert!(line.chars().count() <= paint.columns && !line.ends_with(' '), "{line:?} in {text}");
        }
        let over_time = text.lines().find(|line| line.contains("over time")).expect("a curve");
        assert!(over_time.contains('▁') && over_time.contains("█;"), "{over_time}");
    }
}
