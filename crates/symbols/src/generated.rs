//! Names of code that was made at run time, from the file that engines write for `perf`.
//!
//! The format is that of `tools/perf/Documentation/jit-interface.txt` in Linux: a line `START SIZE NAME` for each piece of
//! code, the numbers hexadecimal. A later line replaces what earlier ones said of the same addresses.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::frame::{Frame, Resolved};
use crate::mapping::Mapping;

/// Longest name that is kept, in bytes.
const NAME_MAX: usize = 4096;
/// Pieces of code that are kept at most; those of long runs of large programs are some hundred thousand.
const PIECES_MAX: usize = 4 << 20;

/// The file, and what was in it when it was last read.
#[derive(Debug)]
pub(crate) struct GeneratedFile {
    path: PathBuf,
    read_bytes: u64,
    code: GeneratedCode,
}

impl GeneratedFile {
    pub(crate) fn new(path: PathBuf) -> GeneratedFile {
        GeneratedFile { path, read_bytes: 0, code: GeneratedCode::default() }
    }

    pub(crate) fn resolve(&mut self, addresses: &[u64]) -> Vec<Resolved> {
        let bytes = std::fs::metadata(&self.path).map_or(0, |metadata| metadata.len());
        if bytes != self.read_bytes && addresses.iter().any(|address| self.code.frames(*address).is_none()) {
            self.code = GeneratedCode::read(&self.path);
            self.read_bytes = bytes;
        }
        let named = |address: &u64| Resolved { frames: self.code.frames(*address).unwrap_or_default(), hasty: false };
        addresses.iter().map(named).collect()
    }
}

/// Code that was made at run time.
#[derive(Debug, Default)]
pub(crate) struct GeneratedCode {
    /// By first address; they do not overlap.
    pieces: BTreeMap<u64, Piece>,
}

#[derive(Debug)]
struct Piece {
    /// One past the last address.
    end: u64,
    frame: Arc<[Frame]>,
}

impl GeneratedCode {
    /// Reads a file. What is no such line is passed over, and a file that cannot be read is as an empty one.
    pub(crate) fn read(path: &Path) -> GeneratedCode {
        let mapping = Mapping::open(path).unwrap_or_default();
        GeneratedCode::parse(&mapping)
    }

    fn parse(text: &[u8]) -> GeneratedCode {
        let mut code = GeneratedCode::default();
        for line in text.split(|byte| *byte == b'\n') {
            if code.pieces.len() >= PIECES_MAX {
                break;
            }
            if let Some((start, end, name)) = line_of(line) {
                code.put(start, end, name);
            }
        }
        code
    }

    /// Enters a piece in place of what was there.
    fn put(&mut self, start: u64, end: u64, name: &[u8]) {
        while let Some((&first, piece)) = self.pieces.range_mut(..end).next_back() {
            if piece.end <= start {
                break;
            }
            let (last, frame) = (piece.end, Arc::clone(&piece.frame));
            if first < start {
                piece.end = start;
            } else {
                self.pieces.remove(&first);
            }
            if last > end {
                self.pieces.insert(end, Piece { end: last, frame });
            }
            if first < start {
                break;
            }
        }
        self.pieces.insert(start, Piece { end, frame: Arc::new([frame_of(name)]) });
    }

    /// The frame of the code that holds `address`.
    pub(crate) fn frames(&self, address: u64) -> Option<Arc<[Frame]>> {
        let (_, piece) = self.pieces.range(..=address).next_back()?;
        (address < piece.end).then(|| Arc::clone(&piece.frame))
    }
}

/// First address, one past the last, and name.
fn line_of(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let mut words = line.trim_ascii().splitn(3, |byte| *byte == b' ');
    let mut number = || {
        let digits = std::str::from_utf8(words.next()?).ok()?;
        u64::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16).ok()
    };
    let (start, bytes) = (number()?, number()?);
    let name = words.next()?.trim_ascii();
    let end = start.checked_add(bytes).filter(|end| *end > start)?;
    (!name.is_empty()).then(|| (start, end, name.get(..NAME_MAX).unwrap_or(name)))
}

