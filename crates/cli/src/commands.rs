//! The commands, and those that read a ledger: each opens it, has it reckoned and named, and has it written.

use std::process::ExitCode;

use clap::Subcommand;

use crate::terminal::Progress;
use crate::{args, attach, completions, man, recover};

mod carried;
pub(crate) mod check;
mod devices;
mod diff;
mod dump;
mod errors;
mod export;
mod figure;
mod flame;
pub(crate) mod form;
mod frames_args;
mod grouped;
mod history;
mod ledgers;
pub(crate) mod naming;
mod not_said;
mod opened;
pub(crate) mod opening;
pub(crate) mod present;
mod proposed;
mod sessions;
mod snapshot;
pub(crate) mod standard;
mod stats;
mod target;
mod timeline;
pub(crate) mod top;
mod tree;
mod verify;
mod whereis;

pub(crate) use form::FormArgs;
pub(crate) use frames_args::FramesArgs;
pub(crate) use naming::{NamingArgs, SourceText, find_names};
pub(crate) use opened::{LedgerArgs, LimitArgs, Opened, ViewArgs, needs_addresses, refresh};
use present::unless_pipe_closed;
pub(crate) use top::TopArgs;

/// All commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program and record its allocations
    Run(args::RunArgs),
    /// Record a program that runs already, from now on
    Attach(args::AttachArgs),
    /// Totals: allocations, peak, threads, heaps, losses
    Stats(stats::StatsArgs),
    /// What is allocated, with call stacks
    Dump(dump::DumpArgs),
    /// What a program found wrong: failed allocations, wrong layouts
    Errors(errors::ErrorsArgs),
    /// What was allocated and freed, in order
    History(history::HistoryArgs),
    /// What became of the blocks between two ledgers, or two moments
    Diff(diff::DiffArgs),
    /// Save a ledger of a running program
    Snapshot(snapshot::SnapshotArgs),
    /// Call tree of the heap
    Tree(tree::TreeArgs),
    /// A flame graph, in one HTML or SVG file
    Flame(flame::FlameArgs),
    /// A file for other viewers: pprof, speedscope, heaptrack, DHAT, massif and more
    Export(export::ExportArgs),
    /// How the heap grew: live bytes and RSS over time
    Timeline(timeline::TimelineArgs),
    /// Live view of a running program: what is growing
    Top(top::TopArgs),
    /// Whether limits hold, for CI: exit status, short reasons, JUnit, SARIF
    Check(check::CheckArgs),
    /// Whether what lies around the blocks of a guarded program is whole, seen from outside
    Verify(verify::VerifyArgs),
    /// Which block an address is in, and who had it before
    Whereis(whereis::WhereisArgs),
    #[command(flatten)]
    Devices(devices::DeviceCommand),
    /// Recover ledgers after a crash of `run`
    Recover(args::RecoverArgs),
    #[command(flatten)]
    Carried(carried::CarriedCommand),
    /// Print a script with which a shell completes commands and options
    Completions(completions::CompletionsArgs),
    /// Show or write manual pages
    Man(man::ManArgs),
}

impl Command {
    /// Does what was asked for, but for `run`.
    pub(crate) fn carry_out(self) -> ExitCode {
        let result = match self {
            // Done before.
            Command::Run(_) => Ok(ExitCode::SUCCESS),
            Command::Attach(arguments) => attach::run(arguments).map(success),
            Command::Stats(arguments) => stats::run(arguments).map(success),
            Command::Dump(arguments) => dump::run(arguments).map(success),
            Command::Errors(arguments) => errors::run(arguments),
            Command::History(arguments) => history::run(arguments).map(success),
            Command::Tree(arguments) => tree::run(arguments).map(success),
            Command::Flame(arguments) => flame::run(arguments).map(success),
            Command::Export(arguments) => export::run(arguments).map(success),
            Command::Timeline(arguments) => timeline::run(&arguments).map(success),
            Command::Top(arguments) => top::run(arguments).map(success),
            Command::Check(arguments) => check::run(arguments),
            Command::Diff(arguments) => diff::run(arguments).map(success),
            Command::Snapshot(arguments) => snapshot::run(&arguments).map(success),
            Command::Whereis(arguments) => whereis::run(arguments),
            Command::Verify(arguments) => verify::run(&arguments),
            Command::Devices(command) => command.carry_out(),
            Command::Recover(arguments) => recover::run(&arguments),
            Command::Carried(command) => command.carry_out().map(success),
            Command::Completions(arguments) => completions::run(&arguments).map(success),
            Command::Man(arguments) => man::run(&arguments).map(success),
        };
        result.unwrap_or_else(|problem| {
            crate::say_problem(&problem);
            ExitCode::from(if problem.is::<standard::Usage>() { args::USAGE } else { crate::FAILURE })
        })
    }
}

fn success((): ()) -> ExitCode {
    ExitCode::SUCCESS
}
