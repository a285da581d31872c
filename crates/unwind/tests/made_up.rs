//! Walks of made-up stacks by made-up tables: what real programs show too rarely, or never should.

mod maker;

use heapledger_unwind::{
    End, Environment, Lookup, Registers, RuleCache, Shape, Strategy, Table, TableError, Walk, resolve, walk,
    walk_in_full,
};
use maker::{LINKAGE, Maker, SIGNAL, code};

const STACK: u64 = 0x7000_0000;

struct World {
    segment: Vec<u8>,
    stack: Vec<u64>,
    /// Behind calls in code without a table.
    code: Option<[u8; 8]>,
}

impl World {
    fn new(maker: Maker) -> Self {
        Self { segment: maker.segment(), stack: vec![0; 64], code: None }
    }

    /// Sets the word at this offset of the stack.
    fn word(mut self, offset: u64, value: u64) -> Self {
        self.stack[offset as usize / 8] = value;
        self
    }

    fn table(&self) -> Table<'_> {
        maker::table(&self.segment)
    }

    fn walk(&self, registers: Registers) -> (Walk, Vec<u64>) {
        self.walk_by(registers, Strategy::Auto)
    }

    fn walk_by(&self, registers: Registers, strategy: Strategy) -> (Walk, Vec<u64>) {
        let mut out = [0; 20];
        let mut cache = RuleCache::<8>::new();
        let first = walk(self, &mut cache, &registers, 20, strategy, &mut out);
        let again = walk(self, &mut cache, &registers, 20, strategy, &mut out);
        assert_eq!(first, again, "cold and warm");
        (first, out[..first.depth].to_vec())
    }
}

impl Environment for World {
    fn read_word(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(STACK)?;
        if offset % 8 != 0 {
            return None;
        }
        self.stack.get(usize::try_from(offset / 8).ok()?).copied()
    }

    fn find_table(&self, pc: u64) -> Lookup<'_> {
        match pc {
            0x20_0000..0x30_0000 => Lookup::Found(self.table()),
            0x40_0000..0x50_0000 => Lookup::NoTable,
            _ => Lookup::NoTable,
        }
    }

    fn read_code(&self, _: u64) -> Option<[u8; 8]> {
        self.code
    }

    fn may_be_code(&self, pc: u64) -> bool {
        !(STACK..STACK + 8 * self.stack.len() as u64).contains(&pc)
    }
}

fn at(ip: u64, sp: u64, bp: u64) -> Registers {
    Registers { ip, sp: STACK + sp, bp, ..Registers::default() }
}

/// A function that has nothing on the stack, and an outermost one.
fn plain() -> Maker {
    Maker::new()
        .function(0x20_0000, &[])
        .function(0x20_0100, &[code::DEF_CFA, 7, 32, code::OFFSET | 6, 2])
        .function(0x20_0200, &[code::DEF_CFA, 6, 16, code::OFFSET | 6, 2])
        .function(0x20_0f00, &[code::UNDEFINED, 16])
}

#[test]
fn plain_frames() {
    let world = World::new(plain())
        .word(0x00, 0x20_0110)
        // Frame of 32 bytes: saved rbp, then the return address.
        .word(0x18, STACK + 0x40)
        .word(0x20, 0x20_0210)
        // Found by way of rbp.
        .word(0x40, 0)
        .word(0x48, 0x20_0f10);
    let (result, pcs) = world.walk(at(0x20_0010, 0, 77));
    assert_eq!(pcs, [0x20_0010, 0x20_0110, 0x20_0210, 0x20_0f10]);
    assert_eq!(result.end, End::Outermost);
    assert_eq!((result.guessed_from, result.restarted), (None, false));
}

#[test]
fn the_return_address_may_be_behind_a_function() {
    // 0x20_0100 would be in the next function, but the call was in the one before.
    let world = World::new(plain()).word(0, 0x20_0f10);
    assert_eq!(world.walk(at(0x20_0100, 0, 0)).1, [0x20_0100, 0x20_0f10]);
}

#[test]
fn a_return_address_that_no_call_left_is_the_bottom() {
    let world = World::new(plain()).word(0, 0x20_0f00);
    let (result, pcs) = world.walk(at(0x20_0010, 0, STACK + 8));
    assert_eq!((result.end, pcs.len()), (End::Outermost, 2));
}

