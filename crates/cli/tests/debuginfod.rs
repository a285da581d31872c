//! Debug information from a server, which this test plays: what it answers, what is kept, and what is said of it.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::{Scratch, output};
use heapledger_format::{Entry, Kind};
use heapledger_testing::Builder;

/// The ways to fetch: each is tried alone.
const TOOLS: [&str; 2] = ["curl", "debuginfod-find"];

/// What the server does when it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Gives the file.
    Good,
    /// Gives it to those who go on to another path.
    Elsewhere,
    /// Says that it has none.
    Nothing,
    /// Is out of order.
    Broken,
    /// Says nothing.
    Hang,
    /// Stops in the middle, having said how long it would be.
    Cut,
    /// Stops in the middle, having said nothing.
    CutSilently,
    /// Gives another file.
    Wrong,
    /// Says that it will be very long.
    Huge,
}

struct Server {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
    answer: Arc<Mutex<Answer>>,
}

impl Server {
    fn start(answer: Answer, file: Vec<u8>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (asked, answer) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(answer)));
        let (hear, look) = (Arc::clone(&asked), Arc::clone(&answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (hear, look, file) = (Arc::clone(&hear), Arc::clone(&look), file.clone());
                // Whoever goes away while it is answered is no concern of this test's.
                thread::spawn(move || serve(stream, &hear, &look, &file).unwrap_or_default());
            }
        });
        Server { url, asked, answer }
    }

    fn now(&self, answer: Answer) {
        *self.answer.lock().expect("unlocked") = answer;
    }

    /// What it was asked for since the last time.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().expect("unlocked"))
    }
}

fn serve(
    mut stream: TcpStream,
    asked: &Mutex<Vec<String>>,
    answer: &Mutex<Answer>,
    file: &[u8],
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().unwrap_or(Ok(String::new()))?;
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    asked.lock().expect("unlocked").push(path.clone());
    let half = &file[..file.len() / 2];
    let head =
        |status: &str, length: usize| format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n");
    let answer = *answer.lock().expect("unlocked");
    let (head, body): (String, &[u8]) = match answer {
        Answer::Elsewhere if !path.starts_with("/there") => {
            (head("302 Found", 0) + &format!("Location: /there{path}\r\n"), b"")
        }
        Answer::Good | Answer::Elsewhere => (head("200 OK", file.len()), file),
        Answer::Nothing => (head("404 Not Found", 9), b"not found"),
        Answer::Broken => (head("503 Service Unavailable", 0), b""),
        Answer::Hang => {
            thread::sleep(2 * common::LIMIT);
            return Ok(());
        }
        Answer::Cut => (head("200 OK", file.len()), half),
        Answer::CutSilently => ("HTTP/1.1 200 OK\r\nConnection: close\r\n".to_owned(), half),
        Answer::Wrong => (head("200 OK", 12), b"<html></html"),
        Answer::Huge => (head("200 OK", 1 << 40), half),
    };
    write!(stream, "{head}\r\n")?;
    stream.write_all(body)
}

/// A program without debug information, a ledger of it, and the file that it was stripped of.
struct Fixture {
    scratch: Scratch,
    id: String,
    debug: Vec<u8>,
}

const PROGRAM: &str = "#include <stdlib.h>\nvoid *keep;\n__attribute__((noinline)) void place_order(void) {\n    \
                       keep = malloc(10);\n}\nint main(void) {\n    place_order();\n    return 0;\n}\n";

