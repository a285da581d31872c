//! The book: what its pages type is typed, and prints what they show. What needs something that is not here is looked at and counted.

use std::collections::BTreeMap;
use std::process::ExitCode;

use heapledger_e2e::book::pages::{self, Page};
use heapledger_e2e::book::{shell, syntax, typed};
use heapledger_e2e::cases::{self, Case};
use heapledger_e2e::tools::root;
use heapledger_e2e::{Result, check, skip};

fn main() -> ExitCode {
    let pages = match pages::all(root(), "docs") {
        Ok(pages) => pages,
        Err(problem) => {
            println!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    let mut all = Vec::new();
    for page in &pages {
        let name = page.name.trim_start_matches("docs/").trim_end_matches(".md").replace('/', "-");
        if shell::has_commands(page) {
            let page = page.clone();
            all.push(Case::new(&name, move || type_page(&page)));
        }
        let own = page.clone();
        all.push(Case::new(format!("{name}-what-is-not-run"), move || not_run(&own)));
    }
    all.push(Case::new("all-is-counted", move || counted(&pages)));
    cases::main(all)
}

/// Types the page, where what it needs is there.
fn type_page(page: &Page) -> Result {
    if let Some(missing) = page.needs().into_iter().find(|name| shell::program(name).is_none()) {
        skip(&page.name, &format!("there is no {missing}"));
        return Ok(());
    }
    shell::type_page(page).map(drop)
}

/// Each block that is not run can be read by whom it is for, as far as that can be seen, and our own commands can be typed.
fn not_run(page: &Page) -> Result {
    for block in &page.blocks {
        let place = |problem| format!("{}:{}: {problem}", page.name, block.line);
        match syntax::check_block(block) {
            Some(result) => result.map_err(place)?,
            None if block.language == "console" && block.value("not-run").is_some() => {
                for one in shell::commands(block).map_err(place)? {
                    shell::can_be_read(&one.command).map_err(place)?;
                }
            }
            // `sh` of a reference has words in capitals that stand for others.
            None if block.language == "sh" => shell::can_be_read(&block.text).map_err(place)?,
            None => {}
        }
    }
    for (line, text) in typed::lines(page) {
        typed::can_be_typed(&text).map_err(|problem| format!("{}:{line}: {text}: {problem}", page.name))?;
    }
    Ok(())
}

/// Languages of blocks that nobody runs: what is printed, and pieces of programs. (Programs that are built have `file=`.)
const SHOWN: &[&str] = &["c", "cpp", "rust", "python", "js", "java", "cmake", "make", "toml"];

/// Says how many commands are run, and how many are not and why. No block can be of a kind that nobody looks at.
fn counted(pages: &[Page]) -> Result {
    let (mut run, mut others) = (0, BTreeMap::<String, usize>::new());
    for page in pages {
        *others.entry("can be typed, as looked at by --help".to_owned()).or_default() += typed::lines(page).len();
        for block in &page.blocks {
            let place = format!("{}:{}", page.name, block.line);
            match (block.language.as_str(), block.value("not-run")) {
                ("console", Some(why)) => *others.entry(why.to_owned()).or_default() += shell::commands(block)?.len(),
                ("console", None) => run += shell::commands(block)?.len(),
                ("text", _) => {
                    // Of programs that are not in the book; those of its pages do the same.
                    let typed = block.text.lines().filter(|line| line.starts_with("$ ")).count();
                    *others.entry("shown only".to_owned()).or_default() += typed;
                }
                ("sh", _) => *others.entry("reference".to_owned()).or_default() += block.text.lines().count(),
                (language, _) if syntax::check_block(block).is_some() => {
                    let whose = block.value("for").unwrap_or(language);
                    *others.entry(format!("{whose} (files)")).or_default() += 1;
                }
                (language, _) => {
                    check!(SHOWN.contains(&language), "{place}: `{language}`: what is to be done with it?");
                }
            }
        }
    }
    println!("the book: {run} commands are run; not run:");
    others.iter().for_each(|(why, count)| println!("  {count:>4}  {why}"));
    check!(run > 100, "only {run} commands are run");
    Ok(())
}