/// As in Python's trampolines: 8 bytes, and back, with a frame pointer of somebody else's.
#[test]
fn code_that_only_returns_is_left_as_it_says() {
    let mut world = World::new(plain())
        .word(0x00, 0x40_0010)
        .word(0x10, 0x20_0110)
        .word(0x28, 0x1234)
        .word(0x30, 0x20_0f10)
        // Where the frame pointer leads to.
        .word(0x60, 0)
        .word(0x68, 0x20_0010);
    world.code = Some([0x48, 0x83, 0xc4, 8, 0xc3, 0x90, 0x90, 0x90]);
    let registers = at(0x20_0010, 0, STACK + 0x60);
    let (result, pcs) = world.walk(registers);
    assert_eq!(pcs, [0x20_0010, 0x40_0010, 0x20_0110, 0x20_0f10]);
    assert_eq!((result.end, result.guessed_from), (End::Outermost, None));
    let in_full = |world: &World| {
        let mut pcs = Vec::new();
        let ended = walk_in_full(world, &registers, Strategy::Auto, &mut |pc| {
            pcs.push(pc);
            pcs.len() < 20
        });
        (pcs, ended.end, ended.guessed_from)
    };
    assert_eq!(in_full(&world), (pcs, End::Outermost, None));
    // Other code by the next time: what was kept of it does not count, and it is a guess.
    let (mut cache, mut out) = (RuleCache::<8>::new(), [0; 20]);
    walk(&world, &mut cache, &registers, 20, Strategy::Auto, &mut out);
    world.code = Some([0x90; 8]);
    let changed = walk(&world, &mut cache, &registers, 20, Strategy::Auto, &mut out);
    assert_eq!((out[2], changed.guessed_from), (0x20_0010, Some(2)));
    world.code = Some([0x48, 0x83, 0xc4, 8, 0xc3, 0x90, 0x90, 0x90]);
    // Tables only: then the walk ends there.
    assert_eq!(world.walk_by(registers, Strategy::Tables).1.len(), 2);
    // Other code by now, or none to be read: the frame pointer is all there is.
    for code in [None, Some([0x90; 8])] {
        world.code = code;
        let (result, pcs) = world.walk(registers);
        assert_eq!(pcs[..3], [0x20_0010, 0x40_0010, 0x20_0010]);
        assert_eq!(in_full(&world), (pcs, result.end, Some(2)));
    }
    // What it would return to is no code.
    world.code = Some([0x48, 0x83, 0xc4, 0, 0xc3, 0x90, 0x90, 0x90]);
    world.stack[1] = STACK;
    assert_eq!(world.walk(registers).1[..3], [0x20_0010, 0x40_0010, 0x20_0010]);
}

#[test]
fn frames_must_rise() {
    // By rbp: to a place below the stack pointer, to the same place, to a crooked one.
    for (bp, sp) in [(STACK, 0x40), (STACK + 0x30, 0x40), (STACK + 0x44, 0x40)] {
        let world = World::new(plain());
        let (result, pcs) = world.walk(at(0x20_0210, sp, bp));
        assert_eq!((result.end, pcs.len()), (End::NotRising { pc: 0x20_0210 }, 1));
    }
    let world = World::new(plain());
    let (result, _) = world.walk(at(0x20_0210, 0, u64::MAX - 7));
    assert_eq!(result.end, End::NotRising { pc: 0x20_0210 });
}

#[test]
fn what_may_not_be_read_ends_the_walk() {
    let world = World::new(plain());
    let (result, _) = world.walk(at(0x20_0010, 64 * 8, 0));
    assert_eq!(result.end, End::Unreadable { address: STACK + 64 * 8 });
    let (result, _) = world.walk(at(0x20_0010, 0, 0));
    assert_eq!(result.end, End::Outermost, "a return address of zero");
}

#[test]
fn no_frames_wanted() {
    let world = World::new(plain());
    let mut cache = RuleCache::<8>::new();
    let registers = at(0x20_0010, 0, 0);
    for (limit, length) in [(0, 5), (5, 0)] {
        let mut out = vec![1; length];
        let result = walk(&world, &mut cache, &registers, limit, Strategy::Auto, &mut out);
        assert_eq!((result.depth, result.end), (0, End::LimitReached));
        assert!(out.iter().all(|&word| word == 1));
    }
    let mut out = [1];
    let nowhere = Registers::default();
    let result = walk(&world, &mut cache, &nowhere, 1, Strategy::Auto, &mut out);
    assert_eq!((result.depth, result.end), (0, End::Outermost));
}

