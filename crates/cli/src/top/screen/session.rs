//! The screen of a session: its processes, and one of them by Enter, which is another `heapledger top` in its place.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use heapledger_analysis::{FamilyLook, ProcessLook};
use heapledger_report::{Paint, ascii};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::terminal::{self, Screen};
use crate::end_as;
use crate::run::End;
use crate::top::session::WatchedSession;
use heapledger_launch::sys;
use nix::sys::signal::Signal;

const KEYS: &str = "up/down choose  Enter opens  q ends";
const ENDED: &str = "this process has ended; Enter opens its ledger as it was left  q ends";
const ALL_ENDED: &str = "all processes have ended: `heapledger stats` tells of them  q ends";
/// How often the screen wakes up where nothing is looked at any more.
const REST: Duration = Duration::from_secs(3600);

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionAction {
    Nothing,
    Open,
    Quit,
    Suspend,
}

/// Which row is chosen: by its process, which may move.
#[derive(Debug, Default)]
struct Chosen {
    pid: Option<u32>,
    row: usize,
}

impl Chosen {
    /// After another look: the same process, or the row where it was.
    fn follow(&mut self, look: &FamilyLook) {
        let same = look.rows.iter().position(|row| Some(row.key.pid) == self.pid);
        self.put(same.unwrap_or(self.row), look);
    }

    fn put(&mut self, row: usize, look: &FamilyLook) {
        self.row = row.min(look.rows.len().saturating_sub(1));
        self.pid = look.rows.get(self.row).map(|row| row.key.pid);
    }

    fn key(&mut self, key: KeyEvent, look: &FamilyLook) -> SessionAction {
        let page = 10;
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return SessionAction::Quit,
            KeyCode::Char('z') if key.modifiers.contains(KeyModifiers::CONTROL) => return SessionAction::Suspend,
            KeyCode::Char('q') | KeyCode::Esc => return SessionAction::Quit,
            KeyCode::Enter if self.pid.is_some() => return SessionAction::Open,
            KeyCode::Up | KeyCode::Char('k') => self.put(self.row.saturating_sub(1), look),
            KeyCode::Down | KeyCode::Char('j') => self.put(self.row + 1, look),
            KeyCode::PageUp => self.put(self.row.saturating_sub(page), look),
            KeyCode::PageDown => self.put(self.row + page, look),
            KeyCode::Home => self.put(0, look),
            KeyCode::End => self.put(usize::MAX, look),
            _ => {}
        }
        SessionAction::Nothing
    }
}

/// Shows the session until a person has seen enough.
pub(in crate::top) fn run(mut watched: WatchedSession<'_>) -> Result<()> {
    let signals = terminal::hold_signals()?;
    let mut look = watched.watch.look()?;
    let mut screen = Screen::take()?;
    thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            if !matches!(signal, Signal::SIGTSTP | Signal::SIGCONT) {
                terminal::give_back();
                end_as(End::Signal(signal as i32));
            }
        }
    });
    let mut chosen = Chosen::default();
    chosen.follow(&look);
    let mut next = Instant::now() + watched.interval;
    let mut said = String::new();
    loop {
        draw(&mut screen, &watched, &look, &chosen, &said)?;
        if event::poll(next.saturating_duration_since(Instant::now()))? {
            let asked = match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => chosen.key(key, &look),
                _ => SessionAction::Nothing,
            };
            match asked {
                SessionAction::Nothing => {}
                SessionAction::Quit => return Ok(()),
                SessionAction::Suspend => {
                    terminal::give_back();
                    sys::raise_default(libc::SIGTSTP);
                    screen.retake()?;
                }
                SessionAction::Open => said = open(&mut screen, &watched, &chosen)?,
            }
        }
        if Instant::now() >= next {
            next = Instant::now() + if look.goes_on { watched.interval } else { REST };
            match watched.watch.look() {
                Ok(now) => look = after(&look, now),
                Err(problem) => said = format!("the session can no longer be read: {problem}"),
            }
            chosen.follow(&look);
        }
    }
}

/// What is shown after another look. Those that were there when the session ended stay, to be opened.
fn after(before: &FamilyLook, mut now: FamilyLook) -> FamilyLook {
    if !now.goes_on {
        let gone = |row: &&ProcessLook| now.rows.iter().all(|other| other.key != row.key);
        let gone: Vec<ProcessLook> = before.rows.iter().filter(gone).cloned().collect();
        now.rows.extend(gone.into_iter().map(|row| ProcessLook {
            running: false,
            growth_bytes: 0,
            allocations: 0,
            ..row
        }));
    }
    now
}

