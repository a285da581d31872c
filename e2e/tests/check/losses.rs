//! What was lost, damaged or forgotten is no success, unless it cannot turn the answer.

use std::fs;

use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::{Result, check};

use crate::{checked, compiled, expect, ledger, recorded};

#[test]
fn what_is_missing_is_no_success() -> Result {
    let scratch = Scratch::new();
    // Full: the ledger has no room for so many.
    let full = ledger(&scratch, "full", 200_000, &["--max-ledger", "2M"])?;
    let most = ["--max-live", "1G"];
    expect(&checked(&full, &most)?, 3, &["LOST", "not entered", "--allow-losses"])?;
    expect(&checked(&full, &["--max-live", "1G", "--allow-losses"])?, 0, &["it holds"])?;
    expect(&checked(&full, &["--max-live", "1K"])?, 1, &["EXCEEDED", "LOST"])?;
    let whole = ledger(&scratch, "whole", 50_000, &[])?;
    let mut bytes = fs::read(&whole).map_err(|error| error.to_string())?;
    bytes.truncate(bytes.len() / 2);
    let cut = scratch.path("cut.hl");
    fs::write(&cut, bytes).map_err(|error| error.to_string())?;
    expect(&checked(&cut, &most)?, 3, &["damaged"])?;
    let junit = checked(&cut, &["--max-live", "1G", "--format", "junit"])?;
    expect(&junit, 3, &["errors=\"2\"", "<error message="])
}

/// Losses that cannot turn the answer do not: so many blocks more would still be within the limit.
#[test]
fn a_loss_that_turns_nothing_is_no_failure() -> Result {
    let scratch = Scratch::new();
    let full = ledger(&scratch, "full", 200_000, &["--max-ledger", "2M"])?;
    expect(&checked(&full, &["--max-allocs", "1000000"])?, 0, &["and it holds"])?;
    expect(&checked(&full, &["--max-allocs", "199000"])?, 3, &["LOST", "UNCLEAR", "it may be anything from"])?;
    expect(&checked(&full, &["--max-allocs", "10"])?, 1, &["EXCEEDED"])?;
    let junit = checked(&full, &["--max-allocs", "1000000", "--format", "junit"])?;
    expect(&junit, 0, &["errors=\"0\""])
}

/// Frees more than are remembered: what is added up of those that are left says so, in every command and form.
const CHURN: &str = "
#include <stdlib.h>
static void *volatile kept;
int main(void) {
    for (int n = 0; n < 20000; n++) free(kept = malloc(100));
    kept = malloc(7);
    return 0;
}
";

#[test]
fn figures_of_the_last_frees_do_not_look_whole() -> Result {
    let scratch = Scratch::new();
    let program = compiled(&scratch, "churn", CHURN, &["-g"])?;
    recorded(&scratch, "some", &["--history", "1000"], &program)?;
    recorded(&scratch, "all", &[], &program)?;
    let of = |ledger: &str, words: &[&str]| {
        let mut asked = command(heapledger());
        process::run(asked.current_dir(scratch.work()).arg(words[0]).arg(scratch.path(ledger)).args(&words[1..]))
    };
    let picture = scratch.path("x.svg").to_string_lossy().into_owned();
    let page = scratch.path("x.html").to_string_lossy().into_owned();
    // Of all blocks there are sums; of some, what the history holds.
    let all: &[(&[&str], &str, Option<&str>)] = &[
        (&["tree", "--where", "size > 1", "--by", "allocated"], "allocated, of live blocks and the last ", None),
        (&["tree", "--where", "size > 1", "--by", "freed-blocks"], "freed, of the last ", None),
        (&["tree", "--where", "size > 1", "--by", "allocated", "--csv"], "these blocks are neither", None),
        (&["tree", "--where", "size > 1", "--by", "allocated", "--json"], "\"complete\":false", None),
        (
            &["flame", "--where", "size > 1", "--by", "allocated", "-o", &picture],
            "allocated bytes of live blocks and the last ",
            Some(&picture),
        ),
        (&["flame", "--where", "size > 1", "-o", &page], "\"parts\":[\"of live blocks and the last ", Some(&page)),
        (
            &["flame", "--where", "size > 1", "--by", "freed", "--format", "folded"],
            "neither in allocated nor in freed figures",
            None,
        ),
        (&["flame", "--where", "size > 1", "--json"], "\"complete\":false", None),
        (&["history", "--group-by", "fn"], "no longer in the ring", None),
        (&["history", "--group-by", "fn", "--csv"], "no longer in the ring", None),
        (&["history", "--group-by", "fn", "--json"], "\"complete\":false", None),
        (&["stats", "--where", "size > 1"], "no longer in the ring", None),
        (&["stats", "--where", "size > 1", "--json"], "\"complete\":false", None),
    ];
    for (words, part, file) in all {
        for (ledger, expected) in [("some.hl", true), ("all.hl", false)] {
            let ran = of(ledger, words)?;
            let code = ran.status.code().unwrap_or(-1);
            check!(code == 0, "{words:?}: {ran}");
            let written = match file {
                Some(path) => fs::read_to_string(path).map_err(|error| error.to_string())?,
                None => format!("{}{}", ran.out(), ran.err()),
            };
            // A whole history is whole, and nothing is said.
            check!(written.contains(part) == expected, "{ledger} {words:?}: {written}");
        }
    }
    // Limits on all calls have the stacks of all.
    for words in [&["check", "--max-allocs", "1"][..], &["check", "--max-allocated", "1", "--format", "junit"]] {
        let of_both = ["some.hl", "all.hl"].map(|ledger| of(ledger, words));
        for ran in of_both {
            let ran = ran?;
            let part = ran.out().contains("of live blocks and the last");
            check!(ran.status.code() == Some(1) && !part && ran.out().contains("main"), "{words:?}: {ran}");
        }
    }
    Ok(())
}

/// A limit that is exceeded is never said to hold because part of the ledger cannot be read, whichever byte is wrong.
#[test]
fn a_damaged_ledger_does_not_pass() -> Result {
    const PLACES: usize = 60;
    let scratch = Scratch::new();
    let path = ledger(&scratch, "x", 3000, &[])?;
    let question = ["--max-live-blocks", "10", "--where", "fn == copy_name"];
    expect(&checked(&path, &question)?, 1, &["3,000 blocks"])?;
    let bytes = fs::read(&path).map_err(|error| error.to_string())?;
    let forged = scratch.path("forged.hl");
    let mut told = 0;
    for place in 0..PLACES {
        let mut changed = bytes.clone();
        let at = bytes.len() * place / PLACES + place % 7;
        let Some(byte) = changed.get_mut(at) else { continue };
        *byte ^= 0x10;
        fs::write(&forged, changed).map_err(|error| error.to_string())?;
        let ran = checked(&forged, &question)?;
        check!(
            ran.status.code().is_some_and(|code| (1..=3).contains(&code)),
            "byte {at} is wrong, and it passes: {ran}"
        );
        told += u64::from(ran.status.code() == Some(3));
    }
    check!(told > 0, "no damage was met that hides blocks");
    Ok(())
}
