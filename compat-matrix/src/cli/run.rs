//! `run`: start the target, run the checks, print the table, write the report.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use reports::{Check, Evidence, Outcome, Run, Window};
use tokio::time::Instant;

use super::{ALL_EXPECTED, README, RunArguments, Selection, UNAVAILABLE, UNEXPECTED, usage};
use crate::cx::Cx;
use crate::drivers::Client;
use crate::expectations::{Expectations, matches};
use crate::progress::Progress;
use crate::spec::{Lane, Spec, Stop, WIRE};
use crate::target::{Bounds, Kind, Target};
use crate::waivers::{self, Waivers};
use crate::wire::{Access, Security};
use crate::{aftermath, bad_input, probes, readme, runner, scenarios, secure, suite, wire};

pub(super) async fn run(arguments: RunArguments) -> u8 {
    let kind = match arguments.selection.kind() {
        Ok(kind) => kind,
        Err(message) => return usage(&message),
    };
    let profile = arguments
        .profile
        .map(|profile| profile.expectations().into());
    let file = profile
        .or_else(|| arguments.expectations.clone())
        .unwrap_or_else(|| kind.expectations().into());
    let expectations = match Expectations::load(&file) {
        Ok(expectations) => expectations,
        Err(error) => return usage(&error.to_string()),
    };
    let catalogue = match arguments.selection.clients() {
        Ok(catalogue) => catalogue,
        Err(error) => return usage(&error.to_string()),
    };
    let waivers = match arguments.waivers.as_deref().map(Waivers::load).transpose() {
        Ok(waivers) => waivers,
        Err(error) => return usage(&format!("--waivers: {error}")),
    };
    let began = Began::now();
    let bounds = Bounds {
        patience: arguments.patience,
        at_once: arguments.at_once,
        read_only: arguments.read_only,
    };
    let (target, advertised) = match start(kind, bounds).await {
        Ok(started) => started,
        Err(why) => return no_target(&why),
    };
    let clients = catalogue.ready().await;
    let mut specs = select(&arguments.selection, target.kind(), &clients, &advertised);
    if arguments.read_only {
        specs.retain(only_reads);
    }
    let code = if specs.is_empty() {
        usage("no check fits --filter and --client")
    } else if arguments.plan {
        say(&plan(&arguments, &target, &specs));
        ALL_EXPECTED
    } else {
        let checks = Checks {
            specs,
            expectations,
            waivers,
            advertised,
        };
        checks.run(&arguments, &target, &began).await
    };
    ended(&target, code).await
}

/// When a run began.
struct Began {
    at: Instant,
    epoch_ms: i64,
}

impl Began {
    fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            at: Instant::now(),
            epoch_ms: since.map_or(0, |since| {
                i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
            }),
        }
    }
}

/// What is to be run and how it is judged.
struct Checks {
    specs: Vec<Spec>,
    expectations: Expectations,
    waivers: Option<Waivers>,
    advertised: Vec<Window>,
}

impl Checks {
    /// Runs them, shows the table and writes the report.
    async fn run(self, arguments: &RunArguments, target: &Arc<Target>, began: &Began) -> u8 {
        let Self {
            specs,
            expectations,
            waivers,
            advertised,
        } = self;
        let cx = Cx::with_prefix(
            Arc::clone(target),
            run_id(began.epoch_ms),
            &arguments.prefix,
        );
        let progress = Progress::new(specs.len());
        let mut checks =
            runner::run(&cx, &specs, &expectations, &|check| progress.done(check)).await;
        progress.finish();
        if arguments.selection.is_whole() {
            checks.extend(unused(&expectations, &specs, target.kind()));
        }
        remove_topics(&cx, &advertised).await;
        if let Some(waivers) = &waivers {
            waivers.apply(&mut checks, waivers::today());
        }
        checks.extend(secure::printed::check(target, &checks));
        let run = Run {
            target: target.kind().name().to_owned(),
            describes: describes(target.kind(), target.shared().bootstrap()),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            started_epoch_ms: began.epoch_ms,
            duration_ms: u64::try_from(began.at.elapsed().as_millis()).unwrap_or(u64::MAX),
            advertised,
            suite: suite::VERSION.into(),
        };
        report(arguments, &run, &checks)
    }
}

