//! The language of filters: what is understood, and where an error points.

use heapledger_analysis::fields::{Field, Op};
use heapledger_analysis::query::{Expr, Filter, SortKeys, Test, Value};
use proptest::prelude::*;

fn canonical(text: &str) -> String {
    Filter::parse(text).unwrap_or_else(|error| panic!("{text}\n{error}")).to_string()
}

#[test]
fn what_is_understood() {
    for (text, is) in [
        ("size >= 4K", "size >= 4K"),
        ("size>=4096", "size >= 4K"),
        ("SIZE = 1.5MiB", "size == 1536K"),
        (
            "size >= 4K and thread == \"worker-3\" and fn ~ \"parse\" and age > 10s",
            "size >= 4K and thread == \"worker-3\" and fn ~ \"parse\" and age > 10s",
        ),
        ("thread == worker-3", "thread == \"worker-3\""),
        ("thread = 3", "thread == 3"),
        ("kind in ('malloc()', new[])", "kind in (\"malloc\", \"new[]\")"),
        ("kind != operator", ""),
        ("kind not in (calloc)", "not kind in (\"calloc\")"),
        ("a", ""),
        ("freed", "freed == yes"),
        ("not freed and event == free", "not freed == yes and event == free"),
        ("ptr >= 0x1000 && seqno < 5 || !(age <= 250ms)", "(addr >= 0x1000 and number < 5) or not age <= 250ms"),
        (
            "(size > 1 or size < 3) and (actual > 2 and overhead > 1)",
            "(size > 1 or size < 3) and actual > 2 and overhead > 1",
        ),
        ("not not size == 0", "not not size == 0"),
        ("time >= 4000ticks and time < 2h", "time >= 4000ticks and time < 2h"),
        ("fn ~ \"a\\\\.b\" or file == 'parse.c:120'", "fn ~ \"a\\\\.b\" or file == \"parse.c:120\""),
        ("fn == std::vector or module ~ libc", "fn == \"std::vector\" or module ~ \"libc\""),
        (
            "lifetime < 1ms and site in (1,2,3) and heap != main",
            "lifetime < 1ms and site in (1, 2, 3) and heap != \"main\"",
        ),
    ] {
        if is.is_empty() {
            assert!(Filter::parse(text).is_err(), "{text}");
        } else {
            assert_eq!(canonical(text), is);
            assert_eq!(canonical(is), is, "what is written can be read again");
        }
    }
}

#[test]
fn not_and_or_bind_in_this_order() {
    assert_eq!(canonical("not freed or freed and freed"), "not freed == yes or (freed == yes and freed == yes)");
    assert_eq!(canonical("freed or (freed or freed)"), "freed == yes or freed == yes or freed == yes");
}

/// The text, the marked part of it, and what is said.
fn refused(text: &str) -> (String, String) {
    let error = Filter::parse(text).expect_err(text);
    let shown = error.to_string();
    let lines: Vec<&str> = shown.lines().collect();
    let marked = lines[1].chars().zip(lines[2].chars().chain(std::iter::repeat(' ')));
    (marked.filter(|(_, mark)| *mark == '^').map(|(letter, _)| letter).collect(), shown)
}

