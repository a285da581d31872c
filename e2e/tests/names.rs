//! A program has the name by which it was started: behind a symbolic link, after `exec`, and whatever that name is. Its
//! functions have theirs where its files are mounted elsewhere.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;

use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, copy_program, heapledger};
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

/// One file, several programs: what was started is what stacks and modules are of.
#[test]
fn frames_are_of_the_link_that_was_started() -> Result {
    let scratch = Scratch::new();
    let file = scratch.path("several-in-one");
    process::run(command("strip").arg("-o").arg(&file).arg(victim::named("leaky")?.build()?))?.good()?;
    let link = scratch.path("server");
    symlink("several-in-one", &link).map_err(|error| error.to_string())?;
    // By its path, and found by PATH.
    let path = format!("{}:{}", scratch.path("").display(), std::env::var("PATH").unwrap_or_default());
    for (base, program) in [("one", link.as_path()), ("two", std::path::Path::new("server"))] {
        run_cleanly(&scratch, under_run(&scratch, base, &[], program, &[]).env("PATH", &path))?.good()?;
        let ledger = scratch.path(&format!("{base}.hl"));
        let say = |words: &[&str]| {
            Ok::<_, String>(process::run(command(heapledger()).args(words).arg(&ledger))?.good()?.out())
        };
        let dump = say(&["dump", "--limit", "0"])?;
        check!(dump.contains("(in server+0x") && !dump.contains("several-in-one"), "{base}: {dump}");
        let groups = say(&["dump", "--group-by", "module"])?;
        check!(groups.contains("server") && !groups.contains("several-in-one"), "{base}: {groups}");
        for name in ["server", "several-in-one"] {
            let found = say(&["dump", "--json", "--where", &format!("module == \"{name}\"")])?;
            check!(found.contains("\"type\":\"block\""), "{base}: nothing of {name}: {found}");
        }
    }
    Ok(())
}

