//! Metadata before blocks, in C: the library and the header of `crates/metadata-c`, and zlib's own allocator instrumented with them, whose
//! lines `heapledger heapmap` names wherever the program lies.

use std::path::{Path, PathBuf};
use std::process::Command;

use heapledger_e2e::c_programs::built;
use heapledger_e2e::own_books::{alone, programs};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::sdk::Sdk;
use heapledger_e2e::tools::{command, heapledger, metadata_library, root};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check, process, skip};

/// Compiles a program of C with the library.
fn compile(compiler: &str, source: &Path, product: &Path, flags: &[&str]) -> Command {
    let mut compile = command(compiler);
    compile.args(["-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fno-omit-frame-pointer"]);
    compile.arg("-I").arg(root().join("crates/metadata-c/include")).arg("-I").arg(root().join("e2e/c_api"));
    compile.arg(source).arg(metadata_library()).args(flags).arg("-o").arg(product);
    compile
}

fn example(scratch: &Scratch) -> Result<PathBuf> {
    let product = scratch.path("zlib_blocks");
    let source = root().join("crates/metadata-c/examples/zlib_blocks.c");
    process::run(&mut compile("gcc", &source, &product, &["-pie", "-fPIE", "-lz"]))?.good()?;
    Ok(product)
}

#[test]
fn lists_in_c_tell_of_all_that_live() -> Result {
    let scratch = Scratch::new();
    let source = root().join("e2e/c_api/metadata.c");
    // As C++, too: the header is for both.
    for (compiler, flags) in [("gcc", &[][..]), ("clang", &["-O2"]), ("gcc", &["-static"])] {
        let product = scratch.path("metadata");
        process::run(&mut compile(compiler, &source, &product, flags))?.good()?;
        let ran = process::run(&mut command(&product))?.good()?;
        check!(ran.out() == "all is well\n", "{compiler} {flags:?}: {}", ran.out());
    }
    Ok(())
}

/// Who has only the command has them from it, alone and beside what records.
#[test]
fn what_the_sdk_has_is_the_same() -> Result {
    let sdk = Sdk::new()?;
    let mut asked = command("pkg-config");
    asked.env("PKG_CONFIG_PATH", sdk.library().join("pkgconfig")).args(["--cflags", "--libs", "heapledger-metadata"]);
    let flags = process::run(&mut asked)?.good()?.out();
    let flags: Vec<&str> = flags.split_ascii_whitespace().collect();
    check!(flags.contains(&"-lheapledger_metadata_c"), "{flags:?}");
    for (name, more) in [("alone", &[][..]), ("static", &["-static"]), ("relro", &["-fPIE", "-pie", "-Wl,-z,now"])] {
        let program = sdk.built("gcc", "metadata.c", name, &[&flags[..], more].concat())?;
        let ran = sdk.run(&program, "", &[])?.good()?;
        check!(ran.out() == "all is well\n" && ran.err().is_empty(), "{name}: {ran}");
        sdk.check_nothing_left(name)?;
    }
    // Both archives in one program, whose own blocks are recorded then.
    let program = sdk.wrapped("gcc", "metadata.c", "both", &[&["-static"], &flags[..]].concat())?;
    let ran = sdk.run(&program, "", &[])?.good()?;
    check!(ran.out() == "all is well\n" && ran.err().is_empty(), "both: {ran}");
    let names = process::run(
        command("nm").args(["-g", "--defined-only"]).arg(sdk.library().join("libheapledger_metadata_c.a")),
    )?;
    let names = names.good()?.out();
    let others = names.lines().filter(|line| line.contains(" T ") && !line.contains(" heapledger_metadata_"));
    check!(others.count() == 0, "it could clash with others: {names}");
    sdk.ledger().map(drop)
}

