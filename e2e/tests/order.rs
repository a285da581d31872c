//! The order of a history, against the order that `victims/ordered.c` has logged under a lock, and against itself: nothing is
//! freed before it is allocated, no address has two lives at once, chains of `realloc` are whole.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::process::{self, PATIENCE, children, kill, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check, victim};

/// What an event of the victim's log did.
const GIVEN: u32 = 1;
const TAKEN: u32 = 2;
const LOGGED_BYTES: usize = 48;

/// An event of the history, as `--columns` tells it.
#[derive(Clone, Debug, PartialEq)]
struct Told {
    is_free: bool,
    address: u64,
    bytes: u64,
    number: u64,
    time_ns: u64,
    row: u64,
    function: String,
    kind: String,
    allocated_as: u64,
}

/// An event of the victim's log, with the coarse clock before and after it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Logged {
    begin_ns: u64,
    end_ns: u64,
    is_free: bool,
    address: u64,
    thread: u64,
}

const COLUMNS: &str = "event,addr,actual,number,time,thread,fn,kind,alloc_number";

fn history(ledger: &Path, more: &[&str]) -> Result<Vec<Told>> {
    let mut asked = command(heapledger());
    asked.args(["history", "--csv", "--limit", "0", "--columns", COLUMNS]).args(more).arg(ledger);
    let ran = process::run_within(&mut asked, PATIENCE)?.good()?;
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let told = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let [event, address, bytes, time_number, time, thread, function, kind, allocated_as] = cells[..] else {
            return None;
        };
        Some(Told {
            is_free: event == "free",
            address: number(address)?,
            bytes: number(bytes)?,
            number: number(time_number)?,
            time_ns: number(time)?,
            row: number(thread.split(' ').next()?)?,
            function: function.to_owned(),
            kind: kind.to_owned(),
            allocated_as: number(allocated_as)?,
        })
    };
    let out = ran.out();
    let lines = out.lines().skip(1).map(|line| told(line).ok_or_else(|| format!("an odd line: {line}")));
    lines.collect()
}

/// Holds a history against itself.
fn check_itself(events: &[Told]) -> Result {
    check!(events.len() > 1000, "only {} events", events.len());
    // Live blocks: where they begin, where they end, number.
    let mut live: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut before: Option<&Told> = None;
    for event in events {
        if let Some(before) = before {
            check!(before.number <= event.number, "numbers fall:\n{before:?}\n{event:?}");
            check!(before.time_ns <= event.time_ns, "times fall:\n{before:?}\n{event:?}");
        }
        before = Some(event);
        let end = event.address + event.bytes.max(1);
        if event.is_free {
            let known = live.remove(&event.address);
            check!(known.is_some_and(|(_, number)| number == event.allocated_as), "freed, but {known:?}: {event:?}");
        } else {
            let near = live.range(..end).next_back();
            let over = near.filter(|(_, (other_end, _))| *other_end > event.address);
            check!(over.is_none(), "two lives: {over:x?} and {event:x?}");
            live.insert(event.address, (end, event.number));
        }
    }
    Ok(())
}

fn log(path: &Path) -> Result<Vec<Logged>> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut all = Vec::new();
    for event in bytes.chunks_exact(LOGGED_BYTES) {
        let (words, _) = event.as_chunks::<8>();
        let [begin_ns, end_ns, address, to, _, _] = std::array::from_fn(|word| u64::from_le_bytes(words[word]));
        let (thread, what) = (words[4], words[5]);
        let thread = u64::from(u32::from_le_bytes([thread[4], thread[5], thread[6], thread[7]]));
        let what = u32::from_le_bytes([what[0], what[1], what[2], what[3]]);
        let one = |is_free, address| Logged { begin_ns, end_ns, is_free, address, thread };
        match what {
            GIVEN => all.push(one(false, address)),
            TAKEN => all.push(one(true, address)),
            _ => all.extend([one(true, address), one(false, to)]),
        }
    }
    Ok(all)
}

