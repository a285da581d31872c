//! One file from one server, by `curl`.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::{Host, Told};

/// Seconds for 100 KiB, as in the client of elfutils. `DEBUGINFOD_TIMEOUT` says otherwise.
const TIMEOUT: u64 = 90;
/// A transfer slower than this within the timeout is given up.
const LEAST: u64 = 100 << 10;
/// Larger files are not fetched. `DEBUGINFOD_MAXSIZE` says otherwise.
const SIZE_MAX: u64 = 4 << 30;
/// How often is looked how far it got.
const INTERVAL: Duration = Duration::from_millis(20);

/// Exit codes of curl: HTTP said no; too large; and those that tell nothing about the server as a whole.
const HTTP_ERROR: i32 = 22;
const TOO_LARGE: i32 = 63;
const CUT_OFF: i32 = 18;
const NOT_WRITTEN: i32 = 23;

/// `curl`, and how it is called.
#[derive(Debug)]
pub(super) struct Curl {
    path: PathBuf,
    timeout: u64,
    time_max: Option<u64>,
    size_max: u64,
    /// What is said of a larger file.
    too_large: String,
    headers: Option<String>,
}

/// What a server answered.
#[derive(Debug)]
pub(super) enum Answer {
    /// A file, which is where it was wanted.
    File,
    /// It does not have it.
    Unknown,
    /// Something else; why, as half a sentence.
    Refused(String),
    /// Nothing, and it is not worth asking again.
    Unreachable(String),
}

/// What the headers of an answer say.
#[derive(Debug, Default)]
struct Headers {
    status: AtomicU64,
    size: AtomicU64,
}

impl Curl {
    /// As the environment wants it.
    pub(super) fn new(path: PathBuf, host: &dyn Host) -> Curl {
        let number = |name| env::var(name).ok()?.trim().parse().ok().filter(|value| *value != 0);
        let headers = env::var("DEBUGINFOD_HEADERS_FILE").ok().filter(|file| Path::new(file).is_file());
        let size_max = number("DEBUGINFOD_MAXSIZE").unwrap_or(SIZE_MAX);
        Curl {
            path,
            timeout: number("DEBUGINFOD_TIMEOUT").unwrap_or(TIMEOUT),
            time_max: number("DEBUGINFOD_MAXTIME"),
            size_max,
            too_large: format!("it is larger than {}", host.bytes(size_max)),
            headers,
        }
    }

