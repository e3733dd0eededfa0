//! `queen-kafka` from outside.

mod cluster;
mod data;
mod groups;
mod process;
mod rig;
mod security;
mod topics;
mod transactions;
