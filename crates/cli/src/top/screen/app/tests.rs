//! Keys, and what they change on the screen.

use super::super::super::testing::{Made, view};
use super::*;

fn app() -> App {
    let mut made = Made::new();
    made.block(0, 0, 100).block(1, 1, 50).block(2, 0, 400).look(false).block(1, 1, 7).look(false);
    let mut app = App::new(view(), Duration::from_secs(1), Paint::default());
    app.readings = made.readings;
    app.update(100);
    app.scroll(10);
    app
}

fn press(app: &mut App, keys: &str) -> Option<Action> {
    let mut last = None;
    for letter in keys.chars() {
        let code = match letter {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            '\t' => KeyCode::Tab,
            letter => KeyCode::Char(letter),
        };
        last = app.key(KeyEvent::new(code, KeyModifiers::NONE));
        app.update(100);
        app.scroll(app.room);
    }
    last
}

fn control(app: &mut App, letter: char) -> Option<Action> {
    app.key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL))
}

fn table(app: &App) -> &TablePage {
    match app.pages.last() {
        Some(Page::Table(page)) => page,
        other => panic!("no table: {other:?}"),
    }
}

fn labels(app: &App) -> Vec<&str> {
    app.rows.iter().map(|(_, row)| row.label.as_str()).collect()
}

#[test]
fn groups_have_numbers_and_follow_each_other() {
    let mut app = app();
    press(&mut app, "3");
    assert_eq!(table(&app).view.by, Field::Thread);
    press(&mut app, "\t\t\t\t");
    assert_eq!(table(&app).view.by, Field::Function);
    app.key(KeyEvent::new(KeyCode::BackTab, KeyModifiers::SHIFT));
    assert_eq!(table(&app).view.by, Field::Kind);
}

#[test]
fn order_goes_through_the_columns_that_are_shown() {
    let mut app = app();
    let mut seen = Vec::new();
    for _ in 0..=app.columns.len() {
        press(&mut app, "s");
        seen.push(table(&app).view.order);
    }
    assert_eq!(
        seen,
        [
            Some(RowFigure::Blocks),
            Some(RowFigure::Rate),
            Some(RowFigure::Growth),
            Some(RowFigure::Oldest),
            None,
            Some(RowFigure::Bytes)
        ]
    );
    press(&mut app, "<");
    assert_eq!(table(&app).view.order, None);
    press(&mut app, "3a");
    assert_eq!(table(&app).view.order, Some(RowFigure::Allocated));
    press(&mut app, "1r");
    assert_eq!((table(&app).view.order, table(&app).view.reverse), (Some(RowFigure::Bytes), true));
}

#[test]
fn enter_leads_to_stacks_and_then_to_a_stack_and_escape_back() {
    let mut app = app();
    assert_eq!(labels(&app), ["program (no symbols)", "library.so (no symbols)"]);
    assert_eq!(press(&mut app, "j\n"), None);
    assert_eq!(labels(&app), ["library.so+0x10 < program+0x20", "library.so+0x10 < program+0x30"]);
    assert_eq!(table(&app).title, ["function library.so (no symbols)"]);
    let site = match app.rows[1].0 {
        RowId::Site(site) => site,
        other => panic!("{other:?}"),
    };
    assert_eq!(press(&mut app, "j\n"), Some(Action::Stack(site)));
    assert!(matches!(app.pages.last(), Some(Page::Stack { site: shown, .. }) if *shown == site));
    assert_eq!(press(&mut app, "3/x"), None, "a stack has no groups and no filter");
    press(&mut app, "\x1b");
    assert_eq!(app.typing, None);
    press(&mut app, "\x1b\x1b\x1b\x1b");
    assert_eq!(app.pages.len(), 1);
    assert_eq!(labels(&app), ["program (no symbols)", "library.so (no symbols)"]);
}

#[test]
fn the_cursor_stays_on_its_row_and_at_the_top() {
    let mut app = app();
    press(&mut app, "j");
    assert_eq!(table(&app).cursor, 1);
    press(&mut app, "r");
    assert_eq!(table(&app).cursor, 0, "it went with its row");
    press(&mut app, "r");
    assert_eq!(table(&app).cursor, 1);
    press(&mut app, "g");
    press(&mut app, "r");
    assert_eq!(table(&app).cursor, 0, "at the top one sees what is at the top");
    press(&mut app, "Gj");
    assert_eq!(table(&app).cursor, 1);
    app.scroll(1);
    assert_eq!(table(&app).offset, 1);
    press(&mut app, "k");
    app.scroll(1);
    assert_eq!(table(&app).offset, 0);
}

