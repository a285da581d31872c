//! The frames of a thread's interpreter, and what they become in the trie.
#![forbid(unsafe_code)]

use super::code::{PythonCode, Types};
use super::layout::{Layout, OWNED_BY_C_STACK};
use crate::capture;
use crate::shared::Shared;
use crate::sites::Sites;
use crate::state::Entered;
use core::sync::atomic::Ordering;
use heapledger_format::section::pc::Scripted;
use heapledger_format::{CodeId, SectionKind, Site, TallyCounter};
use heapledger_linux::peek::Peek;
use heapledger_unwind::Registers;

/// Frames of a stack that are followed: Python itself stops at 1,000, unless it is told otherwise.
const FRAMES_MAX: usize = 2048;
/// Instructions whose lines are remembered.
const NOTES: usize = 1024;
/// Stacks of both kinds whose node is remembered.
const JOINS: usize = 256;

/// A frame, or a call of the interpreter's loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Frame {
    /// Of a call of the loop an address on its own stack.
    at: u64,
    /// 0: it is such a call.
    code: u64,
    instruction: u64,
    identity: u64,
}

/// The line of an instruction.
#[derive(Clone, Copy)]
struct LineNote {
    code: u64,
    instruction: u64,
    checksum: u64,
    /// What stands for it in the trie; [`NO_LINE`]: nothing.
    id: u32,
}

/// Of code that Python has for its own use: what stands around an `__init__` from 3.12 on has no lines, and no file but its name.
const NO_LINE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct JoinNote {
    native: u32,
    scripted: u32,
    both: u32,
}

/// A thread's last frames, and what was learnt of them. **Zeroed bytes know nothing.**
pub(crate) struct Chain {
    /// How many frames there were.
    depth: usize,
    /// Them, outermost first, and their nodes.
    last: [Frame; FRAMES_MAX],
    nodes: [u32; FRAMES_MAX],
    /// Checksums of their code.
    sums: [u64; FRAMES_MAX],
    /// Those that are there now, innermost first.
    now: [Frame; FRAMES_MAX],
    notes: [LineNote; NOTES],
    joins: [JoinNote; JOINS],
    /// Room for a path or a name.
    text: [u8; heapledger_format::label::TEXT_BYTES_MAX as usize],
}

/// The call site of a stack whose call site without lines is `native`.
#[cold]
#[inline(never)]
pub(crate) fn site(shared: &'static Shared, mut state: Entered, registers: &Registers, native: Site) -> Site {
    let python = &shared.modules.python;
    let thread_state = python.calls.thread_state();
    let Some(layout) = python.layout.get().filter(|_| thread_state != 0 && native != Site::NONE) else { return native };
    let (peek, is_trial) = python.peek();
    let thread = state.thread();
    let Some(chain) = state.python.as_deref_mut() else { return native };
    let read = chain.read(peek, layout, thread_state);
    if is_trial {
        judge(shared, read.is_none());
    }
    let Some((count, is_cut)) = read else { return left_out(state, native) };
    if count == 0 {
        return native;
    }
    let Some(scripted) = chain.intern(shared, (peek, layout), count) else { return left_out(state, native) };
    if is_cut {
        thread.count(TallyCounter::ScriptsCut, 1);
    }
    if scripted == Site::NONE {
        return native;
    }
    let at = (native.0 ^ scripted.0.wrapping_mul(0x9E37_79B1)) as usize % JOINS;
    let wanted = [native.0, scripted.0];
    if let Some(note) = chain.joins.get(at).filter(|note| [note.native, note.scripted] == wanted) {
        return Site(note.both);
    }
    match join(shared, state.again(), registers, (native, scripted), count) {
        Some(both) => {
            if let Some(note) = state.python.as_deref_mut().and_then(|chain| chain.joins.get_mut(at)) {
                *note = JoinNote { native: native.0, scripted: scripted.0, both: both.0 };
            }
            both
        }
        None => left_out(state, native),
    }
}

