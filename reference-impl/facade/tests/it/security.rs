//! SASL/PLAIN and TLS on a listener over a Queen that asks for tokens.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use facade::config::{Config, Mechanism, TlsConfig};
use facade::security::REFUSAL_DELAY;
use facade::server;
use fake_queen::Options;
use fake_queen::auth::Key;
use fake_queen::faults::{AuthMe, Effect, Rule};
use host::pipe::{PipeConnector, pipe};
use host::tls::{Identity, Roots, TlsConnect};
use host::{BoxStream, Connect, Secret};
use kafka_protocol::messages as typed;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::protocol::{Decodable, Request, StrBytes};
use kafka_wire::ApiKey;
use kafka_wire::header::{put_request_header, response_header_version};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use crate::rig::Rig;

const SECRET: &[u8] = b"a secret of this test";

struct Secured {
    rig: Rig,
    connector: PipeConnector,
}

impl Secured {
    async fn start(change: impl FnOnce(&mut Config)) -> Self {
        let options = Options {
            jwt: Some(Key::new(SECRET)),
            ..Options::default()
        };
        let rig = Rig::start_with(options, |config| {
            config.security.sasl = Some(Mechanism::Plain);
            change(config);
        })
        .await;
        let (connector, listener) = pipe(256 << 10);
        tokio::spawn(server::serve(Arc::clone(&rig.node), Box::new(listener)));
        Self { rig, connector }
    }

    async fn client(&self) -> Client {
        Client(self.connector.connect().await.expect("a listener"))
    }

    /// A client that has said SaslHandshake 1 and its PLAIN message.
    async fn authenticated(&self, user: &str, token: &str) -> Client {
        let mut client = self.client().await;
        let answer = client.log_in(user, token).await.expect("an answer");
        assert_eq!(answer.error_code, 0, "{answer:?}");
        client
    }

    fn metric(&self, line: &str) -> bool {
        let text = self.rig.node.metrics.registry.render();
        text.lines().any(|shown| shown == line)
    }
}

fn token(claims: Value) -> String {
    Key::new(SECRET).sign(&claims)
}

fn good() -> String {
    token(json!({"role": "read-write"}))
}

/// A connection of a Kafka client.
pub struct Client(pub BoxStream);

impl Client {
    /// The response; `None` when the connection ended.
    pub async fn call<R: Request>(&mut self, version: i16, request: R) -> Option<R::Response> {
        let key = ApiKey(R::KEY);
        let mut frame = BytesMut::new();
        frame.put_u32(0);
        put_request_header(&mut frame, key, version, 7, Some("test"));
        request
            .encode(&mut frame, version)
            .expect("of this version");
        let size = u32::try_from(frame.len() - 4).expect("short");
        frame[..4].copy_from_slice(&size.to_be_bytes());
        self.0.write_all(&frame).await.ok()?;
        self.0.flush().await.ok()?;
        let mut frame = self.frame().await?;
        let header = 4 + usize::from(response_header_version(key, version) >= 1);
        Some(R::Response::decode(&mut frame.split_off(header), version).expect("a response"))
    }

    async fn frame(&mut self) -> Option<Bytes> {
        let size = self.0.read_u32().await.ok()?;
        let mut frame = vec![0; size as usize];
        self.0.read_exact(&mut frame).await.ok()?;
        Some(frame.into())
    }

    async fn handshake(&mut self, version: i16, mechanism: &str) -> Option<i16> {
        let mechanism = StrBytes::from_string(mechanism.to_owned());
        let request = typed::SaslHandshakeRequest::default().with_mechanism(mechanism);
        let answer = self.call(version, request).await?;
        // Who may try again hears of what.
        let listed: Vec<&str> = answer.mechanisms.iter().map(|text| &**text).collect();
        let due: &[&str] = if answer.error_code == 34 {
            &[]
        } else {
            &["PLAIN"]
        };
        assert_eq!(listed, due);
        Some(answer.error_code)
    }

    async fn message(&mut self, plain: &str) -> Option<typed::SaslAuthenticateResponse> {
        let bytes = Bytes::copy_from_slice(plain.as_bytes());
        let request = typed::SaslAuthenticateRequest::default().with_auth_bytes(bytes);
        self.call(2, request).await
    }

