//! Watchpoints of the processor that a C program sets, or the answer that there is none.

use heapledger_e2e::c_programs::{built, recorded};
use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::command;
use heapledger_e2e::{Result, check, skip};

#[test]
fn who_writes_to_a_watched_word_is_told_by_a_signal() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "gcc", "watch.c", "watch", &["-Wall", "-Wextra", "-Werror"])?;
    let alone = process::run(&mut command(&program))?.good()?.out();
    check!(alone == "absent\n", "{alone}");
    for (what, expected) in [("refused", "refused\n"), ("counts", "counted\n"), ("dies", "died\n")] {
        let (said, _) = recorded(&scratch, what, &[], &program, &[what])?;
        if said.starts_with("none: -10") {
            skip("watchpoints", said.trim());
            continue;
        }
        check!(said == expected, "{what}: {said}");
    }
    Ok(())
}
