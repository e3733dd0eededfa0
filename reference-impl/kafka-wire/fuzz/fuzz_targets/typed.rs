//! What walk passes, the typed crate decodes to the last byte.
#![no_main]

use std::sync::LazyLock;

#[path = "../../tests/it/wire/typed_crate.rs"]
#[expect(dead_code, reason = "encoding again is for the tests")]
mod typed_crate;

static TYPED: LazyLock<Vec<typed_crate::Typed>> = LazyLock::new(typed_crate::typed);

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((message, version, body)) = kafka_wire::fuzz::pick(input) else { return };
    let Some(typed) = TYPED.iter().find(|typed| typed.message.name == message.name) else { return };
    if typed.versions.contains(version)
        && kafka_wire::fuzz::walks(message, version, body).is_some()
    {
        if let Err(fault) = (typed.decode)(body, version) {
            panic!("{} v{version}: {fault}", message.name);
        }
    }
});
