//! What a ledger knows of a block or an event, as keys of a JSON object: which keys, and in which order, the list of fields
//! says.

use std::borrow::Cow;

use heapledger_analysis::fields::{Field, JsonObject, Unit};
use heapledger_analysis::query::Subject;
use heapledger_format::{Kind, ThreadRow, Ticks};
use heapledger_source::FreeDepthChange;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::Context;
use crate::form::json::{Hex, thread};

/// How much of the stacks of calls that ended blocks was taken, if that was not all: to be flattened into the first line.
#[derive(Debug, Serialize)]
pub(crate) struct FreeDepthsJson {
    /// At the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    free_depth: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    free_depth_changes: Vec<FreeDepthChangeJson>,
}

#[derive(Debug, Serialize)]
struct FreeDepthChangeJson {
    number: u64,
    time_ns: Option<u64>,
    free_depth: String,
}

impl FreeDepthsJson {
    pub(crate) fn of(context: &Context) -> FreeDepthsJson {
        let depths = &context.free_depths;
        let change = |change: &FreeDepthChange| FreeDepthChangeJson {
            number: change.number,
            time_ns: context.clock.ns(change.time),
            free_depth: change.depth.to_string(),
        };
        FreeDepthsJson {
            free_depth: (!depths.is_whole()).then(|| depths.first.to_string()),
            free_depth_changes: depths.changes.iter().map(change).collect(),
        }
    }
}

/// A block or an event, to be flattened into the object that tells of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldsJson<'a> {
    context: &'a Context,
    subject: Subject<'a>,
    fields: &'static [(Field, &'static str)],
}

impl<'a> FieldsJson<'a> {
    /// What `object` tells of `subject`.
    pub(crate) fn of(context: &'a Context, object: JsonObject, subject: Subject<'a>) -> FieldsJson<'a> {
        FieldsJson { context, subject, fields: Field::of_json(object) }
    }

    fn entry<M: SerializeMap>(&self, map: &mut M, field: Field, key: &'static str) -> Result<(), M::Error> {
        let FieldsJson { context, ref subject, .. } = *self;
        let figure = field.figure(subject);
        let row = figure.and_then(|row| u32::try_from(row).ok());
        match field.unit() {
            Unit::Address => map.serialize_entry(key, &figure.map(Hex)),
            // As with what programs tell: where nobody has cores, objects are as they would be without.
            Unit::Number if matches!(field, Field::Core | Field::Cycles) && figure.is_none() => Ok(()),
            Unit::Bytes | Unit::Number => map.serialize_entry(key, &figure),
            Unit::Time | Unit::Span => {
                map.serialize_entry(key, &figure.and_then(|ticks| context.clock.ns(Ticks(ticks))))
            }
            Unit::Age => map.serialize_entry(key, &figure.and_then(|ticks| context.clock.age_ns(Ticks(ticks)))),
            Unit::Thread => map.serialize_entry(key, &thread(context, row.map(ThreadRow))),
            Unit::Heap => map.serialize_entry(key, &row.map(|row| heap(context, row))),
            Unit::Kind => map.serialize_entry(key, &figure.map(|kind| function(Kind(kind as u8)))),
            Unit::Weight if context.sampling.is_on() => {
                map.serialize_entry(key, &context.sampling.weight(subject.block()))
            }
            Unit::YesNo => map.serialize_entry(key, &figure.map(|yes| yes != 0)),
            Unit::Event => map.serialize_entry(key, if subject.is_free() { "free" } else { "allocation" }),
            // Where a program told nothing of the kind, objects are as they would be without.
            Unit::Mark | Unit::Window | Unit::Label if !context.told.has(field) => Ok(()),
            Unit::Mark => map.serialize_entry(key, &context.told.text_of(field, subject)),
            Unit::Window => map.serialize_entry(key, context.told.windows(subject)),
            Unit::Label => map.serialize_entry(key, &context.told.pairs(subject.block().label).map(Pairs)),
            Unit::Account => Ok(()),
            // Names of code stand on the line of the stack; without samples every block stands for itself.
            Unit::Function | Unit::File | Unit::Module | Unit::Stack | Unit::Weight => Ok(()),
        }
    }
}

/// A label: an object with its keys.
struct Pairs<'t>(Vec<(&'t str, &'t str)>);

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

fn function(kind: Kind) -> Cow<'static, str> {
    kind.name().map_or_else(|| kind.to_string().into(), Cow::Borrowed)
}

fn heap(context: &Context, row: u32) -> Cow<'_, str> {
    context.heaps.get(&row).map_or_else(|| row.to_string().into(), |heap| heap.name.as_str().into())
}

impl Serialize for FieldsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (field, key) in self.fields {
            self.entry(&mut map, *field, key)?;
        }
        map.end()
    }
}
