//! Logs that esp-idf-monitor has decorated: firmware for RISC-V, whose dump comes over a socket, and the monitor that names its
//! addresses. Raw, decorated, with time stamps, and as PlatformIO's monitor shows it, one dump is one ledger.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use heapledger_e2e::chip::MACHINES;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::{Result, check, process, skip};

const TOOLS: &str = "riscv64-unknown-elf-";
/// The monitor wants a terminal: this gives it one, and passes on what is typed and what is shown.
const IN_TERMINAL: &str = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) != 0)";
/// Nothing here takes this long unless it hangs.
const LIMIT: Duration = Duration::from_secs(60);
const END: &str = "================================";

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// Where functions of the firmware are called from: addresses within some that have lines.
fn callers(firmware: &Path) -> Result<Vec<u32>> {
    let mut nm = command(format!("{TOOLS}nm"));
    let symbols = process::run(nm.args(["-S", "--defined-only"]).arg(firmware))?.good()?.out();
    let mut callers: Vec<u32> = symbols
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [address, bytes, "t" | "T", _] = words[..] else { return None };
            let (address, bytes) = (u32::from_str_radix(address, 16).ok()?, u32::from_str_radix(bytes, 16).ok()?);
            (bytes > 40).then_some(address + 20)
        })
        .collect();
    callers.sort_unstable();
    check!(callers.len() >= 8, "the firmware has only {} functions", callers.len());
    Ok(callers)
}

/// What the device sends.
fn dump(callers: &[u32]) -> String {
    let at = |index: usize| callers[index % callers.len()];
    let mut log =
        String::from("I (252) heap_init: Initializing.\n====== Heap Trace: 12 records (99 capacity) ======\n");
    for block in 0..12 {
        log += &format!(
            "{:6} bytes (@ 0x{:08x}, Internal) allocated CPU 0 ccount 0x{:08x} caller 0x{:08x}:0x{:08x}\n",
            10 + block,
            0x3fc9_0000 + block * 64,
            block * 1000,
            at(block),
            at(block * 5 + 3)
        );
        if block % 3 == 0 {
            log += &format!("freed by 0x{:08x}:0x00000000\n", at(block + 2));
        }
    }
    let live: usize = (0..12).filter(|block| block % 3 != 0).map(|block| 10 + block).sum();
    log + &format!(
        "====== Heap Trace Summary ======\nMode: Heap Trace All\n{live} bytes alive in trace (8/12 allocations)\nrecords: 12 (99 capacity, 12 high water mark)\ntotal allocations: 12\ntotal frees: 4\n{END}\nI (300) main_task: Returned from app_main()\n"
    )
}

