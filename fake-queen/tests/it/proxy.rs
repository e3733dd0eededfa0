//! The proxy of a cell: who is let through to the Queen behind it, as whom, and what is counted.

use std::sync::Arc;
use std::time::Duration;

use fake_queen::ids::TenantId;
use fake_queen::proxy::{
    Block, Cell, CellFile, Feature, KeyId, Options, Plan, Proxy, Rate, Scopes, Storm,
};
use fake_queen::{Options as QueenOptions, Queen};
use host::pipe::PipeConnector;
use host::{Connect, Secret};
use rstest::rstest;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Answer, Client};
use crate::world::{self, START_MS};

const ACME: TenantId = TenantId(Uuid::from_u128(0xa));
const OTHER: TenantId = TenantId(Uuid::from_u128(0xb));
pub const SHARED: &str = "kafka.cell.test";

pub struct Rig {
    queen: Queen,
    pub cell: Cell,
    pub proxy: Client,
}

impl Rig {
    pub async fn start() -> Self {
        Self::start_with(Options::default(), |connect| connect).await
    }

    pub async fn start_with(
        options: Options,
        wrap: impl FnOnce(Arc<dyn Connect>) -> Arc<dyn Connect>,
    ) -> Self {
        let host = world::host();
        let behind = QueenOptions {
            tenancy_header: true,
            kv_require_grant: true,
            ..QueenOptions::default()
        };
        let queen = Queen::start(host.clone(), behind).await.unwrap();
        queen.grant_kv(ACME, true);
        let cell = Cell::new(host.clone());
        cell.share_host(SHARED);
        cell.add_cluster("acme", ACME, Plan::default());
        cell.add_cluster("other", OTHER, Plan::default());
        let upstream = wrap(queen.clone().in_process().connector);
        let proxy = Proxy::new(host, cell.clone(), upstream, options).unwrap();
        Self {
            queen,
            cell,
            proxy: Client(proxy.in_process().connector),
        }
    }

    pub fn key(&self, cluster: &str, scopes: Scopes) -> (KeyId, Secret<String>) {
        self.cell.issue(cluster, scopes).unwrap()
    }

