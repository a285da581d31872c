//! Blocks, threads and stacks, as parts of reports.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use heapledger_analysis::fields::Field;
use heapledger_analysis::query::Subject;
use heapledger_analysis::{
    Clock, Holders, NamedFrame, NamedStack, Sampling, Told, begins_program, is_in_python_library,
};
use heapledger_format::{Entry, ThreadRow, Ticks};
use heapledger_source::{FreeDepths, Heap, Thread};

use crate::form::fit::width;
use crate::form::units::{Paint, clean, clock, count, plain_bytes, span};

/// What all blocks of one report have in common.
#[derive(Clone, Debug)]
pub struct Context {
    /// What the ledger is called in the report.
    pub ledger: String,
    /// Where it is spread over several files: the names of these, in the order of time.
    pub parts: Vec<String>,
    /// Its clock.
    pub clock: Clock,
    /// Threads by row.
    pub threads: HashMap<ThreadRow, Thread>,
    /// Heaps by row.
    pub heaps: HashMap<u32, Heap>,
    /// What the program told of its blocks.
    pub told: Arc<Told>,
    /// How blocks were chosen.
    pub sampling: Sampling,
    /// How much of the stacks of calls that ended blocks was taken.
    pub free_depths: FreeDepths,
    /// Whether text is emphasized.
    pub paint: Paint,
}

impl Context {
    /// The same, for a machine that reads: functions have their whole names.
    pub(crate) fn whole_names(&self) -> Context {
        Context { paint: Paint { full_names: true, ..self.paint }, ..self.clone() }
    }
}

/// `, stands for ~40,330 blocks`, if blocks were sampled.
pub(crate) fn weight(context: &Context, block: &Entry) -> String {
    if context.sampling.is_on() {
        let figures = context.paint.estimated_figures();
        format!(", stands for {}", figures.counted(context.sampling.weight(block), "block", "blocks"))
    } else {
        String::new()
    }
}

/// `13 B, actual size 24 B (+11)`; only `13 B` if that is all that is known.
pub(crate) fn size(block: &Entry) -> String {
    let size = match block.size {
        Some(size) => plain_bytes(size),
        None => "unknown size".to_owned(),
    };
    match block.size.zip(block.actual) {
        Some((asked, actual)) => format!("{size}{}", actual_size(asked, actual)),
        None => size,
    }
}

/// `, actual size 24 B (+11)`.
pub(crate) fn actual_size(asked: u64, actual: u64) -> String {
    format!(", actual size {} (+{})", plain_bytes(actual), count(actual.saturating_sub(asked)))
}

/// `, time 3.960 s`, as far as it is known.
pub(crate) fn time(at: &Clock, moment: Option<Ticks>) -> String {
    moment.map_or(String::new(), |moment| match at.ns(moment) {
        Some(ns) => format!(", time {}", clock(ns)),
        None => format!(", time {moment} ticks"),
    })
}

/// `, time 3.960 s, age 12.1 s`, as far as it is known.
pub(crate) fn time_and_age(at: &Clock, moment: Option<Ticks>) -> String {
    let age = moment.and_then(|moment| at.age_ns(moment));
    time(at, moment) + &age.map_or(String::new(), |age| format!(", age {}", span(age)))
}

/// `, core 1, cycles 439462020`, as far as they are recorded.
pub(crate) fn core(subject: &Subject<'_>) -> String {
    let core = subject.core().map_or(String::new(), |core| format!(", core {core}"));
    core + &subject.cycles().map_or(String::new(), |cycles| format!(", cycles {cycles}"))
}

/// `  By thread 3, 4242 worker-3`, if threads are recorded.
pub(crate) fn thread(out: &mut dyn Write, context: &Context, row: Option<ThreadRow>, recorded: bool) -> io::Result<()> {
    match row {
        Some(row) => match context.threads.get(&row) {
            Some(thread) if thread.name.is_empty() => writeln!(out, "  By thread {row}, {}", thread.id),
            Some(thread) => writeln!(out, "  By thread {row}, {} {}", thread.id, clean(&thread.name)),
            None => writeln!(out, "  By thread {row}"),
        },
        None if recorded => writeln!(out, "  By a thread without a row"),
        None => Ok(()),
    }
}

