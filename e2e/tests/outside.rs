//! Text from outside that could steer a terminal, planted wherever there is a name, through every command in every form.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use heapledger_e2e::process::{self, Ran};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, copy_program, heapledger};
use heapledger_e2e::tracked::by_hand;
use heapledger_e2e::{Result, check};

/// Sets the title, clears the screen with C0 and with C1, turns the writing direction round, rings, and is no UTF-8.
const PLANT: &[u8] = b"\x1b]0;T\x07\x1b[2J\xc2\x9b2J\xe2\x80\xae\xe2\x81\xa6\xd8\x9c\x9b1m\xff";
/// What stands for the name of a function until the program is built.
const FUNCTION: &[u8] = b"planted_function_name_of_some_length_to_be_replaced";
const ESCAPES: &str = "\x1b[31m\u{9b}2J\u{202e}\u{2066}\x07\u{7f}";

fn source() -> String {
    let function = String::from_utf8_lossy(FUNCTION);
    format!(
        "#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
static void *volatile kept;
__attribute__((noinline)) static void {function}(int bytes) {{
    kept = malloc(bytes); /* {ESCAPES} */
    free(malloc(bytes + 1)); /* {ESCAPES} */
}}
int main(void) {{
    prctl(PR_SET_NAME, \"t{ESCAPES}\");
    for (int n = 0; n < 10; n++) {function}(100 + n);
    kept = 0;
    return 0;
}}
"
    )
}

/// Builds it where every name is planted.
fn build(directory: &Path) -> Result<PathBuf> {
    let text = |error: std::io::Error| error.to_string();
    let named = |name: &[u8]| directory.join(OsString::from_vec([name, PLANT].concat()));
    let (code, program) = (named(b"code").with_extension("c"), named(b"program"));
    fs::write(&code, source()).map_err(text)?;
    let plain = directory.join("plain");
    process::run(command("gcc").args(["-g", "-O0", "-fno-builtin", "-o"]).arg(&plain).arg(&code))?.good()?;
    // No assembler takes such a name; the tables of an ELF file take any.
    let mut bytes = fs::read(&plain).map_err(text)?;
    let mut name = [b"f".as_slice(), ESCAPES.as_bytes(), b"\x9b1m\xff"].concat();
    name.resize(FUNCTION.len(), b'x');
    let places: Vec<usize> = (0..bytes.len() - name.len()).filter(|at| bytes[*at..].starts_with(FUNCTION)).collect();
    check!(!places.is_empty(), "the function has no name in the program");
    for at in places {
        bytes[at..at + name.len()].copy_from_slice(&name);
    }
    fs::write(&plain, bytes).map_err(text)?;
    copy_program(&plain, &program)?;
    Ok(program)
}

fn steers(letter: char) -> bool {
    letter.is_control() && !matches!(letter, '\n' | '\t' | '\r')
        || ['\u{61c}', '\u{200e}', '\u{200f}'].contains(&letter)
        || ('\u{202a}'..='\u{202e}').contains(&letter)
        || ('\u{2066}'..='\u{2069}').contains(&letter)
}

/// Whether nothing of it steers.
fn tame(what: &str, bytes: &[u8]) -> Result {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("{what}: no UTF-8 at {}", error.valid_up_to()))?;
    match text.char_indices().find(|(_, letter)| steers(*letter)) {
        None => Ok(()),
        Some((at, letter)) => {
            let begin = text[..at].char_indices().rev().nth(60).map_or(0, |(at, _)| at);
            let end = text[at..].char_indices().nth(20).map_or(text.len(), |(more, _)| at + more);
            Err(format!("{what}: {letter:?} in {:?}", &text[begin..end]))
        }
    }
}

fn both(what: &str, ran: &Ran) -> Result {
    tame(&format!("{what}, standard output"), &ran.stdout)?;
    tame(&format!("{what}, standard error"), &ran.stderr)?;
    let said = format!("{}{}", ran.out(), ran.err());
    check!(!said.contains("panicked") && !said.is_empty(), "{what}: {said}");
    Ok(())
}

const READ: &[&[&str]] = &[
    &["stats"],
    &["stats", "--json"],
    &["stats", "--csv"],
    &["stats", "--format", "ecos"],
    &["stats", "--where", "size > 1"],
    &["dump"],
    &["dump", "--json"],
    &["dump", "--csv"],
    &["dump", "--format", "ecos"],
    &["dump", "--group-by", "fn,file,module,stack,thread"],
    &["dump", "--group-by", "stack", "--json"],
    &["dump", "--group-by", "thread,fn", "--csv"],
    &["dump", "--columns", "size,fn,file,module,stack,thread,heap"],
    &["dump", "--columns", "size,fn,file,module,stack,thread,heap", "--csv"],
    &["dump", "--where", "fn == nowhere"],
    &["history"],
    &["history", "--json"],
    &["history", "--csv"],
    &["history", "--format", "ecos"],
    &["history", "--group-by", "event,fn,file,thread"],
    &["tree"],
    &["tree", "--by", "allocated", "--threads"],
    &["tree", "--inverted"],
    &["tree", "--json"],
    &["tree", "--csv"],
    &["flame", "--format", "folded"],
    &["flame", "--threads", "--format", "html", "-o", "-"],
    &["flame", "--threads", "--format", "svg", "-o", "-"],
    &["flame", "--json"],
    &["top", "--batch"],
    &["top", "--batch", "--json"],
    &["top", "--batch", "--csv"],
    &["check", "--max-live", "1", "--max-allocs", "1"],
    &["check", "--max-live", "1", "--format", "junit"],
    &["check", "--max-live", "1", "--format", "sarif"],
    &["check", "--max-live", "1", "--format", "github"],
    &["check", "--max-leaked", "0", "--json"],
    &["whereis", "--block", "0x1000"],
    &["snapshot"],
    &["recover"],
];

