//! Bytes on a line of text.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that may be absent: `null`, or a Base64 string. Empty and absent differ, as in Kafka.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blob(pub Option<Vec<u8>>);

impl Blob {
    /// These bytes.
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(Some(bytes.as_ref().to_vec()))
    }

    /// The bytes as text; absent and undecodable bytes are the empty string.
    pub fn text(&self) -> &str {
        self.0
            .as_deref()
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(bytes) => serializer.serialize_str(&base64_simd::STANDARD.encode_to_string(bytes)),
            None => serializer.serialize_none(),
        }
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let bytes = text
            .map(|text| base64_simd::STANDARD.decode_to_vec(text))
            .transpose()
            .map_err(serde::de::Error::custom)?;
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::Blob;

    #[test]
    fn absent_and_empty_bytes_differ_on_the_line() {
        for (blob, text) in [
            (Blob(None), "null"),
            (Blob::of(""), "\"\""),
            (Blob::of([0xff, 0]), "\"/wA=\""),
        ] {
            assert_eq!(serde_json::to_string(&blob).unwrap(), text);
            assert_eq!(serde_json::from_str::<Blob>(text).unwrap(), blob);
        }
        assert!(serde_json::from_str::<Blob>("\"?\"").is_err());
    }
}
