//! What a server advertises, asked with the one request that every Kafka answers: ApiVersions v0.

use std::time::Duration;

use kafka_wire::ApiKey;
use reports::Window;

use super::access::Access;
use super::connection::{Connection, Reply};
use crate::cx::api_name;

/// Key 18, version 0, correlation id 7, client id "matrix".
const REQUEST: &[u8] = b"\x00\x12\x00\x00\x00\x00\x00\x07\x00\x06matrix";
/// How long a server that accepted the connection may think.
const WITHIN: Duration = Duration::from_secs(5);

/// The server's windows, by key.
///
/// # Errors
///
/// Why there are none, in a few words.
pub async fn advertised(to: &Access) -> Result<Vec<Window>, String> {
    let mut connection = Connection::open(to)
        .await
        .map_err(|error| error.to_string())?;
    connection
        .send(REQUEST)
        .await
        .map_err(|error| error.to_string())?;
    match connection.reply(WITHIN).await {
        Reply::Frame(frame) => {
            parse(&frame).ok_or_else(|| "its answer is not an ApiVersions v0 response".to_owned())
        }
        Reply::Closed(how) => Err(format!("it was {how} without an answer to ApiVersions")),
        Reply::Silence => Err("it accepts connections but does not answer".to_owned()),
    }
}

/// Reads correlation id, error code, a count, and as many triples. Nothing may follow.
fn parse(frame: &[u8]) -> Option<Vec<Window>> {
    let (head, triples) = frame.split_at_checked(10)?;
    let (correlation, head) = head.split_at(4);
    let (error, count) = head.split_at(2);
    let count = usize::try_from(i32::from_be_bytes(count.try_into().ok()?)).ok()?;
    if correlation != 7_i32.to_be_bytes() || error != [0, 0] || triples.len() != 6 * count {
        return None;
    }
    let mut windows: Vec<Window> = triples
        .chunks_exact(6)
        .map(|triple| {
            let number = |at: usize| i16::from_be_bytes([triple[at], triple[at + 1]]);
            Window {
                key: number(0),
                name: api_name(ApiKey(number(0))),
                min: number(2),
                max: number(4),
            }
        })
        .collect();
    windows.sort_by_key(|window| window.key);
    Some(windows)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn windows_come_sorted_and_complete() {
        let mut frame = vec![0, 0, 0, 7, 0, 0, 0, 0, 0, 2];
        frame.extend([0, 18, 0, 0, 0, 4, 0, 0, 0, 3, 0, 13]);
        let windows = parse(&frame).unwrap();
        assert_eq!(windows.len(), 2);
        assert_eq!((windows[0].key, windows[0].min, windows[0].max), (0, 3, 13));
        assert_eq!(windows[1].name, "ApiVersions");
        for cut in 0..frame.len() {
            assert_eq!(parse(&frame[..cut]), None);
        }
        frame.push(0);
        assert_eq!(parse(&frame), None, "a byte too many");
    }
}
