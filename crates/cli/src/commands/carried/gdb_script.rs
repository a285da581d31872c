//! `heapledger gdb-script`: what gdb is to source, wherever the command came from.

use anyhow::Result;
use clap::ValueEnum;
use heapledger_launch::locate;

use super::{print, print_path};

/// Arguments of `gdb-script`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
In gdb, of a process, a core dump or a remote target, there is then `heapledger
stats`, `heapledger whereis ADDRESS`, `heapledger watch ADDRESS` and others; the
first lines of the script say what it brings. It calls the command `heapledger`,
which must be on the PATH, or be named by HEAPLEDGER_COMMAND.

Examples:
  heapledger gdb-script
  gdb -x \"$(heapledger gdb-script)\" ./server core
  heapledger gdb-script --print | less
  heapledger gdb-script rtt")]
pub(crate) struct GdbScriptArgs {
    /// Which: commands on ledgers, what firmware sends taken up, or an RTT ring emptied
    #[arg(value_name = "SCRIPT", value_enum, default_value_t = Script::Heapledger)]
    pub(crate) script: Script,
    /// Print the script itself, and write no file
    #[arg(long)]
    pub(crate) print: bool,
}

/// Scripts for gdb; each is a file of its name in `gdb`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Script {
    Heapledger,
    Receive,
    Rtt,
}

impl Script {
    /// Its name without the end, and its text, which travels in the command as the libraries do.
    fn parts(self) -> (&'static str, &'static str) {
        match self {
            Script::Heapledger => ("heapledger", include_str!("../../../gdb/heapledger.gdb")),
            Script::Receive => ("heapledger-receive", include_str!("../../../gdb/heapledger-receive.gdb")),
            Script::Rtt => ("heapledger-rtt", include_str!("../../../gdb/heapledger-rtt.gdb")),
        }
    }
}

/// Prints the path of the script, which is written first if it lies nowhere yet; or the script.
pub(crate) fn run(args: &GdbScriptArgs) -> Result<()> {
    let (name, text) = args.script.parts();
    if !args.print {
        return print_path(&locate::script(name, text)?);
    }
    print(text.as_bytes())
}
