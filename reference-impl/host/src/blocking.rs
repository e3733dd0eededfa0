//! Where work that blocks a thread runs (a disk sync, a large compression).
//!
//! Production hands it to tokio's blocking pool; the simulation runs it in place, because a real
//! thread would make a run depend on the scheduler of the machine.

/// The choice, made once per node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// On tokio's blocking pool.
    Pool,
    /// In place, on the caller's thread.
    Inline,
}

impl Blocking {
    /// Runs `work` to its end and returns what it returns. A panic inside `work` is resumed here.
    pub async fn run<T, F>(self, work: F) -> T
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        match self {
            Self::Inline => work(),
            Self::Pool => {
                #[expect(clippy::disallowed_methods, reason = "the seam itself")]
                let joined = tokio::task::spawn_blocking(work).await;
                match joined {
                    Ok(value) => value,
                    Err(error) => match error.try_into_panic() {
                        Ok(panic) => std::panic::resume_unwind(panic),
                        // Only a runtime that is shutting down cancels blocking work.
                        Err(_) => std::future::pending().await,
                    },
                }
            }
        }
    }
}