/// Whether a check is a probe of an API that reads. What it needs besides, the probe refuses to send.
fn only_reads(spec: &Spec) -> bool {
    spec.client == WIRE
        && spec.id.starts_with("wire/")
        && !spec.apis.is_empty()
        && spec.apis.iter().copied().all(probes::reads)
}

/// A failed check for each promise that no check looks after. Those of scenarios depend on the
/// clients, of which no run has all.
fn unused(expectations: &Expectations, specs: &[Spec], kind: &Kind) -> Vec<Check> {
    let ids: Vec<&str> = specs.iter().map(|spec| spec.id.as_str()).collect();
    let entries = expectations.unused(&ids).into_iter();
    entries
        .filter(|entry| !entry.checks.starts_with("scenario/"))
        .map(|entry| Check {
            id: format!("expectations/{}", entry.checks),
            title: "What is foreseen is asked for".into(),
            target: kind.name().to_owned(),
            client: WIRE.into(),
            apis: Vec::new(),
            kips: Vec::new(),
            observed: Vec::new(),
            outcome: Outcome::Fail,
            reason: Some(format!("no check fits the entry: {}", entry.reason)),
            expected: false,
            evidence: Evidence::default(),
            duration_ms: 0,
        })
        .collect()
}

/// What a run would do to the server.
fn plan(arguments: &RunArguments, target: &Target, specs: &[Spec]) -> String {
    if arguments.read_only {
        return format!(
            "{} checks of {}, {} at once\n\
             They make and change nothing: a check that needs a topic, a group or records is skipped.\n\
             'compat-matrix list' names each check.",
            specs.len(),
            target.shared().bootstrap(),
            target.at_once(),
        );
    }
    let lane = |lane: Lane| specs.iter().filter(|spec| spec.lane == lane).count();
    let prefix = match arguments.prefix.as_str() {
        "" => "any name, each ending in the id of the run".to_owned(),
        prefix => format!("names that begin with {prefix}, each ending in the id of the run"),
    };
    let own = match target.kind().is_ours() {
        true => "on nodes that are started for them".to_owned(),
        false => {
            "skipped, or on this server where they can be: they want a node that may be stopped"
                .into()
        }
    };
    let bytes = "some megabytes of records";
    format!(
        "{} checks of {}\n\
         {} on it, {} at once; {} {own}; {} alone\n\
         They create topics, groups and transactional ids with {prefix}; write {bytes};\n\
         change settings of and delete only what they made. Topics are deleted at the end.\n\
         Topics, groups and settings of others are listed and described, never changed.\n\
         Checks of bad input send frames that a server must refuse.\n\
         A check may take {} times as long as on a node of this machine.\n\
         'compat-matrix list' with the same options names each check.",
        specs.len(),
        target.shared().bootstrap(),
        lane(Lane::Shared),
        target.at_once(),
        lane(Lane::OwnNode),
        lane(Lane::Alone),
        target.patience(),
    )
}

/// Starts the target and asks what it advertises.
pub(super) async fn start(kind: Kind, bounds: Bounds) -> Result<(Arc<Target>, Vec<Window>), Stop> {
    let target = Arc::new(Target::start_within(kind, bounds).await?);
    match wire::advertised(target.shared().bootstrap()).await {
        Ok(advertised) => Ok((target, advertised)),
        Err(why) => {
            target.end().await?;
            Err(Stop::fail(why))
        }
    }
}

