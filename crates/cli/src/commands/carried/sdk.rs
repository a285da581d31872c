//! `heapledger sdk`: what a C or C++ program is built with that records itself.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use heapledger_format::session::LINKED_LIBRARY;
use heapledger_launch::locate;

use super::super::unless_pipe_closed;
use super::header::{COMPAT_HEADER, HEADER};
use crate::terminal::stdout;

/// Arguments of `sdk`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A program that is linked with the library records itself, wherever it is
started, and leaves its ledger as heapledger.PROGRAM.PID.hl. With
libheapledger_metadata_c.a, which records nothing, any allocator has
compressed backtraces of libwebsockets before its blocks.

Examples:
  heapledger sdk ~/.local
  export PKG_CONFIG_PATH=~/.local/lib/pkgconfig
  cc server.c $(pkg-config --cflags --libs heapledger)
  cc -static server.c $(pkg-config --cflags --libs heapledger-wrapped)
  cc pool.c $(pkg-config --cflags --libs heapledger-metadata)")]
pub(crate) struct SdkArgs {
    /// Write into include and lib of this directory, which are made
    #[arg(value_name = "PREFIX")]
    pub(crate) prefix: PathBuf,
}

/// The header of the archive for metadata before blocks.
const METADATA_HEADER: &str = include_str!("../../../metadata-header/heapledger-metadata.h");

/// Texts in which the version is set.
const TEXTS: &[(&str, &str)] = &[
    ("lib/pkgconfig/heapledger.pc", include_str!("../../../sdk/heapledger.pc.in")),
    ("lib/pkgconfig/heapledger-wrapped.pc", include_str!("../../../sdk/heapledger-wrapped.pc.in")),
    ("lib/pkgconfig/heapledger-metadata.pc", include_str!("../../../sdk/heapledger-metadata.pc.in")),
    ("lib/cmake/heapledger/heapledger-config.cmake", include_str!("../../../sdk/heapledger-config.cmake.in")),
    (
        "lib/cmake/heapledger/heapledger-config-version.cmake",
        include_str!("../../../sdk/heapledger-config-version.cmake.in"),
    ),
];

/// Writes all of it, and says what.
pub(crate) fn run(args: &SdkArgs) -> Result<()> {
    let linked = locate::linked()?;
    let mut written = Vec::new();
    let mut put = |name: &str, bytes: &[u8], mode| -> Result<()> {
        let path = args.prefix.join(name);
        replace(&path, |temporary| write(temporary, bytes, mode))?;
        written.push(path);
        Ok(())
    };
    put("include/heapledger.h", HEADER.as_bytes(), 0o644)?;
    put("include/heapledger-compat.h", COMPAT_HEADER.as_bytes(), 0o644)?;
    put("include/heapledger-metadata.h", METADATA_HEADER.as_bytes(), 0o644)?;
    put(&format!("lib/{LINKED_LIBRARY}"), linked.library, 0o755)?;
    put("lib/libheapledger.a", linked.archive, 0o644)?;
    put("lib/libheapledger_metadata_c.a", linked.metadata, 0o644)?;
    let options = wrap_options(linked.wrapped);
    for (name, text) in TEXTS {
        let text = text.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
        let text = text.replace("@WRAPS@", &options.join(" ")).replace("@WRAPS_LIST@", &options.join(";"));
        put(name, text.as_bytes(), 0o644)?;
    }
    let link = args.prefix.join("lib/libheapledger.so");
    replace(&link, |temporary| symlink(LINKED_LIBRARY, temporary))?;
    written.push(link);

    let mut out = stdout();
    let said = written.iter().try_for_each(|path| writeln!(out, "{}", path.display())).and_then(|()| out.flush());
    unless_pipe_closed(said.map_err(Into::into))
}

/// What a program is linked with beside the archive.
fn wrap_options(functions: &str) -> Vec<String> {
    // Libraries may call what the program does not, and linkers look into the archive once. Static programs have no sorted table
    // of call frames unless that is asked for. A library that records is never unloaded: threads are in it at any moment, and when
    // it came again it would begin anew.
    let others = ["-Wl,-u,__wrap_malloc", "-Wl,--eh-frame-hdr", "-Wl,-z,nodelete"].map(str::to_owned);
    functions.lines().map(|function| format!("-Wl,--wrap={function}")).chain(others).collect()
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
