//! What a page has for others to read: containers, services, CI. None of them is here; what can be seen without them is.

use yaml_rust2::{Yaml, YamlLoader};

use super::pages::Block;
use crate::{Result, check};

/// Looks at a block; an error says what is wrong with it. `None` if nobody here knows its language.
pub fn check_block(block: &Block) -> Option<Result> {
    match block.language.as_str() {
        "yaml" => Some(yaml(block)),
        "dockerfile" => Some(dockerfile(&block.text)),
        "ini" => Some(unit(&block.text)),
        "groovy" => Some(jenkins(&block.text)),
        "json" => Some(json(&block.text)),
        _ => None,
    }
}

fn json(text: &str) -> Result {
    // One value, or one a line.
    let whole = serde_json::from_str::<serde_json::Value>(text).map(drop);
    let lines = || text.lines().try_for_each(|line| serde_json::from_str::<serde_json::Value>(line).map(drop));
    whole.or_else(|_| lines()).map_err(|error| error.to_string())
}

fn yaml(block: &Block) -> Result {
    let documents = YamlLoader::load_from_str(&block.text).map_err(|error| error.to_string())?;
    check!(!documents.is_empty(), "there is nothing in it");
    let each = |look: fn(&Yaml) -> Result| documents.iter().try_for_each(look);
    match block.value("for") {
        Some("github") => each(github),
        Some("gitlab") => each(gitlab),
        Some("kubernetes") => each(kubernetes),
        Some("compose") => each(|document| has(&document["services"], "services")),
        other => Err(format!("for={other:?}: nobody here knows who reads it")),
    }
}

fn has(value: &Yaml, what: &str) -> Result {
    check!(!value.is_badvalue(), "it has no {what}");
    Ok(())
}

/// A workflow: what begins it, and jobs of steps that each run or use something.
fn github(document: &Yaml) -> Result {
    has(&document["on"], "on")?;
    let jobs = document["jobs"].as_hash().ok_or("it has no jobs")?;
    for job in jobs.values() {
        has(&job["runs-on"], "runs-on")?;
        for step in job["steps"].as_vec().ok_or("a job has no steps")? {
            let does = step["run"].as_str().is_some() != step["uses"].as_str().is_some();
            check!(does, "a step must run something or use something: {step:?}");
            step["run"].as_str().map_or(Ok(()), super::shell::can_be_read)?;
        }
    }
    Ok(())
}

/// Jobs with a script, each of whose lines a shell can read.
fn gitlab(document: &Yaml) -> Result {
    let jobs = document.as_hash().ok_or("it has no jobs")?;
    let mut scripts = 0;
    for job in jobs.values() {
        for line in job["script"].as_vec().into_iter().flatten() {
            super::shell::can_be_read(line.as_str().ok_or("a line of a script is no text")?)?;
            scripts += 1;
        }
    }
    check!(scripts > 0, "no job has a script");
    Ok(())
}

fn kubernetes(document: &Yaml) -> Result {
    for key in ["apiVersion", "kind", "metadata"] {
        has(&document[key], key)?;
    }
    Ok(())
}

/// Instructions of a Dockerfile.
const INSTRUCTIONS: &[&str] =
    &["FROM", "RUN", "CMD", "LABEL", "EXPOSE", "ENV", "ADD", "COPY", "ENTRYPOINT", "VOLUME", "USER", "WORKDIR", "ARG"];

fn dockerfile(text: &str) -> Result {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut seen = Vec::new();
    for line in lines {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        check!(INSTRUCTIONS.contains(&name), "there is no instruction {name}");
        check!(!rest.trim().is_empty(), "{name} has nothing behind it");
        if rest.trim_start().starts_with('[') {
            serde_json::from_str::<Vec<String>>(rest).map_err(|error| format!("{line}: {error}"))?;
        } else if name == "RUN" {
            super::shell::can_be_read(rest)?;
        }
        seen.push(name.to_owned());
    }
    check!(seen.first().is_some_and(|first| first == "FROM" || first == "ARG"), "it does not begin with FROM");
    Ok(())
}

/// A unit of systemd, or a drop-in.
fn unit(text: &str) -> Result {
    let mut section = None;
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            check!(["Unit", "Service", "Install"].contains(&name), "there is no section {name}");
            section = Some(name);
        } else {
            let (key, _) = line.split_once('=').ok_or_else(|| format!("{line}: neither a section nor a setting"))?;
            check!(section.is_some(), "{key} is in no section");
            check!(
                key.chars().all(char::is_alphanumeric) && key.starts_with(char::is_uppercase),
                "{key} is no setting"
            );
        }
    }
    check!(section.is_some(), "there is nothing in it");
    Ok(())
}

/// A declarative pipeline of Jenkins: its parts, and brackets that close.
fn jenkins(text: &str) -> Result {
    for part in ["pipeline", "agent", "stages", "steps"] {
        check!(text.contains(part), "it has no {part}");
    }
    let mut open = Vec::new();
    let mut quote = None;
    for letter in text.chars() {
        match (quote, letter) {
            (Some(mark), _) if mark == letter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '{' | '(' | '[') => open.push(letter),
            (None, '}' | ')' | ']') => {
                let fits = matches!((open.pop(), letter), (Some('{'), '}') | (Some('('), ')') | (Some('['), ']'));
                check!(fits, "a {letter} closes nothing");
            }
            _ => {}
        }
    }
    check!(open.is_empty() && quote.is_none(), "something is not closed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_seen() {
        assert!(dockerfile("FROM debian:12\nRUN apt-get update && \\\n  true\nCMD [\"x\"]\n").is_ok());
        for wrong in ["RUN true\n", "FROM a\nRUN if\n", "FROM a\nCMD [x]\n", "FROM a\nRUNN x\n", ""] {
            assert!(dockerfile(wrong).is_err(), "{wrong}");
        }
        assert!(unit("[Service]\nExecStart=/x\n").is_ok());
        for wrong in ["ExecStart=/x\n", "[Servce]\nA=b\n", "[Service]\nx\n", ""] {
            assert!(unit(wrong).is_err(), "{wrong}");
        }
        let good = "pipeline { agent any\n stages { stage('a') { steps { sh 'x' } } } }";
        assert!(jenkins(good).is_ok());
        assert!(jenkins(&good.replacen('}', "", 1)).is_err() && jenkins(&good.replacen('\'', "", 1)).is_err());
    }

    #[test]
    fn yaml_is_what_its_reader_wants() {
        let block = |words: &str, text: &str| Block {
            line: 1,
            language: "yaml".to_owned(),
            words: vec![words.to_owned()],
            text: text.to_owned(),
        };
        let good = "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n    - run: true && false\n";
        assert_eq!(yaml(&block("for=github", good)), Ok(()));
        for (from, to) in
            [("on: push", ""), ("runs-on: x", "x: y"), ("true &&", "if"), ("- run", "- ran"), ("a:", "a: [")]
        {
            assert!(yaml(&block("for=github", &good.replace(from, to))).is_err(), "{to}");
        }
        assert_eq!(yaml(&block("for=gitlab", "a:\n  script:\n  - make\n")), Ok(()));
        assert!(yaml(&block("for=gitlab", "a:\n  scrip:\n  - make\n")).is_err());
        assert!(yaml(&block("for=nobody", "a: b\n")).is_err());
    }
}
