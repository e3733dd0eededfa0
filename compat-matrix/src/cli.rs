//! The command line. Exit codes: 0 every outcome is the expected one, 1 some are not (or the target
//! does not run), 2 the command makes no sense, 69 this machine lacks what the target runs in, so that
//! nothing was checked.

mod bench;
mod differential;
mod list;
mod publish;
mod run;
mod sequences;
mod soak;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use host::Secret;

use crate::docs;
use crate::drivers::{Catalogue, CatalogueError, EVERY};
use crate::expectations::matches;
use crate::scenarios;
use crate::spec::{Spec, WIRE};
use crate::target::{Kind, QueenOptions, SERVE_QUEEN};
use crate::wire::{Access, Credentials, Security, Trust};

/// Every outcome is the expected one.
const ALL_EXPECTED: u8 = 0;
/// Some outcome is not, or there is none because the target does not run.
const UNEXPECTED: u8 = 1;
/// The command makes no sense.
const USAGE: u8 = 2;
/// This machine lacks what the target runs in (`EX_UNAVAILABLE`, as `ci/oracle` has it).
const UNAVAILABLE: u8 = 69;

/// The word for checks of [`readme`](crate::readme) on the command line.
const README: &str = "readme";

/// Real Kafka clients and raw wire probes against any Kafka endpoint, ending in a report.
#[derive(Debug, Parser)]
#[command(
    name = "compat-matrix",
    version,
    args_conflicts_with_subcommands = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run checks and write the report (what happens without a command).
    Run(RunArguments),
    /// Name the checks that `run` would run.
    List(Selection),
    /// Generate the API tables of README.md and docs/, from the repository's root.
    Docs(DocsArguments),
    /// Measure whole systems and write the numbers to a page.
    Bench(bench::BenchArguments),
    /// Record which requests the real librdkafka sends in basic flows, for the simulation's client
    /// of that name.
    Sequences(sequences::SequencesArguments),
    /// Ask a server what Apache Kafka was asked, and compare the answers by value.
    Differential(differential::DifferentialArguments),
    /// Kill the nodes of a cluster one after the other under a loop of transactions, and count what is
    /// lost or doubled.
    Soak(soak::SoakArguments),
    /// Make the reports of a nightly the published ones, and tell what changed since the last.
    Publish(publish::PublishArguments),
    /// The Queen that `bench` compares with, on a port that it prints.
    #[command(name = SERVE_QUEEN, hide = true)]
    ServeQueen(QueenOptions),
}

#[derive(Debug, Args)]
struct DocsArguments {
    /// Write nothing; fail when a page is out of date.
    #[arg(long)]
    check: bool,
    /// First make the checks of this checks.jsonl the published ones.
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    publish: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct RunArguments {
    #[command(flatten)]
    selection: Selection,
    /// The folder of index.html, report.md, junit.xml and checks.jsonl.
    #[arg(long, value_name = "DIR", default_value = "target/report")]
    report: PathBuf,
    /// What the target refuses, instead of what this program knows of it: a file, or apache-kafka.
    #[arg(long, value_name = "FILE")]
    expectations: Option<PathBuf>,
    /// Failures that are accepted for a while, with reasons and end dates.
    #[arg(long, value_name = "FILE")]
    waivers: Option<PathBuf>,
    /// How much longer than on a node of this machine everything may take, as a factor.
    #[arg(long, value_name = "FACTOR", value_parser = clap::value_parser!(u32).range(1..=100))]
    patience: Option<u32>,
    /// Checks that run at once on the server.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=256))]
    at_once: Option<u16>,
    /// What the names of all topics, groups and transactional ids begin with.
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,
    /// Say what would be done to the server, and do nothing.
    #[arg(long)]
    plan: bool,
    /// Only send what makes and changes nothing: a part of the wire probes.
    #[arg(long, requires = "bootstrap")]
    read_only: bool,
    /// What the server is known to be, instead of an expectations file.
    #[arg(long, value_enum, conflicts_with = "expectations")]
    profile: Option<Profile>,
}

/// Servers whose deviations this program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// Apache Kafka 4.
    #[value(name = "apache-kafka-4")]
    ApacheKafka4,
}

impl Profile {
    /// The name of its expectations file.
    const fn expectations(self) -> &'static str {
        match self {
            Self::ApacheKafka4 => "apache-kafka",
        }
    }
}

#[derive(Debug, Args)]
struct Selection {
    /// What is under test [default: facade, or bootstrap when --bootstrap is given].
    #[arg(long, value_enum)]
    target: Option<TargetName>,
    /// The server of target bootstrap.
    #[arg(long, value_name = "HOST:PORT")]
    bootstrap: Option<String>,
    #[command(flatten)]
    security: SecurityArguments,
    /// Only checks whose id holds this text, or fits it when it has a `*`.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Only the dozen of scenarios that show whether a client and a target get along at all.
    #[arg(long)]
    smoke: bool,
    /// The clients to run checks with: wire, the ids that `list` shows, java for every java-…, or all
    /// real ones.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "wire,librdkafka"
    )]
    client: Vec<String>,
}

