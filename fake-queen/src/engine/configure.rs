//! Making and reconfiguring a queue (contract section 3.4).

use std::sync::Arc;

use serde_json::{Map, Value};

use super::batch::Batch;
use super::change::QueueRow;
use super::queue_options::{OptionError, QueueOptions};
use crate::ids::TenantId;

/// What `configure` asks for.
#[derive(Debug)]
pub struct Configure {
    /// Which queue.
    pub queue: Arc<str>,
    /// Options not named keep their values; otherwise all are derived from the defaults.
    pub merge: bool,
    /// Option values by name; other names are ignored.
    pub options: Map<String, Value>,
}

/// Plans it.
///
/// # Errors
/// An option's type or range; nothing is changed then.
pub fn plan(
    batch: &mut Batch<'_>,
    tenant: TenantId,
    configure: &Configure,
) -> Result<QueueRow, OptionError> {
    let current = batch
        .queue(tenant, &configure.queue)
        .filter(|_| configure.merge)
        .map(|row| row.options.clone());
    let mut options = current.unwrap_or_else(|| QueueOptions::of_name(&configure.queue));
    for (name, value) in &configure.options {
        options.set(name, value)?;
    }
    Ok(batch.put_queue(tenant, &configure.queue, options).clone())
}
