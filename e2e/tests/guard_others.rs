//! Programs that were written for other tests, guarded: they say what they say without us, and end as they do. And over other allocators
//! than the C library's.

use heapledger_e2e::guard::{Build, built, told};
use heapledger_e2e::ledger::Stats;
use heapledger_e2e::process::{self, PATIENCE};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger, root, system_library};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::victim;
use heapledger_e2e::{Result, check, skip};
use serde_json::Value;

/// Each of them at one of these, in turn.
const LEVELS: [&str; 5] = ["--guard=page", "--guard=light", "--guard=full", "--guard=page=both", "--guard=page=1/10"];

/// Those that look at what a guard changes on purpose.
const EXCEPT: [(&str, &str); 10] = [
    ("arena_limits", "asks glibc about memory that comes from elsewhere"),
    ("mallinfo", "the same"),
    ("entry_points", "prints how much of a block can be used: what was asked for"),
    ("entry_points_cxx", "the same"),
    ("perturb", "has glibc fill blocks"),
    ("stack_need", "measures the stack of an allocation"),
    ("unwind_threads", "wants addresses to be used again"),
    ("counter", "is a library"),
    ("kill_truth", "is killed"),
    ("deep_bind", "wants addresses to be used again"),
];

#[test]
fn they_notice_nothing() -> Result {
    let mut problems = Vec::new();
    for (index, victim) in victim::all()?.iter().enumerate() {
        let is_excepted = EXCEPT.iter().any(|(name, _)| victim.name == *name) || victim.name.starts_with("bench_");
        if victim.needs.is_some() || is_excepted {
            continue;
        }
        let (program, level) = (victim.build()?, LEVELS[index % LEVELS.len()]);
        for run in victim.runs.iter().take(1) {
            let scratch = Scratch::new();
            let plain = process::run(command(&program).args(&run.arguments).current_dir(scratch.work()))?;
            let mut guarded = under_run(&scratch, "x", &[level, "--errors=quiet"], &program, &run.arguments);
            let guarded = process::run_within(&mut guarded, PATIENCE)?;
            if (plain.out(), plain.status) != (guarded.out(), guarded.status) {
                problems.push(format!("{} {level}: {plain}\nand guarded {guarded}", victim.name));
            }
        }
    }
    check!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

/// What a program is told of its heap follows its blocks wherever they lie.
#[test]
fn heaps_are_told_of_as_without_a_guard() -> Result {
    let program = built("heap_figures.c", Build::O2)?.ok_or("there is no compiler")?;
    let plain = process::run(&mut command(&program))?;
    check!(plain.out().contains("in use: all") && plain.out().contains("freed: next to nothing"), "{plain}");
    for level in ["light", "full", "page", "page=under"] {
        let scratch = Scratch::new();
        // What waits is not in use, and nothing else may hold on to what was freed.
        let options = [&format!("--guard={level}"), "--errors=quiet"];
        let guarded = process::run(&mut under_run(&scratch, "x", &options, &program, &[]))?;
        check!(plain.out() == guarded.out(), "{level}: {guarded}\nand without {plain}");
    }
    Ok(())
}

/// Blocks are guarded over another allocator as over glibc's, one in so many as well, and the ledger says in which heap they lie.
#[test]
fn over_another_allocator_blocks_are_guarded_too() -> Result {
    let program = built("rarely.c", Build::O2)?.ok_or("there is no compiler")?;
    for name in ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"] {
        let Some(library) = system_library(name) else {
            skip("a guard over another malloc", &format!("{name} is not installed"));
            continue;
        };
        for (level, word, found) in
            [("--guard=light", "bad", 20), ("--guard=page=1/1000", "bad", 18), ("--guard=page=1/1000", "good", 0)]
        {
            let scratch = Scratch::new();
            let mut run = under_run(&scratch, "x", &[level], &program, &[word.to_owned()]);
            let ran = process::run_within(run.env("LD_PRELOAD", &library), PATIENCE)?.good()?;
            check!(ran.out() == "done\n", "{name} {level}: {ran}");
            let errors = told::errors(&scratch.path("x.hl"))?;
            let is_it = |error: &&told::Error| error.kind() == "heap-buffer-overflow" && error.offset() == Some(64);
            let all = errors.iter().filter(is_it).count();
            check!(all == errors.len() && (found..=20).contains(&all), "{name} {level}: {found} {errors:#?}");
        }
        // 1,000 of its blocks stay.
        let (scratch, small) = (Scratch::new(), victim::named("small_blocks")?.build()?);
        let mut run = under_run(&scratch, "x", &["--guard=full"], &small, &[]);
        process::run_within(run.env("LD_PRELOAD", &library), PATIENCE)?.good()?;
        let stats = Stats::of(scratch.path("x.hl"))?;
        let heaps = stats.0["heaps"].as_array().map(Vec::as_slice).unwrap_or_default();
        let [theirs, guard] = heaps else { return Err(format!("{name}: {heaps:#?}")) };
        let live = |heap: &Value| heap["live_blocks"].as_u64();
        check!(guard["name"] == "guard" && live(guard) >= Some(1000) && live(theirs) < Some(10), "{name}: {heaps:#?}");
    }
    Ok(())
}

