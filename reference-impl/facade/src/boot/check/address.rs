//! What is bound, and what clients are told to dial: does the one lead to the other?

use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::sync::Arc;

use host::{BoxStream, Host, Listener};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::{Findings, PATIENCE};
use crate::boot::{StartError, bind};
use crate::config::{Config, HostPort, variables};

/// What a listener of this process says to whoever connects.
const MARK_BYTES: usize = 16;

/// An ApiVersions request, version 0, correlation id 7, without a client id.
const API_VERSIONS: [u8; 14] = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff];

pub(super) async fn look(config: &Config, host: &Host, findings: &mut Findings) {
    explain(config, findings);
    if let Some(address) = &config.http {
        match bind(host, variables::HTTP_ADDR.name, address).await {
            Ok(_) => findings.right(format!("{address} (QUEEN_KAFKA_HTTP_ADDR) can be bound.")),
            Err(error) => {
                unbound(&error, address, findings);
            }
        }
    }
    match bind(host, variables::ADDR.name, &config.listen).await {
        Ok(listener) => {
            let listen = &config.listen;
            findings.right(format!("{listen} (QUEEN_KAFKA_ADDR) can be bound."));
            let mut mark = [0; MARK_BYTES];
            host.entropy.fill(&mut mark);
            tokio::select! {
                biased;
                () = say(listener, mark) => {}
                () = dial(config, host, Expected::Mark(mark), findings) => {}
            }
        }
        Err(error) => {
            let taken = unbound(&error, &config.listen, findings);
            if taken {
                let tls = config.security.tls.is_some();
                let expected = if tls {
                    Expected::Anything
                } else {
                    Expected::Kafka
                };
                dial(config, host, expected, findings).await;
            }
        }
    }
}

fn explain(config: &Config, findings: &mut Findings) {
    let (advertised, listen) = (&config.advertised, &config.listen);
    findings.note(format!(
        "Clients connect to their bootstrap address once, and from then on only to {advertised} \
         (QUEEN_KAFKA_ADVERTISED_ADDR)."
    ));
    let ip: Option<IpAddr> = advertised.host.parse().ok();
    let name = advertised.host.to_ascii_lowercase();
    let is_local = name == "localhost" || name.ends_with(".localhost");
    if is_local || ip.is_some_and(|ip| ip.to_canonical().is_loopback()) {
        findings.note(format!(
            "{} is this machine to whoever asks: programs elsewhere, other containers included, \
             are sent to themselves.",
            advertised.host
        ));
    } else if ip.is_none() && !name.contains('.') {
        findings.note(format!(
            "{} is a name without a domain: only clients in the same network of containers, or with \
             the same search domain, resolve it.",
            advertised.host
        ));
    }
    if advertised.port != listen.port {
        findings.note(format!(
            "Clients are told port {} and port {} is bound: something in front has to lead from \
             one to the other.",
            advertised.port, listen.port
        ));
    }
}

/// Says why an address cannot be bound; whether it is taken, which a facade that runs explains.
fn unbound(error: &StartError, address: &HostPort, findings: &mut Findings) -> bool {
    let taken =
        matches!(error, StartError::Bind { error, .. } if error.kind() == ErrorKind::AddrInUse);
    if taken {
        findings.note(format!(
            "{address} is taken: by this facade, if it runs already, else by a program that has to \
             make room."
        ));
    } else {
        findings.wrong(format!("{error}."));
    }
    taken
}

async fn say(mut listener: Box<dyn Listener>, mark: [u8; MARK_BYTES]) {
    while let Ok(mut stream) = listener.accept().await {
        // Whoever connects may be gone; the next one is not.
        if stream.write_all(&mark).await.is_ok() {
            let _ = stream.shutdown().await;
        }
    }
    std::future::pending().await
}

/// What is to answer at the advertised address.
#[derive(Clone, Copy)]
enum Expected {
    /// This process.
    Mark([u8; MARK_BYTES]),
    /// A facade that runs.
    Kafka,
    /// One that speaks TLS, whose words are not tried.
    Anything,
}

async fn dial(config: &Config, host: &Host, expected: Expected, findings: &mut Findings) {
    let HostPort { host: name, port } = &config.advertised;
    let advertised = &config.advertised;
    let net = Arc::clone(&host.net);
    if let Err(error) = late(net.resolve(name, *port)).await {
        findings.wrong(format!(
            "{name} does not resolve on this machine ({error}): clients that ask the same servers \
             find nobody. Set QUEEN_KAFKA_ADVERTISED_ADDR to a name that clients resolve."
        ));
        return;
    }
    let stream = match late(net.connect(name, *port)).await {
        Ok(stream) => stream,
        Err(error) => {
            findings.wrong(format!(
                "{advertised} cannot be reached from this machine ({error}). Is the port forwarded \
                 to {}, and is it the address that clients route to? (A network that lets nobody \
                 reach himself through his outer address is the one case in which clients may still \
                 succeed.)",
                config.listen
            ));
            return;
        }
    };
    match late(answers(stream, expected)).await {
        Ok(true) => findings.right(match expected {
            Expected::Mark(_) => format!("{advertised} leads to this process."),
            Expected::Kafka => format!("A Kafka server answers at {advertised}."),
            Expected::Anything => format!("Something listens at {advertised}."),
        }),
        Ok(false) | Err(_) => findings.wrong(format!(
            "Something else answers at {advertised}, which is what clients are told to connect to."
        )),
    }
}

async fn answers(mut stream: BoxStream, expected: Expected) -> io::Result<bool> {
    match expected {
        Expected::Mark(mark) => {
            let mut heard = [0; MARK_BYTES];
            stream.read_exact(&mut heard).await?;
            Ok(heard == mark)
        }
        Expected::Kafka => {
            stream.write_all(&API_VERSIONS).await?;
            let mut heard = [0; 10];
            stream.read_exact(&mut heard).await?;
            // The correlation id, and no error.
            Ok(heard[4..] == [0, 0, 0, 7, 0, 0])
        }
        Expected::Anything => Ok(true),
    }
}

async fn late<T>(look: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(PATIENCE, look)
        .await
        .unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}
