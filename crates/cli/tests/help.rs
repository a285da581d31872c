//! Help, completions and manual pages: all from one definition, and all usable.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use common::{Scratch, heapledger, output};

fn told(arguments: &[&str]) -> String {
    let output = output(heapledger().args(arguments).env("LANG", "C.UTF-8").env_remove("LC_ALL"));
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// All commands but `help`, as `heapledger help` lists them.
fn commands() -> Vec<String> {
    let help = told(&["help"]);
    let list = help.split("`heapledger help COMMAND`").next().unwrap_or_default();
    let lines = list.lines().filter_map(|line| line.strip_prefix("  "));
    let names = lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned);
    let names: Vec<String> = names.filter(|name| name != "help").collect();
    assert!(names.len() >= 7 && names.iter().any(|name| name == "dump"), "{names:?} in {help}");
    names
}

/// What bash would offer for the last of these words.
fn bash_offers(script: &str, words: &[&str]) -> BTreeSet<String> {
    let ask = r#"source /dev/stdin <<< "$SCRIPT"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        spec=$(complete -p heapledger); spec=${spec##*-F }; function=${spec%% *}
        "$function" heapledger "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", ask, "bash"]).args(words).env("SCRIPT", script).stdin(Stdio::null());
    let output = output(&mut bash);
    assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes() {
    let script = told(&["completions", "bash"]);
    let offered = bash_offers(&script, &["heapledger", ""]);
    for name in commands() {
        assert!(offered.contains(&name), "{name} is not among {offered:?}");
        // Every long option that help knows is offered.
        let offered = bash_offers(&script, &["heapledger", &name, "--"]);
        let help = told(&[&name, "--help"]);
        // Further in stands what is said of them, which may begin a line with another one's name.
        let is_option = |line: &&str| line.trim_start().starts_with('-') && !line.starts_with("       ");
        let options = help.lines().filter(is_option).map(str::trim_start);
        let long = options.filter_map(|line| line.split([' ', ',', '[']).find(|word| word.starts_with("--")));
        for option in long {
            assert!(offered.contains(option), "{name} {option} is not among {offered:?}");
        }
    }
    assert_eq!(bash_offers(&script, &["heapledger", "his"]), BTreeSet::from(["history".to_owned()]));
    let colours = bash_offers(&script, &["heapledger", "dump", "--color", ""]);
    assert!(["auto", "always", "never"].iter().all(|when| colours.contains(*when)), "{colours:?}");
    // Lists, word by word.
    for (words, offered) in [
        (&["dump", "--group-by", "th"][..], "thread"),
        (&["dump", "-g", "fn,th"], "fn,thread"),
        (&["diff", "--group-by", "mod"], "module"),
        (&["history", "--group-by", "ev"], "event"),
        (&["history", "--columns", "size,free_f"], "size,free_fn size,free_file"),
        (&["dump", "--columns", "overh"], "overhead"),
        (&["dump", "--sort", "larg"], "largest"),
        (&["tree", "--sort", "name,freed-"], "name,freed-blocks"),
    ] {
        let words = [&["heapledger"], words].concat();
        let expected: BTreeSet<String> = offered.split(' ').map(str::to_owned).collect();
        assert_eq!(bash_offers(&script, &words), expected, "{words:?}");
    }
}

