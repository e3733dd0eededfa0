//! Arbitrary bytes as frames.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| kafka_wire::fuzz::frames(input));
