//! ApiVersions, versions 0 to 4.
//!
//! - Answers the one window table; Produce is named from 0 although 0 to 2 are refused, because
//!   librdkafka turns compression off when it does not see 0.
//! - Remembers what the client says it is, for the log; a name or version outside Kafka's alphabet
//!   is `INVALID_REQUEST` and no list, as in Kafka.
//! - A version outside the window never gets here: the connection answers it in the words of
//!   version 0.
//! - Features are finalized at the level they are served at, or that `QUEEN_KAFKA_FEATURES` caps them to. A feature whose lowest level is 0 is named
//!   as supported from version 4 on only, since older clients refuse a 0 (KAFKA-17011).
//!
//! v1 adds the throttle time. v2 throttles after the answer. v3 is flexible, brings the client's
//! software and names features. v4 allows a feature's minimum to be 0.

use kafka_protocol::messages::api_versions_response::{
    ApiVersion, FinalizedFeatureKey, SupportedFeatureKey,
};
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::{ApiKey, ErrorCode};

use crate::config::FeatureCaps;
use crate::context::{ClientSoftware, Context};
use crate::windows::{FEATURES, WINDOWS, advertised};

/// The longest name or version that is remembered.
const MAX_SOFTWARE_CHARS: usize = 64;

/// Answers an ApiVersions request.
pub async fn handle(cx: &Context, request: ApiVersionsRequest) -> ApiVersionsResponse {
    if cx.version >= 3 {
        let name = request.client_software_name;
        let version = request.client_software_version;
        if !is_software(&name) || !is_software(&version) {
            let code = ErrorCode::InvalidRequest.code();
            return ApiVersionsResponse::default().with_error_code(code);
        }
        tracing::debug!(
            session = %cx.session.id, software = %name.as_str(),
            software_version = %version.as_str(), "client"
        );
        // Only the first word counts.
        let _ = cx.session.software.set(ClientSoftware { name, version });
    }
    features(
        cx.version,
        &cx.node.config.features,
        ApiVersionsResponse::default().with_api_keys(windows()),
    )
}

/// The first version that names features.
const FEATURES_NAMED: i16 = 3;
/// The first version in which a supported feature may begin at level 0.
const LEVEL_ZERO: i16 = 4;
/// Features never change while this process runs.
const FEATURES_EPOCH: i64 = 0;

fn features(
    version: i16,
    caps: &FeatureCaps,
    response: ApiVersionsResponse,
) -> ApiVersionsResponse {
    if version < FEATURES_NAMED {
        return response;
    }
    let supported = FEATURES.iter().filter(|_| version >= LEVEL_ZERO);
    let supported = supported.map(|feature| {
        SupportedFeatureKey::default()
            .with_name(StrBytes::from_static_str(feature.name))
            .with_min_version(0)
            .with_max_version(feature.level)
    });
    let finalized = FEATURES
        .iter()
        .map(|feature| (feature, caps.level(feature)));
    // Level 0 is Kafka's word for a feature that is off, and no finalized one.
    let finalized = finalized.filter(|(_, level)| *level > 0);
    let finalized = finalized.map(|(feature, level)| {
        FinalizedFeatureKey::default()
            .with_name(StrBytes::from_static_str(feature.name))
            .with_min_version_level(level)
            .with_max_version_level(level)
    });
    response
        .with_supported_features(supported.collect())
        .with_finalized_features_epoch(FEATURES_EPOCH)
        .with_finalized_features(finalized.collect())
}

fn windows() -> Vec<ApiVersion> {
    let named = |key: ApiKey| {
        advertised(key).map(|window| {
            ApiVersion::default()
                .with_api_key(key.0)
                .with_min_version(window.min)
                .with_max_version(window.max)
        })
    };
    WINDOWS.iter().filter_map(|(key, _)| named(key)).collect()
}

/// Kafka's rule (KIP-511): letters, digits, dots and hyphens, a letter or digit at both ends.
fn is_software(text: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= MAX_SOFTWARE_CHARS
        && text.chars().all(inside)
        && end(text.chars().next())
        && end(text.chars().last())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("librdkafka", true)]
    #[case("apache-kafka-java", true)]
    #[case("3.9.0-rc1", true)]
    #[case("a", true)]
    #[case("", false)]
    #[case("-a", false)]
    #[case("a.", false)]
    #[case("a b", false)]
    #[case("ä", false)]
    #[case(
        "0123456789012345678901234567890123456789012345678901234567890123x",
        false
    )]
    fn software_names_keep_to_kafkas_alphabet(#[case] text: &str, #[case] valid: bool) {
        assert_eq!(is_software(text), valid);
    }

    #[rstest]
    #[case::none_before_them(2, None, 0, 0)]
    #[case::no_level_0(3, None, 0, 1)]
    #[case::both(4, None, 1, 1)]
    #[case::capped(4, Some("group.version=0"), 1, 0)]
    fn features_fit_the_version_and_the_cap(
        #[case] version: i16,
        #[case] caps: Option<&str>,
        #[case] supported: usize,
        #[case] finalized: usize,
    ) {
        let caps = caps.map(|caps| FeatureCaps::parse(caps).unwrap());
        let caps = caps.unwrap_or_default();
        let response = features(version, &caps, ApiVersionsResponse::default());
        assert_eq!(response.supported_features.len(), supported);
        assert_eq!(response.finalized_features.len(), finalized);
        crate::dispatch::encode(ApiKey::API_VERSIONS, version, 1, &response).unwrap();
    }

    #[test]
    fn every_window_is_named_once_and_produce_from_0() {
        let named = windows();
        assert_eq!(named.len(), WINDOWS.iter().count());
        let produce = named.iter().find(|api| api.api_key == 0).unwrap();
        assert_eq!((produce.min_version, produce.max_version), (0, 13));
    }
}
