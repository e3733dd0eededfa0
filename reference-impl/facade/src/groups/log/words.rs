//! Causes in words. What clients chose (ids, reasons) is quoted, escaped and cut: it may be anything.

use std::fmt;

use coordinator::classic::{Cause, MemberId};
use coordinator::consumer;

/// Characters of a client's text in one line.
const MAX_TEXT_CHARS: usize = 128;

/// What is said of something that may not be known.
pub(super) struct Said(pub(super) Option<String>);

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or("not known"))
    }
}

/// A client's text: in quotes, escaped, on one line, not too long.
pub(super) fn quoted(text: &str) -> String {
    let cut = text
        .char_indices()
        .nth(MAX_TEXT_CHARS)
        .map_or(text, |(end, _)| &text[..end]);
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("{cut:?}{more}")
}

fn member(id: &MemberId, did: &str) -> String {
    format!("member {} {did}", quoted(id.as_str()))
}

/// What a member did, and the reason that its client gave (KIP-800).
fn told(id: &MemberId, did: &str, reason: Option<&String>) -> String {
    let did = member(id, did);
    match reason {
        Some(reason) => format!("{did}, saying {}", quoted(reason)),
        None => did,
    }
}

/// Why a classic group rebalances.
pub(super) fn classic(cause: &Cause) -> String {
    match cause {
        Cause::NewMember(id, reason) => told(id, "joined", reason.as_ref()),
        Cause::Rejoined(id, reason) => told(id, "joined again", reason.as_ref()),
        Cause::StaticMemberReturned(id, reason) => {
            told(id, "took a static member's place", reason.as_ref())
        }
        Cause::Left(id, reason) => told(id, "left", reason.as_ref()),
        Cause::SessionExpired(id) => member(id, "was silent for its session timeout"),
        Cause::DidNotRejoin => "members did not join again within the rebalance timeout".into(),
        Cause::DidNotSync(1) => "one member did not sync within the rebalance timeout".into(),
        Cause::DidNotSync(count) => {
            format!("{count} members did not sync within the rebalance timeout")
        }
        Cause::ConnectionClosed(id) => member(id, "closed its connection while it joined"),
        Cause::GroupFull(id) => member(id, "found no room"),
        Cause::AssignmentTooLarge => "the assignment was too large to keep".into(),
        Cause::Downgraded => "the last member of the consumer protocol left".into(),
        Cause::Stopping => "this coordinator stops".into(),
    }
}

/// Why a group of the consumer protocol (KIP-848) needs another assignment.
pub(super) fn modern(cause: &consumer::Cause) -> String {
    use consumer::Cause;
    match cause {
        Cause::NewMember(id) => member(id, "joined"),
        Cause::Subscribed(id) => member(id, "subscribed to other topics"),
        Cause::TopicsChanged => "topics were made, deleted or widened".into(),
        Cause::Left(id, reason) => told(id, "left", reason.as_ref()),
        Cause::SessionExpired(id) => member(id, "was silent for its session timeout"),
        Cause::DidNotRevoke(id) => member(id, "did not give up its partitions in time"),
        Cause::DidNotRejoin(id) => member(id, "did not join again in time"),
        Cause::DidNotSync(id) => member(id, "did not collect its assignment in time"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_and_a_strange_one_escaped() {
        assert_eq!(quoted("range"), "\"range\"");
        assert_eq!(quoted("a\n\u{202e}"), "\"a\\n\\u{202e}\"");
        let long = quoted(&"x".repeat(32_000));
        assert_eq!(long.chars().count(), MAX_TEXT_CHARS + 3);
    }

    #[test]
    fn causes_are_sentences() {
        let id = MemberId::new("app-1");
        let reason = Some("rebalance\nenforced".to_owned());
        assert_eq!(
            classic(&Cause::Rejoined(id.clone(), reason)),
            "member \"app-1\" joined again, saying \"rebalance\\nenforced\""
        );
        assert_eq!(
            classic(&Cause::NewMember(id.clone(), None)),
            "member \"app-1\" joined"
        );
        assert_eq!(
            classic(&Cause::DidNotSync(3)),
            "3 members did not sync within the rebalance timeout"
        );
        assert_eq!(
            modern(&consumer::Cause::DidNotRevoke(id)),
            "member \"app-1\" did not give up its partitions in time"
        );
        assert_eq!(Said(None).to_string(), "not known");
    }
}
