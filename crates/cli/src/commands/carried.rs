//! Commands that give what travels in this program: libraries, headers and scripts.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Result;
use clap::Subcommand;

use super::unless_pipe_closed;
use crate::terminal::stdout;

mod gdb_script;
mod header;
mod preload_path;
mod sdk;

/// Those commands.
#[derive(Debug, Subcommand)]
pub(crate) enum CarriedCommand {
    /// Print the header with which a C program speaks to its recorder
    Header(header::HeaderArgs),
    /// Write what a C program is built with that records itself
    Sdk(sdk::SdkArgs),
    /// Print the path of the library that `run` preloads
    PreloadPath(preload_path::PreloadPathArgs),
    /// Print the path of the script that gdb is to source, or the script
    GdbScript(gdb_script::GdbScriptArgs),
}

impl CarriedCommand {
    /// Does what was asked for.
    pub(super) fn carry_out(self) -> Result<()> {
        match self {
            CarriedCommand::Header(arguments) => header::run(&arguments),
            CarriedCommand::Sdk(arguments) => sdk::run(&arguments),
            CarriedCommand::PreloadPath(arguments) => preload_path::run(&arguments),
            CarriedCommand::GdbScript(arguments) => gdb_script::run(&arguments),
        }
    }
}

/// Prints a text as it is, whatever standard output is.
fn print(text: &[u8]) -> Result<()> {
    let mut out = stdout();
    unless_pipe_closed(out.write_all(text).and_then(|()| out.flush()).map_err(Into::into))
}

/// Prints a path in a line: a shell puts it into a command.
fn print_path(path: &Path) -> Result<()> {
    print(&[path.as_os_str().as_bytes(), b"\n"].concat())
}
