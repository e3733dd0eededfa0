//! Carries a change of the marker out until its outcome is known.
//!
//! The same call is made again after a lost answer: it expects the version held, so at most one
//! try is applied, and a try that meets an earlier one is recognised by the marker.

use std::sync::Arc;
use std::time::Duration;

use coordinator::transaction::{Marker, Outcome, Settled, Write, WriteKind};
use host::shutdown::Phase;
use tokio::sync::oneshot;

use super::bundle::Bundled;
use super::entry::Entry;
use super::marker::{MarkerRow, StoredMarker, marker_key};
use super::{Failure, Inner, PATIENCE};
use crate::queen::kv::{
    Batch, Expect, Expiry, Loss, OnLoss, OpResult, Outcome as KvOutcome, Version, Winner,
};
use crate::queen::{Bundle, Class, Credential, Error, Repeat, Rollback};

/// The first wait between two tries; doubles up to [`LAST_BACKOFF`].
const FIRST_BACKOFF: Duration = Duration::from_millis(50);
/// The longest wait that Queen didn't ask for.
const LAST_BACKOFF: Duration = Duration::from_secs(5);

/// What one try came to.
enum Try {
    Known(Outcome<Version>),
    /// Certainly not applied; later it may be.
    NotNow(Failure),
    /// Certainly not applied, and it never will be.
    Never(Failure),
    /// Nobody knows.
    Unknown(Error),
}

impl Inner {
    /// Carries `write` out. The work goes on when nobody waits for it any more.
    ///
    /// # Errors
    ///
    /// [`Failure::Pending`] when that takes longer than a client waits; else why it certainly
    /// isn't done.
    pub(super) async fn carry_out(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        write: Write<Version>,
    ) -> Result<Settled, Failure> {
        let (answer, settled) = oneshot::channel();
        let (inner, entry) = (Arc::clone(self), Arc::clone(entry));
        let guard = self.shutdown.guard();
        tokio::spawn(async move {
            let result = inner.until_known(&entry, &write).await;
            // The client may be gone; the outcome stands.
            let _ = answer.send(result);
            drop(guard);
        });
        match tokio::time::timeout(PATIENCE, settled).await {
            Ok(Ok(result)) => result,
            _ => Err(Failure::Pending),
        }
    }

