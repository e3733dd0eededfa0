//! Two credentials of one tenant.

use std::sync::Arc;
use std::time::Duration;

use host::Secret;
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::*;

fn bearer(token: &str) -> Credential {
    Credential {
        bearer: Some(Secret::new(token.to_owned())),
        host: None,
    }
}

async fn listing(server: &MockServer, token: &str, response: ResponseTemplate) {
    Mock::given(method("GET"))
        .and(path("/api/v1/resources/queues"))
        .and(header("authorization", format!("Bearer {token}")))
        .respond_with(response.set_delay(Duration::from_millis(50)))
        .mount(server)
        .await;
}

#[tokio::test]
async fn a_refusal_of_one_credential_does_not_spoil_the_others_reading() {
    let server = MockServer::start().await;
    listing(&server, "bad", ResponseTemplate::new(403)).await;
    let list = ResponseTemplate::new(200).set_body_string(r#"{"queues":[{"name":"t"}]}"#);
    listing(&server, "good", list).await;
    let host = host::os::host();
    let connector = host::net::Remote {
        net: Arc::clone(&host.net),
        host: server.address().ip().to_string(),
        port: server.address().port(),
    };
    let client = Client::new(&host, Arc::new(connector), "queen").expect("a legal authority");
    let catalogue = Catalogue::new(&host, Arc::new(client), 4, false, &Registry::default());
    let scope = Scope::new("tenant");
    let (bad, good) = (bearer("bad"), bearer("good"));
    let (refused, read) = tokio::join!(catalogue.view(&scope, &bad), catalogue.view(&scope, &good));
    assert!(refused.topics.is_empty());
    assert_eq!(
        refused.trouble.as_ref().map(Error::class),
        Some(Class::Forbidden)
    );
    assert!(read.trouble.is_none());
    // Records are 404 here: the topic counts as untracked, at the default width.
    assert!(matches!(read.lookup("t"), Lookup::Found(topic) if topic.partitions == 4));
}
