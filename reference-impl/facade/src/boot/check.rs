//! `queen-kafka check`: what is right and wrong with a configuration, in sentences, before it serves
//! anybody. Binds what would be bound for a moment, dials what clients are told to dial, calls Queen;
//! writes nothing anywhere.

mod address;
mod queen;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use host::{Connect, Host};

use super::StartError;
use crate::config::{Config, TlsConfig};

/// How long one look may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a sentence says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be.
    Right,
    /// To be known; wrong in some places and right in others.
    Note,
    /// Clients will not be served.
    Wrong,
}

/// One sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it says.
    pub verdict: Verdict,
    /// The sentence.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Right => "right",
            Verdict::Note => "note ",
            Verdict::Wrong => "WRONG",
        };
        write!(f, "{verdict}  {}", self.text)
    }
}

/// Sentences in the order in which they were found.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    fn say(&mut self, verdict: Verdict, text: impl Into<String>) {
        let text = text.into();
        self.0.push(Finding { verdict, text });
    }

    fn right(&mut self, text: impl Into<String>) {
        self.say(Verdict::Right, text);
    }

    fn note(&mut self, text: impl Into<String>) {
        self.say(Verdict::Note, text);
    }

    fn wrong(&mut self, text: impl Into<String>) {
        self.say(Verdict::Wrong, text);
    }
}

/// Looks at everything. `upstream` leads to a Queen outside of this process; `None` for one inside,
/// which `can_embed` says that the binary has.
pub async fn look(
    config: &Config,
    host: &Host,
    upstream: Option<Result<Arc<dyn Connect>, StartError>>,
    can_embed: bool,
) -> Vec<Finding> {
    let mut findings = Findings::default();
    address::look(config, host, &mut findings).await;
    if let Some(tls) = &config.security.tls {
        certificate(config, tls, host, &mut findings);
    }
    match upstream {
        Some(Ok(upstream)) => queen::remote(config, host, upstream, &mut findings).await,
        Some(Err(error)) => findings.wrong(format!("{error}.")),
        None => queen::embedded(config, can_embed, &mut findings),
    }
    findings.0
}

fn certificate(config: &Config, tls: &TlsConfig, host: &Host, findings: &mut Findings) {
    let name = &config.advertised.host;
    match tls.identity.fits(name, host.clock.wall()) {
        Ok(()) => findings.right(format!(
            "The certificate of QUEEN_KAFKA_TLS_CERT is for {name} and valid today; clients have to \
             trust who signed it."
        )),
        Err(unfit) => findings.wrong(format!(
            "The certificate of QUEEN_KAFKA_TLS_CERT {unfit}: clients that are told to connect to \
             {name} refuse it."
        )),
    }
}
