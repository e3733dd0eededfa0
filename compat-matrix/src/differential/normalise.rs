//! What two servers may say differently without differing: ids that they make up, addresses, the
//! time of day, the wording of messages, and what other checks left behind.
//!
//! This is the whole list. What is not named here is compared by value.

use std::collections::BTreeMap;

use kafka_wire::records::{Batches, Budget};
use serde_json::{Map, Value as Json, json};

use super::transcript::{Came, Step};
use crate::wire::codec::{Value, code_name, encode_uuid};

/// The shortest text that a server makes up as a member id: a uuid in base64.
const MADE_UP_CHARS: usize = 22;
/// Bytes that are shown whole.
const WHOLE_BYTES: usize = 256;
/// What is decompressed of one answer at most.
const READ_BYTES: usize = 64 << 20;
const READ_RECORDS: usize = 1 << 20;
/// Moments within a day of the run are the time of day; what probes choose is months away.
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Fields that order a list of structures: servers may list in any order.
const ORDERING: &[&str] = &[
    "Name",
    "Topic",
    "TopicName",
    "GroupId",
    "Key",
    "TransactionalId",
    "ResourceName",
    "Partition",
    "PartitionIndex",
    "PartitionId",
    "Index",
    "ApiKey",
    "ProducerId",
    "MemberId",
    "NodeId",
    "TopicId",
];
/// Of these, what a server makes up.
const MADE_UP: &[&str] = &["ProducerId", "MemberId", "NodeId", "TopicId"];
/// Fields that say whose an element is.
const OWNERS: &[&str] = &[
    "Name",
    "Topic",
    "TopicName",
    "GroupId",
    "Key",
    "TransactionalId",
    "ResourceName",
];
/// Lists of everything that a server has: only the check's own elements are looked at.
const LISTS_OF_ALL: &[&str] = &["ListGroups", "ListTransactions"];

/// What is known of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    /// What every name that a check of the run made holds.
    pub(super) id: &'a str,
    /// The time of day, in milliseconds since 1970.
    pub(super) now_ms: i64,
}

/// The answers of a check, one for each step, in a form that two servers can share.
pub(super) fn normalise(run: Run<'_>, steps: &[Step], names: &[String]) -> Vec<Json> {
    let mut check = Check {
        run,
        names,
        symbols: BTreeMap::new(),
        all: false,
    };
    steps
        .iter()
        .map(|step| {
            check.all = LISTS_OF_ALL
                .iter()
                .any(|api| step.asked.split(' ').next() == Some(api));
            match &step.came {
                Came::Nothing => json!("no answer"),
                Came::Closed => json!("closed"),
                Came::Malformed(why) => json!(format!("malformed: {why}")),
                Came::Answer(value) => check.value("", value),
            }
        })
        .collect()
}

struct Check<'a> {
    run: Run<'a>,
    names: &'a [String],
    /// What was made up, by kind: the first is #1.
    symbols: BTreeMap<&'static str, Vec<String>>,
    /// The answer lists everything that there is.
    all: bool,
}

