//! `QUEEN_KAFKA_FEATURES`: how far finalized features go (KIP-584), as `name=level` pairs.

use crate::windows::{FEATURES, Feature};

/// Characters of a name that an error repeats.
const SHOWN_CHARS: usize = 64;

/// The highest level of each feature that is named; the others go as far as they are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureCaps(Vec<(&'static str, i16)>);

/// Why a text caps nothing, a sentence without its subject.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeatureError {
    /// Not a name, `=` and a number from 0.
    #[error("takes name=level pairs with commas between them")]
    Pair,
    /// A feature that is not finalized here.
    #[error("names {0:?}; the features of this version are {known}", known = known())]
    Unknown(String),
    /// A level that is not served.
    #[error("asks for {name}={asked}, which goes from 0 to {highest} in this version")]
    Level {
        /// The feature.
        name: &'static str,
        /// What was asked for.
        asked: i16,
        /// What is served.
        highest: i16,
    },
    /// A feature with two levels.
    #[error("names {0} twice")]
    Twice(&'static str),
}

impl FeatureCaps {
    /// Parses the variable.
    ///
    /// # Errors
    ///
    /// [`FeatureError`].
    pub fn parse(text: &str) -> Result<Self, FeatureError> {
        let mut caps = Vec::new();
        for pair in text.split(',') {
            let (name, level) = pair.split_once('=').ok_or(FeatureError::Pair)?;
            let level: i16 = level.trim().parse().map_err(|_| FeatureError::Pair)?;
            let name = name.trim();
            if name.is_empty() || level < 0 {
                return Err(FeatureError::Pair);
            }
            let feature = FEATURES.iter().find(|feature| feature.name == name);
            let Some(Feature {
                name,
                level: highest,
            }) = feature
            else {
                return Err(FeatureError::Unknown(
                    host::text::cut(name, SHOWN_CHARS).into_owned(),
                ));
            };
            if level > *highest {
                return Err(FeatureError::Level {
                    name,
                    asked: level,
                    highest: *highest,
                });
            }
            if caps.iter().any(|(known, _)| known == name) {
                return Err(FeatureError::Twice(name));
            }
            caps.push((*name, level));
        }
        Ok(Self(caps))
    }

    /// How far `feature` goes; 0 is not at all.
    pub fn level(&self, feature: &Feature) -> i16 {
        let cap = self.0.iter().find(|(name, _)| *name == feature.name);
        cap.map_or(feature.level, |(_, level)| feature.level.min(*level))
    }
}

fn known() -> String {
    let names: Vec<&str> = FEATURES.iter().map(|feature| feature.name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::windows::GROUP_VERSION;

    #[rstest]
    #[case("group.version=1", 1)]
    #[case(" group.version = 0 ", 0)]
    fn a_cap_lowers_and_never_raises(#[case] text: &str, #[case] level: i16) {
        let caps = FeatureCaps::parse(text).unwrap();
        assert_eq!(caps.level(&GROUP_VERSION), level);
        assert_eq!(
            FeatureCaps::default().level(&GROUP_VERSION),
            GROUP_VERSION.level
        );
    }

    #[rstest]
    #[case("group.version", FeatureError::Pair)]
    #[case("group.version=", FeatureError::Pair)]
    #[case("group.version=-1", FeatureError::Pair)]
    #[case("=1", FeatureError::Pair)]
    #[case("group.version=1,", FeatureError::Pair)]
    #[case("transaction.version=2", FeatureError::Unknown("transaction.version".into()))]
    #[case("group.version=2", FeatureError::Level { name: "group.version", asked: 2, highest: 1 })]
    #[case(
        "group.version=1,group.version=0",
        FeatureError::Twice("group.version")
    )]
    fn what_caps_nothing_is_refused(#[case] text: &str, #[case] error: FeatureError) {
        assert_eq!(FeatureCaps::parse(text), Err(error));
    }
}
