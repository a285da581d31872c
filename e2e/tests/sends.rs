//! Firmware whose ledger is sent as it is entered (`e2e/firmware/sends.rs`), run by QEMU: what comes over its serial line, what a debugger finds in
//! its ring, and its own memory, which gdb saves, are one ledger, record for record; so is what comes from the middle on, once
//! the host has asked for all that lives.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use heapledger_e2e::chip::{MACHINES, RAM_BYTES};
use heapledger_e2e::ledger::read;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger, root};
use heapledger_e2e::{Result, check, process};
use serde_json::Value;

fn text(error: impl ToString) -> String {
    error.to_string()
}

fn free_port() -> Result<u16> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(text)
}

/// Receives from a port, as soon as somebody listens there, until nothing more comes.
fn receiving(port: u16, ledger: PathBuf, ask: bool) -> thread::JoinHandle<Result> {
    thread::spawn(move || {
        let begun = Instant::now();
        loop {
            let mut receive = command(heapledger());
            receive.args(["receive", &format!("tcp://127.0.0.1:{port}"), "-o"]).arg(&ledger);
            let received = receive.args(ask.then_some("--ask")).output().map_err(text)?;
            if received.status.success() {
                return Ok(());
            }
            check!(begun.elapsed() < Duration::from_secs(60), "nothing was received: {received:?}");
            thread::sleep(Duration::from_millis(100));
        }
    })
}

/// What a ledger says of blocks, a line for each, in order: all but numbers, which each ledger gives out by itself.
fn records(what: &str, ledger: &Path, more: &[&str]) -> Result<Vec<String>> {
    let lines = read(what, ledger, &[&["--limit", "0"], more].concat())?;
    let frames = |stack: &Value| -> Vec<String> {
        let frames = stack.as_array().map(Vec::as_slice).unwrap_or_default();
        frames.iter().map(|frame| frame["address"].as_str().unwrap_or("?").to_owned()).collect()
    };
    let of = |part: &Value| {
        let (thread, by) = (part["thread"]["name"].as_str().unwrap_or_default(), &part["function"]);
        format!(
            "{} {} by {by} at {} in {thread:?} from {:?}",
            part["address"],
            part["size"],
            part["time_ns"],
            frames(&part["frames"])
        )
    };
    let events = lines.iter().filter(|line| line["type"] == "block" || line["type"] == "event");
    let mut all: Vec<String> = events.map(|line| format!("{}: {}", line["event"], of(line))).collect();
    all.sort();
    Ok(all)
}

/// The bytes in the ring that a debugger finds in memory by the ring's first bytes.
fn ring(ram: &[u8], ram_at: u64) -> Result<Vec<u8>> {
    const ID: &[u8] = b"SEGGER RTT\0\0\0\0\0\0";
    let at = ram.windows(ID.len()).position(|bytes| bytes == ID).ok_or("there is no ring in the firmware's memory")?;
    let word = |index: usize| {
        let bytes = ram.get(at + index * 4..)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*bytes) as usize)
    };
    let words = (word(4), word(7), word(9), word(10));
    let (Some(1), Some(buffer), Some(written), Some(0)) = words else {
        return Err(format!("the ring is another one: {words:?}"));
    };
    let begin = buffer - ram_at as usize;
    Ok(ram.get(begin..begin + written).ok_or("the ring is not in memory")?.to_vec())
}

#[test]
fn its_ledger_by_wire_by_ring_and_by_gdb_is_one() -> Result {
    let [chip, _] = &MACHINES;
    let Some(firmware) = chip.firmware("sends", &["gdb-multiarch"]) else { return Ok(()) };
    let scratch = Scratch::new();
    let [whole, late, lines, ram] = ["whole.hl", "late.hl", "lines.log", "ram.bin"].map(|name| scratch.path(name));
    let [first, second, debugger] = [free_port()?, free_port()?, free_port()?];
    // It may have to be built, which takes longer than the chip waits.
    heapledger();
    let mut qemu = command("timeout");
    // Without the words that say that there is no serial line.
    let words = chip.qemu().join(" ").replace("-serial none", "");
    qemu.arg("100").args(words.split_whitespace()).args([
        "-no-reboot",
        "-S",
        "-gdb",
        &format!("tcp:127.0.0.1:{debugger}"),
    ]);
    for port in [first, second] {
        qemu.args(["-serial", &format!("tcp:127.0.0.1:{port},server=on,wait=on")]);
    }
    qemu.args(["-serial", &format!("file:{}", lines.display()), "-kernel"]).arg(&firmware);
    let mut running = qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(text)?;
    let receivers = [receiving(first, whole.clone(), false), receiving(second, late.clone(), true)];
    let script = scratch.path("save.gdb");
    let (from, to) = (chip.ram, chip.ram + RAM_BYTES);
    let commands = format!(
        "set pagination off\nset confirm off\nset tcp connect-timeout 60\ntarget remote 127.0.0.1:{debugger}\nhbreak finished\ncontinue\ndump binary memory {} {from:#x} {to:#x}\ndetach\n",
        ram.display()
    );
    fs::write(&script, commands).map_err(text)?;
    let mut gdb = command("timeout");
    let saved =
        process::run(gdb.args(["100", "gdb-multiarch", "-q", "-nx", "-batch", "-x"]).arg(&script).arg(&firmware))?;
    check!(ram.exists(), "gdb has saved nothing: {} {}", saved.out(), saved.err());
    let ended = running.wait().map_err(text)?;
    for receiver in receivers {
        receiver.join().map_err(|_| "a receiver has ended")??;
    }
    check!(ended.success(), "{ended:?}");

    let (blocks, freed) = (records("dump", &ram, &[])?, records("history", &ram, &[])?);
    check!(blocks.len() > 5 && freed.len() > 80, "{} blocks live, {} were freed", blocks.len(), freed.len());
    check!(blocks.iter().any(|block| block.contains("\"radio\" from [\"0x")), "tasks and stacks are there: {blocks:?}");
    let by_ring = scratch.path("ring.bin");
    fs::write(&by_ring, ring(&fs::read(&ram).map_err(text)?, chip.ram)?).map_err(text)?;
    for (ledger, more) in [(&whole, &[][..]), (&by_ring, &["--from", "events"])] {
        let (live, gone) = (records("dump", ledger, more)?, records("history", ledger, more)?);
        check!(live == blocks, "{}: {live:#?}\n{blocks:#?}", ledger.display());
        check!(gone == freed, "{}: {} freed, and {}", ledger.display(), gone.len(), freed.len());
    }
    // Of what was before, only what lives.
    check!(records("dump", &late, &[])? == blocks, "{:#?}\n{blocks:#?}", records("dump", &late, &[])?);
    let later = records("history", &late, &[])?;
    check!(!later.is_empty() && later.len() < freed.len(), "{} of {} frees", later.len(), freed.len());
    check!(later.iter().all(|end| freed.contains(end)), "{later:#?}");
    let stats = process::run(command(heapledger()).arg("stats").arg(&late))?.good()?.out();
    check!(!stats.contains("The beginning was not received"), "{stats}");
    // And as lines of libwebsockets, oldest first.
    let printed = |words: &[&str]| -> Result<String> {
        Ok(process::run(command(heapledger()).args(words).arg(&ram))?.good()?.out())
    };
    let lines = fs::read_to_string(&lines).map_err(text)?;
    check!(lines == printed(&["encode", "--ledger"])? && lines.lines().count() == blocks.len(), "{lines}");
    Ok(())
}

