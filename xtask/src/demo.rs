//! `cargo xtask demo`: from nothing to what is wrong with a program's memory, and to a report on a real one.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::packages;
use crate::step::{Ledgers, Result, cargo, root, run as run_command, target};

/// About how large the input is.
const INPUT_BYTES: u64 = 20 << 20;
/// A real question to it: what did each customer spend?
const QUESTION: &str =
    "group_by(.customer) | map({customer: .[0].customer, spent: (map(.total) | add)}) | max_by(.spent)";

/// A program of ours with a leak, a spike and a hot temporary.
const SHOP: &str = include_str!("../demo/shop.rs");

/// Builds, shows what is found in a program of ours in three commands, and then jq on an input of its size.
pub(crate) fn run() -> Result {
    packages::provide(packages::DEMO)?;
    println!("building heapledger …");
    run_command(&mut cargo(&["build", "--release", "--package", "heapledger-cli"]))?;
    let heapledger = target().join("release/heapledger");
    let place = target().join("demo");
    fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    story(&heapledger, &place)?;
    real(&heapledger, &place)
}

/// A path as it is shown.
fn short(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Runs a command of heapledger's, which is shown first.
fn show(heapledger: &Path, words: &[&str]) -> Result {
    println!("\n$ {} {}\n", short(heapledger), words.join(" "));
    let ledgers = Ledgers::new("demo")?;
    let mut command = Command::new(heapledger);
    command.args(words).current_dir(root()).stdin(Stdio::null());
    run_command(command.env("HEAPLEDGER", format!("dir={}", ledgers.path().display())))
}

/// A leak, a spike and a hot temporary: who is to blame, in three commands.
fn story(heapledger: &Path, place: &Path) -> Result {
    let (source, program, ledger) = (place.join("shop.rs"), place.join("shop"), place.join("shop.hl"));
    fs::write(&source, SHOP).map_err(|error| format!("{}: {error}", source.display()))?;
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut compile = Command::new(compiler);
    run_command(compile.args(["--edition", "2024", "-g", "-O", "-o"]).arg(&program).arg(&source).current_dir(root()))?;
    println!("\nA program that does three things wrong: {}", short(&source));
    let (program, ledger, page) = (short(&program), short(&ledger), short(&place.join("shop.html")));
    show(heapledger, &["run", "-o", &ledger, "--force", "--", &program])?;
    show(heapledger, &["tree", "--by", "calls", &ledger])?;
    let _ = fs::remove_file(root().join(&page)); // a page that is there is not written over
    show(heapledger, &["flame", "--at", "peak", "-o", &page, &ledger])
}

/// jq on 20 MiB of JSON, and how to go on.
fn real(heapledger: &Path, place: &Path) -> Result {
    let problem = |error: std::io::Error| format!("{}: {error}", place.display());
    let input = place.join("orders.json");
    if fs::metadata(&input).map_or(0, |meta| meta.len()) < INPUT_BYTES {
        write_orders(&input).map_err(problem)?;
    }
    let ledger = place.join("heapledger.jq.demo.hl");
    let (binary, ledger, input) = (short(heapledger), short(&ledger), short(&input));
    println!("\n$ {binary} run -o {ledger} --force -- jq -c '{QUESTION}' {input}\n");
    let mut command = Command::new(heapledger);
    command.args(["run", "-o", &ledger, "--force", "--", "jq", "-c", QUESTION, &input]).current_dir(root());
    let ledgers = Ledgers::new("demo")?;
    command.env("HEAPLEDGER", format!("dir={}", ledgers.path().display()));
    run_command(&mut command)?;
    show(heapledger, &["stats", &ledger])?;
    println!(
        "\nNow try:\n  \
         {binary} dump {ledger} | less\n  \
         {binary} history {ledger} | less\n  \
         {binary} run -- python3 -c 'import json; print(len(json.load(open(\"{input}\"))))'"
    );
    Ok(())
}

/// Orders as a shop would have them. Always the same ones.
fn write_orders(path: &Path) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut seed = 1_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let (mut written, mut order) = (0, 0);
    out.write_all(b"[")?;
    while written < INPUT_BYTES {
        let comma = if order == 0 { "\n" } else { ",\n" };
        let (customer, items) = (random(5000), 1 + random(4));
        let mut line = format!("{comma}{{\"order\":{order},\"customer\":\"customer {customer}\",\"items\":[");
        let mut total = 0;
        for item in 0..items {
            let (product, price) = (random(900), 100 + random(9900));
            total += price;
            let comma = if item == 0 { "" } else { "," };
            line += &format!(
                "{comma}{{\"product\":\"product number {product}\",\"price\":{}.{:02}}}",
                price / 100,
                price % 100
            );
        }
        line += &format!("],\"total\":{}.{:02},\"paid\":{}}}", total / 100, total % 100, random(10) > 0);
        out.write_all(line.as_bytes())?;
        written += line.len() as u64;
        order += 1;
    }
    out.write_all(b"\n]\n")?;
    out.flush()
}
