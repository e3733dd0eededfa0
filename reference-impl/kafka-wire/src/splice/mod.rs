//! Rewrites the fields of chosen roles and forwards every other byte as the slice it came in. Walks
//! the body first, so nothing is answered for a malformed one; records are never decoded.
//!
//! An [`Editor`] sees each value of the roles it asks for and answers with an [`Edit`]. Counts of
//! arrays that lost elements and sizes of tagged fields that grew or shrank are rewritten with it.
//! Memory grows with the edits and the bytes they insert, not with the body.

mod edit;
mod plan;
mod spliced;

use bytes::Bytes;

use crate::api::ApiKey;
use crate::schema::{self, Message};
use crate::walk::{self, Limits, VisitError, WalkError};

pub use edit::{Edit, Editor, Misfit};
pub use spliced::Spliced;

/// Why a body is not spliced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpliceError<R> {
    /// The body is malformed, or larger than Kafka's 2^31 bytes.
    #[error(transparent)]
    Walk(#[from] WalkError),
    /// The editor refused a value.
    #[error("refused by the editor")]
    Refused(R),
    /// An edit does not fit the field it was given for: a fault of the editor.
    #[error("{field}: {misfit}")]
    Misfit {
        /// The field.
        field: &'static str,
        /// What does not fit.
        misfit: Misfit,
    },
    /// The spliced body would be larger than a frame can say (2^31 - 1 bytes).
    #[error("the spliced body is larger than a frame can be")]
    TooLarge,
}

/// Splices the body of a request.
///
/// # Errors
///
/// [`SpliceError`]; nothing of the body is to be forwarded then.
pub fn request<E: Editor>(
    key: ApiKey,
    version: i16,
    body: &Bytes,
    limits: &Limits,
    editor: &mut E,
) -> Result<Spliced, SpliceError<E::Refusal>> {
    let message = schema::request(key).ok_or(WalkError::UnknownApi { key })?;
    self::message(message, version, body, limits, editor)
}

/// Splices the body of a response.
///
/// # Errors
///
/// [`SpliceError`]; nothing of the body is to be forwarded then.
pub fn response<E: Editor>(
    key: ApiKey,
    version: i16,
    body: &Bytes,
    limits: &Limits,
    editor: &mut E,
) -> Result<Spliced, SpliceError<E::Refusal>> {
    let message = schema::response(key).ok_or(WalkError::UnknownApi { key })?;
    self::message(message, version, body, limits, editor)
}

/// Splices the body of `message`.
///
/// # Errors
///
/// [`SpliceError`]; nothing of the body is to be forwarded then.
pub fn message<E: Editor>(
    message: &'static Message,
    version: i16,
    body: &Bytes,
    limits: &Limits,
    editor: &mut E,
) -> Result<Spliced, SpliceError<E::Refusal>> {
    let mut plan = plan::Plan::new(editor, message.flexible.contains(version));
    let walked = walk::visit(message, version, body, limits, &mut plan);
    settle(walked)?;
    plan.patches().apply(body)
}

/// Splices a consumer-protocol blob (see [`walk::visit_blob`]); `None` when no edit was made. For
/// editors that are handed a [`schema::Role::ConsumerProtocolSubscription`] or
/// [`schema::Role::ConsumerProtocolAssignment`] value: what comes out is its [`Edit::Bytes`].
///
/// # Errors
///
/// [`SpliceError`], with positions in the blob.
pub fn blob<E: Editor>(
    message: &'static Message,
    blob: &[u8],
    limits: &Limits,
    editor: &mut E,
) -> Result<Option<Vec<u8>>, SpliceError<E::Refusal>> {
    let mut plan = plan::Plan::new(editor, false);
    let walked = walk::visit_blob(message, blob, limits, &mut plan);
    settle(walked)?;
    plan.patches().copy(blob)
}

fn settle<R, S>(walked: Result<S, VisitError<plan::Stop<R>>>) -> Result<(), SpliceError<R>> {
    match walked {
        Ok(_) => Ok(()),
        Err(VisitError::Walk(error)) => Err(error.into()),
        Err(VisitError::Stopped(plan::Stop::Refused(refusal))) => {
            Err(SpliceError::Refused(refusal))
        }
        Err(VisitError::Stopped(plan::Stop::Misfit(field, misfit))) => {
            Err(SpliceError::Misfit { field, misfit })
        }
    }
}
