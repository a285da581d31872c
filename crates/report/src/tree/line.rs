//! One line of a tree, made to fit.

use crate::Paint;
use crate::form::fit::width;

/// A line before it is known how wide the columns are.
pub(super) struct Line {
    pub(super) value: String,
    pub(super) share: String,
    pub(super) other: String,
    pub(super) prefix: String,
    /// Functions of a chain, outermost of the tree first.
    pub(super) names: Vec<String>,
    /// What comes behind them, with the space before it.
    pub(super) tail: String,
}

/// The names of a line, and what comes behind, in at most `room` columns. What is furthest from the
/// allocation goes first: with callers first the middle of a chain, upside down its end. Then goes what comes behind, then a
/// part of the name.
pub(super) fn fitted(line: &Line, inverted: bool, room: usize, paint: Paint) -> (String, String) {
    let arrow = if inverted { " ← " } else { " → " };
    let room = room.saturating_sub(width(&line.prefix));
    let printed = |text: &str| paint.printed(text).into_owned();
    let tail = printed(&line.tail);
    let names: Vec<String> = line.names.iter().map(|name| printed(name)).collect();
    // Names that are wanted whole are not cut.
    if paint.full_names || width(&names.join(arrow)).saturating_add(width(&tail)) <= room {
        return (names.join(arrow), tail);
    }
    let near = if inverted { names.first() } else { names.last() };
    let near = near.map_or("", String::as_str);
    for tail in [tail.as_str(), ""] {
        if let Some(names) = shortened(&names, inverted, arrow, room.saturating_sub(width(tail)), paint) {
            return (names, tail.to_owned());
        }
    }
    (paint.cut(near, room.max(8)), String::new())
}

/// A chain of which a part is left out; `None` if not even the name nearest to the allocation fits.
fn shortened(names: &[String], inverted: bool, arrow: &str, room: usize, paint: Paint) -> Option<String> {
    let more = paint.signs().ellipsis;
    if inverted {
        return (1..names.len().max(2)).rev().find_map(|kept| {
            let left_out = names.len().saturating_sub(kept);
            let gap = (left_out > 0).then(|| format!("{more} {left_out} {more}"));
            let parts: Vec<&str> = names.iter().take(kept).chain(gap.as_ref()).map(String::as_str).collect();
            Some(parts.join(arrow)).filter(|text| width(text) <= room)
        });
    }
    let (last, before) = names.split_last()?;
    if before.is_empty() {
        return (width(last) <= room).then(|| last.clone());
    }
    // The first name if it can be had, then as many of the last ones as fit.
    for head in [before.first(), None] {
        let between = before.get(usize::from(head.is_some())..).unwrap_or(&[]);
        for skipped in 0..=between.len() {
            let gap = (skipped > 0).then(|| format!("{more} {skipped} {more}"));
            let rest = between.get(skipped..).unwrap_or(&[]).iter().chain([last]);
            let parts: Vec<&str> = head.into_iter().chain(gap.as_ref()).chain(rest).map(String::as_str).collect();
            let text = parts.join(arrow);
            if width(&text) <= room {
                return Some(text);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(names: &[&str], tail: &str) -> Line {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let [value, share, other] = [String::new(), String::new(), String::new()];
        Line { value, share, other, prefix: "├ ".to_owned(), names, tail: tail.to_owned() }
    }

    #[test]
    fn a_chain_loses_its_middle_first() {
        let long = line(&["_start", "main", "parse", "parse_value", "xmalloc"], "  xmalloc.c:7");
        let fit = |room| {
            let (names, tail) = fitted(&long, false, room, Paint::default());
            assert!(width(&names) + width(&tail) + 2 <= room.max(10), "{room}: {names}{tail}");
            format!("{names}{tail}")
        };
        assert_eq!(fit(usize::MAX), "_start → main → parse → parse_value → xmalloc  xmalloc.c:7");
        assert_eq!(fit(60), "_start → main → parse → parse_value → xmalloc  xmalloc.c:7");
        assert_eq!(fit(59), "_start → … 2 … → parse_value → xmalloc  xmalloc.c:7");
        assert_eq!(fit(52), "_start → … 3 … → xmalloc  xmalloc.c:7");
        assert_eq!(fit(40), "_start → … 3 … → xmalloc  xmalloc.c:7");
        assert_eq!(fit(33), "… 4 … → xmalloc  xmalloc.c:7");
        assert_eq!(fit(20), "… 4 … → xmalloc");
        assert_eq!(fit(10), "xmalloc");
        for room in 10..70 {
            fit(room);
        }
        let up = |room| fitted(&line(&["xmalloc", "parse", "main", "_start"], "  in x"), true, room, Paint::default());
        assert_eq!(up(40).0, "xmalloc ← parse ← main ← _start");
        assert_eq!(up(35), ("xmalloc ← parse ← … 2 …".to_owned(), "  in x".to_owned()));
        assert_eq!(up(20), ("xmalloc ← … 3 …".to_owned(), String::new()));
        assert_eq!(up(10).0, "xmalloc");
        let template = line(&["std::vector<…>::push_back"], "  stl.h:1");
        let fit = |room, ascii| fitted(&template, false, room, Paint { ascii, ..Paint::default() });
        assert_eq!(fit(40, false), ("std::vector<…>::push_back".to_owned(), "  stl.h:1".to_owned()));
        assert_eq!(fit(20, false), ("std::vector<…>::p…".to_owned(), String::new()));
        assert_eq!(fit(38, true), ("std::vector<...>::push_back".to_owned(), "  stl.h:1".to_owned()));
        assert_eq!(fit(20, true), ("std::vector<...".to_owned() + "...", String::new()));
    }
}
