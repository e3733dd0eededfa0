//! `POST /api/v1/transaction`: pushes and KV writes in one atomic bundle.

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::body::Chunks;
use super::kv::{self, Batch, OpResult, Winner};
use super::push::{Fragment, append_fragments};
use super::transport::{CALL_TIMEOUT, Call, Repeat, Wait};
use super::{Client, Credential, Error};

/// Most KV operations that may ride in a bundle.
pub const MAX_RIDER_OPERATIONS: usize = 64;
/// Most keys of those.
pub const MAX_RIDER_KEYS: usize = 256;

/// What became of a bundle.
#[derive(Clone, Debug)]
pub enum Bundle {
    /// Applied whole.
    Committed {
        /// Per pushed item: whether it repeated an earlier item of the same bundle.
        duplicates: Vec<bool>,
        /// One result per KV operation.
        kv: Vec<OpResult>,
    },
    /// Rolled back whole.
    RolledBack(Rollback),
}

/// Why a bundle was rolled back.
#[derive(Clone, Debug)]
pub enum Rollback {
    /// A required KV write lost.
    Precondition {
        /// Its position among the KV operations, when the answer says.
        operation: Option<usize>,
        /// The row it lost against; may be missing when it is large: read the key again then.
        winner: Winner,
    },
    /// An item's transaction id is in the dedup window already.
    Duplicate,
    /// Queen's database failed.
    Database,
    /// A reason this client doesn't know.
    Other(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    success: bool,
    #[serde(default)]
    reason: Option<String>,
    #[serde(borrow, default)]
    results: Vec<&'a RawValue>,
    #[serde(default)]
    failed_index: Option<usize>,
    #[serde(default)]
    version: Option<u64>,
    #[serde(default)]
    value: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct ItemResult<'a> {
    index: usize,
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(default = "applied")]
    success: bool,
    #[serde(default)]
    duplicate: bool,
}

fn applied() -> bool {
    true
}

impl Client {
    /// Pushes `fragments` and applies `riders`, all or nothing.
    ///
    /// A repetition repeats it, unless a rider's expectation or the items' transaction ids stop
    /// that; so this is never sent twice on its own.
    ///
    /// # Errors
    ///
    /// All of [`Error`]; [`Error::Unsendable`] when the riders are more than a bundle may carry.
    pub async fn transaction(
        &self,
        credential: &Credential,
        fragments: &[Fragment],
        riders: &Batch,
    ) -> Result<Bundle, Error> {
        if riders.len() > MAX_RIDER_OPERATIONS || riders.keys() > MAX_RIDER_KEYS {
            return Err(Error::Unsendable(
                "more KV operations than a bundle may carry",
            ));
        }
        let items: usize = fragments.iter().map(Fragment::items).sum();
        let mut body = Chunks::default();
        body.push(Bytes::from_static(if items == 0 {
            b"{\"operations\":["
        } else {
            b"{\"operations\":[{\"type\":\"push\",\"items\":["
        }));
        append_fragments(&mut body, fragments);
        body.push(Bytes::from_static(if items == 0 {
            b"],\"kv\":["
        } else {
            b"]}],\"kv\":["
        }));
        body.push(Bytes::copy_from_slice(riders.json()));
        body.push(Bytes::from_static(b"]}"));
        let answer = self
            .transport
            .call(Call {
                method: Method::POST,
                path: "/api/v1/transaction".into(),
                body,
                credential,
                timeout: CALL_TIMEOUT,
                wait: Wait::Prompt,
                repeat: Repeat::Unsafe,
            })
            .await?;
        parse(&answer, items, riders)
    }
}

