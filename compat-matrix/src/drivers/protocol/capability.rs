//! What a client can express, and what an operation needs.
//!
//! A driver lists its capabilities when it starts. A scenario that needs more is skipped for that
//! client, with the name of what is missing as the reason.

use std::collections::BTreeSet;

use super::op::Op;
use super::settings::{
    Assignor, Codec, GroupProtocol, Isolation, OffsetReset, Partitioner, Setting, Settings,
};
use super::values::Outgoing;

/// Abilities beside operations, settings and the values of settings.
pub const FEATURES: [&str; 13] = [
    "record.partition",
    "record.headers",
    "record.header_null",
    "record.tombstone",
    "record.timestamp",
    "subscribe.pattern",
    "commit.asynchronous",
    "commit.metadata",
    "topic.config",
    "topic.validate_only",
    "security.tls",
    "security.plain",
    "security.scram",
];

/// What one client can express.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(BTreeSet<String>);

/// A name in a driver's list that is no capability.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a capability")]
pub struct UnknownCapability(pub String);

impl Capabilities {
    /// Everything there is.
    pub fn all() -> Self {
        let mut all: BTreeSet<String> = Op::NAMES
            .iter()
            .chain(&FEATURES)
            .map(|name| (*name).to_owned())
            .collect();
        all.extend(Setting::NAMES.iter().map(|name| format!("setting.{name}")));
        for (stem, words) in [
            ("codec", Codec::WORDS),
            ("partitioner", Partitioner::WORDS),
            ("group_protocol", GroupProtocol::WORDS),
            ("assignor", Assignor::WORDS),
            ("offset_reset", OffsetReset::WORDS),
            ("isolation", Isolation::WORDS),
        ] {
            all.extend(words.iter().map(|word| format!("{stem}.{word}")));
        }
        Self(all)
    }

    /// Everything but these.
    ///
    /// # Errors
    ///
    /// A name that is no capability.
    pub fn all_but(names: &[&str]) -> Result<Self, UnknownCapability> {
        let mut all = Self::all();
        for name in names {
            if !all.0.remove(*name) {
                return Err(UnknownCapability((*name).to_owned()));
            }
        }
        Ok(all)
    }

    /// The capabilities of a driver's list.
    ///
    /// # Errors
    ///
    /// A name that is no capability: a slip of the pen would hide what the client can do.
    pub fn of(names: Vec<String>) -> Result<Self, UnknownCapability> {
        let all = Self::all();
        match names.iter().find(|name| !all.0.contains(*name)) {
            Some(name) => Err(UnknownCapability(name.clone())),
            None => Ok(Self(names.into_iter().collect())),
        }
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether `name` is one of them.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// The operation as this client can do it: without the hints that it does not know.
    ///
    /// # Errors
    ///
    /// The first capability that is missing.
    pub fn fit(&self, op: &Op) -> Result<Op, String> {
        let mut op = op.clone();
        if let Op::OpenProducer { settings } | Op::OpenConsumer { settings } = &mut op {
            settings
                .0
                .retain(|setting| !setting.is_hint() || self.has(&setting_name(setting)));
        }
        match needs(&op).into_iter().find(|need| !self.has(need)) {
            Some(missing) => Err(missing),
            None => Ok(op),
        }
    }
}

fn setting_name(setting: &Setting) -> String {
    format!("setting.{}", setting.to_pair().0)
}

/// Every capability that an operation needs.
fn needs(op: &Op) -> Vec<String> {
    let mut needs = vec![op.name().to_owned()];
    let mut need = |condition: bool, name: &str| {
        if condition {
            needs.push(name.to_owned());
        }
    };
    match op {
        Op::OpenProducer { settings } | Op::OpenConsumer { settings } => {
            needs.extend(of_settings(settings));
        }
        Op::Produce { records, .. } => {
            let any = |test: fn(&Outgoing) -> bool| records.iter().any(test);
            need(any(|r| r.partition.is_some()), "record.partition");
            need(any(|r| !r.headers.is_empty()), "record.headers");
            need(
                any(|r| r.headers.iter().any(|(_, value)| value.0.is_none())),
                "record.header_null",
            );
            need(any(|r| r.value.0.is_none()), "record.tombstone");
            need(any(|r| r.timestamp_ms.is_some()), "record.timestamp");
        }
        Op::ProduceNumbers { partition, .. } => need(partition.is_some(), "record.partition"),
        Op::Subscribe { topics } => need(
            topics.iter().any(|topic| topic.starts_with('^')),
            "subscribe.pattern",
        ),
        Op::Commit {
            offsets,
            asynchronous,
        } => {
            need(*asynchronous, "commit.asynchronous");
            let with_metadata = offsets
                .iter()
                .flatten()
                .any(|place| !place.metadata.is_empty());
            need(with_metadata, "commit.metadata");
        }
        Op::CreateTopics {
            topics,
            validate_only,
        } => {
            need(*validate_only, "topic.validate_only");
            need(
                topics.iter().any(|topic| !topic.config.is_empty()),
                "topic.config",
            );
        }
        _ => {}
    }
    needs
}

fn of_settings(settings: &Settings) -> impl Iterator<Item = String> {
    settings.0.iter().flat_map(|setting| {
        let mut needs = vec![setting_name(setting)];
        match setting {
            Setting::Compression(codec) => needs.push(format!("codec.{}", codec.word())),
            Setting::Partitioner(one) => needs.push(format!("partitioner.{}", one.word())),
            Setting::GroupProtocol(one) => needs.push(format!("group_protocol.{}", one.word())),
            Setting::OffsetReset(one) => needs.push(format!("offset_reset.{}", one.word())),
            Setting::Isolation(one) => needs.push(format!("isolation.{}", one.word())),
            Setting::Assignors(some) => {
                needs.extend(some.iter().map(|one| format!("assignor.{}", one.word())));
            }
            _ => {}
        }
        needs
    })
}

#[cfg(test)]
mod tests {
    use super::{Capabilities, UnknownCapability};
    use crate::drivers::protocol::{Blob, Codec, Op, Outgoing, Setting, Settings};

