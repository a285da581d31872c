//! The screen of `top`. The first thread draws and waits for what the others send: keys, signals, figures, names.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use heapledger_analysis::watch::{FoundNames, View};
use heapledger_analysis::{Holders, NamedStack};
use heapledger_format::Site;
use heapledger_report::{Namer, Paint};
use nix::sys::signal::{SigSet, Signal};
use ratatui::crossterm::event::{self, KeyEvent, KeyEventKind};

use self::app::{Action, App};
use self::terminal::Screen;
use self::theme::Theme;
use super::Watched;
use super::reader::{self, Order, Report};
use crate::commands::{NamingArgs, TopArgs};
use crate::end_as;
use crate::run::End;
use heapledger_launch::sys;

mod app;
mod chart;
mod draw;
mod pages;
pub(super) mod session;
mod terminal;
mod theme;

/// How long a signal that ends us may take to be obeyed, if the terminal takes nothing any more.
const PATIENCE: Duration = Duration::from_secs(2);
/// Sites that are named first: those on the screen, mostly.
const FIRST_SITES: usize = 100;

/// What happens.
enum Event {
    Key(KeyEvent),
    Resized,
    /// Keys can no longer be read: the terminal is gone.
    NoKeys,
    Signal(Signal),
    Read(Report),
    Named(FoundNames),
    Stack(Site, NamedStack),
    Problem(String),
}

/// What the namer is asked.
enum Question {
    Sites(Vec<Site>),
    Stack(Site),
}

/// Shows a ledger until a person has seen enough.
pub(super) fn run(args: &TopArgs, watched: impl FnOnce() -> Result<Watched>) -> Result<()> {
    let watched = watched()?;
    let theme = Theme { color: args.ledger.view.color.is_on(), ascii: !crate::terminal::is_utf8() };
    let view = View::new(args.group_by, args.sort);
    let pid = args.ledger.ledger.to_str().and_then(|text| text.parse().ok());
    let signals = terminal::hold_signals()?;
    let screen = Screen::take()?;
    let (tell, events) = mpsc::channel();
    let (order, orders) = mpsc::channel();
    let (ask, questions) = mpsc::channel();
    let mut app = App::new(view, watched.interval, watched.paint);
    if args.mark {
        app.marking = order.send(Order::Mark).is_ok();
    }
    thread::spawn({
        let tell = tell.clone();
        move || wait_for_signals(&signals, &tell)
    });
    thread::spawn({
        let tell = tell.clone();
        move || read_keys(&tell)
    });
    let Watched { reader, namer, began, interval, filter, holders, naming, paint } = watched;
    let for_reader = (filter, holders.clone(), naming.clone());
    thread::spawn({
        let tell = tell.clone();
        move || {
            let tell = |report| tell.send(Event::Read(report)).is_ok();
            let pid = pid.filter(|_| !reader.is_finished());
            reader::read(&reader, pid, for_reader, (began, interval), &orders, &tell);
        }
    });
    thread::spawn(move || {
        if let Err(problem) = find_names(&namer, (holders, naming, paint), &questions, &tell) {
            let _ = tell.send(Event::Problem(format!("names can no longer be found: {problem:#}")));
        }
    });
    let mut showing = Showing { screen, app, theme, order, ask };
    let end = showing.go_on(&events);
    drop(showing);
    match end {
        Some(signal) => end_as(End::Signal(signal as i32)),
        None => Ok(()),
    }
}

struct Showing {
    screen: Screen,
    app: App,
    theme: Theme,
    order: Sender<Order>,
    ask: Sender<Question>,
}

/// Whether to go on.
enum Next {
    Go,
    End(Option<Signal>),
}

impl Showing {
    /// Draws and waits until it is over: the signal that ended it.
    fn go_on(&mut self, events: &Receiver<Event>) -> Option<Signal> {
        loop {
            let (app, theme) = (&mut self.app, self.theme);
            let width = self.screen.terminal.size().map_or(80, |size| size.width);
            app.update(width);
            let drawn = self.screen.terminal.draw(|frame| draw::draw(frame, app, theme));
            let Ok(first) = events.recv() else { return None };
            if drawn.is_err() {
                // The terminal is gone: a signal says so, or nobody does.
                return None;
            }
            // All that has happened meanwhile is one picture.
            for event in std::iter::once(first).chain(events.try_iter()) {
                if let Next::End(signal) = self.take(event) {
                    return signal;
                }
            }
        }
    }

