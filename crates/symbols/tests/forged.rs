//! Files that lie. Names may be missing or wrong; nothing may panic or take for ever.

mod support;

use std::time::{Duration, Instant};

use heapledger_symbols::{Level, ModuleId, Symbolizer};
use support::*;

/// A small generator, so that a failure can be repeated by its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

fn attack(scratch: &Scratch, bytes: &[u8], addresses: &[u64], what: &str) {
    let path = scratch.write("forged", bytes);
    let start = Instant::now();
    for level in [Level::Full, Level::SymbolsOnly] {
        let mut options = scratch.options();
        options.level = level;
        let mut symbolizer = Symbolizer::new(options);
        let module = ModuleId { path: &path, build_id: &[] };
        let resolved = symbolizer.resolve(&module, addresses, &mut |_, _| {}, None);
        assert_eq!(resolved.len(), addresses.len());
        for note in &symbolizer.status(&module).notes {
            assert!(note.to_string().len() < 10_000);
        }
    }
    let taken = start.elapsed();
    // Whatever else the machine does.
    assert!(taken < Duration::from_secs(600), "{what} took {taken:?}");
}

/// Changes bytes of a program that is compiled with these flags.
fn flipped_bytes(seed: u64, flags: &[&str]) {
    let scratch = Scratch::new();
    scratch.write("prog.c", INLINED_C);
    let mut arguments = vec!["-O2", "-g", "prog.c", "-o", "prog"];
    arguments.extend(flags);
    scratch.run("gcc", &arguments);
    let mut addresses = instructions(&scratch, "prog", "outer");
    addresses.extend([0, 1, u64::MAX, 1 << 63]);
    let original = std::fs::read(scratch.path("prog")).expect("the program");
    // Most of the file is padding between segments; what matters is spread thin.
    let places: Vec<usize> = (0..original.len()).filter(|at| original[*at] != 0).collect();
    let mut random = Random(seed);
    for round in 0..2500 {
        let mut bytes = original.clone();
        for _ in 0..=(random.next() % 8) {
            let at = places[(random.next() % places.len() as u64) as usize];
            bytes[at] = match random.next() % 4 {
                0 => 0,
                1 => 0xff,
                2 => bytes[at] ^ (1 << (random.next() % 8)),
                _ => random.next() as u8,
            };
        }
        attack(&scratch, &bytes, &addresses, &format!("seed {seed}, round {round}"));
    }
}

#[test]
fn flipped_bytes_of_dwarf_5() {
    flipped_bytes(1, &["-gdwarf-5"]);
}

#[test]
fn flipped_bytes_of_packed_dwarf_4() {
    flipped_bytes(2, &["-gdwarf-4", "-gz"]);
}

#[test]
fn flipped_bytes_of_dwarf_4_at_fixed_addresses() {
    flipped_bytes(3, &["-gdwarf-4", "-no-pie"]);
}

#[test]
fn cut_short() {
    let scratch = Scratch::new();
    scratch.write("prog.c", INLINED_C);
    scratch.run("gcc", &["-O2", "-g", "prog.c", "-o", "prog"]);
    let addresses = instructions(&scratch, "prog", "outer");
    let original = std::fs::read(scratch.path("prog")).expect("the program");
    for length in (0..original.len()).step_by(61) {
        attack(&scratch, &original[..length], &addresses, &format!("length {length}"));
    }
}

/// Assembles a program whose debug sections are written by hand.
fn assemble(scratch: &Scratch, text: &str) {
    let head = ".text\n.globl main\n.type main,@function\nmain: nop\nnop\nret\n.size main,.-main\nend:\n";
    scratch.write("forged.s", format!("{head}{text}\n.section .note.GNU-stack,\"\",@progbits\n"));
    scratch.run("gcc", &["-no-pie", "forged.s", "-o", "prog"]);
}

fn main_of(scratch: &Scratch) -> Vec<u64> {
    let start = instructions(scratch, "prog", "main")[0];
    vec![start, start + 1]
}

