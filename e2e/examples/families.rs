//! `cargo xtask families`: real programs with many processes under `run --children`. In each process a counting library behind ours
//! counts as much as its ledger says.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use heapledger_e2e::families::{agree, kill_somebody, processes, under_run};
use heapledger_e2e::process::run;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::find;
use heapledger_e2e::{Result, check, victim};

/// A program of many processes: what it needs, what a shell types in an empty directory, and how many processes there are at least.
struct Case {
    name: &'static str,
    needs: &'static [&'static str],
    script: &'static str,
    processes: usize,
    /// Calls in each process that may be the middle of something: it is killed.
    slack: u64,
}

/// A server that is asked and told to end.
const NGINX: &str = "\
mkdir -p logs
cat > nginx.conf <<END
daemon off; worker_processes 2; pid $PWD/nginx.pid; error_log $PWD/error.log;
events { worker_connections 64; }
http { access_log off; client_body_temp_path $PWD/a; proxy_temp_path $PWD/b; fastcgi_temp_path $PWD/c;
  uwsgi_temp_path $PWD/d; scgi_temp_path $PWD/e; server { listen unix:$PWD/web; location / { return 200 'hello'; } } }
END
nginx -p $PWD -c $PWD/nginx.conf 2>/dev/null &
n=0; while [ ! -S web ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done
for i in 1 2 3 4 5 6 7 8 9 10; do curl -s --unix-socket web http://host/ > got; done
kill -QUIT $(cat nginx.pid); wait; grep -q hello got";

const GUNICORN: &str = "\
cat > app.py <<END
def app(environ, start):
    start('200 OK', [('Content-Type', 'text/plain')])
    return [b'hello ' + str(sum(range(1000))).encode()]
END
gunicorn -w 3 --pid pid -b unix:$PWD/web app:app 2>/dev/null &
n=0; while [ ! -S web ] && [ $n -lt 300 ]; do sleep 0.1; n=$((n + 1)); done
for i in 1 2 3 4 5 6 7 8 9 10; do curl -s --unix-socket web http://host/ > got; done
kill -TERM $(cat pid); wait; grep -q hello got";

const PYTEST: &str = "\
cat > test_one.py <<END
import pytest
@pytest.mark.parametrize('n', range(20))
def test_sum(n):
    assert sum(range(n)) == n * (n - 1) // 2
END
pytest -q -p no:cacheprovider -n 3 > out; grep -q '20 passed' out";

/// Not as root, which it refuses.
const POSTGRES: &str = "\
PATH=$(ls -d /usr/lib/postgresql/*/bin | tail -1):$PATH
mkdir data; chown nobody . data; chmod 700 data
me='setpriv --reuid=nobody --regid=nogroup --clear-groups'
[ $(id -u) = 0 ] || me=
$me initdb -D data -A trust -U me > log
$me postgres -D data -k $PWD -c listen_addresses= 2> log2 &
n=0; while [ ! -S .s.PGSQL.5432 ] && [ $n -lt 300 ]; do sleep 0.1; n=$((n + 1)); done; sleep 1
for i in 1 2 3 4; do psql -h $PWD -U me -d postgres -Atc 'select sum(n) from generate_series(1, 100000) n' >> got & done
wait %2 %3 %4 %5; kill -INT $(head -1 data/postmaster.pid); wait; grep -q 5000050000 got";

const REDIS: &str = "\
redis-server --port 0 --unixsocket $PWD/redis --save '' --dir $PWD --daemonize no > log &
n=0; while [ ! -S redis ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done
redis-cli -s redis DEBUG POPULATE 20000 > /dev/null; redis-cli -s redis BGSAVE > /dev/null
n=0; while [ ! -s dump.rdb ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done
redis-cli -s redis SHUTDOWN NOSAVE; wait; [ -s dump.rdb ]";

const GIT: &str = "\
git init -q one; cd one; git config user.name me; git config user.email me@example.org
for i in 1 2 3 4 5; do seq 1 $((i * 100)) > f$i; git add .; git commit -qm $i; done
git gc -q; cd ..; git clone -q file://$PWD/one two; git -C two log --oneline | wc -l | grep -q 5";

const CTEST: &str = "\
for i in 1 2 3 4 5 6; do echo \"add_test(t$i /bin/sh -c \\\"seq 1 500 | sort -r | tail -1\\\")\"; done > CTestTestfile.cmake
ctest -j 2 > out; grep -q '100% tests passed' out";

const CASES: [Case; 11] = [
    Case { name: "nginx", needs: &["nginx", "curl"], script: NGINX, processes: 4, slack: 0 },
    Case { name: "gunicorn", needs: &["gunicorn", "curl"], script: GUNICORN, processes: 5, slack: 0 },
    Case { name: "pytest-xdist", needs: &["pytest"], script: PYTEST, processes: 5, slack: 0 },
    Case { name: "postgres", needs: &["psql"], script: POSTGRES, processes: 8, slack: 2 },
    Case { name: "redis", needs: &["redis-server", "redis-cli"], script: REDIS, processes: 4, slack: 2 },
    Case { name: "git", needs: &["git"], script: GIT, processes: 20, slack: 2 },
    Case { name: "ctest", needs: &["ctest"], script: CTEST, processes: 10, slack: 0 },
    Case {
        name: "pipeline",
        needs: &["sort"],
        script: "seq 1 100000 | sort -r | grep 7 | sed s/7/8/ | tail -1",
        processes: 5,
        slack: 2,
    },
    Case { name: "forks-500", needs: &["sh"], script: "\"$FAMILY\" bomb 500", processes: 500, slack: 0 },
    Case { name: "forks-10000", needs: &["sh"], script: "\"$FAMILY\" number 10000", processes: 10_000, slack: 0 },
    Case {
        name: "forks-among-threads",
        needs: &["sh"],
        script: "\"$FAMILY\" threads 10000",
        processes: 10_001,
        slack: 0,
    },
];

/// No program, but kills of one that forks, of its children, of `run`, and of all of them.
const KILLS: &str = "kills";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut failed = 0;
    for case in CASES.iter().filter(|case| words.is_empty() || words.iter().any(|word| word == case.name)) {
        let began = Instant::now();
        match one(case) {
            Ok(said) => println!("{:<20} {said}, {:.1} s", case.name, began.elapsed().as_secs_f64()),
            Err(problem) => {
                failed += 1;
                println!("{:<20} FAILED: {problem}", case.name);
            }
        }
    }
    if words.is_empty() || words.iter().any(|word| word == KILLS) {
        let began = Instant::now();
        let lost = (0..300).filter_map(|number| kill_somebody(number).err()).inspect(|lost| println!("{lost}")).count();
        failed += usize::from(lost != 0);
        println!(
            "{KILLS:<20} 300 kills, after {lost} of them something was lost, {:.1} s",
            began.elapsed().as_secs_f64()
        );
    }
    println!("{failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(case: &Case) -> Result<String> {
    if let Some(missing) = case.needs.iter().find(|name| find(&[name]).is_none()) {
        return Ok(format!("left out: there is no {missing}"));
    }
    let scratch = Scratch::new();
    let session = scratch.path("s");
    let options = ["--max-processes", "20000", "--wait"];
    let mut command = under_run(&scratch, &options, Path::new("/bin/sh"), &["-c", case.script])?;
    let directory = scratch.path("there");
    fs::create_dir(&directory).map_err(|error| error.to_string())?;
    // Workers may be another user, and count, too.
    for open in [scratch.work(), directory.as_path()] {
        fs::set_permissions(open, Permissions::from_mode(0o777)).map_err(|error| error.to_string())?;
    }
    command.current_dir(&directory).env("FAMILY", victim::named("family")?.build()?);
    let ran = run(&mut command)?;
    check!(ran.status.success(), "{ran}");
    let all = processes(&session)?;
    let unseen = all.iter().filter(|process| process["unrecorded"].is_string()).count();
    let sums = agree(&scratch, case.slack)?;
    check!(sums.len() >= case.processes, "{} processes, not {}", sums.len(), case.processes);
    check!(scratch.unfinished().is_empty(), "left behind: {:?}", scratch.unfinished());
    let allocations: u64 = sums.values().map(|sums| sums.allocations).sum();
    Ok(format!("{} processes, {} programs, {allocations} allocations, {unseen} not recorded", sums.len(), all.len()))
}
