//! `list`: one line for each check, without running any.

use std::io::Write as _;

use super::run::{no_target, select, start};
use super::{ALL_EXPECTED, Selection, usage};

pub(super) async fn list(selection: &Selection) -> u8 {
    let kind = match selection.kind() {
        Ok(kind) => kind,
        Err(message) => return usage(&message),
    };
    // Which checks there are depends on what the target advertises.
    let (_target, advertised) = match start(kind).await {
        Ok(started) => started,
        Err(why) => return no_target(&why),
    };
    let mut out = std::io::stdout().lock();
    for spec in select(selection, &advertised) {
        // Who stops reading (`| head`) has read enough.
        if writeln!(out, "{}\t{}\t{}", spec.id, spec.client, spec.title).is_err() {
            break;
        }
    }
    ALL_EXPECTED
}
