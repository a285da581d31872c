//! A made-up program: it calls and returns, switches stacks, takes signals, jumps, loads and unloads code.
//!
//! It keeps its frames as the tables say, but for what is stored over them on purpose: unwinding must be the same
//! with any words on the stack.

mod functions;
mod memory;

pub(crate) use functions::{APART, CODE, Frame, Function, GENERATED, LENGTH, Saved};
pub(crate) use memory::Memory;

use functions::{PUSHED, SECOND_HALF};
use heapledger_unwind::Registers;

/// Numbers that look random, the same ones each time.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit
    }

    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
struct Call {
    function: Function,
    /// `rsp` in the first half of the function.
    sp: u64,
    bp: u64,
}

/// A stack of calls, outermost first.
struct Fiber {
    home: usize,
    calls: Vec<Call>,
    /// All words are as the functions left them.
    is_sane: bool,
}

/// The program.
pub(crate) struct Machine {
    pub(crate) memory: Memory,
    pub(crate) dice: Dice,
    fibers: [Fiber; 2],
    current: usize,
    functions: Vec<Function>,
    /// Indices of the functions that are called these days: few, so that stacks come again.
    cast: Vec<usize>,
    /// Where in a function calls are, these days.
    sites: [u64; 2],
}

const SITES: [u64; 6] = [0x10, 0x2b, 0x3c, 0x80, 0x90, 0xab];
const CALLS_MAX: usize = 24;

/// Functions that store outside of their frames, or do not keep what they destroy.
fn is_wild(frame: Frame) -> bool {
    !frame.can_be_proven() && matches!(frame, Frame::Plain { .. })
        || matches!(frame, Frame::Plain { saved: Saved::AtTop(8) | Saved::AtSp(-8), .. })
        || matches!(frame, Frame::Pointer { saved: Saved::Nowhere, .. } | Frame::Realigned { saved: Saved::Nowhere })
}

impl Machine {
    pub(crate) fn new(seed: u64, knows_all: bool) -> Self {
        let fiber = |home| Fiber { home, calls: vec![], is_sane: true };
        let mut machine = Self {
            memory: Memory::new(knows_all),
            dice: Dice::new(seed),
            fibers: [fiber(0), fiber(1)],
            current: 0,
            functions: functions::functions(0, false),
            cast: vec![],
            sites: [0; 2],
        };
        machine.recast();
        for current in [1, 0] {
            machine.current = current;
            machine.begin();
        }
        machine
    }

    fn fiber(&mut self) -> &mut Fiber {
        &mut self.fibers[self.current]
    }

    fn top(&self) -> Call {
        *self.fibers[self.current].calls.last().expect("a fiber has an outermost function")
    }

    /// Whether the stack is as the functions left it.
    pub(crate) fn is_sane(&self) -> bool {
        self.fibers[self.current].is_sane
    }

    /// Something was stored over the stack for good.
    pub(crate) fn goes_wild(&mut self) {
        self.fiber().is_sane = false;
    }

    /// The function that holds an address.
    pub(crate) fn function_at(&self, address: u64) -> Option<Function> {
        self.functions.iter().copied().find(|function| address.wrapping_sub(function.start) < LENGTH)
    }

    /// Other functions call each other from now on.
    pub(crate) fn recast(&mut self) {
        let wild = self.dice.one_in(4);
        self.cast.clear();
        while self.cast.len() < 6 {
            let index = self.dice.below(self.functions.len() as u64) as usize;
            let frame = self.functions[index].frame;
            let fits = match frame {
                Frame::Signal | Frame::Bottom => false,
                Frame::General | Frame::Broken | Frame::Linkage | Frame::Bare => self.dice.one_in(8),
                frame => wild || !is_wild(frame),
            };
            if fits {
                self.cast.push(index);
            }
        }
        self.sites = [self.dice.pick(&SITES), self.dice.pick(&SITES)];
    }

