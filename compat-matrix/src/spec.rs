//! A check before it ran: what it asks, what it needs, and the code that asks.
//!
//! Probes, hostile clients and client scenarios all become [`Spec`]s; the runner knows nothing else.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kafka_wire::ApiKey;
use reports::Difference;

use crate::cx::Cx;

/// The client of every probe that speaks the protocol by itself.
pub const WIRE: &str = "wire";

/// Time for a check that names none.
pub const DEFAULT_TIME_OUT: Duration = Duration::from_secs(20);

/// How a check ended: `Ok` is a pass.
pub type Verdict = Result<(), Stop>;

/// A check that has not run yet.
#[derive(Clone)]
pub struct Spec {
    /// Unique and stable: `wire/metadata/v9/unknown-topic`, `scenario/librdkafka/produce-gzip`.
    pub id: String,
    /// The behaviour that a pass proves, as a sentence.
    pub title: String,
    /// [`WIRE`], or the client's name and version.
    pub client: String,
    /// The APIs the check is about, named before it runs.
    pub apis: Vec<ApiKey>,
    /// Kafka improvement proposals it is about.
    pub kips: Vec<u16>,
    /// What it must not share with other checks.
    pub lane: Lane,
    /// When it counts as failed.
    pub time_out: Duration,
    run: Arc<dyn Fn(Cx) -> BoxFuture<'static, Verdict> + Send + Sync>,
}

/// With whom a check may run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// On the shared node, beside other checks. It uses only names of [`Cx::unique`].
    Shared,
    /// On nodes of its own ([`Cx::own_node`]), beside other checks. For checks that kill, restart,
    /// flood or configure a node.
    OwnNode,
    /// While nothing else runs. For checks that look at every topic or group of the shared node.
    Alone,
}

impl Spec {
    /// A check in the shared lane with the default time-out.
    pub fn new<F, R>(
        id: impl Into<String>,
        title: impl Into<String>,
        client: impl Into<String>,
        run: F,
    ) -> Self
    where
        F: Fn(Cx) -> R + Send + Sync + 'static,
        R: Future<Output = Verdict> + Send + 'static,
    {
        Self {
            id: id.into(),
            title: title.into(),
            client: client.into(),
            apis: Vec::new(),
            kips: Vec::new(),
            lane: Lane::Shared,
            time_out: DEFAULT_TIME_OUT,
            run: Arc::new(move |cx| run(cx).boxed()),
        }
    }

    /// Names the APIs.
    #[must_use]
    pub fn apis(mut self, apis: impl IntoIterator<Item = ApiKey>) -> Self {
        self.apis = apis.into_iter().collect();
        self
    }

    /// Names the improvement proposals.
    #[must_use]
    pub fn kips(mut self, kips: impl IntoIterator<Item = u16>) -> Self {
        self.kips = kips.into_iter().collect();
        self
    }

    /// Chooses the lane.
    #[must_use]
    pub const fn lane(mut self, lane: Lane) -> Self {
        self.lane = lane;
        self
    }

    /// Chooses the time-out.
    #[must_use]
    pub const fn within(mut self, time_out: Duration) -> Self {
        self.time_out = time_out;
        self
    }

    /// Adds to the time-out.
    #[must_use]
    pub fn with_more_time(mut self, time: Duration) -> Self {
        self.time_out += time;
        self
    }

    /// Starts the check. The runner adds the time-out and catches panics.
    pub fn start(&self, cx: Cx) -> BoxFuture<'static, Verdict> {
        (self.run)(cx)
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec")
            .field("id", &self.id)
            .field("client", &self.client)
            .field("lane", &self.lane)
            .finish_non_exhaustive()
    }
}

/// Why a check ended without a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It was not as it should be.
    Fail(Failure),
    /// The check cannot be made against this target. Counted as not run.
    Skip(String),
    /// The client cannot express it, or is not there. Counted as not run, whatever the target.
    Unable(String),
}

/// What was not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// One sentence.
    pub reason: String,
    /// The first field that differed, where it was a field.
    pub difference: Option<Difference>,
    /// How the target said no, in the words of an expectations file: the name of a Kafka error code
    /// (`SECURITY_DISABLED`) or `closed`. With it, an expected refusal becomes `refused`.
    pub refusal: Option<String>,
}

impl Stop {
    /// A failure with a reason alone.
    pub fn fail(reason: impl Into<String>) -> Self {
        Self::Fail(Failure {
            reason: reason.into(),
            difference: None,
            refusal: None,
        })
    }

    /// The target said no, in the words of an expectations file.
    pub fn refused(reason: impl Into<String>, refusal: impl Into<String>) -> Self {
        Self::Fail(Failure {
            reason: reason.into(),
            difference: None,
            refusal: Some(refusal.into()),
        })
    }

    /// Why, in a sentence.
    pub fn reason(&self) -> &str {
        match self {
            Self::Fail(failure) => &failure.reason,
            Self::Skip(why) | Self::Unable(why) => why,
        }
    }

    /// The check cannot be made here.
    pub fn skip(reason: impl Into<String>) -> Self {
        Self::Skip(reason.into())
    }
}

/// Fails with a difference at `path` unless the two are equal.
///
/// # Errors
///
/// A failure that shows both values.
pub fn expect_eq<T: fmt::Debug + PartialEq>(path: &str, expected: &T, got: &T) -> Verdict {
    if expected == got {
        return Ok(());
    }
    let difference = Difference {
        path: path.to_owned(),
        expected: format!("{expected:?}"),
        got: format!("{got:?}"),
    };
    Err(Stop::Fail(Failure {
        reason: difference.to_string(),
        difference: Some(difference),
        refusal: None,
    }))
}

/// Fails with `reason` unless `condition` holds.
///
/// # Errors
///
/// A failure with the reason.
pub fn ensure(condition: bool, reason: impl FnOnce() -> String) -> Verdict {
    if condition {
        Ok(())
    } else {
        Err(Stop::fail(reason()))
    }
}
