//! `heapledger header`: the header of the C API, for those who have only the command.

use std::io::{self, Write};

use anyhow::Result;

use super::unless_pipe_closed;

/// It travels in the command, as the library does whose functions it declares.
pub(crate) const HEADER: &str = include_str!("../../header/heapledger.h");

/// Arguments of `header`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A C or C++ program that includes it can name moments, label what it allocates,
open trace windows and tell of the blocks of its own pools; nothing is linked,
and without `heapledger run` the functions say that they are absent.

Examples:
  heapledger header > heapledger.h")]
pub(crate) struct HeaderArgs {}

/// Prints it.
pub(crate) fn run(_: &HeaderArgs) -> Result<()> {
    let mut out = io::stdout().lock();
    unless_pipe_closed(out.write_all(HEADER.as_bytes()).and_then(|()| out.flush()).map_err(Into::into))
}
