//! The one writer: gathers what waits, plans it over the state, commits it once, makes it visible
//! and answers (group commit). Nothing is visible or answered before it is durable.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::Shared;
use super::batch::{Batch, Sources};
use super::change::{Change, LaneKey};
use super::state::State;
use crate::store::{Store, StoreError};

/// Jobs that may wait. More make their callers wait.
pub const QUEUE_LENGTH: usize = 4096;
/// A commit gathers at most this many bytes of records and values.
const COMMIT_BYTES: usize = 16 << 20;
/// A commit gathers at most this many jobs.
const COMMIT_JOBS: usize = 4096;

/// Tells a caller how its commit ended.
type Done = Box<dyn FnOnce(Result<(), WriteError>) + Send>;
/// What a job that is planned together with others wants.
type Plan = Box<dyn FnOnce(&mut Batch<'_>) -> Done + Send>;
/// What a job that runs alone wants.
type Alone = Box<dyn FnOnce(&State, Option<&Store>) -> Result<Planned, StoreError> + Send>;

/// Changes, the lanes they touch, and whom to tell.
pub struct Planned {
    changes: Vec<Change>,
    touched: Vec<LaneKey>,
    done: Done,
}

/// Why nothing was written, or nobody knows whether it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The store failed. Whether this write is on disk shows after the next start; every later
    /// write fails too.
    #[error("the store failed")]
    Store,
    /// The Queen is stopping or gone. Nothing was written.
    #[error("stopping")]
    Stopping,
}

/// Work for the writer.
pub enum Job {
    /// Planned together with others.
    Write {
        /// Bytes it adds to the commit.
        bytes: usize,
        /// Plans it.
        plan: Plan,
    },
    /// Planned against the committed state with the store at hand, and committed alone.
    Alone(Alone),
    /// What was sent before is done; what comes after is refused.
    Stop,
}

/// A way to the writer.
#[derive(Clone, Debug)]
pub struct Handle {
    jobs: mpsc::Sender<Job>,
}

impl Handle {
    /// Runs `plan` in the next commit and returns its result once that is durable.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn write<T: Send + 'static>(
        &self,
        bytes: usize,
        plan: impl FnOnce(&mut Batch<'_>) -> T + Send + 'static,
    ) -> Result<T, WriteError> {
        let (reply, answer) = oneshot::channel();
        let plan = Box::new(move |batch: &mut Batch<'_>| {
            let value = plan(batch);
            done_with(reply, value)
        });
        self.submit(Job::Write { bytes, plan }, answer).await
    }

    /// Runs `plan` over the committed state, commits its changes alone and returns its result.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn alone<T: Send + 'static>(
        &self,
        plan: impl FnOnce(&State, Option<&Store>) -> Result<(Vec<Change>, Vec<LaneKey>, T), StoreError>
        + Send
        + 'static,
    ) -> Result<T, WriteError> {
        let (reply, answer) = oneshot::channel();
        let plan = Box::new(move |state: &State, store: Option<&Store>| {
            let (changes, touched, value) = plan(state, store)?;
            Ok(Planned {
                changes,
                touched,
                done: done_with(reply, value),
            })
        });
        self.submit(Job::Alone(plan), answer).await
    }

    /// Refuses what is not yet sent. The writer ends when the rest is done.
    pub async fn stop(&self) {
        // A writer that is gone has stopped.
        let _ = self.jobs.send(Job::Stop).await;
    }

    async fn submit<T>(
        &self,
        job: Job,
        answer: oneshot::Receiver<Result<T, WriteError>>,
    ) -> Result<T, WriteError> {
        self.jobs
            .send(job)
            .await
            .map_err(|_| WriteError::Stopping)?;
        answer.await.map_err(|_| WriteError::Store)?
    }
}

fn done_with<T: Send + 'static>(reply: oneshot::Sender<Result<T, WriteError>>, value: T) -> Done {
    Box::new(move |committed| {
        // A caller that went away doesn't need its answer.
        let _ = reply.send(committed.map(|()| value));
    })
}

/// A handle and the queue for [`run`].
pub fn channel() -> (Handle, mpsc::Receiver<Job>) {
    let (jobs, queue) = mpsc::channel(QUEUE_LENGTH);
    (Handle { jobs }, queue)
}

/// Says that nothing can be written any more when the writer panics: otherwise the Queen would call
/// itself healthy and refuse every write.
struct Watch<'s>(&'s Shared);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.mark_broken();
        }
    }
}

/// Works until it is told to stop, or every handle is dropped, and what they sent is answered.
pub async fn run(shared: Arc<Shared>, mut queue: mpsc::Receiver<Job>, mut sources: Sources) {
    let mut carried = None;
    let mut broken = false;
    let _watch = Watch(&shared);
    loop {
        let job = match carried.take() {
            Some(job) => job,
            None => match queue.recv().await {
                Some(job) => job,
                None => break,
            },
        };
        let committed = match job {
            Job::Stop => {
                queue.close();
                continue;
            }
            // Dropping a job answers it with `WriteError::Store`.
            _ if broken => continue,
            Job::Alone(plan) => commit_alone(&shared, plan).await,
            Job::Write { bytes, plan } => {
                let mut plans = vec![plan];
                let mut total = bytes;
                while total < COMMIT_BYTES && plans.len() < COMMIT_JOBS {
                    match queue.try_recv() {
                        Ok(Job::Write { bytes, plan }) => {
                            total += bytes;
                            plans.push(plan);
                        }
                        Ok(other) => {
                            carried = Some(other);
                            break;
                        }
                        Err(_) => break,
                    }
                }
                let planned = plan_together(&shared, &mut sources, plans);
                commit(&shared, planned).await
            }
        };
        if let Err(error) = committed {
            tracing::error!(%error, "the store failed; writes are refused until the next start");
            shared.mark_broken();
            broken = true;
        }
    }
}

fn plan_together(shared: &Shared, sources: &mut Sources, plans: Vec<Plan>) -> Planned {
    let state = shared.read();
    let mut batch = Batch::new(
        &state,
        shared.host.clock.wall(),
        &*shared.host.entropy,
        sources,
    );
    let done: Vec<Done> = plans.into_iter().map(|plan| plan(&mut batch)).collect();
    let (changes, touched) = batch.finish();
    Planned {
        changes,
        touched,
        done: Box::new(move |committed| {
            for done in done {
                done(committed);
            }
        }),
    }
}

async fn commit_alone(shared: &Arc<Shared>, plan: Alone) -> Result<(), StoreError> {
    let planned = match &shared.store {
        None => plan(&shared.read(), None),
        Some(_) => {
            let shared = Arc::clone(shared);
            let blocking = shared.host.blocking;
            blocking
                .run(move || plan(&shared.read(), shared.store.as_deref()))
                .await
        }
    }?;
    commit(shared, planned).await
}

async fn commit(shared: &Arc<Shared>, planned: Planned) -> Result<(), StoreError> {
    let Planned {
        mut changes,
        touched,
        done,
    } = planned;
    if let Some(store) = &shared.store
        && !changes.is_empty()
    {
        let store = Arc::clone(store);
        let (result, returned) = shared
            .host
            .blocking
            .run(move || (store.commit(&changes), changes))
            .await;
        changes = returned;
        if let Err(error) = result {
            done(Err(WriteError::Store));
            return Err(error);
        }
    }
    if !changes.is_empty() {
        let mut state = shared.write();
        for change in changes {
            state.apply(change);
        }
    }
    shared.park.wake(&touched);
    shared.pops.wake_queues(&touched);
    done(Ok(()));
    Ok(())
}
