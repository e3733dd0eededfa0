use rstest::rstest;

use super::super::variables::Group;
use super::*;

/// What a start needs, and nothing else.
const LEAST: (&str, &str) = ("QUEEN_KAFKA_ADVERTISED_ADDR", "kafka.example.com:9092");

fn parse(set: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let set = [LEAST].iter().chain(set);
    let variables = set.map(|(name, value)| (name.into(), value.into()));
    Config::from_variables(&variables.collect())
}

fn problems(set: &[(&str, &str)]) -> Vec<String> {
    let errors = parse(set).expect_err("refuses to start").0;
    let line = |p: Problem| format!("{} {}", p.variable, p.message);
    errors.into_iter().map(line).collect()
}

#[test]
fn the_least_start_has_the_defaults_of_the_seed() {
    let config = parse(&[]).unwrap();
    let local = Config::local();
    assert_eq!(config.queen_url.to_string(), "http://localhost:6632");
    assert_eq!(config.listen, HostPort::new("0.0.0.0", 9092));
    assert_eq!(config.advertised, HostPort::new("kafka.example.com", 9092));
    let same = Config {
        queen_url: config.queen_url.clone(),
        listen: config.listen.clone(),
        advertised: config.advertised.clone(),
        ..local
    };
    assert_eq!(config, same, "tests and the matrix start from the defaults");
    assert_eq!(config.default_partitions.get(), 1024);
    assert_eq!(config.groups.max_session_timeout, Duration::from_secs(300));
}

/// What must be set beside a variable that says nothing alone.
fn companions(variable: &Variable) -> Vec<(&'static str, &'static str)> {
    let mut companions = Vec::new();
    if variable.group == Group::Cluster {
        companions.push(("QUEEN_TOKEN", "t"));
        if *variable != var::NODE_ID {
            companions.push(("QUEEN_KAFKA_NODE_ID", "1"));
        }
    }
    companions
}

#[test]
fn every_default_is_what_its_own_row_takes() {
    for variable in var::ALL.iter() {
        if let Some(default) = variable.default {
            let companions = companions(variable);
            let mut pairs = companions.clone();
            pairs.push((variable.name, default));
            let set = parse(&pairs).expect(variable.name);
            assert_eq!(set, parse(&companions).unwrap(), "{}", variable.name);
        }
    }
}

#[test]
fn a_blank_variable_is_an_unset_one() {
    for variable in var::ALL.iter().filter(|v| **v != &var::ADVERTISED_ADDR) {
        for blank in ["", "  ", "\t\n"] {
            assert_eq!(
                parse(&[(variable.name, blank)]),
                parse(&[]),
                "{}",
                variable.name
            );
        }
    }
    let required = problems(&[("QUEEN_KAFKA_ADVERTISED_ADDR", " ")]);
    assert!(required[0].contains("is required"), "{required:?}");
    assert!(required[0].contains("QUEEN_KAFKA_ADDR"), "{required:?}");
}

#[test]
fn integers_take_their_range_and_nothing_else() {
    for variable in var::ALL {
        let Kind::Integer { min, max } = variable.kind else {
            continue;
        };
        let (below, above) = (min.checked_sub(1), max + 1);
        let outside = below.into_iter().chain([above]).map(|n| n.to_string());
        let garbage = [
            "-1",
            "+5",
            "5.0",
            "1e3",
            "0x10",
            "ten",
            "99999999999999999999",
        ];
        for text in outside.chain(garbage.map(str::to_owned)) {
            let said = problems(&[(variable.name, &text)]);
            let expected = format!(
                "{} is {text:?}; it takes a whole number from {min} to {max}",
                variable.name
            );
            assert!(said.contains(&expected), "{said:?}");
        }
        // The pair of session timeouts is narrowed together.
        let pair = [("QUEEN_KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS", "1")];
        for text in [min.to_string(), max.to_string()] {
            let mut set = pair.to_vec();
            set.extend(companions(variable));
            // The node stays live for three heartbeats at least.
            if variable == &&var::CLUSTER_HEARTBEAT_MS {
                set.push(("QUEEN_KAFKA_CLUSTER_TTL_MS", "120000"));
            }
            if variable == &&var::CLUSTER_TTL_MS {
                set.push(("QUEEN_KAFKA_CLUSTER_HEARTBEAT_MS", "1000"));
            }
            set.push((variable.name, &text));
            if variable == &&var::TXN_MAX_STAGED_BYTES {
                set.push(("QUEEN_KAFKA_TXN_MAX_BYTES", "65536"));
            }
            if variable.name.contains("MIN_SESSION") {
                set.push(("QUEEN_KAFKA_GROUP_MAX_SESSION_TIMEOUT_MS", "3600000"));
            }
            parse(&set).expect(variable.name);
        }
    }
}