#[test]
fn an_error_points_at_the_place() {
    for (text, marked, said) in [
        ("sise >= 4K", "sise", "did you mean 'size'"),
        ("size >= 4K and thraed == 3", "thraed", "did you mean 'thread'"),
        ("colour == red", "colour", "fields are size, actual"),
        ("line == 3", "line", "parse.c:120"),
        ("label > x", ">", "expected == != ~ !~"),
        ("label.route", "", "expected == != ~ !~"),
        ("size >= ", "", "expected a size such as"),
        ("", "", "is empty"),
        ("size >= 4X", "4X", "is no size"),
        ("size >= big", "big", "expected a size"),
        ("age > 10", "10", "has no unit"),
        ("age > 10y", "10y", "units are ns us ms s m h d"),
        ("size ~ 4", "~", "cannot be compared"),
        ("fn > main", ">", "expected == != ~ !~"),
        ("kind == mallc", "mallc", "did you mean 'malloc'"),
        ("event == freed", "freed", "allocation or free"),
        ("fn ~ \"(\"", "\"(\"", "unclosed group"),
        ("fn ~ \"(a{500}){500}\"", "\"(a{500}){500}\"", "too much memory"),
        ("fn == \"main", "\"main", "not closed"),
        ("(size > 3", "(", "never closed"),
        ("fn=keep(int)", "keep(int)", "put it in quotes: fn == \"keep(int)\""),
        ("fn = f(a, b) and size > 1", "f(a, b)", "put it in quotes: fn == \"f(a, b)\""),
        ("fn in (main, f(int))", "f(int)", "put it in quotes: \"f(int)\""),
        ("(holder ~ std::map<a,b>::at)", "std::map<a,b>::at", "put it in quotes: holder ~ \"std::map<a,b>::at\""),
        ("kind == malloc()", "malloc()", "put it in quotes: kind == \"malloc()\""),
        ("size in (3", "(", "never closed"),
        ("size > 3)", ")", "never opened"),
        ("size > 3 size < 5", "size", "expected 'and'"),
        ("size > 3 and", "", "ends too early"),
        ("size > 3 ; x", ";", "means nothing"),
        ("size in 3", "3", "'(' and a list"),
        ("size not 3", "3", "expected 'in'"),
        ("addr == here", "here", "an address such as"),
        ("number == 1.5", "1.5", "no whole number"),
        ("thread == 3a", "3a", "stand in quotes"),
    ] {
        let (is, shown) = refused(text);
        assert_eq!(is, marked, "{text}\n{shown}");
        assert!(shown.contains(said), "{text}\n{shown}");
    }
}

