//! Names that were found in haste are replaced by better ones; code of no module is that of a file that is given.

use std::path::PathBuf;
use std::time::Instant;

use heapledger_analysis::{
    Given, NamedFrame, Names, NamingOptions, NotOurs, Note, ProgramFile, SameBuild, check_firmware, given,
};
use heapledger_source::Ledger;
use heapledger_symbols::{GivenFile, Options, SourceReader, Symbolizer};
use heapledger_testing::Builder;

/// A function that this test looks for in its own program.
#[inline(never)]
fn looked_for(by: u64) -> u64 {
    std::hint::black_box(by + 1)
}

/// Where this program lies, less where its file says that it lies.
fn bias() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("a list of mappings");
    let own = std::env::current_exe().expect("a program").display().to_string();
    let line = maps.lines().find(|line| line.ends_with(&own)).expect("this program is mapped");
    u64::from_str_radix(line.split('-').next().expect("an address"), 16).expect("an address")
}

struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_name_found_in_haste_is_replaced() {
    assert_eq!(looked_for(1), 2);
    let mut builder = Builder::new();
    let program = std::env::current_exe().expect("a program");
    let module = builder.module(program.to_str().expect("a path in UTF-8"), &[], 0, 0, u64::MAX >> 16);
    let offset = looked_for as fn(u64) -> u64 as usize as u64 - bias() + 1;
    let site = builder.stack(&[(Some(module), offset)]);
    let file = File(std::env::temp_dir().join(format!("heapledger-naming-{}.hlive", std::process::id())));
    builder.write(&file.0).expect("written");
    let ledger = Ledger::open(&file.0).expect("a ledger");
    let mut names =
        Names::new(&ledger, Symbolizer::new(Options::default()), SourceReader::new(None)).expect("readable");
    let code = names.codes(site).expect("readable")[0];
    let mut name_by = |options: NamingOptions, is_hasty: bool| -> NamedFrame {
        names.resolve([site], options, &mut |_| {}).expect("readable");
        assert_eq!(names.is_hasty(code).expect("readable"), is_hasty);
        let stack = names.stack(site).expect("readable");
        stack.frames.last().expect("a frame").clone()
    };
    let from_symbols = NamingOptions { from_symbols: true, ..NamingOptions::default() };
    let by_symbol = name_by(from_symbols, true);
    let mut has_lines = false;
    let mut name = |deadline: Option<Instant>| {
        has_lines |= deadline.is_none();
        name_by(NamingOptions { deadline, ..NamingOptions::default() }, !has_lines)
    };
    let is_found = |frame: &NamedFrame| frame.function.as_deref().is_some_and(|name| name.contains("looked_for"));
    let hasty = name(Some(Instant::now()));
    assert!(is_found(&hasty) && hasty.line.is_none(), "{hasty:?}");
    let again = name(Some(Instant::now()));
    assert_eq!(again, hasty);
    assert_eq!(by_symbol, hasty);
    let better = name(None);
    assert!(is_found(&better) && better.line.is_some(), "{better:?}");
    assert!(better.file.as_deref().is_some_and(|file| file.ends_with("naming.rs")), "{better:?}");
    // It is remembered: no haste takes it away.
    assert_eq!(name(Some(Instant::now())), better);
    assert_eq!(name_by(from_symbols, false), better);
}

/// A chip's ledger has no modules: what its code is called stands in the file that was built for it.
#[test]
fn a_file_that_is_given_names_the_code_of_a_ledger_without_modules() {
    let program = std::env::current_exe().expect("a program");
    let address = looked_for as fn(u64) -> u64 as usize as u64 - bias() + 1;
    let mut builder = Builder::new();
    let site = builder.stack(&[(None, address)]);
    let file = File(std::env::temp_dir().join(format!("heapledger-naming-chip-{}.hlive", std::process::id())));
    builder.write(&file.0).expect("written");
    let ledger = Ledger::open(&file.0).expect("a ledger");
    let given_file = GivenFile::open(&program).expect("a program");
    let Ok(Given::Everything(whole)) = given(&ledger, &given_file).expect("readable") else { panic!("not all of it") };
    assert_eq!((&whole.path, whole.build), (&program, SameBuild::Unknown));
    let stack = |path: Option<ProgramFile>| {
        let mut names =
            Names::new(&ledger, Symbolizer::new(Options::default()), SourceReader::new(None)).expect("readable");
        path.into_iter().for_each(|path| names.of_file(path));
        names.resolve([site], NamingOptions::default(), &mut |_| {}).expect("readable");
        (names.stack(site).expect("readable").frames, names.notes())
    };
    let (frames, notes) = stack(None);
    assert_eq!((&frames[0].function, frames[0].address, notes), (&None, Some(address), vec![Note::NoProgram(None)]));
    let (frames, notes) = stack(Some(whole));
    let frame = frames.last().expect("a frame");
    assert!(frame.function.as_deref().is_some_and(|name| name.contains("looked_for")), "{frame:?}");
    assert!(frame.file.as_deref().is_some_and(|file| file.ends_with("naming.rs")), "{frame:?}");
    assert_eq!(frame.module.as_deref(), program.to_str());
    assert!(
        notes.iter().any(|note| matches!(note, Note::Module { reason, .. } if reason.contains("could not be checked"))),
        "{notes:?}"
    );
}

