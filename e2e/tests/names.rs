//! A program has the name by which it was started: behind a symbolic link, after `exec`, and whatever that name is. Its
//! functions have theirs where its files are mounted elsewhere.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;

use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check, victim};

/// Names of finished ledgers, without process ids, and what the reports are headed by.
fn names(scratch: &Scratch, words: &[&str]) -> Result<Vec<(String, String)>> {
    let mut command = command(heapledger());
    command.args(["run", "-q", "--ledger-dir"]).arg(scratch.live()).arg("--").args(words).current_dir(scratch.work());
    process::run(&mut command)?.good()?;
    let mut names = Vec::new();
    for path in scratch.finished().iter().filter(|path| path.extension().is_some_and(|end| end == "hl")) {
        let file = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = file.rsplit_once('.').map_or(&*file, |(name, _)| name).to_owned();
        let stats = process::run(heapledger_e2e::tools::command(heapledger()).arg("stats").arg(path))?.good()?.out();
        let heading = stats.lines().find_map(|line| line.strip_prefix("Program   : ")).unwrap_or_default();
        names.push((name, heading.split(", pid ").next().unwrap_or_default().to_owned()));
        fs::remove_file(path).map_err(|error| error.to_string())?;
    }
    Ok(names)
}

#[test]
fn the_name_is_that_by_which_it_was_started() -> Result {
    let scratch = Scratch::new();
    let program = victim::named("leaky")?.build()?;
    symlink(&program, scratch.path("friendly")).map_err(|error| error.to_string())?;
    let shown = program.to_string_lossy().into_owned();
    let pair = |name: &str| (format!("heapledger.{name}"), name.to_owned());
    let of = |words: &[&str]| names(&scratch, words);
    check!(of(&["./friendly"])? == [pair("friendly")], "a symbolic link");
    let shell = |text: &str| -> Result<Vec<(String, String)>> {
        let all = of(&["bash", "-c", text, "bash", &shown])?;
        Ok(all.into_iter().filter(|(name, _)| name != "heapledger.bash").collect())
    };
    check!(shell("exec ./friendly")? == [pair("friendly")], "a symbolic link, by exec");
    check!(shell("exec -a other ./friendly")? == [pair("other")], "another name");
    check!(shell("exec -a '' \"$1\"")? == [pair("leaky")], "no name: that of the file");
    check!(shell("exec -a /a/b.c ./friendly")? == [pair("b.c")], "the last part of a path");
    let [(file, heading)] = &shell("exec -a \"$(printf 'a\\nb %0400d' 1)\" ./friendly")?[..] else {
        return Err("no ledger of a long name".to_owned());
    };
    check!(file.starts_with("heapledger.a_b 000") && file.len() < 200, "a long name with a line's end: {file}");
    check!(heading.starts_with("a\\nb 000"), "a line's end: {heading}");
    Ok(())
}

/// Another machine's files, or a container's, are mounted somewhere: there all of them are looked for.
#[test]
fn files_of_another_machine_are_found_below_a_sysroot() -> Result {
    let scratch = Scratch::new();
    let program = victim::named("leaky")?.build()?;
    let (own, root) = (scratch.path("leaky"), scratch.path("root"));
    let text = |error: std::io::Error| error.to_string();
    fs::copy(&program, &own).map_err(text)?;
    run_cleanly(&scratch, &mut under_run(&scratch, "x", &[], &own, &[]))?.good()?;
    let elsewhere = root.join(own.strip_prefix("/").map_err(|_| "a path from the root")?);
    fs::create_dir_all(elsewhere.parent().ok_or("a directory")?).map_err(text)?;
    fs::rename(&own, &elsewhere).map_err(text)?;
    let ledger = scratch.path("x.hl");
    let dump = |more: &[&OsStr]| {
        process::run(command(heapledger()).args(["dump", "--group-by", "fn"]).args(more).arg(&ledger))?.good()
    };
    let (without, with) = (dump(&[])?, dump(&["--sysroot".as_ref(), root.as_os_str()])?);
    check!(!without.out().contains("copy_name"), "found without: {without}");
    check!(with.out().contains("copy_name"), "not found below {}: {with}", root.display());
    Ok(())
}

/// Functions of C++'s standard library hold no blocks, however hard their names are to read, and without debug information
/// too.
#[test]
fn the_standard_library_holds_nothing() -> Result {
    let scratch = Scratch::new();
    let program = victim::named("made_shared")?.build()?;
    let stripped = scratch.path("made_shared");
    process::run(command("strip").arg("--strip-debug").arg("-o").arg(&stripped).arg(&program))?.good()?;
    for (base, program) in [("whole", &program), ("plain", &stripped)] {
        run_cleanly(&scratch, &mut under_run(&scratch, base, &[], program, &[]))?.good()?;
        let ledger = scratch.path(&format!("{base}.hl"));
        let heapledger = |words: &[&str]| process::run(command(heapledger()).args(words).arg(&ledger))?.good();
        for more in [&[][..], &["--no-demangle"]] {
            let groups = heapledger(&[&["dump", "--group-by", "fn", "--csv"], more].concat())?.out();
            let blocks = |name: &str| {
                let line = groups.lines().find(|line| line.contains(name)).unwrap_or_default();
                line.split(',').find_map(|field| field.parse::<u64>().ok().filter(|number| [20, 49].contains(number)))
            };
            check!(blocks("keep_orders") == Some(49), "{base} {more:?}: {groups}");
            check!(blocks("keep_assumed") == Some(20), "{base} {more:?}: {groups}");
            let holder = |line: &str| line.rsplit(',').next().unwrap_or_default().to_owned();
            let is_standard = |name: String| name.starts_with("_ZSt") || name.contains("make_shared");
            check!(!groups.lines().map(holder).any(is_standard), "{base} {more:?}: {groups}");
        }
        let dump = heapledger(&["dump", "-n", "--limit", "1", "--where", "fn ~ make_shared"])?.out();
        check!(dump.contains("std::make_shared<Order, int&>(int&)"), "{base}: {dump}");
        check!(!dump.contains("_ZSt11make_shared"), "{base}: {dump}");
    }
    let dump = process::run(
        command(heapledger())
            .args(["dump", "--limit", "1", "--where", "holder == keep_assumed"])
            .arg(scratch.path("whole.hl")),
    )?;
    check!(dump.good()?.out().contains(" std::assume"), "the programmer's name where the linker's is none");
    Ok(())
}
