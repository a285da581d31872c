//! What real programs are given to do: data of a size, a repository, sources to compile, scripts.

use std::fmt::Write as _;
use std::fs;

use crate::Result;
use crate::process;
use crate::scratch::Scratch;
use crate::tools::command;

pub(crate) fn json(people: usize) -> String {
    const CITIES: [&str; 5] = ["Aachen", "Bremen", "Coburg", "Dresden", "Emden"];
    let mut out = String::from("[");
    for n in 0..people {
        let comma = if n == 0 { "" } else { "," };
        let (city, age) = (CITIES[n * 7 % 5], n * 31 % 90);
        let _ = writeln!(
            out,
            "{comma}{{\"id\":{n},\"name\":\"person {}\",\"age\":{age},\"city\":\"{city}\",\"tags\":[\"a{}\",null,true,{}.5]}}",
            n * 7919 % people,
            n % 13,
            n
        );
    }
    out + "]"
}

pub(crate) fn xml(items: usize) -> String {
    let mut out = String::from("<?xml version=\"1.0\"?>\n<list>\n");
    for n in 0..items {
        let _ =
            writeln!(out, "<item n=\"{n}\"><name>thing {n}</name><price unit=\"EUR\">{}.99</price></item>", n % 1000);
    }
    out + "</list>\n"
}

pub(crate) fn repository(scratch: &Scratch, commits: usize) -> Result<String> {
    let path = scratch.path("repository");
    fs::create_dir_all(&path).map_err(|error| error.to_string())?;
    let git = |words: &[&str]| {
        let mut command = command("git");
        command.arg("-C").arg(&path).args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=m"]);
        command.envs([
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("HOME", "/nonexistent"),
            ("GIT_AUTHOR_DATE", "@1700000000 +0000"),
        ]);
        process::run(command.env("GIT_COMMITTER_DATE", "@1700000000 +0000").args(words))?.good()
    };
    git(&["init", "-q"])?;
    for commit in 0..commits {
        for file in 0..5 {
            let mut text = String::new();
            for line in 0..300 {
                let _ = writeln!(text, "line {line} of {file}, {}", line * commit % 17);
            }
            fs::write(path.join(format!("file-{file}.txt")), text).map_err(|error| error.to_string())?;
        }
        git(&["add", "."])?;
        git(&["commit", "-q", "--allow-empty", "-m", &format!("Change {commit}")])?;
    }
    git(&["repack", "-adq"])?;
    Ok(path.to_string_lossy().into_owned())
}

pub(crate) fn c_source(functions: usize) -> String {
    let mut out = String::from("struct s { int a, b[8]; struct s *next; };\n");
    for n in 0..functions {
        let _ = writeln!(
            out,
            "int f{n}(struct s *s, int k)\n{{\n    int sum = {n};\n    for (int i = 0; i < k; i++) {{\n        \
             switch (s->b[i & 7]) {{ case {}: sum += i * 3; break; case 1: sum ^= s->a; break; default: sum -= k / (i | 1); }}\n        \
             if (s->next) s = s->next;\n    }}\n    return sum;\n}}",
            n + 2
        );
    }
    out
}

pub(crate) fn cxx_source(classes: usize) -> String {
    let mut out = String::from(
        "#include <algorithm>\n#include <iostream>\n#include <map>\n#include <regex>\n#include <string>\n#include <vector>\n",
    );
    for n in 0..classes {
        let _ = writeln!(
            out,
            "struct c{n} {{ std::map<std::string, std::vector<c{n} *>> m; std::string s; }};\n\
             std::string g{n}(std::vector<c{n}> &v) {{ std::sort(v.begin(), v.end(), [](auto &a, auto &b) {{ return a.s < b.s; }}); \
             std::string r; for (auto &x : v) for (auto &[k, w] : x.m) r += k + std::to_string(w.size()); \
             return std::regex_replace(r, std::regex(\"a+{n}\"), \"b\"); }}"
        );
    }
    out
}

pub(crate) const PYTHON: &str = r#"
import collections, json, re, sys
people = json.load(open(sys.argv[1]))
cities = collections.defaultdict(list)
for person in people:
    cities[person["city"]].append(person)
for city in sorted(cities):
    names = sorted(p["name"] for p in cities[city] if p["age"] > 30)
    print(city, len(names), names[:3])
