//! A session that goes on: its processes as text, look by look, or on the screen, where they come and go and one of them is opened by Enter.

use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use heapledger_analysis::{FamilyLook, FamilyLooks, Seen};
use heapledger_report::{FamilyLookReport, Form, Paint};

use crate::commands::TopArgs;
use crate::commands::present::Steps;
use crate::commands::standard::Usage;

/// A session that is watched.
pub(super) struct WatchedSession<'a> {
    pub(super) args: &'a TopArgs,
    pub(super) name: String,
    pub(super) interval: Duration,
    pub(super) watch: FamilyLooks,
    pub(super) seen: Seen,
}

impl<'a> WatchedSession<'a> {
    /// Nothing has been looked at yet.
    pub(super) fn new(args: &'a TopArgs) -> Result<WatchedSession<'a>> {
        let is_of_blocks = !args.filter.parse()?.is_all() || args.mark;
        if is_of_blocks {
            return Err(Usage::new("--where, -F and --mark choose blocks of one process: SESSION:PID").into());
        }
        let path = Path::new(&args.ledger.ledger);
        Ok(WatchedSession {
            args,
            name: path.to_string_lossy().into_owned(),
            interval: Duration::from_secs_f64(args.interval),
            watch: FamilyLooks::new(path.to_owned()),
            seen: Seen::default(),
        })
    }

    /// The report on a look.
    pub(super) fn report<'r>(&'r self, look: &'r FamilyLook, paint: Paint) -> FamilyLookReport<'r> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_nanos();
        FamilyLookReport {
            session: &self.name,
            look,
            at_unix_ns: u64::try_from(now).unwrap_or(u64::MAX),
            limit: self.args.limit,
            seen: &self.seen,
            paint,
        }
    }

    /// What a person types for one process of it.
    pub(super) fn target_of(&self, pid: u32) -> std::ffi::OsString {
        let mut target = self.args.ledger.ledger.clone();
        target.push(OsStr::new(&format!(":{pid}")));
        target
    }
}

/// Prints so many looks; 0: until the session ends.
pub(super) fn batch(mut watched: WatchedSession<'_>, looks: u64) -> Result<()> {
    let (form, paint): (&Form, Paint) = (watched.args.form.get(), watched.args.ledger.paint());
    if *form == Form::Csv {
        return Err(Usage::new("--csv is of one process: SESSION:PID; --json has the looks of a session").into());
    }
    let mut out = Steps::new(form, &watched.args.ledger.view);
    let mut shown = 0;
    loop {
        let began = Instant::now();
        let look = watched.watch.look()?;
        let mut report = watched.report(&look, paint);
        out.step(&mut report)?;
        shown += 1;
        if shown == looks || !look.goes_on {
            return out.end(&mut report);
        }
        std::thread::sleep(watched.interval.saturating_sub(began.elapsed()));
    }
}
