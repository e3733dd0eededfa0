//! Scenario tables and the state-machine property test of the classic group.

mod commit;
mod invariants;
mod join;
mod leave;
mod property;
mod rebalance;
mod scale;
mod static_members;
mod sync;
mod world;
