//! The program from outside.

mod differential;
