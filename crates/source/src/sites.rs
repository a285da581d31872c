//! Call stacks, from the trie of call sites.

use std::collections::HashSet;
use std::sync::PoisonError;

use heapledger_format::section::{line, pc, site};
use heapledger_format::session::{process as key, unwind};
use heapledger_format::{CodeId, SectionKind, Site};

use crate::SourceError;
use crate::finished::Near;
use crate::ledger::Ledger;
use crate::quick::QuickMap;

/// Most frames of a stack that are followed: a damaged trie may lead in a circle.
const DEPTH_MAX: usize = 4096;

/// Most code addresses of which something is kept: a forged ledger could say it of all numbers.
const MARKS_MAX: usize = 1 << 22;

/// A call stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// Ids of code addresses, innermost first. What an id means is told by [`Ledger::code`].
    pub codes: Vec<CodeId>,
    /// Whether the trie could not be followed to the outermost frame.
    pub damaged: bool,
}

/// A place in the source of a program that an interpreter runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScriptLine {
    /// The file's path, as the program knows it; `<string>` and the like where there is none.
    pub file: String,
    /// The function, with what it is defined in.
    pub function: String,
    /// The line, if there is one.
    pub line: Option<u32>,
}

/// A code address: the byte before it belongs to the instruction that was executing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code {
    /// Row in the `modules` section; `None` if the code belongs to no known module.
    pub module: Option<u16>,
    /// Address within the module's file, or an absolute address if there is no module.
    pub offset: u64,
}

/// What is known of code addresses, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Elements that were looked through.
    read: u64,
    by_id: QuickMap<CodeId, CodeMarks>,
    /// Whether all callers were found along frame pointers, once that was asked.
    guesses: Option<bool>,
    /// Ids that stand for lines of scripts.
    of_scripts: HashSet<CodeId>,
}

/// What the ledger says of a code address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeMarks {
    /// Its code has no unwind table: its caller, and all frames outside of that, were found along frame pointers. Such
    /// frames are not sure, and some may be missing.
    pub guesses_caller: bool,
    /// A signal handler returns to it: the next frame outwards was interrupted. Its code address is one more than that of
    /// the instruction, for it is no return address.
    pub is_signal_frame: bool,
    /// It is in the loop of an interpreter.
    pub interprets: bool,
}

impl Ledger {
    /// Whether the ledger says which stacks were guessed: earlier recorders did not.
    pub fn tells_guesses(&self) -> bool {
        self.process().get(key::UNWIND).is_some()
    }