#[test]
fn every_shell_has_a_script() {
    for (shell, check) in [("bash", "bash"), ("zsh", "zsh"), ("fish", "fish"), ("elvish", ""), ("powershell", "")] {
        let scratch = Scratch::new(&format!("completions-{shell}"));
        let script = told(&["completions", shell]);
        assert!(script.contains("heapledger") && script.contains("recover"), "{shell}");
        let path = scratch.0.join("script");
        fs::write(&path, script).expect("written");
        // Not every machine has every shell.
        if let Ok(output) = Command::new(check).arg("-n").arg(&path).output() {
            assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {output:?}");
        }
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let scratch = Scratch::new("man");
    let directory = scratch.0.join("man1");
    told(&["man", "--dir", &directory.to_string_lossy()]);
    let expected: BTreeSet<String> = commands().iter().map(|name| format!("heapledger-{name}.1")).collect();
    let files = fs::read_dir(&directory).expect("list").map(|file| file.expect("a file").file_name());
    let mut files: BTreeSet<String> = files.map(|name| name.to_string_lossy().into_owned()).collect();
    assert!(files.remove("heapledger.1") && files == expected, "{files:?}");
    files.insert("heapledger.1".to_owned());

    for file in &files {
        let path = directory.join(file);
        let page = fs::read_to_string(&path).expect("read");
        assert!(page.is_ascii(), "{file} needs a preprocessor");
        let name = file.trim_end_matches(".1");
        let typed: Vec<&str> = ["man"].into_iter().chain(name.strip_prefix("heapledger-")).collect();
        assert_eq!(told(&typed), page, "{typed:?}");
        for section in ["NAME", "SYNOPSIS", "OPTIONS", "EXAMPLES", "SEE ALSO"] {
            let quoted = format!(".SH \"{section}\"");
            assert!(page.lines().any(|line| line == format!(".SH {section}") || line == quoted), "{file}: {section}");
        }
        let mut man = Command::new("man");
        man.args(["--warnings", "-l"]).arg(&path).env("LANG", "C.UTF-8").env("MANWIDTH", "80").env("MANPAGER", "cat");
        man.env_remove("LC_ALL").stdin(Stdio::null());
        let shown = output(&mut man);
        let text = String::from_utf8_lossy(&shown.stdout);
        assert!(
            shown.status.success() && shown.stderr.is_empty(),
            "{file}: {}",
            String::from_utf8_lossy(&shown.stderr)
        );
        assert!(text.contains("EXAMPLES") && text.contains("heapledger") && text.contains("--help"), "{file}: {text}");
        // What is kept as it is may be as wide as help, and is indented.
        let long = text.lines().find(|line| line.chars().count() > 85);
        assert!(long.is_none(), "{file}: {long:?}");
    }
}

/// One way to say it: who speaks, what is wrong, where help is; status 2, and nothing on standard output.
#[test]
fn wrong_usage_is_told_in_one_way() {
    let mut wrong: Vec<Vec<String>> = [
        &["bogus"][..],
        &["--bogus"],
        &["help", "bogus"],
        &["completions"],
        &["completions", "bogus"],
        &["man", "--dir"],
        &["man", "dump", "--dir", "x"],
        &["man", "bogus"],
        &["dump", "--limit", "many", "x"],
        &["dump", "--color", "pink", "x"],
        &["dump", "--debug-dir", "/no/such/directory", "x"],
    ]
    .iter()
    .map(|words| words.iter().map(|word| (*word).to_owned()).collect())
    .collect();
    for name in commands() {
        wrong.push(vec![name, "--no-such-option".to_owned()]);
    }
    for words in wrong {
        let output = output(heapledger().args(&words).env("LANG", "C"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.starts_with("heapledger: ") && said.is_ascii(), "{words:?}: {said}");
        assert!(output.stdout.is_empty() && said.contains("help"), "{words:?}: {said}");
    }
}

#[test]
fn help_of_hide_is_true_for_the_command() {
    for (name, said) in [("dump", "Skip functions"), ("tree", "Leave out functions"), ("flame", "Leave out functions")]
    {
        let help = told(&[name, "--help"]);
        let hide = help.split("--hide <REGEX>").nth(1).expect("an option --hide");
        assert!(hide.trim_start().starts_with(said), "{name}: {help}");
        assert!(help.contains("thread=ROW"), "{name}: {help}");
    }
}

#[test]
fn what_no_ledger_can_serve_is_refused_with_the_reason() {
    let twenty = |option: &str, text: &str| -> Vec<String> {
        (0..20).flat_map(|_| [option.to_owned(), text.to_owned()]).collect()
    };
    let names = vec!["fn ~ a"; 20].join(" or ");
    for (command, words, said) in [
        ("dump", twenty("--where", &names), "--where and -F together: too many conditions: 256 are the most"),
        ("top", vec!["-Fsize_min=1".to_owned(); 300], "--where and -F together: too many conditions: 256 are the most"),
        ("tree", vec!["--where".to_owned(), "label. == x".to_owned()], "--where: unknown field 'label.'"),
        ("dump", vec!["--group-by=label.".to_owned()], "--group-by: unknown group"),
    ] {
        let out = output(heapledger().arg(command).args(&words).arg("x.hl"));
        let error = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{command}: {error}");
        assert!(error.starts_with(&format!("heapledger: {said}")) && !error.contains("Usage"), "{command}: {error}");
    }
}
