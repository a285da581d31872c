//! What the commands say about a ledger, and whether it agrees with itself.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::tools::{command, heapledger};
use crate::{Result, check, process};

/// One spelling for each kind: the array forms of C++ are written `new[](align)` here.
pub fn kind(name: &str) -> String {
    match name.strip_suffix("[]").and_then(|single| single.split_once('(')) {
        Some((word, rest)) => format!("{word}[]({rest}"),
        None => name.to_owned(),
    }
}

/// Parses output that must be one JSON object a line, with the header first.
pub fn lines(command: &str, text: &[u8]) -> Result<Vec<Value>> {
    let text = std::str::from_utf8(text).map_err(|error| format!("{command}: {error}"))?;
    check!(text.ends_with('\n'), "{command} --json does not end in a line end");
    let parse =
        |line| serde_json::from_str::<Value>(line).map_err(|error| format!("{command} --json: {error}: {line}"));
    let all = text.lines().map(parse).collect::<Result<Vec<Value>>>()?;
    for line in &all {
        check!(line["type"].is_string(), "{command} --json: an object without a type: {line}");
    }
    let first = all.first().ok_or_else(|| format!("{command} --json says nothing"))?;
    check!(first["type"] == "header" && first["schema"] == "heapledger/2", "{command} --json begins with {first}");
    check!(first["command"] == command, "{command} --json says that it is {}", first["command"]);
    check!(all.last().is_some_and(|last| last["type"] == "end"), "{command} --json has no end line");
    with_stacks(all)
}

/// Blocks and events with the frames of their stacks, instead of the lines that tell these once each, before they are
/// needed.
pub fn with_stacks(lines: Vec<Value>) -> Result<Vec<Value>> {
    let mut stacks: HashMap<u64, Value> = HashMap::new();
    let mut all = Vec::new();
    for mut line in lines {
        let site = line["site"].as_u64().unwrap_or(0);
        if line["type"] == "site" {
            check!(stacks.insert(site, line["frames"].take()).is_none(), "the stack {site} is told twice");
            continue;
        }
        if line["type"] == "block" || line["type"] == "event" {
            let frames = stacks.get(&site).ok_or_else(|| format!("no stack was told before {line}"))?;
            line["frames"] = frames.clone();
        }
        all.push(line);
    }
    Ok(all)
}

/// Runs a reading command with `--json`.
pub fn read(name: &str, ledger: impl AsRef<OsStr>, more: &[&str]) -> Result<Vec<Value>> {
    let mut command = command(heapledger());
    command.args([name, "--json"]).args(more).arg(ledger);
    let ran = process::run(&mut command)?.good()?;
    check!(ran.stderr.is_empty(), "{name} --json says on stderr: {}", ran.err());
    lines(name, &ran.stdout)
}

/// What `stats --json` says.
#[derive(Clone, Debug)]
pub struct Stats(pub Value);

impl Stats {
    /// Of a file or of a process.
    pub fn of(ledger: impl AsRef<OsStr>) -> Result<Stats> {
        let lines = read("stats", ledger, &[])?;
        check!(lines.len() == 3, "stats --json has {} lines", lines.len());
        Ok(Stats(lines[1].clone()))
    }

    /// A number; 0 if it is missing.
    pub fn number(&self, key: &str) -> u64 {
        self.0[key].as_u64().unwrap_or(0)
    }

    /// A number that may be negative.
    pub fn signed(&self, key: &str) -> i64 {
        self.0[key].as_i64().unwrap_or(0)
    }

    /// A number of a section, such as `process.pid`.
    pub fn inner(&self, section: &str, key: &str) -> u64 {
        self.0[section][key].as_u64().unwrap_or(0)
    }

    /// Calls by kind, of `allocated_by` or `freed_by`.
    pub fn calls(&self, side: &str) -> HashMap<String, u64> {
        let pairs = self.0[side].as_object().into_iter().flatten();
        pairs.map(|(name, value)| (kind(name), value["calls"].as_u64().unwrap_or(0))).collect()
    }

    /// Losses that are not 0, by name.
    pub fn losses(&self) -> HashMap<String, u64> {
        let pairs = self.0["losses"].as_object().into_iter().flatten();
        pairs
            .map(|(name, value)| (name.clone(), value.as_u64().unwrap_or(0)))
            .filter(|(_, count)| *count != 0)
            .collect()
    }

    /// Blocks that were not entered.
    pub fn not_entered(&self) -> u64 {
        let losses = self.losses();
        ["lost_no_record", "lost_no_index"].iter().filter_map(|name| losses.get(*name)).sum()
    }

    /// Threads that were alive when the process ended: each can have been in the middle of a call, except the one
    /// that ended it.
    pub fn may_be_in_flight(&self) -> u64 {
        let threads = self.0["threads"].as_array().map_or(&[][..], Vec::as_slice);
        let is_there = |state: &Value| state == "alive" || state == "at_exit";
        let alive = threads.iter().filter(|thread| is_there(&thread["state"])).count() as u64;
        let killed = !self.0["process"]["signal"].is_null() || self.0["process"]["exit"].is_null();
        if killed { alive } else { alive.saturating_sub(1) }
    }
}

