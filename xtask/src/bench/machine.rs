//! What was measured on, and with which versions.

use std::fs;
use std::process::Command;

/// What says the version of something.
const VERSIONS: &[&[&str]] = &[
    &["heaptrack", "--version"],
    &["valgrind", "--version"],
    &["/usr/bin/python3", "-m", "memray", "--version"],
    &["dpkg-query", "-W", "-f=gperftools ${Version}", "libgoogle-perftools4"],
    &["gcc", "--version"],
    &["ldd", "--version"],
    &["jq", "--version"],
    &["/usr/bin/python3", "--version"],
    &["perl", "-e", "print qq(perl $^V)"],
    &["xmllint", "--version"],
    &["sqlite3", "-batch", ":memory:", "select 'sqlite ' || sqlite_version()"],
    &["redis-server", "--version"],
];

fn line(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(value.trim_start_matches([' ', '\t', ':', '=']).trim_matches('"').to_owned())
}

/// The processor, the kernel, the system.
pub(crate) fn description() -> String {
    let processor = line("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".into());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = kernel.split('-').next().unwrap_or_default().trim().to_owned();
    let system = line("/etc/os-release", "PRETTY_NAME").unwrap_or_else(|| "unknown system".into());
    format!("{processor}, {cores} processors, Linux {kernel}, {system}")
}

/// Versions of the tools and programs that are installed, and the machine.
pub(super) fn versions() -> String {
    let mut all = vec![description(), format!("heapledger {}", env!("CARGO_PKG_VERSION"))];
    for words in VERSIONS {
        let Ok(output) = Command::new(words[0]).args(&words[1..]).output() else { continue };
        // xmllint answers on stderr.
        let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
        let text = String::from_utf8_lossy(&text).into_owned();
        if let Some(first) = text.lines().next().filter(|_| output.status.success()) {
            all.push(first.trim().to_owned());
        }
    }
    all.join("; ")
}

/// How many processes wanted a processor in the last minute.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}
