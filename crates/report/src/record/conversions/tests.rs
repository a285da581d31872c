//! Formats, and what each conversion prints.

use super::*;

fn said(text: &str) -> String {
    match Format::parse(text) {
        Ok(format) => panic!("{format:?}"),
        Err(error) => error.to_string(),
    }
}

const ALL: Abilities = Abilities { options: Options::ALL, depth_limit: 8 };

#[test]
fn a_format_is_taken_apart() {
    let format = Format::parse(r#"%p:\t%a "%n" 100%%\n\x\\%b12%f1"#).expect("good");
    let parts: Vec<String> = format
        .parts
        .iter()
        .map(|part| match part {
            FormatPart::Text(text) => text.clone(),
            FormatPart::Conversion(conversion, _) => format!("<{conversion:?}>"),
        })
        .collect();
    let expected = [
        "<Of(Address)>",
        ":\t",
        "<Of(Kind)>",
        " \"",
        "<Of(Size)>",
        "\" 100%\n\\x\\",
        "<Level(Address, 12)>",
        "<Level(Function, 1)>",
    ];
    assert_eq!(parts, expected);
    assert_eq!(Format::parse("").expect("good").parts, []);
    assert_eq!(Format::parse("größe\\").expect("good").parts, [FormatPart::Text("größe\\".to_owned())]);
    assert_eq!(Format::parse(r"\%p").expect("good").parts.len(), 2, "a backslash is no escape of a conversion");
}

#[test]
fn an_error_points_at_the_place() {
    let known = "there are %p %n %m %o %s %a %T %W %t %L %M %h %N %b1 %f1 %w1 %l1 %%";
    assert_eq!(said("%p : %q %n"), format!("%q is no conversion; {known}\n  %p : %q %n\n       ^^"));
    assert_eq!(said("100%"), "a single % ends the format; write %% for a percent sign\n  100%\n     ^");
    assert_eq!(said("%b"), "%b needs a level, as in %b1 for the innermost\n  %b\n  ^^");
    assert_eq!(said("%f0"), "levels count from 1, the innermost\n  %f0\n  ^^^");
    assert_eq!(said("%w99999999999"), "no stack has so many levels\n  %w99999999999\n  ^^^^^^^^^^^^^");
    assert_eq!(said("größe %é!"), format!("%é is no conversion; {known}\n  größe %é!\n        ^^"));
    assert_eq!(said("a\nb%\x1b"), format!("%\\u{{1b}} is no conversion; {known}\n  a b% \n     ^^"));
}

#[test]
fn help_has_two_columns() {
    let help = conversions();
    assert!(help.starts_with("  %p  address                      %L  label\n  %n  bytes asked for "), "{help}");
    assert!(
        help.ends_with("\n  %t  thread, as in `stats`        %%  a percent sign; \\n \\t \\\\ \\\" as in C"),
        "{help}"
    );
    for (conversion, _) in all() {
        assert!(Format::parse(&conversion).is_ok(), "{conversion}");
    }
}

#[test]
fn an_endless_format_is_no_trouble() {
    let long = "x".repeat(3 << 20);
    let shown = said(&format!("{long}%q{long}"));
    assert!(shown.chars().count() < 300, "{} letters", shown.chars().count());
    assert!(shown.ends_with(&format!("{:35}^^", "")), "{shown}");
    assert!(said(&format!("%b{}", "9".repeat(1 << 20))).len() < 1000);
    let many = Format::parse(&"%f1".repeat(1 << 20)).expect("good");
    assert!(many.check(ALL).is_ok());
    assert!(Format::parse(&"%".repeat(1 << 20)).is_ok() && Format::parse(&"\\".repeat((1 << 20) + 1)).is_ok());
}

#[test]
fn a_ledger_refuses_what_it_does_not_have() {
    let refused = |text: &str, without: u32| {
        let options = Options(Options::ALL.0 & !without);
        let abilities = Abilities { options, ..ALL };
        Format::parse(text).expect("good").check(abilities).err().map(|error| error.to_string())
    };
    assert_eq!(refused("%p%n%s%a%W%m%o%T%t%h%N%b8%f1%w2%l3", 0), None);
    assert_eq!(refused("%p%n%s%a%W", u32::MAX), None);
    for (text, option, reason) in [
        ("%m", Options::ACTUAL_SIZE, "actual sizes are not recorded in this ledger\n  %m\n  ^^"),
        ("%o", Options::ACTUAL_SIZE, "actual sizes are not recorded in this ledger\n  %o\n  ^^"),
        ("x%T", Options::TIME, "times are not recorded in this ledger\n  x%T\n   ^^"),
        ("%t", Options::THREAD, "threads are not recorded in this ledger\n  %t\n  ^^"),
        ("%h", Options::THREAD, "threads are not recorded in this ledger\n  %h\n  ^^"),
        ("%N", Options::THREAD, "threads are not recorded in this ledger\n  %N\n  ^^"),
        ("%l1", Options::STACK, "call stacks are not recorded in this ledger\n  %l1\n  ^^^"),
        ("%f1 %f9.", 0, "this ledger has stacks of 8 levels at most\n  %f1 %f9.\n      ^^^"),
    ] {
        assert_eq!(refused(text, option).as_deref(), Some(reason));
    }
    let one = Abilities { depth_limit: 1, ..ALL };
    let error = Format::parse("%b2").expect("good").check(one).expect_err("too deep");
    assert_eq!(error.to_string(), "this ledger has stacks of 1 level at most\n  %b2\n  ^^^");
    let unknown = Abilities { depth_limit: 0, ..ALL };
    assert!(Format::parse("%b4000").expect("good").check(unknown).is_ok());
}

#[test]
fn what_must_be_looked_up() {
    let needs = |text: &str| {
        let format = Format::parse(text).expect("good");
        [format.needs_stack(), format.needs_names(), format.needs_source_text()]
    };
    assert_eq!(needs("%p %n"), [false; 3]);
    assert_eq!(needs("%b1"), [true, false, false]);
    assert_eq!(needs("%w3"), [true, true, false]);
    assert_eq!(needs("%l3"), [true; 3]);
}
