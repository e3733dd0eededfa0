//! A run with one check of each kind, and text that tries to be markup.

use reports::{
    ApiUse, Check, Decoded, Difference, Evidence, Exchange, Frame, Outcome, Received, Run, Window,
};

/// What would break a page, a table or a document that does not escape it.
pub const NASTY: &str =
    "</script><b>\"quoted\" & 'said' |pipe| `tick` ]]> <!-- \u{2028} \u{1} line\nbreak";

pub fn window(key: i16, name: &str, min: i16, max: i16) -> Window {
    Window {
        key,
        name: name.into(),
        min,
        max,
    }
}

pub fn run() -> Run {
    Run {
        target: "facade".into(),
        describes: format!("a server {NASTY}"),
        command: "compat-matrix run".into(),
        started_epoch_ms: 1_796_065_598_806,
        duration_ms: 61_234,
        advertised: vec![
            window(0, "Produce", 0, 13),
            window(3, "Metadata", 0, 13),
            window(19, "CreateTopics", 2, 7),
        ],
        suite: "1.2".into(),
    }
}

pub fn check(id: &str, client: &str, api: (i16, &str, &[i16]), outcome: Outcome) -> Check {
    Check {
        id: id.into(),
        title: format!("{id} behaves"),
        target: "facade".into(),
        client: client.into(),
        apis: vec![ApiUse {
            key: api.0,
            name: api.1.into(),
            versions: api.2.to_vec(),
        }],
        kips: vec![],
        observed: Vec::new(),
        outcome,
        reason: (outcome != Outcome::Pass).then(|| "because".into()),
        expected: outcome != Outcome::Fail,
        evidence: Evidence::default(),
        duration_ms: 12,
    }
}

pub fn checks() -> Vec<Check> {
    fn produce(versions: &[i16]) -> (i16, &str, &[i16]) {
        (0, "Produce", versions)
    }
    fn metadata(versions: &[i16]) -> (i16, &str, &[i16]) {
        (3, "Metadata", versions)
    }
    let mut failing = check(
        "wire/metadata/v9/topic",
        "wire",
        metadata(&[9]),
        Outcome::Fail,
    );
    failing.reason = Some(NASTY.into());
    failing.kips = vec![516];
    failing.evidence = Evidence {
        difference: Some(Difference {
            path: "Topics[0].ErrorCode".into(),
            expected: "NONE".into(),
            got: NASTY.into(),
        }),
        exchanges: vec![
            Exchange {
                what: "Metadata v9".into(),
                sent: Frame::new(b"sent", Decoded::new(&serde_json::json!({"Topics": []}))),
                received: Received::Frame(Frame::new(
                    &[0xab; 200],
                    Decoded::new(&serde_json::json!({
                        "ThrottleTimeMs": 0,
                        "Topics": [{"ErrorCode": "3 UNKNOWN_TOPIC_OR_PARTITION", "Name": NASTY}],
                    })),
                )),
                after_ms: 3,
            },
            Exchange {
                what: "Metadata v9, cut".into(),
                sent: Frame::new(b"", None),
                received: Received::Closed("reset".into()),
                after_ms: 0,
            },
        ],
        log: vec!["first line".into(), NASTY.into()],
        ..Evidence::default()
    };
    failing.evidence.facts.insert("answers".into(), 5.into());
    let mut surprising = check(
        "wire/create-topics/v7/x",
        "wire",
        (19, "CreateTopics", &[7]),
        Outcome::Pass,
    );
    surprising.expected = false;
    surprising.reason = Some("passed, but is foreseen to be refused".into());
    vec![
        check(
            "wire/produce/v3/acks-all",
            "wire",
            produce(&[3]),
            Outcome::Pass,
        ),
        check(
            "wire/produce/v4/acks-all",
            "wire",
            produce(&[4]),
            Outcome::Pass,
        ),
        check(
            "wire/produce/v4/other",
            "wire",
            produce(&[4]),
            Outcome::Refused,
        ),
        failing,
        check(
            "wire/metadata/v12/topic",
            "wire",
            metadata(&[12]),
            Outcome::Pass,
        ),
        check(
            "wire/key-004/unadvertised",
            "wire",
            (4, "LeaderAndIsr", &[]),
            Outcome::Pass,
        ),
        check(
            "wire/describe-acls/unwritten",
            "wire",
            (29, "DescribeAcls", &[]),
            Outcome::Skipped,
        ),
        surprising,
        check(
            "scenario/produce",
            "librdkafka 2.12.1",
            produce(&[9]),
            Outcome::Pass,
        ),
    ]
}
