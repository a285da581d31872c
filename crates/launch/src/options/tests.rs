//! What the recorder is given of what a person types.

use super::*;

#[test]
fn values_are_checked() {
    let read = |flag: &str, value: &str| {
        let option = OPTIONS.iter().find(|option| option.flag == flag).expect("an option");
        option.read(OsStr::new(value)).map(|value| value.to_string_lossy().into_owned())
    };
    assert_eq!(read("max-ledger", "4G").as_deref(), Ok("4294967296"));
    assert_eq!(read("without", "stack,time+stack").as_deref(), Ok("stack+time"));
    assert_eq!(read("unwind", "frame-pointers").as_deref(), Ok("frame-pointers"));
    assert_eq!(read("depth", "4096").as_deref(), Ok("4096"));
    assert_eq!(read("history", "67108864").as_deref(), Ok("67108864"));
    assert!(read("history", "67108865").is_err() && read("history", "+5").is_err());
    assert!(read("depth", "0").is_err());
    assert!(read("depth", "4097").is_err());
    assert!(read("history", "-1").is_err());
    assert!(read("without", "").is_err());
    assert!(read("unwind", "magic").is_err());
    assert_eq!(read("ledger-dir", "/a,b%").as_deref(), Ok("/a,b%"));
    for how in ["auto", "fast", "slow", "tables"] {
        assert_eq!(read("unwind", how).as_deref(), Ok(how));
    }
    assert_eq!(read("sample", "512K").as_deref(), Ok("524288"));
    assert_eq!(read("sample", "0").as_deref(), Ok("0"));
    assert_eq!(read("sample", "1T").as_deref(), Ok("1099511627776"));
    assert_eq!(read("fallback", "0").as_deref(), Ok("0"));
    assert_eq!(read("check-stacks", "1").as_deref(), Ok("1"));
    for (flag, value) in [
        ("sample", "1.1T"),
        ("sample", "often"),
        ("sample", "-1"),
        ("fallback", "4097"),
        ("fallback", "few"),
        ("check-stacks", "yes"),
        ("check-stacks", ""),
        ("reuse", "2"),
    ] {
        assert!(read(flag, value).is_err(), "{flag} {value}");
    }
}

#[test]
fn paths_with_separators_travel_through_the_variable() {
    let mut settings = Settings::default();
    settings.set(Key::Dir, OsString::from_vec(b"/a,b%2C\xFF=".to_vec()));
    assert_eq!(settings.variable().as_bytes(), b"dir=/a%2Cb%252C\xFF=");
    let mut again = Settings::default();
    assert!(again.add_environment(&settings.variable()).is_empty());
    assert_eq!(again, settings);
}

#[test]
fn labels_add_up_and_one_of_a_name_wins() {
    let mut settings = Settings::default();
    for label in ["service=api", "version=1", "version=1,2"] {
        settings.set(Key::Label, label.into());
    }
    assert!(settings.add_environment(OsStr::new("label=version=0,label=region=eu,label=service=x")).is_empty());
    assert_eq!(settings.variable(), "label=service=api,label=version=1%2C2,label=region=eu");
    assert_eq!(settings.add_environment(OsStr::new("label=nothing,label==x")).len(), 2);
    assert!(settings.labels_bytes() < session::LABELS_BYTES_MAX);
}

#[test]
fn flags_win_over_the_environment_and_unknown_keys_are_named() {
    let mut settings = Settings::default();
    settings.set(Key::Depth, "7".into());
    let odd = settings.add_environment(OsStr::new("depth=9,history=3,colour=red,unwind=no,session=1,pid=2"));
    assert_eq!(settings.get(Key::Depth), Some(OsStr::new("7")));
    assert_eq!(settings.get(Key::History), Some(OsStr::new("3")));
    assert_eq!(settings.get(Key::Session), None);
    assert_eq!(odd.len(), 2);
    assert!(odd[0].contains("colour") && odd[1].contains("unwind"));
    let odd = settings.add_environment(OsStr::new("sample=4096,unwind=slow,check-stacks=1,fallback=9,reuse=0"));
    assert!(odd.is_empty(), "{odd:?}");
    let set = [Key::Sample, Key::Unwind, Key::CheckStacks, Key::Fallback, Key::Reuse].map(|key| settings.get(key));
    assert_eq!(set, ["4096", "slow", "1", "9", "0"].map(|value| Some(OsStr::new(value))));
    assert_eq!(settings.add_environment(OsStr::new("check-stacks")).len(), 1, "a key without a value");
}

#[test]
fn help_tells_the_limits_and_defaults_that_the_recorder_has() {
    let help = |key| OPTIONS.iter().find(|option| option.key == key).expect("an option").help;
    for (key, default) in [
        (Key::History, session::HISTORY_ENTRIES),
        (Key::Depth, session::DEPTH_LIMIT),
        (Key::Fallback, session::FALLBACK),
    ] {
        assert!(help(key).ends_with(&format!("[default: {default}]")), "{}", key.name());
    }
    assert!(help(Key::History).contains(&format!("at most {HISTORY_ENTRIES_MAX} and")));
    for (part, _) in session::PARTS {
        assert!(help(Key::Without).contains(part), "{part}");
    }
    for how in session::unwind::ALL {
        assert!(help(Key::Unwind).contains(how), "{how}");
    }
    for key in Key::ALL.into_iter().filter(|key| !key.is_of_one_process()) {
        assert_eq!(OPTIONS.iter().filter(|option| option.key == key).count(), 1, "{}", key.name());
    }
}
