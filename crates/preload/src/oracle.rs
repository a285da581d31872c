//! Test builds only: every sampled stack is compared with what libgcc's unwinder says.
//!
//! Results go to the file that `HEAPLEDGER_ORACLE` names: a line for each stack that differs, and
//! beside it `….count` with two 64-bit numbers, stacks compared and stacks that differ.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use heapledger_linux::syscall::{self, open_flag};
use heapledger_linux::text::Text;
use heapledger_linux::{memory::PATH_BYTES_MAX, process, text};
use heapledger_process::capture;
use heapledger_unwind::Registers;

const FRAMES_MAX: usize = 8192;
const DIFFERENCES_MAX: u64 = 1000;

#[repr(C)]
struct UnwindContext {
    opaque: [u8; 0],
}

#[link(name = "gcc_s")]
unsafe extern "C" {
    fn _Unwind_Backtrace(each: extern "C" fn(*mut UnwindContext, *mut Trace) -> i32, trace: *mut Trace) -> i32;
    fn _Unwind_GetIPInfo(context: *mut UnwindContext, before: *mut i32) -> usize;
}

#[repr(C)]
struct Trace {
    frames: [u64; FRAMES_MAX],
    count: usize,
}

struct Shared {
    trace: core::cell::UnsafeCell<Trace>,
    in_use: AtomicBool,
}

// SAFETY: `trace` is only touched by who set `in_use`.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared {
    trace: core::cell::UnsafeCell::new(Trace { frames: [0; FRAMES_MAX], count: 0 }),
    in_use: AtomicBool::new(false),
};
static FILE: AtomicUsize = AtomicUsize::new(0);
static COUNTS: AtomicUsize = AtomicUsize::new(0);
static EVERY: AtomicU64 = AtomicU64::new(1);
static SEEN: AtomicU64 = AtomicU64::new(0);

/// Opens the files, if asked to.
pub(crate) fn start() {
    let Some(path) = process::environment::<PATH_BYTES_MAX>(b"HEAPLEDGER_ORACLE") else { return };
    if let Some(every) = process::environment::<24>(b"HEAPLEDGER_ORACLE_EVERY").and_then(|n| text::number(n.bytes())) {
        EVERY.store(every.max(1), Ordering::Relaxed);
    }
    let flags = open_flag::READ_WRITE | open_flag::CREATE | open_flag::APPEND | open_flag::CLOSE_ON_EXEC;
    let mut counts = Text::<PATH_BYTES_MAX>::new();
    counts.push(path.bytes()).push(b".count");
    let mapped = syscall::open(counts.c_str(), flags, 0o600).and_then(|fd| {
        syscall::set_length(fd, 4096)?;
        let memory = syscall::map_shared(fd, 4096);
        syscall::close(fd);
        memory
    });
    let (Ok(memory), Ok(file)) = (mapped, syscall::open(path.c_str(), flags, 0o600)) else { return };
    COUNTS.store(memory as usize, Ordering::Release);
    FILE.store(file, Ordering::Release);
    static CHECK: capture::Check = check;
    capture::set_check(&CHECK);
}

fn counter(index: usize) -> &'static AtomicU64 {
    // SAFETY: a word of the page mapped in `start`, before `check` was installed.
    unsafe { &*(COUNTS.load(Ordering::Acquire) as *const AtomicU64).add(index) }
}

extern "C" fn each(context: *mut UnwindContext, trace: *mut Trace) -> i32 {
    const GO_ON: i32 = 0;
    const STOP: i32 = 4;
    let mut before = 0;
    // SAFETY: called by libgcc with its context and the trace that `check` passed.
    let (ip, trace) = unsafe { (_Unwind_GetIPInfo(context, &mut before), &mut *trace) };
    // As the recorder has it: one more than the address of an interrupted instruction.
    let frame = (ip as u64).wrapping_add(u64::from(before != 0));
    match trace.frames.get_mut(trace.count) {
        Some(place) => {
            *place = frame;
            trace.count = trace.count.wrapping_add(1);
            GO_ON
        }
        None => STOP,
    }
}

fn check(registers: &Registers, ours: &[u64], complete: bool) {
    if !SEEN.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY.load(Ordering::Relaxed)) {
        return;
    }
    if SHARED.in_use.swap(true, Ordering::Acquire) {
        return;
    }
    // SAFETY: `in_use` was free, so nobody else touches the trace.
    let trace = unsafe { &mut *SHARED.trace.get() };
    trace.count = 0;
    // SAFETY: our own frames and stubs carry call-frame information.
    unsafe { _Unwind_Backtrace(each, trace) };
    let all = trace.frames.get(..trace.count).unwrap_or(&[]);
    let first = all.iter().position(|frame| *frame == registers.ip).unwrap_or(all.len());
    let mut theirs = all.get(first..).unwrap_or(&[]);
    // libgcc also reports the end of the chain when it is a zero address.
    if let Some((0 | 1, rest)) = theirs.split_last() {
        theirs = rest;
    }
    let same = if complete { theirs == ours } else { theirs.get(..ours.len()) == Some(ours) };
    counter(0).fetch_add(1, Ordering::Relaxed);
    if !same && counter(1).fetch_add(1, Ordering::Relaxed) < DIFFERENCES_MAX {
        report(ours, theirs, complete);
    }
    SHARED.in_use.store(false, Ordering::Release);
}

fn report(ours: &[u64], theirs: &[u64], complete: bool) {
    let mut line = Text::<4096>::new();
    line.push(if complete { b"differs complete" } else { b"differs cut" });
    let at = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    line.push(b" at ").push_number(at as u64);
    line.push(b" of ").push_number(ours.len() as u64).push(b"/").push_number(theirs.len() as u64);
    for (name, frames) in [(&b" ours"[..], ours), (b" theirs", theirs)] {
        line.push(name);
        for frame in frames.iter().skip(at.saturating_sub(2)).take(6) {
            line.push(b" ").push_hex(*frame);
        }
    }
    line.push(b"\n");
    let _ = syscall::write(FILE.load(Ordering::Acquire), line.bytes());
}
