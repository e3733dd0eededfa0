//! Faults as data: what goes wrong, and when. Any list of steps is legal in any order, so that a
//! schedule can lose any step while it is shrunk.

use std::fmt;

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use serde::{Deserialize, Serialize};

use crate::trace::Node;

/// One fault at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Simulated milliseconds since the start of the run. The world acts on its next tick.
    pub at_ms: u64,
    /// What happens.
    #[serde(flatten)]
    pub fault: Fault,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "fault")]
pub enum Fault {
    /// The power of a machine is cut: memory is lost, and of its disk what was not synced. Nothing
    /// happens when it is down.
    Crash {
        /// Which.
        node: Server,
    },
    /// A machine starts again; one that runs is crashed first.
    Bounce {
        /// Which.
        node: Server,
    },
    /// A link loses what is sent over it.
    Partition {
        /// Which.
        link: Link,
        /// In which direction.
        lost: Lost,
    },
    /// A link is whole again. What was held on it arrives now, what was lost stays lost.
    Repair {
        /// Which.
        link: Link,
    },
    /// A link keeps what is sent over it.
    Hold {
        /// Which.
        link: Link,
    },
    /// What a link holds arrives. Nothing happens to a link that holds nothing.
    Release {
        /// Which.
        link: Link,
    },
    /// The wall clock of a machine jumps.
    WallJump {
        /// Which.
        node: Server,
        /// By how much, forward or back.
        by_ms: i64,
    },
}

/// A machine that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "as the nodes of the world")]
pub enum Server {
    Facade,
    Queen,
}

impl Server {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Facade, Self::Queen];

    /// Its machine.
    pub const fn node(self) -> Node {
        match self {
            Self::Facade => Node::Facade,
            Self::Queen => Node::Queen,
        }
    }
}

/// A link between two machines, named from who calls to who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the ends")]
pub enum Link {
    ClientsFacade,
    FacadeQueen,
}

impl Link {
    /// Both.
    pub const ALL: [Self; 2] = [Self::ClientsFacade, Self::FacadeQueen];

    /// Who calls, who answers.
    pub const fn ends(self) -> (Node, Node) {
        match self {
            Self::ClientsFacade => (Node::Clients, Node::Facade),
            Self::FacadeQueen => (Node::Facade, Node::Queen),
        }
    }
}

/// What a partitioned link loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lost {
    /// Everything.
    Both,
    /// What callers send.
    Requests,
    /// What they would be answered.
    Answers,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The words of the JSON, which nothing here can fail to become.
        let json = serde_json::to_string(self).map_err(|_| fmt::Error)?;
        f.write_str(&json)
    }
}

/// What a scenario's generated schedules may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Faults strike before this; then the world heals.
    pub heal_at_ms: u64,
    /// Steps at most.
    pub max_steps: usize,
    /// Wall clocks jump at most so far in one step, forward or back.
    pub max_wall_jump_ms: i64,
}

/// Schedules under `rules`, in order of time. They shrink towards fewer and earlier steps.
pub fn schedules(rules: Rules) -> impl Strategy<Value = Vec<Step>> {
    let at = 1..rules.heal_at_ms / TICK_MS;
    let step = (at, fault(rules)).prop_map(|(tick, fault)| Step {
        at_ms: tick * TICK_MS,
        fault,
    });
    proptest::collection::vec(step, 1..=rules.max_steps).prop_map(|mut steps| {
        steps.sort_by_key(|step| step.at_ms);
        steps
    })
}

/// The world moves in ticks of so many milliseconds; finer times would mean nothing.
pub const TICK_MS: u64 = 10;

fn fault(rules: Rules) -> impl Strategy<Value = Fault> {
    let server = || select(&Server::ALL[..]);
    let link = || select(&Link::ALL[..]);
    let lost = prop_oneof![Just(Lost::Both), Just(Lost::Requests), Just(Lost::Answers)];
    let jump = (any::<bool>(), 1..=rules.max_wall_jump_ms.max(1));
    // Machines that only crash would spend most of a run in silence.
    prop_oneof![
        2 => server().prop_map(|node| Fault::Crash { node }),
        4 => server().prop_map(|node| Fault::Bounce { node }),
        3 => (link(), lost).prop_map(|(link, lost)| Fault::Partition { link, lost }),
        4 => link().prop_map(|link| Fault::Repair { link }),
        3 => link().prop_map(|link| Fault::Hold { link }),
        4 => link().prop_map(|link| Fault::Release { link }),
        1 => (server(), jump).prop_map(|(node, (back, ms))| Fault::WallJump {
            node,
            by_ms: if back { -ms } else { ms },
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_reads_as_words_and_back() {
        let steps = vec![
            Step {
                at_ms: 100,
                fault: Fault::Partition {
                    link: Link::FacadeQueen,
                    lost: Lost::Answers,
                },
            },
            Step {
                at_ms: 200,
                fault: Fault::Crash {
                    node: Server::Queen,
                },
            },
        ];
        let json = serde_json::to_string(&steps).unwrap();
        assert_eq!(
            json,
            r#"[{"at_ms":100,"fault":"partition","link":"facade_queen","lost":"answers"},{"at_ms":200,"fault":"crash","node":"queen"}]"#
        );
        assert_eq!(serde_json::from_str::<Vec<Step>>(&json).unwrap(), steps);
    }
}
