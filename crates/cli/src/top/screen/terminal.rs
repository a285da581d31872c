//! The terminal: taken at the start, given back at every end.

use std::io::{self, IsTerminal, Stdout, Write};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigSet, Signal};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

/// What a person who has no screen is told.
const HINT: &str = "`heapledger top --batch 1` prints a look as text";

/// Signals that end us or stop us: the terminal must be given back first.
const SIGNALS: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGTSTP, Signal::SIGCONT];

/// The terminal, as long as it is ours.
pub(super) struct Screen {
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn take() -> Result<Screen> {
        if !io::stdout().is_terminal() {
            bail!("top needs a terminal, and standard output is none; {HINT}");
        }
        if std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb") {
            bail!("top cannot draw on this terminal (TERM is dumb or not set); {HINT}");
        }
        // Whatever goes wrong: a message is to be read.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |information| {
            give_back();
            hook(information);
        }));
        enter().with_context(|| format!("the terminal cannot be used; {HINT}"))?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()));
        match terminal {
            Ok(terminal) => Ok(Screen { terminal }),
            Err(error) => {
                give_back();
                Err(error).context("the terminal cannot be used")
            }
        }
    }

    /// Takes it again, after it was somebody else's in between.
    pub(super) fn retake(&mut self) -> io::Result<()> {
        enter()?;
        // `Terminal::clear` asks the terminal where the cursor is, and waits for an answer that the thread of the keys
        // gets.
        execute!(io::stdout(), Clear(ClearType::All))?;
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    let entered = execute!(io::stdout(), EnterAlternateScreen);
    if entered.is_err() {
        give_back();
    }
    entered
}

/// Gives the terminal back as it was. Nothing can be done where that fails: it is gone.
pub(super) fn give_back() {
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = io::stdout().flush();
}

/// Has the signals that end or stop us come to [`wait_for_signal`]. Before any thread is started.
pub(super) fn hold_signals() -> Result<SigSet> {
    let signals: SigSet = SIGNALS.into_iter().collect();
    signals.thread_block().context("signals cannot be held")?;
    Ok(signals)
}
