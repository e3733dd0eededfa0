//! `queen-kafka` from outside.

mod data;
mod groups;
mod process;
mod rig;
mod security;
mod topics;
mod transactions;
