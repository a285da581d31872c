//! Programs that write a title for `ps` over their arguments keep the name by which they were called, and so do their children.

use std::io::{Read, Write};
use std::process::Stdio;

use heapledger_e2e::families::processes;
use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::process::{self, run};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger, root};
use heapledger_e2e::{Result, check};

/// Titles longer than the first argument, which runs into what lies behind it, and shorter.
const TITLES: [&str; 3] = ["titled: master process /srv/n.conf", "srv: /x", "/usr/lib/other --type=broker /tmp/x"];

fn built(scratch: &Scratch) -> Result<std::path::PathBuf> {
    let program = scratch.path("titled");
    let mut compile = command("cc");
    compile.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    run(compile.arg(root().join("e2e/guests/titled.c")))?.good()?;
    Ok(program)
}

#[test]
fn a_forked_child_is_called_as_its_parent_whatever_the_title_is() -> Result {
    for title in TITLES {
        let scratch = Scratch::new();
        let program = built(&scratch)?;
        let mut command = command(heapledger());
        command.args(["run", "-q", "--children", "-o"]).arg(scratch.path("s")).arg("--ledger-dir").arg(scratch.live());
        command.arg("--").arg(&program).arg(title).current_dir(scratch.work()).stdin(Stdio::null());
        run(&mut command)?.good()?;
        let all = processes(&scratch.path("s"))?;
        let is_right = |process: &serde_json::Value| {
            let file = process["ledger"].as_str().unwrap_or_default();
            process["program"] == "titled" && file == format!("titled.{}.hl", process["pid"])
        };
        check!(all.len() == 2 && all.iter().all(is_right), "{title}: {all:#?}");
        // What it wrote for `ps` is still told, as what it is called with.
        let child = all.iter().find(|process| process["forked"] == true).ok_or("no child")?;
        let stats = Stats::of(format!("{}:{}", scratch.path("s").display(), child["pid"]))?;
        let arguments = stats.0["process"]["args"].to_string();
        check!(arguments.contains("titled: worker of"), "{title}: {arguments}");
    }
    Ok(())
}

/// Nothing in `/proc` says of it that it belongs to the session but the ledger of who forked it, which it still maps.
#[test]
fn run_waits_for_a_daemon_whose_title_is_over_its_environment() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch)?;
    let session = scratch.path("s");
    let mut command = command(heapledger());
    command.args(["run", "-q", "--children", "--wait", "-o"]).arg(&session).arg("--ledger-dir").arg(scratch.live());
    command.arg("--").arg(&program).args(["--daemon", TITLES[0]]).current_dir(scratch.work());
    let ran = run(&mut command)?.good()?;
    let all = read("stats", &session, &["--all"])?;
    let daemon = all.iter().find(|line| line["forked"] == true).ok_or_else(|| format!("it has not waited: {ran}"))?;
    // Below who forked it, which is gone.
    check!(daemon["depth"] == 1 && daemon["figures"]["allocations"] == 1, "{daemon}");
    check!(daemon["program"] == "titled" && scratch.unfinished().is_empty(), "{daemon}; {:?}", scratch.unfinished());
    Ok(())
}

#[test]
fn a_program_that_is_attached_to_is_called_by_its_file_if_it_has_a_title() -> Result {
    for title in TITLES {
        let scratch = Scratch::new();
        let program = built(&scratch)?;
        let mut plain = command(&program);
        plain.args([title, "more", "and more"]).current_dir(scratch.work());
        let mut child = plain
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{plain:?}: {error}"))?;
        let mut point = [0];
        let said = child.stdout.take().map(|mut out| out.read_exact(&mut point));
        check!(said.is_some_and(|said| said.is_ok()) && &point == b".", "{title}: it says {point:?}");
        let mut attach = command(heapledger());
        attach.arg("attach").arg("--ledger-dir").arg(scratch.live()).arg(child.id().to_string());
        let attached = process::run(attach.current_dir(scratch.work()));
        let mut stdin = child.stdin.take().ok_or("no input")?;
        let _ = stdin.write_all(b"x");
        drop(stdin);
        let pid = child.id();
        let status = child.wait().map_err(|error| error.to_string())?;
        let attached = attached?.good()?;
        let ledger = scratch.path(&format!("heapledger.titled.{pid}.hl"));
        check!(status.success(), "{title}: {status}; {attached}");
        process::until("its ledger", || ledger.exists()).map_err(|error| format!("{title}: {error}; {attached}"))?;
        let name = &Stats::of(&ledger)?.0["process"]["program"];
        check!(name == "titled", "{title}: {name}");
    }
    Ok(())
}