/// `  Labelled route=/x`, if it has a label.
pub(crate) fn label(out: &mut dyn Write, context: &Context, subject: &Subject<'_>) -> io::Result<()> {
    match context.told.text_of(Field::Label, subject) {
        Some(text) => writeln!(out, "  Labelled {}", context.paint.lines(&clean(&text), 11, 4)),
        None => Ok(()),
    }
}

/// The frames of a stack, numbered by return address: what was inlined into a function is at the same address.
pub(crate) fn stack(out: &mut dyn Write, stack: &NamedStack, paint: Paint) -> io::Result<()> {
    let number_width = stack.levels().count().to_string().len() + 1;
    let pad = " ".repeat(number_width);
    let frames = stack.levels().enumerate().flat_map(|(index, level)| {
        let shown = level.iter().filter(|frame| !frame.passed_over).enumerate();
        shown.map(move |(line, frame)| ((line == 0).then_some(index + 1), frame))
    });
    for (level, frame) in frames {
        let number = level.map(|level| format!("{level})")).unwrap_or_default();
        let room = if paint.columns == 0 { usize::MAX } else { paint.columns.saturating_sub(number_width + 3) };
        writeln!(out, "  {number:>number_width$} {}", heading(frame, room, paint))?;
        if let Some(place) = place(frame) {
            writeln!(out, "  {pad} {}", paint.cut_front(&place, room))?;
        }
        if let Some(source) = &frame.source {
            let text = source.replace('\t', "    ");
            writeln!(out, "  {pad} {}", paint.faint(format!("\"{}\"", clean(text.trim_end()))))?;
        }
    }
    if stack.damaged {
        writeln!(out, "  (the rest of this stack is damaged)")?;
    }
    Ok(())
}

/// The same of a call that ended a block, of which only a part may have been taken. `number`: of the event, if it is known.
pub(crate) fn stack_of_end(
    out: &mut dyn Write,
    (number, ended): (Option<u64>, &NamedStack),
    context: &Context,
) -> io::Result<()> {
    stack(out, ended, context.paint)?;
    if context.free_depths.may_cut(number, ended.levels().count()) {
        let what = if ended.frames.is_empty() { "its stack was" } else { "its callers were" };
        let text = format!("({what} not recorded: see run --free-depth)");
        writeln!(out, "  {}", context.paint.faint(context.paint.lines(&text, 2, 2)))?;
    }
    Ok(())
}

/// `file:line`, as far as it is known.
pub(crate) fn place(frame: &NamedFrame) -> Option<String> {
    let file = clean(frame.file.as_deref()?);
    Some(match frame.line {
        Some(line) => format!("{file}:{line}"),
        None => file.into_owned(),
    })
}

/// `0x7f… function (inlined)`, `0x7f… function+0x12 (in libc.so.6)`, `0x7f… (in libx.so+0x1234)`. What does not fit is
/// written without its middle.
fn heading(frame: &NamedFrame, room: usize, paint: Paint) -> String {
    let address = match frame.address {
        Some(address) => format!("{address:#010x} "),
        // Lines of a script have none.
        None if frame.is_script() => String::new(),
        None => "0x? ".to_owned(),
    };
    let module = frame.module.as_deref().map(|path| clean(path.rsplit('/').next().unwrap_or(path)).into_owned());
    let guessed = if frame.guessed { GUESSED } else { "" };
    match (&frame.function, module) {
        (Some(function), module) => {
            let mut tail = String::new();
            if let Some(offset) = frame.symbol_offset {
                tail.push_str(&format!("+{offset:#x}"));
            }
            if frame.inlined {
                tail.push_str(" (inlined)");
            }
            if let Some(module) = module.filter(|_| frame.file.is_none()) {
                tail.push_str(&format!(" (in {module})"));
            }
            tail.push_str(guessed);
            let room = room.saturating_sub(address.len() + width(&tail)).max(NAME_MIN);
            let name = paint.function(function);
            // What is wanted whole is not cut.
            let name = if paint.full_names { name.into_owned() } else { paint.cut_middle(&name, room) };
            format!("{address}{}{tail}", paint.strong(name))
        }
        (None, Some(module)) => format!("{address}(in {module}+{:#x}){guessed}", frame.offset.unwrap_or(0)),
        (None, None) => format!("{address}(unknown code){guessed}"),
    }
}

