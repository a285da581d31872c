//! The device's side: events become frames.

use crate::crc::crc16;
use crate::line::Line;
use crate::message::{CRC_BYTES, FOLLOWS, HEAD_BYTES, Mark, tag};
use crate::varint::Out;
use crate::{DEPTH_MAX, FRAME_BYTES_MAX, VERSION};

/// What is sent of an allocation or a free.
#[derive(Clone, Copy, Debug)]
pub struct WireEvent<'s> {
    /// The function, as ledgers number them.
    pub kind: u8,
    /// The block.
    pub address: u32,
    /// Bytes asked for; not of a free.
    pub size: u32,
    /// Return addresses, innermost first. More than 32 are cut.
    pub stack: &'s [u32],
    /// The task, by a number of the caller's.
    pub task: u32,
    /// When, in ticks.
    pub time: u32,
}

/// A stack that was sent: two hashes of it, and its number.
#[derive(Clone, Copy, Debug)]
struct SentStack {
    hash: [u32; 2],
    number: u32,
}

/// Events that are not sent yet, and what the host knows. `STACKS` of the stacks that were sent are remembered: a power of
/// two.
#[derive(Debug)]
pub struct Sender<L, const STACKS: usize> {
    line: L,
    device: u8,
    sequence: u8,
    tick_ns: u32,
    boot: u32,
    frame: [u8; FRAME_BYTES_MAX],
    at: usize,
    /// Events in the frame.
    events: u32,
    lost: u32,
    address: u32,
    time: u32,
    /// The task of the last event, plus 1.
    task: u32,
    begun: bool,
    window: Window,
    stacks: [SentStack; STACKS],
    next_stack: u32,
}

/// What is sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Window {
    Open,
    Paused,
    Stopped,
}

/// Most bytes of an event with its function and its task.
const EVENT_BYTES_MAX: usize = 2 + 4 * 5 + 6;
/// Places that a stack may have; a power of two.
const WAYS: usize = 4;
/// Most bytes of a stack before its frames.
const STACK_HEAD_BYTES: usize = 2 + 5;
/// Most bytes of what a frame may begin with: who sends, and what was lost.
const BEGIN_BYTES_MAX: usize = 3 + 5 + 5 + 1 + 5;

// A stack and its event fit into one frame.
const _: () = assert!(
    HEAD_BYTES + BEGIN_BYTES_MAX + STACK_HEAD_BYTES + DEPTH_MAX * 5 + EVENT_BYTES_MAX + CRC_BYTES <= FRAME_BYTES_MAX
);

const NO_STACK: SentStack = SentStack { hash: [0; 2], number: 0 };

impl<L: Line, const STACKS: usize> Sender<L, STACKS> {
    /// One that sends on `line` as that device. `boot` is a number that differs from start to start, of a clock or of noise;
    /// `tick_ns` is how long a tick of the times is, 0 if that is not known.
    pub const fn new(line: L, device: u8, boot: u32, tick_ns: u32) -> Sender<L, STACKS> {
        Sender {
            line,
            device,
            sequence: 0,
            tick_ns,
            boot,
            frame: [0; FRAME_BYTES_MAX],
            at: 0,
            events: 0,
            lost: 0,
            address: 0,
            time: 0,
            task: 0,
            begun: false,
            window: Window::Open,
            stacks: [NO_STACK; STACKS],
            next_stack: 0,
        }
    }

    /// A block was given.
    pub fn alloc(&mut self, event: &WireEvent<'_>) {
        if self.window == Window::Open {
            self.event(tag::ALLOC, event);
        }
    }

    /// A block was given back.
    pub fn free(&mut self, event: &WireEvent<'_>) {
        if self.window != Window::Stopped {
            self.event(tag::FREE, event);
        }
    }

    /// A call gave no block.
    pub fn failed(&mut self, size: u32, time: u32) {
        if self.window == Window::Open {
            self.mark(Mark::Failed(size), time);
        }
    }