    async fn until_known(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        write: &Write<Version>,
    ) -> Result<Settled, Failure> {
        let (credential, stage) = {
            let state = entry.lock();
            let ends = write.kind != WriteKind::Claim || write.marker.number > state.core.number();
            let at = if ends {
                state.stage_end
            } else {
                state.stage_from
            };
            (state.credential.clone(), at)
        };
        let give_up = self.now() + PATIENCE;
        let mut backoff = FIRST_BACKOFF;
        // Once the outcome of a try isn't known, a later refusal says nothing about that one.
        let mut uncertain = false;
        let mut bundled = None;
        loop {
            let tried = self
                .attempt(entry, write, &credential, stage, &mut bundled)
                .await;
            let failure = match tried {
                Try::Known(outcome) => {
                    if uncertain {
                        self.metrics.landed.inc();
                    }
                    return Ok(self.settle(entry, write, outcome, stage, bundled).await);
                }
                Try::Never(failure) if !uncertain && write.kind != WriteKind::Fence => {
                    self.settle(entry, write, Outcome::Failed, stage, None)
                        .await;
                    return Err(failure);
                }
                Try::NotNow(failure)
                    if !uncertain && write.kind != WriteKind::Fence && self.now() >= give_up =>
                {
                    self.settle(entry, write, Outcome::Failed, stage, None)
                        .await;
                    return Err(failure);
                }
                Try::Never(failure) | Try::NotNow(failure) => failure,
                Try::Unknown(error) => {
                    uncertain = true;
                    Failure::Queen(error)
                }
            };
            tracing::debug!(transactional_id = ?entry.key.id, kind = ?write.kind, %failure, "a transaction's marker is not written yet");
            if self.shutdown.phase() != Phase::Running {
                return Err(Failure::Pending);
            }
            let asked = match &failure {
                Failure::Queen(error) => error.retry_after().unwrap_or_default(),
                _ => Duration::ZERO,
            };
            let wait = asked.clamp(backoff, Duration::from_secs(30));
            backoff = (backoff * 2).min(LAST_BACKOFF);
            tokio::select! {
                biased;
                () = self.shutdown.draining() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    async fn settle(
        self: &Arc<Self>,
        entry: &Entry,
        write: &Write<Version>,
        outcome: Outcome<Version>,
        stage: i64,
        bundled: Option<Bundled>,
    ) -> Settled {
        let settled = self.with(entry, |state| {
            let settled = state.core.written(write.token, outcome);
            if let Settled::Done(_) = settled {
                state.stage_from = bundled.as_ref().and_then(|b| b.stage_end).unwrap_or(stage);
                state.stage_end = state.stage_from;
            }
            settled
        });
        let metrics = &self.metrics;
        match (settled, write.kind) {
            (Settled::Done(_), WriteKind::Commit) => metrics.committed.inc(),
            (Settled::Done(_), WriteKind::Abort) => metrics.aborted.inc(),
            (Settled::Done(_), WriteKind::Fence) => {
                metrics.expired.inc();
                tracing::info!(transactional_id = ?entry.key.id, "a transaction was aborted: its time was over");
            }
            (Settled::Fenced, _) => metrics.fenced.inc(),
            _ => {}
        }
        if let (Settled::Done(_), Some(bundled)) = (settled, bundled) {
            self.committed(entry, bundled).await;
        }
        entry.settled.send_modify(|settled| *settled += 1);
        settled
    }

    async fn attempt(
        self: &Arc<Self>,
        entry: &Entry,
        write: &Write<Version>,
        credential: &Credential,
        stage: i64,
        bundled: &mut Option<Bundled>,
    ) -> Try {
        if write.kind != WriteKind::Commit {
            return self.put_marker(entry, write, credential, stage).await;
        }
        if bundled.is_none() {
            match self.bundle(entry, write, credential).await {
                Ok(built) => *bundled = Some(built),
                Err(Failure::Queen(error)) if !error.is_transient() => {
                    return Try::Never(Failure::Queen(error));
                }
                Err(refused @ Failure::Refused(_)) => return Try::Never(refused),
                Err(failure) => return Try::NotNow(failure),
            }
        }
        // Filled a line ago.
        let Some(built) = bundled else {
            return Try::NotNow(Failure::Pending);
        };
        match self
            .client
            .transaction(credential, &built.fragments, &built.riders)
            .await
        {
            Ok(Bundle::Committed { kv, .. }) => match kv.first() {
                Some(OpResult::Applied(version)) => Try::Known(Outcome::Applied(*version)),
                _ => Try::Unknown(Error::unreadable("a bundle committed without its marker")),
            },
            Ok(Bundle::RolledBack(Rollback::Precondition { winner, .. })) => {
                self.lost(entry, credential, &winner).await
            }
            Ok(Bundle::RolledBack(Rollback::Duplicate)) => {
                // Its records are there already: then so is its marker, or somebody changed that.
                let nothing = Winner::unseen();
                match self.lost(entry, credential, &nothing).await {
                    Try::Known(Outcome::Lost(row))
                        if row.map(|(version, _)| version) == write.expect =>
                    {
                        tracing::error!(transactional_id = ?entry.key.id, "records of an open transaction are stored already");
                        Try::Never(Failure::StageIncomplete)
                    }
                    tried => tried,
                }
            }
            Ok(Bundle::RolledBack(Rollback::Database)) => {
                Try::NotNow(Failure::Queen(Error::unreadable("Queen's database failed")))
            }
            Ok(Bundle::RolledBack(Rollback::Other(reason))) => {
                Try::Never(Failure::Queen(Error::unreadable(reason)))
            }
            Err(error) => failed(error),
        }
    }

    async fn put_marker(
        &self,
        entry: &Entry,
        write: &Write<Version>,
        credential: &Credential,
        stage: i64,
    ) -> Try {
        let mut batch = Batch::new();
        if let Err(error) = self.add_marker(&mut batch, entry, write, stage, OnLoss::Skip) {
            return Try::Never(Failure::Queen(error));
        }
        match self.client.kv(credential, &batch, Repeat::Unsafe).await {
            Ok(KvOutcome::Done(results)) => match results.first() {
                Some(OpResult::Applied(version)) => Try::Known(Outcome::Applied(*version)),
                Some(OpResult::Lost(Loss::Absent, _)) => Try::Known(Outcome::Lost(None)),
                Some(OpResult::Lost(_, winner)) => self.lost(entry, credential, winner).await,
                _ => Try::Unknown(Error::unreadable("a marker was put without a result")),
            },
            Ok(KvOutcome::Precondition(lost)) => self.lost(entry, credential, &lost.winner).await,
            Err(error) => failed(error),
        }
    }

    /// Adds the marker's put to `batch`.
    pub(super) fn add_marker(
        &self,
        batch: &mut Batch,
        entry: &Entry,
        write: &Write<Version>,
        stage: i64,
        on_loss: OnLoss,
    ) -> Result<(), Error> {
        const UNSENDABLE: Error = Error::Unsendable("a marker that Queen would refuse");
        let key = marker_key(&entry.key.id).ok_or(UNSENDABLE)?;
        let marker: &Marker = &write.marker;
        let row = MarkerRow::new(
            marker,
            self.node,
            self.clock.wall().epoch_ms(),
            self.is_stored().then_some(stage),
        );
        let expect = write.expect.map_or(Expect::Absent, Expect::Version);
        batch
            .put(&key, &row, Expiry::Forever, expect, on_loss)
            .map_err(|_| UNSENDABLE)
    }

    /// The row that a write lost against; read again when the answer doesn't show it.
    async fn lost(&self, entry: &Entry, credential: &Credential, winner: &Winner) -> Try {
        if let Some(seen) = StoredMarker::of_winner(winner) {
            return Try::Known(Outcome::Lost(Some((seen.version, seen.marker))));
        }
        let Some(key) = marker_key(&entry.key.id) else {
            return Try::Never(Failure::IdTooLong);
        };
        match self.read_marker(credential, &key).await {
            Ok(row) => {
                let row = row.map(|row| (row.version, row.marker));
                Try::Known(Outcome::Lost(row))
            }
            Err(Failure::Queen(error)) if error.is_transient() => Try::Unknown(error),
            // Whoever wrote that isn't us.
            Err(_) => Try::Known(Outcome::Lost(None)),
        }
    }

    /// The marker under `key`.
    ///
    /// # Errors
    ///
    /// The call's; `Unreadable` for a row of another shape.
    pub(super) async fn read_marker(
        &self,
        credential: &Credential,
        key: &str,
    ) -> Result<Option<StoredMarker>, Failure> {
        let readout = self.client.kv_read(credential, &[key]).await?;
        if !readout.unread.is_empty() {
            return Err(Error::unreadable("the marker was not read").into());
        }
        let row = readout.rows.first().map(StoredMarker::of_row).transpose();
        if row.is_err() {
            tracing::error!(key, "a transaction's marker is not readable");
        }
        Ok(row?)
    }
}

fn failed(error: Error) -> Try {
    match error.class() {
        Class::Unknown => Try::Unknown(error),
        Class::Throttled | Class::Unavailable => Try::NotNow(Failure::Queen(error)),
        Class::Unauthenticated
        | Class::Forbidden
        | Class::TooLarge
        | Class::NotFound
        | Class::Rejected => Try::Never(Failure::Queen(error)),
    }
}
