//! The annotated schema, walk, splice and names.

mod allocations;
mod fuzz;
mod golden;
mod header;
mod names;
mod random;
mod schema;
mod splice;
mod typed;
mod typed_crate;
mod walk;
