//! What the screen shows at the moment, and what a key changes in it.

use std::collections::HashMap;
use std::time::Duration;

use heapledger_analysis::NamedStack;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::Filter;
use heapledger_analysis::watch::{LookRow, Readings, RowFigure, RowId, RowOrder, View};
use heapledger_format::Site;
use heapledger_report::{Look, LookColumn, Paint, look_columns, row_label};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::reader::Order;
use crate::commands::top::INTERVALS;

/// Most letters of what is typed.
const TYPED_MAX: usize = 400;

/// What is to be done beyond what is shown.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Leave.
    Quit,
    /// Stop, as a shell's Ctrl-Z does.
    Suspend,
    /// Tell the reader.
    Order(Order),
    /// Have a stack named, with its source lines.
    Stack(Site),
}

/// Something that is being typed: a condition for blocks, or a part of a row's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Typing {
    pub(super) condition: bool,
    pub(super) text: String,
}

/// A table, and where one is in it.
#[derive(Clone, Debug)]
pub(super) struct TablePage {
    pub(super) view: View,
    /// What it is a part of, in words.
    pub(super) title: Vec<String>,
    /// The row of the cursor.
    pub(super) cursor: usize,
    /// The first row on the screen.
    pub(super) offset: usize,
    /// The row that the cursor was put on: it goes where that row goes.
    held: Option<RowId>,
}

/// What the screen shows.
#[derive(Clone, Debug)]
pub(super) enum Page {
    Table(TablePage),
    Stack { site: Site, title: Vec<String>, scroll: usize },
}

/// The state of the screen.
pub(super) struct App {
    pub(super) readings: Readings,
    /// How bytes and names of functions are written.
    pub(super) paint: Paint,
    /// The last one is shown; Esc leads back to the one before.
    pub(super) pages: Vec<Page>,
    pub(super) interval: Duration,
    pub(super) paused: bool,
    /// A mark was asked for and is not set yet.
    pub(super) marking: bool,
    /// What is being typed.
    pub(super) typing: Option<Typing>,
    /// What is to be said until the next key.
    pub(super) said: Option<String>,
    /// How far the help is scrolled, while it is shown.
    pub(super) help: Option<usize>,
    /// Why nothing new comes any more.
    pub(super) problem: Option<String>,
    /// Stacks that were asked for.
    pub(super) stacks: HashMap<Site, NamedStack>,
    /// Sites whose names have not come yet.
    pub(super) unnamed: usize,
    /// What is shown, reckoned from all the above.
    pub(super) rows: Vec<(RowId, LookRow)>,
    pub(super) look: Look,
    pub(super) columns: Vec<LookColumn>,
    /// Rows of the table that fit on the screen, as drawn last.
    pub(super) room: usize,
    /// Lines of the page or of the help, as drawn last.
    pub(super) lines: usize,
}

impl App {
    pub(super) fn new(view: View, interval: Duration, paint: Paint) -> App {
        let page = TablePage { view, title: Vec::new(), cursor: 0, offset: 0, held: None };
        App {
            readings: Readings::default(),
            paint,
            pages: vec![Page::Table(page)],
            interval,
            paused: false,
            marking: false,
            typing: None,
            said: None,
            help: None,
            problem: None,
            stacks: HashMap::new(),
            unnamed: 0,
            rows: Vec::new(),
            look: Look::default(),
            columns: Vec::new(),
            room: 1,
            lines: 0,
        }
    }

    /// Sites that nobody has named yet, those that hold most first.
    pub(super) fn sites_to_name(&mut self) -> Vec<Site> {
        let sites = self.readings.sites_to_name();
        self.unnamed += sites.len();
        sites
    }

    /// Reckons anew what is shown, for a screen so many columns wide.
    pub(super) fn update(&mut self, width: u16) {
        let (by, part) = match self.pages.last() {
            Some(Page::Table(page)) => (page.view.by, !page.view.within.is_empty()),
            _ => (Field::Stack, true),
        };
        if let Some(Page::Table(page)) = self.pages.last() {
            self.rows = self.readings.table(&page.view, &|id| row_label(&self.readings, id));
        }
        self.look = Look::of(&self.readings, by, self.rows.len(), self.paint.exact_bytes);
        self.columns = look_columns(by, part, self.readings.motion(), usize::from(width), self.look.figures);
        let last = self.rows.len().saturating_sub(1);
        if let Some(Page::Table(page)) = self.pages.last_mut() {
            if let Some(held) = page.held
                && let Some(place) = self.rows.iter().position(|(id, _)| *id == held)
            {
                page.cursor = place;
            }
            page.cursor = page.cursor.min(last);
        }
    }

    /// Keeps the cursor on the screen. `room`: rows that fit.
    pub(super) fn scroll(&mut self, room: usize) {
        self.room = room.max(1);
        let rows = self.rows.len();
        if let Some(Page::Table(page)) = self.pages.last_mut() {
            page.offset = page.offset.min(page.cursor).max((page.cursor + 1).saturating_sub(self.room));
            page.offset = page.offset.min(rows.saturating_sub(self.room));
        }
    }