#[rstest]
#[case::url(
    "QUEEN_URL",
    "localhost",
    "QUEEN_URL is \"localhost\": it must begin with http://, https:// or embedded:"
)]
#[case::credentials_are_not_repeated(
    "QUEEN_URL",
    "http://user:hunter2@queen:6632",
    "QUEEN_URL is \"http://[hidden]@queen:6632\": it must not carry credentials: they belong in QUEEN_TOKEN"
)]
#[case::queries_are_not_repeated(
    "QUEEN_URL",
    "http://queen:6632?token=hunter2",
    "QUEEN_URL is \"http://queen:6632?[hidden]\": it must not carry a query or a fragment"
)]
#[case::bind(
    "QUEEN_KAFKA_ADDR",
    "9092",
    "QUEEN_KAFKA_ADDR is \"9092\": it has no port; write host:port"
)]
#[case::http(
    "QUEEN_KAFKA_HTTP_ADDR",
    ":8080",
    "QUEEN_KAFKA_HTTP_ADDR is \":8080\": it has an empty host"
)]
#[case::switch(
    "QUEEN_KAFKA_AUTO_CREATE",
    "yes",
    "QUEEN_KAFKA_AUTO_CREATE is \"yes\"; it takes true or false"
)]
#[case::switch_case(
    "QUEEN_KAFKA_ADMIN",
    "TRUE",
    "QUEEN_KAFKA_ADMIN is \"TRUE\"; it takes true or false"
)]
#[case::sasl(
    "QUEEN_KAFKA_SASL",
    "scram",
    "QUEEN_KAFKA_SASL is \"scram\"; it takes plain"
)]
#[case::stage(
    "QUEEN_KAFKA_TXN_STAGE",
    "disk",
    "QUEEN_KAFKA_TXN_STAGE is \"disk\"; it takes memory or queen"
)]
#[case::cert(
    "QUEEN_KAFKA_TLS_CERT",
    "/c.pem",
    "QUEEN_KAFKA_TLS_CERT is set without QUEEN_KAFKA_TLS_KEY: TLS needs both files"
)]
#[case::sni(
    "QUEEN_KAFKA_FORWARD_SNI_HOST",
    "true",
    "QUEEN_KAFKA_FORWARD_SNI_HOST requires TLS: a plaintext connection carries no server name"
)]
#[case::sni_garbage(
    "QUEEN_KAFKA_FORWARD_SNI_HOST",
    "on",
    "QUEEN_KAFKA_FORWARD_SNI_HOST is \"on\"; it takes true or false"
)]
#[case::cluster(
    "QUEEN_KAFKA_CLUSTER",
    "prod",
    "QUEEN_KAFKA_CLUSTER is set without QUEEN_KAFKA_NODE_ID, which switches cluster mode on"
)]
#[case::filter(
    "LOG_LEVEL",
    "facade=loud",
    "LOG_LEVEL is \"facade=loud\": it is no log filter; write a level such as info, or target=level pairs with commas between"
)]
#[case::port_zero(
    "QUEEN_KAFKA_ADDR",
    "kafka:0",
    "QUEEN_KAFKA_ADDR is \"kafka:0\": it has the port \"0\", which is not a number from 1 to 65535"
)]
#[case::features(
    "QUEEN_KAFKA_FEATURES",
    "group.version",
    "QUEEN_KAFKA_FEATURES takes name=level pairs with commas between them"
)]
#[case::txn_bytes(
    "QUEEN_KAFKA_TXN_MAX_STAGED_BYTES",
    "1048576",
    "QUEEN_KAFKA_TXN_MAX_BYTES (8388608) must not be above QUEEN_KAFKA_TXN_MAX_STAGED_BYTES (1048576)"
)]
#[case::ttl(
    "QUEEN_KAFKA_CLUSTER_TTL_MS",
    "5000",
    "QUEEN_KAFKA_CLUSTER_TTL_MS must be at least three times the heartbeat (2000 ms)"
)]
#[case::sessions(
    "QUEEN_KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS",
    "300001",
    "QUEEN_KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS (300001) must not be above QUEEN_KAFKA_GROUP_MAX_SESSION_TIMEOUT_MS (300000)"
)]
fn a_bad_value_refuses_to_start_and_says_what_is_right(
    #[case] name: &'static str,
    #[case] value: &str,
    #[case] expected: &str,
) {
    let said = problems(&[(name, value)]);
    assert!(said.iter().any(|line| line == expected), "{said:#?}");
}

