//! What a program did not free and nobody excuses.

use std::collections::HashMap;

use anyhow::Result;
use heapledger_analysis::{Evidence, Leaked, Suppressions, is_kept_by_design};
use heapledger_format::Site;

use super::CheckArgs;
use super::naming::Naming;

/// Why blocks of the C and the C++ library do not count.
const BY_DESIGN: &str = "kept by the C or C++ library by design (--all-leaks counts it)";

/// What is held against the program of what it did not free.
pub(super) fn leaked(
    args: &CheckArgs,
    suppressions: &Suppressions,
    evidence: &Evidence,
    naming: &mut Naming<'_, '_>,
) -> Result<Leaked> {
    if args.all_leaks && suppressions.is_empty() {
        return Ok(Leaked::of(evidence, None));
    }
    let names = naming.all()?;
    let mut excuses: HashMap<Site, String> = HashMap::new();
    for totals in evidence.sites() {
        let stack = names.stack(totals.site)?;
        if let Some(pattern) = suppressions.find(&stack) {
            excuses.insert(totals.site, format!("leak:{pattern}"));
        } else if !args.all_leaks && is_kept_by_design(&stack, |frame| names.called(frame)) {
            excuses.insert(totals.site, BY_DESIGN.to_owned());
        }
    }
    Ok(Leaked::of(evidence, Some(&mut |site| excuses.remove(&site))))
}
