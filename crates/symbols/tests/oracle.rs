//! The same questions to binutils: functions, files and lines must agree.

mod support;

use std::collections::HashMap;
use std::io::Write;
use std::process::{Command, Stdio};

use heapledger_symbols::Frame;
use support::*;

/// Frames as `addr2line` prints them: function, file without directory, line.
type Place = (String, String, u32);

fn base(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

fn binutils(scratch: &Scratch, file: &str, flags: &[&str], addresses: &[u64]) -> Vec<Vec<Place>> {
    let mut child = Command::new("addr2line")
        .args(["-a", "-f", "-i", "-e", file])
        .args(flags)
        .current_dir(&scratch.0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("addr2line");
    let mut input = child.stdin.take().expect("its input");
    let questions: String = addresses.iter().map(|at| format!("{at:#x}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(questions.as_bytes()));
    let output = child.wait_with_output().expect("its output");
    writer.join().expect("the writer").expect("written");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let mut answers: Vec<Vec<Place>> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            answers.push(Vec::new());
            continue;
        }
        let place = lines.next().expect("a place after a function");
        let place = place.split(" (discriminator").next().expect("a place");
        let (file, number) = place.rsplit_once(':').expect("file and line");
        let frame = (line.to_owned(), base(file), number.parse().unwrap_or(0));
        answers.last_mut().expect("an address first").push(frame);
    }
    answers
}

/// Instructions inside of functions, and all names of each function. Padding between
/// functions is left out: binutils gives it to the function before.
fn inside(scratch: &Scratch, file: &str) -> (Vec<u64>, HashMap<String, u64>) {
    let mut functions = Vec::new();
    let mut names = HashMap::new();
    for line in scratch.run("nm", &["-S", "--defined-only", file]).lines() {
        let parts: Vec<&str> = line.split_whitespace().collect();
        let [start, size, "t" | "T" | "W" | "w", name] = parts[..] else { continue };
        let number = |text| u64::from_str_radix(text, 16).expect("hexadecimal");
        functions.push(number(start)..number(start) + number(size));
        names.insert(name.to_owned(), number(start));
    }
    let text = scratch.run("objdump", &["-d", "--no-show-raw-insn", file]);
    let addresses = text.lines().filter_map(|line| u64::from_str_radix(line.trim().split_once(":\t")?.0, 16).ok());
    (addresses.filter(|at| functions.iter().any(|function| function.contains(at))).collect(), names)
}

/// Differences that are known and wanted.
fn is_explained(theirs: &str, ours: &Frame, names: &HashMap<String, u64>) -> bool {
    let raw = ours.raw_name.as_deref().unwrap_or("??");
    // Without a linkage name in the debug information binutils shows the bare name, we the
    // full one of the symbol table: `count` is `_ZL5countRK…`.
    // (Template arguments are spelled in yet another way there.)
    let bare = theirs.split('<').next().unwrap_or(theirs);
    let is_fuller = raw.starts_with("_Z") && !theirs.starts_with("_Z") && raw.contains(bare);
    // Two names of one function, such as the two kinds of destructor.
    let is_alias = names.contains_key(raw) && names.get(raw) == names.get(theirs);
    // `foo.cold` is what the symbol table calls the second piece of `foo`.
    let is_piece = theirs.strip_prefix(raw).is_some_and(|rest| rest.starts_with('.'))
        || raw.strip_prefix(theirs).is_some_and(|rest| rest.starts_with('.'));
    // Nor has it the names around a function whose debug information has no linkage name: `~Hidden` is
    // `outer::(anonymous namespace)::Hidden::~Hidden`.
    let is_scoped = raw.strip_suffix(theirs).is_some_and(|scope| scope.ends_with("::"));
    is_fuller || is_alias || is_piece || is_scoped
}

fn compare(source: &str, compiler: &str, flags: &[&str]) {
    let scratch = Scratch::new();
    let mut arguments = flags.to_vec();
    arguments.extend([source, "-o", "prog"]);
    scratch.run(compiler, &arguments);
    let (addresses, names) = inside(&scratch, "prog");
    assert!(addresses.len() > 300, "{} addresses", addresses.len());
    let (ours, _) = resolve(&scratch.options(), &scratch.path("prog"), &[], &addresses);
    let theirs = binutils(&scratch, "prog", &[], &addresses);
    assert_eq!(ours.len(), theirs.len());
    let text = std::fs::read_to_string(source).expect("the source");
    let source_lines = text.lines().count();
    let mut compared = 0;
    for ((address, ours), theirs) in addresses.iter().zip(&ours).zip(&theirs) {
        // The C runtime's start files have no lines; binutils guesses their file.
        if theirs.iter().all(|(_, _, line)| *line == 0) && ours.frames.iter().all(|frame| frame.line.is_none()) {
            continue;
        }
        let context = || format!("{flags:?} {address:#x}: ours {:?}, theirs {theirs:?}", shown(ours));
        assert_eq!(ours.frames.len(), theirs.len(), "{}", context());
        let outermost = ours.frames.last().and_then(|frame| frame.raw_name.as_deref());
        for (ours, (function, file, line)) in ours.frames.iter().zip(theirs) {
            // For an inlined function without linkage name binutils shows the symbol at the
            // address, which is the name of the function it was inlined into.
            let is_symbol = ours.inlined && outermost == Some(function);
            let is_same = ours.raw_name.as_deref() == Some(function) || is_symbol;
            assert!(is_same || is_explained(function, ours, &names), "{}", context());
            assert_eq!(ours.line.unwrap_or(0), *line, "{}", context());
            // Seen with binutils 2.40 at -O0: the unit's own file, with a line of another
            // file that lies behind the end of this one. It cannot be right.
            let is_impossible = *file == base(source) && *line as usize > source_lines;
            let ours_file = base(ours.file.as_deref().unwrap_or("??"));
            assert!(ours_file == *file || is_impossible, "{}", context());
        }
        compared += 1;
    }
    assert!(compared > 300, "{compared} compared");
    eprintln!("{flags:?}: {compared} addresses agree");
}

#[test]
fn cpp_agrees_with_binutils() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixture.cpp");
    for flags in [
        &["-std=c++17", "-g", "-O2"][..],
        &["-std=c++17", "-g", "-O0"],
        &["-std=c++17", "-g", "-O3", "-gdwarf-4"],
        &["-std=c++17", "-g", "-Os", "-no-pie", "-ffunction-sections", "-Wl,--gc-sections"],
    ] {
        compare(source, "g++", flags);
    }
}

#[test]
fn cpp_names_are_readable() {
    let scratch = Scratch::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixture.cpp");
    scratch.run("g++", &["-std=c++17", "-g", "-O2", source, "-o", "prog"]);
    let (addresses, _) = inside(&scratch, "prog");
    let (ours, _) = resolve(&scratch.options(), &scratch.path("prog"), &[], &addresses);
    let seen = |name: &str| ours.iter().any(|resolved| resolved.frames.iter().any(|frame| function(frame) == name));
    assert!(seen("outer::(anonymous namespace)::anonymous(outer::(anonymous namespace)::Hidden const&)"));
    assert!(seen("outer::Square::area() const"));
    assert!(seen("plain_c"));
    assert!(seen("main"));
}

#[test]
fn rust_names_and_inline_frames() {
    let scratch = Scratch::new();
    scratch.write(
        "prog.rs",
        "mod deep { #[inline(never)] pub fn boxed<T: Clone>(t: &T) -> Box<T> { Box::new(t.clone()) } }\n\
         fn main() { let n = std::env::args().count(); println!(\"{}\", deep::boxed(&n)); }\n",
    );
    for mangling in ["legacy", "v0"] {
        let option = format!("-Csymbol-mangling-version={mangling}");
        let done = Command::new("rustc")
            .args(["-g", "-O", &option, "prog.rs", "-o", "prog"])
            .current_dir(&scratch.0)
            .status()
            .expect("rustc");
        if !done.success() {
            // Older compilers want a nightly for one of the two.
            eprintln!("this rustc does not know {mangling}");
            continue;
        }
        let (addresses, _) = inside(&scratch, "prog");
        let (ours, _) = resolve(&scratch.options(), &scratch.path("prog"), &[], &addresses);
        let frames: Vec<&Frame> = ours.iter().flat_map(|resolved| resolved.frames.iter()).collect();
        let wanted = if mangling == "legacy" { "prog::deep::boxed" } else { "prog::deep::boxed::<usize>" };
        let ours = frames.iter().find(|frame| function(frame) == wanted).expect("our function");
        assert_eq!(base(ours.file.as_deref().expect("a file")), "prog.rs");
        assert_eq!(ours.line, Some(1));
        assert!(frames.iter().any(|frame| frame.inlined && function(frame).contains("alloc")));
    }
}

#[test]
fn answers_do_not_depend_on_threads_or_batches() {
    let scratch = Scratch::new();
    let mut objects = Vec::new();
    for number in 0..12 {
        let name = format!("f{number}.c");
        let text =
            INLINED_C.replace("outer", &format!("outer{number}")).replace("int main", &format!("int main{number}"));
        scratch.write(&name, text.replace("volatile int sink", "static volatile int sink"));
        objects.push(name);
    }
    scratch.write("main.c", "int main(void) { return 0; }");
    let mut arguments = vec!["-O2", "-g", "main.c", "-o", "prog"];
    arguments.extend(objects.iter().map(String::as_str));
    scratch.run("gcc", &arguments);
    let (addresses, _) = inside(&scratch, "prog");
    let mut one = scratch.options();
    one.threads = std::num::NonZeroUsize::new(1);
    let mut many = scratch.options();
    many.threads = std::num::NonZeroUsize::new(8);
    let (alone, _) = resolve(&one, &scratch.path("prog"), &[], &addresses);
    let (together, _) = resolve(&many, &scratch.path("prog"), &[], &addresses);
    assert_eq!(alone, together);
    for (address, expected) in addresses.iter().zip(&alone).step_by(17) {
        let (single, _) = resolve(&one, &scratch.path("prog"), &[], &[*address]);
        assert_eq!(single[0], *expected);
    }
    let backwards: Vec<u64> = addresses.iter().rev().copied().collect();
    let (mut reversed, _) = resolve(&many, &scratch.path("prog"), &[], &backwards);
    reversed.reverse();
    assert_eq!(reversed, alone);
}
