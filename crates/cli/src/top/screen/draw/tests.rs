//! The screen as text, in several sizes.

use heapledger_report::Paint;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;

use super::super::super::testing::{Made, view};
use super::*;

fn app(made: Made) -> App {
    let mut app = App::new(view(), Duration::from_secs(1), Paint::default());
    app.readings = made.readings;
    app
}

fn made() -> Made {
    let mut made = Made::new();
    made.block(0, 0, 1000).block(1, 1, 500).look(false).block(2, 0, 4_000_000).look(false).block(1, 1, 7).look(false);
    made
}

fn screen(app: &mut App, width: u16, height: u16, theme: Theme) -> Vec<String> {
    app.update(width);
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw(frame, app, theme)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

fn press(app: &mut App, keys: &str) {
    for letter in keys.chars() {
        let code = if letter == '\n' { KeyCode::Enter } else { KeyCode::Char(letter) };
        app.key(KeyEvent::new(code, KeyModifiers::NONE));
        app.update(80);
    }
}

#[test]
fn a_usual_screen() {
    let lines = screen(&mut app(made()), 80, 24, Theme::default());
    let expected = "\
made-up, pid 4711  running  1m02s                                      every 1 s
live 3.82 MiB in 4 blocks  peak 3.82 MiB
growth +1.91 MiB/s  1 allocation/s  0 frees/s
                                                                ▇█ 3.82 MiB
                                                                ██ last 60 s
                                                               ▁██ 1.46 KiB
 1 function  2 stack  3 thread  4 file  5 module  6 kind
   LIVE▼     BLOCKS   GROWTH/s      GROWN  FUNCTION
3.81 MiB          1  +1.91 MiB  +3.81 MiB  program (no symbols)
1.47 KiB          3       +4 B       +7 B  library.so (no symbols)
";
    let shown = lines[..lines.len() - 1].join("\n");
    assert_eq!(shown.trim_end(), expected.trim_end(), "\n{shown}");
    assert_eq!(lines[23], "Enter stacks  m mark  / filter  s sort  p pause  ? help  q quit");
}

#[test]
fn exact_bytes_have_room_on_the_screen() {
    let mut app = app(made());
    app.paint.exact_bytes = true;
    for width in [80, 120] {
        let lines = screen(&mut app, width, 24, Theme::default());
        let shown = lines.join("\n");
        assert!(lines[1].starts_with("live 4,001,507 B in 4 blocks  peak 4,001,507 B"), "{shown}");
        assert!(lines[2].starts_with("growth +2,000,004 B/s  "), "{shown}");
        assert!(lines[3].ends_with(" 4,001,507 B") && !shown.contains("iB"), "{shown}");
        assert!(shown.contains("\n     4,000,000          1 ") && shown.contains("  program (no symbols)"), "{shown}");
        assert_eq!(shown.contains(" OLDEST"), width == 120, "{shown}");
    }
}

#[test]
fn without_colour_and_letters_the_same_is_told() {
    let ascii = Theme { color: false, ascii: true };
    let mut app = app(made());
    for keys in ["", "\n", "\n", "?", "x/größe"] {
        press(&mut app, keys);
        for line in screen(&mut app, 100, 30, ascii) {
            assert!(line.is_ascii(), "{keys:?}: {line}");
        }
    }
}

#[test]
fn every_size_is_drawn() {
    let mut app = app(made());
    for keys in ["", "/x", "\n", "?", "x", "\n", "\n"] {
        press(&mut app, keys);
        for (width, height) in [(1, 1), (2, 3), (20, 5), (19, 7), (40, 9), (80, 14), (80, 15), (300, 100)] {
            assert_eq!(screen(&mut app, width, height, Theme::default()).len(), usize::from(height));
        }
    }
}

#[test]
fn the_smallest_screen_shows_the_greatest_row() {
    let lines = screen(&mut app(made()), 20, 5, Theme::default());
    assert_eq!(lines[0], "made-up, pid 4711 ..");
    assert!(lines[1].starts_with("live 3.82 MiB in 4"), "{lines:?}");
    assert!(lines[3].starts_with("3.81 MiB  program "), "{lines:?}");
}

#[test]
fn figures_are_whole_and_the_way_out_is_told() {
    let mut app = app(made());
    let lines = screen(&mut app, 40, 10, Theme::default());
    assert_eq!(lines[0], "made-up, pid 4711  running  1m02s");
    assert_eq!(lines[1], "live 3.82 MiB in 4 blocks  peak 3.82 MiB");
    assert_eq!(lines[9], "Enter stacks  m mark    ? help  q quit".replace("    ?", "  ?"));
    for width in 10..90 {
        let lines = screen(&mut app, width, 10, Theme::default());
        for line in &lines[..3] {
            // No number loses its end, or its unit.
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_number = |word: &&str| word.trim_start_matches(['+', '-', '~']).parse::<f64>().is_ok();
            for (at, word) in words.iter().enumerate().filter(|(_, word)| is_number(word)) {
                assert!(["3.82", "+1.91", "4", "1", "0", "4711"].contains(word), "{width}: {line}");
                let unit = words.get(at + 1).is_some_and(|next| next.starts_with("MiB"));
                assert!(unit || !word.contains('.'), "{width}: {line}");
            }
        }
        assert!(width < 14 || lines[9].ends_with("? help  q quit"), "{width}: {}", lines[9]);
    }
}

#[test]
fn what_has_no_room_ends_behind_a_word() {
    let cut = |text: &str, room| {
        let pieces = whole_words(&[(text.to_owned(), Style::default())], room);
        pieces.into_iter().map(|(text, _)| text).collect::<String>()
    };
    assert_eq!(cut("not seen: 1,234 blocks were not entered", 30), "not seen: 1,234 blocks were ..");
    assert_eq!(cut("not seen: 1,234 blocks", 18), "not seen: 1,234 ..");
    assert_eq!(cut("not seen: 1,234 blocks", 14), "not seen: ..");
    assert_eq!(cut("live 3.82 MiB in 4 blocks", 12), "live ..");
    assert_eq!(cut("a_name_without_any_space", 10), "a_name_w..");
    assert_eq!(cut("live 1234567", 9), "live ..");
    assert_eq!(cut("123456", 3), " ..");
}

#[test]
fn nothing_that_a_condition_means_is_not_nothing_at_all() {
    let mut app = app(Made::new());
    app.readings.condition = "thread == 99".to_owned();
    let text = screen(&mut app, 80, 24, Theme::default()).join("\n");
    assert!(!text.contains("no blocks are live"), "{text}");
}

#[test]
fn a_stack_is_shown_frame_by_frame() {
    let mut app = app(made());
    press(&mut app, "2\n");
    assert!(screen(&mut app, 80, 24, Theme::default()).join("\n").contains("finding names"));
    let frame = |function: &str, line| heapledger_analysis::NamedFrame {
        function: Some(function.into()),
        file: Some("/src/leak.c".into()),
        line: Some(line),
        source: Some("\tkeep(malloc(n));".into()),
        ..Default::default()
    };
    let Some(Page::Stack { site, .. }) = app.pages.last() else { panic!("no stack") };
    let frames = vec![frame("keep_all", 17), frame("main", 3)];
    app.stacks.insert(*site, heapledger_analysis::NamedStack { frames, damaged: false });
    let lines = screen(&mut app, 80, 24, Theme::default());
    let at = lines.iter().position(|line| line == " 1) keep_all").expect("a frame");
    assert_eq!(lines[at + 1], "    /src/leak.c:17");
    assert_eq!(lines[at + 2], "        keep(malloc(n));");
    assert_eq!(lines[at - 2], "3.81 MiB in 1 block");
    assert!(lines[at - 1].starts_with("oldest 1m01s, newest 1m01s, growth +1.91 MiB/s"), "{}", lines[at - 1]);
}

#[test]
fn a_mark_a_loss_and_an_end_are_said() {
    let mut made = made();
    made.look(true).block(2, 0, 12).program.lost(2);
    made.look(false);
    let mut app = app(made);
    let text = screen(&mut app, 80, 24, Theme::default()).join("\n");
    assert!(text.contains("since the mark 1.00 s ago: 12 B in 1 block new and alive"), "{text}");
    assert!(text.contains("not seen: 2 blocks were not entered"), "{text}");
    assert!(text.contains("   NEW▼") && text.contains("M unmark"), "{text}");
    app.readings.ending = Some("killed by signal 9".to_owned());
    let text = screen(&mut app, 80, 24, Theme::default()).join("\n");
    assert!(
        text.lines().next().is_some_and(|line| line.starts_with("made-up, pid 4711  killed by signal 9")),
        "{text}"
    );
    assert!(!text.contains("every 1 s"), "nobody looks any more");
}

#[test]
fn slow_reading_is_said() {
    let mut made = made();
    made.look(false);
    let mut app = app(made);
    app.update(80);
    app.look.read_ns = 800_000_000;
    let pieces = pace(&app, Theme::default());
    assert_eq!(pieces[0].0, "every 1 s, table every 8 s");
}

#[test]
fn estimates_are_marked() {
    let mut made = Made::new();
    made.program.sampled();
    made.block(0, 0, 1000).look(false);
    let text = screen(&mut app(made), 80, 24, Theme::default()).join("\n");
    assert!(text.contains("live ~") && text.contains(" ~1."), "{text}");
}

#[test]
fn texts_are_cut_where_they_say_least() {
    assert_eq!(fit_end("/usr/lib/libfoo.so", 10), "..ibfoo.so");
    assert_eq!(fit_start("read_all_lines", 8), "read_a..");
    assert_eq!(fit_start("größe", 5), "größe");
    assert_eq!(fit_end("abc", 0), "..");
}
