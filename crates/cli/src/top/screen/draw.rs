//! The screen: figures, the heap's curve, a page, the keys. What there is no room for is left out, the least needed
//! first.

use heapledger_analysis::fields::Field;
use heapledger_analysis::watch::{LookRow, RowFigure, View};
use heapledger_report::{LookState, counted, span};
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::app::{App, Page, TablePage};
use super::chart::{bounds, chart};
use super::pages;
use super::theme::Theme;

/// How much of the past the curve shows.
const SPAN_NS: u64 = 300_000_000_000;
/// At first, so that there is something to be seen soon.
const SPAN_AT_FIRST_NS: u64 = 60_000_000_000;

/// A place to write lines into, from the top down.
pub(super) struct Lines<'a> {
    pub(super) buffer: &'a mut Buffer,
    pub(super) area: Rect,
    pub(super) theme: Theme,
    pub(super) used: u16,
}

/// A piece of a line.
pub(super) type Piece = (String, Style);

impl Lines<'_> {
    pub(super) fn left(&self) -> u16 {
        self.area.height.saturating_sub(self.used)
    }

    /// Writes a line, and at its right end another one if there is room for both.
    pub(super) fn line(&mut self, left: &[Piece], right: &[Piece]) {
        if self.left() == 0 {
            return;
        }
        let y = self.area.y + self.used;
        self.used += 1;
        let room = usize::from(self.area.width);
        let end = match letters(left) > room {
            true => self.write(self.area.x, y, &whole_words(left, room)),
            false => self.write(self.area.x, y, left),
        };
        let start = room.saturating_sub(letters(right));
        if !right.is_empty() && start > usize::from(end - self.area.x) {
            self.write(self.area.x + start as u16, y, right);
        }
    }

    /// Writes a line of groups, each whole or not at all. The first is there in any case.
    fn groups(&mut self, groups: Vec<Vec<Piece>>) {
        let mut line: Vec<Piece> = Vec::new();
        for group in groups {
            if line.is_empty() || letters(&line) + letters(&group) <= usize::from(self.area.width) {
                line.extend(group);
            }
        }
        self.line(&line, &[]);
    }

    fn write(&mut self, x: u16, y: u16, pieces: &[Piece]) -> u16 {
        let mut at = x;
        for (text, style) in pieces {
            let room = usize::from(self.area.right().saturating_sub(at));
            (at, _) = self.buffer.set_stringn(at, y, self.theme.text(text), room, *style);
        }
        at
    }

    /// Gives the whole of the last line a style.
    pub(super) fn style_last(&mut self, style: Style) {
        if let Some(row) = self.used.checked_sub(1) {
            self.buffer.set_style(Rect { y: self.area.y + row, height: 1, ..self.area }, style);
        }
    }
}

fn letters(pieces: &[Piece]) -> usize {
    pieces.iter().map(|(text, _)| text.chars().count()).sum()
}

/// The beginning of a line for which there is no room. It ends behind a word, and with a figure only if that has its unit:
/// the beginning of a figure is another one.
fn whole_words(pieces: &[Piece], room: usize) -> Vec<Piece> {
    const MORE: &str = " ..";
    let all: Vec<char> = pieces.iter().flat_map(|(text, _)| text.chars()).collect();
    let is_space = |at: usize| all.get(at).is_some_and(|letter| *letter == ' ');
    let word_end = |before: usize| (1..=before).rev().find(|at| is_space(*at) && !is_space(at - 1));
    let mut end = word_end(room).unwrap_or(0);
    let word = all.get(..end).unwrap_or_default().rsplit(|letter| *letter == ' ').next().unwrap_or_default();
    let is_figure = word.iter().any(char::is_ascii_digit) && word.iter().all(|letter| !letter.is_alphabetic());
    let next = all.get(end..).unwrap_or_default().iter().skip_while(|letter| **letter == ' ');
    if is_figure && next.take_while(|letter| letter.is_alphabetic()).count() <= 3 {
        end = word_end(end.saturating_sub(word.len() + 1)).unwrap_or(0);
    }
    let mut more = if end + MORE.len() <= room { MORE } else { "" };
    let part = all.get(..room.saturating_sub(2)).unwrap_or_default();
    let is_one_word = part.iter().skip(end).skip_while(|letter| **letter == ' ').all(|letter| *letter != ' ');
    if end < room / 2 && is_one_word {
        // The next word is longer than all there is: a part of it, if not of a figure.
        let in_figure = |letter: &&char| letter.is_ascii_digit() || matches!(**letter, '.' | ',');
        let kept = part.len() - part.iter().rev().take_while(in_figure).count();
        (end, more) = if kept > end { (kept, "..") } else { (end, more) };
    }
    let mut out = Vec::new();
    for (text, style) in pieces {
        let kept: String = text.chars().take(end).collect();
        end -= kept.chars().count();
        out.push((kept, *style));
    }
    out.push((more.to_owned(), pieces.last().map_or_else(Style::default, |(_, style)| *style)));
    out
}

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, theme: Theme) {
    let area = frame.area();
    let mut lines = Lines { buffer: frame.buffer_mut(), area, theme, used: 0 };
    let footer = area.height >= 7;
    lines.area.height -= u16::from(footer);
    if let Some(scroll) = app.help {
        let (count, room) = pages::help(&mut lines, scroll);
        (app.lines, app.room) = (count, room);
    } else {
        header(&mut lines, app);
        match app.pages.last().cloned() {
            Some(Page::Stack { site, title, scroll }) => {
                let (count, room) = pages::stack(&mut lines, app, site, &title, scroll);
                (app.lines, app.room) = (count, room);
            }
            _ => table(&mut lines, app),
        }
    }
    if footer {
        lines.area.height += 1;
        lines.used = area.height - 1;
        let left = keys(app, theme, usize::from(area.width));
        lines.line(&left, &[]);
    }
}

