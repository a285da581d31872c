//! Programs with the crate `heapledger` that ask whether what lies around their blocks is whole.

use heapledger_e2e::own_books::{alone, programs};
use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check};

#[test]
fn a_rust_program_asks_whether_its_blocks_are_whole() -> Result {
    for profile in ["dev", "release"] {
        let scratch = Scratch::new();
        let ran = process::run(&mut alone(&scratch, profile, "guarded", &["alone"])?)?.good()?;
        check!(ran.out() == "not guarded\n", "{profile}: {ran}");
        let program = programs(profile)?.join("guarded");
        for level in ["light", "full"] {
            let guard = format!("--guard={level}");
            let words = ["guarded".to_owned()];
            let ran = process::run(&mut under_run(&scratch, level, &[&guard], &program, &words))?.good()?;
            check!(ran.out() == "as it should\n", "{profile} {level}: {ran}");
            let ledger = scratch.path(&format!("{level}.hl"));
            let errors = process::run(command(heapledger()).arg("errors").arg(ledger))?.good()?.out();
            let told = errors.contains("heap-buffer-overflow") && errors.contains("0 bytes after a 100-byte region");
            check!(told && errors.contains("guarded::main"), "{profile} {level}: {errors}");
        }
    }
    Ok(())
}
