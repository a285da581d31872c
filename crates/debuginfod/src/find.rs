//! `debuginfod-find`, the client of elfutils: it asks all servers, and keeps the cache.

use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use heapledger_symbols::Fetched;

use super::Told;

/// How often is looked whether it has ended.
const INTERVAL: Duration = Duration::from_millis(20);
/// As much as is kept of what it says.
const SAID_MAX: usize = 4096;

/// Has the debug information of a build fetched.
pub(super) fn fetch(program: &Path, id: &str, told: Told<'_>) -> Fetched {
    let mut command = Command::new(program);
    command.args(["debuginfo", id]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // It then says now and then how far it is.
    command.env("DEBUGINFOD_PROGRESS", "1");
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Fetched::Failed(format!("{} does not start: {error}", program.display())),
    };
    let said = Arc::new(Mutex::new(Vec::new()));
    let (stderr, heard) = (child.stderr.take(), Arc::clone(&said));
    let listener = thread::spawn(move || listen(stderr, &heard));
    let stdout = child.stdout.take();
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stdout.map(|mut stdout| stdout.read_to_end(&mut bytes));
        bytes
    });
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) => thread::sleep(INTERVAL),
            Err(_) => break None,
        }
        if let Some((got, size)) = transferred(&last(&said)) {
            told(got, size);
        } else {
            told(0, 0);
        }
    };
    let _ = listener.join();
    let mut path = reader.join().unwrap_or_default();
    if status.is_some_and(|status| status.success()) && !path.is_empty() {
        path.truncate(path.trim_ascii_end().len());
        return Fetched::File(PathBuf::from(std::ffi::OsString::from_vec(path)));
    }
    let last = last(&said);
    let reason = last.rsplit_once("query failed: ").map_or(last.as_str(), |(_, reason)| reason);
    match reason {
        "No such file or directory" => Fetched::Unknown,
        "" => Fetched::Failed("debuginfod-find gave no answer".to_owned()),
        reason => Fetched::Failed(format!("debuginfod-find: {reason}")),
    }
}

fn listen(stderr: Option<impl Read>, heard: &Mutex<Vec<u8>>) {
    let Some(mut stderr) = stderr else { return };
    let mut part = [0; 512];
    while let Ok(length @ 1..) = stderr.read(&mut part) {
        let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.extend_from_slice(&part[..length]);
        let surplus = heard.len().saturating_sub(SAID_MAX);
        heard.drain(..surplus);
    }
}

/// The last thing that it said.
fn last(said: &Mutex<Vec<u8>>) -> String {
    let said = said.lock().unwrap_or_else(PoisonError::into_inner);
    let lines = said.split(|byte| matches!(byte, b'\r' | b'\n'));
    let mut lines = lines.map(|line| String::from_utf8_lossy(line).trim().to_owned()).filter(|line| !line.is_empty());
    lines.next_back().unwrap_or_default()
}

/// How far it is and of how much, from `Downloading from http://… 12/345`.
fn transferred(line: &str) -> Option<(u64, u64)> {
    let (got, size) = line.strip_prefix("Downloading")?.rsplit(' ').next()?.split_once('/')?;
    Some((got.parse().ok()?, size.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_is_understood() {
        let said = Mutex::new(b"Downloading |\rDownloading from http://x/y 12/345\r".to_vec());
        assert_eq!(transferred(&last(&said)), Some((12, 345)));
        assert_eq!(transferred("Downloading from http://x/y"), None);
        said.lock().expect("unlocked").extend_from_slice(b"\nServer query failed: Connection refused\n");
        assert_eq!(last(&said), "Server query failed: Connection refused");
    }
}
