//! Cost grows with the members touched, not with their square.

use super::world::*;
use crate::classic::*;

#[test]
fn five_thousand_members_form_one_generation() {
    let mut world = World::new();
    // Without `settle`: it checks every member at every step.
    let members = 5000;
    for n in 0..members {
        let request = JoinRequest {
            random: (n as u128).to_be_bytes(),
            ..old_consumer("storm")
        };
        world.group.handle_join(world.now, request, CallToken(n));
    }
    while world.group.parked_calls() > 0 {
        let due = world.group.next_deadline().unwrap();
        world.group.handle_timeout(due);
    }
    let (mut answers, mut roster) = (0, 0);
    while let Some(effect) = world.group.poll_effect() {
        if let Effect::Join(_, answer) = effect {
            let joined = answer.unwrap();
            assert_eq!(joined.generation_id, GenerationId(1));
            roster += joined.members.len();
            answers += 1;
        }
    }
    assert_eq!(
        (answers, roster),
        (5000, 5000),
        "only the leader gets the roster"
    );
    assert_eq!(world.group.members(), 5000);
    world.group.check();
}
