//! Estimates against the truth. The victim `sample_mix` allocates known numbers of blocks, one size at each call site;
//! its `expect:` lines hold the same numbers against a full ledger.
//!
//! A figure that is compared is a mean over several runs, whose spread is known: a block of `size` bytes is a sample with
//! the probability `p = 1 − e^(−size / interval)` and then stands for `1 / p` blocks, so its share in the variance is
//! `1 / p − 1`. Bounds are at six standard errors, which is passed by chance in 2 of 10^9 comparisons, and there are some
//! 250 here. Few samples are not spread like many: of the 2 that are expected of a row of small blocks, 10 come once in 45,000
//! times. So bounds have room for six samples more, the less the surer it is that each block is one.

use std::collections::HashMap;
use std::path::Path;

use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::system_library;
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check, skip, victim};

use super::check_books;

/// Where blocks are allocated that stay: function, blocks, bytes of each.
const LIVE: &[(&str, u64, u64)] = &[
    ("one_byte", 10_000, 1),
    ("zero_bytes", 10_000, 0),
    ("small", 40_000, 24),
    ("cleared", 12_000, 200),
    ("posix_aligned", 6_000, 500),
    ("c11_aligned", 6_000, 512),
    ("old_aligned", 6_000, 600),
    ("whole_pages", 400, 3_000),
    ("more_pages", 400, 3_000),
    ("from_nothing", 12_000, 150),
    ("grown", 5_000, 900),
    ("shrunk", 5_000, 300),
    ("items", 12_000, 200),
    ("more_items", 5_000, 800),
    ("by_new", 12_000, 150),
    ("by_new_array", 8_000, 250),
    ("by_new_nothrow", 8_000, 260),
    ("by_new_aligned", 8_000, 320),
    ("pages", 1_000, 4_096),
    ("large", 40, 100_000),
    ("huge", 5, 4 << 20),
    ("in_thread", 12_000, 170),
    ("in_short_thread", 8_000, 220),
    ("handed_over", 12_000, 130),
];

/// What `churn` allocates and frees: allocation function, then blocks and bytes of each.
const CHURN: &[(&str, &[(u64, u64)])] = &[
    ("malloc", &[(200_000, 48)]),
    ("calloc", &[(60_000, 120)]),
    ("realloc", &[(20_000, 100), (20_000, 600), (20_000, 60)]),
    ("reallocarray", &[(30_000, 300)]),
    ("posix_memalign", &[(30_000, 256)]),
];

/// Blocks of the C and C++ libraries themselves, about which the tables say nothing.
const OTHERS_MAX: f64 = 8.0;

/// Standard errors that an estimate may be off.
const ERRORS_MAX: f64 = 6.0;

/// How probable it is that a block is a sample.
fn chance(bytes: u64, interval: u64) -> f64 {
    -(-(bytes.max(1) as f64) / interval as f64).exp_m1()
}

/// The standard error of an estimated number of blocks, as a mean over so many runs.
fn spread(blocks: u64, bytes: u64, interval: u64, runs: u64) -> f64 {
    let hit = chance(bytes, interval);
    // A weight is 1 / p, rounded up or down by its record's number. Numbers are the same in each run.
    let fraction = (1.0 / hit).fract();
    (blocks as f64 * ((1.0 / hit - 1.0) / runs as f64 + hit * fraction * (1.0 - fraction))).sqrt()
}

/// An estimate, its mean over runs, beside the truth.
struct Compared<'a> {
    what: &'a str,
    truth: f64,
    sum: f64,
    error: f64,
    /// What it may be off beside that.
    slack: f64,
}

