//! Keeps a facade running as a child process of the broker that embeds it: starts it, relays its
//! log, brings it back when it dies and takes it along when the broker ends, however that ends.
//!
//! Touches processes, signals and the environment it is handed; knows neither Kafka nor Queen. Not
//! part of any simulation.
//!
//! [`Settings::read`] judges the environment at boot; [`Supervisor::run`] does the rest. The broker's
//! executable hands [`launch::run`] a command of its own, which becomes the child: that is where the
//! kernel learns to end it with its parent.

pub mod backoff;
mod child;
pub mod launch;
mod relay;
mod run;
pub mod settings;
pub mod status;

pub use self::run::Supervisor;
pub use self::settings::{Refused, Settings};
pub use self::status::{Phase, Report, Status};
