//! Programs in C and C++ that record themselves by the archive: linked with `--wrap=malloc` and so on, static ones among them. Their
//! sources are in `e2e/c_api`.

use std::path::{Path, PathBuf};
use std::thread;

use heapledger_e2e::ledger::{Blocks, Stats, check_totals};
use heapledger_e2e::process;
use heapledger_e2e::sdk::{Sdk, WORK, own_blocks};
use heapledger_e2e::tools::{command, heapledger, root};
use heapledger_e2e::tracked;
use heapledger_e2e::{Result, check};

/// What a static program is built with. (What its C library opens by itself is no matter here, so the linker need not warn of it.)
const STATIC: [&str; 3] = ["-static", "-DSTATIC", "-Wl,--no-warnings"];

/// A way to build a program.
struct Way {
    compiler: &'static str,
    linker: &'static str,
    form: &'static str,
    options: &'static [&'static str],
    level: &'static str,
}

impl Way {
    fn all() -> Vec<Way> {
        const FORMS: [(&str, &[&str]); 4] = [
            ("pie", &["-fPIE", "-pie"]),
            ("no-pie", &["-fno-pie", "-no-pie"]),
            ("static", &["-static", "-DSTATIC"]),
            ("static-pie", &["-fPIE", "-static-pie", "-DSTATIC"]),
        ];
        let mut all = Vec::new();
        for compiler in ["gcc", "clang"] {
            for linker in ["bfd", "gold", "lld"] {
                for (form, options) in FORMS {
                    // gold makes no such programs.
                    if (linker, form) == ("gold", "static-pie") {
                        continue;
                    }
                    let way = |level| Way { compiler, linker, form, options, level };
                    all.push(way("-O0"));
                    // Code that is optimised when it is linked: by each compiler and its own linker.
                    if matches!((compiler, linker), ("gcc", "bfd") | ("clang", "lld")) {
                        all.push(way("-O2 -flto"));
                    }
                }
            }
        }
        all
    }

    fn name(&self) -> String {
        format!("{}-{}-{}{}", self.compiler, self.linker, self.form, self.level.replace(' ', ""))
    }

    /// Builds and runs it, and looks whether it holds what it should.
    fn check(&self, sdk: &Sdk) -> Result {
        let name = self.name();
        let linker = format!("-fuse-ld={}", self.linker);
        let levels: Vec<_> = self.level.split(' ').collect();
        let program = sdk.wrapped(self.compiler, "own.c", &name, &[self.options, &levels, &[&linker]].concat())?;
        let ledger = sdk.scratch.path(&format!("{name}.hl"));
        let ran = sdk.run(&program, &format!("output={}", ledger.display()), &["state", "work"])?.good()?;
        check!(ran.out() == "state 2\nrefused 1\nusable 1\n" && ran.err().is_empty(), "{name}: {ran}");
        let stats = Stats::of(&ledger)?;
        check_totals(&stats, &["files_unseen".to_owned()])?;
        // The C library.
        let others = u64::from(!self.form.starts_with("static"));
        let unseen = stats.losses().get("files_unseen").copied().unwrap_or(0);
        check!(unseen == others, "{name}: {:?}", stats.losses());
        let blocks = own_blocks(&ledger)?;
        check!(blocks == WORK, "{name}: {blocks:#?}");
        Ok(())
    }
}

#[test]
fn however_it_is_linked_it_holds_the_same_blocks() -> Result {
    let (sdk, all) = (&Sdk::new()?, Way::all());
    check!(all.len() == 30, "{} ways", all.len());
    thread::scope(|threads| {
        let tries: Vec<_> = all
            .chunks(all.len().div_ceil(2))
            .map(|part| threads.spawn(|| part.iter().try_for_each(|way| way.check(sdk))))
            .collect();
        tries.into_iter().try_for_each(|tried| tried.join().map_err(|_| "a panic".to_owned())?)
    })?;
    let left = sdk.scratch.unfinished();
    check!(left.is_empty(), "they leave {left:?}");
    Ok(())
}

