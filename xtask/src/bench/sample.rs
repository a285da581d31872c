//! One run of a program under a tool, measured.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::kit::Kit;
use super::program::{Work, redis_socket};
use super::tool::Tool;
use crate::step::Result;

/// What a run took, with all processes that belong to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// Time of processors, in user and system mode, in nanoseconds.
    pub(super) cpu_ns: f64,
    /// Until the last process had ended.
    pub(super) wall_ns: f64,
    /// Memory of the largest process.
    pub(super) peak_bytes: f64,
    /// Of the synthetic programs: time of processors for one operation in the loop, by their own clock.
    pub(super) loop_ns: Option<f64>,
}

/// No run takes as long, unless something hangs.
const LIMIT_S: u32 = 900;
/// redis answers within this, or not at all.
const START: Duration = Duration::from_secs(120);
/// What is set around us that is not for the programs: cargo's own path to libraries makes the loader search longer.
const NOT_INHERITED: &[&str] = &["LD_LIBRARY_PATH", "LD_PRELOAD", "HEAPLEDGER", "HEAPLEDGER_PRELOAD"];

/// Runs `work` under `tool`. What they leave behind stays in `kit.scratch` until the next run.
pub(super) fn take(kit: &Kit, work: &Work, tool: Tool) -> Result<Sample> {
    kit.clean()?;
    let live = kit.scratch.join("live");
    fs::create_dir(&live).map_err(|error| format!("{}: {error}", live.display()))?;
    let [figures, stdout, stderr] = ["figures", "stdout", "stderr"].map(|name| kit.scratch.join(name));
    let create = |path: &Path| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
    let mut timer = Command::new(&kit.timer);
    timer.arg(&figures).arg(LIMIT_S.to_string()).arg("env").args(tool.words(kit, work)?);
    timer.current_dir(&kit.scratch).stdin(Stdio::null()).stdout(create(&stdout)?).stderr(create(&stderr)?);
    for name in NOT_INHERITED {
        timer.env_remove(name);
    }
    let mut child = timer.spawn().map_err(|error| format!("{}: {error}", kit.timer.display()))?;
    let load = work.requests.map_or(Ok(()), |requests| load_redis(&mut child, requests));
    let ended = child.wait().map_err(|error| error.to_string())?;
    let said = fs::read_to_string(&stderr).unwrap_or_default();
    let complaint = || said.lines().find(|line| !line.trim().is_empty()).unwrap_or("").to_owned();
    load.map_err(|problem| format!("{problem} {}", complaint()))?;
    if !ended.success() {
        return Err(format!("the timer failed: {ended} {}", complaint()));
    }
    let figures = fs::read_to_string(&figures).map_err(|error| error.to_string())?;
    let mut sample = read_figures(&figures).map_err(|problem| format!("{problem} {}", complaint()))?;
    // An option that is not known is no reason for the recorder to stop, but one for us.
    if (tool.option().is_some() || tool == Tool::NoReuse)
        && (said.contains("untracked") || said.contains("no such key") || said.contains("not understood"))
    {
        return Err(complaint());
    }
    sample.loop_ns = loop_ns(&fs::read_to_string(&stdout).unwrap_or_default());
    Ok(sample)
}

/// `NAME=NUMBER` in a line.
fn figure(line: &str, name: &str) -> Option<f64> {
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

fn read_figures(line: &str) -> Result<Sample> {
    let number = |name: &str| figure(line, name).ok_or_else(|| format!("the timer says {line:?}"));
    let status = number("status")? as i32;
    let (signal, exit) = (status & 0x7f, status >> 8 & 0xff);
    if signal != 0 {
        return Err(format!("it was killed by signal {signal}:"));
    }
    if exit != 0 {
        return Err(format!("it ended with status {exit}:"));
    }
    Ok(Sample {
        cpu_ns: (number("user")? + number("sys")?) * 1e3,
        wall_ns: number("wall")? * 1e3,
        peak_bytes: number("maxrss_kib")? * 1024.0,
        loop_ns: None,
    })
}

/// What the synthetic programs print.
fn loop_ns(stdout: &str) -> Option<f64> {
    let line = stdout.lines().find(|line| line.starts_with("operations="))?;
    Some(figure(line, "cpu_ns")? / figure(line, "operations")?)
}

/// Gives a server work, and ends it. Whatever goes wrong, it is gone afterwards.
fn load_redis(child: &mut Child, requests: u64) -> Result {
    let done = (|| {
        let socket = redis_socket();
        let ask = |words: &[&str]| Command::new("redis-cli").arg("-s").arg(&socket).args(words).output();
        let began = Instant::now();
        while !ask(&["ping"]).is_ok_and(|output| output.stdout.starts_with(b"PONG")) {
            if began.elapsed() > START || !matches!(child.try_wait(), Ok(None)) {
                return Err("redis-server does not answer:".to_owned());
            }
            sleep(Duration::from_millis(10));
        }
        let mut load = Command::new("redis-benchmark");
        load.arg("-s").arg(&socket).args(["-q", "-c", "50", "-P", "16", "-r", "100000"]);
        load.args(["-n", &requests.to_string(), "-t", "set,get,incr,lpush,rpop,sadd,hset,zadd,mset"]);
        let output = load.output().map_err(|error| format!("redis-benchmark: {error}"))?;
        if !output.status.success() {
            return Err(format!("redis-benchmark failed: {}", output.status));
        }
        // It closes the connection without an answer.
        ask(&["shutdown", "nosave"]).map(drop).map_err(|error| format!("redis-cli: {error}"))
    })();
    // The timer takes its whole group along; if it has ended, its number may be another's.
    if done.is_err() && matches!(child.try_wait(), Ok(None)) {
        let _ = Command::new("sh").args(["-c", "kill -TERM \"$1\"", "sh", &child.id().to_string()]).status();
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timers_line_is_read() {
        let sample = read_figures("user=1500 sys=500 wall=2500 maxrss_kib=4 status=0\n").expect("good");
        assert_eq!((sample.cpu_ns, sample.wall_ns, sample.peak_bytes), (2e6, 2.5e6, 4096.0));
        assert!(read_figures("user=1 sys=5 wall=2 maxrss_kib=4 status=9").is_err_and(|text| text.contains("signal 9")));
        assert!(
            read_figures("user=1 sys=5 wall=2 maxrss_kib=4 status=256").is_err_and(|text| text.contains("status 1"))
        );
        assert!(read_figures("").is_err());
        assert_eq!(loop_ns("hello\noperations=20 cpu_ns=1000\n"), Some(50.0));
    }
}
