//! `QUEEN_KAFKA_EMBEDDED=true fake-queen serve`: real processes, scripts in the facade's place.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use host::Remote;
use rstest::rstest;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::client::Client;

/// What a slow machine may take for anything here.
const PATIENCE: Duration = Duration::from_secs(30);

/// A broker with a script in the facade's place.
struct Broker {
    directory: TempDir,
    child: Child,
    client: Client,
    address: String,
    log: PathBuf,
}

fn script(directory: &Path, body: &str) -> PathBuf {
    let path = directory.join("queen-kafka");
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

const FAKE_QUEEN: &str = env!("CARGO_BIN_EXE_fake-queen");

fn fake_queen(program: &Path) -> Command {
    let mut command = Command::new(program);
    // Only what a test sets, and what scripts need.
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap());
    command.kill_on_drop(true).stdin(Stdio::null());
    command
}

impl Broker {
    /// `body` finds the test's directory in `$D`.
    async fn start(body: &str, change: impl FnOnce(&mut Command)) -> Self {
        let directory = TempDir::new().unwrap();
        let bin = script(directory.path(), body);
        Self::start_in(directory, Path::new(FAKE_QUEEN), |command| {
            command.env("QUEEN_KAFKA_BIN", bin);
            change(command);
        })
        .await
    }

