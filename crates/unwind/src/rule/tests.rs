//! Rules, packed and read again.

extern crate std;

use super::*;
use std::vec;
use std::vec::Vec;

/// A segment that holds nothing but one expression, at its beginning.
fn expression(code: &[u8]) -> Vec<u8> {
    [&[code.len() as u8], code].concat()
}

/// "A register plus an offset", and whether what is stored there is meant.
fn register_and(register: u8, offset: i64, stored: bool) -> Vec<u8> {
    let mut code = vec![0x70 + register];
    let mut rest = offset;
    loop {
        let byte = (rest & 0x7f) as u8;
        rest >>= 7;
        let is_last = rest == 0 && byte & 0x40 == 0 || rest == -1 && byte & 0x40 != 0;
        code.push(if is_last { byte } else { byte | 0x80 });
        if is_last {
            break;
        }
    }
    if stored {
        code.push(0x06);
    }
    code
}

/// A frame whose return address lies below its top, where it always does.
fn row(cfa: CfaRule, bp: RegisterRule) -> Row {
    let mut row = Row::UNSET;
    row.set_cfa(cfa);
    row.set_register(u64::from(IP), RegisterRule::Offset(-8));
    row.set_register(u64::from(BP), bp);
    row
}

/// How a frame's top is found, with an offset: the row, its expressions, and the shape that it must have.
type Top = fn(i32) -> (CfaRule, Vec<u8>, Shape);

const TOPS: [Top; 4] = [
    |offset| (CfaRule::Register(SP, offset), vec![], Shape::FromSp(offset)),
    |offset| (CfaRule::Register(BP, offset), vec![], Shape::FromBp(offset)),
    |offset| {
        let code = register_and(SP, i64::from(offset), true);
        (CfaRule::Expression(0), expression(&code), Shape::StoredAtSp(offset))
    },
    |offset| {
        let code = register_and(BP, i64::from(offset), true);
        (CfaRule::Expression(0), expression(&code), Shape::StoredAtBp(offset))
    },
];

/// How `rbp` is found, with an offset and the place of an expression.
type Saved = fn(i32, u32) -> (RegisterRule, Vec<u8>, BasePointer);

const SAVED: [Saved; 3] = [
    |offset, _| (RegisterRule::Offset(offset), vec![], BasePointer::AtCfa(offset)),
    |offset, at| {
        let code = register_and(BP, i64::from(offset), false);
        (RegisterRule::Expression(at), expression(&code), BasePointer::AtBp(offset))
    },
    |offset, at| {
        let code = register_and(SP, i64::from(offset), false);
        (RegisterRule::Expression(at), expression(&code), BasePointer::AtSp(offset))
    },
];

const MIB: i32 = 1 << 20;

#[test]
fn every_shape_goes_with_every_base_pointer_up_to_the_bounds() {
    for top in TOPS {
        for offset in [0, 8, 16, -8, 4096, 4 * MIB - 8, -4 * MIB] {
            let (cfa, segment, shape) = top(offset);
            for same in [RegisterRule::Unset, RegisterRule::Same] {
                let rule = Rule::from_row(&row(cfa, same), &segment);
                assert_eq!((rule.shape(), rule.base_pointer()), (shape, BasePointer::Same));
            }
            for saved in SAVED {
                for saved_offset in [0, 8, -8, -16, 248, -256] {
                    let (bp, more, base_pointer) = saved(saved_offset, segment.len() as u32);
                    let rule = Rule::from_row(&row(cfa, bp), &[segment.as_slice(), &more].concat());
                    assert_eq!((rule.shape(), rule.base_pointer()), (shape, base_pointer));
                    assert_eq!((rule.cfa_operand(), rule.bp_operand()), (offset, saved_offset));
                    assert_eq!(Rule::from_bits(rule.bits()), rule);
                }
            }
        }
    }
}

