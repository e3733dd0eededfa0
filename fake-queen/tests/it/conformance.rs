//! The conformance checks against this Queen, over a real socket and over the command line.

use std::process::Command;
use std::sync::Arc;

use fake_queen::conformance::{self, Target};
use fake_queen::{Options, Queen, Storage, Version};
use host::Connect;

use crate::world::{World, unlimited};

#[tokio::test]
async fn it_conforms_over_a_socket_and_a_disk() {
    let directory = tempfile::tempdir().unwrap();
    let host = host::os::host();
    let options = Options {
        storage: Storage::Directory(directory.path().to_owned()),
        ..Options::default()
    };
    let queen = Queen::start(host.clone(), options).await.unwrap();
    let listener = host.net.bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let url = format!("http://{}", listener.local_addr());
    queen.serve(listener);
    let target = Target::of_url(&host, &url).unwrap();
    let outcomes = conformance::run(&target, &host, |_| {}).await;
    let failed: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| Some((outcome.title, outcome.result.as_ref().err()?)))
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let groups: std::collections::BTreeSet<u8> = outcomes.iter().map(|o| o.group).collect();
    assert_eq!(groups, (1..=12).collect());
    // What the checks made is gone.
    let client = crate::client::Client(target.connect);
    let left = client.get("resources/queues").await;
    assert_eq!(left["queues"], serde_json::json!([]));
    queen.stop().await;
}

/// A check that can't fail proves nothing: a Queen of another age fails those that tell its age.
#[tokio::test(start_paused = true)]
async fn an_old_queen_fails_the_checks_of_what_it_lacks() {
    let world = World::new(Options {
        version: Version::V1_3,
        ..unlimited()
    })
    .await;
    let target = Target {
        connect: Arc::clone(&world.client.0),
        authority: "queen".into(),
        prefix: String::new(),
        bearer: None,
    };
    let outcomes = conformance::run(&target, &crate::world::host(), |_| {}).await;
    let failed: Vec<&str> = outcomes
        .iter()
        .filter(|outcome| outcome.result.is_err())
        .map(|outcome| outcome.title)
        .collect();
    assert_eq!(
        failed,
        [
            "a fresh lane's first record has offset 0",
            "items of one push have consecutive offsets and are read back verbatim",
            "a lane never pushed to is an empty log",
            "configure keeps what it doesn't name",
            "a queue is deleted once, and asked twice",
            "a committed offset shows as a Kafka group with its lag",
        ]
    );
}

/// Nobody answers.
#[derive(Debug)]
struct Nowhere;

impl Connect for Nowhere {
    fn connect(&self) -> futures::future::BoxFuture<'_, std::io::Result<host::BoxStream>> {
        Box::pin(async { Err(std::io::ErrorKind::ConnectionRefused.into()) })
    }
}

#[tokio::test(start_paused = true)]
async fn no_queen_fails_every_check() {
    let target = Target {
        connect: Arc::new(Nowhere),
        authority: "queen".into(),
        prefix: String::new(),
        bearer: None,
    };
    let outcomes = conformance::run(&target, &crate::world::host(), |_| {}).await;
    assert!(outcomes.iter().all(|outcome| outcome.result.is_err()));
    assert!(outcomes.len() >= 11);
}

#[tokio::test]
async fn the_command_line_prints_and_exits_as_it_found() {
    let host = host::os::host();
    let queen = Queen::start(host.clone(), Options::default())
        .await
        .unwrap();
    let listener = host.net.bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr();
    queen.serve(listener);
    let run = |url: String| async move {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fake-queen"));
        command.args(["conformance", "--url", &url]);
        let ran = host::blocking::Blocking::Pool.run(move || command.output());
        let output = ran.await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code().unwrap(), text)
    };
    let (code, text) = run(format!("http://{address}")).await;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("pass   1  a fresh lane's"), "{text}");
    assert!(text.trim_end().ends_with(" passed, 0 failed"), "{text}");
    queen.stop().await;
    let (code, text) = run(format!("http://{address}")).await;
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("FAIL   1  a fresh lane's"), "{text}");
    assert_eq!(run("queen:6632".into()).await.0, 2);
}
