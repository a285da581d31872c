//! Every victim with threads, signals or forks, 20 times each in each of its ways, more at a time than there are processors. One
//! success proves little of such a program. `cargo xtask stress` does it 2,000 times.

use std::thread;

use heapledger_e2e::stress::{self, Plan};
use heapledger_e2e::victim;
use heapledger_e2e::{Result, check};

const TIMES: usize = 20;

#[test]
fn whatever_may_go_one_way_or_another_goes_right_each_time() -> Result {
    let processors = thread::available_parallelism().map_or(2, usize::from);
    let plan = Plan { times: TIMES, jobs: 2 * processors, loads: 0, names: vec![] };
    let rows = stress::run(&plan)?;
    let table = stress::table(&rows);
    println!("{table}");
    check!(rows.iter().all(|row| row.runs == TIMES), "not all were run\n{table}");
    check!(rows.iter().all(|row| row.failures == 0), "{table}");
    Ok(())
}

#[test]
fn the_victims_that_can_go_wrong_are_all_among_them() -> Result {
    let timed: Vec<String> = victim::all()?.into_iter().filter(|own| own.is_timed).map(|own| own.name).collect();
    for name in
        ["cross_free", "fork_threads", "signal_storm", "vfork_malloc", "clone_vm", "threads_cxx", "short_threads"]
    {
        check!(timed.iter().any(|own| own == name), "{name} is not among {timed:?}");
    }
    Ok(())
}
