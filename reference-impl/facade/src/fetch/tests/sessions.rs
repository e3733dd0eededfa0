//! Fetch sessions through the handler.

use super::*;

#[tokio::test(start_paused = true)]
async fn an_incremental_response_names_what_changed() {
    let rig = Rig::new();
    for partition in 0..3 {
        rig.store("orders", partition, &["old"]);
    }
    let full = rig
        .fetch(from((0..3).map(|p| (p, 1))).with_session_epoch(0))
        .await;
    assert_ne!(full.session_id, 0);
    assert_eq!(partitions(&full).len(), 3);
    let next = |epoch| {
        let mut request = from([])
            .with_session_id(full.session_id)
            .with_session_epoch(epoch);
        request.topics.clear();
        request
    };
    let idle = rig.fetch(next(1)).await;
    assert_eq!(
        (idle.session_id, idle.responses.len()),
        (full.session_id, 0)
    );

    rig.store("orders", 1, &["new"]);
    let news = rig.fetch(next(2)).await;
    let partitions = partitions(&news);
    assert_eq!(partitions.len(), 1);
    assert_eq!(values(partitions[0]), [(1, "new".to_owned())]);

    let forgetting = next(3).with_forgotten_topics_data(forget(vec![1, 2]));
    rig.store("orders", 2, &["unheard"]);
    let left = rig.fetch(forgetting).await;
    assert!(
        left.responses.is_empty(),
        "only partition 0 is left, and it has no news"
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_is_closed_by_its_last_request() {
    let rig = Rig::new();
    rig.store("orders", 0, &["one"]);
    let full = rig.fetch(from([(0, 0)]).with_session_epoch(0)).await;
    let last = rig
        .fetch(from([(0, 0)]).with_session_id(full.session_id))
        .await;
    assert_eq!((last.error_code, last.session_id), (0, 0));
    let gone = rig
        .fetch(
            from([])
                .with_session_id(full.session_id)
                .with_session_epoch(1),
        )
        .await;
    assert_eq!(gone.error_code, 70);
    assert!(gone.responses.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_session_error_is_the_whole_answer() {
    let mut rig = Rig::new();
    rig.store("orders", 0, &["one"]);
    let full = rig.fetch(from([(0, 0)]).with_session_epoch(0)).await;
    let epoch = rig
        .fetch(
            from([])
                .with_session_id(full.session_id)
                .with_session_epoch(5),
        )
        .await;
    assert_eq!(epoch.error_code, 71);
    rig.version = 13;
    let by_id = rig
        .fetch(
            from([])
                .with_session_id(full.session_id)
                .with_session_epoch(1),
        )
        .await;
    assert_eq!(by_id.error_code, 106);
}

#[tokio::test(start_paused = true)]
async fn versions_without_sessions_get_none() {
    let mut rig = Rig::new();
    rig.version = 6;
    rig.store("orders", 0, &["one"]);
    // What the codec leaves in the fields that these versions lack.
    let response = rig.fetch(from([(0, 0)]).with_session_epoch(0)).await;
    assert_eq!(response.session_id, 0);
    assert_eq!(rig.node.fetching.sessions(|sessions| sessions.len()), 0);
}

#[tokio::test(start_paused = true)]
async fn topics_are_named_by_id_from_version_13_on() {
    let mut rig = Rig::new();
    rig.version = 13;
    rig.store("orders", 0, &["one"]);
    let id = uuid::Uuid::parse_str(&crate::scripted_queen::id_of("orders")).expect("a uuid");
    let mut request = from([(0, 0)]).with_session_epoch(0);
    request.topics[0].topic_id = id;
    let response = rig.fetch(request.clone()).await;
    assert_eq!(response.responses[0].topic_id, id);
    assert_eq!(values(partitions(&response)[0]), [(0, "one".to_owned())]);
    request.topics[0].topic_id = uuid::Uuid::from_u128(7);
    let unknown = rig.fetch(request).await;
    assert_eq!(codes(&unknown), [(0, 100)]);
}
