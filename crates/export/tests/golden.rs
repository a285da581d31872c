//! Every format, byte for byte as its own reader has read it: `cargo xtask viewers` has the readers look at the files in
//! `tests/golden`, and writes them.

use std::fs;
use std::path::{Path, PathBuf};

use heapledger_analysis::tree::{Amounts, Measure, Side};
use heapledger_export::{
    CodePlace, Comparison, ExportFormat, FORMATS, KnownFigures, LoadedModule, PlaceLine, Profile, ProfileAbout,
    ProfileFunction, StackBlocks, TextId, TimePoint,
};

/// Where to write the files instead of comparing them.
const INTO: &str = "HEAPLEDGER_GOLDEN_INTO";

/// Names that mean something in some format, or nothing in any.
fn names() -> Vec<String> {
    let letters = [
        "main",
        "a;b",
        "f#1::{closure#0}",
        "say \"hi\" \\ 'x'",
        "<T as U>::f&<b>%s",
        "caf\u{fffd}_not_utf8",
        "new\nline\ttab",
        "ends in 12",
        "(1) in brackets",
        "日本語_🦀",
        "\u{202e}turned",
        "operator new(unsigned long)",
        "",
    ];
    letters.into_iter().map(str::to_owned).chain([format!("long{}end", "x".repeat(10_000))]).collect()
}

fn amounts(live: [u64; 2], freed: [u64; 2], peak: [u64; 2], temporary: [u64; 2]) -> Amounts {
    Amounts {
        live_bytes: live[0],
        live_blocks: live[1],
        freed_bytes: freed[0],
        freed_blocks: freed[1],
        peak_bytes: peak[0],
        peak_blocks: peak[1],
        temporary_bytes: temporary[0],
        temporary_blocks: temporary[1],
        lived_events: 7 * live[1] + 1_000 * freed[1],
    }
}

fn about() -> ProfileAbout {
    ProfileAbout {
        ledgers: vec!["heapledger.prog.4711.hl".to_owned()],
        program: Some("prog".to_owned()),
        exe: Some("/opt/my dir/prog".to_owned()),
        args: vec!["./prog".to_owned(), "--name=a b#c".to_owned(), "\"x\";\n".to_owned()],
        pid: Some(4711),
        host: Some("host".to_owned()),
        labels: vec![("team".to_owned(), "a;b#\"c\"".to_owned())],
        start_unix_ns: Some(1_790_000_000_000_000_000),
        span_ns: Some(2_500_000_000),
        peak_ns: Some(1_250_000_000),
        known: KnownFigures { freed: true, peak: true, temporary: true, lifetimes: true },
        events: 1_000_000,
        peak_events: 600_000,
        ..ProfileAbout::default()
    }
}

/// Stacks with such names, with a recursion, code that is inlined, code without a name, and blocks without a stack.
struct Made {
    profile: Profile,
    places: Vec<u32>,
}

