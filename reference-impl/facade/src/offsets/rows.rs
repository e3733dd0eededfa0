//! The values of offset rows and of the group index.

use serde::{Deserialize, Serialize};

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffsetRow {
    /// The next offset to read: what Kafka clients commit.
    pub offset: i64,
    /// What the client keeps beside it.
    #[serde(default)]
    pub metadata: Option<String>,
    /// When it was committed, milliseconds since the Unix epoch.
    #[serde(default)]
    pub ts: i64,
}

/// A group that committed at least once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexRow {
    /// Its protocol type; empty for one that only stores offsets.
    #[serde(default)]
    pub pt: String,
    /// When it was first seen by the process that wrote the row, milliseconds since the Unix epoch.
    #[serde(default)]
    pub ts: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_what_the_contract_says() {
        let row = OffsetRow {
            offset: 7,
            metadata: Some("m".into()),
            ts: 1_700_000_000_000,
        };
        let json = r#"{"offset":7,"metadata":"m","ts":1700000000000}"#;
        assert_eq!(serde_json::to_string(&row).unwrap(), json);
        assert_eq!(serde_json::from_str::<OffsetRow>(json).unwrap(), row);
        let index = IndexRow {
            pt: "consumer".into(),
            ts: 1,
        };
        assert_eq!(
            serde_json::to_string(&index).unwrap(),
            r#"{"pt":"consumer","ts":1}"#
        );
    }

    #[test]
    fn rows_of_others_are_read_with_less_and_more_in_them() {
        let row: OffsetRow = serde_json::from_str(r#"{"offset":7,"metadata":null,"x":1}"#).unwrap();
        assert_eq!(
            row,
            OffsetRow {
                offset: 7,
                metadata: None,
                ts: 0
            }
        );
        assert!(serde_json::from_str::<OffsetRow>(r#"{"metadata":"m"}"#).is_err());
        assert_eq!(
            serde_json::from_str::<IndexRow>("{}").unwrap(),
            IndexRow::default()
        );
    }
}
