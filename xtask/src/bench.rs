//! `cargo xtask bench`: what tracking costs, beside what other tools cost, on this machine and in one run.
//! `docs/benchmarks.md` says what is measured, and how.

mod figures;
mod goals;
mod guard_goals;
mod inputs;
mod json;
mod kit;
mod ledger;
pub(crate) mod machine;
mod own;
mod program;
mod report;
mod sample;
mod tool;

use std::collections::BTreeMap;
use std::time::Instant;

use self::figures::{Row, Runs};
use self::kit::Kit;
use self::ledger::Ledger;
use self::program::{GROUPS, Program, Size, Work};
use self::tool::Tool;
use crate::packages;
use crate::step::{Result, seconds};

const USAGE: &str = "\
cargo xtask bench [--quick] [--rounds N] [--tools NAME,NAME...] [--markdown] [PROGRAM]...
cargo xtask bench crate [--quick] [--rounds N]
cargo xtask bench guard [--quick] [--rounds N]
  crate         what the crate costs, beside its peers
  guard         what guarding blocks costs, beside others who find errors: jq and python3, where every object is a block
  --quick       a quarter of the work, 3 rounds, no slow tools
  --rounds N    how often each tool is run on each program (default 5)
  --tools LIST  only these tools; `plain` is always one of them
  --markdown    print the table for the README, too
  PROGRAM       only programs whose names begin like this";

/// What was asked for.
#[derive(Debug, PartialEq)]
struct Request<'a> {
    quick: bool,
    rounds: usize,
    tools: Vec<Tool>,
    markdown: bool,
    programs: Vec<&'a str>,
}

impl<'a> Request<'a> {
    fn parse(words: &[&'a str]) -> Result<Request<'a>> {
        let mut request =
            Request { quick: false, rounds: 0, tools: Tool::ALL.to_vec(), markdown: false, programs: vec![] };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--quick" => request.quick = true,
                "--markdown" => request.markdown = true,
                "--rounds" => {
                    let number = words.next().and_then(|number| number.parse().ok()).filter(|number| *number > 0);
                    request.rounds = number.ok_or_else(|| format!("--rounds takes a number\n{USAGE}"))?;
                }
                "--tools" => {
                    let names = words.next().ok_or_else(|| format!("--tools takes a list\n{USAGE}"))?;
                    request.tools = tools(names)?;
                }
                option if option.starts_with('-') => return Err(format!("there is no option {option}\n{USAGE}")),
                name if GROUPS.iter().copied().flatten().any(|program| program.name.starts_with(name)) => {
                    request.programs.push(name);
                }
                name => {
                    let all: Vec<&str> = GROUPS.iter().copied().flatten().map(|program| program.name).collect();
                    return Err(format!("there is no program {name}; there are {}", all.join(", ")));
                }
            }
        }
        if request.rounds == 0 {
            request.rounds = if request.quick { 3 } else { 5 };
        }
        Ok(request)
    }

    fn chooses(&self, program: &Program) -> bool {
        self.programs.is_empty() || self.programs.iter().any(|name| program.name.starts_with(name))
    }
}

fn tools(names: &str) -> Result<Vec<Tool>> {
    let unknown = names.split(',').find(|name| Tool::ALL.iter().all(|tool| tool.name() != *name));
    if let Some(unknown) = unknown {
        let all: Vec<&str> = Tool::ALL.iter().map(|tool| tool.name()).collect();
        return Err(format!("there is no tool {unknown}; there are {}", all.join(", ")));
    }
    let is_chosen = |tool: &&Tool| **tool == Tool::Plain || names.split(',').any(|name| name == tool.name());
    Ok(Tool::ALL.iter().filter(is_chosen).copied().collect())
}

/// Measures, and prints what was measured.
pub(crate) fn run(words: &[&str]) -> Result {
    if let ["crate", words @ ..] = words {
        return own::bench(words);
    }
    let mut is_of_guards = false;
    let request = match words {
        ["guard", words @ ..] => {
            let request = Request::parse(words)?;
            is_of_guards = true;
            Request { tools: Tool::GUARDS.to_vec(), programs: vec!["jq", "python3"], ..request }
        }
        words => Request::parse(words)?,
    };
    let began = Instant::now();
    if let Err(problem) = packages::provide(packages::BENCH) {
        println!("{problem}; what needs them is left out");
    }
    let kit = Kit::build()?;
    let usable = usable_tools(&kit, &request);
    let load = machine::load();
    println!("{}", machine::description());
    let mut rows = Vec::new();
    for group in GROUPS {
        let chosen: Vec<&Program> = group.iter().filter(|program| request.chooses(program)).collect();
        rows.extend(measure(&kit, &request, &usable, &chosen)?);
    }
    kit.clean()?;
    let goals = if is_of_guards { guard_goals::all(&rows) } else { goals::all(&rows) };
    print!("{}", report::text(&rows, &goals, request.rounds));
    if request.markdown {
        println!("\n{}\n{}", report::markdown(&rows), machine::versions());
    }
    println!(
        "\nmeasured in {}; load of the machine {load} before, {} after (the runs themselves make about 1)",
        seconds(began.elapsed()),
        machine::load()
    );
    Ok(())
}

