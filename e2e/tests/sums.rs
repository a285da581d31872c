//! Sums by call site over the whole run, and what lived at the peak, against programs that know both, and against a library that counts
//! what is asked of the next allocator.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher;
use std::path::Path;
use std::time::Duration;

use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::process::run;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::{by_hand_with, killed, recover, run_cleanly, under_run};
use heapledger_e2e::{Result, check, victim};
use serde_json::Value;

/// What is known of a call site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Figures {
    peak_bytes: u64,
    peak_blocks: u64,
    bytes: u64,
    blocks: u64,
    temporary: u64,
}

const KEYS: [&str; 5] = ["peak_bytes", "peak_blocks", "allocated_bytes", "allocated_blocks", "temporary_blocks"];

impl Figures {
    fn of(figures: [u64; 5]) -> Figures {
        let [peak_bytes, peak_blocks, bytes, blocks, temporary] = figures;
        Figures { peak_bytes, peak_blocks, bytes, blocks, temporary }
    }

    fn all(self) -> [u64; 5] {
        [self.peak_bytes, self.peak_blocks, self.bytes, self.blocks, self.temporary]
    }
}

/// What a ledger says of each function `site_N`, and the header and the root of its tree.
fn sites(ledger: &Path) -> Result<(BTreeMap<u64, Figures>, Value, Value)> {
    let lines = read("tree", ledger, &[])?;
    let mut sites: BTreeMap<u64, [u64; 5]> = BTreeMap::new();
    for node in lines.iter().filter(|line| line["type"] == "node") {
        let function = node["function"].as_str().and_then(|name| name.strip_prefix("site_"));
        if let Some(number) = function.and_then(|number| number.parse().ok()) {
            let sums = sites.entry(number).or_default();
            for (sum, key) in sums.iter_mut().zip(KEYS) {
                *sum += node[key].as_u64().ok_or("a figure is missing")?;
            }
        }
    }
    let sites = sites.into_iter().map(|(site, figures)| (site, Figures::of(figures))).collect();
    Ok((sites, lines[0].clone(), lines[1].clone()))
}

/// What the victim says.
fn told(stdout: &[u8]) -> Result<BTreeMap<u64, Figures>> {
    let text = String::from_utf8_lossy(stdout);
    let mut sites = BTreeMap::new();
    for line in text.lines() {
        let numbers: Vec<u64> = line.split(' ').map_while(|word| word.parse().ok()).collect();
        let [site, figures @ ..] = numbers.as_slice() else { return Err(format!("the victim says {line}")) };
        sites.insert(*site, Figures::of(figures.try_into().map_err(|_| format!("the victim says {line}"))?));
    }
    check!(sites.len() == 8, "the victim says {text}");
    Ok(sites)
}

/// Header, tree and totals of a ledger say the same.
fn agrees_with_header(stats: &Stats, root: &Value, slack: u64) -> Result {
    for (figure, key) in [("allocated_blocks", "allocations"), ("freed_blocks", "frees")] {
        let (summed, counted) = (root[figure].as_u64().unwrap_or(0), stats.number(key));
        check!(summed.abs_diff(counted) <= slack, "{figure}: {summed} by call site, {counted} counted");
    }
    for (figure, key) in [("allocated_bytes", "bytes_allocated"), ("freed_bytes", "bytes_freed")] {
        let (summed, counted) = (root[figure].as_u64().unwrap_or(0), stats.number(key));
        check!(slack > 0 || summed == counted, "{figure}: {summed} by call site, {counted} counted");
    }
    Ok(())
}