/// gdb starts a host's receiving where a window of the firmware starts, and ends it where that stops.
#[test]
fn gdb_starts_and_stops_receiving_with_a_window() -> Result {
    let [chip, _] = &MACHINES;
    let Some(firmware) = chip.firmware("sends", &["gdb-multiarch"]) else { return Ok(()) };
    let scratch = Scratch::new();
    let [window, ram, started] = ["window.hl", "ram.bin", "started"].map(|name| scratch.path(name));
    let [second, debugger] = [free_port()?, free_port()?];
    let directory = heapledger().parent().ok_or("the command lies nowhere")?.to_owned();
    let mut qemu = command("timeout");
    let words = chip.qemu().join(" ").replace("-serial none", "");
    qemu.arg("100").args(words.split_whitespace()).args([
        "-no-reboot",
        "-S",
        "-gdb",
        &format!("tcp:127.0.0.1:{debugger}"),
    ]);
    qemu.args(["-serial", "null", "-serial", &format!("tcp:127.0.0.1:{second},server=on,wait=on"), "-serial", "null"]);
    let qemu = qemu.arg("-kernel").arg(&firmware).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = qemu.spawn().map_err(text)?;
    // Somebody asks for all that lives, and is gone when the window has started: the line is one host's at a time.
    let begun = Instant::now();
    let mut asks = loop {
        match TcpStream::connect(("127.0.0.1", second)) {
            Ok(stream) => break stream,
            Err(_) if begun.elapsed() < Duration::from_secs(60) => thread::sleep(Duration::from_millis(50)),
            Err(error) => return Err(text(error)),
        }
    };
    let script = scratch.path("window.gdb");
    let (from, to) = (chip.ram, chip.ram + RAM_BYTES);
    let receive = root().join("gdb/heapledger-receive.gdb");
    let commands = format!(
        "set pagination off\nset confirm off\nset tcp connect-timeout 60\ntarget remote 127.0.0.1:{debugger}\nsource {}\nheapledger-receive tcp://127.0.0.1:{second} {}\ntbreak heapledger_window_starts\ncontinue\nshell touch {here}; while [ -e {here} ]; do sleep 0.05; done; sleep 0.5\nhbreak finished\ncontinue\ndump binary memory {} {from:#x} {to:#x}\ndetach\n",
        receive.display(),
        window.display(),
        ram.display(),
        here = started.display()
    );
    fs::write(&script, commands).map_err(text)?;
    asks.write_all(b"~h?\n").map_err(text)?;
    let is_started = started.clone();
    let asker = thread::spawn(move || {
        let begun = Instant::now();
        while !is_started.exists() && begun.elapsed() < Duration::from_secs(100) {
            thread::sleep(Duration::from_millis(20));
        }
        drop(asks);
        // Whoever waits for that goes on.
        fs::remove_file(is_started)
    });
    let mut gdb = command("timeout");
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap_or_default());
    gdb.args(["100", "gdb-multiarch", "-q", "-nx", "-batch", "-x"]).arg(&script).arg(&firmware).env("PATH", path);
    let saved = process::run(&mut gdb)?;
    let ended = running.wait().map_err(text)?;
    asker.join().map_err(|_| "the asker has ended")?.map_err(text)?;
    let said = format!("{ended:?}: {} {}", saved.out(), saved.err());
    check!(ram.exists() && window.exists(), "{said}");
    check!(saved.out().contains("receiving from") && saved.out().contains("live blocks"), "{said}");
    check!(records("dump", &window, &[])? == records("dump", &ram, &[])?, "{said}");
    Ok(())
}
