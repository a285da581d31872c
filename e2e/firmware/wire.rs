//! Firmware for a Cortex-M3 that sends its heap events by its first serial line as they happen, with the crate
//! `heapledger-wire`; at the end it tells what one took: instructions in words of the console, a second serial line.
//! Built by `xtask/src/thumb.sh`, run by `e2e/tests/wire.rs`.
#![no_std]
#![no_main]

mod start;

use core::fmt::Write;
use core::ptr::with_exposed_provenance;

use heapledger_wire::line::Binary;
use heapledger_wire::message::Mark;
use heapledger_wire::{Line, Sender, WireEvent};
use start::{fail as end, write as put};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    end(101)
}

fn get(register: usize) -> u32 {
    // SAFETY: a register of this machine.
    unsafe { with_exposed_provenance::<u32>(register).read_volatile() }
}

/// The serial lines of the machine.
const EVENTS: usize = 0x4000_4000;
const CONSOLE: usize = 0x4000_5000;

/// Sends a byte, as soon as the line takes it.
fn send(line: usize, byte: u8) {
    while get(line + 4) & 1 != 0 {}
    put(line, u32::from(byte));
}

struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        text.bytes().for_each(|byte| send(CONSOLE, byte));
        Ok(())
    }
}

/// A line that takes everything and sends nothing: what sending itself takes is the line's, not ours.
struct Nowhere(u32);

impl Line for Nowhere {
    fn send(&mut self, frame: &[u8]) -> bool {
        self.0 = self.0.wrapping_add(frame.len() as u32);
        true
    }
}

/// Counts down, a tick for the processor's clock.
const TIMER_CONTROL: usize = 0xe000_e010;
const TIMER_RELOAD: usize = 0xe000_e014;
const TIMER: usize = 0xe000_e018;
const TIMER_TOP: u32 = 0xff_ffff;

/// Events like those of a firmware, in the same order each time.
fn run<L: Line>(sender: &mut Sender<L, 64>, count: u32) -> u32 {
    let (mut state, mut live) = (1u32, [0u32; 64]);
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    };
    let mut events = 0;
    for time in 0..count {
        let site = random() % 24;
        let stack: [u32; 6] = core::array::from_fn(|frame| 0x400 + site * 0x140 + frame as u32 * 0x48);
        let stack = &stack[..4 + site as usize % 3];
        let place = &mut live[random() as usize % 64];
        let time = time * 700;
        if *place != 0 {
            sender.free(&WireEvent { kind: 32, address: *place, size: 0, stack, task: site % 3, time });
            *place = 0;
        } else {
            *place = 0x2000_1000 + random() % 2048 * 8;
            sender.alloc(&WireEvent { kind: 1, address: *place, size: 8 + random() % 400, stack, task: site % 3, time });
        }
        events += 1;
    }
    sender.flush();
    events
}

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    for line in [EVENTS, CONSOLE] {
        put(line + 0x10, 16);
        put(line + 8, 1);
    }
    put(TIMER_RELOAD, TIMER_TOP);
    put(TIMER, 0);
    put(TIMER_CONTROL, 5);
    const COUNT: u32 = 2000;
    let mut nowhere: Sender<Nowhere, 64> = Sender::new(Nowhere(0), 0, 1, 1000);
    let before = get(TIMER);
    let events = run(&mut nowhere, COUNT);
    let ticks = before.wrapping_sub(get(TIMER)) & TIMER_TOP;
    // The same without sending, to be taken off.
    let mut stopped: Sender<Nowhere, 64> = Sender::new(Nowhere(0), 0, 1, 1000);
    stopped.mark(Mark::Stops, 0);
    let before = get(TIMER);
    run(&mut stopped, COUNT);
    let without = before.wrapping_sub(get(TIMER)) & TIMER_TOP;

    let mut bytes = 0u32;
    let mut sender: Sender<_, 64> = Sender::new(
        Binary(|packed: &[u8]| {
            bytes = bytes.wrapping_add(packed.len() as u32);
            packed.iter().for_each(|byte| send(EVENTS, *byte));
            true
        }),
        0,
        1,
        1000,
    );
    sender.task(0, b"main", 0);
    sender.task(1, b"wifi", 0);
    sender.task(2, b"idle", 0);
    run(&mut sender, COUNT);
    let _ = writeln!(Console, "events {events} bytes {bytes} ticks {ticks} without {without}");
    end(0)
}