#[test]
fn what_lies_too_far_off_or_between_words_is_general() {
    for top in TOPS {
        for offset in [4 * MIB, 4 * MIB + 8, -4 * MIB - 8, i32::MAX - 7, i32::MIN, 1, 4, 12, -4, 4 * MIB - 4] {
            let (cfa, segment, _) = top(offset);
            assert_eq!(Rule::from_row(&row(cfa, RegisterRule::Unset), &segment), Rule::GENERAL, "{offset}");
        }
        let (cfa, segment, _) = top(16);
        for saved in SAVED {
            for offset in [256, 264, -264, 4 * MIB, i32::MIN, 4, -4, 244, -252, -257] {
                let (bp, more, _) = saved(offset, segment.len() as u32);
                let rule = Rule::from_row(&row(cfa, bp), &[segment.as_slice(), &more].concat());
                assert_eq!(rule, Rule::GENERAL, "{offset}");
            }
        }
    }
    // Whatever is done with the sum, it is not the sum.
    for top in &TOPS[2..] {
        let (cfa, segment, _) = top(16);
        for more in [0x96, 0x06] {
            let longer = expression(&[&segment[1..], &[more]].concat());
            assert_eq!(Rule::from_row(&row(cfa, RegisterRule::Unset), &longer), Rule::GENERAL);
        }
    }
    // What does not even fit into 32 bits must not come back as something that does.
    for offset in [1 << 32, (1 << 32) + 16, -(1 << 32) + 16, i64::MIN] {
        let segment = expression(&register_and(BP, offset, true));
        assert_eq!(Rule::from_row(&row(CfaRule::Expression(0), RegisterRule::Unset), &segment), Rule::GENERAL);
        let segment = expression(&register_and(BP, offset, false));
        let cfa = CfaRule::Register(BP, 16);
        assert_eq!(Rule::from_row(&row(cfa, RegisterRule::Expression(0)), &segment), Rule::GENERAL);
    }
}

#[test]
fn other_registers_and_other_rules_are_general() {
    let cfa = CfaRule::Register(SP, 16);
    assert_eq!(Rule::from_row(&row(CfaRule::Register(3, 16), RegisterRule::Unset), &[]), Rule::GENERAL);
    for bp in [RegisterRule::Undefined, RegisterRule::ValueOffset(-16), RegisterRule::Register(3)] {
        assert_eq!(Rule::from_row(&row(cfa, bp), &[]), Rule::GENERAL);
    }
    // What is stored where a stored address says is not stored at a sum.
    for register in [SP, BP] {
        let segment = expression(&register_and(register, 8, true));
        assert_eq!(Rule::from_row(&row(cfa, RegisterRule::Expression(0)), &segment), Rule::GENERAL);
    }
    // A value that is computed is not one that is stored.
    let segment = expression(&register_and(BP, 8, false));
    assert_eq!(Rule::from_row(&row(cfa, RegisterRule::ValueExpression(0)), &segment), Rule::GENERAL);
    assert_eq!(Rule::from_row(&row(CfaRule::Expression(0), RegisterRule::Unset), &segment), Rule::GENERAL);
    for ip in [RegisterRule::Offset(-16), RegisterRule::Offset(0), RegisterRule::Register(3)] {
        let mut row = row(cfa, RegisterRule::Unset);
        row.set_register(u64::from(IP), ip);
        assert_eq!(Rule::from_row(&row, &[]), Rule::GENERAL);
    }
    for (sp, expected) in [(0, Shape::FromSp(16)), (8, Shape::General)] {
        let mut row = row(cfa, RegisterRule::Unset);
        row.set_register(u64::from(SP), RegisterRule::ValueOffset(sp));
        assert_eq!(Rule::from_row(&row, &[]).shape(), expected);
    }
}

#[test]
fn what_has_no_caller_or_makes_no_sense() {
    let cfa = CfaRule::Register(SP, 16);
    for (ip, expected) in [
        (RegisterRule::Undefined, Rule::OUTERMOST),
        (RegisterRule::Unset, Rule::REFUSED),
        (RegisterRule::Same, Rule::REFUSED),
    ] {
        let mut row = row(cfa, RegisterRule::Unset);
        row.set_register(u64::from(IP), ip);
        assert_eq!(Rule::from_row(&row, &[]), expected);
    }
    assert_eq!(Rule::from_row(&row(CfaRule::Unset, RegisterRule::Unset), &[]), Rule::REFUSED);
}

#[test]
fn numbers_that_are_no_rules_are_refused() {
    for bits in [0, 11, 12, 13, 14, 15] {
        for more in [0, 0xffff_fff0, 0x1234_5670] {
            assert_eq!(Rule::from_bits(bits | more).shape(), Shape::Refused);
        }
    }
    assert_eq!(Rule::default(), Rule::REFUSED);
    let known = [
        (Rule::REFUSED, Shape::Refused),
        (Rule::OUTERMOST, Shape::Outermost),
        (Rule::GENERAL, Shape::General),
        (Rule::NO_TABLE, Shape::NoTable),
        (Rule::BY_CODE, Shape::ByCode),
    ];
    for (rule, shape) in known {
        assert_eq!((rule.shape(), rule.base_pointer()), (shape, BasePointer::Same));
    }
}

