//! Randomness of one node: the operating system's generator, or bytes from the simulation's seed.

use std::fmt::Debug;

/// A source of random bytes.
pub trait Entropy: Debug + Send + Sync + 'static {
    /// Fills `bytes`. Never fails: a machine without entropy can't run a node.
    fn fill(&self, bytes: &mut [u8]);

    /// A uniform 64-bit number.
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Sixteen random bytes with the version and variant bits of a random UUID (RFC 9562, version 4).
    fn uuid_v4(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        bytes
    }
}