impl Check<'_> {
    fn symbol(&mut self, kind: &'static str, value: String) -> Json {
        let known = self.symbols.entry(kind).or_default();
        let at = known.iter().position(|one| *one == value);
        let at = at.unwrap_or_else(|| {
            known.push(value);
            known.len() - 1
        });
        json!(format!("<{kind} {}>", at + 1))
    }

    fn value(&mut self, field: &str, value: &Value) -> Json {
        match value {
            Value::Null => Json::Null,
            Value::Bool(value) => json!(value),
            Value::Float(value) => json!(value),
            Value::Code(code) => json!(code_name(*code)),
            Value::Int(value) => self.int(field, *value),
            Value::Uuid(uuid) if uuid.iter().all(|byte| *byte == 0) => json!(""),
            Value::Uuid(uuid) => self.symbol("id", encode_uuid(uuid)),
            Value::Text(text) => self.text(field, text),
            Value::Bytes(bytes) => json!(shown(bytes)),
            Value::Records(bytes) => records(bytes.clone()),
            Value::List(list) => self.list(field, list),
            Value::Fields(fields) => {
                let mut map = Map::new();
                for (name, value) in fields {
                    map.insert((*name).to_owned(), self.value(name, value));
                }
                Json::Object(map)
            }
        }
    }

    fn list(&mut self, field: &str, list: &[Value]) -> Json {
        let mut own: Vec<&Value> = list.iter().filter(|one| !self.is_foreign(one)).collect();
        // By what was chosen, so that what is made up gets its number in the same order everywhere.
        if field == "SubscribedTopicNames" || own.iter().all(|one| matches!(one, Value::Fields(_)))
        {
            own.sort_by_cached_key(|one| self.raw_order(one));
        }
        let mut kept: Vec<Json> = Vec::new();
        for element in own {
            kept.push(self.value(field, element));
        }
        // Lists of numbers in which nobody is first.
        if matches!(field, "ReplicaNodes" | "IsrNodes") || kept.iter().all(Json::is_object) {
            kept.sort_by_cached_key(order);
        }
        Json::Array(kept)
    }

    fn raw_order(&self, element: &Value) -> Vec<(i64, String)> {
        let key = |value: &Value| match value {
            Value::Text(text) => match self.names.iter().position(|name| name == text) {
                Some(at) => (i64::try_from(at).unwrap_or(i64::MAX), String::new()),
                None => (i64::MAX, text.clone()),
            },
            Value::Int(number) => (*number, String::new()),
            _ => (0, String::new()),
        };
        let Value::Fields(fields) = element else {
            return vec![key(element)];
        };
        ORDERING
            .iter()
            .filter(|name| !MADE_UP.contains(name))
            .filter_map(|name| fields.iter().find(|(field, _)| field == name))
            .map(|(_, value)| key(value))
            .collect()
    }

    /// Whether an element of a list is another check's, or the server's own.
    fn is_foreign(&self, element: &Value) -> bool {
        let Value::Fields(fields) = element else {
            return false;
        };
        let named = fields
            .iter()
            .find(|(name, value)| OWNERS.contains(name) && value.text().is_some())
            .and_then(|(_, value)| value.text());
        named.is_some_and(|text| {
            let own = self.names.iter().any(|name| name == text);
            !own && (self.all || text.starts_with("__") || text.contains(&self.marker()))
        })
    }

    fn marker(&self) -> String {
        format!("-{}-", self.run.id)
    }

    fn int(&mut self, field: &str, value: i64) -> Json {
        match field {
            "ProducerId" if value >= 0 => self.symbol("producer", value.to_string()),
            "NodeId" | "LeaderId" | "ControllerId" | "BrokerId" | "ReplicaNodes" | "IsrNodes"
                if value >= 0 =>
            {
                self.symbol("node", value.to_string())
            }
            "LeaderEpoch" | "CurrentLeaderEpoch" if value >= 0 => json!("<leader epoch>"),
            // The place in a log of what the cluster has agreed on.
            "FinalizedFeaturesEpoch" if value > 0 => json!("<features epoch>"),
            "GroupEpoch" | "AssignmentEpoch" | "MemberEpoch" if value > 0 => {
                self.symbol("epoch", value.to_string())
            }
            "SessionId" if value != 0 => self.symbol("session", value.to_string()),
            "Port" if value > 0 => json!("<port>"),
            "HeartbeatIntervalMs" if value > 0 => json!("<setting>"),
            "TotalBytes" | "UsableBytes" | "PartitionSize" if value >= 0 => json!("<bytes>"),
            _ if value.abs_diff(self.run.now_ms) < DAY_MS.unsigned_abs() => json!("<now>"),
            _ => json!(value),
        }
    }

    fn text(&mut self, field: &str, text: &str) -> Json {
        match field {
            "Host" | "ClientHost" if !text.is_empty() => json!("<host>"),
            "ErrorMessage" | "Message" => json!("<words>"),
            "LogDir" => json!("<folder>"),
            // Of a setting: where the server listens and keeps its files.
            "Value" if text.contains("://") || text.contains("@127.0.0.1:") => json!("<listeners>"),
            "Value" if text.starts_with('/') => json!("<folder>"),
            "ClusterId" => self.symbol("cluster", text.to_owned()),
            "MemberId" | "Leader" if text.len() >= MADE_UP_CHARS => {
                self.symbol("member", text.to_owned())
            }
            _ => {
                let mut text = text.to_owned();
                // The longest first: a name may begin another.
                let mut names: Vec<(usize, &String)> = self.names.iter().enumerate().collect();
                names.sort_by_key(|(_, name)| std::cmp::Reverse(name.len()));
                for (at, name) in names {
                    if text.contains(name.as_str()) {
                        let stem = name.split('-').next().unwrap_or_default();
                        text = text.replace(name.as_str(), &format!("<{stem} {}>", at + 1));
                    }
                }
                json!(text)
            }
        }
    }
}

/// Numbers by value, everything else as text.
fn order(element: &Json) -> Vec<(u64, String)> {
    let key = |value: &Json| match value.as_u64() {
        Some(number) => (number, String::new()),
        None => (0, value.to_string()),
    };
    match element {
        Json::Object(fields) => ORDERING
            .iter()
            .filter_map(|name| fields.get(*name))
            .map(key)
            .collect(),
        other => vec![key(other)],
    }
}

fn shown(bytes: &[u8]) -> String {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(char::is_control) => text.to_owned(),
        _ => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("hex:{digits}")
        }
    };
    if bytes.len() <= WHOLE_BYTES {
        return text;
    }
    let head: String = text.chars().take(32).collect();
    format!("{head}… {} bytes", bytes.len())
}

