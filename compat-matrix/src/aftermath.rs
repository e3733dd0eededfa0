//! What must hold of the shared node when everything else has run.

use crate::cx::Cx;
use crate::spec::{Lane, Spec, Stop, Verdict, WIRE, ensure};
use crate::wire::Connection;

/// How a panic looks in a log: what the standard library's hook writes.
const PANIC: &str = "panicked at";

/// The checks that come last.
pub fn specs() -> Vec<Spec> {
    vec![
        Spec::new(
            "aftermath/no-panic",
            "No task of the shared node panicked in all that time",
            WIRE,
            no_panic,
        )
        .lane(Lane::Alone),
    ]
}

async fn no_panic(cx: Cx) -> Verdict {
    let node = cx.target.shared();
    let log = node
        .log_path()
        .ok_or_else(|| Stop::skip("this server's log is somebody else's"))?;
    let text = std::fs::read_to_string(&log)
        .map_err(|error| Stop::fail(format!("the node's log cannot be read: {error}")))?;
    cx.record
        .fact("lines of the node's log", text.lines().count());
    let panics: Vec<&str> = text.lines().filter(|line| line.contains(PANIC)).collect();
    for line in panics.iter().take(10) {
        cx.record.note(*line);
    }
    ensure(panics.is_empty(), || format!("{} panics", panics.len()))?;
    if let Some(memory) = node.memory().await {
        cx.record
            .fact("resident at the end, KiB", memory.resident_kib);
        cx.record
            .fact("most that ever was resident, KiB", memory.peak_kib);
    }
    Connection::ask_api_versions(node.bootstrap())
        .await
        .map_err(|why| Stop::fail(format!("the node does not answer any more: {why}")))
}
