//! `transaction`: KV operations and pushes, all or nothing (contract section 5). Everything is
//! judged before anything is staged, or taken back, so a refusal leaves the batch as it was.

use super::batch::Batch;
use super::kv::call::{Call, Outcome as KvOutcome, Precondition};
use super::kv::run;
use super::native::ack::{self, Verdict};
use super::push::{self, Duplicates, Group, Outcome};
use crate::ids::TenantId;

/// What is to happen together.
#[derive(Debug)]
pub struct Bundle {
    /// Whose.
    pub tenant: TenantId,
    /// KV operations; run first.
    pub kv: Call,
    /// Pushes.
    pub groups: Vec<Group>,
    /// Acks.
    pub acks: Vec<ack::Group>,
    /// A `getMany` shows at most this many rows (a fault to be injected).
    pub truncate_get_many: Option<usize>,
}

/// What came of it.
#[derive(Debug)]
pub struct Committed {
    /// One for each KV operation.
    pub kv: Vec<KvOutcome>,
    /// One for each group of pushes.
    pub groups: Vec<Outcome>,
    /// One for each group of acks.
    pub acks: Vec<Vec<Verdict>>,
}

/// Why nothing happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A `required` condition was lost.
    Precondition(Precondition),
    /// A pushed id was appended before.
    Duplicate,
    /// An ack was rejected; why.
    AckRejected(String),
}

/// Plans it.
///
/// # Errors
/// See [`Refused`]; nothing is staged then.
pub fn plan(batch: &mut Batch<'_>, bundle: Bundle) -> Result<Committed, Refused> {
    let (kv, writes) = run::over_batch(batch, bundle.tenant, &bundle.kv, bundle.truncate_get_many)
        .map_err(Refused::Precondition)?;
    let mut found = Vec::with_capacity(bundle.groups.len());
    for group in &bundle.groups {
        let duplicates = Duplicates::find(batch, group);
        if duplicates.any_committed() {
            return Err(Refused::Duplicate);
        }
        found.push(duplicates);
    }
    let before = (!bundle.acks.is_empty()).then(|| batch.native.clone());
    let acks: Vec<Vec<Verdict>> = bundle
        .acks
        .iter()
        .map(|group| ack::plan(batch, group))
        .collect();
    let rejected = acks
        .iter()
        .flatten()
        .find_map(|verdict| verdict.rejected.as_ref());
    if let Some(rejected) = rejected {
        batch.native = before.unwrap_or_default();
        return Err(Refused::AckRejected(rejected.to_string()));
    }
    for (key, row) in writes {
        batch.put_kv(key, row);
    }
    let groups = bundle
        .groups
        .into_iter()
        .zip(found)
        .map(|(group, duplicates)| push::append(batch, group, duplicates))
        .collect();
    Ok(Committed { kv, groups, acks })
}