#[test]
fn realigned_frames() {
    // CFA = *(rbp - 8), rbp saved at rbp: what gcc does with a dynamic argument pointer.
    let program = [code::DEF_CFA_EXPRESSION, 3, 0x76, 0x78, 0x06, code::EXPRESSION, 6, 2, 0x76, 0];
    let world = World::new(plain().function(0x20_0300, &program))
        .word(0x40, STACK + 0x100)
        .word(0x38, STACK + 0x90)
        .word(0x88, 0x20_0210)
        .word(0x108, 0x20_0f10);
    assert_eq!(resolve(&world, 0x20_0310).shape(), Shape::StoredAtBp(-8));
    let (result, pcs) = world.walk(at(0x20_0310, 0, STACK + 0x40));
    assert_eq!(pcs, [0x20_0310, 0x20_0210, 0x20_0f10]);
    assert_eq!((result.end, result.restarted), (End::Outermost, false));
}

fn with_signal() -> Maker {
    plain().signal(0x20_0400, &SIGNAL)
}

#[test]
fn signal_frames_lead_to_exact_addresses_on_any_stack() {
    // The handler runs high on another stack; the interrupted function is below, at its first
    // instruction: at its address minus one there would be another function.
    let world = World::new(with_signal())
        .word(0x100, 0x20_0410)
        .word(0x108 + 16, STACK + 0x20)
        .word(0x108 + 24, STACK + 0x40)
        .word(0x108 + 32, 0x20_0000)
        .word(0x20, 0x20_0210)
        .word(0x48, 0x20_0f10);
    let (result, pcs) = world.walk(at(0x20_0010, 0x100, 0));
    assert_eq!(pcs, [0x20_0010, 0x20_0410, 0x20_0001, 0x20_0210, 0x20_0f10]);
    assert_eq!((result.end, result.restarted), (End::Outermost, false));
}

#[test]
fn a_call_of_address_zero_is_stored_as_one() {
    let world = World::new(with_signal()).word(16, STACK + 0x40).word(32, 0);
    let (result, pcs) = world.walk(at(0x20_0410, 0, 0));
    assert_eq!((result.end, &pcs[..]), (End::NoRule { pc: 1 }, &[0x20_0410, 1][..]));
}

#[test]
fn linkage_table_entries_have_one_word_more_from_their_second_half_on() {
    for in_entry in 0..16u64 {
        let more = if in_entry >= 11 { 8 } else { 0 };
        let world = World::new(with_signal().function(0x20_0500, &LINKAGE))
            .word(16, STACK + 0x80)
            .word(32, 0x20_0520 + in_entry)
            .word(0x80 + more, 0x20_0f10);
        let (result, pcs) = world.walk(at(0x20_0410, 0, 0));
        assert_eq!(pcs, [0x20_0410, 0x20_0521 + in_entry, 0x20_0f10]);
        assert_eq!((result.end, result.restarted), (End::Outermost, false));

        // The same by the general evaluator: one operation more makes it unrecognisable.
        let mut general = LINKAGE.to_vec();
        general[1] += 1;
        general.push(0x96);
        let world = World::new(with_signal().function(0x20_0500, &general))
            .word(16, STACK + 0x80)
            .word(32, 0x20_0520 + in_entry)
            .word(0x80 + more, 0x20_0f10);
        let (result, pcs) = world.walk(at(0x20_0410, 0, 0));
        // In the signal frame only rsp, rbp and ip are described, which is all that is needed.
        assert_eq!(pcs, [0x20_0410, 0x20_0521 + in_entry, 0x20_0f10]);
        assert_eq!((result.end, result.restarted), (End::Outermost, true));
    }
}

#[test]
fn a_general_frame_starts_the_walk_over_with_all_registers() {
    // The inner frame saves rbx; the outer one's top is known only by it.
    let maker = plain()
        .function(0x20_0600, &[code::DEF_CFA, 7, 24, code::OFFSET | 3, 3])
        .function(0x20_0700, &[code::DEF_CFA, 3, 16]);
    let world = World::new(maker).word(0x00, STACK + 0x60).word(0x10, 0x20_0710).word(0x68, 0x20_0f10);
    let mut registers = at(0x20_0610, 0, 0);
    registers.bx = STACK + 0x20;
    let (result, pcs) = world.walk(registers);
    assert_eq!(pcs, [0x20_0610, 0x20_0710, 0x20_0f10]);
    assert_eq!((result.end, result.restarted), (End::Outermost, true));
}

