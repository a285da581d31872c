//! The client with tools that answer from a script: what is asked, what is kept, what is said of it, who is told meanwhile.

use super::*;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

/// The build that is asked for.
const BUILD: [u8; 3] = [0xab, 0xcd, 0x01];
const ID: &str = "abcd01";
/// Two servers, and a word that names none.
const URLS: &str = "ima:permissive http://me:secret@one/ http://two";

/// A directory with the tools that are installed, a cache, and what was asked for.
#[derive(Clone, Debug)]
struct Scratch {
    directory: Arc<Directory>,
    told: Arc<Mutex<Vec<(String, u64, u64)>>>,
}

/// A directory that goes with its last user.
#[derive(Debug)]
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Scratch {
    fn new(name: &str) -> Scratch {
        let directory = env::temp_dir().join(format!("heapledger-debuginfod-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("a directory");
        Scratch { directory: Arc::new(Directory(directory)), told: Arc::default() }
    }

    /// Installs a tool that writes down what it is asked for and then does this.
    fn tool(&self, name: &str, script: &str) {
        let path = self.directory.0.join(name);
        let asked = self.directory.0.join("asked");
        // Its last argument says what is wanted.
        let text = format!("#!/bin/sh\nfor want; do :; done\necho \"$want\" >> '{}'\n{script}\n", asked.display());
        // Renamed into place: a process that is forked meanwhile may have the file open for writing.
        let made = self.directory.0.join(format!("{name}.new"));
        fs::write(&made, text).expect("written");
        fs::set_permissions(&made, fs::Permissions::from_mode(0o755)).expect("executable");
        fs::rename(made, path).expect("renamed");
    }

    fn client(&self) -> Debuginfod {
        let cache = Cache::at(self.directory.0.join("cache"));
        Debuginfod::of(URLS, Some(cache), Box::new(self.clone())).expect("two servers")
    }

    fn asked(&self) -> Vec<String> {
        let text = fs::read_to_string(self.directory.0.join("asked")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// What the cache holds of the build.
    fn kept(&self) -> Vec<String> {
        let items = fs::read_dir(self.directory.0.join("cache").join(ID)).into_iter().flatten().flatten();
        items.map(|item| item.file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Host for Scratch {
    fn program(&self, name: &str) -> Option<PathBuf> {
        Some(self.directory.0.join(name)).filter(|path| path.exists())
    }

    fn bytes(&self, bytes: u64) -> String {
        format!("{bytes} bytes")
    }

    fn transferring(&mut self, module: &str, got: u64, size: u64) {
        self.told.lock().expect("unlocked").push((module.to_owned(), got, size));
    }

    fn transferred(&mut self) {
        self.told.lock().expect("unlocked").push(("over".to_owned(), 0, 0));
    }
}

fn ask(client: &mut Debuginfod) -> Fetched {
    client.debug_info(Path::new("/usr/lib/libx.so.1"), &BUILD)
}

fn failed(fetched: &Fetched) -> &str {
    match fetched {
        Fetched::Failed(reason) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_that_does_not_answer_is_asked_once() {
    let scratch = Scratch::new("down");
    scratch.tool("curl", "echo 'curl: (7) Failed to connect to one' >&2; exit 7");
    let mut client = scratch.client();
    assert_eq!(
        failed(&ask(&mut client)),
        "http://one: failed to connect to one",
        "the first reason, without a password"
    );
    assert_eq!(
        scratch.asked(),
        ["http://me:secret@one/buildid/abcd01/debuginfo", "http://two/buildid/abcd01/debuginfo"]
    );
    assert_eq!(failed(&ask(&mut client)), "http://one: failed to connect to one");
    assert_eq!(scratch.asked().len(), 2, "both are down, which is known");
    assert!(scratch.kept().is_empty(), "nothing is known of the build");
}

#[test]
fn what_no_server_has_is_not_asked_for_again() {
    let scratch = Scratch::new("unknown");
    scratch.tool("curl", "printf 'HTTP/1.1 404 Not Found\\r\\n\\r\\n'; exit 22");
    let mut client = scratch.client();
    assert_eq!([ask(&mut client), ask(&mut client)], [Fetched::Unknown, Fetched::Unknown]);
    assert_eq!((scratch.asked().len(), scratch.kept()), (2, vec!["debuginfo".to_owned()]));
    assert_eq!(client.debug_info(Path::new("x"), &[1]), Fetched::Unknown, "too short for a build id");
    assert_eq!(scratch.asked().len(), 2);
}

#[test]
fn a_wrong_file_is_not_kept() {
    let scratch = Scratch::new("wrong");
    let into = "while [ \"$1\" != --output ]; do shift; done; printf '<html>' > \"$2\"; sleep 0.1";
    scratch.tool("curl", &format!("printf 'HTTP/1.1 200 OK\\r\\nContent-Length: 6\\r\\n\\r\\n'; {into}"));
    let mut client = scratch.client();
    let fetched = ask(&mut client);
    assert!(failed(&fetched).starts_with("http://one answered with a wrong file: "), "{fetched:?}");
    assert_eq!(scratch.asked().len(), 2, "the next may have the right one");
    assert!(scratch.kept().is_empty());
    let told = scratch.told.lock().expect("unlocked").clone();
    assert!(told.contains(&("libx.so.1".to_owned(), 6, 6)), "{told:?}");
    assert_eq!(told.iter().filter(|(what, ..)| what == "over").count(), 1);
    assert_eq!(told.last().map(|(what, ..)| what.as_str()), Some("over"));
}

#[test]
fn a_file_may_be_too_large() {
    let scratch = Scratch::new("large");
    scratch.tool("curl", "exit 63");
    let fetched = ask(&mut scratch.client());
    assert_eq!(failed(&fetched), "http://one: it is larger than 4294967296 bytes");
}

#[test]
fn the_client_of_elfutils_comes_first() {
    let scratch = Scratch::new("elfutils");
    scratch.tool("curl", "exit 1");
    scratch.tool("debuginfod-find", "echo 'Server query failed: No such file or directory' >&2; exit 1");
    assert_eq!(ask(&mut scratch.client()), Fetched::Unknown);
    let scratch = Scratch::new("elfutils-down");
    scratch.tool("debuginfod-find", "echo 'Server query failed: Connection refused' >&2; exit 1");
    let mut client = scratch.client();
    for _ in 0..2 {
        assert_eq!(failed(&ask(&mut client)), "debuginfod-find: Connection refused");
    }
    assert_eq!(scratch.asked(), [ID], "it asks all servers: what it says once, it says again");
}

#[test]
fn without_servers_there_is_no_client_and_without_tools_a_sentence() {
    let scratch = Scratch::new("nobody");
    assert!(Debuginfod::of("ima:permissive", None, Box::new(scratch.clone())).is_none());
    assert_eq!(failed(&ask(&mut scratch.client())), "neither debuginfod-find nor curl is installed");
    let mut homeless = Debuginfod::of(URLS, None, Box::new(scratch)).expect("two servers");
    assert!(failed(&ask(&mut homeless)).starts_with("there is no directory for a cache"));
}

#[test]
fn passwords_are_not_shown() {
    for (url, shown) in [
        ("https://debuginfod.example.org", "https://debuginfod.example.org"),
        ("https://me:secret@example.org:80/a@b", "https://example.org:80/a@b"),
        ("http://a@b@example.org", "http://example.org"),
    ] {
        assert_eq!(Server { url: url.to_owned(), down: None }.shown(), shown);
    }
}
