//! One line of a tree, made to fit.

use crate::Paint;
use crate::form::fit::width;

/// Columns that names have at least, with what stands before them.
pub(super) const NAMES_ROOM: usize = 20;
/// Columns that a name has at least.
const NAME_LEAST: usize = 10;

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

impl Line {
    pub(super) fn figures(&self) -> [&str; 3] {
        [&self.value, &self.share, &self.other]
    }
}

/// The columns of figures, and which of them are shown.
pub(super) struct FigureColumns {
    widths: [usize; 3],
    shown: [bool; 3],
}

impl FigureColumns {
    /// As wide as these lines need them. Where that leaves names no room, the share goes, then the third.
    pub(super) fn of(lines: &[Line], heads: [&str; 3], paint: Paint) -> FigureColumns {
        let mut widths = heads.map(width);
        for line in lines {
            for (widest, text) in widths.iter_mut().zip(line.figures()) {
                *widest = (*widest).max(width(text));
            }
        }
        let mut columns = FigureColumns { widths, shown: [true; 3] };
        for shown in [[true, false, true], [true, false, false]] {
            if paint.columns != 0 && !paint.full_names && columns.room(paint) < NAMES_ROOM {
                columns.shown = shown;
            }
        }
        columns
    }

    /// What they leave for the rest of a line.
    pub(super) fn room(&self, paint: Paint) -> usize {
        let shown = self.widths.iter().zip(self.shown).filter(|(_, is_shown)| *is_shown);
        let taken: usize = shown.map(|(width, _)| width + 1).sum();
        paint.columns.saturating_sub(taken + 1)
    }

    pub(super) fn aligned(&self, figures: [&str; 3]) -> String {
        let all = figures.into_iter().zip(self.widths).zip(self.shown);
        let shown = all.filter(|(_, is_shown)| *is_shown);
        shown.map(|((text, width), _)| format!("{text:>width$}")).collect::<Vec<_>>().join(" ")
    }

    /// Says which are not shown.
    pub(super) fn left_out(&self, heads: [&str; 3]) -> Option<String> {
        let without: Vec<&str> =
            heads.into_iter().zip(self.shown).filter(|(_, shown)| !shown).map(|(head, _)| head).collect();
        (!without.is_empty())
            .then(|| format!("(no room for {}: a wider terminal or a pipe shows all)", without.join(", ")))
    }
}

/// What stands before a line's names; where it would leave them no room, how deep the line lies instead of the lines
/// of all levels.
pub(super) fn within(prefix: &str, room: usize, paint: Paint) -> String {
    let levels: Vec<char> = prefix.chars().collect();
    let Some((before, mark)) = levels.split_last_chunk::<2>() else { return prefix.to_owned() };
    if paint.full_names || room == usize::MAX || levels.len() + NAME_LEAST <= room {
        return prefix.to_owned();
    }
    format!("{}{} {}", paint.signs().ellipsis, before.len() / 2, String::from_iter(mark))
}

/// The names of a line, and what comes behind, in at most `room` columns. What is furthest from the
/// allocation goes first: with callers first the middle of a chain, upside down its end. Then goes what comes behind, then a
/// part of the name.
pub(super) fn fitted(line: &Line, inverted: bool, room: usize, paint: Paint) -> (String, String) {
    let arrow = if inverted { " ← " } else { " → " };
    let room = room.saturating_sub(width(&within(&line.prefix, room, paint)));
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

    #[test]
    fn figures_give_way_to_names() {
        let mut one = line(&["main"], "");
        (one.value, one.share, one.other) = ("48.8 KiB".to_owned(), "40.0%".to_owned(), "1,336".to_owned());
        let heads = ["live bytes", "share", "blocks"];
        for (columns, full_names, shown, note) in [
            (0, false, "  48.8 KiB 40.0%  1,336", ""),
            (45, false, "  48.8 KiB 40.0%  1,336", ""),
            (44, false, "  48.8 KiB  1,336", "(no room for share: a wider"),
            (38, false, "  48.8 KiB", "(no room for share, blocks: a wider"),
            (38, true, "  48.8 KiB 40.0%  1,336", ""),
        ] {
            let paint = Paint { columns, full_names, ..Paint::default() };
            let figures = FigureColumns::of(std::slice::from_ref(&one), heads, paint);
            assert_eq!(figures.aligned(one.figures()), shown, "{columns}");
            assert!(figures.left_out(heads).unwrap_or_default().starts_with(note), "{columns}");
            assert_eq!(figures.left_out(heads).is_none(), note.is_empty(), "{columns}");
        }
    }

    #[test]
    fn deep_lines_keep_their_names() {
        let paint = Paint { columns: 40, ..Paint::default() };
        let deep = format!("{}├ ", "│ ".repeat(14));
        assert_eq!(within(&deep, 20, paint), "…14 ├ ");
        assert_eq!(within(&deep, 20, Paint { ascii: true, ..paint }), "...14 ├ ");
        assert_eq!(within(&deep, 40, paint), deep);
        assert_eq!(within(&deep, 20, Paint { full_names: true, ..paint }), deep);
        assert_eq!(within("│ ├ ", 20, paint), "│ ├ ");
        let line = Line { prefix: deep, ..line(&["recurse"], "") };
        assert_eq!(fitted(&line, false, 20, paint).0, "recurse");
    }
}
