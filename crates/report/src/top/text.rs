//! A look as text, for people and logs.

use std::io::{self, Write};

use super::LookReport;
use crate::form::fit::Fit;
use crate::form::units::{clean, span};

/// Writes a look: figures, what was not seen, table.
pub(super) fn write(report: &LookReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    let LookReport { look, columns, rows, paint, .. } = report;
    let width = paint.columns;
    let mut out = Fit::new(out, *paint);
    let out = &mut out;
    let up = look.uptime_ns.map_or_else(String::new, |up| format!(", after {}", span(up)));
    writeln!(out, "{}: {}{up}", paint.strong(look.name()), look.state_words())?;
    let growth =
        look.bytes_per_second.map_or_else(String::new, |value| format!(", growth {}", look.figures.rate(value)));
    let live = format!("live {}, peak {}{growth}", look.live_words(), look.figures.bytes(look.peak_bytes));
    writeln!(out, "{}", paint.lines(&live, 0, 2))?;
    if let (Some(allocations), Some(frees)) = (look.allocations_per_second, look.frees_per_second) {
        let each = |rate: f64, one: &str, many: &str| look.figures.counted(rate.round().max(0.0) as u64, one, many);
        let allocations = each(allocations, "allocation/s", "allocations/s");
        writeln!(out, "{allocations}, {}", each(frees, "free/s", "frees/s"))?;
    }
    if let Some(age) = look.mark_age_ns {
        writeln!(out, "since the mark {} ago: {} new and alive", span(age), look.young_words())?;
    }
    if !look.condition.is_empty() {
        writeln!(out, "where {}: {}", clean(&look.condition), look.chosen_words())?;
    }
    for loss in &look.losses {
        writeln!(out, "{}", paint.lines(&format!("not seen: {}", clean(loss)), 0, 2))?;
    }
    let marked = look.mark_age_ns.is_some();
    let mut heading = String::new();
    for column in *columns {
        heading += &format!("{:>1$} ", column.title(marked), column.width(look.figures));
    }
    writeln!(out, "{}", paint.strong(format!("{heading} {}", look.group.to_uppercase())))?;
    let room = if width == 0 { usize::MAX } else { width.saturating_sub(heading.chars().count() + 1).max(20) };
    for row in *rows {
        for column in *columns {
            write!(out, "{:>1$} ", column.cell(row, marked, look.figures), column.width(look.figures))?;
        }
        writeln!(out, " {}", paint.cut(&clean(&row.label), room))?;
    }
    let left = look.rows_total.saturating_sub(rows.len());
    if left > 0 {
        writeln!(out, "{:>1$} and {left} more", "", heading.chars().count())?;
    }
    out.flush()
}
