//! Which file is used for a module, and which is refused.

mod support;

use heapledger_symbols::{Level, ModuleId, Note, Seen, Symbolizer};
use support::*;

/// `prog` with debug information, and an address in it with three frames.
fn program(scratch: &Scratch, flags: &[&str]) -> u64 {
    scratch.write("prog.c", INLINED_C);
    let mut arguments = vec!["-O2", "-g", "-Wl,--build-id", "prog.c", "-o", "prog"];
    arguments.extend(flags);
    scratch.run("gcc", &arguments);
    let addresses = instructions(scratch, "prog", "outer");
    let (resolved, _) = resolve(&scratch.options(), &scratch.path("prog"), &[], &addresses);
    let at = resolved.iter().position(|resolved| resolved.frames.len() == 3).expect("three frames somewhere");
    addresses[at]
}

/// Moves the debug information of `prog` to `debug_file`, without a link.
fn split_off(scratch: &Scratch, debug_file: &str) {
    let path = scratch.write(debug_file, "");
    scratch.run("objcopy", &["--only-keep-debug", "prog", path.to_str().expect("UTF-8")]);
    scratch.run("strip", &["prog"]);
}

const FRAMES: [&str; 3] = ["innermost prog.c", "middle prog.c", "outer prog.c"];

#[track_caller]
fn assert_frames(shown: &[String]) {
    assert_eq!(shown.len(), 3, "{shown:?}");
    for (shown, expected) in shown.iter().zip(FRAMES) {
        assert!(shown.starts_with(expected), "{shown} is not {expected}");
    }
}

#[test]
fn its_own_debug_information() {
    let scratch = Scratch::new();
    let at = program(&scratch, &[]);
    let id = build_id(&scratch, "prog");
    let (resolved, status) = resolve(&scratch.options(), &scratch.path("prog"), &id, &[at]);
    assert_eq!(shown(&resolved[0]), ["innermost prog.c:5", "middle prog.c:9", "outer prog.c:12"]);
    let inlined: Vec<bool> = resolved[0].frames.iter().map(|frame| frame.inlined).collect();
    assert_eq!(inlined, [true, true, false]);
    assert_eq!(status.seen, Seen::Debug(scratch.path("prog")));
    assert_eq!(status.notes, []);
}

#[test]
fn every_form_of_debug_information() {
    for flags in [
        &["-gdwarf-4"][..],
        &["-gdwarf-5"],
        &["-gz=zlib"],
        &["-gdwarf-4", "-gz"],
        &["-no-pie"],
        &["-static"],
        &["-flto"],
        &["-fdebug-types-section"],
    ] {
        let scratch = Scratch::new();
        let at = program(&scratch, flags);
        let (resolved, _) = resolve(&scratch.options(), &scratch.path("prog"), &[], &[at]);
        assert_frames(&shown(&resolved[0]));
    }
}

#[test]
fn sections_compressed_later() {
    for kind in ["zlib", "zlib-gnu", "zstd"] {
        let scratch = Scratch::new();
        let at = program(&scratch, &[]);
        let option = format!("--compress-debug-sections={kind}");
        let done = std::process::Command::new("objcopy").args([&option, "prog"]).current_dir(&scratch.0).output();
        let done = done.expect("objcopy");
        if !done.status.success() {
            // binutils 2.38 and older, or built without zstd: nothing to read then.
            eprintln!("this objcopy does not know {kind}");
            continue;
        }
        let (resolved, status) = resolve(&scratch.options(), &scratch.path("prog"), &[], &[at]);
        assert_frames(&shown(&resolved[0]));
        assert_eq!(status.notes.len(), 1, "{kind}: {:?}", status.notes);
    }
}

#[test]
fn parts_that_dwz_moved_to_a_shared_file() {
    let scratch = Scratch::new();
    let at = program(&scratch, &[]);
    std::fs::copy(scratch.path("prog"), scratch.path("twin")).expect("a copy");
    let dwz =
        std::process::Command::new("dwz").args(["-m", "shared.debug", "prog", "twin"]).current_dir(&scratch.0).status();
    if !dwz.is_ok_and(|status| status.success()) || !scratch.path("shared.debug").exists() {
        // dwz is a package of its own, and leaves small files alone in some versions.
        eprintln!("dwz is not installed or made no shared file");
        return;
    }
    let (resolved, status) = resolve(&scratch.options(), &scratch.path("prog"), &[], &[at]);
    assert_frames(&shown(&resolved[0]));
    assert_eq!(status.notes.len(), 1, "{:?}", status.notes);

    std::fs::remove_file(scratch.path("shared.debug")).expect("removed");
    let (resolved, status) = resolve(&scratch.options(), &scratch.path("prog"), &[], &[at]);
    assert_eq!(resolved[0].frames.len(), 3);
    assert!(status.notes.iter().any(|note| matches!(note, Note::NoSharedDebugFile { .. })));
}