/// Runs the victim so, and compares.
fn planted(options: &[&str], threads: u64, steps: u64, seed: u64) -> Result {
    let what = format!("{threads} threads, {steps} steps, seed {seed}, {options:?}");
    let scratch = Scratch::new();
    let program = victim::named("planted_peak")?.build()?;
    let words: Vec<String> = [threads, steps, seed].iter().map(u64::to_string).collect();
    let ran = run_cleanly(&scratch, &mut under_run(&scratch, "x", options, &program, &words))?.good()?;
    let (expected, stats) = (told(&ran.stdout)?, Stats::of(scratch.path("x.hl"))?);
    let (found, header, root) = sites(&scratch.path("x.hl"))?;
    agrees_with_header(&stats, &root, 0).map_err(|error| format!("{what}: {error}"))?;
    check!(header["whole_run"] == true, "{what}: {header}");
    let error = header["peak_error_bytes"].as_u64().ok_or("no peak")?;
    check!(threads > 1 || error == 0, "{what}: {error} bytes of error with one thread");
    check!(error == stats.number("peak_error_bytes"), "{what}: {header}");
    let peak = root["peak_bytes"].as_u64().unwrap_or(0);
    let off = peak.abs_diff(stats.number("peak_bytes"));
    check!(off <= error, "{what}: {off} of {peak} bytes off, and not {error} at most");
    let mut differing = 0;
    for (site, expected) in &expected {
        let found = found.get(site).copied().unwrap_or_default();
        let [.., bytes, blocks, temporary] = found.all();
        let exact = [expected.bytes, expected.blocks, expected.temporary];
        check!([bytes, blocks, temporary] == exact, "{what}: site {site}: {found:?}, it was {expected:?}");
        let off = found.peak_bytes.abs_diff(expected.peak_bytes);
        check!(off <= error, "{what}: site {site}: {found:?}, it was {expected:?}, and no more than {error} bytes off");
        differing += off;
        check!(threads > 1 || found == *expected, "{what}: site {site}: {found:?}, it was {expected:?}");
    }
    check!(differing <= error, "{what}: {differing} bytes off in all, and not {error} at most");
    Ok(())
}

#[test]
fn one_thread_is_exact() -> Result {
    for (steps, seed) in [(10, 1), (300, 2), (2000, 3), (20_000, 4), (150_000, 5)] {
        planted(&[], 1, steps, seed)?;
    }
    Ok(())
}

/// What several threads held at the peak is known to so many bytes: whoever shows sums of it says so, and what `stats` says of it.
#[test]
fn reports_of_the_peak_say_how_far_it_may_be_off() -> Result {
    let scratch = Scratch::new();
    let (program, ledger) = (victim::named("planted_peak")?.build()?, scratch.path("x.hl"));
    let words = ["4", "5000", "31"].map(str::to_owned);
    run_cleanly(&scratch, &mut under_run(&scratch, "x", &[], &program, &words))?.good()?;
    let stats = Stats::of(&ledger)?;
    let (peak, error) = (stats.number("peak_bytes"), stats.number("peak_error_bytes"));
    check!(error != 0 && error < peak, "{peak} ± {error}: four threads keep something to themselves");
    let (_, _, root) = sites(&ledger)?;
    let differs = root["peak_bytes"] != peak;
    for words in [&["tree", "--at", "peak"][..], &["dump", "--group-by", "fn", "--at", "peak"], &["flame"]] {
        let header = read(words[0], &ledger, &words[1..])?[0].clone();
        check!(header["peak_error_bytes"] == error && header["stats_peak_bytes"] == peak, "{words:?}: {header}");
        if words[0] != "flame" {
            let text = run(command(heapledger()).args(words).arg(&ledger))?.good()?.out();
            check!(text.contains(" ± ") && text.contains("In stats it is ") == differs, "{words:?}: {text}");
        }
    }
    let before = &read("diff", &ledger, &["--at", "peak"])?[1]["before"];
    check!(before["peak_error_bytes"] == error && before["bytes"] == root["peak_bytes"], "{before}");
    Ok(())
}

