//! The tables of the database. Values are encoded by `rows`.

use redb::TableDefinition;

/// Numbers never drawn twice.
pub const COUNTERS: TableDefinition<'_, (), &[u8]> = TableDefinition::new("counters");
/// Queues by creation order.
pub const QUEUES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("queues");
/// Lanes by uid.
pub const LANES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("lanes");
/// Segment headers by lane and base offset: small, so that retention and time search read little.
pub const HEADERS: TableDefinition<'_, (u64, i64), &[u8]> = TableDefinition::new("segment_headers");
/// Segment records by lane and base offset.
pub const BODIES: TableDefinition<'_, (u64, i64), &[u8]> = TableDefinition::new("segment_bodies");
/// Native cursors by lane and group.
pub const CURSORS: TableDefinition<'_, (u64, &[u8]), &[u8]> = TableDefinition::new("cursors");
/// Registrations of native groups by queue and group.
pub const SUBSCRIPTIONS: TableDefinition<'_, (u64, &[u8]), &[u8]> =
    TableDefinition::new("subscriptions");
/// Records given up by lane, offset and group.
pub const DEAD_LETTERS: TableDefinition<'_, (u64, i64, &[u8]), &[u8]> =
    TableDefinition::new("dead_letters");
/// KV rows by tenant, namespace and key.
pub const KV: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("kv");
