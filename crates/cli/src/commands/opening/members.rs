//! One process of a session: by its number or its name, behind the session's directory or as an option.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Result, bail};
use heapledger_report::clean;
use heapledger_source::{Family, Member};

use super::which::which;
use crate::commands::standard::Usage;

/// Which process of a session is meant.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Sessions of several processes")]
pub(crate) struct MemberArgs {
    /// Of a session, take the process of this number alone; SESSION:PID is the same
    #[arg(long, value_name = "PID", conflicts_with = "process")]
    pub(crate) pid: Option<u32>,
    /// Of a session, take the process of this name alone; SESSION:NAME is the same
    #[arg(long, value_name = "NAME")]
    pub(crate) process: Option<String>,
}

/// What a process is named by.
enum Wanted<'a> {
    Pid(u32),
    Name(&'a str),
}

impl MemberArgs {
    fn wanted(&self) -> Option<Wanted<'_>> {
        self.pid.map(Wanted::Pid).or(self.process.as_deref().map(Wanted::Name))
    }

    /// Whether one process is asked for.
    pub(crate) fn is_any(&self) -> bool {
        self.wanted().is_some()
    }
}

/// The session that was named, if it is meant as a whole.
pub(crate) fn whole_session(target: &OsStr, members: &MemberArgs) -> Result<Option<Family>> {
    let is_whole = !members.is_any() && Family::is_at(Path::new(target));
    Ok(is_whole.then(|| Family::open(Path::new(target))).transpose()?)
}

/// The ledger of the process that was named, if one of a session was.
///
/// # Errors
/// If there is no such process, it has no ledger, or a session was named and no process.
pub(crate) fn member_path(target: &OsStr, members: &MemberArgs) -> Result<Option<OsString>> {
    let (path, own) = put_apart(target);
    if !Family::is_at(Path::new(path)) {
        if members.is_any() {
            let shown = Path::new(target).display();
            return Err(
                Usage::new(format!("{shown} is no session: --pid and --process take one process of several")).into()
            );
        }
        return Ok(None);
    }
    let family = Family::open(Path::new(path))?;
    let own = own.map(|own| own.parse().map_or(Wanted::Name(own), Wanted::Pid));
    let wanted = own.or_else(|| members.wanted());
    let shown = Path::new(path).display().to_string();
    let Some(wanted) = wanted else {
        let recorded: Vec<&Member> = family.members.iter().filter(|member| member.path().is_some()).collect();
        if let [only] = recorded[..] {
            return opened(only).map(Some);
        }
        return Err(Usage::new(which(&shown, &recorded)).into());
    };
    let is_meant = |member: &&Member| match wanted {
        Wanted::Pid(pid) => member.process.pid == pid,
        Wanted::Name(name) => member.process.program == name,
    };
    let meant: Vec<&Member> = family.members.iter().filter(is_meant).collect();
    let recorded: Vec<&Member> = meant.iter().copied().filter(|member| member.path().is_some()).collect();
    let named = match wanted {
        Wanted::Pid(pid) => format!("process {pid}"),
        Wanted::Name(name) => format!("process called {name}"),
    };
    match (&recorded[..], &meant[..]) {
        ([only], _) => opened(only).map(Some),
        ([], []) => bail!("{shown} has no {named}; `heapledger stats {shown} --all` lists those that it has"),
        ([], [member, ..]) => {
            let why = member.process.unrecorded.as_deref().unwrap_or("its ledger is gone, or it did nothing");
            bail!("the {named} of {shown} has no ledger: {}", clean(why))
        }
        // One process that became other programs: the last of them is what it is.
        ([.., last], _) if recorded.iter().all(|member| is_same_process(member, last)) => opened(last).map(Some),
        _ => Err(Usage::new(which(&format!("{shown} ({named})"), &recorded)).into()),
    }
}

fn is_same_process(one: &Member, other: &Member) -> bool {
    (one.process.pid, one.process.start_ticks) == (other.process.pid, other.process.start_ticks)
}

/// The path of a ledger that is that of this process.
fn opened(member: &Member) -> Result<OsString> {
    let ledger = member.open()?;
    Ok(ledger.map(|ledger| ledger.path().as_os_str().to_owned()).unwrap_or_default())
}

/// `SESSION:4711` is a process of `SESSION`, unless there is a file of the whole name.
fn put_apart(target: &OsStr) -> (&OsStr, Option<&str>) {
    let bytes = target.as_bytes();
    let at = bytes.iter().rposition(|byte| *byte == b':').filter(|_| !Path::new(target).exists());
    let parts = at.and_then(|at| {
        let path = OsStr::from_bytes(bytes.get(..at)?);
        let own = std::str::from_utf8(bytes.get(at + 1..)?).ok()?;
        (!own.is_empty() && Family::is_at(Path::new(path))).then_some((path, Some(own)))
    });
    parts.unwrap_or((target, None))
}
