//! `queen-kafka` from outside.

mod process;
