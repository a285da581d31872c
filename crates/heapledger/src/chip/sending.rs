//! A board's ledger by wire: what is entered is sent as it happens, and all live blocks when somebody asks.
//!
//! # Safety
//! A room with `unsafe`: it lends the sender to one at a time. Whoever has it is alone, as [`alone`](super::Board::alone) says or as an [`Entered`] shows, and
//! a flag shows whether the same one has it already.

use super::{Address, Books, Caller, Entered, Placed, Running, Word, breaks};
use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::marker::PhantomData;
use heapledger_lws::{encode_any, line as lws_line};
use heapledger_wire::message::Mark;
use heapledger_wire::{Line, Sender, WireEvent};

/// The number of interrupts among tasks.
const INTERRUPTS: u32 = u32::MAX - 1;
/// Most frames of a block that is told.
const FRAMES: usize = 31;
/// Most bytes of a line `~m#`, before they are text.
const BLOB_BYTES: usize = 300;

/// Sends what the ledger of a board enters, on a line that never waits. It is a static: [`entered`](super::Board::entered) hands it what happens. `STACKS` of the stacks that
/// were sent are remembered, a power of two.
///
/// ```
/// use heapledger::chip::{Board, Config, Entered, Sending};
/// use heapledger_wire::Line;
///
/// struct Uart;
/// impl Line for Uart {
///     fn send(&mut self, frame: &[u8]) -> bool {
///         // Puts all of it into a buffer that an interrupt empties, or says no.
///         # let _ = frame;
///         false
///     }
/// }
///
/// struct Firmware;
/// static SENDING: Sending<Firmware, Uart, 64> = Sending::new(Uart, 0, 1);
/// // SAFETY: there is one task, and no interrupt allocates.
/// unsafe impl Board for Firmware {
///     const CONFIG: Config<'static> = Config::minimal(500, 300);
///     fn entered(what: &Entered<'_, Self>) {
///         SENDING.entered(what);
///     }
/// }
/// heapledger::chip_ledger!(Firmware);
/// ```
pub struct Sending<B, L, const STACKS: usize> {
    sender: UnsafeCell<Sender<Emptied<L>, STACKS>>,
    is_lent: Cell<bool>,
    board: PhantomData<fn() -> B>,
}

/// A line that has no room for a frame is tried once more: a debugger that stops at `heapledger_line_full` has emptied the ring meanwhile.
struct Emptied<L>(L);

impl<L: Line> Line for Emptied<L> {
    fn send(&mut self, frame: &[u8]) -> bool {
        self.0.send(frame) || {
            breaks::line_full();
            self.0.send(frame)
        }
    }
}

// SAFETY: cell and flag are looked at by whoever is alone, as the board says.
unsafe impl<B, L: Send, const STACKS: usize> Sync for Sending<B, L, STACKS> {}

impl<B: Placed, L: Line, const STACKS: usize> Sending<B, L, STACKS> {
    /// One that sends on `line` as that device. `boot` is a number that differs from start to start.
    pub const fn new(line: L, device: u8, boot: u32) -> Self {
        let tick_ns = match B::CONFIG.clock {
            Some(clock) => clock.tick_ns,
            None => 0,
        };
        let sender = UnsafeCell::new(Sender::new(Emptied(line), device, boot, tick_ns));
        Sending { sender, is_lent: Cell::new(false), board: PhantomData }
    }

    /// Lends the sender to whoever is alone; not to a line that asks for it while it sends.
    fn lend<T>(&self, work: impl FnOnce(&mut Sender<Emptied<L>, STACKS>) -> T) -> Option<T> {
        if self.is_lent.replace(true) {
            return None;
        }
        // SAFETY: the caller is alone, and nobody who waits for this has it: the flag says so.
        let result = work(unsafe { &mut *self.sender.get() });
        self.is_lent.set(false);
        Some(result)
    }

    /// What was just entered.
    pub fn entered(&self, what: &Entered<'_, B>) {
        self.lend(|sender| match what {
            Entered::Block { kind, address, size, caller, time, .. } => {
                with_event(kind.number(), (*address, *size), caller, *time, |event| sender.alloc(event));
            }
            Entered::End { by, address, caller, time, .. } => {
                with_event(by.number(), (*address, 0), caller, *time, |event| sender.free(event));
            }
            Entered::Failed { time, .. } => sender.failed(0, *time as u32),
        });
    }

