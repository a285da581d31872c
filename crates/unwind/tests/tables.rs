//! Every row of the unwind tables of system libraries, compared with what gimli makes of it.

#![cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gimli::{CfaRule as TheirCfa, Register, RegisterRule as TheirRule, UnwindSection};
use heapledger_unwind::{BasePointer, CfaRule, RegisterRule, Row, Rule, Shape, Table};
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, elf};

/// Rows compared per file; in larger files every n-th description is taken.
const ROWS_MAX: usize = 120_000;

struct Image {
    data: Vec<u8>,
}

/// What is needed of an ELF file: its segment with the tables, and the section that gimli reads.
struct Sections<'a> {
    table: Table<'a>,
    frames: &'a [u8],
    frames_address: u64,
}

impl Image {
    fn open(path: &Path) -> Option<Self> {
        fs::read(path).ok().map(|data| Self { data })
    }

    fn sections(&self) -> Sections<'_> {
        let file = ElfFile64::<Endianness>::parse(&*self.data).expect("an ELF file");
        let endian = file.endian();
        let headers = file.elf_program_headers();
        let header_address = headers
            .iter()
            .find(|header| header.p_type(endian) == elf::PT_GNU_EH_FRAME)
            .expect("a table header")
            .p_vaddr(endian);
        let holder = headers
            .iter()
            .find(|header| {
                let start = header.p_vaddr(endian);
                header.p_type(endian) == elf::PT_LOAD
                    && (start..start + header.p_filesz(endian)).contains(&header_address)
            })
            .expect("a segment that holds it");
        let section = file.section_by_name(".eh_frame").expect("frames");
        Sections {
            table: Table {
                segment: holder.data(endian, &*self.data).expect("bytes in the file"),
                segment_address: holder.p_vaddr(endian),
                header_address,
            },
            frames: section.data().expect("bytes in the file"),
            frames_address: section.address(),
        }
    }
}

/// The bytes of an expression of ours: a length in groups of seven bits, then the code.
fn our_expression<'a>(table: &Table<'a>, position: u32) -> &'a [u8] {
    let mut rest = &table.segment[position as usize..];
    let (mut length, mut shift) = (0, 0);
    loop {
        let byte = rest[0];
        rest = &rest[1..];
        length |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return &rest[..length];
        }
    }
}

fn their_expression<'a>(sections: &Sections<'a>, expression: gimli::UnwindExpression<usize>) -> &'a [u8] {
    &sections.frames[expression.offset..][..expression.length]
}

fn same_cfa(sections: &Sections<'_>, ours: CfaRule, theirs: &TheirCfa<usize>) -> bool {
    match (ours, theirs) {
        (CfaRule::Register(number, distance), TheirCfa::RegisterAndOffset { register, offset }) => {
            u16::from(number) == register.0 && i64::from(distance) == *offset
        }
        (CfaRule::Expression(position), TheirCfa::Expression(expression)) => {
            our_expression(&sections.table, position) == their_expression(sections, *expression)
        }
        _ => false,
    }
}

fn same_rule(sections: &Sections<'_>, ours: RegisterRule, theirs: Option<TheirRule<usize>>) -> bool {
    match (ours, theirs) {
        (RegisterRule::Unset, None) => true,
        (RegisterRule::Undefined, Some(TheirRule::Undefined)) => true,
        (RegisterRule::Same, Some(TheirRule::SameValue)) => true,
        (RegisterRule::Offset(ours), Some(TheirRule::Offset(theirs)))
        | (RegisterRule::ValueOffset(ours), Some(TheirRule::ValOffset(theirs))) => i64::from(ours) == theirs,
        (RegisterRule::Register(ours), Some(TheirRule::Register(theirs))) => u16::from(ours) == theirs.0,
        (RegisterRule::Expression(position), Some(TheirRule::Expression(expression)))
        | (RegisterRule::ValueExpression(position), Some(TheirRule::ValExpression(expression))) => {
            our_expression(&sections.table, position) == their_expression(sections, expression)
        }
        _ => false,
    }
}

/// An operation "register plus offset", for offsets of one or two bytes.
fn breg(register: u8, offset: i64) -> Vec<u8> {
    let mut code = vec![0x70 + register];
    let mut rest = offset;
    loop {
        let byte = (rest & 0x7f) as u8;
        rest >>= 7;
        let last = (rest == 0 && byte & 0x40 == 0) || (rest == -1 && byte & 0x40 != 0);
        code.push(if last { byte } else { byte | 0x80 });
        if last {
            return code;
        }
    }
}

