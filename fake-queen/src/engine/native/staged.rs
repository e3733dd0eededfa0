//! Native rows that the writer has planned but not committed, over the state.

use std::sync::Arc;

use indexmap::IndexMap;

use super::rows::{CursorRow, DeadLetterRow, LaneAt, NativeChange, QueueKey, SubscriptionRow};
use crate::engine::change::{Change, LaneKey};
use crate::engine::state::State;

/// Planned rows; `None` removes.
#[derive(Clone, Debug, Default)]
pub struct Staged {
    subscriptions: IndexMap<(QueueKey, Arc<str>), Option<SubscriptionRow>>,
    cursors: IndexMap<(LaneAt, Arc<str>), Option<CursorRow>>,
    dead_letters: IndexMap<(LaneAt, Arc<str>, i64), Option<DeadLetterRow>>,
}

impl Staged {
    /// A group's registration as this plan sees it.
    pub fn subscription(
        &self,
        state: &State,
        queue: &QueueKey,
        group: &Arc<str>,
    ) -> Option<SubscriptionRow> {
        match self.subscriptions.get(&(queue.clone(), group.clone())) {
            Some(staged) => *staged,
            None => state
                .queue(queue.tenant, &queue.name)?
                .consumers
                .subscriptions
                .get(group)
                .copied(),
        }
    }

    /// A cursor as this plan sees it.
    pub fn cursor(&self, state: &State, lane: &LaneAt, group: &Arc<str>) -> Option<CursorRow> {
        match self.cursors.get(&(lane.clone(), group.clone())) {
            Some(staged) => staged.clone(),
            None => state
                .lane(lane.key.tenant, &lane.key.queue, &lane.key.lane)?
                .consumers
                .cursors
                .get(group)
                .cloned(),
        }
    }

    /// Writes or removes a registration.
    pub fn put_subscription(
        &mut self,
        queue: QueueKey,
        group: Arc<str>,
        row: Option<SubscriptionRow>,
    ) {
        self.subscriptions.insert((queue, group), row);
    }

    /// Writes or removes a cursor.
    pub fn put_cursor(&mut self, lane: LaneAt, group: Arc<str>, row: Option<CursorRow>) {
        self.cursors.insert((lane, group), row);
    }

    /// Writes a dead letter.
    pub fn put_dead_letter(&mut self, lane: LaneAt, row: DeadLetterRow) {
        self.dead_letters
            .insert((lane, row.group.clone(), row.offset), Some(row));
    }

    /// Removes a dead letter.
    pub fn drop_dead_letter(&mut self, lane: LaneAt, group: Arc<str>, offset: i64) {
        self.dead_letters.insert((lane, group, offset), None);
    }

    /// The changes, and the lanes in which something can be claimed again.
    pub fn finish(self, state: &State, changes: &mut Vec<Change>, claimable: &mut Vec<LaneKey>) {
        changes.extend(self.subscriptions.into_iter().map(|((queue, group), row)| {
            Change::Native(match row {
                Some(row) => NativeChange::PutSubscription(queue, group, row),
                None => NativeChange::DropSubscription(queue, group),
            })
        }));
        for ((lane, group), row) in self.cursors {
            let key = &lane.key;
            let pending = state
                .lane(key.tenant, &key.queue, &key.lane)
                .is_some_and(|lane| {
                    row.as_ref().is_none_or(|row| {
                        row.lease.is_none() && row.committed + 1 < lane.row.high_watermark
                    })
                });
            if pending {
                claimable.push(key.clone());
            }
            changes.push(Change::Native(match row {
                Some(row) => NativeChange::PutCursor(lane, group, row),
                None => NativeChange::DropCursor(lane, group),
            }));
        }
        changes.extend(
            self.dead_letters
                .into_iter()
                .map(|((lane, group, offset), row)| {
                    Change::Native(match row {
                        Some(row) => NativeChange::PutDeadLetter(lane, row),
                        None => NativeChange::DropDeadLetter(lane, group, offset),
                    })
                }),
        );
    }
}
