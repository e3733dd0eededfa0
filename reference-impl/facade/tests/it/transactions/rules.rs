//! Caps, refusals and what the admin APIs show.

use super::*;

#[tokio::test(start_paused = true)]
async fn partitions_must_exist_and_be_added() {
    let rig = rig(MEMORY).await;
    let mut producer = Producer::new(&rig, "tx").await;
    let (none, unknown) = (
        ErrorCode::OperationNotAttempted,
        ErrorCode::UnknownTopicOrPartition,
    );
    assert_eq!(producer.add(&rig, &[0, 1_000_000]).await, [none, unknown]);
    assert_eq!(producer.add(&rig, &[-1]).await, [unknown]);
    let (sent, _) = producer.send(&rig, 0, &["a"]).await;
    assert_eq!(sent, ErrorCode::TransactionAbortable);
    let mut stranger = Producer {
        pid: producer.pid + 1,
        ..producer.clone()
    };
    let mapping = ErrorCode::InvalidProducerIdMapping;
    assert_eq!(stranger.add(&rig, &[0]).await, [mapping]);
    assert_eq!(stranger.commit(&rig).await, mapping);
    let mut nobody = Producer {
        id: "never initialised".to_owned(),
        ..producer.clone()
    };
    assert_eq!(nobody.add(&rig, &[0]).await, [mapping]);
    assert_eq!(nobody.abort(&rig).await, mapping);
    let too_many: Vec<i32> = (0..201).collect();
    assert_eq!(
        producer.add(&rig, &too_many).await[0],
        ErrorCode::MessageTooLarge
    );
    assert_eq!(
        producer.add(&rig, &too_many[..200]).await[0],
        ErrorCode::None
    );
}

#[tokio::test(start_paused = true)]
async fn a_transaction_beyond_its_bounds_can_only_be_aborted() {
    let rig = rig_with(MEMORY, |config| config.transactions.max_records = 3).await;
    let mut producer = Producer::new(&rig, "tx").await;
    producer.produce(&rig, 0, &["a", "b"]).await;
    let (sent, _) = producer.send(&rig, 0, &["c", "d"]).await;
    assert_eq!(sent, ErrorCode::MessageTooLarge);
    assert_eq!(producer.commit(&rig).await, ErrorCode::InvalidTxnState);
    assert_eq!(producer.abort(&rig).await, ErrorCode::None);
    producer.produce(&rig, 0, &["e"]).await;
    assert_eq!(producer.commit(&rig).await, ErrorCode::None);
    assert_eq!(values(&rig, 0).await, ["e"]);
}

