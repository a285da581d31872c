//! SARIF 2.1.0: what viewers of code and code scanning services read.

use std::hash::{Hash, Hasher};
use std::io::{self, Write};

use heapledger_analysis::{Figure, Finding, NamedFrame, NamedStack, Responsible, Verdict};
use serde_json::{Value, json};

use super::{CheckReport, holding_frame, own_frame, rule, rule_text};
use crate::form::notes::sentence;
use crate::record::frames::callers;
use crate::{ErrorBrief, Paint};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

impl CheckReport<'_> {
    /// Writes a result for each stack that has part in an exceeded limit.
    pub(super) fn sarif(&self, mut out: impl Write) -> io::Result<()> {
        let (results, notes) = (self.sarif_results(), self.sarif_notes());
        log(&mut out, rules(), &results, &notes, (self.code(), self.lenient))
    }

    /// A result for each stack that has part in an exceeded limit.
    pub(super) fn sarif_results(&self) -> Vec<Value> {
        let mut results = Vec::new();
        for finding in self.findings.iter().filter(|finding| finding.verdict != Verdict::Holds) {
            let errors = self.errors_of(finding);
            results.extend(errors.iter().map(|error| self.error(finding, error)));
            if finding.responsible.is_empty() && errors.is_empty() {
                results.push(self.result(finding, None));
            }
            results.extend(finding.responsible.iter().map(|responsible| self.result(finding, Some(responsible))));
        }
        results
    }

    /// What is not known, as a tool tells it of itself.
    pub(super) fn sarif_notes(&self) -> Vec<Value> {
        let open = self.findings.iter().filter(|finding| finding.verdict == Verdict::Uncertain);
        let open = open.map(|finding| format!("{}: {}", rule(finding.figure), self.sentence(finding)));
        let level = if self.lenient { "warning" } else { "error" };
        open.chain(self.losses().into_iter().map(sentence))
            .map(|text| json!({ "level": level, "message": { "text": text } }))
            .collect()
    }

    fn result(&self, finding: &Finding, responsible: Option<&Responsible>) -> Value {
        let index = Figure::ALL.iter().position(|figure| *figure == finding.figure).unwrap_or(0);
        // `open`: there was not enough to decide. The standard wants no level there.
        let (kind, level) = match finding.verdict {
            Verdict::Exceeded => ("fail", "error"),
            Verdict::Uncertain => ("open", "none"),
            Verdict::Holds => ("pass", "none"),
        };
        let said = self.sentence(finding);
        let text = match responsible {
            Some(responsible) => format!("{said}. {}", self.responsible(finding, responsible)),
            None => said,
        };
        let mut result = json!({
            "ruleId": rule(finding.figure),
            "ruleIndex": index,
            "kind": kind,
            "level": level,
            "message": { "text": text },
            "properties": { "found": finding.found, "limit": finding.limit },
        });
        // Code scanning services refuse a result without a place: one without source lines is at the ledger.
        let nowhere = json!({ "physicalLocation": {
            "artifactLocation": { "uri": uri(self.file(self.ledger)) },
            "region": { "startLine": 1 },
        } });
        result["locations"] = json!([nowhere]);
        if let Some(Responsible { totals, stack, .. }) = responsible {
            if let Some((frame, _, _)) = holding_frame(stack) {
                result["locations"] = json!([self.location(frame)]);
            }
            let frames: Vec<Value> = stack.frames.iter().map(|frame| self.frame(frame)).collect();
            result["stacks"] = json!([{ "message": { "text": callers(stack, Paint::default()) }, "frames": frames }]);
            result["partialFingerprints"] = json!({ "heapledgerStack/v1": fingerprint(finding.figure, stack) });
            result["properties"]["blocks"] = json!(totals.blocks);
            result["properties"]["bytes"] = json!(totals.bytes);
        }
        result
    }

    /// A result for an error: it is where its summary is.
    fn error(&self, finding: &Finding, error: &ErrorBrief) -> Value {
        let mut result = self.result(finding, None);
        result["message"]["text"] = json!(format!("{}\n\n{}", error.summary, error.report));
        if let Some((frame, _, _)) = error.culprit.as_ref().and_then(own_frame) {
            result["locations"] = json!([self.location(frame)]);
        }
        let stack = |(of, stack): &(String, NamedStack)| {
            let frames: Vec<Value> = stack.frames.iter().map(|frame| self.frame(frame)).collect();
            json!({ "message": { "text": format!("{of}: {}", callers(stack, Paint::default())) }, "frames": frames })
        };
        result["stacks"] = error.stacks.iter().map(stack).collect();
        result["partialFingerprints"] = json!({ "heapledgerError/v1": error.token });
        result["properties"]["kind"] = json!(error.kind);
        result
    }

    fn frame(&self, frame: &NamedFrame) -> Value {
        let mut value = json!({ "location": self.location(frame) });
        if let Some(module) = frame.module.as_deref() {
            value["module"] = json!(module);
        }
        value
    }

    fn location(&self, frame: &NamedFrame) -> Value {
        let mut location = json!({});
        if let (Some(file), Some(line)) = (frame.file.as_deref(), frame.line.filter(|line| *line > 0)) {
            location["physicalLocation"] =
                json!({ "artifactLocation": { "uri": uri(self.file(file)) }, "region": { "startLine": line } });
        }
        if let Some(function) = frame.function.as_deref() {
            location["logicalLocations"] = json!([{ "fullyQualifiedName": function, "kind": "function" }]);
        }
        location
    }
}

/// The rules.
pub(super) fn rules() -> Vec<Value> {
    Figure::ALL
        .iter()
        .map(|figure| {
            json!({
                "id": rule(*figure),
                "shortDescription": { "text": rule_text(*figure) },
                "defaultConfiguration": { "level": "error" },
            })
        })
        .collect()
}

/// Writes a log.
pub(super) fn log(
    out: &mut dyn Write,
    rules: Vec<Value>,
    results: &[Value],
    notes: &[Value],
    (code, lenient): (u8, bool),
) -> io::Result<()> {
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "heapledger", "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
            "invocations": [{
                "executionSuccessful": notes.is_empty() || lenient,
                "exitCode": code,
                "toolExecutionNotifications": notes,
            }],
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    crate::form::outside::pretty_json(&mut *out, &log)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// A path as a reference: absolute ones get their scheme, others stay relative.
fn uri(path: &str) -> String {
    let mut uri = String::from(if path.starts_with('/') { "file://" } else { "" });
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

/// The same for the same functions, wherever their lines are: so a service knows the result again.
fn fingerprint(figure: Figure, stack: &NamedStack) -> String {
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    rule(figure).hash(&mut hasher);
    for frame in &stack.frames {
        frame.function.as_deref().unwrap_or("?").hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// A hash that stays the same from version to version.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_references() {
        assert_eq!(uri("src/a b.c"), "src/a%20b.c");
        assert_eq!(uri("/x/ü.c"), "file:///x/%C3%BC.c");
        assert_eq!(uri("c:x.c"), "c%3Ax.c");
    }
}