#[test]
fn blocks_of_zlib_are_named_from_their_lines() -> Result {
    if !Path::new("/usr/include/zlib.h").exists() {
        skip("metadata of zlib's blocks", "zlib's headers are not installed");
        return Ok(());
    }
    let scratch = Scratch::new();
    let program = example(&scratch)?;
    let lines = process::run(&mut command(&program))?.good()?.out();
    let count = lines.lines().count();
    check!(count >= 4 && lines.lines().all(|line| line.starts_with("~m#")), "{lines}");
    // Two frames of the program, and nothing of zlib or the C library, which the original's format could not hold.
    let mut decode = command(heapledger());
    let words = process::run(decode.arg("decode").args(lines.lines()))?.good()?.out();
    check!(words.lines().all(|line| line.matches(" 0x").count() == 2), "{words}");
    let log = scratch.path("zlib.log");
    std::fs::write(&log, &lines).map_err(|error| error.to_string())?;
    let mut map = command(heapledger());
    let map = process::run(map.args(["heapmap", "--json", "--exe"]).arg(&program).arg(&log))?.good()?.out();
    check!(map.contains("\"begin_to_deflate\"") && map.contains("zlib_blocks.c"), "{map}");
    // Main is the caller of all that lives, and the one that is gone has no line.
    let mut named = command(heapledger());
    let named = process::run(named.args(["dump", "--group-by", "fn", "--json", "--exe"]).arg(&program).arg(&log))?;
    check!(named.good()?.out().contains(&format!("\"blocks\":{count}")), "not all {count} blocks are there");
    Ok(())
}

/// A program of no instrumentation at all: the recorder's ledger, as lines, by the module's own addresses.
#[test]
fn a_ledger_of_a_program_is_printed_as_lines_that_its_file_names() -> Result {
    let scratch = Scratch::new();
    let source = scratch.path("app.c");
    let text = "#include <stdlib.h>\n__attribute__((noinline)) void *leaf(int n) {\n    return malloc(n);\n}\nint main(void) {\n    return leaf(3000) == NULL || leaf(4000) == NULL;\n}\n";
    std::fs::write(&source, text).map_err(|error| error.to_string())?;
    let (program, ledger) = (scratch.path("app"), scratch.path("app.hl"));
    process::run(command("gcc").args(["-g", "-O0", "-pie", "-fPIE", "-o"]).arg(&program).arg(&source))?.good()?;
    let mut run = command(heapledger());
    run.args(["run", "-q", "-o"]).arg(&ledger).arg("--ledger-dir").arg(scratch.live()).arg("--").arg(&program);
    process::run(&mut run)?.good()?;
    let printed = |more: &[&str]| -> Result<String> {
        let mut encode = command(heapledger());
        Ok(process::run(encode.args(["encode", "--ledger"]).arg(&ledger).args(more))?.good()?.out())
    };
    let plain = printed(&["--plain", "--module", "app"])?;
    let sizes: Vec<&str> = plain.lines().filter_map(|line| line.strip_prefix("~b#size: ")?.split(',').next()).collect();
    check!(sizes == ["3000", "4000"], "oldest first: {plain}");
    // The function, `main`, and what called that.
    check!(plain.matches("0x").count() == 6, "three frames of its own each: {plain}");
    let compressed = printed(&["--module", "app"])?;
    let mut decode = command(heapledger());
    decode.args(["decode", "--json", "--exe"]).arg(&program).args(compressed.lines());
    let named = process::run(&mut decode)?.good()?.out();
    check!(named.matches("\"dialect\":\"canonical\"").count() == 2, "the original reads them: {named}");
    check!(named.matches("\"function\":\"leaf\"").count() == 2 && named.contains("\"line\":3"), "{named}");
    // Where they really were they do not fit, and are in the extension that the original refuses.
    let absolute = printed(&[])?;
    let mut decode = command(heapledger());
    let wide = process::run(decode.args(["decode", "--json"]).args(absolute.lines()))?.good()?.out();
    check!(wide.contains("\"dialect\":\"extension\""), "{wide}");
    Ok(())
}

/// What `heapledger` prints, asked so.
fn said(words: &[&str], path: &Path, more: &[&str]) -> Result<String> {
    Ok(process::run(command(heapledger()).args(words).arg(path).args(more))?.good()?.out())
}

