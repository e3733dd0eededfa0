//! What clients do in a run, by name. A scenario holds no schedule: any within its rules may strike
//! it. Each belongs to a [`Family`].

mod cluster;
mod consumer_protocol;
mod failover;
mod family;
mod fetch_sessions;
mod hostile;
mod members;
mod orders;
mod planted;
mod quota;
mod rebalance;
pub mod revocation;
mod stage;
pub mod transaction;

use std::fmt;
use std::time::Duration;

use facade::config::Config;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::history::{Anomaly, Recorder};
use crate::schedule::{Bounds, Invalid, Rules, Step};
use crate::world::{Clients, Description, Doubles, Tenancy, Workload};

pub use family::Family;
pub use orders::{EXACTLY_ONCE, Orders, TOPIC};
pub use stage::{AUDITOR, OTHER, Stage};

/// What clients do, under which faults.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name: the behaviour it proves, or the fault that is planted in it.
    pub name: &'static str,
    /// What it proves, in a sentence.
    pub about: &'static str,
    /// What it belongs to.
    pub family: Family,
    /// What generated schedules may hold.
    pub rules: Rules,
    /// The violation that a planted fault leads to; `None` for the shipped code.
    pub planted: Option<Anomaly>,
    /// The world it plays in.
    pub setting: Setting,
    /// How long the clients may take to finish once everything has healed.
    pub patience: Duration,
    /// What its clients do. The run ends when this does.
    pub play: Play,
    /// What those do that mean no good.
    pub strangers: Option<Play>,
}

/// What clients do.
pub type Play = fn(Stage) -> BoxFuture<'static, ()>;

/// Three call timeouts of the facade, for a call may begin just before the heal, and be answered
/// behind another.
const PATIENCE: Duration = Duration::from_secs(30);

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The world of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Facades, each for itself.
    pub facades: u8,
    /// Calls to Queen pass through a relay.
    pub relay: bool,
    /// Whether a proxy before Queen asks for keys.
    pub tenancy: Tenancy,
    /// The client that holds the key which schedules strike, where there are keys.
    pub struck: &'static str,
    /// Partitions of topics that clients create by naming them.
    pub partitions: i32,
    /// More of a facade's environment.
    pub variables: &'static [(&'static str, &'static str)],
    /// What no variable says: bounds that an operator need not know and a short run can't reach.
    pub configure: fn(&mut Config),
    /// Clients reach facades over TLS, and authenticate.
    pub secure: bool,
    /// Queen's disk confirms so many syncs that a power cut undoes: a planted fault.
    pub lying_syncs: usize,
    /// Programs with a planted fault.
    pub doubles: fn() -> Doubles,
}

impl Setting {
    /// One facade before an honest Queen.
    pub const PLAIN: Self = Self {
        facades: 1,
        relay: false,
        tenancy: Tenancy::None,
        struck: "",
        partitions: 2,
        variables: &[],
        configure: |_| {},
        secure: false,
        lying_syncs: 0,
        doubles: Doubles::default,
    };
}

/// Every scenario.
pub fn all() -> impl Iterator<Item = &'static Scenario> {
    [
        failover::ALL,
        rebalance::ALL,
        consumer_protocol::ALL,
        cluster::ALL,
        hostile::ALL,
        transaction::ALL,
        quota::ALL,
        revocation::ALL,
        planted::ALL,
    ]
    .into_iter()
    .flatten()
}

/// The scenario called `name`.
pub fn named(name: &str) -> Option<&'static Scenario> {
    all().find(|scenario| scenario.name == name)
}

impl Scenario {
    /// The world it plays in.
    pub fn world(&self, seed: u64) -> Description {
        let Setting {
            facades,
            relay,
            tenancy,
            struck: _,
            partitions,
            variables,
            configure,
            secure,
            lying_syncs,
            doubles,
        } = self.setting;
        Description {
            seed,
            facades,
            relay,
            tenancy,
            strangers: self.strangers.is_some(),
            partitions,
            variables,
            configure,
            secure,
            lying_syncs,
            doubles: doubles(),
        }
    }

    /// Whether `schedule` makes sense in its world.
    ///
    /// # Errors
    ///
    /// The first step that doesn't, and what would.
    pub fn validate(&self, schedule: &[Step]) -> Result<(), Invalid> {
        let world = self.world(0);
        let (servers, links) = (world.servers(), world.links());
        let clients: Vec<_> = self.rules.clients.iter().map(|&name| name.into()).collect();
        let bounds = Bounds {
            servers: &servers,
            links: &links,
            clients: &clients,
            keys: self.setting.tenancy.keys(),
        };
        schedule.iter().try_for_each(|step| step.validate(&bounds))
    }

    /// What its clients do, in a run with `seed`.
    pub fn workload(&self, seed: u64, recorder: Recorder) -> Workload {
        self.playing(self.play, seed, recorder)
    }

    /// What those do that mean no good.
    pub fn hostile_workload(&self, seed: u64, recorder: Recorder) -> Option<Workload> {
        let play = self.strangers?;
        Some(self.playing(play, seed, recorder))
    }

    fn playing(&self, play: Play, seed: u64, recorder: Recorder) -> Workload {
        let (patience, secure, struck) = (self.patience, self.setting.secure, self.setting.struck);
        let quiet = self.rules.kinds.iter().all(|(_, kind)| kind.ends_keys());
        Box::new(move |clients: Clients, healed| {
            let stage = Stage {
                clients,
                recorder,
                patience,
                seed,
                secure,
                quiet,
                struck,
                healed,
            };
            async move { play(stage).await }.boxed()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_scenario_has_a_name_of_its_own_and_says_what_it_proves() {
        let names: BTreeSet<_> = all().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), all().count());
        for scenario in all() {
            assert!(!scenario.name.is_empty() && !scenario.about.is_empty());
            assert_eq!(
                scenario.planted.is_some(),
                scenario.family == Family::Planted
            );
        }
    }

    #[test]
    fn a_family_has_scenarios_or_says_why_not() {
        for family in Family::ALL {
            let members = all().filter(|scenario| scenario.family == family).count();
            assert_eq!(members == 0, family.why_empty().is_some(), "{family}");
        }
    }

    #[test]
    fn what_rules_may_name_is_in_the_scenarios_world() {
        for scenario in all() {
            let world = scenario.world(0);
            let (servers, links) = (world.servers(), world.links());
            let rules = scenario.rules;
            assert!(rules.servers.iter().all(|one| servers.contains(one)));
            assert!(rules.links.iter().all(|one| links.contains(one)));
            let keys = scenario.setting.tenancy.keys();
            assert!(rules.keys.iter().all(|one| keys.contains(one)));
            let hops = rules.hops.iter().map(|hop| hop.server());
            assert!(
                hops.into_iter().all(|hop| servers.contains(&hop)),
                "{}",
                scenario.name
            );
        }
    }
}