/// Holds a history against the log of a run whose events were all logged in their true order.
fn check_against(events: &[Told], log: &[Logged], ledger: &Path) -> Result {
    let stats = Stats::of(ledger)?;
    let threads = stats.0["threads"].as_array().ok_or("no threads")?;
    let of_row = |key: &str| threads.iter().filter_map(|thread| thread[key].as_u64()).collect::<Vec<u64>>();
    let ids: HashMap<u64, u64> = of_row("row").into_iter().zip(of_row("id")).collect();
    // The program's own events, by thread and by address, with their places in the history.
    let own = |event: &&Told| ["give", "take", "move"].contains(&event.function.as_str());
    let own: Vec<&Told> = events.iter().filter(own).collect();
    check!(own.len() == log.len(), "{} events in the history, {} in the log", own.len(), log.len());
    let (mut by_thread, mut by_address): (HashMap<u64, Vec<usize>>, HashMap<u64, Vec<usize>>) = Default::default();
    for (place, event) in own.iter().enumerate() {
        by_thread.entry(ids.get(&event.row).copied().unwrap_or(0)).or_default().push(place);
        by_address.entry(event.address).or_default().push(place);
    }
    let mut next: HashMap<(bool, u64), usize> = HashMap::new();
    let mut take = |lists: &HashMap<u64, Vec<usize>>, is_thread: bool, key: u64| {
        let at = next.entry((is_thread, key)).or_default();
        *at += 1;
        lists.get(&key).and_then(|list| list.get(*at - 1)).copied()
    };
    let mut places = Vec::new();
    for event in log {
        let place = take(&by_thread, true, event.thread);
        let told = place.and_then(|place| own.get(place));
        let same = told.is_some_and(|told| (told.is_free, told.address) == (event.is_free, event.address));
        check!(same, "of thread {} comes {told:x?} and not {event:x?}", event.thread);
        check!(
            take(&by_address, false, event.address) == place,
            "of {:#x} it is not {told:x?} that comes",
            event.address
        );
        places.extend(place);
    }
    // Events of different threads that nothing but the program's lock puts in order may be out of order within a step of the
    // coarse clock, and no further.
    let (mut earlier, mut highest) = (0, None);
    for (event, place) in log.iter().zip(&places) {
        while let Some(other) = log.get(earlier).filter(|other| other.end_ns < event.begin_ns) {
            highest = highest.max(places.get(earlier).copied().map(|place| (place, other.end_ns)));
            earlier += 1;
        }
        if let Some((other, end_ns)) = highest {
            let apart = Duration::from_nanos(event.begin_ns - end_ns);
            check!(other < *place, "{apart:?} after {:x?} came {:x?}, which is told first", own[other], own[*place]);
        }
    }
    Ok(())
}

/// The ledger and the log of a run.
fn run(scratch: &Scratch, way: &[&str], options: &[&str]) -> Result<(PathBuf, PathBuf)> {
    let program = victim::named("ordered")?.build()?;
    let log = scratch.path("log");
    let mut arguments: Vec<String> = way.iter().map(|text| (*text).to_owned()).collect();
    arguments.push(log.to_string_lossy().into_owned());
    run_cleanly(scratch, &mut under_run(scratch, "x", options, &program, &arguments))?.good()?;
    Ok((scratch.path("x.hl"), log))
}

const ALL: &[&str] = &["--history", "1000000"];

#[test]
fn events_that_a_lock_orders() -> Result {
    for way in [&["held", "2", "10000"], &["held", "5", "4000"], &["held", "64", "300"]] {
        let scratch = Scratch::new();
        let (ledger, truth) = run(&scratch, way, ALL)?;
        let events = history(&ledger, &[])?;
        check_itself(&events).map_err(|problem| format!("{way:?}: {problem}"))?;
        check_against(&events, &log(&truth)?, &ledger).map_err(|problem| format!("{way:?}: {problem}"))?;
    }
    Ok(())
}

#[test]
fn a_thread_that_was_idle_has_no_old_numbers_left() -> Result {
    let scratch = Scratch::new();
    let (ledger, truth) = run(&scratch, &["idle", "3", "2000"], ALL)?;
    let events = history(&ledger, &[])?;
    check_itself(&events)?;
    check_against(&events, &log(&truth)?, &ledger)
}

