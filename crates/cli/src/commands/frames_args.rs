//! Which lines of a stack are shown: arguments of all commands that show stacks.

use heapledger_analysis::{HEADERS, Passing, parse_glob};
use heapledger_source::Ledger;

use crate::say;

/// Arguments of commands that show stacks.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Lines of stacks")]
pub(crate) struct FramesArgs {
    /// Pass over code that was inlined from source files with such names, in favour of the line that it was inlined
    /// into; repeatable [default: */include/*]
    #[arg(short = 'I', long = "ignore", value_name = "GLOB", value_parser = parse_glob)]
    ignore: Vec<String>,
    /// Show all inlined code, that of header files too
    #[arg(short = 'n', long = "no-ignore", conflicts_with = "ignore")]
    no_ignore: bool,
    /// Accepted for those who know it from ecosmdd; not needed, no objdump is run
    #[arg(short = 'A', long = "architecture", value_name = "PREFIX")]
    architecture: Option<String>,
}

impl FramesArgs {
    /// Which files are looked through.
    pub(crate) fn passing(&self) -> Passing {
        if self.no_ignore {
            Passing::none()
        } else if self.ignore.is_empty() {
            Passing::new(vec![HEADERS.to_owned()])
        } else {
            Passing::new(self.ignore.clone())
        }
    }

    /// Says that an architecture need not be told, if one was.
    pub(crate) fn explain(&self, ledger: &Ledger) {
        if let Some(prefix) = &self.architecture {
            let machine = machine(ledger.header().machine);
            say(&format!(
                "-A {} is not needed: no objdump is run, and the ledger says that its program is {machine}",
                prefix.escape_debug()
            ));
        }
    }
}

/// A machine number of ELF as people call it.
fn machine(number: u16) -> String {
    let name = match number {
        0 => return "of an unknown machine".to_owned(),
        3 => "x86",
        4 => "m68k",
        8 => "MIPS",
        20 => "PowerPC",
        40 => "Arm",
        62 => "x86-64",
        94 => "Xtensa",
        183 => "AArch64",
        243 => "RISC-V",
        other => return format!("for ELF machine {other}"),
    };
    format!("for {name}")
}
