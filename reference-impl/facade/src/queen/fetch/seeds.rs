//! The shape of a fetch answer, read straight into the arena of a [`Fetched`].

use serde::Deserialize;

use super::*;
use serde::de::{Error as _, IgnoredAny, MapAccess};

/// The whole answer: an object with `entries`.
pub(super) struct AnswerSeed<'a> {
    pub(super) fetched: &'a mut Fetched,
    pub(super) echo: &'a Echo,
}

impl<'de> DeserializeSeed<'de> for AnswerSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for AnswerSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with entries")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = false;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == "entries" && !seen {
                seen = true;
                map.next_value_seed(EntriesSeed {
                    fetched: self.fetched,
                    echo: self.echo,
                })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        seen.then_some(())
            .ok_or_else(|| A::Error::custom("no entries"))
    }
}

struct EntriesSeed<'a> {
    fetched: &'a mut Fetched,
    echo: &'a Echo,
}

impl<'de> DeserializeSeed<'de> for EntriesSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for EntriesSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        loop {
            let entry = EntrySeed {
                fetched: self.fetched,
                echo: self.echo,
            };
            if seq.next_element_seed(entry)?.is_none() {
                return Ok(());
            }
        }
    }
}

/// One entry; its keys may come in any order.
struct EntrySeed<'a> {
    fetched: &'a mut Fetched,
    echo: &'a Echo,
}

impl<'de> DeserializeSeed<'de> for EntrySeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EntrySeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entry")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut queue, mut partition) = (None, None);
        let (mut high_watermark, mut log_start_offset) = (None, None);
        let mut status = LaneStatus::Ok;
        let from = self.fetched.records.len();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match key.as_ref() {
                "queue" => queue = Some(map.next_value::<Cow<'de, str>>()?),
                "partition" => partition = Some(map.next_value::<Cow<'de, str>>()?),
                "records" => map.next_value_seed(RecordsSeed(self.fetched))?,
                "highWatermark" => high_watermark = Some(map.next_value::<i64>()?),
                "logStartOffset" => log_start_offset = Some(map.next_value::<i64>()?),
                "error" => {
                    status = lane_status(map.next_value::<Option<Cow<'de, str>>>()?.as_deref());
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let echoed = self.echo.matches(
            self.fetched.lanes.len(),
            queue.as_deref().unwrap_or_default(),
            partition.as_deref().unwrap_or_default(),
        );
        if !echoed {
            return Err(A::Error::custom("an entry that was not asked for"));
        }
        let (Some(high_watermark), Some(log_start_offset)) = (high_watermark, log_start_offset)
        else {
            return Err(A::Error::custom("an entry without its bounds"));
        };
        self.fetched.lanes.push(StoredLane {
            status,
            high_watermark,
            log_start_offset,
            records: (from, self.fetched.records.len()),
        });
        Ok(())
    }
}

struct RecordsSeed<'a>(&'a mut Fetched);

impl<'de> DeserializeSeed<'de> for RecordsSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

#[derive(Deserialize)]
struct RawRecord<'a> {
    offset: i64,
    #[serde(borrow, default)]
    payload: Option<&'a RawValue>,
    #[serde(borrow, default)]
    ts: Option<Cow<'a, str>>,
}

impl<'de> Visitor<'de> for RecordsSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let fetched = self.0;
        let mut last = -1;
        while let Some(record) = seq.next_element::<RawRecord<'de>>()? {
            if record.offset <= last {
                return Err(A::Error::custom("offsets that don't ascend"));
            }
            last = record.offset;
            let first_header = fetched.headers.len();
            let payload = record.payload.map_or("null", RawValue::get);
            let parts = envelope::read(payload, &mut fetched.arena, &mut fetched.headers);
            fetched.records.push(StoredRecord {
                offset: record.offset,
                append_ms: record.ts.as_deref().and_then(time::parse_ms).unwrap_or(-1),
                parts,
                first_header,
            });
        }
        Ok(())
    }
}
