//! What the standards demand of the forms of `check`, and what CI systems demand beside them.

use heapledger_e2e::{Result, check};
use serde_json::Value;

/// Reads `junit` as XML with Python, and prints `tests failures errors`, names of cases, and those that failed.
pub(crate) const READ_JUNIT: &str = "
import sys, xml.etree.ElementTree as tree
suites = tree.parse(sys.argv[1]).getroot()
assert suites.tag == 'testsuites', suites.tag
suite = suites.find('testsuite')
cases = suite.findall('testcase')
assert len(cases) == int(suite.get('tests')) == int(suites.get('tests'))
failed = [case.get('name') for case in cases if case.find('failure') is not None]
assert len(failed) == int(suite.get('failures'))
print(','.join(case.get('name') for case in cases), ','.join(failed), cases[0].find('failure').text.count('copy_name'))
";

/// Reads a report of JUnit's as strictly as CI systems do, and prints messages and bodies of failures.
pub(crate) const READ_STRICTLY: &str = "
import sys, xml.etree.ElementTree as tree
suites = tree.parse(sys.argv[1]).getroot()
assert suites.tag == 'testsuites' and set(suites.attrib) <= {'name', 'tests', 'failures', 'errors', 'time', 'disabled'}
for suite in suites:
    assert suite.tag == 'testsuite' and {'name', 'tests', 'failures', 'errors', 'skipped', 'time'} <= set(suite.attrib)
    assert float(suite.get('time')) >= 0 and sum(int(suite.get(key)) for key in ('failures', 'errors', 'skipped')) <= len(suite)
    for case in suite:
        assert case.tag == 'testcase' and set(case.attrib) == {'classname', 'name', 'time'} and len(case) <= 1
        for result in case:
            keys = {'message'} if result.tag == 'skipped' else {'message', 'type'}
            assert result.tag in ('failure', 'error', 'skipped') and set(result.attrib) == keys
            sys.stdout.buffer.write((result.get('message', '') + '\\n' + (result.text or '') + '\\n').encode())
";

/// The keys that SARIF 2.1.0 has for the objects that we write, and those that must be there.
fn has_keys(object: &Value, all: &[&str], required: &[&str]) -> Result {
    let keys: Vec<&String> = object.as_object().ok_or_else(|| format!("no object: {object}"))?.keys().collect();
    check!(keys.iter().all(|key| all.contains(&key.as_str())), "a key of {keys:?} is none of SARIF's: {object}");
    check!(required.iter().all(|key| object.get(key).is_some()), "one of {required:?} is missing: {object}");
    Ok(())
}

fn items(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().ok_or_else(|| format!("no list: {value}"))
}

fn check_message(message: &Value) -> Result {
    has_keys(message, &["text", "markdown", "id", "arguments"], &["text"])?;
    check!(message["text"].as_str().is_some_and(|text| !text.is_empty()), "no text: {message}");
    Ok(())
}

/// A place as the standard wants it, and as a service finds it in a repository.
fn check_location(location: &Value) -> Result {
    has_keys(
        location,
        &["id", "physicalLocation", "logicalLocations", "message", "annotations", "relationships"],
        &[],
    )?;
    if let Some(physical) = location.get("physicalLocation") {
        has_keys(
            physical,
            &["address", "artifactLocation", "region", "contextRegion"],
            &["artifactLocation", "region"],
        )?;
        has_keys(&physical["artifactLocation"], &["uri", "uriBaseId", "index", "description"], &["uri"])?;
        let uri = physical["artifactLocation"]["uri"].as_str().unwrap_or("");
        let rest = uri.strip_prefix("file://").unwrap_or(uri);
        check!(rest.starts_with('/') == (rest != uri) && !rest.is_empty(), "neither relative nor absolute: {uri}");
        let mut bytes = rest.bytes();
        while let Some(byte) = bytes.next() {
            let escape = byte == b'%' && bytes.by_ref().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
            check!(escape || byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte), "no reference: {uri}");
        }
        check!(physical["region"]["startLine"].as_u64().is_some_and(|line| line > 0), "{physical}");
    }
    for place in location.get("logicalLocations").map_or(Ok(&Vec::new()), items)? {
        has_keys(place, &["name", "index", "fullyQualifiedName", "decoratedName", "parentIndex", "kind"], &[])?;
    }
    Ok(())
}

/// What the standard's schema demands of a log like ours, and what code scanning services demand beside it.
pub(crate) fn check_sarif(log: &Value) -> Result {
    has_keys(
        log,
        &["$schema", "version", "runs", "inlineExternalProperties", "properties"],
        &["$schema", "version", "runs"],
    )?;
    check!(log["version"] == "2.1.0" && log["$schema"].as_str().is_some_and(|at| at.contains("sarif-2.1.0")), "{log}");
    check!(items(&log["runs"])?.len() == 1, "one run: {log}");
    let run = &log["runs"][0];
    has_keys(run, &["tool", "invocations", "columnKind", "results"], &["tool", "results"])?;
    check!(["utf16CodeUnits", "unicodeCodePoints"].iter().any(|kind| run["columnKind"] == *kind), "{run}");
    let driver = &run["tool"]["driver"];
    has_keys(driver, &["name", "version", "semanticVersion", "informationUri", "rules"], &["name", "rules"])?;
    check!(driver["name"] == "heapledger", "{driver}");
    let rules = items(&driver["rules"])?;
    for rule in rules {
        has_keys(
            rule,
            &["id", "name", "shortDescription", "fullDescription", "help", "defaultConfiguration"],
            &["id"],
        )?;
        check_message(&rule["shortDescription"])?;
        check!(rules.iter().filter(|other| other["id"] == rule["id"]).count() == 1, "twice: {rule}");
    }
    for invocation in items(&run["invocations"])? {
        let keys = ["executionSuccessful", "exitCode", "toolExecutionNotifications"];
        has_keys(invocation, &keys, &["executionSuccessful"])?;
        items(&invocation["toolExecutionNotifications"])?
            .iter()
            .try_for_each(|note| check_message(&note["message"]))?;
    }
    for result in items(&run["results"])? {
        let keys = [
            "ruleId",
            "ruleIndex",
            "kind",
            "level",
            "message",
            "locations",
            "stacks",
            "partialFingerprints",
            "properties",
        ];
        has_keys(result, &keys, &["ruleId", "message", "locations"])?;
        let index = result["ruleIndex"].as_u64().ok_or("no index")? as usize;
        check!(rules.get(index).is_some_and(|rule| rule["id"] == result["ruleId"]), "the rule of {result}");
        check!(["none", "note", "warning", "error"].iter().any(|level| result["level"] == *level), "{result}");
        let kinds = [("fail", "error"), ("open", "none")];
        check!(kinds.iter().any(|(kind, level)| result["kind"] == *kind && result["level"] == *level), "{result}");
        check_message(&result["message"])?;
        let places = items(&result["locations"])?;
        check!(places.len() == 1 && places[0].get("physicalLocation").is_some(), "a place: {result}");
        check_location(&places[0])?;
        for stack in result.get("stacks").map_or(Ok(&Vec::new()), items)? {
            has_keys(stack, &["message", "frames"], &["frames"])?;
            check_message(&stack["message"])?;
            for frame in items(&stack["frames"])? {
                has_keys(frame, &["location", "module", "threadId", "parameters"], &[])?;
                check_location(&frame["location"])?;
            }
        }
        let prints = result["partialFingerprints"].as_object();
        check!(prints.is_none_or(|prints| prints.values().all(Value::is_string)), "{result}");
    }
    Ok(())
}