    /// What is sent from here on: see [`Mark`]. Between [`Mark::LiveBegins`] and [`Mark::LiveEnds`] all live blocks are to be
    /// told as allocations, whether or not a window is open.
    pub fn mark(&mut self, mark: Mark, time: u32) {
        match mark {
            Mark::Starts | Mark::Resumes => self.window = Window::Open,
            Mark::Pauses => self.window = Window::Paused,
            Mark::Stops => self.window = Window::Stopped,
            Mark::LiveBegins | Mark::LiveEnds | Mark::Failed(_) => {}
        }
        self.room(8, time);
        let (small, size) = match mark {
            Mark::Starts => (0, None),
            Mark::Stops => (1, None),
            Mark::Pauses => (2, None),
            Mark::Resumes => (3, None),
            Mark::LiveBegins => (4, None),
            Mark::LiveEnds => (5, None),
            Mark::Failed(size) => (6, Some(size)),
        };
        let mut out = Out::new(&mut self.frame, self.at);
        out.byte(tag::MARK | small << 3);
        if let Some(size) = size {
            out.number(size);
        }
        self.at = out.at;
        // Windows are to be seen at once.
        self.flush();
    }

    /// A live block, of those that are told between [`Mark::LiveBegins`] and [`Mark::LiveEnds`].
    pub fn live(&mut self, event: &WireEvent<'_>) {
        self.event(tag::ALLOC, event);
    }

    /// What a task is called: 16 bytes of its name.
    pub fn task(&mut self, number: u32, name: &[u8], time: u32) {
        self.room(8 + 16, time);
        let name = name.get(..16).unwrap_or(name);
        let mut out = Out::new(&mut self.frame, self.at);
        out.byte(tag::TASK | (name.len() as u8) << 3);
        out.number(number);
        name.iter().for_each(|byte| out.byte(*byte));
        self.at = out.at;
    }

    /// Tells a host that joined late who sends; stacks are sent anew.
    pub fn introduce(&mut self, time: u32) {
        self.flush();
        self.forget();
        self.room(1, time);
    }

    /// The events that were lost and not told yet.
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// The line.
    pub fn line(&mut self) -> &mut L {
        &mut self.line
    }

    fn event(&mut self, tag: u8, event: &WireEvent<'_>) {
        let cut = event.stack.get(..DEPTH_MAX).unwrap_or(event.stack);
        let (mut number, is_new) = self.number_of(cut);
        // Mostly the stack is known, and there is room.
        if is_new || self.at == 0 || self.at > FRAME_BYTES_MAX - EVENT_BYTES_MAX - CRC_BYTES {
            number = self.make_room(number, is_new, cut, event.time);
        }
        self.write(tag, event, number);
    }

    /// Makes room for an event, and for its stack if the host does not know it; the number of that.
    #[inline(never)]
    fn make_room(&mut self, number: u32, is_new: bool, frames: &[u32], time: u32) -> u32 {
        let (mut number, mut is_new) = (number, is_new);
        let stack_bytes = if is_new { STACK_HEAD_BYTES.saturating_add(frames.len().saturating_mul(5)) } else { 0 };
        if !self.room(stack_bytes.saturating_add(EVENT_BYTES_MAX), time) {
            // The frame before was refused, so nothing is known to the host any more.
            (number, is_new) = self.number_of(frames);
            is_new |= number != 0;
        }
        if is_new {
            self.stack(number, frames);
        }
        number
    }

    fn write(&mut self, tag: u8, event: &WireEvent<'_>, stack: u32) {
        let task = event.task.wrapping_add(1);
        let mut out = Out::new(&mut self.frame, self.at);
        if task != self.task {
            out.byte(tag::SWITCH);
            out.number(event.task);
            self.task = task;
        }
        out.byte(tag | event.kind.min(FOLLOWS) << 3);
        if event.kind >= FOLLOWS {
            out.byte(event.kind);
        }
        out.step(self.address, event.address);
        if tag == tag::ALLOC {
            out.number(event.size);
        }
        out.number(stack);
        out.number(event.time.wrapping_sub(self.time));
        self.at = out.at;
        (self.address, self.time) = (event.address, event.time);
        self.events = self.events.wrapping_add(1);
    }