/// The commands that people ask: who held it at the peak, who allocates most, what is freed at once.
#[test]
fn commands_answer_of_the_peak_and_of_the_whole_run() -> Result {
    let scratch = Scratch::new();
    let (program, ledger) = (victim::named("planted_peak")?.build()?, scratch.path("x.hl"));
    let words = ["1", "5000", "31"].map(str::to_owned);
    let ran = run_cleanly(&scratch, &mut under_run(&scratch, "x", &["--history", "100"], &program, &words))?.good()?;
    let expected = told(&ran.stdout)?;
    let by_function = |more: &[&str]| -> Result<Vec<(u64, [u64; 2])>> {
        let lines = read("dump", &ledger, &[&["--group-by", "fn"], more].concat())?;
        let groups = lines.iter().filter(|line| line["type"] == "group");
        let site = |line: &Value| line["keys"]["fn"].as_str()?.strip_prefix("site_")?.parse().ok();
        let figures = |line: &Value| ["bytes", "blocks"].map(|key| line[key].as_u64().unwrap_or(0));
        Ok(groups.filter_map(|line| Some((site(line)?, figures(line)))).collect())
    };
    for (more, figures) in [
        (&["--at", "peak"][..], (|site: Figures| [site.peak_bytes, site.peak_blocks]) as fn(Figures) -> [u64; 2]),
        (&["--by", "allocated"], |site| [site.bytes, site.blocks]),
        (&["--by", "calls"], |site| [site.bytes, site.blocks]),
    ] {
        let found = by_function(more)?;
        let by_site: BTreeMap<u64, [u64; 2]> = found.iter().copied().collect();
        for (site, expected) in &expected {
            let (found, expected) = (by_site.get(site).copied().unwrap_or_default(), figures(*expected));
            check!(found == expected, "{more:?}: site {site}: {found:?}, it was {expected:?}");
        }
        let first = |figures: &[u64; 2]| if more.contains(&"calls") { figures[1] } else { figures[0] };
        check!(found.is_sorted_by(|(_, one), (_, other)| first(one) >= first(other)), "{more:?}: {found:?}");
    }
    let temporary = by_function(&["--by", "temporary"])?;
    for (site, [_, blocks]) in temporary {
        check!(expected[&site].temporary == blocks, "site {site}: {blocks} temporary, {:?}", expected[&site]);
    }
    let header = read("tree", &ledger, &["--at", "peak"])?[0].clone();
    check!(header["by"] == "peak_bytes", "{header}");
    let say = |words: &[&str]| run(command(heapledger()).args(words).arg(&ledger));
    for words in [
        &["tree", "--at", "peak", "--where", "size > 1"][..],
        &["tree", "--by", "temporary", "--threads"],
        &["tree", "--by", "freed", "--at", "peak"],
        &["dump", "--at", "peak"],
        &["dump", "--group-by", "thread", "--by", "calls"],
        &["dump", "--group-by", "fn", "--by", "peak", "--where", "size > 1"],
    ] {
        let ran = say(words)?;
        check!(
            !ran.status.success() && ran.err().lines().count() == 1 && ran.stdout.is_empty(),
            "{words:?}: {}",
            ran.err()
        );
    }
    let stats = read("stats", &ledger, &["--at", "peak", "--top", "0"])?;
    let bytes = stats[1]["top_sites"].as_array().into_iter().flatten().map(|site| site["bytes"].as_u64().unwrap_or(0));
    check!(stats[1]["top_sites_at_peak"] == true && bytes.sum::<u64>() == stats[1]["peak_bytes"], "{}", stats[1]);
    let checked = say(&["check", "--max-peak", "1"])?;
    check!(checked.out().contains("at the peak") && checked.out().contains("site_"), "{}", checked.out());
    Ok(())
}

/// Where frees are not in the ring, each is added by itself; where it goes round, before it is overwritten.
#[test]
fn however_long_the_history_is() -> Result {
    for entries in ["0", "64", "1000", "1000000"] {
        planted(&["--history", entries], 1, 30_000, 6)?;
        planted(&["--history", entries], 6, 2000, 7)?;
    }
    Ok(())
}

#[test]
fn several_threads_are_within_the_error() -> Result {
    // With those of one thread, above, these are twenty.
    for (threads, steps, seed) in [
        (2, 3000, 8),
        (2, 100, 14),
        (3, 20, 9),
        (3, 4000, 15),
        (4, 5000, 10),
        (5, 700, 16),
        (6, 2500, 17),
        (8, 1500, 11),
        (9, 60, 18),
        (12, 900, 19),
        (16, 600, 20),
        (17, 800, 12),
        (24, 300, 23),
        (31, 400, 24),
        (32, 500, 13),
    ] {
        planted(&[], threads, steps, seed)?;
    }
    Ok(())
}