/// Holds estimates against the truth. At least `sharp` of them must be so exact that a quarter more or less would show.
fn compare(all: &[Compared], runs: u64, sharp: usize) -> Result {
    let mut found = 0;
    for Compared { what, truth, sum, error, slack } in all {
        let (mean, bound) = (sum / runs as f64, ERRORS_MAX * error + slack);
        println!("{what}: {mean:.1} of {truth}, {:+.2} standard errors", (mean - truth) / error.max(1e-9));
        check!(
            (mean - truth).abs() <= bound + 1e-6,
            "{what}: the estimates' mean over {runs} runs is {mean:.1}, not {truth} ± {bound:.1}"
        );
        found += usize::from(bound < truth / 4.0);
    }
    check!(found >= sharp, "only {found} of {} comparisons are sharp; {sharp} should be", all.len());
    Ok(())
}

/// Live blocks by the function of [`LIVE`] that is on their stacks.
fn live_by_function(ledger: &Path) -> Result<HashMap<&'static str, u64>> {
    let lines = read("stats", ledger, &["--top", "1000"])?;
    let mut found = HashMap::new();
    for site in lines[1]["top_sites"].as_array().into_iter().flatten() {
        let names = site["frames"].as_array().into_iter().flatten().filter_map(|frame| frame["function"].as_str());
        let row = names.filter_map(|name| LIVE.iter().find(|row| row.0 == name)).next();
        let Some((function, _, size)) = row else { continue };
        let (blocks, bytes) = (site["blocks"].as_u64().unwrap_or(0), site["bytes"].as_u64().unwrap_or(0));
        check!(bytes == blocks * size, "{function}: {blocks} blocks of {size} bytes are said to be {bytes} bytes");
        *found.entry(*function).or_default() += blocks;
    }
    Ok(found)
}

/// Live blocks at each call site, from so many runs over an allocator (`None`: glibc's).
fn live_estimates(interval: u64, runs: u64, over: Option<&Path>, sharp: usize) -> Result {
    let program = victim::named("sample_mix")?.build()?;
    let compared = |&(what, blocks, bytes)| Compared {
        what,
        truth: blocks as f64,
        sum: 0.0,
        error: spread(blocks, bytes, interval, runs),
        slack: ERRORS_MAX * (1.0 - chance(bytes, interval)) / (chance(bytes, interval) * runs as f64),
    };
    let mut all: Vec<Compared> = LIVE.iter().map(compared).collect();
    let bytes: u64 = LIVE.iter().map(|(_, blocks, bytes)| blocks * bytes).sum();
    let mut worst: f64 = 0.0;
    for _ in 0..runs {
        let scratch = Scratch::new();
        let mut command = under_run(&scratch, "x", &["--sample", &interval.to_string()], &program, &[]);
        if let Some(library) = over {
            command.env("LD_PRELOAD", library);
        }
        run_cleanly(&scratch, &mut command)?.good()?;
        let ledger = scratch.path("x.hl");
        let stats = Stats::of(&ledger)?;
        // Inside of jemalloc's operators the frame pointer is something else.
        check_books(&stats, &["stacks_broken".into()], interval)?;
        let found = live_by_function(&ledger)?;
        all.iter_mut().for_each(|row| row.sum += found.get(row.what).copied().unwrap_or(0) as f64);
        // The error that is shown beside the bytes in use is one.
        let error = stats.0["sampled"]["live_bytes_error"].as_f64().ok_or("no standard error is given")?;
        worst = worst.max((stats.number("live_bytes") as f64 - bytes as f64).abs() / error);
    }
    check!(worst < ERRORS_MAX + 1.0, "live bytes are {worst:.1} of their standard errors beside the truth");
    compare(&all, runs, sharp)
}

#[test]
fn live_blocks_at_4_kib() -> Result {
    live_estimates(4 << 10, 8, None, LIVE.len() - 2)
}

#[test]
fn live_blocks_at_64_kib() -> Result {
    live_estimates(64 << 10, 12, None, 5)
}

#[test]
fn live_blocks_at_64_bytes() -> Result {
    live_estimates(64, 6, None, LIVE.len())
}

