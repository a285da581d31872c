//! Metadata before blocks, in C: the library and the header of `crates/metadata-c`, and zlib's own allocator instrumented with them, whose
//! lines `heapledger heapmap` names wherever the program lies.

use std::path::{Path, PathBuf};
use std::process::Command;

use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger, metadata_library, root};
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
