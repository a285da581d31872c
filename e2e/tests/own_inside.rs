//! Programs with the crate around an allocator that has memory of its own, under `heapledger run`, which does not see its blocks by
//! itself.

use std::path::PathBuf;

use heapledger_e2e::ledger::{Blocks, Stats, check_totals};
use heapledger_e2e::own_books::programs;
use heapledger_e2e::process::{PATIENCE, start};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check};

/// Runs the program, and gives the ledger.
fn run(scratch: &Scratch, options: &[&str], program: [&'static str; 2], words: [&str; 2]) -> Result<PathBuf> {
    let [profile, program] = program;
    let name = format!("{}-{}", words[0], words[1]);
    let program = programs(profile)?.join(program);
    let mut command = under_run(scratch, &name, options, &program, &words.map(str::to_owned));
    let ended = start(&mut command)?.finish(PATIENCE)?.good()?;
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    // A mark goes to the recorder that there is.
    check!(said == "done true\n", "it says {said:?}");
    Ok(scratch.path(&format!("{name}.hl")))
}

/// How many blocks of a size a ledger has, by this function and kind of call.
fn count(blocks: &Blocks, size: u64, function: &str, kind: &str) -> Result<usize> {
    let of_size = blocks.blocks.iter().filter(|block| block.size == size);
    for block in of_size.clone() {
        let frames = &blocks.stacks[&block.site];
        check!(blocks.kinds[block.kind] == kind, "{size} bytes by {}", blocks.kinds[block.kind]);
        check!(frames.iter().any(|frame| frame.names[0].ends_with(function)), "{size} bytes by {frames:?}");
    }
    Ok(of_size.count())
}

/// What the program's own calls ask for, `times` in each of two rounds, is there once.
fn check_told(ledger: &PathBuf) -> Result {
    check_totals(&Stats::of(ledger)?, &[])?;
    let live = Blocks::live(ledger)?;
    let kept = count(&live, 1_111, "::inside::keeps", "__rust_alloc")?;
    check!(kept == 500, "{kept} blocks are kept");
    let grown = count(&live, 4_444, "::inside::grows", "__rust_realloc")?;
    check!(grown == 100, "{grown} blocks have grown");
    let gone = [2_222, 3_333].map(|size| live.blocks.iter().filter(|block| block.size == size).count());
    check!(gone == [0, 0], "blocks that are gone: {gone:?}");
    let ever = Blocks::ever(ledger)?;
    let freed = count(&ever, 2_222, "::inside::gives_back", "__rust_alloc")?;
    check!(freed == 500, "{freed} blocks were given back");
    Ok(())
}

#[test]
fn what_it_does_not_see_is_told() -> Result {
    for program in [["dev", "apart"], ["release", "apart"], ["dev", "apart_off"], ["release", "apart_off"]] {
        let scratch = Scratch::new();
        check_told(&run(&scratch, &[], program, ["apart", "threads"])?)?;
    }
    Ok(())
}

/// What is divided is seen, too, and is a block as well: where a block of each begins at the same place, neither is lost.
#[test]
fn blocks_in_blocks_are_told_beside_them() -> Result {
    let scratch = Scratch::new();
    let ledger = run(&scratch, &[], ["release", "apart"], ["chunks", "threads"])?;
    check_told(&ledger)?;
    let stats = Stats::of(&ledger)?;
    check!(stats.number("displaced") == 0, "{} blocks were displaced", stats.number("displaced"));
    Ok(())
}

#[test]
fn what_it_sees_is_not_told_again() -> Result {
    let scratch = Scratch::new();
    let ledger = run(&scratch, &[], ["release", "apart"], ["header", "threads"])?;
    let stats = Stats::of(&ledger)?;
    check_totals(&stats, &[])?;
    check!(!stats.calls("allocated_by").contains_key("__rust_alloc"), "{:?}", stats.0["allocated_by"]);
    let live = Blocks::live(&ledger)?;
    let kept = count(&live, 1_111 + 16, "::inside::keeps", "malloc")?;
    check!(kept == 500, "{kept} blocks are kept");
    Ok(())
}

/// Where blocks are sampled it is found out all the same.
#[test]
fn samples_are_told_as_well() -> Result {
    let scratch = Scratch::new();
    let told = run(&scratch, &["--sample", "64K"], ["release", "apart"], ["apart", "much"])?;
    let much = count(&Blocks::live(&told)?, 32 << 20, "::inside::keeps_much", "__rust_alloc")?;
    check!(much == 1, "{much} large blocks");
    let seen = run(&scratch, &["--sample", "64K"], ["release", "apart"], ["header", "much"])?;
    let live = Blocks::live(&seen)?;
    check!(live.kinds.iter().all(|kind| !kind.starts_with("__rust")), "{:?}", live.kinds);
    let much = live.blocks.iter().filter(|block| block.size > 32 << 20).count();
    check!(much == 1, "{much} large blocks");
    Ok(())
}

/// The child goes on, and its blocks are in no ledger.
#[test]
fn a_forked_child_tells_nobody() -> Result {
    let scratch = Scratch::new();
    check_told(&run(&scratch, &[], ["release", "apart"], ["apart", "fork"])?)
}
