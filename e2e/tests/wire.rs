//! Firmware that sends its heap events by a serial line (`e2e/firmware/wire.rs`), run by QEMU: `heapledger receive` makes the
//! ledger of them while it runs, and what an event takes is counted.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use heapledger_e2e::chip::MACHINES;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::{Result, check};
use serde_json::Value;

/// A tick of the chip's timer; and of its time, what an instruction takes.
const TICK_NS: f64 = 40.0;
const INSTRUCTION_NS: f64 = 64.0;
/// What an event may take at most, on the average: bytes with all framing, and instructions until it is in a frame.
const BYTES_MAX: f64 = 12.0;
const INSTRUCTIONS_MAX: f64 = 400.0;

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// What the firmware does, as its source says: address and size of each block that is live at the end.
fn truth(count: u32) -> BTreeMap<u64, u64> {
    let (mut state, mut live) = (1u32, [None::<(u32, u32)>; 64]);
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    };
    let mut blocks = BTreeMap::new();
    for _ in 0..count {
        random();
        let place = &mut live[random() as usize % 64];
        match place.take() {
            Some((address, _)) => drop(blocks.remove(&u64::from(address))),
            None => {
                let address = 0x2000_1000 + random() % 2048 * 8;
                let size = 8 + random() % 400;
                *place = Some((address, size));
                // Given out twice: the firmware does not look.
                blocks.insert(u64::from(address), u64::from(size));
            }
        }
    }
    blocks
}

#[test]
fn what_is_received_is_what_lives_and_an_event_takes_little() -> Result {
    let [chip, _] = &MACHINES;
    let Some(firmware) = chip.firmware("wire_firmware", &[]) else { return Ok(()) };
    let scratch = Scratch::new();
    let (console, ledger) = (scratch.path("console"), scratch.path("board.hl"));
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).map_err(text)?;
    // It may have to be built, which takes longer than the chip waits.
    heapledger();
    let mut qemu = command("timeout");
    // Without the words that say that there is no serial line.
    let words = chip.qemu().join(" ").replace("-serial none", "");
    qemu.arg("100").args(words.split_whitespace()).arg("-no-reboot");
    qemu.args(["-serial", &format!("tcp:{free},server=on,wait=on")]);
    qemu.args(["-serial", &format!("file:{}", console.display()), "-kernel"]).arg(&firmware);
    let mut running = qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(text)?;
    let begun = Instant::now();
    let received = loop {
        // Until it listens.
        let mut receive = command(heapledger());
        let received = receive.args(["receive", &format!("tcp://{free}"), "-o"]).arg(&ledger).output().map_err(text)?;
        if received.status.success() || begun.elapsed() > Duration::from_secs(60) {
            break received;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let ended = running.wait().map_err(text)?;
    check!(ended.success() && received.status.success(), "{ended:?}, {received:?}");

    let console = fs::read_to_string(&console).map_err(text)?;
    let words: Vec<&str> = console.split_whitespace().collect();
    let figure = |name: &str| -> Result<f64> {
        let at = words.iter().position(|word| *word == name).ok_or("the console says something else")?;
        words.get(at + 1).and_then(|word| word.parse().ok()).ok_or_else(|| console.clone())
    };
    let events = figure("events")?;
    let bytes = figure("bytes")? / events;
    let instructions = (figure("ticks")? - figure("without")?) * TICK_NS / INSTRUCTION_NS / events;
    let a_second = 115_200.0 / 10.0 / bytes;
    println!(
        "{bytes:.1} bytes and {instructions:.0} instructions an event; {a_second:.0} events a second at 115,200 baud"
    );
    check!(bytes <= BYTES_MAX, "an event takes {bytes:.1} bytes");
    check!(instructions <= INSTRUCTIONS_MAX, "an event takes {instructions:.0} instructions");

    let dumped = command(heapledger()).args(["dump", "--json", "--limit", "0"]).arg(&ledger).output().map_err(text)?;
    let lines = String::from_utf8_lossy(&dumped.stdout).into_owned();
    let mut live = BTreeMap::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).map_err(text)?;
        if line["type"] == "block" {
            let address = line["address"].as_str().unwrap_or_default().trim_start_matches("0x");
            let address = u64::from_str_radix(address, 16).map_err(text)?;
            live.insert(address, line["size"].as_u64().unwrap_or_default());
        }
    }
    let truth = truth(events as u32);
    check!(truth.len() > 20 && live == truth, "{} blocks live, and {} were received", truth.len(), live.len());
    Ok(())
}
