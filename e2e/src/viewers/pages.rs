//! Readers that are pages: shown by Chromium.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::{Exported, Figures, Found, Tools, beside};
use crate::browser::Browser;
use crate::{Result, check};

/// DHAT's viewer, as valgrind brings it.
const DH_VIEW: &str = "/usr/libexec/valgrind/dh_view.html";

/// Keeps what is seen, of a real program.
fn picture(browser: &mut Browser, pictures: &Path, name: &str) -> Result {
    let shot = browser.screenshot()?;
    let bytes = base64(&shot).ok_or("the browser's picture is none")?;
    fs::create_dir_all(pictures).and_then(|()| fs::write(pictures.join(name), bytes)).map_err(|error| error.to_string())
}

/// Bytes of Base64.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(u32::from(byte - b'A')),
        b'a'..=b'z' => Some(u32::from(byte - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(byte - b'0') + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let mut bytes = Vec::new();
    for group in text.trim_end_matches('=').as_bytes().chunks(4) {
        let mut word = 0;
        for byte in group {
            word = word << 6 | digit(*byte)?;
        }
        word <<= 6 * (4 - group.len());
        bytes.extend_from_slice(word.to_be_bytes().get(1..group.len())?);
    }
    Some(bytes)
}

/// The text for a script of bytes.
fn to_base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// `dh_view.html`: what stands at its root, and what it shows below.
pub(super) fn dh_view(tools: &mut Tools, exported: &Exported) -> Result<Option<Found>> {
    let Some(browser) = &mut tools.browser else { return Ok(None) };
    if !Path::new(DH_VIEW).is_file() {
        return Ok(None);
    }
    browser.look(1000, 560, false)?;
    browser.open(Path::new(DH_VIEW), "")?;
    let document = browser.tell("DOM.getDocument", json!({}))?;
    let root = &document["root"]["nodeId"];
    let input = browser.tell("DOM.querySelector", json!({"nodeId": root, "selector": "input[type=file]"}))?;
    let files = json!({"nodeId": input["nodeId"], "files": [exported.path.to_string_lossy()]});
    browser.tell("DOM.setFileInputFiles", files)?;
    browser.until("document.body.innerText.includes('Total:') || document.body.innerText.includes('rror')")?;
    // What is folded is opened, until all is.
    let open = "(() => { const all = [...document.querySelectorAll('.hasKids')].filter((line) => line.innerText.includes('▶')); \
                all.forEach((line) => line.click()); return all.length === 0; })()";
    let text = browser.text("document.body.innerText")?;
    if exported.variant == "all" && exported.names.iter().any(|name| name == "leak") {
        picture(browser, &tools.pictures, "dhat.png")?;
    }
    browser.until(open)?;
    let all = browser.text("document.body.innerText")?;
    // `Total:     49,120 bytes (100%) in 32 blocks (100%), …`
    let number =
        |text: &str| text.trim().split([' ', '\u{a0}']).next().and_then(|word| word.replace(',', "").parse().ok());
    let mut figures = Figures::new();
    let mut line = |title: &str, word: &str| -> Result {
        let line = text.split_once(title).ok_or_else(|| format!("no {title}"))?.1;
        let bytes = number(line).ok_or_else(|| format!("no bytes in {title}"))?;
        let blocks = line.split_once(" in ").and_then(|(_, rest)| number(rest));
        figures.insert(format!("{word}Bytes"), bytes);
        figures.insert(format!("{word}Blocks"), blocks.ok_or_else(|| format!("no blocks in {title}"))?);
        Ok(())
    };
    match exported.variant.as_str() {
        "peak" => line("Total:", "Peak")?,
        "all" => {
            [("Total:", "Allocated"), ("At t-gmax:", "Peak"), ("At t-end:", "Live")]
                .iter()
                .try_for_each(|(title, word)| line(title, word))?;
            check!(text.contains("avg lifetime"), "the page shows no lifetimes");
        }
        _ => line("Total:", "Live")?,
    }
    let problems = browser.problems()?;
    check!(problems.is_empty(), "the page complains: {problems:?}");
    Ok(Some(Found { figures, text: all }))
}

/// Chooses one of speedscope's views.
fn tab(browser: &mut Browser, name: &str) -> Result {
    let click = format!(
        "(() => {{ const all = [...document.querySelectorAll('div')].filter((one) => one.innerText.endsWith('{name}')); \
         const last = all.at(-1); last?.click(); return last !== undefined; }})()"
    );
    browser.until(&click)?;
    browser.drawn()
}

/// Speedscope: that it takes the file, what it lists, and how much its list says in all.
pub(super) fn speedscope(tools: &mut Tools, exported: &Exported) -> Result<Option<Found>> {
    let (Some(browser), Some(released)) = (&mut tools.browser, &tools.speedscope) else { return Ok(None) };
    let bytes = fs::read(&exported.path).map_err(|error| format!("{}: {error}", exported.path.display()))?;
    let script = beside(exported, ".js")?;
    let call = format!("speedscope.loadFileFromBase64({:?}, \"{}\")", "made.speedscope.json", to_base64(&bytes));
    fs::write(&script, call).map_err(|error| format!("{}: {error}", script.display()))?;
    browser.look(1000, 560, false)?;
    browser.open(&released.join("index.html"), &format!("localProfilePath={}", script.display()))?;
    let is_real = exported.names.iter().any(|name| name == "leak");
    browser.until("document.body.innerText.includes('Sandwich') && !document.body.innerText.includes('Hello')")?;
    // All that a function holds side by side.
    tab(browser, "Left Heavy")?;
    if is_real {
        picture(browser, &tools.pictures, "speedscope.png")?;
    }
    tab(browser, "Sandwich")?;
    browser.until("document.body.innerText.includes('Symbol Name')")?;
    let text = browser.text("document.body.innerText")?;
    let title = browser.text("document.title")?;
    let problems = browser.problems()?;
    // It tells its console what it does, and is told there how its driver does.
    let is_wrong = |text: &&String| text.contains("rror") && !text.contains("GL Driver");
    let problems: Vec<&String> = problems.iter().filter(is_wrong).collect();
    check!(problems.is_empty(), "the page complains: {problems:?}");
    // Its figures are rounded; the schema's reader adds them up.
    let figures: Figures = [("shown".to_owned(), i64::from(title.contains("speedscope")))].into();
    Ok(Some(Found { figures, text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_and_written() {
        for (bytes, text) in
            [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (b"foobar", "Zm9vYmFy")]
        {
            assert_eq!(to_base64(bytes), text);
            assert_eq!(base64(text).as_deref(), Some(bytes));
        }
        assert_eq!(base64("?"), None);
    }
}
