//! What documents hold of the list of fields: tables and lists that are made here, and compared with the documents by tests.

use super::{CONDITIONS, Field, JsonObject, ROWS};

fn table(head: &str, rows: impl Iterator<Item = (String, String)>) -> String {
    let columns = head.matches('|').count() - 1;
    let rows: String = rows.map(|(first, rest)| format!("| {first} | {rest} |\n")).collect();
    format!("{head}\n{}|\n{rows}", "|---".repeat(columns))
}

/// The fields of conditions, for `docs/queries.md`.
pub fn conditions() -> String {
    let rows = CONDITIONS.iter().map(|(field, names)| {
        let (_, compared, meaning) = field.row().condition.unwrap_or_default();
        let others: Vec<String> = names.iter().skip(1).map(|name| format!("`{name}`")).collect();
        let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
        (format!("`{field}`{others}"), format!("{compared} | {meaning}"))
    });
    table("| field | compared with | meaning |", rows)
}

/// What blocks are added up by, for `docs/queries.md`.
pub fn groups() -> String {
    let rows = ROWS.iter().filter(|(field, _)| !field.is_of_events()).filter_map(|(_, row)| row.group.as_ref());
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|group| group.place);
    let rows = rows.into_iter().map(|group| (format!("`{}`", group.names[0]), group.meaning.to_owned()));
    table("| | blocks are one group if they have the same … |", rows)
}

/// What blocks are sorted by, for `docs/queries.md`.
pub fn sort_keys() -> String {
    let keys: Vec<String> = Field::sort_keys().map(|name| format!("`{name}`")).collect();
    format!("with the keys {}.", keys.join(", "))
}

/// The letters that these are sorted by in the classic manner, for `docs/queries.md`.
pub fn letters() -> String {
    let letters = ROWS.iter().filter_map(|(field, row)| Some(format!("`{}` `{field}`", row.letter?.0)));
    letters.collect::<Vec<_>>().join(", ")
}

/// What JSON tells of a block, for `docs/json.md`.
pub fn json() -> String {
    let rows = Field::of_json(JsonObject::Block).iter().filter_map(|(field, key)| {
        let json = field.row().json.as_ref()?;
        Some((format!("`{key}`"), json.meaning.to_owned()))
    });
    table("| field | meaning |", rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::EventColumn;

    const QUERIES: &str = include_str!("../../../../docs/queries.md");

    #[test]
    fn the_documents_hold_what_the_list_says() {
        let json_text = include_str!("../../../../docs/json.md");
        // Lines may end anywhere in a sentence.
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (name, text, made) in [
            ("queries", QUERIES, conditions()),
            ("queries", QUERIES, groups()),
            ("queries", QUERIES, sort_keys()),
            ("queries", QUERIES, letters()),
            ("json", json_text, json()),
        ] {
            assert!(plain(text).contains(&plain(&made)), "docs/{name}.md must hold this:\n{made}");
        }
    }

    #[test]
    fn the_tables_of_the_document_have_all_columns() {
        let (_, tables) = QUERIES.split_once("\n## Tables").expect("a section on tables");
        for name in Field::columns().chain(EventColumn::own_names()).chain(EventColumn::end_names()) {
            assert!(tables.contains(&format!("`{name}`")), "docs/queries.md does not name the column {name}");
        }
    }
}
