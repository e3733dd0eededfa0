//! The topic cache: what topics a tenant has, their ids, widths and configs, and the creation of
//! topics.
//!
//! One list per scope, kept three seconds, refreshed by one call that everybody waits for. The last
//! good list serves reads while Queen is away. Makes the calls of queues and topic records; decides
//! no Kafka code.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use host::metrics::{Counter, Registry};
use host::{Clock, Host, Monotonic};
use indexmap::IndexMap;
use uuid::Uuid;

use crate::queen::{Class, Client, Credential, Error, Scope};
use crate::topics::check_name;

mod change;
mod create;
mod dedup;
mod delete;
mod list;
mod refresh;

pub use change::{AlterError, CreateError, NewTopic};
pub use dedup::Dedup;
pub use delete::{DeleteError, Doomed};
pub use list::{RecordState, Topic, TopicList};

/// How long a list serves: a queue made by others becomes visible within this time.
pub const LIST_AGE: Duration = Duration::from_secs(3);
/// How long a list that lacks a topic serves whoever asks for that topic, in a cluster: another node
/// may have made it a moment ago.
const ABSENCE_AGE: Duration = Duration::from_millis(100);
/// How long a caller that could be served from an older list waits for a newer one.
const REFRESH_PATIENCE: Duration = Duration::from_secs(1);
/// Topics that one request may create without asking.
pub const MAX_AUTO_CREATES: usize = 100;
/// Tenants whose lists are kept; the one unused for longest goes first.
const MAX_SCOPES: usize = 1024;

/// The topics of every tenant this process serves. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Catalogue {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    client: Arc<Client>,
    clock: Arc<dyn Clock>,
    default_partitions: i32,
    absence_age: Duration,
    scopes: Mutex<IndexMap<Scope, Arc<State>>>,
    metrics: Metrics,
}

#[derive(Debug)]
struct Metrics {
    refreshes: Counter,
    failed_refreshes: Counter,
    created: Counter,
    auto_created: Counter,
    widened: Counter,
    uncovered: Counter,
}

/// What is known of one tenant's topics.
#[derive(Debug, Default)]
struct State {
    current: Mutex<Current>,
    /// Held while topics are created or altered: each of these reads before it writes.
    changes: tokio::sync::Mutex<()>,
    /// Names of topics that are being deleted: nobody creates or alters them. Changed with `changes`
    /// held, except that a deletion that ends gives its names free.
    deleting: Mutex<BTreeSet<String>>,
    dedup: Mutex<BTreeMap<String, dedup::Verdict>>,
    /// Held while a dedup window is widened.
    widening: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Current {
    list: Arc<TopicList>,
    /// When the call that read `list` began; `None` when the next reader should ask again.
    read_at: Option<Monotonic>,
    /// Readings and changes of the list in the order they began: a clock may stand still.
    began: u64,
    /// What `list` comes from. Readings that began before it are not kept.
    list_from: u64,
    failure: Option<(Monotonic, Error)>,
    in_flight: Option<InFlight>,
    records_scanned_at: Option<Monotonic>,
    lane_names_from: Monotonic,
}

type Refreshed = Result<Arc<TopicList>, Error>;

#[derive(Clone, Debug)]
struct InFlight {
    credential: Credential,
    done: Shared<BoxFuture<'static, Refreshed>>,
}

/// A reading of a tenant's topics.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The topics. Empty when none could ever be read.
    pub topics: Arc<TopicList>,
    /// Why they could not be read now. Then `topics` is the last good list, or empty when the
    /// credential may not see it; a topic it lacks may exist.
    pub trouble: Option<Error>,
}

/// What became of a name or an id.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// A topic.
    Found(Arc<Topic>),
    /// There is none.
    Absent,
    /// No topic can have this name.
    Illegal(&'static str),
    /// Not known: Queen could not be asked, or could not create it.
    Failed(Error),
    /// Exists or will, but can't be served yet: its record is not read, or this request created
    /// its share of topics.
    Later,
}