    pub async fn log_in(
        &mut self,
        user: &str,
        token: &str,
    ) -> Option<typed::SaslAuthenticateResponse> {
        assert_eq!(self.handshake(1, "PLAIN").await?, 0);
        self.message(&format!("\0{user}\0{token}")).await
    }

    async fn metadata(&mut self) -> Option<typed::MetadataResponse> {
        self.call(
            9,
            typed::MetadataRequest::default().with_topics(Some(vec![])),
        )
        .await
    }

    async fn is_closed(&mut self) -> bool {
        self.0.read(&mut [0; 64]).await.is_ok_and(|read| read == 0)
    }
}

#[tokio::test(start_paused = true)]
async fn a_good_token_opens_everything_and_the_label_is_only_a_label() {
    let secured = Secured::start(|_| {}).await;
    let mut client = secured.authenticated("anybody", &good()).await;
    assert!(client.metadata().await.is_some());
    // Long past the time that strangers have.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let topic = MetadataRequestTopic::default()
        .with_name(Some(typed::TopicName(StrBytes::from_static_str("orders"))));
    let request = typed::MetadataRequest::default()
        .with_topics(Some(vec![topic]))
        .with_allow_auto_topic_creation(true);
    let answer = client.call(9, request).await.unwrap();
    assert_eq!(
        answer.topics[0].error_code, 0,
        "written as the client's own token"
    );
    assert_eq!(
        client.handshake(0, "PLAIN").await,
        Some(34),
        "ILLEGAL_SASL_STATE, and the connection stays"
    );
    assert!(client.metadata().await.is_some());
}

