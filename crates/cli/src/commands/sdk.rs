//! `heapledger sdk`: what a C or C++ program is built with that records itself.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use heapledger_format::session::LINKED_LIBRARY;
use heapledger_launch::locate;

use super::header::{COMPAT_HEADER, HEADER};
use super::unless_pipe_closed;

/// Arguments of `sdk`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A program that is linked with the library records itself, wherever it is
started, and leaves its ledger as heapledger.PROGRAM.PID.hl.

Examples:
  heapledger sdk ~/.local
  export PKG_CONFIG_PATH=~/.local/lib/pkgconfig
  cc server.c $(pkg-config --cflags --libs heapledger)")]
pub(crate) struct SdkArgs {
    /// Write into include and lib of this directory, which are made
    #[arg(value_name = "PREFIX")]
    pub(crate) prefix: PathBuf,
}

/// Texts in which the version is set.
const TEXTS: &[(&str, &str)] = &[
    ("lib/pkgconfig/heapledger.pc", include_str!("../../sdk/heapledger.pc.in")),
    ("lib/cmake/heapledger/heapledger-config.cmake", include_str!("../../sdk/heapledger-config.cmake.in")),
    (
        "lib/cmake/heapledger/heapledger-config-version.cmake",
        include_str!("../../sdk/heapledger-config-version.cmake.in"),
    ),
];

/// Writes all of it, and says what.
pub(crate) fn run(args: &SdkArgs) -> Result<()> {
    let library = locate::image()?;
    let mut written = Vec::new();
    let mut put = |name: &str, bytes: &[u8], mode| -> Result<()> {
        let path = args.prefix.join(name);
        replace(&path, |temporary| write(temporary, bytes, mode))?;
        written.push(path);
        Ok(())
    };
    put("include/heapledger.h", HEADER.as_bytes(), 0o644)?;
    put("include/heapledger-compat.h", COMPAT_HEADER.as_bytes(), 0o644)?;
    put(&format!("lib/{LINKED_LIBRARY}"), library, 0o755)?;
    for (name, text) in TEXTS {
        put(name, text.replace("@VERSION@", env!("CARGO_PKG_VERSION")).as_bytes(), 0o644)?;
    }
    let link = args.prefix.join("lib/libheapledger.so");
    replace(&link, |temporary| symlink(LINKED_LIBRARY, temporary))?;
    written.push(link);

    let mut out = io::stdout().lock();
    let said = written.iter().try_for_each(|path| writeln!(out, "{}", path.display())).and_then(|()| out.flush());
    unless_pipe_closed(said.map_err(Into::into))
}

/// Makes a file under another name first: programs that run with the old one keep it, and nobody finds half of a new one.
fn replace(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<()> {
    let place = || -> io::Result<()> {
        let directory = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory)?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let temporary = directory.join(name);
        let made = make(&temporary).and_then(|()| fs::rename(&temporary, path));
        if made.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        made
    };
    place().with_context(|| path.display().to_string())
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)
}
