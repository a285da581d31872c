//! Scripts: which program runs them.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// As much of the first line as the kernel looks at.
const LINE_MAX: u64 = 256;

/// One step from what is executed to what executes it: the interpreter of a script, or the program that `env`
/// becomes. `None` if `path` is neither.
pub(crate) fn step(
    path: &Path,
    arguments: &[OsString],
    search: &dyn Fn(&OsStr) -> Option<PathBuf>,
) -> Option<(PathBuf, Vec<OsString>)> {
    if path.file_name() == Some(OsStr::new("env")) {
        return behind_env(arguments, search);
    }
    let mut line = Vec::new();
    super::open_regular(path).ok()?.take(LINE_MAX).read_to_end(&mut line).ok()?;
    let (interpreter, argument) = shebang(&line)?;
    let mut its_arguments = vec![interpreter.into(), path.into()];
    if let Some(argument) = argument {
        its_arguments.insert(1, argument.into());
    }
    its_arguments.extend(arguments.iter().skip(1).cloned());
    Some((PathBuf::from(interpreter), its_arguments))
}

/// Interpreter and, as one piece, its argument.
fn shebang(start: &[u8]) -> Option<(&OsStr, Option<&OsStr>)> {
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?.trim_ascii();
    let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
    let (interpreter, argument) = line.split_at_checked(end)?;
    let argument = argument.trim_ascii();
    if interpreter.is_empty() {
        return None;
    }
    Some((OsStr::from_bytes(interpreter), (!argument.is_empty()).then(|| OsStr::from_bytes(argument))))
}

/// `env [-S] [-i] [NAME=VALUE]… PROGRAM …`. An option with a value of its own ends the look: better no answer than
/// a wrong one.
fn behind_env(arguments: &[OsString], search: &dyn Fn(&OsStr) -> Option<PathBuf>) -> Option<(PathBuf, Vec<OsString>)> {
    let mut words: Vec<OsString> = Vec::new();
    for (index, argument) in arguments.iter().enumerate().skip(1) {
        match argument.as_bytes() {
            [b'-', b'S', text @ ..] if index == 1 => words.extend(
                text.split(u8::is_ascii_whitespace)
                    .filter(|word| !word.is_empty())
                    .map(|word| OsStr::from_bytes(word).to_owned()),
            ),
            _ => words.push(argument.clone()),
        }
    }
    let at = words.iter().position(|word| !word.as_bytes().contains(&b'=') && word != "-i" && word != "-")?;
    let program = words.get(at)?;
    if program.as_bytes().starts_with(b"-") {
        return None;
    }
    Some((search(program)?, words.get(at..)?.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines() {
        let both =
            |line: &'static [u8]| shebang(line).map(|(a, b)| (a.to_str().unwrap_or("?"), b.and_then(OsStr::to_str)));
        assert_eq!(both(b"#!/bin/sh\necho"), Some(("/bin/sh", None)));
        assert_eq!(both(b"#! /usr/bin/env  python3 -u \nx"), Some(("/usr/bin/env", Some("python3 -u"))));
        assert_eq!(both(b"#!/bin/sh"), Some(("/bin/sh", None)));
        assert_eq!(both(b"#!\n"), None);
        assert_eq!(both(b"\x7fELF"), None);
    }

    #[test]
    fn env_becomes_another_program() {
        let search = |name: &OsStr| Some(Path::new("/found").join(name));
        let behind = |line: &[&str]| {
            let line: Vec<OsString> = line.iter().map(Into::into).collect();
            behind_env(&line, &search).map(|(path, _)| path)
        };
        assert_eq!(behind(&["env", "python3", "x.py"]), Some("/found/python3".into()));
        assert_eq!(behind(&["env", "-i", "A=b", "sh"]), Some("/found/sh".into()));
        assert_eq!(behind(&["env", "-Spython3 -u", "x"]), Some("/found/python3".into()));
        assert_eq!(behind(&["env", "-u", "NAME", "sh"]), None);
        assert_eq!(behind(&["env"]), None);
    }
}