/// Another machine's files, or a container's, are mounted somewhere: there all of them are looked for.
#[test]
fn files_of_another_machine_are_found_below_a_sysroot() -> Result {
    let scratch = Scratch::new();
    let program = victim::named("leaky")?.build()?;
    let (own, root) = (scratch.path("leaky"), scratch.path("root"));
    let text = |error: std::io::Error| error.to_string();
    copy_program(&program, &own)?;
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
        let dump = heapledger(&["dump", "-n", "--full-names", "--limit", "1", "--where", "fn ~ make_shared"])?.out();
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

/// A program without symbols is named by the build that it was stripped from, in every report; another build is refused.
#[test]
fn the_executable_that_is_given_names_frames() -> Result {
    let scratch = Scratch::new();
    let built = victim::named("leaky")?.build()?;
    let (own, whole, debug) = (scratch.path("leaky"), scratch.path("whole"), scratch.path("own.dbg"));
    fs::copy(&built, &whole).map_err(|error| error.to_string())?;
    process::run(command("strip").arg("-o").arg(&own).arg(&built))?.good()?;
    process::run(command("objcopy").arg("--only-keep-debug").arg(&built).arg(&debug))?.good()?;
    run_cleanly(&scratch, &mut under_run(&scratch, "x", &[], &own, &[]))?.good()?;
    let ledger = scratch.path("x.hl");
    let ledger = ledger.as_os_str();
    let say = |words: &[&OsStr]| process::run(command(heapledger()).args(words));
    let word = |text: &'static str| OsStr::new(text);
    // Reports show the greatest only, or the first.
    let is_named = |text: &str| text.contains("copy_name") || text.contains("make_cache");

    let alone = say(&[word("dump"), ledger])?.good()?.out();
    check!(!is_named(&alone), "it is named already: {alone}");
    let advice = alone.lines().find(|line| line.contains("To see more:")).unwrap_or_default();
    check!(advice.contains("leaky (build id ") && advice.contains("--exe FILE"), "nothing is advised: {alone}");
    for file in [&whole, &debug] {
        let file = file.as_os_str();
        for command in ["dump", "history", "diff"] {
            let more = if command == "diff" { vec![ledger] } else { Vec::new() };
            let more = [&[word(command), file, ledger][..], &more].concat();
            let more = if command == "diff" { [&more[..], &[word("--group-by"), word("fn")]].concat() } else { more };
            let ran = say(&more)?.good()?.out();
            check!(command == "diff" || is_named(&ran), "{command}: {ran}");
            check!(!ran.contains("To see more: for leaky"), "{command}: {ran}");
        }
        for words in [
            &["dump", "--json"][..],
            &["tree"],
            &["stats"],
            &["flame", "--format", "folded"],
            &["check", "--max-live", "1"],
            &["top", "--batch", "1"],
            &["diff", "--json"],
        ] {
            let words: Vec<&OsStr> = words.iter().map(OsStr::new).chain([word("--exe"), file, ledger]).collect();
            let words = if words[0] == "diff" { [&words[..], &[ledger]].concat() } else { words };
            let ran = say(&words)?;
            check!(words[0] == "diff" || is_named(&ran.out()), "{words:?}: {ran}");
            check!(ran.status.code() == Some(i32::from(words[0] == "check")), "{words:?}: {ran}");
        }
    }
    // Another program, another build, a library that it did not load, and what is no program.
    let text = scratch.path("text");
    fs::write(&text, "hello").map_err(|error| error.to_string())?;
    let other = victim::named("standing")?.build()?;
    for (file, why) in [
        (other.as_os_str(), "as it ran: its build id is"),
        (word("/bin/sh"), "as it ran: its build id is"),
        (text.as_os_str(), "ELF"),
    ] {
        for words in [&[word("tree"), word("--exe"), file, ledger][..], &[word("stats"), word("--exe"), file, ledger]] {
            let ran = say(words)?;
            check!(
                ran.status.code() == Some(2) && ran.err().contains(why) && ran.stdout.is_empty(),
                "{words:?}: {ran}"
            );
        }
    }
    let ran = say(&[word("dump"), word("/bin/sh"), ledger])?;
    check!(ran.status.code() == Some(2) && ran.err().contains("its build id is"), "{ran}");
    Ok(())
}

/// Without a build id in the program, its name and how much memory it takes decide, and the report says so.
#[test]
fn an_executable_without_a_build_id_is_believed_and_said_to_be() -> Result {
    let scratch = Scratch::new();
    let built = victim::named("leaky")?.build()?;
    let (own, whole) = (scratch.path("leaky"), scratch.path("whole"));
    let objcopy = |words: &[&str], to| process::run(command("objcopy").args(words).arg(&built).arg(to))?.good();
    objcopy(&["--remove-section=.note.gnu.build-id"], &whole)?;
    objcopy(&["--remove-section=.note.gnu.build-id", "--strip-all"], &own)?;
    run_cleanly(&scratch, &mut under_run(&scratch, "x", &[], &own, &[]))?.good()?;
    let dump =
        |file: &OsStr| process::run(command(heapledger()).args(["dump", "--exe"]).arg(file).arg(scratch.path("x.hl")));
    let ran = dump(whole.as_os_str())?.good()?.out();
    check!(ran.contains("copy_name") && ran.contains("could not be checked: the ledger has no build id"), "{ran}");
    let ran = dump("/bin/bash".as_ref())?;
    check!(ran.status.code() == Some(2) && ran.err().contains("bytes of addresses"), "{ran}");
    Ok(())
}

/// Long names are short alike in all reports that a person reads, whole on demand, and whole for machines.
#[test]
fn long_names_are_short_in_every_report() -> Result {
    let scratch = Scratch::new();
    let program = victim::named("containers")?.build()?;
    run_cleanly(&scratch, &mut under_run(&scratch, "x", &[], &program, &[]))?.good()?;
    let ledger = scratch.path("x.hl");
    let say = |words: &[&str]| process::run(command(heapledger()).args(words).arg(&ledger));
    const OWN: [(&str, &str); 8] = [
        ("size == 2001", "Order::operator<"),
        ("size == 2002", "Order::operator()"),
        ("size == 2003", "Order::operator bool"),
        ("size == 2004", "Table<…>::grow<…>"),
        ("size == 2005 or size == 2006", "find<…>"),
        ("size == 2007", "(anonymous namespace)::hidden<…>"),
        ("size == 2008", "main::{lambda#1}::operator()"),
        ("size == 2009", "main::{lambda#1}::operator()"),
    ];
    const CONTAINERS: [&str; 2] = ["std::map<…>::operator[]", "std::vector<…>::push_back"];
    // What a name is: letters up to two spaces, the line's end or what reports put behind one.
    let has = |text: &str, name: &str| {
        text.match_indices(name).any(|(at, _)| {
            let behind = &text[at + name.len()..];
            behind.is_empty()
                || [" (", "  ", "\n", " <", " ←", " →", "+0x", ",", "\""].iter().any(|end| behind.starts_with(end))
        })
    };
    for words in [
        &["tree", "--wrappers", "--min", "0"][..],
        &["tree", "--inverted", "--wrappers", "--min", "0"],
        &["dump", "--group-by", "fn", "-n"],
        &["dump", "--group-by", "stack", "-n"],
        &["dump", "--blocks", "--limit", "0", "-n"],
        &["dump", "--columns", "fn", "--limit", "0", "-n"],
        &["flame", "--format", "svg", "-o", "-"],
    ] {
        let text = say(words)?.good()?.out().replace("&lt;", "<").replace("&gt;", ">");
        // A picture has the whole name beside the pointer.
        let text: String = text.split("<title>").map(|part| part.rsplit("</title>").next().unwrap_or(part)).collect();
        for name in OWN.iter().map(|(_, name)| name).filter(|_| words[0] != "flame") {
            check!(has(&text, name), "{words:?}: no {name}: {text}");
        }
        check!(!text.contains("std::allocator<"), "{words:?}: {text}");
        if words.contains(&"--wrappers") {
            CONTAINERS.iter().try_for_each(|name| {
                check!(has(&text, name), "{words:?}: no {name}: {text}");
                Ok::<(), String>(())
            })?;
        }
        if words[0] != "flame" {
            let whole = say(&[words, &["--full-names"]].concat())?.good()?.out();
            check!(whole.contains("Order::operator<(Order const&) const"), "{words:?} --full-names: {whole}");
            check!(whole.contains("find<int>(int)"), "{words:?} --full-names: {whole}");
        }
    }
    for (condition, name) in OWN {
        let stats = say(&["check", "--max-live", "1", "--where", condition])?;
        check!(stats.out().contains(name), "check of {condition}: {}", stats.out());
    }
    for words in
        [&["tree", "--json"][..], &["dump", "--json"], &["dump", "--group-by", "fn", "--csv"], &["flame", "--json"]]
    {
        let text = say(words)?.good()?.out();
        check!(text.contains("Order::operator<(Order const&) const") && !text.contains('…'), "{words:?}: {text}");
    }
    // The summary of the run itself.
    let mut run = command(heapledger());
    run.arg("run").arg("--ledger-dir").arg(scratch.live()).arg("-o").arg(scratch.path("y.hl")).arg("--").arg(&program);
    let told = process::run(&mut run)?.good()?.err();
    check!(told.contains("build (containers.cc:") && !told.contains("std::allocator"), "{told}");
    Ok(())
}
