//! `decode`, `encode`, `heapmap`, `convert`, and logs in place of ledgers.

mod common;

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use common::{Scratch, heapledger, output};
use heapledger_format::TallyCounter;
use heapledger_format::record::Entry;
use heapledger_testing::Builder;
use serde_json::Value;

const SAMPLE: &str = "~m#IF0BmUQugNCkgCnkhdAYpQa6wAAV";
const WORDS: &str = "~b#size: 7520, 0x406651 0x406852 0x406c1b 0x406294 ";

fn with_input(command: &mut Command, input: &str) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

#[test]
fn decode_prints_what_the_original_s_tool_prints() {
    for text in [SAMPLE, &SAMPLE[3..], "~x#IF0BmUQugNCkgCnkhdAYpQa6wAAV", "IF0BmUQugNCk gCnkhdAYpQa6wAAV\n"] {
        let decoded = output(heapledger().args(["decode", text]));
        assert_eq!((out(&decoded), err(&decoded)), (format!("{WORDS}\n").as_str(), ""), "{text}");
        assert_eq!(decoded.status.code(), Some(0), "{text}");
    }
    let log = format!(
        "boot\n[12:00] N: {SAMPLE} x\r\nI (1) ok\n{}\n~m#IF0BmUQugN[12] hi\nCkgCnkhdAYpQa6wAAV\n",
        &SAMPLE[3..]
    );
    let decoded = with_input(heapledger().arg("decode"), &log);
    assert_eq!((out(&decoded), err(&decoded)), (format!("{WORDS}\n").repeat(3).as_str(), ""));
    assert!(decoded.status.success());
}

#[test]
fn what_does_not_decode_is_told_with_its_line_and_ends_with_1() {
    let decoded = with_input(heapledger().arg("decode"), &format!("{SAMPLE}\n~m#AAAA\n{SAMPLE}\n"));
    assert_eq!(out(&decoded).lines().count(), 2);
    assert!(err(&decoded).starts_with("heapledger: line 2 did not decode: its length does not match"), "{decoded:?}");
    assert_eq!(decoded.status.code(), Some(1));
    for (input, said) in [("", "there is no backtrace"), ("hello\n", "did not decode"), ("some words\n", "there is no")]
    {
        let nothing = with_input(heapledger().arg("decode"), input);
        assert!(err(&nothing).contains(said), "{input}: {nothing:?}");
        assert_eq!((nothing.status.code(), out(&nothing)), (Some(1), ""), "{input}");
    }
    let first = output(heapledger().args(["decode", "~m#CgA1DoAABw=="]));
    assert!(err(&first).contains("at bit 6: the first frame is a delta"), "{first:?}");
}

#[test]
fn encode_is_its_inverse_and_what_the_format_cannot_hold_is_an_extension() {
    let encoded = output(heapledger().args(["encode", WORDS]));
    assert_eq!((out(&encoded), encoded.status.code()), (format!("{SAMPLE}\n").as_str(), Some(0)));
    let wide = "~b#size: 48, 0x7f1234567890 0x7f1234560000 0x55d0c3a81b2e \n";
    let encoded = with_input(heapledger().arg("encode"), &format!("text\n{wide}"));
    assert!(out(&encoded).starts_with("~m#CgE"), "{encoded:?}");
    let decoded = with_input(heapledger().arg("decode"), out(&encoded));
    assert_eq!(out(&decoded), wide);
    let refused = output(heapledger().args(["encode", "--bits", "32", wide.trim()]));
    assert!(err(&refused).contains("frame 0 is 2^31 or more"), "{refused:?}");
    assert_eq!(refused.status.code(), Some(1));
}

