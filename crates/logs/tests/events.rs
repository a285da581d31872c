//! Events of devices with our crate, by wire and as text, whole and damaged, as ledgers.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;

use heapledger_format::{Entry, Kind, TallyCounter};
use heapledger_logs::events::EventBooks;
use heapledger_logs::log::{LogKind, LogLedger, LogOptions, is_log, read_log};
use heapledger_lws::Width;
use heapledger_source::Ledger;
use heapledger_wire::line::write_text;
use heapledger_wire::message::Mark;
use heapledger_wire::{Line, Sender, WireEvent, cobs};

#[derive(Default)]
struct Kept(Vec<Vec<u8>>);

impl Line for Kept {
    fn send(&mut self, frame: &[u8]) -> bool {
        self.0.push(frame.to_vec());
        true
    }
}

type Device = Sender<Kept, 32>;

fn device(number: u8, boot: u32) -> Device {
    Sender::new(Kept::default(), number, boot, 1000)
}

const STACKS: [[u32; 3]; 3] =
    [[0x4008_1eff, 0x4008_1f34, 0x4008_da18], [0x4200_8096, 0x4008_1f34, 0x4008_da18], [1, 2, 3]];

fn event(address: u32, size: u32, stack: usize, task: u32, time: u32) -> WireEvent<'static> {
    WireEvent { kind: if size == 0 { 32 } else { 1 }, address, size, stack: &STACKS[stack], task, time }
}

/// Twenty blocks, of which each third is freed; tasks are named.
fn sample(number: u8, boot: u32) -> Device {
    let mut device = device(number, boot);
    device.task(1, b"main", 0);
    device.task(2, b"wifi", 0);
    for block in 0..20 {
        device.alloc(&event(0x2000_0000 + block * 64, 10 + block, block as usize % 3, 1 + block % 2, 100 * block));
        if block % 3 == 0 {
            device.free(&event(0x2000_0000 + block * 64, 0, 2, 2, 100 * block + 50));
        }
        if block % 5 == 0 {
            device.flush();
        }
    }
    device.flush();
    device
}

fn packed(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in frames {
        let mut out = vec![0; frame.len() + 8];
        let count = cobs::pack(frame, &mut out).expect("it fits");
        bytes.extend_from_slice(&out[..count]);
    }
    bytes
}

fn open(made: LogLedger) -> Ledger {
    Ledger::of_file(made.into_file().expect("a file"), Path::new("line")).expect("a ledger")
}

fn read(bytes: &[u8]) -> Vec<Ledger> {
    let options = LogOptions { only: Some(LogKind::Events), width: Width::W64 };
    let made = read_log(BufReader::new(bytes), options).expect("memory can be read");
    made.into_iter().map(open).collect()
}

fn live(ledger: &Ledger) -> BTreeMap<u64, Entry> {
    let mut all = BTreeMap::new();
    let mut records = ledger.records();
    while let Some(chunk) = records.next_chunk().expect("it can be read") {
        all.extend(chunk.iter().map(|entry| (entry.address, *entry)));
    }
    all
}

fn missing(ledger: &Ledger) -> Vec<String> {
    ledger.process().all_of("missing.").collect()
}

fn assert_sample(ledger: &Ledger) {
    let live = live(ledger);
    assert_eq!(live.len(), 13);
    for (address, entry) in &live {
        let block = (address - 0x2000_0000) / 64;
        assert_eq!((entry.size, entry.kind), (Some(10 + block), Kind::MALLOC));
        assert_eq!(entry.time.map(|time| time.0), Some(100 * block));
        let stack = ledger.stack(entry.site).expect("it can be read");
        let code = ledger.code(stack.codes[0]).expect("it can be read").expect("it is there");
        assert_eq!(code.offset, u64::from(STACKS[block as usize % 3][0]));
        let threads = ledger.threads().expect("it can be read");
        let name = threads.iter().find(|thread| Some(thread.row) == entry.thread).map(|thread| thread.name.clone());
        assert_eq!(name.as_deref(), Some(if block % 2 == 0 { "main" } else { "wifi" }));
    }
    let totals = ledger.tallies().expect("it can be read");
    assert_eq!((totals.get(TallyCounter::Allocations), totals.get(TallyCounter::Frees)), (20, 7));
    assert_eq!(ledger.header().tick_ns, 1000);
}

