//! What is added to a call of the C library by holding it against blocks, in instructions that callgrind counts.

use std::fs;
use std::path::Path;

use heapledger_e2e::guard::{Build, built};
use heapledger_e2e::programs::PATIENCE;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{calls, command, find};
use heapledger_e2e::tracked::by_hand_with;
use heapledger_e2e::{Result, callgrind, check, process, skip};

/// As in the program's source.
const TIMES: u64 = 1000;

/// Its calls, in their order, and most instructions that are added to one.
const CALLS: &[(&str, u64)] = &[
    ("memcpy of other memory", 20),
    ("strlen of other memory", 16),
    ("strcmp of other memory", 20),
    ("snprintf of other memory", 900),
    ("memcpy from block to block", 260),
    ("strlen of a block", 400),
    ("strcmp of a block with itself", 500),
    ("snprintf from block to block", 2500),
];

/// Instructions of a call of each kind.
fn count(valgrind: &Path, program: &Path, is_judged: bool) -> Result<Vec<u64>> {
    let scratch = Scratch::new();
    let counts = scratch.path("callgrind.out");
    let mut arguments = callgrind::options(&counts);
    arguments.push(program.to_string_lossy().into_owned());
    let mut run = match is_judged {
        true => by_hand_with(&scratch, "guard=full", &[calls()], valgrind, &arguments),
        false => {
            let mut run = command(valgrind);
            run.args(&arguments).current_dir(scratch.work());
            run
        }
    };
    process::run_within(&mut run, PATIENCE)?.good()?;
    let text = fs::read_to_string(&counts).map_err(|error| format!("{}: {error}", counts.display()))?;
    let all = callgrind::segments(&text);
    check!(all.len() == CALLS.len() + 3, "callgrind has counted {} segments", all.len());
    // The first is the start, and what lies between the two halves is another one.
    let half = CALLS.len() / 2;
    let each = all[1..=half].iter().chain(&all[half + 2..=CALLS.len() + 1]);
    Ok(each.map(|segment| segment.instructions / TIMES).collect())
}

#[test]
fn a_call_stays_below_its_ceiling() -> Result {
    let (Some(valgrind), Some(program)) = (find(&["valgrind"]), built("call_costs.c", Build::O0)?) else {
        skip("call_costs", "valgrind or a compiler is not installed");
        return Ok(());
    };
    let (alone, judged) = (count(&valgrind, &program, false)?, count(&valgrind, &program, true)?);
    let mut table = String::from("instructions of a call: alone, and what is added\n");
    let mut problems = Vec::new();
    for (((name, most), alone), judged) in CALLS.iter().zip(alone).zip(judged) {
        let added = judged.saturating_sub(alone);
        table.push_str(&format!("  {name:<30} {alone:>6} {added:>6}\n"));
        if added > *most {
            problems.push(format!("{name}: {added} are added, and {most} are the most"));
        }
    }
    println!("{table}");
    check!(problems.is_empty(), "{}\n{table}", problems.join("\n"));
    Ok(())
}
