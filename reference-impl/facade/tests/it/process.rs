//! The process: command line, refusals, boot line, signals.

// The binary as it is shipped.
#![cfg(feature = "embedded")]
#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// What a slow machine may take for anything here.
pub const PATIENCE: Duration = Duration::from_secs(30);

fn queen_kafka() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_queen-kafka"));
    // Only what a test sets.
    command.env_clear().kill_on_drop(true);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

async fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let ended = timeout(PATIENCE, command.output()).await.unwrap().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (ended.status.code(), text(ended.stdout), text(ended.stderr))
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

async fn get(port: u16, path: &str) -> Option<String> {
    let net = host::os::host().net;
    let mut stream = net.connect("127.0.0.1", port).await.ok()?;
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    Some(answer)
}

async fn ready(child: &mut Child, http: u16) {
    let ready = async {
        loop {
            let answer = get(http, "/readyz").await;
            if answer.is_some_and(|answer| answer.starts_with("HTTP/1.1 200")) {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    if timeout(PATIENCE, ready).await.is_err() {
        panic!("not ready; the process says {:?}", child.try_wait());
    }
}

async fn signal(child: &Child, name: &str) {
    let pid = child.id().unwrap().to_string();
    let sent = Command::new("kill").args([name, &pid]).status().await;
    assert!(sent.unwrap().success());
}

#[tokio::test]
async fn the_command_line_answers_and_refuses() {
    let (code, stdout, _) = output(queen_kafka().arg("--version")).await;
    let version = concat!("queen-kafka ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!((code, stdout.as_str()), (Some(0), version));
    let (code, stdout, _) = output(queen_kafka().arg("--help")).await;
    assert!(code == Some(0) && stdout.contains("QUEEN_URL=embedded:./data"));
    let (code, stdout, _) = output(queen_kafka().arg("--variables-markdown")).await;
    assert!(code == Some(0) && stdout.contains("| `QUEEN_KAFKA_ADDR` |"));
    let (code, _, stderr) = output(queen_kafka().arg("serve")).await;
    assert!(code == Some(2) && stderr.contains("\"serve\" is not an option"));
}

#[tokio::test]
async fn a_bad_start_names_every_variable_and_binds_nothing() {
    let port = free_port();
    let (code, _, stderr) = output(
        queen_kafka()
            .env("QUEEN_KAFKA_ADDR", format!("127.0.0.1:{port}"))
            .env("QUEEN_KAFKA_MAX_CONNECTIONS", "1")
            .env("QUEEN_KAFKA_SASL", "scram")
            .env("QUEEN_TOKEN", "sec ret"),
    )
    .await;
    assert_eq!(code, Some(1));
    for name in [
        "QUEEN_TOKEN",
        "QUEEN_KAFKA_ADVERTISED_ADDR",
        "QUEEN_KAFKA_MAX_CONNECTIONS",
        "QUEEN_KAFKA_SASL",
    ] {
        assert!(
            stderr.contains(&format!("\n  {name} ")),
            "{name} in {stderr}"
        );
    }
    assert!(!stderr.contains("sec ret"));
}

#[tokio::test]
async fn a_port_that_is_taken_refuses_to_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let mut command = queen_kafka();
    command
        .env("QUEEN_URL", "embedded:")
        .env("QUEEN_KAFKA_ADVERTISED_ADDR", "localhost:9092")
        .env("QUEEN_KAFKA_ADDR", &addr);
    let (code, _, stderr) = output(&mut command).await;
    let expected = format!("QUEEN_KAFKA_ADDR: cannot listen on {addr}");
    assert!(code == Some(1) && stderr.contains(&expected), "{stderr}");
}

#[tokio::test]
async fn it_says_what_it_starts_with_serves_and_stops_on_a_signal() {
    for name in ["-TERM", "-INT"] {
        let (port, http) = (free_port(), free_port());
        let mut child = queen_kafka()
            .env("QUEEN_URL", "embedded:")
            .env("QUEEN_TOKEN", "hunter2")
            .env("QUEEN_KAFKA_ADVERTISED_ADDR", "kafka.example.com:9092")
            .env("QUEEN_KAFKA_ADDR", format!("127.0.0.1:{port}"))
            .env("QUEEN_KAFKA_HTTP_ADDR", format!("127.0.0.1:{http}"))
            .env("QUEEN_KAFKA_ADRR", "misspelt")
            .spawn()
            .unwrap();
        ready(&mut child, http).await;
        // ApiVersions version 0, with no client id.
        let net = host::os::host().net;
        let mut kafka = net.connect("127.0.0.1", port).await.unwrap();
        let request = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff];
        kafka.write_all(&request).await.unwrap();
        let mut answer = [0; 10];
        kafka.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer[4..], [0, 0, 0, 7, 0, 0]);
        let metrics = get(http, "/metrics").await.unwrap();
        assert!(metrics.contains("queen_kafka_requests_total{api=\"ApiVersions\"} 1"));

        signal(&child, name).await;
        let ended = timeout(PATIENCE, child.wait_with_output()).await;
        let ended = ended.unwrap().unwrap();
        let stderr = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(0), "{stderr}");
        let boot = format!(
            "queen-kafka starting queen_url=embedded: authenticated=true listen=127.0.0.1:{port} \
             advertised=kafka.example.com:9092 default_partitions=1024 group_join_delay_ms=3000 \
             tls=false sasl=none forward_sni_host=false node_id=0 cluster=queen"
        );
        assert!(stderr.contains(&boot), "{stderr}");
        assert!(stderr.contains("QUEEN_KAFKA_ADRR"), "{stderr}");
        assert!(!stderr.contains("hunter2"), "{stderr}");
        assert!(
            stderr.contains("queen-kafka stopped drained=true"),
            "{stderr}"
        );
    }
}