#[test]
fn a_debug_link_in_each_of_its_places() {
    for place in ["prog.debug", ".debug/prog.debug", "debug/PARENT/prog.debug"] {
        let scratch = Scratch::new();
        let at = program(&scratch, &[]);
        let parent = scratch.0.to_str().expect("UTF-8").trim_start_matches('/').to_owned();
        let place = place.replace("PARENT", &parent);
        split_off(&scratch, &place);
        scratch.run("objcopy", &[&format!("--add-gnu-debuglink={place}"), "prog"]);
        let (resolved, status) = resolve(&scratch.options(), &scratch.path("prog"), &[], &[at]);
        assert_frames(&shown(&resolved[0]));
        assert_eq!(status.seen, Seen::Debug(scratch.path(&place)));
    }
}

#[test]
fn a_debug_link_with_the_wrong_checksum_is_refused() {
    let scratch = Scratch::new();
    let at = program(&scratch, &[]);
    split_off(&scratch, "prog.debug");
    scratch.run("objcopy", &["--add-gnu-debuglink=prog.debug", "prog"]);
    let mut bytes = std::fs::read(scratch.path("prog.debug")).expect("the debug file");
    bytes.push(0);
    scratch.write("prog.debug", bytes);
    let (resolved, status) = resolve(&scratch.options(), &scratch.path("prog"), &[], &[at]);
    assert!(resolved[0].frames.iter().all(|frame| frame.line.is_none()));
    assert!(status.notes.iter().any(|note| matches!(note, Note::WrongChecksum { .. })), "{:?}", status.notes);
}

#[test]
fn a_debug_link_to_another_build_is_refused() {
    let scratch = Scratch::new();
    let at = program(&scratch, &[]);
    let other = Scratch::new();
    program(&other, &["-DOTHER", "-O1"]);
    split_off(&other, "prog.debug");
    std::fs::copy(other.path("prog.debug"), scratch.path("prog.debug")).expect("a copy");
    scratch.run("strip", &["prog"]);
    scratch.run("objcopy", &["--add-gnu-debuglink=prog.debug", "prog"]);
    let (resolved, status) = resolve(&scratch.options(), &scratch.path("prog"), &[], &[at]);
    assert!(resolved[0].frames.iter().all(|frame| frame.line.is_none()));
    assert!(status.notes.iter().any(|note| matches!(note, Note::OtherDebugFile { .. })), "{:?}", status.notes);
}

#[test]
fn the_build_id_directory_serves_even_without_the_binary() {
    let scratch = Scratch::new();
    let at = program(&scratch, &[]);
    let id = build_id(&scratch, "prog");
    split_off(&scratch, &build_id_path(&id));
    let (resolved, status) = resolve(&scratch.options(), &scratch.path("prog"), &id, &[at]);
    assert_frames(&shown(&resolved[0]));
    assert_eq!(status.notes, []);

    std::fs::remove_file(scratch.path("prog")).expect("removed");
    let (resolved, status) = resolve(&scratch.options(), &scratch.path("prog"), &id, &[at]);
    assert_frames(&shown(&resolved[0]));
    assert_eq!(status.notes, [Note::NotFound { path: scratch.path("prog") }]);
}

#[test]
fn a_rebuilt_binary_is_refused_and_its_old_debug_file_used() {
    let scratch = Scratch::new();
    let at = program(&scratch, &[]);
    let id = build_id(&scratch, "prog");
    split_off(&scratch, &build_id_path(&id));
    scratch.run("gcc", &["-O0", "-g", "-Wl,--build-id", "prog.c", "-o", "prog"]);
    let (resolved, status) = resolve(&scratch.options(), &scratch.path("prog"), &id, &[at]);
    assert_frames(&shown(&resolved[0]));
    assert!(status.is_build_id_mismatch());

    std::fs::remove_dir_all(scratch.path("debug")).expect("removed");
    let (resolved, status) = resolve(&scratch.options(), &scratch.path("prog"), &id, &[at]);
    assert!(resolved[0].frames.is_empty(), "{:?}", shown(&resolved[0]));
    assert_eq!(status.seen, Seen::Nothing);
    let sentence = status.notes[0].to_string();
    assert!(sentence.contains("was rebuilt since: its build id is "), "{sentence}");
}

#[test]
fn a_stripped_library_has_its_dynamic_symbols() {
    let scratch = Scratch::new();
    scratch.write("lib.c", INLINED_C);
    scratch.run("gcc", &["-O2", "-shared", "-fPIC", "lib.c", "-o", "lib.so"]);
    let at = instructions(&scratch, "lib.so", "outer")[2];
    scratch.run("strip", &["lib.so"]);
    let (resolved, status) = resolve(&scratch.options(), &scratch.path("lib.so"), &[], &[at]);
    assert_eq!(function(&resolved[0].frames[0]), "outer");
    assert!(resolved[0].frames[0].offset.expect("an offset") > 0);
    assert_eq!(status.seen, Seen::Symbols(scratch.path("lib.so")));
    assert!(status.notes.iter().any(|note| matches!(note, Note::NoDebugInfo { .. })));
}

#[test]
fn symbols_only_opens_no_debug_information() {
    let scratch = Scratch::new();
    let at = program(&scratch, &[]);
    let mut options = scratch.options();
    options.level = Level::SymbolsOnly;
    let (resolved, status) = resolve(&options, &scratch.path("prog"), &[], &[at]);
    assert_eq!(shown(&resolved[0]), ["outer ??:0"]);
    assert_eq!(status.seen, Seen::Symbols(scratch.path("prog")));
}