words = collections.Counter(re.findall(r"[a-z]+ \d", " ".join(p["name"] for p in people)))
print(words.most_common(3))
class Node:
    def __init__(self, n): self.n, self.children = n, []
root = Node(0)
for n in range(1, 20000):
    node = root
    for digit in str(n)[:3]:
        if node.children: node = node.children[int(digit) % len(node.children)]
    node.children.append(Node(n))
print(sum(1 for _ in root.children))
"#;

pub(crate) const PERL: &str = r#"
use strict;
my ($n, %count, @list) = ($ARGV[0]);
for my $i (1 .. $n) {
    my $word = "w" . ($i * 7919 % 10007);
    $count{$word} .= "x$i,";
    push @list, [$i, $word] if $i % 3 == 0;
}
my @sorted = sort { $a->[1] cmp $b->[1] || $a->[0] <=> $b->[0] } @list;
my $text = join " ", map { $_->[1] } @sorted[0 .. 999];
$text =~ s/w(\d)(\d*)/$2-$1/g;
print scalar(keys %count), " ", length($text), " ", substr($text, 0, 60), "\n";
"#;

pub(crate) const SQL: &str = "
create table t(id integer primary key, city text, n integer);
with recursive c(x) as (select 1 union all select x + 1 from c where x < ROWS)
insert into t select x, 'city ' || (x % 97), x * 31 % 1009 from c;
create index by_city on t(city, n);
select city, count(*), sum(n), group_concat(n % 10, '') from t where n > 500 group by city order by 3 desc limit 5;
select count(distinct a.n) from t a join t b on a.n = b.id where a.id % 7 = 0;
update t set city = upper(city) where n % 5 = 0;
delete from t where n % 3 = 0;
select count(*), max(length(city)) from t;
";

pub(crate) const NODE: &str = r#"
const people = JSON.parse(require('fs').readFileSync(process.argv[2], 'utf8'));
const cities = new Map();
for (const p of people) cities.set(p.city, (cities.get(p.city) || []).concat(p.age > 30 ? [p.name] : []).slice(-500));
for (const [city, names] of [...cities].sort()) console.log(city, names.length, names.sort()[0]);
console.log(require('zlib').gzipSync(JSON.stringify(people)).length > 0, require('crypto').createHash('sha256').update('x').digest('hex'));
"#;

pub(crate) const JAVA: &str = r#"
import java.util.*;
import java.util.zip.*;
public class Work {
    public static void main(String[] words) throws Exception {
        Map<String, List<Integer>> cities = new TreeMap<>();
        for (int n = 0; n < 20000; n++)
            cities.computeIfAbsent("city " + n * 31 % 97, city -> new ArrayList<>()).add(n);
        StringBuilder text = new StringBuilder();
        cities.forEach((city, numbers) -> text.append(city).append(numbers.stream().mapToInt(n -> n).sum()).append(numbers.subList(0, 50)));
        byte[] plain = text.toString().getBytes("UTF-8");
        List<Thread> threads = new ArrayList<>();
        long[] sums = new long[4];
        for (int t = 0; t < 4; t++) {
            int own = t;
            threads.add(new Thread(() -> {
                for (int n = 0; n < 20; n++) {
                    Deflater deflater = new Deflater(1 + own);
                    deflater.setInput(plain);
                    deflater.finish();
                    sums[own] += deflater.deflate(new byte[plain.length + 100]);
                    deflater.end();
                }
            }));
            threads.get(t).start();
        }
        for (Thread thread : threads)
            thread.join();
        CRC32 sum = new CRC32();
        sum.update(plain);
        System.out.println(plain.length + " " + sum.getValue() + " " + Arrays.toString(sums));
    }
}
"#;

pub(crate) const BASH: &str = r#"
for (( n = 1; n <= $2; n++ )); do
    words[n]="word $n $(echo "$n" | sed 's/1/one/')"
    (words[n]+=" of a subshell"; seq "$n" | sort -r | tail -1; echo "${words[n]}" | tr a-z A-Z)
done
gcc -O1 -S "$1" -o - | cksum
declare -A count
for word in ${words[@]}; do (( count[$word]++ )); done
for word in "${!count[@]}"; do echo "$word ${count[$word]}"; done | sort | cksum
"#;