/// Figures and curve.
fn header(lines: &mut Lines<'_>, app: &App) {
    let (look, theme) = (&app.look, lines.theme);
    let height = lines.area.height;
    let plain = |text: &str| (text.to_owned(), theme.plain());
    let strong = |text: String| (text, theme.strong());
    let mut first = vec![strong(look.name()), plain("  ")];
    let state = look.state_words().to_owned();
    first.push((state, if look.state == LookState::Running { theme.plain() } else { theme.set() }));
    if let Some(up) = look.uptime_ns {
        first.push((format!("  {}", span(up)), theme.faint()));
    }
    lines.line(&first, &pace(app, theme));
    if height >= 4 {
        let mut live = vec![vec![plain("live "), strong(look.live_words())]];
        if height < 8
            && let Some(value) = look.bytes_per_second
        {
            live.push(vec![(format!("  {}", look.figures.rate(value)), slope(value, theme))]);
        }
        live.push(vec![plain("  peak "), strong(look.figures.bytes(look.peak_bytes))]);
        lines.groups(live);
    }
    if height >= 8 {
        lines.groups(speeds(app, theme));
    }
    if let Some(problem) = &app.problem {
        lines.line(&[(problem.clone(), theme.wrong())], &[]);
    }
    if let Some(age) = look.mark_age_ns.filter(|_| height >= 5) {
        let words = format!("since the mark {} ago: {} new and alive", span(age), look.young_words());
        lines.line(&[(words, theme.set())], &[]);
    } else if app.marking {
        lines.line(&[("setting the mark".to_owned(), theme.set())], &[]);
    }
    if !look.condition.is_empty() && height >= 6 {
        let words = format!("where {}: {}", look.condition, look.chosen_words());
        lines.line(&[(words, theme.set())], &[]);
    }
    if height >= 9 {
        for loss in look.losses.iter().take(if height >= 20 { 3 } else { 1 }) {
            lines.line(&[(format!("not seen: {loss}"), theme.wrong())], &[]);
        }
    }
    let rows = match height {
        0..15 => 0,
        15..20 => 2,
        20..34 => 3,
        _ => 5,
    };
    if rows > 0 && lines.area.width >= 40 && app.readings.curve.span_ns() > 0 {
        curve(lines, app, rows);
    }
}

/// How often is looked, at the right end of the first line.
fn pace(app: &App, theme: Theme) -> Vec<Piece> {
    if app.look.state != LookState::Running {
        return Vec::new();
    }
    if app.paused {
        return vec![("paused".to_owned(), theme.set())];
    }
    let every = |ns: u128| {
        let seconds = ns as f64 / 1e9;
        if seconds < 10.0 && seconds.fract() > 0.05 { format!("{seconds:.1} s") } else { format!("{seconds:.0} s") }
    };
    let interval = app.interval.as_nanos();
    let needed = u128::from(app.look.read_ns) * 10;
    let stacks = counted(app.unnamed as u64, "stack", "stacks");
    let names = if app.unnamed > 0 { format!("finding names of {stacks}  ") } else { String::new() };
    let text = if needed > interval {
        format!("{names}every {}, table every {}", every(interval), every(needed))
    } else {
        format!("{names}every {}", every(interval))
    };
    vec![(text, theme.faint())]
}