impl View {
    /// The topic named `name`.
    pub fn lookup(&self, name: &str) -> Lookup {
        match check_name(name) {
            Err(crate::topics::NameError::Illegal(why)) => Lookup::Illegal(why),
            Err(crate::topics::NameError::Internal) => Lookup::Absent,
            Ok(()) => self.judge(self.topics.get(name)),
        }
    }

    /// The topic with this id.
    pub fn lookup_id(&self, id: Uuid) -> Lookup {
        self.judge(self.topics.get_by_id(id))
    }

    /// Whether one of `names` is no topic here, and might be one.
    pub fn lacks<'n>(&self, mut names: impl Iterator<Item = &'n str>) -> bool {
        names.any(|name| matches!(self.lookup(name), Lookup::Absent))
    }

    fn judge(&self, topic: Option<&Arc<Topic>>) -> Lookup {
        match (topic, &self.trouble) {
            (Some(topic), _) if topic.record == RecordState::Unread => Lookup::Later,
            (Some(topic), _) => Lookup::Found(topic.clone()),
            (None, Some(trouble)) => Lookup::Failed(trouble.clone()),
            (None, None) => Lookup::Absent,
        }
    }
}

impl Catalogue {
    /// An empty cache over `client`. Topics that declare no width get `default_partitions`. In a
    /// cluster, other nodes create topics too.
    pub fn new(
        host: &Host,
        client: Arc<Client>,
        default_partitions: i32,
        in_cluster: bool,
        registry: &Registry,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                client,
                clock: host.clock.clone(),
                default_partitions,
                absence_age: if in_cluster { ABSENCE_AGE } else { LIST_AGE },
                scopes: Mutex::default(),
                metrics: Metrics::new(registry),
            }),
        }
    }

    /// The topics that `scope` has, at most [`LIST_AGE`] old when Queen answers.
    pub async fn view(&self, scope: &Scope, credential: &Credential) -> View {
        self.view_within(scope, credential, LIST_AGE).await
    }

    /// As [`Catalogue::view`], for a request about topics that the list must not `lack` by its age
    /// alone.
    pub async fn view_for(
        &self,
        scope: &Scope,
        credential: &Credential,
        lacks: impl Fn(&View) -> bool,
    ) -> View {
        let view = self.view(scope, credential).await;
        if self.inner.absence_age < LIST_AGE && lacks(&view) {
            return self
                .view_within(scope, credential, self.inner.absence_age)
                .await;
        }
        view
    }

    async fn view_within(&self, scope: &Scope, credential: &Credential, age: Duration) -> View {
        let state = self.inner.state(scope);
        let now = self.inner.clock.monotonic();
        let (older, refresh) = {
            let mut current = state.lock();
            if current
                .read_at
                .is_some_and(|at| now.saturating_since(at) < age)
            {
                return View {
                    topics: current.list.clone(),
                    trouble: None,
                };
            }
            if let Some((at, error)) = &current.failure
                && now.saturating_since(*at) < LIST_AGE
            {
                return View {
                    topics: current.list.clone(),
                    trouble: Some(error.clone()),
                };
            }
            let refresh = current.shared_refresh(&self.inner, &state, credential);
            let older = current.read_at.is_some().then(|| current.list.clone());
            (older, refresh)
        };
        let refreshed = match older {
            None => refresh.await,
            Some(older) => match tokio::time::timeout(REFRESH_PATIENCE, refresh).await {
                Ok(refreshed) => refreshed,
                Err(_) => {
                    return View {
                        topics: older,
                        trouble: None,
                    };
                }
            },
        };
        match refreshed {
            Ok(topics) => View {
                topics,
                trouble: None,
            },
            Err(error) => View {
                // Somebody else's list is not shown to a credential that Queen refuses.
                topics: if is_denial(&error) {
                    Arc::default()
                } else {
                    state.lock().list.clone()
                },
                trouble: Some(error),
            },
        }
    }

    /// The topics as read by a call that begins after this one was made.
    ///
    /// # Errors
    ///
    /// The queue list's: what could not be read now is not taken from an older list.
    pub async fn fresh_view(&self, scope: &Scope, credential: &Credential) -> Result<View, Error> {
        let state = self.inner.state(scope);
        Ok(View {
            topics: self.inner.fresh_list(&state, credential).await?,
            trouble: None,
        })
    }
}

