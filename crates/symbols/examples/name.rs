//! Names addresses of a file, to try things out and to measure.
//!
//! `name [--symbols] [--threads N] FILE [ADDRESS…]`, addresses in hexadecimal, or one per
//! line on standard input. The time goes to standard error.

use std::io::BufRead;
use std::path::PathBuf;
use std::time::Instant;

use heapledger_symbols::{Level, ModuleId, Options, Symbolizer};

fn main() {
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1);
    let mut file = None;
    let mut addresses = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--symbols" => options.level = Level::SymbolsOnly,
            "--threads" => options.threads = arguments.next().and_then(|n| n.parse().ok()),
            _ if file.is_none() => file = Some(PathBuf::from(argument)),
            _ => addresses.extend(parse(&argument)),
        }
    }
    let Some(file) = file else {
        eprintln!("usage: name [--symbols] [--threads N] FILE [ADDRESS...]");
        return;
    };
    if addresses.is_empty() {
        addresses.extend(std::io::stdin().lock().lines().map_while(Result::ok).filter_map(|line| parse(&line)));
    }
    let start = Instant::now();
    let mut symbolizer = Symbolizer::new(options);
    let module = ModuleId { path: &file, build_id: &[] };
    let resolved = symbolizer.resolve(&module, &addresses, &mut |_, _| {}, None);
    let first = start.elapsed();
    let again = Instant::now();
    let _ = symbolizer.resolve(&module, &addresses, &mut |_, _| {}, None);
    let again = again.elapsed();
    for (address, resolved) in addresses.iter().zip(&resolved) {
        println!("{address:#x}");
        for frame in resolved.frames.iter() {
            println!(
                "  {} at {}:{}{}",
                frame.function.as_deref().unwrap_or("??"),
                frame.file.as_deref().unwrap_or("??"),
                frame.line.unwrap_or(0),
                if frame.inlined { " (inlined)" } else { "" },
            );
        }
    }
    let status = symbolizer.status(&module);
    eprintln!("{:?}", status.seen);
    for note in &status.notes {
        eprintln!("{note}");
    }
    let named = resolved.iter().filter(|resolved| !resolved.frames.is_empty()).count();
    let frames: usize = resolved.iter().map(|resolved| resolved.frames.len()).sum();
    eprintln!("{named} of {} addresses named, {frames} frames, {first:?}; again {again:?}", addresses.len());
}

fn parse(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}
