//! `differential`: ask a server the corpus and compare its answers with Apache Kafka's, or record them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;

use super::run::{ended, no_target, run_id, start};
use super::{ALL_EXPECTED, Selection, UNEXPECTED, usage};
use crate::cx::Cx;
use crate::differential::compare::Divergence;
use crate::differential::listed::{Differences, Judged, propose};
use crate::differential::pinned;
use crate::differential::recording::{self, Told};
use crate::differential::{Family, compare, run};
use crate::target::Bounds;

/// A time-out is no answer to compare, so none is near, on a busy machine either.
const BOUNDS: Bounds = Bounds {
    patience: Some(3),
    at_once: None,
    read_only: false,
};

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
    /// The reasons of known differences; `pinned` beside it holds each of them.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "fixtures/oracle/differences.toml"
    )]
    differences: PathBuf,
    /// Write rows for unlisted differences, without their reasons, to this file.
    #[arg(long, value_name = "FILE")]
    propose: Option<PathBuf>,
    /// The recordings are others than those that were pinned: races may have ended otherwise.
    #[arg(long, conflicts_with = "record", conflicts_with = "accept")]
    anew: bool,
    /// Pin what has a reason: what is new is known from now on, and what is gone is forgotten.
    #[arg(long, conflicts_with = "record", conflicts_with = "filter")]
    accept: bool,
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
    let (target, advertised) = match start(kind, BOUNDS).await {
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
    // What is pinned belongs to its reasons, whoever recorded.
    let known = arguments.differences.parent().unwrap_or(Path::new(""));
    let mut unlisted = BTreeMap::<String, Vec<Divergence>>::new();
    let mut clean = true;
    for version in &versions {
        let of_version = pinned::read(known, version).map_err(|error| error.to_string())?;
        let mut lasting = BTreeSet::new();
        let mut complete = arguments.selection.filter.is_none();
        for family in Family::ALL {
            let takes = |id: &str| arguments.selection.takes_id(id) && heard.contains_key(&family);
            let ours = |one: &&Divergence| one.check.starts_with(family.prefix());
            let (seen, others): (BTreeSet<_>, BTreeSet<_>) = of_version
                .iter()
                .filter(ours)
                .cloned()
                .partition(|one| takes(&one.check));
            // What was not asked stays as it was.
            lasting.extend(others);
            let Some(facade) = heard.get(&family) else {
                continue;
            };
            if let Some(why) = list.unrecorded(version, family) {
                if recording::is_there(&arguments.recordings, version, family) {
                    return Err(format!(
                        "{} of Kafka {version} is recorded and left out",
                        family.word()
                    ));
                }
                say(&format!(
                    "Kafka {version}, {}: not recorded, {why}",
                    family.word()
                ));
                continue;
            }
            let mut kafka = recording::read(&arguments.recordings, version, family)
                .map_err(|error| error.to_string())?;
            kafka.retain(|id, _| takes(id));
            let found = compare(facade, &kafka);
            let mut judged = list.judge(version, family, &found, &seen, arguments.anew);
            if arguments.selection.filter.is_some() {
                // Rows may be about checks that did not run.
                judged.unused.clear();
            }
            tell(
                version,
                family,
                facade,
                &kafka,
                &found,
                &judged,
                arguments.accept,
            );
            complete &= judged.unlisted.is_empty();
            clean &= judged.unlisted.is_empty() && judged.unused.is_empty();
            clean &= arguments.accept || (judged.new.is_empty() && judged.gone.is_empty());
            unlisted
                .entry(version.clone())
                .or_default()
                .extend(judged.unlisted.iter().map(|one| (*one).clone()));
            lasting.extend(judged.lasting);
        }
        if arguments.accept && complete {
            let path =
                pinned::write(known, version, &lasting).map_err(|error| error.to_string())?;
            say(&format!(
                "{}: {} differences",
                path.display(),
                lasting.len()
            ));
        }
    }
    if let Some(path) = &arguments.propose {
        std::fs::write(path, propose(&unlisted))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(if clean { ALL_EXPECTED } else { UNEXPECTED })
}

fn tell(
    version: &str,
    family: Family,
    facade: &BTreeMap<String, Told>,
    kafka: &BTreeMap<String, Told>,
    found: &BTreeSet<Divergence>,
    judged: &Judged<'_>,
    accepted: bool,
) {
    let both = facade.keys().filter(|id| kafka.contains_key(*id)).count();
    say(&format!(
        "Kafka {version}, {}: {both} checks compared, {} differences: {} without a reason, {} new, {} gone; {} reasons without a difference",
        family.word(),
        found.len(),
        judged.unlisted.len(),
        judged.new.len(),
        judged.gone.len(),
        judged.unused.len(),
    ));
    for row in &judged.unused {
        say(&format!(
            "  no difference for the reason of {} {}",
            row.checks, row.field
        ));
    }
    let show = |word: &str, all: &[&Divergence]| {
        for one in all {
            say(&format!(
                "  {word}: {} {}: facade {}, Kafka {}",
                one.check, one.field, one.facade, one.kafka
            ));
        }
    };
    show("without a reason", &judged.unlisted);
    if !accepted {
        show("new", &judged.new);
        show("gone", &judged.gone);
    }
}

/// A line on standard output. Who stops reading it still wants the exit status.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