    /// The fiber begins anew.
    pub(crate) fn begin(&mut self) {
        let end = Memory::range(self.fiber().home).end;
        self.fiber().calls.clear();
        let mut function = self.functions[self.dice.pick(&self.cast.clone())];
        let mut cfa = end - 64;
        let mut caller = 0;
        match self.dice.below(16) {
            0..6 => function = self.of(Frame::Bottom),
            6..10 => caller = APART,
            10 if self.dice.one_in(2) => caller = GENERATED + 0x10,
            11 if self.dice.one_in(2) => cfa = end + 8, // its return address cannot be read
            _ => {}
        }
        let bp = if self.dice.one_in(2) { 0 } else { self.plausible(end - 128) };
        self.memory.set(cfa - 8, caller);
        self.enter(function, cfa, bp);
        // A function that stores outside of its frame hits nobody's here.
        self.fiber().is_sane = true;
        for _ in 0..self.dice.below(10) {
            self.call();
        }
    }

    /// Some function with this frame.
    fn of(&self, frame: Frame) -> Function {
        *self.functions.iter().find(|function| function.frame == frame).expect("there is one of each")
    }

    /// `rsp` at a byte of the function where it calls something or is interrupted. `in_entry` is what the table of linkage
    /// entries asks about.
    fn sp_at(call: Call, offset: u64, in_entry: u64) -> u64 {
        match call.function.frame {
            frame if frame.pushes() && offset >= SECOND_HALF => call.sp - PUSHED,
            Frame::Linkage if in_entry >= 11 => call.sp - 8,
            _ => call.sp,
        }
    }

    /// The registers at a hook that the innermost function calls.
    pub(crate) fn hook(&mut self) -> Registers {
        let call = self.top();
        let site = self.dice.pick(&self.sites);
        let (sp, ip) = (Self::sp_at(call, site - 1, site % 16), call.function.start + site);
        self.memory.set(sp - 8, ip);
        self.memory.stands_at(sp);
        Registers { ip, sp, bp: call.bp, ..Registers::default() }
    }

    /// The innermost function calls one of the cast.
    pub(crate) fn call(&mut self) {
        let function = self.functions[self.dice.pick(&self.cast.clone())];
        self.call_of(function);
    }

    fn call_of(&mut self, function: Function) {
        let registers = self.hook();
        let Some(stack) = Memory::stack_of(registers.sp) else { return };
        let room = registers.sp - Memory::range(stack).start;
        if self.fiber().calls.len() >= CALLS_MAX || room < 0x4400 {
            return self.leave(1);
        }
        self.enter(function, registers.sp, registers.bp);
    }

    /// Its return address is stored; it makes its frame.
    fn enter(&mut self, function: Function, cfa: u64, caller_bp: u64) {
        let mut save = |address| self.memory.set(address, caller_bp);
        let (sp, bp) = match function.frame {
            Frame::Plain { words, saved } | Frame::Pointer { words, saved } => {
                let is_plain = matches!(function.frame, Frame::Plain { .. });
                let sp = if is_plain { cfa - 8 * words } else { cfa - 8 * words - 16 };
                let own = if is_plain { sp + 16 } else { cfa - 8 * words };
                match saved {
                    Saved::Nowhere => {}
                    Saved::AtTop(offset) => save(cfa.wrapping_add_signed(offset)),
                    Saved::AtBp(offset) => save(own.wrapping_add_signed(offset)),
                    Saved::AtSp(offset) => save(sp.wrapping_add_signed(offset)),
                }
                let bp = match saved {
                    Saved::Nowhere if is_plain => caller_bp,
                    Saved::AtBp(_) => own,
                    _ if !is_plain => own,
                    _ => self.used(caller_bp, cfa),
                };
                (sp, bp)
            }
            Frame::Realigned { saved } => {
                let top = (cfa - 8) & !31;
                let bp = top - 16;
                if saved != Saved::Nowhere {
                    save(bp);
                }
                self.memory.set(top - 8, self.memory.get(cfa - 8).unwrap_or(0));
                self.memory.set(bp - 8, cfa);
                (bp - 32, bp)
            }
            Frame::Stored { saved } => {
                let sp = cfa - 32;
                if saved != Saved::Nowhere {
                    save(sp + 8);
                }
                self.memory.set(sp + 16, cfa);
                let bp = if saved == Saved::Nowhere { caller_bp } else { self.used(caller_bp, cfa) };
                (sp, bp)
            }
            Frame::Bare => {
                save(cfa - 16);
                (cfa - 32, cfa - 16)
            }
            Frame::Linkage => (cfa - 8, caller_bp),
            Frame::General => (cfa - 32, caller_bp),
            Frame::Broken | Frame::Bottom | Frame::Signal => (cfa - 16, caller_bp),
        };
        let fiber = self.fiber();
        fiber.is_sane &= !is_wild(function.frame);
        fiber.calls.push(Call { function, sp, bp });
    }

