//! Profiles of OpenTelemetry as a file: `ProfilesData` of `opentelemetry/proto/profiles/v1development/profiles.proto`, as of
//! the package `opentelemetry-proto` 1.45 of Python's registry. The signal is in development: its messages may still change.

use std::collections::HashMap;
use std::io::{self, Write};

use crate::about::TOOL;
use crate::columns::{ValueColumn, columns};
use crate::formats::{Comparison, ExportFormat, any_column, no_remarks};
use crate::profile::{CodePlace, Profile, TextId, Texts};
use crate::protobuf::Message;

pub(crate) const FORMAT: ExportFormat = ExportFormat {
    name: "otlp",
    about: "Profiles of OpenTelemetry (a signal in development)",
    ending: "otlp.pb",
    packed: None,
    comparison: Comparison::Possible,
    needs_sizes: false,
    untold: "times of blocks, who freed them, and how the heap grew over the run",
    holds: any_column,
    remarks: no_remarks,
    write,
};

/// The tables that all messages of the file refer to. Row 0 of each is empty, and stands for nothing.
struct Dictionary {
    texts: Texts,
    attributes: Vec<Message>,
    known: HashMap<(TextId, TextId), u64>,
}

/// `AnyValue` with a text.
fn any_text(text: &str) -> Message {
    let mut value = Message::default();
    value.text(1, text);
    value
}

/// `KeyValue` of resources, whose texts stand in them.
fn attribute(key: &str, value: &Message) -> Message {
    let mut message = Message::default();
    message.text(1, key).message(2, value);
    message
}

impl Dictionary {
    fn id(&mut self, text: &str) -> u64 {
        u64::from(self.texts.id(text).0)
    }

    /// The row of an attribute.
    fn attribute(&mut self, key: &str, value: &str) -> u64 {
        let ids = (self.texts.id(key), self.texts.id(value));
        *self.known.entry(ids).or_insert_with(|| {
            let mut message = Message::default();
            message.number(1, u64::from(ids.0.0)).message(2, &any_text(value));
            self.attributes.push(message);
            self.attributes.len() as u64
        })
    }

    fn value_type(&mut self, name: &str, unit: &str) -> Message {
        let mut message = Message::default();
        message.number(1, self.id(name)).number(2, self.id(unit));
        message
    }
}

/// `Resource`: the program.
fn resource(profile: &Profile) -> Message {
    let about = &profile.about;
    let mut resource = Message::default();
    let mut put = |key: &str, value: &Message| {
        resource.message(1, &attribute(key, value));
    };
    put("service.name", &any_text(&about.name()));
    if let Some(pid) = about.pid {
        let mut number = Message::default();
        number.always(3, u64::from(pid));
        put("process.pid", &number);
    }
    let texts = [("process.executable.path", about.exe.as_deref()), ("host.name", about.host.as_deref())];
    for (key, text) in texts.into_iter().filter_map(|(key, text)| Some((key, text?))) {
        put(key, &any_text(text));
    }
    if !about.args.is_empty() {
        let (mut list, mut value) = (Message::default(), Message::default());
        about.args.iter().for_each(|word| {
            list.message(1, &any_text(word));
        });
        value.message(5, &list);
        put("process.command_args", &value);
    }
    for (key, value) in &about.labels {
        put(key, &any_text(value));
    }
    resource
}

/// `Profile` of one figure.
fn figure(profile: &Profile, column: &ValueColumn, dictionary: &mut Dictionary) -> Message {
    let about = &profile.about;
    let mut message = Message::default();
    message.message(1, &dictionary.value_type(column.name, column.unit()));
    for (stack, index) in profile.stacks.iter().zip(1u64..) {
        let value = column.grown(&stack.own);
        if value == 0 {
            continue;
        }
        let mut sample = Message::default();
        sample.number(1, index);
        if about.by_thread {
            sample.numbers(2, [dictionary.attribute("thread.name", profile.texts.get(stack.thread))]);
        }
        sample.numbers(4, [value.cast_unsigned()]);
        message.message(2, &sample);
    }
    message.fixed(3, about.start_unix_ns.unwrap_or(0)).number(4, about.span_ns.unwrap_or(0));
    message.message(5, &dictionary.value_type("space", "bytes")).number(6, about.sample_interval.max(1));
    let remarks = about.remarks();
    message.numbers(11, remarks.iter().map(|remark| dictionary.attribute("pprof.profile.comment", remark)));
    message
}

fn location(place: &CodePlace) -> Message {
    let mut message = Message::default();
    message.number(1, u64::from(place.module_plus_1)).number(2, place.address.unwrap_or(0));
    if place.is_named || place.address.is_none() {
        for line in &place.lines {
            let mut inner = Message::default();
            inner.number(1, u64::from(line.function) + 1).number(2, u64::from(line.line));
            message.message(3, &inner);
        }
    }
    message
}

/// `ProfilesDictionary`, whose length stands before it: it is written to memory.
fn tables(profile: &Profile, dictionary: &mut Dictionary) -> Message {
    let empty = Message::default();
    let mut tables = Message::default();
    (1..=3).for_each(|table| {
        tables.message(table, &empty);
    });
    for module in &profile.modules {
        let mut message = Message::default();
        message.number(1, module.low).number(2, module.high).number(4, u64::from(module.path.0));
        if module.build_id != TextId::default() {
            let id = dictionary.attribute("process.executable.build_id.gnu", profile.texts.get(module.build_id));
            message.numbers(5, [id]);
        }
        tables.message(1, &message);
    }
    profile.places.iter().for_each(|place| {
        tables.message(2, &location(place));
    });
    for function in &profile.functions {
        let mut message = Message::default();
        message.number(1, u64::from(function.name.0)).number(2, u64::from(function.raw_name.0));
        tables.message(3, message.number(3, u64::from(function.file.0)));
    }
    // Of links, attributes and stacks.
    [4, 6, 7].into_iter().for_each(|table| {
        tables.message(table, &empty);
    });
    dictionary.attributes.iter().for_each(|attribute| {
        tables.message(6, attribute);
    });
    for stack in &profile.stacks {
        let mut message = Message::default();
        message.numbers(1, profile.path(stack.node).map(|place| u64::from(place) + 1));
        tables.message(7, &message);
    }
    dictionary.texts.iter().for_each(|text| {
        tables.text(5, text);
    });
    tables
}

fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let mut dictionary = Dictionary { texts: profile.texts.clone(), attributes: Vec::new(), known: HashMap::new() };
    // What was asked for comes first: that is what viewers show.
    let mut columns: Vec<ValueColumn> = columns(profile).into_iter().rev().collect();
    columns.sort_by_key(|column| column.measure != profile.about.measure);
    let (mut scope, mut scoped, mut resources) = (Message::default(), Message::default(), Message::default());
    let (name, version) = TOOL.split_once(' ').unwrap_or((TOOL, ""));
    scope.text(1, name).text(2, version);
    scoped.message(1, &scope);
    for column in &columns {
        scoped.message(2, &figure(profile, column, &mut dictionary));
    }
    resources.message(1, &resource(profile)).message(2, &scoped);
    let mut data = Message::default();
    data.message(1, &resources).flush(out)?;
    drop(resources);
    data.message(2, &tables(profile, &mut dictionary)).flush(out)
}
