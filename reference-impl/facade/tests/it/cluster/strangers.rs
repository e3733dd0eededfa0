//! Rows in the registry that no node wrote: whoever may write there hides no node and sends no client
//! astray.

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{A_MOMENT, HEARTBEAT, cluster, join, node, three};
use crate::rig::Rig;
use coordinator::cluster::Standing;

fn seen(rig: &Rig) -> Vec<i32> {
    let brokers = rig.node.view().brokers();
    brokers.iter().map(|broker| broker.id.0).collect()
}

fn row(id: i32, host: &str, port: u32) -> Value {
    json!({"nodeId": id, "host": host, "port": port, "incarnation": "x", "since": 1, "version": "1"})
}

#[tokio::test(start_paused = true)]
async fn foreign_rows_hide_no_node_however_many_they_are() {
    let (rigs, _lives) = three().await;
    for n in 0..130 {
        let key = format!("qk:node:queen:!{n:03}");
        rigs[0].put_row(&key, &json!("junk")).await;
    }
    sleep(HEARTBEAT * 2 + A_MOMENT).await;
    for rig in &rigs {
        assert_eq!(seen(rig), [1, 2, 3]);
        assert_eq!(cluster(rig).live().len(), 3, "its own row is seen");
        assert_eq!(cluster(rig).standing(), Standing::Coordinating);
    }
}

#[tokio::test(start_paused = true)]
async fn rows_that_clients_cannot_be_told_of_are_of_no_node() {
    let rig = Rig::start_with(fake_queen::Options::default(), node(1)).await;
    let _life = join(&rig).await;
    let rows = [
        row(2, &"a".repeat(40_000), 9092),
        row(3, "", 9092),
        row(4, "two lines\nand a \u{0}", 9092),
        row(5, "kafka.example", 0),
        row(6, "kafka.example", 70_000),
        json!([7, "kafka.example", 9092, "x", 1, "1"]),
        json!("a string"),
        row(9, "kafka.example", 9092),
    ];
    for (id, row) in (2..).zip(&rows) {
        rig.put_row(&format!("qk:node:queen:{id}"), row).await;
    }
    for key in ["09", "+9", "65", "0", "-1"] {
        let key = format!("qk:node:queen:{key}");
        rig.put_row(&key, &row(9, "other.example", 9092)).await;
    }
    sleep(HEARTBEAT + A_MOMENT).await;
    assert_eq!(seen(&rig), [1, 9]);
    let nine = rig.node.view().brokers().remove(1);
    assert_eq!(&*nine.host, "kafka.example");
}

#[tokio::test(start_paused = true)]
async fn rows_as_large_as_rows_may_be_are_all_read() {
    let rig = Rig::start_with(fake_queen::Options::default(), node(64)).await;
    let _life = join(&rig).await;
    for id in 1..64 {
        let mut large = row(id, "kafka.example", 9092);
        large["padding"] = Value::from("p".repeat(65_000));
        rig.put_row(&format!("qk:node:queen:{id}"), &large).await;
    }
    sleep(HEARTBEAT * 2 + A_MOMENT).await;
    assert_eq!(seen(&rig), (1..=64).collect::<Vec<_>>());
    assert_eq!(cluster(&rig).standing(), Standing::Coordinating);
}
