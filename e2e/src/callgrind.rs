//! Instructions, counted by valgrind's callgrind: they do not depend on how busy the machine is.
//!
//! A program calls a function `segment` when another segment begins, and callgrind counts from there to there.

use std::collections::HashMap;
use std::path::Path;

/// What was counted from one mark to the next, or to the end.
#[derive(Debug, Default)]
pub struct Segment {
    /// All of them.
    pub instructions: u64,
    /// By the function that they are of.
    pub by_function: HashMap<String, u64>,
}

/// What valgrind is started with, in front of the program, to count into a file.
pub fn options(counts: &Path) -> Vec<String> {
    let mut options = ["--tool=callgrind", "--combine-dumps=yes", "--dump-before=segment"].map(str::to_owned).to_vec();
    options.push(format!("--callgrind-out-file={}", counts.display()));
    options
}

/// The segments in what callgrind has written: the format is that of its manual, "Callgrind Format Specification".
pub fn segments(text: &str) -> Vec<Segment> {
    let (mut all, mut names) = (Vec::new(), HashMap::new());
    let (mut segment, mut function, mut is_call) = (Segment::default(), String::new(), false);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn=")) {
            // `(number) name` the first time, then `(number)`.
            let (number, name) = name.split_once(' ').unwrap_or((name, ""));
            let name = names.entry(number.to_owned()).or_insert_with(|| name.to_owned());
            if line.starts_with('f') {
                function.clone_from(name);
            }
        } else if line.starts_with("calls=") {
            is_call = true; // the next line has what was called, which is counted where it was spent
        } else if let Some(total) = line.strip_prefix("totals: ") {
            segment.instructions = total.trim().parse().unwrap_or(0);
            all.push(std::mem::take(&mut segment));
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let spent = line.split(' ').nth(1).and_then(|spent| spent.parse::<u64>().ok());
            if let Some(spent) = spent.filter(|_| !is_call) {
                *segment.by_function.entry(function.clone()).or_default() += spent;
            }
            is_call = false;
        }
    }
    all
}
