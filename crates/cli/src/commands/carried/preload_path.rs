//! `heapledger preload-path`: where the library is that `run` preloads, for those who start programs themselves.

use anyhow::Result;
use heapledger_launch::locate;

use super::print_path;

/// Arguments of `preload-path`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
For programs that something else starts: gdb, a container's entry point, a
service. The environment variable HEAPLEDGER takes the options of the recorder;
the ledger is finished by `heapledger recover`.

Examples:
  heapledger preload-path
  LD_PRELOAD=$(heapledger preload-path) ./server
  gdb -ex \"set exec-wrapper env LD_PRELOAD=$(heapledger preload-path)\" ./server")]
pub(crate) struct PreloadPathArgs {
    /// The library that is preloaded behind it with --guard=full: it judges calls of the C library
    #[arg(long)]
    pub(crate) calls: bool,
}

/// Prints it. Where it lies nowhere yet, it is written first, as `run` does.
pub(crate) fn run(args: &PreloadPathArgs) -> Result<()> {
    print_path(&if args.calls { locate::calls(None)? } else { locate::library(None)? })
}
