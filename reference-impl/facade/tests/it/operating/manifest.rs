//! `kubernetes.yaml`: the variables exist, and every node has an address of its own.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{read, yaml};

const MANIFEST: &str = "docs/facade/kubernetes.yaml";
const VARIABLES: &str = "docs/facade/variables.md";

fn of_kind<'a>(documents: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let is_kind = |document: &&Value| document["kind"] == kind;
    documents.iter().filter(is_kind).collect()
}

fn port(document: &Value, list: &str, name: &str) -> Option<i64> {
    let ports = document.pointer(list)?.as_array()?;
    let port = ports.iter().find(|port| port["name"] == name)?;
    port.get("port").or(port.get("containerPort"))?.as_i64()
}

#[test]
fn the_manifest_gives_every_node_its_own_address_and_sets_what_exists() {
    let documents = yaml(MANIFEST);
    let sets = of_kind(&documents, "StatefulSet");
    let [set] = sets[..] else {
        panic!("one StatefulSet");
    };
    let container = set
        .pointer("/spec/template/spec/containers/0")
        .expect("a container");

    // Whoever the address is told to must reach this pod and no other.
    let name = set.pointer("/spec/serviceName").expect("a service");
    let services = of_kind(&documents, "Service");
    let headless = services
        .iter()
        .find(|service| &service["metadata"]["name"] == name);
    let headless = headless.expect("the service of the set");
    assert_eq!(headless["spec"]["clusterIP"], "None");
    // Clients have to reach a node whose Queen is away: it answers them from what it knows.
    assert_eq!(headless["spec"]["publishNotReadyAddresses"], true);
    for service in &services {
        let selector = &service["spec"]["selector"];
        assert_eq!(
            selector,
            set.pointer("/spec/selector/matchLabels").expect("labels")
        );
    }

    // Draining machines takes one node at a time, and never none.
    let budgets = of_kind(&documents, "PodDisruptionBudget");
    let [budget] = budgets[..] else {
        panic!("one PodDisruptionBudget");
    };
    assert_eq!(budget["apiVersion"], "policy/v1");
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
    assert!(budget["spec"]["minAvailable"].is_null(), "one of the two");
    assert_eq!(
        budget.pointer("/spec/selector/matchLabels"),
        set.pointer("/spec/selector/matchLabels")
    );
    let replicas = set.pointer("/spec/replicas").and_then(Value::as_u64);
    assert!(
        replicas > Some(1),
        "a budget of one node more than there are"
    );

    let page = read(VARIABLES);
    let mut variables: BTreeMap<&str, &Value> = BTreeMap::new();
    for variable in container["env"].as_array().expect("variables") {
        let name = variable["name"].as_str().expect("a name");
        assert!(
            variables.insert(name, variable).is_none(),
            "{name} is set twice"
        );
        let is_ours = name.starts_with("QUEEN_") || name.ends_with("_LEVEL");
        if is_ours {
            let row = page
                .lines()
                .find(|line| line.starts_with(&format!("| `{name}` |")));
            let row = row.unwrap_or_else(|| panic!("{name} is no variable"));
            assert!(!row.contains("Not built"), "{name} would refuse to start");
        } else {
            assert!(name.starts_with("POD_"), "{name} is nobody's");
        }
    }
    let value = |name: &str| variables[name]["value"].as_str().unwrap_or_default();
    let kafka = port(container, "/ports", "kafka").expect("a Kafka port");
    let http = port(container, "/ports", "http").expect("an HTTP port");
    let service = name.as_str().expect("a name");
    assert_eq!(
        value("QUEEN_KAFKA_ADVERTISED_ADDR"),
        format!("$(POD_NAME).{service}.$(POD_NAMESPACE).svc.cluster.local:{kafka}")
    );
    assert_eq!(value("QUEEN_KAFKA_ADDR"), format!("0.0.0.0:{kafka}"));
    assert_eq!(value("QUEEN_KAFKA_HTTP_ADDR"), format!("0.0.0.0:{http}"));
    assert!(
        variables["QUEEN_TOKEN"]
            .pointer("/valueFrom/secretKeyRef")
            .is_some()
    );

    for (probe, path) in [("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
        let get = &container[probe]["httpGet"];
        assert_eq!((&get["path"], &get["port"]), (&path.into(), &"http".into()));
    }
    // The number of a node is its ordinal and one, which the shell in front of it computes.
    let script = container["command"]
        .as_array()
        .and_then(|command| command.last());
    let script = script.and_then(Value::as_str).expect("a script");
    assert!(
        script.contains("exec"),
        "signals must reach the facade: {script}"
    );
    let row = page
        .lines()
        .find(|line| line.starts_with("| `QUEEN_KAFKA_NODE_ID` |"));
    assert!(
        !row.expect("a row").contains("Not built"),
        "it would refuse to start"
    );
    assert!(script.contains("QUEEN_KAFKA_NODE_ID"), "{script}");
    let computed = script.replace("exec queen-kafka", "echo $QUEEN_KAFKA_NODE_ID");
    for (pod, number) in [("queen-kafka-0", "1"), ("queen-kafka-11", "12")] {
        let shell = std::process::Command::new("/bin/sh")
            .args(["-c", &computed])
            .env("POD_NAME", pod)
            .output()
            .expect("a shell");
        assert_eq!(String::from_utf8_lossy(&shell.stdout).trim(), number);
    }
}
