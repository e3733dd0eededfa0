//! What Queen says about credentials: whether they are good, and whose they are.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use host::sampled::Sampler;
use host::{Clock, Host, Monotonic};
use indexmap::IndexMap;
use ring::hmac;
use tokio::sync::Semaphore;

use crate::queen::{Class, Client, Credential, Error, Scope};

/// Answers that are kept; past it the oldest goes.
const MAX_KNOWN: usize = 1024;
/// How long an unanswered question rests before it is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// Credentials that are checked at once: each check lists the queues of a tenant.
const MAX_CHECKS: usize = 32;
/// Groups of credentials without a tenant that are remembered, to see two of them meet.
const MAX_REMEMBERED_GROUPS: usize = 10_000;
/// What a scope that Queen named begins with.
const TENANT: &str = "tenant:";
/// What the scope of a credential that stands for itself begins with.
const ITSELF: &str = "credential:";

/// Why a credential is not known to be good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unproven {
    /// It is not, and no retry makes it so: the words for the client.
    Refused(String),
    /// Queen could not say.
    Unknown(String),
}

/// The credentials this process has seen.
#[derive(Debug)]
pub struct Identities {
    queen: Arc<Client>,
    clock: Arc<dyn Clock>,
    /// Names credentials without showing them; of this process only.
    key: hmac::Key,
    checks: Semaphore,
    known: Mutex<IndexMap<String, Known>>,
    groups: Mutex<IndexMap<String, Scope>>,
    meetings: Sampler,
    /// One for the lines about refused credentials: a peer makes them at will.
    pub(crate) refusals: Sampler,
}

#[derive(Clone, Debug)]
struct Known {
    scope: Scope,
    /// When an answer that was not given is asked for again.
    ask_again: Option<Monotonic>,
}

impl Identities {
    /// Knows nobody yet.
    pub fn new(host: &Host, queen: Arc<Client>) -> Self {
        let mut key = [0; 32];
        host.entropy.fill(&mut key);
        Self {
            queen,
            clock: Arc::clone(&host.clock),
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            checks: Semaphore::new(MAX_CHECKS),
            known: Mutex::default(),
            groups: Mutex::default(),
            meetings: Sampler::default(),
            refusals: Sampler::default(),
        }
    }

    /// Asks Queen whether `credential` is good, and whose state it works on ([`Self::scope`]).
    ///
    /// # Errors
    ///
    /// [`Unproven`].
    pub async fn identify(&self, credential: &Credential) -> Result<Scope, Unproven> {
        self.check(credential).await?;
        self.scope(credential).await
    }

    /// Asks Queen whether `credential` is good: it must list the queues, which is what every
    /// client's first Metadata does.
    async fn check(&self, credential: &Credential) -> Result<(), Unproven> {
        let _permit = self.checks.acquire().await;
        let Err(error) = self.queen.check_credential(credential).await else {
            return Ok(());
        };
        let words = match (error.class(), &error) {
            (Class::Unauthenticated, _) => {
                "Authentication failed: Queen does not accept this token. The SASL password is a \
                 Queen bearer token"
                    .to_owned()
            }
            (Class::Forbidden, Error::Refused(refusal)) => {
                let said = refusal.text.as_deref().unwrap_or("forbidden");
                format!(
                    "Authentication failed: the token may not list topics here, for which it needs \
                     the read scope (this is not a bad password). Queen says: {said}"
                )
            }
            _ => return Err(Unproven::Unknown(error.to_string())),
        };
        Err(Unproven::Refused(words))
    }

    /// Whose state `credential`, which is good, works on: its tenant's where Queen names one, else its
    /// own. An answer that did not come is asked for again later.
    ///
    /// # Errors
    ///
    /// [`Unproven`], when it has ended meanwhile.
    pub async fn scope(&self, credential: &Credential) -> Result<Scope, Unproven> {
        let name = self.name(credential);
        let now = self.clock.monotonic();
        let known = self.known().get(&name).cloned();
        if let Some(Known { scope, ask_again }) = known
            && ask_again.is_none_or(|at| now < at)
        {
            return Ok(scope);
        }
        let own = || Scope::new(&format!("{ITSELF}{name}"));
        let (scope, ask_again) = match self.queen.auth_me(credential).await {
            Ok(Some(tenant)) => (Scope::new(&format!("{TENANT}{tenant}")), None),
            Ok(None) => (own(), None),
            // Queen's own identity surface knows no bearer and says so for ever; but a credential that
            // has ended since it was found good is told the same, and is not to be remembered by it.
            Err(error) if matches!(error.class(), Class::Unauthenticated | Class::Forbidden) => {
                self.check(credential).await?;
                (own(), None)
            }
            Err(error) => {
                let ask_again = error.is_transient().then(|| now + ASK_AGAIN);
                (own(), ask_again)
            }
        };
        let mut known = self.known();
        if known.len() >= MAX_KNOWN && !known.contains_key(&name) {
            known.shift_remove_index(0);
        }
        let answer = Known { scope, ask_again };
        known.insert(name, answer.clone());
        Ok(answer.scope)
    }

    /// Somebody of `scope` joins `group`. Two credentials without a tenant that share a group id
    /// are two tenants, or one tenant's two keys that each consume everything: an operator must
    /// hear of it.
    pub fn joins(&self, scope: &Scope, group: &str) {
        if !scope.as_str().starts_with(ITSELF) {
            return;
        }
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let met = groups.get(group).is_some_and(|other| other != scope);
        if groups.len() >= MAX_REMEMBERED_GROUPS && !groups.contains_key(group) {
            groups.shift_remove_index(0);
        }
        groups.insert(group.to_owned(), scope.clone());
        drop(groups);
        if met && let Some(suppressed) = self.meetings.pass(self.clock.monotonic()) {
            tracing::warn!(
                group,
                suppressed,
                "two credentials whose tenant Queen does not name use one group id: two tenants, \
                 or two keys of one tenant that each consume every record"
            );
        }
    }

    fn name(&self, credential: &Credential) -> String {
        let bearer = credential
            .bearer
            .as_ref()
            .map_or("", |b| b.expose().as_str());
        let mut signed = hmac::Context::with_key(&self.key);
        signed.update(bearer.as_bytes());
        signed.update(&[0]);
        signed.update(credential.host.as_deref().unwrap_or("").as_bytes());
        let tag = signed.sign();
        tag.as_ref()[..16]
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect()
    }

    fn known(&self) -> MutexGuard<'_, IndexMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::scripted_queen::{ScriptedQueen, node};

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Lines {
        fn warnings(&self) -> usize {
            let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
            text.matches("use one group id").count()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn two_unnamed_credentials_in_one_group_are_told() {
        let (node, _running) = node(&ScriptedQueen::start(), |_| {});
        let lines = Lines::default();
        let writer = lines.clone();
        let logger = tracing_subscriber::fmt().with_writer(move || writer.clone());
        let _logging = tracing::subscriber::set_default(logger.finish());
        let unnamed = |name: &str| Scope::new(format!("{ITSELF}{name}").as_str());
        let joins = |scope: &Scope, group| node.identities.joins(scope, group);
        joins(&unnamed("a"), "orders");
        joins(&unnamed("a"), "orders");
        joins(&unnamed("b"), "payments");
        joins(&Scope::new("tenant:x"), "orders");
        joins(&Scope::new("tenant:y"), "orders");
        assert_eq!(lines.warnings(), 0);
        joins(&unnamed("b"), "orders");
        assert_eq!(lines.warnings(), 1);
    }
}