#[test]
fn blocks_that_go_from_thread_to_thread_without_a_lock() -> Result {
    for way in [&["loose", "2", "40000"], &["loose", "8", "6000"], &["loose", "64", "700"]] {
        let scratch = Scratch::new();
        let (ledger, truth) = run(&scratch, way, ALL)?;
        let events = history(&ledger, &[])?;
        check_itself(&events).map_err(|problem| format!("{way:?}: {problem}"))?;
        let own = events.iter().filter(|event| ["give", "take", "move"].contains(&event.function.as_str())).count();
        check!(own == log(&truth)?.len(), "{way:?}: {own} events");
        chains_are_whole(&ledger, &events)?;
        // By number alone it is the same order, and from the end, and with any part of it cut off.
        let by_number = history(&ledger, &["--sort", "number:asc"])?;
        check!(by_number.iter().map(|event| event.number).is_sorted(), "{way:?}: not sorted");
        let middle = events.get(events.len() / 2).map_or(0, |event| event.number);
        let cut = history(&ledger, &["--where", &format!("number < {middle}")])?;
        check!(cut.iter().eq(events.iter().take_while(|event| event.number < middle)), "{way:?}: cut at {middle}");
    }
    Ok(())
}

/// The block that a `realloc` gave comes right after the end of the one that it took, in its thread and in its chain.
fn chains_are_whole(ledger: &Path, events: &[Told]) -> Result {
    let mut moved: HashMap<u64, &Told> = HashMap::new();
    let (mut chained, mut apart) = (0, None);
    for event in events {
        match moved.remove(&event.row) {
            Some(end) => {
                check!(!event.is_free && event.kind == "realloc", "{end:?} is followed by {event:?}");
                chained += 1;
                if end.number != event.number {
                    apart = Some(end);
                }
            }
            None if event.is_free && event.kind == "realloc" => drop(moved.insert(event.row, event)),
            None => {}
        }
    }
    check!(chained > 100 && moved.is_empty(), "{chained} and {moved:?}");
    // One with two numbers, if there is one: that is rare.
    let some = events.iter().rev().find(|event| event.is_free && event.kind == "realloc");
    for end in apart.into_iter().chain(some) {
        let address = format!("{:#x}", end.address);
        let lives = read("history", ledger, &["--addr", &address, "--limit", "0"])?;
        let life = lives.iter().find(|life| life["allocation"]["number"].as_u64() == Some(end.allocated_as));
        let life = life.ok_or_else(|| format!("{end:?} is not among the lives of {address}"))?;
        check!(life["moved_to"].is_string(), "{end:?} goes nowhere: {life}");
    }
    Ok(())
}

#[test]
fn a_ring_that_was_overwritten_and_a_part_of_all_blocks() -> Result {
    for options in [&["--history", "1024"][..], &["--history", "1000000", "--sample", "3K"]] {
        let scratch = Scratch::new();
        let (ledger, _) = run(&scratch, &["loose", "8", "6000"], options)?;
        check_itself(&history(&ledger, &[])?).map_err(|problem| format!("{options:?}: {problem}"))?;
    }
    Ok(())
}

#[test]
fn a_program_that_goes_on() -> Result {
    let scratch = Scratch::new();
    let program = victim::named("ordered")?.build()?;
    let log = scratch.path("log").to_string_lossy().into_owned();
    let arguments = ["loose", "6", "6000", &log, "stop"].map(str::to_owned);
    let mut command = under_run(&scratch, "x", ALL, &program, &arguments);
    let running = process::start(command.stdin(Stdio::null()).stdout(Stdio::null()))?;
    let stopped = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" T"))
    };
    until("the program has stopped itself", || children(running.pid()).first().is_some_and(|pid| stopped(*pid)))?;
    let pid = *children(running.pid()).first().ok_or("no child")?;
    let live = scratch.unfinished().into_iter().next().ok_or("no ledger")?;
    let half = history(&live, &[]);
    kill(pid.into(), "CONT")?;
    running.finish(PATIENCE)?.good()?;
    let (half, whole) = (half?, history(&scratch.path("x.hl"), &[])?);
    check_itself(&half).map_err(|problem| format!("half way: {problem}"))?;
    check_itself(&whole)?;
    // What was told half way is where all begins.
    let place = |event: &Told| (event.number, event.is_free, event.address);
    check!(half.iter().map(place).eq(whole.iter().take(half.len()).map(place)), "what was there first is no longer so");
    Ok(())
}
