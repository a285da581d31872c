//! `heapledger completions`: scripts for shells, from the definition of the command line.

use anyhow::Result;
use clap_complete::Shell;

use crate::{help, terminal};

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  heapledger completions bash > /etc/bash_completion.d/heapledger
  heapledger completions zsh > ~/.zfunc/_heapledger
  heapledger completions fish > ~/.config/fish/completions/heapledger.fish")]
pub(crate) struct CompletionsArgs {
    /// For which shell
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: Shell,
}

/// Prints the script that completes command lines of heapledger.
pub(crate) fn run(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut help::command(), "heapledger", &mut script);
    Ok(terminal::print(&String::from_utf8_lossy(&script))?)
}
