//! Names of functions where there is room for one line only.

use std::borrow::Cow;

/// A C++ or Rust function without what it is instantiated with and what it takes:
/// `std::vector<…>::push_back` of `std::vector<int, std::allocator<int> >::push_back(int const&)`.
pub(crate) fn brief(name: &str) -> Cow<'_, str> {
    if !name.contains(['<', '(']) {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    let mut behind_operator = false;
    while let Some(letter) = rest.chars().next() {
        let in_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        let behind_name = out.ends_with(|last: char| in_name(last) || last == '>') || behind_operator;
        let whole = rest.starts_with("(anonymous namespace)").then_some("(anonymous namespace)".len());
        let operator = operator(rest).filter(|_| !out.ends_with(in_name));
        let skipped = match letter {
            _ if whole.is_some() || !behind_name => None,
            '<' if behind_operator => None,
            '<' | '(' => enclosed(rest),
            _ => None,
        };
        behind_operator = operator.is_some();
        let length = skipped.or(whole).or(operator).unwrap_or(letter.len_utf8());
        let (now, then) = rest.split_at(length);
        out.push_str(match (skipped, letter) {
            (Some(_), '<') => "<…>",
            (Some(_), _) => "",
            (None, _) => now,
        });
        rest = then;
    }
    Cow::Owned(out)
}

/// The length of `operator` and the signs that belong to it, if `text` begins with that.
fn operator(text: &str) -> Option<usize> {
    const WORD: &str = "operator";
    let signs = text.strip_prefix(WORD)?;
    let length = match signs {
        _ if signs.starts_with("()") => 2,
        _ => signs.len() - signs.trim_start_matches(|letter| "<>=!+-*/%^&|~,[]".contains(letter)).len(),
    };
    (length != 0).then_some(WORD.len() + length)
}

/// The length of what stands in the brackets with which `text` begins, both included; `None` if they do not match.
fn enclosed(text: &str) -> Option<usize> {
    let mut open = Vec::new();
    let mut last = ' ';
    for (at, letter) in text.char_indices() {
        match letter {
            '<' | '(' | '[' | '{' => open.push(letter),
            // `->` closes nothing.
            '>' if last == '-' => {}
            '>' | ')' | ']' | '}' => {
                let expected = match letter {
                    '>' => '<',
                    ')' => '(',
                    ']' => '[',
                    _ => '{',
                };
                if open.pop() != Some(expected) {
                    return None;
                }
                if open.is_empty() {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        last = letter;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_left_out() {
        for (name, short) in [
            ("main", "main"),
            ("store::place(std::string const&)", "store::place"),
            ("std::vector<int, std::allocator<int> >::push_back(int const&)", "std::vector<…>::push_back"),
            ("void f<char*>(char*, std::map<int, int>)", "void f<…>"),
            ("a::(anonymous namespace)::b(int)", "a::(anonymous namespace)::b"),
            ("A::operator()(int) const", "A::operator() const"),
            ("operator<<(std::ostream&, A<int> const&)", "operator<<"),
            ("bool operator< <int>(A<int> const&)", "bool operator< <int>"),
            ("A<(B)1>::f() [clone .isra.0]", "A<…>::f [clone .isra.0]"),
            ("A::operator->() const", "A::operator-> const"),
            ("operator new(unsigned long)", "operator new"),
            ("my_operator(int)", "my_operator"),
            ("größe<int>(int)", "größe<…>"),
            ("f(int)::{lambda(char)#1}::operator()(char) const", "f::{lambda#1}::operator() const"),
            ("A<decltype(x->y)>::g", "A<…>::g"),
            ("<alloc::vec::Vec<u8> as core::clone::Clone>::clone", "<alloc::vec::Vec<…> as core::clone::Clone>::clone"),
            (
                "core::ops::function::FnOnce::call_once{{vtable.shim}}",
                "core::ops::function::FnOnce::call_once{{vtable.shim}}",
            ),
            ("void (*get(int))(char)", "void (*get)(char)"),
            ("broken<(", "broken<("),
            ("", ""),
        ] {
            assert_eq!(brief(name), short, "{name}");
        }
    }
}