/// Behind a frame that was found along frame pointers.
const GUESSED: &str = " (guessed)";
/// Columns that a function's name gets at least.
const NAME_MIN: usize = 16;
/// Functions in a line.
const LINE_FRAMES: usize = 3;

/// The innermost frames in one line, from the function that holds the block on: `hash_create (hash.c:7) < main`. What is inside of
/// that are wrappers of `malloc`, which are the same for all. A function and the part of it that the compiler made a
/// function of its own have one name and are one. Where an engine runs a script, the innermost function of that is there, however
/// far out: `PyByteArray_Resize (bytearrayobject.c:234) < … < load (app.py)`.
pub fn callers(stack: &NamedStack, paint: Paint) -> String {
    line_of(stack, in_line(stack, paint).0, paint)
}

/// The same, and how many of its code addresses, from the innermost on, decide what it shows, if those further out have the names of their
/// symbols at least. `None`: all of them do, and what is further out if this is a part of a stack. What is of no module counts wherever it
/// stands.
pub fn callers_and_levels(stack: &NamedStack) -> (String, Option<usize>) {
    let (line, end) = in_line(stack, Paint::default());
    (line_of(stack, line, Paint::default()), end.and_then(|end| levels_until(stack, end)))
}

fn line_of(stack: &NamedStack, line: Vec<Option<&NamedFrame>>, paint: Paint) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut guessed = false;
    let tells_modules = stack.shown().any(|frame| frame.module.is_some());
    for frame in line {
        let Some(frame) = frame else {
            parts.push("…".to_owned());
            continue;
        };
        let name = name_of(frame, paint);
        let is_of_script = tells_modules && is_generated(frame);
        let short = |file: &str| clean(file.rsplit('/').next().unwrap_or(file)).into_owned();
        let file = frame.file.as_deref().filter(|_| parts.is_empty() || is_of_script).map(short);
        parts.push(match (file, frame.line) {
            (Some(file), Some(line)) => format!("{name} ({file}:{line})"),
            (Some(file), None) if is_of_script => format!("{name} ({file})"),
            // Once: all outside of it are.
            _ if frame.guessed && !guessed => format!("{name}{GUESSED}"),
            _ => name,
        });
        guessed |= frame.guessed;
    }
    if parts.is_empty() { "code without a stack".to_owned() } else { parts.join(" < ") }
}

/// Modules of which [`callers`] shows code without a name.
pub fn nameless(stack: &NamedStack) -> impl Iterator<Item = Arc<str>> {
    let shown = in_line(stack, Paint::default()).0.into_iter().flatten();
    shown
        .filter(|frame| frame.function.is_none())
        .filter_map(|frame| frame.module.clone())
        .collect::<Vec<_>>()
        .into_iter()
}

fn levels_until(stack: &NamedStack, end: &NamedFrame) -> Option<usize> {
    let holders = Holders::default();
    if !stack.shown().any(|frame| holders.holds(frame)) {
        return None;
    }
    let is_end = |frame: &NamedFrame| std::ptr::eq(frame, end);
    let before = stack.levels().take_while(|level| !level.iter().any(is_end)).count();
    let begins_level = stack.levels().nth(before).and_then(<[_]>::first).is_some_and(is_end);
    Some(before + usize::from(!begins_level))
}

