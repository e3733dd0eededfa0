//! KV versions: unique, never ordered. Drawn from a shuffled block, so that a client that compares
//! them by size is caught (contract section 12.2, 6).

use host::Entropy;

/// Versions per block. A restart begins a new block.
const BLOCK: u64 = 64;

/// The rest of the current block.
#[derive(Debug, Default)]
pub struct Versions {
    left: Vec<u64>,
}

impl Versions {
    /// The next version. Takes block number `next_block` and moves it on when the last is used up.
    pub fn next(&mut self, next_block: &mut u64, entropy: &dyn Entropy) -> u64 {
        if let Some(version) = self.left.pop() {
            return version;
        }
        // 0 means "no row", so versions start at 1.
        let first = *next_block * BLOCK + 1;
        *next_block += 1;
        self.left = (first..first + BLOCK).collect();
        for at in (1..self.left.len()).rev() {
            let other = entropy.next_u64() % (at as u64 + 1);
            self.left.swap(at, usize::try_from(other).unwrap_or(0));
        }
        self.left.pop().unwrap_or(first)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn versions_are_unique_and_not_rising() {
        let (mut versions, mut block) = (Versions::default(), 0);
        let drawn: Vec<u64> = (0..1000)
            .map(|_| versions.next(&mut block, &host::os::OsEntropy))
            .collect();
        assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), drawn.len());
        assert!(!drawn.contains(&0));
        assert!(!drawn.is_sorted());
        assert_eq!(block, 1000_u64.div_ceil(BLOCK));
    }
}