#[tokio::test]
async fn logs_are_lines_of_json_when_asked_for_and_no_line_holds_the_token() {
    let (port, http) = (free_port(), free_port());
    let mut child = queen_kafka()
        .env("QUEEN_URL", "embedded:")
        .env("QUEEN_TOKEN", "hunter2")
        .env("QUEEN_LOG_JSON", "true")
        .env("LOG_LEVEL", "debug")
        .env("QUEEN_KAFKA_ADVERTISED_ADDR", "localhost:9092")
        .env("QUEEN_KAFKA_ADDR", format!("127.0.0.1:{port}"))
        .env("QUEEN_KAFKA_HTTP_ADDR", format!("127.0.0.1:{http}"))
        .spawn()
        .unwrap();
    ready(&mut child, http).await;
    // What a client says of itself is a string of the line, not a line of its own: the Kafka API
    // with the number 999, from a client whose id breaks the line.
    let net = host::os::host().net;
    let mut kafka = net.connect("127.0.0.1", port).await.unwrap();
    let request = [
        0, 0, 0, 13, 3, 231, 0, 0, 0, 0, 0, 7, 0, 3, b'a', b'\n', b'"',
    ];
    kafka.write_all(&request).await.unwrap();
    let mut rest = Vec::new();
    let _ = timeout(PATIENCE, kafka.read_to_end(&mut rest))
        .await
        .unwrap();
    signal(&child, "-TERM").await;
    let ended = timeout(PATIENCE, child.wait_with_output()).await;
    let stderr = String::from_utf8(ended.unwrap().unwrap().stderr).unwrap();
    assert!(!stderr.contains("hunter2"), "{stderr}");
    let lines: Vec<serde_json::Value> = stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect();
    let line = |message: &str| lines.iter().find(|line| line["message"] == message);
    let boot = line("queen-kafka starting").unwrap();
    assert_eq!(boot["level"], "INFO");
    assert_eq!(boot["advertised"], "localhost:9092");
    assert!(boot["timestamp"].is_string());
    assert_eq!(line("connection closed").unwrap()["client_id"], "a\"");
    assert!(line("queen-kafka stopped").is_some());
}

#[tokio::test]
async fn sasl_without_tls_starts_and_says_what_it_risks() {
    let (port, http) = (free_port(), free_port());
    let mut child = queen_kafka()
        .env("QUEEN_URL", "embedded:")
        .env("QUEEN_KAFKA_SASL", "PLAIN")
        .env("QUEEN_KAFKA_ADVERTISED_ADDR", "localhost:9092")
        .env("QUEEN_KAFKA_ADDR", format!("127.0.0.1:{port}"))
        .env("QUEEN_KAFKA_HTTP_ADDR", format!("127.0.0.1:{http}"))
        .spawn()
        .unwrap();
    ready(&mut child, http).await;
    signal(&child, "-TERM").await;
    let ended = timeout(PATIENCE, child.wait_with_output()).await;
    let stderr = String::from_utf8(ended.unwrap().unwrap().stderr).unwrap();
    assert!(
        stderr.contains("crosses the network in the clear"),
        "{stderr}"
    );
    assert!(stderr.contains(" tls=false sasl=plain "), "{stderr}");
}

/// What a check says of an embedded Queen and these variables.
async fn check(set: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let listen = format!("127.0.0.1:{}", free_port());
    let mut command = queen_kafka();
    command
        .arg("check")
        .env("QUEEN_URL", "embedded:")
        .env("QUEEN_KAFKA_ADDR", &listen)
        .env("QUEEN_KAFKA_ADVERTISED_ADDR", &listen);
    command.envs(set.iter().copied());
    output(&mut command).await
}