/// The checks that the command asks for.
pub(super) fn select(
    selection: &Selection,
    kind: &Kind,
    clients: &[Client],
    advertised: &[Window],
) -> Vec<Spec> {
    let wire = selection.names(WIRE);
    let mut specs = Vec::new();
    if wire {
        specs.extend(probes::specs(advertised));
        specs.extend(bad_input::specs());
        if matches!(kind, Kind::FacadeSaslTls) {
            specs.extend(secure::specs());
        }
    }
    specs.extend(scenarios::specs(clients, kind));
    // The README starts a node in the clear.
    if selection.names(README) && !(kind.is_ours() && kind.authenticates()) {
        specs.extend(readme::specs());
    }
    if wire {
        specs.extend(aftermath::specs());
    }
    specs.retain(|spec| selection.takes(spec) && is_about(kind, &spec.id));
    specs
}

/// Whether a check is about a target of this kind: some are about listeners that authenticate nobody,
/// some about those that do.
fn is_about(kind: &Kind, id: &str) -> bool {
    let other = if kind.authenticates() {
        "wire/sasl-*/plaintext"
    } else {
        "wire/sasl-*/again"
    };
    !matches(other, id)
}

/// Tells why there is no target: it does not run, or this machine lacks what it would run in.
pub(super) fn no_target(why: &Stop) -> u8 {
    let (what, code) = match why {
        Stop::Fail(_) => ("no target", UNEXPECTED),
        Stop::Skip(_) | Stop::Unable(_) => ("skipped, nothing was checked", UNAVAILABLE),
    };
    eprintln!("compat-matrix: {what}: {}", why.reason());
    code
}

/// Ends the target, by name: requests that still wait hold it, and it would outlive this program.
/// `code` is the run's so far.
pub(super) async fn ended(target: &Target, code: u8) -> u8 {
    match target.end().await {
        Ok(()) => code,
        Err(why) => {
            eprintln!("compat-matrix: the target is not ended: {}", why.reason());
            code.max(UNEXPECTED)
        }
    }
}

/// Leaves somebody else's server as it was found. A server that is started here goes away whole.
async fn remove_topics(cx: &Cx, advertised: &[Window]) {
    let topics = cx.target.take_topics();
    if cx.target.kind().stays()
        && let Err(why) = probes::delete_topics(cx, advertised, &topics).await
    {
        eprintln!("compat-matrix: some topics are left behind: {why:?}");
    }
}

fn report(arguments: &RunArguments, run: &Run, checks: &[Check]) -> u8 {
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    say(&reports::terminal::render(run, checks, colour));
    if let Err(error) = reports::write_all(&arguments.report, run, checks) {
        eprintln!("compat-matrix: {error}");
        return UNEXPECTED;
    }
    say(&arguments.report.join("index.html").display().to_string());
    if checks.iter().all(|check| check.expected) {
        ALL_EXPECTED
    } else {
        UNEXPECTED
    }
}

/// A line on standard output. Who stops reading it still wants the report.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn describes(kind: &Kind, bootstrap: &Access) -> String {
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    match kind {
        Kind::Facade => {
            format!("queen-kafka {VERSION} over an embedded Queen, on {bootstrap}")
        }
        Kind::FacadeSaslTls => format!(
            "queen-kafka {VERSION} under TLS and SASL/PLAIN over a Queen with tokens, on {bootstrap}"
        ),
        Kind::Container => format!("Apache Kafka in a container, on {bootstrap}"),
        Kind::FacadeCloud => format!(
            "queen-kafka {VERSION} with SASL/PLAIN over a Queen behind the proxy of its cell, on {bootstrap}"
        ),
        Kind::Bootstrap(_) => format!("the server on {bootstrap}{}", secured(bootstrap.security())),
    }
}

/// How it is spoken to.
const fn secured(security: &Security) -> &'static str {
    match (&security.tls, &security.sasl) {
        (None, None) => "",
        (Some(_), None) => ", under TLS",
        (None, Some(_)) => ", with SASL/PLAIN",
        (Some(_), Some(_)) => ", under TLS with SASL/PLAIN",
    }
}

/// Sets the names of this run apart from those of earlier runs against the same server.
pub(super) fn run_id(started_epoch_ms: i64) -> String {
    format!("{:x}", started_epoch_ms & 0xffff_ffff)
}
