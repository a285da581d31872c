//! On a terminal no line of any command is wider than it: in UTF-8 and in ASCII, with names, paths, arguments and figures
//! that are as long as they get. In a pipe lines are whole.

mod common;

use std::process::{Command, Stdio};

use common::{Scratch, finish, heapledger, output};
use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_format::{Entry, FreedEntry, GlobalCounter, Kind, Site, TallyCounter, ThreadRow, Ticks};
use heapledger_testing::{Builder, everything};

/// What is tried: every command with text for people, in every shape that it has. `a.hl` and `b.hl` are of one run,
/// `c.hl` is of another.
const COMMANDS: &[&str] = &[
    "stats --all a.hl",
    "stats a.hl",
    "stats c.hl",
    "stats d.hl",
    "dump --limit 5 d.hl",
    "dump --group-by fn d.hl",
    "dump --group-by stack d.hl",
    "dump --columns addr,fn,file,stack d.hl",
    "history --limit 5 d.hl",
    "diff a.hl d.hl",
    "diff --group-by fn,file a.hl d.hl",
    "tree d.hl",
    "tree --inverted d.hl",
    "top --batch 1 d.hl",
    "check --max-live 1 d.hl",
    "dump --limit 9 a.hl",
    "dump --sort size:desc --limit 9 a.hl",
    "dump --group-by fn a.hl",
    "dump --group-by thread,kind,heap,file,module a.hl",
    "dump --group-by stack,thread --top 3 a.hl",
    "dump --columns addr,size,actual,overhead,number,time,age,thread,kind,heap,site,weight,fn,file,module,stack a.hl",
    "dump --columns weight,fn,stack a.hl",
    "dump --where 'size > 1T' a.hl",
    "history --limit 9 a.hl",
    "history --limit 9 --reverse b.hl a.hl",
    "history --addr 0x1000 a.hl",
    "history --addr 0x1001 --limit 2 a.hl",
    "stats --where 'size > 25' a.hl",
    "history --columns event,addr,size,time,fn,stack --limit 9 a.hl",
    "history --group-by fn a.hl",
    "diff a.hl b.hl",
    "diff --frames 0 a.hl b.hl",
    "diff --blocks --limit 5 a.hl b.hl",
    "diff a.hl c.hl",
    "diff --group-by fn a.hl c.hl",
    "diff --group-by fn,file,thread b.hl a.hl",
    "tree a.hl",
    "tree --by allocated --inverted a.hl",
    "tree --threads a.hl",
    "top --batch 1 a.hl",
    "top --batch 1 --group-by stack --bytes a.hl",
    "whereis a.hl 0x1000 0x1011 0x7f1234567890 0x1040 0",
    "errors told.hl",
    "stats told.hl",
    "timeline told.hl",
    "check --max-live 1 --max-live-blocks 1 --max-leaked 0 --max-peak 1 --max-allocs 1 --max-allocated 1 --max-errors 0 a.hl",
    "check --max-live 1T --max-growth 1% --baseline b.hl a.hl",
    "snapshot a.hl -o copy.%i.hl",
    "recover --list live",
    "recover live -o made/of/several",
];

/// These answer with another status than 0.
const FAILING: &[(&str, i32)] = &[("whereis", 1), ("check --max-live 1T", 3), ("check", 1)];

/// A program whose names and paths are long.
const SOURCE: &str = r#"
#include <stdlib.h>
#define F(name, call) __attribute__((noinline)) void *name##_of_a_name_that_goes_on_and_on_and_on_and_on_and_on_and_on_until_it_ends(long n) { return call; }
#line 1000 "/home/somebody/projects/a-project-with-a-long-name/source/a-part-of-it/another-part-of-that-part/file_with_a_long_name.c"
F(first, malloc(n)) F(second, first_of_a_name_that_goes_on_and_on_and_on_and_on_and_on_and_on_until_it_ends(n + 1))
F(third, second_of_a_name_that_goes_on_and_on_and_on_and_on_and_on_and_on_until_it_ends(n * 2))
int main(void) {
    for (long n = 0; n < 1000; n++) { if (!third_of_a_name_that_goes_on_and_on_and_on_and_on_and_on_and_on_until_it_ends(n)) return 1; }
    return 0;
}
"#;

/// A name as C++ has them.
const LONG: &str =
    "/opt/größe/a-directory-with-a-long-name/another-one-that-is-longer/libquite_a_long_name_for_a_library.so.6";