#[test]
fn events_become_a_ledger_by_wire_and_as_text_between_other_text() {
    let mut device = sample(0, 7);
    let bytes = packed(&device.line().0);
    assert!(is_log(&bytes));
    let wire = read(&bytes);
    assert_eq!(wire.len(), 1);
    assert_sample(&wire[0]);
    assert_eq!(missing(&wire[0]), [""; 0]);

    let mut log = String::from("boot\n");
    for (index, frame) in device.line().0.iter().enumerate() {
        let mut line = String::new();
        write_text(frame, &mut line).expect("a String has room");
        log += &format!("\x1b[0;32m2026-01-01 I ({index}) {}\x1b[0m\r\r\nW (1) other: text\n", line.trim_end());
    }
    let text = read(log.as_bytes());
    assert_eq!(text.len(), 1);
    assert_sample(&text[0]);
    assert_eq!(missing(&text[0]), [""; 0]);
    assert_eq!(live(&text[0]), live(&wire[0]));
}

#[test]
fn books_can_be_looked_at_while_they_go_on() {
    let mut device = sample(0, 7);
    let bytes = packed(&device.line().0);
    let mut books = EventBooks::default();
    let mut last = 0;
    for part in bytes.chunks(3) {
        books.bytes(part).expect("a file can be written");
        for made in books.ledgers().expect("a file can be written") {
            let now = open(made).tallies().expect("it can be read").get(TallyCounter::Allocations);
            assert!(now >= last);
            last = now;
        }
    }
    assert_eq!(last, 20);
}

#[test]
fn frames_that_are_lost_or_damaged_or_come_twice_are_counted() {
    let mut device = sample(0, 7);
    let frames = device.line().0.clone();
    let mut fewer = frames.clone();
    fewer.remove(2);
    let said = missing(&read(&packed(&fewer))[0]);
    assert!(said.iter().any(|text| text.starts_with("1 frame (or more")), "{said:?}");

    let mut damaged = frames.clone();
    damaged[2][9] ^= 0x10;
    let said = missing(&read(&packed(&damaged))[0]);
    assert!(said.iter().any(|text| text.starts_with("1 frame came damaged")), "{said:?}");

    let mut twice = frames.clone();
    twice.insert(2, frames[1].clone());
    let ledgers = read(&packed(&twice));
    assert_sample(&ledgers[0]);
    assert_eq!(ledgers[0].process().all_of("remark.").collect::<Vec<_>>(), ["1 frame came twice."]);

    let late = missing(&read(&packed(&frames[1..]))[0]);
    assert!(late.iter().any(|text| text.contains("The beginning was not received")), "{late:?}");
    assert!(
        late.iter().any(|text| text.contains("events have stacks that were told in frames which never came")),
        "{late:?}"
    );
}

#[test]
fn a_device_that_starts_anew_and_a_second_one_on_the_line_have_ledgers_of_their_own() {
    let (mut first, mut second, mut other) = (sample(0, 7), sample(0, 8), sample(5, 7));
    let mut frames = first.line().0.clone();
    frames.extend_from_slice(&second.line().0);
    let anew = read(&packed(&frames));
    assert_eq!(anew.len(), 2);
    anew.iter().for_each(assert_sample);
    assert!(anew[0].process().all_of("remark.").any(|text| text.starts_with("The device started anew")));

    let mut mixed = Vec::new();
    for (one, two) in first.line().0.iter().zip(&other.line().0) {
        mixed.extend([one.clone(), two.clone()]);
    }
    let both = read(&packed(&mixed));
    assert_eq!(both.len(), 2);
    both.iter().for_each(assert_sample);
    assert!(both[1].process().all_of("remark.").any(|text| text.contains("number 5")));
    assert_eq!(missing(&both[0]), [""; 0], "frames of others are no gaps");
}

