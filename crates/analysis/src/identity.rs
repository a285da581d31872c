//! Which program a ledger tells of, and what became of it.

use heapledger_format::header::State;
use heapledger_format::session::process as key;
use heapledger_source::{Ledger, ProcessInfo, Taken};

/// The program, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its name.
    pub program: Option<String>,
    /// What it was called with, its own name first.
    pub args: Vec<String>,
    /// Its process id.
    pub pid: Option<u32>,
    /// Its executable.
    pub exe: Option<String>,
    /// Its working directory.
    pub cwd: Option<String>,
    /// Which program of the process this is: each `exec` begins a new one.
    pub image: u64,
    /// Whether it is running now.
    pub running: bool,
    /// Whether this is the ledger as of one moment while the program went on: from a core dump, or copied by a debugger.
    pub copied: bool,
    /// When it was copied, in nanoseconds since 1970; `None` if it was not or nobody knows.
    pub copied_unix_ns: Option<u64>,
    /// Its exit status, if it exited.
    pub exit: Option<u64>,
    /// The signal that ended it.
    pub signal: Option<u64>,
    /// Whether it went on as another program: it called `exec`.
    pub replaced: bool,
    /// How long it ran, in nanoseconds.
    pub wall_ns: Option<u64>,
    /// Of what moment this is a snapshot, if it is one: the program went on.
    pub taken: Option<Taken>,
    /// Whether the ledger is finished.
    pub finished: bool,
    /// Whether recording went on to the end: the ledger was not full and not stopped.
    pub recording: bool,
    /// Whether the ledger ran out of room.
    pub full: bool,
    /// What tells its run from others.
    pub run: RunMarks,
}

/// What tells a run, and a moment of it, from others of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunMarks {
    /// Labels of the whole run, in their order.
    pub labels: Vec<(String, String)>,
    /// Name of the machine.
    pub host: Option<String>,
    /// A hash of the machine's number.
    pub machine_id: Option<String>,
    /// The container.
    pub container: Option<String>,
    /// Of what moment the ledger is: `end`, or nanoseconds since 1970. Ledgers of one id and one moment are the same.
    pub moment: Option<String>,
}

impl RunMarks {
    fn of(process: &ProcessInfo) -> RunMarks {
        let mut labels: Vec<(String, String)> = Vec::new();
        for (name, value) in process.pairs() {
            let Some(name) = name.strip_prefix(key::LABEL_PREFIX) else { continue };
            // The last one counts.
            labels.retain(|(known, _)| known != name);
            labels.push((name.to_owned(), String::from_utf8_lossy(value).into_owned()));
        }
        RunMarks {
            labels,
            host: process.text(key::HOST),
            machine_id: process.text(key::MACHINE_ID),
            container: process.text(key::CONTAINER),
            moment: process.text(key::MOMENT),
        }
    }
}

impl Identity {
    /// Whether it was copied by the program itself, at its end: nothing came after it.
    pub fn is_of_end(&self) -> bool {
        self.run.moment.as_deref() == Some(key::AT_END)
    }

    /// Whether it is a copy of a moment after which the program went on.
    pub fn is_midway(&self) -> bool {
        self.copied && !self.is_of_end()
    }

    /// What `ledger` says.
    pub fn of(ledger: &Ledger) -> Identity {
        let process = ledger.process();
        let state = ledger.current_header().map_or(ledger.header().state, |header| header.state);
        Identity {
            program: process.program(),
            args: process.args(),
            pid: process.pid(),
            exe: process.text(key::EXE),
            cwd: process.text(key::CWD),
            image: process.number(key::IMAGE).unwrap_or(0),
            running: ledger.is_running(),
            copied: ledger.is_copy(),
            copied_unix_ns: ledger.copied_unix_ns(),
            exit: process.number(key::EXIT),
            signal: process.number(key::SIGNAL),
            replaced: process.get(key::ENDED) == Some(key::BY_EXEC.as_bytes()),
            wall_ns: process.number(key::WALL_NS),
            taken: ledger.taken(),
            finished: ledger.is_finished(),
            recording: state == State::Recording,
            full: state == State::Full,
            run: RunMarks::of(process),
        }
    }
}
