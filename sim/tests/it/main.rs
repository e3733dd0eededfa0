//! The world, the scenarios that run in it, and the proof that what it says can be believed.

mod believed;
mod clients;
mod cluster;
mod connection;
mod lint;
mod meta;
mod planted;
mod scenarios;
mod seam;
mod sequences;