/// The live blocks of `forms` in `own_cxx.cc`: size and kind.
fn cxx_blocks(ledger: &Path) -> Result<Vec<String>> {
    let live = Blocks::live(ledger)?;
    let is_of = |site, name: &str| live.stacks[site].first().is_some_and(|frame| frame.names[0].contains(name));
    let all = live.blocks.iter().filter(|block| is_of(&block.site, "forms"));
    let mut all: Vec<_> = all.map(|block| format!("{} {}", block.size, live.kinds[block.kind])).collect();
    all.sort();
    Ok(all)
}

/// Each form of `new` is one block, whether its operator calls our `malloc` (in a static program) or not.
#[test]
fn operators_of_cxx() -> Result {
    let sdk = Sdk::new()?;
    for (name, options) in
        [("dynamic", &["-O1"][..]), ("with-a-static-runtime", &["-O1", "-static-libstdc++"]), ("static", &STATIC)]
    {
        let program = sdk.wrapped("g++", "own_cxx.cc", name, options)?;
        let ran = sdk.run(&program, "", &[])?.good()?;
        check!(ran.out() == "2 10 1\n" && ran.err().is_empty(), "{name}: {ran}");
        let ledger = sdk.ledger()?;
        check_totals(&Stats::of(&ledger.path)?, &["files_unseen".to_owned(), "unknown_frees".to_owned()])?;
        let blocks = cxx_blocks(&ledger.path)?;
        let expected = [
            "101 new[]",
            "103 new[](nothrow)",
            "2 new(nothrow)",
            "256 new(align)",
            "256 new(align,nothrow)",
            "768 new[](align)",
            "8 new",
        ];
        check!(blocks == expected, "{name}: {blocks:#?}");
    }
    Ok(())
}

/// Each function of the family does what the one does that it stands for, with odd arguments too.
#[test]
fn functions_do_what_they_did() -> Result {
    let sdk = Sdk::new()?;
    for (form, options) in [("dynamic", &["-w"][..]), ("static", &["-w", "-static"])] {
        for (compiler, source) in [("gcc", "entry_points.c"), ("g++", "entry_points_cxx.cc")] {
            let path = format!("../../victims/{source}");
            let plain = sdk.built(compiler, &path, &format!("plain-{form}-{source}"), options)?;
            let expected = process::run(&mut command(&plain))?.good()?.out();
            let wrapped = sdk.wrapped(compiler, &path, &format!("{form}-{source}"), options)?;
            let said = sdk.run(&wrapped, "", &[])?.good()?.out();
            check!(said == expected && said.lines().count() > 100, "{form} {source}: {said}\nand without:\n{expected}");
            check_totals(&Stats::of(&sdk.ledger()?.path)?, &["files_unseen".to_owned(), "unknown_frees".to_owned()])?;
        }
    }
    Ok(())
}

/// What each feature of the C API does under `run`, it does here.
#[test]
fn what_can_be_asked_for() -> Result {
    let sdk = Sdk::new()?;
    let second = sdk.built("gcc", "compat.c", "second.o", &["-DSECOND", "-c"])?.display().to_string();
    for (form, options) in [("dynamic", &["-DFAILS_UNSEEN"][..]), ("static", &STATIC)] {
        for (compiler, source, more, words, last) in [
            ("gcc", "hooks.c", &[][..], &[][..], "whole"),
            ("g++", "throws.cc", &[], &[], "whole"),
            ("gcc", "traces.c", &[], &["20000"], "whole"),
            ("gcc", "heaps.c", &[], &[], "all is as it should be"),
            ("gcc", "tasks.c", &[], &["all"], "all is as it should be"),
            ("gcc", "compat.c", &[&*second], &[], "whole"),
            ("gcc", "abuse.c", &[], &[], "whole"),
        ] {
            let name = format!("{source}-{form}");
            let program = sdk.wrapped(compiler, source, &name, &[options, more, &["-Wno-error"]].concat())?;
            let ledger = sdk.scratch.path(&format!("{name}.hl"));
            let ran = sdk.run(&program, &format!("output={}", ledger.display()), words)?.good()?;
            check!(ran.out().lines().last() == Some(last), "{name}: {ran}");
        }
    }
    Ok(())
}

