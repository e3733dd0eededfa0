//! `queen-kafka` from outside.

mod cloud;
mod cluster;
mod data;
mod groups;
mod operating;
mod process;
mod rig;
mod secrets;
mod security;
mod topics;
mod transactions;