#[test]
fn registers_that_a_call_destroys_are_not_made_up() {
    // The outer frame's top is in r10, which no inner frame has saved.
    let maker = plain().function(0x20_0700, &[code::DEF_CFA, 10, 16]);
    let world = World::new(maker).word(0, 0x20_0710);
    let (result, pcs) = world.walk(at(0x20_0010, 0, 0));
    assert_eq!(pcs, [0x20_0010, 0x20_0710]);
    assert_eq!(result.end, End::Lost { pc: 0x20_0710 });
}

#[test]
fn return_addresses_and_registers_in_odd_places() {
    // ip in r12; rbx = CFA - 16; rbp = value of an expression, CFA + 16.
    let program = [code::REGISTER, 16, 12, code::VAL_OFFSET, 3, 2, code::VAL_EXPRESSION, 6, 2, 0x23, 16];
    let maker = plain().function(0x20_0600, &program).function(0x20_0700, &[code::DEF_CFA, 3, 32, code::OFFSET | 6, 3]);
    let world = World::new(maker)
        // CFA of the first is 0x28 + 8, so rbx is 0x20 and the second's top 0x40.
        .word(0x38, 0x20_0210)
        .word(0x28, STACK + 0x60)
        .word(0x68, 0x20_0f10);
    let mut registers = at(0x20_0610, 0x28, 0);
    registers.r12 = 0x20_0710;
    let (result, pcs) = world.walk(registers);
    assert_eq!(pcs, [0x20_0610, 0x20_0710, 0x20_0210, 0x20_0f10]);
    assert_eq!((result.end, result.restarted), (End::Outermost, true));
}

#[test]
fn expressions_are_computed() {
    // Each must yield the CFA, rsp + 16; 0x77 is "rsp plus", 0x22 plus.
    let expressions: [&[u8]; 14] = [
        &[0x77, 0, 0x40, 0x22],
        &[0x77, 0, 0x08, 16, 0x22],
        &[0x77, 0, 0x09, 0xf0, 0x1c],
        &[0x77, 0, 0x11, 0x70, 0x1f, 0x22],
        &[0x40, 0x77, 0, 0x16, 0x22],
        &[0x77, 0, 0x12, 0x13, 0x23, 16],
        &[0x77, 0, 0x34, 0x34, 0x1e, 0x22],
        &[0x77, 0, 0x08, 33, 0x32, 0x1b, 0x22],
        &[0x77, 0, 0x31, 0x34, 0x24, 0x22],
        &[0x77, 0, 0x0b, 0xff, 0xff, 0x20, 0x22, 0x92, 7, 16, 0x12, 0x29, 0x31, 0x34, 0x24, 0x1e, 0x22],
        // Two branches, one taken.
        &[0x77, 0, 0x30, 0x28, 2, 0, 0x31, 0x13, 0x31, 0x28, 1, 0, 0x06, 0x40, 0x22],
        // Skips the rest of nothing.
        &[0x77, 16, 0x2f, 0, 0],
        // The lowest byte of the word at rsp + 8, which is 16.
        &[0x77, 0, 0x77, 8, 0x94, 1, 0x22],
        // Its two bytes from the second on, plus 16.
        &[0x77, 16, 0x77, 9, 0x94, 2, 0x08, 0x12, 0x1c, 0x22],
    ];
    for expression in expressions {
        let mut program = vec![code::DEF_CFA_EXPRESSION, expression.len() as u8 + 1];
        program.extend(expression);
        program.push(0x96);
        let maker = plain().function(0x20_0700, &program);
        // rsp is at 8, the CFA at 24, the return address at 16; it is also what expressions read.
        let world = World::new(maker).word(0x10, 0x1210);
        let (result, pcs) = world.walk(at(0x20_0710, 8, 0));
        assert_eq!(pcs, [0x20_0710, 0x1210], "{expression:x?} {result:x?}");
    }
}

