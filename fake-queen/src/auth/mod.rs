//! Who may call which route (contract section 1.2): JSON web tokens with a shared secret, as a
//! broker with `JWT_ENABLED` asks for. Off by default, as there.

mod level;
mod token;

use http::HeaderMap;
use http::header::AUTHORIZATION;

pub use self::level::{Level, Role};
pub use self::token::Key;

use self::token::Claims;
use crate::http::error::ApiError;

/// Refuses a call that its token does not allow. The scheme's word is optional, and any case.
///
/// # Errors
/// [`ApiError::Unauthenticated`] with a broker's own words, [`ApiError::Forbidden`].
pub fn authorize(
    key: &Key,
    level: Level,
    headers: &HeaderMap,
    now_ms: i64,
) -> Result<(), ApiError> {
    if level == Level::Public {
        return Ok(());
    }
    let header = headers.get(AUTHORIZATION).map(http::HeaderValue::to_str);
    let text = match header {
        None => return Err(ApiError::Unauthenticated("Authentication required")),
        Some(Err(_)) => return Err(ApiError::Unauthenticated("Bad token header")),
        Some(Ok(text)) => text,
    };
    let token = match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token,
        _ => text,
    };
    let Claims { roles } = key.verify(token.trim(), now_ms)?;
    match roles.iter().any(|role| level.admits(*role)) {
        true => Ok(()),
        false => Err(ApiError::Forbidden),
    }
}
