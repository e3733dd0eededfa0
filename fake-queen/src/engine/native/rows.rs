//! What native consumption stores, as plain rows, and the changes that carry them.

use std::sync::Arc;

use uuid::Uuid;

use crate::engine::change::LaneKey;
use crate::ids::{LaneUid, MessageId, TenantId};

/// How far a group is in a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CursorRow {
    /// The last consumed offset; the next one wanted is behind it.
    pub committed: i64,
    /// The batch handed out last, until it is acknowledged whole, released, or claimed anew after
    /// it expired.
    pub lease: Option<Lease>,
    /// Failures charged against the queue's retry limit.
    pub retries: i64,
    /// How often the record behind `committed` was handed out.
    pub attempts: u64,
    /// The last offset ever handed out.
    pub delivered_to: i64,
    /// Offsets passed since the cursor was made.
    pub total_consumed: u64,
    /// When a batch was last handed out, milliseconds since the epoch. The lane that waited
    /// longest is claimed first.
    pub claimed_ms: i64,
}

impl CursorRow {
    /// A cursor that consumed nothing behind `committed`.
    pub fn at(committed: i64) -> Self {
        Self {
            committed,
            delivered_to: committed,
            ..Self::default()
        }
    }

    /// The lease when it has not expired at `now_ms`.
    pub fn live_lease(&self, now_ms: i64) -> Option<&Lease> {
        self.lease.as_ref().filter(|lease| lease.is_live(now_ms))
    }

    /// Moves the cursor forward and counts what it passes.
    pub fn advance(&mut self, committed: i64) {
        if committed > self.committed {
            self.total_consumed += committed.abs_diff(self.committed);
            self.committed = committed;
            if committed >= self.delivered_to {
                self.delivered_to = committed;
                self.attempts = 0;
            }
        }
    }
}

/// A batch handed out: the offsets behind `committed` up to and including `batch_end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What its holder shows.
    pub id: Uuid,
    /// When it ends, milliseconds since the epoch.
    pub expires_ms: i64,
    /// Its last offset.
    pub batch_end: i64,
    /// Only the last record was handed out.
    pub conflated: bool,
}

impl Lease {
    /// It has not expired at `now_ms`.
    pub fn is_live(&self, now_ms: i64) -> bool {
        self.expires_ms > now_ms
    }
}

/// Where a group begins in lanes it has no cursor in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the oldest record kept.
    All,
    /// Behind what is there.
    New,
    /// At the first record appended at or after an instant, milliseconds since the epoch.
    From(i64),
}

impl Start {
    /// As the group views print it.
    pub const fn mode(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::New | Self::From(_) => "new",
        }
    }
}

/// A group's registration with a queue. Every lane that was there has a cursor since then; lanes
/// that came later begin at their start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionRow {
    /// What the first contact asked for.
    pub start: Start,
    /// The instant it means; milliseconds since the epoch.
    pub timestamp_ms: i64,
    /// When the first contact was.
    pub created_ms: i64,
    /// Only the newest record of a lane is handed out.
    pub conflation: bool,
}

/// A record that was given up, as it was when it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterRow {
    /// Its own.
    pub id: Uuid,
    /// Who gave it up.
    pub group: Arc<str>,
    /// Where it is, or was.
    pub offset: i64,
    /// The record's id.
    pub message_id: MessageId,
    /// The record's transaction id.
    pub transaction_id: Arc<str>,
    /// JSON text.
    pub payload: Arc<str>,
    /// Why.
    pub error: Arc<str>,
    /// Failures charged before.
    pub retries: i64,
    /// When, milliseconds since the epoch.
    pub failed_ms: i64,
}

/// Which queue, by name and by its key in the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueKey {
    /// Whose.
    pub tenant: TenantId,
    /// Its name.
    pub name: Arc<str>,
    /// `QueueRow::seq`.
    pub seq: u64,
}

/// Which lane, by name and by its key in the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneAt {
    /// Its names.
    pub key: LaneKey,
    /// Its key in the store.
    pub uid: LaneUid,
}

/// One step of a commit that concerns native consumption.
#[derive(Clone, Debug)]
pub enum NativeChange {
    /// Group registered, or its registration changed.
    PutSubscription(QueueKey, Arc<str>, SubscriptionRow),
    /// Registration removed.
    DropSubscription(QueueKey, Arc<str>),
    /// Cursor made or moved.
    PutCursor(LaneAt, Arc<str>, CursorRow),
    /// Cursor removed.
    DropCursor(LaneAt, Arc<str>),
    /// Record given up.
    PutDeadLetter(LaneAt, DeadLetterRow),
    /// Dead letter removed.
    DropDeadLetter(LaneAt, Arc<str>, i64),
}