/// Each call site asks for sizes of its own, which the library behind the recorder counts.
#[test]
fn a_counting_library_next_in_line_agrees() -> Result {
    let (program, library) = (victim::named("planted_peak")?.build()?, victim::named("sizes")?.build()?);
    for (threads, steps, seed) in [(1, 40_000, 21), (5, 4000, 22)] {
        let scratch = Scratch::new();
        let words: Vec<String> = [threads, steps, seed].iter().map(u64::to_string).collect();
        let counts = scratch.path("sizes");
        let mut command = by_hand_with(&scratch, "history=65536", &[&library], &program, &words);
        run(command.env("SIZES_OUT", &counts))?.good()?;
        let ledgers = recover(&scratch)?;
        let [ledger] = ledgers.as_slice() else { return Err(format!("{} ledgers", ledgers.len())) };
        let (found, ..) = sites(ledger)?;
        let bytes = fs::read(&counts).map_err(|error| error.to_string())?;
        let numbers = bytes.chunks_exact(8).map(|number| u64::from_ne_bytes(number.try_into().unwrap_or_default()));
        // As `size_of` in the victim has it. Sizes of its huge blocks are beyond the table; and libc's own are not at these sites.
        let mut by_size: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for (size, count) in (0..).zip(numbers).filter(|(size, count)| *size >= 8 && *count != 0) {
            let sums = by_size.entry(size % 8).or_default();
            *sums = (sums.0 + count, sums.1 + size * count);
        }
        for (site, figures) in found {
            let (blocks, counted_bytes) = by_size.get(&site).copied().unwrap_or_default();
            // The huge ones of the victim.
            let huge = if threads == 1 { 0 } else { 3 * 3 * threads };
            let own = figures.blocks.abs_diff(blocks);
            check!(
                own <= huge + LIBC_BLOCKS,
                "site {site}: {blocks} were counted, {} are in the ledger",
                figures.blocks
            );
            let is_same = figures.blocks == blocks && figures.bytes == counted_bytes;
            check!(site == 0 || threads > 1 || is_same, "site {site}: {blocks}, {counted_bytes}: {figures:?}");
        }
    }
    Ok(())
}

/// Blocks of libc's own whose size is that of a site: buffers, of sizes that 8 divides, and those of the loader.
const LIBC_BLOCKS: u64 = 40;

/// Kills a program in the middle of what it does.
fn kill_in_the_middle(
    options: &[&str],
    program: &str,
    words: &[&str],
    after: Duration,
) -> Result<(Stats, Value, Value)> {
    let scratch = Scratch::new();
    let ledger = killed(&scratch, options, program, words, after)?;
    let (_, header, root) = sites(&ledger)?;
    Ok((Stats::of(&ledger)?, header, root))
}

/// A killed program's sums are off by the one block that each thread may have been at.
#[test]
fn sums_outlive_a_kill_at_any_moment() -> Result {
    let cases: [(&str, &[&str], u64); 3] = [
        ("bench_paths", &["burst", "20", "1000000000"], 1),
        ("bench_threads", &["4", "1000000000", "8"], 5),
        ("producer_consumer", &["1000000000"], 3),
    ];
    let mut frees = 0;
    for round in 0..8u64 {
        for (program, words, threads) in cases {
            let options: &[&str] = if round % 4 == 3 { &["--history", "0"] } else { &[] };
            // Any moment from when it is at work for certain, another one each time.
            let chance = RandomState::new().hash_one((round, program));
            let after = Duration::from_micros(60_000 + chance % 190_000);
            let (stats, header, root) = kill_in_the_middle(options, program, words, after)?;
            frees += stats.number("frees");
            // A block that is summed and not counted, or counted and not summed; and a record that is neither live nor freed.
            agrees_with_header(&stats, &root, 2 * threads)
                .map_err(|error| format!("{program}, after {after:?}: {error}"))?;
            check!(header["stats_peak_bytes"] == stats.number("peak_bytes"), "{program}, after {after:?}: {header}");
            check!(header["whole_run"] == true, "{program}, after {after:?}: {header}");
            let (at_peak, peak) = (root["peak_bytes"].as_u64().unwrap_or(0), stats.number("peak_bytes"));
            let error = stats.number("peak_error_bytes");
            check!(
                at_peak.abs_diff(peak) <= error + 65_536,
                "{program}, after {after:?}: {at_peak} at the peak, which was {peak} ± {error}"
            );
        }
    }
    check!(frees > 100_000, "{frees} frees in all: nobody was at work");
    Ok(())
}
