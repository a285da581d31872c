//! `heapledger verify`: whether what lies around the blocks of a guarded program is whole.

use std::process::ExitCode;

use anyhow::Result;
use heapledger_analysis::{Seen, Verified, excuse, sites_of, verify, verify_chip};
use heapledger_format::session::{guard, process};
use heapledger_launch::door;
use heapledger_report::{ErrorsReport, VerifyReport};
use heapledger_source::{Ledger, ProgramMemory, SourceError};

use super::form::Tables;
use super::standard::SuppressArgs;
use super::{FormArgs, LedgerArgs, NamingArgs, Progress, SourceText, refresh, unless_pipe_closed};
use crate::args;

/// Damaged blocks shown unless told otherwise.
const LIMIT: usize = 100;
/// Exit code: something is damaged.
const DAMAGED: u8 = 1;

/// Arguments of `verify`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads the memory of a process that was started with --guard, or of its core
dump, and looks at all blocks: canaries, slack and headers, with --guard=full
the fills around blocks and in freed ones that wait, with --guard=page what
is left of a block's own pages. The program is not stopped, and not changed.
It takes the right to trace it (/proc/PID/mem), or its `heapledger run`, by
the same user, which hands it out. Of a chip it reads an image of its memory.

Exit status: 0 all are whole, 1 some are damaged, 2 it is unknown: not all
could be looked at, or none.

Examples:
  heapledger verify 4711
  heapledger verify core.4711
  heapledger verify --exe firmware.elf ram.bin
  heapledger verify --json 4711 | jq 'select(.type == \"verified\")'")]
pub(crate) struct VerifyArgs {
    /// Show at most N errors, 0 for all
    #[arg(short, long, value_name = "N", default_value_t = LIMIT)]
    pub(crate) limit: usize,
    /// Print a token for each: its kind and the innermost functions of its stacks, the
    /// same in each run and build
    #[arg(long)]
    pub(crate) dedup_token: bool,
    /// For debugging heapledger: read the memory through `run` even where it could be read here
    #[arg(long, hide = true)]
    pub(crate) through_run: bool,
    #[command(flatten)]
    pub(crate) suppress: SuppressArgs,
    #[command(flatten)]
    pub(crate) form: FormArgs<Tables>,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
}

/// Looks at all blocks.
pub(crate) fn run(args: &VerifyArgs) -> Result<ExitCode> {
    let mut code = args::USAGE;
    let result = show(args).map(|found| code = found);
    match unless_pipe_closed(result) {
        Ok(()) => Ok(ExitCode::from(code)),
        Err(problem) => {
            crate::say_problem(&problem);
            Ok(ExitCode::from(args::USAGE))
        }
    }
}

/// The program's memory: where this process may not read it, through `run`, which may, being its parent.
fn memory(ledger: &Ledger, through_run: bool) -> Result<ProgramMemory> {
    let problem = match ledger.memory() {
        Ok(memory) if !through_run => return Ok(memory),
        Ok(_) => SourceError::NoMemory(ledger.path().to_owned()),
        Err(problem @ SourceError::MemoryNotYours(_)) => problem,
        Err(problem) => return Err(problem.into()),
    };
    let name = ledger.path().file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let session = name.split('-').next().unwrap_or_default();
    Ok(door::ask(session).map(|file| ledger.memory_in(file)).map_err(|_| problem)?)
}

/// Looks at all blocks: what that has come to, and at which level they are guarded.
fn look(ledger: &Ledger, through_run: bool) -> Result<(Verified, String)> {
    let known = [guard::OFF, guard::LIGHT, guard::FULL];
    let named = |level: u64| usize::try_from(level).ok().and_then(|level| known.get(level).copied());
    if ledger.is_of_chip() {
        let guard = ledger.chip_guard()?.ok_or(SourceError::ChipNotGuarded)?;
        let verified = verify_chip(ledger, &ledger.chip_memory(&guard)?, &guard)?;
        return Ok((verified, named(guard.level).unwrap_or_default().to_owned()));
    }
    let memory = memory(ledger, through_run)?;
    let tables = ledger.guard(&memory)?;
    let mut progress = Progress::new("looking");
    let verified = verify(ledger, &memory, &tables, &mut |part| progress.show(part))?;
    // Which of the levels with closed pages it is, the ledger says.
    let level = named(tables.level).map(str::to_owned).or_else(|| ledger.process().text(process::GUARD));
    Ok((verified, level.unwrap_or_default()))
}

/// The exit code for what was found.
fn show(args: &VerifyArgs) -> Result<u8> {
    let suppressions = args.suppress.get()?;
    let mut opened = args.ledger.open()?;
    args.naming.check(&[&opened.ledger])?;
    let (mut verified, level) = look(&opened.ledger, args.through_run)?;
    refresh(&opened.ledger, &mut opened.context)?;
    let (ledger, context) = (&opened.ledger, &opened.context);
    let mut errors = std::mem::take(&mut verified.errors);
    let mut names = args.naming.name(ledger, sites_of(&errors), SourceText::Shown)?;
    let excused = excuse(&mut errors, &suppressions, &mut |site| names.stack(site))?;
    let code = code(&verified, errors.is_empty() && !excused.is_empty());
    let shown = if args.limit == 0 { errors.len() } else { errors.len().min(args.limit) };
    let left_out = (errors.len() - shown) as u64;
    errors.truncate(shown);
    let (labels, seen) = (&ledger.labels()?, Seen::of(ledger, 0)?);
    let (errors, excused, tokens) = (&errors, &excused, args.dedup_token);
    // A look at live blocks: they are the process's own.
    let origins = &[];
    let damage = ErrorsReport { context, errors, origins, excused, left_out, tokens, labels, names: &mut names, seen };
    let mut report = VerifyReport { damage, verified: &verified, level: &level };
    args.ledger.view.present(args.form.get(), &mut report)?;
    Ok(code)
}

fn code(verified: &Verified, all_excused: bool) -> u8 {
    match verified.damaged {
        1.. if !all_excused => DAMAGED,
        _ if !verified.is_whole() => args::USAGE,
        _ => 0,
    }
}
