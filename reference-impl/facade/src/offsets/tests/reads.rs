//! Reading committed offsets, and what could not be read.

use super::*;

#[tokio::test(start_paused = true)]
async fn reads_of_many_members_share_calls() {
    let world = World::new();
    let offsets: Vec<i64> = (0..3).collect();
    for n in 0..600 {
        world.commit(&format!("g-{n}"), &offsets).verdicts().await;
    }
    let before = world.calls();
    let reads = (0..600).map(|n| {
        let keys = (0..4).map(|p| key(&format!("g-{n}"), "t", p)).collect();
        let world = &world;
        async move { world.offsets.read(&tenant("token"), keys).await.unwrap() }
    });
    for read in join_all(reads).await {
        let offset = |n| Offset::Committed(row(n));
        assert_eq!(read, [offset(0), offset(1), offset(2), Offset::Absent]);
    }
    let calls = world.calls() - before;
    // 2400 keys, 1024 to a call, and the first few leave alone.
    assert!(calls <= 10, "{calls} calls");
    for call in &world.queen.calls("kv")[before..] {
        let operations = call.body["operations"].as_array().unwrap();
        let keys = |op: &Value| op["keys"].as_array().map_or(0, Vec::len);
        // What waits to be folded is looked for in the same call, and counts as its limit.
        let limit = |op: &Value| op["limit"].as_u64().unwrap_or(0) as usize;
        assert!(operations.iter().all(|op| keys(op) <= 128));
        let all = operations.iter().map(|op| keys(op) + limit(op));
        assert!(all.sum::<usize>() <= MAX_KEYS);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_read_fails_everybody_in_it() {
    let world = World::new();
    world.queen.script("kv", [Fault::Status(403)]);
    let read = world
        .offsets
        .read(&tenant("token"), vec![key("g", "t", 0)])
        .await;
    let Err(ReadError::Queen(error)) = read else {
        panic!("{read:?}")
    };
    assert_eq!(error.class(), Class::Forbidden);
    let read = world
        .offsets
        .read(&tenant("token"), vec![key("g", "t", 0)])
        .await;
    assert_eq!(read.unwrap(), [Offset::Absent]);
    assert_eq!(
        world.offsets.read(&tenant("token"), vec![]).await.unwrap(),
        []
    );
}

/// Reads nothing of anything.
#[derive(Debug)]
struct Unreadable;

impl Store for Unreadable {
    fn run<'a>(&'a self, _: &'a Credential, _: &'a Batch) -> BoxFuture<'a, Result<Outcome, Error>> {
        Box::pin(async { Err(Error::Busy) })
    }

    fn read<'a>(
        &'a self,
        _: &'a Credential,
        keys: &'a [String],
    ) -> BoxFuture<'a, Result<Readout, Error>> {
        let readout = Readout {
            rows: vec![],
            unread: keys.to_vec(),
        };
        Box::pin(async { Ok(readout) })
    }

    fn scan<'a>(
        &'a self,
        _: &'a Credential,
        _: &'a str,
        _: bool,
        _: usize,
    ) -> BoxFuture<'a, Result<Scan, Error>> {
        Box::pin(async {
            Ok(Scan {
                rows: vec![],
                cut: true,
            })
        })
    }
}

#[tokio::test(start_paused = true)]
async fn what_queen_left_unread_is_not_absent() {
    let host = test_host();
    let (_stop, shutdown) = shutdown();
    let offsets = Offsets::over(
        &host,
        Arc::new(Unreadable),
        shutdown,
        &Registry::default(),
        None,
    );
    let read = offsets.read(&tenant("token"), vec![key("g", "t", 0)]).await;
    assert_eq!(read.unwrap(), [Offset::Unread]);
    assert!(offsets.read_all(&tenant("token"), "g").await.unwrap().cut);
    let index = offsets.group_indexes(&tenant("token"), &["g"]).await;
    assert!(matches!(index, Err(Error::Unreadable(_))));
}

#[tokio::test(start_paused = true)]
async fn every_offset_of_a_group_is_read_page_by_page() {
    let world = World::new();
    let offsets: Vec<i64> = (0..2500).collect();
    world.commit("g", &offsets).verdicts().await;
    world.commit("g2", &[1]).verdicts().await;
    let all = world.offsets.read_all(&tenant("token"), "g").await.unwrap();
    assert!(!all.cut);
    let partitions = &all.topics["t"];
    assert_eq!(all.topics.len(), 1);
    assert_eq!(partitions.len(), 2500);
    assert_eq!(partitions[&2499], row(2499));
    let none = world
        .offsets
        .read_all(&tenant("token"), "nobody")
        .await
        .unwrap();
    assert_eq!(none, AllOffsets::default());
}