/// Nothing was found that the program does wrong, but for calls that gave no block, and for these kinds of errors.
pub fn check_nothing_wrong(ledger: impl AsRef<OsStr>, but: &[String]) -> Result {
    const OF_CALLS: [&str; 7] = [
        "failed-allocation",
        "calloc-overflow",
        "reallocarray-overflow",
        "pvalloc-overflow",
        "invalid-allocation-alignment",
        "invalid-aligned-alloc-alignment",
        "invalid-posix-memalign-alignment",
    ];
    let lines = read("errors", ledger, &["--limit", "0"])?;
    let is_wrong = |line: &&Value| {
        line["type"] == "error"
            && line["kind"].as_str().is_none_or(|kind| !OF_CALLS.contains(&kind) && !but.iter().any(|own| own == kind))
    };
    let wrong: Vec<String> = lines.iter().filter(is_wrong).map(|line| format!("{line:#}")).collect();
    check!(
        wrong.is_empty(),
        "{} errors: {}",
        wrong.len(),
        wrong.iter().take(2).cloned().collect::<Vec<_>>().join("\n")
    );
    Ok(())
}

/// Holds the totals of a ledger against each other. Losses are allowed that are named in `losses`.
pub fn check_totals(stats: &Stats, losses: &[String]) -> Result {
    let number = |key| stats.number(key) as i64;
    let slack = stats.may_be_in_flight() as i64;
    let (allocations, frees, live, in_flight) =
        (number("allocations"), number("frees"), number("live_blocks"), number("in_flight"));
    let unaccounted = allocations - frees - live - in_flight;
    check!(
        unaccounted.abs() <= slack,
        "allocations {allocations} - frees {frees} = {}, but {live} blocks are live and {in_flight} calls in flight \
         (of at most {slack})",
        allocations - frees
    );
    check!(in_flight <= slack, "{in_flight} calls in flight, and only {slack} threads that could have been in one");
    check!(unaccounted == stats.signed("unaccounted"), "unaccounted is said to be {}", stats.signed("unaccounted"));

    let sum = |list: &str, key: &str| {
        let values: Vec<&Value> = match &stats.0[list] {
            Value::Array(items) => items.iter().collect(),
            Value::Object(items) => items.values().collect(),
            _ => vec![],
        };
        values.iter().map(|value| value[key].as_u64().unwrap_or(0) as i64).sum::<i64>()
    };
    for (list, key, total) in [
        ("allocated_by", "live_blocks", live),
        ("allocated_by", "live_bytes", number("live_bytes")),
        ("threads", "live_blocks", live),
        ("threads", "live_bytes", number("live_bytes")),
        ("threads", "allocations", allocations),
        ("heaps", "live_blocks", live),
        ("allocated_by", "calls", allocations + stats.not_entered() as i64),
        ("freed_by", "calls", frees + number("unknown_frees")),
    ] {
        let found = sum(list, key);
        // Threads beyond the last row have figures of their own in no row.
        if list == "threads" && key == "allocations" && counter(stats, "threads_unnamed") > 0 {
            continue;
        }
        // Of a thread for which there was no state it is not counted by which function it freed.
        if list == "freed_by" && found < total && stats.losses().contains_key("lost_no_thread") {
            continue;
        }
        check!((found - total).abs() <= slack, "the sum of {key} over {list} is {found}, and not {total}");
    }
    let bytes = number("bytes_allocated") - number("bytes_freed");
    let told = number("live_bytes");
    check!(slack > 0 || bytes == told, "bytes allocated - freed = {bytes}, but {told} are live");
    check!(number("peak_bytes") + number("peak_error_bytes") >= told, "the peak is below what is live");

    for (name, count) in stats.losses() {
        check!(losses.contains(&name), "{count} {name}, which nothing explains");
    }
    Ok(())
}

fn counter(stats: &Stats, name: &str) -> i64 {
    stats.0["counters"][name].as_i64().unwrap_or(0)
}

/// A frame of a stack, as far as tests look at it.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// Name of the function, demangled, and as the linker knows it.
    pub names: [String; 2],
    /// Source file.
    pub file: String,
    /// The return address, in the program that ran.
    pub address: String,
    /// File name of its module, without the directory.
    pub module: String,
    /// It was inlined into the next one, which has the same address.
    pub inlined: bool,
}

/// A block that is, or was, allocated.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Requested bytes.
    pub size: u64,
    /// Index into [`Blocks::kinds`].
    pub kind: usize,
    /// Call site.
    pub site: u64,
}

/// Blocks and their stacks.
#[derive(Debug, Default)]
pub struct Blocks {
    /// All blocks.
    pub blocks: Vec<Block>,
    /// Allocation functions.
    pub kinds: Vec<String>,
    /// Stacks by call site.
    pub stacks: HashMap<u64, Vec<Frame>>,
    /// The last line.
    pub end: Value,
}

/// What lines of `history --json` have in them.
const ALLOCATION: &str = r#""event":"allocation""#;
const FREE: &str = r#""event":"free""#;

