//! Files that are read whole, as far as that is to be expected of them: a device never ends, and a large file by mistake is no list.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use heapledger_report::Paint;

/// All of a file, if it has no more than `bytes_max`.
pub(crate) fn read_whole(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let most = Paint::default().exact_figures().bytes(bytes_max);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {most}, which is too much")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_is_refused() {
        let own = Path::new("Cargo.toml");
        let all = std::fs::read(own).expect("the manifest");
        assert_eq!(read_whole(own, all.len() as u64).expect("so long"), all);
        let problem = read_whole(own, all.len() as u64 - 1).expect_err("longer");
        assert_eq!(problem.kind(), io::ErrorKind::FileTooLarge);
        let problem = read_whole(Path::new("/dev/zero"), 1 << 20).expect_err("without end");
        assert_eq!(problem.to_string(), "it has more than 1.00 MiB, which is too much");
    }
}