/// How the server of target bootstrap is spoken to.
#[derive(Debug, Default, Args)]
struct SecurityArguments {
    /// Speak TLS, and trust the certificates of this PEM file.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Authenticate by this mechanism.
    #[arg(long, value_enum, requires = "user", requires = "password_file")]
    sasl: Option<Mechanism>,
    /// The user name.
    #[arg(long, value_name = "NAME", requires = "sasl")]
    user: Option<String>,
    /// A file with the password: an argument would show it to everybody on the machine.
    #[arg(long, value_name = "FILE", requires = "sasl")]
    password_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mechanism {
    /// SASL/PLAIN.
    Plain,
}

impl SecurityArguments {
    const fn is_asked_for(&self) -> bool {
        self.tls_ca.is_some() || self.sasl.is_some()
    }

    /// Reads the files.
    fn read(&self) -> Result<Security, String> {
        let tls = self.tls_ca.as_deref().map(Trust::of_file).transpose();
        let tls = tls.map_err(|error| format!("--tls-ca: {error}"))?;
        let sasl = match (&self.sasl, &self.user, &self.password_file) {
            (Some(Mechanism::Plain), Some(user), Some(file)) => {
                let password = std::fs::read_to_string(file).map_err(|error| {
                    format!("--password-file: cannot read {}: {error}", file.display())
                })?;
                Some(Credentials {
                    username: user.clone(),
                    // Editors end a file with a line feed.
                    password: Secret::new(password.trim_end_matches(['\r', '\n']).to_owned()),
                })
            }
            _ => None,
        };
        Ok(Security { tls, sasl })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TargetName {
    /// queen-kafka over an embedded Queen, started by this program.
    Facade,
    /// The same under TLS and SASL/PLAIN, over a Queen that asks for tokens.
    FacadeSaslTls,
    /// The same as a tenant of a cell: over a Queen behind its proxy.
    FacadeCloud,
    /// A server that runs already: any Kafka.
    Bootstrap,
    /// Apache Kafka in a container, from the image that `ci/oracle image` builds (built with
    /// `--features compat-matrix/containers`).
    Container,
}

impl Selection {
    /// Whether every wire check is asked for.
    fn is_whole(&self) -> bool {
        self.filter.is_none() && !self.smoke && self.names(WIRE)
    }

    fn kind(&self) -> Result<Kind, String> {
        let Some(address) = &self.bootstrap else {
            if self.security.is_asked_for() {
                return Err(
                    "--tls-ca, --sasl, --user and --password-file are about --bootstrap HOST:PORT; \
                     targets that are started here bring their own"
                        .into(),
                );
            }
            return match self.target {
                None | Some(TargetName::Facade) => Ok(Kind::Facade),
                Some(TargetName::FacadeSaslTls) => Ok(Kind::FacadeSaslTls),
                Some(TargetName::Container) => Ok(Kind::Container),
                Some(TargetName::FacadeCloud) => Ok(Kind::FacadeCloud),
                Some(TargetName::Bootstrap) => {
                    Err("--target bootstrap needs --bootstrap HOST:PORT".into())
                }
            };
        };
        if !matches!(self.target, None | Some(TargetName::Bootstrap)) {
            return Err(
                "--bootstrap names the server of --target bootstrap; other targets are started here"
                    .into(),
            );
        }
        let access = Access::new(address.clone(), self.security.read()?);
        match access.host_and_port() {
            Some((host, _)) if !host.is_empty() => Ok(Kind::Bootstrap(access)),
            _ => Err(format!("--bootstrap {address}: not a HOST:PORT")),
        }
    }

    /// The real clients that are asked for.
    fn clients(&self) -> Result<Catalogue, CatalogueError> {
        let names: Vec<&str> = self
            .client
            .iter()
            .map(String::as_str)
            .filter(|name| ![WIRE, README].contains(name))
            .collect();
        Catalogue::built_in()?.choose(&names)
    }

    /// Whether checks that are no driver's are asked for: [`WIRE`] or [`README`].
    fn names(&self, name: &str) -> bool {
        self.client
            .iter()
            .any(|asked| asked == name || asked == EVERY)
    }

    fn takes(&self, spec: &Spec) -> bool {
        self.takes_id(&spec.id)
    }

    fn takes_id(&self, id: &str) -> bool {
        if self.smoke && !scenarios::is_smoke(id) {
            return false;
        }
        self.filter.as_ref().is_none_or(|filter| {
            if filter.contains('*') {
                matches(filter, id)
            } else {
                id.contains(filter)
            }
        })
    }
}

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // A closed standard error is nobody's fault and has nobody to be told.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE));
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("compat-matrix: no runtime: {error}");
            return ExitCode::from(UNEXPECTED);
        }
    };
    let code = match arguments.command.unwrap_or(Command::Run(arguments.run)) {
        Command::Run(run) => runtime.block_on(run::run(run)),
        Command::List(selection) => runtime.block_on(list::list(&selection)),
        Command::Docs(docs) => generate_docs(&docs),
        Command::Bench(arguments) => runtime.block_on(bench::bench(arguments)),
        Command::Sequences(arguments) => runtime.block_on(sequences::record(arguments)),
        Command::Differential(arguments) => runtime.block_on(differential::differential(arguments)),
        Command::Soak(arguments) => runtime.block_on(soak::soak(arguments)),
        Command::Publish(arguments) => publish::publish(arguments),
        Command::ServeQueen(arguments) => runtime.block_on(bench::serve_queen(arguments)),
    };
    // Tasks that still wait for a dead node must not keep the process.
    runtime.shutdown_background();
    ExitCode::from(code)
}

