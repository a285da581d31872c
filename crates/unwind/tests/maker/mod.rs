//! Unwind tables made by hand.

#![allow(dead_code, reason = "each test uses its part")]

use heapledger_unwind::Table;

/// Where the segment that holds the tables lies.
pub(crate) const SEGMENT: u64 = 0x10_0000;

/// The table in a segment that a [`Maker`] wrote.
pub(crate) fn table(segment: &[u8]) -> Table<'_> {
    Table { segment, segment_address: SEGMENT, header_address: SEGMENT }
}

/// Call-frame instructions.
pub(crate) mod code {
    pub(crate) const REMEMBER: u8 = 0x0a;
    pub(crate) const RESTORE_STATE: u8 = 0x0b;
    pub(crate) const DEF_CFA: u8 = 0x0c;
    pub(crate) const DEF_CFA_OFFSET: u8 = 0x0e;
    pub(crate) const DEF_CFA_EXPRESSION: u8 = 0x0f;
    pub(crate) const EXPRESSION: u8 = 0x10;
    pub(crate) const UNDEFINED: u8 = 0x07;
    pub(crate) const REGISTER: u8 = 0x09;
    pub(crate) const OFFSET_SIGNED: u8 = 0x11;
    pub(crate) const VAL_OFFSET: u8 = 0x14;
    pub(crate) const VAL_EXPRESSION: u8 = 0x16;
    pub(crate) const ADVANCE_BY: u8 = 0x02;
    pub(crate) const OFFSET: u8 = 0x80;
    pub(crate) const ADVANCE: u8 = 0x40;
}

/// How linkers describe the procedure linkage table: one word more from byte 11 of an entry on.
pub(crate) const LINKAGE: [u8; 13] =
    [code::DEF_CFA_EXPRESSION, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];

/// `rt_sigreturn`'s frame with the CFA, rbp and ip 16, 24 and 32 bytes above rsp.
pub(crate) const SIGNAL: [u8; 15] =
    [code::DEF_CFA_EXPRESSION, 3, 0x77, 16, 0x06, code::EXPRESSION, 6, 2, 0x77, 24, code::EXPRESSION, 16, 2, 0x77, 32];

/// Writes `.eh_frame_hdr` (with a sorted table) and `.eh_frame`. Functions have 0x100 bytes each.
pub(crate) struct Maker {
    functions: Vec<(u64, bool, Vec<u8>)>,
}

impl Maker {
    pub(crate) fn new() -> Self {
        Self { functions: Vec::new() }
    }

    pub(crate) fn function(mut self, start: u64, program: &[u8]) -> Self {
        self.functions.push((start, false, program.to_vec()));
        self
    }

    pub(crate) fn signal(mut self, start: u64, program: &[u8]) -> Self {
        self.functions.push((start, true, program.to_vec()));
        self
    }

    fn record(frames: &mut Vec<u8>, mut body: Vec<u8>) {
        while !body.len().is_multiple_of(4) {
            body.push(0);
        }
        frames.extend((body.len() as u32).to_le_bytes());
        frames.extend(body);
    }

    pub(crate) fn segment(mut self) -> Vec<u8> {
        self.functions.sort();
        let header_size = 12 + 8 * self.functions.len();
        let mut frames = Vec::new();
        let mut commons = [0; 2];
        for (common, name) in commons.iter_mut().zip([&b"zR\0"[..], b"zRS\0"]) {
            *common = frames.len();
            let mut body = vec![0, 0, 0, 0, 1];
            body.extend(name);
            // Factors 1 and -8, column 16, absolute addresses; CFA = rsp + 8, ip at CFA - 8.
            body.extend([1, 0x78, 16, 1, 0x00, code::DEF_CFA, 7, 8, code::OFFSET | 16, 1]);
            Self::record(&mut frames, body);
        }
        let mut segment = vec![1, 0x1b, 0x03, 0x3b];
        segment.extend((header_size as u32 - 4).to_le_bytes());
        segment.extend((self.functions.len() as u32).to_le_bytes());
        for (start, signal, program) in &self.functions {
            let position = frames.len();
            segment.extend((*start as u32 - SEGMENT as u32).to_le_bytes());
            segment.extend(((header_size + position) as u32).to_le_bytes());
            let distance = position + 4 - commons[usize::from(*signal)];
            let mut body = (distance as u32).to_le_bytes().to_vec();
            body.extend(start.to_le_bytes());
            body.extend(0x100u64.to_le_bytes());
            body.push(0);
            body.extend(program);
            Self::record(&mut frames, body);
        }
        frames.extend([0; 4]);
        segment.extend(frames);
        segment
    }
}
