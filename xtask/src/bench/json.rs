//! As much of JSON as reading the program's own reports takes: numbers, by their path of names.

/// The number of a line of JSON that is at `path`, such as `ledger.bytes`. Elements of lists have no names.
pub(super) fn number(line: &str, path: &str) -> Option<f64> {
    // Names of the objects and lists that the place read is inside of; the outermost one has none.
    let mut inside: Vec<&str> = Vec::new();
    let mut name = "";
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        rest = match first {
            '{' | '[' => {
                inside.push(std::mem::take(&mut name));
                &rest[1..]
            }
            '}' | ']' | ',' => {
                name = "";
                if first != ',' {
                    inside.pop()?;
                }
                &rest[1..]
            }
            '"' => {
                let (text, behind) = string(rest)?;
                // A name is a string with a colon behind it.
                match behind.trim_start().strip_prefix(':') {
                    Some(value) => {
                        name = text;
                        value
                    }
                    None => behind,
                }
            }
            '-' | '0'..='9' => {
                let end = rest.find([',', '}', ']']).unwrap_or(rest.len());
                let names = inside.iter().copied().skip(1).chain([name]);
                if !name.is_empty() && names.eq(path.split('.')) {
                    return rest[..end].trim().parse().ok();
                }
                &rest[end..]
            }
            _ => &rest[first.len_utf8()..],
        };
    }
    None
}

/// What is between the quotation marks at the beginning, as it is written, and what is behind them.
fn string(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some((&text[1..at], &text[at + 1..])),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_path() {
        let line = r#"{"threads":[{"frees":1,"name":"a\"frees\":9é"}],"list":[{"odd":null},4,5],"frees":7,
            "ledger":{"bytes":12,"full":false,"part":{"mean":-1.5}}, "odd":null, "last": 3 }"#;
        assert_eq!(number(line, "frees"), Some(7.0));
        assert_eq!(number(line, "ledger.bytes"), Some(12.0));
        assert_eq!(number(line, "ledger.part.mean"), Some(-1.5));
        assert_eq!(number(line, "last"), Some(3.0));
        for missing in ["bytes", "ledger.full", "ledger", "list", "list.odd", "odd", "name", ""] {
            assert_eq!(number(line, missing), None, "{missing}");
        }
        for cut in ["", "{\"a\":", "{\"a", "}", "{\"a\":[1,2"] {
            assert_eq!(number(cut, "a"), None, "{cut}");
        }
    }
}
