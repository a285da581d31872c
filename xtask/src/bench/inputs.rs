//! Inputs of the real programs: always the same ones, as large as is asked for.

use std::fmt::Write as _;

/// People as JSON.
pub(super) fn json(people: u64) -> String {
    const CITIES: [&str; 7] = ["Aachen", "Bremen", "Coburg", "Dresden", "Emden", "Fulda", "Gera"];
    let mut out = String::from("[");
    for n in 0..people {
        let comma = if n == 0 { "" } else { "," };
        let (city, age) = (CITIES[(n * 5 % 7) as usize], n * 31 % 90);
        let _ = writeln!(
            out,
            "{comma}{{\"id\":{n},\"name\":\"person {}\",\"age\":{age},\"city\":\"{city}\",\
             \"tags\":[\"a{}\",null,true,{n}.5]}}",
            n * 7919 % people,
            n % 13,
        );
    }
    out + "]"
}

/// A list as XML.
pub(super) fn xml(items: u64) -> String {
    let mut out = String::from("<?xml version=\"1.0\"?>\n<list>\n");
    for n in 0..items {
        let (price, unit) = (n % 1000, if n % 3 == 0 { "EUR" } else { "SEK" });
        let _ = writeln!(
            out,
            "<item n=\"{n}\"><name>thing {n}</name><price unit=\"{unit}\">{price}.99</price><note/></item>"
        );
    }
    out + "</list>\n"
}

/// Many headers of the standard library, and templates that make the compiler work.
pub(super) fn cxx(classes: u64) -> String {
    let headers = [
        "algorithm",
        "chrono",
        "functional",
        "iostream",
        "map",
        "memory",
        "optional",
        "set",
        "sstream",
        "string",
        "thread",
        "unordered_map",
        "variant",
        "vector",
    ];
    let mut out: String = headers.iter().map(|header| format!("#include <{header}>\n")).collect();
    for n in 0..classes {
        let _ = write!(
            out,
            "struct c{n} {{ std::map<std::string, std::vector<c{n} *>> owned; std::string name; }};\n\
             std::string f{n}(std::vector<c{n}> &all) {{\n\
             \x20   std::sort(all.begin(), all.end(), [](auto &a, auto &b) {{ return a.name < b.name; }});\n\
             \x20   std::unordered_map<std::string, std::optional<c{n}>> seen;\n\
             \x20   std::ostringstream out;\n\
             \x20   for (auto &one : all)\n\
             \x20       for (auto &[key, list] : one.owned) {{ seen[key] = one; out << key << list.size(); }}\n\
             \x20   return out.str() + std::to_string(seen.size());\n\
             }}\n"
        );
    }
    out
}

/// Python: reads JSON, sorts it, writes it, and does so a few times.
pub(super) const PYTHON: &str = "\
import collections, json, re, sys
people = json.load(open(sys.argv[1]))
cities = collections.defaultdict(list)
for person in people:
    cities[person['city']].append(person)
for city in sorted(cities):
    names = sorted(person['name'] for person in cities[city] if person['age'] > 30)
    print(city, len(names), names[:3])
words = collections.Counter(re.findall(r'[a-z]+ \\d', ' '.join(person['name'] for person in people)))
print(words.most_common(3))
for depth in range(3):
    people = json.loads(json.dumps(people, indent=depth))
print(len(people))
";

/// Perl: hashes, lists of lists, sorting, pattern matching.
pub(super) const PERL: &str = r#"
use strict;
my ($n, %count, @list) = ($ARGV[0]);
for my $i (1 .. $n) {
    my $word = "w" . ($i * 7919 % 10007);
    $count{$word} .= "x$i,";
    push @list, [$i, $word] if $i % 3 == 0;
}
my @sorted = sort { $a->[1] cmp $b->[1] || $a->[0] <=> $b->[0] } @list;
my %by_first;
push @{$by_first{substr $_->[1], 0, 3}}, {number => $_->[0], word => $_->[1]} for @sorted;
my $text = join " ", map { $_->[1] } @sorted[0 .. 999];
$text =~ s/w(\d)(\d*)/$2-$1/g;
print scalar(keys %count), " ", scalar(keys %by_first), " ", length($text), " ", substr($text, 0, 60), "\n";
"#;

/// SQL for a table of so many rows.
pub(super) fn sql(rows: u64) -> String {
    format!(
        "create table t(id integer primary key, city text, n integer);
with recursive c(x) as (select 1 union all select x + 1 from c where x < {rows})
insert into t select x, 'city ' || (x % 97), x * 31 % 1009 from c;
create index by_city on t(city, n);
select city, count(*), sum(n), group_concat(n % 10, '') from t where n > 500 group by city order by 3 desc limit 5;
select count(distinct a.n) from t a join t b on a.n = b.id where a.id % 7 = 0;
select json_group_array(json_object('id', id, 'city', city)) -> 17 from t where id % 5 = 0;
update t set city = upper(city) where n % 5 = 0;
delete from t where n % 3 = 0;
select count(*), max(length(city)) from t;
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_grow_with_what_is_asked_for() {
        assert_eq!(json(10).lines().count(), 11);
        assert_eq!(xml(10).matches("<item ").count(), 10);
        assert_eq!(cxx(3).matches("struct c").count(), 3);
        assert!(sql(77).contains("x < 77)"));
    }
}
