//! The catalogue routes: list, configure and delete queues, and list lanes by name.

use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::fetch::{LaneStatus, lane_status};
use super::transport::{CALL_TIMEOUT, Call, Repeat, Wait};
use super::{Class, Client, Credential, Error, json};

/// Most queues of one [`Client::partitions_changed`] call.
pub const MAX_CHANGED_ENTRIES: usize = 64;
/// Most lanes of one entry's answer.
pub const MAX_CHANGED_LANES: usize = 1000;

/// One queue as the list shows it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Its id, new after delete and recreate.
    #[serde(default)]
    pub id: Option<String>,
    /// Lanes that exist now: not a declared width, and not the highest lane.
    #[serde(default, rename = "partitions", deserialize_with = "number_or_null")]
    pub lanes: u64,
    /// Bytes of its segments.
    #[serde(default, deserialize_with = "number_or_null")]
    pub retained_bytes: u64,
}

fn number_or_null<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(Option::<u64>::deserialize(deserializer)?.unwrap_or(0))
}

#[derive(Deserialize)]
struct QueueList {
    queues: Vec<Queue>,
}

/// What a configure call made of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Configured {
    /// The queue's id.
    pub queue_id: Option<String>,
    /// Its options now, in configure's spelling.
    pub options: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigureAnswer {
    #[serde(default)]
    configured: bool,
    #[serde(default)]
    error: Option<Value>,
    #[serde(default)]
    queue_id: Option<String>,
    #[serde(default)]
    options: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct QueueDetail {
    #[serde(default)]
    options: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct DeleteAnswer {
    deleted: bool,
}

/// Which lanes of a queue to list.
#[derive(Clone, Copy, Debug)]
pub struct ChangedEntry<'a> {
    /// The queue.
    pub queue: &'a str,
    /// The `next` of the page before; `None` begins.
    pub after: Option<&'a RawValue>,
}

/// One page of a queue's lanes.
#[derive(Clone, Debug)]
pub struct ChangedLanes {
    /// What the entry says beside its lanes.
    pub status: LaneStatus,
    /// The lanes of this page.
    pub lanes: Vec<NamedLane>,
    /// The `after` of the next page; `None` at the end.
    pub next: Option<Box<RawValue>>,
}

/// A lane with its name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct NamedLane {
    /// Its name, any text.
    pub name: String,
}

#[derive(Deserialize)]
struct ChangedAnswer {
    entries: Vec<RawChanged>,
}

#[derive(Deserialize)]
struct RawChanged {
    queue: String,
    #[serde(default)]
    partitions: Vec<NamedLane>,
    #[serde(default)]
    next: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<String>,
}

impl Client {
    /// Every queue of the credential's tenant.
    ///
    /// # Errors
    ///
    /// All of [`Error`].
    pub async fn list_queues(&self, credential: &Credential) -> Result<Vec<Queue>, Error> {
        let answer = self.get("/api/v1/resources/queues", credential).await?;
        let list: QueueList = serde_json::from_slice(&answer).map_err(Error::unreadable)?;
        Ok(list.queues)
    }

    /// Asks whether Queen accepts the credential: it lists the queues, and looks at the status alone.
    ///
    /// # Errors
    ///
    /// All of [`Error`]; 401 and 403 refuse the credential.
    pub async fn check_credential(&self, credential: &Credential) -> Result<(), Error> {
        self.get("/api/v1/resources/queues", credential).await?;
        Ok(())
    }

    /// Creates `queue` or sets `options` of it (configure's spelling).
    ///
    /// Queen 1.6 merges: what is not named stays, `null` means the default. Older Queens replace
    /// the whole row, so name every option that must not fall back, and never call this for a queue
    /// of somebody else.
    ///
    /// # Errors
    ///
    /// All of [`Error`]; an answer that doesn't say `configured` is [`Error::Unreadable`].
    pub async fn configure(
        &self,
        credential: &Credential,
        queue: &str,
        options: &Map<String, Value>,
    ) -> Result<Configured, Error> {
        let mut body = b"{\"queue\":".to_vec();
        json::write_str(&mut body, queue);
        for (name, value) in options {
            body.push(b',');
            json::write_str(&mut body, name);
            body.push(b':');
            json::write_display(&mut body, value);
        }
        body.push(b'}');
        let answer = self
            .transport
            .call(Call {
                method: Method::POST,
                path: "/api/v1/configure".into(),
                body: body.into(),
                credential,
                timeout: CALL_TIMEOUT,
                wait: Wait::Prompt,
                repeat: Repeat::Safe,
            })
            .await?;
        let answer: ConfigureAnswer = serde_json::from_slice(&answer).map_err(Error::unreadable)?;
        match answer.error {
            Some(error) => Err(Error::unreadable(format_args!("configure failed: {error}"))),
            None if !answer.configured => Err(Error::unreadable("configure didn't configure")),
            None => Ok(Configured {
                queue_id: answer.queue_id,
                options: answer.options.unwrap_or_default(),
            }),
        }
    }

