//! What processes are called where they stand above functions.

use std::collections::HashMap;

use heapledger_analysis::tree::ProcessLevel;
use heapledger_report::process_name;
use heapledger_source::Member;

/// What the first level of the tree of a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TopLevel {
    /// A process
    Process,
    /// A program
    Program,
}

impl TopLevel {
    pub(crate) fn level(self) -> ProcessLevel {
        match self {
            TopLevel::Process => ProcessLevel::Process,
            TopLevel::Program => ProcessLevel::Program,
        }
    }
}

/// What a process is called in the tree: `cc1 4711`.
pub(crate) struct ProcessLabels {
    by: TopLevel,
    used: HashMap<String, u32>,
}

impl ProcessLabels {
    pub(crate) fn new(by: TopLevel) -> ProcessLabels {
        ProcessLabels { by, used: HashMap::new() }
    }

    /// That of the next one.
    pub(crate) fn next(&mut self, member: &Member) -> String {
        let process = &member.process;
        let program = process_name(std::slice::from_ref(&process.program));
        if self.by == TopLevel::Program {
            return program;
        }
        let label = format!("{program} {}", process.pid);
        // A number that came again, of the same program.
        let times = self.used.entry(label.clone()).or_default();
        *times += 1;
        if *times == 1 { label } else { format!("{label} ({times})") }
    }
}
