//! Arbitrary bytes as the body of any message, walked, named and spliced.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| kafka_wire::fuzz::body(input));
