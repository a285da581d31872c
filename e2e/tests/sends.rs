//! Firmware whose ledger is sent as it is entered (`e2e/firmware/sends.rs`), run by QEMU: what comes over its serial line, what a debugger finds in
//! its ring, and its own memory, which gdb saves, are one ledger, record for record; so is what comes from the middle on, once
//! the host has asked for all that lives.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use heapledger_e2e::chip::{MACHINES, Machine, RAM_BYTES};
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
    let word_at = |at: usize| Some(u32::from_le_bytes(*ram.get(at..)?.first_chunk::<4>()?) as usize);
    let rings = ram.windows(ID.len()).enumerate().filter(|(_, bytes)| *bytes == ID);
    // The other one is small.
    let mut large = rings.filter(|(at, _)| word_at(at + 8 * 4).is_some_and(|bytes| bytes > 4096));
    let (at, _) = large.next().ok_or("there is no ring in the firmware's memory")?;
    let word = |index: usize| word_at(at + index * 4);
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

/// The end of whatever still runs when a test does.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A firmware that waits for a debugger at a port, and has its second line at another one.
fn halted(chip: &Machine, firmware: &Path, debugger: u16, second: &str) -> Result<Ends> {
    let mut qemu = command("timeout");
    let words = chip.qemu().join(" ").replace("-serial none", "");
    qemu.arg("100").args(words.split_whitespace()).args(["-no-reboot", "-S", "-gdb"]);
    qemu.args([format!("tcp:127.0.0.1:{debugger}"), "-serial".into(), "null".into(), "-serial".into()]);
    qemu.args([&format!("tcp:127.0.0.1:{second}"), "-serial", "null", "-kernel"]).arg(firmware);
    let qemu = qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(Ends(qemu.spawn().map_err(text)?))
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
    let mut running = halted(chip, &firmware, debugger, &format!("{second},server=on,wait=on"))?;
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
    let ended = running.0.wait().map_err(text)?;
    asker.join().map_err(|_| "the asker has ended")?.map_err(text)?;
    let said = format!("{ended:?}: {} {}", saved.out(), saved.err());
    check!(ram.exists() && window.exists(), "{said}");
    check!(saved.out().contains("receiving from") && saved.out().contains("live blocks"), "{said}");
    check!(records("dump", &window, &[])? == records("dump", &ram, &[])?, "{said}");
    Ok(())
}

/// A debugger empties a ring that is far too small for all of it, while the firmware runs, into a pipe; `heapledger receive` makes a ledger of that, which
/// another command reads meanwhile: only when it does, the firmware is let go on from the middle.
#[test]
fn a_ring_that_is_emptied_while_the_firmware_runs_gives_the_same_ledger() -> Result {
    let [chip, _] = &MACHINES;
    let Some(firmware) = chip.firmware("sends", &["gdb-multiarch", "mkfifo"]) else { return Ok(()) };
    let scratch = Scratch::new();
    let [live, ram, pipe, script] = ["live.hl", "ram.bin", "ring", "ring.gdb"].map(|name| scratch.path(name));
    let [second, debugger] = [free_port()?, free_port()?];
    process::run(command("mkfifo").arg(&pipe))?.good()?;
    let mut receive = command(heapledger());
    receive.arg("receive").arg(&pipe).arg("-o").arg(&live).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut receiving = Ends(receive.spawn().map_err(text)?);
    let mut running = halted(chip, &firmware, debugger, &format!("{second},server=on,wait=off"))?;
    let (from, to) = (chip.ram, chip.ram + RAM_BYTES);
    let empties = root().join("gdb/heapledger-rtt.gdb");
    let commands = format!(
        "set pagination off\nset confirm off\nset tcp connect-timeout 60\ntarget remote 127.0.0.1:{debugger}\nsource {}\nheapledger-rtt {}\nhbreak finished\ncontinue\nheapledger-rtt-end\ndump binary memory {} {from:#x} {to:#x}\ndetach\n",
        empties.display(),
        pipe.display(),
        ram.display()
    );
    fs::write(&script, commands).map_err(text)?;
    let mut gdb = command("timeout");
    gdb.args(["100", "gdb-multiarch", "-q", "-nx", "-batch", "-x"]).arg(&script).arg(&firmware);
    let gdb = thread::spawn(move || process::run(&mut gdb));
    // As soon as some of it is there to be read.
    let begun = Instant::now();
    let seen = loop {
        let seen = if live.exists() { records("history", &live, &[]).map_or(0, |all| all.len()) } else { 0 };
        if seen > 40 || begun.elapsed() > Duration::from_secs(60) {
            break seen;
        }
        thread::sleep(Duration::from_millis(100));
    };
    let mut asks = TcpStream::connect(("127.0.0.1", second)).map_err(text)?;
    asks.write_all(b"~h?\n").map_err(text)?;
    // What is told there is taken away, so that it goes on.
    let _ = std::io::copy(&mut asks, &mut std::io::sink());
    let saved = gdb.join().map_err(|_| "gdb has ended")??;
    let said = format!("{} {}", saved.out(), saved.err());
    // Else nobody has opened the pipe, and whoever reads it waits.
    check!(said.contains("bytes of the ring are in"), "the ring was not emptied: {said}");
    let ended = running.0.wait().map_err(text)?;
    let received = receiving.0.wait().map_err(text)?;
    check!(ended.success() && received.success() && ram.exists(), "{ended:?}, {received:?}: {said}");
    check!(seen > 40, "nothing could be read meanwhile: {said}");
    let taken = said.split(" bytes of the ring are in").next().and_then(|rest| rest.rsplit(['\n', ' ']).next());
    let taken: u64 = taken.and_then(|number| number.parse().ok()).ok_or_else(|| said.clone())?;
    check!(taken > 2 * 1024, "the ring has not gone round: {said}");
    let (blocks, freed) = (records("dump", &ram, &[])?, records("history", &ram, &[])?);
    check!(blocks.len() > 5 && freed.len() > 80, "{} blocks live, {} were freed", blocks.len(), freed.len());
    check!(records("dump", &live, &[])? == blocks && records("history", &live, &[])? == freed, "{said}");
    let stats = process::run(command(heapledger()).arg("stats").arg(&live))?.good()?.out();
    let gaps = ["dropped", "lost", "not received", "damaged"];
    check!(!gaps.iter().any(|gap| stats.contains(gap)), "{stats}");
    Ok(())
}