fn made() -> Made {
    let mut profile = Profile::new(about());
    let path = profile.texts.id("/opt/my dir/prog");
    let build_id = profile.texts.id("0123456789abcdef0123456789abcdef01234567");
    let (low, high, bias) = (0x5555_5555_0000, 0x5555_5556_0000, 0x5555_5555_0000);
    profile.modules.push(LoadedModule { path, build_id, low, high, bias });
    let path = profile.texts.id("/usr/lib/lib\"odd\"#1;.so");
    let (low, high, bias) = (0x7f00_0000_0000, 0x7f00_0010_0000, 0x7f00_0000_0000);
    profile.modules.push(LoadedModule { path, low, high, bias, ..LoadedModule::default() });
    let mut places = Vec::new();
    for (name, index) in names().iter().zip(0u32..) {
        let name = profile.texts.id(name);
        let file = profile.texts.id(&format!("/src/dir {index}/file#{index}.c"));
        let raw_name = if index == 5 { profile.texts.id("_ZN4cafe") } else { TextId::default() };
        let function = profile.function(ProfileFunction { name, raw_name, file, module_plus_1: 1 });
        let lines = vec![PlaceLine { function, line: 10 + index }];
        let address = Some(0x5555_5555_1000 + u64::from(index) * 0x10);
        places.push(profile.place(CodePlace { address, module_plus_1: 1, lines, is_named: true }));
    }
    // The second was inlined into the first, and the third into that.
    let lines =
        [2usize, 1, 0].map(|at| PlaceLine { line: 90 + at as u32, ..profile.places[places[at] as usize].lines[0] });
    let inlined =
        CodePlace { address: Some(0x5555_5555_2000), module_plus_1: 1, lines: lines.to_vec(), is_named: true };
    places.push(profile.place(inlined));
    // Nobody knows what this is called.
    let name = profile.texts.id("lib\"odd\"#1;.so+0x42");
    let function = profile.function(ProfileFunction { name, module_plus_1: 2, ..ProfileFunction::default() });
    let lines = vec![PlaceLine { function, line: 0 }];
    let unnamed = CodePlace { address: Some(0x7f00_0000_0041), module_plus_1: 2, lines, is_named: false };
    places.push(profile.place(unnamed));
    let name = profile.texts.id("code without a stack");
    let function = profile.function(ProfileFunction { name, ..ProfileFunction::default() });
    let lines = vec![PlaceLine { function, line: 0 }];
    places.push(profile.place(CodePlace { lines, ..CodePlace::default() }));
    Made { profile, places }
}

impl Made {
    /// The node of places, outermost first.
    fn node(&mut self, path: &[usize]) -> u32 {
        path.iter().fold(0, |node, at| self.profile.node(node, self.places[*at]))
    }
}

fn profile() -> Profile {
    let mut made = made();
    let last = names().len();
    let (inlined, unnamed, none) = (last, last + 1, last + 2);
    let mut sizes = Vec::new();
    // Each name by itself below `main`, with figures that are all different.
    for at in 1..last {
        let node = made.node(&[0, at]);
        let number = at as u64;
        let own = amounts([100 * number + 1, 2], [10 * number, number], [1_000 * number, number], [number, 1]);
        made.profile.add(node, TextId::default(), Side::New, own);
        sizes.push(StackBlocks { node, size: 100 * number, blocks: 1 });
        sizes.push(StackBlocks { node, size: 1, blocks: 1 });
    }
    let big = amounts([40_000, 4], [0, 0], [40_000, 4], [0, 0]);
    for (path, own) in [
        // A recursion, through inlined code.
        (vec![0, 1, inlined, 1, 2, 1], big),
        (vec![0, unnamed], amounts([0, 1], [64, 2], [0, 0], [64, 2])),
        (vec![none], amounts([7, 1], [0, 0], [7, 1], [0, 0])),
        // Nothing lives of it.
        (vec![0, 2, 3], amounts([0, 0], [9_999, 3], [3_333, 1], [0, 0])),
    ] {
        let node = made.node(&path);
        made.profile.add(node, TextId::default(), Side::New, own);
        if let Some(size) = own.live_bytes.checked_div(own.live_blocks) {
            sizes.push(StackBlocks { node, size, blocks: own.live_blocks });
        }
    }
    let total = made.profile.total(Side::New);
    let point = |ns, live_bytes, own_memory_bytes| TimePoint { ns, live_bytes, own_memory_bytes };
    made.profile.points = vec![
        point(0, 0, None),
        point(10_000_000, 4096, Some(65_536)),
        point(1_250_000_000, total.peak_bytes, None),
        point(1_260_000_000, 12_345, Some(1 << 20)),
        point(2_500_000_000, total.live_bytes, None),
    ];
    made.profile.sizes = Some(sizes);
    made.profile
}

/// The same with an older ledger: some stacks have grown, some shrunk, one is gone.
fn comparison() -> Profile {
    let mut profile = profile();
    profile.about.ledgers.push("monday.hl".to_owned());
    let stacks = profile.stacks.clone();
    for (stack, index) in stacks.iter().zip(0u64..) {
        let old = match index % 3 {
            0 => stack.own[0],
            1 => amounts([1, 1], [0, 0], [1, 1], [0, 0]),
            _ => amounts([9_000, 9], [100, 1], [9_000, 9], [0, 0]),
        };
        profile.add(stack.node, stack.thread, Side::Old, old);
    }
    profile
}

