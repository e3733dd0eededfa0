//! `GET /api/v1/resources/queues`: every queue, newest first. Contract section 3.1.
//! `partitions` counts lanes that exist, not a declared width. No paging.

use super::Call;
use crate::engine::native::state::backlog;
use crate::engine::state::Queue;
use crate::http::reply::Reply;
use crate::{ids, json, time};

/// Answers.
pub fn handle(call: &Call<'_>) -> Reply {
    let now_ms = call.node.host.clock.wall().epoch_ms();
    let state = call.node.engine.shared.read();
    let mut out = b"{\"queues\":[".to_vec();
    let mut rows = (0_u64, 0_u64);
    if let Some(tenant) = state.tenant(call.tenant) {
        let mut queues: Vec<&Queue> = tenant.queues.values().collect();
        queues.sort_by_key(|queue| std::cmp::Reverse((queue.row.created_ms, queue.row.seq)));
        for (at, queue) in queues.into_iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            write(&mut out, queue, now_ms);
        }
        rows = (tenant.kv_rows, tenant.kv_bytes);
    }
    json::raw(&mut out, "],\"kvRows\":");
    json::uint(&mut out, rows.0);
    json::raw(&mut out, ",\"kvBytes\":");
    json::uint(&mut out, rows.1);
    out.push(b'}');
    Reply::ok(out)
}

/// One queue as the list and the detail show it, without the closing brace's neighbours.
pub fn write(out: &mut Vec<u8>, queue: &Queue, now_ms: i64) {
    let row = &queue.row;
    json::raw(out, "{\"id\":");
    ids::write_uuid(out, row.id.as_u128());
    for (name, text) in [
        ("name", &*row.name),
        ("namespace", &row.options.namespace),
        ("task", &row.options.task),
    ] {
        json::raw(out, ",\"");
        json::raw(out, name);
        json::raw(out, "\":");
        json::string(out, text);
    }
    json::raw(out, ",\"createdAt\":\"");
    time::millis(out, row.created_ms);
    json::raw(out, "\",\"partitions\":");
    json::uint(out, queue.lanes.len() as u64);
    let totals = queue.totals;
    let backlog = backlog(queue, now_ms);
    for (name, value) in [
        (",\"retainedBytes\":", totals.bytes),
        (",\"segments\":{\"segments\":", totals.segments),
        (",\"messages\":", totals.messages),
        ("},\"messages\":{\"total\":", totals.messages),
        (",\"pending\":", backlog.pending),
        (",\"processing\":", backlog.processing),
    ] {
        json::raw(out, name);
        json::uint(out, value);
    }
    json::raw(out, "}}");
}
