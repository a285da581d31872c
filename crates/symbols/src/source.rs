//! Lines of source text.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::mapping::Mapping;
use crate::symbolizer::under;

/// Largest source file read.
const FILE_MAX: usize = 64 << 20;
/// Longest line returned, in bytes.
const LINE_MAX: usize = 4096;
/// Bytes kept at a time, texts and line starts together.
const HELD_MAX: usize = 256 << 20;
/// Files remembered at a time, those that are missing included.
const FILES_MAX: usize = 4096;

/// Reads single lines of source files, and remembers where lines begin.
#[derive(Debug, Default)]
pub struct SourceReader {
    sysroot: Option<PathBuf>,
    files: HashMap<PathBuf, Option<SourceText>>,
    held: usize,
}

#[derive(Debug)]
struct SourceText {
    text: Vec<u8>,
    starts: Vec<u32>,
}

impl SourceReader {
    /// A reader of files below `sysroot`, or of the machine's own.
    pub fn new(sysroot: Option<PathBuf>) -> Self {
        SourceReader { sysroot, ..SourceReader::default() }
    }

    /// The text of `line` (from 1) without its end, or `None` if there is no such file or
    /// line. Lines are cut at 4 KiB, and files over 64 MiB are not read.
    pub fn line(&mut self, path: impl AsRef<Path>, line: u32) -> Option<String> {
        let path = path.as_ref();
        if !self.files.contains_key(path) {
            // Reports walk through files in any order, but through few at a time: starting
            // over is simpler than keeping ages, and bounds the memory as well.
            if self.files.len() >= FILES_MAX || self.held >= HELD_MAX {
                self.files.clear();
                self.held = 0;
            }
            let lines = SourceText::read(&under(self.sysroot.as_deref(), path));
            self.held += lines.as_ref().map_or(0, |lines| lines.text.len() + 4 * lines.starts.len());
            self.files.insert(path.to_owned(), lines);
        }
        self.files.get(path)?.as_ref()?.line(line)
    }
}

impl SourceText {
    fn read(path: &Path) -> Option<SourceText> {
        let mapping = Mapping::open(path).ok()?;
        if mapping.len() > FILE_MAX {
            return None;
        }
        // Copied, unlike binaries: editors do rewrite sources in place.
        let text = mapping.to_vec();
        let mut starts = vec![0];
        starts.extend(text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at as u32 + 1));
        Some(SourceText { text, starts })
    }

    fn line(&self, line: u32) -> Option<String> {
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        let start = *self.starts.get(index)? as usize;
        let end = self.starts.get(index + 1).map_or(self.text.len(), |next| *next as usize - 1);
        let whole = self.text.get(start..end)?;
        if start == self.text.len() {
            return None;
        }
        let bytes = &whole[..whole.len().min(LINE_MAX)];
        Some(String::from_utf8_lossy(bytes).trim_end_matches('\r').to_owned())
    }
}
