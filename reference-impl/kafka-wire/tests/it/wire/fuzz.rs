//! The fuzz targets on stable, bounded: arbitrary bytes, and golden frames with bytes changed,
//! so that a good part gets deep.

use kafka_wire::api::ApiKey;
use kafka_wire::fuzz;
use proptest::prelude::*;

use super::golden::{self, Side};
use super::random::Dice;

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn arbitrary_bytes_as_frames(input: Vec<u8>) {
        fuzz::frames(&input);
    }

    #[test]
    fn arbitrary_bytes_as_bodies(input: Vec<u8>) {
        fuzz::body(&input);
    }

    #[test]
    fn arbitrary_bytes_as_blobs(input: Vec<u8>) {
        fuzz::blob(&input);
    }
}

/// The seed corpus of the target `body`: what [`fuzz::pick`] reads as each golden frame.
fn inputs() -> Vec<Vec<u8>> {
    let of = |golden: golden::Golden| {
        let side = match golden.side {
            Side::Request => 0,
            Side::Response => 1,
            Side::Blob => return None,
        };
        let version = golden.version - golden.message.versions.min;
        let mut input = vec![side, golden.key.0 as u8, version as u8];
        let (picked, picked_version, _) = fuzz::pick(&input).expect("picked");
        assert_eq!(
            (picked.name, picked_version),
            (golden.message.name, golden.version)
        );
        input.extend(golden.body());
        Some(input)
    };
    golden::all().into_iter().filter_map(of).collect()
}

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn golden_bodies_with_bytes_changed(seed: u64) {
        let mut dice = Dice(seed);
        for mut input in inputs() {
            fuzz::body(&input);
            for _ in 0..1 + dice.below(4) {
                let at = 3 + dice.below(input.len() as u64) as usize;
                match dice.below(3) {
                    0 => input.truncate(at),
                    1 => input.insert(at.min(input.len()), dice.next() as u8),
                    _ => {
                        if let Some(byte) = input.get_mut(at) {
                            *byte = dice.next() as u8;
                        }
                    }
                }
            }
            fuzz::body(&input);
        }
    }

    #[test]
    fn golden_frames_with_bytes_changed(seed: u64) {
        let mut dice = Dice(seed);
        for golden in golden::all().into_iter().filter(|golden| golden.side == Side::Request) {
            assert!(golden.key.0 < ApiKey::COUNT as i16);
            let mut input = (golden.frame.len() as u32).to_be_bytes().to_vec();
            input.extend(&golden.frame);
            fuzz::frames(&input);
            let at = 4 + dice.below(golden.frame.len() as u64) as usize;
            input[at] = dice.next() as u8;
            fuzz::frames(&input);
        }
    }
}
