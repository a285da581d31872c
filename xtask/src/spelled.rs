//! What the two halves say to each other stands once, in `crates/format/src/session.rs`: here is looked whether somebody
//! writes it down a second time.

use std::fs;
use std::path::{Path, PathBuf};

use heapledger_format::session::{Key, SANITIZERS, ending, process, unwind};

/// The crates that speak with each other.
const CRATES: [&str; 9] = ["linux", "process", "recorder", "preload", "source", "analysis", "report", "launch", "cli"];

/// Words that mean nothing else where they are a whole string, with or without a dot.
fn words() -> Vec<&'static str> {
    let mut all = vec![ending::LIVE, ending::CHILDREN, ending::UNRECORDED, ending::FINISHED, "hlive", "unrecorded"];
    all.extend(["HEAPLEDGER", "XDG_RUNTIME_DIR", "heapledger-", "/heapledger-", unwind::FRAME_POINTERS]);
    all.extend(Key::ALL.map(Key::name).into_iter().filter(|key| key.contains('-')));
    all.extend([process::START_TICKS, process::WALL_NS, process::RUN_VERSION, process::LEDGER_BYTES]);
    all.extend([process::FINISHED_UNIX_NS, process::COPIED_UNIX_NS, process::SNAPSHOT_UNIX_NS]);
    all.extend(SANITIZERS.map(|sanitizer| sanitizer.symbol));
    all
}

/// What is asked of the section `process` by a word.
const ASKED: [&str; 5] = [".process().text(\"", ".process().get(\"", ".process().number(\"", "pair(b\"", "number(b\""];

fn sources(directory: &Path, into: &mut Vec<PathBuf>) {
    for item in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = item.path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("tests.rs") {
            into.push(path);
        }
    }
}

/// Flags of `run` are called as keys are, most of them; they are another matter.
const FLAG: &str = "flag: \"";

/// What is wrong in a file, tests and comments apart.
fn again(text: &str) -> Vec<String> {
    let product = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    let counts = |line: &str| !["//", FLAG].iter().any(|begin| line.trim_start().starts_with(begin));
    for (number, line) in product.lines().enumerate().filter(|(_, line)| counts(line)) {
        let is_spelled = |word: &&str| line.contains(&format!("\"{word}\""));
        let spelled =
            words().into_iter().filter(is_spelled).chain(ASKED.into_iter().filter(|asked| line.contains(asked)));
        found.extend(spelled.map(|word| format!("{}: {word}", number + 1)));
    }
    found
}

#[test]
fn what_the_halves_say_to_each_other_stands_once() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut files = Vec::new();
    CRATES.iter().for_each(|name| sources(&crates.join(name).join("src"), &mut files));
    assert!(files.len() > 200, "only {} files", files.len());
    let mut faults = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("read");
        faults.extend(again(&text).into_iter().map(|fault| format!("{}:{fault}", file.display())));
    }
    assert!(faults.is_empty(), "use heapledger_format::session:\n{}", faults.join("\n"));
}

#[test]
fn a_second_spelling_is_found() {
    for breach in [
        "const LIVE: &[u8] = b\".hlive\";",
        "path.extension() == Some(\"hlive\")",
        "ledger.process().number(\"wall\")",
        "pair(b\"exe\", path)",
        "env::var_os(\"XDG_RUNTIME_DIR\")",
    ] {
        assert_eq!(again(breach).len(), 1, "{breach}");
    }
    assert!(again("// a \".hlive\"\n#[cfg(test)]\nmod tests { \".hlive\" }").is_empty());
}