impl Inner {
    /// The state of `scope`, made when it is new.
    fn state(&self, scope: &Scope) -> Arc<State> {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = scopes.get_index_of(scope) {
            let last = scopes.len() - 1;
            // The order is that of use; with few tenants there is nothing to move.
            if index != last {
                scopes.move_index(index, last);
            }
            if let Some((_, state)) = scopes.last() {
                return state.clone();
            }
        }
        if scopes.len() >= MAX_SCOPES {
            scopes.shift_remove_index(0);
        }
        let state = Arc::new(State::default());
        scopes.insert(scope.clone(), state.clone());
        state
    }

    /// The list as read by a call that begins now or later.
    async fn fresh_list(
        self: &Arc<Self>,
        state: &Arc<State>,
        credential: &Credential,
    ) -> Refreshed {
        let refresh = state.lock().new_refresh(self, state, credential);
        refresh.await
    }
}

impl State {
    fn deleting(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // Names are put in and taken out whole.
        self.deleting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    /// The reading in flight, else a new one. Another credential's is not waited for: Queen may
    /// refuse the one and answer the other.
    fn shared_refresh(
        &mut self,
        inner: &Arc<Inner>,
        state: &Arc<State>,
        credential: &Credential,
    ) -> Shared<BoxFuture<'static, Refreshed>> {
        match &self.in_flight {
            Some(in_flight)
                if in_flight.credential == *credential && in_flight.done.peek().is_none() =>
            {
                in_flight.done.clone()
            }
            _ => self.new_refresh(inner, state, credential),
        }
    }

    /// A reading that begins now. It runs to its end even when nobody waits for it any more.
    fn new_refresh(
        &mut self,
        inner: &Arc<Inner>,
        state: &Arc<State>,
        credential: &Credential,
    ) -> Shared<BoxFuture<'static, Refreshed>> {
        self.began += 1;
        let task = tokio::spawn(refresh::run(
            inner.clone(),
            state.clone(),
            credential.clone(),
            self.began,
        ));
        let done = async move {
            task.await
                .unwrap_or_else(|_| Err(Error::unreadable("reading the topics was cut short")))
        }
        .boxed()
        .shared();
        self.in_flight = Some(InFlight {
            credential: credential.clone(),
            done: done.clone(),
        });
        done
    }

    /// Replaces the list by one that knows of a change just made.
    fn change(&mut self, list: TopicList) {
        self.began += 1;
        self.list_from = self.began;
        self.list = Arc::new(list);
    }
}

/// Whether Queen refuses the credential rather than the call.
fn is_denial(error: &Error) -> bool {
    matches!(error.class(), Class::Unauthenticated | Class::Forbidden)
}

impl Metrics {
    fn new(registry: &Registry) -> Self {
        let refresh = |outcome| {
            registry.counter(
                "catalogue_refreshes_total",
                "Readings of the topic list, by outcome.",
                &[("outcome", outcome)],
            )
        };
        let create = |how| {
            registry.counter(
                "topics_created_total",
                "Topics created, by request or on first use.",
                &[("how", how)],
            )
        };
        Self {
            refreshes: refresh("ok"),
            failed_refreshes: refresh("failed"),
            created: create("request"),
            auto_created: create("first_use"),
            widened: registry.counter(
                "dedup_windows_widened_total",
                "Topics whose dedup window was widened for an idempotent producer.",
                &[],
            ),
            uncovered: registry.counter(
                "dedup_windows_uncovered_total",
                "Idempotent producers' first uses of a topic whose dedup window is not known to cover a retry.",
                &[],
            ),
        }
    }
}

#[cfg(test)]
mod tests;
