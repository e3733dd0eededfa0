//! What clients did and saw, as plain data, and the checkers that judge it.
//!
//! A history is a list of [`Entry`]: operations ([`Event::Invoke`] and its end), observations, and
//! marks of the world around. It comes from a [`Recorder`], or as JSON lines from anywhere
//! ([`jsonl`]): a simulated world and a driver of a real client write the same. [`check()`] says
//! what must not be, with the entries that prove it.
//!
//! Who records what:
//! - each client [`Event::Client`] first; every operation of its application from
//!   [`Recorder::begin`] to [`Operation::ok`], [`Operation::fail`] (it *cannot* have taken effect)
//!   or [`Operation::unknown`]; [`Operation::attempt`] for each time a batch goes out;
//!   [`Event::Asked`] and [`Event::Answered`] at its connections; [`Event::Assigned`],
//!   [`Event::Revoked`], [`Event::Lost`] and [`Event::Seek`] where its position or its ownership
//!   changes otherwise than by reading on;
//! - the world its [`Mark`]s, under the name `world`;
//! - whoever reads the log at the end [`Event::Log`], in pieces, and one [`Event::LogEnd`] for each
//!   partition that was read to its end: only those are judged against the log.
//!
//! Nothing here knows a network, a clock or a simulation.

pub mod call;
pub mod check;
pub mod coverage;
pub mod diagram;
pub mod event;
pub mod jsonl;
pub mod recorder;
pub mod value;

pub use call::{Admin, Call, Failure, Isolation, Polled, Producer, Reply};
pub use check::{Anomaly, Rules, Verdict, check, check_with};
pub use coverage::Coverage;
pub use event::{Entry, Event, Mark, Op, Promise, Source};
pub use recorder::{Operation, Recorder};
pub use value::{Batch, Name, NotAPartition, NotAValue, Seen, TopicPartition, Value, Written};