    async fn start_in(
        directory: TempDir,
        program: &Path,
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let log = directory.path().join("log");
        let mut command = fake_queen(program);
        command
            .args(["serve", "--addr", "127.0.0.1:0"])
            .env("D", directory.path())
            .env("QUEEN_KAFKA_EMBEDDED", "true")
            .env("QUEEN_KAFKA_ADVERTISED_ADDR", "kafka.example:9092")
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).unwrap());
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap();
        let line = line.expect("it listens");
        let address = line.strip_prefix("listening on ").unwrap().to_owned();
        let (host, port) = address.rsplit_once(':').unwrap();
        let client = Client(std::sync::Arc::new(Remote {
            net: host::os::host().net,
            host: host.to_owned(),
            port: port.parse().unwrap(),
        }));
        Self {
            directory,
            child,
            client,
            address,
            log,
        }
    }

    async fn kafka(&self) -> Value {
        let answer = self.client.call("GET", "/status", &Value::Null).await;
        answer.json()["kafka"].clone()
    }

    /// The block once it is as wanted.
    async fn kafka_when(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let waited = timeout(PATIENCE, async {
            loop {
                let kafka = self.kafka().await;
                if wanted(&kafka) {
                    return kafka;
                }
                sleep(Duration::from_millis(20)).await;
            }
        });
        match waited.await {
            Ok(kafka) => kafka,
            Err(_) => panic!("{} and the log says {}", self.kafka().await, self.log()),
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// What the script wrote into a file of its directory, once it is a whole line.
    async fn written(&self, name: &str) -> String {
        let path = self.directory.path().join(name);
        let read = timeout(PATIENCE, async {
            loop {
                match std::fs::read_to_string(&path) {
                    Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
                    _ => sleep(Duration::from_millis(10)).await,
                }
            }
        });
        read.await
            .unwrap_or_else(|_| panic!("no {name}: {}", self.log()))
    }

    async fn pid(&self, name: &str) -> Pid {
        Pid::from_raw(self.written(name).await.parse().unwrap()).unwrap()
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    async fn ended(&mut self) {
        timeout(PATIENCE, self.child.wait()).await.unwrap().unwrap();
    }
}

/// Whether a process runs; one that has ended and that nobody waited for doesn't.
fn runs(pid: Pid) -> bool {
    let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
    match std::fs::read_to_string(stat) {
        Ok(stat) => !stat.rsplit(") ").next().unwrap().starts_with(['Z', 'X']),
        Err(_) => test_kill_process(pid).is_ok(),
    }
}

async fn gone(pid: Pid) {
    let waited = timeout(PATIENCE, async {
        while runs(pid) {
            sleep(Duration::from_millis(10)).await;
        }
    });
    waited.await.expect("the process ends");
}

/// A facade that runs until it is told to stop, with a child of its own.
const GOOD: &str = r#"sleep 600 & echo $! > "$D/grandchild"; echo $$ > "$D/child"; wait"#;

#[tokio::test]
async fn the_child_runs_beside_its_broker_and_a_stop_takes_its_group_along() {
    let mut broker = Broker::start(GOOD, |_| {}).await;
    let child = broker.pid("child").await;
    let grandchild = broker.pid("grandchild").await;
    let kafka = broker.kafka_when(|kafka| kafka["phase"] == "running").await;
    assert_eq!(kafka["mode"], "embedded");
    assert_eq!(kafka["pid"], child.as_raw_nonzero().get());
    assert_eq!(kafka["restarts"], 0);
    assert!(kafka["uptimeMs"].is_u64() && kafka["lastExit"].is_null());
    assert!(runs(child) && runs(grandchild));
    let log = broker.log();
    let url = format!("queen_url=\"http://{}\"", broker.address);
    for shown in [
        "queen-kafka facade started (embedded)",
        &url,
        "queen_url_from=\"loopback (bound listener)\"",
    ] {
        assert!(log.contains(shown), "{log}");
    }
    broker.signal(Signal::TERM);
    broker.ended().await;
    gone(child).await;
    gone(grandchild).await;
}

#[tokio::test]
async fn the_executable_beside_the_brokers_own_is_found() {
    let directory = TempDir::new().unwrap();
    script(directory.path(), GOOD);
    let program = directory.path().join("fake-queen");
    std::fs::copy(FAKE_QUEEN, &program).unwrap();
    let broker = Broker::start_in(directory, &program, |_| {}).await;
    let child = broker.pid("child").await;
    let kafka = broker.kafka_when(|kafka| kafka["phase"] == "running").await;
    assert_eq!(kafka["pid"], child.as_raw_nonzero().get());
}

#[tokio::test]
async fn a_broker_that_is_killed_takes_its_child_along() {
    let mut broker = Broker::start(r#"echo $$ > "$D/child"; exec sleep 600"#, |_| {}).await;
    let child = broker.pid("child").await;
    assert!(runs(child));
    broker.signal(Signal::KILL);
    broker.ended().await;
    gone(child).await;
}

#[tokio::test]
async fn a_child_that_ignores_sigterm_is_killed_behind_the_grace() {
    let stubborn = r#"trap '' TERM; echo $$ > "$D/child"; while :; do sleep 1; done"#;
    let mut broker = Broker::start(stubborn, |command| {
        command.env("QUEEN_KAFKA_SHUTDOWN_GRACE_MS", "1");
    })
    .await;
    let child = broker.pid("child").await;
    broker.signal(Signal::TERM);
    broker.ended().await;
    gone(child).await;
    assert!(
        broker.log().contains("did not stop in time"),
        "{}",
        broker.log()
    );
}

#[tokio::test]
async fn a_child_that_dies_is_brought_back_and_the_broker_serves_on() {
    // It dies until it may live: however slow the machine, one of the pauses is seen.
    let dies = r#"if [ -e "$D/live" ]; then echo $$ > "$D/child"; exec sleep 600; fi
exit 3"#;
    let broker = Broker::start(dies, |_| {}).await;
    let waiting = broker.kafka_when(|kafka| kafka["phase"] == "backoff").await;
    let backoff_ms = waiting["backoffMs"].as_u64().expect("a pause");
    assert!(
        backoff_ms >= 1000 && (backoff_ms / 1000).is_power_of_two(),
        "{waiting}"
    );
    assert_eq!(waiting["lastExit"], "exit code 3");
    assert!(waiting["pid"].is_null() && waiting["uptimeMs"].is_null());
    std::fs::write(broker.directory.path().join("live"), "").expect("a scratch folder");
    broker.client.push("q", "0", serde_json::json!(1)).await;
    let child = broker.pid("child").await;
    let running = broker.kafka_when(|kafka| kafka["phase"] == "running").await;
    assert!(running["restarts"].as_u64() >= Some(1), "{running}");
    assert_eq!(running["lastExit"], "exit code 3");
    assert_eq!(running["pid"], child.as_raw_nonzero().get());
}

#[tokio::test]
async fn the_environment_is_forwarded_without_the_brokers_secrets() {
    let secrets = [
        "PG_PASSWORD",
        "JWT_SECRET",
        "QUEEN_ENCRYPTION_KEY",
        "QUEEN_SYNC_SECRET",
    ];
    let body = r#"env > "$D/env"; echo done > "$D/child"; exec sleep 600"#;
    let broker = Broker::start(body, |command| {
        for secret in secrets {
            command.env(secret, "hunter2");
        }
        command
            .env("QUEEN_URL", "http://user:hunter2@proxy:6711")
            .env("QUEEN_TOKEN", "the child's own")
            .env("QUEEN_KAFKA_MAX_CONNECTIONS", "7");
    })
    .await;
    broker.written("child").await;
    let env = std::fs::read_to_string(broker.directory.path().join("env")).unwrap();
    let has = |line: &str| env.lines().any(|shown| shown == line);
    assert!(has("QUEEN_URL=http://user:hunter2@proxy:6711"), "{env}");
    assert!(has("QUEEN_TOKEN=the child's own") && has("QUEEN_KAFKA_MAX_CONNECTIONS=7"));
    for secret in secrets {
        assert!(!env.contains(&format!("{secret}=")), "{env}");
    }
    let log = broker.log();
    assert!(log.contains("queen_url=\"http://proxy:6711\""), "{log}");
    assert!(
        log.contains("queen_url_from=\"QUEEN_URL (explicit)\""),
        "{log}"
    );
    assert!(!log.contains("hunter2"), "{log}");
}

#[tokio::test]
async fn the_childs_output_is_in_the_log_within_its_budget() {
    let body = r#"printf '\033[31mred\033[0m words\n' >&2
i=0; while [ $i -lt 20000 ]; do echo "noise $i"; i=$((i+1)); done
echo done > "$D/child"; exec sleep 600"#;
    let began = tokio::time::Instant::now();
    let mut broker = Broker::start(body, |_| {}).await;
    broker.written("child").await;
    broker.signal(Signal::TERM);
    broker.ended().await;
    let windows = began.elapsed().as_secs() / 10 + 1;
    let log = broker.log();
    assert!(log.contains("red words"), "{log}");
    let noise = log.lines().filter(|line| line.contains("noise ")).count() as u64;
    // 200 lines for each ten seconds that it really took.
    assert!(
        (199..=200 * windows).contains(&noise),
        "{noise} in {windows}"
    );
    assert!(log.contains("suppressed="), "{log}");
}

#[rstest]
#[case::no_address(&[], "QUEEN_KAFKA_ADVERTISED_ADDR")]
#[case::no_file(&[("QUEEN_KAFKA_ADVERTISED_ADDR", "k:9092"), ("QUEEN_KAFKA_BIN", "/nowhere")],
    "/nowhere is not a file")]
#[tokio::test]
async fn both_mistakes_are_refused_at_boot(
    #[case] variables: &[(&str, &str)],
    #[case] words: &str,
) {
    let mut command = fake_queen(Path::new(FAKE_QUEEN));
    command
        .args(["serve", "--addr", "127.0.0.1:0"])
        .env("QUEEN_KAFKA_EMBEDDED", "true")
        .envs(variables.iter().copied());
    let ended = timeout(PATIENCE, command.output()).await.unwrap().unwrap();
    let mut said = String::from_utf8(ended.stderr).unwrap();
    write!(said, "{}", String::from_utf8(ended.stdout).unwrap()).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(
        said.contains(words) && !said.contains("listening"),
        "{said}"
    );
}

#[tokio::test]
async fn a_child_without_a_credential_is_warned_of_where_tokens_are_asked_for() {
    let directory = TempDir::new().unwrap();
    let secret = directory.path().join("secret");
    std::fs::write(&secret, "a secret of this test").unwrap();
    let broker = Broker::start(GOOD, |command| {
        command.arg("--jwt-secret-file").arg(&secret);
    })
    .await;
    broker.pid("child").await;
    assert!(broker.log().contains("answered 401"), "{}", broker.log());
}

#[tokio::test]
async fn without_embedded_mode_nothing_is_started_and_status_has_no_block() {
    let broker = Broker::start(GOOD, |command| {
        command.env("QUEEN_KAFKA_EMBEDDED", "false");
    })
    .await;
    assert!(broker.kafka().await.is_null());
    assert!(!broker.directory.path().join("child").exists());
}
