//! A consumer's half of a fetch session (KIP-227): what the broker remembers need not be said
//! again. One per broker. No I/O.

use std::collections::BTreeMap;

use kafka_wire::ErrorCode;

use crate::history::TopicPartition;

/// What is asked of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// From which offset on.
    pub offset: i64,
    /// The leader epoch that is known; -1 for none.
    pub leader_epoch: i32,
}

/// What a Fetch request says about its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// 0 for none.
    pub session_id: i32,
    /// -1 for no session, 0 for a new one.
    pub session_epoch: i32,
    /// Partitions to be named.
    pub named: Vec<(TopicPartition, Wanted)>,
    /// Partitions that the session is to forget.
    pub forgotten: Vec<TopicPartition>,
}

/// The session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchSession {
    id: i32,
    /// Of the next request; 0 begins a session.
    epoch: i32,
    known: BTreeMap<TopicPartition, Wanted>,
}

impl FetchSession {
    /// How to ask for exactly `wanted`.
    pub fn plan(&mut self, wanted: &BTreeMap<TopicPartition, Wanted>) -> Plan {
        let (session_id, session_epoch) = (self.id, self.epoch);
        if session_epoch == 0 {
            self.known.clear();
        }
        let known = std::mem::replace(&mut self.known, wanted.clone());
        let changed = wanted
            .iter()
            .filter(|(at, want)| known.get(at) != Some(want));
        let dropped = known.keys().filter(|at| !wanted.contains_key(at));
        Plan {
            session_id,
            session_epoch,
            named: changed.map(|(at, want)| (at.clone(), *want)).collect(),
            forgotten: dropped.cloned().collect(),
        }
    }

    /// How to ask for `wanted` without a session.
    pub fn without(wanted: &BTreeMap<TopicPartition, Wanted>) -> Plan {
        Plan {
            session_id: 0,
            session_epoch: -1,
            named: wanted
                .iter()
                .map(|(at, want)| (at.clone(), *want))
                .collect(),
            forgotten: Vec::new(),
        }
    }

    /// The broker answered.
    pub fn handle_answer(&mut self, code: ErrorCode, session_id: i32) {
        match code {
            ErrorCode::None if self.epoch == 0 => {
                // Without an id there is no session, and the next request begins one again.
                self.id = session_id;
                self.epoch = i32::from(session_id != 0);
            }
            ErrorCode::None if session_id == 0 => *self = Self::default(),
            // After the last comes 1: 0 would begin a session.
            ErrorCode::None => self.epoch = self.epoch.checked_add(1).unwrap_or(1),
            ErrorCode::FetchSessionIdNotFound => *self = Self::default(),
            // The next one ends it and begins another.
            _ => self.epoch = 0,
        }
    }

    /// No answer came: nobody knows which epoch the broker is at.
    pub fn handle_lost(&mut self) {
        self.epoch = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(offsets: &[(i32, i64)]) -> BTreeMap<TopicPartition, Wanted> {
        let want = |(partition, offset): &(i32, i64)| {
            let want = Wanted {
                offset: *offset,
                leader_epoch: -1,
            };
            (TopicPartition::new("t", *partition), want)
        };
        offsets.iter().map(want).collect()
    }

    /// Session id and epoch, the partitions named, the partitions forgotten.
    type Shown = (i32, i32, Vec<i32>, Vec<i32>);

    fn shown(plan: &Plan) -> Shown {
        let named = plan.named.iter().map(|(at, _)| at.partition);
        let forgotten = plan.forgotten.iter().map(|at| at.partition);
        (
            plan.session_id,
            plan.session_epoch,
            named.collect(),
            forgotten.collect(),
        )
    }

    fn begun() -> FetchSession {
        let mut session = FetchSession::default();
        let plan = session.plan(&wanted(&[(0, 0), (1, 0)]));
        assert_eq!(shown(&plan), (0, 0, vec![0, 1], vec![]));
        session.handle_answer(ErrorCode::None, 9);
        session
    }

    #[test]
    fn only_what_changed_is_named() {
        let mut session = begun();
        let plan = session.plan(&wanted(&[(0, 5), (1, 0)]));
        assert_eq!(shown(&plan), (9, 1, vec![0], vec![]));
        session.handle_answer(ErrorCode::None, 9);
        let plan = session.plan(&wanted(&[(1, 0), (2, 0)]));
        assert_eq!(shown(&plan), (9, 2, vec![2], vec![0]));
    }

    #[test]
    fn a_lost_session_is_begun_again_in_full() {
        let mut session = begun();
        session.plan(&wanted(&[(0, 0), (1, 0)]));
        session.handle_answer(ErrorCode::FetchSessionIdNotFound, 0);
        let plan = session.plan(&wanted(&[(0, 0), (1, 0)]));
        assert_eq!(shown(&plan), (0, 0, vec![0, 1], vec![]));

        let mut session = begun();
        session.plan(&wanted(&[(0, 0), (1, 0)]));
        session.handle_lost();
        let plan = session.plan(&wanted(&[(0, 0), (1, 0)]));
        assert_eq!(shown(&plan), (9, 0, vec![0, 1], vec![]), "the old one ends");
    }

    #[test]
    fn a_broker_without_room_gives_no_session() {
        let mut session = FetchSession::default();
        for _ in 0..2 {
            let plan = session.plan(&wanted(&[(0, 0)]));
            assert_eq!(shown(&plan), (0, 0, vec![0], vec![]));
            session.handle_answer(ErrorCode::None, 0);
        }
        let plan = FetchSession::without(&wanted(&[(0, 0)]));
        assert_eq!(shown(&plan), (0, -1, vec![0], vec![]));
    }
}
