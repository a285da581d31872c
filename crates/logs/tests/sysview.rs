//! Streams of SystemView with the events of ESP-IDF's heap tracing: one file a core, both in one, whole and damaged.

use std::path::Path;

use heapledger_format::errors::ErrorKind;
use heapledger_format::{Entry, FreedEntry, Kind, TallyCounter};
use heapledger_logs::live::LiveLine;
use heapledger_logs::log::{LogOptions, is_log, read_log, read_streams};
use heapledger_logs::sysview::{HostForm, HostNames, HostTrace};
use heapledger_lws::Width;
use heapledger_source::Ledger;
use serde_json::{Value, json};

const HERTZ: u32 = 40_000_000;
const MODULE: u32 = 512;

/// Writes a stream as a device does.
#[derive(Clone, Default)]
struct Device {
    bytes: Vec<u8>,
    /// The core that events are of, if each says it.
    says_core: Option<u8>,
}

fn number(bytes: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    match u8::try_from(text.len()) {
        Ok(length) if length < 0xff => bytes.push(length),
        _ => {
            bytes.push(0xff);
            bytes.extend_from_slice(&(text.len() as u16).to_be_bytes());
        }
    }
    bytes.extend_from_slice(text.as_bytes());
}

impl Device {
    /// The bytes that streams synchronize by, the clock and the module.
    fn begun(says_core: Option<u8>) -> Device {
        let mut device = Device { bytes: vec![0; 10], says_core };
        device.numbers(10, &[], 0).numbers(24, &[HERTZ, 240_000_000, 0x3ff0_0000, 0], 0);
        let mut module = Vec::new();
        number(&mut module, 0);
        number(&mut module, MODULE);
        text(&mut module, "M=ESP32 SystemView Heap Tracing Module");
        device.event(22, &module, 0);
        let mut name = Vec::new();
        text(&mut name, "N=FreeRTOS Application,D=ESP32,I#5=SysTick,C=Xtensa");
        device.event(14, &name, 0);
        device
    }

    fn event(&mut self, id: u32, payload: &[u8], ticks: u32) {
        let core = self.says_core.map_or(0, |core| core << 6);
        if id < 0x40 || id < 0x80 && self.says_core.is_none() {
            self.bytes.push(id as u8 | core);
        } else {
            self.bytes.extend_from_slice(&[id as u8 & 0x7f | 0x80, (id >> 7) as u8 | core]);
        }
        if id >= 24 {
            match payload.len() {
                length @ 0..0x80 => self.bytes.push(length as u8),
                length => self.bytes.extend_from_slice(&[length as u8 & 0x7f | 0x80, (length >> 7) as u8]),
            }
        }
        self.bytes.extend_from_slice(payload);
        number(&mut self.bytes, ticks);
    }

    fn numbers(&mut self, id: u32, values: &[u32], ticks: u32) -> &mut Device {
        let mut payload = Vec::new();
        values.iter().for_each(|value| number(&mut payload, *value));
        self.event(id, &payload, ticks);
        self
    }

    fn task(&mut self, task: u32, name: &str) -> &mut Device {
        let mut payload = Vec::new();
        number(&mut payload, task);
        number(&mut payload, 5);
        text(&mut payload, name);
        self.event(9, &payload, 1);
        self
    }

    fn alloc(&mut self, address: u32, size: u32, callers: &[u32]) -> &mut Device {
        self.numbers(MODULE, &[&[address, size], callers].concat(), 40)
    }

    fn free(&mut self, address: u32, callers: &[u32]) -> &mut Device {
        self.numbers(MODULE + 1, &[&[address], callers].concat(), 40)
    }
}

const HEADING: &str = ";\n; Version SEGGER SystemViewer V2.42\n; Author Espressif Inc\n;\n";

fn file(device: &Device) -> Vec<u8> {
    [HEADING.as_bytes(), &device.bytes].concat()
}

fn ledger(files: &[Vec<u8>]) -> Option<Ledger> {
    let made = read_streams(files.iter().map(|file| &file[..])).expect("memory can be read").pop()?;
    Some(Ledger::of_file(made.into_file().expect("a file"), Path::new("x.svdat")).expect("a ledger"))
}

