//! Spans of the crate `tracing` as labels.
#![forbid(unsafe_code)]

use crate::label::here;
use core::cell::RefCell;
use core::fmt::{Debug, Write};
use heapledger_format::LabelId;
use std::string::String;
use std::thread_local;
use std::vec::Vec;
use tracing_core::Subscriber;
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// Labels what is allocated while a span is entered: a layer for subscribers of the crate `tracing`. (With the feature `tracing`.)
///
/// A block has the label `span` with the name of the innermost span that its thread is in, and around it those of the spans around
/// that one; of the spans' fields those that [`fields`](SpanLabels::fields) names. An `async` function with a span has
/// its label wherever it runs and not while it waits, since `tracing` enters and leaves the span each time.
///
/// ```
/// # use heapledger::Heapledger;
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::system();
/// use heapledger::SpanLabels;
/// use tracing_subscriber::layer::SubscriberExt;
/// use tracing_subscriber::util::SubscriberInitExt;
///
/// fn main() {
///     tracing_subscriber::registry().with(SpanLabels::new().fields(&["route"])).init();
///     let span = tracing::info_span!("request", route = "/users", number = 17);
///     let answer = span.in_scope(|| vec![0u8; 1000]); // route=/users span=request
///     # drop(answer);
///     # heapledger::discard();
/// }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SpanLabels {
    fields: &'static [&'static str],
}

/// The label of a span.
struct SpanLabel(LabelId);

/// A span that a thread is in.
struct EnteredSpan {
    id: Id,
    /// The label in force before.
    before: LabelId,
}

thread_local! {
    /// The innermost last.
    static ENTERED: RefCell<Vec<EnteredSpan>> = const { RefCell::new(Vec::new()) };
}

impl SpanLabels {
    /// Labels by the names of spans.
    pub const fn new() -> SpanLabels {
        SpanLabels { fields: &[] }
    }

    /// And by these fields of theirs. A ledger has room for about 100,000 different labels, so a field that has another
    /// value in each span (the number of a request) is none.
    #[must_use]
    pub const fn fields(self, fields: &'static [&'static str]) -> SpanLabels {
        SpanLabels { fields }
    }
}

/// Makes labels of fields, one around the other.
struct Fields<'a> {
    wanted: &'a [&'static str],
    label: LabelId,
    text: String,
}

impl Fields<'_> {
    fn add(&mut self, field: &Field, write: impl FnOnce(&mut String)) {
        if !self.wanted.contains(&field.name()) {
            return;
        }
        self.text.clear();
        write(&mut self.text);
        if let Some(label) = here::make_within(self.label, field.name(), &self.text) {
            self.label = label;
        }
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, |text| text.push_str(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, |text| _ = write!(text, "{value:?}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanLabels {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let around = span.parent().and_then(|parent| parent.extensions().get::<SpanLabel>().map(|label| label.0));
        let around = around.unwrap_or_else(|| if span.parent().is_none() { here::in_force() } else { LabelId::NONE });
        let label = here::make_within(around, "span", attributes.metadata().name()).unwrap_or(around);
        let mut fields = Fields { wanted: self.fields, label, text: String::new() };
        attributes.record(&mut fields);
        span.extensions_mut().insert(SpanLabel(fields.label));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        let Some(label) = extensions.get_mut::<SpanLabel>() else { return };
        let mut fields = Fields { wanted: self.fields, label: label.0, text: String::new() };
        values.record(&mut fields);
        label.0 = fields.label;
        let is_innermost = |entered: &RefCell<Vec<EnteredSpan>>| {
            entered.try_borrow().is_ok_and(|entered| entered.last().is_some_and(|last| last.id == *id))
        };
        if ENTERED.try_with(is_innermost).unwrap_or(false) {
            let _ = here::put_in_force(fields.label);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let label = context.span(id).and_then(|span| span.extensions().get::<SpanLabel>().map(|label| label.0));
        let Some(label) = label else { return };
        // A thread that ends has no place for it, and its blocks have the label of before.
        let _ = ENTERED.try_with(|entered| {
            if let Ok(mut entered) = entered.try_borrow_mut()
                && let Some(before) = here::put_in_force(label)
            {
                entered.push(EnteredSpan { id: id.clone(), before });
            }
        });
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        let _ = ENTERED.try_with(|entered| {
            let Ok(mut entered) = entered.try_borrow_mut() else { return };
            let Some(at) = entered.iter().rposition(|entered| entered.id == *id) else { return };
            let gone = entered.remove(at);
            match entered.get_mut(at) {
                // One that was entered later is left later: it goes back to what was in force before this one.
                Some(later) => later.before = gone.before,
                None => _ = here::put_in_force(gone.before),
            }
        });
    }
}