/// In signal handlers, constructors, after `exit`, in forked children, from several threads, with what cannot be: while it is recorded,
/// before that, and after.
#[test]
fn nothing_crashes_whatever_is_asked() -> Result {
    let sdk = Sdk::new()?;
    let search = format!("-Wl,-rpath,{}", sdk.library().display());
    for (form, level) in [("shared", "-O1"), ("dynamic", "-O1"), ("static", "-O2")] {
        for (moment, items, options) in
            [("while", "", &["-DGOES_ON"][..]), ("before", "begin=later", &["-DGOES_ON"]), ("after", "", &[])]
        {
            let name = format!("{form}-{moment}");
            let linked: &[&str] = if form == "static" { &STATIC } else { &[] };
            let options = [&[level, "-Wno-error"], options, linked].concat();
            let program = if form == "shared" {
                sdk.built(
                    "gcc",
                    "abuse.c",
                    &name,
                    &[&options[..], &["-Wl,--no-as-needed", "-lheapledger", &search]].concat(),
                )?
            } else {
                sdk.wrapped("gcc", "abuse.c", &name, &options)?
            };
            let snapshot = sdk.scratch.path(&format!("{name}.snapshot"));
            let ran = sdk.run(&program, items, &[&snapshot.display().to_string()])?.good()?;
            check!(ran.out() == "whole\n" && ran.err().is_empty(), "{name}: {ran}");
            if moment == "while" {
                Stats::of(&snapshot)?;
                let losses = ["files_unseen", "unknown_frees", "frees_busy", "marks_lost", "windows_lost"];
                check_totals(&Stats::of(&sdk.ledger()?.path)?, &losses.map(str::to_owned))?;
            }
            check!(moment == "while" || !snapshot.exists(), "{name}: there is a snapshot of nothing");
            sdk.check_nothing_left(&name)?;
        }
    }
    Ok(())
}

/// What a program tells of itself is in the ledger that it writes.
#[test]
fn what_it_is_told_is_in_the_ledger() -> Result {
    let sdk = Sdk::new()?;
    let search = format!("-Wl,-rpath,{}", sdk.library().display());
    for form in ["shared", "dynamic", "static"] {
        let program = if form == "shared" {
            sdk.built("gcc", "calls.c", form, &["-Wl,--no-as-needed", "-lheapledger", &search])?
        } else {
            sdk.wrapped("gcc", "calls.c", form, if form == "static" { &STATIC } else { &[] })?
        };
        let snapshot = sdk.scratch.path(&format!("{form}.snapshot")).display().to_string();
        let ran = sdk.run(&program, "", &[&snapshot])?.good()?;
        check!(ran.out().starts_with("present 1\n") && ran.out().contains("\nsnapshot 0\n"), "{form}: {ran}");
        let ledger = sdk.ledger()?.path;
        let told = |words: &[&str]| -> Result<String> {
            Ok(process::run(command(heapledger()).args(words).arg(&ledger))?.good()?.out())
        };
        for (words, has) in [
            (&["dump", "--group-by", "heap", "--csv"][..], "own pool"),
            (&["dump", "--group-by", "label", "--csv"], "route=/x"),
            (&["dump", "--window", "window", "--csv"], "7777"),
            (&["dump", "--since", "begun", "--csv"], "7777"),
            (&["errors"], "100,000"),
        ] {
            let said = told(words)?;
            check!(said.contains(has), "{form}: {words:?}: {said}");
        }
        check!(
            Blocks::live(Path::new(&snapshot))?.blocks.iter().any(|block| block.size == 333),
            "{form}: the snapshot"
        );
    }
    Ok(())
}

