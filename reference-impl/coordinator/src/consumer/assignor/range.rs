//! Neighbouring partitions to each member (Kafka's `RangeAssignor` of the coordinator).
//!
//! Members are in one order for all topics, static ones first by instance, so that partitions of
//! the same number of co-partitioned topics meet in one member.

use super::super::ids::{Partitions, TopicPartition};
use super::GroupSpec;

pub(super) fn assign(group: &GroupSpec<'_>) -> Vec<Partitions> {
    let mut assigned = vec![Partitions::new(); group.members.len()];
    for class in group.classes() {
        let mut members = class.members;
        members.sort_by_key(|&index| {
            let member = &group.members[index];
            (
                member.instance_id.is_none(),
                member.instance_id,
                member.member_id,
            )
        });
        for topic in class.topics {
            // At most 2^31 partitions, and fewer members.
            let width = usize::try_from(group.width(topic)).unwrap_or(0);
            let (quota, extra) = (width / members.len(), width % members.len());
            let mut next = 0_i32;
            for (place, &index) in members.iter().enumerate() {
                for _ in 0..quota + usize::from(place < extra) {
                    assigned[index].insert(TopicPartition::new(topic, next));
                    next += 1;
                }
            }
        }
    }
    assigned
}
