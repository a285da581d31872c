//! Any bytes as a log, whole and piece by piece: read, and nothing else.
#![no_main]

use heapledger_logs::live::LiveLine;
use heapledger_logs::log::{LogKind, LogOptions, is_log, read_log};
use heapledger_logs::sysview::{HostForm, HostTrace};
use heapledger_lws::Width;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [what, log @ ..] = bytes else { return };
    let only = LogKind::ALL.get(usize::from(what & 7)).copied();
    is_log(log);
    let made = read_log(log, LogOptions { only, width: Width::W64 }).expect("memory can be read");
    for ledger in made.into_iter().take(4) {
        ledger.into_file().expect("there is room");
    }
    if what & 8 != 0 {
        let mut line = LiveLine::new(only.filter(|kind| *kind != LogKind::Lws));
        for piece in log.chunks(1 + usize::from(what >> 4)) {
            line.take(piece).expect("there is room");
        }
        line.end().expect("there is room");
    }
    for form in [HostForm::Text, HostForm::Json] {
        let trace = HostTrace::read([log], form).expect("memory can be read");
        let mut out = Vec::new();
        match form {
            HostForm::Text => trace.report(&mut |_| Vec::new(), &mut out),
            HostForm::Json => trace.json(&mut out),
        }
        .expect("a Vec has room");
    }
});