/// Operators of an allocator's own give blocks back to it past `free`: jemalloc's for an alignment have theirs from `aligned_alloc`, guarded.
#[test]
fn over_another_allocator_each_delete_gives_back_what_its_new_gave() -> Result {
    let program = built("deletes.cc", Build::O0)?.ok_or("there is no compiler")?;
    for name in ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"] {
        let Some(library) = system_library(name) else {
            skip("a guard over another malloc's operators", &format!("{name} is not installed"));
            continue;
        };
        for level in LEVELS {
            for word in ["good", "bad"] {
                let scratch = Scratch::new();
                let mut run = under_run(&scratch, "x", &[level], &program, &[word.to_owned()]);
                let ran = process::run_within(run.env("LD_PRELOAD", &library), PATIENCE)?.good()?;
                check!(ran.out() == "done\n", "{name} {level} {word}: {ran}");
                let errors = told::errors(&scratch.path("x.hl"))?;
                // One for each form and alignment, where the allocator's own `new` does not keep its blocks for itself.
                let is_of_some = level == "--guard=page=1/10" || name.contains("tcmalloc");
                let wanted = if word == "good" || is_of_some { 0 } else { 6 * 4 };
                let times: u64 = errors.iter().map(|error| error.json["repeats"].as_u64().unwrap_or(0) + 1).sum();
                let all = errors.iter().all(|error| error.kind() == "heap-buffer-overflow");
                check!(all && times == wanted, "{name} {level} {word}: {wanted} {errors:#?}");
            }
        }
    }
    Ok(())
}

/// What it frees and what it gives would be the C library's own.
#[test]
fn a_library_is_not_bound_past_the_guard() -> Result {
    let scratch = Scratch::new();
    let source = root().join("e2e/guests/deep.c");
    let program = scratch.path("deep");
    for (flags, name) in [(&["-DLIBRARY", "-fPIC", "-shared"][..], "libdeep.so"), (&[RUNPATH], "deep")] {
        let mut compile = command("gcc");
        compile.args(["-g", "-O1", "-Wall", "-Wextra", "-Werror"]).args(flags).arg("-o").arg(scratch.path(name));
        process::run(compile.arg(&source))?.good()?;
    }
    let plain = process::run(&mut command(&program))?.good()?;
    for level in LEVELS {
        let name = level.replace('/', "-");
        let ran = process::run(&mut under_run(&scratch, &name, &[level], &program, &[]))?.good()?;
        check!(ran.out() == plain.out() && ran.err().is_empty(), "{level}: {ran}, and not {plain}");
        let ledger = scratch.path(&format!("{name}.hl"));
        let losses = Stats::of(&ledger)?.losses();
        let of = |name: &str| losses.get(name).copied().unwrap_or(0);
        check!([of("deep_unbound"), of("deep_bound"), of("unknown_frees")] == [1, 0, 0], "{level}: {losses:?}");
        let errors = told::errors(&ledger)?;
        check!(errors.is_empty(), "{level}: {errors:#?}");
        let told = process::run(command(heapledger()).arg("stats").arg(&ledger))?.good()?;
        check!(
            (told.out() + &told.err()).contains("1 call of dlopen asked for RTLD_DEEPBIND and did not get it"),
            "{level}: {told}"
        );
    }
    Ok(())
}

/// Where the loader looks for libraries that the program asks for: beside it.
const RUNPATH: &str = "-Wl,--enable-new-dtags,-rpath,$ORIGIN";

