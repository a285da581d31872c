//! Pages of text: a stack with its source lines, the help.

use heapledger_analysis::NamedFrame;
use heapledger_analysis::watch::Motion;
use heapledger_format::Site;
use heapledger_report::{Paint, clean, counted, name_of, span};
use ratatui::style::Style;

use super::app::App;
use super::draw::{Lines, fit_end, fit_start};

/// What the keys do, in the order in which one needs them.
const HELP: &str = "\
MOVING
  Up Down  j k          a row
  PgUp PgDn  ^B ^F      a page        ^U ^D  half a page
  Home End  g G         first, last row
  Enter                 into the row: its stacks; into a stack: its frames
  Esc                   back

WHAT ROWS ARE
  1 function  2 stack  3 thread  4 file  5 module  6 kind     Tab: the next
  w                     toggle allocator wrappers (xmalloc, std::)
  /                     only rows with a text in their names; Esc: all
  f                     only blocks of which something holds, as with --where:
                        size >= 4K and age > 10s and thread == 3; Esc: all

ORDER
  s > <                 by the next column, the one before
  b bytes   n number of blocks   d growth a second   c growth since the mark
  a allocated   o oldest   N name                    r reverse

TIME
  m                     mark: show what is allocated from now on and lives
  M                     no mark any more
  p                     pause, go on
  + -                   look less often, more often

  h ?  this help        q  quit        ^Z  stop, as always

FIGURES
  K M G are 1024 times as much as the one before.
  LIVE      bytes not freed
  GROWTH/s  over the last five seconds
  GROWN     since the mark, or since this view was started; below zero if less
            is live now than then, whatever is new
  ALLOCS    blocks allocated since the program started; known of threads, kinds
  OLDEST    age of the oldest live block
  ~         an estimate: the ledger is sampled

  A mark goes by sequence numbers: what was there when all records were read for
  it is old, all else is new, also where an address is used again.

  The program is not stopped; its ledger is read as a file. Where there are so
  many blocks that reading them takes more than a tenth of the time, the table
  is read less often, and the first line says how often.";

/// Writes the help from a line on. How many lines it has, and how many there is room for.
pub(super) fn help(lines: &mut Lines<'_>, scroll: usize) -> (usize, usize) {
    let theme = lines.theme;
    let all: Vec<&str> = HELP.lines().collect();
    let room = usize::from(lines.left());
    for line in all.iter().skip(scroll) {
        let heading = !line.is_empty() && !line.starts_with(' ');
        let style = if heading { theme.strong() } else { theme.plain() };
        lines.line(&[((*line).to_owned(), style)], &[]);
    }
    (all.len(), room)
}

/// Writes a stack from a line on. How many lines it has, and how many there is room for.
pub(super) fn stack(lines: &mut Lines<'_>, app: &App, site: Site, title: &[String], scroll: usize) -> (usize, usize) {
    let theme = lines.theme;
    let width = usize::from(lines.area.width);
    let path = title.split_last().map_or(&[][..], |(_, path)| path).join(" > ");
    if !path.is_empty() && lines.left() >= 4 {
        lines.line(&[(fit_start(&path, width), theme.strong())], &[]);
    }
    let (held, times) = figures(app, site);
    if lines.left() >= 6 {
        lines.line(&[(held, theme.plain())], &[]);
    }
    lines.line(&[(times, theme.plain())], &[]);
    lines.style_last(theme.heading());
    let mut all: Vec<(String, Style)> = Vec::new();
    match app.stacks.get(&site) {
        None => all.push(("  finding names".to_owned(), theme.faint())),
        Some(stack) if stack.frames.is_empty() => {
            all.push(("  no stack was recorded for these blocks".to_owned(), theme.faint()));
        }
        Some(stack) => {
            let digits = stack.frames.len().to_string().len();
            for (index, frame) in stack.frames.iter().enumerate() {
                let number = format!("{:>digits$})", index + 1);
                all.push((format!(" {number} {}", heading(frame, app.paint)), theme.strong()));
                let pad = " ".repeat(digits + 3);
                if let Some(file) = &frame.file {
                    let line = frame.line.map_or_else(String::new, |line| format!(":{line}"));
                    let place = format!("{}{line}", clean(file));
                    all.push((format!("{pad}{}", fit_end(&place, width.saturating_sub(pad.len()))), theme.plain()));
                }
                if let Some(source) = &frame.source {
                    let source = clean(source.replace('\t', "    ").trim()).into_owned();
                    all.push((format!("{pad}    {source}"), theme.chart()));
                }
            }
            if stack.damaged {
                all.push(("  the rest of this stack is damaged".to_owned(), theme.wrong()));
            }
        }
    }
    let room = usize::from(lines.left());
    for piece in all.iter().skip(scroll).take(room) {
        lines.line(std::slice::from_ref(piece), &[]);
    }
    (all.len(), room)
}

/// `main  (inlined)`, `read_line+0x12  in libfoo.so`.
fn heading(frame: &NamedFrame, paint: Paint) -> String {
    let mut text = name_of(frame, paint);
    if frame.function.is_some()
        && let Some(offset) = frame.symbol_offset
    {
        text.push_str(&format!("+{offset:#x}"));
    }
    if frame.inlined {
        text.push_str("  (inlined)");
    }
    let module = frame.module.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path));
    if let (Some(module), true) = (module, frame.file.is_none() && frame.function.is_some()) {
        text.push_str(&format!("  in {}", clean(module)));
    }
    text
}

/// What a stack holds now: how much, and since when.
fn figures(app: &App, site: Site) -> (String, String) {
    let Some(now) = app.readings.samples.last() else { return Default::default() };
    let before = app.readings.samples.before().map(AsRef::as_ref);
    let held = heapledger_analysis::watch::rows(now, before, None, |key| (key.site == site).then_some(()));
    let Some(row) = held.first() else { return ("nothing of this stack is live now".to_owned(), String::new()) };
    let about = app.look.figures;
    let (marked, running) = (app.readings.mark.is_some(), app.readings.motion() == Motion::Running);
    let part = if marked { row.young } else { row.live };
    let mut text = format!("{} in {}", about.bytes(part.bytes), about.counted(part.blocks, "block", "blocks"));
    if marked {
        text.push_str(" since the mark");
    }
    if part.blocks > 1 && !about.estimated {
        text.push_str(&format!(", {} each on the average", about.bytes(part.bytes / part.blocks)));
    }
    if about.estimated {
        text.push_str(&format!(", from {}", counted(part.samples, "sample", "samples")));
    }
    let age = |ticks| app.readings.totals.as_ref().and_then(|totals| totals.clock.age_ns(ticks)).map(span);
    let oldest = row.oldest.and_then(age).map(|age| format!("oldest {age}"));
    let newest = row.newest.and_then(age).map(|age| format!("newest {age}"));
    let growth = row.bytes_per_second.filter(|_| running).map(|rate| format!("growth {}/s", about.short_rate(rate)));
    (text, [oldest, newest, growth].into_iter().flatten().collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_fits_a_usual_screen() {
        for line in HELP.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
