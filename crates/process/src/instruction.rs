//! Which bytes of memory an x86-64 instruction touches.
//!
//! The processor says at which address an access was refused, not where the access begins nor how long it is: that stands in the
//! instruction. Known is what compilers and the C library's functions make; of the rest nothing is said. Who asks compares what comes out
//! with the refused address, so that a wrong answer needs two mistakes that fit. Encodings are those of the processors' manuals.
#![forbid(unsafe_code)]

/// Bytes that an instruction has at most.
pub(crate) const LENGTH_MAX: usize = 15;

/// Bytes of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touched {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

/// What stands in front of an opcode.
#[derive(Clone, Copy, Default)]
struct Prefixes {
    /// `66`.
    narrow: bool,
    /// `F2` or `F3`, whichever comes last; else 0.
    repeat: u8,
    /// `REX.W`.
    wide: bool,
    /// `REX.X` and `REX.B`, as what they add to a register's number.
    index: usize,
    base: usize,
    /// Bytes of a vector register, where a prefix says so; else 0.
    vector: u64,
    /// A short displacement is in units of a vector.
    scaled: bool,
}

impl Prefixes {
    /// Bytes of an operand that is as wide as registers are at the moment.
    fn operand(&self) -> u64 {
        match (self.wide, self.narrow) {
            (true, _) => 8,
            (false, true) => 2,
            (false, false) => 4,
        }
    }

    fn word(&self) -> u64 {
        if self.wide { 8 } else { 4 }
    }

    /// Bytes of an operand of vectors: 8 of the oldest ones.
    fn packed(&self) -> u64 {
        match self.vector {
            0 if self.narrow || self.repeat != 0 => 16,
            0 => 8,
            bytes => bytes,
        }
    }

    /// Of instructions on whole vectors or on their first number, as the prefix says.
    fn float(&self) -> u64 {
        match self.repeat {
            0xF3 => 4,
            0xF2 => 8,
            _ => self.vector.max(16),
        }
    }
}

/// The bytes that are still to come.
struct Code<'c>(&'c [u8]);

impl Code<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn displacement(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(i32::from_le_bytes(*bytes) as u64)
    }
}

/// The bytes around `refused` that the instruction of this code touches, with these registers (see
/// [`Fault`](heapledger_linux::context::Fault)). `None` if that is not known.
pub(crate) fn touched(code: &[u8], registers: &[u64; 16], refused: u64, is_write: bool) -> Option<Touched> {
    let mut code = Code(code.get(..LENGTH_MAX).unwrap_or(code));
    let (prefixes, map, opcode) = opcode(&mut code)?;
    if map == 0 && matches!(opcode, 0xA4..=0xA7 | 0xAA..=0xAF) {
        return of_strings(&prefixes, opcode, registers, (refused, is_write));
    }
    let modrm = code.next()?;
    let bytes = match map {
        0 => plain(&prefixes, opcode, modrm),
        1 => second(&prefixes, opcode, modrm),
        2 => third(&prefixes, opcode),
        _ => fourth(&prefixes, opcode),
    }?;
    let address = address(&mut code, modrm, &prefixes, registers)?;
    (refused.wrapping_sub(address) < bytes).then_some(Touched { address, bytes })
}

/// Prefixes, the table that the opcode is in, and the opcode.
fn opcode(code: &mut Code) -> Option<(Prefixes, u8, u8)> {
    let mut prefixes = Prefixes::default();
    loop {
        match code.next()? {
            0x66 => prefixes.narrow = true,
            repeat @ (0xF2 | 0xF3) => prefixes.repeat = repeat,
            // Locks, and segments that begin at 0.
            0xF0 | 0x2E | 0x36 | 0x3E | 0x26 => {}
            // Other segments, and short addresses.
            0x64 | 0x65 | 0x67 => return None,
            rex @ 0x40..=0x4F => {
                prefixes.wide = rex & 8 != 0;
                prefixes.index = usize::from(rex & 2) << 2;
                prefixes.base = usize::from(rex & 1) << 3;
                let first = code.next()?;
                return in_table(code, prefixes, first);
            }
            short @ 0xC5 => return vex(code, prefixes, short),
            long @ (0xC4 | 0x62) => return vex(code, prefixes, long),
            first => return in_table(code, prefixes, first),
        }
    }
}