/// One ledger under `run`: the library sees what libraries allocate, too, so it records a program with a loader. A static one
/// records itself, and `run` says so.
#[test]
fn under_run() -> Result {
    let sdk = Sdk::new()?;
    let words = ["state", "start", "work", "stop", "discard", "state"].map(str::to_owned);
    let expected = "state 2\nstart -8\nrefused 1\nusable 1\nstop -8\ndiscard -8\nstate 2\n";
    for (name, options) in [("dynamic", &[][..]), ("static", &STATIC)] {
        let program = sdk.wrapped("gcc", "own.c", name, options)?;
        let ran = process::run(&mut tracked::under_run(&sdk.scratch, name, &[], &program, &words))?.good()?;
        check!(ran.out() == expected, "{name}: {ran}");
        let said = format!(
            "heapledger: {} is statically linked: what its own recorder does not see is not seen\n",
            program.display()
        );
        check!(ran.err() == if name == "static" { said } else { String::new() }, "{name}: {ran}");
        let ledger = sdk.ledger()?;
        check!(ledger.name == format!("{name}.hl"), "{}", ledger.name);
        let blocks = own_blocks(&ledger.path)?;
        check!(blocks == WORK, "{name}: {blocks:#?}");
        sdk.check_nothing_left(name)?;
    }
    Ok(())
}

#[test]
fn a_shared_library_records_its_own_calls() -> Result {
    let sdk = Sdk::new()?;
    let library = sdk.wrapped("gcc", "grows.c", "libgrows.so", &["-fPIC", "-shared", "-Wl,-z,defs"])?;
    let library = library.display().to_string();
    let program = sdk.built("gcc", "grows.c", "program", &["-DPROGRAM", &library])?;
    let ran = sdk.run(&program, "", &[])?.good()?;
    check!(ran.out() == "state 2\n" && ran.err().is_empty(), "{ran}");
    let of = |ledger: &Path| -> Result<Vec<(u64, String)>> {
        let live = Blocks::live(ledger)?;
        let name = |site| live.stacks[site].first().map_or(String::new(), |frame| frame.names[0].clone());
        let mut all: Vec<_> = live.blocks.iter().map(|block| (block.size, name(&block.site))).collect();
        all.sort();
        Ok(all)
    };
    let blocks = of(&sdk.ledger()?.path)?;
    check!(blocks == [(510, "grow".to_owned())], "its own: {blocks:?}");
    // Under `run` the program's are seen, too.
    process::run(&mut tracked::under_run(&sdk.scratch, "run", &[], &program, &[]))?.good()?;
    let blocks = of(&sdk.ledger()?.path)?;
    for own in [(510, "grow"), (5, "main")] {
        check!(blocks.contains(&(own.0, own.1.to_owned())), "{own:?} under run: {blocks:?}");
    }
    sdk.check_nothing_left("a library")
}