    /// What a function that has saved `rbp` has in it.
    fn used(&mut self, bp: u64, near: u64) -> u64 {
        if self.dice.one_in(2) { bp } else { self.plausible(near) }
    }

    /// A signal is taken: its handler runs here, or on the stack that is for handlers.
    pub(crate) fn signal(&mut self) {
        let call = self.top();
        let offset = self.dice.below(LENGTH);
        let (sp, ip) = (Self::sp_at(call, offset, offset % 16), call.function.start + offset);
        let mut frame = (sp - 256) & !15;
        if self.dice.one_in(2) && Memory::stack_of(sp) != Some(2) {
            frame = Memory::range(2).end - 128;
        }
        if Memory::stack_of(frame) != Memory::stack_of(frame - 0x100) {
            return;
        }
        if self.dice.one_in(2) {
            // What an earlier call may have left below: it looks as if the interrupted function had been called.
            self.memory.set(sp - 8, ip + 1);
        }
        for (offset, value) in [(16, sp), (24, call.bp), (32, ip)] {
            self.memory.set(frame + offset, value);
        }
        let function = self.of(Frame::Signal);
        self.fiber().calls.push(Call { function, sp: frame, bp: call.bp });
        self.call();
    }

    /// So many functions return, or are jumped out of.
    pub(crate) fn leave(&mut self, count: usize) {
        let calls = &mut self.fiber().calls;
        calls.truncate(calls.len().saturating_sub(count).max(1));
    }

    /// The innermost function takes room on the stack, if it is one that can.
    pub(crate) fn alloca(&mut self) {
        let bytes = 16 * self.dice.below(5);
        let Some(call) = self.fiber().calls.last_mut() else { return };
        match call.function.frame {
            Frame::Pointer { words, saved: Saved::AtTop(_) | Saved::AtBp(_) } => {
                call.sp = call.bp - 16 - 8 * (words % 4) - bytes;
            }
            Frame::Realigned { .. } => call.sp = call.bp - 32 - bytes,
            Frame::Bare => call.sp = call.bp - 16 - bytes,
            _ => {}
        }
    }

    /// The other fiber goes on.
    pub(crate) fn switch(&mut self) {
        self.current = 1 - self.current;
    }

    /// The plugin is unloaded and the other one loaded, and where code is generated there is no module any more. Calls of
    /// either may still be on the stacks.
    pub(crate) fn unload(&mut self) {
        self.memory.plugin = 1 - self.memory.plugin;
        self.memory.loaded = false;
        self.memory.forget_rules();
        self.load_functions();
    }

    /// A module is loaded where code was generated.
    pub(crate) fn load(&mut self) {
        self.memory.loaded = true;
        self.memory.forget_rules();
        self.load_functions();
    }

    fn load_functions(&mut self) {
        self.functions = functions::functions(self.memory.plugin, self.memory.loaded);
        let begins = self.dice.one_in(2);
        for _ in 0..2 {
            self.switch();
            self.fiber().is_sane = false;
            if begins {
                self.begin();
            }
        }
    }

    /// Stores something below the innermost frame, where the next call finds it.
    pub(crate) fn scribble(&mut self) {
        let sp = self.hook().sp;
        let below = 8 * (1 + self.dice.below(24));
        let value = self.plausible(sp - below);
        self.memory.set(sp - below, value);
    }

    /// A value that could be what is stored near `address`.
    pub(crate) fn plausible(&mut self, address: u64) -> u64 {
        let calls = self.fibers[self.current].calls.clone();
        let call = calls.get(self.dice.below(1 + calls.len() as u64) as usize).copied();
        let site = self.dice.pick(&self.sites);
        match (self.dice.below(12), call) {
            (0, _) => 0,
            (1, _) => address + 1,
            (2 | 3, Some(call)) => call.sp,
            (4 | 5, Some(call)) => call.bp,
            (6, Some(call)) => call.function.start + site,
            (7 | 8, _) => self.functions[self.dice.pick(&self.cast.clone())].start + site,
            (9, _) => CODE + self.dice.below(0x2000),
            _ => (address & !7) + 8 * self.dice.below(12),
        }
    }
}
