//! Every kind of secret, through every part that is given one, and then everything that was printed:
//! a Queen that asks for tokens, a cell's proxy before it, and a facade of its own process with TLS
//! and SASL that a supervisor keeps. Real sockets and a real clock: the facade is the shipped binary.

#![cfg(feature = "embedded")]
#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use facade::config::{Config, Variables};
use facade::queen::Credential;
use fake_queen::auth::Key;
use fake_queen::ids::TenantId;
use fake_queen::proxy::{self, Cell, CellFile, KeyId, Plan, Proxy, Scopes};
use fake_queen::{Options, Queen};
use host::tls::{Roots, TlsConnect};
use host::{Connect, Host, Remote, Secret};
use kafka_protocol::messages as typed;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::protocol::StrBytes;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tracing_subscriber::fmt::MakeWriter;
use uuid::Uuid;

use crate::process::{PATIENCE, free_port};
use crate::security::Client;

const ACME: TenantId = TenantId(Uuid::from_u128(0xa));

/// What the parts are given. Each begins with this, so that a part of one is found too.
const MARK: &str = "sekret";
const JWT_SECRET: &str = "sekret-of-the-signer";
const KEY_ALL: &str = "sekret-key-of-everything";
const KEY_READ: &str = "sekret-key-of-reading";
const WRONG_PASSWORD: &str = "sekret-that-nobody-has";
/// What is no secret, and must be found: else nothing was looked at.
const USER: &str = "the-label-of-a-user";

