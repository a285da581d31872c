//! Names that were found in haste are replaced by better ones.

use std::path::PathBuf;
use std::time::Instant;

use heapledger_analysis::source::Ledger;
use heapledger_analysis::source::testing::Builder;
use heapledger_analysis::symbols::{Options, SourceReader, Symbolizer};
use heapledger_analysis::{NamedFrame, Names, NamingOptions};

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
    let mut name = |deadline: Option<Instant>| -> NamedFrame {
        names.resolve([site], NamingOptions { source_text: false, deadline }, &mut |_| {}).expect("readable");
        let stack = names.stack(site).expect("readable");
        stack.frames.last().expect("a frame").clone()
    };
    let is_found = |frame: &NamedFrame| frame.function.as_deref().is_some_and(|name| name.contains("looked_for"));
    let hasty = name(Some(Instant::now()));
    assert!(is_found(&hasty) && hasty.line.is_none(), "{hasty:?}");
    let again = name(Some(Instant::now()));
    assert_eq!(again, hasty);
    let better = name(None);
    assert!(is_found(&better) && better.line.is_some(), "{better:?}");
    assert!(better.file.as_deref().is_some_and(|file| file.ends_with("naming.rs")), "{better:?}");
    // It is remembered: no haste takes it away.
    assert_eq!(name(Some(Instant::now())), better);
}
