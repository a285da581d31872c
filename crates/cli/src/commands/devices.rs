//! Commands for logs and streams of devices.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

mod convert;
mod decode;
mod encode;
mod heapmap;
mod receive;
mod saving;

/// All of them.
#[derive(Debug, Subcommand)]
pub(crate) enum DeviceCommand {
    /// Heap map of libwebsockets' log lines: who holds how much
    Heapmap(Box<heapmap::HeapmapArgs>),
    /// Keep the ledgers that a log tells of
    Convert(convert::ConvertArgs),
    /// A ledger of the events that a device sends, while they come
    Receive(receive::ReceiveArgs),
    /// Decode compressed backtraces of libwebsockets
    Decode(decode::DecodeArgs),
    /// Encode backtraces as libwebsockets does
    Encode(encode::EncodeArgs),
}

impl DeviceCommand {
    /// Does what was asked for.
    pub(super) fn carry_out(self) -> Result<ExitCode> {
        let done = |()| ExitCode::SUCCESS;
        match self {
            DeviceCommand::Heapmap(arguments) => heapmap::run(*arguments).map(done),
            DeviceCommand::Convert(arguments) => convert::run(&arguments).map(done),
            DeviceCommand::Receive(arguments) => receive::run(&arguments).map(done),
            DeviceCommand::Decode(arguments) => decode::run(&arguments),
            DeviceCommand::Encode(arguments) => encode::run(&arguments),
        }
    }
}
