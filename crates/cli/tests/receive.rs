//! `receive`: events of a device by every way that they can come, and a ledger that others read meanwhile.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Scratch, heapledger, output};
use heapledger_wire::line::{ASK, Binary, Text};
use heapledger_wire::{Line, Sender, WireEvent};

/// Nothing here takes this long unless it hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Events of a hundred blocks, of which forty are freed.
fn events(line: impl Line) {
    let mut sender: Sender<_, 16> = Sender::new(line, 0, 9, 1_000_000);
    for block in 0..100u32 {
        let stack = [0x4008_0000 + block % 7 * 0x40, 0x4008_1000];
        let told =
            WireEvent { kind: 1, address: 0x2000_0000 + block * 64, size: 16, stack: &stack, task: 0, time: block };
        sender.alloc(&told);
        if block < 40 {
            sender.free(&WireEvent { kind: 32, ..told });
        }
    }
    sender.flush();
}

fn packed() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    events(Binary(|frame: &[u8]| {
        frames.push(frame.to_vec());
        true
    }));
    frames
}

fn receiving(scratch: &Scratch, words: &[&str]) -> Child {
    let mut command = heapledger();
    command.arg("receive").args(words).args(["-o", "got.hl", "--every", "50ms"]).current_dir(scratch.cwd());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

fn ended(child: Child, scratch: &Scratch) {
    let ended = child.wait_with_output().expect("it ends");
    assert!(ended.status.success(), "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert_eq!(said, "got.hl: 140 events of device 0; 60 live blocks\n");
    let stats = output(heapledger().args(["stats", "got.hl"]).current_dir(scratch.cwd()));
    assert!(String::from_utf8_lossy(&stats.stdout).contains("100 allocations, 40 frees"), "{stats:?}");
}

/// Waits until the ledger has blocks, while it is being received.
fn wait_for_blocks(scratch: &Scratch) {
    let begun = Instant::now();
    loop {
        let stats = output(heapledger().args(["stats", "got.hl"]).current_dir(scratch.cwd()));
        if String::from_utf8_lossy(&stats.stdout).contains("allocations") {
            return;
        }
        assert!(begun.elapsed() < LIMIT, "there is no ledger while events come: {stats:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn interrupt(child: &Child) {
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill is needed for this test").success());
}

#[test]
fn standard_input_and_text_between_other_text() {
    let scratch = Scratch::new("receive-text");
    let mut log = String::from("boot\n");
    events(Text(|line: &str| {
        log += &format!("I (5) app: {}\r\nother text\n", line.trim_end());
        true
    }));
    let mut child = receiving(&scratch, &["-"]);
    child.stdin.take().expect("a pipe").write_all(log.as_bytes()).expect("it reads");
    ended(child, &scratch);
}

#[test]
fn tcp_with_a_look_meanwhile_and_an_end_by_interrupt() {
    let scratch = Scratch::new("receive-tcp");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = format!("tcp://{}", listener.local_addr().expect("an address"));
    let child = receiving(&scratch, &[&address, "--ask"]);
    let (mut device, _) = listener.accept().expect("it connects");
    let mut asked = [0; 4];
    device.read_exact(&mut asked).expect("it asks");
    assert_eq!(&asked, ASK);
    for frame in packed() {
        device.write_all(&frame).expect("it reads");
    }
    wait_for_blocks(&scratch);
    // Until all has come, which nobody can see from outside but by waiting for it.
    let begun = Instant::now();
    while !String::from_utf8_lossy(&output(heapledger().args(["stats", "got.hl"]).current_dir(scratch.cwd())).stdout)
        .contains("100 allocations, 40 frees")
    {
        assert!(begun.elapsed() < LIMIT, "not all has come");
        std::thread::sleep(Duration::from_millis(20));
    }
    interrupt(&child);
    ended(child, &scratch);
}

#[test]
fn a_trace_of_esp_idf_to_a_host_is_received_live() {
    let scratch = Scratch::new("receive-sysview");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let child = receiving(&scratch, &[&format!("tcp://{}", listener.local_addr().expect("an address"))]);
    let (mut device, _) = listener.accept().expect("it connects");
    // Zeros to synchronize by, a clock of 40 MHz, and blocks of eight bytes; the last one only in part, until later.
    let begin = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 24, 7, 0x80, 0xb4, 0x89, 0x13, 1, 1, 0, 0];
    device.write_all(&begin[..7]).expect("it reads");
    device.write_all(&begin[7..]).expect("it reads");
    let block = |number: u8| [0x80, 4, 4, 0x80, 0x20 + number, 8, 5, 40];
    (0..9).for_each(|number| device.write_all(&block(number)).expect("it reads"));
    device.write_all(&block(9)[..4]).expect("it reads");
    wait_for_blocks(&scratch);
    device.write_all(&block(9)[4..]).expect("it reads");
    drop(device);
    let ended = child.wait_with_output().expect("it ends");
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "got.hl: 10 heap events of SystemView; 10 live blocks\n");
    let stats = output(heapledger().args(["stats", "got.hl"]).current_dir(scratch.cwd()));
    assert!(String::from_utf8_lossy(&stats.stdout).contains("10 allocations, 0 frees"), "{stats:?}");
}

#[test]
fn packets_and_a_file() {
    let scratch = Scratch::new("receive-udp");
    let free = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let address = free.local_addr().expect("an address");
    drop(free);
    let child = receiving(&scratch, &[&format!("udp://{address}")]);
    let device = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let begun = Instant::now();
    // It may not listen yet; what comes twice is counted once.
    while !scratch.cwd().join("got.hl").exists() {
        for frame in packed() {
            let _ = device.send_to(&frame, address);
        }
        assert!(begun.elapsed() < LIMIT, "there is no ledger");
        std::thread::sleep(Duration::from_millis(100));
    }
    interrupt(&child);
    let ended = child.wait_with_output().expect("it ends");
    assert!(ended.status.success(), "{ended:?}");

    fs::write(scratch.cwd().join("events.bin"), packed().concat()).expect("written");
    let stats = output(heapledger().args(["stats", "events.bin"]).current_dir(scratch.cwd()));
    assert!(String::from_utf8_lossy(&stats.stdout).contains("100 allocations, 40 frees"), "{stats:?}");
    // A file that is there is not replaced.
    let kept = output(heapledger().args(["receive", "events.bin", "-o", "got.hl"]).current_dir(scratch.cwd()));
    assert!(String::from_utf8_lossy(&kept.stdout).starts_with("got.1.hl: 140 events"), "{kept:?}");
}

#[test]
fn what_is_none_is_refused() {
    let scratch = Scratch::new("receive-refused");
    fs::write(scratch.cwd().join("text"), "hello\nworld\n").expect("written");
    for (words, said) in [
        (&["text"][..], "nothing that came from text was a frame"),
        (&["nothing-there"], "cannot be opened"),
        (&["tcp://127.0.0.1:1"], "cannot be opened"),
        (&["--ask", "text"], "no device that could be asked"),
    ] {
        let refused = output(heapledger().arg("receive").args(words).current_dir(scratch.cwd()));
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(said), "{refused:?}");
        assert!(!scratch.cwd().join("text.hl").exists());
    }
}

/// Who waits for somebody to write into a pipe can be ended like anybody else.
#[test]
fn an_interrupt_ends_what_waits_for_a_pipe() {
    let scratch = Scratch::new("receive-pipe");
    let made = Command::new("mkfifo").arg(scratch.cwd().join("pipe")).status();
    assert!(made.expect("mkfifo is needed for this test").success());
    let mut child = receiving(&scratch, &["pipe"]);
    let begun = Instant::now();
    loop {
        let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(killed.expect("kill is needed for this test").success());
        if child.try_wait().expect("it can be asked").is_some() {
            break;
        }
        let is_over = begun.elapsed() > LIMIT;
        if is_over {
            child.kill().expect("it can be ended");
        }
        assert!(!is_over, "it waits");
        std::thread::sleep(Duration::from_millis(50));
    }
}