/// So many blocks, large and small, of stacks that are named as well as may be without any file.
fn ledger(blocks: u64, program: &str, id: u8) -> Builder {
    let mut builder = Builder::new();
    let module = builder.module(LONG, &[7; 20], 0x10_0000, 0x10_0000, 0x20_0000);
    let sites: Vec<Site> = (0..7)
        .map(|depth| {
            let frames: Vec<_> = (0..=depth * 7).map(|frame| (Some(module), 0x1234 + frame * 64 + depth)).collect();
            builder.stack(&frames)
        })
        .collect();
    for row in 0..12 {
        let name = ["äöü-worker-ßßß", "a-thread-of-15c", "x"][row as usize % 3];
        builder.thread(1 + row % 2, 4_000_000 + row, 0x7fff_1234_5678 + u64::from(row), name, [blocks, blocks, 0]);
    }
    builder.heap("brk heap", 0x1000, 0x7fff_ffff_f000).heap(
        "arenas of several threads",
        0x7f00_0000_0000,
        0x7fff_ffff_ffff,
    );
    builder.process("program", program).process("pid", "4000000");
    builder.process("args", &format!("{program}\u{2028}--file={LONG}\u{2028}an argument with spaces\u{2028}--größer"));
    for number in 0..blocks {
        let size = Some(if number % 9 == 0 { 123_456_789_012 } else { 24 + number % 7 });
        let (kind, site) = (Kind::NEW_ARRAY_ALIGN_NOTHROW, sites[number as usize % sites.len()]);
        let (thread, heap, time) =
            (Some(ThreadRow(number as u32 % 12)), Some(number as u8 % 2), Some(Ticks(number * 100_001)));
        let block = Entry {
            number: 10_000_000 + number,
            address: 0x1000 + number * 64,
            size,
            actual: size.map(|size| size + 16),
            kind,
            site,
            thread,
            heap,
            time,
            ..Entry::NONE
        };
        if number % 3 == 0 {
            let end = FreedEntry {
                block,
                number: 20_000_000 + number,
                later: 0,
                by: Kind::DELETE_ARRAY_SIZED,
                site,
                thread,
                time,
                core: None,
            };
            builder.freed(end);
        } else {
            builder.entry(block);
        }
    }
    builder
        .global(GlobalCounter::PeakBytes, 987_654_321_098_765)
        .global(GlobalCounter::PeakBlocks, 1_234_567_890)
        .global(GlobalCounter::PeakError, 123_456_789)
        .tally(TallyCounter::Allocations, 9_876_543_210)
        .tally(TallyCounter::Frees, 9_876_500_000)
        .tally(TallyCounter::FreesBusy, 3)
        .tally(TallyCounter::FramesVerified, 98_765_432_109)
        .tally(TallyCounter::FramesWalked, 123_456_789)
        .tally(TallyCounter::LostNoRecord, 1_234);
    builder.id([id; 16]);
    builder
}

/// A ledger of blocks of [`SOURCE`], whose functions are found in its debug information.
fn named(scratch: &Scratch) -> Builder {
    let program = scratch.compile("long-names", SOURCE, &["-g", "-O0"]);
    let symbols = output(Command::new("nm").arg(&program));
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let address = |name: &str| {
        let line = symbols.lines().find(|line| line.split(' ').nth(2).is_some_and(|symbol| symbol.starts_with(name)));
        u64::from_str_radix(&line.expect("a symbol")[..16], 16).expect("an address") + 12
    };
    let mut builder = Builder::new();
    let module = builder.module(&program.to_string_lossy(), &[], 0x10_0000, 0x10_0000, 0x20_0000);
    let frames = ["first", "second", "third", "main"].map(|name| (Some(module), address(name)));
    let site = builder.stack(&frames);
    builder.process("program", "long-names");
    for number in 0..100 {
        let (size, actual) = (Some(number * 100), Some(number * 100 + 8));
        let (thread, heap, time) = (Some(ThreadRow(0)), Some(0), Some(Ticks(number)));
        builder.entry(Entry {
            number,
            address: 0x1000 + number * 0x1000,
            size,
            actual,
            kind: Kind::MALLOC,
            site,
            thread,
            heap,
            time,
            ..Entry::NONE
        });
    }
    builder
}