/// The stack stays without lines.
#[cold]
fn left_out(mut state: Entered, native: Site) -> Site {
    if let Some(chain) = state.python.as_deref_mut() {
        chain.depth = 0;
    }
    state.count(TallyCounter::ScriptsLost, 1);
    native
}

/// One more stack of which nothing was believed.
#[cold]
fn judge(shared: &Shared, is_wrong: bool) {
    let python = &shared.modules.python;
    if is_wrong {
        python.refuse(shared.ledger());
    } else {
        python.trials.fetch_add(1, Ordering::Relaxed);
    }
}

impl Chain {
    /// Reads the frames that are there now: how many, and whether there are more. `None`: something is not as it should be.
    #[inline(always)]
    fn read(&mut self, peek: Peek, layout: &Layout, thread_state: u64) -> Option<(usize, bool)> {
        let field = |object: u64, offset: u16| peek.word(object.wrapping_add(offset.into()));
        let mut c_frame = 0;
        let mut at = field(thread_state, layout.thread_frame)?;
        if let Some([inner, _]) = layout.c_frame {
            if at == 0 {
                return Some((0, false));
            }
            c_frame = at;
            at = field(c_frame, inner)?;
        }
        let mut count = 0usize;
        while at != 0 {
            // One more may follow each.
            let Some([place, next, ..]) = self.now.get_mut(count..) else { return Some((count, true)) };
            count = count.wrapping_add(1);
            let owner = peek.byte(at.wrapping_add(layout.owner.into()))?;
            if owner > OWNED_BY_C_STACK {
                return None;
            }
            if owner == OWNED_BY_C_STACK && layout.is_entry.is_none() {
                *place = Frame { at, ..Frame::default() };
            } else {
                let code = field(at, layout.code)?;
                let identity = PythonCode { layout, peek, at: code }.identity()?;
                *place = Frame { at, code, instruction: field(at, layout.instruction)?, identity };
                if let (Some(is_entry), Some([_, outer])) = (layout.is_entry, layout.c_frame)
                    && peek.byte(at.wrapping_add(is_entry.into()))? != 0
                {
                    *next = Frame { at: c_frame, ..Frame::default() };
                    count = count.wrapping_add(1);
                    c_frame = field(c_frame, outer)?;
                }
            }
            at = field(at, layout.previous)?;
        }
        Some((count, false))
    }

