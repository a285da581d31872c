//! Logs of ESP-IDF by the command: names of their frames, one dump against another, damage.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::{Scratch, heapledger, output};
use serde_json::Value;

/// A block of a dump: bytes, address, who allocated it.
type Dumped<'a> = (u64, u64, &'a [u64]);

/// A dump of live blocks, as the newest ESP-IDF prints it.
fn dump(blocks: &[Dumped<'_>]) -> String {
    let mut text = format!("====== Heap Trace: {} records (99 capacity) ======\n", blocks.len());
    for (bytes, address, frames) in blocks {
        let frames: Vec<String> = frames.iter().map(|frame| format!("0x{frame:08x}")).collect();
        text += &format!(
            "{bytes:6} bytes (@ 0x{address:08x}, Internal) allocated CPU 0 ccount 0x00002414 caller {}\n",
            frames.join(":")
        );
    }
    let all: u64 = blocks.iter().map(|(bytes, ..)| bytes).sum();
    let count = blocks.len();
    text + &format!(
        "====== Heap Trace Summary ======\nMode: Heap Trace All\n{all} bytes alive in trace ({count}/{count} allocations)\nrecords: {count} (99 capacity, {count} high water mark)\ntotal allocations: {count}\ntotal frees: 0\n================================\n"
    )
}

fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

/// Address and size of a function.
fn function(program: &Path, name: &str) -> (u64, u64) {
    let symbols = Command::new("nm").arg("-S").arg(program).output().expect("nm is needed for this test");
    let symbols = String::from_utf8(symbols.stdout).expect("UTF-8");
    let line = symbols.lines().find(|line| line.split(' ').nth(3) == Some(name)).expect("a function").to_owned();
    let mut words = line.split(' ').map(|word| u64::from_str_radix(word, 16));
    let mut number = || words.next().expect("a word").expect("a number");
    (number(), number())
}

fn levels(scratch: &Scratch, log: &str, exe: &[&Path]) -> Vec<Value> {
    let mut command = heapledger();
    command.args(["dump", "--json", log]).current_dir(scratch.cwd());
    for exe in exe {
        command.arg("--exe").arg(exe);
    }
    let shown = output(&mut command);
    assert!(shown.status.success(), "{shown:?}");
    let lines = out(&shown).lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let site = lines.into_iter().find(|line| line["type"] == "site").expect("a site");
    site["frames"].as_array().unwrap_or_else(|| panic!("{site}")).clone()
}

#[test]
fn frames_are_those_of_calls_with_what_was_inlined_and_what_nobody_knows_stays_an_address() {
    let scratch = Scratch::new("esp-names");
    let source = "\
#include <stdlib.h>
__attribute__((noinline, noreturn)) void stop(int n) { exit(n); }
static inline __attribute__((always_inline)) void inner(int n) {
    stop(n + 1);
}
__attribute__((noinline)) void outer(int n) {
    inner(n);
}
__attribute__((noinline)) void next(void) { __asm__ volatile(\"\"); }
int main(int n, char **v) { (void)v; next(); outer(n); }
";
    let options = &["-g", "-O1", "-no-pie", "-fno-align-functions", "-fno-toplevel-reorder", "-fcf-protection=none"];
    let app = scratch.compile("app", source, options);
    let rom_source = "void in_rom(void) { __asm__ volatile(\"nop\"); }\nint main(void) { in_rom(); return 0; }\n";
    let rom = scratch.compile("rom", rom_source, &["-O0", "-no-pie", "-Wl,-Ttext-segment=0x7000000"]);
    // The call that never comes back is the last instruction: behind it stands the next function.
    let (outer, bytes) = function(&app, "outer");
    let returns = outer + bytes;
    assert_eq!(returns, function(&app, "next").0, "the compiler has put something else behind the call");
    let in_rom = function(&rom, "in_rom").0 + 4;
    fs::write(scratch.cwd().join("a.log"), dump(&[(10, 0x3fc9_0010, &[returns, in_rom, 0x5000_0000])]))
        .expect("written");
    let levels = levels(&scratch, "a.log", &[&app, &rom]);
    let named: Vec<_> = levels.iter().map(|level| (level["function"].as_str(), level["line"].as_u64())).collect();
    assert_eq!(named[..2], [(Some("inner"), Some(4)), (Some("outer"), Some(7))], "{levels:?}");
    assert_eq!(named[2], (Some("in_rom"), None), "a ROM's function has no file: {levels:?}");
    assert!(named.len() == 4 && named[3] == (None, None), "{levels:?}");
    let text = output(heapledger().args(["dump", "a.log", "--exe"]).arg(&app).current_dir(scratch.cwd()));
    assert!(out(&text).contains("0x50000000"), "what nobody knows stays an address: {text:?}");
}

#[test]
fn one_dump_against_another_shows_sites_that_are_new_gone_and_grown() {
    let scratch = Scratch::new("esp-diff");
    let (stays, goes, grows, comes) = (&[0x4200_1000][..], &[0x4200_2000][..], &[0x4200_3000][..], &[0x4200_4000][..]);
    let before = dump(&[(10, 0x3fc9_0000, stays), (20, 0x3fc9_0100, goes), (30, 0x3fc9_0200, grows)]);
    let after =
        dump(&[(10, 0x3fc9_0000, stays), (30, 0x3fc9_0200, grows), (31, 0x3fc9_0300, grows), (40, 0x3fc9_0400, comes)]);
    fs::write(scratch.cwd().join("two.log"), format!("I (1) boot\n{before}I (2) later\n{after}")).expect("written");
    let run = |words: &[&str]| output(heapledger().args(words).current_dir(scratch.cwd()));
    let diff = run(&["diff", "--json", "two.log@1", "two.log@2"]);
    assert!(diff.status.success() && err(&diff).is_empty(), "{diff:?}");
    let lines = out(&diff).lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let changes: Vec<_> = lines
        .filter(|line| line["type"] == "change")
        .map(|line| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            (text(&line["change"]), line["growth_bytes"].as_i64(), text(&line["frames"][0]["address"]))
        })
        .collect();
    let expected = [("new", 40, "0x42004000"), ("grown", 31, "0x42003000"), ("gone", -20, "0x42002000")];
    let expected = expected.map(|(change, bytes, site)| (change.to_owned(), Some(bytes), site.to_owned()));
    assert_eq!(changes, expected, "what is as before is no difference: {diff:?}");
}

#[test]
fn damage_is_told_with_the_block_before_it_and_who_allocated_that() {
    let scratch = Scratch::new("esp-damage");
    let log = dump(&[(26, 0x3ffe_26f0, &[0x4200_1000]), (100, 0x3ffe_2800, &[0x4200_2000])])
        + "CORRUPT HEAP: Bad tail at 0x3ffe270a. Expected 0xbaad5678 got 0xbaac5678\nassert failed: multi_heap_free multi_heap_poisoning.c:253 (head != NULL)\n";
    fs::write(scratch.cwd().join("bad.log"), log).expect("written");
    let errors = output(heapledger().args(["errors", "bad.log"]).current_dir(scratch.cwd()));
    let said = out(&errors);
    assert!(
        said.contains("0x3ffe270a") && said.contains("26-byte region") && said.contains("0x42001000"),
        "{errors:?}"
    );
    assert!(!said.contains("0x42002000"), "the other block has nothing to do with it: {errors:?}");
}

/// Core and counter of each block are in text, in tables, in conditions, groups and JSON; where nobody has told them, asking is an error.
#[test]
fn cores_and_their_counters_are_shown_and_asked_for() {
    let scratch = Scratch::new("esp-cores");
    let log = "\
====== Heap Trace: 3 records (99 capacity) ======
     10 bytes (@ 0x3fc90010, Internal) allocated CPU 1 ccount 0x1a31ac84 caller 0x40376321
     20 bytes (@ 0x3fc90020, Internal) allocated CPU 0 ccount 0x00000007 caller 0x40376321
     30 bytes (@ 0x3fc90040, Internal) allocated CPU 1 ccount 0xffffffff caller 0x40376321
freed by 0x40376379
====== Heap Trace Summary ======
30 bytes alive in trace (2/3 allocations)
================================
";
    fs::write(scratch.cwd().join("cores.log"), log).expect("it can be written");
    fs::write(scratch.cwd().join("none.log"), "~b#size: 100, 0x1234 \n").expect("it can be written");
    let shown = |words: &[&str]| output(heapledger().args(words).current_dir(scratch.cwd()));
    let text = |words: &[&str]| {
        let shown = shown(words);
        assert!(shown.status.success(), "{words:?}: {shown:?}");
        out(&shown).to_owned()
    };
    let dump = text(&["dump", "cores.log"]);
    assert!(dump.contains("number 0, core 1, cycles 439463044") && dump.contains("core 0, cycles 7"), "{dump}");
    let history = text(&["history", "cores.log"]);
    assert!(history.contains(", core 1, cycles 4294967295") && history.contains("(freed)"), "{history}");
    let csv = text(&["dump", "--columns", "addr,core,cycles", "--sort", "cycles", "--csv", "cores.log"]);
    assert_eq!(csv, "addr,core,cycles\r\n0x3fc90020,0,7\r\n0x3fc90010,1,439463044\r\n");
    assert!(text(&["dump", "--where", "cpu = 0", "cores.log"]).contains("1 block, 20 B"));
    assert!(text(&["dump", "--where", "cycles > 7", "cores.log"]).contains("1 block, 10 B"));
    let groups = text(&["history", "--group-by", "core", "--csv", "cores.log"]);
    assert!(groups.lines().count() == 4, "two cores, and one whose free nobody knows: {groups}");
    let objects = text(&["dump", "--json", "cores.log"]);
    assert!(
        objects.contains("\"core\":1,\"cycles\":439463044") && objects.contains("\"core\":0,\"cycles\":7"),
        "{objects}"
    );
    let events = text(&["history", "--json", "cores.log"]);
    // Of a free, those of the allocation alone.
    let [cores, cycles] = ["\"core\":", "\"cycles\":4294967295"].map(|what| events.matches(what).count());
    assert_eq!((cores, cycles), (4, 2), "{events}");
    // A kept ledger says the same.
    assert!(shown(&["convert", "-o", "cores.hl", "cores.log"]).status.success());
    assert_eq!(text(&["dump", "--columns", "addr,core,cycles", "--sort", "cycles", "--csv", "cores.hl"]), csv);
    for words in [["dump", "--where", "core = 0", "none.log"], ["dump", "--columns", "cycles", "none.log"]] {
        let refused = shown(&words);
        assert!(!refused.status.success() && err(&refused).contains("core"), "{words:?}: {refused:?}");
    }
    assert!(!text(&["dump", "--json", "none.log"]).contains("\"core\""));
}
