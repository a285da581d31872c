//! How a file is packed.

use std::io::{self, Write};
use std::path::Path;

use flate2::write::GzEncoder;

/// How hard zstd tries: as it does where nobody says.
const ZSTD_LEVEL: i32 = 3;

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    Plain,
    /// By gzip.
    Gzip,
    /// By zstd.
    Zstd,
}

impl Compression {
    /// What the name of a file asks for.
    pub fn of_name(path: &Path) -> Compression {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("gz") => Compression::Gzip,
            Some("zst") => Compression::Zstd,
            _ => Compression::Plain,
        }
    }

    /// Has `write` write to `out` through the packer.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn pack(self, out: &mut dyn Write, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        match self {
            Compression::Plain => write(out)?,
            Compression::Gzip => {
                // Without a time and a name: the same ledger gives the same bytes.
                let mut packer = io::BufWriter::new(GzEncoder::new(&mut *out, flate2::Compression::fast()));
                write(&mut packer)?;
                packer.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?;
            }
            Compression::Zstd => {
                let mut packer = io::BufWriter::new(zstd::Encoder::new(&mut *out, ZSTD_LEVEL)?);
                write(&mut packer)?;
                packer.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?;
            }
        }
        out.flush()
    }
}