/// Several files of a program with a copy each: one records, and the others lead their calls to it. Once in each, whoever's functions the
/// loader takes for all of them.
#[test]
fn several_copies_are_one_recorder() -> Result {
    let sdk = Sdk::new()?;
    let search = format!("-Wl,-rpath,{}", sdk.scratch.path("").display());
    for (kind, hides) in [("open", &[][..]), ("hidden", &["-Wl,--exclude-libs,ALL"])] {
        let library = |number: &str| -> Result<String> {
            let define = format!("-DNUMBER={number}");
            let options = [&["-fPIC", "-shared", "-Wl,-z,defs", &*define], hides].concat();
            Ok(sdk.wrapped("gcc", "copies.c", &format!("lib{kind}{number}.so"), &options)?.display().to_string())
        };
        let (one, two) = (library("1")?, library("2")?);
        let linked = ["-DPROGRAM", "-DLINKED", &*one, &*two, &*search];
        let programs = [
            ("linked", sdk.built("gcc", "copies.c", &format!("{kind}-linked"), &linked)?, vec![], 0),
            ("wrapped", sdk.wrapped("gcc", "copies.c", &format!("{kind}-wrapped"), &linked)?, vec![], 777),
            ("opens", sdk.built("gcc", "copies.c", &format!("{kind}-opens"), &["-DPROGRAM"])?, vec![&*one, &*two], 0),
        ];
        let whens = [("", true), ("begin=later", false)];
        let all = programs.iter().flat_map(|program| whens.iter().map(move |when| (program, when)));
        for ((name, program, words, own), (items, is_from_start)) in all {
            let ran = sdk.run(program, items, words)?.good()?;
            check!(ran.out() == "states 2 2\n" && ran.err().is_empty(), "{kind} {name} {items}: {ran}");
            let ledger = sdk.ledger()?;
            check_totals(&Stats::of(&ledger.path)?, &["files_unseen".to_owned(), "unknown_frees".to_owned()])?;
            let live = Blocks::live(&ledger.path)?;
            let name_of = |site| live.stacks[site].first().map_or("", |frame| &frame.names[0]);
            let found = live.blocks.iter().filter(|block| ["own", "grow_1", "grow_2"].contains(&name_of(&block.site)));
            let mut sizes: Vec<_> = found.map(|block| block.size).collect();
            sizes.sort_unstable();
            let own = if *is_from_start { *own } else { 0 };
            let expected: Vec<u64> = [own, 1112, 2223].into_iter().filter(|size| *size > 0).collect();
            check!(sizes == expected, "{kind} {name} {items}: {sizes:?}");
            sdk.check_nothing_left(name)?;
        }
    }
    Ok(())
}

/// A plugin that is opened and closed again and again, while a thread has been in it: one recorder, one ledger, with all blocks.
#[test]
fn a_plugin_that_is_closed_goes_on_recording() -> Result {
    let sdk = Sdk::new()?;
    let program = sdk.built("gcc", "plugs.c", "plugs", &[])?;
    for linker in ["bfd", "gold", "lld"] {
        let name = format!("{linker}.so");
        let linker = format!("-fuse-ld={linker}");
        let library = sdk.wrapped("gcc", "grows.c", &name, &["-fPIC", "-shared", &linker])?.display().to_string();
        let ran = sdk.run(&program, "", &[&library])?.good()?;
        check!(ran.out() == "state 2\nstate 2\nstate 2\n" && ran.err().is_empty(), "{name}: {ran}");
        let stats = Stats::of(&sdk.ledger()?.path)?;
        check!(stats.number("live_blocks") == 6, "{name}: {} live blocks", stats.number("live_blocks"));
        sdk.check_nothing_left(&name)?;
    }
    Ok(())
}

/// As CMake finds them.
#[test]
fn targets_of_cmake() -> Result {
    let sdk = Sdk::new()?;
    let (from, to) = (sdk.scratch.path("from"), sdk.scratch.path("to"));
    let place = |problem: std::io::Error| problem.to_string();
    std::fs::create_dir(&from).map_err(place)?;
    for name in ["CMakeLists.txt", "own.c", "metadata.c", "check.h"] {
        std::fs::copy(root().join("e2e/c_api").join(name), from.join(name)).map_err(place)?;
    }
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", sdk.prefix.display());
    process::run(command("cmake").arg("-S").arg(&from).arg("-B").arg(&to).arg(prefix))?.good()?;
    process::run(command("cmake").arg("--build").arg(&to))?.good()?;
    for program in ["linked", "wrapped", "static"] {
        let ran = sdk.run(&to.join(program), "", &["state", "work"])?.good()?;
        check!(ran.out() == "state 2\nrefused 1\nusable 1\n" && ran.err().is_empty(), "{program}: {ran}");
        let ledger = sdk.ledger()?;
        check!(ledger.name.starts_with(&format!("heapledger.{program}.")), "{}", ledger.name);
        check!(own_blocks(&ledger.path)? == WORK, "{program} holds something else");
    }
    let ran = sdk.run(&to.join("metadata"), "", &[])?.good()?;
    check!(ran.out() == "all is well\n" && ran.err().is_empty(), "metadata: {ran}");
    sdk.check_nothing_left("who records nothing")
}

