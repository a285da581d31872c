//! Lines of scripts in stacks: the ledger has their names itself.

use std::path::Path;
use std::sync::Arc;

use heapledger_format::CodeId;
use heapledger_format::session::process as key;
use heapledger_source::{QuickMap, ScriptLine, SourceError};

use super::{NamedFrame, Names};

/// Those that were asked for, by the ids that stand for them in stacks; `None`: they are something else.
#[derive(Debug, Default)]
pub(super) struct Scripts(QuickMap<CodeId, Option<ScriptFrame>>);

#[derive(Clone, Debug)]
pub(super) struct ScriptFrame {
    file: Arc<str>,
    function: Arc<str>,
    line: Option<u32>,
}

impl From<ScriptLine> for ScriptFrame {
    fn from(line: ScriptLine) -> ScriptFrame {
        ScriptFrame { file: line.file.into(), function: line.function.into(), line: line.line }
    }
}

impl Names<'_> {
    /// The line that an id stands for.
    pub(super) fn script_line(&mut self, id: CodeId) -> Result<Option<ScriptFrame>, SourceError> {
        if let Some(known) = self.scripts.0.get(&id) {
            return Ok(known.clone());
        }
        let line = self.ledger.script_line(id)?.map(ScriptFrame::from);
        self.scripts.0.insert(id, line.clone());
        Ok(line)
    }

    /// The frame of an id that is no code address.
    pub(super) fn script_frame(&mut self, id: CodeId) -> Result<NamedFrame, SourceError> {
        let Some(ScriptFrame { file, function, line }) = self.script_line(id)? else {
            return Ok(NamedFrame::default());
        };
        let source = line.and_then(|line| self.texts.get(&(Arc::clone(&file), line)).cloned().flatten());
        let known = Some(&file).filter(|file| !file.is_empty());
        Ok(NamedFrame {
            raw_name: Some(Arc::clone(&function)),
            function: Some(function).filter(|function| !function.is_empty()),
            file: known.map(|file| self.shown(file)),
            line,
            source,
            ..NamedFrame::default()
        })
    }

    /// Reads the text of its line. A path is as the program knew it, which worked in a directory of its own.
    pub(super) fn read_script_text(&mut self, id: CodeId) -> Result<(), SourceError> {
        let Some(ScriptFrame { file, line: Some(line), .. }) = self.script_line(id)? else { return Ok(()) };
        let (sources, process) = (&mut self.sources, self.ledger.process());
        let mut text = || {
            let whole = process.text(key::CWD).map(|directory| Path::new(&*directory).join(&*file));
            let there = whole.as_ref().and_then(|path| sources.line(path, line));
            there.map(Arc::from)
        };
        if !self.texts.contains_key(&(Arc::clone(&file), line)) {
            let text = text();
            self.texts.insert((file, line), text);
        }
        Ok(())
    }
}