fn prepared(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    std::fs::create_dir(scratch.cwd().join("live")).expect("made");
    for (file, builder) in [
        ("a.hl", ledger(900, "a-program-with-quite-a-long-name", 1)),
        ("b.hl", ledger(1_500, "a-program-with-quite-a-long-name", 1)),
        ("c.hl", ledger(33, "größer", 2)),
        ("d.hl", named(&scratch)),
        ("told.hl", everything(ByteOrder::Little, WordSize::W64)),
        ("live/00000000000000aa-0.hlive", ledger(3, "unfinished", 3)),
    ] {
        builder.write(&scratch.cwd().join(file)).expect("written");
    }
    scratch
}

/// What `heapledger` writes to a terminal that has so many columns.
fn on_terminal(scratch: &Scratch, words: &str, columns: usize, variables: &[(&str, &str)]) -> String {
    let binary = env!("CARGO_BIN_EXE_heapledger");
    let command = format!("stty rows 40 cols {columns}; {binary} {words}; echo status $?");
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).current_dir(scratch.cwd()).env("TERM", "xterm");
    for name in ["HEAPLEDGER_PAGER", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LC_ALL", "LC_CTYPE"] {
        script.env_remove(name);
    }
    script.env("PAGER", "").envs(variables.iter().copied());
    let child = script.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let output = finish(child.expect("script is needed for this test"));
    String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n")
}

/// A line without colours.
fn plain(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or("", |(_, behind)| behind))
}

/// Whether a line may be wider: one word, such as a path that is to be copied, cannot be broken.
fn is_word(line: &str) -> bool {
    !line.trim().contains(' ')
}

fn assert_fits(scratch: &Scratch, columns: usize, variables: &[(&str, &str)]) {
    for words in COMMANDS {
        let _ = std::fs::remove_dir_all(scratch.cwd().join("made"));
        let shown = on_terminal(scratch, words, columns, variables);
        let name = words.split(' ').next().unwrap_or_default();
        let status = FAILING.iter().find(|(failing, _)| words.starts_with(failing)).map_or(0, |(_, status)| *status);
        let (text, end) = shown.trim_end().rsplit_once('\n').unwrap_or_else(|| panic!("{words} says nothing: {shown}"));
        assert_eq!(end, format!("status {status}"), "{words}: {shown}");
        for line in text.lines().map(plain) {
            assert!(
                line.chars().count() <= columns || is_word(&line),
                "{words} on {columns} columns with {variables:?} writes {} columns: {line}",
                line.chars().count()
            );
            assert!(!line.ends_with(' ') || name == "run", "{words} leaves spaces at the end of: {line:?}");
        }
        if variables.iter().any(|(_, value)| *value == "C") {
            assert!(text.is_ascii(), "{words}: {text}");
        }
    }
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let scratch = prepared("widths");
    assert_fits(&scratch, 80, &[("LANG", "C.UTF-8")]);
    assert_fits(&scratch, 80, &[("LANG", "C"), ("NO_COLOR", "1")]);
    assert_fits(&scratch, 60, &[("LANG", "C")]);
}

#[test]
fn lines_are_whole_in_a_pipe() {
    let scratch = prepared("whole");
    for (words, whole) in [
        ("stats a.hl", LONG),
        ("dump --limit 1 d.hl", "/another-part-of-that-part/file_with_a_long_name.c:1000"),
        (
            "dump --columns fn,stack d.hl",
            "third_of_a_name_that_goes_on_and_on_and_on_and_on_and_on_and_on_until_it_ends < main",
        ),
        ("dump --group-by fn d.hl", "first_of_a_name_that_goes_on_and_on_and_on_and_on_and_on_and_on_until_it_ends"),
        ("tree d.hl", "main → third_of_a_name_that_goes_on_and_on_and_on_and_on_and_on_and_on_until_it_ends → second"),
        ("top --batch 1 d.hl", "first_of_a_name_that_goes_on_and_on_and_on_and_on_and_on_and_on_until_it_ends"),
        ("diff a.hl d.hl", "/another-part-of-that-part/file_with_a_long_name.c:1000"),
        ("history --limit 1 a.hl", ", time 0.000 s"),
    ] {
        let ran = output(heapledger().args(words.split(' ')).current_dir(scratch.cwd()).env("LANG", "C.UTF-8"));
        let shown = String::from_utf8_lossy(&ran.stdout);
        assert!(shown.contains(whole), "{words} has no {whole}: {shown}");
    }
}