/// Of a family that is not whole, what is freed elsewhere stays in the ledger, and what comes from elsewhere is counted.
#[test]
fn where_only_some_functions_are_wrapped() -> Result {
    let sdk = Sdk::new()?;
    let archive = sdk.library().join("libheapledger.a").display().to_string();
    for (name, options) in [("dynamic", &["-O1"][..]), ("static", &STATIC)] {
        let wraps = ["-Wl,--wrap=malloc", "-Wl,--wrap=free", "-Wl,--eh-frame-hdr", &archive];
        let program = sdk.built("gcc", "own.c", name, &[options, &wraps].concat())?;
        let ran = sdk.run(&program, "", &["state", "work"])?.good()?;
        check!(ran.out() == "state 2\nrefused 1\nusable 1\n" && ran.err().is_empty(), "{name}: {ran}");
        let ledger = sdk.ledger()?;
        let stats = Stats::of(&ledger.path)?;
        check_totals(&stats, &["files_unseen".to_owned(), "unknown_frees".to_owned()])?;
        let blocks = own_blocks(&ledger.path)?;
        check!(blocks == ["10 malloc family work main", WORK[0]], "{name}: {blocks:#?}");
    }
    Ok(())
}

#[test]
fn it_says_when_it_begins_and_survives_what_it_does() -> Result {
    let sdk = Sdk::new()?;
    for (name, options) in [("dynamic", &[][..]), ("static", &STATIC)] {
        let later = [options, &["-DOPTIONS=\"begin=later,at-exit=finish,output=own.hl\""]].concat();
        let program = sdk.wrapped("gcc", "own.c", &format!("{name}-later"), &later)?;
        let ran = sdk.run(&program, "", &["state", "work", "stop", "state"])?.good()?;
        check!(ran.out() == "state 0\nrefused 1\nusable 1\nstop -1\nstate 0\n" && ran.err().is_empty(), "{ran}");
        sdk.check_nothing_left("who never begins")?;
        let ran =
            sdk.run(&program, "", &["work", "start:depth=2", "work", "start", "stop", "work", "state"])?.good()?;
        let expected =
            "refused 1\nusable 1\nstart 0\nrefused 1\nusable 1\nstart -8\nstop 0\nrefused 1\nusable 1\nstate 0\n";
        check!(ran.out() == expected && ran.err().is_empty(), "{ran}");
        let ledger = sdk.ledger()?;
        let live = Blocks::live(&ledger.path)?;
        check!(ledger.name == "own.hl" && live.blocks.len() == WORK.len(), "{} blocks", live.blocks.len());

        let program = sdk.wrapped("gcc", "own.c", name, options)?;
        let ran = sdk.run(&program, "", &["work", "fork", "state", "pool"])?.good()?;
        let expected = "refused 1\nusable 1\nchild 0\nchild start -8\nchild stop -1\nchild discard -1\nwaited 0\nstate 2\n\
                        heap 1\nallocated 0\nallocated 0\nfreed 0\n";
        check!(ran.out() == expected && ran.err().is_empty(), "{name}: {ran}");
        let blocks = own_blocks(&sdk.ledger()?.path)?;
        check!(blocks.len() == WORK.len() + 1 && blocks.contains(&"33 pool_alloc pool main".to_owned()), "{blocks:#?}");

        let ran = sdk.run(&program, "", &["work", "kill"])?;
        check!(process::signal_of(&ran) == Some(9), "{ran}");
        let left: Vec<PathBuf> = sdk.scratch.unfinished();
        let [ledger] = &left[..] else { return Err(format!("not one ledger: {left:?}")) };
        check!(own_blocks(ledger)? == WORK, "{name}: the killed one's is another");
        process::run(command(heapledger()).arg("recover").arg(sdk.scratch.live()).arg("-o").arg(sdk.scratch.work()))?
            .good()?;
        check!(own_blocks(&sdk.ledger()?.path)? == WORK, "{name}: the recovered one's is another");
    }
    Ok(())
}
