//! `compat-matrix bench`: whole systems measured on this machine, on loopback alone.
//!
//! Runs of what is compared take turns (A B A B …), every number is kept, and medians are told. A
//! run that meets an error ends without a page: there is no number of a broken system.

mod cpu;
mod criterion;
mod kafka;
mod load;
mod memory;
mod p6;
mod p7;
mod raw;
mod result;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use result::{Machine, Results};

use crate::spec::Stop;
use crate::target::Node;

/// Runs of each side.
const RUNS: usize = 5;
const QUICK_RUNS: usize = 1;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Subject {
    /// Produce and fetch through the facade, against raw HTTP.
    #[value(name = "P6", alias = "p6")]
    P6,
    /// Offset commits per KV call.
    #[value(name = "P7", alias = "p7")]
    P7,
    /// Memory of an idle node.
    #[value(name = "memory")]
    Memory,
}

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// What; empty is everything.
    pub subjects: Vec<Subject>,
    /// The folder of index.md and results.json.
    pub out: PathBuf,
    /// Small loads and one run: shows that everything runs.
    pub quick: bool,
    /// Another build of queen-kafka than the one in this program.
    pub node: Option<PathBuf>,
    /// Criterion's folder, when its results belong on the page.
    pub criterion: Option<PathBuf>,
}

/// What measuring needs.
#[derive(Debug)]
struct Bench {
    quick: bool,
    runs: usize,
    node: Option<PathBuf>,
    scratch: tempfile::TempDir,
}

impl Bench {
    fn say(&self, what: &str) {
        eprintln!("bench: {what}");
    }

    /// A new, empty folder that goes away at the end.
    fn folder(&self) -> Result<PathBuf, Stop> {
        tempfile::Builder::new()
            .tempdir_in(self.scratch.path())
            .map(tempfile::TempDir::keep)
            .map_err(|error| Stop::fail(format!("no scratch folder: {error}")))
    }

    async fn node(&self, folder: PathBuf, settings: &[(&str, &str)]) -> Result<Node, Stop> {
        let program = match &self.node {
            Some(program) => program.clone(),
            None => std::env::current_exe()
                .map_err(|error| Stop::fail(format!("cannot find this program: {error}")))?,
        };
        Node::launch_program(program, folder, settings).await
    }

    fn node_program(&self) -> String {
        self.node.as_ref().map_or_else(
            || "the one inside this program, which is larger than queen-kafka alone".into(),
            |program| program.display().to_string(),
        )
    }
}

/// Measures and writes the page; its path.
///
/// # Errors
///
/// What kept something from being measured or written.
pub async fn run(request: Request) -> Result<PathBuf, Stop> {
    let Request {
        subjects,
        out,
        quick,
        node,
        criterion,
    } = request;
    let scratch = tempfile::Builder::new()
        .prefix("compat-matrix-bench-")
        .tempdir()
        .map_err(|error| Stop::fail(format!("no scratch folder: {error}")))?;
    let bench = Bench {
        quick,
        runs: if quick { QUICK_RUNS } else { RUNS },
        node,
        scratch,
    };
    let started_epoch_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        });
    let before = load_now();
    let mut sections = match criterion {
        Some(folder) => criterion::sections(&folder)?,
        None => Vec::new(),
    };
    let wants = |subject| subjects.is_empty() || subjects.contains(&subject);
    if wants(Subject::P6) {
        sections.push(p6::measure(&bench).await?);
    }
    if wants(Subject::P7) {
        sections.push(p7::measure(&bench).await?);
    }
    if wants(Subject::Memory) {
        sections.push(memory::measure(&bench).await?);
    }
    let results = Results {
        command: std::env::args().collect::<Vec<_>>().join(" "),
        started_epoch_ms,
        quick,
        machine: Machine {
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            model: model(),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            load: (before, load_now()),
        },
        sections,
    };
    write(&out, &results).map_err(|error| Stop::fail(format!("{}: {error}", out.display())))
}

fn write(out: &Path, results: &Results) -> std::io::Result<PathBuf> {
    fs::create_dir_all(out)?;
    fs::write(
        out.join("results.json"),
        serde_json::to_vec_pretty(results)?,
    )?;
    let page = out.join("index.md");
    fs::write(&page, results.markdown())?;
    Ok(page)
}

/// The middle of `values`; not a number when there are none.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

/// The one-minute load of the machine.
fn load_now() -> String {
    let line = first_line("/proc/loadavg");
    line.split(' ').next().unwrap_or("unknown").to_owned()
}

fn model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':'))
        .map_or_else(|| "unknown".into(), |(_, model)| model.trim().to_owned())
}