#[test]
fn a_sysroot_stands_before_every_path() {
    let scratch = Scratch::new();
    let at = program(&scratch, &[]);
    std::fs::create_dir_all(scratch.path("root/usr/bin")).expect("directories");
    std::fs::rename(scratch.path("prog"), scratch.path("root/usr/bin/prog")).expect("moved");
    let mut options = scratch.options();
    options.sysroot = Some(scratch.path("root"));
    for path in ["/usr/bin/prog", "/usr/bin/prog (deleted)", "/usr/../../usr/bin/prog"] {
        let (resolved, _) = resolve(&options, path.as_ref(), &[], &[at]);
        assert_frames(&shown(&resolved[0]));
    }
}

#[test]
fn a_deadline_in_the_past_leaves_symbols_and_is_not_remembered() {
    let scratch = Scratch::new();
    let at = program(&scratch, &[]);
    let path = scratch.path("prog");
    let mut symbolizer = heapledger_symbols::Symbolizer::new(scratch.options());
    let module = heapledger_symbols::ModuleId { path: &path, build_id: &[] };
    let past = std::time::Instant::now();
    let resolved = symbolizer.resolve(&module, &[at], &mut |_, _| {}, Some(past));
    assert_eq!(shown(&resolved[0]), ["outer ??:0"]);
    assert!(resolved[0].hasty);
    let late = |symbolizer: &mut heapledger_symbols::Symbolizer| {
        symbolizer.status(&module).notes.iter().any(|note| matches!(note, Note::OutOfTime { .. }))
    };
    assert!(late(&mut symbolizer));
    let resolved = symbolizer.resolve(&module, &[at], &mut |_, _| {}, None);
    assert_frames(&shown(&resolved[0]));
    assert!(!resolved[0].hasty);
    assert!(!late(&mut symbolizer));
}

#[test]
fn what_is_no_file_gets_a_sentence() {
    let scratch = Scratch::new();
    let empty = scratch.write("empty", "");
    let text = scratch.write("text", "no ELF at all, but long enough to hold a header of one");
    for (path, expected) in [
        (std::path::PathBuf::new(), "code without a file name is not a file"),
        ("[vdso]".into(), "[vdso] is not a file"),
        ("linux-vdso.so.1".into(), "linux-vdso.so.1 is not a file"),
        (scratch.path("missing"), "is not there"),
        (scratch.0.clone(), "it is not a regular file"),
        (empty, "it is not an ELF file"),
        (text, "it is not an ELF file"),
        ("/dev/zero".into(), "it is not a regular file"),
    ] {
        let (resolved, status) = resolve(&scratch.options(), &path, &[1, 2, 3], &[0, 0x1000, u64::MAX]);
        assert!(resolved.iter().all(|resolved| resolved.frames.is_empty()));
        assert_eq!(status.seen, Seen::Nothing);
        assert!(status.notes[0].to_string().contains(expected), "{}: {:?}", path.display(), status.notes);
    }
}

#[test]
fn source_lines_are_read() {
    let scratch = Scratch::new();
    let path = scratch.write("a.c", "first\r\nsecond\n\nlast");
    let mut reader = heapledger_symbols::SourceReader::new(None);
    let lines: Vec<_> = (0..6).map(|line| reader.line(&path, line)).collect();
    let expected = [None, Some("first"), Some("second"), Some(""), Some("last"), None];
    assert_eq!(lines, expected.map(|line| line.map(str::to_owned)));
    assert_eq!(reader.line(scratch.path("missing"), 1), None);
    assert_eq!(reader.line("/dev/zero", 1), None);
}

#[test]
fn a_call_tells_which_function_of_another_module_it_is_of() {
    let scratch = Scratch::new();
    let source =
        "#include <stdlib.h>\nvoid far(void) { setenv(\"A\", \"b\", 1); }\nint main(void) { far(); return 0; }\n";
    scratch.write("prog.c", source);
    // Through stubs of each kind, and through the slot itself.
    for flags in [&["-fcf-protection=none"][..], &["-fcf-protection=full"], &["-fno-plt"], &["-no-pie", "-Wl,-z,now"]] {
        scratch.run("gcc", &[&["-O1", "-fno-optimize-sibling-calls", "prog.c", "-o", "prog"], flags].concat());
        let path = scratch.path("prog");
        let module = ModuleId { path: &path, build_id: &[] };
        let mut symbolizer = Symbolizer::new(scratch.options());
        let mut called = |function| {
            let names = instructions(&scratch, "prog", function);
            Vec::from_iter(names.into_iter().filter_map(|at| Some(symbolizer.called(&module, at)?.to_string())))
        };
        assert_eq!(called("far"), ["setenv"], "{flags:?}");
        assert_eq!(called("main"), [""; 0], "{flags:?}: it calls its own module");
        assert!(symbolizer.called(&module, 3).is_none() && symbolizer.called(&module, u64::MAX).is_none());
    }
}
