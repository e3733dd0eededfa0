//! From variables to a running facade, and from a signal to a clean stop.
//!
//! [`main`] is the process; [`start`] is one facade, of which a process may run several.

mod check;
mod command_line;

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use coordinator::cluster::DuplicateNode;
use futures::future::BoxFuture;
use host::service::InProcess;
use host::shutdown::{Trigger, shutdown};
use host::text::cut;
use host::tls::{Roots, TlsConnect};
use host::{Connect, Host, Listener, Remote};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

use crate::config::{Config, HostPort, Mechanism, QueenUrl, Variables, variables};
use crate::context::{Node, NodeId, NodeParts};
use crate::metrics::Metrics;
use crate::security::tls_files;
use crate::{http, logging, server};
use command_line::Command;

/// Starts a Queen in this process, in memory or in a directory.
pub type EmbedFn = fn(
    Host,
    Option<PathBuf>,
) -> BoxFuture<'static, Result<InProcess, Box<dyn Error + Send + Sync>>>;

/// Why a facade does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener could not be bound.
    #[error("{variable}: cannot listen on {address}: {error}")]
    Bind {
        /// The variable that names the address.
        variable: &'static str,
        /// The address.
        address: HostPort,
        /// What the system says.
        error: io::Error,
    },
    /// The Queen in this process did not start.
    #[error("QUEEN_URL: the embedded Queen did not start: {0}")]
    Embedded(Box<dyn Error + Send + Sync>),
    /// An `https` Queen cannot be called.
    #[error("QUEEN_URL: {0}")]
    QueenTls(String),
    /// This binary was built without one.
    #[error("QUEEN_URL: this binary was built without the embedded Queen")]
    NoEmbedded,
    /// The runtime, or the signals.
    #[error("cannot run: {0}")]
    Runtime(#[from] io::Error),
    /// Another process has this node's id.
    #[error("QUEEN_KAFKA_NODE_ID: {0}; every facade of a cluster needs an id of its own")]
    DuplicateNode(#[from] DuplicateNode),
    /// A listener ended by itself.
    #[error("the listener ended")]
    Ended,
}

/// A facade that serves. Dropped, it closes at once; [`RunningFacade::stop`] drains first.
#[derive(Debug)]
pub struct RunningFacade {
    node: Arc<Node>,
    local_addr: SocketAddr,
    http_addr: Option<SocketAddr>,
    trigger: Trigger,
    listeners: Vec<JoinHandle<()>>,
    /// What runs beside the listeners, and ends with the facade: it follows the TLS files, and
    /// keeps this node in its cluster.
    companions: JoinSet<Result<(), StartError>>,
    reload: Arc<Notify>,
}

impl RunningFacade {
    /// The bound address of the Kafka listener.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The bound address of the HTTP listener, when there is one.
    pub fn http_addr(&self) -> Option<SocketAddr> {
        self.http_addr
    }

    /// The state of the facade: configuration, metrics.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Reads the TLS files again now, if there are any.
    pub fn reload(&self) {
        self.reload.notify_one();
    }

    /// Closes the listeners, answers what is in flight for at most `QUEEN_KAFKA_DRAIN_MS`, then
    /// closes what is left. Returns whether everything was answered.
    pub async fn stop(self) -> bool {
        let drained = self.trigger.stop(self.node.config.drain).await;
        for listener in self.listeners {
            // A listener that panicked has nothing more to say here.
            let _ = listener.await;
        }
        if let Some(cluster) = &self.node.cluster {
            cluster.release().await;
        }
        drained
    }

    /// Ends when a listener ends, which none does before the stop, or when this node must not go
    /// on.
    async fn ended(&mut self) -> StartError {
        let listeners = futures::future::select_all(self.listeners.iter_mut());
        let failed = async {
            loop {
                match self.companions.join_next().await {
                    Some(Ok(Err(error))) => return error,
                    Some(_) => {}
                    None => std::future::pending().await,
                }
            }
        };
        tokio::select! {
            biased;
            error = failed => error,
            _ = listeners => StartError::Ended,
        }
    }
}

/// Starts a facade that reaches Queen through `upstream`.
///
/// # Errors
///
/// [`StartError::Bind`].
pub async fn start(
    config: Config,
    host: Host,
    upstream: Arc<dyn Connect>,
) -> Result<RunningFacade, StartError> {
    let listener = bind(&host, variables::ADDR.name, &config.listen).await?;
    let local_addr = listener.local_addr();
    let http_listener = match &config.http {
        Some(address) => Some(bind(&host, variables::HTTP_ADDR.name, address).await?),
        None => None,
    };
    let http_addr = http_listener.as_ref().map(|listener| listener.local_addr());
    let mut advertised = config.advertised.clone();
    if advertised.port == 0 {
        advertised.port = local_addr.port();
    }
    let (trigger, shutdown) = shutdown();
    let node = Node::new(NodeParts {
        host,
        config: Arc::new(config),
        upstream,
        advertised,
        shutdown,
        metrics: Arc::new(Metrics::default()),
    });
    let mut companions = JoinSet::new();
    if let Some(cluster) = &node.cluster {
        cluster.claim().await?;
        let running = cluster.clone();
        companions.spawn(async move { running.run().await.map_err(StartError::from) });
    }
    let mut listeners = vec![tokio::spawn(server::serve(Arc::clone(&node), listener))];
    if let Some(listener) = http_listener {
        listeners.push(tokio::spawn(http::serve(Arc::clone(&node), listener)));
    }
    let reload = Arc::new(Notify::new());
    let files = node.config.security.tls.as_ref();
    let files = files.and_then(|tls| tls.files.clone());
    if let Some((acceptor, files)) = node.tls.clone().zip(files) {
        let (host, asked) = (node.host.clone(), Arc::clone(&reload));
        companions.spawn(async move {
            tls_files::follow(files, acceptor, host, asked).await;
            Ok(())
        });
    }
    Ok(RunningFacade {
        node,
        local_addr,
        http_addr,
        trigger,
        listeners,
        companions,
        reload,
    })
}

async fn bind(
    host: &Host,
    variable: &'static str,
    address: &HostPort,
) -> Result<Box<dyn Listener>, StartError> {
    let failed = |error| StartError::Bind {
        variable,
        address: address.clone(),
        error,
    };
    let resolved = host.net.resolve(&address.host, address.port).await;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for addr in resolved.map_err(failed)? {
        match host.net.bind(addr).await {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

/// The process `queen-kafka`: command line, variables, log, facade, signals. `embedded` starts the
/// Queen of `QUEEN_URL=embedded:`, when the binary has one.
///
/// Exit codes: 0 after a clean stop, 1 when it could not start or serve, 2 for a wrong command
/// line; those of `check` are in its module.
pub fn main(embedded: Option<EmbedFn>) -> ExitCode {
    let command = match command_line::parse(std::env::args_os().skip(1)) {
        Ok(command @ (Command::Run | Command::Check)) => command,
        Ok(Command::Print(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("queen-kafka: {error}\n\n{}", command_line::USAGE);
            return ExitCode::from(2);
        }
    };
    let variables: Variables = std::env::vars_os().collect();
    let config = match Config::from_variables(&variables) {
        Ok(config) => config,
        Err(errors) => {
            eprintln!("queen-kafka refuses to start:");
            for problem in &errors.0 {
                eprintln!("  {} {}", problem.variable, problem.message);
            }
            return match command {
                Command::Check => ExitCode::from(2),
                _ => ExitCode::FAILURE,
            };
        }
    };
    if command == Command::Check {
        return checked(&config, &variables, embedded.is_some());
    }
    logging::install(&config.log);
    for name in unknown(&variables) {
        let name = cut(name, 128);
        tracing::warn!(variable = %name, "not a variable of queen-kafka, ignored");
    }
    let run = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let run = run.map_err(StartError::from);
    match run.and_then(|runtime| runtime.block_on(run_until_signal(config, embedded))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "queen-kafka cannot serve");
            eprintln!("queen-kafka: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The names that begin like the facade's and are nobody's.
fn unknown(variables: &Variables) -> Vec<&str> {
    variables::unknown(variables.keys().filter_map(|name| name.to_str()))
}

/// `queen-kafka check`, the variables parsed.
fn checked(config: &Config, variables: &Variables, can_embed: bool) -> ExitCode {
    let looked = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map(|runtime| {
            runtime.block_on(async {
                let host = host::os::host();
                let upstream = match &config.queen_url {
                    QueenUrl::Embedded { .. } => None,
                    QueenUrl::Http {
                        tls,
                        host: name,
                        port,
                        ..
                    } => Some(remote(&host, *tls, name, *port)),
                };
                check::look(config, &host, upstream, can_embed).await
            })
        });
    let findings = match looked {
        Ok(findings) => findings,
        Err(error) => {
            eprintln!("queen-kafka: {}", StartError::from(error));
            return ExitCode::FAILURE;
        }
    };
    for name in unknown(variables) {
        println!(
            "note   {} is not a variable of queen-kafka, ignored.",
            cut(name, 128)
        );
    }
    for finding in &findings {
        println!("{finding}");
    }
    let wrong = findings
        .iter()
        .filter(|finding| finding.verdict == check::Verdict::Wrong);
    match wrong.count() {
        0 => {
            println!("\nNothing is wrong.");
            ExitCode::SUCCESS
        }
        wrong => {
            println!("\nWrong: {wrong}.");
            ExitCode::FAILURE
        }
    }
}

/// The way to a Queen outside of this process.
fn remote(host: &Host, tls: bool, name: &str, port: u16) -> Result<Arc<dyn Connect>, StartError> {
    let remote: Arc<dyn Connect> = Arc::new(Remote {
        net: Arc::clone(&host.net),
        host: name.to_owned(),
        port,
    });
    match tls {
        false => Ok(remote),
        true => over_tls(remote, name, host),
    }
}

async fn run_until_signal(config: Config, embedded: Option<EmbedFn>) -> Result<(), StartError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    announce(&config);
    let host = host::os::host();
    let (upstream, stop_queen) = match &config.queen_url {
        QueenUrl::Embedded { dir } => {
            let embed = embedded.ok_or(StartError::NoEmbedded)?;
            let queen = embed(host.clone(), dir.clone()).await;
            let queen = queen.map_err(StartError::Embedded)?;
            (queen.connector, Some(queen.stop))
        }
        QueenUrl::Http {
            tls,
            host: name,
            port,
            ..
        } => (remote(&host, *tls, name, *port)?, None),
    };
    let mut facade = start(config, host, upstream).await?;
    tracing::info!(listen = %facade.local_addr(), "queen-kafka serves");
    let name = loop {
        tokio::select! {
            _ = terminate.recv() => break "SIGTERM",
            _ = interrupt.recv() => break "SIGINT",
            _ = hangup.recv() => facade.reload(),
            error = facade.ended() => return Err(error),
        }
    };
    tracing::info!(signal = name, "queen-kafka stops");
    let stop = async {
        let drained = facade.stop().await;
        // Last: what it acknowledged to us is durable when this ends.
        if let Some(stop) = stop_queen {
            stop().await;
        }
        drained
    };
    tokio::select! {
        drained = stop => tracing::info!(drained, "queen-kafka stopped"),
        _ = terminate.recv() => tracing::warn!("second signal: stopped without draining"),
        _ = interrupt.recv() => tracing::warn!("second signal: stopped without draining"),
    }
    Ok(())
}

fn over_tls(
    remote: Arc<dyn Connect>,
    name: &str,
    host: &Host,
) -> Result<Arc<dyn Connect>, StartError> {
    let refused = |error: &dyn std::fmt::Display| StartError::QueenTls(error.to_string());
    let roots = Roots::of_system().map_err(|error| refused(&error))?;
    let tls = TlsConnect::new(remote, name, &roots, Arc::clone(&host.clock));
    Ok(Arc::new(tls.map_err(|error| refused(&error))?))
}

/// The boot line: what to compare with what the clients use.
fn announce(config: &Config) {
    let security = &config.security;
    if security.sasl.is_some() && security.tls.is_none() {
        tracing::warn!(
            "QUEEN_KAFKA_SASL without TLS: every client's Queen token crosses the network in the \
             clear; set QUEEN_KAFKA_TLS_CERT and QUEEN_KAFKA_TLS_KEY unless the link is encrypted"
        );
    }
    tracing::info!(
        queen_url = %config.queen_url,
        authenticated = config.queen_token.is_some(),
        listen = %config.listen,
        advertised = %config.advertised,
        default_partitions = config.default_partitions.get(),
        group_join_delay_ms = config.groups.initial_rebalance_delay.as_millis() as u64,
        tls = security.tls.is_some(),
        sasl = %security.sasl.map_or("none", Mechanism::as_str),
        forward_sni_host = security.forward_sni_host,
        node_id = config.node.as_ref().map_or(NodeId::SINGLE, |node| node.id).0,
        cluster = %config.cluster,
        "queen-kafka starting"
    );
}