fn one(device: &Device) -> Ledger {
    ledger(&[file(device)]).expect("there are heap events")
}

fn live(ledger: &Ledger) -> Vec<Entry> {
    let mut all = Vec::new();
    let mut records = ledger.records();
    while let Some(chunk) = records.next_chunk().expect("it can be read") {
        all.extend_from_slice(chunk);
    }
    all.sort_by_key(|entry| entry.number);
    all
}

fn freed(ledger: &Ledger) -> Vec<FreedEntry> {
    let mut all = Vec::new();
    let mut records = ledger.freed();
    while let Some(chunk) = records.next_chunk().expect("it can be read") {
        all.extend_from_slice(chunk);
    }
    all.sort_by_key(|entry| entry.number);
    all
}

fn thread_name(ledger: &Ledger, row: Option<heapledger_format::ThreadRow>) -> String {
    let threads = ledger.threads().expect("it can be read");
    row.and_then(|row| threads.into_iter().find(|thread| thread.row == row))
        .map_or_else(String::new, |thread| thread.name)
}

fn missing(ledger: &Ledger) -> Vec<String> {
    ledger.process().all_of("missing.").collect()
}

const CALLERS: [u32; 4] = [0x4008_1eff, 0x4008_1f34, 0x4008_da18, 0];

fn sample() -> Device {
    let mut device = Device::begun(None);
    device.task(7, "main").task(9, &"a".repeat(300));
    device.alloc(0x3ffb_0000, 5, &CALLERS);
    device.numbers(4, &[7], 10).alloc(0x3ffb_68a0, 8, &CALLERS).numbers(2, &[5], 3).alloc(
        0x3ffb_7000,
        16,
        &CALLERS[..1],
    );
    device.free(0x3ffb_68a0, &CALLERS).numbers(18, &[], 2).numbers(17, &[], 2);
    // Numbers of the operating system and of another module, a resource's name, a user's mark, the time: passed over.
    device.numbers(40, &[1, 2, 3], 1).numbers(600, &[9; 60], 1).numbers(15, &[4], 1).numbers(13, &[1, 2], 1);
    device.numbers(7, &[7, 2], 1).numbers(21, &[7, 8, 9, 0], 1).numbers(6, &[7], 1).numbers(12, &[77], 1);
    device.free(0, &CALLERS).alloc(0, 1 << 30, &CALLERS).alloc(0, 1 << 30, &CALLERS).free(0x3fff_0000, &[]);
    device
}

#[test]
fn a_stream_of_one_core_is_read_with_tasks_and_interrupts() {
    let ledger = one(&sample());
    let live = live(&ledger);
    assert_eq!(
        live.iter().map(|entry| (entry.address, entry.size)).collect::<Vec<_>>(),
        [(0x3ffb_0000, Some(5)), (0x3ffb_7000, Some(16))]
    );
    assert_eq!(live[0].thread, None, "nothing is dropped before the first switch of tasks, and nobody is named");
    assert_eq!(thread_name(&ledger, live[1].thread), "IRQ SysTick");
    let freed = freed(&ledger);
    assert_eq!((freed.len(), freed[0].block.size, freed[0].by), (1, Some(8), Kind::HEAP_CAPS_FREE));
    assert_eq!(thread_name(&ledger, freed[0].block.thread), "main");
    assert_eq!(thread_name(&ledger, freed[0].thread), "IRQ SysTick");
    let stack = ledger.stack(freed[0].site).expect("it can be read");
    let codes: Vec<u64> =
        stack.codes.iter().map(|id| ledger.code(*id).expect("it can be read").expect("there").offset).collect();
    assert_eq!(codes, [0x4008_1eff, 0x4008_1f34, 0x4008_da18]);
    // 25 ns a tick, since the trace began.
    assert_eq!(live[0].time.map(|time| time.0), Some((2 + 40) * 25));
    let totals = ledger.tallies().expect("it can be read");
    assert_eq!(totals.get(TallyCounter::FailedCalls), 2);
    assert_eq!(totals.get(TallyCounter::UnknownFrees), 1);
    assert_eq!(totals.get(TallyCounter::Displaced), 0);
    assert_eq!(ledger.count(heapledger_format::SectionKind::Errors).expect("it can be read"), 0);
    assert_eq!(missing(&ledger), [""; 0]);
    let names: Vec<String> = ledger.threads().expect("it can be read").into_iter().map(|thread| thread.name).collect();
    assert!(names.contains(&"a".repeat(16)), "a name is cut where the ledger has no room: {names:?}");
}