#[test]
fn live_blocks_of_a_ledger_are_printed_as_lines_oldest_first() {
    let scratch = Scratch::new("logs-lines");
    let lines = format!("{SAMPLE}\n~m#CF0AQAAKAAg=\n{SAMPLE}\n~m#AHZAAAU=\n");
    fs::write(scratch.cwd().join("a.log"), &lines).expect("written");
    let run = |words: &[&str]| output(heapledger().args(words).current_dir(scratch.cwd()));
    assert!(run(&["convert", "a.log", "-o", "a.hl"]).status.success());
    for ledger in ["a.log", "a.hl"] {
        let printed = run(&["encode", "--ledger", ledger]);
        assert_eq!((out(&printed), err(&printed)), (lines.as_str(), ""), "{ledger}");
        assert!(printed.status.success());
        let plain = run(&["encode", "--ledger", ledger, "--plain"]);
        let words =
            ["", "~b#size: 1, 0x401000 ", "", "~b#size: 100, "].map(|line| if line.is_empty() { WORDS } else { line });
        assert_eq!(out(&plain), words.join("\n") + "\n");
    }
    // What is missing is told of, as by every report.
    let mut builder = Builder::new();
    builder.block(0x1000, 24).tally(TallyCounter::LostNoRecord, 7);
    builder.write(&scratch.cwd().join("lost.hl")).expect("written");
    let printed = run(&["encode", "--ledger", "lost.hl", "--plain"]);
    assert!(printed.status.success() && out(&printed).starts_with("~b#size: 24"), "{printed:?}");
    assert!(err(&printed).contains("7 blocks"), "{printed:?}");
    // A line has room for so many frames.
    let deep: Vec<(Option<u16>, u64)> = (0..305).map(|frame| (None, 0x40_1000 + frame)).collect();
    let mut builder = Builder::new();
    let site = builder.stack(&deep);
    builder.block(0x1000, 24);
    for (number, size) in [(1, 48), (2, 50)] {
        builder.entry(Entry { number, address: 0x2000 + size, size: Some(size), site, ..Entry::NONE });
    }
    builder.write(&scratch.cwd().join("deep.hl")).expect("written");
    let said = "heapledger: 2 lines have the innermost 255 frames only: there were up to 305\n";
    let printed = run(&["encode", "--ledger", "deep.hl", "--plain"]);
    assert!(printed.status.success() && err(&printed) == said, "{printed:?}");
    let frames: Vec<usize> = out(&printed).lines().map(|line| line.matches("0x").count()).collect();
    assert_eq!(frames, [0, 255, 255]);
    assert!(out(&printed).contains("~b#size: 48, 0x401000 ") && out(&printed).contains(" 0x4010fe \n"), "{printed:?}");
    let packed = run(&["encode", "--ledger", "deep.hl"]);
    assert!(packed.status.success() && err(&packed) == said, "{packed:?}");
    assert_eq!(out(&with_input(heapledger().arg("decode"), out(&packed))), out(&printed));
    for (words, said) in [
        (&["encode", "--ledger", "a.hl", "--module", "app"][..], "the ledger knows no modules"),
        (&["encode", "--plain", SAMPLE], "--plain"),
        (&["encode", "--plain"], "--ledger"),
        (&["encode", "--ledger", "nothing-there"], "nothing-there"),
    ] {
        let refused = run(words);
        assert!(!refused.status.success() && err(&refused).contains(said), "{words:?}: {refused:?}");
    }
}

#[test]
fn decode_writes_json_and_names_frames() {
    let scratch = Scratch::new("logs-names");
    let source =
        "#include <stdlib.h>\nvoid *leaf(int n) { return malloc(n); }\nint main(void) { return leaf(3) == 0; }\n";
    let program = scratch.compile("app", source, &["-g", "-O0", "-no-pie"]);
    let symbols = Command::new("nm").arg(&program).output().expect("nm is needed for this test");
    let symbols = String::from_utf8(symbols.stdout).expect("UTF-8");
    let address = |name: &str| {
        let line = symbols.lines().find(|line| line.ends_with(&format!(" T {name}"))).expect("a function");
        u64::from_str_radix(&line[..16], 16).expect("an address")
    };
    let words = format!("size: 64, {:#x} {:#x}", address("leaf") + 12, address("main") + 8);
    let encoded = output(heapledger().args(["encode", &words]));
    let log = scratch.cwd().join("device.log");
    fs::write(&log, out(&encoded)).expect("written");

    let named = with_input(heapledger().args(["decode", "--exe"]).arg(&program), out(&encoded));
    let text = out(&named);
    assert!(text.contains("leaf") && text.contains("main") && text.contains("app.c:2"), "{named:?}");
    let json = with_input(heapledger().args(["decode", "--json", "--exe"]).arg(&program), out(&encoded));
    let lines: Vec<Value> = out(&json).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines[1]["size"], 64);
    assert_eq!(lines[1]["dialect"], "canonical");
    assert_eq!(lines[1]["frames"][0]["function"], "leaf");
    assert_eq!((&lines[2]["type"], &lines[2]["shown"]), (&Value::from("end"), &Value::from(1)));

    let classic = output(heapledger().args(["heapmap", "--classic"]).arg(&program).arg(&log));
    let shape: Vec<&str> = out(&classic).lines().collect();
    assert_eq!(shape.len(), 6, "{classic:?}");
    assert_eq!((shape[0], shape[3], shape[4], shape[5]), ("64", "", "", "# Total instrumented allocation 64"));
    assert!(shape[1].starts_with("leaf at ") && shape[1].ends_with("app.c:2"), "{classic:?}");
}