    /// The number of a stack, and whether the host does not know it yet. No stack has the number 0.
    fn number_of(&mut self, frames: &[u32]) -> (u32, bool) {
        if frames.is_empty() || STACKS == 0 {
            return (0, false);
        }
        let (mut one, mut other) = (0x811c_9dc5u32, 0x9e37_79b9u32);
        for frame in frames {
            one = (one ^ frame).wrapping_mul(0x0100_0193).rotate_left(13);
            other = other.rotate_left(7).wrapping_add(one ^ frame);
        }
        let hash = [one, other];
        let home = one as usize ^ (one >> 16) as usize;
        let number = self.next_stack.wrapping_add(1).max(1);
        // A few places are looked at; of those that are taken, each in turn makes room.
        let mut chosen = home.wrapping_add(number as usize & WAYS.wrapping_sub(1));
        for way in 0..WAYS {
            let place = home.wrapping_add(way);
            match self.stacks.get(place & STACKS.wrapping_sub(1)) {
                Some(slot) if slot.number != 0 && slot.hash == hash => return (slot.number, false),
                Some(slot) if slot.number == 0 => {
                    chosen = place;
                    break;
                }
                _ => {}
            }
        }
        let Some(slot) = self.stacks.get_mut(chosen & STACKS.wrapping_sub(1)) else { return (0, false) };
        *slot = SentStack { hash, number };
        self.next_stack = number;
        (number, true)
    }

    fn stack(&mut self, number: u32, frames: &[u32]) {
        let mut out = Out::new(&mut self.frame, self.at);
        let depth = frames.len() as u8;
        out.byte(tag::STACK | depth.min(FOLLOWS) << 3);
        if depth >= FOLLOWS {
            out.byte(depth);
        }
        out.number(number);
        let mut last = 0;
        for frame in frames {
            out.step(last, *frame);
            last = *frame;
        }
        self.at = out.at;
    }

    /// Begins a frame if there is none, or sends the one there is if so many bytes have no room. False if that one was
    /// refused.
    fn room(&mut self, bytes: usize, time: u32) -> bool {
        let mut kept = true;
        if self.at != 0 && self.at.saturating_add(bytes).saturating_add(CRC_BYTES) > FRAME_BYTES_MAX {
            kept = self.flush();
        }
        if self.at == 0 {
            self.head(time);
        }
        kept
    }

    fn head(&mut self, time: u32) {
        let mut out = Out::new(&mut self.frame, 0);
        out.byte(self.device);
        out.byte(self.sequence);
        time.to_le_bytes().into_iter().for_each(|byte| out.byte(byte));
        if !self.begun {
            out.byte(tag::BEGIN);
            out.byte(VERSION);
            out.byte(4);
            out.number(self.tick_ns);
            out.number(self.boot);
            self.begun = true;
        }
        if self.lost != 0 {
            out.byte(tag::LOST);
            out.number(self.lost);
        }
        self.at = out.at;
        (self.address, self.time, self.task, self.events) = (0, time, 0, 0);
    }

    /// Sends what there is. False if the line refused it.
    pub fn flush(&mut self) -> bool {
        if self.at == 0 {
            return true;
        }
        let crc = crc16(self.frame.get(..self.at).unwrap_or(&[]));
        let mut out = Out::new(&mut self.frame, self.at);
        crc.to_be_bytes().into_iter().for_each(|byte| out.byte(byte));
        let (end, fits) = (out.at, !out.full);
        self.at = 0;
        if fits && self.line.send(self.frame.get(..end).unwrap_or(&[])) {
            self.sequence = self.sequence.wrapping_add(1);
            self.lost = 0;
            return true;
        }
        self.lost = self.lost.saturating_add(self.events);
        self.events = 0;
        self.forget();
        false
    }

    /// What the host knows is not known.
    fn forget(&mut self) {
        self.stacks = [NO_STACK; STACKS];
        self.begun = false;
    }
}
