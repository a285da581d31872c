//! Names of code that was made at run time, from the file that engines write for perf.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use heapledger_e2e::ledger::read;
use heapledger_e2e::process::{self, Ran};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, find, heapledger};
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check, skip, victim};

/// Removes the file at the end, however that comes.
struct Map(PathBuf);

impl Drop for Map {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The file of the process that a ledger is of.
fn map_of(ledger: &Path) -> Result<Map> {
    let lines = read("stats", ledger, &[])?;
    let pid = lines.iter().find_map(|line| line["process"]["pid"].as_u64()).ok_or("no pid")?;
    Ok(Map(PathBuf::from(format!("/tmp/perf-{pid}.map"))))
}

fn groups(ledger: &Path, words: &[&str]) -> Result<Ran> {
    process::run(command(heapledger()).args(["dump", "--where", "size == 700"]).args(words).arg(ledger))
}

#[test]
fn code_that_a_program_has_made_gets_the_names_it_wrote_down() -> Result {
    let scratch = Scratch::new();
    let program = victim::named("generated_named")?.build()?;
    run_cleanly(&scratch, &mut under_run(&scratch, "x", &[], &program, &["keep".to_owned()]))?.good()?;
    let ledger = scratch.path("x.hl");
    let map = map_of(&ledger)?;
    let is_named = |ran: &Ran| ran.out().contains(" render\n") && ran.out().contains("/srv/page.js:12\n");
    let found = groups(&ledger, &["--group-by", "stack"])?.good()?;
    check!(is_named(&found) && !found.out().contains("unknown code"), "no name: {found}");
    let by_name = groups(&ledger, &["--where", "fn == render and file == page.js", "--json"])?.good()?;
    check!(by_name.out().matches(r#""type":"block""#).count() == 5, "not by name: {by_name}");
    // A file of another time is another process's.
    let time = |seconds: i64| match seconds {
        ..0 => SystemTime::now() - Duration::from_secs(seconds.unsigned_abs()),
        _ => SystemTime::now() + Duration::from_secs(seconds.unsigned_abs()),
    };
    for seconds in [-3600, 3600] {
        let set = |file: fs::File| file.set_modified(time(seconds));
        fs::File::options().write(true).open(&map.0).and_then(set).map_err(|error| error.to_string())?;
        let without = groups(&ledger, &["--group-by", "stack"])?.good()?;
        check!(!is_named(&without) && without.out().contains("unknown code"), "named at {seconds}: {without}");
    }
    // One that is given by name is believed.
    let path = map.0.to_string_lossy().into_owned();
    let given = groups(&ledger, &["--group-by", "stack", "--perf-map", &path])?.good()?;
    check!(is_named(&given), "no name: {given}");
    let wrong = groups(&ledger, &["--perf-map", "/no/such.map"])?;
    check!(wrong.status.code() == Some(2) && wrong.err().contains("there is no such file"), "{wrong}");
    Ok(())
}

/// The real thing: a script's function holds memory of the engine's.
#[test]
fn functions_of_scripts_in_node() -> Result {
    let Some(node) = find(&["node", "nodejs"]) else {
        skip("node", "it is not installed");
        return Ok(());
    };
    let scratch = Scratch::new();
    let script = scratch.path("hold.js");
    let text = "const kept = [];\nfunction hold(i) {\n  kept.push(Buffer.allocUnsafeSlow(70001));\n}\n\
                for (let i = 0; i < 50; i++) hold(i);\nprocess.kill(process.pid, 'SIGKILL');\n";
    fs::write(&script, text).map_err(|error| error.to_string())?;
    let words: Vec<String> = ["--perf-basic-prof", "--interpreted-frames-native-stack", &script.to_string_lossy()]
        .iter()
        .map(|word| (*word).to_owned())
        .collect();
    process::run(&mut under_run(&scratch, "node", &[], &node, &words))?;
    let ledger = scratch.path("node.hl");
    let _map = map_of(&ledger)?;
    let lines = read("dump", &ledger, &["--where", "size == 70001 and fn == hold and file == hold.js"])?;
    let blocks = lines.iter().filter(|line| line["type"] == "block").count();
    check!(blocks == 50, "{blocks} blocks are held by the script's function");
    Ok(())
}
