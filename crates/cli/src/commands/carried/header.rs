//! `heapledger header`: the header of the C API, for those who have only the command.

use anyhow::Result;

use super::print;

/// It travels in the command, as the library does whose functions it declares.
pub(crate) const HEADER: &str = include_str!("../../../header/heapledger.h");

/// Names of ESP-IDF on it.
pub(crate) const COMPAT_HEADER: &str = include_str!("../../../header/heapledger-compat.h");

/// Arguments of `header`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A C or C++ program that includes it can name moments, label what it allocates,
open trace windows and tell of the blocks of its own pools; nothing is linked,
and without `heapledger run` the functions say that they are absent.

Examples:
  heapledger header > heapledger.h
  heapledger header --compat > heapledger-compat.h")]
pub(crate) struct HeaderArgs {
    /// Print heapledger-compat.h: names of ESP-IDF's heap API, on top of it
    #[arg(long)]
    compat: bool,
}

/// Prints it.
pub(crate) fn run(args: &HeaderArgs) -> Result<()> {
    let header = if args.compat { COMPAT_HEADER } else { HEADER };
    print(header.as_bytes())
}
