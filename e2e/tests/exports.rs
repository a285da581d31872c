//! The preload library, and the one that judges calls, as the dynamic linker sees them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use heapledger_e2e::tools::{calls, command, preload, root};
use heapledger_e2e::{Result, check, process};

/// Names from `nm` with these options: letter and name.
fn symbols(library: &Path, options: &[&str]) -> Result<Vec<(char, String)>> {
    let text = process::run(command("nm").args(options).arg(library))?.good()?.out();
    let symbol = |line: &str| {
        let mut words = line.split_ascii_whitespace().rev();
        let name = words.next()?.to_owned();
        Some((words.next()?.chars().next()?, name))
    };
    Ok(text.lines().filter_map(symbol).collect())
}

/// The list that everything follows from: lines such as `call_stub Malloc = "malloc": …`.
fn hooked() -> Result<BTreeSet<String>> {
    let path = root().join("crates/preload/src/hooked.rs");
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let name = |line: &str| {
        let (stub, rest) = line.trim().split_once(" = \"")?;
        let is_row = stub.split([' ', '(']).next().is_some_and(|word| word.ends_with("_stub"));
        is_row.then(|| rest.split('"').next().map(str::to_owned)).flatten()
    };
    let all: BTreeSet<String> = text.lines().filter_map(name).collect();
    check!(all.len() > 30 && all.contains("malloc"), "the list was not understood: {all:?}");
    Ok(all)
}

/// The C API's: lines such as `recording::heapledger_version 1 "…"`.
fn api() -> Result<BTreeSet<String>> {
    let path = root().join("crates/api/src/list.rs");
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let name = |line: &str| Some(line.trim().split_once("::")?.1.split(' ').next()?.to_owned());
    let all: BTreeSet<String> = text.lines().filter_map(name).filter(|name| name.starts_with("heapledger_")).collect();
    check!(all.len() > 30 && all.contains("heapledger_mark"), "the list was not understood: {all:?}");
    Ok(all)
}

/// Most bytes of words that begin with another value than zero: those lie in the file, and in the memory of each program. A single one
/// in the recorder's own takes a megabyte with it. (Constants, and tables of addresses, are elsewhere.)
const DATA_BYTES_MAX: u64 = 16 << 10;

#[test]
fn the_recorders_words_are_zeros_at_first() -> Result {
    let text = process::run(command("readelf").args(["-SW"]).arg(preload()))?.good()?.out();
    // `  [19] .data  PROGBITS  ADDRESS OFFSET SIZE …`.
    let size = |line: &str| {
        let rest = line.split_once("] .data ")?.1;
        u64::from_str_radix(rest.split_ascii_whitespace().nth(3)?, 16).ok()
    };
    let bytes = text.lines().find_map(size).unwrap_or(0);
    check!(bytes <= DATA_BYTES_MAX, "{bytes} bytes of .data");
    Ok(())
}

#[test]
fn what_is_exported_is_the_list() -> Result {
    let exported: BTreeSet<String> =
        symbols(preload(), &["-D", "--defined-only"])?.into_iter().map(|(_, name)| name).collect();
    let mut listed = &hooked()? | &api()?;
    // For the library that judges calls.
    listed.insert("heapledger_judging".to_owned());
    let more: Vec<_> = exported.difference(&listed).collect();
    let less: Vec<_> = listed.difference(&exported).collect();
    check!(
        more.is_empty() && less.is_empty(),
        "exported and not in the list: {more:?}; in the list and not exported: {less:?}"
    );
    Ok(())
}

#[test]
fn nothing_is_needed_from_others() -> Result {
    for library in [preload(), calls()] {
        let undefined = symbols(library, &["-D", "--undefined-only"])?;
        let strong: Vec<_> = undefined.into_iter().filter(|(letter, _)| *letter != 'w').collect();
        check!(strong.is_empty(), "undefined and not weak: {strong:?}");
        let needed = process::run(command("readelf").arg("-d").arg(library))?.good()?.out();
        check!(!needed.contains("(NEEDED)"), "it needs another library:\n{needed}");
        check!(!needed.contains("TEXTREL"), "its code would be written at load");
    }
    Ok(())
}

/// Functions of `core` and the handler, which every `no_std` library holds; what matters is that nothing leads there.
fn is_panic(name: &str) -> bool {
    ["9panicking", "panic_", "rust_begin_unwind"].iter().any(|part| name.contains(part))
}

#[test]
fn nothing_can_panic() -> Result {
    [preload(), calls()].into_iter().try_for_each(cannot_panic)
}

fn cannot_panic(library: &Path) -> Result {
    let code = process::run(command("objdump").args(["-d", "--no-show-raw-insn"]).arg(library))?.good()?.out();
    let (mut function, mut functions, mut leads) = ("", 0, Vec::new());
    for line in code.lines() {
        if let Some(name) = line.strip_suffix(">:").and_then(|line| line.split_once('<')) {
            function = name.1;
            functions += 1;
        } else if !is_panic(function) && is_panic(line) {
            leads.push(format!("{function}: {line}"));
        }
    }
    check!(functions > 100, "the library has no symbol table to look at");
    check!(leads.is_empty(), "code that panics: {leads:?}");
    let bytes = fs::read(library).map_err(|error| error.to_string())?;
    for text in ["panicked at", "index out of bounds", "attempt to ", "called `Option::unwrap()`"] {
        check!(!bytes.windows(text.len()).any(|part| part == text.as_bytes()), "it holds the text {text:?}");
    }
    Ok(())
}

#[test]
fn its_thread_local_word_is_static() -> Result {
    // A dynamic one would call __tls_get_addr, which allocates.
    let text = process::run(command("readelf").args(["-dW", "-rW"]).arg(preload()))?.good()?.out();
    check!(text.contains("STATIC_TLS"), "no STATIC_TLS flag");
    check!(!text.contains("DTPMOD"), "a dynamic thread-local variable");
    Ok(())
}