/// One that counts memory, with its figures in front of what its `new` gives; one whose `new` has a pool; and tcmalloc's for debugging, which
/// knows by which function each block was had.
#[test]
fn what_an_allocators_own_new_has_made_its_own_delete_takes() -> Result {
    let scratch = Scratch::new();
    let (program, own) = (scratch.path("news"), scratch.path("libnews.so"));
    for (flags, product) in [(&["-DLIBRARY", "-fPIC", "-shared"][..], &own), (&[], &program)] {
        let mut compile = command("g++");
        compile.args(["-g", "-O1", "-Wall", "-Wextra"]).args(flags).arg("-o").arg(product);
        process::run(compile.arg(root().join("e2e/guests/news.cc")))?.good()?;
    }
    let debugging = system_library("libtcmalloc_minimal_debug.so.4");
    if debugging.is_none() {
        skip("a guard over tcmalloc for debugging", "libtcmalloc_minimal_debug.so.4 is not installed");
    }
    for (library, way) in [(Some(&own), "front"), (Some(&own), "pool"), (debugging.as_ref(), "")] {
        let Some(library) = library else { continue };
        for level in LEVELS {
            let scratch = Scratch::new();
            let mut run = under_run(&scratch, "x", &[level], &program, &[]);
            let run = run.env("LD_PRELOAD", library).env("NEWS", way);
            let ran = process::run_within(run, PATIENCE)?.good()?;
            check!(ran.out() == "done\n", "{} {way} {level}: {ran}", library.display());
            let path = scratch.path("x.hl");
            let errors = told::errors(&path)?;
            check!(errors.is_empty(), "{} {way} {level}: {errors:#?}", library.display());
            let live = Stats::of(&path)?.number("live_blocks");
            check!(live < 100, "{} {way} {level}: {live} blocks live", library.display());
        }
    }
    Ok(())
}

/// The C library's `malloc_usable_size` would take what lies in front of another allocator's block for a size of its own.
#[test]
fn an_allocator_that_tells_no_sizes_is_not_asked_for_them() -> Result {
    let scratch = Scratch::new();
    let (program, own) = (scratch.path("silent"), scratch.path("libsilent.so").to_string_lossy().into_owned());
    for (flags, product) in [(&["-DLIBRARY", "-fPIC", "-shared"][..], &own[..]), (&[&own, RUNPATH], "silent")] {
        let mut compile = command("gcc");
        compile.args(["-g", "-O1", "-Wall", "-Wextra", "-fno-builtin"]).arg(root().join("e2e/guests/silent.c"));
        process::run(compile.args(flags).arg("-o").arg(scratch.path(product)))?.good()?;
    }
    for level in LEVELS {
        for words in [&[][..], &["bad".to_owned()]] {
            let scratch = Scratch::new();
            let mut run = under_run(&scratch, "x", &[level, "--errors=quiet"], &program, words);
            let ran = process::run_within(&mut run, PATIENCE)?.good()?;
            check!(ran.out() == "done\n", "{level} {words:?}: {ran}");
            let errors = told::errors(&scratch.path("x.hl"))?;
            let of_some = level == "--guard=page=1/10";
            let are_right = match (words, errors.as_slice()) {
                ([], errors) => errors.is_empty(),
                (_, [error]) => error.kind() == "heap-buffer-overflow" && error.offset() == Some(100),
                (_, errors) => of_some && errors.is_empty(),
            };
            check!(are_right, "{level} {words:?}: {errors:#?}");
        }
    }
    Ok(())
}

/// The first thread has ended, and another one ends the program; and a filter of system calls refuses what says which memory is present.
#[test]
fn the_last_look_is_had_wherever_the_program_ends() -> Result {
    let program = built("ends_elsewhere.c", Build::O0)?.ok_or("there is no compiler")?;
    for words in ["return", "exit", "abort", "fault", "refused"] {
        let scratch = Scratch::new();
        let options = ["--guard=light", "--errors=quiet"];
        process::run(&mut under_run(&scratch, "x", &options, &program, &[words.to_owned()]))?;
        let mut errors = command(heapledger());
        let errors = process::run(errors.args(["errors", "--json"]).arg(scratch.path("x.hl")))?;
        let kinds = errors.out().lines().filter(|line| line.contains("\"heap-buffer-")).count();
        check!(kinds == 2, "{words}: {errors}");
    }
    Ok(())
}
