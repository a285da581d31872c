//! The frames of a line, and what of a stack has no room in one.

use std::path::Path;

use anyhow::{Result, bail};
use heapledger_format::Site;
use heapledger_report::counted;
use heapledger_source::{Ledger, Module};

use crate::say;

/// Frames of a call site, as they are written.
#[derive(Clone)]
pub(super) struct LineFrames {
    /// Innermost first.
    pub(super) frames: Vec<u64>,
    /// Some are left out, because they are of other modules.
    pub(super) is_part: bool,
    /// How many there were, where a line cannot have so many: the innermost are written.
    pub(super) cut_from: Option<usize>,
}

impl LineFrames {
    pub(super) fn cut_to(mut self, most: usize) -> LineFrames {
        self.cut_from = Some(self.frames.len()).filter(|frames| *frames > most);
        self.frames.truncate(most);
        self
    }
}

/// Lines that have not all frames of their stacks.
pub(super) struct Cut {
    pub(super) lines: u64,
    pub(super) most: usize,
    pub(super) deepest: usize,
}

impl Cut {
    pub(super) fn note(&mut self, cut_from: Option<usize>) {
        self.lines += u64::from(cut_from.is_some());
        self.deepest = self.deepest.max(cut_from.unwrap_or(0));
    }

    pub(super) fn tell(&self) {
        let Cut { lines, most, deepest } = self;
        if *lines != 0 {
            let lines = counted(*lines, "line has", "lines have");
            say(&format!("{lines} the innermost {most} frames only: there were up to {deepest}"));
        }
    }
}

/// The row of the module whose file is called so, or whose path is that.
pub(super) fn module(modules: &[Module], name: &str) -> Result<u16> {
    let is_it = |module: &&Module| module.path == Path::new(name) || module.path.file_name() == Some(name.as_ref());
    match modules.iter().find(is_it) {
        Some(module) => Ok(module.row),
        None if modules.is_empty() => bail!("the ledger knows no modules: its addresses are those of the device"),
        None => bail!("no module of the ledger is called {name}"),
    }
}

/// The frames of a call site, innermost first: as they were in memory, or of one module as they are in its file.
pub(super) fn frames(ledger: &Ledger, modules: &[Module], wanted: Option<u16>, site: Site) -> Result<LineFrames> {
    let (mut frames, mut is_part) = (Vec::new(), false);
    for id in ledger.stack(site)?.codes {
        let Some(code) = ledger.code(id)? else { continue };
        match wanted {
            Some(row) if code.module == Some(row) => frames.push(code.offset),
            Some(_) => is_part = true,
            None => {
                let bias = code.module.and_then(|row| modules.iter().find(|module| module.row == row));
                frames.push(code.offset.wrapping_add(bias.map_or(0, |module| module.bias)));
            }
        }
    }
    Ok(LineFrames { frames, is_part, cut_from: None })
}