fn slope(rate: f64, theme: Theme) -> Style {
    if rate >= 0.5 {
        theme.growing()
    } else if rate <= -0.5 {
        theme.shrinking()
    } else {
        theme.plain()
    }
}

/// Growth, allocations and frees in a second; of a ledger at rest their numbers.
fn speeds(app: &App, theme: Theme) -> Vec<Vec<Piece>> {
    let look = &app.look;
    let each = |rate: f64, one: &str, many: &str| look.figures.counted(rate.round().max(0.0) as u64, one, many);
    let plain = |text: String| (text, theme.plain());
    match (look.bytes_per_second, look.allocations_per_second, look.frees_per_second) {
        (Some(growth), Some(allocations), Some(frees)) => vec![
            vec![plain("growth ".to_owned()), (look.figures.rate(growth), slope(growth, theme))],
            vec![plain(format!("  {}", each(allocations, "allocation/s", "allocations/s")))],
            vec![plain(format!("  {}", each(frees, "free/s", "frees/s")))],
        ],
        _ => vec![
            vec![plain(look.figures.counted(look.allocations, "allocation", "allocations"))],
            vec![plain(format!("  {}", look.figures.counted(look.frees, "free", "frees")))],
        ],
    }
}

fn curve(lines: &mut Lines<'_>, app: &App, rows: usize) {
    let (theme, figures) = (lines.theme, app.look.figures.known());
    let legend_width = if figures.exact_bytes { 22 } else { 14 };
    let width = usize::from(lines.area.width).saturating_sub(legend_width);
    let span_ns = app.readings.curve.span_ns().clamp(SPAN_AT_FIRST_NS, SPAN_NS);
    let columns = app.readings.curve.columns(width, span_ns);
    let Some((low, high)) = bounds(&columns) else { return };
    let last = chart(&columns, rows, theme.ascii);
    for (index, line) in last.iter().enumerate() {
        let legend = match index {
            0 => figures.bytes(high),
            _ if index + 1 == rows => figures.bytes(low),
            _ if index == rows / 2 => format!("last {} s", span_ns / 1_000_000_000).replace("last 300 s", "last 5 min"),
            _ => String::new(),
        };
        lines.line(&[(line.clone(), theme.chart()), (format!(" {legend}"), theme.faint())], &[]);
    }
}

/// The table and what it is about.
fn table(lines: &mut Lines<'_>, app: &mut App) {
    let Some(Page::Table(page)) = app.pages.last() else { return };
    let (page, theme) = (page.clone(), lines.theme);
    if lines.left() >= 4 {
        if page.title.is_empty() {
            groups(lines, &page.view);
        } else {
            let mut path: Vec<Piece> = vec![(page.title.join(" > "), theme.strong())];
            path.push((format!(" by {}", page.view.by.watched_name()), theme.plain()));
            let filter = filter(&page.view, theme);
            lines.line(&path, &filter);
        }
    }
    let marked = app.look.mark_age_ns.is_some();
    let mut heading: Vec<Piece> = Vec::new();
    let arrow = match (page.view.reverse, theme.ascii) {
        (false, false) => "▼",
        (true, false) => "▲",
        (false, true) => "v",
        (true, true) => "^",
    };
    for column in &app.columns {
        let sorted = page.view.order == Some(column.0);
        let title = format!("{}{}", column.title(marked), if sorted { arrow } else { "" });
        heading.push((format!("{title:>0$} ", column.width(app.look.figures)), theme.heading()));
    }
    let name = page.view.by.watched_name().to_uppercase();
    heading.push((format!(" {name}{}", if page.view.order.is_none() { arrow } else { "" }), theme.heading()));
    lines.line(&heading, &[]);
    lines.style_last(theme.heading());
    let room = usize::from(lines.left());
    app.scroll(room);
    let Some(Page::Table(TablePage { cursor, offset, .. })) = app.pages.last() else { return };
    let (cursor, offset) = (*cursor, *offset);
    for (index, (_, row)) in app.rows.iter().enumerate().skip(offset).take(room) {
        let pieces = cells(app, row, &page.view, marked, theme, usize::from(lines.area.width));
        lines.line(&pieces, &[]);
        if index == cursor {
            lines.style_last(theme.chosen());
        }
    }
    if app.rows.is_empty() {
        let words = match () {
            () if app.readings.samples.last().is_none() => "reading",
            () if !page.view.filter.is_empty() => "nothing has this in its name; Esc shows all",
            () if !app.look.condition.is_empty() => "no such blocks are live; f changes the condition, Esc drops it",
            () if marked => "nothing allocated since the mark lives",
            () => "no blocks are live",
        };
        lines.line(&[(format!("  {words}"), theme.faint())], &[]);
    }
}

