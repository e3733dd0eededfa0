//! Generated sequences for what has a state: members of groups, producers, transactions. Each is
//! drawn from a number, is the same everywhere, and tells every answer.
//!
//! They do what the property tests of the coordinator's cores do, over the wire and in real time: a
//! sequence so never waits for a time-out of a server, and holds no step whose answer is a race.

pub mod classic;
pub mod consumer;
pub mod producer;
pub mod transaction;

use std::sync::Arc;
use std::time::Duration;

use kafka_wire::{ApiKey, ErrorCode};
use reports::Window;

use super::Family;
use crate::probes::Probe;
use crate::spec::{Spec, Verdict, WIRE};

/// For one sequence: many of its requests wait for others.
const TIME_OUT: Duration = Duration::from_secs(60);

/// What a server says that has not finished something else yet.
const LATER: &[ErrorCode] = &[
    ErrorCode::CoordinatorLoadInProgress,
    ErrorCode::CoordinatorNotAvailable,
    ErrorCode::NotCoordinator,
    ErrorCode::NotLeaderOrFollower,
    ErrorCode::NotEnoughReplicas,
    ErrorCode::ConcurrentTransactions,
];

/// A request's API and the version in which sequences ask it.
type Asked = (ApiKey, i16);

/// One check for each number below `count`, where the server has every version that is asked.
fn specs<F, R>(
    family: Family,
    what: &'static str,
    count: u64,
    asked: &'static [Asked],
    advertised: &[Window],
    run: F,
) -> Vec<Spec>
where
    F: Fn(Probe, Dice) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Verdict> + Send + 'static,
{
    let has = |(key, version): &Asked| {
        let mut windows = advertised.iter();
        windows.any(|window| window.key == key.0 && (window.min..=window.max).contains(version))
    };
    let Some((key, version)) = asked.first().copied() else {
        return Vec::new();
    };
    if !asked.iter().all(has) {
        return Vec::new();
    }
    let advertised: Arc<[Window]> = advertised.into();
    (0..count)
        .map(|number| {
            let (run, advertised) = (run.clone(), Arc::clone(&advertised));
            Spec::new(
                format!("{}{number:03}", family.prefix()),
                format!("{what}, sequence {number}"),
                WIRE,
                move |cx| {
                    let bootstrap = cx.bootstrap().to_owned();
                    let probe = Probe::at(cx, &bootstrap, key, version, Arc::clone(&advertised));
                    run(probe, Dice::new(number))
                },
            )
            .apis(asked.iter().map(|(key, _)| *key))
            .within(TIME_OUT)
        })
        .collect()
}

/// Numbers that are the same for a seed everywhere.
#[derive(Clone, Debug)]
struct Dice(u64);

impl Dice {
    const fn new(seed: u64) -> Self {
        Self(
            seed.wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f),
        )
    }

    /// Below `sides`.
    fn roll(&mut self, sides: u64) -> u64 {
        // Knuth's MMIX constants; the high bits are the random ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    /// One of a list that is not empty.
    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        let at = self.roll(list.len() as u64);
        list[usize::try_from(at).unwrap_or(0)]
    }

    /// An index below `sides`.
    fn index(&mut self, sides: usize) -> usize {
        usize::try_from(self.roll(sides as u64)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Dice;

    #[test]
    fn dice_show_every_side_and_the_same_for_a_seed() {
        let rolls = |seed| {
            let mut dice = Dice::new(seed);
            (0..100).map(|_| dice.roll(6)).collect::<Vec<_>>()
        };
        assert_eq!(rolls(7), rolls(7));
        assert_ne!(rolls(7), rolls(8));
        let sides: BTreeSet<u64> = rolls(0).into_iter().collect();
        assert_eq!(sides, (0..6).collect());
    }
}