/// Abbreviations 1: unit, 2: function, 3: inlined call, all with code from `main` to `end`;
/// 4: inlined call without attributes; 5: unit with a line program only.
const ABBREVIATIONS: &str = ".section .debug_abbrev\n\
    .uleb128 1\n.uleb128 0x11\n.byte 1\n.uleb128 0x11\n.uleb128 1\n.uleb128 0x12\n.uleb128 1\n.byte 0,0\n\
    .uleb128 2\n.uleb128 0x2e\n.byte 1\n.uleb128 0x11\n.uleb128 1\n.uleb128 0x12\n.uleb128 1\n.uleb128 3\n.uleb128 8\n.byte 0,0\n\
    .uleb128 3\n.uleb128 0x1d\n.byte 1\n.uleb128 0x11\n.uleb128 1\n.uleb128 0x12\n.uleb128 1\n.byte 0,0\n\
    .uleb128 4\n.uleb128 0x1d\n.byte 1\n.byte 0,0\n\
    .uleb128 5\n.uleb128 0x11\n.byte 0\n.uleb128 0x10\n.uleb128 0x17\n.byte 0,0\n\
    .uleb128 6\n.uleb128 0x11\n.byte 0\n.uleb128 0x55\n.uleb128 0x17\n.byte 0,0\n\
    .byte 0\n";

const UNIT_HEAD: &str = ".long 2f-1f\n1: .short 4\n.long 0\n.byte 8\n";

#[test]
fn a_tower_of_inlined_calls() {
    let scratch = Scratch::new();
    for entry in [".byte 3\n.quad main,end\n", ".byte 4\n"] {
        assemble(
            &scratch,
            &format!(
                "{ABBREVIATIONS}.section .debug_info\n{UNIT_HEAD}.byte 1\n.quad main,end\n.byte 2\n.quad main,end\n\
                 .asciz \"f\"\n.rept 300000\n{entry}.endr\n2:\n"
            ),
        );
        let addresses = main_of(&scratch);
        let (resolved, _) = resolve(&scratch.options(), &scratch.path("prog"), &[], &addresses);
        assert!(resolved[0].frames.len() <= 129, "{} frames", resolved[0].frames.len());
        assert_eq!(function(resolved[0].frames.last().expect("a frame")), "main");
        attack(&scratch, &std::fs::read(scratch.path("prog")).expect("it"), &addresses, entry);
    }
}

#[test]
fn many_units_share_one_long_list() {
    let scratch = Scratch::new();
    let unit = |kind: u8| format!(".rept 60000\n{UNIT_HEAD}.byte {kind}\n.long 0\n2:\n.endr\n");
    let ranges = ".section .debug_ranges\n.rept 60000\n.quad main,end\n.endr\n.quad 0,0\n";
    // A version 4 line program: each byte 0x14 is a row.
    let lines = ".section .debug_line\n.long 4f-3f\n3: .short 4\n.long 6f-5f\n5: .byte 1,1,1\n.byte -5,14,13\n\
        .byte 0,1,1,1,1,0,0,0,1,0,0,1\n.byte 0\n.byte 0\n6: .byte 0,9,2\n.quad main\n.fill 2000000,1,0x14\n.byte 0,1,1\n4:\n";
    for text in [format!("{}{ranges}", unit(6)), format!("{}{lines}", unit(5))] {
        assemble(&scratch, &format!("{ABBREVIATIONS}.section .debug_info\n{text}"));
        let bytes = std::fs::read(scratch.path("prog")).expect("it");
        let addresses = main_of(&scratch);
        attack(&scratch, &bytes, &addresses, "shared lists");
    }
}

#[test]
fn a_section_that_unpacks_to_too_much() {
    let scratch = Scratch::new();
    scratch.write("zeroes", vec![0; 256 << 20]);
    scratch.write("prog.c", INLINED_C);
    scratch.run("gcc", &["-O2", "prog.c", "-o", "prog"]);
    scratch.run("objcopy", &["--add-section", ".debug_info=zeroes", "prog"]);
    scratch.run("objcopy", &["--compress-debug-sections=zlib", "prog"]);
    let length = std::fs::metadata(scratch.path("prog")).expect("it").len();
    assert!(length < 8 << 20, "the bomb is packed: {length}");
    let (_, status) = resolve(&scratch.options(), &scratch.path("prog"), &[], &[0x1000]);
    assert!(status.notes.iter().any(|note| note.to_string().contains("cannot be uncompressed")), "{:?}", status.notes);
}