    pub async fn call(
        &self,
        secret: &Secret<String>,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Answer {
        self.call_at(SHARED, Some(secret), method, path, body).await
    }

    async fn call_at(
        &self,
        host: &str,
        secret: Option<&Secret<String>>,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Answer {
        let bearer = secret.map(|secret| format!("Bearer {}", secret.expose()));
        let mut headers = vec![("host", host), ("x-queen-tenant", "nobody asks me")];
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let mut connection = self.proxy.connect().await.unwrap();
        let answer = connection.call(method, path, &headers, body).await;
        answer.expect("an answer")
    }

    pub async fn push(&self, secret: &Secret<String>, queue: &str) -> Answer {
        let body = json!({"items": [{"queue": queue, "partition": "0", "payload": {"v": 1}}]});
        self.call(secret, "POST", "/api/v1/push", &body).await
    }

    async fn list(&self, secret: &Secret<String>) -> Answer {
        self.call(secret, "GET", "/api/v1/resources/queues", &Value::Null)
            .await
    }
}

#[track_caller]
pub fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{}", answer.text);
    assert_eq!(answer.json()["code"], code, "{}", answer.text);
}

fn put(key: &str) -> Value {
    json!([{"op": "put", "ns": "queen-kafka", "key": key, "value": 1, "forever": true}])
}

#[tokio::test(start_paused = true)]
async fn two_tenants_on_one_host_see_nothing_of_each_other() {
    let rig = Rig::start().await;
    rig.queen.grant_kv(OTHER, true);
    let (_, acme) = rig.key("acme", Scopes::ALL);
    let (_, other) = rig.key("other", Scopes::ALL);
    assert_eq!(rig.push(&acme, "orders").await.status, 201);
    let seen = rig.list(&acme).await.json();
    assert_eq!(seen["queues"][0]["name"], "orders", "{seen}");
    assert_eq!(rig.list(&other).await.json()["queues"], json!([]));
    // The tenant a client names is not the one it gets.
    let mine = rig.call(&acme, "POST", "/api/v1/kv", &put("qk:a")).await;
    assert_eq!(mine.json()["results"][0]["applied"], true);
    let get = json!([{"op": "getMany", "ns": "queen-kafka", "keys": ["qk:a"]}]);
    let theirs = rig.call(&other, "POST", "/api/v1/kv", &get).await.json();
    assert_eq!(theirs["results"][0]["missing"], json!(["qk:a"]), "{theirs}");
}

#[rstest]
#[case::push("POST", "/api/v1/push", "produce")]
#[case::transaction("POST", "/api/v1/transaction", "produce")]
#[case::fetch("POST", "/api/v1/fetch", "consume")]
#[case::configure("POST", "/api/v1/configure", "admin")]
#[case::delete("DELETE", "/api/v1/resources/queues/q", "admin")]
#[case::list("GET", "/api/v1/resources/queues", "read")]
#[tokio::test(start_paused = true)]
async fn each_route_needs_its_scope(#[case] method: &str, #[case] path: &str, #[case] scope: &str) {
    let rig = Rig::start().await;
    let none = Scopes::default();
    let only = match scope {
        "produce" => Scopes {
            produce: true,
            ..none
        },
        "consume" => Scopes {
            consume: true,
            ..none
        },
        "admin" => Scopes {
            admin: true,
            ..none
        },
        _ => Scopes { read: true, ..none },
    };
    let lacking = Scopes {
        produce: !only.produce,
        consume: !only.consume,
        // An admin may read.
        admin: !only.admin && !only.read,
        read: !only.read,
    };
    let body = match method {
        "POST" => json!({"items": [], "entries": [], "operations": [], "queue": "q"}),
        _ => Value::Null,
    };
    let (_, secret) = rig.key("acme", lacking);
    let answer = rig.call(&secret, method, path, &body).await;
    refused(&answer, 403, "forbidden");
    assert!(answer.text.contains(scope), "{}", answer.text);
    let (_, secret) = rig.key("acme", only);
    let answer = rig.call(&secret, method, path, &body).await;
    assert_ne!(answer.status, 403, "{}", answer.text);
}

#[tokio::test(start_paused = true)]
async fn clusters_are_found_by_host_or_by_key() {
    let rig = Rig::start().await;
    let (_, acme) = rig.key("acme", Scopes::ALL);
    let path = "/api/v1/resources/queues";
    let at = async |host: &str, secret: Option<&Secret<String>>| {
        rig.call_at(host, secret, "GET", path, &Value::Null).await
    };
    let bad = Secret::new("qk_test_nobody".to_owned());
    assert_eq!(at("acme.cell.test:6711", Some(&acme)).await.status, 200);
    assert_eq!(at("KAFKA.cell.test:6711", Some(&acme)).await.status, 200);
    refused(&at("other.cell.test", Some(&acme)).await, 403, "forbidden");
    refused(
        &at("nobody.cell.test", Some(&acme)).await,
        421,
        "cluster_unknown",
    );
    refused(&at("nobody.cell.test", None).await, 401, "unauthorized");
    refused(&at(SHARED, None).await, 401, "unauthorized");
    refused(&at(SHARED, Some(&bad)).await, 401, "unauthorized");
    refused(&at("acme.cell.test", Some(&bad)).await, 401, "unauthorized");
    let me = rig
        .call(&acme, "GET", "/auth/me", &Value::Null)
        .await
        .json();
    assert_eq!(me["acting_cluster"]["slug"], "acme");
    assert_eq!(me["principal"], "api_key");
}

#[rstest]
#[case("GET", "/api/v1/pop")]
#[case("POST", "/api/v1/fetch/")]
#[case("POST", "/api/v1/system/kv-timers")]
#[case("POST", "/fake/faults")]
#[tokio::test(start_paused = true)]
async fn routes_of_the_broker_alone_are_not_there(#[case] method: &str, #[case] path: &str) {
    let rig = Rig::start().await;
    let (_, secret) = rig.key("acme", Scopes::ALL);
    let answer = rig.call(&secret, method, path, &Value::Null).await;
    refused(&answer, 404, "route_blocked");
}

#[tokio::test(start_paused = true)]
async fn a_key_is_narrowed_expired_rotated_and_revoked_and_its_neighbour_notices_nothing() {
    let rig = Rig::start().await;
    let (id, secret) = rig.key("acme", Scopes::ALL);
    let (_, neighbour) = rig.key("acme", Scopes::ALL);
    let read = Scopes {
        read: true,
        ..Scopes::default()
    };
    rig.cell.set_scopes(&id, read).unwrap();
    refused(&rig.push(&secret, "q").await, 403, "forbidden");
    assert_eq!(rig.list(&secret).await.status, 200);

    rig.cell.expire_at(&id, Some(START_MS + 10_000)).unwrap();
    assert_eq!(rig.list(&secret).await.status, 200);
    tokio::time::sleep(Duration::from_secs(10)).await;
    refused(&rig.list(&secret).await, 401, "unauthorized");
    rig.cell.expire_at(&id, None).unwrap();

    let newer = rig.cell.rotate(&id, Duration::from_secs(5)).unwrap();
    assert_eq!(rig.list(&secret).await.status, 200);
    assert_eq!(rig.list(&newer).await.status, 200);
    tokio::time::sleep(Duration::from_secs(5)).await;
    refused(&rig.list(&secret).await, 401, "unauthorized");
    let newest = rig.cell.rotate(&id, Duration::ZERO).unwrap();
    refused(&rig.list(&newer).await, 401, "unauthorized");

    rig.cell.revoke(&id).unwrap();
    refused(&rig.list(&newest).await, 401, "unauthorized");
    assert_eq!(rig.push(&neighbour, "q").await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn a_frozen_cluster_is_refused_whole_and_a_blocked_one_only_its_growth() {
    let rig = Rig::start().await;
    let (_, secret) = rig.key("acme", Scopes::ALL);
    let (_, other) = rig.key("other", Scopes::ALL);
    rig.cell.freeze("acme", true).unwrap();
    refused(&rig.list(&secret).await, 403, "cluster_suspended");
    assert_eq!(rig.list(&other).await.status, 200);
    rig.cell.freeze("acme", false).unwrap();
    for (block, code) in [
        (Block::Storage, "storage_quota_exceeded"),
        (Block::Monthly, "quota_exceeded"),
        (Block::Push, "push_blocked"),
    ] {
        rig.cell.block("acme", Some(block)).unwrap();
        refused(&rig.push(&secret, "q").await, 403, code);
        let commit = rig.call(&secret, "POST", "/api/v1/kv", &put("qk:a")).await;
        assert_eq!(commit.status, 200, "a cursor still moves: {}", commit.text);
    }
    rig.cell.block("acme", None).unwrap();
    assert_eq!(rig.push(&secret, "q").await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn rows_of_kafka_need_no_feature_others_do_and_the_broker_asks_for_its_grant() {
    let rig = Rig::start().await;
    let consume = Scopes {
        consume: true,
        ..Scopes::default()
    };
    let (_, acme) = rig.key("acme", consume);
    let kv = "/api/v1/kv";
    assert_eq!(rig.call(&acme, "POST", kv, &put("qk:a")).await.status, 200);
    let foreign = rig.call(&acme, "POST", kv, &put("mine")).await;
    refused(&foreign, 403, "feature_gated");
    let plan = Plan {
        features: [Feature::Kv].into(),
        ..Plan::default()
    };
    rig.cell.set_plan("acme", plan).unwrap();
    assert_eq!(rig.call(&acme, "POST", kv, &put("mine")).await.status, 200);
    // No row in the broker's table of grants.
    let (_, other) = rig.key("other", consume);
    let answer = rig.call(&other, "POST", kv, &put("qk:a")).await;
    assert_eq!(answer.status, 403, "{}", answer.text);
    assert_eq!(answer.json()["error"], "feature_gated");
    assert_eq!(answer.json()["code"], Value::Null, "the broker's own words");
}

#[tokio::test(start_paused = true)]
async fn rates_say_when_to_come_again() {
    let rig = Rig::start().await;
    let (_, secret) = rig.key("acme", Scopes::ALL);
    let plan = Plan {
        requests: Some(Rate {
            per_second: 1,
            burst: 2,
        }),
        ..Plan::default()
    };
    rig.cell.set_plan("acme", plan).unwrap();
    assert_eq!(rig.list(&secret).await.status, 200);
    assert_eq!(rig.list(&secret).await.status, 200);
    let answer = rig.list(&secret).await;
    refused(&answer, 429, "rate_limited");
    assert_eq!(answer.retry_after.as_deref(), Some("1"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.list(&secret).await.status, 200);
    let plan = Plan {
        messages: Some(Rate {
            per_second: 1,
            burst: 10,
        }),
        ..Plan::default()
    };
    rig.cell.set_plan("acme", plan).unwrap();
    let items = vec![json!({"queue": "q", "payload": 1}); 6];
    let push = json!({ "items": items });
    let first = rig.call(&secret, "POST", "/api/v1/push", &push).await;
    assert_eq!(first.status, 201, "{}", first.text);
    let second = rig.call(&secret, "POST", "/api/v1/push", &push).await;
    refused(&second, 429, "rate_limited");
    assert_eq!(second.retry_after.as_deref(), Some("2"));
}

#[rstest]
#[case(Some(7), Some("7"))]
#[case(None, None)]
#[tokio::test(start_paused = true)]
async fn a_storm_refuses_everything_until_it_is_over(
    #[case] retry_after_s: Option<u64>,
    #[case] header: Option<&str>,
) {
    let rig = Rig::start().await;
    let (_, secret) = rig.key("acme", Scopes::ALL);
    rig.cell
        .storm("acme", Some(Storm { retry_after_s }))
        .unwrap();
    let answer = rig.push(&secret, "q").await;
    refused(&answer, 429, "rate_limited");
    assert_eq!(answer.retry_after.as_deref(), header);
    rig.cell.storm("acme", None).unwrap();
    assert_eq!(rig.push(&secret, "q").await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn plans_bound_queues_lanes_items_and_retention() {
    let rig = Rig::start().await;
    let (_, secret) = rig.key("acme", Scopes::ALL);
    let plan = Plan {
        max_queues: Some(1),
        max_partitions_per_queue: Some(2),
        max_batch_items: 3,
        max_retention_seconds: Some(60),
        ..Plan::default()
    };
    rig.cell.set_plan("acme", plan).unwrap();
    let post = async |route: &str, body: &Value| {
        let path = format!("/api/v1/{route}");
        rig.call(&secret, "POST", &path, body).await
    };
    let made = json!({"queue": "q", "options": {"retentionSeconds": 61}});
    refused(&post("configure", &made).await, 403, "quota_exceeded");
    assert_eq!(rig.push(&secret, "q").await.status, 201);
    refused(&rig.push(&secret, "r").await, 403, "quota_exceeded");
    let lane = |lane: &str| json!({"queue": "q", "partition": lane, "payload": 1});
    let more = json!({"items": [lane("1"), lane("2")]});
    refused(&post("push", &more).await, 403, "quota_exceeded");
    assert_eq!(
        post("push", &json!({"items": [lane("1")]})).await.status,
        201
    );
    let four = json!({"items": vec![lane("0"); 4]});
    refused(&post("push", &four).await, 413, "payload_too_large");
    refused(&post("push", &json!([])).await, 400, "invalid_request");
}

#[tokio::test(start_paused = true)]
async fn without_enforcement_rates_and_quotas_only_warn_and_sizes_still_refuse() {
    let options = Options {
        enforce: false,
        ..Options::default()
    };
    let rig = Rig::start_with(options, |connect| connect).await;
    let (_, secret) = rig.key("acme", Scopes::ALL);
    let plan = Plan {
        requests: Some(Rate {
            per_second: 1,
            burst: 1,
        }),
        max_queues: Some(0),
        max_payload_bytes: Some(7),
        ..Plan::default()
    };
    rig.cell.set_plan("acme", plan).unwrap();
    for _ in 0..3 {
        assert_eq!(rig.push(&secret, "q").await.status, 201);
    }
    let large = json!({"items": [{"queue": "q", "payload": "1234567"}]});
    let answer = rig.call(&secret, "POST", "/api/v1/push", &large).await;
    refused(&answer, 413, "payload_too_large");
    rig.cell
        .storm(
            "acme",
            Some(Storm {
                retry_after_s: None,
            }),
        )
        .unwrap();
    refused(&rig.push(&secret, "q").await, 429, "rate_limited");
}

#[tokio::test(start_paused = true)]
async fn pushes_are_metered_as_messages_and_a_fetch_as_a_request() {
    let rig = Rig::start().await;
    let (_, secret) = rig.key("acme", Scopes::ALL);
    rig.push(&secret, "q").await;
    rig.push(&secret, "q").await;
    let entry = json!({"queue": "q", "partition": "0", "offset": 0});
    let fetch = json!({"entries": [entry], "maxWaitMs": 0});
    let answer = rig.call(&secret, "POST", "/api/v1/fetch", &fetch).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    refused(
        &rig.call(&secret, "GET", "/api/v1/pop", &Value::Null).await,
        404,
        "route_blocked",
    );
    let metering = rig.cell.metering("acme").unwrap();
    assert_eq!((metering.requests, metering.messages), (3, 2));
    assert!(metering.bytes > 0 && metering.parked == 0);
    assert_eq!(metering.refused, [("route_blocked", 1)].into());
    assert_eq!(rig.cell.metering("other").unwrap().requests, 0);
}

#[tokio::test(start_paused = true)]
async fn a_broker_out_of_reach_is_502_and_a_silent_one_504() {
    let gone = |_| {
        let (connector, listener) = host::pipe::pipe(64);
        drop(listener);
        Arc::new(connector) as Arc<dyn Connect>
    };
    let rig = Rig::start_with(Options::default(), gone).await;
    let (_, secret) = rig.key("acme", Scopes::ALL);
    refused(&rig.list(&secret).await, 502, "bad_gateway");

    let (connector, listener): (PipeConnector, _) = host::pipe::pipe(64 << 10);
    let rig = Rig::start_with(Options::default(), |_| Arc::new(connector)).await;
    let (_, secret) = rig.key("acme", Scopes::ALL);
    refused(&rig.list(&secret).await, 504, "upstream_timeout");
    drop(listener);
}

#[tokio::test(start_paused = true)]
async fn a_long_answer_streams_and_connections_are_kept() {
    let rig = Rig::start().await;
    let (_, secret) = rig.key("acme", Scopes::ALL);
    let payload = "x".repeat(200_000);
    let items = vec![json!({"queue": "q", "partition": "0", "payload": payload}); 10];
    let push = json!({ "items": items });
    let answer = rig.call(&secret, "POST", "/api/v1/push", &push).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let entry = json!({"queue": "q", "partition": "0", "offset": 0, "maxBytes": 8 << 20});
    let fetch = json!({"entries": [entry]});
    for _ in 0..3 {
        let answer = rig.call(&secret, "POST", "/api/v1/fetch", &fetch).await;
        assert!(answer.text.len() > 2_000_000, "{}", answer.text.len());
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_describes_a_cell_and_read_again_revokes() {
    let rig = Rig::start().await;
    let file = |keys: &Value| {
        json!({
            "shared_hosts": [SHARED],
            "clusters": [{"slug": "acme", "tenant": ACME.0, "keys": keys}],
        })
        .to_string()
    };
    let key = |id: &str, key: &str| json!({"id": id, "key": key, "scopes": ["read"]});
    let both = file(&json!([key("a", "qk_test_a"), key("b", "qk_test_b")]));
    let apply = |text: &str| {
        let parsed = CellFile::parse(text.as_bytes()).unwrap();
        parsed.apply(&rig.cell).unwrap();
    };
    apply(&both);
    let (a, b) = ("qk_test_a".to_owned(), "qk_test_b".to_owned());
    let (a, b) = (Secret::new(a), Secret::new(b));
    assert_eq!(rig.list(&a).await.status, 200);
    apply(&file(&json!([key("b", "qk_test_b")])));
    refused(&rig.list(&a).await, 401, "unauthorized");
    assert_eq!(rig.list(&b).await.status, 200);
    let twice = file(&json!([key("a", "qk_test_a"), key("b", "qk_test_a")]));
    let error = CellFile::parse(twice.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("twice") && !error.contains("qk_"), "{error}");
    let wrong = both.replace("read", "qk_test_secret_as_scope");
    let error = CellFile::parse(wrong.as_bytes()).unwrap_err().to_string();
    assert!(!error.contains("qk_"), "{error}");
}
