//! The name `ecosmdd`: called so, by a link, this program takes what eCos' own `ecosmdd` takes, and answers in its shape.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::say;

const NAME: &str = "ecosmdd";
/// Its commands: all of them have its form. Only those that show stacks take a program.
const COMMANDS: [(&str, bool); 4] = [("stats", false), ("dump", true), ("history", true), ("diff", true)];
/// Ways to ask for a form, of which its own is then not the default. (A template goes with it.)
const FORMS: [&str; 3] = ["--format", "--json", "--csv"];

/// What was typed, as it is typed for `heapledger`, if the program was called by that name.
pub(crate) fn translated(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_called_so = arguments.first().is_some_and(|name| Path::new(name).file_name() == Some(OsStr::new(NAME)));
    let command = arguments.get(1).and_then(|word| COMMANDS.iter().find(|(name, _)| word == name));
    let Some((_, takes_program)) = command.filter(|_| is_called_so) else { return arguments };
    if *takes_program {
        leave_program_out(&mut arguments);
    }
    let is_form = |word: &OsString| {
        let word = word.to_string_lossy();
        FORMS.iter().any(|form| word.strip_prefix(form).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')))
    };
    if !arguments.iter().any(is_form) {
        arguments.insert(2, "--format=ecos".into());
    }
    arguments
}

/// The file of the program that may come before the ledgers: those name the files that functions are found in.
fn leave_program_out(arguments: &mut Vec<OsString>) {
    let is_option = |word: &OsString| word.to_string_lossy().starts_with('-');
    let program = arguments.iter().enumerate().skip(2).find(|(at, word)| {
        // Not the last: that is a ledger, or what somebody took for one.
        at + 1 < arguments.len() && !is_option(word) && is_executable(Path::new(word))
    });
    if let Some((at, program)) = program {
        let named = program.to_string_lossy().into_owned();
        arguments.remove(at);
        say(&format!("{named} is not read: the ledger says in which files its functions are"));
    }
}

/// Whether it is an ELF file that can be executed: neither a core dump nor an object file.
fn is_executable(path: &Path) -> bool {
    const EXECUTABLE: u16 = 2;
    const SHARED: u16 = 3;
    let mut start = [0; 18];
    let is_read = File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok());
    let [b'\x7f', b'E', b'L', b'F', _, order, .., first, second] = start else { return false };
    let kind = if order == 1 { u16::from_le_bytes([first, second]) } else { u16::from_be_bytes([first, second]) };
    is_read && [EXECUTABLE, SHARED].contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(typed: &str) -> Vec<OsString> {
        typed.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn only_that_name_and_its_commands_have_its_form() {
        for same in ["heapledger stats a", "ecosmdd", "ecosmdd top 1", "ecosmdd --help", "/x/ecosmdd2 dump a"] {
            assert_eq!(translated(words(same)), words(same));
        }
        for (typed, becomes) in [
            ("ecosmdd stats mddout.0", "ecosmdd stats --format=ecos mddout.0"),
            ("/opt/bin/ecosmdd dump -SNs mddout.0", "/opt/bin/ecosmdd dump --format=ecos -SNs mddout.0"),
            ("ecosmdd history -r -f %a mddout.0", "ecosmdd history --format=ecos -r -f %a mddout.0"),
            ("ecosmdd diff a b", "ecosmdd diff --format=ecos a b"),
            ("ecosmdd dump --json a", "ecosmdd dump --json a"),
            ("ecosmdd dump --format=text a", "ecosmdd dump --format=text a"),
        ] {
            assert_eq!(translated(words(typed)), words(becomes));
        }
    }

    #[test]
    fn the_program_is_left_out_where_one_may_stand() {
        let program = std::env::current_exe().expect("this one").to_string_lossy().into_owned();
        assert!(!program.contains(' '), "{program}");
        let typed = words(&format!("ecosmdd dump -n {program} mddout.0"));
        assert_eq!(translated(typed), words("ecosmdd dump --format=ecos -n mddout.0"));
        let only = words(&format!("ecosmdd dump {program}"));
        assert_eq!(translated(only), words(&format!("ecosmdd dump --format=ecos {program}")));
        let stats = words(&format!("ecosmdd stats {program} a"));
        assert_eq!(translated(stats), words(&format!("ecosmdd stats --format=ecos {program} a")));
    }
}
