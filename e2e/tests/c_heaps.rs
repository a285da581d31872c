//! What a C program is told of heaps: of an allocator that tells of its blocks (`e2e/c_api/heaps.c`), and of the C library's.

use std::fs;
use std::process::Command;

use heapledger_e2e::c_programs::{built, recorded};
use heapledger_e2e::ledger::{Stats, check_totals, read};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger, root};
use heapledger_e2e::{Result, check, process};
use serde_json::Value;

const STRICT: [&str; 6] = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1"];

#[test]
fn figures_walks_and_overlaps() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "gcc", "heaps.c", "heaps", &STRICT)?;
    let alone = process::run(&mut command(&program))?.good()?.out();
    check!(alone == "absent\n", "{alone}");
    for options in [&[][..], &["--accounts"]] {
        let name = format!("heaps{}", options.join(""));
        let (said, ledger) = recorded(&scratch, &name, options, &program, &[])?;
        check!(said == "all is as it should be\n", "{options:?}: {said}");
        // In a heap in a heap, a block may take the place of another that begins where it does.
        check_totals(&Stats::of(&ledger)?, &["displaced".to_owned()])?;
    }
    // Where blocks are sampled, the figures say so.
    let (said, _) = recorded(&scratch, "sampled", &["--sample", "1M"], &program, &["sampled"])?;
    check!(said == "sampled\n", "{said}");
    Ok(())
}

/// The header's functions are on the stack where there is debug information: they hold nothing.
#[test]
fn blocks_of_a_pool_are_held_by_who_takes_them() -> Result {
    for (compiler, level) in [("gcc", "-O0"), ("gcc", "-O2"), ("g++", "-O0"), ("g++", "-O2")] {
        let scratch = Scratch::new();
        let program = built(&scratch, compiler, "pool.c", "pool", &["-Wall", "-Wextra", "-Werror", level])?;
        let (_, ledger) = recorded(&scratch, "pool", &[], &program, &[])?;
        let lines = read("dump", &ledger, &["--group-by", "fn"])?;
        let groups = lines.iter().filter(|line| line["type"] == "group");
        let told = |group: &Value| (group["keys"]["fn"].as_str().unwrap_or("").to_owned(), group["bytes"].as_u64());
        let mut held: Vec<_> = groups.map(told).collect();
        held.sort();
        // In C++ a function has its parameters.
        let named = |(name, _): &(String, _)| name.split('(').next().unwrap_or("").to_owned();
        let names: Vec<String> = held.iter().map(named).collect();
        check!(names == ["grow", "take"] && held[0].1 == Some(96), "{compiler} {level}: {held:?}");
    }
    Ok(())
}

/// Wherever a program has the header: nobody is helped by a line of that.
#[test]
fn annotations_are_at_who_takes_them() -> Result {
    let scratch = Scratch::new();
    let at = |file: &str| root().join(file);
    let copied = fs::copy(at("crates/api/include/heapledger.h"), scratch.path("heapledger.h"));
    copied.map_err(|error| error.to_string())?;
    let (source, program) = (at("e2e/c_api/pool.c"), scratch.path("pool"));
    let folder = program.parent().ok_or("no directory")?;
    process::run(Command::new("gcc").args(["-g", "-I"]).arg(folder).arg("-o").arg(&program).arg(&source))?.good()?;
    let (_, ledger) = recorded(&scratch, "pool", &[], &program, &[])?;
    let errors = process::run(command(heapledger()).arg("errors").arg(&ledger))?.out();
    let summary = errors.lines().find(|line| line.starts_with("SUMMARY: ")).unwrap_or("");
    check!(summary.contains("pool.c:") && summary.ends_with(" in refuse"), "{errors}");
    check!(!errors.contains("heapledger_weak"), "{errors}");
    let checked = |format: &str| {
        let words = ["check", "--max-live", "0", "--format", format];
        Ok::<String, String>(process::run(command(heapledger()).args(words).arg(&ledger))?.out())
    };
    let github = checked("github")?;
    let annotations: Vec<&str> = github.lines().collect();
    check!(annotations.len() >= 2, "{github}");
    for line in annotations {
        check!(line.split("::").nth(1).is_some_and(|properties| properties.contains("pool.c,line=")), "{line}");
    }
    let sarif: Value = serde_json::from_str(&checked("sarif")?).map_err(|error| error.to_string())?;
    let results = sarif["runs"][0]["results"].as_array().ok_or("no results")?;
    check!(results.len() >= 2, "{sarif}");
    for result in results {
        let place = &result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
        check!(place.as_str().is_some_and(|uri| uri.ends_with("pool.c")), "{result:#}");
    }
    Ok(())
}

#[test]
fn the_text_is_that_of_esp_idf() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "gcc", "heaps.c", "heaps", &STRICT)?;
    let (said, _) = recorded(&scratch, "printed", &[], &program, &["printed"])?;
    let (first, text) = said.split_once('\n').ok_or("no line")?;
    let mut addresses = first.split(' ').map(|word| u64::from_str_radix(word, 16).unwrap_or(0));
    let (one, two) = (addresses.next().unwrap_or(0), addresses.next().unwrap_or(0));
    // 20 bytes were freed, 100 live: 112 with what they are rounded up to, and 16 in front of each.
    let other = format!(
        "  At 0x{two:08x} len 4096 free 4096 allocated 0 min_free 4096\n    \
         largest_free_block 4080 alloc_blocks 0 free_blocks 1 total_blocks 1\n"
    );
    let expected = format!(
        "Heap summary for capabilities 0x00000000:\n  \
         At 0x{one:08x} len 65536 free 65408 allocated 100 min_free 65360\n    \
         largest_free_block 65344 alloc_blocks 1 free_blocks 2 total_blocks 3\n\
         {other}  Totals:\n    \
         free 69504 allocated 100 min_free 65360 largest_free_block 65344\n\
         Showing data for heap: 0x{one:08x} \n\
         Block 0x{one:08x} data, size: 48 bytes, Free: Yes \n\
         Block 0x{:08x} data, size: 112 bytes, Free: No \n\
         Block 0x{:08x} data, size: 65360 bytes, Free: Yes \n\
         Showing data for heap: 0x{two:08x} \n\
         Block 0x{two:08x} data, size: 4096 bytes, Free: Yes \n\
         Heap summary for capabilities 0x00000002:\n\
         {other}  Totals:\n    \
         free 4096 allocated 0 min_free 0 largest_free_block 4080\n",
        one + 48 + 16,
        one + 48 + 16 + 112,
    );
    check!(text == expected, "it says:\n{text}\nand not:\n{expected}");
    Ok(())
}
