//! `cargo xtask logs`: logs larger than any memory, and worse than any device, by a pipe into `heapledger stats`: what that takes, and that
//! nothing of ours in them is overlooked. `docs/benchmarks.md` says what is measured.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use crate::step::{Result, cargo, output, root, run as run_command, target};

const USAGE: &str = "\
cargo xtask logs [GIGABYTES]
  GIGABYTES  how long each log is, decimal (default 10)";

/// Different stacks of logs that are like those of a device.
const STACKS: usize = 10_000;
/// And of the one that has nothing else.
const MANY_STACKS: usize = 1_000_000;
/// Of so many lines one is ours.
const SPARSE: u64 = 10;
/// Most seconds for a command.
const LIMIT_S: &str = "7200";

/// A log, as it goes into the pipe.
struct LogShape {
    name: &'static str,
    /// Writes about so many bytes; how many backtraces, or ledgers, that were.
    write: fn(&mut dyn Write, u64, &[String]) -> io::Result<u64>,
    /// What `stats` must say.
    expected: Expected,
    /// Most memory that it may take, in MiB.
    memory_mib: u64,
}

#[derive(Clone, Copy)]
enum Expected {
    /// As many live blocks as were written.
    Blocks,
    /// One dump after another; the last one is shown, and it is whole.
    LastDump,
    /// Status 1, and a sentence.
    Nothing,
}

const SHAPES: &[LogShape] = &[
    LogShape { name: "1 line in 10 is ours", write: mixed, expected: Expected::Blocks, memory_mib: 128 },
    LogShape { name: "no text, and one of ours", write: binary, expected: Expected::Blocks, memory_mib: 64 },
    LogShape { name: "one line, and one of ours", write: endless, expected: Expected::Blocks, memory_mib: 64 },
    LogShape { name: "nothing of ours", write: foreign, expected: Expected::Nothing, memory_mib: 64 },
    LogShape { name: "heap traces, one tenth of that", write: dumps, expected: Expected::LastDump, memory_mib: 128 },
    LogShape { name: "a million stacks", write: stacks, expected: Expected::Blocks, memory_mib: 1024 },
];

/// Numbers that look like chance, and are the same each time.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// What a console shows between lines of ours: colours, and what a terminal makes of line ends.
fn other(out: &mut dyn Write, number: u64) -> io::Result<u64> {
    let text =
        format!("\x1b[0;32mI ({number}) wifi: 100 bytes sent, freed by nobody; heap {}\x1b[0m\r\r\n", number % 977);
    out.write_all(text.as_bytes())?;
    Ok(text.len() as u64)
}

fn mixed(out: &mut dyn Write, bytes: u64, lines: &[String]) -> io::Result<u64> {
    let (mut written, mut number, mut ours) = (0, 0, 0);
    while written < bytes {
        number += 1;
        if number % SPARSE == 0 {
            let line = &lines[ours as usize % STACKS];
            out.write_all(line.as_bytes())?;
            out.write_all(b"\r\n")?;
            (written, ours) = (written + line.len() as u64 + 2, ours + 1);
        } else {
            written += other(out, number)?;
        }
    }
    Ok(ours)
}

fn binary(out: &mut dyn Write, bytes: u64, lines: &[String]) -> io::Result<u64> {
    let mut dice = Dice(88_172_645_463_325_252);
    for _ in 0..bytes / 8 {
        // Chance would make the three characters now and then.
        out.write_all(&dice.next().to_le_bytes().map(|byte| if byte == b'~' { b'-' } else { byte }))?;
    }
    writeln!(out, "\n{}", lines[0])?;
    Ok(1)
}

fn endless(out: &mut dyn Write, bytes: u64, lines: &[String]) -> io::Result<u64> {
    for _ in 0..bytes / 64 {
        out.write_all(&[b'='; 64])?;
    }
    writeln!(out, "\n{}", lines[0])?;
    Ok(1)
}

fn foreign(out: &mut dyn Write, bytes: u64, _: &[String]) -> io::Result<u64> {
    let (mut written, mut number) = (0, 0);
    while written < bytes {
        number += 1;
        written += other(out, number)?;
    }
    Ok(0)
}

fn dumps(out: &mut dyn Write, bytes: u64, _: &[String]) -> io::Result<u64> {
    const BLOCKS: u64 = 100;
    let (mut written, mut dumps) = (0, 0);
    while written < bytes / 10 {
        dumps += 1;
        let mut text = format!("====== Heap Trace: {BLOCKS} records ({BLOCKS} capacity) ======\n");
        for block in 0..BLOCKS {
            let (address, caller) = (0x3fc9_0000 + block * 64, 0x4200_0000 + block % 17 * 8);
            text += &format!(
                "{:6} bytes (@ 0x{address:08x}, Internal) allocated CPU 0 ccount 0x{dumps:08x} caller 0x{caller:08x}:0x40376379\n",
                dumps % 1000
            );
        }
        text += &format!(
            "====== Heap Trace Summary ======\nMode: Heap Trace All\n{} bytes alive in trace ({BLOCKS}/{BLOCKS} allocations)\n================================\n",
            dumps % 1000 * BLOCKS
        );
        out.write_all(text.as_bytes())?;
        written += text.len() as u64;
    }
    Ok(dumps % 1000 * BLOCKS)
}

