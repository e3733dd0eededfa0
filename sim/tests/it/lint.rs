//! What clippy's list can't see: sources of chance in code that runs in the simulation. A run that
//! is not the same again in another process proves nothing.

use std::path::{Path, PathBuf};

/// The sources of every crate that is simulated.
const SIMULATED: &[&str] = &[
    "fake-queen/src",
    "reference-impl/coordinator/src",
    "reference-impl/facade/src",
    "reference-impl/host/src",
    "reference-impl/kafka-wire/src",
    "sim/history/src",
    "sim/src",
];

/// What must not be there, and why.
const FORBIDDEN: &[(&str, &str)] = &[
    ("HashMap", "its order differs between processes"),
    ("HashSet", "its order differs between processes"),
    ("RandomState", "it differs between processes"),
    ("DefaultHasher", "it may differ between compilers"),
    (
        "std::time::Instant",
        "it is the machine's; tokio's is the world's",
    ),
    ("SystemTime::now", "it is the machine's"),
    ("thread_rng", "use host::Entropy"),
    ("rand::", "use host::Entropy"),
    ("getrandom::", "use host::Entropy"),
    ("new_v4", "use host::Entropy"),
    ("now_v7", "use host::Entropy and host::Clock"),
    ("std::thread::", "simulated code has no threads"),
    ("spawn_blocking", "use host::blocking"),
    ("block_in_place", "use host::blocking"),
    ("tokio::net::", "use host::Net"),
    ("std::net::TcpListener", "use host::Net"),
    ("std::net::TcpStream", "use host::Net"),
    ("UdpSocket", "use host::Net"),
    ("std::process::id", "it differs between processes"),
    ("std::env::", "a run depends on nothing but itself"),
    (
        "futures::select!",
        "it begins anywhere; use tokio's, biased",
    ),
    ("{:p}", "addresses differ between processes"),
];

/// Where it is right all the same, and why.
const ALLOWED: &[(&str, &str)] = &[
    // The real machine, which the simulated one stands in for.
    ("reference-impl/host/src/os.rs", ""),
    ("reference-impl/host/src/blocking.rs", "spawn_blocking"),
    // Whether a writer is dropped by a panic; decides nothing else.
    ("fake-queen/src/engine/writer.rs", "std::thread::"),
    // What only a process of its own runs: arguments, variables, signals.
    ("reference-impl/facade/src/boot.rs", ""),
    ("fake-queen/src/main.rs", ""),
    // The system's certificate authorities, which only a process of its own asks for.
    ("reference-impl/host/src/tls/client.rs", "std::env::"),
    ("sim/src/cli/sweep/pool.rs", ""),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("readable").path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.unwrap_or_default().to_owned();
        if path.is_dir() {
            if name != "tests" {
                sources(&path, found);
            }
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// What is wrong in one file's text, with its line. Tests at its end, and comments, may say what
/// they want.
fn faults(text: &str) -> Vec<(usize, String)> {
    let shipped = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines: Vec<&str> = shipped.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with("//") {
            continue;
        }
        for (needle, why) in FORBIDDEN {
            let begins_a_word = |at: usize| {
                let before = line[..at].chars().next_back();
                !before.is_some_and(|one| one.is_alphanumeric() || one == '_')
            };
            if line.match_indices(needle).any(|(at, _)| begins_a_word(at)) {
                found.push((at + 1, format!("{needle}: {why}")));
            }
        }
        if line.contains("select! {") {
            let next = lines[at + 1..]
                .iter()
                .find(|next| !next.is_empty() && !next.starts_with("//"));
            if next != Some(&"biased;") {
                found.push((at + 1, "select!: begins anywhere unless biased".to_owned()));
            }
        }
    }
    found
}

#[test]
fn nothing_in_the_simulation_is_left_to_chance() {
    let root = root();
    let mut files = Vec::new();
    for folder in SIMULATED {
        sources(&root.join(folder), &mut files);
    }
    assert!(
        files.len() > 200,
        "{} files: these are not all",
        files.len()
    );
    let mut wrong = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("text");
        let name = file
            .strip_prefix(&root)
            .expect("inside")
            .display()
            .to_string();
        for (line, fault) in faults(&text) {
            let allowed = ALLOWED
                .iter()
                .any(|(path, what)| name == *path && fault.starts_with(what));
            if !allowed {
                wrong.push(format!("{name}:{line}: {fault}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_lint_sees_what_it_is_for() {
    let all = |text: &str| faults(text).len();
    assert_eq!(all("let map: HashMap<u8, u8>;"), 1);
    assert_eq!(all("use std::time::Instant;\nlet x = rand::random();"), 2);
    assert_eq!(all("tokio::select! {\n    a = b => {}\n}"), 1);
    assert_eq!(
        all("tokio::select! {\n    // why\n    biased;\n    a = b => {}\n}"),
        0
    );
    assert_eq!(
        all("// a HashMap would\nlet operand::x = IndexMap::new();"),
        0
    );
    assert_eq!(
        all("fine();\n#[cfg(test)]\nmod tests { use std::thread::spawn; }"),
        0
    );
}
