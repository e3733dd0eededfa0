//! What a check saw: frames, the first field that differed, named facts and lines of a log.
//!
//! Evidence is bounded where it is made, because it travels into a page that people open on a phone.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Everything a check wants to show. Empty parts are left out of the JSON form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Evidence {
    /// The first field that was not as expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
    /// Requests and what came back, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exchanges: Vec<Exchange>,
    /// Named values: counts, sizes, versions.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub facts: serde_json::Map<String, serde_json::Value>,
    /// A drawing of what happened: SVG without scripts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagram: Option<String>,
    /// Lines worth reading: steps of a scenario, the end of a node's log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
}

/// Where an answer parted from what was expected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The path to the field: `topics[0].error_code`.
    pub path: String,
    /// What should have stood there.
    pub expected: String,
    /// What stood there.
    pub got: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: expected {}, got {}",
            self.path, self.expected, self.got
        )
    }
}

/// One request and what came back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// What was asked, in a few words: `Metadata v9`.
    pub what: String,
    /// The frame that was sent.
    pub sent: Frame,
    /// What the other side did.
    pub received: Received,
    /// From the last byte sent to the last byte received, in milliseconds.
    pub after_ms: u64,
}

/// What the other side did with a frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Received {
    /// It answered.
    Frame(Frame),
    /// It closed the connection; the text says how.
    Closed(String),
    /// No answer was due, or none came; the text says which.
    Nothing(String),
}

/// A frame, without its length prefix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frame {
    /// Its size.
    pub bytes: usize,
    /// Its first bytes, in hexadecimal.
    pub hex: String,
    /// Its fields, where it could be decoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoded: Option<Decoded>,
}

impl Frame {
    /// Bytes shown in hexadecimal.
    pub const SHOWN_BYTES: usize = 96;

    /// Describes `bytes`.
    pub fn new(bytes: &[u8], decoded: Option<Decoded>) -> Self {
        use fmt::Write as _;

        let mut hex = String::with_capacity(2 * Self::SHOWN_BYTES);
        for byte in bytes.iter().take(Self::SHOWN_BYTES) {
            // Writing into a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
        }
        if bytes.len() > Self::SHOWN_BYTES {
            hex.push('…');
        }
        Self {
            bytes: bytes.len(),
            hex,
            decoded,
        }
    }
}

/// A decoded frame: JSON text whose fields keep the order of the wire.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Decoded(Box<RawValue>);

impl Decoded {
    /// Renders `value`, whose `Serialize` decides the order of fields. `None` when it has no JSON
    /// form.
    pub fn new<T: Serialize + ?Sized>(value: &T) -> Option<Self> {
        serde_json::value::to_raw_value(value).ok().map(Self)
    }

    /// The JSON text.
    pub fn json(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Decoded {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}