    fn take(&mut self, event: Event) -> Next {
        let app = &mut self.app;
        match event {
            Event::Key(key) => match app.key(key) {
                Some(Action::Quit) => return Next::End(None),
                Some(Action::Suspend) => self.suspend(),
                Some(Action::Order(order)) => {
                    let _ = self.order.send(order);
                }
                Some(Action::Stack(site)) => {
                    let _ = self.ask.send(Question::Stack(site));
                }
                None => {}
            },
            Event::Resized => {}
            Event::NoKeys => return Next::End(None),
            Event::Signal(Signal::SIGTSTP) => self.suspend(),
            Event::Signal(Signal::SIGCONT) => {
                // Somebody else may have used the terminal, and set it otherwise.
                let _ = self.screen.retake();
            }
            Event::Signal(signal) => return Next::End(Some(signal)),
            Event::Read(report) => self.note(report),
            Event::Named(named) => {
                app.unnamed = app.unnamed.saturating_sub(named.sites.len());
                app.readings.names.add(named);
            }
            Event::Stack(site, stack) => {
                app.stacks.insert(site, stack);
            }
            Event::Problem(problem) => {
                app.unnamed = 0;
                app.problem = Some(problem);
            }
        }
        Next::Go
    }

    /// What the reader has found.
    fn note(&mut self, report: Report) {
        let app = &mut self.app;
        match report {
            Report::Totals(totals) => app.readings.add_totals(totals),
            Report::Sample { sample, mark, condition } => {
                // A mark that was taken away again meanwhile does not come back.
                if app.marking || app.readings.mark.is_some() {
                    app.marking = app.marking && mark.is_none();
                    app.readings.set_mark(mark, &condition);
                }
                app.readings.add_sample(sample, &condition);
                let sites = app.sites_to_name();
                if !sites.is_empty() {
                    let _ = self.ask.send(Question::Sites(sites));
                }
            }
            Report::Refused(problem) => app.said = Some(problem),
            Report::Ended(words) => app.readings.ending = Some(words),
            Report::Failed(problem) => app.problem = Some(format!("the ledger can no longer be read: {problem}")),
        }
    }

    /// Stops, and goes on where it was.
    fn suspend(&mut self) {
        terminal::give_back();
        sys::raise_default(libc::SIGTSTP);
        let _ = self.screen.retake();
    }
}

/// Sends signals on. If one that ends us is not obeyed in time, the terminal is given back from here.
fn wait_for_signals(signals: &SigSet, tell: &Sender<Event>) {
    while let Ok(signal) = signals.wait() {
        if tell.send(Event::Signal(signal)).is_err() {
            return;
        }
        if !matches!(signal, Signal::SIGTSTP | Signal::SIGCONT) {
            thread::sleep(PATIENCE);
            terminal::give_back();
            end_as(End::Signal(signal as i32));
        }
    }
}

fn read_keys(tell: &Sender<Event>) {
    loop {
        let event = match event::read() {
            Ok(event::Event::Key(key)) if key.kind != KeyEventKind::Release => Event::Key(key),
            Ok(event::Event::Resize(..)) => Event::Resized,
            Ok(_) => continue,
            Err(_) => Event::NoKeys,
        };
        let last = matches!(event, Event::NoKeys);
        if tell.send(event).is_err() || last {
            return;
        }
    }
}

/// Finds names as long as anybody asks. A stack that somebody waits for comes before all others.
fn find_names(
    ledger: &heapledger_source::Ledger,
    (holders, naming, paint): (Holders, NamingArgs, Paint),
    questions: &Receiver<Question>,
    tell: &Sender<Event>,
) -> Result<()> {
    let mut namer = Namer::new(naming.quiet_names(ledger)?, holders, paint);
    let mut sites: Vec<Site> = Vec::new();
    let mut first = true;
    loop {
        let question = if sites.is_empty() { questions.recv().ok() } else { questions.try_recv().ok() };
        let event = match question {
            Some(Question::Stack(site)) => Event::Stack(site, namer.stack(site)?),
            Some(Question::Sites(more)) => {
                sites.extend(more);
                continue;
            }
            None if sites.is_empty() => return Ok(()),
            None => {
                // Debug information is gone through once for each of these: so there are two of them and not many.
                let count = if first { FIRST_SITES.min(sites.len()) } else { sites.len() };
                first = false;
                Event::Named(namer.sites(&sites.drain(..count).collect::<Vec<_>>())?)
            }
        };
        if tell.send(event).is_err() {
            return Ok(());
        }
    }
}
