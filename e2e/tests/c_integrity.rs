//! Checks that a program asks for: what each level sees of a byte around a block, and that other threads may go on meanwhile.

use heapledger_e2e::c_programs::{built, recorded};
use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::{Result, check};

const STRICT: [&str; 3] = ["-Wall", "-Wextra", "-Werror"];

/// Errors of a ledger by how often they were found, and each found then.
fn found(ledger: &std::path::Path, at: &str) -> Result<u64> {
    let told = process::run(command(heapledger()).args(["errors", "--json"]).arg(ledger))?.good()?.out();
    let mut times = 0;
    for line in told.lines() {
        let json: serde_json::Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        if let Some(place) = json["found_at"].as_str() {
            check!(place == at, "{line}");
            times += 1 + json["repeats"].as_u64().unwrap_or(0);
        }
    }
    Ok(times)
}

#[test]
fn each_byte_that_a_level_watches_is_seen_and_no_other() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "gcc", "integrity.c", "integrity", &STRICT)?;
    // Sizes of `integrity.c`, the bytes on both sides of each, and at `full` those of five freed ones.
    for (level, expected) in [("light", 8 * (16 + 4)), ("full", 8 * (16 + 48) + 1 + 7 + 13 + 16 + 24)] {
        let guard = format!("--guard={level}");
        let (said, ledger) = recorded(&scratch, level, &[&guard], &program, &[level])?;
        check!(said == "as it should\n", "{level}: {said}");
        let times = found(&ledger, "sweep")?;
        check!(times == expected, "{level}: {times} times something was found, and not {expected}");
    }
    Ok(())
}

#[test]
fn other_threads_go_on_meanwhile() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "gcc", "integrity.c", "integrity", &STRICT)?;
    for level in ["light", "full"] {
        let guard = format!("--guard={level}");
        let (said, ledger) = recorded(&scratch, level, &[&guard], &program, &[level, "threads"])?;
        check!(said == "as it should\n" && found(&ledger, "sweep")? == 0, "{level}: {said}");
    }
    Ok(())
}

#[test]
fn without_a_guard_it_says_so() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "gcc", "integrity.c", "integrity", &STRICT)?;
    let alone = process::run(&mut command(&program))?.good()?.out();
    let (said, _) = recorded(&scratch, "off", &[], &program, &[])?;
    check!(alone == "not guarded\n" && said == alone, "{alone}{said}");
    Ok(())
}

#[test]
fn the_guard_is_lowered_while_the_program_runs() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "gcc", "guard_level.c", "guard_level", &STRICT)?;
    check!(process::run(&mut command(&program))?.good()?.out() == "absent\n", "without heapledger");
    for (row, level) in [(0, "off"), (1, "light"), (2, "full"), (3, "page")] {
        for (how, expected) in [("rightly", 0), ("wrongly", row)] {
            let (guard, name) = (format!("--guard={level}"), format!("{level}_{how}"));
            let (said, ledger) = recorded(&scratch, &name, &[&guard], &program, &[level, how])?;
            check!(said == "lowered\n", "{name}: {said}");
            let times = found(&ledger, "free")?;
            check!(times == expected, "{name}: {times} times something was found, and not {expected}");
            // Who is guarded less since it is to be so is not counted.
            let stats = process::run(command(heapledger()).arg("stats").arg(&ledger))?.good()?.out();
            check!(!stats.contains("guarded less"), "{name}: {stats}");
        }
    }
    for level in ["off", "light", "full"] {
        let (guard, name) = (format!("--guard={level}"), format!("restricted_{level}"));
        let (said, _) = recorded(&scratch, &name, &[&guard], &program, &["restricted"])?;
        check!(said == "lowered\n", "{name}: {said}");
    }
    let (said, _) = recorded(&scratch, "sampled", &["--guard=page=1/2"], &program, &["sampled"])?;
    check!(said == "lowered\n", "{said}");
    Ok(())
}