/// Records without their batches: where one ends is the server's own business.
fn records(bytes: bytes::Bytes) -> Json {
    let mut budget = Budget::new(READ_BYTES, READ_RECORDS);
    let mut shown_records = Vec::new();
    for batch in Batches::new(bytes) {
        let read = batch.and_then(|batch| Ok((*batch.header(), batch.records(&mut budget)?)));
        let (header, records) = match read {
            Ok(read) => read,
            Err(error) => {
                shown_records.push(json!(error.to_string()));
                break;
            }
        };
        for record in records.iter() {
            shown_records.push(match record {
                Err(error) => json!(error.to_string()),
                Ok(record) if header.attributes.is_control() => json!({
                    "offset": record.offset,
                    "marker": record.key.map(shown),
                }),
                Ok(record) => json!({
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "key": record.key.map(shown),
                    "value": record.value.map(shown),
                    "headers": record.headers.iter().count(),
                }),
            });
        }
    }
    Json::Array(shown_records)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::{DAY_MS, Run, normalise};
    use crate::differential::transcript::{Came, Step};
    use crate::wire::codec::Value;

    const NOW: i64 = 1_800_000_000_000;

    fn of(asked: &str, fields: Vec<(&'static str, Value)>, names: &[&str]) -> Json {
        let run = Run {
            id: "run",
            now_ms: NOW,
        };
        let step = Step {
            asked: asked.into(),
            came: Came::Answer(Value::Fields(fields)),
        };
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        normalise(run, &[step], &names)[0].clone()
    }

    fn named(name: &str) -> Value {
        Value::Fields(vec![("Name", Value::Text(name.into()))])
    }

    #[test]
    fn what_is_made_up_is_told_apart_and_no_more() {
        let id = "0123456789012345678901";
        let got = of(
            "X v0",
            vec![
                ("ProducerId", Value::Int(4711)),
                ("MemberId", Value::Text(id.into())),
                ("Leader", Value::Text(id.into())),
                ("NodeId", Value::Int(-1)),
                ("ErrorCode", Value::Code(3)),
                ("GenerationId", Value::Int(4)),
            ],
            &[],
        );
        assert_eq!(
            got,
            json!({
                "ProducerId": "<producer 1>",
                "MemberId": "<member 1>",
                "Leader": "<member 1>",
                "NodeId": -1,
                "ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION",
                "GenerationId": 4,
            })
        );
    }

    #[test]
    fn settings_tell_no_addresses_and_no_folders() {
        let of = |text: &str| {
            let got = of("X v0", vec![("Value", Value::Text(text.into()))], &[]);
            got["Value"].clone()
        };
        assert_eq!(of("PLAINTEXT://127.0.0.1:45039"), json!("<listeners>"));
        assert_eq!(of("/tmp/data"), json!("<folder>"));
        assert_eq!(of("604800000"), json!("604800000"));
    }

    #[test]
    fn only_the_time_of_day_is_the_time_of_day() {
        let at =
            |moment| of("X v0", vec![("Timestamp", Value::Int(moment))], &[])["Timestamp"].clone();
        assert_eq!(at(NOW - 5), json!("<now>"));
        assert_eq!(at(NOW - DAY_MS), json!(NOW - DAY_MS));
        assert_eq!(at(-1), json!(-1));
        // Whatever a server says must not end the run.
        assert_eq!(at(i64::MIN), json!(i64::MIN));
    }

    #[test]
    fn ids_are_numbered_in_the_order_of_the_names() {
        let topic = |name: &str, id| {
            Value::Fields(vec![
                ("TopicId", Value::Uuid([id; 16])),
                ("TopicName", Value::Text(name.into())),
            ])
        };
        let names = ["t-run-1", "t-run-2"];
        let one = topic("t-run-1", 9);
        let two = topic("t-run-2", 5);
        let forth = Value::List(vec![one.clone(), two.clone()]);
        let back = Value::List(vec![two, one]);
        assert_eq!(
            of("X v0", vec![("Topics", forth)], &names),
            of("X v0", vec![("Topics", back)], &names)
        );
    }

    #[test]
    fn others_topics_are_not_looked_at_and_own_ones_have_an_order() {
        let topics = Value::List(vec![
            named("t-run-9"),
            named("__consumer_offsets"),
            named("t-run-77"),
            named("t-run-10"),
            named("chosen"),
        ]);
        let got = of("X v0", vec![("Topics", topics)], &["t-run-10", "t-run-9"]);
        let expected =
            json!({"Topics": [{"Name": "<t 1>"}, {"Name": "<t 2>"}, {"Name": "chosen"}]});
        assert_eq!(got, expected);
    }
}
