//! `differential`: ask a server the corpus and compare its answers with Apache Kafka's, or record them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;

use super::run::{ended, no_target, run_id, start};
use super::{ALL_EXPECTED, Selection, UNEXPECTED, usage};
use crate::cx::Cx;
use crate::differential::compare::Divergence;
use crate::differential::listed::{Differences, propose};
use crate::differential::recording::{self, Told};
use crate::differential::{Family, compare, run};
use crate::target::Bounds;

#[derive(Debug, Args)]
pub(super) struct DifferentialArguments {
    #[command(flatten)]
    selection: Selection,
    /// The checks to compare [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    family: Vec<Family>,
    /// Record the answers of --bootstrap as those of this version of Kafka, and compare nothing.
    #[arg(long, value_name = "VERSION", requires = "bootstrap")]
    record: Option<String>,
    /// The recorded versions to compare with [default: all].
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    against: Vec<String>,
    /// The folder of recorded answers.
    #[arg(long, value_name = "DIR", default_value = "fixtures/oracle")]
    recordings: PathBuf,
    /// The known differences.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "fixtures/oracle/differences.toml"
    )]
    differences: PathBuf,
    /// Write rows for unlisted differences, without their reasons, to this file.
    #[arg(long, value_name = "FILE")]
    propose: Option<PathBuf>,
}

pub(super) async fn differential(arguments: DifferentialArguments) -> u8 {
    match judged(&arguments).await {
        Ok(code) => code,
        Err(why) => usage(&why),
    }
}

async fn judged(arguments: &DifferentialArguments) -> Result<u8, String> {
    let kind = arguments.selection.kind()?;
    let families = if arguments.family.is_empty() {
        Family::ALL.to_vec()
    } else {
        arguments.family.clone()
    };
    let (target, advertised) = match start(kind, Bounds::default()).await {
        Ok(started) => started,
        Err(why) => return Ok(no_target(&why)),
    };
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let epoch_ms = since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    });
    let cx = Cx::new(Arc::clone(&target), run_id(epoch_ms));
    let mut heard = BTreeMap::new();
    for family in families {
        let mut specs = family.specs(&advertised);
        specs.retain(|spec| arguments.selection.takes(spec));
        heard.insert(family, run(&cx, &specs).await);
    }
    let code = ended(&target, ALL_EXPECTED).await;
    let judged = match &arguments.record {
        Some(version) => record(arguments, version, &heard),
        None => compare_all(arguments, &heard),
    };
    judged.map(|judged| judged.max(code))
}

type Heard = BTreeMap<Family, BTreeMap<String, Told>>;

fn record(arguments: &DifferentialArguments, version: &str, heard: &Heard) -> Result<u8, String> {
    if arguments.selection.filter.is_some() {
        return Err("--record needs every check of a family, so no --filter".into());
    }
    for (family, told) in heard {
        let path = recording::write(&arguments.recordings, version, *family, told)
            .map_err(|error| error.to_string())?;
        say(&format!("{}: {} checks", path.display(), told.len()));
    }
    Ok(ALL_EXPECTED)
}

fn compare_all(arguments: &DifferentialArguments, heard: &Heard) -> Result<u8, String> {
    let text = std::fs::read_to_string(&arguments.differences)
        .map_err(|error| format!("{}: {error}", arguments.differences.display()))?;
    let list = Differences::parse(&text)
        .map_err(|error| format!("{}: {error}", arguments.differences.display()))?;
    let recorded = recording::versions(&arguments.recordings).map_err(|error| error.to_string())?;
    let versions = if arguments.against.is_empty() {
        recorded
    } else {
        arguments.against.clone()
    };
    let (mut unlisted, mut gone) = (BTreeMap::<String, Vec<Divergence>>::new(), 0);
    for version in &versions {
        for (family, facade) in heard {
            let kafka = recording::read(&arguments.recordings, version, *family)
                .map_err(|error| error.to_string())?;
            let found = compare(facade, &kafka);
            let both = facade.keys().filter(|id| kafka.contains_key(*id)).count();
            if both == 0 && arguments.selection.filter.is_none() {
                return Err(format!(
                    "{} has no check that Kafka {version} was asked",
                    family.word()
                ));
            }
            let (new, mut no_more) = list.judge(version, *family, &found);
            if arguments.selection.filter.is_some() {
                // Rows of checks that did not run prove nothing.
                no_more.clear();
            }
            say(&format!(
                "Kafka {version}, {}: {both} checks compared, {} differences, {} of them unlisted, {} rows that no longer occur",
                family.word(),
                found.len(),
                new.len(),
                no_more.len(),
            ));
            for row in &no_more {
                say(&format!("  gone: {} {}", row.checks, row.field));
            }
            for one in &new {
                say(&format!(
                    "  {} {}: facade {}, Kafka {}",
                    one.check, one.field, one.facade, one.kafka
                ));
            }
            gone += no_more.len();
            unlisted
                .entry(version.clone())
                .or_default()
                .extend(new.into_iter().cloned());
        }
    }
    if let Some(path) = &arguments.propose {
        std::fs::write(path, propose(&unlisted))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if gone == 0 && unlisted.values().all(Vec::is_empty) {
        Ok(ALL_EXPECTED)
    } else {
        Ok(UNEXPECTED)
    }
}

/// A line on standard output. Who stops reading it still wants the exit status.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