#[test]
fn a_filter_is_typed() {
    let mut app = app();
    press(&mut app, "/libq");
    assert_eq!(app.typing.as_ref().map(|typing| typing.text.as_str()), Some("libq"), "q does not quit here");
    app.key(KeyEvent::new(KeyCode::Backspace, KeyModifiers::NONE));
    press(&mut app, "\n");
    assert_eq!(labels(&app), ["library.so (no symbols)"]);
    press(&mut app, "/zzz\x1b");
    assert_eq!(labels(&app), ["library.so (no symbols)"], "what was dropped changes nothing");
    press(&mut app, "\x1b");
    assert_eq!(app.rows.len(), 2);
}

#[test]
fn a_condition_is_typed_and_a_wrong_one_is_told() {
    let mut app = app();
    assert_eq!(press(&mut app, "fsise >= 4K\n"), None);
    assert!(app.typing.is_some(), "it can be mended");
    assert!(app.said.as_deref().is_some_and(|said| said.contains("'sise'")), "{:?}", app.said);
    control(&mut app, 'u');
    assert_eq!(app.said, None);
    let expected = Filter::parse("size >= 4K").expect("right");
    assert_eq!(press(&mut app, "size >= 4K\n"), Some(Action::Order(Order::Where(expected))));
    assert_eq!(press(&mut app, "f\n"), Some(Action::Order(Order::Where(Filter::all()))));
    assert_eq!(app.typing, None);
}

#[test]
fn escape_drops_the_filter_and_then_the_condition() {
    let mut app = app();
    app.readings.condition = "thread == 99".to_owned();
    press(&mut app, "/libq\n");
    assert_eq!(press(&mut app, "\x1b"), None);
    assert_eq!(table(&app).view.filter, "");
    assert_eq!(press(&mut app, "\x1b"), Some(Action::Order(Order::Where(Filter::all()))));
    app.readings.condition.clear();
    assert_eq!(press(&mut app, "\x1b"), None);
}

#[test]
fn orders_for_the_reader() {
    let mut app = app();
    assert_eq!(press(&mut app, "m"), Some(Action::Order(Order::Mark)));
    assert!(app.marking);
    assert_eq!(press(&mut app, "M"), Some(Action::Order(Order::Unmark)));
    assert!(!app.marking);
    assert_eq!(press(&mut app, "p"), Some(Action::Order(Order::Pause(true))));
    assert_eq!(press(&mut app, "p"), Some(Action::Order(Order::Pause(false))));
    assert_eq!(press(&mut app, "+"), Some(Action::Order(Order::Interval(Duration::from_secs(2)))));
    for _ in 0..30 {
        press(&mut app, "-");
    }
    assert_eq!(app.interval, Duration::from_millis(100));
    for _ in 0..30 {
        press(&mut app, "+");
    }
    assert_eq!(app.interval, Duration::from_secs(120));
    assert_eq!(press(&mut app, "q"), Some(Action::Quit));
    assert_eq!(control(&mut app, 'c'), Some(Action::Quit));
    assert_eq!(control(&mut app, 'z'), Some(Action::Suspend));
}

#[test]
fn nothing_can_be_marked_that_has_ended() {
    let mut app = app();
    app.readings.ending = Some("ended with status 0".to_owned());
    assert_eq!(press(&mut app, "m"), None);
}

#[test]
fn help_is_left_with_any_key() {
    let mut app = app();
    press(&mut app, "?x");
    assert_eq!(app.help, None);
    assert_eq!(press(&mut app, "hq"), Some(Action::Quit));
    assert_eq!(control(&mut app, 'c'), Some(Action::Quit));
}

#[test]
fn each_site_is_named_once_and_the_greatest_first() {
    let mut app = app();
    let sites = app.sites_to_name();
    assert_eq!(sites.len(), 3);
    assert_eq!(app.readings.names.site(sites[0]).map(|name| app.readings.names.label(name.line)), Some("program+0x40"));
    assert_eq!(app.sites_to_name(), []);
}

#[test]
fn any_key_anywhere_is_harmless() {
    let mut app = app();
    let codes = [
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::Tab,
        KeyCode::BackTab,
        KeyCode::Backspace,
        KeyCode::Left,
        KeyCode::Delete,
        KeyCode::Null,
    ];
    let mut seed = 7u64;
    for _ in 0..20_000 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let code = match (seed >> 33) % 3 {
            0 => codes[(seed >> 40) as usize % codes.len()],
            _ => KeyCode::Char(char::from(32 + ((seed >> 40) % 95) as u8)),
        };
        let modifiers = if seed >> 60 == 0 { KeyModifiers::CONTROL } else { KeyModifiers::NONE };
        app.key(KeyEvent::new(code, modifiers));
        app.update(20 + (seed >> 50) as u16 % 100);
        app.scroll((seed >> 45) as usize % 30);
        assert!(app.pages.len() < 100);
    }
}