    /// The options of `queue` now, in configure's spelling; `None` when this Queen doesn't tell
    /// (before 1.6) or has no such queue.
    ///
    /// # Errors
    ///
    /// All of [`Error`].
    pub async fn queue_options(
        &self,
        credential: &Credential,
        queue: &str,
    ) -> Result<Option<Map<String, Value>>, Error> {
        let path = format!("/api/v1/resources/queues/{}", encode_segment(queue));
        match self.get(&path, credential).await {
            Ok(answer) => {
                let detail: QueueDetail =
                    serde_json::from_slice(&answer).map_err(Error::unreadable)?;
                Ok(detail.options)
            }
            Err(error) if error.class() == Class::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes `queue` with everything in it; `false` when there was none. KV rows stay.
    ///
    /// # Errors
    ///
    /// All of [`Error`].
    pub async fn delete_queue(&self, credential: &Credential, queue: &str) -> Result<bool, Error> {
        let answer = self
            .transport
            .call(Call {
                method: Method::DELETE,
                path: format!("/api/v1/resources/queues/{}", encode_segment(queue)),
                body: super::body::Chunks::default(),
                credential,
                timeout: CALL_TIMEOUT,
                wait: Wait::Prompt,
                // The second of two would answer that there was no queue.
                repeat: Repeat::Unsafe,
            })
            .await?;
        let answer: DeleteAnswer = serde_json::from_slice(&answer).map_err(Error::unreadable)?;
        Ok(answer.deleted)
    }

    /// One page of the lanes of each entry's queue, by name; `None` when this Queen has no such
    /// route (before 1.5).
    ///
    /// # Errors
    ///
    /// [`Error::Unsendable`] for more than [`MAX_CHANGED_ENTRIES`]; else all of [`Error`].
    pub async fn partitions_changed(
        &self,
        credential: &Credential,
        entries: &[ChangedEntry<'_>],
    ) -> Result<Option<Vec<ChangedLanes>>, Error> {
        if entries.len() > MAX_CHANGED_ENTRIES {
            return Err(Error::Unsendable("more queues than a call may have"));
        }
        let mut body = b"{\"entries\":[".to_vec();
        for (index, entry) in entries.iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            body.extend_from_slice(b"{\"queue\":");
            json::write_str(&mut body, entry.queue);
            if let Some(after) = entry.after {
                body.extend_from_slice(b",\"after\":");
                body.extend_from_slice(after.get().as_bytes());
            }
            body.extend_from_slice(b",\"limit\":");
            json::write_display(&mut body, MAX_CHANGED_LANES);
            body.push(b'}');
        }
        body.extend_from_slice(b"]}");
        let answer = self
            .transport
            .call(Call {
                method: Method::POST,
                path: "/api/v1/partitions/changed".into(),
                body: body.into(),
                credential,
                timeout: CALL_TIMEOUT,
                wait: Wait::Prompt,
                repeat: Repeat::Safe,
            })
            .await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) if error.class() == Class::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let answer: ChangedAnswer = serde_json::from_slice(&answer).map_err(Error::unreadable)?;
        let echoed = answer.entries.len() == entries.len()
            && answer
                .entries
                .iter()
                .zip(entries)
                .all(|(found, asked)| found.queue == asked.queue);
        if !echoed {
            return Err(Error::unreadable("the answer doesn't echo the entries"));
        }
        Ok(Some(
            answer
                .entries
                .into_iter()
                .map(|entry| ChangedLanes {
                    status: lane_status(entry.error.as_deref()),
                    lanes: entry.partitions,
                    next: entry.next.filter(|next| next.get() != "null"),
                })
                .collect(),
        ))
    }
}

/// Percent-encodes everything but RFC 3986's unreserved characters.
fn encode_segment(segment: &str) -> String {
    use std::fmt::Write;

    let mut encoded = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            // A String takes every write.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
