//! Live blocks of a session, added up: as text, CSV or JSON.

use std::io::{self, Write};

use heapledger_analysis::fields::Field;
use heapledger_analysis::{FamilyGroup, FamilyGroups, GroupKey, Seen};
use serde::Serialize;

use crate::dump::text::sentence_line;
use crate::form::fit::Fit;
use crate::form::json::{HeaderLine, end, line};
use crate::form::notes;
use crate::form::units::{counted, percent};
use crate::record::columns::{group_column, without_symbols};
use crate::{Cell, Column, Ending, Form, Paint, Report, ReportError, Table, TableForm, TableStyle};

/// Live blocks of a session, added up.
#[derive(Debug)]
pub struct FamilyGroupsReport<'r> {
    /// What the session is called.
    pub session: &'r str,
    /// `process` or `program`, if these are told apart.
    pub top: Option<&'static str>,
    /// What else they were added up by: functions, files or modules.
    pub by: &'r [Field],
    /// The groups.
    pub groups: &'r FamilyGroups,
    /// Which blocks are meant; `None`: all.
    pub filter: Option<String>,
    /// How it is written.
    pub paint: Paint,
    /// What was not seen.
    pub seen: &'r Seen,
}

#[derive(Serialize)]
struct FamilyGroupsAsked<'r> {
    r#where: Option<&'r str>,
    group_by: Vec<&'static str>,
    groups: u64,
    blocks: u64,
    bytes: u64,
    estimated: bool,
}

#[derive(Serialize)]
struct FamilyKeys<'g> {
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<&'g str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<&'g str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#fn: Option<Option<&'g str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<Option<&'g str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<Option<&'g str>>,
}

#[derive(Serialize)]
struct FamilyGroupLine<'g> {
    r#type: &'static str,
    keys: FamilyKeys<'g>,
    bytes: u64,
    share: f64,
    blocks: u64,
    largest: Option<u64>,
}

impl Report for FamilyGroupsReport<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => self.text(out)?,
            Form::Json => self.json(out)?,
            Form::Csv => self.table(out, TableForm::Csv)?,
            _ => return Err(ReportError::no_form(form)),
        }
        Ok(())
    }

    fn seen(&self) -> &Seen {
        self.seen
    }

    fn ending(&self) -> Ending {
        let shown = self.groups.groups.len() as u64;
        Ending { shown, left_out: self.groups.total.saturating_sub(shown), in_flight: self.groups.in_flight }
    }
}

impl FamilyGroupsReport<'_> {
    fn share(&self, one: &FamilyGroup) -> f64 {
        if self.groups.total_bytes == 0 { 0.0 } else { one.group.bytes as f64 / self.groups.total_bytes as f64 }
    }

    fn table(&self, out: &mut dyn Write, form: TableForm) -> io::Result<()> {
        let estimated = self.groups.is_sampled;
        let mut columns = vec![
            Column::number("bytes").estimated(estimated),
            Column::number("share"),
            Column::number("blocks").estimated(estimated),
            Column::number("largest"),
        ];
        columns.extend(self.top.map(Column::text));
        columns.extend(self.by.iter().map(|by| group_column(*by)));
        let is_text = matches!(form, TableForm::Text(_));
        let mut table = Table::new(out, form, columns)?;
        for one in &self.groups.groups {
            let mut cells = vec![
                Cell::Bytes(one.group.bytes),
                Cell::Share(self.share(one)),
                Cell::Count(one.group.blocks),
                Cell::maybe(one.group.largest, Cell::Bytes),
            ];
            cells.extend(self.top.map(|_| Cell::Text(one.process.clone().unwrap_or_default())));
            cells.extend(one.group.keys.iter().map(|key| self.cell(key, is_text)));
            table.row(&cells)?;
        }
        table.end()?.flush()
    }

    fn cell(&self, key: &GroupKey, is_text: bool) -> Cell {
        let unnamed = |what: &str| Cell::Text(format!("({what})"));
        let paint = if is_text { self.paint } else { Paint { full_names: true, ..self.paint } };
        match key {
            GroupKey::Function { name: Some(name), .. } => Cell::Text(paint.function(name).into_owned()),
            GroupKey::Function { name: None, module: Some(module) } => Cell::Text(without_symbols(module)),
            GroupKey::File(Some(text)) | GroupKey::Module(Some(text)) => Cell::Text(text.to_string()),
            GroupKey::File(None) => unnamed("no source file known"),
            _ => unnamed("unknown code"),
        }
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let (groups, paint) = (self.groups, self.paint);
        let mut out = Fit::new(out, paint);
        let figures = paint.figures(groups.is_sampled);
        self.table(&mut out, TableForm::Text(TableStyle { width: paint.columns, paint }))?;
        let all = counted(groups.total, "group", "groups");
        let blocks = figures.counted(groups.total_blocks, "block", "blocks");
        let total = figures.bytes_exact(groups.total_bytes);
        if groups.total == 0 {
            let chosen = if self.filter.is_some() { " of those asked for" } else { "" };
            writeln!(out, "No block{chosen} was live when its process ended, or is now.")?;
        } else if groups.groups.len() as u64 == groups.total {
            writeln!(out)?;
            sentence_line(&mut out, paint, &format!("{all}: {blocks}, {total}."))?;
        } else {
            writeln!(out)?;
            let part = percent(groups.groups.iter().map(|one| self.share(one)).sum());
            let text =
                format!("{} of {all}, with {part} of {blocks}, {total} (--top 0 shows all).", groups.groups.len());
            sentence_line(&mut out, paint, &text)?;
        }
        notes::write(&mut out, self.seen, paint)?;
        out.flush()
    }

    fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let groups = self.groups;
        let asked = FamilyGroupsAsked {
            r#where: self.filter.as_deref(),
            group_by: self.top.into_iter().chain(self.by.iter().map(|by| by.name())).collect(),
            groups: groups.total,
            blocks: groups.total_blocks,
            bytes: groups.total_bytes,
            estimated: groups.is_sampled,
        };
        line(out, &HeaderLine::new("dump", self.session, None).with(asked))?;
        for one in &groups.groups {
            let object = FamilyGroupLine {
                r#type: "group",
                keys: self.keys(one),
                bytes: one.group.bytes,
                share: (self.share(one) * 1e6).round() / 1e6,
                blocks: one.group.blocks,
                largest: one.group.largest,
            };
            line(out, &object)?;
        }
        end(out, self.ending(), self.seen)
    }

    fn keys<'g>(&self, one: &'g FamilyGroup) -> FamilyKeys<'g> {
        let of = |top: &str| one.process.as_deref().filter(|_| self.top == Some(top));
        let mut keys =
            FamilyKeys { process: of("process"), program: of("program"), r#fn: None, file: None, module: None };
        for key in &one.group.keys {
            match key {
                GroupKey::Function { name, module } => {
                    keys.r#fn = Some(name.as_deref());
                    keys.module = keys.module.or(module.as_deref().map(Some));
                }
                GroupKey::File(file) => keys.file = Some(file.as_deref()),
                GroupKey::Module(module) => keys.module = Some(module.as_deref()),
                _ => {}
            }
        }
        keys
    }
}
