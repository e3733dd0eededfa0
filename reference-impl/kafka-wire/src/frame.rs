//! Frames: a four-byte big-endian size, then that many bytes. The size is judged here, against a
//! limit, before anything is allocated for it. No I/O.

use bytes::{Buf, Bytes, BytesMut};

/// Bytes of the size prefix.
pub const PREFIX_BYTES: usize = 4;

/// The largest frame Kafka accepts by default (`socket.request.max.bytes`), 100 MiB.
pub const DEFAULT_LIMIT_BYTES: u32 = 100 * 1024 * 1024;

/// The most an unauthenticated connection may send in one frame (Kafka's
/// `sasl.server.max.receive.size`), 512 KiB.
pub const UNAUTHENTICATED_LIMIT_BYTES: u32 = 512 * 1024;

/// Why a size prefix is refused. The connection cannot continue: where the next frame starts is
/// unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The size is negative.
    #[error("frame size {0} is negative")]
    Negative(i32),
    /// The size is above the limit of the connection.
    #[error("frame size {size} is above the limit of {limit} bytes")]
    TooLarge {
        /// Bytes the peer announced.
        size: u32,
        /// Bytes allowed.
        limit: u32,
    },
}

/// Judges a size prefix. `Ok` is the number of bytes that follow it.
///
/// # Errors
///
/// [`FrameError`], before the caller has allocated anything.
pub fn size(prefix: [u8; PREFIX_BYTES], limit: u32) -> Result<usize, FrameError> {
    let announced = i32::from_be_bytes(prefix);
    let size = u32::try_from(announced).map_err(|_| FrameError::Negative(announced))?;
    if size > limit {
        return Err(FrameError::TooLarge { size, limit });
    }
    // At most `i32::MAX`: fits a `usize` on every target with 32-bit pointers or wider.
    Ok(size as usize)
}

/// Takes one whole frame, without its prefix, from the front of `buffer`; `Ok(None)` when more
/// bytes are needed. Reserves nothing.
///
/// # Errors
///
/// [`FrameError`] as soon as the prefix is there.
pub fn take(buffer: &mut BytesMut, limit: u32) -> Result<Option<Bytes>, FrameError> {
    let Some(prefix) = buffer.first_chunk::<PREFIX_BYTES>() else {
        return Ok(None);
    };
    let size = size(*prefix, limit)?;
    if buffer.len() - PREFIX_BYTES < size {
        return Ok(None);
    }
    buffer.advance(PREFIX_BYTES);
    Ok(Some(buffer.split_to(size).freeze()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_refused_before_a_byte_of_it_is_asked_for() {
        assert_eq!(size([0, 0, 0, 0], 10), Ok(0));
        assert_eq!(size([0, 0, 0, 10], 10), Ok(10));
        assert_eq!(
            size([0, 0, 0, 11], 10),
            Err(FrameError::TooLarge {
                size: 11,
                limit: 10
            })
        );
        assert_eq!(
            size([0x7f, 255, 255, 255], 10),
            Err(FrameError::TooLarge {
                size: 0x7fff_ffff,
                limit: 10
            })
        );
        assert_eq!(
            size([255, 255, 255, 255], u32::MAX),
            Err(FrameError::Negative(-1))
        );
        let mut half = BytesMut::from(&[0x7f, 255, 255, 255, 1][..]);
        assert!(take(&mut half, 100).is_err());
        assert!(half.capacity() < 100);
    }

    #[test]
    fn frames_leave_in_order_and_halves_wait() {
        let mut buffer = BytesMut::from(&[0, 0, 0, 2, 7, 8, 0, 0, 0, 0, 0, 0, 0, 1][..]);
        assert_eq!(take(&mut buffer, 9), Ok(Some(Bytes::from_static(&[7, 8]))));
        assert_eq!(take(&mut buffer, 9), Ok(Some(Bytes::new())));
        assert_eq!(take(&mut buffer, 9), Ok(None));
        buffer.extend_from_slice(&[5]);
        assert_eq!(take(&mut buffer, 9), Ok(Some(Bytes::from_static(&[5]))));
    }
}
