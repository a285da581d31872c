//! pprof: `profile.proto` of <https://github.com/google/pprof/tree/main/proto>, packed by gzip.

use std::io::{self, Write};

use crate::Compression;
use crate::columns::columns;
use crate::formats::{Comparison, ExportFormat, any_column, no_remarks};
use crate::profile::{CodePlace, Profile, TextId, Texts};
use crate::protobuf::Message;

pub(crate) const FORMAT: ExportFormat = ExportFormat {
    name: "pprof",
    about: "For `go tool pprof`, Pyroscope, Parca and others",
    ending: "pb.gz",
    packed: Some(Compression::Gzip),
    comparison: Comparison::Possible,
    needs_sizes: false,
    untold: "times of blocks, who freed them, and how the heap grew over the run",
    holds: any_column,
    remarks: no_remarks,
    write,
};

/// Fields of the messages, by the names that `profile.proto` has for them.
mod field {
    /// Of `Profile`.
    pub(super) mod profile {
        pub(in super::super) const SAMPLE_TYPE: u32 = 1;
        pub(in super::super) const SAMPLE: u32 = 2;
        pub(in super::super) const MAPPING: u32 = 3;
        pub(in super::super) const LOCATION: u32 = 4;
        pub(in super::super) const FUNCTION: u32 = 5;
        pub(in super::super) const STRING_TABLE: u32 = 6;
        pub(in super::super) const TIME_NANOS: u32 = 9;
        pub(in super::super) const DURATION_NANOS: u32 = 10;
        pub(in super::super) const PERIOD_TYPE: u32 = 11;
        pub(in super::super) const PERIOD: u32 = 12;
        pub(in super::super) const COMMENT: u32 = 13;
        pub(in super::super) const DEFAULT_SAMPLE_TYPE: u32 = 14;
    }
}

/// The texts of the file: those of the profile, and behind them our own.
struct StringTable<'p> {
    own: Texts,
    profile: &'p Texts,
}

impl StringTable<'_> {
    fn id(&mut self, text: &str) -> u64 {
        match self.own.id(text) {
            TextId(0) => 0,
            TextId(own) => self.profile.count() as u64 - 1 + u64::from(own),
        }
    }
}

fn value_type(strings: &mut StringTable<'_>, name: &str, unit: &str) -> Message {
    let mut message = Message::default();
    message.number(1, strings.id(name)).number(2, strings.id(unit));
    message
}

/// `Mapping`; locations say of it whether its code has names.
fn mapping(profile: &Profile, index: usize) -> Message {
    let module = &profile.modules[index];
    let number = index as u32 + 1;
    let named = |place: &&CodePlace| place.module_plus_1 == number && place.is_named;
    let (mut names, mut files, mut lines, mut inlined) = (false, false, false, false);
    for place in profile.places.iter().filter(named) {
        names = true;
        inlined |= place.lines.len() > 1;
        for line in &place.lines {
            files |= profile.functions[line.function as usize].file != TextId::default();
            lines |= line.line != 0;
        }
    }
    let mut message = Message::default();
    message.number(1, u64::from(number)).number(2, module.low).number(3, module.high);
    message.number(5, u64::from(module.path.0)).number(6, u64::from(module.build_id.0));
    for (field, is_there) in [(7, names), (8, files), (9, lines), (10, inlined)] {
        message.number(field, u64::from(is_there));
    }
    message
}

/// `Location`. What has no name has no functions here: who reads it may find one by the address.
fn location(index: usize, place: &CodePlace) -> Message {
    let mut message = Message::default();
    message.number(1, index as u64 + 1).number(2, u64::from(place.module_plus_1));
    message.number(3, place.address.unwrap_or(0));
    if place.is_named || place.address.is_none() {
        for line in &place.lines {
            let mut inner = Message::default();
            inner.number(1, u64::from(line.function) + 1).number(2, u64::from(line.line));
            message.message(4, &inner);
        }
    }
    message
}

fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    use field::profile as tag;
    let about = &profile.about;
    let mut strings = StringTable { own: Texts::default(), profile: &profile.texts };
    let columns = columns(profile);
    let mut message = Message::default();
    for column in &columns {
        message.message(tag::SAMPLE_TYPE, &value_type(&mut strings, column.name, column.unit()));
    }
    let thread = strings.id("thread");
    let mut ids: Vec<u64> = Vec::new();
    for stack in &profile.stacks {
        let values: Vec<i64> = columns.iter().map(|column| column.grown(&stack.own)).collect();
        if values.iter().all(|value| *value == 0) {
            continue;
        }
        ids.clear();
        ids.extend(profile.path(stack.node).map(|place| u64::from(place) + 1));
        let mut sample = Message::default();
        sample.numbers(1, ids.iter().copied());
        sample.numbers(2, values.iter().map(|value| value.cast_unsigned()));
        if about.by_thread {
            let mut label = Message::default();
            label.number(1, thread).number(2, u64::from(stack.thread.0));
            sample.message(3, &label);
        }
        message.message(tag::SAMPLE, &sample).flush(out)?;
    }
    for index in 0..profile.modules.len() {
        message.message(tag::MAPPING, &mapping(profile, index));
    }
    for (index, place) in profile.places.iter().enumerate() {
        message.message(tag::LOCATION, &location(index, place)).flush(out)?;
    }
    for (function, id) in profile.functions.iter().zip(1u64..) {
        // Two names that are one would be demangled once more, and lose what stands in `<>`.
        let mut inner = Message::default();
        inner.number(1, id).number(2, u64::from(function.name.0));
        if function.raw_name != function.name {
            inner.number(3, u64::from(function.raw_name.0));
        }
        inner.number(4, u64::from(function.file.0));
        message.message(tag::FUNCTION, &inner).flush(out)?;
    }
    let end = about.start_unix_ns.map(|start| start.saturating_add(about.span_ns.unwrap_or(0)));
    message.number(tag::TIME_NANOS, end.unwrap_or(0)).number(tag::DURATION_NANOS, about.span_ns.unwrap_or(0));
    message.message(tag::PERIOD_TYPE, &value_type(&mut strings, "space", "bytes"));
    message.number(tag::PERIOD, about.sample_interval.max(1));
    for remark in about.remarks() {
        message.always(tag::COMMENT, strings.id(&remark));
    }
    let shown = columns.iter().find(|column| column.measure == about.measure);
    message.number(tag::DEFAULT_SAMPLE_TYPE, shown.map_or(0, |column| strings.id(column.name)));
    for text in profile.texts.iter().chain(strings.own.iter().skip(1)) {
        message.text(tag::STRING_TABLE, text).flush(out)?;
    }
    message.flush(out)
}
