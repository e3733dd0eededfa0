//! The table that a probe file holds.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kafka_wire::{ApiKey, ErrorCode, VersionRange};
use reports::Window;
use serde_json::Value as Json;

use super::id_of;
use super::probe::Probe;
use crate::spec::{Lane, Spec, Verdict, WIRE};

/// The probes of one API.
pub struct Api {
    /// Its key.
    pub key: ApiKey,
    /// A well-formed request that changes nothing, however often it is sent: what is cut, stretched
    /// and lied about. Its fields hold something wherever the API lets them.
    pub sample: fn() -> Json,
    /// Error codes that a client of this API is prepared for. Any other is a failure of every probe
    /// that sees it. [`ErrorCode::None`] is always legal.
    pub legal: &'static [ErrorCode],
    /// The cases.
    pub cases: Vec<Case>,
}

type Run = Arc<dyn Fn(Probe) -> BoxFuture<'static, Verdict> + Send + Sync>;

/// One behaviour of one API, in every version that has it.
pub struct Case {
    /// The last part of the check's id.
    pub name: &'static str,
    /// The behaviour that a pass proves, as a sentence.
    pub title: &'static str,
    /// The versions that have it.
    pub versions: VersionRange,
    /// Improvement proposals it is about.
    pub kips: &'static [u16],
    /// With whom it may run.
    pub lane: Lane,
    run: Run,
}

impl Case {
    /// A case of every version, in the shared lane.
    pub fn new<F, R>(name: &'static str, title: &'static str, run: F) -> Self
    where
        F: Fn(Probe) -> R + Send + Sync + 'static,
        R: Future<Output = Verdict> + Send + 'static,
    {
        Self {
            name,
            title,
            versions: VersionRange::from(0),
            kips: &[],
            lane: Lane::Shared,
            run: Arc::new(move |probe| run(probe).boxed()),
        }
    }

    /// From this version on.
    #[must_use]
    pub const fn from(mut self, min: i16) -> Self {
        self.versions.min = min;
        self
    }

    /// Up to and with this version.
    #[must_use]
    pub const fn to(mut self, max: i16) -> Self {
        self.versions.max = max;
        self
    }

    /// Names the improvement proposals.
    #[must_use]
    pub const fn kips(mut self, kips: &'static [u16]) -> Self {
        self.kips = kips;
        self
    }

    /// While nothing else runs: the case looks at everything the server has.
    #[must_use]
    pub const fn alone(mut self) -> Self {
        self.lane = Lane::Alone;
        self
    }

    pub(super) fn spec(&self, api: &Api, version: i16, advertised: &[Window]) -> Spec {
        let (key, legal) = (api.key, api.legal);
        let advertised: Arc<[Window]> = advertised.into();
        let run = Arc::clone(&self.run);
        Spec::new(
            format!("{}/v{version}/{}", id_of(key), self.name),
            format!("{key} v{version} {}", self.title),
            WIRE,
            move |cx| run(Probe::new(cx, key, version, legal, Arc::clone(&advertised))),
        )
        .apis([key])
        .kips(self.kips.iter().copied())
        .lane(self.lane)
    }
}