/// All that was printed.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Printed {
    fn add(&self, what: &str, text: &str) {
        let mut all = self.0.lock().unwrap();
        writeln!(all, "[{what}] {text}").unwrap();
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Printed {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// A Queen and the proxy before it, on sockets.
struct Cloud {
    queen: Queen,
    proxy: Proxy,
    queen_at: SocketAddr,
    proxy_at: SocketAddr,
    /// The proxy's credential at the Queen.
    token: String,
}

impl Cloud {
    async fn start(host: &Host, printed: &Printed) -> Self {
        let token = Key::new(JWT_SECRET.as_bytes()).sign(&json!({"role": "admin"}));
        let options = Options {
            jwt: Some(Key::new(JWT_SECRET.as_bytes())),
            tenancy_header: true,
            kv_require_grant: true,
            ..Options::default()
        };
        printed.add("debug of Queen's options", &format!("{options:?}"));
        let queen = Queen::start(host.clone(), options).await.unwrap();
        queen.grant_kv(ACME, true);
        let cell = Cell::new(host.clone());
        cell.share_host("127.0.0.1");
        cell.add_cluster("acme", ACME, Plan::default());
        let reader = Scopes {
            read: true,
            ..Scopes::default()
        };
        for (id, key, scopes) in [("all", KEY_ALL, Scopes::ALL), ("read", KEY_READ, reader)] {
            let secret = Secret::new(key.to_owned());
            cell.install(KeyId(id.into()), "acme", scopes, None, &secret)
                .unwrap();
        }
        let options = proxy::Options {
            upstream_token: Some(Secret::new(token.clone())),
            ..proxy::Options::default()
        };
        printed.add("debug of the proxy's options", &format!("{options:?}"));
        let upstream = queen.clone().in_process().connector;
        let proxy = Proxy::new(host.clone(), cell, upstream, options).unwrap();
        let mut bound = Vec::new();
        for _ in 0..2 {
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            bound.push(host.net.bind(any).await.unwrap());
        }
        let (of_queen, of_proxy) = (bound.remove(0), bound.remove(0));
        let (queen_at, proxy_at) = (of_queen.local_addr(), of_proxy.local_addr());
        queen.serve(of_queen);
        proxy.serve(of_proxy);
        Self {
            queen,
            proxy,
            queen_at,
            proxy_at,
            token,
        }
    }
}

/// The answer to a request, or why there is none.
async fn http(host: &Host, at: SocketAddr, head: &str, bearer: &str, body: &str) -> String {
    let asked = async {
        let mut stream = host.net.connect("127.0.0.1", at.port()).await?;
        let length = body.len();
        let request = format!(
            "{head} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
             Authorization: Bearer {bearer}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    match timeout(PATIENCE, asked).await.unwrap() {
        Ok(answer) => answer,
        Err(error) => error.to_string(),
    }
}

/// Where the facade is, and how it is told so.
struct Facade {
    kafka: u16,
    http: SocketAddr,
    variables: Vec<(&'static str, String)>,
    cert: String,
    key: String,
}

impl Facade {
    fn at(directory: &Path) -> Self {
        let names = ["127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let file = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (kafka, http) = (free_port(), free_port());
        let variables = vec![
            ("QUEEN_TOKEN", KEY_READ.to_owned()),
            ("QUEEN_KAFKA_SASL", "plain".to_owned()),
            ("QUEEN_KAFKA_TLS_CERT", file("cert.pem", &cert)),
            ("QUEEN_KAFKA_TLS_KEY", file("key.pem", &key)),
            ("QUEEN_KAFKA_ADDR", format!("127.0.0.1:{kafka}")),
            ("QUEEN_KAFKA_ADVERTISED_ADDR", format!("127.0.0.1:{kafka}")),
            ("QUEEN_KAFKA_HTTP_ADDR", format!("127.0.0.1:{http}")),
            ("RUST_LOG", "trace".to_owned()),
        ];
        Self {
            kafka,
            http: SocketAddr::from(([127, 0, 0, 1], http)),
            variables,
            cert,
            key,
        }
    }

    fn config(&self) -> Config {
        let variables = self.variables.iter();
        let variables: Variables = variables
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Config::from_variables(&variables).unwrap()
    }

    /// A broker's executable that becomes the facade: the two words behind these are its own process
    /// and the facade's path.
    fn launcher(&self) -> Vec<OsString> {
        let mut words = vec![OsString::from("/usr/bin/env")];
        let settings = self.variables.iter();
        words.extend(settings.map(|(name, value)| format!("{name}={value}").into()));
        words.extend(["/bin/sh", "-c", "exec \"$2\"", "sh"].map(OsString::from));
        words
    }

    async fn ready(&self, host: &Host) {
        let ready = async {
            let begins = "HTTP/1.1 200";
            while !http(host, self.http, "GET /readyz", "x", "")
                .await
                .starts_with(begins)
            {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, ready).await.unwrap();
    }

    async fn client(&self, host: &Host) -> Client {
        let remote = Arc::new(Remote {
            net: Arc::clone(&host.net),
            host: "127.0.0.1".into(),
            port: self.kafka,
        });
        let roots = Roots::from_pem(self.cert.as_bytes()).unwrap();
        let clock = Arc::clone(&host.clock);
        let connect = TlsConnect::new(remote, "127.0.0.1", &roots, clock).unwrap();
        Client(connect.connect().await.unwrap())
    }
}

fn create(name: &'static str) -> typed::CreateTopicsRequest {
    let topic = CreatableTopic::default()
        .with_name(typed::TopicName(StrBytes::from_static_str(name)))
        .with_num_partitions(1)
        .with_replication_factor(1);
    typed::CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(10_000)
}

/// Kafka clients: those who may, those who may not, and those who are none.
async fn kafka(facade: &Facade, host: &Host, printed: &Printed) {
    let hear = |what: &str, answer: String| printed.add(what, &answer);
    for (key, topic) in [(KEY_ALL, "orders"), (KEY_READ, "refused")] {
        let mut client = facade.client(host).await;
        let answer = client.log_in(USER, key).await.unwrap();
        assert_eq!(answer.error_code, 0, "{answer:?}");
        let made = client.call(5, create(topic)).await.unwrap();
        let is_made = made.topics[0].error_code == 0;
        assert_eq!(is_made, key == KEY_ALL, "{made:?}");
        hear("CreateTopics", format!("{made:?}"));
        let group = typed::GroupId(StrBytes::from_static_str("g"));
        let read = typed::OffsetFetchRequest::default().with_group_id(group);
        hear("OffsetFetch", format!("{:?}", client.call(7, read).await));
    }
    for password in [WRONG_PASSWORD, "sekret of\ntwo lines", "sekret\u{1b}[31m"] {
        let mut client = facade.client(host).await;
        let answer = client.log_in(USER, password).await;
        assert!(answer.as_ref().is_none_or(|answer| answer.error_code != 0));
        hear("SaslAuthenticate", format!("{answer:?}"));
    }
    // A client without TLS, and one that skips the handshake.
    let mut plain = host.net.connect("127.0.0.1", facade.kafka).await.unwrap();
    let message = format!("\0\0\0\x30\0\x24\0\0\0\0\0\x07\0{USER}\0{WRONG_PASSWORD}");
    plain.write_all(message.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    let _ = timeout(PATIENCE, plain.read_to_end(&mut heard)).await;
    hear("plaintext", String::from_utf8_lossy(&heard).into_owned());
    let mut client = facade.client(host).await;
    let auth_bytes = format!("\0{USER}\0{WRONG_PASSWORD}").into_bytes();
    let request = typed::SaslAuthenticateRequest::default().with_auth_bytes(auth_bytes.into());
    hear(
        "no handshake",
        format!("{:?}", client.call(2, request).await),
    );
}

/// Callers of every HTTP port.
async fn callers(facade: &Facade, cloud: &Cloud, host: &Host, printed: &Printed) {
    for (at, head, bearer, body) in [
        (facade.http, "GET /livez", WRONG_PASSWORD, ""),
        (facade.http, "GET /readyz", WRONG_PASSWORD, ""),
        (facade.http, "GET /metrics", WRONG_PASSWORD, ""),
        (facade.http, "GET /nothing?token=x", WRONG_PASSWORD, ""),
        (facade.http, "POST /livez", WRONG_PASSWORD, "{}"),
        (cloud.proxy_at, "GET /auth/me", KEY_ALL, ""),
        (
            cloud.proxy_at,
            "GET /api/v1/resources/queues",
            WRONG_PASSWORD,
            "",
        ),
        (cloud.proxy_at, "POST /api/v1/push", KEY_READ, "{}"),
        (
            cloud.proxy_at,
            "POST /api/v1/push",
            KEY_ALL,
            "{\"items\":7}",
        ),
        (cloud.proxy_at, "GET /api/v1/status", KEY_ALL, ""),
        (cloud.queen_at, "GET /status", &cloud.token, ""),
        (cloud.queen_at, "GET /api/v1/status", &cloud.token, ""),
        (
            cloud.queen_at,
            "GET /api/v1/resources/queues",
            WRONG_PASSWORD,
            "",
        ),
        (cloud.queen_at, "GET /auth/me", "sekret.sekret.sekret", ""),
        (
            cloud.queen_at,
            "POST /api/v1/push",
            &cloud.token,
            "{\"items\":7}",
        ),
    ] {
        let answer = http(host, at, head, bearer, body).await;
        assert!(answer.starts_with("HTTP/1.1 "), "{head}: {answer}");
        printed.add(head, &answer);
    }
}

/// What a check, a refusal to start and a file that is no cell say.
async fn refusals(facade: &Facade, printed: &Printed) {
    for more in [
        vec![],
        vec![("QUEEN_TOKEN", "sekret with a space".to_owned())],
        vec![(
            "QUEEN_URL",
            format!("http://{USER}:{WRONG_PASSWORD}@127.0.0.1:1"),
        )],
        vec![(
            "QUEEN_URL",
            format!("http://127.0.0.1:1?token={WRONG_PASSWORD}"),
        )],
        vec![("QUEEN_KAFKA_MAX_CONNECTIONS", "1".to_owned())],
    ] {
        for word in [Some("check"), None] {
            // Without a wrong variable it would serve.
            if word.is_none() && more.is_empty() {
                continue;
            }
            let mut command = Command::new(env!("CARGO_BIN_EXE_queen-kafka"));
            command.env_clear().kill_on_drop(true).args(word);
            let settings = facade.variables.iter().chain(&more);
            command.envs(settings.map(|(name, value)| (*name, value)));
            let ended = timeout(PATIENCE, command.output()).await.unwrap().unwrap();
            printed.add("stdout", &String::from_utf8_lossy(&ended.stdout));
            printed.add("stderr", &String::from_utf8_lossy(&ended.stderr));
            assert!(word.is_some() || ended.status.code() == Some(1));
        }
    }
    let tenant = ACME.0.hyphenated();
    let keys = [KEY_ALL, WRONG_PASSWORD].map(|key| json!({"id": key.len(), "key": key}));
    let bad = json!({"clusters": [{"slug": "a", "tenant": tenant, "keys": keys}]}).to_string();
    let error = CellFile::parse(bad.as_bytes()).unwrap_err();
    printed.add("a bad cell", &format!("{error} {error:?}"));
}

#[tokio::test]
async fn no_secret_is_printed_by_anybody() {
    let printed = Printed::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(printed.clone())
        .finish();
    let _printing = tracing::subscriber::set_default(subscriber);
    let host = host::os::host();
    let directory = tempfile::tempdir().unwrap();
    let facade = Facade::at(directory.path());
    let cloud = Cloud::start(&host, &printed).await;

    let executable = Path::new(env!("CARGO_BIN_EXE_queen-kafka"));
    let broker = |name: &str| -> Option<OsString> {
        match name {
            "QUEEN_KAFKA_EMBEDDED" => Some("true".into()),
            "QUEEN_KAFKA_ADVERTISED_ADDR" => Some(format!("127.0.0.1:{}", facade.kafka).into()),
            "QUEEN_TOKEN" => Some(KEY_READ.into()),
            _ => None,
        }
    };
    let settings = supervisor::Settings::read(broker, executable);
    let settings = settings.unwrap().unwrap();
    printed.add("debug of settings", &format!("{settings:?}"));
    let status = supervisor::Status::default();
    let supervisor = supervisor::Supervisor::new(settings, facade.launcher(), status.clone());
    let (stop, stopped) = oneshot::channel::<()>();
    let supervised = supervisor.run(cloud.proxy_at, async {
        let _ = stopped.await;
    });
    let driven = async {
        facade.ready(&host).await;
        kafka(&facade, &host, &printed).await;
        callers(&facade, &cloud, &host, &printed).await;
        refusals(&facade, &printed).await;
        // It dies and is brought back.
        let first = status.report();
        let kill = ["-KILL".to_owned(), first.pid.unwrap().to_string()];
        assert!(
            Command::new("kill")
                .args(kill)
                .status()
                .await
                .unwrap()
                .success()
        );
        let again = async {
            while status.report().pid.is_none_or(|pid| Some(pid) == first.pid) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, again).await.unwrap();
        facade.ready(&host).await;
        printed.add("debug of status", &format!("{:?}", status.report()));
        stop.send(()).unwrap();
    };
    tokio::join!(supervised, driven);

    let credential = Credential {
        bearer: Some(Secret::new(KEY_ALL.to_owned())),
        host: None,
    };
    for (what, text) in [
        ("debug of a configuration", format!("{:?}", facade.config())),
        ("debug of a credential", format!("{credential:?}")),
        ("debug of the proxy", format!("{:?}", cloud.proxy)),
        ("debug of the cell", format!("{:?}", cloud.proxy.cell())),
        ("debug of the Queen", format!("{:?}", cloud.queen)),
    ] {
        printed.add(what, &text);
    }

    let all = printed.text();
    // It was looked at: the facade's own lines, the supervisor's, the proxy's, and the user's name.
    for seen in [
        "queen-kafka starting",
        "facade ended and is started again",
        "refused",
        USER,
    ] {
        assert!(all.contains(seen), "{seen} is nowhere in {all}");
    }
    let body_of_key = facade.key.lines().filter(|line| !line.starts_with("---"));
    let signature = cloud.token.rsplit('.').next().unwrap();
    for secret in body_of_key.chain([MARK, signature, cloud.token.as_str()]) {
        let line = all.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "a secret is printed");
    }
}
