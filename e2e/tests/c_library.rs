//! Programs in C that record themselves, without `run`: linked with what `heapledger sdk` writes. Their sources are in `e2e/c_api`.

use std::fs;
use std::process::Command;

use heapledger_e2e::ledger::{Blocks, Stats, check_totals};
use heapledger_e2e::process;
use heapledger_e2e::sdk::{Sdk, WORK, own_blocks};
use heapledger_e2e::tools::{command, heapledger, root};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check};

#[test]
fn a_linked_program_holds_the_same_blocks_as_under_run() -> Result {
    let sdk = Sdk::new()?;
    let weak = sdk.built("gcc", "own.c", "weak", &["-DHEAPLEDGER_WEAK"])?;
    let ran = process::run(&mut under_run(&sdk.scratch, "weak", &[], &weak, &["work".to_owned()]))?.good()?;
    let expected = own_blocks(&sdk.scratch.path("weak.hl"))?;
    check!(expected == WORK, "under run: {expected:#?}");
    fs::remove_file(sdk.scratch.path("weak.hl")).map_err(|error| error.to_string())?;
    for (name, options) in [("pie", ["-fPIE", "-pie"]), ("no-pie", ["-fno-pie", "-no-pie"])] {
        let program = sdk.linked(name, &options)?;
        let own = sdk.run(&program, "", &["work"])?.good()?;
        check!(own.out() == ran.out() && own.err().is_empty(), "{name}: {own}");
        let ledger = sdk.ledger()?;
        check!(ledger.name.starts_with(&format!("heapledger.{name}.")), "{}", ledger.name);
        check_totals(&Stats::of(&ledger.path)?, &[])?;
        let blocks = own_blocks(&ledger.path)?;
        check!(blocks == WORK, "{name}: {blocks:#?}");
        sdk.check_nothing_left(name)?;
    }
    Ok(())
}

#[test]
fn under_run_there_is_one_ledger_and_run_decides() -> Result {
    let sdk = Sdk::new()?;
    let program = sdk.linked("own", &["-DOPTIONS=\"begin=later,at-exit=remove,colour=red\""])?;
    let words = ["state", "start", "work", "stop", "discard", "state"].map(str::to_owned);
    let ran = process::run(&mut under_run(&sdk.scratch, "own", &[], &program, &words))?.good()?;
    let expected = "state 2\nstart -8\nrefused 1\nusable 1\nstop -8\ndiscard -8\nstate 2\n";
    check!(ran.out() == expected && ran.err().is_empty(), "{ran}");
    let ledger = sdk.ledger()?;
    check!(ledger.name == "own.hl", "{}", ledger.name);
    let blocks = own_blocks(&ledger.path)?;
    check!(blocks == WORK, "{blocks:#?}");
    sdk.check_nothing_left("run")
}