fn in_table(code: &mut Code, prefixes: Prefixes, first: u8) -> Option<(Prefixes, u8, u8)> {
    if first != 0x0F {
        return Some((prefixes, 0, first));
    }
    match code.next()? {
        0x38 => Some((prefixes, 2, code.next()?)),
        0x3A => Some((prefixes, 3, code.next()?)),
        second => Some((prefixes, 1, second)),
    }
}

/// Instructions on long vectors, whose prefixes stand in bytes of their own.
fn vex(code: &mut Code, mut prefixes: Prefixes, kind: u8) -> Option<(Prefixes, u8, u8)> {
    let first = code.next()?;
    let (map, last) = if kind == 0xC5 {
        (1, first)
    } else {
        prefixes.index = usize::from(!first & 0x40) >> 3;
        prefixes.base = usize::from(!first & 0x20) >> 2;
        let second = code.next()?;
        prefixes.wide = second & 0x80 != 0;
        (first & if kind == 0x62 { 7 } else { 31 }, second)
    };
    match last & 3 {
        1 => prefixes.narrow = true,
        2 => prefixes.repeat = 0xF3,
        3 => prefixes.repeat = 0xF2,
        _ => {}
    }
    prefixes.vector = if last & 4 == 0 { 16 } else { 32 };
    if kind != 0x62 {
        return Some((prefixes, map, code.next()?));
    }
    let third = code.next()?;
    // Masks, and one number for all.
    if third & 0x17 != 0 {
        return None;
    }
    prefixes.vector = 16u64.checked_shl(u32::from(third >> 5 & 3))?;
    prefixes.scaled = true;
    let opcode = code.next()?;
    let is_whole = match map {
        1 => matches!(opcode, 0x10 | 0x11 | 0x28 | 0x29 | 0x6F | 0x7F | 0xE7 | 0x74..=0x76 | 0xD8..=0xDF | 0xE8..=0xEF),
        2 => matches!(opcode, 0x26 | 0x27 | 0x38..=0x3F),
        3 => matches!(opcode, 0x1E | 0x1F | 0x25 | 0x3E | 0x3F),
        _ => false,
    };
    // Of one number only.
    let is_single = map == 1 && matches!(opcode, 0x10 | 0x11) && prefixes.repeat != 0;
    (is_whole && !is_single).then_some((prefixes, map, opcode))
}

/// `movs`, `cmps`, `stos`, `lods`, `scas`, once or again and again.
fn of_strings(
    prefixes: &Prefixes,
    opcode: u8,
    registers: &[u64; 16],
    (refused, is_write): (u64, bool),
) -> Option<Touched> {
    let [_, count, _, _, _, _, source, target, ..] = *registers;
    let each = if opcode & 1 == 0 { 1 } else { prefixes.operand() };
    // Of those that compare nobody knows how far they would have gone.
    let times = if prefixes.repeat != 0 && !matches!(opcode, 0xA6 | 0xA7 | 0xAE | 0xAF) { count } else { 1 };
    let bytes = each.saturating_mul(times);
    let at = |address: u64| (refused.wrapping_sub(address) < bytes).then_some(Touched { address, bytes });
    match opcode {
        0xA4 | 0xA5 if is_write => at(target),
        0xA4 | 0xA5 => at(source),
        0xA6 | 0xA7 => at(source).or_else(|| at(target)),
        0xAC | 0xAD => at(source),
        _ => at(target),
    }
}