#[test]
fn every_command_reads_a_log_in_place_of_a_ledger() {
    let scratch = Scratch::new("logs-read");
    let log = format!("x\n{SAMPLE}\ny ~m#CF0ARYxqAAAACg==\n{SAMPLE}\n");
    fs::write(scratch.cwd().join("a.log"), &log).expect("written");
    fs::write(scratch.cwd().join("b.log"), format!("{SAMPLE}\n")).expect("written");
    let run = |words: &[&str]| output(heapledger().args(words).current_dir(scratch.cwd()));
    for words in [
        &["stats", "a.log"][..],
        &["dump", "a.log"],
        &["dump", "--group-by", "stack", "a.log"],
        &["dump", "--csv", "a.log"],
        &["history", "a.log"],
        &["diff", "b.log", "a.log"],
        &["tree", "a.log"],
        &["flame", "--format", "folded", "a.log"],
        &["check", "--max-live", "1G", "a.log"],
        &["heapmap", "a.log"],
    ] {
        let shown = run(words);
        assert!(shown.status.success() && !shown.stdout.is_empty(), "{words:?}: {shown:?}");
        // Where a report has no place for it, that is said beside it.
        let told = String::from_utf8_lossy(&shown.stderr);
        assert!(told.is_empty() || told.lines().count() == 1 && told.contains("`--exe FILE`"), "{words:?}: {shown:?}");
        assert!(!out(&shown).contains("0x00000000"), "{words:?}: no address is 0: {}", out(&shown));
    }
    let map = run(&["heapmap", "--json", "a.log"]);
    assert!(out(&map).contains("\"bytes\":15040") || out(&map).contains("15040"), "two of one stack: {map:?}");
    for words in [
        &["whereis", "a.log", "0x10"][..],
        &["history", "--addr", "0x10", "a.log"],
        &["dump", "--where", "addr > 5", "a.log"],
        &["dump", "--sort", "age", "a.log"],
        &["dump", "--where", "thread == 1", "a.log"],
    ] {
        let refused = run(words);
        assert!(!refused.status.success() && refused.stdout.is_empty() && !refused.stderr.is_empty(), "{words:?}");
    }
    let kept = run(&["convert", "a.log"]);
    assert!(out(&kept).starts_with("a.log.hl: 3 backtraces"), "{kept:?}");
    let again = run(&["convert", "a.log"]);
    assert!(out(&again).starts_with("a.log.1.hl: "), "no file is replaced: {again:?}");
    assert_eq!(
        out(&run(&["dump", "--csv", "a.log.hl"])),
        out(&run(&["dump", "--csv", "a.log"])),
        "the ledger has what the log has"
    );
    let piped = with_input(heapledger().args(["dump", "--csv", "-"]).current_dir(scratch.cwd()), &log);
    assert_eq!(out(&piped), out(&run(&["dump", "--csv", "a.log"])));
}

