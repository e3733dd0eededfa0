//! For tests: windows of everything, and a server that answers each request as a closure says and
//! closes when it says nothing.

use bytes::Bytes;
use kafka_wire::ApiKey;
use kafka_wire::header::{RequestHeader, put_response_header};
use kafka_wire::schema;
use reports::Window;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::wire::codec::encode;

/// Every API that the schema knows, in all its versions: nothing is left unadvertised.
pub(crate) fn all_that_the_schema_knows() -> Vec<Window> {
    ApiKey::ALL
        .iter()
        .filter_map(|key| {
            let versions = schema::request(*key)?.versions;
            Some(Window {
                key: key.0,
                name: key.to_string(),
                min: versions.min,
                max: versions.max,
            })
        })
        .collect()
}

/// The response frame to a request frame, both without length prefix; `None` closes the connection.
pub(crate) type Answer = fn(&[u8]) -> Option<Vec<u8>>;

/// Starts a server and answers its address. It ends with the test's runtime.
pub(crate) async fn serve(answer: Answer) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                while let Ok(length) = stream.read_u32().await {
                    let mut request = vec![0; length as usize];
                    if stream.read_exact(&mut request).await.is_err() {
                        return;
                    }
                    let Some(response) = respond(&request, answer) else {
                        return;
                    };
                    let mut frame = (response.len() as u32).to_be_bytes().to_vec();
                    frame.extend(response);
                    if stream.write_all(&frame).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// ApiVersions v0 is answered in any case: nothing starts without it.
fn respond(request: &[u8], answer: Answer) -> Option<Vec<u8>> {
    if request.starts_with(&[0, 18, 0, 0]) {
        let windows =
            json!({"ApiKeys": [{"ApiKey": 18, "MaxVersion": 4}, {"ApiKey": 3, "MaxVersion": 13}]});
        return response(request, windows);
    }
    answer(request)
}

/// The well-formed response to `request` with these fields.
pub(crate) fn response(request: &[u8], body: Json) -> Option<Vec<u8>> {
    let header = RequestHeader::parse(Bytes::copy_from_slice(request)).ok()?;
    let (key, version): (ApiKey, i16) = (header.api_key, header.api_version);
    let mut out = Vec::new();
    put_response_header(&mut out, key, version, header.correlation_id);
    out.extend(encode(schema::response(key)?, version, &body).unwrap().body);
    Some(out)
}