#[test]
fn expressions_without_end_or_sense_are_refused() {
    let expressions: [&[u8]; 7] =
        [&[0x2f, 0xfd, 0xff], &[0x22], &[], &[0x13], &[0x77, 0, 0x30, 0x1b], &[0x77, 0, 0x2f, 0x00, 0x40], &[0xff]];
    for expression in expressions {
        let mut program = vec![code::DEF_CFA_EXPRESSION, expression.len() as u8];
        program.extend(expression);
        let world = World::new(plain().function(0x20_0700, &program));
        let (result, _) = world.walk(at(0x20_0710, 8, 0));
        assert_eq!(result.end, End::Lost { pc: 0x20_0710 }, "{expression:x?}");
    }
}

#[test]
fn states_are_remembered_four_deep() {
    let nested = |count: usize| {
        let mut program = vec![code::DEF_CFA, 7, 32];
        program.extend(vec![code::REMEMBER; count]);
        program.extend([code::DEF_CFA, 6, 96, code::ADVANCE | 8]);
        program.extend(vec![code::RESTORE_STATE; count]);
        World::new(plain().function(0x20_0700, &program))
    };
    assert_eq!(resolve(&nested(4), 0x20_0705).shape(), Shape::FromBp(96));
    assert_eq!(resolve(&nested(4), 0x20_0710).shape(), Shape::FromSp(32));
    assert_eq!(resolve(&nested(5), 0x20_0710).shape(), Shape::Refused);
    let too_often = World::new(plain().function(0x20_0700, &[code::RESTORE_STATE]));
    assert_eq!(too_often.table().row(0x20_0710).map(|_| ()), Err(TableError::Refused));
}

#[test]
fn code_without_a_table_is_crossed_by_frame_pointers_only_if_they_hold() {
    let world = World::new(plain()).word(0x40, STACK + 0x80).word(0x48, 0x60_0000).word(0x80, 0).word(0x88, 0x20_0f10);
    // First in a module without a table, then in generated code.
    let (result, pcs) = world.walk(at(0x40_0010, 0, STACK + 0x40));
    assert_eq!(pcs, [0x40_0010, 0x60_0000, 0x20_0f10]);
    assert_eq!((result.end, result.guessed_from), (End::Outermost, Some(1)));
    let (result, pcs) = world.walk_by(at(0x40_0010, 0, STACK + 0x40), Strategy::Tables);
    assert_eq!((result.end, pcs.len()), (End::NoRule { pc: 0x40_0010 }, 1));
    // What is no code is no return address.
    let other = World::new(plain()).word(0x40, STACK + 0x80).word(0x48, STACK + 0x10).word(0x88, 0x20_0f10);
    for (strategy, end) in
        [(Strategy::Auto, End::NoRule { pc: 0x40_0010 }), (Strategy::FramePointers, End::BrokenChain { pc: 0x40_0010 })]
    {
        let (result, pcs) = other.walk_by(at(0x40_0010, 0, STACK + 0x40), strategy);
        assert_eq!((result.end, pcs.len()), (end, 1));
    }
    // Below the stack pointer, crooked, unreadable, zero: none is a frame pointer.
    for bp in [STACK + 0x38, STACK + 0x41, STACK + 0x1000, 0] {
        let (result, pcs) = world.walk(at(0x40_0010, 0x40, bp));
        assert_eq!((result.end, pcs.len()), (End::NoRule { pc: 0x40_0010 }, 1));
    }
}

#[test]
fn any_bytes_and_any_stack_come_to_an_end() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let rounds = if cfg!(miri) { 50 } else { 30_000 };
    for _ in 0..rounds {
        let mut maker = with_signal().function(0x20_0500, &LINKAGE);
        for index in 6..12u64 {
            let program: Vec<u8> = (0..random() % 24).map(|_| random() as u8 & 0x9f).collect();
            maker = maker.function(0x20_0000 + index * 0x100, &program);
        }
        let mut world = World::new(maker);
        for word in &mut world.stack {
            *word = match random() % 4 {
                0 => random(),
                1 => STACK + random() % 0x200,
                _ => 0x20_0000 + random() % 0x1000,
            };
        }
        let length = world.segment.len() as u64;
        for _ in 0..random() % 8 {
            world.segment[(random() % length) as usize] = random() as u8;
        }
        let mut registers = at(0x20_0000 + random() % 0x1000, 0, STACK + random() % 0x200);
        registers.bx = STACK + random() % 0x200;
        for strategy in [Strategy::Auto, Strategy::Tables, Strategy::FramePointers] {
            let (result, pcs) = world.walk_by(registers, strategy);
            assert_eq!(result.depth, pcs.len());
        }
    }
}