#[test]
fn a_log_with_bytes_that_are_no_text_is_read_and_what_could_not_be_read_is_said() {
    let scratch = Scratch::new("logs-bytes");
    // A serial line catches anything while a device has no power.
    let noise: Vec<u8> = (0..9000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 & 0x7e).collect();
    let log = [&noise[..], format!("\n{SAMPLE}\n~m#AAAA\n").as_bytes(), &noise].concat();
    assert!(noise[..4096].contains(&0));
    fs::write(scratch.cwd().join("bytes.log"), log).expect("written");
    let run = |words: &[&str]| output(heapledger().args(words).current_dir(scratch.cwd()));
    let stats = run(&["stats", "bytes.log"]);
    assert!(stats.status.success() && out(&stats).contains("1 backtrace could not be read"), "{stats:?}");
    let classic = run(&["heapmap", "--classic", "bytes.log"]);
    assert!(out(&classic).ends_with("\n\n\n# Total instrumented allocation 7520\n"), "{classic:?}");
    assert!(err(&classic).starts_with("heapledger: 1 backtrace could not be read; the first: line"), "{classic:?}");
    let kept = run(&["convert", "bytes.log"]);
    assert_eq!(out(&kept), "bytes.log.hl: 1 backtrace of libwebsockets; 1 live block\n");
    assert!(err(&kept).starts_with("heapledger: 1 backtrace could not be read; the first: line"), "{kept:?}");
    // A record that the original's own dump has cut after 138 bytes of its blob has no length at its end.
    let long: String = std::iter::repeat_n("Kv7q", 46).collect();
    let cut = with_input(heapledger().arg("decode"), &format!("~m#{long}\n{SAMPLE}\n"));
    assert!(err(&cut).contains("line 1 did not decode: its length does not match"), "{cut:?}");
    assert_eq!((out(&cut), cut.status.code()), (format!("{WORDS}\n").as_str(), Some(1)));
    fs::write(scratch.cwd().join("noise"), &noise).expect("written");
    for command in ["stats", "convert"] {
        let nothing = run(&[command, "noise"]);
        assert!(nothing.status.code() == Some(1) && !err(&nothing).is_empty(), "{nothing:?}");
    }
}

#[test]
fn what_is_no_log_is_refused_with_a_sentence() {
    let scratch = Scratch::new("logs-refused");
    for (name, bytes) in [("text.log", &b"hello\nworld\n"[..]), ("one", b"x"), ("half.log", b"~m#IF0BmUQ\n")] {
        fs::write(scratch.cwd().join(name), bytes).expect("written");
        for command in ["stats", "dump", "convert", "heapmap"] {
            let refused = output(heapledger().args([command, name]).current_dir(scratch.cwd()));
            assert_eq!(refused.status.code(), Some(1), "{command} {name}: {refused:?}");
            assert!(
                err(&refused).contains("tells of a heap in a way that heapledger knows"),
                "{command} {name}: {refused:?}"
            );
        }
    }
}

#[test]
fn a_log_that_tells_a_hash_of_its_program_is_compared_with_it_and_a_rom_may_stand_beside() {
    let scratch = Scratch::new("logs-hash");
    let source = |name: &str| format!("void {name}(void) {{ }}\nint main(void) {{ {name}(); return 0; }}\n");
    let options = &["-g", "-O0", "-no-pie"][..];
    let app = scratch.compile("app", &source("in_app"), options);
    let place = &["-g", "-O0", "-no-pie", "-Wl,-Ttext-segment=0x7000000"][..];
    let rom = scratch.compile("rom", &source("in_rom"), place);
    let sum = Command::new("sha256sum").arg(&app).output().expect("sha256sum is needed for this test");
    let sum = String::from_utf8_lossy(&sum.stdout)[..16].to_owned();
    let address = |program: &std::path::Path, name: &str| {
        let symbols = Command::new("nm").arg(program).output().expect("nm is needed for this test");
        let symbols = String::from_utf8(symbols.stdout).expect("UTF-8");
        let line = symbols.lines().find(|line| line.ends_with(&format!(" T {name}"))).expect("a function").to_owned();
        u64::from_str_radix(&line[..16], 16).expect("an address") + 4
    };
    let (in_app, in_rom) = (address(&app, "in_app"), address(&rom, "in_rom"));
    let log = |sum: &str| {
        format!(
            "ELF file SHA256:  {sum}\n====== Heap Trace: 1 records (8 capacity) ======\n    10 bytes (@ 0x3fc90010, Internal) allocated CPU 1 ccount 0x00002414 caller 0x{in_app:08x}:0x{in_rom:08x}\n====== Heap Trace Summary ======\n10 bytes alive in trace (1/1 allocations)\n================================\n"
        )
    };
    fs::write(scratch.cwd().join("same.log"), log(&sum)).expect("written");
    fs::write(scratch.cwd().join("other.log"), log("0123456789abcdef")).expect("written");
    let dump = |name: &str| {
        output(heapledger().args(["dump", name, "--exe"]).arg(&app).arg("--exe").arg(&rom).current_dir(scratch.cwd()))
    };
    let same = dump("same.log");
    assert!(out(&same).contains("in_app") && out(&same).contains("in_rom") && err(&same).is_empty(), "{same:?}");
    let other = dump("other.log");
    assert!(out(&other).contains("in_app") && err(&other).contains("is of another build"), "{other:?}");
}