    /// Steers what is sent: see [`Mark`]. Where a window starts and stops, debuggers can stop as well: `heapledger_window_starts`,
    /// `heapledger_window_stops`.
    pub fn mark(&self, mark: Mark) {
        let time = Books::<B>::of().time() as u32;
        if mark == Mark::Starts {
            breaks::window_starts();
        }
        B::alone(|| self.lend(|sender| sender.mark(mark, time)));
        if mark == Mark::Stops {
            breaks::window_stops();
        }
    }

    /// What a task is called.
    pub fn task(&self, handle: Address, name: &str) {
        let time = Books::<B>::of().time() as u32;
        B::alone(|| self.lend(|sender| sender.task(handle as u32, name.as_bytes(), time)));
    }

    /// Sends what there is of a frame.
    pub fn flush(&self) {
        B::alone(|| self.lend(Sender::flush));
    }

    /// Tells who sends and all blocks that live, for a host that has joined late: to be called, by a task, when the host asks
    /// ([`heapledger_wire::line::Asked`]). Blocks come and go meanwhile: nobody is kept from running for longer than one look at all records takes.
    pub fn tell_live(&self) {
        let books = Books::<B>::of();
        let time = books.time() as u32;
        B::alone(|| {
            self.lend(|sender| {
                sender.introduce(time);
                sender.mark(Mark::LiveBegins, time);
            })
        });
        let (mut frames, mut after) = ([0; FRAMES], None);
        while let Some(block) = books.live_after(after, &mut frames) {
            after = Some(block.number);
            let running = match block.task {
                Some((_, handle)) if handle == Address::MAX => Running::Interrupt,
                Some((_, handle)) => Running::Task(handle),
                None => Running::Unknown,
            };
            let caller = Caller { frames: frames.get(..block.depth).unwrap_or(&[]), running, is_guessed: false };
            B::alone(|| {
                self.lend(|sender| {
                    let figures = (block.address, block.size);
                    with_event(block.kind.number(), figures, &caller, block.time, |event| sender.live(event));
                })
            });
        }
        self.mark(Mark::LiveEnds);
    }
}

/// An event of a board, as it goes over a line: 32 bits of what is wider.
fn with_event(
    kind: u8,
    (address, size): (Address, Address),
    caller: &Caller<'_, Address>,
    time: Address,
    send: impl FnOnce(&WireEvent<'_>),
) {
    let mut stack = [0; FRAMES];
    for (place, frame) in stack.iter_mut().zip(caller.frames) {
        *place = *frame as u32;
    }
    let task = match caller.running {
        Running::Unknown => 0,
        Running::Task(handle) => handle as u32,
        Running::Interrupt => INTERRUPTS,
    };
    let stack = stack.get(..caller.frames.len()).unwrap_or(&stack);
    send(&WireEvent { kind, address: address as u32, size: size as u32, stack, task, time: time as u32 });
}

impl<B: Placed> Books<B> {
    /// Writes a line `~m#…` of libwebsockets for every live block, oldest first, each with a line end. Blocks may come and go meanwhile.
    ///
    /// # Errors
    /// Those of `out`; the rest is not written.
    pub fn write_compressed(self, out: &mut impl fmt::Write) -> fmt::Result {
        self.each_live(&mut |frames, size| {
            let mut blob = [0; BLOB_BYTES];
            // Of what does not fit, the size alone does.
            let bytes = encode_any(frames, size, &mut blob).or_else(|_| encode_any(&[], size, &mut blob)).unwrap_or(0);
            lws_line::write_compressed(blob.get(..bytes).unwrap_or(&[]), out)?;
            out.write_str("\n")
        })
    }

    /// The same as lines `~b#size: …`.
    ///
    /// # Errors
    /// Those of `out`; the rest is not written.
    pub fn write_plain(self, out: &mut impl fmt::Write) -> fmt::Result {
        self.each_live(&mut |frames, size| {
            lws_line::write_plain(frames, size, out)?;
            out.write_str("\n")
        })
    }

    fn each_live(self, line: &mut dyn FnMut(&[u64], u64) -> fmt::Result) -> fmt::Result {
        let (mut frames, mut after) = ([0; FRAMES], None);
        while let Some(block) = self.live_after(after, &mut frames) {
            after = Some(block.number);
            let wide = frames.map(Word::widen);
            line(wide.get(..block.depth).unwrap_or(&[]), block.size.widen())?;
        }
        Ok(())
    }
}