/// Says what cannot be used here.
fn usable_tools(kit: &Kit, request: &Request) -> Vec<Tool> {
    let mut usable = Vec::new();
    for tool in &request.tools {
        // Of those that find errors all are of interest.
        if request.quick && tool.is_slow() && Tool::ALL.contains(tool) {
            continue;
        }
        match tool.is_missing(kit) {
            Ok(()) => usable.push(*tool),
            Err(problem) => println!("left out: {}: {}", tool.name(), problem.lines().next().unwrap_or("")),
        }
    }
    usable
}

/// All rounds of a group of programs. In each round each program runs under each tool once.
fn measure(kit: &Kit, request: &Request, usable: &[Tool], programs: &[&Program]) -> Result<Vec<Row>> {
    let size = if request.quick { Size::Quick } else { Size::Full };
    let mut rows: Vec<(&Program, Work, Row)> = Vec::new();
    for program in programs {
        match program.work(kit, size)? {
            Some(work) => {
                let row = Row { name: program.name, kind: program.kind, runs: BTreeMap::new(), ledger: None };
                rows.push((program, work, row));
            }
            None => println!("left out: {} is not installed", program.name),
        }
    }
    for round in 0..request.rounds {
        for (program, work, row) in &mut rows {
            let tools: Vec<Tool> =
                usable.iter().filter(|tool| program.wants(**tool) && !tool.is_slow()).copied().collect();
            // The first run of all finds cold caches; it does not count.
            if round == 0 {
                let _ = sample::take(kit, work, Tool::Plain);
            }
            let began = Instant::now();
            one_round(kit, work, row, &tools);
            println!("{}: round {} of {}, {}", program.name, round + 1, request.rounds, seconds(began.elapsed()));
        }
    }
    for (program, _, row) in &mut rows {
        for tool in usable.iter().filter(|tool| program.wants(**tool) && tool.is_slow()) {
            let began = Instant::now();
            slow(kit, program, row, *tool)?;
            println!("{}: {}, {}", program.name, tool.name(), seconds(began.elapsed()));
        }
    }
    Ok(rows.into_iter().map(|(_, _, row)| row).collect())
}

/// The plain run, and every tool once. A tool that failed is not asked again.
fn one_round(kit: &Kit, work: &Work, row: &mut Row, tools: &[Tool]) {
    let mut plain = None;
    for tool in tools {
        let runs = row.runs.entry(*tool).or_default();
        if runs.failure.is_some() {
            continue;
        }
        match (sample::take(kit, work, *tool), plain) {
            (Ok(own), _) if *tool == Tool::Plain => {
                plain = Some(own);
                runs.pairs.push((own, own));
            }
            (Ok(own), Some(plain)) => runs.pairs.push((plain, own)),
            (Ok(_), None) => runs.failure = Some("the program fails by itself".to_owned()),
            (Err(problem), _) => runs.failure = Some(problem),
        }
        if *tool == Tool::Ours && runs.failure.is_none() && row.ledger.is_none() {
            match Ledger::read(kit) {
                Ok(ledger) => row.ledger = Some(ledger),
                Err(problem) => runs.failure = Some(problem),
            }
        }
    }
}

/// One run on little work, beside a plain one.
fn slow(kit: &Kit, program: &Program, row: &mut Row, tool: Tool) -> Result {
    let Some(work) = program.work(kit, Size::Small)? else { return Ok(()) };
    let measured =
        sample::take(kit, &work, Tool::Plain).and_then(|plain| sample::take(kit, &work, tool).map(|own| (plain, own)));
    let runs = match measured {
        Ok(pair) => Runs { pairs: vec![pair], failure: None },
        Err(problem) => Runs { pairs: vec![], failure: Some(problem) },
    };
    row.runs.insert(tool, runs);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_understood() {
        let request = Request::parse(&["--quick", "jq", "burst-20"]).expect("good");
        assert_eq!((request.quick, request.rounds, request.programs.as_slice()), (true, 3, &["jq", "burst-20"][..]));
        let request = Request::parse(&["--rounds", "7", "--tools", "heapledger,heaptrack"]).expect("good");
        assert_eq!((request.rounds, request.tools), (7, vec![Tool::Plain, Tool::Ours, Tool::Heaptrack]));
        for odd in [&["--rounds"][..], &["--rounds", "0"], &["--tools", "gdb"], &["emacs"], &["--fast"]] {
            assert!(Request::parse(odd).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn names_differ() {
        let mut names: Vec<&str> = GROUPS.iter().copied().flatten().map(|program| program.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