fn cells(app: &App, row: &LookRow, view: &View, marked: bool, theme: Theme, width: usize) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for column in &app.columns {
        let text = format!("{:>1$} ", column.cell(row, marked, app.look.figures), column.width(app.look.figures));
        let style = match column.0 {
            RowFigure::Rate => slope(row.bytes_per_second.unwrap_or(0.0), theme),
            RowFigure::Growth => slope(row.growth_bytes as f64, theme),
            _ => theme.plain(),
        };
        pieces.push((text, style));
    }
    let used: usize = pieces.iter().map(|(text, _)| text.chars().count()).sum();
    let room = width.saturating_sub(used + 1);
    // Of a path the end says most, of all else the beginning.
    let fit = if matches!(view.by, Field::File | Field::Module) { fit_end } else { fit_start };
    pieces.push((format!(" {}", fit(&row.label, room)), theme.plain()));
    pieces
}

/// The beginning of a text, as much as there is room for.
pub(super) fn fit_start(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let start: String = text.chars().take(room.saturating_sub(2)).collect();
    format!("{start}..")
}

/// The end of a text, as much as there is room for.
pub(super) fn fit_end(text: &str, room: usize) -> String {
    let length = text.chars().count();
    if length <= room {
        return text.to_owned();
    }
    let end: String = text.chars().skip(length - room.saturating_sub(2)).collect();
    format!("..{end}")
}

/// The line with the groups.
fn groups(lines: &mut Lines<'_>, view: &View) {
    let theme = lines.theme;
    let mut pieces: Vec<Piece> = Vec::new();
    for (index, (by, (name, _))) in Field::watched().iter().enumerate() {
        let style = if *by == view.by { theme.chosen() } else { theme.plain() };
        pieces.push((format!(" {} {name} ", index + 1), style));
    }
    let filter = filter(view, theme);
    lines.line(&pieces, &filter);
}

fn filter(view: &View, theme: Theme) -> Vec<Piece> {
    if view.filter.is_empty() { Vec::new() } else { vec![(format!("/{}", fit_end(&view.filter, 30)), theme.set())] }
}

/// The last line.
fn keys(app: &App, theme: Theme, width: usize) -> Vec<Piece> {
    let key = |name: &str, words: &str| [(name.to_owned(), theme.strong()), (format!(" {words}  "), theme.plain())];
    if let Some(said) = &app.said {
        return vec![(said.clone(), theme.wrong())];
    }
    if let Some(typing) = &app.typing {
        let cursor = ("_".to_owned(), theme.chosen());
        let prompt = if typing.condition { "where: " } else { "/" };
        // The end is where one types.
        let text = fit_end(&typing.text, width.saturating_sub(prompt.len() + 1));
        let mut pieces = vec![(prompt.to_owned(), theme.strong()), (text, theme.plain()), cursor];
        pieces.push(("   ".to_owned(), theme.plain()));
        pieces.extend([key("Enter", "filters"), key("Esc", "drops it")].concat());
        return pieces;
    }
    if app.help.is_some() {
        return [key("any key", "back"), key("q", "quit")].concat();
    }
    let mut all = Vec::new();
    match app.pages.last() {
        Some(Page::Stack { .. }) => all.push(key("Esc", "back")),
        Some(Page::Table(page)) => {
            let stack = page.view.by == Field::Stack;
            all.push(key("Enter", if stack { "frames" } else { "stacks" }));
            if app.pages.len() > 1 {
                all.push(key("Esc", "back"));
            }
        }
        None => {}
    }
    let marked = app.look.mark_age_ns.is_some();
    if app.look.state == LookState::Running {
        all.push(if marked { key("M", "unmark") } else { key("m", "mark") });
    }
    all.extend([key("/", "filter"), key("s", "sort"), key("p", if app.paused { "go on" } else { "pause" })]);
    // The help knows the others: it and the way out are there before them.
    let last = [key("?", "help"), key("q", "quit")].concat();
    let mut room = width.saturating_sub(letters(&last).saturating_sub(2));
    let kept = all.iter().take_while(|key| {
        let left = room.checked_sub(letters(&key[..]));
        room = left.unwrap_or(0);
        left.is_some()
    });
    let kept: Vec<Piece> = kept.flatten().cloned().collect();
    [kept, last].concat()
}

#[cfg(test)]
mod tests;
