//! Groups 6, 10 and 11: the catalogue, configuration, removal, Kafka's groups.

use http::Method;
use serde_json::{Value, json};

use crate::conformance::client::{Failure, Probe, ensure};

async fn listed(probe: &Probe, queue: &str) -> Result<Value, Failure> {
    let list = probe.get("resources/queues").await?;
    let found = list["queues"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|row| row["name"] == queue);
    Ok(found.cloned().unwrap_or_default())
}

pub async fn lane_count(probe: &Probe) -> Result<(), Failure> {
    let queue = probe.fresh();
    let made = probe
        .post("configure", 200, json!({ "queue": queue }))
        .await?;
    ensure!(
        made["configured"] == true && made["partitionId"].is_null(),
        "configure answered {made}"
    );
    let row = listed(probe, &queue).await?;
    ensure!(row["partitions"] == 0, "configured, listed as {row}");
    ensure!(
        row["id"] == made["queueId"],
        "configured {made}, listed {row}"
    );
    probe.push(&queue, "5", &[json!(1)]).await?;
    let row = listed(probe, &queue).await?;
    ensure!(row["partitions"] == 1, "pushed to 5, listed as {row}");
    Ok(())
}

pub async fn merge(probe: &Probe) -> Result<(), Failure> {
    let queue = probe.fresh();
    let retention = json!({"queue": queue, "retentionEnabled": true, "retentionSeconds": 86_400});
    probe.post("configure", 200, retention).await?;
    let body = json!({"queue": queue, "options": {"leaseTime": 77}});
    probe.post("configure", 200, body).await?;
    let detail = probe.get(&format!("resources/queues/{queue}")).await?;
    let options = &detail["options"];
    ensure!(
        options["retentionSeconds"] == 86_400
            && options["retentionEnabled"] == true
            && options["leaseTime"] == 77,
        "after two calls: {options}"
    );
    let body = json!({"queue": queue, "retentionSeconds": null});
    probe.post("configure", 200, body).await?;
    let detail = probe.get(&format!("resources/queues/{queue}")).await?;
    ensure!(
        detail["options"]["retentionSeconds"] == 0 && detail["options"]["leaseTime"] == 77,
        "after null: {}",
        detail["options"]
    );
    Ok(())
}

pub async fn delete_twice(probe: &Probe) -> Result<(), Failure> {
    let queue = probe.fresh();
    probe.push(&queue, "0", &[json!(1), json!(2)]).await?;
    let id = listed(probe, &queue).await?["id"].clone();
    let route = format!("resources/queues/{queue}");
    for deleted in [true, false] {
        let answer = probe
            .expect(Method::DELETE, &route, 200, &Value::Null)
            .await?
            .json()?;
        ensure!(
            answer["deleted"] == deleted && answer["existed"] == deleted,
            "expected deleted:{deleted}, got {answer}"
        );
    }
    let again = probe.push(&queue, "0", &[json!(3)]).await?;
    ensure!(
        again[0]["offset"] == 0,
        "made anew, it answered {}",
        again[0]
    );
    let row = listed(probe, &queue).await?;
    ensure!(row["id"] != id, "made anew, it has the old id {id}");
    Ok(())
}

pub async fn kafka_group(probe: &Probe) -> Result<(), Failure> {
    let (queue, group) = (probe.fresh(), probe.fresh());
    let payloads = [json!(1), json!(2), json!(3), json!(4), json!(5)];
    probe.push(&queue, "3", &payloads).await?;
    let row = json!({"op": "put", "ns": "queen-kafka", "key": format!("qk:group:{group}:{queue}:3"),
        "value": {"offset": 2, "metadata": "", "ts": 0}, "ttlSeconds": 60});
    probe.post("kv", 200, json!([row])).await?;
    let groups = probe.get("consumer-groups").await?;
    let shown = groups
        .as_array()
        .into_iter()
        .flatten()
        .find(|row| row["name"] == group.as_str())
        .cloned()
        .unwrap_or_default();
    ensure!(
        shown["kind"] == "kafka" && shown["totalLag"] == 3 && shown["queueName"] == queue.as_str(),
        "committed 2 of 5, shown as {shown}"
    );
    Ok(())
}
