//! What a C program is told of its threads: who holds how much of what (`e2e/c_api/tasks.c`).

use heapledger_e2e::c_programs::{built, recorded};
use heapledger_e2e::ledger::{Stats, check_totals};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::command;
use heapledger_e2e::{Result, check, process, skip};

const STRICT: [&str; 6] = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1"];

#[test]
fn threads_heaps_and_blocks() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "gcc", "tasks.c", "tasks", &STRICT)?;
    let alone = process::run(&mut command(&program))?.good()?.out();
    check!(alone == "absent\n", "{alone}");
    for (name, options, words) in
        [("plain", &[][..], &["all"][..]), ("accounts", &["--accounts"], &["all", "with accounts"])]
    {
        let (said, ledger) = recorded(&scratch, name, options, &program, words)?;
        check!(said == "all is as it should be\n", "{name}: {said}");
        check_totals(&Stats::of(&ledger)?, &[])?;
    }
    let (said, _) = recorded(&scratch, "threadless", &["--without", "thread"], &program, &["threadless"])?;
    check!(said == "threadless\n", "{said}");
    Ok(())
}

/// A thread that is stopped anywhere holds nothing for which another one waits that allocates or asks.
#[test]
fn nothing_waits_for_a_thread_that_is_stopped() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "gcc", "suspended.c", "suspended", &["-Wall", "-Wextra", "-Werror", "-O1"])?;
    for (name, options, words) in [
        ("accounts", &["--accounts"][..], &["300"][..]),
        ("plain", &[], &["100"]),
        // A trace has a lock; whoever does not get it goes on, and that is counted.
        ("traced", &[], &["15", "with a trace"]),
    ] {
        let (said, _) = recorded(&scratch, name, options, &program, words)?;
        if said == "may not be stopped\n" {
            skip("c_tasks", "no process may stop another one's threads");
            return Ok(());
        }
        let longest: u64 = said.trim_end().parse().map_err(|_| format!("{name}: {said}"))?;
        println!("{name}: {longest} ms at most");
        // The first that does not get the lock of a trace waits for two seconds, and nobody after it.
        check!(longest < 5_000, "{name}: {longest} ms");
    }
    Ok(())
}

const HEAD: &str = "┌────────────────────┬─────────┬──────────────────────┬───────────────────┬─────────────────┐\n\
                    │ TASK               │ STATUS  │ CURRENT MEMORY USAGE │ PEAK MEMORY USAGE │ TOTAL HEAP USED │\n\
                    ├────────────────────┼─────────┼──────────────────────┼───────────────────┼─────────────────┤\n";
const FOOT: &str = "└────────────────────┴─────────┴──────────────────────┴───────────────────┴─────────────────┘\n";

#[test]
fn the_text_is_that_of_esp_idf() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "gcc", "tasks.c", "tasks", &STRICT)?;
    for (name, options) in [("plain", &[][..]), ("accounts", &["--accounts"])] {
        let (said, _) = recorded(&scratch, name, options, &program, &["printed"])?;
        let (first, text) = said.split_once('\n').ok_or("no line")?;
        let addresses: Vec<_> = first.split(' ').collect();
        let [one, two] = addresses[..] else { return Err(format!("no addresses: {first}")) };
        // Peaks are known where accounts are kept.
        let (peak, percent) = if options.is_empty() { ("-", "-") } else { ("7000", "10") };
        let row = |status| {
            format!(
                "{HEAD}│    fifteen letters │ {status} │                 5088 │ {peak:>17} │               1 │\n{FOOT}"
            )
        };
        let expected = format!(
            "└ ALIVE: fifteen letters, CURRENT MEMORY USAGE 5088, PEAK MEMORY USAGE {peak}, TOTAL HEAP USED 1:\n\
             \x20    └ HEAP: fast, CAPS: 0x00000001, SIZE: 65536, USAGE: CURRENT 5088 (7%), PEAK {peak} ({percent}%), \
             ALLOC COUNT: 2\n\
             \x20         ├ ALLOC 0x{one}, SIZE 88\n\
             \x20         ├ ALLOC 0x{two}, SIZE 5000\n{}{}",
            row("ALIVE  "),
            row("DELETED")
        );
        let (of_one, of_all) = text.split_once("all\n").ok_or("not all")?;
        check!(of_one == expected, "{name}: it says:\n{of_one}\nand not:\n{expected}");
        // The last one's lines are those of one alone, but for what it is now.
        let last = expected.split(HEAD).next().unwrap_or_default().replace("ALIVE", "DELETED");
        check!(of_all.starts_with("├ ALIVE: tasks, ") && of_all.ends_with(&last), "{name}: {of_all}");
        let stems = of_all.lines().filter(|line| line.starts_with('│')).count();
        check!(stems > 0 && of_all.lines().all(|line| line.starts_with(['├', '│', '└', ' '])), "{name}: {of_all}");
    }
    Ok(())
}