/// Whether the compact rule says what the row of gimli says. `General` is always true, `NoTable`
/// and `Refused` never.
fn rule_is_true(sections: &Sections<'_>, rule: Rule, signal: bool, row: &gimli::UnwindTableRow<usize>) -> bool {
    let ip = row.register(Register(16));
    let bp = row.register(Register(6));
    let cfa_is = |register: u16, distance: i32| {
        matches!(row.cfa(), TheirCfa::RegisterAndOffset { register: base, offset }
            if base.0 == register && *offset == i64::from(distance))
    };
    let cfa_code_is = |code: &[u8]| {
        matches!(row.cfa(), TheirCfa::Expression(expression)
            if their_expression(sections, *expression) == code)
    };
    let rule_code_is = |rule: Option<TheirRule<usize>>, code: &[u8]| {
        matches!(rule, Some(TheirRule::Expression(expression))
            if their_expression(sections, expression) == code)
    };
    let stored = |register: u8, offset: i64| [breg(register, offset), vec![0x06]].concat();
    let shape_is_true = match rule.shape() {
        Shape::Outermost => return ip == Some(TheirRule::Undefined),
        Shape::General => return true,
        Shape::Refused | Shape::NoTable | Shape::ByCode => return false,
        Shape::Signal { cfa, bp: bp_offset, ip: ip_offset } => {
            return signal
                && cfa_code_is(&stored(7, cfa.into()))
                && rule_code_is(bp, &breg(7, bp_offset.into()))
                && rule_code_is(ip, &breg(7, ip_offset.into()));
        }
        Shape::FromSp(offset) => cfa_is(7, offset),
        Shape::FromBp(offset) => cfa_is(6, offset),
        Shape::StoredAtSp(offset) => cfa_code_is(&stored(7, offset.into())),
        Shape::StoredAtBp(offset) => cfa_code_is(&stored(6, offset.into())),
        Shape::Linkage(from) => cfa_code_is(&[0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x30 + from, 0x2a, 0x33, 0x24, 0x22]),
    };
    let bp_is_true = match rule.base_pointer() {
        BasePointer::Same => matches!(bp, None | Some(TheirRule::SameValue)),
        BasePointer::AtCfa(offset) => bp == Some(TheirRule::Offset(offset.into())),
        BasePointer::AtBp(offset) => rule_code_is(bp, &breg(6, offset.into())),
        BasePointer::AtSp(offset) => rule_code_is(bp, &breg(7, offset.into())),
    };
    let sp_is_default = row.register(Register(7)).is_none();
    !signal && shape_is_true && bp_is_true && sp_is_default && ip == Some(TheirRule::Offset(-8))
}

fn shape_name(shape: Shape) -> &'static str {
    match shape {
        Shape::Refused => "refused",
        Shape::FromSp(_) => "rsp",
        Shape::FromBp(_) => "rbp",
        Shape::StoredAtSp(_) => "stored at rsp",
        Shape::StoredAtBp(_) => "stored at rbp",
        Shape::Linkage(_) => "linkage table",
        Shape::Signal { .. } => "signal",
        Shape::Outermost => "outermost",
        Shape::General => "general",
        Shape::NoTable | Shape::ByCode => "no table",
    }
}

fn rows_differ(sections: &Sections<'_>, ours: &Row, theirs: &gimli::UnwindTableRow<usize>) -> bool {
    !same_cfa(sections, ours.cfa(), theirs.cfa())
        || (0..=16).any(|number| {
            let theirs = theirs.register(Register(number.into()));
            !same_rule(sections, ours.register(number), theirs)
        })
}

/// Compares all rows (or a sample) of a file. Returns the number compared.
fn compare(path: &Path) -> usize {
    let Some(image) = Image::open(path) else {
        println!("{}: not here", path.display());
        return 0;
    };
    let sections = image.sections();
    let frames = gimli::EhFrame::new(sections.frames, gimli::LittleEndian);
    let bases = gimli::BaseAddresses::default().set_eh_frame(sections.frames_address);
    let mut context = gimli::UnwindContext::new();
    let mut shapes = BTreeMap::<&str, usize>::new();
    let mut generals = BTreeMap::<String, usize>::new();
    let mut rows = 0;
    let mut differences = 0;

    let mut descriptions = Vec::new();
    let mut entries = frames.entries(&bases);
    while let Some(entry) = entries.next().expect("a well-formed section") {
        if let gimli::CieOrFde::Fde(partial) = entry {
            let parse = |_: &_, bases: &_, offset| frames.cie_from_offset(bases, offset);
            descriptions.push(partial.parse(parse).expect("a well-formed description"));
        }
    }
    // About nine rows per description.
    let stride = (descriptions.len() * 9).div_ceil(ROWS_MAX).max(1);
    for description in descriptions.iter().step_by(stride) {
        let signal = description.is_signal_trampoline();
        let mut table = description.rows(&frames, &bases, &mut context).expect("rows");
        while let Some(row) = table.next_row().expect("a row") {
            if row.start_address() >= row.end_address() {
                continue;
            }
            for pc in [row.start_address(), row.end_address() - 1] {
                rows += 1;
                let ours = sections.table.row(pc);
                let Ok(ours) = ours else {
                    println!("{}: {pc:#x}: {ours:?}", path.display());
                    differences += 1;
                    continue;
                };
                let rule = Rule::from_row(&ours, sections.table.segment);
                *shapes.entry(shape_name(rule.shape())).or_default() += 1;
                if rule.shape() == Shape::General {
                    let why = format!(
                        "CFA {} bp {} ip {}",
                        kind(&ours.cfa()),
                        kind(&ours.register(6)),
                        kind(&ours.register(16))
                    );
                    *generals.entry(why).or_default() += 1;
                }
                if rows_differ(&sections, &ours, row)
                    || ours.is_signal() != signal
                    || !rule_is_true(&sections, rule, signal, row)
                {
                    differences += 1;
                    if differences < 10 {
                        println!("{}: {pc:#x}:\n {ours:?}\n {row:?}\n {rule:?}", path.display());
                    }
                }
            }
        }
        // Whatever lies right behind the description must not be taken for a part of it.
        let end = description.initial_address() + description.len();
        if let Ok(row) = sections.table.row(end) {
            assert!(
                descriptions.iter().any(|other| other.contains(end)),
                "{end:#x} is covered by nothing, but has {row:?}"
            );
        }
    }
    println!("{}: {rows} rows, 1 description in {stride}: {shapes:?} {generals:?}", path.display());
    assert_eq!(differences, 0, "{}", path.display());
    rows
}

