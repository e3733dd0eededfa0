//! Statuses and headers, on every route.

use std::time::Duration;

use rstest::rstest;
use wiremock::matchers::{any, body_bytes, header, header_exists, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::*;

async fn answering(response: ResponseTemplate) -> (MockServer, Client) {
    let server = MockServer::start().await;
    Mock::given(any())
        .respond_with(response)
        .mount(&server)
        .await;
    let client = client_of(*server.address());
    (server, client)
}

#[rstest]
#[case(302, Class::Unknown)]
#[case(400, Class::Rejected)]
#[case(401, Class::Unauthenticated)]
#[case(403, Class::Forbidden)]
#[case(404, Class::NotFound)]
#[case(408, Class::Unknown)]
#[case(413, Class::TooLarge)]
#[case(421, Class::Forbidden)]
#[case(429, Class::Throttled)]
#[case(500, Class::Unknown)]
#[case(502, Class::Unknown)]
#[case(503, Class::Unavailable)]
#[case(504, Class::Unknown)]
#[case(507, Class::Unavailable)]
#[tokio::test]
async fn every_route_tells_every_status_apart(#[case] status: u16, #[case] class: Class) {
    let body = r#"{"error":"no\u001b[31m","code":"some_code"}"#;
    let (_server, client) = answering(ResponseTemplate::new(status).set_body_string(body)).await;
    for route in Route::ALL {
        let error = route.call(&client, &Credential::default()).await;
        if status == 404 && route.may_be_missing() {
            assert!(error.is_none(), "{route:?}");
            continue;
        }
        let error = error.unwrap_or_else(|| panic!("{route:?} took {status} for success"));
        assert_eq!(error.class(), class, "{route:?}");
        assert_eq!(error.code(), Some("some_code"), "{route:?}");
        assert_eq!(error.server_text(), Some("no"), "{route:?}");
        assert_eq!(error.retry_after(), None, "{route:?}");
    }
}

#[rstest]
#[case::seconds("7", Some(7))]
#[case::zero("0", Some(0))]
#[case::padded(" 12 ", Some(12))]
#[case::huge("99999999999999999999999", Some(u64::MAX))]
#[case::date("Wed, 21 Oct 2026 07:28:00 GMT", None)]
#[case::negative("-1", None)]
#[case::fraction("1.5", None)]
#[case::empty("", None)]
#[tokio::test]
async fn only_seconds_count_as_retry_after(#[case] value: &str, #[case] seconds: Option<u64>) {
    let response = ResponseTemplate::new(429).insert_header("retry-after", value);
    let (_server, client) = answering(response).await;
    let error = client
        .list_queues(&Credential::default())
        .await
        .expect_err("429");
    assert_eq!(error.retry_after(), seconds.map(Duration::from_secs));
}

#[rstest]
#[case::empty(b"".as_slice(), None)]
#[case::page(b"<html>502 Bad Gateway</html>", None)]
#[case::text(b"upstream connect error", Some("upstream connect error"))]
#[case::binary(b"\x00\xff\x1b[2Jx", Some("\u{fffd}x"))]
#[case::array(b"[1]", None)]
#[tokio::test]
async fn any_body_of_a_refusal_is_survived(#[case] body: &[u8], #[case] text: Option<&str>) {
    let response = ResponseTemplate::new(502).set_body_bytes(body);
    let (_server, client) = answering(response).await;
    let error = client
        .list_queues(&Credential::default())
        .await
        .expect_err("502");
    assert_eq!(error.class(), Class::Unknown);
    assert_eq!(error.server_text(), text);
}

#[tokio::test]
async fn a_long_refusal_is_not_read_to_its_end() {
    let response = ResponseTemplate::new(403).set_body_string("x".repeat(1 << 20));
    let (_server, client) = answering(response).await;
    for _ in 0..2 {
        let error = client
            .list_queues(&Credential::default())
            .await
            .expect_err("403");
        assert_eq!(
            (error.class(), error.server_text()),
            (Class::Forbidden, None)
        );
    }
}

#[tokio::test]
async fn a_call_carries_its_credential_and_nothing_of_others() {
    let server = MockServer::start().await;
    let list = || ResponseTemplate::new(200).set_body_string(r#"{"queues":[]}"#);
    Mock::given(method("GET"))
        .and(path("/api/v1/resources/queues"))
        .and(header("authorization", "Bearer one"))
        .and(header("host", "tenant.example"))
        .and(header_exists("user-agent"))
        .respond_with(list())
        .expect(1)
        .mount(&server)
        .await;
    let client = client_of(*server.address());
    let credential = Credential {
        host: Some("tenant.example".into()),
        ..token("one")
    };
    client.list_queues(&credential).await.expect("accepted");
    server.reset().await;
    Mock::given(any()).respond_with(list()).mount(&server).await;
    client
        .list_queues(&Credential::default())
        .await
        .expect("accepted");
    let seen = server.received_requests().await.expect("recorded");
    let last = seen.last().expect("one call");
    assert!(!last.headers.contains_key("authorization"));
    let host = last.headers.get("host").expect("a host").to_str();
    assert_eq!(host.expect("ASCII"), server.address().to_string());
}

#[rstest]
#[case("to\nken")]
#[case("to\u{0}ken")]
#[tokio::test]
async fn a_token_no_header_can_carry_is_refused_unsent(#[case] bearer: &str) {
    let (server, client) = answering(ResponseTemplate::new(200)).await;
    let error = client
        .list_queues(&token(bearer))
        .await
        .expect_err("unsent");
    assert_eq!(error.class(), Class::Unauthenticated);
    assert!(!format!("{error} {error:?}").contains("ken\""));
    assert!(
        server
            .received_requests()
            .await
            .expect("recorded")
            .is_empty()
    );
}

#[tokio::test]
async fn a_queue_name_is_one_segment_of_the_path() {
    let (server, client) =
        answering(ResponseTemplate::new(200).set_body_string(r#"{"deleted":true}"#)).await;
    client
        .delete_queue(&Credential::default(), "a/b ?#é~.-_")
        .await
        .expect("deleted");
    let seen = server.received_requests().await.expect("recorded");
    assert_eq!(
        seen[0].url.path(),
        "/api/v1/resources/queues/a%2Fb%20%3F%23%C3%A9~.-_"
    );
    assert_eq!(seen[0].method.as_str(), "DELETE");
    assert!(seen[0].body.is_empty());
}

#[tokio::test]
async fn a_base_path_stands_before_every_route() {
    let server = MockServer::start().await;
    Mock::given(path("/base/queen/api/v1/configure"))
        .and(header("content-type", "application/json"))
        .and(body_bytes(br#"{"queue":"q"}"#.as_slice()))
        .respond_with(
            ResponseTemplate::new(200).set_body_string(r#"{"configured":true,"queueId":"i"}"#),
        )
        .mount(&server)
        .await;
    let host = host();
    let address = *server.address();
    let url = QueenUrl::Http {
        tls: false,
        host: address.ip().to_string(),
        port: address.port(),
        base_path: "/base/queen".into(),
    };
    let client = Client::for_url(&host, Arc::new(remote(&host, address)), &url);
    let configured = client
        .configure(&Credential::default(), "q", &serde_json::Map::new())
        .await
        .expect("configured");
    assert_eq!(configured.queue_id.as_deref(), Some("i"));
}
