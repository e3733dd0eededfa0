//! Clients that nobody should have to suffer: what they send costs the server a bounded amount, is
//! closed or answered in the protocol's words, and others don't notice.
//!
//! Each check runs its hostile client beside an honest one ([`honest`]) and reads the memory of the
//! node from its kernel where the node is ours.

mod bomb;
mod crowd;
mod crowds;
mod frames;
mod groups;
mod honest;
mod silent_reader;
mod wide;

pub(crate) use self::honest::{Honest, REQUEST as METADATA_REQUEST, Watch};
use crate::spec::Spec;

/// Every check of bad input.
pub fn specs() -> Vec<Spec> {
    let mut specs = frames::specs();
    specs.push(bomb::spec());
    specs.push(crowd::spec());
    specs.push(silent_reader::spec());
    specs.extend(crowds::specs());
    specs.push(groups::spec());
    specs.push(wide::spec());
    specs
}
