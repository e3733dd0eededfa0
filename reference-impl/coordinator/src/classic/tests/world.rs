//! One group, a clock that only the test moves, and every answer it gave.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use host::Monotonic;

use crate::classic::*;

pub(super) const DELAY: Duration = Duration::from_secs(3);
pub(super) const SESSION: Duration = Duration::from_secs(10);
pub(super) const REBALANCE: Duration = Duration::from_secs(60);

pub(super) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    Join(Result<Joined, JoinRefusal>),
    Sync(Result<Synced, GroupError>),
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) group: ClassicGroup,
    pub(super) now: Monotonic,
    pub(super) notes: Vec<Note>,
    answers: BTreeMap<CallToken, Answer>,
    waiting: BTreeSet<CallToken>,
    calls: u64,
}

/// A consumer at the newest version with one protocol.
pub(super) fn consumer(client_id: &str) -> JoinRequest {
    JoinRequest {
        member_id: MemberId::unknown(),
        instance_id: None,
        client_id: client_id.into(),
        client_host: "/127.0.0.1".into(),
        session_timeout: SESSION,
        rebalance_timeout: REBALANCE,
        protocol_type: "consumer".into(),
        protocols: offers(&["range"]),
        require_known_member_id: true,
        supports_skip_assignment: true,
        reason: None,
        random: [0; 16],
    }
}

/// A consumer below v4, which is admitted without knowing its id.
pub(super) fn old_consumer(client_id: &str) -> JoinRequest {
    JoinRequest {
        require_known_member_id: false,
        supports_skip_assignment: false,
        ..consumer(client_id)
    }
}

pub(super) fn static_consumer(instance_id: &str) -> JoinRequest {
    JoinRequest {
        instance_id: Some(InstanceId::new(instance_id)),
        ..consumer(instance_id)
    }
}

pub(super) fn offers(names: &[&str]) -> Protocols {
    Protocols::copy_of(names.iter().map(|&name| (name, b"m".as_slice())))
}

/// The same member again, with the id and generation it was told.
pub(super) fn rejoin(request: &JoinRequest, member_id: &MemberId) -> JoinRequest {
    JoinRequest {
        member_id: member_id.clone(),
        ..request.clone()
    }
}

pub(super) fn member(joined: &Joined) -> MemberRef {
    MemberRef {
        member_id: joined.member_id.clone(),
        instance_id: None,
        generation_id: joined.generation_id,
    }
}