#[test]
fn both_cores_give_the_same_ledger_in_two_files_and_in_one() {
    let (mut zero, mut one) = (Device::begun(None), Device::begun(None));
    zero.task(1, "zero").numbers(4, &[1], 5);
    one.task(2, "one").numbers(4, &[2], 5);
    for round in 0..20 {
        zero.alloc(0x1000 + round * 16, 8, &CALLERS);
        one.numbers(17, &[], 20).numbers(4, &[2], 0).free(0x1000 + round * 16, &CALLERS);
        if round % 2 == 0 {
            one.alloc(0x9000 + round * 16, 3, &CALLERS[..2]);
        }
    }
    let apart = ledger(&[file(&zero), file(&one)]).expect("there are heap events");
    let offsets =
        format!(";\n; Version SEGGER SystemViewer V2.42\n; Offset Core0 0\n; Offset Core1 {}\n;\n", zero.bytes.len());
    let joined = ledger(&[[offsets.as_bytes(), &zero.bytes, &one.bytes].concat()]).expect("there are heap events");
    for both in [&apart, &joined] {
        assert_eq!(live(both), live(&apart));
        assert_eq!(freed(both), freed(&apart));
        assert_eq!((live(both).len(), freed(both).len()), (10, 20));
        assert_eq!(thread_name(both, freed(both)[0].thread), "one");
        assert_eq!(thread_name(both, freed(both)[0].block.thread), "zero");
        assert_eq!(missing(both), [""; 0]);
    }
    // One core alone: what the other one did is missing, and nothing else.
    let alone = ledger(&[file(&zero)]).expect("there are heap events");
    assert_eq!((live(&alone).len(), missing(&alone).len()), (20, 0));
}

#[test]
fn events_that_say_their_core_are_read() {
    let mut device = Device::begun(Some(0));
    device.task(1, "zero").task(2, "one").numbers(4, &[1], 1);
    device.says_core = Some(1);
    device.numbers(4, &[2], 1).alloc(0x2000, 7, &CALLERS);
    device.says_core = Some(0);
    device.alloc(0x3000, 9, &CALLERS);
    let heading = ";\n; ESP_Extension\n;\n";
    let ledger = ledger(&[[heading.as_bytes(), &device.bytes].concat()]).expect("there are heap events");
    let live = live(&ledger);
    assert_eq!([thread_name(&ledger, live[0].thread), thread_name(&ledger, live[1].thread)], ["one", "zero"]);
}

#[test]
fn an_address_that_is_given_out_twice_ends_nothing() {
    let mut device = Device::begun(None);
    device.alloc(0x2000, 7, &CALLERS).alloc(0x2000, 9, &CALLERS).alloc(0x4000, 1, &CALLERS).free(0x2000, &CALLERS);
    let ledger = one(&device);
    assert_eq!(live(&ledger).len(), 1);
    let freed = freed(&ledger);
    assert_eq!(
        freed.iter().map(|entry| (entry.block.size, entry.by)).collect::<Vec<_>>(),
        [(Some(7), Kind::UNSEEN), (Some(9), Kind::HEAP_CAPS_FREE)]
    );
    assert_eq!(ledger.tallies().expect("it can be read").get(TallyCounter::Displaced), 1);
}

#[test]
fn a_free_within_a_live_block_is_an_error_and_one_right_behind_it_is_none() {
    let mut device = Device::begun(None);
    device
        .task(7, "main")
        .numbers(4, &[7], 1)
        .alloc(0x2000, 16, &CALLERS)
        .free(0x2010, &CALLERS[..1])
        .free(0x2008, &CALLERS[..2]);
    let ledger = one(&device);
    let errors = ledger.errors().expect("it can be read");
    assert_eq!(errors.len(), 1);
    let entry = errors[0].entry;
    assert_eq!(
        (entry.kind, entry.address, entry.block, entry.block_bytes),
        (ErrorKind::BadFree as u16, 0x2008, 0x2000, 16)
    );
    assert!(entry.stacks[0].site != entry.stacks[1].site && entry.stacks[1].site.0 != 0);
    assert_eq!(live(&ledger).len(), 1);
}

