//! Published schemas and messages, and programs in Python that read by them: `e2e/viewers`.

use super::{Exported, Figures, Found, Tools, beside};
use crate::tools::{command, root};
use crate::{Result, check, process};

/// Runs one of the programs: it prints `figure NAME VALUE` and `name TEXT`, and fails where the file is not as it should be.
fn read(tools: &Tools, program: &str, exported: &Exported, more: &[&str]) -> Result<Option<Found>> {
    let Some(python) = &tools.python else { return Ok(None) };
    let program = root().join("e2e/viewers").join(program);
    let path = unpacked(exported)?;
    let text = process::run(command(python).arg(program).arg(path).args(more).env("PYTHONUTF8", "1"))?.good()?.out();
    let mut figures = Figures::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("figure ")) {
        let (name, value) = line.split_once(' ').ok_or("a figure without a value")?;
        let value = value.parse().map_err(|error| format!("{line}: {error}"))?;
        let before = figures.insert(name.to_owned(), value);
        check!(before.is_none_or(|before| before == value), "{name} is {before:?}, and {value}");
    }
    Ok(Some(Found { figures, text }))
}

/// The file, unpacked if it is packed.
fn unpacked(exported: &Exported) -> Result<std::path::PathBuf> {
    let bytes = std::fs::read(&exported.path).map_err(|error| format!("{}: {error}", exported.path.display()))?;
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(exported.path.clone());
    }
    let plain = beside(exported, ".unpacked")?;
    let unpacked = process::run(command("gzip").arg("-dc").arg(&exported.path))?.good()?.stdout;
    std::fs::write(&plain, unpacked).map_err(|error| format!("{}: {error}", plain.display()))?;
    Ok(plain)
}

pub(super) fn speedscope(tools: &mut Tools, exported: &Exported) -> Result<Option<Found>> {
    let Some(released) = &tools.speedscope else { return Ok(None) };
    let schema = released.join("file-format-schema.json");
    read(tools, "read_speedscope.py", exported, &[&schema.to_string_lossy()])
}

pub(super) fn firefox(tools: &mut Tools, exported: &Exported) -> Result<Option<Found>> {
    read(tools, "read_firefox.py", exported, &[])
}

pub(super) fn perfetto(tools: &mut Tools, exported: &Exported) -> Result<Option<Found>> {
    read(tools, "read_perfetto.py", exported, &[])
}

pub(super) fn otlp(tools: &mut Tools, exported: &Exported) -> Result<Option<Found>> {
    read(tools, "read_otlp.py", exported, &[])
}