/// Abbreviations 7: namespace without a name; 8: inlined call of what lies at a place in the unit;
/// 10: a type without a name; 11: a function with nothing in it; 12: a type that is declared elsewhere.
const SCOPES: &str = ".uleb128 7\n.uleb128 0x39\n.byte 1\n.byte 0,0\n\
    .uleb128 8\n.uleb128 0x1d\n.byte 0\n.uleb128 0x11\n.uleb128 1\n.uleb128 0x12\n.uleb128 1\n.uleb128 0x31\n.uleb128 0x13\n.byte 0,0\n\
    .uleb128 10\n.uleb128 0x13\n.byte 1\n.byte 0,0\n\
    .uleb128 11\n.uleb128 0x2e\n.byte 0\n.uleb128 3\n.uleb128 8\n.byte 0,0\n\
    .uleb128 12\n.uleb128 0x13\n.byte 1\n.uleb128 0x47\n.uleb128 0x13\n.byte 0,0\n.byte 0\n";

/// A program with a function in which something is inlined that lies in `text`, behind the label `target`.
fn in_scopes(scratch: &Scratch, text: &str) -> String {
    let abbreviations = ABBREVIATIONS.strip_suffix(".byte 0\n").expect("the end");
    assemble(
        scratch,
        &format!(
            "{abbreviations}{SCOPES}.section .debug_info\nunit: {UNIT_HEAD}.byte 1\n.quad main,end\n.byte 2\n.quad main,end\n\
             .asciz \"f\"\n.byte 8\n.quad main,end\n.long target-unit\n.byte 0\n{text}\n2:\n"
        ),
    );
    let addresses = main_of(scratch);
    attack(scratch, &std::fs::read(scratch.path("prog")).expect("it"), &addresses, text);
    let (resolved, _) = resolve(&scratch.options(), &scratch.path("prog"), &[], &addresses);
    function(&resolved[0].frames[0]).to_owned()
}

#[test]
fn what_lies_around_a_function() {
    let scratch = Scratch::new();
    // As it should be.
    let honest = ".byte 7\n.byte 7\ntarget: .byte 11\n.asciz \"go\"\n.byte 0,0";
    assert_eq!(in_scopes(&scratch, honest), "(anonymous namespace)::(anonymous namespace)::go");
    // A tower; what lies too deep is not looked for.
    let tower = ".rept 300000\n.byte 7\n.endr\ntarget: .byte 11\n.asciz \"go\"\n.rept 300000\n.byte 0\n.endr";
    let name = in_scopes(&scratch, tower);
    assert!(name.ends_with("::go") && name.len() < 2000, "{name}");
    // Types that are each other's declarations.
    let circle =
        "a: .byte 12\n.long b-unit\ntarget: .byte 11\n.asciz \"go\"\n.byte 0\nb: .byte 12\n.long a-unit\n.byte 0\n";
    assert_eq!(in_scopes(&scratch, circle), "{unnamed type}::go");
    // A type that is declared in itself.
    let inside = "a: .byte 12\n.long b-unit\ntarget: .byte 11\n.asciz \"go\"\nb: .byte 10\n.byte 0,0\n";
    let name = in_scopes(&scratch, inside);
    assert!(name.ends_with("{unnamed type}::go") && name.len() < 2000, "{name}");
    // Very many lambdas beside each other, of which the last one is asked for.
    let many = ".rept 100000\n.byte 10,11\n.asciz \"operator()\"\n.byte 0\n.endr\n\
        .byte 10\ntarget: .byte 11\n.asciz \"operator()\"\n.byte 0";
    assert_eq!(in_scopes(&scratch, many), "{unnamed type}::operator()");
    // Nothing ends.
    assert_eq!(in_scopes(&scratch, ".byte 7\ntarget: .byte 11\n.asciz \"go\""), "(anonymous namespace)::go");
}
