//! Where a throttle may be told: never to a commit or the reading of one, for a consumer that
//! sleeps there sleeps its whole loop.

use super::index::Index;
use super::{Anomaly, Verdict};
use crate::event::Event;

const OFFSET_COMMIT: i16 = 8;
const OFFSET_FETCH: i16 = 9;
const TXN_OFFSET_COMMIT: i16 = 28;

pub(super) fn check(index: &Index<'_>, found: &mut Vec<Verdict>) {
    for (at, who, event) in index.events() {
        if let Event::Answered {
            api: OFFSET_COMMIT | OFFSET_FETCH | TXN_OFFSET_COMMIT,
            throttle_ms,
            ..
        } = event
            && *throttle_ms > 0
        {
            let what = format!("{who} was told to sleep {throttle_ms} ms over its offsets");
            found.push(Verdict::new(Anomaly::ThrottledOffsets, [at], what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Story;
    use crate::event::Event;

    #[test]
    fn offsets_are_never_throttled() {
        let told = |api, throttle_ms| {
            let mut story = Story::acknowledged();
            let connection = 1;
            let (version, correlation) = (5, 1);
            story.event(
                "c",
                Event::Asked {
                    connection,
                    api,
                    version,
                    correlation,
                },
            );
            story.event(
                "c",
                Event::Answered {
                    connection,
                    api,
                    version,
                    correlation,
                    throttle_ms,
                },
            );
            story.names()
        };
        assert!(told(1, 500).is_empty(), "a fetch may be");
        assert!(told(9, 0).is_empty());
        for api in [8, 9, 28] {
            assert_eq!(told(api, 500), ["throttled-offsets"]);
        }
    }
}
