//! Debug information that somebody else brings: when that one is asked, and what is believed.

mod support;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use heapledger_symbols::{Fetch, Fetched, Level, ModuleId, Note, Options, Symbolizer, check_debug_file};
use support::*;

/// Answers from a table, and remembers who asked.
#[derive(Debug, Clone)]
struct Table {
    answer: Fetched,
    asked: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Table {
    fn new(answer: Fetched) -> Table {
        Table { answer, asked: Arc::default() }
    }

    fn asked(&self) -> Vec<Vec<u8>> {
        self.asked.lock().expect("unlocked").clone()
    }
}

impl Fetch for Table {
    fn debug_info(&mut self, _: &Path, build_id: &[u8]) -> Fetched {
        self.asked.lock().expect("unlocked").push(build_id.to_vec());
        self.answer.clone()
    }
}

/// `prog`, stripped, with its debug information in `away.debug`, an address in it and its build id.
fn program(scratch: &Scratch) -> (u64, Vec<u8>) {
    scratch.write("prog.c", INLINED_C);
    scratch.run("gcc", &["-O2", "-g", "-Wl,--build-id", "prog.c", "-o", "prog"]);
    let at = instructions(scratch, "prog", "outer")[2];
    let id = build_id(scratch, "prog");
    scratch.run("objcopy", &["--only-keep-debug", "prog", "away.debug"]);
    scratch.run("strip", &["prog"]);
    (at, id)
}

fn named(options: Options, table: &Table, path: &Path, id: &[u8], at: u64) -> (Vec<String>, Vec<Note>) {
    let mut symbolizer = Symbolizer::new(options).with_fetch(Box::new(table.clone()));
    let module = ModuleId { path, build_id: id };
    // Twice: it is asked once.
    symbolizer.resolve(&module, &[at], &mut |_, _| {}, None);
    let resolved = symbolizer.resolve(&module, &[at], &mut |_, _| {}, None);
    (shown(&resolved[0]), symbolizer.status(&module).notes)
}

#[test]
fn it_is_asked_for_what_is_not_here() {
    let scratch = Scratch::new();
    let (at, id) = program(&scratch);
    let (path, table) = (scratch.path("prog"), Table::new(Fetched::File(scratch.path("away.debug"))));
    let (frames, notes) = named(scratch.options(), &table, &path, &id, at);
    assert!(frames.last().is_some_and(|frame| frame.starts_with("outer prog.c:")), "{frames:?}");
    assert_eq!((table.asked(), notes), (vec![id.clone()], Vec::new()));

    // Neither the program nor its debug information is here.
    std::fs::rename(&path, scratch.path("gone")).expect("renamed");
    let (frames, _) = named(scratch.options(), &table, &path, &id, at);
    assert!(frames.last().is_some_and(|frame| frame.starts_with("outer prog.c:")), "{frames:?}");
    assert_eq!(table.asked().len(), 2);
    // Without a build id there is nothing to ask for.
    named(scratch.options(), &table, &path, &[], at);
    assert_eq!(table.asked().len(), 2);
}

#[test]
fn it_is_not_asked_for_what_is_here_or_not_wanted() {
    let scratch = Scratch::new();
    let (at, id) = program(&scratch);
    let (path, table) = (scratch.path("prog"), Table::new(Fetched::Unknown));
    let mut options = scratch.options();
    options.level = Level::SymbolsOnly;
    named(options, &table, &path, &id, at);
    scratch.write(&build_id_path(&id), std::fs::read(scratch.path("away.debug")).expect("read"));
    let (frames, _) = named(scratch.options(), &table, &path, &id, at);
    assert!(frames.last().is_some_and(|frame| frame.starts_with("outer prog.c:")), "{frames:?}");
    assert_eq!(table.asked(), Vec::<Vec<u8>>::new());
}

#[test]
fn what_is_brought_must_be_of_the_same_build() {
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let (at, id) = program(&scratch);
    other.write("prog.c", "int main(void) { return 7; }");
    other.run("gcc", &["-g", "-Wl,--build-id", "prog.c", "-o", "prog"]);
    other.run("gcc", &["-g", "-Wl,--build-id=none", "prog.c", "-o", "unmarked"]);
    let whole = std::fs::read(scratch.path("away.debug")).expect("read");
    let cut = other.write("cut", &whole[..whole.len() / 2]);
    let files: [(PathBuf, &str); 5] = [
        (other.path("prog"), "another build"),
        (other.path("unmarked"), "no build id"),
        (cut, "damaged"),
        (other.write("text", "<html>"), "not an ELF file"),
        (other.path("none"), ""),
    ];
    for (file, why) in files {
        let (frames, notes) =
            named(scratch.options(), &Table::new(Fetched::File(file.clone())), &scratch.path("prog"), &id, at);
        assert!(frames.iter().all(|frame| frame.ends_with(":0")), "{why}: {frames:?}");
        assert!(notes.iter().any(|note| matches!(note, Note::Unreadable { .. })), "{why}: {notes:?}");
        assert!(check_debug_file(&file, &id).expect_err("refused").contains(why), "{why}");
    }
    assert_eq!(check_debug_file(&scratch.path("away.debug"), &id), Ok(()));
}

#[test]
fn why_it_could_not_be_had_is_a_note() {
    let scratch = Scratch::new();
    let (at, id) = program(&scratch);
    let failed = Table::new(Fetched::Failed("nobody is at home".to_owned()));
    let (_, notes) = named(scratch.options(), &failed, &scratch.path("prog"), &id, at);
    let told = notes.iter().find(|note| matches!(note, Note::NotFetched { .. })).expect("a note").to_string();
    assert!(told.ends_with("prog could not be fetched: nobody is at home"), "{told}");
    let (_, notes) = named(scratch.options(), &Table::new(Fetched::Unknown), &scratch.path("prog"), &id, at);
    assert!(!notes.iter().any(|note| matches!(note, Note::NotFetched { .. })), "{notes:?}");
}