    /// Does what a key asks for.
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<Action> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Some(Action::Quit),
            KeyCode::Char('z') if control => return Some(Action::Suspend),
            _ => {}
        }
        self.said = None;
        if self.typing.is_some() {
            return self.type_text(key.code, control);
        }
        if self.help.is_some() {
            return self.help_key(key.code, control);
        }
        if let Some(step) = step(key.code, control, self.room) {
            self.go(step);
            return None;
        }
        match key.code {
            _ if control => None,
            KeyCode::Char('q') => Some(Action::Quit),
            KeyCode::Char('h' | '?') | KeyCode::F(1) => {
                self.help = Some(0);
                None
            }
            KeyCode::Char('p' | ' ') => {
                self.paused = !self.paused;
                Some(Action::Order(Order::Pause(self.paused)))
            }
            KeyCode::Char('+' | '=') => self.set_interval(longer(self.interval)),
            KeyCode::Char('-') => self.set_interval(shorter(self.interval)),
            KeyCode::Char('m') if self.is_running() => {
                self.marking = true;
                Some(Action::Order(Order::Mark))
            }
            KeyCode::Char('f') => {
                self.typing = Some(Typing { condition: true, text: self.readings.condition.clone() });
                None
            }
            KeyCode::Char('M') => {
                self.marking = false;
                self.readings.mark = None;
                Some(Action::Order(Order::Unmark))
            }
            KeyCode::Esc | KeyCode::Backspace => self.back(),
            code => self.table_key(code),
        }
    }

    fn is_running(&self) -> bool {
        self.readings.ending.is_none() && self.readings.totals.as_ref().is_some_and(|totals| totals.identity.running)
    }

    fn set_interval(&mut self, interval: Duration) -> Option<Action> {
        self.interval = interval;
        Some(Action::Order(Order::Interval(interval)))
    }

    /// One page back; on the first one, without the filter, and then without the condition.
    fn back(&mut self) -> Option<Action> {
        if self.pages.len() > 1 {
            self.pages.pop();
        } else if let Some(Page::Table(page)) = self.pages.last_mut() {
            if page.view.filter.is_empty() && !self.readings.condition.is_empty() {
                return Some(Action::Order(Order::Where(Filter::all())));
            }
            page.view.filter.clear();
        }
        None
    }

    fn table_key(&mut self, code: KeyCode) -> Option<Action> {
        let columns = self.columns.clone();
        let Some(Page::Table(page)) = self.pages.last_mut() else { return None };
        let view = &mut page.view;
        let all = Field::watched();
        let at = all.iter().position(|(by, _)| *by == view.by).unwrap_or(0);
        match code {
            KeyCode::Enter => return self.enter(),
            KeyCode::Char(digit @ '1'..='6') => {
                if let Some((by, _)) = all.get(digit as usize - '1' as usize) {
                    page.regroup(*by);
                }
            }
            KeyCode::Tab => page.regroup(all[(at + 1) % all.len()].0),
            KeyCode::BackTab => page.regroup(all[(at + all.len() - 1) % all.len()].0),
            KeyCode::Char('s' | '>' | '.') => view.order = next_order(view.order, &columns, 1),
            KeyCode::Char('<' | ',') => view.order = next_order(view.order, &columns, columns.len()),
            KeyCode::Char('b') => view.order = Some(RowFigure::Bytes),
            KeyCode::Char('n') => view.order = Some(RowFigure::Blocks),
            KeyCode::Char('d') => view.order = Some(RowFigure::Rate),
            KeyCode::Char('c') => view.order = Some(RowFigure::Growth),
            KeyCode::Char('a') => view.order = Some(RowFigure::Allocated),
            KeyCode::Char('o') => view.order = Some(RowFigure::Oldest),
            KeyCode::Char('N') => view.order = None,
            KeyCode::Char('r' | 'R') => view.reverse = !view.reverse,
            KeyCode::Char('w') => {
                view.wrappers = !view.wrappers;
                page.held = None;
            }
            KeyCode::Char('/') => self.typing = Some(Typing { condition: false, text: view.filter.clone() }),
            _ => {}
        }
        None
    }

    /// Goes into the row of the cursor.
    fn enter(&mut self) -> Option<Action> {
        let Some(Page::Table(page)) = self.pages.last() else { return None };
        let (id, row) = self.rows.get(page.cursor)?;
        let mut title = page.title.clone();
        if let RowId::Site(site) = *id {
            title.push(row.label.clone());
            self.pages.push(Page::Stack { site, title, scroll: 0 });
            return (!self.stacks.contains_key(&site)).then_some(Action::Stack(site));
        }
        title.push(format!("{} {}", page.view.by.watched_name(), row.label));
        let mut view = View { by: Field::Stack, filter: String::new(), ..page.view.clone() };
        view.within.push((page.view.by, *id));
        if view.order == Some(RowFigure::Allocated) {
            view.order = Some(RowFigure::Bytes);
        }
        self.pages.push(Page::Table(TablePage { view, title, cursor: 0, offset: 0, held: None }));
        None
    }

    fn type_text(&mut self, code: KeyCode, control: bool) -> Option<Action> {
        let typing = self.typing.as_mut()?;
        match code {
            KeyCode::Esc => self.typing = None,
            KeyCode::Enter if typing.condition => {
                let text = typing.text.trim();
                let filter = if text.is_empty() { Ok(Filter::all()) } else { Filter::parse(text) };
                match filter {
                    Ok(filter) => {
                        self.typing = None;
                        return Some(Action::Order(Order::Where(filter)));
                    }
                    Err(problem) => {
                        let help = problem.expected().map_or_else(String::new, |help| format!(" ({help})"));
                        self.said = Some(format!("{}{help}", problem.what()));
                    }
                }
            }
            KeyCode::Enter => {
                let text = std::mem::take(&mut typing.text);
                self.typing = None;
                if let Some(Page::Table(page)) = self.pages.last_mut() {
                    page.view.filter = text;
                    (page.cursor, page.held) = (0, None);
                }
            }
            KeyCode::Backspace => {
                typing.text.pop();
            }
            KeyCode::Char('u') if control => typing.text.clear(),
            KeyCode::Char(letter) if !control && typing.text.chars().count() < TYPED_MAX => typing.text.push(letter),
            _ => {}
        }
        None
    }

    fn help_key(&mut self, code: KeyCode, control: bool) -> Option<Action> {
        if let Some(step) = step(code, control, self.room) {
            self.go(step);
            return None;
        }
        if code == KeyCode::Char('q') {
            return Some(Action::Quit);
        }
        self.help = None;
        None
    }

    /// Moves the cursor, or what is read.
    fn go(&mut self, step: Step) {
        let to = |from: usize, last: usize| match step {
            Step::By(by) => from.saturating_add_signed(by).min(last),
            Step::First => 0,
            Step::Last => last,
        };
        let below = self.lines.saturating_sub(self.room);
        if let Some(scroll) = &mut self.help {
            *scroll = to(*scroll, below);
            return;
        }
        match self.pages.last_mut() {
            Some(Page::Table(page)) => {
                page.cursor = to(page.cursor, self.rows.len().saturating_sub(1));
                // At the top one wants to see what is at the top.
                page.held = self.rows.get(page.cursor).map(|(id, _)| *id).filter(|_| page.cursor != 0);
            }
            Some(Page::Stack { scroll, .. }) => *scroll = to(*scroll, below),
            None => {}
        }
    }
}

