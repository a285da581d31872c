//! What a person says of a file that it does not say itself.

use heapledger_logs::log::LogKind;

use super::MemberArgs;

/// What a file is, if it is no ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FromLog(LogKind);

impl FromLog {
    /// What it is.
    pub(crate) fn kind(self) -> LogKind {
        self.0
    }
}

impl clap::ValueEnum for FromLog {
    fn value_variants<'a>() -> &'a [FromLog] {
        const ALL: &[FromLog] =
            &[FromLog(LogKind::Lws), FromLog(LogKind::Esp), FromLog(LogKind::SystemView), FromLog(LogKind::Events)];
        ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.name()))
    }
}

/// What is known of a file that it does not say itself.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Logs and images of memory")]
pub(crate) struct OpeningArgs {
    /// Take the file for a log of that kind; else that is seen by what is in it
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) from: Option<FromLog>,
    /// Where the first byte of an image of memory was, as a debugger was told that saved it (0x20000000): places are then
    /// addresses. FILE@2 is the second ledger of an image or a log, FILE@0x20000400 the one at that address
    #[arg(long, value_name = "ADDRESS", value_parser = heapledger_analysis::query::address)]
    pub(crate) base: Option<u64>,
    #[command(flatten)]
    pub(crate) members: MemberArgs,
}
