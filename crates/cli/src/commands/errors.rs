//! `heapledger errors`: what was found or refused while a program ran.

use std::process::ExitCode;

use anyhow::Result;
use heapledger_analysis::{Seen, excuse, sites_of};
use heapledger_report::ErrorsReport;
use heapledger_source::FoundError;

use super::form::Tables;
use super::standard::{ExecutableArgs, SuppressArgs};
use super::{FormArgs, LedgerArgs, NamingArgs, SourceText, unless_pipe_closed};

mod for_run;
mod origin;
mod session;

use for_run::Rows;

/// Arguments of `errors`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "heapledger errors [OPTIONS] [EXECUTABLE] <FILE|PID>")]
#[command(after_help = "\
A program with the heapledger library enters what it finds, with the stacks of
allocation, free and access: calls that gave no block, blocks given back with
another size or alignment. The same error found again is one entry, counted.

Files for --suppress have lines error:PATTERN, or with the kind of error,
double-free:PATTERN: text in a function, source file or module of one of its
stacks, with * ^ $; lines leak:PATTERN are for `heapledger check`.

Examples:
  heapledger errors 4711                    of a process that is being recorded
  heapledger errors heapledger.jq.4711.hl
  heapledger errors build                   of each process of a session
  heapledger errors --suppress known.supp heapledger.jq.4711.hl
  heapledger errors --json heapledger.jq.4711.hl |
    jq 'select(.type == \"error\") | .kind'")]
pub(crate) struct ErrorsArgs {
    /// Show at most N, 0 for all
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub(crate) limit: usize,
    /// Print a token for each: its kind and the innermost functions of its stacks, the
    /// same in each run and build
    #[arg(long)]
    pub(crate) dedup_token: bool,
    /// What `run` has told: reports of these rows on standard error
    #[arg(long, hide = true, value_name = "ROWS", value_parser = for_run::rows)]
    pub(crate) for_run: Option<Rows>,
    #[command(flatten)]
    pub(crate) suppress: SuppressArgs,
    #[command(flatten)]
    pub(crate) form: FormArgs<Tables>,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    #[command(flatten)]
    pub(crate) executable: ExecutableArgs,
}

/// Shows what was found or refused.
pub(crate) fn run(mut args: ErrorsArgs) -> Result<ExitCode> {
    args.executable.put_apart(&mut args.ledger.ledger, &mut args.naming)?;
    match args.for_run {
        Some(rows) => for_run::tell(&args, rows),
        None => unless_pipe_closed(show(&args)).map(|()| ExitCode::SUCCESS),
    }
}

fn show(args: &ErrorsArgs) -> Result<()> {
    let suppressions = args.suppress.get()?;
    if let Some(family) = args.ledger.session()? {
        return session::show(args, &family);
    }
    let opened = args.ledger.open()?;
    let (ledger, context) = (&opened.ledger, &opened.context);
    args.naming.check(&[ledger])?;
    let form = args.form.get();
    let mut errors = ledger.errors()?;
    // What is excused goes by names; else only what is shown needs them.
    let limit = |errors: &mut Vec<FoundError>| {
        let left_out = if args.limit == 0 { 0 } else { errors.len().saturating_sub(args.limit) };
        errors.truncate(errors.len() - left_out);
        left_out as u64
    };
    let mut left_out = if suppressions.excuse_errors() { 0 } else { limit(&mut errors) };
    let mut names = args.naming.name(ledger, sites_of(&errors), SourceText::Shown)?;
    let excused = excuse(&mut errors, &suppressions, &mut |site| names.stack(site))?;
    left_out += limit(&mut errors);
    let (labels, seen) = (&ledger.labels()?, Seen::of(ledger, 0)?);
    let origins = match origin::session_of(ledger)? {
        Some(family) => origin::origins(&family, ledger, &errors, &args.naming, &mut names)?,
        None => Vec::new(),
    };
    let (errors, origins, excused, tokens) = (&errors, &origins, &excused, args.dedup_token);
    let mut report =
        ErrorsReport { context, errors, origins, excused, left_out, tokens, labels, names: &mut names, seen };
    args.ledger.view.present(form, &mut report)
}
