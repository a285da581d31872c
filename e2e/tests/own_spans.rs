//! Spans of the crate `tracing` as labels: this program has the crate `heapledger` inside.

use std::alloc::System;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use heapledger::{AtExit, Heapledger, Options, SpanLabels};
use heapledger_e2e::Result;
use heapledger_e2e::scratch::Scratch;
use heapledger_source::Ledger;
use tracing::{Instrument as _, Span, info_span};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

#[global_allocator]
static HEAP: Heapledger<System> =
    Heapledger::with(System, Options::new().off().in_memory().at_exit(AtExit::Keep).history(100));

/// Sizes that nobody else asks for.
const FIRST: usize = 40_001;

fn block(number: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(black_box(FIRST + number)))
}

/// Waits once.
async fn waits() {
    let mut has_waited = false;
    std::future::poll_fn(|_| if std::mem::replace(&mut has_waited, true) { Poll::Ready(()) } else { Poll::Pending })
        .await;
}

fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn blocks_have_the_labels_of_their_spans() -> Result {
    heapledger::start().map_err(|error| error.to_string())?;
    tracing_subscriber::registry().with(SpanLabels::new().fields(&["route", "status"])).init();
    let mut kept = vec![block(0)];
    let request = info_span!("request", route = "/x", number = 17, status = tracing::field::Empty);
    {
        let _request = request.enter();
        kept.push(block(1));
        let step = info_span!("step", route = ?Some(2)).entered();
        kept.push(block(2));
        // Left in another order than entered.
        let other = info_span!("other").entered();
        drop(step);
        kept.push(block(3));
        drop(other);
        kept.push(block(4));
        Span::current().record("status", 404);
        kept.push(block(5));
        // By itself in another thread.
        kept.push(thread::spawn(|| block(6)).join().expect("it ends"));
    }
    kept.push(block(7));
    let mut task = Box::pin(
        async {
            let before = block(8);
            waits().await;
            [before, block(9)]
        }
        .instrument(info_span!(parent: &request, "task")),
    );
    assert!(poll(&mut task).is_pending());
    kept.push(block(10));
    // It goes on in another thread.
    let goes_on = move || match poll(&mut task) {
        Poll::Ready([before, after]) => vec![before, after, block(11)],
        Poll::Pending => panic!("it has waited"),
    };
    kept.extend(thread::spawn(goes_on).join().expect("it ends"));
    // Within a label that was given by hand.
    let label = heapledger::label("by", "hand");
    kept.push(info_span!("inner").in_scope(|| block(12)));
    kept.push(block(13));
    drop(label);
    kept.push(block(14));

    let scratch = Scratch::new();
    heapledger::snapshot(scratch.path("spans.hl")).map_err(|error| error.to_string())?;
    let ledger = Ledger::open(scratch.path("spans.hl")).map_err(|error| error.to_string())?;
    let labels = ledger.labels().map_err(|error| error.to_string())?;
    let (mut records, mut found) = (ledger.records(), BTreeMap::new());
    while let Some(chunk) = records.next_chunk().map_err(|error| error.to_string())? {
        let ours =
            chunk.iter().filter_map(|entry| Some((entry.size?.checked_sub(FIRST as u64)?, labels.text(entry.label))));
        found.extend(ours.filter(|(number, _)| *number < 15));
    }
    // Of one key the innermost counts.
    let expected = [
        "",
        "route=/x span=request",
        "route=Some(2) span=step",
        "span=other route=Some(2)",
        "route=/x span=request",
        "status=404 route=/x span=request",
        "",
        "",
        "span=task status=404 route=/x",
        "span=task status=404 route=/x",
        "",
        "",
        "span=inner by=hand",
        "by=hand",
        "",
    ];
    let expected: BTreeMap<u64, String> = (0..).zip(expected.map(str::to_owned)).collect();
    assert_eq!(found, expected);
    Ok(())
}
