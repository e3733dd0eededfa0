//! Numbers from a seed. Our own generator, so that a stored seed means the same run after every
//! update of a dependency.

/// A stream of numbers that depends on its seed and its label alone: what one part of a world
/// draws never moves what another draws.
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// The stream called `label` of the world with `seed`.
    pub fn new(seed: u64, label: &str) -> Self {
        // FNV-1a spreads the label; one step of the generator then spreads the seed.
        let label = label
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
        let mut numbers = Self(seed);
        let spread = numbers.draw();
        Self(spread ^ label)
    }

    /// The next number (SplitMix64).
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 when `bound` is 0. The bias of the remainder is below 2^-32 for
    /// every bound used here.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    /// Heads or tails.
    pub fn coin(&mut self) -> bool {
        self.draw() & 1 == 1
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let number = self.draw().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(seed: u64, label: &str) -> [u64; 4] {
        let mut numbers = Numbers::new(seed, label);
        std::array::from_fn(|_| numbers.draw())
    }

    #[test]
    fn a_stream_is_its_seed_and_its_label() {
        assert_eq!(first(1, "queen"), first(1, "queen"));
        assert_ne!(first(1, "queen"), first(2, "queen"));
        assert_ne!(first(1, "queen"), first(1, "facade"));
    }

    #[test]
    fn the_generator_is_splitmix64() {
        // The reference implementation's first outputs for seed 1234567.
        let mut numbers = Numbers(1_234_567);
        assert_eq!(numbers.draw(), 6_457_827_717_110_365_317);
        assert_eq!(numbers.draw(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn bytes_of_every_length_are_filled() {
        let mut bytes = [0; 13];
        Numbers::new(7, "bytes").fill(&mut bytes);
        assert!(bytes.iter().filter(|byte| **byte != 0).count() > 8);
    }
}