/// What the monitor shows of it.
fn monitored(log: &str, firmware: &Path, more: &[&str]) -> Result<Vec<u8>> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(text)?;
    let port = listener.local_addr().map_err(text)?.port();
    let bytes = log.replace('\n', "\r\n").into_bytes();
    let device = thread::spawn(move || -> std::io::Result<()> {
        let (mut line, _) = listener.accept()?;
        // As a line gives it, in pieces that end anywhere.
        for part in bytes.chunks(97) {
            line.write_all(part)?;
            thread::sleep(Duration::from_millis(2));
        }
        // Until the monitor ends.
        line.read(&mut [0; 16]).map(drop)
    });
    let mut monitor = command("python3");
    monitor.args(["-c", IN_TERMINAL, "python3", "-m", "esp_idf_monitor", "-p", &format!("socket://127.0.0.1:{port}")]);
    monitor.args(["--toolchain-prefix", TOOLS, "--target", "esp32c3", "--no-reset"]).args(more).arg(firmware);
    let mut running =
        monitor.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(text)?;
    let mut keys = running.stdin.take().ok_or("no stdin")?;
    let mut screen = running.stdout.take().ok_or("no stdout")?;
    let (sender, pieces) = channel();
    thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = screen.read(&mut piece) {
            if sender.send(piece[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    let (mut shown, begun, mut is_told) = (Vec::new(), Instant::now(), false);
    loop {
        match pieces.recv_timeout(Duration::from_millis(200)) {
            Ok(piece) => shown.extend_from_slice(&piece),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if begun.elapsed() > LIMIT {
            running.kill().map_err(text)?;
            return Err(format!("the monitor does not end: {}", String::from_utf8_lossy(&shown)));
        }
        if !is_told && String::from_utf8_lossy(&shown).contains("Returned from app_main") {
            // Ctrl-] ends it.
            keys.write_all(b"\x1d").map_err(text)?;
            is_told = true;
        }
    }
    running.wait().map_err(text)?;
    device.join().map_err(|_| "the device has ended")?.map_err(text)?;
    Ok(shown)
}

/// As PlatformIO's monitor shows it.
fn of_platformio(log: &str, firmware: &Path) -> Result<String> {
    let mut shown = String::new();
    for line in log.lines() {
        shown += line;
        shown += "\r\n";
        let Some((_, frames)) = line.split_once("caller ").or_else(|| line.split_once("freed by ")) else { continue };
        for (number, frame) in frames.split(':').filter(|frame| *frame != "0x00000000").enumerate() {
            let mut addr2line = command(format!("{TOOLS}addr2line"));
            let named = process::run(addr2line.args(["-fpC", "-e"]).arg(firmware).arg(frame))?.good()?.out();
            shown += &format!("     #{number}  {frame} in {}\r\n", named.trim());
        }
        shown += "\r\n";
    }
    Ok(shown)
}

/// Everything that `dump` and `history` say of a log, but for its name.
fn said(log: &Path, firmware: &Path) -> Result<String> {
    let mut all = String::new();
    for words in ["dump", "history", "stats"] {
        let mut read = command(heapledger());
        let json = process::run(read.args([words, "--json", "--exe"]).arg(firmware).arg(log))?.good()?.out();
        all += &json.replace(&*log.to_string_lossy(), "LOG");
    }
    Ok(all)
}

#[test]
fn a_dump_is_one_ledger_raw_or_as_monitors_have_decorated_it() -> Result {
    let [_, chip] = &MACHINES;
    let Some(firmware) = chip.firmware("commands", &["python3", &format!("{TOOLS}addr2line"), &format!("{TOOLS}nm")])
    else {
        return Ok(());
    };
    let mut asks = command("python3");
    let is_there = asks.args(["-c", "import esp_idf_monitor"]).stderr(Stdio::null()).status().map_err(text)?.success();
    if !is_there {
        skip("logs of esp-idf-monitor", "the Python package esp-idf-monitor is not installed");
        return Ok(());
    }
    let scratch = Scratch::new();
    let raw = dump(&callers(&firmware)?);
    let keep = |name: &str, log: &[u8]| {
        let path = scratch.path(name);
        fs::write(&path, log).map_err(text).map(|()| path)
    };
    let expected = said(&keep("raw.log", raw.as_bytes())?, &firmware)?;
    check!(expected.contains("\"live_blocks\":8") && expected.contains("\"line\":"), "{expected}");
    check!(!expected.contains("could not be read"), "{expected}");
    let platformio = of_platformio(&raw, &firmware)?;
    check!(platformio.contains("#0  0x80") && platformio.contains(" at "), "{platformio}");
    let mut logs = vec![("platformio.log", platformio.into_bytes())];
    for (name, more) in [("decorated.log", &[][..]), ("stamped.log", &["--timestamps", "--force-color"])] {
        let shown = monitored(&raw, &firmware, more)?;
        let as_text = String::from_utf8_lossy(&shown);
        check!(as_text.contains("--- 0x80") && as_text.contains(END), "the monitor has decorated nothing: {as_text}");
        logs.push((name, shown));
    }
    for (name, log) in logs {
        let read = said(&keep(name, &log)?, &firmware)?;
        check!(read == expected, "{name} gives another ledger:\n{read}\n{expected}\n{}", String::from_utf8_lossy(&log));
    }
    Ok(())
}