fn generate_docs(arguments: &DocsArguments) -> u8 {
    let root = Path::new(".");
    let published = match &arguments.publish {
        Some(from) => docs::publish(root, from),
        None => Ok(()),
    };
    match published.and_then(|()| docs::generate(root, arguments.check)) {
        Ok(()) => ALL_EXPECTED,
        Err(error) => {
            eprintln!("compat-matrix: {error}");
            UNEXPECTED
        }
    }
}

/// Tells what is wrong with the command.
fn usage(message: &str) -> u8 {
    eprintln!("compat-matrix: {message}\nTry 'compat-matrix --help'.");
    USAGE
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};
    use rstest::rstest;

    use super::{Arguments, Command, WIRE};
    use crate::target::Kind;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[rstest]
    #[case(&[], Ok("facade"))]
    #[case(&["--target", "facade"], Ok("facade"))]
    #[case(&["--bootstrap", "localhost:9092"], Ok("bootstrap"))]
    #[case(&["--target", "bootstrap", "--bootstrap", "[::1]:9092"], Ok("bootstrap"))]
    #[case(&["--target", "container"], Ok("container"))]
    #[case(&["--target", "container", "--bootstrap", "a:1"], Err("started here"))]
    #[case(&["--target", "bootstrap"], Err("needs --bootstrap"))]
    #[case(&["--target", "facade", "--bootstrap", "a:1"], Err("started here"))]
    #[case(&["--target", "facade-sasl-tls"], Ok("facade-sasl-tls"))]
    #[case(&["--target", "facade-cloud"], Ok("facade-cloud"))]
    #[case(&["--target", "facade-sasl-tls", "--bootstrap", "a:1"], Err("started here"))]
    #[case(&["--tls-ca", "x"], Err("bring their own"))]
    #[case(&["--bootstrap", "a:1", "--tls-ca", "/no/such.pem"], Err("--tls-ca: cannot read"))]
    #[case(&["--bootstrap", "a:1", "--sasl", "plain", "--user", "u", "--password-file", "/no/such"],
        Err("--password-file: cannot read"))]
    #[case(&["--bootstrap", "localhost"], Err("not a HOST:PORT"))]
    #[case(&["--bootstrap", ":9092"], Err("not a HOST:PORT"))]
    fn targets(#[case] arguments: &[&str], #[case] expected: Result<&str, &str>) {
        let parsed = Arguments::try_parse_from(["compat-matrix"].iter().chain(arguments)).unwrap();
        match (parsed.run.selection.kind(), expected) {
            (Ok(kind), Ok(name)) => assert_eq!(kind.name(), name),
            (Err(message), Err(part)) => assert!(message.contains(part), "{message}"),
            (kind, expected) => panic!("{kind:?} is not {expected:?}"),
        }
    }

    #[rstest]
    #[case(&[], true, Ok("librdkafka"))]
    #[case(&["--client", "wire"], true, Ok(""))]
    #[case(&["--client", "readme,wire"], true, Ok(""))]
    #[case(&["--client", "librdkafka"], false, Ok("librdkafka"))]
    #[case(&["--client", "wire,nobody"], true, Err("no client is called nobody"))]
    fn clients(
        #[case] arguments: &[&str],
        #[case] wire: bool,
        #[case] expected: Result<&str, &str>,
    ) {
        let parsed = Arguments::try_parse_from(["compat-matrix"].iter().chain(arguments)).unwrap();
        let selection = parsed.run.selection;
        assert_eq!(selection.names(WIRE), wire);
        match (selection.clients(), expected) {
            (Ok(clients), Ok(ids)) => {
                assert_eq!(clients.ids().collect::<Vec<_>>().join(","), ids);
            }
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (clients, expected) => panic!("{clients:?} is not {expected:?}"),
        }
    }

    #[test]
    fn run_is_the_default_command() {
        let parsed = Arguments::try_parse_from(["compat-matrix", "--filter", "x"]).unwrap();
        assert!(parsed.command.is_none());
        let parsed = Arguments::try_parse_from(["compat-matrix", "run", "--filter", "x"]).unwrap();
        let Some(Command::Run(run)) = parsed.command else {
            panic!("not the run command");
        };
        assert!(matches!(run.selection.kind(), Ok(Kind::Facade)));
        assert!(Arguments::try_parse_from(["compat-matrix", "--nonsense"]).is_err());
    }
}
