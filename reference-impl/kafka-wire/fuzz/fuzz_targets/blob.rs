//! Arbitrary bytes as blobs of the consumer protocol.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| kafka_wire::fuzz::blob(input));