#[test]
fn the_program_says_when_it_begins_and_what_becomes_of_it() -> Result {
    let sdk = Sdk::new()?;
    let program = sdk.linked("own", &["-DOPTIONS=\"begin=later,at-exit=finish,output=own%2Cdone.hl,history=0\""])?;
    // Whoever never begins has no ledger.
    let ran = sdk.run(&program, "", &["state", "work", "stop", "discard", "state"])?.good()?;
    let expected = "state 0\nrefused 1\nusable 1\nstop -1\ndiscard -1\nstate 0\n";
    check!(ran.out() == expected && ran.err().is_empty(), "{ran}");
    sdk.check_nothing_left("who never begins")?;

    let ran =
        sdk.run(&program, "", &["work", "start:depth=2", "work", "start", "state", "stop", "stop", "state"])?.good()?;
    let expected = "refused 1\nusable 1\nstart 0\nrefused 1\nusable 1\nstart -8\nstate 2\nstop 0\nstop -1\nstate 0\n";
    check!(ran.out() == expected && ran.err().is_empty(), "{ran}");
    let ledger = sdk.ledger()?;
    check!(ledger.name == "own,done.hl", "{}", ledger.name);
    let stats = Stats::of(&ledger.path)?;
    check!(stats.inner("history", "capacity") == 0, "{:?}", stats.0["history"]);
    let live = Blocks::live(&ledger.path)?;
    check!(
        live.blocks.len() == WORK.len() && live.stacks.values().all(|stack| stack.len() <= 2),
        "not as was asked for"
    );
    sdk.check_nothing_left("a finished one")?;

    // The variable goes before what the program says, and that before what it has written down.
    sdk.run(&program, "output=mine.hl", &["start:output=yours.hl"])?.good()?;
    check!(sdk.ledger()?.name == "mine.hl", "not as the variable says");
    sdk.run(&program, "", &["start:output=yours.hl"])?.good()?;
    check!(sdk.ledger()?.name == "yours.hl", "not as the program says");
    let ran = sdk.run(&program, "begin=now", &["state", "start"])?.good()?;
    check!(ran.out() == "state 2\nstart -8\n" && sdk.ledger()?.name == "own,done.hl", "{ran}");

    for words in
        [&["start:at-exit=remove", "work"][..], &["start", "work", "discard", "discard"], &["start", "stop", "discard"]]
    {
        sdk.run(&program, "", words)?.good()?;
        sdk.check_nothing_left(&words.join(" "))?;
    }
    sdk.run(&program, "at-exit=keep", &["start", "work"])?.good()?;
    let left = sdk.scratch.unfinished();
    let [ledger] = &left[..] else { return Err(format!("not one is kept: {left:?}")) };
    check!(own_blocks(ledger)? == WORK, "the kept one holds something else");
    // Where it cannot be written it stays as it is.
    let ran = sdk.run(&program, "", &["start:output=/nowhere/at/all.hl"])?.good()?;
    let said = "heapledger: /nowhere/at/all.hl cannot be written: `heapledger recover` finishes the ledger\n";
    check!(ran.err() == said && sdk.scratch.unfinished().len() == 2, "{ran}");
    Ok(())
}

#[test]
fn what_is_not_understood_is_told_and_the_program_runs_on() -> Result {
    let sdk = Sdk::new()?;
    let program = sdk.linked("own", &["-DOPTIONS=\"colour=red\""])?;
    let ran = sdk.run(&program, "depth=deep", &["state"])?.good()?;
    let expected = "heapledger: heapledger_options: not understood: colour=red\nheapledger: HEAPLEDGER: not understood: depth=deep\n";
    check!(ran.out() == "state 2\n" && ran.err() == expected, "{ran}");
    sdk.ledger()?;
    let ran = sdk.run(&program, "begin=later", &["start:at-exit=soon", "state", "start", "state"])?.good()?;
    let expected = "heapledger: heapledger_options: not understood: colour=red\nheapledger: heapledger_start: not understood: at-exit=soon\n";
    check!(ran.out() == "start -5\nstate 0\nstart 0\nstate 2\n" && ran.err() == expected, "{ran}");
    Ok(())
}

#[test]
fn a_killed_one_leaves_its_ledger() -> Result {
    let sdk = Sdk::new()?;
    let program = sdk.linked("own", &[])?;
    let ran = sdk.run(&program, "", &["work", "kill"])?;
    check!(process::signal_of(&ran) == Some(9), "{ran}");
    let left = sdk.scratch.unfinished();
    let [ledger] = &left[..] else { return Err(format!("not one ledger: {left:?}")) };
    let blocks = own_blocks(ledger)?;
    check!(blocks == WORK, "{blocks:#?}");
    process::run(command(heapledger()).arg("recover").arg(sdk.scratch.live()).arg("-o").arg(sdk.scratch.work()))?
        .good()?;
    let blocks = own_blocks(&sdk.ledger()?.path)?;
    check!(blocks == WORK, "recovered: {blocks:#?}");
    Ok(())
}

/// A forked child is not recorded, and takes nothing from its parent.
#[test]
fn a_forked_child_leaves_its_parents_ledger_alone() -> Result {
    let sdk = Sdk::new()?;
    let program = sdk.linked("own", &[])?;
    let ran = sdk.run(&program, "", &["work", "fork", "state"])?.good()?;
    let expected = "refused 1\nusable 1\nchild 0\nchild start -8\nchild stop -1\nchild discard -1\nwaited 0\nstate 2\n";
    check!(ran.out() == expected && ran.err().is_empty(), "{ran}");
    let blocks = own_blocks(&sdk.ledger()?.path)?;
    check!(blocks == WORK, "{blocks:#?}");
    sdk.check_nothing_left("a child")
}

