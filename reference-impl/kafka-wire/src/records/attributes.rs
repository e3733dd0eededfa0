//! The attributes of a batch: codec, meaning of the timestamps, transaction and control flags.

use std::fmt;
use std::str::FromStr;

/// How the records of a batch are compressed (attribute bits 0 to 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Compression {
    /// Records follow the header as they are.
    #[default]
    None = 0,
    /// RFC 1952.
    Gzip = 1,
    /// Raw snappy, or the block framing of snappy-java (Xerial).
    Snappy = 2,
    /// The LZ4 frame format.
    Lz4 = 3,
    /// RFC 8878 (KIP-110; a Produce below version 7 may not carry it).
    Zstd = 4,
}

impl Compression {
    /// Every codec, in the order of their ids.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The codec with this id, `None` for the ids 5 to 7 that Kafka has not given out.
    #[must_use]
    pub const fn from_id(id: u8) -> Option<Self> {
        match id {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The id on the wire.
    #[must_use]
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The name Kafka's `compression.type` uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a compression codec (none, gzip, snappy, lz4, zstd)")]
pub struct UnknownCompressionName;

impl FromStr for Compression {
    type Err = UnknownCompressionName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|codec| codec.name() == name)
            .ok_or(UnknownCompressionName)
    }
}

/// What the timestamps of a batch mean (attribute bit 3, KIP-32).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// Each record carries the time its producer gave it.
    #[default]
    CreateTime,
    /// The maximum timestamp of the batch is the append time of every record in it.
    LogAppendTime,
}

/// The 16 attribute bits of a batch. Bits Kafka has not given out are kept and mean nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes(pub i16);

impl Attributes {
    const COMPRESSION: i16 = 0b0111;
    const LOG_APPEND_TIME: i16 = 1 << 3;
    const TRANSACTIONAL: i16 = 1 << 4;
    const CONTROL: i16 = 1 << 5;
    const DELETE_HORIZON: i16 = 1 << 6;

    /// Attributes with these flags and no delete horizon.
    #[must_use]
    pub const fn new(
        compression: Compression,
        timestamp_type: TimestampType,
        transactional: bool,
        control: bool,
    ) -> Self {
        let mut bits = compression.id() as i16;
        if matches!(timestamp_type, TimestampType::LogAppendTime) {
            bits |= Self::LOG_APPEND_TIME;
        }
        if transactional {
            bits |= Self::TRANSACTIONAL;
        }
        if control {
            bits |= Self::CONTROL;
        }
        Self(bits)
    }

    /// The codec id, 0 to 7.
    #[must_use]
    pub const fn compression_id(self) -> u8 {
        (self.0 & Self::COMPRESSION) as u8
    }

    /// What the timestamps mean.
    #[must_use]
    pub const fn timestamp_type(self) -> TimestampType {
        if self.0 & Self::LOG_APPEND_TIME == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Whether the batch belongs to a transaction.
    #[must_use]
    pub const fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    /// Whether the batch holds control records, which no application sees.
    #[must_use]
    pub const fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    /// Whether the base timestamp is the delete horizon of a compacted batch (KIP-534).
    #[must_use]
    pub const fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_codec_is_found_by_its_id_and_by_its_name() {
        for codec in Compression::ALL {
            assert_eq!(Compression::from_id(codec.id()), Some(codec));
            assert_eq!(codec.name().parse(), Ok(codec));
        }
        for id in 5..=u8::MAX {
            assert_eq!(Compression::from_id(id), None);
        }
        assert_eq!("brotli".parse::<Compression>(), Err(UnknownCompressionName));
    }

    #[test]
    fn each_flag_has_its_own_bit() {
        let all = Attributes::new(Compression::Zstd, TimestampType::LogAppendTime, true, true);
        assert_eq!(all.0, 0b0011_1100);
        assert!(all.is_transactional() && all.is_control() && !all.has_delete_horizon());
        assert_eq!(all.compression_id(), 4);
        assert_eq!(all.timestamp_type(), TimestampType::LogAppendTime);
        assert!(Attributes(0b0100_0000).has_delete_horizon());
        assert_eq!(
            Attributes::default().timestamp_type(),
            TimestampType::CreateTime
        );
    }
}
