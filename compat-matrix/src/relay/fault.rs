//! What a bad network does, by API.

use std::time::Duration;

use kafka_wire::ApiKey;

/// Which way a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// From the client.
    Request,
    /// To the client.
    Answer,
}

/// What happens to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It is forwarded after a while, and what is behind it, too.
    Delay(Duration),
    /// So many of its bytes are forwarded, its length prefix included; then both ends are closed. With
    /// 0 on an answer the server has done what the client never hears of.
    Cut {
        /// How many.
        after_bytes: usize,
    },
    /// From here on nothing is forwarded either way, and no end is closed: a cable that was pulled.
    HalfOpen,
}

/// To which frames something happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    side: Side,
    /// `None` is any API.
    key: Option<ApiKey>,
    /// Frames that fit and are let through before the first that is not.
    skip: u32,
    /// Frames that it still acts on.
    left: u32,
    acted: u32,
    act: Act,
}

impl Rule {
    /// Acts once, on the first frame.
    pub const fn new(side: Side, key: ApiKey, act: Act) -> Self {
        Self {
            side,
            key: Some(key),
            skip: 0,
            left: 1,
            acted: 0,
            act,
        }
    }

    /// Whatever the API.
    #[must_use]
    pub const fn any_api(mut self) -> Self {
        self.key = None;
        self
    }

    /// Lets the first `count` frames pass.
    #[must_use]
    pub const fn after(mut self, count: u32) -> Self {
        self.skip = count;
        self
    }

    /// Acts `count` times.
    #[must_use]
    pub const fn times(mut self, count: u32) -> Self {
        self.left = count;
        self
    }

    /// How often it has acted.
    pub(super) const fn acted(&self) -> u32 {
        self.acted
    }

    /// Acts no more.
    pub(super) fn end(&mut self) {
        self.left = 0;
    }

    /// What happens to a frame, which is counted if it fits.
    pub(super) fn act_on(&mut self, side: Side, key: ApiKey) -> Option<Act> {
        if self.left == 0 || self.side != side || self.key.is_some_and(|wanted| wanted != key) {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.left -= 1;
        self.acted += 1;
        Some(self.act)
    }
}

#[cfg(test)]
mod tests {
    use kafka_wire::ApiKey;

    use super::{Act, Rule, Side};

    #[test]
    fn a_rule_counts_the_frames_that_fit_it() {
        let mut rule = Rule::new(Side::Answer, ApiKey::PRODUCE, Act::HalfOpen)
            .after(1)
            .times(2);
        let mut on = |side, key| rule.act_on(side, key).is_some();
        assert!(!on(Side::Answer, ApiKey::PRODUCE), "let through");
        assert!(!on(Side::Request, ApiKey::PRODUCE), "another side");
        assert!(!on(Side::Answer, ApiKey::FETCH), "another API");
        assert!(on(Side::Answer, ApiKey::PRODUCE));
        assert!(on(Side::Answer, ApiKey::PRODUCE));
        assert!(!on(Side::Answer, ApiKey::PRODUCE), "used up");
        assert_eq!(rule.acted(), 2);
    }
}