#[test]
fn a_trace_to_a_host_is_read_and_reported_as_esp_idf_does_it() {
    let scratch = Scratch::new("logs-sysview");
    // Zeros to synchronize by, a clock of 40 MHz, and a block of eight bytes at 0x1000.
    let core: &[u8] =
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 24, 7, 0x80, 0xb4, 0x89, 0x13, 1, 1, 0, 0, 0x80, 4, 4, 0x80, 0x20, 8, 5, 40];
    let file = [b";\n; Version\n;\n", core].concat();
    for name in ["zero.svdat", "one.svdat"] {
        fs::write(scratch.cwd().join(name), &file).expect("written");
    }
    let run = |words: &[&str]| output(heapledger().args(words).current_dir(scratch.cwd()));
    let report = run(&["convert", "--host-report", "zero.svdat"]);
    assert!(
        out(&report).contains(
            "[0.000001000] HEAP: Allocated 8 bytes @ 0x1000 from an unknown task on core 0 by: 0x5\nFound 8 leaked"
        ),
        "{report:?}"
    );
    let json = run(&["convert", "--host-report", "--json", "zero.svdat"]);
    let events: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!((&events["events"][1]["addr"], &events["events"][1]["size"]), (&"0x1000".into(), &8.into()), "{json:?}");
    let refused = run(&["convert", "--json", "zero.svdat"]);
    assert!(!refused.status.success() && err(&refused).contains("--host-report"), "{refused:?}");
    let stats = run(&["stats", "zero.svdat"]);
    assert!(out(&stats).contains("1 allocation, 0 frees"), "{stats:?}");
    let both = run(&["stats", "zero.svdat,one.svdat"]);
    assert!(out(&both).contains("2 allocations, 1 free"), "one address, given out on both cores: {both:?}");
    fs::write(scratch.cwd().join("text"), "hello\n").expect("written");
    let refused = run(&["convert", "--host-report", "text"]);
    assert!(!refused.status.success() && err(&refused).contains("is no stream of SystemView"), "{refused:?}");
}

#[test]
fn of_many_ledgers_in_a_log_the_last_is_shown_and_each_has_its_number() {
    let scratch = Scratch::new("logs-many");
    let dump = |block: u64, caller: u64| {
        format!(
            "====== Heap Trace: 1 records (8 capacity) ======\n{block:6} bytes (@ 0x3fc90010, Internal) allocated CPU 1 ccount 0x00002414 caller 0x{caller:08x}\n====== Heap Trace Summary ======\n{block} bytes alive in trace (1/1 allocations)\n================================\n"
        )
    };
    let log: String = (1..=1500).map(|block| dump(block, 0x4200_0000 + block % 2 * 16)).collect();
    fs::write(scratch.cwd().join("many.log"), log).expect("written");
    let run = |words: &[&str]| {
        // Fewer files than there are ledgers.
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -n 100; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_heapledger")]);
        output(limited.args(words).current_dir(scratch.cwd()))
    };
    let last = run(&["dump", "--csv", "many.log"]);
    assert!(out(&last).contains(",1500,") && last.status.success(), "{last:?}");
    let said = "the log holds 1,500 ledgers, and the last is shown (…; many.log@1491: heap trace in line 7451; ";
    assert!(err(&last).contains(said), "{last:?}");
    let one = run(&["dump", "--csv", "many.log@77"]);
    assert!(out(&one).contains(",77,") && !err(&one).contains("holds"), "{one:?}");
    let beyond = run(&["dump", "many.log@1501"]);
    assert!(err(&beyond).contains("holds 1,500 ledgers, counted from 1"), "{beyond:?}");
    // One dump against another: what grew is what the one has more.
    let grown = run(&["diff", "many.log@3", "many.log@5"]);
    assert!(out(&grown).contains("2 bytes") || out(&grown).contains("+2"), "{grown:?}");
}