#[tokio::test(start_paused = true)]
async fn the_process_holds_so_many_transactions_and_bytes() {
    let rig = rig_with(MEMORY, |config| {
        config.transactions.max_open = 2;
        config.transactions.max_staged_bytes = 10;
    })
    .await;
    let mut producers = Vec::new();
    for n in 0..3 {
        producers.push(Producer::new(&rig, &format!("tx-{n}")).await);
    }
    producers[0].produce(&rig, 0, &["12345678"]).await;
    assert_eq!(producers[1].add(&rig, &[0]).await, [ErrorCode::None]);
    let (full, _) = producers[1].send(&rig, 0, &["123"]).await;
    assert_eq!(full, ErrorCode::RequestTimedOut, "tries again");
    let busy = ErrorCode::ConcurrentTransactions;
    assert_eq!(producers[2].add(&rig, &[0]).await, [busy]);
    assert_eq!(producers[2].add_offsets(&rig, "g").await, busy);
    assert_eq!(producers[0].commit(&rig).await, ErrorCode::None);
    assert_eq!(producers[2].add(&rig, &[0]).await, [ErrorCode::None]);
    let (sent, _) = producers[1].send(&rig, 0, &["123"]).await;
    assert_eq!(sent, ErrorCode::None);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_bounded_and_an_id_too() {
    let rig = rig(MEMORY).await;
    let ask = |id: String, timeout: i32| {
        let request = typed::InitProducerIdRequest::default()
            .with_transactional_id(Some(typed::TransactionalId(text(&id))))
            .with_transaction_timeout_ms(timeout)
            .with_producer_id(typed::ProducerId(-1))
            .with_producer_epoch(-1);
        let cx = rig.cx(4);
        async move {
            code(
                handlers::init_producer_id::handle(&cx, request)
                    .await
                    .error_code,
            )
        }
    };
    for timeout in [-1, 0, 900_001, i32::MAX] {
        let refused = ask("tx".into(), timeout).await;
        assert_eq!(refused, ErrorCode::InvalidTransactionTimeout, "{timeout}");
    }
    assert_eq!(ask("tx".into(), 900_000).await, ErrorCode::None);
    assert_eq!(ask("x".repeat(600), 1_000).await, ErrorCode::InvalidRequest);
}

#[tokio::test(start_paused = true)]
async fn old_versions_hear_of_a_fence_in_their_own_words() {
    let rig = rig(MEMORY).await;
    let old = Producer::new(&rig, "tx").await;
    Producer::new(&rig, "tx").await;
    for (version, expected) in [
        (0, ErrorCode::InvalidProducerEpoch),
        (1, ErrorCode::InvalidProducerEpoch),
        (2, ErrorCode::ProducerFenced),
    ] {
        let request = typed::EndTxnRequest::default()
            .with_transactional_id(old.transactional_id())
            .with_producer_id(typed::ProducerId(old.pid))
            .with_producer_epoch(old.epoch);
        let response = handlers::end_txn::handle(&rig.cx(version), request).await;
        assert_eq!(code(response.error_code), expected, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn transactions_are_listed_and_described() {
    let rig = rig(MEMORY).await;
    let mut open = Producer::new(&rig, "open").await;
    let mut done = Producer::new(&rig, "done").await;
    Producer::new(&rig.beside(), "elsewhere").await;
    open.produce(&rig, 3, &["a"]).await;
    done.produce(&rig, 0, &["a"]).await;
    done.commit(&rig).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let list = |request: typed::ListTransactionsRequest| {
        let cx = rig.cx(2);
        async move {
            let response = encodable(handlers::list_transactions::handle(&cx, request).await, 2);
            let states = response.transaction_states.iter();
            let listed = states.map(|state| {
                (
                    state.transactional_id.to_string(),
                    state.transaction_state.to_string(),
                )
            });
            (listed.collect::<Vec<_>>(), code(response.error_code))
        }
    };
    let all = typed::ListTransactionsRequest::default().with_duration_filter(-1);
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect()
    };
    let everything = pairs(&[
        ("done", "CompleteCommit"),
        ("elsewhere", "Empty"),
        ("open", "Ongoing"),
    ]);
    assert_eq!(list(all.clone()).await, (everything, ErrorCode::None));
    let ongoing = pairs(&[("open", "Ongoing")]);
    for request in [
        all.clone()
            .with_state_filters(vec![text("Ongoing"), text("Nonsense")]),
        all.clone()
            .with_producer_id_filters(vec![typed::ProducerId(open.pid)]),
        all.clone().with_duration_filter(4_000),
        all.clone().with_transactional_id_pattern(Some(text("o.*"))),
    ] {
        assert_eq!(list(request).await.0, ongoing);
    }
    assert_eq!(list(all.clone().with_duration_filter(6_000)).await.0, []);
    let bad = list(all.with_transactional_id_pattern(Some(text("(")))).await;
    assert_eq!(bad.1, ErrorCode::InvalidRegularExpression);

    let ids = ["open", "nowhere", ""].map(|id| typed::TransactionalId(text(id)));
    let request = typed::DescribeTransactionsRequest::default().with_transactional_ids(ids.into());
    let response = handlers::describe_transactions::handle(&rig.cx(0), request).await;
    let states = encodable(response, 0).transaction_states;
    let (found, nowhere, empty) = (&states[0], &states[1], &states[2]);
    assert_eq!(&*found.transaction_state, "Ongoing");
    assert_eq!(found.producer_id.0, open.pid);
    assert_eq!(found.transaction_timeout_ms, 60_000);
    assert!(found.transaction_start_time_ms > 0);
    assert_eq!(found.topics[0].partitions, [3]);
    assert_eq!(code(nowhere.error_code), ErrorCode::TransactionalIdNotFound);
    assert_eq!(code(empty.error_code), ErrorCode::InvalidRequest);

    let asked = typed::describe_producers_request::TopicRequest::default()
        .with_name(topic("t"))
        .with_partition_indexes(vec![3, 5, 1_000_000]);
    let request = typed::DescribeProducersRequest::default().with_topics(vec![asked]);
    let response = handlers::describe_producers::handle(&rig.cx(0), request).await;
    let partitions = &encodable(response, 0).topics[0].partitions;
    let active = &partitions[0].active_producers;
    assert_eq!(
        (
            active.len(),
            active[0].producer_id.0,
            active[0].last_sequence
        ),
        (1, open.pid, 0)
    );
    assert!(partitions[1].active_producers.is_empty());
    assert_eq!(
        code(partitions[2].error_code),
        ErrorCode::UnknownTopicOrPartition
    );
}