/// The row of a frame that the kernel left, with the interrupted registers at these offsets.
fn signal_row(cfa: i64, bp: i64, ip: i64) -> (Row, Vec<u8>) {
    let mut row = Row::UNSET;
    row.set_signal(true);
    let mut segment = expression(&register_and(SP, cfa, true));
    row.set_cfa(CfaRule::Expression(0));
    for (register, offset) in [(BP, bp), (IP, ip)] {
        row.set_register(u64::from(register), RegisterRule::Expression(segment.len() as u32));
        segment.extend(expression(&register_and(SP, offset, false)));
    }
    (row, segment)
}

#[test]
fn signal_frames_hold_three_offsets() {
    // The last are glibc's and the kernel's; the others are the bounds of each.
    for (cfa, bp, ip) in [(0, 0, 0), (2040, 0, 0), (0, 8184, 0), (0, 0, 8184), (2040, 8184, 8184), (160, 120, 168)] {
        let (row, segment) = signal_row(cfa, bp, ip);
        let expected = Shape::Signal { cfa: cfa as u16, bp: bp as u16, ip: ip as u16 };
        assert_eq!(Rule::from_row(&row, &segment).shape(), expected);
    }
    let too_far = [(2048, 0, 0), (0, 8192, 0), (0, 0, 8192), (-8, 0, 0), (0, -8, 0), (0, 0, -8), (1 << 16, 0, 0)];
    let between = [(4, 0, 0), (0, 4, 0), (0, 0, 4), (2041, 8, 8)];
    for (cfa, bp, ip) in too_far.into_iter().chain(between) {
        let (row, segment) = signal_row(cfa, bp, ip);
        assert_eq!(Rule::from_row(&row, &segment), Rule::GENERAL, "{cfa} {bp} {ip}");
    }
}

#[test]
fn signal_frames_that_are_described_in_another_way_are_general() {
    let (good, mut segment) = signal_row(16, 24, 32);
    let again = segment.len() as u32;
    segment.extend(expression(&register_and(SP, 16, false)));
    let elsewhere = segment.len() as u32;
    segment.extend(expression(&register_and(SP, 40, false)));
    let by_bp = segment.len() as u32;
    segment.extend(expression(&register_and(BP, 16, true)));
    let is_general = |change: &dyn Fn(&mut Row)| {
        let mut row = good;
        change(&mut row);
        Rule::from_row(&row, &segment) == Rule::GENERAL
    };
    assert!(!is_general(&|_| {}));
    // rsp is where the frame's top is, or it is not said.
    assert!(!is_general(&|row| row.set_register(u64::from(SP), RegisterRule::Expression(again))));
    assert!(is_general(&|row| row.set_register(u64::from(SP), RegisterRule::Expression(elsewhere))));
    assert!(is_general(&|row| row.set_register(u64::from(SP), RegisterRule::ValueOffset(0))));
    assert!(is_general(&|row| row.set_register(u64::from(BP), RegisterRule::Unset)));
    assert!(is_general(&|row| row.set_register(u64::from(BP), RegisterRule::Offset(-16))));
    assert!(is_general(&|row| row.set_register(u64::from(IP), RegisterRule::Offset(-8))));
    assert!(is_general(&|row| row.set_cfa(CfaRule::Expression(by_bp))));
    assert!(is_general(&|row| row.set_cfa(CfaRule::Register(SP, 16))));
}

/// The linkers' expression with another number.
fn linkage_code(literal: u8) -> [u8; 11] {
    [0x77, 8, 0x80, 0, 0x3f, 0x1a, literal, 0x2a, 0x33, 0x24, 0x22]
}

#[test]
fn linkage_entries_hold_one_number() {
    for from in 0..32 {
        let segment = expression(&linkage_code(0x30 + from));
        let rule = Rule::from_row(&row(CfaRule::Expression(0), RegisterRule::Unset), &segment);
        assert_eq!((rule.shape(), rule.base_pointer()), (Shape::Linkage(from), BasePointer::Same));
        let rule = Rule::from_row(&row(CfaRule::Expression(0), RegisterRule::Offset(-16)), &segment);
        assert_eq!((rule.shape(), rule.base_pointer()), (Shape::Linkage(from), BasePointer::AtCfa(-16)));
    }
}

#[test]
fn nearly_the_expression_of_linkage_entries_is_general() {
    let good = linkage_code(0x3b);
    for index in 0..good.len() {
        let mut code = good;
        code[index] ^= 0x40;
        let rule = Rule::from_row(&row(CfaRule::Expression(0), RegisterRule::Unset), &expression(&code));
        assert_eq!(rule, Rule::GENERAL, "{index}");
    }
    for code in [[&good[..], &[0x96]].concat(), good[..10].to_vec(), linkage_code(0x50).to_vec()] {
        let rule = Rule::from_row(&row(CfaRule::Expression(0), RegisterRule::Unset), &expression(&code));
        assert_eq!(rule, Rule::GENERAL, "{code:x?}");
    }
}
