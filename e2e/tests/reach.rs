//! Each byte around a block, of a live one and of a freed one: what a level watches is told, each time, nothing else is, and nobody crashes.

use std::collections::BTreeMap;

use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger, root};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check};
use serde_json::Value;

/// How often what was found when.
fn found(ledger: &std::path::Path) -> Result<BTreeMap<(String, String), u64>> {
    let told = process::run(command(heapledger()).args(["errors", "--json"]).arg(ledger))?.good()?.out();
    let mut found = BTreeMap::new();
    for line in told.lines() {
        let json: Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        let text = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
        if json["type"] == "error" {
            *found.entry((text("kind"), text("found_at"))).or_default() += 1 + json["repeats"].as_u64().unwrap_or(0);
        }
    }
    Ok(found)
}

#[test]
fn each_byte_that_a_level_watches_is_told_when_its_block_ends() -> Result {
    let scratch = Scratch::new();
    let program = scratch.path("reach");
    let mut compile = command("gcc");
    compile.args(["-g", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-use-after-free", "-Wno-array-bounds", "-o"]);
    process::run(compile.arg(&program).arg(root().join("e2e/guard/reach.c")))?.good()?;
    for level in ["off", "light", "full"] {
        let guard = format!("--guard={level}");
        let options = [guard.as_str(), "--quarantine=1G"];
        let ran = process::run(&mut under_run(&scratch, level, &options, &program, &[level.to_owned()]))?.good()?;
        let said = ran.out();
        let mut numbers = said.split_whitespace().map(|number| number.parse::<u64>().unwrap_or(u64::MAX));
        let (at_free, at_end) = (numbers.next().unwrap_or(u64::MAX), numbers.next().unwrap_or(u64::MAX));
        let found = found(&scratch.path(&format!("{level}.hl")))?;
        let of = |when: &str| found.iter().filter(|((_, at), _)| at == when).map(|(_, times)| times).sum::<u64>();
        check!((of("free"), of("exit")) == (at_free, at_end), "{level}: {at_free} {at_end}, and not {found:?}");
        check!(found.values().sum::<u64>() == at_free + at_end, "{level}: {found:?}");
        check!((at_free != 0) == (level != "off") && (at_end != 0) == (level == "full"), "{level}: {said}");
        let in_freed = found.keys().any(|(kind, _)| kind == "heap-use-after-free");
        check!(in_freed == (level == "full"), "{level}: {found:?}");
    }
    Ok(())
}
