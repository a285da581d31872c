//! The preload library where it cannot record: it says so in one line, and harms nobody.

use std::fs;
use std::path::{Path, PathBuf};

use heapledger_e2e::process::{self, Ran};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, find, preload};
use heapledger_e2e::tracked::by_hand;
use heapledger_e2e::{Result, check, skip};

/// Opens the library that it is told, calls its functions by name, and its own; with `apart` in a namespace of its own.
const OPENS_IT: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
    void *library = argc > 2 ? dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW) : dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL)
        return 2;
    void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(library, "malloc");
    void *(*resize)(void *, size_t) = (void *(*)(void *, size_t))dlsym(library, "realloc");
    void (*release)(void *) = (void (*)(void *))dlsym(library, "free");
    void *(*make)(size_t) = (void *(*)(size_t))dlsym(library, "_Znwm");
    void (*end)(void *) = (void (*)(void *))dlsym(library, "_ZdlPv");
    char *block = allocate(100);
    if (block == NULL)
        return 3;
    memset(block, 7, 100);
    block = resize(block, 100000);
    if (block == NULL || block[99] != 7)
        return 4;
    free(block); /* the program's: it is the same allocator */
    release(malloc(5));
    end(make(10));
    if (dlclose(library) != 0)
        return 5;
    free(malloc(1000));
    puts("closed");
    return 0;
}
"#;

const ALLOCATES: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
    char *block = calloc(1000, 100);
    if (block == NULL || block[99999] != 0 || (block = realloc(block, 5000000)) == NULL)
        return 3;
    memset(block, 1, 5000000);
    free(block);
    void *aligned;
    if (posix_memalign(&aligned, 4096, 100) != 0)
        return 4;
    free(aligned);
    puts("allocated");
    return 0;
}
"#;

fn compiled(scratch: &Scratch, compiler: &Path, source: &str) -> Result<PathBuf> {
    let (text, program) = (scratch.path("program.c"), scratch.path("program"));
    fs::write(&text, source).map_err(|error| error.to_string())?;
    process::run(command(compiler).arg("-w").arg(&text).arg("-o").arg(&program))?.good()?;
    Ok(program)
}

fn says_once(ran: &Ran, sentence: &str) -> Result {
    check!(ran.status.success(), "{ran}");
    let err = ran.err();
    let lines: Vec<&str> = err.lines().collect();
    check!(lines.len() == 1 && lines[0].contains(sentence), "one line that says {sentence:?}: {ran}");
    Ok(())
}

const NOT_PRELOADED: &str = "was not preloaded";

#[test]
fn opened_by_the_program() -> Result {
    let scratch = Scratch::new();
    let program = compiled(&scratch, Path::new("gcc"), OPENS_IT)?;
    for apart in [&[][..], &["apart"]] {
        let ran = process::run(command(&program).arg(preload()).args(apart))?;
        says_once(&ran, NOT_PRELOADED)?;
        check!(ran.out() == "closed\n", "{ran}");
    }
    Ok(())
}

#[test]
fn opened_where_another_copy_records() -> Result {
    let scratch = Scratch::new();
    let program = compiled(&scratch, Path::new("gcc"), OPENS_IT)?;
    let copy = scratch.path("copy.so");
    fs::copy(preload(), &copy).map_err(|error| error.to_string())?;
    for apart in [&[][..], &["apart".to_owned()]] {
        let arguments = [&[copy.to_string_lossy().into_owned()][..], apart].concat();
        let ran = process::run(&mut by_hand(&scratch, &[], &program, &arguments))?;
        says_once(&ran, NOT_PRELOADED)?;
        check!(ran.out() == "closed\n", "{ran}");
    }
    Ok(())
}

#[test]
fn preloaded_into_a_program_with_musl() -> Result {
    let Some(compiler) = find(&["musl-gcc"]) else {
        skip("preloading into a program with musl", "musl-tools is not installed");
        return Ok(());
    };
    let scratch = Scratch::new();
    let program = compiled(&scratch, &compiler, ALLOCATES)?;
    let ran = process::run(command(&program).env("LD_PRELOAD", preload()))?;
    says_once(&ran, "not built for glibc: nothing is recorded")?;
    check!(ran.out() == "allocated\n", "{ran}");
    Ok(())
}
