mod classic;
mod heartbeat;
mod invariants;
mod migrate;
mod property;
mod static_members;
mod topics;
mod world;
