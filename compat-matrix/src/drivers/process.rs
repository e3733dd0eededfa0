//! A driver in another process: one JSON line in, one JSON line out.
//!
//! A process serves one session after another, because some take a second to start; the idle ones wait
//! in a pool. One that fails to answer in time is killed with everything it started.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::protocol::{Answer, Begin, Capabilities, Control, Hello, Op, PROTOCOL};
use super::{Driver, Refusal, Session, Words};
use crate::spec::Stop;

/// How long a driver may take to say hello: a cold virtual machine on a busy computer.
const HELLO_WITHIN: Duration = Duration::from_secs(30);
/// How long it may take to begin or to end a session. Ending one closes producers and consumers.
const BOUNDS_WITHIN: Duration = Duration::from_secs(20);
/// What an operation may take beyond the time that it names itself.
const ANSWER_WITHIN: Duration = Duration::from_secs(45);
/// The longest line that is read: the 100,000 records of the largest poll.
const MAX_LINE_BYTES: u64 = 256 * 1024 * 1024;
/// Processes that wait for the next session: about as many as checks at once have sessions.
const KEPT_IDLE: usize = 24;
/// Processes of all drivers that start at once. More of them take all processors from the checks that
/// run, and none is ready any sooner.
const STARTING_AT_ONCE: usize = 2;
static STARTING: Semaphore = Semaphore::const_new(STARTING_AT_ONCE);

/// A program that speaks the protocol.
#[derive(Debug)]
pub(super) struct ProcessDriver {
    launch: Launch,
    hello: Hello,
    can: Capabilities,
    idle: Pool,
}

type Pool = Arc<Mutex<Vec<Process>>>;

/// How the program is started.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
}

impl ProcessDriver {
    /// Starts the program once and lets it introduce itself.
    ///
    /// # Errors
    ///
    /// Why it is of no use, in a few words.
    pub(super) async fn start(launch: Launch) -> Result<Self, String> {
        let (process, hello) = greet(&launch).await?;
        let can = Capabilities::of(hello.can.clone()).map_err(|error| error.to_string())?;
        Ok(Self {
            launch,
            hello,
            can,
            idle: Arc::new(Mutex::new(vec![process])),
        })
    }

    /// What it said of itself.
    pub(super) const fn hello(&self) -> &Hello {
        &self.hello
    }
}

impl Driver for ProcessDriver {
    fn can(&self) -> &Capabilities {
        &self.can
    }

    fn starts_within(&self) -> Duration {
        HELLO_WITHIN
    }

    fn open(&self, begin: Begin) -> BoxFuture<'_, Result<Box<dyn Session>, Stop>> {
        async move {
            let idle = lock(&self.idle).pop();
            let mut process = match idle {
                Some(process) => process,
                None => greet(&self.launch).await.map_err(Stop::fail)?.0,
            };
            process
                .ask(&Control::Begin(begin), BOUNDS_WITHIN)
                .await
                .map_err(|refusal| {
                    Stop::fail(format!("the driver begins no session: {}", refusal.message))
                })?;
            Ok(Box::new(Remote {
                words: process.words.clone(),
                process: Some(process),
                idle: Arc::clone(&self.idle),
            }) as Box<dyn Session>)
        }
        .boxed()
    }
}

/// Processes are pushed and popped whole.
fn lock(pool: &Pool) -> std::sync::MutexGuard<'_, Vec<Process>> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn greet(launch: &Launch) -> Result<(Process, Hello), String> {
    let _turn = STARTING
        .acquire()
        .await
        .map_err(|error| error.to_string())?;
    let mut process = Process::spawn(launch)
        .map_err(|error| format!("{} does not start: {error}", launch.program.display()))?;
    let hello = process
        .ask(&Control::Hello { protocol: PROTOCOL }, HELLO_WITHIN)
        .await
        .map_err(|refusal| {
            let words = process.words.take().join(" | ");
            format!("it does not say hello: {}; {words}", refusal.message)
        })?;
    let hello: Hello = serde_json::from_value(hello)
        .map_err(|error| format!("its hello does not fit: {error}"))?;
    if hello.protocol != PROTOCOL {
        return Err(format!(
            "it speaks version {} of the driver protocol, not {PROTOCOL}",
            hello.protocol
        ));
    }
    Ok((process, hello))
}

/// A session of a process.
struct Remote {
    words: Words,
    /// `None` after it failed, or while an answer is awaited: who is dropped then cannot be used again.
    process: Option<Process>,
    idle: Pool,
}