/// Opcodes of one byte.
fn plain(prefixes: &Prefixes, opcode: u8, modrm: u8) -> Option<u64> {
    let (full, part) = (prefixes.operand(), modrm >> 3 & 7);
    Some(match opcode {
        0x00..=0x3F if opcode & 7 < 4 => {
            if opcode & 1 == 0 {
                1
            } else {
                full
            }
        }
        0x63 => 4,
        0x69 | 0x6B | 0x81 | 0x83 | 0x85 | 0x87 | 0x89 | 0x8B | 0xC1 | 0xD1 | 0xD3 | 0xC7 | 0xF7 => full,
        0x80 | 0x84 | 0x86 | 0x88 | 0x8A | 0xC0 | 0xD0 | 0xD2 | 0xC6 | 0xF6 | 0xFE => 1,
        0x8C | 0x8E => 2,
        0xD8 => 4,
        0xD9 if matches!(part, 0 | 2 | 3) => 4,
        0xDB if part < 4 => 4,
        0xDB if part == 5 || part == 7 => 10,
        0xDC => 8,
        0xDD if part < 4 => 8,
        0xDE => 2,
        0xDF if part < 4 => 2,
        0xDF if part == 5 || part == 7 => 8,
        0xFF if part < 2 => full,
        0x8F | 0xFF => 8,
        _ => return None,
    })
}

/// Opcodes behind `0F`.
fn second(prefixes: &Prefixes, opcode: u8, modrm: u8) -> Option<u64> {
    let (full, word) = (prefixes.operand(), prefixes.word());
    Some(match opcode {
        0x12 if prefixes.repeat == 0xF3 => prefixes.vector.max(16),
        0x16 if prefixes.repeat == 0xF3 => prefixes.vector.max(16),
        0x12 | 0x13 | 0x16 | 0x17 => 8,
        0x10 | 0x11 | 0x51..=0x59 | 0x5C..=0x5F | 0xC2 => prefixes.float(),
        0x14 | 0x15 | 0x28 | 0x29 | 0x2B | 0x5B | 0xC6 | 0xF0 => prefixes.vector.max(16),
        0x2A if prefixes.repeat != 0 => word,
        0x2C | 0x2D if prefixes.repeat != 0 => prefixes.float(),
        0x2E | 0x2F => {
            if prefixes.narrow {
                8
            } else {
                4
            }
        }
        0x5A if prefixes.repeat == 0 && !prefixes.narrow => prefixes.vector.max(16) >> 1,
        0x5A => prefixes.float(),
        0x40..=0x4F | 0xA4 | 0xA5 | 0xAC | 0xAD | 0xAF | 0xB1 | 0xB8 | 0xBA | 0xBC | 0xBD | 0xC1 => full,
        0x6E | 0xC3 => word,
        0x7E if prefixes.repeat == 0xF3 => 8,
        0x7E => word,
        0xD6 if prefixes.narrow => 8,
        0x60..=0x6D | 0x6F | 0x70 | 0x74..=0x76 | 0x7F => prefixes.packed(),
        0xD0..=0xEF | 0xF1..=0xFE => prefixes.packed(),
        0x90..=0x9F | 0xB0 | 0xB6 | 0xBE | 0xC0 => 1,
        0xB7 | 0xBF | 0xC4 => 2,
        0xC7 if modrm >> 3 & 7 == 1 => word << 1,
        _ => return None,
    })
}

/// Opcodes behind `0F 38`.
fn third(prefixes: &Prefixes, opcode: u8) -> Option<u64> {
    let lanes = prefixes.vector.max(16);
    Some(match opcode {
        0x20 | 0x23 | 0x25 | 0x30 | 0x33 | 0x35 => lanes >> 1,
        0x21 | 0x24 | 0x31 | 0x34 => lanes >> 2,
        0x22 | 0x32 => lanes >> 3,
        0x18 | 0x58 => 4,
        0x19 | 0x59 => 8,
        0x1A | 0x5A => 16,
        0x78 => 1,
        0x79 => 2,
        0x00..=0x0F | 0x1C..=0x1E | 0x26..=0x2B | 0x37..=0x41 | 0xDB..=0xDF => prefixes.packed(),
        // Multiplied and added: all numbers, or the first.
        0x96..=0x9F | 0xA6..=0xAF | 0xB6..=0xBF => match (opcode & 1 == 1 && opcode & 15 > 8, prefixes.wide) {
            (true, wide) => {
                if wide {
                    8
                } else {
                    4
                }
            }
            (false, _) => prefixes.vector,
        },
        0xF0 if prefixes.repeat == 0xF2 => 1,
        0xF0 | 0xF1 => prefixes.operand(),
        0xF2 | 0xF3 | 0xF5..=0xF7 => prefixes.word(),
        _ => return None,
    })
}