#[test]
fn events_that_were_dropped_on_the_device_are_told() {
    let mut device = sample();
    device.numbers(1, &[12], 1).numbers(1, &[5], 1);
    let said = missing(&one(&device));
    assert_eq!(said, ["The device dropped 17 events for want of room."]);
}

#[test]
fn a_stream_without_heading_or_module_is_read_all_the_same() {
    let mut device = Device { bytes: vec![0; 10], says_core: None };
    device.numbers(24, &[HERTZ, 1, 1, 0], 0).alloc(0x2000, 16, &CALLERS);
    assert!(is_log(&device.bytes));
    let options = LogOptions { only: None, width: Width::W64 };
    let made = read_log(&device.bytes[..], options).expect("memory can be read");
    assert_eq!(made.len(), 1);
    let ledger = ledger(&[device.bytes.clone()]).expect("there are heap events");
    assert_eq!(live(&ledger).len(), 1);
    assert_eq!(ledger.process().all_of("remark.").count(), 1);
}

#[test]
fn streams_cut_anywhere_or_with_any_byte_changed_do_no_harm() {
    let whole = file(&sample());
    let all = live(&one(&sample())).len();
    for cut in 0..whole.len() {
        if let Some(ledger) = ledger(&[whole[..cut].to_vec()]) {
            assert!(live(&ledger).len() <= all + 1, "cut at {cut}");
        }
    }
    for at in 0..whole.len() {
        for value in [0, 0x7f, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            if let Some(ledger) = ledger(&[bytes]) {
                live(&ledger);
                freed(&ledger);
            }
        }
    }
    let mut endless = file(&Device::begun(None));
    endless.extend_from_slice(&[4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    assert!(ledger(&[endless]).is_none());
    let mut damaged = file(&sample());
    damaged.extend_from_slice(&[4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    let said = missing(&ledger(&[damaged]).expect("there are heap events"));
    assert!(said.len() == 1 && said[0].contains("a number has more than five bytes"), "{said:?}");
}

#[test]
fn the_report_of_esp_idf_s_script_is_written() {
    let mut device = Device::begun(None);
    device.task(7, "main").numbers(4, &[7], 1).alloc(0x3ffb_68a0, 8, &CALLERS).alloc(0x3ffb_7000, 16, &CALLERS[..1]);
    let mut message = Vec::new();
    text(&mut message, "hello");
    device.event(26, &[&message[..], &[0, 0]].concat(), 1);
    device.free(0x3ffb_68a0, &CALLERS).free(0x3ffb_7008, &CALLERS[..2]).free(0x3ffb_7010, &CALLERS[..2]);
    let file = file(&device);
    let written = |names: &mut HostNames<'_>| {
        let trace = HostTrace::read([&file[..]], HostForm::Text).expect("memory can be read");
        assert!(trace.is_any() && trace.stacks().len() >= 3);
        let mut out = Vec::new();
        assert_eq!(trace.report(names, &mut out).expect("memory can be written"), [""; 0]);
        String::from_utf8(out).expect("UTF-8")
    };
    let plain = "\
Processed 12 events
=============== LOG TRACE REPORT ===============
Processed 1 log messages.
=============== HEAP TRACE REPORT ===============
Processed 5 heap events.
[0.000002050] HEAP: Allocated 16 bytes @ 0x3ffb7000 from task \"main\" on core 0 by: 0x40081eff
Possible wrong free operation found
[0.000004075] HEAP: Freed bytes @ 0x3ffb7008 from task \"main\" on core 0 by: 0x40081eff:0x40081f34
Found 16 leaked bytes in 1 blocks.
";
    assert_eq!(written(&mut |_| Vec::new()), plain);
    let named = written(&mut |stack| stack.iter().map(|frame| format!("/app/main.c:{}", frame & 0xff)).collect());
    assert!(named.contains("by: \n/app/main.c:255\n\nPossible wrong free"), "{named}");
    let mut clean = Device::begun(None);
    clean.alloc(0x1000, 4, &[]).free(0x1000, &[]);
    let bytes = [HEADING.as_bytes(), &clean.bytes].concat();
    let mut out = Vec::new();
    let trace = HostTrace::read([&bytes[..]], HostForm::Text).expect("memory can be read");
    trace.report(&mut |_| Vec::new(), &mut out).expect("memory can be written");
    assert!(String::from_utf8_lossy(&out).ends_with("OK - Heap errors was not found.\n"));
}

#[test]
fn all_events_are_written_as_json_each_once_with_the_fields_of_the_script() {
    let mut device = Device::begun(None);
    device.task(7, "main \"x\"").numbers(4, &[7], 1).alloc(0x3ffb_68a0, 8, &CALLERS);
    let mut message = Vec::new();
    text(&mut message, "hello\n");
    device.event(26, &[&message[..], &[2, 0]].concat(), 1);
    device.numbers(2, &[5], 1).free(0x3ffb_68a0, &CALLERS[..1]).numbers(18, &[], 1).numbers(1, &[3], 1);
    device.numbers(40, &[1, 300], 1);
    let bytes = file(&device);
    let trace = HostTrace::read([&bytes[..]], HostForm::Json).expect("memory can be read");
    let mut out = Vec::new();
    let missing = trace.json(&mut out).expect("memory can be written");
    assert_eq!(missing, ["The device dropped 3 events for want of room."]);
    let all: Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!((&all["version"], &all["streams"]["heap"]), (&json!("1.0"), &json!({"alloc": 512, "free": 513})));
    assert_eq!(all["streams"]["log"], json!({"print": 26}));
    let events = all["events"].as_array().expect("events");
    // Start, clock, module and description; then each of these once.
    assert_eq!(events.len(), 4 + 9);
    let of = |id: u32| events.iter().filter(move |event| event["id"] == id).collect::<Vec<_>>();
    let [alloc] = of(512)[..] else { panic!("{events:?}") };
    let callers = ["0x40081eff", "0x40081f34", "0x4008da18", "0x0"];
    assert_eq!(
        alloc,
        &json!({"addr": "0x3ffb68a0", "callers": callers, "core_id": 0, "ctx_name": "main \"x\"", "id": 512,
            "in_irq": false, "size": 8, "ts": 0.000_001_05})
    );
    let [free] = of(513)[..] else { panic!("{events:?}") };
    assert_eq!(
        free,
        &json!({"addr": "0x3ffb68a0", "callers": callers[..1], "core_id": 0, "ctx_name": "SysTick", "id": 513,
            "in_irq": true, "size": 0, "ts": 0.000_002_1})
    );
    let [log] = of(26)[..] else { panic!("{events:?}") };
    assert_eq!((&log["msg"], &log["lvl"], &log["ctx_name"]), (&json!("hello\n"), &json!(2), &json!("main \"x\"")));
    assert_eq!(of(40)[0]["params"], json!({"param0": 1, "param1": 300}));
    assert_eq!(of(9)[0]["params"], json!({"tid": 7, "prio": 5, "name": "main \"x\""}));
    assert_eq!((&of(1)[0]["params"], &of(1)[0]["in_irq"]), (&json!({"lost": 3}), &json!(false)));
}

#[test]
fn one_core_alone_gives_a_whole_report_and_says_what_cannot_be_right() {
    // The other core frees what this one allocates, and so gives an address out again.
    let mut device = Device::begun(None);
    device.alloc(0x2000, 7, &CALLERS).alloc(0x2000, 9, &CALLERS).alloc(0x4000, 1, &[]).numbers(1, &[4], 1);
    let bytes = [&file(&device)[..], &[4, 0xff]].concat();
    let trace = HostTrace::read([&bytes[..]], HostForm::Text).expect("memory can be read");
    let mut out = Vec::new();
    let said = trace.report(&mut |_| Vec::new(), &mut out).expect("memory can be written");
    assert!(String::from_utf8_lossy(&out).ends_with("Found 10 leaked bytes in 2 blocks.\n"));
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].contains("core 0 ends within an event") && said[1].contains("dropped 4 events"), "{said:?}");
    assert!(said[2].starts_with("1 block was given out at an address at which another one still lived"), "{said:?}");
}

/// Live, cut anywhere into pieces, it is what the file gives; and of any beginning, what a file of that gives.
#[test]
fn a_stream_that_comes_piece_by_piece_gives_what_its_file_gives() {
    for heading in [HEADING, ""] {
        let bytes = [heading.as_bytes(), &sample().bytes].concat();
        let whole = ledger(std::slice::from_ref(&bytes)).expect("there are heap events");
        for piece in [1, 2, 3, 7, 64, bytes.len()] {
            let mut line = LiveLine::new(None);
            let mut seen = 0;
            for part in bytes.chunks(piece) {
                line.take(part).expect("memory can be read");
                // It can be looked at meanwhile, and only grows.
                for made in line.ledgers().expect("a file can be written") {
                    let now = Ledger::of_file(made.into_file().expect("a file"), Path::new("line")).expect("a ledger");
                    let allocations = now.tallies().expect("it can be read").get(TallyCounter::Allocations);
                    assert!(allocations >= seen);
                    seen = allocations;
                }
            }
            line.end().expect("memory can be read");
            let made = line.ledgers().expect("a file can be written").pop().expect("there are heap events");
            let received = Ledger::of_file(made.into_file().expect("a file"), Path::new("line")).expect("a ledger");
            assert_eq!((live(&received), freed(&received)), (live(&whole), freed(&whole)), "pieces of {piece}");
            assert_eq!(missing(&received), [""; 0]);
        }
        for cut in 0..bytes.len() {
            let mut line = LiveLine::new(None);
            line.take(&bytes[..cut]).expect("memory can be read");
            line.end().expect("memory can be read");
            let received =
                line.ledgers().expect("a file can be written").pop().map(|made| {
                    Ledger::of_file(made.into_file().expect("a file"), Path::new("line")).expect("a ledger")
                });
            let expected = ledger(&[bytes[..cut].to_vec()]);
            assert_eq!(received.is_some(), expected.is_some(), "cut at {cut}");
            if let (Some(received), Some(expected)) = (received, expected) {
                assert_eq!(
                    (live(&received), missing(&received)),
                    (live(&expected), missing(&expected)),
                    "cut at {cut}"
                );
            }
        }
    }
    let mut damaged = LiveLine::new(Some(heapledger_logs::log::LogKind::SystemView));
    damaged.take(&sample().bytes).expect("memory can be read");
    damaged.take(&[4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).expect("memory can be read");
    damaged.take(&[0; 100]).expect("memory can be read");
    damaged.end().expect("memory can be read");
    let made = damaged.ledgers().expect("a file can be written").pop().expect("there are heap events");
    let said = missing(&Ledger::of_file(made.into_file().expect("a file"), Path::new("line")).expect("a ledger"));
    assert!(said.len() == 1 && said[0].contains("a number has more than five bytes"), "{said:?}");
}

/// Each block is allocated on one core and freed right behind that on the other, whose file is the second one: what memory has no room for is
/// not lost, and in order.
#[test]
fn more_events_than_memory_is_to_hold_are_all_there() {
    const BLOCKS: u32 = 700_000;
    let mut cores = [Device::begun(None), Device::begun(None)];
    for block in 0..BLOCKS {
        let address = 0x3ffb_0000 + block % 1000 * 16;
        let [first, second] = if block == 0 { [10, 30] } else { [40, 40] };
        cores[0].numbers(MODULE, &[address, 8, 0x4008_1234], first);
        cores[1].numbers(MODULE + 1, &[address, 0x4008_5678], second);
    }
    let ledger = ledger(&cores.map(|core| file(&core))).expect("there are heap events");
    let tallies = ledger.tallies().expect("it can be read");
    let [all, unknown] = [TallyCounter::Allocations, TallyCounter::UnknownFrees].map(|counter| tallies.get(counter));
    assert_eq!((all, tallies.get(TallyCounter::Frees), unknown), (u64::from(BLOCKS), u64::from(BLOCKS), 0));
    assert_eq!((tallies.get(TallyCounter::Displaced), live(&ledger)), (0, vec![]));
    assert!(freed(&ledger).iter().all(|freed| freed.block.core == Some(0) && freed.core == Some(1)));
}
