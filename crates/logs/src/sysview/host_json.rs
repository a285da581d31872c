//! All events of a trace to a host as JSON, with the fields of what ESP-IDF's own script writes: each event once.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::books::{HeapEvent, Running};
use super::{KeptEvent, SysTrace};

/// SystemView's own events that have names here: number, name, names of figures, name of a text.
const NAMED: [(u32, &str, &[&str], &str); 23] = [
    (0, "svNop", &[], ""),
    (1, "svOverflow", &["lost"], ""),
    (2, "svISREnter", &["irq"], ""),
    (3, "svISRExit", &[], ""),
    (4, "svTaskStartExec", &["tid"], ""),
    (5, "svTaskStopExec", &[], ""),
    (6, "svTaskStartReady", &["tid"], ""),
    (7, "svTaskStopReady", &["tid", "cause"], ""),
    (8, "svTaskCreate", &["tid"], ""),
    (9, "svTaskInfo", &["tid", "prio"], "name"),
    (10, "svTraceStart", &[], ""),
    (11, "svTraceStop", &[], ""),
    (12, "svSysTimeCycles", &["time"], ""),
    (13, "svSysTimeUs", &["time_lo", "time_hi"], ""),
    (14, "svSysDesc", &[], "desc"),
    (15, "svUserStart", &["user"], ""),
    (16, "svUserStop", &["user"], ""),
    (17, "svIdle", &[], ""),
    (18, "svISRToScheduler", &[], ""),
    (19, "svTimerEnter", &["timer"], ""),
    (20, "svTimerExit", &[], ""),
    (21, "svStackInfo", &["tid", "base", "size", "unused"], ""),
    (22, "svModuleDesc", &["mod", "offset"], "desc"),
];
const INIT: u32 = 24;
const PRINT: u32 = 26;

impl SysTrace {
    /// Writes the events; what is missing, in sentences.
    pub(crate) fn json(self, out: &mut dyn Write) -> io::Result<Vec<String>> {
        let mut running: BTreeMap<u8, Running> = BTreeMap::new();
        let mut heap = [512, 513];
        write!(out, "{{\"events\":[")?;
        let mut between = "";
        self.events.each(&mut |happened, kept| {
            let Some(kept) = kept else { return Ok(()) };
            let on_core = running.entry(happened.core).or_default();
            on_core.take(happened.core, &happened.event);
            let (name, in_irq) = on_core.name(&self.names).unwrap_or_default();
            write!(out, "{between}{{")?;
            between = ",";
            let figures = kept.numbers.as_slice();
            match (happened.event, figures) {
                (HeapEvent::Alloc { .. }, [address, size, callers @ ..]) => {
                    heap[0] = kept.id;
                    heap_fields(out, *address, callers)?;
                    rest(out, happened.core, &name, kept.id, in_irq)?;
                    write!(out, ",\"size\":{size}")?;
                }
                (HeapEvent::Free { .. }, [address, callers @ ..]) => {
                    heap[1] = kept.id;
                    heap_fields(out, *address, callers)?;
                    rest(out, happened.core, &name, kept.id, in_irq)?;
                    write!(out, ",\"size\":0")?;
                }
                _ if kept.id == PRINT => {
                    rest(out, happened.core, &name, kept.id, in_irq)?;
                    let level = figures.first().copied().unwrap_or(0);
                    write!(out, ",\"lvl\":{level},\"msg\":{}", quoted(&kept.text))?;
                }
                _ => {
                    rest(out, happened.core, &name, kept.id, in_irq)?;
                    write!(out, ",\"params\":{{{}}}", params(kept))?;
                }
            }
            write!(out, ",\"ts\":{}.{:09}}}", happened.ns / 1_000_000_000, happened.ns % 1_000_000_000)
        })?;
        let [alloc, free] = heap;
        write!(
            out,
            "],\"streams\":{{\"func\":{{}},\"heap\":{{\"alloc\":{alloc},\"free\":{free}}},\"log\":{{\"print\":{PRINT}}},\"os\":{{}},\"system\":{{"
        )?;
        let names: Vec<String> = NAMED.iter().map(|(id, name, ..)| format!("\"{name}\":{id}")).collect();
        writeln!(out, "{},\"svInit\":{INIT}}}}},\"version\":\"1.0\"}}", names.join(","))?;
        Ok(self.missing())
    }
}

fn heap_fields(out: &mut dyn Write, address: u32, callers: &[u32]) -> io::Result<()> {
    let callers: Vec<String> = callers.iter().map(|caller| format!("\"{caller:#x}\"")).collect();
    write!(out, "\"addr\":\"{address:#x}\",\"callers\":[{}],", callers.join(","))
}

fn rest(out: &mut dyn Write, core: u8, name: &str, id: u32, in_irq: bool) -> io::Result<()> {
    write!(out, "\"core_id\":{core},\"ctx_name\":{},\"id\":{id},\"in_irq\":{in_irq}", quoted(name))
}

fn params(kept: &KeptEvent) -> String {
    let known = NAMED.iter().find(|(id, ..)| *id == kept.id);
    let (names, text) = match known {
        Some((_, _, names, text)) => (*names, *text),
        None if kept.id == INIT => (&["tick_hz"][..], ""),
        None => (&[][..], ""),
    };
    let number = |(at, value): (usize, &u32)| match names.get(at) {
        Some(name) => format!("\"{name}\":{value}"),
        None => format!("\"param{at}\":{value}"),
    };
    let mut all: Vec<String> = kept.numbers.iter().enumerate().map(number).collect();
    if !text.is_empty() {
        all.push(format!("\"{text}\":{}", quoted(&kept.text)));
    }
    all.join(",")
}

/// A text as JSON has it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            control if control < ' ' => quoted += &format!("\\u{:04x}", u32::from(control)),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}
