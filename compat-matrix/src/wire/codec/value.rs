//! A decoded message whose fields keep the order of the wire.

use bytes::Bytes;
use kafka_wire::ErrorCode;
use kafka_wire::records::Batches;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

/// Elements of one array that evidence shows.
const SHOWN_ELEMENTS: usize = 8;
/// Bytes of one text or bytes field that evidence shows.
const SHOWN_BYTES: usize = 200;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Null where the schema allows it.
    Null,
    /// A bool.
    Bool(bool),
    /// Any integer that is not an error code.
    Int(i64),
    /// A float64.
    Float(f64),
    /// An error code.
    Code(i16),
    /// A uuid.
    Uuid([u8; 16]),
    /// A string.
    Text(String),
    /// Bytes.
    Bytes(Bytes),
    /// Record batches.
    Records(Bytes),
    /// An array.
    List(Vec<Value>),
    /// A structure, or the message itself.
    Fields(Vec<(&'static str, Value)>),
}

impl Value {
    /// The value at `path`: `Topics[0].Partitions[1].ErrorCode`.
    pub fn get(&self, path: &str) -> Option<&Self> {
        let mut at = self;
        for step in path.split(['.', '[']) {
            at = match (at, step.strip_suffix(']')) {
                (Self::List(list), Some(index)) => list.get(index.parse::<usize>().ok()?)?,
                (Self::Fields(fields), None) => &fields.iter().find(|(name, _)| *name == step)?.1,
                _ => return None,
            };
        }
        Some(at)
    }

    /// An integer or error code.
    pub const fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Code(code) => Some(*code as i64),
            _ => None,
        }
    }

    /// A string.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Bytes or records.
    pub const fn bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Bytes(bytes) | Self::Records(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The elements of an array; none for anything else.
    pub fn list(&self) -> &[Self] {
        match self {
            Self::List(list) => list,
            _ => &[],
        }
    }

    /// Every error code in the message, with its path.
    pub fn codes(&self) -> Vec<(String, i16)> {
        let mut found = Vec::new();
        self.collect_codes(String::new(), &mut found);
        found
    }

    fn collect_codes(&self, path: String, found: &mut Vec<(String, i16)>) {
        match self {
            Self::Code(code) => found.push((path, *code)),
            Self::List(list) => {
                for (at, element) in list.iter().enumerate() {
                    element.collect_codes(format!("{path}[{at}]"), found);
                }
            }
            Self::Fields(fields) => {
                for (name, field) in fields {
                    let separator = if path.is_empty() { "" } else { "." };
                    field.collect_codes(format!("{path}{separator}{name}"), found);
                }
            }
            _ => {}
        }
    }
}

/// The name of an error code, or its number where it has none.
pub(crate) fn code_name(code: i16) -> String {
    ErrorCode::from_code(code).map_or_else(|| code.to_string(), |code| code.name().to_owned())
}

/// A uuid as Kafka writes it: URL-safe base64 without padding.
pub fn encode_uuid(uuid: &[u8; 16]) -> String {
    base64_simd::URL_SAFE_NO_PAD.encode_to_string(uuid)
}

/// The opposite of [`encode_uuid`].
pub fn decode_uuid(text: &str) -> Option<[u8; 16]> {
    base64_simd::URL_SAFE_NO_PAD
        .decode_to_vec(text)
        .ok()?
        .try_into()
        .ok()
}

impl Serialize for Value {
    /// For people: long arrays and bytes are cut, error codes have names, record batches are summed up.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Code(code) => {
                serializer.collect_str(&format_args!("{code} {}", code_name(*code)))
            }
            Self::Uuid(uuid) => serializer.serialize_str(&encode_uuid(uuid)),
            Self::Text(text) => serializer.serialize_str(&shown_text(text)),
            Self::Bytes(bytes) => serializer.serialize_str(&shown_bytes(bytes)),
            Self::Records(bytes) => serializer.serialize_str(&shown_records(bytes)),
            Self::List(list) => {
                let mut seq = serializer.serialize_seq(None)?;
                for element in list.iter().take(SHOWN_ELEMENTS) {
                    seq.serialize_element(element)?;
                }
                if list.len() > SHOWN_ELEMENTS {
                    seq.serialize_element(&format!("… {} more", list.len() - SHOWN_ELEMENTS))?;
                }
                seq.end()
            }
            Self::Fields(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

fn shown_text(text: &str) -> String {
    if text.len() <= SHOWN_BYTES {
        return text.to_owned();
    }
    let cut = (0..=SHOWN_BYTES)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    format!("{}… {} bytes", &text[..cut], text.len())
}

fn shown_bytes(bytes: &Bytes) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(char::is_control) => shown_text(text),
        _ => {
            let shown: String = bytes
                .iter()
                .take(SHOWN_BYTES / 4)
                .map(|byte| format!("{byte:02x}"))
                .collect();
            if bytes.len() > SHOWN_BYTES / 4 {
                format!("hex:{shown}… {} bytes", bytes.len())
            } else {
                format!("hex:{shown}")
            }
        }
    }
}

fn shown_records(bytes: &Bytes) -> String {
    let mut batches = Vec::new();
    for batch in Batches::new(bytes.clone()) {
        match batch {
            Ok(batch) => {
                let header = batch.header();
                batches.push(format!(
                    "offsets {}-{}, {:?}",
                    header.base_offset,
                    header.last_offset(),
                    header.compression,
                ));
            }
            Err(error) => batches.push(error.to_string()),
        }
    }
    format!("{} bytes of records [{}]", bytes.len(), batches.join("; "))
}

#[cfg(test)]
mod tests {
    use super::{Value, decode_uuid, encode_uuid};

    fn message() -> Value {
        Value::Fields(vec![
            ("ThrottleTimeMs", Value::Int(0)),
            (
                "Topics",
                Value::List(vec![Value::Fields(vec![
                    ("ErrorCode", Value::Code(3)),
                    ("Name", Value::Text("a".into())),
                ])]),
            ),
        ])
    }

    #[test]
    fn paths_reach_into_lists_and_fields() {
        let message = message();
        assert_eq!(
            message.get("Topics[0].ErrorCode").and_then(Value::int),
            Some(3)
        );
        assert_eq!(
            message.get("Topics[0].Name").and_then(Value::text),
            Some("a")
        );
        for missing in ["Topics[1]", "Topics.Name", "Nothing", "ThrottleTimeMs[0]"] {
            assert_eq!(message.get(missing), None, "{missing}");
        }
        assert_eq!(message.codes(), vec![("Topics[0].ErrorCode".into(), 3)]);
    }

    #[test]
    fn people_see_names_of_codes_and_the_order_of_the_wire() {
        assert_eq!(
            serde_json::to_string(&message()).unwrap(),
            r#"{"ThrottleTimeMs":0,"Topics":[{"ErrorCode":"3 UNKNOWN_TOPIC_OR_PARTITION","Name":"a"}]}"#
        );
    }

    #[test]
    fn long_values_are_cut() {
        let long = Value::List(vec![Value::Text("é".repeat(500)); 500]);
        assert!(serde_json::to_string(&long).unwrap().len() < 4_000);
    }

    #[test]
    fn uuids_are_kafkas_text() {
        let uuid = [0xff; 16];
        assert_eq!(encode_uuid(&uuid), "_____________________w");
        assert_eq!(decode_uuid("_____________________w"), Some(uuid));
        assert_eq!(decode_uuid("short"), None);
    }
}
