//! What a page shows, held against what was printed: the same words, whatever the figures.

/// What stands for anything that is left out, within a line; alone on a line, for any number of lines.
const LEFT_OUT: char = '…';

/// The first line that is shown and was not printed, in the order in which they are shown. Lines between may be left out.
pub fn missing<'a>(shown: &'a str, printed: &str) -> Option<&'a str> {
    let mut lines = printed.lines();
    // A line of sparks is there only if somebody could look often enough while the program ran.
    let has_sparks = |line: &str| line.contains(|letter| ('▁'..='█').contains(&letter));
    let wanted = shown.lines().filter(|line| !line.trim().is_empty() && line.trim() != "…" && !has_sparks(line));
    wanted.into_iter().find(|line| !lines.any(|printed| alike(line, printed)))
}

/// Whether a printed line is one that is shown.
pub fn alike(shown: &str, printed: &str) -> bool {
    let [shown, printed] = [shown, printed].map(without_figures);
    // What the terminal's width made us leave out stands for itself.
    shown == printed || parts_in_order(&shown, &printed)
}

/// Whether all that stands between marks of what is left out is there, from the first letter to the last.
fn parts_in_order(shown: &str, printed: &str) -> bool {
    let parts: Vec<&str> = shown.split(LEFT_OUT).map(str::trim).collect();
    let [first, middle @ .., last] = parts.as_slice() else { return false };
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// A text without the places in sources of its functions, ` (server.cc:21)`. The summary of a run has them only if they were found in the
/// time that it gives itself, which it may not have beside other tests.
pub fn without_places(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(" (") {
        out += before;
        let place = behind.split_once(')').filter(|(inside, _)| {
            let (file, line) = inside.rsplit_once(':').unwrap_or_default();
            !file.is_empty() && !file.contains(' ') && line.chars().all(|letter| letter.is_ascii_digit())
        });
        rest = match place {
            Some((_, after)) => after,
            None => {
                out += " (";
                behind
            }
        };
    }
    out + rest
}

/// A line in which figures with their units and addresses are each one sign, and spaces one space.
fn without_figures(line: &str) -> String {
    // `≥` is a part of the figure: whether one is known exactly depends on which stacks could be named in time.
    let words: Vec<String> = line.split_whitespace().filter(|word| *word != "≥").map(without_figure).collect();
    let mut out: Vec<&str> = Vec::new();
    for word in &words {
        let is_unit = ["B", "KiB", "MiB", "GiB", "ns", "µs", "ms", "s", "min", "h"]
            .contains(&word.trim_end_matches([',', ';', ':']));
        let behind_figure = out.last().is_some_and(|last| last.ends_with('#'));
        if is_unit && behind_figure {
            // `1.5 KiB,` keeps its comma.
            let signs = word.trim_start_matches(|letter: char| letter.is_alphabetic());
            if !signs.is_empty() {
                out.push(signs);
            }
        } else {
            out.push(word);
        }
    }
    out.join(" ")
        .replace("# ,", "#,")
        .replace("# ;", "#;")
        .replace("# :", "#:")
        .replace("blocks", "block")
        .replace("calls", "call")
}

fn without_figure(word: &str) -> String {
    let mut out = String::new();
    let mut letters = word.chars().peekable();
    while let Some(letter) = letters.next() {
        // `vec3`, `libstdc++`, hashes: figures in a name are a part of it.
        let in_name =
            out.chars().rev().take_while(|last| last.is_alphanumeric() || *last == '_').any(char::is_alphabetic);
        if letter == '0' && letters.peek() == Some(&'x') {
            letters.next();
            while letters.next_if(char::is_ascii_hexdigit).is_some() {}
            out.push('#');
        } else if letter.is_ascii_digit() && !in_name {
            loop {
                // `1,234.5%` is one figure, and a full stop behind it is none of it.
                let mut ahead = letters.clone();
                let next = ahead.next();
                let goes_on = match next {
                    Some(',' | '.') => ahead.next().is_some_and(|digit| digit.is_ascii_digit()),
                    Some(next) => next.is_ascii_digit() || next == '%',
                    None => false,
                };
                if !goes_on {
                    break;
                }
                letters.next();
            }
            out.push('#');
        } else {
            out.push(letter);
        }
    }
    // `+#` and `-#`, `>#` and `≥ #`: how much, and nothing else.
    for sign in ["+#", "-#", ">#", "<#", "~#"] {
        out = out.replace(sign, "#");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_may_be_others_and_words_may_not() {
        assert!(alike("  allocated    124,023 blocks, 25.1 MiB in all", "  allocated 9 blocks, 3 B in all"));
        assert!(alike("heapledger.shop.16334.hl (31.8 KiB)", "heapledger.shop.7.hl (1 KiB)"));
        assert!(alike("peak 20.9 MiB, after 42.7 ms; held by:", "peak 4 B, after 1.2 s; held by:"));
        assert!(alike("most calls 100,000 (80.6%) a (b.c:26)", "most calls 7 (>99.9%) a (b.c:26)"));
        assert!(alike("at 0x55f0, in 1 block", "at 0x7ff1, in 2 blocks"));
        assert!(alike("  ≥ 3 B in 2 blocks  a", "  4 B in 2 blocks  a"));
        assert!(!alike("live 3 B in 2 blocks", "peak 3 B in 2 blocks"));
        assert!(!alike("held by leak (a.c)", "held by spike (a.c)"));
        assert!(alike("x.gdb in 5. times", "x.gdb in 61. times") && !alike("ab12.gdb", "ab12gdb"));
        assert!(!alike("vec3 holds", "vec4 holds"), "a figure in a name is a part of it");
    }

    #[test]
    fn what_is_left_out_is_any_text() {
        assert!(alike("leak (a.c:3) < … < main", "leak (a.c:3) < make < take < main"));
        assert!(alike("leak (a.c:3) < …", "leak (a.c:3) < make"));
        assert!(!alike("leak … main", "leak make"));
        assert!(!alike("… main", "leak make"));
    }

    #[test]
    fn places_are_left_out_and_nothing_else() {
        assert_eq!(without_places("a (b.c:3) < d (e.c:4) (guessed)"), "a < d (guessed)");
        assert_eq!(without_places("9 blocks (80.6%) a (b c:3)"), "9 blocks (80.6%) a (b c:3)");
        assert_eq!(without_places("a (b"), "a (b");
    }

    #[test]
    fn lines_come_in_order() {
        let printed = "one 1\ntwo 2\nthree 3\n";
        assert_eq!(missing("one 7\n…\nthree 9\n", printed), None);
        assert_eq!(missing("three 9\none 7\n", printed), Some("one 7"));
        assert_eq!(missing("four 4\n", printed), Some("four 4"));
        assert_eq!(missing("one 1\nover time ▁▃▁\ntwo 2\n", printed), None);
    }
}