/// Firmware may say itself of which build it is: the text is in its file as it is in its ledger. Another machine's file is refused.
#[test]
fn a_ledger_without_modules_says_of_which_build_it_is() {
    static SAID: &[u8] = b"build_id=the test of names\0";
    assert_eq!(std::hint::black_box(SAID).len(), 27);
    let program = GivenFile::open(&std::env::current_exe().expect("a program")).expect("a program");
    let with = |build_id: &str, machine: u16| {
        let mut builder = Builder::new();
        builder.process("build_id", build_id);
        let mut bytes = builder.bytes();
        bytes[12..14].copy_from_slice(&machine.to_le_bytes());
        let file = File(std::env::temp_dir().join(format!("heapledger-build-{}-{machine}.hlive", std::process::id())));
        std::fs::write(&file.0, &bytes).expect("written");
        let ledger = Ledger::open(&file.0).expect("a ledger");
        let program = given(&ledger, &program).expect("readable").map(|given| given.program().expect("all of it"));
        program.map(|program| {
            let other = ProgramFile { path: "/no/rom.elf".into(), build_id: vec![1, 2], build: SameBuild::No };
            let unknown = ProgramFile { build: SameBuild::Unknown, ..other.clone() };
            let alone = check_firmware(&ledger, std::slice::from_ref(&program)).map_err(|refused| refused.to_string());
            let beside = check_firmware(&ledger, &[other, program.clone()]).is_ok();
            (program.build, alone, beside, check_firmware(&ledger, &[unknown]).is_ok())
        })
    };
    assert_eq!(with("the test of names", 62), Ok((SameBuild::Yes, Ok(()), true, true)));
    let (build, alone, beside, unknown) = with("the test of name", 0).expect("of this machine");
    assert_eq!((build, beside, unknown), (SameBuild::No, false, true));
    assert!(alone.expect_err("refused").ends_with("and the ledger is of build id the test of name"));
    let refused = with("the test of names", 40).expect_err("of another machine");
    assert!(
        matches!(&refused, NotOurs::OtherMachine { .. })
            && refused.to_string().ends_with("is for x86-64, and the ledger is of ARM")
    );
}

/// Two files of one path are told apart by their build ids; code without a module has none.
#[test]
fn a_frame_says_of_which_build_its_module_is() {
    let mut builder = Builder::new();
    let with = builder.module("/no/such/program", &[0xab, 0x01], 0x1000, 0x1000, 0x9000);
    let without = builder.module("/no/such/program", &[], 0x10_000, 0x10_000, 0x19_000);
    let site = builder.stack(&[(Some(with), 0x20), (Some(without), 0x20), (None, 0x7fff_0000)]);
    let file = File(std::env::temp_dir().join(format!("heapledger-naming-builds-{}.hlive", std::process::id())));
    builder.write(&file.0).expect("written");
    let ledger = Ledger::open(&file.0).expect("a ledger");
    let mut names =
        Names::new(&ledger, Symbolizer::new(Options::default()), SourceReader::new(None)).expect("readable");
    names.resolve([site], NamingOptions::default(), &mut |_| {}).expect("readable");
    let frames = names.stack(site).expect("readable").frames;
    let ids: Vec<Option<&str>> = frames.iter().map(|frame| frame.build_id.as_deref()).collect();
    assert_eq!(ids, [Some("ab01"), None, None]);
    let seen = heapledger_analysis::Seen::of(&ledger, 0).expect("readable");
    assert!(!seen.notes.iter().any(|note| matches!(note, heapledger_analysis::Note::LeftOut(_))), "{:?}", seen.notes);
}

/// Whoever reads a ledger that was finished by a heapledger from before hears what that left out.
#[test]
fn what_was_left_out_is_noted() {
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../source/tests/data");
    let ledger = Ledger::open(data.join("everything-finished-earlier.hl")).expect("a ledger");
    let seen = heapledger_analysis::Seen::of(&ledger, 0).expect("readable");
    let left_out = seen.notes.iter().find_map(|note| match note {
        heapledger_analysis::Note::LeftOut(sections) => Some(sections.join(" ")),
        _ => None,
    });
    assert_eq!(left_out.as_deref(), Some("label column accounts account frees 999"));
}