fn parse(answer: &[u8], items: usize, riders: &Batch) -> Result<Bundle, Error> {
    let answer: Answer<'_> = serde_json::from_slice(answer).map_err(Error::unreadable)?;
    if !answer.success {
        return Ok(Bundle::RolledBack(rollback(answer, items)));
    }
    // A broker older than riders commits and ignores them: that must not pass for a commit.
    if answer.results.len() != items + riders.len() {
        return Err(Error::unreadable("not one result per part of the bundle"));
    }
    let (pushed, kv) = answer.results.split_at(items);
    let mut duplicates = Vec::with_capacity(items);
    for (position, result) in pushed.iter().enumerate() {
        let result: ItemResult<'_> =
            serde_json::from_str(result.get()).map_err(Error::unreadable)?;
        if result.index != position || result.kind != "push" || !result.success {
            return Err(Error::unreadable("a pushed item without its result"));
        }
        duplicates.push(result.duplicate);
    }
    let kv = kv::parse_results(kv, riders, |result| match result.op_index {
        Some(op_index) => Some(op_index),
        None => result.index,
    })?;
    Ok(Bundle::Committed { duplicates, kv })
}

fn rollback(answer: Answer<'_>, items: usize) -> Rollback {
    match answer.reason.as_deref() {
        Some("kv_precondition") => Rollback::Precondition {
            // Counted over items and KV operations together.
            operation: answer
                .failed_index
                .and_then(|index| index.checked_sub(items)),
            winner: kv::parse_winner(answer.version, answer.value),
        },
        Some("duplicate") => Rollback::Duplicate,
        Some("db_error") => Rollback::Database,
        other => Rollback::Other(super::error::scrub(other.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queen::kv::{Expect, Expiry, OnLoss};
    use rstest::rstest;

    fn riders() -> Batch {
        let mut batch = Batch::new();
        batch
            .put(
                "qk:txn:t",
                &1,
                Expiry::Forever,
                Expect::Absent,
                OnLoss::RollBack,
            )
            .expect("fits");
        batch
    }

    #[test]
    fn a_commit_has_a_result_for_every_part() {
        let answer = br#"{"transactionId":"t","success":true,"results":[
            {"index":0,"type":"push","success":true,"messageId":"m"},
            {"index":1,"type":"push","success":true,"duplicate":true},
            {"index":2,"opIndex":0,"type":"kv","op":"put","applied":true,"key":"qk:txn:t","version":9}]}"#;
        let bundle = parse(answer, 2, &riders()).expect("readable");
        let Bundle::Committed { duplicates, kv } = bundle else {
            panic!("{bundle:?}");
        };
        assert_eq!(duplicates, [false, true]);
        assert!(matches!(kv[0], OpResult::Applied(version) if version.number() == 9));
    }

    #[test]
    fn a_broker_that_ignores_riders_is_noticed() {
        let answer = br#"{"success":true,"results":[{"index":0,"type":"push","success":true}]}"#;
        assert!(matches!(
            parse(answer, 1, &riders()),
            Err(Error::Unreadable(_))
        ));
    }

    #[test]
    fn the_failed_operation_is_counted_after_the_items() {
        let answer = br#"{"success":false,"reason":"kv_precondition","ok":false,"failedIndex":3,"version":4,"value":{"seq":2},"results":[]}"#;
        let bundle = parse(answer, 3, &riders()).expect("readable");
        let Bundle::RolledBack(Rollback::Precondition { operation, winner }) = bundle else {
            panic!("{bundle:?}");
        };
        assert_eq!(operation, Some(0));
        assert_eq!(winner.version.map(kv::Version::number), Some(4));
    }

    #[rstest]
    #[case::duplicate("duplicate")]
    #[case::database("db_error")]
    #[case::other("ack_rejected")]
    fn other_rollbacks_are_told_apart(#[case] reason: &str) {
        let answer = format!(r#"{{"success":false,"reason":"{reason}","error":"x","results":[]}}"#);
        let bundle = parse(answer.as_bytes(), 0, &riders()).expect("readable");
        let Bundle::RolledBack(rollback) = bundle else {
            panic!("{bundle:?}");
        };
        let seen = match rollback {
            Rollback::Duplicate => "duplicate".to_owned(),
            Rollback::Database => "db_error".to_owned(),
            Rollback::Other(reason) => reason,
            Rollback::Precondition { .. } => "kv_precondition".to_owned(),
        };
        assert_eq!(seen, reason);
    }
}
