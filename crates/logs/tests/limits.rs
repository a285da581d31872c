//! Logs that hold more than anybody expects: thousands of dumps, of starts, of tasks, and lines without an end.

use std::fmt::Write;
use std::io::BufReader;
use std::path::Path;

use heapledger_format::TallyCounter;
use heapledger_logs::log::{LogLedger, LogOptions, read_log};
use heapledger_lws::Width;
use heapledger_source::Ledger;
use heapledger_wire::line::Text;
use heapledger_wire::{Sender, WireEvent};

fn read(log: &str) -> Vec<LogLedger> {
    let options = LogOptions { only: None, width: Width::W64 };
    read_log(BufReader::new(log.as_bytes()), options).expect("memory can be read")
}

fn open(made: LogLedger) -> Ledger {
    Ledger::of_file(made.into_file().expect("a file"), Path::new("log")).expect("a ledger")
}

fn missing(ledger: &Ledger) -> Vec<String> {
    ledger.process().all_of("missing.").collect()
}

fn files_open() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("it can be read").count()
}

fn dump(log: &mut String, block: usize) {
    writeln!(
        log,
        "====== Heap Trace: 1 records (8 capacity) ======\n{block:6} bytes (@ 0x3fc90010, Internal) allocated CPU 1 ccount 0x00002414 caller 0x40376321\n====== Heap Trace Summary ======\nMode: Heap Trace All\n{block} bytes alive in trace (1/1 allocations)\n================================"
    )
    .expect("a String has room");
}

#[test]
fn thousands_of_dumps_take_few_files_and_the_last_of_too_many_says_so() {
    let mut log = String::new();
    (1..=10_050).for_each(|block| dump(&mut log, block));
    let before = files_open();
    let mut made = read(&log);
    // Other tests open files, too.
    assert!(files_open() < before + 200, "{} files are open", files_open());
    assert_eq!(made.len(), 10_000);
    let bytes = |ledger: &Ledger| ledger.tallies().expect("it can be read").get(TallyCounter::BytesAllocated);
    let last = open(made.pop().expect("the last"));
    assert_eq!(bytes(&last), 10_050);
    assert_eq!(missing(&last), ["The log holds more ledgers than are kept: 50 before this one are left out."]);
    for (index, made) in made.into_iter().enumerate().filter(|(index, _)| [0, 63, 64, 65, 5000, 9998].contains(index)) {
        assert_eq!(made.name, format!("heap trace in line {}", 1 + index * 6));
        let ledger = open(made);
        assert_eq!((bytes(&ledger), missing(&ledger)), (index as u64 + 1, vec![]));
    }
}

#[test]
fn devices_that_start_again_and_again_take_few_files() {
    let mut log = String::new();
    for start in 0..1000u32 {
        let mut sender: Sender<_, 16> = Sender::new(
            Text(|line: &str| {
                log.push_str(line);
                true
            }),
            (start % 7) as u8,
            start + 1,
            1000,
        );
        for address in 0..20 {
            let event = WireEvent { kind: 1, address: address * 64, size: 8, stack: &[1, 2], task: 0, time: 0 };
            sender.alloc(&event);
            sender.free(&event);
        }
        sender.flush();
    }
    let before = files_open();
    let made = read(&log);
    assert!(files_open() < before + 200, "{} files are open", files_open());
    // So many starts that are over, and the last one of each of seven devices.
    assert_eq!(made.len(), 256 + 7);
    let last = open(made.into_iter().next_back().expect("the last"));
    let said = missing(&last);
    assert!(
        said.iter().any(|text| text.starts_with("The device started more often than ledgers are kept")),
        "{said:?}"
    );
}

#[test]
fn more_tasks_than_a_ledger_has_numbers_for_are_counted() {
    let mut log = String::new();
    for task in 0..60_010 {
        writeln!(
            log,
            "├ ALIVE: t{task}, CURRENT MEMORY USAGE 8, PEAK MEMORY USAGE 8, TOTAL HEAP USED 1:\n│    └ HEAP: RAM, CAPS: 0x0010580e, SIZE: 344400, USAGE: CURRENT 8 (0%), PEAK 8 (0%), ALLOC COUNT: 1"
        )
        .expect("a String has room");
    }
    let ledger = open(read(&log).pop().expect("a ledger"));
    assert_eq!(ledger.threads().expect("it can be read").len(), 60_000);
    assert_eq!(missing(&ledger), ["10 lines of the list found no room: it has more tasks or heaps than are kept."]);
}

#[test]
fn of_lines_without_an_end_the_rest_is_said_to_be_missing() {
    let mut log = String::from("~m#CF0AQAAKAAg=");
    log += &" other text".repeat(3000);
    log += " ~m#CF0AQAAKAAg=\n~m#CF0AQAAKAAg=\n";
    let ledger = open(read(&log).pop().expect("a ledger"));
    assert_eq!(ledger.tallies().expect("it can be read").get(TallyCounter::Allocations), 2);
    let said = missing(&ledger);
    assert_eq!(said, ["1 line is longer than 16 KiB, and what stands behind that was not read; the first: line 1."]);
    let mut dumped = String::new();
    dump(&mut dumped, 8);
    let joined = dumped.replace('\n', &" ".repeat(6000));
    let said = missing(&open(read(&joined).pop().expect("a ledger")));
    assert!(said.iter().any(|text| text.starts_with("1 line is longer than 16 KiB")), "{said:?}");
}