#[test]
fn live_blocks_over_jemalloc_and_tcmalloc() -> Result {
    for name in ["libjemalloc.so.2", "libtcmalloc.so.4"] {
        match system_library(name) {
            Some(library) => live_estimates(2 << 10, 3, Some(&library), LIVE.len() - 2)
                .map_err(|problem| format!("{name}: {problem}"))?,
            None => skip(name, "it is not installed"),
        }
    }
    Ok(())
}

/// At one byte between samples a block of 40 bytes is missed in 1 of 10^17 cases: sampling is then as good as none.
#[test]
fn at_one_byte_every_block_is_entered() -> Result {
    let (scratch, program) = (Scratch::new(), victim::named("sample_mix")?.build()?);
    let stats = super::sampled(&scratch, "1", &program, &[])?;
    check_books(&stats, &[], 1)?;
    let found = live_by_function(&scratch.path("x.hl"))?;
    for (function, blocks, bytes) in LIVE {
        let (estimate, error) = (found.get(function).copied().unwrap_or(0), spread(*blocks, *bytes, 1, 1));
        let bound = if *bytes >= 40 { 0.0 } else { ERRORS_MAX * error };
        check!(
            estimate.abs_diff(*blocks) as f64 <= bound,
            "{function}: {estimate} of {blocks} blocks, which is more than {bound:.1} off"
        );
    }
    Ok(())
}

/// A full ledger of `churn` says what [`CHURN`] says.
fn check_the_table(program: &Path) -> Result {
    let scratch = Scratch::new();
    run_cleanly(&scratch, &mut under_run(&scratch, "full", &[], program, &["churn".to_owned()]))?.good()?;
    let calls = Stats::of(scratch.path("full.hl"))?.calls("allocated_by");
    for (kind, blocks) in CHURN {
        let (truth, found) = (blocks.iter().map(|row| row.0).sum::<u64>(), calls.get(*kind).copied().unwrap_or(0));
        check!((truth..=truth + OTHERS_MAX as u64).contains(&found), "{found} calls of {kind}, not {truth}");
    }
    Ok(())
}

/// Everything that was allocated, function by function, and that it was freed again.
#[test]
fn what_is_freed_again() -> Result {
    const RUNS: u64 = 6;
    let program = victim::named("sample_mix")?.build()?;
    check_the_table(&program)?;
    for interval in [256, 4 << 10] {
        let variance = |blocks: &[(u64, u64)]| -> f64 {
            blocks.iter().map(|(blocks, bytes)| spread(*blocks, *bytes, interval, RUNS).powi(2)).sum()
        };
        // The libraries' own few blocks are in the totals too, each for as many as its weight says.
        let slack = OTHERS_MAX * (1.0 + interval as f64 / 1024.0);
        let row = |what, blocks: &[(u64, u64)]| Compared {
            what,
            truth: blocks.iter().map(|(blocks, _)| *blocks as f64).sum(),
            sum: 0.0,
            error: variance(blocks).sqrt(),
            slack,
        };
        let everything: Vec<(u64, u64)> = CHURN.iter().flat_map(|(_, blocks)| blocks.iter().copied()).collect();
        let mut all: Vec<Compared> = CHURN.iter().map(|(kind, blocks)| row(kind, blocks)).collect();
        all.extend([row("allocations", &everything), row("frees", &everything)]);
        for _ in 0..RUNS {
            let scratch = Scratch::new();
            let stats = super::sampled(&scratch, &interval.to_string(), &program, &["churn"])?;
            check_books(&stats, &[], interval)?;
            let calls = stats.calls("allocated_by");
            for row in &mut all {
                let figure = calls.get(row.what).copied().unwrap_or_else(|| stats.number(row.what));
                row.sum += figure as f64;
            }
        }
        compare(&all, RUNS, all.len()).map_err(|problem| format!("at {interval}: {problem}"))?;
    }
    Ok(())
}