impl TablePage {
    fn regroup(&mut self, by: Field) {
        self.view.by = by;
        (self.cursor, self.offset, self.held) = (0, 0, None);
        if self.view.order == Some(RowFigure::Allocated) && !matches!(by, Field::Thread | Field::Kind) {
            self.view.order = Some(RowFigure::Bytes);
        }
    }
}

/// A movement.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    By(isize),
    First,
    Last,
}

/// The movement that a key stands for.
fn step(code: KeyCode, control: bool, room: usize) -> Option<Step> {
    let page = room.saturating_sub(1).max(1) as isize;
    Some(match (code, control) {
        (KeyCode::Up, _) | (KeyCode::Char('k'), false) | (KeyCode::Char('p'), true) => Step::By(-1),
        (KeyCode::Down, _) | (KeyCode::Char('j'), false) | (KeyCode::Char('n'), true) => Step::By(1),
        (KeyCode::PageUp, _) | (KeyCode::Char('b'), true) => Step::By(-page),
        (KeyCode::PageDown, _) | (KeyCode::Char('f'), true) => Step::By(page),
        (KeyCode::Char('u'), true) => Step::By(-(page / 2).max(1)),
        (KeyCode::Char('d'), true) => Step::By((page / 2).max(1)),
        (KeyCode::Home, _) | (KeyCode::Char('g'), false) => Step::First,
        (KeyCode::End, _) | (KeyCode::Char('G'), false) => Step::Last,
        _ => return None,
    })
}

/// The order `by` columns further on, of those that are shown and the name.
fn next_order(order: RowOrder, columns: &[LookColumn], by: usize) -> RowOrder {
    let all: Vec<RowOrder> = columns.iter().map(|column| Some(column.0)).chain([None]).collect();
    match all.iter().position(|other| *other == order) {
        Some(at) => all[(at + by) % all.len()],
        None => Some(RowFigure::Bytes),
    }
}

/// Intervals that the keys lead through, in tenths of a second.
const STEPS: [u64; 12] = [1, 2, 5, 10, 20, 30, 50, 100, 200, 300, 600, 1200];

fn longer(interval: Duration) -> Duration {
    let next = STEPS.iter().map(|step| Duration::from_millis(step * 100)).find(|step| *step > interval);
    next.unwrap_or(interval).min(Duration::from_secs_f64(INTERVALS[1]))
}

fn shorter(interval: Duration) -> Duration {
    let next = STEPS.iter().rev().map(|step| Duration::from_millis(step * 100)).find(|step| *step < interval);
    next.unwrap_or(interval).max(Duration::from_secs_f64(INTERVALS[0]))
}

#[cfg(test)]
mod tests;
