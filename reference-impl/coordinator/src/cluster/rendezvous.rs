//! Highest-random-weight hashing, to the bit as Queen's facade computes it (contract section 9.5).
//!
//! The tenant is no input: every node must come to one owner whatever it knows of tenants.

use super::NodeId;

/// What is owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A partition of a topic: its advertised leader.
    Partition(&'a str, i32),
    /// A consumer group: its coordinator.
    Group(&'a str),
    /// A transactional id: its coordinator.
    Transaction(&'a str),
}

const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// FNV-1a of what was fed so far.
struct Fnv(u64);

impl Fnv {
    fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    }

    /// A number in decimal digits, and nothing allocated for it.
    fn feed_decimal(&mut self, number: i32) {
        let mut digits = [0; 11];
        let mut at = digits.len();
        let mut rest = number.unsigned_abs();
        loop {
            at -= 1;
            // A digit fits.
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            at -= 1;
            digits[at] = b'-';
        }
        self.feed(&digits[at..]);
    }
}

/// The finaliser of splitmix64.
const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The weight of `node` for `item`.
pub fn score(item: Item<'_>, node: NodeId) -> u64 {
    let mut hash = Fnv(BASIS);
    match item {
        Item::Partition(topic, partition) => {
            hash.feed(&[1, 0]);
            hash.feed(topic.as_bytes());
            hash.feed(&[0]);
            hash.feed_decimal(partition);
        }
        Item::Group(group) => {
            hash.feed(&[2, 0]);
            hash.feed(group.as_bytes());
        }
        Item::Transaction(id) => {
            hash.feed(&[3, 0]);
            hash.feed(id.as_bytes());
        }
    }
    hash.feed(&[0]);
    hash.feed_decimal(node.0);
    mix(hash.0)
}

/// The owner of `item` among `live`: the highest score, the lowest id among equals. `None` when
/// nobody is live.
pub fn owner(item: Item<'_>, live: impl IntoIterator<Item = NodeId>) -> Option<NodeId> {
    let weighed = live.into_iter().map(|node| (score(item, node), node));
    let best = weighed.max_by(|(a, one), (b, other)| a.cmp(b).then(other.cmp(one)));
    best.map(|(_, node)| node)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Item::Partition("orders", 0), 1, 0x0b1a_301a_d570_4724)]
    #[case(Item::Partition("orders", 0), 2, 0x563e_299a_5ff8_6bb6)]
    #[case(Item::Partition("orders", 1), 1, 0x25b3_8eb2_f1c2_1846)]
    #[case(Item::Partition("orders", 7), 3, 0x86b9_8cd3_7f13_1fc7)]
    #[case(Item::Group("orders-consumer"), 1, 0x3437_e6ea_2005_0dc2)]
    #[case(Item::Group("orders-consumer"), 2, 0xff65_307c_19dd_155e)]
    #[case(Item::Group("orders-consumer"), 3, 0x8f3d_a208_4947_94ac)]
    #[case(Item::Group(""), 1, 0xd27a_1377_1d92_b307)]
    #[case(Item::Group("a group with spaces"), 64, 0x302d_0d1e_07a3_1b9f)]
    #[case(Item::Transaction("tx-1"), 1, 0x56f5_e142_7f02_31ec)]
    #[case(Item::Transaction("tx-1"), 2, 0x7a60_7930_6c93_4186)]
    fn scores_are_those_of_the_contract(
        #[case] item: Item<'_>,
        #[case] node: i32,
        #[case] expected: u64,
    ) {
        assert_eq!(score(item, NodeId(node)), expected);
        assert_eq!(mix(0), 0);
    }

    #[rstest]
    #[case(Item::Group("orders-consumer"), 2)]
    #[case(Item::Partition("orders", 0), 2)]
    #[case(Item::Partition("orders", 7), 1)]
    #[case(Item::Partition("orders", 1), 3)]
    fn owners_are_those_of_the_contract(#[case] item: Item<'_>, #[case] expected: i32) {
        assert_eq!(owner(item, [3, 1, 2].map(NodeId)), Some(NodeId(expected)));
        assert_eq!(owner(item, []), None);
    }

    proptest! {
        #[test]
        fn only_what_a_lost_node_owned_moves(group in ".{0,12}", gone in 1..=5) {
            let all = (1..=5).map(NodeId);
            let before = owner(Item::Group(&group), all.clone());
            let after = owner(Item::Group(&group), all.filter(|node| node.0 != gone));
            if before == Some(NodeId(gone)) {
                prop_assert_ne!(after, before);
            } else {
                prop_assert_eq!(after, before);
            }
        }
    }
}
