//! What the C library keeps by design is not held against a program; what it gave to the program is.

use std::fs;
use std::path::Path;

use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger, system_library};
use heapledger_e2e::{Result, check};
use serde_json::Value;

use crate::{checked, compiled, ledger, recorded};

/// Files of the system as they are, without the debug files that may lie beside them.
fn stripped_system(scratch: &Scratch, program: &Path) -> Result<String> {
    let system = scratch.path("system");
    let libraries = ["libc.so.6", "ld-linux-x86-64.so.2"].into_iter().filter_map(system_library);
    for file in libraries.chain([program.to_owned()]) {
        let file = file.canonicalize().map_err(|error| error.to_string())?;
        let copy = system.join(file.strip_prefix("/").unwrap_or(&file));
        let directory = copy.parent().unwrap_or(&system);
        fs::create_dir_all(directory).and_then(|()| fs::copy(&file, &copy)).map_err(|error| error.to_string())?;
    }
    Ok(system.to_string_lossy().into_owned())
}

/// Blocks that count, by their stacks in one line.
fn counted(scratch: &Scratch, name: &str, text: &str) -> Result<[Vec<(String, u64)>; 2]> {
    let program = compiled(scratch, name, text, &["-g"])?;
    let ledger = recorded(scratch, name, &[], &program)?;
    let sysroot = stripped_system(scratch, &program)?;
    let of = |words: &[&str]| -> Result<Vec<(String, u64)>> {
        let all = ["--max-leaked", "0", "--top", "0", "--no-debuginfod", "--json"];
        let ran = checked(&ledger, &[&all, words].concat())?;
        let lines = ran.out().lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<Value>>();
        let all_of = |name: &str| lines.iter().filter_map(|line| line[name].as_array()).flatten().collect::<Vec<_>>();
        let site = |line: &Value| {
            let frames = line["stack"].as_array().into_iter().flatten();
            let names =
                frames.map(|frame| frame["function"].as_str().unwrap_or("?").trim_start_matches('_').to_owned());
            (names.collect::<Vec<_>>().join(" < "), line["blocks"].as_u64().unwrap_or(0))
        };
        check!(all_of("not_counted").iter().any(|line| line["blocks"].as_u64() > Some(100)), "{}", ran.out());
        Ok(all_of("responsible").into_iter().map(site).collect())
    };
    Ok([of(&[])?, of(&["--sysroot", &sysroot])?])
}

#[test]
fn static_tables_of_the_c_library_are_no_leaks() -> Result {
    let scratch = Scratch::new();
    for left in counted(&scratch, "keeps", include_str!("programs/keeps.c"))? {
        // Without its debug information, what `getaddrinfo` keeps of the interfaces looks like what it gives.
        let unexpected =
            left.iter().filter(|(stack, _)| !stack.starts_with("? < getaddrinfo < main")).collect::<Vec<_>>();
        check!(unexpected.is_empty(), "{unexpected:?}");
    }
    Ok(())
}

#[test]
fn what_the_c_library_has_given_to_the_program_counts() -> Result {
    let scratch = Scratch::new();
    for left in counted(&scratch, "forgets", include_str!("programs/forgets.c"))? {
        let blocks: u64 = left.iter().map(|(_, blocks)| *blocks).sum();
        // strdup, fopen, getline, asprintf, opendir, newlocale, iconv_open, getaddrinfo, realpath, hcreate, glob, scandir, tsearch: one at least of each.
        check!(blocks >= 16, "{left:?}");
        for function in
            ["iconv_open", "newlocale", "getaddrinfo", "getdelim", "asprintf", "realpath", "glob", "tsearch", "hcreate"]
        {
            check!(left.iter().any(|(stack, _)| stack.contains(function)), "{function}: {left:?}");
        }
    }
    Ok(())
}

#[test]
fn what_is_not_counted_stands_with_its_limit_and_is_an_estimate_where_all_is() -> Result {
    let scratch = Scratch::new();
    let ledger = ledger(&scratch, "x", 100, &[])?;
    let said = checked(&ledger, &["--max-leaked", "0", "--max-peak", "1"])?.out();
    let at = |text: &str| said.find(text).ok_or(format!("{text:?} is not in {said}"));
    check!(at("not counted: ")? < at("EXCEEDED peak")?, "{said}");
    let sampled = self::ledger(&scratch, "sampled", 5000, &["--sample", "1K"])?;
    fs::write(scratch.path("all"), "leak:*\n").map_err(|error| error.to_string())?;
    let all = scratch.path("all").to_string_lossy().into_owned();
    let said = checked(&sampled, &["--max-leaked", "0", "--suppress", &all])?.out();
    check!(said.contains("not counted: ~") && said.contains(" in ~"), "{said}");
    Ok(())
}

#[test]
fn blocks_of_no_bytes_are_blocks_of_the_summary_too() -> Result {
    let scratch = Scratch::new();
    let text = "#include <stdlib.h>\nvoid *kept[4];\nint main(void)\n{\n    kept[0] = malloc(0), kept[1] = malloc(100), kept[2] = malloc(0);\n}\n";
    let none = text.replace("malloc(100)", "malloc(0)");
    for (name, text, words) in [
        ("some", text, ["peak         100 B in ", "         100 B in 3 blocks "]),
        ("none", &none, ["peak         0 B in 3 blocks", "           0 B in 3 blocks "]),
    ] {
        let program = compiled(&scratch, name, text, &["-g"])?;
        let ledger = scratch.path(&format!("{name}.hl"));
        let ran = process::run(command(heapledger()).args(["run", "-o"]).arg(&ledger).arg(&program))?.good()?;
        for word in words {
            check!(ran.err().contains(word), "{word:?}: {}", ran.err());
        }
    }
    Ok(())
}
