//! Debug information from the servers in `DEBUGINFOD_URLS`, by build id.
//!
//! `debuginfod-find` is asked where it is installed, else `curl`: both know proxies, certificates and the rest of a
//! network, and a TLS library of our own would be half of what there is to build. The cache is that of elfutils, so
//! that gdb and others need not fetch again what we have fetched, nor we what they have.

#![forbid(unsafe_code)]

use std::env;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

use heapledger_symbols::{Fetch, Fetched, check_debug_file};

use self::cache::{Cache, Cached};
use self::curl::{Answer, Curl};

mod cache;
mod curl;
mod find;

/// What the client is given by the program that it is part of.
pub trait Host: Debug + Send + Sync {
    /// The file of a program of this name, if it is installed.
    fn program(&self, name: &str) -> Option<PathBuf>;
    /// A number of bytes in a person's words.
    fn bytes(&self, bytes: u64) -> String;
    /// Debug information of `module` is on its way: so much is there, of so much; 0 if nobody knows how much it will be.
    fn transferring(&mut self, module: &str, got: u64, size: u64);
    /// That is over.
    fn transferred(&mut self);
}

/// A client of debuginfod servers.
#[derive(Debug)]
pub struct Debuginfod {
    servers: Vec<Server>,
    tool: Tool,
    cache: Option<Cache>,
    host: Box<dyn Host>,
}

/// Who is told, again and again, how much is there and of how much.
type Told<'a> = &'a mut dyn FnMut(u64, u64);

/// A server, and why it is not asked any more.
#[derive(Debug)]
struct Server {
    url: String,
    down: Option<String>,
}

/// What fetches.
#[derive(Debug)]
enum Tool {
    /// `debuginfod-find`. It asks all servers by itself; why that is not tried again.
    Find(PathBuf, Option<String>),
    /// `curl`.
    Curl(Curl),
    /// Neither is installed.
    None,
}

impl Debuginfod {
    /// The client that the environment asks for; `None` if it names no server.
    pub fn from_environment(host: Box<dyn Host>) -> Option<Debuginfod> {
        let urls = env::var("DEBUGINFOD_URLS").ok()?;
        Debuginfod::of(&urls, Cache::from_environment(), host)
    }

    fn of(urls: &str, cache: Option<Cache>, host: Box<dyn Host>) -> Option<Debuginfod> {
        // Words without a scheme are settings of newer clients, such as `ima:permissive`.
        let urls = urls.split_whitespace().filter(|word| word.contains("://"));
        let servers: Vec<Server> =
            urls.map(|url| Server { url: url.trim_end_matches('/').to_owned(), down: None }).collect();
        let tool = match (host.program("debuginfod-find"), host.program("curl")) {
            (Some(path), _) => Tool::Find(path, None),
            (None, Some(path)) => Tool::Curl(Curl::new(path, &*host)),
            (None, None) => Tool::None,
        };
        (!servers.is_empty()).then_some(Debuginfod { servers, tool, cache, host })
    }
}

impl Fetch for Debuginfod {
    fn debug_info(&mut self, module: &Path, build_id: &[u8]) -> Fetched {
        // One byte would name a directory, and nothing real is so short.
        if build_id.len() < 2 {
            return Fetched::Unknown;
        }
        let Some(cache) = &self.cache else {
            return Fetched::Failed("there is no directory for a cache: neither HOME nor XDG_CACHE_HOME is set".into());
        };
        let id: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        match cache.look(&id) {
            Cached::File(path) if check_debug_file(&path, build_id).is_ok() => return Fetched::File(path),
            Cached::Nowhere => return Fetched::Unknown,
            Cached::File(_) | Cached::Unknown => {}
        }
        let name = module.file_name().unwrap_or(module.as_os_str()).to_string_lossy();
        let host = &mut self.host;
        let told = &mut |got, size| host.transferring(&name, got, size);
        let fetched = match &mut self.tool {
            Tool::Find(_, Some(reason)) => Fetched::Failed(reason.clone()),
            Tool::Find(path, failed) => {
                let fetched = find::fetch(path, &id, told);
                if let Fetched::Failed(reason) = &fetched {
                    *failed = Some(reason.clone());
                }
                fetched
            }
            Tool::Curl(curl) => ask_all(&mut self.servers, curl, cache, (&id, build_id), told),
            Tool::None => Fetched::Failed("neither debuginfod-find nor curl is installed".to_owned()),
        };
        self.host.transferred();
        fetched
    }
}

impl Server {
    /// Its address without what a report should not give away: `https://name:password@…`.
    fn shown(&self) -> String {
        match self.url.split_once("://") {
            Some((scheme, rest)) => {
                let (host, path) =
                    rest.split_once('/').map_or((rest, String::new()), |(host, path)| (host, format!("/{path}")));
                format!("{scheme}://{}{path}", host.rsplit('@').next().unwrap_or(host))
            }
            None => self.url.clone(),
        }
    }
}

/// Asks the servers in turn, and keeps what one of them gives.
fn ask_all(
    servers: &mut [Server],
    curl: &Curl,
    cache: &Cache,
    (id, build_id): (&str, &[u8]),
    told: Told<'_>,
) -> Fetched {
    let pending = match cache.prepare(id) {
        Ok(pending) => pending,
        Err(problem) => return Fetched::Failed(format!("{}: {problem}", cache.directory().display())),
    };
    let mut problem = None;
    for server in servers {
        if let Some(reason) = &server.down {
            problem.get_or_insert(reason.clone());
            continue;
        }
        let answer = curl.get(&format!("{}/buildid/{id}/debuginfo", server.url), pending.path(), told);
        let reason = match answer {
            // Whatever a server says, only the right file goes into the cache.
            Answer::File => match check_debug_file(pending.path(), build_id) {
                Ok(()) => match pending.place() {
                    Ok(path) => {
                        cache.clean();
                        return Fetched::File(path);
                    }
                    Err(error) => return Fetched::Failed(format!("{}: {error}", cache.directory().display())),
                },
                Err(reason) => format!("{} answered with a wrong file: {reason}", server.shown()),
            },
            Answer::Unknown => continue,
            Answer::Refused(reason) => format!("{}: {reason}", server.shown()),
            Answer::Unreachable(reason) => {
                let reason = format!("{}: {reason}", server.shown());
                server.down = Some(reason.clone());
                reason
            }
        };
        problem.get_or_insert(reason);
    }
    drop(pending);
    match problem {
        Some(reason) => Fetched::Failed(reason),
        None => {
            cache.note_nowhere(id);
            Fetched::Unknown
        }
    }
}

#[cfg(test)]
mod tests;