#[tokio::test]
async fn a_check_of_what_is_right_says_where_clients_are_led() {
    let (code, said, stderr) = check(&[("QUEEN_KAFKA_ADRR", "misspelt")]).await;
    assert_eq!(code, Some(0), "{said}{stderr}");
    for sentence in [
        "leads to this process.",
        "Clients connect to their bootstrap address once",
        "is this machine to whoever asks",
        "QUEEN_KAFKA_ADRR is not a variable",
        "Nothing is wrong.",
    ] {
        assert!(said.contains(sentence), "{sentence} in {said}");
    }
    assert!(!said.contains("WRONG"), "{said}");
}

#[tokio::test]
async fn a_check_of_what_does_not_parse_says_everything_and_ends_with_2() {
    let set = [
        ("QUEEN_KAFKA_SASL", "scram"),
        ("QUEEN_KAFKA_MAX_CONNECTIONS", "1"),
        ("LOG_LEVEL", "facade=loud"),
        ("QUEEN_TOKEN", "hunter 2"),
    ];
    let (code, said, stderr) = check(&set).await;
    assert_eq!((code, said.as_str()), (Some(2), ""));
    for (name, _) in set {
        assert!(
            stderr.contains(&format!("\n  {name} ")),
            "{name} in {stderr}"
        );
    }
    assert!(!stderr.contains("hunter"), "{stderr}");
}

#[tokio::test]
async fn a_check_finds_what_clients_would_run_into() {
    let (stranger, closed) = (TcpListener::bind("127.0.0.1:0").unwrap(), free_port());
    let strange = stranger.local_addr().unwrap().to_string();
    let speaking = std::net::TcpListener::try_clone(&stranger).unwrap();
    let speaking = tokio::net::TcpListener::from_std({
        speaking.set_nonblocking(true).unwrap();
        speaking
    });
    let speaking = speaking.unwrap();
    let _speaking = tokio::spawn(async move {
        while let Ok((mut stream, _)) = speaking.accept().await {
            let _ = stream.write_all(b"220 mail.example ESMTP ready\r\n").await;
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let made = rcgen::generate_simple_self_signed(["other.test".to_owned()]).unwrap();
    let cert = file("cert.pem", &made.cert.pem());
    let key = file("key.pem", &made.signing_key.serialize_pem());
    let away = format!("127.0.0.1:{closed}");
    let queen = format!("http://{away}");
    let embedded = format!("embedded:{cert}");
    let tls = [
        ("QUEEN_KAFKA_TLS_CERT", cert.as_str()),
        ("QUEEN_KAFKA_TLS_KEY", key.as_str()),
    ];
    let cases: [(&[(&str, &str)], &str); 6] = [
        (
            &[("QUEEN_KAFKA_ADVERTISED_ADDR", &strange)],
            "Something else answers at",
        ),
        (
            &[("QUEEN_KAFKA_ADVERTISED_ADDR", &away)],
            "cannot be reached from this machine",
        ),
        (
            &[("QUEEN_KAFKA_ADVERTISED_ADDR", "no-such-host.invalid:9092")],
            "does not resolve on this machine",
        ),
        (
            &[("QUEEN_URL", &queen), ("QUEEN_TOKEN", "hunter2")],
            "(QUEEN_URL) is not well: ",
        ),
        (&[("QUEEN_URL", &embedded)], "is no folder"),
        (
            &tls,
            "The certificate of QUEEN_KAFKA_TLS_CERT is not for this name",
        ),
    ];
    for (set, sentence) in cases {
        let (code, said, stderr) = check(set).await;
        assert_eq!(code, Some(1), "{said}{stderr}");
        let wrong = said.lines().find(|line| line.contains(sentence));
        assert!(
            wrong.is_some_and(|line| line.starts_with("WRONG")),
            "{sentence} in {said}"
        );
        assert!(said.ends_with("Wrong: 1.\n"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[tokio::test]
async fn a_check_beside_a_facade_that_runs_talks_to_it() {
    let (port, http) = (free_port(), free_port());
    let set = [
        ("QUEEN_KAFKA_ADDR", format!("127.0.0.1:{port}")),
        ("QUEEN_KAFKA_ADVERTISED_ADDR", format!("127.0.0.1:{port}")),
        ("QUEEN_KAFKA_HTTP_ADDR", format!("127.0.0.1:{http}")),
    ];
    let mut child = queen_kafka()
        .env("QUEEN_URL", "embedded:")
        .envs(set.clone())
        .spawn()
        .unwrap();
    ready(&mut child, http).await;
    let set: Vec<(&str, &str)> = set
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let (code, said, stderr) = check(&set).await;
    assert_eq!(code, Some(0), "{said}{stderr}");
    assert!(
        said.contains("is taken: by this facade, if it runs already"),
        "{said}"
    );
    assert!(said.contains("A Kafka server answers at"), "{said}");
}