impl Session for Remote {
    fn call<'a>(&'a mut self, op: &'a Op) -> BoxFuture<'a, Result<Value, Refusal>> {
        async move {
            let mut process = self
                .process
                .take()
                .ok_or_else(|| Refusal::failed("the driver was given up"))?;
            let answer = process.ask(op, time_for(op)).await;
            if process.usable {
                self.process = Some(process);
            }
            answer
        }
        .boxed()
    }

    fn words(&self) -> Words {
        self.words.clone()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        let idle = Arc::clone(&self.idle);
        // Without a runtime the program is ending, and so are its children.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let ended = process.ask(&Control::End, BOUNDS_WITHIN).await.is_ok();
                if ended && process.usable {
                    // The next session's evidence begins with its own words.
                    process.words = Words::default();
                    let mut idle = lock(&idle);
                    if idle.len() < KEPT_IDLE {
                        idle.push(process);
                    }
                }
            });
        }
    }
}

/// How long an operation may take before the driver counts as broken.
fn time_for(op: &Op) -> Duration {
    let own = match op {
        Op::Produce { timeout_ms, .. } | Op::ProduceNumbers { timeout_ms, .. } => *timeout_ms,
        Op::Poll { idle_ms, .. } => *idle_ms,
        _ => 0,
    };
    ANSWER_WITHIN + Duration::from_millis(own)
}

/// A child that speaks lines.
#[derive(Debug)]
struct Process {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    words: Words,
    /// Every line that was sent has been answered by one line that fits.
    usable: bool,
}

impl Process {
    fn spawn(launch: &Launch) -> std::io::Result<Self> {
        let mut child = Command::new(&launch.program)
            .args(&launch.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Its own group, so that what it starts can be ended with it.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let missing = || std::io::Error::other("a stream of the child is missing");
        let to = child.stdin.take().ok_or_else(missing)?;
        let from = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        let words = Words::default();
        listen(child.stderr.take().ok_or_else(missing)?, words.clone());
        Ok(Self {
            child,
            to,
            from,
            words,
            usable: true,
        })
    }

    /// Sends a line and waits for its answer.
    async fn ask<T: Serialize + Sync>(
        &mut self,
        line: &T,
        within: Duration,
    ) -> Result<Value, Refusal> {
        self.usable = false;
        let answer = timeout(within, self.exchange(line))
            .await
            .unwrap_or_else(|_| {
                Err(format!(
                    "the driver did not answer within {} s",
                    within.as_secs()
                ))
            })
            .map_err(Refusal::failed)?;
        self.usable = true;
        match answer {
            Answer::Ok(value) => Ok(value),
            Answer::Error { code, message } => Err(Refusal {
                code,
                ..Refusal::failed(message)
            }),
            Answer::Unsupported(why) => Err(Refusal::unable(why)),
        }
    }

    async fn exchange<T: Serialize + Sync>(&mut self, line: &T) -> Result<Answer, String> {
        let mut out = serde_json::to_vec(line).map_err(|error| error.to_string())?;
        out.push(b'\n');
        let broken = |error: std::io::Error| format!("the driver is gone: {error}");
        self.to.write_all(&out).await.map_err(broken)?;
        self.to.flush().await.map_err(broken)?;
        let mut answer = Vec::new();
        (&mut self.from)
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut answer)
            .await
            .map_err(broken)?;
        if answer.last() != Some(&b'\n') {
            return Err(if answer.len() as u64 == MAX_LINE_BYTES {
                format!("the driver's answer is longer than {MAX_LINE_BYTES} bytes")
            } else {
                "the driver ended without an answer".into()
            });
        }
        serde_json::from_slice(&answer)
            .map_err(|error| format!("the driver's answer does not fit: {error}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The group has the child's number. A child that was reaped has none any more, and its group
        // may be another's by now.
        if let Some(group) = self
            .child
            .id()
            .and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?))
        {
            // Gone already is as good.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

/// Keeps what the child says on its standard error. Ends with the child.
fn listen(stderr: ChildStderr, words: Words) {
    /// A line that does not end is cut here.
    const LINE_BYTES: u64 = 8 * 1024;
    tokio::spawn(async move {
        let mut stderr = BufReader::new(stderr);
        let mut line = Vec::new();
        loop {
            line.clear();
            match (&mut stderr)
                .take(LINE_BYTES)
                .read_until(b'\n', &mut line)
                .await
            {
                Ok(0) | Err(_) => return,
                Ok(_) => words.say(String::from_utf8_lossy(&line).trim_end()),
            }
        }
    });
}

#[cfg(test)]
mod tests;
