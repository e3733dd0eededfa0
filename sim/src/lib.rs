//! One deterministic world: clients, doors and fakes over a simulated network.
//!
//! A [`run`] is a [`scenario`], a seed and a [`schedule`] of faults. [`world`] puts the shipped
//! facade and the fake Queen on simulated machines ([`machine`], [`disk`]), [`client`] speaks Kafka
//! to them, [`history`] keeps what clients asked and were told, and its `check` judges it. The same
//! run leaves the same [`trace`], byte for byte, in any process. [`explore`] generates schedules
//! and shrinks those that fail.
//!
//! Nothing here reads the machine it runs on, except for the git revision in a report.

pub mod client;
pub mod disk;
pub mod explore;
pub mod history;
pub mod machine;
pub mod relay;
pub mod run;
pub mod scenario;
pub mod schedule;
pub mod seed;
pub mod storage;
pub mod trace;
pub mod world;
