//! The workers of a sweep: each is given its next run when it has done its last. One that dies takes
//! its run with it as a failure, and another takes its place.

use std::process::Stdio;
use std::time::Duration;

use futures::future::join_all;
use host::Host;
use sim::history::Anomaly;
use std::cell::RefCell;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::Arguments;
use super::plan::{Plan, Span, Task};
use super::progress::Progress;
use super::running::Running;
use super::tally::Tally;
use super::worker::{Done, Failed};
use crate::cli::Error;

/// A run takes a second or two. One that takes so long does not end, and may eat all memory.
const LONGEST_RUN: Duration = Duration::from_secs(120);
/// Workers that die before their first run show that none will ever work.
const MAX_DEATHS: u32 = 20;

struct Shared<'s> {
    plan: Plan,
    tally: &'s mut Tally,
    deaths: u32,
}

/// Does all runs of `plan`.
pub(super) async fn run(
    arguments: &Arguments,
    plan: Plan,
    host: &Host,
    tally: &mut Tally,
    progress: &Progress,
) -> Result<(), Error> {
    let jobs = match arguments.jobs {
        Some(jobs) => jobs.max(1),
        None => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    };
    let began = host.clock.monotonic();
    let over = |span| match span {
        Span::Time(time) => host.clock.monotonic().saturating_since(began) >= time,
        Span::Runs(_) => false,
    };
    let shared = RefCell::new(Shared {
        plan,
        tally,
        deaths: 0,
    });
    Running::forget(&arguments.out)?;
    let workers = (0..jobs).map(|number| one(number, arguments, &shared, &over, progress));
    for ended in join_all(workers).await {
        ended?;
    }
    Ok(())
}

/// One worker, and those that take its place.
async fn one(
    number: usize,
    arguments: &Arguments,
    shared: &RefCell<Shared<'_>>,
    over: &impl Fn(Span) -> bool,
    progress: &Progress,
) -> Result<(), Error> {
    let mut worker: Option<Worker> = None;
    loop {
        let task = {
            let mut shared = shared.borrow_mut();
            if over(shared.plan.span()) {
                None
            } else {
                shared.plan.next()
            }
        };
        let Some(task) = task else {
            return Ok(());
        };
        let running = match &mut worker {
            Some(running) => running,
            none => none.insert(Worker::start(arguments)?),
        };
        let noted = Running::begin(&arguments.out, number, &task)?;
        let done = running.run(&task).await;
        drop(noted);
        let done = match done {
            Ok(done) => done,
            Err(why) => {
                worker = None;
                let mut shared = shared.borrow_mut();
                shared.deaths += 1;
                if shared.deaths > MAX_DEATHS {
                    return Err(format!("{MAX_DEATHS} workers died; the last one: {why}").into());
                }
                died(task, &why)
            }
        };
        let mut shared = shared.borrow_mut();
        shared.tally.add(&done);
        progress.done(shared.tally, done.failure.as_ref());
    }
}

/// A run whose worker died under it.
fn died(task: Task, why: &str) -> Done {
    let text = format!(
        "{} with seed {} killed its process: {why}\n\nreplay: cargo run -p sim -- replay {} --seed {}",
        task.scenario, task.seed, task.scenario, task.seed
    );
    Done {
        task,
        simulated_ms: 0,
        coverage: sim::history::Coverage::default(),
        apis: std::collections::BTreeMap::new(),
        failure: Some(Failed {
            anomalies: vec![Anomaly::Broken],
            text,
            file: None,
            drawing: None,
        }),
        peak_kb: None,
    }
}

struct Worker {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn start(arguments: &Arguments) -> Result<Self, Error> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("work").arg("--out").arg(&arguments.out);
        Self::of(command)
    }

    fn of(mut command: Command) -> Result<Self, Error> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A panic in a simulated world is caught and reported; its message here would only
            // tear the progress bar.
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = (input, output) else {
            return Err("a worker without pipes".into());
        };
        Ok(Self {
            child,
            input,
            output: BufReader::new(output).lines(),
        })
    }

    async fn run(&mut self, task: &Task) -> Result<Done, String> {
        let mut line = serde_json::to_string(task).map_err(|error| error.to_string())?;
        line.push('\n');
        let written = self.input.write_all(line.as_bytes()).await;
        let answer = match written {
            Ok(()) => match timeout(LONGEST_RUN, self.output.next_line()).await {
                Ok(answer) => answer,
                Err(_) => {
                    // Dropping it would do, some time later.
                    self.child.kill().await.map_err(|error| error.to_string())?;
                    return Err(format!("no end after {LONGEST_RUN:?}"));
                }
            },
            Err(error) => Err(error),
        };
        match answer {
            Ok(Some(line)) => serde_json::from_str(&line).map_err(|error| error.to_string()),
            Ok(None) => {
                let status = self.child.wait().await;
                Err(status.map_or_else(|error| error.to_string(), |status| status.to_string()))
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answer_of(program: &str, argument: &str) -> String {
        let mut command = Command::new(program);
        command.arg(argument);
        let mut worker = Worker::of(command).expect("started");
        let task = Task {
            scenario: "steady".into(),
            seed: 1,
        };
        worker.run(&task).await.expect_err("no answer")
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_without_an_end_is_ended() {
        let answer = answer_of("sleep", "600").await;
        assert_eq!(answer, "no end after 120s");
    }

    #[tokio::test]
    async fn a_worker_that_dies_says_how() {
        // It reads nothing: the task may or may not have been taken.
        let answer = answer_of("sleep", "0").await;
        assert!(
            answer.contains("exit status: 0") || answer.contains("Broken pipe"),
            "{answer}"
        );
    }
}