#[test]
fn nothing_that_is_typed_takes_long_or_much() {
    let deep = |depth: usize| format!("{}size > 1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Filter::parse(&deep(60)).is_ok());
    for text in [
        deep(70),
        deep(400_000),
        format!("{} freed", "not ".repeat(100_000)),
        "!".repeat(1_000_000),
        "freed or ".repeat(100_000),
        format!("fn ~ \"{}\"", "(".repeat(4000)),
        format!("fn ~ \"{}\"", "a".repeat(500_000)),
        "x".repeat(8 << 20),
        "\"".repeat(1 << 20),
        "fn ~ a or ".repeat(300) + "freed",
    ] {
        let shown = Filter::parse(&text).expect_err("refused").to_string();
        assert!(shown.len() < 1000, "{shown}");
    }
    let many = format!("number in ({})", (0..100_000).map(|number| number.to_string()).collect::<Vec<_>>().join(","));
    assert!(Filter::parse(&many).is_ok());
    let patterns = vec![r#"fn ~ "\w{40}\pL""#; 64].join(" or ");
    let _ = Filter::parse(&patterns);
}

#[test]
fn the_classic_manner() {
    for (text, is) in [
        ("thread=6", "thread == 6"),
        ("thread=main", "thread == \"main\""),
        ("size_min=1024", "size >= 1K"),
        ("size_max=4K", "size <= 4K"),
        ("seqno_min=5", "number >= 5"),
        ("seqno_max=0x10", "number <= 16"),
        ("time_min=4000", "time >= 4000ticks"),
        ("time_max=42s", "time <= 42s"),
        ("ptr_min=0x1000", "addr >= 0x1000"),
        ("ptr_max=4096", "addr <= 0x1000"),
    ] {
        let filter = Filter::classic(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(filter.to_string(), is);
        assert_eq!(Filter::parse(is).expect("the same language"), filter);
    }
    for (text, said) in [
        ("size_mn=3", "size_min"),
        ("size_min", "KEY=VALUE"),
        ("size_min=", "no size"),
        ("size_min=many", "  size_min=many\n           ^^^^"),
        ("colour=3", "keys are thread, size_min"),
        ("thread=", "missing"),
    ] {
        let error = Filter::classic(text).expect_err(text).to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
    let both = Filter::classic("size_min=1").and_then(|one| Ok(one.and(Filter::classic("size_max=2")?)));
    assert_eq!(both.expect("good").to_string(), "size >= 1 and size <= 2");
    assert!(Filter::all().and(Filter::all()).is_all());
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z \\\\\"'().]{0,12}", "\\PC{0,12}"]
}

fn test() -> impl Strategy<Value = Expr> {
    let order =
        || prop::sample::select(vec![Op::Equal, Op::Unequal, Op::Below, Op::AtMost, Op::Above, Op::AtLeast, Op::In]);
    let equality = || prop::sample::select(vec![Op::Equal, Op::Unequal, Op::In]);
    let numbers = prop::sample::select(vec![
        Field::Size,
        Field::Actual,
        Field::Overhead,
        Field::Address,
        Field::Number,
        Field::Site,
    ]);
    let times = prop::sample::select(vec![Field::Time, Field::Age, Field::Lifetime]);
    let names = prop::sample::select(vec![
        Field::Thread,
        Field::Heap,
        Field::Function,
        Field::Holder,
        Field::File,
        Field::Module,
    ]);
    let number = prop_oneof![any::<u64>(), (0u64..2000, 0u32..50).prop_map(|(low, shift)| low << shift)];
    let time = prop_oneof![
        any::<u64>().prop_map(Value::Span),
        (0u64..5000, prop::sample::select(vec![1u64, 1000, 1_000_000_000, 60_000_000_000]))
            .prop_map(|(many, unit)| Value::Span(many * unit)),
        any::<u64>().prop_map(Value::Ticks)
    ];
    let made = |field, op, mut values: Vec<Value>| {
        if op != Op::In {
            values.truncate(1);
        }
        Expr::Test(Test { field, op, values })
    };
    prop_oneof![
        (numbers, order(), prop::collection::vec(number.prop_map(Value::Number), 1..4))
            .prop_map(move |(field, op, values)| made(field, op, values)),
        (times, order(), prop::collection::vec(time, 1..4))
            .prop_map(move |(field, op, values)| made(field, op, values)),
        (names.clone(), equality(), prop::collection::vec(text().prop_map(Value::Text), 1..4))
            .prop_map(move |(field, op, values)| made(field, op, values)),
        (names, prop::sample::select(vec![Op::Matches, Op::MatchesNot]), "[a-z.*\\[\\]\\\\\"]{0,8}")
            .prop_filter("a pattern", |(.., text)| Filter::parse(&format!(
                "fn ~ \"{}\"",
                text.replace('\\', "\\\\").replace('"', "\\\"")
            ))
            .is_ok())
            .prop_map(move |(field, op, text)| made(field, op, vec![Value::Text(text)])),
        any::<bool>().prop_map(move |yes| made(Field::Freed, Op::Equal, vec![Value::YesNo(yes)])),
        prop::sample::select(vec!["malloc", "new[]", "new[](nothrow)", "delete(size,align)"])
            .prop_map(move |name| made(Field::Kind, Op::In, vec![Value::Text(name.to_owned()), Value::Number(7)])),
    ]
}

fn expr() -> impl Strategy<Value = Expr> {
    test().prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(one, other)| one.and(other)),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| one.or(other)),
            inner.prop_map(|part| Expr::Not(Box::new(part))),
        ]
    })
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,80}") {
        let _ = Filter::parse(&text).map_err(|error| error.to_string());
        let _ = Filter::classic(&text).map_err(|error| error.to_string());
        let _ = SortKeys::parse(&text).map_err(|error| error.to_string());
        let _ = SortKeys::classic(&text).map_err(|error| error.to_string());
    }

    #[test]
    fn no_text_of_our_words_panics(words in prop::collection::vec(prop::sample::select(vec![
        "size", "fn", "thread", "age", "freed", "kind", "==", "~", "!~", ">=", "<", "in", "not", "and", "or", "(", ")",
        ",", "4K", "10s", "0x", "\"a\"", "'", "\\", "malloc", "é", "\u{0}", "\n", " ",
    ]), 0..30), space in any::<bool>()) {
        let text = words.join(if space { " " } else { "" });
        match Filter::parse(&text) {
            Ok(filter) => prop_assert_eq!(Filter::parse(&filter.to_string()), Ok(filter)),
            Err(error) => prop_assert!(error.at() <= text.len() && error.to_string().lines().count() >= 3),
        }
    }

    #[test]
    fn what_is_written_is_read_again(expr in expr()) {
        let filter = Filter::from(expr);
        let text = filter.to_string();
        prop_assert_eq!(Filter::parse(&text), Ok(filter), "{}", text);
    }
}