fn stacks(out: &mut dyn Write, _: u64, lines: &[String]) -> io::Result<u64> {
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    Ok(lines.len() as u64)
}

/// So many different backtraces, as lines that libwebsockets prints.
fn lines(heapledger: &PathBuf, count: usize) -> Result<Vec<String>> {
    let mut encode =
        Command::new(heapledger).arg("encode").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(text)?;
    let mut asks = BufWriter::new(encode.stdin.take().ok_or("no pipe")?);
    let writer = thread::spawn(move || {
        (0..count as u64).try_for_each(|stack| {
            write!(asks, "~b#size: {}, ", 16 + stack % 4000)?;
            (0..6).try_for_each(|frame| {
                write!(asks, "{:#x} ", 0x40_0000 + (stack * 7 + frame * 0x1_2345) % 0x400_0000)
            })?;
            writeln!(asks)
        })
    });
    let encoded = encode.wait_with_output().map_err(text)?;
    writer.join().map_err(|_| "the writer has ended")?.map_err(text)?;
    let lines: Vec<String> = String::from_utf8_lossy(&encoded.stdout).lines().map(str::to_owned).collect();
    if lines.len() == count { Ok(lines) } else { Err(format!("{} of {count} backtraces were encoded", lines.len())) }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// A figure of a line of JSON.
fn figure(json: &str, name: &str) -> Option<u64> {
    let rest = json.split_once(&format!("\"{name}\":"))?.1;
    rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// Sends a log of that shape, and says what reading it took.
fn one(shape: &'static LogShape, heapledger: &PathBuf, timer: &PathBuf, bytes: u64, lines: Vec<String>) -> Result {
    let figures = target().join("logs/figures");
    let mut stats = Command::new(timer);
    stats.arg(&figures).arg(LIMIT_S).arg(heapledger).args(["stats", "--json", "-"]);
    stats.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let begun = Instant::now();
    let mut child = stats.spawn().map_err(text)?;
    let pipe = child.stdin.take().ok_or("no pipe")?;
    let writer = thread::spawn(move || {
        let mut counted = Counted { pipe: BufWriter::with_capacity(1 << 20, pipe), bytes: 0 };
        let written = (shape.write)(&mut counted, bytes, &lines)?;
        counted.pipe.flush()?;
        io::Result::Ok((written, counted.bytes))
    });
    let ended = child.wait_with_output().map_err(text)?;
    let (written, bytes) = writer.join().map_err(|_| "the writer has ended")?.map_err(text)?;
    let seconds = begun.elapsed().as_secs_f64();
    let took = fs::read_to_string(&figures).map_err(text)?;
    let took = |name: &str| took.split_ascii_whitespace().find_map(|word| word.strip_prefix(name)?.parse::<u64>().ok());
    let (Some(status), Some(peak_kib)) = (took("status="), took("maxrss_kib=")) else {
        return Err("nothing was measured".into());
    };
    let (said, complaint) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    let right = match shape.expected {
        Expected::Blocks => status == 0 && figure(&said, "live_blocks") == Some(written),
        Expected::LastDump => status == 0 && figure(&said, "live_bytes") == Some(written),
        Expected::Nothing => status == 256 && complaint.contains("tells of a heap in a way that heapledger knows"),
    };
    let peak_mib = peak_kib / 1024;
    let processor = (took("user=").unwrap_or(0) + took("sys=").unwrap_or(0)) as f64 / 1e6;
    let gigabytes = bytes as f64 / 1e9;
    println!(
        "{:30} {gigabytes:6.2} GB {seconds:7.1} s, of a processor {processor:7.1} s ({:4.0} MB a second), {peak_mib:5} MiB",
        shape.name,
        gigabytes * 1000.0 / processor
    );
    if !right {
        let said: String = said.chars().take(600).collect();
        return Err(format!(
            "{}: {written} were written, and stats ends with {status} and says {said} {complaint}",
            shape.name
        ));
    }
    if peak_mib > shape.memory_mib {
        return Err(format!("{}: {peak_mib} MiB are more than {}", shape.name, shape.memory_mib));
    }
    Ok(())
}

struct Counted<W> {
    pipe: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.pipe.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pipe.flush()
    }
}

/// Reads one log after another, and prints a line for each.
pub(crate) fn run(words: &[&str]) -> Result {
    let gigabytes: f64 = match words {
        [] => 10.0,
        [number] => number.parse().ok().filter(|number| *number > 0.0).ok_or(USAGE)?,
        _ => return Err(USAGE.into()),
    };
    run_command(&mut cargo(&["build", "--release", "--package", "heapledger-cli"]))?;
    let (heapledger, directory) = (target().join("release/heapledger"), target().join("logs"));
    fs::create_dir_all(&directory).map_err(text)?;
    let timer = directory.join("bench_time");
    let mut gcc = Command::new("gcc");
    output(gcc.args(["-O2", "-o"]).arg(&timer).arg(root().join("victims/bench_time.c")))?;
    for shape in SHAPES {
        let count = if shape.name == "a million stacks" { MANY_STACKS } else { STACKS };
        one(shape, &heapledger, &timer, (gigabytes * 1e9) as u64, lines(&heapledger, count)?)?;
    }
    Ok(())
}