/// Opcodes behind `0F 3A`.
fn fourth(prefixes: &Prefixes, opcode: u8) -> Option<u64> {
    Some(match opcode {
        0x14 | 0x20 => 1,
        0x15 => 2,
        0x16 | 0x22 => prefixes.word(),
        0x17 | 0x21 | 0x0A => 4,
        0x0B => 8,
        0x18 | 0x19 | 0x38 | 0x39 => 16,
        0xF0 => prefixes.word(),
        _ => prefixes.packed(),
    })
}

/// Where the operand lies. `None` if it is a register, or no memory of a heap.
fn address(code: &mut Code, modrm: u8, prefixes: &Prefixes, registers: &[u64; 16]) -> Option<u64> {
    const BY_SIB: u8 = 4;
    const NO_BASE: u8 = 5;
    let (mode, low) = (modrm >> 6, modrm & 7);
    let register = |number: u8, more: usize| registers.get(usize::from(number) | more).copied();
    let (base, index) = match low {
        _ if mode == 3 => return None,
        // Beside the code.
        NO_BASE if mode == 0 => return None,
        BY_SIB => {
            let sib = code.next()?;
            let (scale, number) = (sib >> 6, sib >> 3 & 7);
            let has_index = number != BY_SIB || prefixes.index != 0;
            let index = if has_index { register(number, prefixes.index)?.wrapping_shl(u32::from(scale)) } else { 0 };
            match sib & 7 {
                NO_BASE if mode == 0 => return Some(code.displacement()?.wrapping_add(index)),
                number => (register(number, prefixes.base)?, index),
            }
        }
        number => (register(number, prefixes.base)?, 0),
    };
    let displacement = match mode {
        0 => 0,
        1 => {
            let short = i64::from(code.next()? as i8);
            (if prefixes.scaled { short.wrapping_mul(prefixes.vector as i64) } else { short }) as u64
        }
        _ => code.displacement()?,
    };
    Some(base.wrapping_add(index).wrapping_add(displacement))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Registers that are all far apart: number `n` is `n + 1` times this.
    const APART: u64 = 0x10_0000;
    const DI: u64 = 8 * APART;
    const SI: u64 = 7 * APART;

    fn of(code: &str, refused: u64) -> Option<(u64, u64)> {
        let registers = core::array::from_fn(|number| (number as u64 + 1) * APART);
        let code: std::vec::Vec<u8> =
            code.split(' ').map(|byte| u8::from_str_radix(byte, 16).expect("a byte")).collect();
        touched(&code, &registers, refused, refused >= DI).map(|touched| (touched.address, touched.bytes))
    }

    #[test]
    fn what_compilers_and_the_c_library_make() {
        // As an assembler has made them: where the access begins, and its bytes.
        for (code, address, bytes) in [
            ("88 07", DI, 1),                                                // movb %al,(%rdi)
            ("66 89 47 02", DI + 2, 2),                                      // movw %ax,2(%rdi)
            ("89 04 8f", DI + 4 * 2 * APART, 4),                             // movl %eax,(%rdi,%rcx,4)
            ("49 89 41 f8", 10 * APART - 8, 8),                              // movq %rax,-8(%r9)
            ("41 c7 84 24 00 10 00 00 07 00 00 00", 13 * APART + 0x1000, 4), // movl $7,0x1000(%r12)
            ("41 c6 45 00 01", 14 * APART, 1),                               // movb $1,(%r13)
            ("0f b6 06", SI, 1),                                             // movzbl (%rsi),%eax
            ("0f b7 06", SI, 2),                                             // movzwl (%rsi),%eax
            ("48 63 06", SI, 4),                                             // movslq (%rsi),%rax
            ("48 0f be 06", SI, 1),                                          // movsbq (%rsi),%rax
            ("83 02 01", 3 * APART, 4),                                      // addl $1,(%rdx)
            ("4a 01 4c f3 08", 4 * APART + 8 * 15 * APART + 8, 8),           // addq %rcx,8(%rbx,%r14,8)
            ("80 38 00", APART, 1),                                          // cmpb $0,(%rax)
            ("85 07", DI, 4),                                                // testl %eax,(%rdi)
            ("48 87 07", DI, 8),                                             // xchgq %rax,(%rdi)
            ("f0 0f b1 0f", DI, 4),                                          // lock cmpxchgl %ecx,(%rdi)
            ("f0 48 0f c1 0f", DI, 8),                                       // lock xaddq %rcx,(%rdi)
            ("ff 07", DI, 4),                                                // incl (%rdi)
            ("48 f7 1f", DI, 8),                                             // negq (%rdi)
            ("0f af 07", DI, 4),                                             // imull (%rdi),%eax
            ("0f 44 07", DI, 4),                                             // cmovel (%rdi),%eax
            ("0f 94 07", DI, 1),                                             // sete (%rdi)
            ("0f ba 27 03", DI, 4),                                          // btl $3,(%rdi)
            ("0f 11 07", DI, 16),                                            // movups %xmm0,(%rdi)
            ("0f 28 07", DI, 16),                                            // movaps (%rdi),%xmm0
            ("f3 0f 6f 0e", SI, 16),                                         // movdqu (%rsi),%xmm1
            ("66 0f 7f 0f", DI, 16),                                         // movdqa %xmm1,(%rdi)
            ("f3 0f 10 07", DI, 4),                                          // movss (%rdi),%xmm0
            ("f2 0f 11 07", DI, 8),                                          // movsd %xmm0,(%rdi)
            ("66 0f d6 07", DI, 8),                                          // movq %xmm0,(%rdi)
            ("f3 0f 7e 07", DI, 8),                                          // movq (%rdi),%xmm0
            ("66 0f 7e 07", DI, 4),                                          // movd %xmm0,(%rdi)
            ("0f 16 07", DI, 8),                                             // movhps (%rdi),%xmm0
            ("f2 0f 58 07", DI, 8),                                          // addsd (%rdi),%xmm0
            ("0f 58 07", DI, 16),                                            // addps (%rdi),%xmm0
            ("f3 0f 5a 07", DI, 4),                                          // cvtss2sd (%rdi),%xmm0
            ("f2 48 0f 2a 07", DI, 8),                                       // cvtsi2sdq (%rdi),%xmm0
            ("66 0f 2e 07", DI, 8),                                          // ucomisd (%rdi),%xmm0
            ("66 0f fe 07", DI, 16),                                         // paddd (%rdi),%xmm0
            ("66 0f 74 07", DI, 16),                                         // pcmpeqb (%rdi),%xmm0
            ("66 0f da 07", DI, 16),                                         // pminub (%rdi),%xmm0
            ("66 0f 38 00 07", DI, 16),                                      // pshufb (%rdi),%xmm0
            ("66 0f 38 30 07", DI, 8),                                       // pmovzxbw (%rdi),%xmm0
            ("66 0f 3a 22 07 01", DI, 4),                                    // pinsrd $1,(%rdi),%xmm0
            ("db 2f", DI, 10),                                               // fldt (%rdi)
            ("dd 07", DI, 8),                                                // fldl (%rdi)
            ("d9 07", DI, 4),                                                // flds (%rdi)
            ("df 3f", DI, 8),                                                // fistpll (%rdi)
            ("db 07", DI, 4),                                                // fildl (%rdi)
            ("c5 fe 7f 07", DI, 32),                                         // vmovdqu %ymm0,(%rdi)
            ("c5 7e 6f 44 17 e0", DI + 3 * APART - 32, 32),                  // vmovdqu -32(%rdi,%rdx),%ymm8
            ("c4 c1 7c 11 02", 11 * APART, 32),                              // vmovups %ymm0,(%r10)
            ("c5 fd 74 0f", DI, 32),                                         // vpcmpeqb (%rdi),%ymm0,%ymm1
            ("c5 fb 10 07", DI, 8),                                          // vmovsd (%rdi),%xmm0
            ("c4 e2 f1 b9 17", DI, 8),                                       // vfmadd231sd (%rdi),%xmm1,%xmm2
            ("c4 e2 f5 b8 17", DI, 32),                                      // vfmadd231pd (%rdi),%ymm1,%ymm2
            ("c4 e2 7d 78 07", DI, 1),                                       // vpbroadcastb (%rdi),%ymm0
            ("62 e1 fe 28 7f 44 17 ff", DI + 3 * APART - 32, 32),            // vmovdqu64 %ymm16,-0x20(%rdi,%rdx)
            ("62 e1 fe 48 7f 47 01", DI + 64, 64),                           // vmovdqu64 %zmm16,0x40(%rdi)
            ("62 e1 7f 48 6f 0e", SI, 64),                                   // vmovdqu8 (%rsi),%zmm17
            ("aa", DI, 1),                                                   // stosb
            ("ad", SI, 4),                                                   // lodsl
            ("66 0f e7 07", DI, 16),                                         // movntdq %xmm0,(%rdi)
            ("0f c3 07", DI, 4),                                             // movnti %eax,(%rdi)
            ("f2 0f 38 f0 07", DI, 1),                                       // crc32b (%rdi),%eax
            ("0f 38 f0 07", DI, 4),                                          // movbe (%rdi),%eax
            ("c4 e2 78 f2 0f", DI, 4),                                       // andn (%rdi),%eax,%ecx
            ("48 0f c7 0f", DI, 16),                                         // cmpxchg16b (%rdi)
            ("ff 37", DI, 8),                                                // pushq (%rdi)
            ("ff 57 08", DI + 8, 8),                                         // call *8(%rdi)
        ] {
            // The processor names the first byte that it was refused, wherever in the access that lies.
            assert_eq!(of(code, address), Some((address, bytes)), "{code}");
            assert_eq!(of(code, address + bytes - 1), Some((address, bytes)), "{code}");
            assert_eq!(of(code, address + bytes), None, "{code}");
            assert_eq!(of(code, address - 1), None, "{code}");
        }
        // rep movsb and rep stosq: all that is left.
        assert_eq!(of("f3 a4", SI + 5), Some((SI, 2 * APART)));
        assert_eq!(of("f3 a4", DI), Some((DI, 2 * APART)));
        assert_eq!(of("f3 48 ab", DI), Some((DI, 16 * APART)));
    }

    #[test]
    fn what_is_not_known_is_not_said() {
        for code in
            ["48 b8 05 00 00 00 00 00 00 00", "89 c0", "0f 0b", "62 e1 fe 29 7f 07", "64 8b 07", "c3", "", "0f", "66"]
        {
            let code: &str = if code.is_empty() { "f0" } else { code };
            assert_eq!(of(code, DI), None, "{code}");
        }
        assert_eq!(touched(&[], &[0; 16], 0, true), None);
        // Whatever stands there, nothing goes wrong.
        let mut random = 1u64;
        for _ in 0..200_000 {
            let mut code = [0u8; LENGTH_MAX];
            for byte in &mut code {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                *byte = (random >> 33) as u8;
            }
            if let Some(touched) = touched(&code, &[random; 16], random, random.is_multiple_of(2)) {
                assert!(random.wrapping_sub(touched.address) < touched.bytes);
            }
        }
    }
}
