//! The tree of a flame graph, and what is said of it: of one ledger, of two to compare, or of a session.

use std::ffi::OsStr;

use anyhow::Result;
use heapledger_analysis::Identity;
use heapledger_report::{FlameFacts, Form};

use super::facts::facts;
use super::target::target;
use super::{FlameArgs, session};
use crate::commands::opening::open_target;
use crate::commands::target::Target;
use crate::commands::tree::Grown;

/// A tree, and what is said of it.
pub(super) struct Flamed {
    pub(super) target: Target,
    pub(super) grown: Grown,
    pub(super) facts: FlameFacts,
    pub(super) identity: Identity,
}

/// Of what was named.
pub(super) fn flamed(args: &FlameArgs, names: &[&OsStr], form: &Form, wrappers: bool) -> Result<Flamed> {
    if let Some(family) = session::of(args)? {
        return session::flamed(args, &family, form, wrappers);
    }
    let ledgers = names.iter().map(|name| open_target(name, &args.opening)).collect::<Result<Vec<_>>>()?;
    let target = target(args, form, &ledgers[0]);
    let grown = args.shape.grow(&ledgers.iter().collect::<Vec<_>>(), wrappers)?;
    let facts = facts(names, &ledgers, &grown, args)?;
    Ok(Flamed { target, grown, facts, identity: Identity::of(&ledgers[0]) })
}