/// The lines that a program has written of itself are, one by one, those of its ledger of that moment, and its file names them.
fn check_lines(scratch: &Scratch, program: &Path, named: &str) -> Result {
    let read = |name: &str| std::fs::read_to_string(scratch.path(name)).map_err(|error| format!("{name}: {error}"));
    let now = scratch.path("now.hl");
    let (compressed, plain, own) = (read("compressed.log")?, read("plain.log")?, read("own.log")?);
    let module = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    check!(compressed == said(&["encode", "--ledger"], &now, &[])?, "not as the ledger says: {compressed}");
    check!(plain == said(&["encode", "--ledger"], &now, &["--plain"])?, "not as the ledger says: {plain}");
    check!(own == said(&["encode", "--ledger"], &now, &["--module", &module])?, "not as the ledger says: {own}");
    check!(plain.lines().count() == compressed.lines().count() && !plain.contains(", \n"), "no stack: {plain}");
    // One says what the other does, and the last is what libwebsockets' own tool reads.
    let mut decode = command(heapledger());
    let words = process::run(decode.arg("decode").args(compressed.lines()))?.good()?.out();
    check!(words == plain, "{words} is not {plain}");
    let log = scratch.path("own.log");
    let map = said(&["heapmap", "--json", "--top", "0", "--exe"], program, &[&log.display().to_string()])?;
    check!(map.contains(&format!("\"function\":\"{named}\"")), "{named} is not named: {map}");
    let shown = said(&["stats", "--json"], &log, &[])?;
    check!(shown.contains(&format!("\"blocks\":{}", own.lines().count())), "{shown}");
    Ok(())
}

#[test]
fn a_program_writes_its_own_live_blocks_as_lines() -> Result {
    for (compiler, flags) in [("gcc", &["-O1", "-pie", "-fPIE"][..]), ("clang", &["-O0", "-no-pie", "-fno-pie"])] {
        let scratch = Scratch::new();
        let program = built(&scratch, compiler, "lines.c", "lines", &[flags, &["-DHEAPLEDGER_WEAK"]].concat())?;
        let words = [scratch.work().display().to_string()];
        let ran = process::run(&mut under_run(&scratch, "run", &["--depth", "64"], &program, &words))?.good()?;
        let (first, lines) = ran.out().split_once('\n').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap_or_default();
        check!(first == "lines" && lines.lines().all(|line| line.starts_with("~b#size: ")), "{ran}");
        check!(lines.contains("~b#size: 123, "), "a block of the program's own heap: {lines}");
        check_lines(&scratch, &program, "small")?;
        let plain = std::fs::read_to_string(scratch.path("own_plain.log")).map_err(|error| error.to_string())?;
        let deep = plain.lines().find(|line| line.starts_with("~b#size: 2222,")).unwrap_or_default();
        check!(deep.matches(" 0x").count() > 60, "the whole of a deep stack: {deep}");
    }
    Ok(())
}

/// With the recorder linked in there is no `run`, and nothing else is different.
#[test]
fn so_does_one_that_records_itself() -> Result {
    let sdk = Sdk::new()?;
    let search = format!("-Wl,-rpath,{}", sdk.library().display());
    let program = sdk.built("gcc", "lines.c", "lines", &["-lheapledger", &search])?;
    let work = sdk.scratch.work().display().to_string();
    sdk.run(&program, "", &[&work])?.good()?;
    check_lines(&sdk.scratch, &program, "small")?;
    let plain = std::fs::read_to_string(sdk.scratch.path("own_plain.log")).map_err(|error| error.to_string())?;
    let deep = plain.lines().find(|line| line.starts_with("~b#size: 4444,")).unwrap_or_default();
    check!(deep.matches(" 0x").count() == 255, "the innermost of a very deep stack: {deep}");
    let weak = sdk.built("gcc", "lines.c", "weak", &["-DHEAPLEDGER_WEAK"])?;
    let ran = sdk.run(&weak, "", &[&work])?.good()?;
    check!(ran.out() == "absent\n", "{ran}");
    Ok(())
}

#[test]
fn so_does_one_in_rust_under_run_and_alone() -> Result {
    for profile in ["dev", "release"] {
        let scratch = Scratch::new();
        let program = programs(profile)?.join("lines");
        process::run(&mut alone(&scratch, profile, "lines", &[])?)?.good()?;
        check_lines(&scratch, &program, "lines::keeps")?;
        let scratch = Scratch::new();
        process::run(&mut under_run(&scratch, "run", &[], &program, &[]))?.good()?;
        check_lines(&scratch, &program, "lines::keeps")?;
    }
    Ok(())
}
