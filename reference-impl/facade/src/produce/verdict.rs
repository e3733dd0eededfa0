//! From Queen's verdicts on a batch's items to the batch's offset.

use kafka_wire::ErrorCode;

use super::unit::Failure;
use crate::queen::Pushed;

/// Where a batch is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// The offset of its first record.
    pub(super) base_offset: i64,
    /// Whether this push put it there, not an earlier one.
    pub(super) fresh: bool,
}

/// Where a batch is, when its items stand in the log one behind the other.
///
/// # Errors
///
/// What the client is told when a record isn't stored, or nobody can say where.
pub(super) fn of(items: &[Pushed]) -> Result<Stored, Failure> {
    let (Some(first), true) = (items.first(), same_kind(items)) else {
        tracing::error!(items = items.len(), "Queen stored part of a record batch");
        return Err(Failure::because(
            ErrorCode::UnknownServerError,
            "Queen stored part of the batch",
        ));
    };
    match *first {
        Pushed::Queued(Some(base)) => contiguous(items, base, true),
        Pushed::Duplicate(Some(base)) => contiguous(items, base, false),
        Pushed::Queued(None) | Pushed::Duplicate(None) => {
            tracing::error!("Queen stored records without naming their offsets: it is too old");
            Err(Failure::because(
                ErrorCode::UnknownServerError,
                "Queen did not name the records' offsets",
            ))
        }
        Pushed::Refused => Err(Failure::because(
            ErrorCode::UnknownServerError,
            "Queen refused a record of the batch",
        )),
        // Spooled for later, or not at all: there's no offset to tell, so the client tries again.
        Pushed::Buffered | Pushed::Failed => Err(Failure::new(ErrorCode::RequestTimedOut)),
    }
}

fn same_kind(items: &[Pushed]) -> bool {
    let mut kinds = items.iter().map(std::mem::discriminant);
    let first = kinds.next();
    kinds.all(|kind| Some(kind) == first)
}

fn contiguous(items: &[Pushed], base_offset: i64, fresh: bool) -> Result<Stored, Failure> {
    let expected = (base_offset..).map(Some);
    let in_order = items.iter().zip(expected).all(|(item, expected)| {
        matches!(item, Pushed::Queued(offset) | Pushed::Duplicate(offset) if *offset == expected)
    });
    if in_order && base_offset >= 0 {
        return Ok(Stored { base_offset, fresh });
    }
    tracing::error!(
        base_offset,
        "Queen stored a record batch at scattered offsets"
    );
    Err(Failure::because(
        ErrorCode::UnknownServerError,
        "the records' offsets are not contiguous",
    ))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use Pushed::{Buffered, Duplicate, Failed, Queued, Refused};

    #[rstest]
    #[case::stored(&[Queued(Some(7)), Queued(Some(8))], Ok((7, true)))]
    #[case::stored_before(&[Duplicate(Some(3)), Duplicate(Some(4))], Ok((3, false)))]
    #[case::a_gap(&[Queued(Some(7)), Queued(Some(9))], Err(ErrorCode::UnknownServerError))]
    #[case::backwards(&[Queued(Some(8)), Queued(Some(7))], Err(ErrorCode::UnknownServerError))]
    #[case::negative(&[Queued(Some(-1))], Err(ErrorCode::UnknownServerError))]
    #[case::partly(&[Duplicate(Some(1)), Queued(Some(2))], Err(ErrorCode::UnknownServerError))]
    #[case::one_unknown(&[Queued(Some(1)), Queued(None)], Err(ErrorCode::UnknownServerError))]
    #[case::too_old(&[Queued(None)], Err(ErrorCode::UnknownServerError))]
    #[case::refused(&[Refused], Err(ErrorCode::UnknownServerError))]
    #[case::spooled(&[Buffered, Buffered], Err(ErrorCode::RequestTimedOut))]
    #[case::not_even_spooled(&[Failed], Err(ErrorCode::RequestTimedOut))]
    #[case::nothing(&[], Err(ErrorCode::UnknownServerError))]
    fn judges(#[case] items: &[Pushed], #[case] expected: Result<(i64, bool), ErrorCode>) {
        let judged = of(items).map(|stored| (stored.base_offset, stored.fresh));
        assert_eq!(judged.map_err(|failure| failure.code), expected);
    }
}