/// Two threads with the same stack, and one without a name.
fn threads() -> Profile {
    let mut made = made();
    made.profile.about.by_thread = true;
    let node = made.node(&[0, 1]);
    for (name, bytes) in [("worker;1", 100), ("\"main\" #2", 20), ("", 3)] {
        let thread = made.profile.texts.id(name);
        made.profile.add(node, thread, Side::New, amounts([bytes, 1], [bytes, 1], [0, 0], [0, 0]));
    }
    made.profile
}

/// Formats in which the peak is another file.
const OF_ONE_MOMENT: &[&str] = &["heaptrack", "dhat", "folded", "perfetto"];
/// Formats that know nothing of threads.
const WITHOUT_THREADS: &[&str] = &["heaptrack", "perfetto", "difffolded"];

/// What is written, by the name of a file.
fn files() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut put = |format: &ExportFormat, word: &str, profile: &Profile| {
        let mut bytes = Vec::new();
        format.write(profile, &mut bytes).expect("memory takes it");
        // Packing is not ours: the bytes may be others with another version of the packer.
        let ending = format.ending.trim_end_matches(".gz").trim_end_matches(".zst");
        files.push((format!("made{word}.{ending}"), bytes));
    };
    let (made, compared) = (profile(), comparison());
    let mut at_peak = made.clone();
    at_peak.about.measure = Measure::PeakBytes;
    let mut of_all = made.clone();
    of_all.about.measure = Measure::AllocatedBytes;
    for format in FORMATS {
        if format.comparison != Comparison::Always {
            put(format, "", &made);
        }
        if format.comparison != Comparison::Never {
            put(format, ".diff", &compared);
        }
        if OF_ONE_MOMENT.contains(&format.name) {
            put(format, ".peak", &at_peak);
        }
        if format.name == "dhat" {
            put(format, ".all", &of_all);
        }
        if !WITHOUT_THREADS.contains(&format.name) {
            put(format, ".threads", &threads());
        }
    }
    files
}

/// What readers are to find, for `cargo xtask viewers`: a line for each figure.
fn totals() -> String {
    let profile = profile();
    let lines = |word: &str, total: Amounts| -> String {
        Measure::ALL.iter().map(|measure| format!("{word}{measure:?} {}\n", total.get(*measure))).collect()
    };
    lines("", profile.total(Side::New))
        + &lines("Old", comparison().total(Side::Old))
        + &lines("Threads", threads().total(Side::New))
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

#[test]
fn files_are_those_that_their_readers_have_read() {
    if let Some(into) = std::env::var_os(INTO).map(PathBuf::from) {
        fs::create_dir_all(&into).expect("a directory");
        for (name, bytes) in files() {
            fs::write(into.join(name), bytes).expect("written");
        }
        fs::write(into.join("totals.txt"), totals()).expect("written");
        return;
    }
    let mut other = Vec::new();
    for (name, bytes) in files() {
        let path = golden().join(&name);
        let known = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if known != bytes {
            let at = known.iter().zip(&bytes).position(|(known, byte)| known != byte);
            other.push(format!(
                "{name}: {} bytes, and not {}; the first other one at {at:?}",
                bytes.len(),
                known.len()
            ));
        }
    }
    assert!(other.is_empty(), "{}\n`cargo xtask viewers --write` has the readers look at new ones", other.join("\n"));
}

#[test]
fn no_file_is_left_over() {
    let known: Vec<String> = files().into_iter().map(|(name, _)| name).chain(["totals.txt".to_owned()]).collect();
    let there = fs::read_dir(golden()).expect("a directory");
    let there = there.map(|item| item.expect("an item").file_name().to_string_lossy().into_owned());
    let over: Vec<String> = there.filter(|name| !known.contains(name)).collect();
    assert!(over.is_empty(), "files of formats that there are no more: {over:?}");
}
