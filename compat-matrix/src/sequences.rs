//! Records which requests the real librdkafka sends in a few basic flows, so that the simulation's
//! client of that name can be held to it. Starts a node and its clients; writes one file.

mod flows;
mod tap;

use std::collections::BTreeMap;
use std::path::Path;

use facade::windows::advertised;
use fixtures::sequences::Sequences;
use kafka_wire::ApiKey;

use crate::spec::Stop;
use crate::target::{Kind, Target, free_port};
use tap::Tap;

/// Where the recording is kept, from the repository's root.
pub const FILE: &str = "fixtures/sequences/librdkafka.json";
/// What records it.
pub const COMMAND: &str = "cargo run -p compat-matrix -- sequences";

/// librdkafka as it is linked in.
fn client() -> String {
    format!("librdkafka {}", rdkafka::util::get_rdkafka_version().1)
}

/// The highest version of each API that the node offers.
fn offered() -> BTreeMap<String, i16> {
    let named = |key: &ApiKey| Some((key.to_string(), advertised(*key)?.max));
    ApiKey::ALL.iter().filter_map(named).collect()
}

/// Runs every flow and writes what was sent to `out`.
///
/// # Errors
///
/// [`Stop`]: no node, a flow that does not come to its end, or a file that can't be written.
pub async fn record(out: &Path) -> Result<(), Stop> {
    let failed = |what: &str, error: &dyn std::fmt::Display| Stop::fail(format!("{what}: {error}"));
    let port = free_port().map_err(|error| failed("no free port", &error))?;
    let address = format!("127.0.0.1:{port}");
    let target = Target::start(Kind::Facade).await?;
    let settings = [("QUEEN_KAFKA_ADVERTISED_ADDR", address.as_str())];
    let node = target.own_node(&settings).await?;
    let tap = Tap::open(&address, node.bootstrap().address())
        .await
        .map_err(|error| failed("no tap", &error))?;
    let mut recorded = Sequences {
        client: client(),
        command: COMMAND.to_owned(),
        offered: offered(),
        ..Sequences::default()
    };
    for (name, flow) in flows::ALL {
        tap.begin();
        flows::run(*flow, address.clone()).await?;
        recorded.flows.insert((*name).to_owned(), tap.end());
    }
    let mut text =
        serde_json::to_string_pretty(&recorded).map_err(|error| failed("the recording", &error))?;
    text.push('\n');
    if let Some(folder) = out.parent() {
        std::fs::create_dir_all(folder).map_err(|error| failed("no folder", &error))?;
    }
    std::fs::write(out, text).map_err(|error| failed("the recording", &error))
}

#[cfg(test)]
mod tests {
    use fixtures::sequences::Sequences;

    use super::{COMMAND, client, flows};

    #[test]
    fn the_recording_is_of_the_librdkafka_that_is_linked_in() {
        let recorded: Sequences =
            fixtures::json("sequences/librdkafka.json").expect("the recording");
        assert_eq!(recorded.client, client(), "record it again: {COMMAND}");
        assert_eq!(recorded.command, COMMAND);
        let flows: Vec<_> = flows::ALL.iter().map(|(name, _)| *name).collect();
        assert!(recorded.flows.keys().eq(flows.iter()), "{flows:?}");
        for (flow, lines) in &recorded.flows {
            assert!(lines.len() > 2, "{flow} was not recorded");
        }
    }
}