#[test]
fn no_refusal_repeats_a_huge_value() {
    let long = "A".repeat(120_000);
    for variable in var::ALL {
        let set = [("QUEEN_TOKEN", "t"), ("QUEEN_KAFKA_NODE_ID", "1")];
        let mut set = set.to_vec();
        set.retain(|(name, _)| *name != variable.name);
        set.push((variable.name, &long));
        if let Err(ConfigErrors(problems)) = parse(&set) {
            for problem in problems {
                assert!(problem.message.len() < 1024, "{}", problem.variable);
            }
        } else {
            // What takes any text is shown nowhere, or anything but `true` is false.
            let any_text = matches!(variable.kind, Kind::Token | Kind::OnlyTrue);
            assert!(any_text, "{} takes 120,000 characters", variable.name);
        }
    }
    let said = problems(&[("QUEEN_KAFKA_ADVERTISED_ADDR", &format!("{long}:9092"))]).join("\n");
    assert!(said.contains("a host of 120000 characters"), "{said}");
    assert!(said.contains("(120005 characters)"), "{said}");
}

#[test]
fn tls_needs_two_files_that_belong_together() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let pair = || rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let (ours, other) = (pair(), pair());
    let cert = write("cert.pem", &ours.cert.pem());
    let key = write("key.pem", &ours.signing_key.serialize_pem());
    let other_key = write("other.pem", &other.signing_key.serialize_pem());
    let set = |cert: &str, key: &str| {
        problems(&[("QUEEN_KAFKA_TLS_CERT", cert), ("QUEEN_KAFKA_TLS_KEY", key)])
    };
    let security = parse(&[
        ("QUEEN_KAFKA_TLS_CERT", &cert),
        ("QUEEN_KAFKA_TLS_KEY", &key),
        ("QUEEN_KAFKA_SASL", "PLAIN"),
        ("QUEEN_KAFKA_FORWARD_SNI_HOST", "true"),
        ("QUEEN_KAFKA_REAUTH_MS", "60000"),
    ]);
    let security = security.unwrap().security;
    assert!(security.tls.is_some() && security.forward_sni_host);
    assert_eq!(security.sasl, Some(Mechanism::Plain));
    assert_eq!(security.reauth, Some(Duration::from_secs(60)));
    let expected = format!(
        "QUEEN_KAFKA_TLS_KEY is {other_key:?}: the private key does not belong to the certificate"
    );
    assert!(set(&cert, &other_key).contains(&expected));
    let missing = directory.path().join("none.pem");
    let said = set(missing.to_str().unwrap(), &key).join("\n");
    assert!(
        said.contains("QUEEN_KAFKA_TLS_CERT is ") && said.contains("cannot be read"),
        "{said}"
    );
    let said = set(&key, &cert).join("\n");
    assert!(said.contains("holds no certificate"), "{said}");
}

#[test]
fn everything_wrong_is_said_at_once_and_no_token_is() {
    let said = problems(&[
        ("QUEEN_KAFKA_ADVERTISED_ADDR", "0.0.0.0:9092"),
        ("QUEEN_TOKEN", "hunter2\u{7f}"),
        ("QUEEN_KAFKA_MAX_CONNECTIONS", "1"),
        ("LOG_LEVEL", "facade=loud"),
    ]);
    let names: Vec<&str> = said
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    let expected = [
        "QUEEN_TOKEN",
        "QUEEN_KAFKA_ADVERTISED_ADDR",
        "QUEEN_KAFKA_MAX_CONNECTIONS",
        "LOG_LEVEL",
    ];
    assert_eq!(names, expected);
    assert!(!said.join("\n").contains("hunter2"));
}

#[test]
fn rust_log_wins_and_only_true_is_json() {
    let log = |set: &[(&str, &str)]| parse(set).unwrap().log;
    assert_eq!(log(&[("LOG_LEVEL", "debug")]).filter, "debug");
    assert_eq!(
        log(&[("LOG_LEVEL", "debug"), ("RUST_LOG", "facade=trace")]).filter,
        "facade=trace"
    );
    assert!(log(&[("QUEEN_LOG_JSON", "true")]).json);
    assert!(!log(&[("QUEEN_LOG_JSON", "1")]).json);
}

#[test]
fn a_misspelt_name_is_found() {
    let names = [
        "QUEEN_KAFKA_ADRR",
        "QUEEN_KAFKA_ADDR",
        "QUEEN_KAFKA_BIN",
        "PATH",
        "QUEEN_URL",
    ];
    assert_eq!(var::unknown(names), ["QUEEN_KAFKA_ADRR"]);
}
