//! Golden frames recorded with kafka-clients' own classes: fixtures/frames, one file per API.

use std::path::Path;

use kafka_wire::api::ApiKey;
use kafka_wire::schema::{self, Field, Kind, Message};
use kafka_wire::walk::Datum;
use serde_json::Value as Json;

/// The correlation id and client id in every golden frame.
pub const CORRELATION_ID: i32 = 0x0102_0304;
pub const CLIENT_ID: &str = "gölden";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Request,
    Response,
    Blob,
}

#[derive(Clone, Debug)]
pub struct Golden {
    pub message: &'static Message,
    pub key: ApiKey,
    pub side: Side,
    pub version: i16,
    /// Header and body, or version and blob.
    pub frame: Vec<u8>,
    /// What the frame holds, in the JSON of Kafka's converters; `None` for the sparse variant.
    pub content: Option<Json>,
}

impl Golden {
    /// Without the header.
    pub fn body(&self) -> &[u8] {
        let flexible = self.message.flexible.contains(self.version);
        let header = match self.side {
            Side::Request => 8 + 2 + CLIENT_ID.len() + usize::from(flexible),
            Side::Response if self.key == ApiKey::API_VERSIONS => 4,
            Side::Response => 4 + usize::from(flexible),
            Side::Blob => 0,
        };
        &self.frame[header..]
    }

    pub fn title(&self) -> String {
        let variant = if self.content.is_some() {
            "full"
        } else {
            "sparse"
        };
        format!("{} v{} {variant}", self.message.name, self.version)
    }
}

/// Every golden frame.
pub fn all() -> Vec<Golden> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/frames");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("fixtures/frames is part of the repository")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl")
        })
        .collect();
    files.sort();
    files.iter().flat_map(|path| file(path)).collect()
}

fn file(path: &Path) -> Vec<Golden> {
    let text = std::fs::read_to_string(path).expect("readable");
    let api = path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .expect("a name");
    let key = ApiKey::ALL
        .iter()
        .copied()
        .find(|key| key.name() == Some(api));
    text.lines()
        .map(|line| golden(key, &serde_json::from_str(line).expect("JSON")))
        .collect()
}

fn golden(key: Option<ApiKey>, line: &Json) -> Golden {
    let name = line["message"].as_str().expect("a message");
    let known = [
        (Side::Request, key.and_then(schema::request)),
        (Side::Response, key.and_then(schema::response)),
        (Side::Blob, Some(schema::CONSUMER_PROTOCOL_SUBSCRIPTION)),
        (Side::Blob, Some(schema::CONSUMER_PROTOCOL_ASSIGNMENT)),
    ];
    let (side, message) = known
        .into_iter()
        .find_map(|(side, message)| message.filter(|m| m.name == name).map(|m| (side, m)))
        .unwrap_or_else(|| panic!("{name} is in the corpus and not in the schema"));
    Golden {
        message,
        key: key.unwrap_or(ApiKey(-1)),
        side,
        version: line["version"].as_i64().expect("a version") as i16,
        frame: base64_simd::STANDARD
            .decode_to_vec(line["frame"].as_str().expect("a frame"))
            .expect("base64"),
        content: line.get("content").cloned(),
    }
}

/// A value as the walk hands it over, owned.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub field: &'static str,
    pub datum: Owned,
}

impl Seen {
    /// Whether it is a string: every name is one.
    pub fn is_name(&self) -> bool {
        matches!(self.datum, Owned::Text(_))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Owned {
    Null,
    Text(String),
    Bytes(Vec<u8>),
    Int(i64),
    Uuid([u8; 16]),
}

impl From<Datum<'_>> for Owned {
    fn from(datum: Datum<'_>) -> Self {
        match datum {
            Datum::Null => Owned::Null,
            Datum::Text(text) => Owned::Text(text.to_owned()),
            Datum::Bytes(bytes) => Owned::Bytes(bytes.to_vec()),
            Datum::Int(value) => Owned::Int(value),
            Datum::Uuid(uuid) => Owned::Uuid(uuid),
        }
    }
}

/// The values of `content` in the order of the wire.
pub fn values(fields: &'static [Field], version: i16, content: &Json) -> Vec<Seen> {
    let mut out = Vec::new();
    put_fields(fields, version, content, &mut out);
    out
}

fn put_fields(fields: &'static [Field], version: i16, content: &Json, out: &mut Vec<Seen>) {
    let here = |field: &&Field| field.versions.contains(version);
    for field in fields
        .iter()
        .filter(here)
        .filter(|field| field.tag_in(version).is_none())
    {
        put_field(field, version, content, out);
    }
    let mut tagged: Vec<_> = fields
        .iter()
        .filter(here)
        .filter(|field| field.tag_in(version).is_some())
        .collect();
    tagged.sort_by_key(|field| field.tag_in(version));
    for field in tagged {
        put_field(field, version, content, out);
    }
}

fn put_field(field: &'static Field, version: i16, content: &Json, out: &mut Vec<Seen>) {
    let mut name = field.name.to_owned();
    name[..1].make_ascii_lowercase();
    let value = content
        .get(&name)
        .unwrap_or_else(|| panic!("no {name} in {content}"));
    if field.array {
        for element in value.as_array().map_or(&[][..], Vec::as_slice) {
            put_value(field, version, element, out);
        }
        return;
    }
    put_value(field, version, value, out);
}

fn put_value(field: &'static Field, version: i16, value: &Json, out: &mut Vec<Seen>) {
    let text = value.as_str();
    let datum = match field.kind {
        Kind::Struct(nested) if value.is_null() => {
            assert!(
                field.nullable.contains(version),
                "{} of {}",
                field.name,
                nested.name
            );
            return;
        }
        Kind::Struct(nested) => return put_fields(nested.fields, version, value, out),
        _ if value.is_null() => Owned::Null,
        Kind::String => Owned::Text(text.expect("text").to_owned()),
        Kind::Bytes | Kind::Records => Owned::Bytes(
            base64_simd::STANDARD
                .decode_to_vec(text.expect("base64"))
                .expect("base64"),
        ),
        Kind::Uuid => Owned::Uuid(
            base64_simd::URL_SAFE_NO_PAD
                .decode_to_vec(text.expect("base64"))
                .expect("base64")
                .try_into()
                .expect("sixteen bytes"),
        ),
        Kind::Bool => Owned::Int(i64::from(value.as_bool().expect("a bool"))),
        // Handed over by its bits.
        Kind::Float64 => Owned::Int(value.as_f64().expect("a float").to_bits() as i64),
        _ => Owned::Int(value.as_i64().expect("an integer")),
    };
    out.push(Seen {
        field: field.name,
        datum,
    });
}