fn tool(program: &str, arguments: &[&str], directory: &Path) -> String {
    let output = Command::new(program).args(arguments).current_dir(directory).output().expect("binutils are needed");
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Fixture {
    fn new(name: &str) -> Fixture {
        let scratch = Scratch::new(name);
        let path = scratch.compile("shop", PROGRAM, &["-g", "-O1", "-no-pie", "-Wl,--build-id"]);
        let directory = scratch.0.path().to_owned();
        let notes = tool("readelf", &["-n", "shop"], &directory);
        let id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).expect("a build id").to_owned();
        let bytes: Vec<u8> =
            (0..id.len() / 2).map(|at| u8::from_str_radix(&id[2 * at..2 * at + 2], 16).expect("hex")).collect();
        let symbols = tool("nm", &["shop"], &directory);
        let start = symbols.lines().find(|line| line.ends_with(" place_order")).expect("the function");
        let start = u64::from_str_radix(start.split(' ').next().unwrap_or_default(), 16).expect("an address");
        tool("objcopy", &["--only-keep-debug", "shop", "shop.debug"], &directory);
        tool("strip", &["shop"], &directory);
        fs::write(directory.join("shop.c"), "not what it was compiled from").expect("written");

        let mut builder = Builder::new();
        let module = builder.module(&path.to_string_lossy(), &bytes, 0, start & !0xfff, start | 0xfff);
        // Of this one no frame is shown, because no block is from there.
        builder.module("/usr/lib/unshown.so", &[7; 20], 0, 0x10_0000, 0x20_0000);
        let site = builder.stack(&[(Some(module), start + 5)]);
        let (size, actual, kind) = (Some(10), None, Kind::MALLOC);
        let block = Entry {
            number: 0,
            address: 0x1000,
            size,
            actual,
            kind,
            site,
            thread: None,
            heap: None,
            time: None,
            ..Entry::NONE
        };
        builder.entry(block);
        builder.write(&scratch.cwd().join("x.hl")).expect("written");
        let debug = fs::read(directory.join("shop.debug")).expect("read");
        for tool in TOOLS {
            let all = std::env::var_os("PATH").unwrap_or_default();
            let real = std::env::split_paths(&all).map(|place| place.join(tool)).find(|path| path.is_file());
            fs::create_dir_all(directory.join(tool)).expect("a directory");
            symlink(real.unwrap_or_else(|| panic!("{tool} is needed for this test")), directory.join(tool).join(tool))
                .expect("a link");
        }
        Fixture { scratch, id, debug }
    }

    fn cache(&self) -> PathBuf {
        self.scratch.0.join("cache")
    }

    fn cached(&self) -> PathBuf {
        self.cache().join(&self.id).join("debuginfo")
    }

    fn forget(&self) {
        let _ = fs::remove_dir_all(self.cache());
    }

    /// `heapledger dump` where `tool` is all that is installed. It waits for a server longer than this machine can be busy.
    fn dump(&self, tool: &str, urls: &str, more: &[&str]) -> String {
        self.dump_within("600", tool, urls, more)
    }

    /// The same, with so many seconds of patience with a server.
    fn dump_within(&self, seconds: &str, tool: &str, urls: &str, more: &[&str]) -> String {
        let mut command = common::heapledger();
        for name in ["MAXSIZE", "MAXTIME", "VERBOSE", "HEADERS_FILE", "PROGRESS"] {
            command.env_remove(format!("DEBUGINFOD_{name}"));
        }
        for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env_remove(name);
        }
        command.args(["dump", "x.hl"]).args(more).current_dir(self.scratch.cwd());
        command.env("PATH", self.scratch.0.join(tool)).env("LANG", "C.UTF-8").env("HOME", self.scratch.cwd());
        command.env("DEBUGINFOD_CACHE_PATH", self.cache()).env("DEBUGINFOD_URLS", urls);
        command.env("DEBUGINFOD_TIMEOUT", seconds);
        let output = output(&mut command);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && error.is_empty(), "{tool}: what cannot be fetched is no failure: {error}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}

const NAMED: &str = "place_order\n";
const UNNAMED: &str = "(in shop+0x";

#[test]
fn what_a_server_has_is_fetched_once_for_what_is_shown() {
    let fixture = Fixture::new("debuginfod-good");
    let server = Server::start(Answer::Good, fixture.debug.clone());
    for tool in TOOLS {
        fixture.forget();
        let shown = fixture.dump(tool, &format!("{}/ ima:permissive", server.url), &[]);
        assert!(shown.contains(NAMED) && shown.contains("shop.c:4"), "{tool}: {shown}");
        assert_eq!(server.asked(), [format!("/buildid/{}/debuginfo", fixture.id)], "{tool}");
        assert_eq!(fs::read(fixture.cached()).expect("cached"), fixture.debug);
        let others = fs::read_dir(fixture.cached().parent().expect("a parent")).expect("list").count();
        assert_eq!(others, 1, "{tool}: nothing half done is left");

        for other in TOOLS {
            let again = fixture.dump(other, &server.url, &["--json"]);
            assert!(again.contains("\"place_order\""), "{other} after {tool}: {again}");
            assert_eq!(server.asked(), [""; 0], "{other} after {tool}: it was in the cache");
        }
        // Nor is it asked for what is on disk, or if it must not be.
        fixture.forget();
        let shown = fixture.dump(tool, &server.url, &["--no-debuginfod"]);
        assert!(shown.contains(UNNAMED) && server.asked().is_empty(), "{tool}: {shown}");
        let place = fixture.scratch.cwd().join(format!("debug/.build-id/{}", &fixture.id[..2]));
        fs::create_dir_all(&place).expect("a directory");
        fs::write(place.join(format!("{}.debug", &fixture.id[2..])), &fixture.debug).expect("written");
        let shown = fixture.dump(tool, &server.url, &["--debug-dir", "debug"]);
        assert!(shown.contains(NAMED) && server.asked().is_empty(), "{tool}: {shown}");
    }
}

#[test]
fn servers_are_asked_in_turn_and_may_send_elsewhere() {
    let fixture = Fixture::new("debuginfod-turn");
    let (first, second) =
        (Server::start(Answer::Nothing, Vec::new()), Server::start(Answer::Elsewhere, fixture.debug.clone()));
    for tool in TOOLS {
        fixture.forget();
        let shown = fixture.dump(tool, &format!("{} {}", first.url, second.url), &[]);
        assert!(shown.contains(NAMED), "{tool}: {shown}");
        assert_eq!((first.asked().len(), second.asked().len()), (1, 2), "{tool}");
    }
}

#[test]
fn what_no_server_has_is_not_asked_for_again_at_once() {
    let fixture = Fixture::new("debuginfod-nothing");
    let server = Server::start(Answer::Nothing, fixture.debug.clone());
    for tool in TOOLS {
        fixture.forget();
        let shown = fixture.dump(tool, &server.url, &[]);
        assert!(shown.contains(UNNAMED) && shown.contains("No debug information for shop"), "{tool}: {shown}");
        assert!(!shown.contains("could not be fetched"), "{tool}: it was asked and answered: {shown}");
        assert_eq!(server.asked().len(), 1, "{tool}");
        assert_eq!(fs::metadata(fixture.cached()).expect("a note").len(), 0, "{tool}");
        for other in TOOLS {
            fixture.dump(other, &server.url, &[]);
            assert_eq!(server.asked(), [""; 0], "{other} after {tool}");
        }
        // After a while it is: the server may have got it.
        fs::write(fixture.cache().join("cache_miss_s"), "0").expect("written");
        thread::sleep(Duration::from_millis(1100));
        server.now(Answer::Good);
        assert!(fixture.dump(tool, &server.url, &[]).contains(NAMED), "{tool}");
        server.now(Answer::Nothing);
        server.asked();
    }
}

#[test]
fn bad_answers_are_notes_and_never_kept() {
    let fixture = Fixture::new("debuginfod-bad");
    let server = Server::start(Answer::Good, fixture.debug.clone());
    for (answer, said) in [
        (Answer::Broken, "HTTP status 503"),
        (Answer::Hang, "1"),
        (Answer::Cut, "was cut off"),
        (Answer::CutSilently, "wrong file"),
        (Answer::Wrong, "wrong file: it is not an ELF file"),
        (Answer::Huge, "larger than"),
    ] {
        fixture.forget();
        server.now(answer);
        // A server that hangs does so for longer than anything here may take.
        let seconds = if matches!(answer, Answer::Hang) { "1" } else { "600" };
        let shown = fixture.dump_within(seconds, "curl", &server.url, &[]);
        assert!(shown.contains(UNNAMED), "{answer:?}: {shown}");
        let note = shown.lines().find(|line| line.contains("shop could not be fetched")).unwrap_or_default();
        assert!(note.contains(said) && note.contains(&server.url), "{answer:?}: {shown}");
        assert!(!fixture.cached().exists(), "{answer:?} is kept");
        let json = fixture.dump_within(seconds, "curl", &server.url, &["--json"]);
        assert!(json.contains("\"kind\":\"not_fetched\""), "{answer:?}: {json}");
        // It is believed the next time, whatever it said before.
        server.now(Answer::Good);
        assert!(fixture.dump("curl", &server.url, &[]).contains(NAMED), "after {answer:?}");
    }
    // The other client checks less; what it brings is checked all the same.
    for answer in [Answer::Broken, Answer::Hang, Answer::Cut, Answer::CutSilently, Answer::Wrong] {
        fixture.forget();
        server.now(answer);
        let seconds = if matches!(answer, Answer::Hang) { "1" } else { "600" };
        let shown = fixture.dump_within(seconds, "debuginfod-find", &server.url, &[]);
        assert!(shown.contains(UNNAMED) && shown.contains("Names     :"), "{answer:?}: {shown}");
    }
}

#[test]
fn nobody_there_and_nothing_to_ask_with() {
    let fixture = Fixture::new("debuginfod-nobody");
    // One that no other test can get.
    let port = "127.0.0.1:1";
    for tool in TOOLS {
        let shown = fixture.dump(tool, &format!("http://me:secret@{port}"), &[]);
        assert!(shown.contains("shop could not be fetched: ") && shown.contains(UNNAMED), "{tool}: {shown}");
        assert!(!shown.contains("secret"), "{tool}: {shown}");
    }
    let shown = fixture.dump("no-tool", &format!("http://{port}"), &[]);
    assert!(shown.contains("neither debuginfod-find nor curl is installed"), "{shown}");
    for urls in ["", "  ", "not-an-address"] {
        assert!(!fixture.dump("curl", urls, &[]).contains("could not be fetched"), "{urls:?}");
    }
    fs::write(fixture.cache(), "in the way").unwrap_or_default();
    fixture.forget();
    fs::write(fixture.cache(), "in the way").expect("written");
    let shown = fixture.dump("curl", &format!("http://{port}"), &[]);
    assert!(shown.contains("could not be fetched") && shown.contains("cache"), "{shown}");
}
