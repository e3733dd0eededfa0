//! Drivers that are shell scripts.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::{Launch, ProcessDriver};
use crate::drivers::protocol::{Begin, Op};
use crate::drivers::{Driver as _, Refusal};

const HELLO: &str = r#"read line; echo '{"ok":{"protocol":1,"client":"sh","version":"5","can":["position","unsubscribe"]}}'"#;

fn sh(script: &str) -> Launch {
    Launch {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
    }
}

/// A driver that says hello and then runs `script`.
async fn started(script: &str) -> ProcessDriver {
    ProcessDriver::start(sh(&format!("{HELLO}\n{script}")))
        .await
        .unwrap()
}

#[tokio::test]
async fn operations_are_answered_refused_or_beyond_the_client() {
    let driver = started(
        r#"read line; echo '{"ok":{}}'
           read line; echo "{\"ok\":{\"places\":[]}}"
           read line; echo '{"error":{"code":"FENCED_INSTANCE_ID","message":"older"}}'
           read line; echo '{"unsupported":"no such call"}'
           read line"#,
    )
    .await;
    assert_eq!(driver.hello().version, "5");
    assert!(driver.can().has("position") && !driver.can().has("seek"));
    let mut session = driver.open(Begin::default()).await.unwrap();
    assert_eq!(session.call(&Op::Position).await, Ok(json!({"places": []})));
    assert_eq!(
        session.call(&Op::Position).await,
        Err(Refusal {
            code: Some("FENCED_INSTANCE_ID".into()),
            ..Refusal::failed("older")
        })
    );
    assert_eq!(
        session.call(&Op::Position).await,
        Err(Refusal::unable("no such call"))
    );
}

#[tokio::test]
async fn one_process_serves_one_session_after_another() {
    let driver = started(
        r#"while read line; do case "$line" in
             *position*) echo "{\"ok\":{\"pid\":$$}}";;
             *) echo '{"ok":{}}';;
           esac; done"#,
    )
    .await;
    let mut pids = Vec::new();
    for _ in 0..2 {
        let mut session = driver.open(Begin::default()).await.unwrap();
        pids.push(session.call(&Op::Position).await.unwrap());
        drop(session);
        // It goes back to the pool when it has ended its session.
        for _ in 0..500 {
            if !super::lock(&driver.idle).is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    assert_eq!(pids[0], pids[1]);
    let mut one = driver.open(Begin::default()).await.unwrap();
    let mut two = driver.open(Begin::default()).await.unwrap();
    assert_ne!(one.call(&Op::Position).await, two.call(&Op::Position).await);
}

#[tokio::test]
async fn a_driver_that_dies_or_babbles_is_told_with_its_words() {
    let driver = started("read line; echo '{\"ok\":{}}'; echo 'out of memory' >&2; exit 3").await;
    let mut session = driver.open(Begin::default()).await.unwrap();
    let refusal = session.call(&Op::Position).await.unwrap_err();
    assert!(refusal.message.contains("driver"), "{refusal:?}");
    let mut heard = Vec::new();
    for _ in 0..500 {
        heard.extend(session.words().take());
        if !heard.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(heard, ["out of memory"]);
    assert_eq!(
        session.call(&Op::Position).await,
        Err(Refusal::failed("the driver was given up"))
    );

    let driver = started("while read line; do echo 'Starting...'; done").await;
    let stop = driver.open(Begin::default()).await.err().unwrap();
    assert!(format!("{stop:?}").contains("does not fit"), "{stop:?}");
}

#[tokio::test]
async fn a_session_that_is_dropped_while_it_waits_takes_its_process_along() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("pids");
    let driver = started(&format!(
        "read line; echo '{{\"ok\":{{}}}}'; read line; sleep 60 & echo $! > {}; wait",
        note.display()
    ))
    .await;
    let mut session = driver.open(Begin::default()).await.unwrap();
    let written = async {
        while !std::fs::read_to_string(&note).is_ok_and(|text| text.ends_with('\n')) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::select! {
        answer = session.call(&Op::Position) => panic!("{answer:?}"),
        () = written => {}
    }
    drop(session);
    let pid = std::fs::read_to_string(&note).unwrap();
    let process = PathBuf::from(format!("/proc/{}", pid.trim()));
    for _ in 0..500 {
        let state = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
        // Nobody may be there to reap it, so dead is dead enough.
        if state.is_empty() || state.contains(") Z ") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("{} still runs", pid.trim());
}

#[tokio::test]
async fn who_is_of_no_use_says_why() {
    let answer = |line: &str| format!("read line; echo '{line}'; read line");
    for (script, why) in [
        ("exit 1".to_owned(), "does not say hello"),
        (
            answer(r#"{"ok":{"protocol":2,"client":"x","version":"1","can":[]}}"#),
            "version 2",
        ),
        (
            answer(r#"{"ok":{"protocol":1,"client":"x","version":"1","can":["prodcue"]}}"#),
            "prodcue is not a capability",
        ),
        (answer(r#"{"ok":{"client":"x"}}"#), "does not fit"),
    ] {
        let error = ProcessDriver::start(sh(&script)).await.unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    let absent = Launch {
        program: "/no/such/program".into(),
        arguments: Vec::new(),
    };
    let error = ProcessDriver::start(absent).await.unwrap_err();
    assert!(error.contains("does not start"), "{error}");
}
