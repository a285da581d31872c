//! Arguments of `history`.

use anyhow::Result;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{Evaluator, EventColumn, GroupField, SortKeys};
use heapledger_analysis::{Sort, Wanted};
use heapledger_report::conversions;
use heapledger_source::Ledger;

use crate::commands::form::Records;
use crate::commands::ledgers::MoreLedgers;
use crate::commands::proposed::proposed;
use crate::commands::standard::{FilterArgs, GroupArgs, SortArgs, Usage, listed, sort_help};
use crate::commands::{FormArgs, FramesArgs, LedgerArgs, LimitArgs, NamingArgs};

/// Arguments of `history`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "heapledger history [OPTIONS] [EXECUTABLE] <FILE|PID>...")]
#[command(
    mut_arg("sort", |arg| arg.help(
        format!("{}, those of the event itself where it has them [default: time,number]", sort_help())
    )),
    mut_arg("group_by", |arg| arg.value_parser(proposed(|| Field::event_groups().collect())).help(
        format!(
            "Add events up by one or several of {}, {} of the event itself; allocations and frees are always told apart. \
             --sort takes {} then",
            Field::Event,
            listed(Field::block_groups()),
            listed(GroupField::names())
        )
    )),
    mut_arg("top", |arg| arg.help(
        "Show the N largest, 0 for all: groups as --limit does, events in the order of their blocks' size unless --sort \
         or -S is given"
    )),
    mut_arg("columns", |arg| arg.value_parser(proposed(|| EventColumn::names().collect())).help(
        format!(
            "Show events as a table with these columns: {}; of the block's allocation and of its free alloc_ and free_ \
             with {}",
            listed(EventColumn::own_names()),
            listed(EventColumn::end_names())
        )
    ))
)]
#[command(after_help = format!("\
The ledger holds every block that is allocated, and the frees of the most recent
past with the blocks that they ended: see --history of `heapledger run`. Several
ledgers of one run (snapshots, say) are one history: all the frees that any of
them holds, and what lives by the last.

Conversions of -f, in which a record is an allocation or a free:
{}

Examples:
  heapledger history heapledger.jq.4711.hl
  heapledger history --reverse --limit 20 4711   what happened last
  heapledger history --addr 0x55d0c0ffee10 4711  all blocks that contained it
  heapledger history --where 'fn ~ \"^parse\" and size > 1M' 4711
  heapledger history -r -f '%a %p, %n bytes, seqno %s' a.hl.0 a.hl.1 a.hl.2
  heapledger history --where 'event == free' --group-by fn --top 5 4711
  heapledger history -SN --top 10 --columns time,size,fn,lifetime,free_fn 4711
  heapledger history --json 4711 | jq 'select(.event == \"free\")'", conversions()))]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub(crate) limit: LimitArgs,
    /// Show every life of this address: the blocks that contained it, who allocated and who freed them, and where
    /// realloc moved them from and to
    #[arg(long, value_name = "ADDRESS", value_parser = heapledger_analysis::query::address)]
    pub(crate) addr: Option<u64>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) sort: SortArgs,
    #[command(flatten)]
    pub(crate) groups: GroupArgs,
    #[command(flatten)]
    pub(crate) form: FormArgs<Records>,
    #[command(flatten)]
    pub(crate) frames: FramesArgs,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    #[command(flatten)]
    pub(crate) more: MoreLedgers,
}

/// In which order events come, if not by time, and how many.
pub(super) struct EventOrder {
    pub(super) keys: Option<SortKeys>,
    pub(super) limit: usize,
}

impl HistoryArgs {
    /// At most so many events or lives.
    pub(super) fn limit(&self) -> usize {
        self.groups.top.unwrap_or_else(|| self.limit.get(self.form.get()))
    }

    pub(super) fn order(&self, ledger: &Ledger) -> Result<EventOrder> {
        let mut keys = self.sort.parse()?;
        if self.groups.top.is_some() && keys.is_none() {
            keys = Some(Sort::Size.into());
        }
        keys.iter().try_for_each(|keys| keys.check(ledger))?;
        let keys = keys.map(|keys| keys.in_ledger(ledger)).transpose()?;
        Ok(EventOrder { keys, limit: self.limit() })
    }

    pub(super) fn wanted<'w, 'l>(&self, order: &'w EventOrder, filter: &'w mut Evaluator<'l>) -> Wanted<'w, 'l> {
        let keys = order.keys.as_ref();
        Wanted { keys, reverse: self.sort.is_reversed(), limit: order.limit, filter: Some(filter) }
    }

    /// What cannot be asked for together.
    pub(super) fn check(&self, is_table: bool) -> Result<()> {
        let tables = is_table || self.form.is_csv();
        if self.form.get().is_of_records() && tables {
            return Err(Usage::new("-f and --format ecos are for single events, not for tables").into());
        }
        if self.addr.is_some() && (tables || self.sort.is_given()) {
            let said =
                "--addr shows lives in the order of time; for a table or another order write --where 'addr == …'";
            return Err(Usage::new(said).into());
        }
        Ok(())
    }
}