#[test]
fn a_list_of_all_live_blocks_makes_a_ledger_whole_that_was_joined_late() {
    let mut device = sample(0, 7);
    device.line().0.clear();
    device.introduce(3000);
    device.alloc(&event(0x2000_0000 + 64 * 30, 99, 1, 1, 3000));
    device.alloc(&event(0x2000_0000 + 64 * 31, 98, 1, 1, 3001));
    device.mark(Mark::LiveBegins, 3002);
    for block in (0..20).filter(|block| block % 3 != 0) {
        device.live(&event(0x2000_0000 + block * 64, 10 + block, block as usize % 3, 1 + block % 2, 100 * block));
    }
    device.live(&event(0x2000_0000 + 64 * 30, 99, 2, 2, 3000));
    device.mark(Mark::LiveEnds, 3003);
    let ledgers = read(&packed(&device.line().0));
    let live = live(&ledgers[0]);
    assert_eq!(live.len(), 14);
    let known = &live[&(0x2000_0000 + 64 * 30)];
    let stack = ledgers[0].stack(known.site).expect("it can be read");
    let code = ledgers[0].code(stack.codes[0]).expect("it can be read").expect("it is there");
    assert_eq!(code.offset, u64::from(STACKS[1][0]), "what was seen of a block is kept");
    assert!(!live.contains_key(&(0x2000_0000 + 64 * 31)), "what is not in the list is gone");
    assert!(!missing(&ledgers[0]).iter().any(|text| text.contains("beginning")));
}

#[test]
fn blocks_come_and_go_while_all_are_told_and_a_list_with_gaps_takes_nothing_away() {
    let listed = |drop: Option<usize>| {
        let mut device = sample(0, 7);
        device.mark(Mark::LiveBegins, 3000);
        for block in (0..20).filter(|block| block % 3 != 0) {
            device.live(&event(0x2000_0000 + block * 64, 10 + block, block as usize % 3, 1 + block % 2, 100 * block));
            if block == 10 {
                // One that was told already, one that is still to be told, and one that comes.
                device.free(&event(0x2000_0000 + 64, 0, 0, 1, 3001));
                device.free(&event(0x2000_0000 + 19 * 64, 0, 0, 1, 3002));
                device.alloc(&event(0x2000_9000, 77, 0, 1, 3003));
                device.flush();
            }
        }
        // The device looks at what lives when it comes there.
        device.free(&event(0x2000_0000 + 19 * 64, 0, 0, 1, 3004));
        device.mark(Mark::LiveEnds, 3005);
        let mut frames = device.line().0.clone();
        let count = frames.len();
        if let Some(from_end) = drop {
            frames.remove(count - from_end);
        }
        read(&packed(&frames)).pop().expect("a ledger")
    };
    let whole = listed(None);
    let blocks: Vec<u64> = live(&whole).keys().map(|address| (address - 0x2000_0000) / 64).collect();
    assert_eq!(blocks, [2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 0x9000 / 64]);
    assert_eq!(missing(&whole), [""; 0]);
    let part = listed(Some(2));
    assert!(live(&part).len() >= blocks.len() - 1, "{:?}", live(&part).keys());
    let said = missing(&part);
    assert!(said.iter().any(|text| text.starts_with("1 list of all live blocks came in part")), "{said:?}");
}

#[test]
fn what_the_device_dropped_travels_with_the_next_frame() {
    struct Slow(Kept, bool);
    impl Line for Slow {
        fn send(&mut self, frame: &[u8]) -> bool {
            self.1 && self.0.send(frame)
        }
    }
    let mut device: Sender<Slow, 32> = Sender::new(Slow(Kept::default(), false), 0, 1, 0);
    for block in 0..5 {
        device.alloc(&event(block * 64, 8, 0, 0, 0));
    }
    device.flush();
    device.line().1 = true;
    device.alloc(&event(0x9000, 8, 0, 0, 0));
    device.flush();
    let ledgers = read(&packed(&device.line().0.0));
    assert_eq!(live(&ledgers[0]).len(), 1);
    assert_eq!(missing(&ledgers[0]), ["5 events were dropped on the device: the line was too slow."]);
}

#[test]
fn lines_cut_anywhere_or_with_any_byte_changed_do_no_harm() {
    let mut device = sample(0, 7);
    let bytes = packed(&device.line().0);
    for cut in 0..bytes.len() {
        for ledger in read(&bytes[..cut]) {
            assert!(live(&ledger).len() <= 14);
        }
    }
    for at in 0..bytes.len() {
        for value in [0, 1, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] = value;
            for ledger in read(&changed) {
                assert!(
                    changed == bytes || !missing(&ledger).is_empty() || live(&ledger).len() == 13,
                    "byte {at} as {value}"
                );
            }
        }
    }
}
