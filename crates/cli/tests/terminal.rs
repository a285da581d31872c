//! What a person sees on a terminal, which `script` plays: the pager, colours, ASCII.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Scratch, finish, output};
use heapledger_format::TallyCounter;
use heapledger_testing::Builder;

/// What stands on a terminal of ten lines after `heapledger` with these arguments, and its exit status in the last line.
fn on_terminal(scratch: &Scratch, arguments: &str, variables: &[(&str, &str)]) -> String {
    let command = format!("stty rows 10 cols 80; {} {arguments}; echo status $?", env!("CARGO_BIN_EXE_heapledger"));
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).current_dir(scratch.cwd()).env("TERM", "xterm").env("LANG", "C.UTF-8");
    // What it runs the command with: users without a login have none that does.
    script.env("SHELL", "/bin/sh");
    for name in ["HEAPLEDGER_PAGER", "PAGER", "LESS", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "LC_ALL", "LC_CTYPE"] {
        script.env_remove(name);
    }
    script.envs(variables.iter().copied());
    // `script` waits for the end of its own input.
    let child = script.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let output = finish(child.expect("script is needed for this test"));
    String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n")
}

/// A ledger with so many blocks and a thread with an odd name.
fn ledger(scratch: &Scratch, blocks: u64) -> PathBuf {
    let path = scratch.cwd().join("x.hl");
    let mut builder = Builder::new();
    for number in 0..blocks {
        builder.block(0x1000 + number * 64, 24);
    }
    builder.process("program", "größer").heap("Größe", 0x1000, 0x100_0000);
    builder.write(&path).expect("written");
    path
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn long_text_goes_through_the_pager_and_short_text_does_not() {
    let scratch = Scratch::new("pager");
    ledger(&scratch, 50);
    let kept = scratch.cwd().join("kept");
    let pager = ("PAGER", "tee kept");
    let shown = on_terminal(&scratch, "dump --blocks x.hl", &[pager]);
    assert!(shown.contains("50 blocks") && shown.ends_with("status 0\n"), "{shown}");
    assert!(read(&kept).contains("\x1b[1m") && read(&kept).contains("50 blocks, "), "colours go through: {shown}");

    for arguments in ["dump --limit 1 x.hl", "dump --blocks --no-pager x.hl", "dump --json x.hl"] {
        fs::remove_file(&kept).unwrap_or_default();
        let shown = on_terminal(&scratch, arguments, &[pager]);
        assert!(shown.ends_with("status 0\n") && shown.lines().count() > 2, "{arguments}: {shown}");
        assert!(!kept.exists(), "{arguments} goes through a pager");
    }
    for variables in
        [&[pager, ("HEAPLEDGER_PAGER", "cat")][..], &[pager, ("HEAPLEDGER_PAGER", "")], &[pager, ("TERM", "dumb")]]
    {
        assert!(on_terminal(&scratch, "dump --blocks x.hl", variables).contains("50 blocks"));
        assert!(!kept.exists(), "{variables:?}: a pager that is not wanted");
    }
    let own = [pager, ("HEAPLEDGER_PAGER", "X=1 tee own | tee kept")];
    assert!(on_terminal(&scratch, "dump --blocks x.hl", &own).contains("50 blocks"));
    assert_eq!(read(&kept), read(&scratch.cwd().join("own")), "a shell runs what needs one");
}

#[test]
fn sentences_are_wrapped_on_a_terminal_only() {
    let scratch = Scratch::new("wrapped");
    let mut builder = Builder::new();
    builder.block(0x1000, 24).tally(TallyCounter::FreesBusy, 3);
    builder.write(&scratch.cwd().join("x.hl")).expect("written");
    let told = |shown: &str| {
        let notes = shown.split("Not seen  :").nth(1).expect("a note").to_owned();
        let lines = notes.lines().skip(1).filter(|line| line.starts_with("  ")).map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    let narrow = told(&on_terminal(&scratch, "dump --blocks x.hl", &[("NO_COLOR", "1")]));
    assert!(narrow.len() > 1 && narrow.iter().all(|line| line.chars().count() <= 80), "{narrow:?}");
    let wide = told(&on_terminal(&scratch, "dump --blocks x.hl | sed ''", &[]));
    assert_eq!(wide.len(), 1, "{wide:?}");
    let words = |lines: &[String]| lines.join(" ").split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&narrow), words(&wide));
}

#[test]
fn a_pager_that_fails_is_no_failure() {
    let scratch = Scratch::new("no-pager");
    ledger(&scratch, 5000);
    let shown = on_terminal(&scratch, "dump --limit 0 x.hl", &[("PAGER", "no-such-pager")]);
    assert!(shown.contains("5,000 blocks") && shown.ends_with("status 0\n"), "the text is shown all the same");
    let shown = on_terminal(&scratch, "dump --limit 0 x.hl", &[("PAGER", "head -n 3")]);
    assert!(shown.ends_with("status 0\n") && shown.lines().count() == 4, "{shown}");
    let shown = on_terminal(&scratch, "dump --limit 0 x.hl", &[("PAGER", "X=1 no-such-pager 2>/dev/null")]);
    assert!(shown.contains("the pager X=1 no-such-pager") && shown.ends_with("status 0\n"), "{shown}");
}

#[test]
fn the_locale_says_what_may_be_shown() {
    let scratch = Scratch::new("ascii");
    ledger(&scratch, 2);
    let said = |locale: &str, arguments: &str| {
        let mut command = common::heapledger();
        command.args(arguments.split(' ')).arg("x.hl").current_dir(scratch.cwd());
        for name in ["LC_ALL", "LC_CTYPE"] {
            command.env_remove(name);
        }
        let output = output(command.env("LANG", locale));
        assert!(output.status.success());
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert!(said("de_DE.UTF-8", "stats").contains("größer"));
    let plain = said("C", "stats");
    assert!(plain.is_ascii() && plain.contains(r"gr\u{f6}\u{df}er"), "{plain}");
    for arguments in ["stats --json", "stats --csv"] {
        let data = said("C", arguments);
        assert!(!data.is_ascii(), "{arguments}: {data}");
        assert_eq!(data, said("de_DE.UTF-8", arguments), "{arguments}: data does not depend on the locale");
    }
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let scratch = Scratch::new("colours");
    ledger(&scratch, 1);
    for (arguments, variables, coloured) in [
        ("stats x.hl", &[][..], true),
        ("stats x.hl", &[("NO_COLOR", "1")], false),
        ("stats x.hl", &[("NO_COLOR", "")], true),
        ("stats x.hl", &[("CLICOLOR", "0")], false),
        ("stats x.hl", &[("TERM", "dumb")], false),
        ("stats --color never x.hl", &[], false),
        ("stats --color always x.hl", &[("NO_COLOR", "1")], true),
        ("stats x.hl | sed ''", &[], false),
        ("stats x.hl | sed ''", &[("CLICOLOR_FORCE", "1")], true),
        ("stats x.hl | sed ''", &[("CLICOLOR_FORCE", "0")], false),
        ("stats --json x.hl", &[("CLICOLOR_FORCE", "1")], false),
    ] {
        let shown = on_terminal(&scratch, &arguments.replace("x.hl", "--no-pager x.hl"), variables);
        assert_eq!(shown.contains('\x1b'), coloured, "{arguments} with {variables:?}: {shown}");
    }
}