    #[test]
    fn hints_that_a_client_does_not_know_are_left_out_and_others_are_missed() {
        let can = Capabilities::of(vec![
            "open_producer".into(),
            "setting.compression".into(),
            "codec.gzip".into(),
        ])
        .unwrap();
        let open = |codec| Op::OpenProducer {
            settings: Settings(vec![Setting::LingerMs(5), Setting::Compression(codec)]),
        };
        assert_eq!(
            can.fit(&open(Codec::Gzip)),
            Ok(Op::OpenProducer {
                settings: Settings(vec![Setting::Compression(Codec::Gzip)])
            })
        );
        assert_eq!(can.fit(&open(Codec::Zstd)), Err("codec.zstd".into()));
        assert_eq!(can.fit(&Op::Position), Err("position".into()));
        assert_eq!(
            Capabilities::all().fit(&open(Codec::Zstd)),
            Ok(open(Codec::Zstd))
        );
    }

    #[test]
    fn records_need_what_they_carry() {
        let op = Op::Produce {
            records: vec![Outgoing {
                headers: vec![("h".into(), Blob(None))],
                ..Outgoing::default()
            }],
            timeout_ms: 1,
        };
        for missing in ["record.headers", "record.header_null", "record.tombstone"] {
            let can = Capabilities::all_but(&[missing]).unwrap();
            assert_eq!(can.fit(&op), Err(missing.into()));
        }
        let can = Capabilities::all_but(&["record.partition", "record.timestamp"]).unwrap();
        assert!(can.fit(&op).is_ok());
    }

    #[test]
    fn a_slip_of_the_pen_is_told() {
        assert_eq!(
            Capabilities::of(vec!["prodcue".into()]),
            Err(UnknownCapability("prodcue".into()))
        );
        assert!(Capabilities::all_but(&["prodcue"]).is_err());
    }

    /// Who writes a driver has the page and not this code.
    #[test]
    fn the_page_for_drivers_names_everything() {
        let page = include_str!("../../../drivers/README.md");
        for name in Capabilities::all().names() {
            let documented = match name.split_once('.') {
                Some(("setting", setting)) => page.contains(&format!("| `{setting}` |")),
                Some(("record" | "subscribe" | "commit" | "topic" | "security", _)) | None => {
                    page.contains(&format!("`{name}`"))
                }
                Some((_, word)) => page.contains(&format!("`\"{word}\"`")),
            };
            assert!(documented, "{name}");
        }
    }
}
