//! A flame graph as a page: it can be zoomed, searched, turned round.

use std::fmt::Write as _;
use std::io::{self, Write};

use heapledger_analysis::tree::CallTree;

use super::curve::curve;
use super::page::data;
use super::{FlameFacts, FlameView};
use crate::form::units::{clean, counted};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
/// One function: nothing of it is seen by anything else.
const SCRIPT: [&str; 4] = ["'use strict';\n(() => {\n", include_str!("model.js"), include_str!("page.js"), "})();\n"];

/// Text for between tags and in attributes.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in clean(text).chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // No letters, and XML allows them nowhere.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(letter),
        }
    }
    out
}

fn list(items: &[String]) -> String {
    let items: String = items.iter().map(|item| format!("<li>{}</li>\n", escaped(item))).collect();
    format!("<ul>\n{items}</ul>")
}

/// Writes `tree`, callers first, as a page that needs nothing from elsewhere.
///
/// # Errors
/// If it cannot be written.
pub fn flame_html(mut out: impl Write, tree: &CallTree, facts: &FlameFacts, view: FlameView) -> io::Result<()> {
    let mut summary = "About this ledger".to_owned();
    let mut about = list(&facts.facts);
    if !facts.notes.is_empty() {
        let notes = counted(facts.notes.len() as u64, "note", "notes");
        let class = if facts.incomplete { "loss" } else { "note" };
        let _ = write!(summary, "; <span class=\"{class}\">{notes} on completeness</span>");
        let _ = write!(about, "\n<p>Completeness:</p>\n{}", list(&facts.notes));
    }
    if !facts.names.is_empty() {
        let _ = write!(about, "\n<p>Names:</p>\n{}", list(&facts.names));
    }
    let title = escaped(&facts.title);
    // The template is gone through once, so nothing that is put in can be taken for a mark.
    let mut rest = PAGE;
    while let Some((before, after)) = rest.split_once("{{") {
        let (mark, after) = after.split_once("}}").unwrap_or((after, ""));
        out.write_all(before.as_bytes())?;
        match mark {
            "title" => out.write_all(title.as_bytes())?,
            "css" => out.write_all(STYLE.as_bytes())?,
            "js" => SCRIPT.iter().try_for_each(|part| out.write_all(part.as_bytes()))?,
            "summary" => out.write_all(summary.as_bytes())?,
            "curve" => out.write_all(curve(facts).as_bytes())?,
            "about" => out.write_all(about.as_bytes())?,
            "data" => data(&mut out, tree, facts, view)?,
            other => return Err(io::Error::other(format!("the page has a mark {other}"))),
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())?;
    out.flush()
}