/// The frames that [`callers`] shows, with `None` for those that are left out; and the first that was not looked at, but for whether it
/// is of a script.
fn in_line(stack: &NamedStack, paint: Paint) -> (Vec<Option<&NamedFrame>>, Option<&NamedFrame>) {
    let holders = Holders::default();
    let wrappers = stack.shown().take_while(|frame| !holders.holds(frame)).count();
    let skips = wrappers != stack.shown().count();
    let wrappers = if skips { wrappers } else { 0 };
    let mut line: Vec<Option<&NamedFrame>> = Vec::new();
    let (mut last, mut end) = (None, None);
    for frame in stack.shown().skip(wrappers) {
        let name = name_of(frame, paint);
        if last.as_ref() == Some(&name) {
            continue;
        }
        // Of the libraries that are left out within, nobody wants to read further out.
        if !line.is_empty() && skips && !holders.holds(frame) {
            continue;
        }
        // What comes before `main` is the same for all.
        if line.len() == LINE_FRAMES
            || !line.is_empty() && begins_program(frame.function.as_deref().unwrap_or_default())
        {
            end = Some(frame);
            break;
        }
        line.push(Some(frame));
        last = Some(name);
    }
    let tells_modules = stack.shown().any(|frame| frame.module.is_some());
    let generated = || stack.shown().skip(wrappers).filter(|frame| tells_modules && is_generated(frame));
    let script = generated().find(|frame| !is_of_engine(frame)).or_else(|| generated().next());
    // What lies between the function and a line of a script changes as the engine learns: those are one line.
    let near = if script.is_some_and(NamedFrame::is_script) { 2 } else { line.len() };
    let is_near = |script: &&NamedFrame| line.iter().take(near).flatten().any(|frame| std::ptr::eq(*frame, *script));
    if let Some(script) = script.filter(|script| !is_near(script)) {
        line.truncate(1);
        line.extend([None, Some(script)]);
    }
    (line, end)
}

/// Names with which engines begin those of their own parts, and of the libraries that belong to the language.
const OF_ENGINES: [&str; 9] =
    ["Builtin:", "BytecodeHandler:", "Interpreter", "RegExp:", "Stub", "java.", "javax.", "jdk.", "sun."];

/// Whether code that an engine has made is of its own library: `node:buffer`, `<frozen importlib>`, `java.util.HashMap.resize`.
fn is_of_engine(frame: &NamedFrame) -> bool {
    let name = name_of(frame, Paint::default());
    match &frame.file {
        Some(file) => file.starts_with("node:") || file.starts_with('<') || is_in_python_library(file),
        None => OF_ENGINES.iter().any(|begin| name.starts_with(begin)),
    }
}

/// Whether it is code that an engine has made, and has told what it is called.
fn is_generated(frame: &NamedFrame) -> bool {
    frame.module.is_none() && frame.function.is_some()
}

/// The frames from the function that holds the block on; all of them if none does.
pub(crate) fn from_holder(stack: &NamedStack) -> &[NamedFrame] {
    let holders = Holders::default();
    let at = stack.frames.iter().position(|frame| !frame.passed_over && holders.holds(frame)).unwrap_or(0);
    stack.frames.get(at..).unwrap_or(&[])
}

/// A function's name as a person reads it, or the next best thing.
pub fn name_of(frame: &NamedFrame, paint: Paint) -> String {
    match &frame.function {
        Some(function) => paint.function(function).into_owned(),
        None => full_name(frame),
    }
}