#[test]
fn no_name_steers_what_shows_it() -> Result {
    let scratch = Scratch::new();
    let text = |error: std::io::Error| error.to_string();
    let place = scratch.work().join(OsStr::from_bytes(&[b"place".as_slice(), PLANT].concat()));
    fs::create_dir_all(&place).map_err(text)?;
    let program = build(&place)?;
    let odd = OsStr::from_bytes(PLANT);
    let ledger = place.join(OsStr::from_bytes(&[b"x".as_slice(), PLANT, b".hl"].concat()));
    let asked = |words: &[&str]| {
        let mut asked = command(heapledger());
        asked.args(words).current_dir(&place).env("HEAPLEDGER_PAGER", odd).env("PAGER", odd);
        asked
    };
    let mut run = asked(&["run", "-o"]);
    run.arg(&ledger).arg("--ledger-dir").arg(scratch.live()).arg("--").arg(&program).arg(odd);
    let ran = process::run(&mut run)?.good()?;
    both("run", &ran)?;
    check!(ran.err().contains("program\\u{1b}]0;T\\u{7}"), "the program is named: {ran}");
    check!(ledger.exists(), "{ran}");
    // Once more: it is there already.
    both("run again", &process::run(&mut run)?.good()?)?;
    for words in READ {
        let what = words.join(" ");
        let mut read = asked(&words[..1]);
        let ran = process::run(read.arg(&ledger).args(&words[1..]))?;
        both(&what, &ran)?;
    }
    // Where the names are shown at all, they are there.
    for (words, shown) in [
        (&["dump"][..], "f\\u{1b}[31m\\u{9b}2J\\u{202e}\\u{2066}\\u{7}\\u{7f}"),
        (&["dump", "--json"], "f\\u001b[31m\\u009b2J\\u202e\\u2066\\u0007\\u007f"),
        (&["check", "--max-live", "1", "--format", "junit"], "&#x9b;2J&#x202e;"),
        (&["check", "--max-live", "1", "--format", "sarif"], "f\\u001b[31m\\u009b2J\\u202e"),
    ] {
        let ran = process::run(asked(&words[..1]).arg(&ledger).args(&words[1..]))?;
        check!(ran.out().contains(shown), "{words:?}: {}", ran.out());
    }
    // Compared, and refused: no such file, no ledger, no program, none that can be tracked, wrong words.
    let second = place.join(OsStr::from_bytes(&[b"x".as_slice(), PLANT, b".hl.1"].concat()));
    for words in [&["diff"][..], &["diff", "--json"], &["diff", "--blocks"], &["history"], &["flame", "--json"]] {
        both(&words.join(" "), &process::run(asked(words).arg(&ledger).arg(&second))?)?;
    }
    let script = place.join(OsStr::from_bytes(&[b"script".as_slice(), PLANT].concat()));
    fs::write(&script, [b"#!/no/such/".as_slice(), PLANT, b"\n"].concat()).map_err(text)?;
    process::run(command("chmod").arg("+x").arg(&script))?.good()?;
    let refused: &[(&[&str], &Path)] = &[
        (&["stats"], &place.join(OsStr::from_bytes(&[b"none".as_slice(), PLANT].concat()))),
        (&["dump"], &program),
        (&["stats"], &place),
        (&["check", "--max-live"], Path::new(odd)),
        (&["dump", "--where"], Path::new(odd)),
        (&["tree", "--sort"], Path::new("\x1b[2Jx\u{202e}")),
        (&["run", "-q"], Path::new(odd)),
        (&["run", "-o"], &place),
        (&["run"], &place.join("nowhere")),
        (&["run"], &script),
        (&["recover"], Path::new(odd)),
        (&["whereis"], &ledger),
        (&["nothing"], Path::new(odd)),
        (&["flame", "-o"], &place.join("x.odd")),
    ];
    for (words, last) in refused {
        let ran = process::run(asked(words).arg(last))?;
        check!(!ran.status.success(), "{words:?} is refused: {ran}");
        both(&format!("{words:?} refused"), &ran)?;
    }
    let mut odd_variable = asked(&["run", "-q", "--", "true"]);
    both("HEAPLEDGER", &process::run(odd_variable.env("HEAPLEDGER", odd))?)?;
    // Left behind and found again.
    process::run(&mut by_hand(&scratch, &[], &program, &[]))?.good()?;
    for words in [&["recover", "--list"][..], &["recover", "-o", "."]] {
        let ran = process::run(asked(words).arg(scratch.live()))?.good()?;
        both(&words.join(" "), &ran)?;
        check!(ran.out().contains("program\\u{1b}]0"), "{words:?} names the program: {ran}");
    }
    Ok(())
}