fn kind(rule: &impl std::fmt::Debug) -> String {
    let text = format!("{rule:?}");
    match text.strip_prefix("Register(") {
        Some(rest) => format!("r{}", rest.split([',', ')']).next().unwrap_or("?")),
        None => text.split('(').next().unwrap_or("?").to_owned(),
    }
}

/// Where distributions keep libraries.
const DIRECTORIES: [&str; 4] = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib"];

fn find_library(name: &str) -> PathBuf {
    let paths = DIRECTORIES.map(|directory| Path::new(directory).join(name));
    paths.iter().find(|path| path.exists()).unwrap_or(&paths[0]).clone()
}

fn library(name: &str) -> usize {
    compare(&find_library(name))
}

#[test]
fn c_library() {
    assert!(library("libc.so.6") > 10_000);
}

#[test]
fn dynamic_linker() {
    library("ld-linux-x86-64.so.2");
}

#[test]
fn cpp_library() {
    library("libstdc++.so.6");
}

#[test]
fn hand_written_assembly() {
    library("libcrypto.so.3");
    library("libgmp.so.10");
}

#[test]
fn python() {
    compare(Path::new("/usr/bin/python3"));
}

#[test]
fn debugger() {
    compare(Path::new("/usr/bin/gdb"));
}

#[test]
fn compiler() {
    compare(Path::new("/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus"));
}

/// Rust's own code, and whatever linker this test was made with.
#[test]
fn this_test() {
    assert!(compare(&std::env::current_exe().expect("a path")) > 1000);
}

#[test]
fn linear_search_finds_the_same_rows() {
    let image = Image::open(&find_library("ld-linux-x86-64.so.2")).expect("a dynamic linker");
    let sections = image.sections();
    let table = sections.table;
    let mut found = 0;
    for pc in (0x1000..0x20_0000).step_by(251) {
        let by_search = table.row(pc).map(|row| format!("{row:?}"));
        let linearly = table.row_by_linear_search(pc).map(|row| format!("{row:?}"));
        assert_eq!(by_search, linearly, "{pc:#x}");
        found += usize::from(linearly.is_ok());
    }
    assert!(found > 100);

    // A header without a sorted table must lead to the same.
    let mut segment = table.segment.to_vec();
    let header = (table.header_address - table.segment_address) as usize;
    segment[header + 2] = 0xff;
    segment[header + 3] = 0xff;
    let unsorted = Table { segment: &segment, ..table };
    for pc in (0x1000..0x20_0000).step_by(977) {
        let by_search = table.row(pc).map(|row| format!("{row:?}"));
        assert_eq!(by_search, unsorted.row(pc).map(|row| format!("{row:?}")), "{pc:#x}");
    }
}

/// Damaged tables may give any answer, but they must give one.
#[test]
fn flipped_bits_do_no_harm() {
    let image = Image::open(&find_library("ld-linux-x86-64.so.2")).expect("a dynamic linker");
    let table = image.sections().table;
    let header = (table.header_address - table.segment_address) as usize;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    let mut segment = table.segment.to_vec();
    let mut refused = 0;
    for round in 0..20_000 {
        let start = if round % 8 == 0 { header } else { header + 0x800 };
        let mut undo = Vec::new();
        for _ in 0..1 + random() % 64 {
            let at = start + random() % (segment.len() - start);
            undo.push((at, segment[at]));
            segment[at] ^= 1 << (random() % 8);
        }
        let cut = if round % 4 == 0 { start + random() % (segment.len() - start) } else { segment.len() };
        let damaged = Table { segment: &segment[..cut], ..table };
        for _ in 0..8 {
            let pc = 0x1000 + (random() % 0x28000) as u64;
            match damaged.row(pc) {
                Ok(row) => drop(Rule::from_row(&row, damaged.segment)),
                Err(_) => refused += 1,
            }
        }
        if round % 100 == 0 {
            let _ = damaged.row_by_linear_search(0x1000 + (random() % 0x28000) as u64);
        }
        for (at, byte) in undo.into_iter().rev() {
            segment[at] = byte;
        }
    }
    assert!(refused > 0);
}