/// A function's name, or the next best thing.
pub(crate) fn full_name(frame: &NamedFrame) -> String {
    let module = frame.module.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path));
    match (&frame.function, module, frame.offset, frame.address) {
        (Some(function), ..) => clean(function).into_owned(),
        (None, Some(module), Some(offset), _) => format!("{}+{offset:#x}", clean(module)),
        (None, _, _, Some(address)) => format!("{address:#x}"),
        (None, ..) => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(names: &[&str]) -> NamedStack {
        let frame = |name: &&str| NamedFrame {
            address: Some(0x1000),
            function: Some((*name).into()),
            file: Some("/src/hash.c".into()),
            line: Some(7),
            ..NamedFrame::default()
        };
        NamedStack { frames: names.iter().map(frame).collect(), ..NamedStack::default() }
    }

    #[test]
    fn a_script_is_told_of_however_far_out() {
        let of = |names: &[&str]| {
            let mut all = stack(names);
            for frame in &mut all.frames {
                match frame.function.as_deref().and_then(|name| name.strip_prefix("js ").map(Arc::<str>::from)) {
                    Some(script) => (frame.function, frame.file) = (Some(script), Some("/srv/app.js".into())),
                    None => frame.module = Some("/usr/bin/node".into()),
                }
            }
            callers(&all, Paint::default())
        };
        let node = "Buffer::New (hash.c:7)";
        assert_eq!(
            of(&["Buffer::New(int)", "a", "b", "c", "js hold", "d", "js main"]),
            format!("{node} < … < hold (app.js:7)")
        );
        assert_eq!(of(&["Buffer::New(int)", "js hold", "d", "js main"]), format!("{node} < hold (app.js:7) < d"));
        assert_eq!(of(&["Buffer::New(int)", "a", "b", "c", "d"]), format!("{node} < a < b"));
        let library = |names: &[&str]| {
            let mut all = stack(names);
            all.frames[0].module = Some("/usr/bin/node".into());
            all.frames[1].file = Some("node:buffer".into());
            callers(&all, Paint::default())
        };
        assert_eq!(
            library(&["New", "allocUnsafeSlow", "hold"]),
            "New (hash.c:7) < allocUnsafeSlow (node:buffer:7) < hold (hash.c:7)"
        );
        assert_eq!(library(&["New", "slow", "a", "b", "c"]), "New (hash.c:7) < slow (node:buffer:7) < a (hash.c:7)");
        // Without a single module nobody knows what is generated.
        assert_eq!(of(&["js a", "js b", "js c", "js d"]), "a (app.js:7) < b < c");
    }

    #[test]
    fn lines_of_a_script_are_one_whatever_lies_between() {
        let of = |between: &[&str]| {
            let names = [&["deflateInit2_"], between, &["compress", "main"]].concat();
            let mut all = stack(&names);
            for frame in all.frames.iter_mut() {
                if matches!(frame.function.as_deref(), Some("compress" | "main")) {
                    (frame.address, frame.file) = (None, Some("/srv/app.py".into()));
                } else {
                    frame.module = Some("/usr/bin/python3".into());
                }
            }
            callers(&all, Paint::default())
        };
        let expected = "deflateInit2_ (hash.c:7) < … < compress (app.py:7)";
        assert_eq!([of(&["a"]), of(&["a", "b"]), of(&["a", "b", "c"])], [expected; 3]);
        assert_eq!(of(&[]), "deflateInit2_ (hash.c:7) < compress (app.py:7) < main (app.py:7)");
    }

    #[test]
    fn callers_begin_with_who_holds_the_block() {
        for (names, text, levels) in [
            (
                &["zmalloc_usable", "xmalloc", "hash_create", "setup", "main", "_start"][..],
                "hash_create (hash.c:7) < setup < main",
                Some(5),
            ),
            (&["hash_create", "main"], "hash_create (hash.c:7) < main", None),
            (&["hash_create", "main", "_start", "more"], "hash_create (hash.c:7) < main", Some(2)),
            (&["xmalloc", "xcalloc"], "xmalloc (hash.c:7) < xcalloc", None),
            // In a part of a stack: one that holds may stand further out.
            (&["xmalloc", "xcalloc", "xrealloc", "g_malloc"], "xmalloc (hash.c:7) < xcalloc < xrealloc", None),
            (
                &["run", "std::thread::_Invoker<int>::operator()()", "std::invoke", "work"],
                "run (hash.c:7) < work",
                None,
            ),
            (&["xmalloc", "grow", "grow", "main"], "grow (hash.c:7) < main", None),
            (&[], "code without a stack", None),
        ] {
            let stack = stack(names);
            assert_eq!(callers(&stack, Paint::default()), text);
            assert_eq!(callers_and_levels(&stack), (text.to_owned(), levels));
        }
        // A code address whose inner part is in the line is needed, though its outer one is not.
        let mut stack = stack(&["a", "b", "c", "d", "e"]);
        assert_eq!(callers_and_levels(&stack).1, Some(3));
        stack.frames[2].inlined = true;
        assert_eq!((stack.levels().count(), callers_and_levels(&stack).1), (4, Some(3)));
        stack.frames[1].inlined = true;
        assert_eq!((stack.levels().count(), callers_and_levels(&stack).1), (3, Some(2)));
    }
}
