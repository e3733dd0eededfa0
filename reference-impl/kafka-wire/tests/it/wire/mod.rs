//! The annotated schema, walk, splice and names.

mod allocations;
mod golden;
mod names;
mod random;
mod schema;
mod splice;
mod typed;
mod walk;