    /// The node of the frames that are there now. Only those that are new are looked up.
    #[inline(always)]
    fn intern(&mut self, shared: &Shared, read: (Peek, &'static Layout), count: usize) -> Option<Site> {
        let now = self.now.get(..count)?;
        let known = now.iter().rev().zip(self.last.get(..self.depth)?).take_while(|(now, last)| now == last).count();
        if known < count {
            return self.intern_from(shared, read, count, known);
        }
        // Frames that have returned are forgotten: until the next stack their code may be freed, and other code lie there.
        self.depth = known;
        self.nodes.get(known.wrapping_sub(1)).map(|node| Site(*node))
    }

    #[inline(never)]
    fn intern_from(
        &mut self,
        shared: &Shared,
        (peek, layout): (Peek, &'static Layout),
        count: usize,
        known: usize,
    ) -> Option<Site> {
        let mut site =
            known.checked_sub(1).and_then(|last| self.nodes.get(last)).map_or(Site::NONE, |node| Site(*node));
        let before = self.last.get(known).copied().filter(|_| known < self.depth).unwrap_or_default();
        self.depth = known;
        let types = shared.modules.python.types();
        for index in known..count {
            let frame = *self.now.get(count.wrapping_sub(1).wrapping_sub(index))?;
            let sum = self.sums.get_mut(index)?;
            let id = if frame.code == 0 {
                shared.sites.scripted(shared.ledger(), &shared.modules, Scripted::LoopBegins)?.0
            } else {
                let code = PythonCode { layout, peek, at: frame.code };
                // A frame that has gone on from one instruction to another runs the same code.
                if index != known || frame != (Frame { instruction: frame.instruction, ..before }) {
                    *sum = code.checksum(&types)?;
                }
                let sum = *sum;
                self.line(shared, (code, sum), frame.instruction, &types)?
            };
            if id != NO_LINE {
                (site, _) = shared.sites.scripted_site(shared.ledger(), site, CodeId(id))?;
            }
            *self.last.get_mut(index)? = frame;
            *self.nodes.get_mut(index)? = site.0;
            self.depth = index.wrapping_add(1);
        }
        Some(site)
    }

    /// What stands for a line in the trie. Code objects are freed, and their memory is used for others: so all that a line and its
    /// names are made of is summed up for each frame.
    fn line(
        &mut self,
        shared: &Shared,
        (code, checksum): (PythonCode, u64),
        instruction: u64,
        types: &Types,
    ) -> Option<u32> {
        let at = ((code.at >> 4) ^ (instruction >> 1)) as usize % NOTES;
        let note = self.notes.get_mut(at)?;
        if (note.code, note.instruction, note.checksum) == (code.at, instruction, checksum) {
            return Some(note.id);
        }
        let id = enter(shared, types, &mut self.text, (code, instruction))?;
        *note = LineNote { code: code.at, instruction, checksum, id };
        Some(id)
    }
}

/// Enters a line that this thread has not met lately.
#[cold]
#[inline(never)]
fn enter(shared: &Shared, types: &Types, text: &mut [u8], (code, instruction): (PythonCode, u64)) -> Option<u32> {
    let ledger = shared.ledger();
    let bytes = code.file(types, text)?;
    let file = shared.texts.enter(ledger, text.get(..bytes)?)?;
    let bytes = code.function(types, text)?;
    let function = shared.texts.enter(ledger, text.get(..bytes)?)?;
    let line = code.line(instruction, types)?;
    if line == 0 && (file.bytes == 0 || file == function) {
        return Some(NO_LINE);
    }
    let row = shared.modules.python.lines.row(ledger, file, function, line)?;
    Some(shared.sites.scripted(ledger, &shared.modules, Scripted::Line(row))?.0)
}

/// The node of a stack with lines.
#[cold]
#[inline(never)]
fn join(
    shared: &'static Shared,
    state: Entered,
    registers: &Registers,
    (native, scripted): (Site, Site),
    count: usize,
) -> Option<Site> {
    let ledger = shared.ledger();
    let code = shared.sites.scripted(ledger, &shared.modules, Scripted::Stack(scripted.0))?;
    let (both, is_new) = shared.sites.scripted_site(ledger, native, code)?;
    if is_new {
        find_parts(shared, state, registers, native, count);
    }
    Some(both)
}

/// If frames of the stack are in the loop of the interpreter and their code lies elsewhere than it should, it is noted that they
/// are: the stack of each call of the loop holds an address that is known.
fn find_parts(shared: &'static Shared, state: Entered, registers: &Registers, native: Site, count: usize) {
    let python = &shared.modules.python;
    let Some(frames) = state.python.as_deref().and_then(|chain| chain.now.get(..count)) else { return };
    let loops = || frames.iter().filter(|frame| frame.code == 0);
    let known = shared.sites.codes_of(shared.ledger(), native).filter(|code| python.interprets(*code)).count();
    if known >= loops().count() {
        return;
    }
    let mut inner = None;
    capture::each_frame(shared, state.thread(), registers, &mut |pc, sp| {
        if let Some((pc, start)) = inner.replace((pc, sp))
            && loops().any(|frame| (start..sp).contains(&frame.at))
            && let Some(id) = shared.sites.code(shared.ledger(), &shared.modules, pc, shared.modules.generation(), None)
        {
            let [code] = shared.ledger().section(SectionKind::Pcs).element(u64::from(id.0));
            if !python.interprets(code.load(Ordering::Acquire)) && python.add_part(code.load(Ordering::Acquire)) {
                Sites::mark_as_interpreting(shared.ledger(), id);
            }
        }
    });
}