pub(super) fn leaving(member_id: &MemberId) -> LeavingMember {
    LeavingMember {
        member_id: member_id.clone(),
        instance_id: None,
        reason: None,
    }
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(super) fn with(settings: Settings) -> Self {
        Self {
            group: ClassicGroup::new(settings),
            now: Monotonic::default(),
            notes: Vec::new(),
            answers: BTreeMap::new(),
            waiting: BTreeSet::new(),
            calls: 0,
        }
    }

    /// Collects effects, and holds the group to its invariants.
    pub(super) fn settle(&mut self) {
        while let Some(effect) = self.group.poll_effect() {
            let (token, answer) = match effect {
                Effect::Join(token, answer) => (token, Answer::Join(answer)),
                Effect::Sync(token, answer) => (token, Answer::Sync(answer)),
                Effect::Note(note) => {
                    self.notes.push(note);
                    continue;
                }
            };
            assert!(self.waiting.remove(&token), "{token:?} is answered once");
            self.answers.insert(token, answer);
        }
        self.group.check();
        assert_eq!(
            self.group.parked_calls(),
            self.waiting.len(),
            "no waiter is lost"
        );
        let due = self.group.next_deadline();
        assert!(
            self.waiting.is_empty() || due.is_some(),
            "a parked call has a deadline that ends it"
        );
    }

    fn token(&mut self) -> CallToken {
        self.calls += 1;
        let token = CallToken(self.calls);
        self.waiting.insert(token);
        token
    }

    pub(super) fn join(&mut self, mut request: JoinRequest) -> CallToken {
        let token = self.token();
        request.random[..8].copy_from_slice(&token.0.to_be_bytes());
        self.group.handle_join(self.now, request, token);
        self.settle();
        token
    }

    pub(super) fn sync_as(
        &mut self,
        member: MemberRef,
        assignments: &[(&MemberId, &str)],
    ) -> CallToken {
        self.sync_request(SyncRequest {
            member,
            protocol_type: None,
            protocol_name: None,
            assignments: assignments
                .iter()
                .map(|&(id, assignment)| {
                    (id.clone(), Bytes::copy_from_slice(assignment.as_bytes()))
                })
                .collect(),
        })
    }

    pub(super) fn sync_request(&mut self, request: SyncRequest) -> CallToken {
        let token = self.token();
        self.group.handle_sync(self.now, request, token);
        self.settle();
        token
    }

    pub(super) fn sync(&mut self, joined: &Joined, assignments: &[(&MemberId, &str)]) -> CallToken {
        self.sync_as(member(joined), assignments)
    }

    pub(super) fn heartbeat(&mut self, joined: &Joined) -> Result<(), GroupError> {
        let answer = self.group.handle_heartbeat(self.now, &member(joined));
        self.settle();
        answer
    }

    pub(super) fn leave(&mut self, members: &[LeavingMember]) -> Vec<Result<(), GroupError>> {
        let answer = self.group.handle_leave(self.now, members).unwrap();
        self.settle();
        answer
    }

    pub(super) fn commit(&mut self, joined: &Joined) -> Result<(), GroupError> {
        let answer = self
            .group
            .validate_offset_commit(self.now, &member(joined), false);
        self.settle();
        answer
    }

    pub(super) fn abandon(&mut self, token: CallToken) {
        self.waiting.remove(&token);
        self.group.handle_abandoned(self.now, token);
        self.settle();
    }

    /// Moves time on, running every timer at its own moment.
    pub(super) fn advance(&mut self, by: Duration) {
        let end = self.now + by;
        while let Some(due) = self.group.next_deadline().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            self.group.handle_timeout(self.now);
            self.settle();
        }
        self.now = end;
    }

    /// Moves time on, timer by timer, until no call is parked.
    pub(super) fn form(&mut self) {
        while !self.waiting.is_empty() {
            let due = self.group.next_deadline().unwrap();
            self.now = self.now.max(due);
            self.group.handle_timeout(self.now);
            self.settle();
        }
    }

    /// Moves time on while these members send heartbeats.
    pub(super) fn advance_alive(&mut self, by: Duration, alive: &[&Joined]) {
        for _ in 0..by.as_secs() {
            self.advance(secs(1));
            for joined in alive {
                let _ = self.heartbeat(joined);
            }
        }
    }

    pub(super) fn is_parked(&self, token: CallToken) -> bool {
        self.waiting.contains(&token)
    }

    pub(super) fn take_join(&mut self, token: CallToken) -> Result<Joined, JoinRefusal> {
        match self.answers.remove(&token) {
            Some(Answer::Join(answer)) => answer,
            other => panic!("{token:?} has no join answer but {other:?}"),
        }
    }

    pub(super) fn joined(&mut self, token: CallToken) -> Joined {
        self.take_join(token).unwrap()
    }

    pub(super) fn refused(&mut self, token: CallToken) -> JoinRefusal {
        self.take_join(token).unwrap_err()
    }

    pub(super) fn synced(&mut self, token: CallToken) -> Result<Synced, GroupError> {
        match self.answers.remove(&token) {
            Some(Answer::Sync(answer)) => answer,
            other => panic!("{token:?} has no sync answer but {other:?}"),
        }
    }

    /// The id that MEMBER_ID_REQUIRED gives to `request`.
    pub(super) fn id_for(&mut self, request: &JoinRequest) -> MemberId {
        let token = self.join(request.clone());
        let refusal = self.refused(token);
        assert_eq!(refusal.error, GroupError::MemberIdRequired);
        refusal.member_id
    }

    /// Joins a member for good, id first when it has to; its call is parked.
    pub(super) fn arrive(&mut self, request: &JoinRequest) -> (MemberId, CallToken) {
        if request.require_known_member_id && request.instance_id.is_none() {
            let id = self.id_for(request);
            let token = self.join(rejoin(request, &id));
            (id, token)
        } else {
            (MemberId::unknown(), self.join(request.clone()))
        }
    }

    /// A stable group of these members, in their order; the first one leads and assigned `a0`, `a1`…
    pub(super) fn stable(&mut self, requests: &[JoinRequest]) -> Vec<Joined> {
        let parked: Vec<CallToken> = requests.iter().map(|r| self.arrive(r).1).collect();
        self.form();
        let joined: Vec<Joined> = parked.into_iter().map(|token| self.joined(token)).collect();
        self.complete(&joined);
        joined
    }

    /// All sync; the first one leads.
    pub(super) fn complete(&mut self, joined: &[Joined]) {
        let names: Vec<String> = (0..joined.len()).map(|n| format!("a{n}")).collect();
        let assignments: Vec<(&MemberId, &str)> = joined
            .iter()
            .zip(&names)
            .map(|(joined, name)| (&joined.member_id, name.as_str()))
            .collect();
        assert_eq!(joined[0].leader, joined[0].member_id);
        for (n, member) in joined.iter().enumerate().rev() {
            let token = self.sync(member, if n == 0 { &assignments } else { &[] });
            assert_eq!(self.is_parked(token), n != 0);
        }
        assert_eq!(self.group.state(), GroupState::Stable);
    }
}