/// A call site and its stack, as a line tells them.
fn stack(line: &Value) -> Result<(u64, Vec<Frame>)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let file_name = |path: String| path.rsplit('/').next().unwrap_or_default().to_owned();
    let frame = |frame: &Value| Frame {
        names: [text(&frame["function"]), text(&frame["raw"])],
        file: text(&frame["file"]),
        address: text(&frame["address"]),
        module: file_name(text(&frame["module"])),
        inlined: frame["inlined"] == true,
    };
    let site = line["site"].as_u64().ok_or("a stack without a number")?;
    Ok((site, line["frames"].as_array().into_iter().flatten().map(frame).collect()))
}

impl Blocks {
    /// All that `dump --json` shows.
    pub fn live(ledger: impl AsRef<OsStr>) -> Result<Blocks> {
        Blocks::from("dump", ledger.as_ref(), [""]).map(|[all]| all)
    }

    /// All allocations that `history --json` shows, which must be all there were.
    pub fn ever(ledger: impl AsRef<OsStr>) -> Result<Blocks> {
        Blocks::from("history", ledger.as_ref(), [ALLOCATION]).map(|[all]| all)
    }

    /// All allocations and all frees that `history --json` shows, which must be all there were; with the stacks of either.
    pub fn ever_and_freed(ledger: impl AsRef<OsStr>) -> Result<[Blocks; 2]> {
        Blocks::from("history", ledger.as_ref(), [ALLOCATION, FREE])
    }

    /// The lines with each of these texts, line by line, because there can be millions.
    fn from<const N: usize>(name: &str, ledger: &OsStr, markers: [&str; N]) -> Result<[Blocks; N]> {
        let mut command = command(heapledger());
        command.args([name, "--json"]).arg(ledger).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let mut all: [Blocks; N] = std::array::from_fn(|_| Blocks::default());
        let out = child.stdout.take().ok_or("no stdout")?;
        let mut first = true;
        for line in BufReader::with_capacity(1 << 20, out).lines() {
            let line = line.map_err(|error| error.to_string())?;
            let parse =
                |text: &str| serde_json::from_str::<Value>(text).map_err(|error| format!("{name}: {error}: {text}"));
            if line.starts_with(r#"{"type":"site""#) {
                let (site, frames) = stack(&parse(&line)?)?;
                for blocks in &mut all {
                    check!(blocks.stacks.insert(site, frames.clone()).is_none(), "the stack {site} is told twice");
                }
            } else if !line.starts_with(r#"{"type":"block""#) && !line.starts_with(r#"{"type":"event""#) {
                let value = parse(&line)?;
                if first {
                    check!(value["complete"] != false, "the history is not complete");
                }
                all.iter_mut().for_each(|blocks| blocks.end = value.clone());
            } else {
                for (blocks, _) in all.iter_mut().zip(markers).filter(|(_, marker)| line.contains(marker)) {
                    blocks.add(&parse(&line)?)?;
                }
            }
            first = false;
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        check!(status.success(), "{name} --json: {status}");
        for blocks in &mut all {
            check!(blocks.end["type"] == "end", "{name} --json has no end line");
            let used: HashSet<u64> = blocks.blocks.iter().map(|block| block.site).collect();
            blocks.stacks.retain(|site, _| used.contains(site));
        }
        Ok(all)
    }

    fn add(&mut self, block: &Value) -> Result {
        let name = kind(block["function"].as_str().unwrap_or_default());
        let kind = match self.kinds.iter().position(|known| *known == name) {
            Some(kind) => kind,
            None => {
                self.kinds.push(name);
                self.kinds.len() - 1
            }
        };
        let site = block["site"].as_u64().unwrap_or(0);
        check!(self.stacks.contains_key(&site), "no stack was told before {block}");
        self.blocks.push(Block { size: block["size"].as_u64().unwrap_or(0), kind, site });
        Ok(())
    }

    /// Whether a block was allocated under a function of this name.
    pub fn is_from(&self, block: &Block, name: &str, innermost: bool) -> bool {
        let frames = self.stacks.get(&block.site).map_or(&[][..], Vec::as_slice);
        let frames = if innermost { frames.get(..1).unwrap_or_default() } else { frames };
        frames.iter().any(|frame| frame.names.iter().any(|own| own == name))
    }

    /// Holds them against the totals.
    pub fn check(&self, stats: &Stats) -> Result {
        let (count, bytes) = (self.blocks.len() as u64, self.blocks.iter().map(|block| block.size).sum::<u64>());
        let (live, live_bytes) = (stats.number("live_blocks"), stats.number("live_bytes"));
        check!(
            count == live && bytes == live_bytes,
            "dump shows {count} blocks of {bytes} bytes, stats {live} of {live_bytes}"
        );
        check!(self.end["shown"] == count && self.end["left_out"] == 0, "dump ends with {}", self.end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::kind;

    #[test]
    fn kinds_have_one_spelling() {
        assert_eq!(kind("new(align,nothrow)[]"), "new[](align,nothrow)");
        assert_eq!(kind("new[](align)"), "new[](align)");
        assert_eq!(kind("new[]"), "new[]");
        assert_eq!(kind("free"), "free");
    }
}
