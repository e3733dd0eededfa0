//! A commit, and the verdicts on its rows.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::Tenant;
use super::keys::OffsetKey;
use super::rows::OffsetRow;
use crate::queen::Error;

/// What to do with one offset row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Store it, whatever was there.
    Put(OffsetRow),
    /// Delete it; deleting nothing succeeds.
    Delete,
}

/// The offsets that one request changes. Each key once: of several the last counts for all.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Whose.
    pub tenant: Tenant,
    /// The group.
    pub group: Arc<str>,
    /// What its index row says, should it have none yet.
    pub protocol_type: Arc<str>,
    /// The rows.
    pub changes: Vec<(OffsetKey, Change)>,
}

/// Why a row was not changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// Too much waits already. Nothing was queued.
    #[error("too many offset writes wait for Queen")]
    Busy,
    /// The call with it failed; the row may have been changed when that is not known.
    #[error(transparent)]
    Queen(#[from] Error),
    /// Another node owns the group.
    #[error("another node coordinates the group")]
    NotOwner,
    /// Somebody else was faster each time: another node with the group's fence, although this one owns
    /// the group, or another writer with the row.
    #[error("another writer was faster each time")]
    Contended,
    /// Queen's answer does not say that a write was applied, nor what was there instead.
    #[error("Queen does not say what became of a write")]
    NotApplied,
}

/// One verdict for each change, in order. `Ok` means durable.
pub type Verdicts = Vec<Result<(), WriteError>>;

/// Comes in when every change of a commit is judged.
#[derive(Debug)]
pub struct Receipt {
    changes: usize,
    verdicts: oneshot::Receiver<Verdicts>,
}

impl Receipt {
    /// A receipt for this many changes, and what judges them. There is nothing to judge when there
    /// are none: then the verdicts are in already.
    pub(super) fn new(changes: usize) -> (Self, Arc<Reply>) {
        let (sender, verdicts) = oneshot::channel();
        let reply = Reply {
            state: Mutex::new(ReplyState {
                verdicts: vec![None; changes],
                missing: changes,
                sender: Some(sender),
            }),
        };
        reply.answer_when_complete();
        (Self { changes, verdicts }, Arc::new(reply))
    }

    /// Waits for the verdicts. Dropping the future does not take the writes back.
    pub async fn verdicts(self) -> Verdicts {
        match self.verdicts.await {
            Ok(verdicts) => verdicts,
            // The task that writes is gone with its runtime.
            Err(_) => vec![Err(WriteError::Busy); self.changes],
        }
    }
}

/// Collects the verdicts of one job; answers when the last one is in.
#[derive(Debug)]
pub(super) struct Reply {
    state: Mutex<ReplyState>,
}

#[derive(Debug)]
struct ReplyState {
    verdicts: Vec<Option<Result<(), WriteError>>>,
    missing: usize,
    sender: Option<oneshot::Sender<Verdicts>>,
}

impl Reply {
    pub(super) fn judge(&self, slot: usize, verdict: Result<(), WriteError>) {
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(place @ None) = state.verdicts.get_mut(slot) {
                *place = Some(verdict);
                state.missing -= 1;
            }
        }
        self.answer_when_complete();
    }

    fn answer_when_complete(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.missing == 0
            && let Some(sender) = state.sender.take()
        {
            let verdicts = std::mem::take(&mut state.verdicts);
            // Nobody listens when the client is gone; the row is written all the same.
            let _ = sender.send(verdicts.into_iter().flatten().collect());
        }
    }
}
