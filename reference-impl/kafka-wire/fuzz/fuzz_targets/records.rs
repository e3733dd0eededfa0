//! Arbitrary bytes as a RECORDS field, as they come and with length, magic and CRC made right.
#![no_main]

use kafka_wire::records::fuzz;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    fuzz::read(input);
    fuzz::read_sealed(input);
});