    fn command(&self, url: &str, to: &Path) -> Command {
        let mut command = Command::new(&self.path);
        // Without the person's ~/.curlrc, which may send output elsewhere.
        command.args(["-q", "--silent", "--show-error", "--fail", "--location", "--dump-header", "-"]);
        command.args(["--proto", "=http,https", "--proto-redir", "=http,https", "--globoff"]);
        command.args(["--connect-timeout", &self.timeout.to_string(), "--speed-time", &self.timeout.to_string()]);
        command.args(["--speed-limit", &LEAST.div_ceil(self.timeout).to_string()]);
        command.args(["--max-filesize", &self.size_max.to_string()]);
        command.args(["--user-agent", concat!("heapledger/", env!("CARGO_PKG_VERSION"))]);
        if let Some(seconds) = self.time_max {
            command.args(["--max-time", &seconds.to_string()]);
        }
        if let Some(file) = &self.headers {
            command.args(["--header", &format!("@{file}")]);
        }
        command.arg("--output").arg(to).arg("--url").arg(url);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Fetches `url` into the file `to`, which is there.
    pub(super) fn get(&self, url: &str, to: &Path, told: Told<'_>) -> Answer {
        let child = match self.command(url, to).spawn() {
            Ok(child) => child,
            Err(error) => return Answer::Unreachable(format!("{} does not start: {error}", self.path.display())),
        };
        let headers = Arc::new(Headers::default());
        let (code, said) = self.wait(child, to, &headers, told);
        match code {
            Some(0) => Answer::File,
            Some(HTTP_ERROR) if [404, 406, 410].contains(&headers.status.load(Relaxed)) => Answer::Unknown,
            Some(HTTP_ERROR) => Answer::Refused(format!("HTTP status {}", headers.status.load(Relaxed))),
            Some(TOO_LARGE) => Answer::Refused(self.too_large.clone()),
            Some(CUT_OFF) => Answer::Refused("the answer was cut off".to_owned()),
            Some(NOT_WRITTEN) => Answer::Refused("it could not be written to the cache".to_owned()),
            _ => Answer::Unreachable(said),
        }
    }

    /// Waits for the end: the exit code and what was said.
    fn wait(&self, mut child: Child, to: &Path, headers: &Arc<Headers>, told: Told<'_>) -> (Option<i32>, String) {
        let said = Arc::new(Mutex::new(String::new()));
        let (hear, heard, read) = (child.stderr.take(), Arc::clone(&said), Arc::clone(headers));
        let stdout = child.stdout.take();
        let readers = [
            thread::spawn(move || {
                let mut text = String::new();
                let _ = hear.map(|hear| hear.take(4096).read_to_string(&mut text));
                *heard.lock().unwrap_or_else(PoisonError::into_inner) = text;
            }),
            thread::spawn(move || {
                if let Some(stdout) = stdout {
                    read.read(BufReader::new(stdout));
                }
            }),
        ];
        let code = loop {
            let got = fs::metadata(to).map_or(0, |meta| meta.len());
            if got > self.size_max {
                // An answer that did not say how long it is.
                let _ = child.kill();
                let _ = child.wait();
                break Some(TOO_LARGE);
            }
            match child.try_wait() {
                Ok(Some(status)) => break status.code(),
                Ok(None) => thread::sleep(INTERVAL),
                Err(_) => break None,
            }
            told(got, headers.size.load(Relaxed));
        };
        for reader in readers {
            let _ = reader.join();
        }
        let said = said.lock().unwrap_or_else(PoisonError::into_inner);
        (code, reason(&said))
    }
}

impl Headers {
    /// Reads headers of one answer after the other: there are several if one leads elsewhere.
    fn read(&self, input: impl BufRead) {
        for line in input.split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            let line = line.trim();
            if let Some(status) = line.strip_prefix("HTTP/").and_then(|rest| rest.split_whitespace().nth(1)) {
                self.status.store(status.parse().unwrap_or(0), Relaxed);
                self.size.store(0, Relaxed);
            } else if let Some((name, value)) = line.split_once(':')
                && ["content-length", "x-debuginfod-size"].contains(&&*name.to_ascii_lowercase())
            {
                self.size.store(value.trim().parse().unwrap_or(0), Relaxed);
            }
        }
    }
}

/// `curl: (7) Failed to connect …` without what only programs want.
fn reason(said: &str) -> String {
    let line = said.lines().find(|line| line.starts_with("curl: ")).unwrap_or_default();
    let words = line.split_once(") ").map_or(line, |(_, words)| words).trim_end_matches('.');
    let mut letters = words.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => "it gave no answer".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_last_answer_count() {
        let headers = Headers::default();
        headers.read(&b"HTTP/1.1 302 Found\r\nContent-Length: 7\r\n\r\nHTTP/2 200 \r\ncontent-length: 12\r\n\r\n"[..]);
        assert_eq!((headers.status.load(Relaxed), headers.size.load(Relaxed)), (200, 12));
        headers.read(&b"HTTP/1.1 404 Not Found\r\n\xff: \xff\r\n"[..]);
        assert_eq!((headers.status.load(Relaxed), headers.size.load(Relaxed)), (404, 0));
    }

    #[test]
    fn reasons_are_half_sentences() {
        let said = "curl: (7) Failed to connect to localhost port 9 after 0 ms: Couldn't connect to server\n";
        assert_eq!(reason(said), "failed to connect to localhost port 9 after 0 ms: Couldn't connect to server");
        assert_eq!(reason(""), "it gave no answer");
    }
}