/// Has another of us show one process; says what was wrong, if anything was.
fn open(screen: &mut Screen, watched: &WatchedSession<'_>, chosen: &Chosen) -> Result<String> {
    let Some(pid) = chosen.pid else { return Ok(String::new()) };
    terminal::give_back();
    let own = std::env::current_exe().context("this program cannot be found again")?;
    let interval = watched.interval.as_secs_f64().to_string();
    let status = Command::new(own).args(["top", "-i", &interval]).arg(watched.target_of(pid)).status();
    // What it has said is to be read.
    let failed = !status.as_ref().is_ok_and(std::process::ExitStatus::success);
    if failed {
        thread::sleep(Duration::from_secs(1));
    }
    screen.retake()?;
    Ok(match status {
        Ok(_) if !failed => String::new(),
        Ok(_) => format!("process {pid} cannot be opened any more"),
        Err(problem) => problem.to_string(),
    })
}

fn draw(
    screen: &mut Screen,
    watched: &WatchedSession<'_>,
    look: &FamilyLook,
    chosen: &Chosen,
    said: &str,
) -> Result<()> {
    let is_ascii = !crate::terminal::is_utf8();
    screen.terminal.draw(|frame| {
        let [top, table, bottom] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)]).areas(frame.area());
        let paint = Paint { on: false, columns: usize::from(frame.area().width), ..watched.args.ledger.paint() };
        let mut report = watched.report(look, paint);
        report.limit = 0;
        let shown = |text: String| if is_ascii { ascii(&text).into_owned() } else { text };
        frame.render_widget(Line::styled(shown(report.summary()), Style::new().add_modifier(Modifier::BOLD)), top);
        let mut lines = report.lines().into_iter().map(shown);
        let heading = lines.next().map(|line| Line::styled(line, Style::new().add_modifier(Modifier::BOLD)));
        let room = usize::from(table.height).saturating_sub(1).max(1);
        // The chosen row is always seen.
        let first = (chosen.row + 1).saturating_sub(room);
        let rows = lines.enumerate().skip(first).take(room).map(|(index, line)| {
            let style = if index == chosen.row { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
            Line::styled(line, style)
        });
        frame.render_widget(Paragraph::new(heading.into_iter().chain(rows).collect::<Vec<_>>()), table);
        let has_ended = look.rows.get(chosen.row).is_some_and(|row| !row.running);
        let words = if !said.is_empty() {
            said
        } else if look.rows.is_empty() && !look.goes_on {
            ALL_ENDED
        } else if has_ended {
            ENDED
        } else {
            KEYS
        };
        frame.render_widget(Line::from(shown(words.to_owned())), bottom);
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use heapledger_source::ProcessKey;

    use super::*;

    fn look(pids: &[u32]) -> FamilyLook {
        let row = |pid: &u32| ProcessLook {
            key: ProcessKey { pid: *pid, start_ticks: 0, image: 0 },
            program: "cc1".to_owned(),
            began_unix_ns: 0,
            live_bytes: 0,
            live_blocks: 0,
            growth_bytes: 0,
            allocations: 0,
            running: true,
        };
        FamilyLook { rows: pids.iter().map(row).collect(), ..FamilyLook::default() }
    }

    #[test]
    fn the_chosen_process_is_followed_and_keys_move() {
        let mut chosen = Chosen::default();
        let press = |chosen: &mut Chosen, code, look: &FamilyLook| chosen.key(KeyEvent::from(code), look);
        let before = look(&[1, 2, 3]);
        chosen.follow(&before);
        assert_eq!(press(&mut chosen, KeyCode::Down, &before), SessionAction::Nothing);
        assert_eq!(chosen.pid, Some(2));
        chosen.follow(&look(&[7, 8, 2, 1]));
        assert_eq!((chosen.pid, chosen.row), (Some(2), 2));
        // It has gone: the row stays, as far as there is one.
        chosen.follow(&look(&[7]));
        assert_eq!((chosen.pid, chosen.row), (Some(7), 0));
        assert_eq!(press(&mut chosen, KeyCode::End, &before), SessionAction::Nothing);
        assert_eq!(chosen.pid, Some(3));
        assert_eq!(press(&mut chosen, KeyCode::Enter, &before), SessionAction::Open);
        assert_eq!(press(&mut chosen, KeyCode::Char('q'), &before), SessionAction::Quit);
        chosen.follow(&look(&[]));
        assert_eq!((chosen.pid, press(&mut chosen, KeyCode::Enter, &before)), (None, SessionAction::Nothing));
    }

    #[test]
    fn what_was_there_when_the_session_ended_stays() {
        let going = FamilyLook { goes_on: true, ..look(&[1, 2]) };
        let pids = |look: &FamilyLook| look.rows.iter().map(|row| (row.key.pid, row.running)).collect::<Vec<_>>();
        // While it goes on, processes go.
        assert_eq!(pids(&after(&going, FamilyLook { goes_on: true, ..look(&[2]) })), [(2, true)]);
        let ended = after(&going, look(&[]));
        assert_eq!(pids(&ended), [(1, false), (2, false)]);
        assert_eq!(pids(&after(&ended, look(&[]))), [(1, false), (2, false)]);
    }
}