#[rstest]
#[case::forged("eyJhbGciOiJIUzI1NiJ9.e30.AAAA".to_owned(), "bearer token")]
#[case::opaque("hunter2".to_owned(), "bearer token")]
#[case::expired(token(json!({"role": "admin", "exp": 1})), "bearer token")]
#[case::write_only(token(json!({"role": "write-only"})), "read scope")]
#[case::not_a_header("sch\u{e4}tze\r\nx".to_owned(), "bearer token")]
#[tokio::test(start_paused = true)]
async fn a_bad_token_is_refused_for_good_a_moment_later(
    #[case] token: String,
    #[case] words: &str,
) {
    let secured = Secured::start(|_| {}).await;
    let mut client = secured.client().await;
    let started = Instant::now();
    let answer = client.log_in("user", &token).await.unwrap();
    assert_eq!(answer.error_code, 58);
    let said = answer.error_message.unwrap();
    assert!(said.contains(words) && !said.contains(&token), "{said}");
    assert!(started.elapsed() >= REFUSAL_DELAY);
    assert!(client.is_closed().await);
    assert!(secured.metric(r#"queen_kafka_sasl_authentications_total{outcome="refused"} 1"#));
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_none_are_refused_in_kafkas_words() {
    let secured = Secured::start(|_| {}).await;
    for (message, words) in [
        ("user\0token", "expected 3 tokens"),
        ("\0\0token", "username not specified"),
        ("\0user\0", "password not specified"),
        ("root\0user\0token", "different from username"),
    ] {
        let mut client = secured.client().await;
        assert_eq!(client.handshake(1, "PLAIN").await, Some(0));
        let answer = client.message(message).await.unwrap();
        assert_eq!(answer.error_code, 58);
        assert!(answer.error_message.unwrap().contains(words));
        assert!(client.is_closed().await);
    }
}

#[rstest]
#[case::down(503)]
#[case::throttled(429)]
#[case::broken(500)]
#[tokio::test(start_paused = true)]
async fn when_queen_cannot_say_the_client_may_try_again(#[case] status: u16) {
    let secured = Secured::start(|_| {}).await;
    secured.rig.refuse("queue_list", status);
    let mut client = secured.client().await;
    assert!(client.log_in("user", &good()).await.is_none(), "no answer");
    secured.rig.heal();
    secured.authenticated("user", &good()).await;
}

#[tokio::test(start_paused = true)]
async fn a_stranger_only_negotiates_and_authenticates() {
    let secured = Secured::start(|_| {}).await;
    let mut client = secured.client().await;
    let request = typed::ApiVersionsRequest::default()
        .with_client_software_name(StrBytes::from_static_str("test"))
        .with_client_software_version(StrBytes::from_static_str("1"));
    let versions = client.call(3, request).await.unwrap();
    assert!(versions.api_keys.iter().any(|api| api.api_key == 36));
    assert!(client.metadata().await.is_none(), "closed without a word");
    let mut client = secured.client().await;
    assert_eq!(client.handshake(1, "SCRAM-SHA-256").await, Some(33));
    assert_eq!(
        client.handshake(1, "PLAIN").await,
        Some(0),
        "another may be tried"
    );
    assert!(client.metadata().await.is_none());
    // A large frame is refused by its length.
    let mut client = secured.client().await;
    client
        .0
        .write_all(&(64 * 1024 + 1_u32).to_be_bytes())
        .await
        .unwrap();
    assert!(client.is_closed().await);
    // And time is short.
    let mut client = secured.client().await;
    let started = Instant::now();
    assert!(client.is_closed().await);
    assert_eq!(started.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn behind_handshake_0_the_message_is_bare() {
    let secured = Secured::start(|_| {}).await;
    for (token, good) in [(good(), true), ("bad".to_owned(), false)] {
        let mut client = secured.client().await;
        assert_eq!(client.handshake(0, "PLAIN").await, Some(0));
        let message = format!("\0user\0{token}");
        client
            .0
            .write_u32(u32::try_from(message.len()).unwrap())
            .await
            .unwrap();
        client.0.write_all(message.as_bytes()).await.unwrap();
        if good {
            assert_eq!(client.frame().await.unwrap(), Bytes::new());
            assert!(client.metadata().await.is_some());
        } else {
            assert!(client.is_closed().await, "there are no words for it");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_tells_its_end_and_the_client_authenticates_again_before() {
    let secured = Secured::start(|_| {}).await;
    let clock = Arc::clone(&secured.rig.node.host.clock);
    let in_seconds = |seconds: i64| {
        let exp = clock.wall().epoch_ms() / 1000 + seconds;
        token(json!({"role": "read-write", "exp": exp}))
    };
    let mut client = secured.client().await;
    let lifetime = |answer: Option<typed::SaslAuthenticateResponse>| {
        let answer = answer.unwrap();
        (answer.error_code, answer.session_lifetime_ms)
    };
    let (code, ms) = lifetime(client.log_in("user", &in_seconds(60)).await);
    assert!(code == 0 && (58_000..=60_000).contains(&ms), "{ms}");
    tokio::time::sleep(Duration::from_secs(50)).await;
    let (code, ms) = lifetime(client.log_in("user", &in_seconds(120)).await);
    assert!(code == 0 && (118_000..=120_000).contains(&ms), "{ms}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(
        client.metadata().await.is_some(),
        "past the first token's end"
    );
    let (code, _) = lifetime(client.log_in("another", &in_seconds(120)).await);
    assert_eq!(code, 58, "principals do not change");
    assert!(client.is_closed().await);

    let mut late = secured.client().await;
    late.log_in("user", &in_seconds(60)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(
        late.metadata().await.is_none(),
        "it did not authenticate again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_without_an_end_lasts_as_long_as_configured() {
    let secured = Secured::start(|config| {
        config.security.reauth = Some(Duration::from_secs(30));
    })
    .await;
    let mut client = secured.client().await;
    let answer = client.log_in("user", &good()).await.unwrap();
    assert_eq!(answer.session_lifetime_ms, 30_000);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(client.metadata().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_token_that_queen_stops_accepting_is_told_once() {
    let secured = Secured::start(|_| {}).await;
    let mut client = secured.authenticated("user", &good()).await;
    let mut neighbour = secured
        .authenticated("other", &token(json!({"role": "admin"})))
        .await;
    secured
        .rig
        .strike(Rule::once("kv", crate::rig::refusal(401, None)));
    let group = typed::GroupId(StrBytes::from_static_str("g"));
    let request = typed::OffsetFetchRequest::default()
        .with_group_id(group)
        .with_topics(None);
    let answer = client.call(7, request).await.unwrap();
    assert_eq!(answer.error_code, 30, "GROUP_AUTHORIZATION_FAILED");
    assert!(client.is_closed().await);
    assert!(
        neighbour.metadata().await.is_some(),
        "another credential does not notice"
    );
}

#[tokio::test(start_paused = true)]
async fn two_keys_of_a_tenant_share_its_groups_and_two_tenants_do_not() {
    let secured = Secured::start(|_| {}).await;
    let scope = async |token: &str| {
        let credential = facade::queen::Credential {
            bearer: Some(Secret::new(token.to_owned())),
            host: None,
        };
        let identified = secured.rig.node.identities.scope(&credential).await;
        identified.expect("a good credential")
    };
    let (a_token, b_token) = (good(), token(json!({"role": "admin"})));
    let (c_token, d_token) = (
        token(json!({"role": "admin", "sub": "c"})),
        token(json!({"role": "admin", "sub": "d"})),
    );
    // Behind a broker with tokens, Queen names nobody: each is its own.
    let (a, b) = (scope(&a_token).await, scope(&b_token).await);
    assert_ne!(a, b);
    assert_eq!(scope(&a_token).await, a);
    assert!(!a.as_str().contains(&a_token) && a.as_str().starts_with("credential:"));
    let rule = Rule::always(
        "auth_me",
        Effect::AuthMe {
            mode: AuthMe::ApiKey,
        },
    );
    secured.rig.strike(rule);
    let (c, d) = (scope(&c_token).await, scope(&d_token).await);
    assert_eq!(c, d, "one tenant");
    assert!(c.as_str().starts_with("tenant:"));
}

/// A credential that ends between the two questions would be taken for one without a tenant, and its
/// groups kept apart from its tenant's for as long as this process lives.
#[tokio::test(start_paused = true)]
async fn a_token_that_ends_while_it_is_looked_at_is_refused_and_not_taken_for_a_strangers() {
    let secured = Secured::start(|_| {}).await;
    let mut ends = Rule::once("queue_list", crate::rig::refusal(401, None));
    ends.skip = 1;
    secured.rig.strike(ends);
    let mut client = secured.client().await;
    let answer = client.log_in("user", &good()).await.unwrap();
    assert_eq!(answer.error_code, 58, "SASL_AUTHENTICATION_FAILED");
    // Good again, and this time it is asked whose it is.
    secured.rig.strike(Rule::always(
        "auth_me",
        Effect::AuthMe {
            mode: AuthMe::ApiKey,
        },
    ));
    secured.authenticated("user", &good()).await;
    let credential = facade::queen::Credential {
        bearer: Some(Secret::new(good())),
        host: None,
    };
    let scope = secured.rig.node.identities.scope(&credential).await;
    assert!(scope.unwrap().as_str().starts_with("tenant:"));
}

fn identity(name: &str) -> (TlsConfig, Roots) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("made");
    let key = Secret::new(made.signing_key.serialize_pem().into_bytes());
    let identity = Identity::from_pem(made.cert.pem().as_bytes(), &key).expect("a pair");
    let roots = Roots::from_pem(made.cert.pem().as_bytes()).expect("one");
    (
        TlsConfig {
            identity,
            files: None,
        },
        roots,
    )
}

#[tokio::test]
async fn under_tls_the_server_name_is_the_host_of_the_calls_to_queen() {
    let (tls, roots) = identity("tenant.example");
    let secured = Secured::start(|config| {
        config.security.tls = Some(tls);
        config.security.forward_sni_host = true;
    })
    .await;
    let clock = Arc::clone(&secured.rig.node.host.clock);
    let plain: Arc<dyn Connect> = Arc::new(secured.connector.clone());
    let connect = TlsConnect::new(plain, "tenant.example", &roots, clock).unwrap();
    let mut client = Client(connect.connect().await.unwrap());
    assert_eq!(client.log_in("user", &good()).await.unwrap().error_code, 0);
    assert!(client.metadata().await.is_some());
    // A client that speaks plaintext to it ends, and nobody else notices.
    let mut plaintext = secured.client().await;
    assert!(plaintext.handshake(1, "PLAIN").await.is_none());
    assert!(client.metadata().await.is_some());
    assert!(secured.metric(r#"queen_kafka_connections_closed_total{reason="tls_handshake"} 1"#));
}

#[tokio::test(start_paused = true)]
async fn a_tls_handshake_that_never_ends_is_ended() {
    let (tls, _) = identity("a.test");
    let secured = Secured::start(|config| config.security.tls = Some(tls)).await;
    let mut client = secured.client().await;
    let started = Instant::now();
    // The first half of a record.
    client.0.write_all(&[22, 3, 1, 2, 0, 1, 0]).await.unwrap();
    assert!(client.is_closed().await);
    assert_eq!(started.elapsed(), Duration::from_secs(10));
}
