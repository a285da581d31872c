//! The flame graph of a session: its processes, or programs, stand above the functions.

use anyhow::{Result, bail};
use heapledger_report::{FlameFacts, Form, family_facts};
use heapledger_source::Family;

use super::FlameArgs;
use super::made::Flamed;
use super::target::target_named;
use crate::commands::opening::whole_session;
use crate::commands::sessions;
use crate::commands::target::free_stem;

/// The session that was named, if one was, as a whole.
pub(super) fn of(args: &FlameArgs) -> Result<Option<Family>> {
    let Some(family) = whole_session(&args.ledger, &args.opening.members)? else { return Ok(None) };
    if args.diff.is_some() {
        bail!("two sessions are compared by `heapledger diff`; a flame graph compares two ledgers: SESSION:PID");
    }
    Ok(Some(family))
}

/// Its tree, and what is said of it.
pub(super) fn flamed(args: &FlameArgs, family: &Family, form: &Form, wrappers: bool) -> Result<Flamed> {
    let name = free_stem(&args.ledger, None, false);
    let target = target_named(args, form, name.clone());
    let grown = args.shape.grow_session(family, wrappers)?;
    let of_all = family_facts(family, &name, &grown.sums[0], &grown.seen, args.bytes);
    let facts = FlameFacts { full_names: args.full_names, ..of_all };
    Ok(Flamed { target, grown, facts, identity: sessions::identity(family) })
}