/// What V8 puts before a function's name: how it was compiled, which is not part of who it is.
const PREFIXES: &[&str] = &["JS:", "LazyCompile:", "Function:"];
const TIERS: &[char] = &['~', '^', '+', '*'];

/// The frame of a name, of which V8's have a place at the end: `JS:*render /srv/page.js:12:34`, and Python's a file:
/// `py::render:/srv/page.py`.
fn frame_of(raw: &[u8]) -> Frame {
    let raw = String::from_utf8_lossy(raw);
    let script = PREFIXES.iter().find_map(|prefix| raw.strip_prefix(prefix));
    let mut frame = Frame { raw_name: Some(Arc::from(&*raw)), ..Frame::default() };
    if let Some((function, file)) = raw.strip_prefix("py::").and_then(|name| name.rsplit_once(':')) {
        return Frame { function: Some(Arc::from(function)), file: Some(Arc::from(file)), ..frame };
    }
    let Some(script) = script.map(|name| name.trim_start_matches(TIERS)) else {
        frame.function = Some(Arc::from(&*raw));
        return frame;
    };
    let (name, place) = script.rsplit_once(' ').unwrap_or((script, ""));
    let mut parts = place.rsplitn(3, ':');
    let (column, line, file) = (parts.next(), parts.next(), parts.next());
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u32>().ok()).filter(|number| *number > 0);
    let (name, function_file) = match (file, number(line), number(column)) {
        (Some(file), Some(line), Some(column)) if !file.is_empty() => {
            (frame.line, frame.column) = (Some(line), Some(column));
            (name, Some(Arc::from(file)))
        }
        _ => (script, None),
    };
    frame.file = function_file;
    frame.function = Some(Arc::from(if name.is_empty() { "(anonymous)" } else { name }));
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(code: &GeneratedCode, address: u64) -> Option<String> {
        let frames = code.frames(address)?;
        let Frame { function, file, line, .. } = frames.first()?;
        let place = file.as_ref().map(|file| format!(" {file}:{}", line.unwrap_or(0))).unwrap_or_default();
        Some(format!("{}{place}", function.as_ref()?))
    }

    #[test]
    fn lines_are_read() {
        let text = b"7f50fe7c5900 118 JS:^fib /srv/a b.js:1:13\n\
            0x3c6a 2c JS:~ [eval]:3:7\n\
            5000 10 Ljava/util/HashMap;::put\n\
            6000 10 py::main:/x/y.py\n\
            7000 10 Builtin:CEntry\n\
            no line\n5000\n5000 0 nothing\nffffffffffffffff 2 beyond\n8000 10 \n";
        let code = GeneratedCode::parse(text);
        assert_eq!(shown(&code, 0x7f50_fe7c_5901).as_deref(), Some("fib /srv/a b.js:1"));
        assert_eq!(shown(&code, 0x3c6a).as_deref(), Some("(anonymous) [eval]:3"));
        assert_eq!(shown(&code, 0x500f).as_deref(), Some("Ljava/util/HashMap;::put"));
        assert_eq!(shown(&code, 0x6000).as_deref(), Some("main /x/y.py:0"));
        assert_eq!(shown(&code, 0x7000).as_deref(), Some("Builtin:CEntry"));
        for nothing in [0x5010, 0x4fff, 0, u64::MAX, 0x8000] {
            assert_eq!(shown(&code, nothing), None, "{nothing:x}");
        }
    }

    #[test]
    fn later_code_replaces_earlier() {
        let code = GeneratedCode::parse(b"1000 100 a\n1040 20 b\n10f0 20 c\n1000 8 d\n1044 4 e\n");
        let names: Vec<String> = [0x1000, 0x1008, 0x103f, 0x1040, 0x1044, 0x1048, 0x1060, 0x10ef, 0x10f0, 0x110f]
            .iter()
            .map(|at| shown(&code, *at).unwrap_or_default())
            .collect();
        assert_eq!(names, ["d", "a", "a", "b", "e", "b", "a", "a", "c", "c"]);
        let all = GeneratedCode::parse(b"10 10 a\n30 10 b\n50 10 c\n0 100 d\n");
        assert_eq!(all.pieces.len(), 1);
    }
}
