//! What a ledger says of the process that it tells of.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use heapledger_format::session::process as key;

/// The `process` section taken apart. Unknown keys stay in [`ProcessInfo::pairs`].
#[derive(Clone, Debug, Default)]
pub struct ProcessInfo {
    pairs: Vec<(String, Vec<u8>)>,
}

impl ProcessInfo {
    pub(crate) fn parse(bytes: &[u8]) -> ProcessInfo {
        let pairs = bytes.split(|byte| *byte == 0).filter_map(|pair| {
            let equals = pair.iter().position(|byte| *byte == b'=')?;
            let key = std::str::from_utf8(pair.get(..equals)?).ok()?;
            Some((key.to_owned(), pair.get(equals + 1..)?.to_vec()))
        });
        ProcessInfo { pairs: pairs.collect() }
    }

    /// All keys and values, in order.
    pub fn pairs(&self) -> &[(String, Vec<u8>)] {
        &self.pairs
    }

    /// The value of `key`; the last one if it is there several times.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.pairs.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_slice())
    }

    /// The value of `key` for showing.
    pub fn text(&self, key: &str) -> Option<String> {
        self.get(key).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// The value of `key` as a number.
    pub fn number(&self, key: &str) -> Option<u64> {
        std::str::from_utf8(self.get(key)?).ok()?.parse().ok()
    }

    /// The values of all keys that begin so, in order.
    pub fn all_of<'i>(&'i self, prefix: &'i str) -> impl Iterator<Item = String> + 'i {
        let of = self.pairs.iter().filter(move |(name, _)| name.starts_with(prefix));
        of.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    }

    /// The process id, in the process's own namespace.
    pub fn pid(&self) -> Option<u32> {
        self.number(key::PID).and_then(|pid| pid.try_into().ok())
    }

    /// When it started: field 22 of `/proc/PID/stat`.
    pub fn start_ticks(&self) -> Option<u64> {
        self.number(key::START_TICKS)
    }

    /// The executable.
    pub fn exe(&self) -> Option<PathBuf> {
        self.get(key::EXE).map(|path| PathBuf::from(OsString::from_vec(path.to_vec())))
    }

    /// The program's name: as recorded, else the last part of the executable.
    pub fn program(&self) -> Option<String> {
        let name = || Some(self.exe()?.file_name()?.to_string_lossy().into_owned());
        self.text(key::PROGRAM).filter(|name| !name.is_empty()).or_else(name)
    }

    /// Its arguments, the name it was called by first.
    pub fn args(&self) -> Vec<String> {
        let args = self.pairs.iter().filter(|(name, _)| name == key::ARG);
        args.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_any_bytes_apart() {
        let info = ProcessInfo::parse(b"pid=12\0arg=a b\0arg=\xff=\0nonsense\0exe=/usr/bin/jq\0wall_ns=7\0");
        assert_eq!(info.pid(), Some(12));
        assert_eq!(info.args(), ["a b", "\u{fffd}="]);
        assert_eq!(info.program().as_deref(), Some("jq"));
        assert_eq!(info.number("wall_ns"), Some(7));
        assert_eq!(info.number("exe"), None);
        assert_eq!(info.pairs().len(), 5);
    }
}