#[test]
fn blocks_of_its_own_pool() -> Result {
    let sdk = Sdk::new()?;
    let program = sdk.linked("own", &[])?;
    let ran = sdk.run(&program, "", &["pool"])?.good()?;
    check!(ran.out() == "heap 1\nallocated 0\nallocated 0\nfreed 0\n", "{ran}");
    let blocks = own_blocks(&sdk.ledger()?.path)?;
    check!(blocks == ["33 pool_alloc pool main"], "{blocks:#?}");
    Ok(())
}

/// Opened by hand it comes too late: calls go past it, and it says so.
#[test]
fn who_opens_it_by_hand_is_told() -> Result {
    let sdk = Sdk::new()?;
    let program = sdk.built("gcc", "own.c", "opens", &["-DHEAPLEDGER_WEAK"])?;
    let word = format!("open:{}", sdk.library().join("libheapledger.so.0").display());
    let ran = sdk.run(&program, "", &[&word, "work"])?.good()?;
    check!(ran.out() == "opened -10\nrefused 1\nusable 1\n", "{ran}");
    check!(ran.err().contains("was not preloaded") && ran.err().lines().count() == 1, "{ran}");
    sdk.check_nothing_left("who opens it")
}

#[test]
fn what_is_written_can_be_written_again() -> Result {
    let sdk = Sdk::new()?;
    let again = process::run(command(heapledger()).arg("sdk").arg(&sdk.prefix))?.good()?;
    for path in again.out().lines() {
        check!(fs::metadata(path).is_ok_and(|meta| meta.len() > 0), "{path} is not there");
    }
    let files = |directory: &str| fs::read_dir(sdk.prefix.join(directory)).map(Iterator::count).unwrap_or(0);
    check!(files("include") == 3 && files("lib") == 6, "{} in include, {} in lib", files("include"), files("lib"));
    let header = root().join("crates/api/include/heapledger.h");
    check!(fs::read(sdk.prefix.join("include/heapledger.h")).ok() == fs::read(header).ok(), "another header");
    let program = sdk.linked("own", &[])?;
    sdk.run(&program, "", &["state"])?.good()?;

    // A file stands where a directory would have to be.
    let file = sdk.scratch.path("file");
    fs::write(&file, "").map_err(|error| error.to_string())?;
    let ran = process::run(command(heapledger()).arg("sdk").arg(&file))?;
    let said = format!("heapledger: {}/include/heapledger.h: ", file.display());
    check!(ran.status.code() == Some(1) && ran.err().starts_with(&said) && ran.out().is_empty(), "{ran}");
    Ok(())
}

/// As a build finds it, in a directory that was moved.
#[test]
fn pkg_config_finds_it() -> Result {
    let sdk = Sdk::new()?;
    let moved = sdk.scratch.path("moved");
    fs::rename(&sdk.prefix, &moved).map_err(|error| error.to_string())?;
    let sdk = Sdk { prefix: moved, ..sdk };
    let mut asked = command("pkg-config");
    asked.env("PKG_CONFIG_PATH", sdk.library().join("pkgconfig")).args(["--cflags", "--libs", "heapledger"]);
    let words = process::run(&mut asked)?.good()?.out();
    let search = format!("-Wl,-rpath,{}", sdk.library().display());
    let options: Vec<_> = words.split_ascii_whitespace().chain([&*search]).collect();
    let program = sdk.scratch.path("found");
    let mut compile = Command::new("gcc");
    compile.arg(root().join("e2e/c_api/own.c")).args(options).arg("-o").arg(&program);
    process::run(&mut compile)?.good()?;
    let ran = sdk.run(&program, "", &["state"])?.good()?;
    check!(ran.out() == "state 2\n", "{ran}");
    Ok(())
}