    /// What the ledger says of the code address `id`.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn code_marks(&self, id: CodeId) -> Result<CodeMarks, SourceError> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if u64::from(id.0) >= marks.read {
            self.read_marks(&mut marks)?;
            // Not once more for each id that leads nowhere.
            marks.read = marks.read.max(u64::from(id.0) + 1);
        }
        let mut found = marks.by_id.get(&id).copied().unwrap_or_default();
        // These ways go along frame pointers everywhere.
        found.guesses_caller |= *marks.guesses.get_or_insert_with(|| {
            let how = self.process().get(key::UNWIND);
            how.is_some_and(|how| [unwind::FAST.as_bytes(), unwind::FRAME_POINTERS.as_bytes()].contains(&how))
        });
        Ok(found)
    }

    fn read_marks(&self, marks: &mut Marks) -> Result<(), SourceError> {
        let element_bytes = self.element_bytes(SectionKind::Pcs);
        if element_bytes < pc::BYTES {
            marks.read = u64::MAX;
            return Ok(());
        }
        let codec = self.header().codec;
        self.for_each_chunk(SectionKind::Pcs, &mut |first, bytes| {
            for (index, element) in bytes.chunks_exact(element_bytes).enumerate() {
                let word = codec.u64(element, 0);
                if matches!(pc::Scripted::of(word), Some(pc::Scripted::Line(_) | pc::Scripted::LoopBegins))
                    && marks.of_scripts.len() < MARKS_MAX
                {
                    marks.of_scripts.extend(u32::try_from(first.saturating_add(index as u64)).ok().map(CodeId));
                }
                if let Some((mark, id)) = pc::marked(word)
                    && (marks.by_id.len() < MARKS_MAX || marks.by_id.contains_key(&CodeId(id)))
                {
                    let found = marks.by_id.entry(CodeId(id)).or_default();
                    match mark {
                        pc::Mark::NoTable => found.guesses_caller = true,
                        pc::Mark::SignalFrame => found.is_signal_frame = true,
                        pc::Mark::Interprets => found.interprets = true,
                    }
                }
            }
            marks.read = marks.read.max(first.saturating_add((bytes.len() / element_bytes) as u64));
            Ok(())
        })?;
        if self.is_finished() {
            marks.read = u64::MAX;
        }
        Ok(())
    }

    /// The stack that `site` stands for; empty if there is none. Lines of a script stand inside of the code that interprets them:
    /// what their ids mean is told by [`Ledger::script_line`].
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn stack(&self, site: Site) -> Result<Stack, SourceError> {
        let mut stack = self.nodes_of(site)?;
        let innermost = stack.codes.first().map(|id| self.scripted(*id)).transpose()?.flatten();
        if let Some(pc::Scripted::Stack(scripted)) = innermost {
            stack.codes.remove(0);
            let lines = self.nodes_of(Site(scripted))?;
            stack.damaged |= lines.damaged;
            stack.codes = self.joined(stack.codes, lines.codes)?;
        }
        Ok(stack)
    }

    /// Puts code addresses and lines of one stack in order: code that interprets runs lines up to the next beginning of the loop.
    fn joined(&self, codes: Vec<CodeId>, lines: Vec<CodeId>) -> Result<Vec<CodeId>, SourceError> {
        let mut joined = Vec::with_capacity(codes.len() + lines.len());
        let mut left = lines.into_iter();
        let mut until_next = |joined: &mut Vec<CodeId>, all: bool| -> Result<bool, SourceError> {
            let mut found = false;
            for line in left.by_ref() {
                match self.scripted(line)? {
                    Some(pc::Scripted::LoopBegins) if !all => return Ok(true),
                    Some(pc::Scripted::Line(_)) => {
                        joined.push(line);
                        found = true;
                    }
                    _ => {}
                }
            }
            Ok(found)
        };
        let mut follows = false;
        for code in codes {
            let made = follows && self.code(code)?.is_some_and(|code| code.module.is_none());
            follows = self.code_marks(code)?.interprets && until_next(&mut joined, false)?;
            // What Python makes for profilers (`-X perf`) calls the loop for one function each, which has a line already.
            if !made {
                joined.push(code);
            }
        }
        // Of code that nobody knows to interpret.
        until_next(&mut joined, true)?;
        Ok(joined)
    }

    /// What stands for something else than a code address.
    fn scripted(&self, id: CodeId) -> Result<Option<pc::Scripted>, SourceError> {
        let mut bytes = [0u8; pc::BYTES];
        let is_there = self.element_bytes(SectionKind::Lines) >= line::BYTES
            && self.element_bytes(SectionKind::Pcs) >= pc::BYTES
            && self.element(SectionKind::Pcs, u64::from(id.0), &mut bytes)?;
        Ok(is_there.then(|| pc::Scripted::of(self.header().codec.u64(&bytes, 0))).flatten())
    }

    /// The line of a script that an id of a stack stands for; `None`: it is a code address, or unknown.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn script_line(&self, id: CodeId) -> Result<Option<ScriptLine>, SourceError> {
        let Some(pc::Scripted::Line(row)) = self.scripted(id)? else { return Ok(None) };
        let mut bytes = [0u8; line::BYTES];
        if !self.element(SectionKind::Lines, u64::from(row), &mut bytes)? {
            return Ok(None);
        }
        let codec = self.header().codec;
        let text = |at, length| self.text_at(codec.u32(&bytes, at).into(), codec.u16(&bytes, length).into());
        Ok(Some(ScriptLine {
            file: text(line::FILE_AT, line::FILE_BYTES)?,
            function: text(line::FUNCTION_AT, line::FUNCTION_BYTES)?,
            line: Some(codec.u32(&bytes, line::LINE)).filter(|line| *line != 0),
        }))
    }

    /// The ids from a node of the trie to its root.
    fn nodes_of(&self, site: Site) -> Result<Stack, SourceError> {
        let mut stack = Stack::default();
        let mut near = Near::default();
        let mut node = site.0;
        while node != 0 {
            let mut bytes = [0u8; site::BYTES];
            let there = stack.codes.len() < DEPTH_MAX
                && self.element_bytes(SectionKind::Sites) >= site::BYTES
                && self.element_near(SectionKind::Sites, u64::from(node), &mut near, &mut bytes)?;
            if !there {
                stack.damaged = true;
                self.count_wrong(1);
                break;
            }
            let codec = self.header().codec;
            stack.codes.push(CodeId(codec.u32(&bytes, site::CODE)));
            node = codec.u32(&bytes, site::PARENT);
        }
        Ok(stack)
    }

    /// Calls `each` with (node, its caller's node) for every node of the trie of call sites. Elements that stand
    /// for nothing are passed over: the unused first one, those that were made in vain or not written yet, and on
    /// a chip places that were never taken; and so are lines of scripts, which are parts of stacks that have nodes of their own.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn for_each_site(&self, each: &mut dyn FnMut(Site, Site)) -> Result<(), SourceError> {
        let element_bytes = self.element_bytes(SectionKind::Sites);
        if element_bytes < site::BYTES {
            return Ok(());
        }
        let codec = self.header().codec;
        let of_scripts = self.of_scripts()?;
        self.for_each_chunk(SectionKind::Sites, &mut |first, bytes| {
            for (index, element) in bytes.chunks_exact(element_bytes).enumerate() {
                let Ok(node) = u32::try_from(first.saturating_add(index as u64)) else { break };
                let (parent, code) = (codec.u32(element, site::PARENT), codec.u32(element, site::CODE));
                let is_of_script = of_scripts.contains(&CodeId(code));
                if node != 0 && parent != node && (parent, code) != (0, 0) && !is_of_script {
                    each(Site(node), Site(parent));
                }
            }
            Ok(())
        })
    }

    /// Ids that stand for lines of scripts, as far as they were written by now.
    fn of_scripts(&self) -> Result<HashSet<CodeId>, SourceError> {
        if self.element_bytes(SectionKind::Lines) == 0 {
            return Ok(HashSet::new());
        }
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if marks.read != u64::MAX {
            self.read_marks(&mut marks)?;
        }
        Ok(marks.of_scripts.clone())
    }

    /// What the id of a code address stands for; `None` if the ledger does not say.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn code(&self, id: CodeId) -> Result<Option<Code>, SourceError> {
        if self.header().section(SectionKind::Pcs).is_none() {
            return Ok(Some(Code { module: None, offset: u64::from(id.0) }));
        }
        let mut bytes = [0u8; pc::BYTES];
        if self.element_bytes(SectionKind::Pcs) < pc::BYTES
            || id.0 == 0
            || !self.element(SectionKind::Pcs, u64::from(id.0), &mut bytes)?
        {
            return Ok(None);
        }
        let (module, offset) = pc::unpack(self.header().codec.u64(&bytes, 0));
        if module == pc::MARK {
            return Ok(None);
        }
        Ok(Some(Code { module: module.checked_sub(1), offset }))
    }
}
