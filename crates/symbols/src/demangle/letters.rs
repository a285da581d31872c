//! Letters beyond ASCII in mangled C++ names, which compilers write there as UTF-8.
//!
//! The demangler ends a name at the first of them. So each run of them is written as one of as many bytes, `$` and a letter
//! at the end, and put back in what is printed.

/// What a run ends in: each stands for another one of the same length.
const MARKS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The runs of a name, in the order in which they come first.
pub(super) struct Runs<'n>(Vec<&'n str>);

/// The name in ASCII; `None` if it is already, or if it has more different runs than there are marks.
pub(super) fn replaced(mangled: &str) -> Option<(String, Runs<'_>)> {
    if mangled.is_ascii() || mangled.contains('$') {
        return None;
    }
    let mut runs = Runs(Vec::new());
    let mut out = String::with_capacity(mangled.len());
    let mut rest = mangled;
    while let Some(letter) = rest.chars().next() {
        let is_ascii = letter.is_ascii();
        let end = rest.find(|other: char| other.is_ascii() != is_ascii).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        if is_ascii {
            out.push_str(run);
        } else {
            let mark = *MARKS.get(runs.number(run))?;
            out.extend(std::iter::repeat_n('$', run.len() - 1));
            out.push(char::from(mark));
        }
        rest = after;
    }
    Some((out, runs))
}

impl<'n> Runs<'n> {
    fn number(&mut self, run: &'n str) -> usize {
        self.0.iter().position(|known| *known == run).unwrap_or_else(|| {
            self.0.push(run);
            self.0.len() - 1
        })
    }

    /// What was printed of the name in ASCII, with the letters as they were.
    pub(super) fn put_back(&self, printed: &str) -> String {
        let mut out = String::with_capacity(printed.len());
        let mut rest = printed;
        while let Some(at) = rest.find('$') {
            let (before, marked) = rest.split_at(at);
            out.push_str(before);
            let letters = marked.trim_start_matches('$');
            let length = marked.len() - letters.len() + 1;
            let number = letters.bytes().next().and_then(|mark| MARKS.iter().position(|known| *known == mark));
            match number.and_then(|number| self.0.get(number)).filter(|run| run.len() == length) {
                Some(run) => {
                    out.push_str(run);
                    rest = marked.get(length..).unwrap_or_default();
                }
                // (Cut short.)
                None => {
                    out.push_str(marked.get(..length - 1).unwrap_or_default());
                    rest = letters;
                }
            }
        }
        out.push_str(rest);
        out
    }
}
