//! The README's two minutes with kcat, done to the letter, and then with a hundred thousand records, a
//! kill and a restart in between.
//!
//! The commands are read from the README itself: what it tells people to type is what is tested.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use kafka_wire::ApiKey;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use crate::cx::Cx;
use crate::relay::Relay;
use crate::spec::{Lane, Spec, Stop, Verdict, ensure, expect_eq};

const README: &str = include_str!("../../README.md");
/// The heading of the commands.
const HEADING: &str = "## Two minutes with kcat";
/// The server's address in them.
const ADDRESS: &str = "127.0.0.1:9092";
const TOPIC: &str = "orders";
/// Records in the README's words, and in the larger test.
const FEW: u64 = 1_000;
const MANY: u64 = 100_000;
/// How long one command may take.
const COMMAND_WITHIN: Duration = Duration::from_secs(40);
/// The client id that librdkafka, and so kcat, has by default.
const CLIENT_ID: &str = "rdkafka";

/// The check, with kcat as its client.
pub fn specs() -> Vec<Spec> {
    let label = version().unwrap_or_else(|| "kcat".into());
    let spec =
        |id: &str,
         title: &str,
         run: fn(Cx, Commands) -> futures::future::BoxFuture<'static, Verdict>| {
            Spec::new(id, title, label.clone(), move |cx| async move {
                run(cx, Commands::of(README)?).await
            })
            .apis([ApiKey::PRODUCE, ApiKey::FETCH, ApiKey::METADATA])
            .lane(Lane::OwnNode)
            .within(Duration::from_secs(120))
        };
    vec![
        spec(
            "readme/kcat",
            "What the README says to type does what the README says",
            |cx, commands| Box::pin(to_the_letter(cx, commands)),
        ),
        spec(
            "readme/kcat-100000-and-a-kill",
            "A hundred thousand records of kcat are each there once after a kill and a restart",
            |cx, commands| Box::pin(many_and_a_kill(cx, commands)),
        ),
    ]
}

/// The kcat commands of the README.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Commands {
    produce: String,
    consume: String,
    /// What `consume` prints, as its comment says.
    count: u64,
    group: String,
}

impl Commands {
    fn of(readme: &str) -> Result<Self, Stop> {
        let changed = |what: &str| Stop::fail(format!("the README's commands have no {what}"));
        let block = readme
            .split_once(HEADING)
            .and_then(|(_, rest)| rest.split_once("```bash\n"))
            .and_then(|(_, rest)| rest.split_once("```"))
            .map(|(block, _)| block)
            .ok_or_else(|| changed("block of their own"))?;
        ensure(
            block.contains("QUEEN_URL=embedded:") && block.contains("queen-kafka"),
            || "the README starts something else than queen-kafka on an embedded Queen".into(),
        )?;
        let line = |sign: &str| {
            block
                .lines()
                .find(|line| line.contains("kcat") && line.contains(sign))
                .map(|line| line.split_once('#').unwrap_or((line, "")))
                .map(|(command, comment)| (command.trim().to_owned(), comment.trim().to_owned()))
        };
        let (produce, _) = line(" -P").ok_or_else(|| changed("kcat -P"))?;
        let (consume, count) = line(" -C ").ok_or_else(|| changed("kcat -C"))?;
        let (group, _) = line(" -G ").ok_or_else(|| changed("kcat -G"))?;
        let count = count
            .parse()
            .map_err(|_| changed("number behind kcat -C"))?;
        Ok(Self {
            produce,
            consume,
            count,
            group,
        })
    }
}

/// Name and version, when kcat is there.
fn version() -> Option<String> {
    let output = std::process::Command::new("kcat").arg("-V").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let version = text
        .lines()
        .find_map(|line| line.split_once("Version "))
        .and_then(|(_, rest)| rest.split_whitespace().next())?;
    Some(format!("kcat {version}"))
}

/// A missing kcat is no fault of the server, but the machine that proves changes has to have it.
fn needs_kcat() -> Verdict {
    match (version(), std::env::var_os("CI")) {
        (Some(_), _) => Ok(()),
        (None, None) => Err(Stop::Unable("kcat is not installed".into())),
        (None, Some(_)) => Err(Stop::fail(
            "kcat is not installed, and CI is set: ci/setup installs it",
        )),
    }
}

/// A shell that types the commands at a node's relay.
struct Shell {
    bootstrap: String,
    /// No configuration of the caller's own is read.
    home: PathBuf,
    _relay: Relay,
}

impl Shell {
    fn at(cx: &Cx, node: &crate::target::Node) -> Result<Self, Stop> {
        let relay = Relay::start(node.bootstrap(), cx.record.clone(), CLIENT_ID, None)
            .map_err(|error| Stop::fail(format!("no relay: {error}")))?;
        Ok(Self {
            bootstrap: relay.bootstrap().to_owned(),
            home: node.folder().map(PathBuf::from).unwrap_or_default(),
            _relay: relay,
        })
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(line.replace(ADDRESS, &self.bootstrap))
            .env("HOME", &self.home)
            .env_remove("KCAT_CONFIG")
            .current_dir(&self.home)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    /// What a command that ends by itself prints.
    async fn run(&self, cx: &Cx, line: &str) -> Result<String, Stop> {
        cx.record.note(format!("$ {line}"));
        let output = timeout(COMMAND_WITHIN, self.command(line).output())
            .await
            .map_err(|_| Stop::fail(format!("`{line}` does not end")))?
            .map_err(|error| Stop::fail(format!("`{line}` does not start: {error}")))?;
        let said = String::from_utf8_lossy(&output.stderr);
        for said in said.lines().take(10) {
            cx.record.note(said);
        }
        ensure(output.status.success(), || {
            format!("`{line}` ended with {}", output.status)
        })?;
        String::from_utf8(output.stdout)
            .map_err(|_| Stop::fail(format!("`{line}` printed something that is no text")))
    }
}

async fn to_the_letter(cx: Cx, commands: Commands) -> Verdict {
    needs_kcat()?;
    let node = cx.own_node(&[]).await?;
    let shell = Shell::at(&cx, &node)?;
    shell.run(&cx, &commands.produce).await?;
    let printed = shell.run(&cx, &commands.consume).await?;
    expect_eq("count in the README", &FEW, &commands.count)?;
    expect_eq(
        "printed",
        &commands.count.to_string(),
        &printed.trim().to_owned(),
    )?;

    let read = group_until_ctrl_c(&cx, &shell, &commands.group).await?;
    expect_eq("records of the group", &FEW, &read)
}

/// Runs the consumer group until it says that it has read everything, presses Ctrl-C as the README
/// does, and counts what it printed. (It prints into a buffer until then.)
async fn group_until_ctrl_c(cx: &Cx, shell: &Shell, line: &str) -> Result<u64, Stop> {
    cx.record.note(format!("$ {line}"));
    let lost = |error: std::io::Error| Stop::fail(format!("`{line}` is lost: {error}"));
    let mut child = shell
        .command(&format!("exec {line}"))
        .spawn()
        .map_err(lost)?;
    let said = child
        .stderr
        .take()
        .ok_or_else(|| Stop::fail("the command has no standard error"))?;
    let mut said = BufReader::new(said).lines();
    let all_read = async {
        let mut ends = BTreeMap::new();
        while ends.values().sum::<u64>() < FEW {
            match said.next_line().await {
                Ok(Some(line)) => ends.extend(end_of_partition(&line)),
                _ => break,
            }
        }
    };
    timeout(COMMAND_WITHIN, all_read)
        .await
        .map_err(|_| Stop::fail("the consumer group reads less than was written"))?;
    if let Some(pid) = child
        .id()
        .and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?))
    {
        rustix::process::kill_process(pid, rustix::process::Signal::INT)
            .map_err(|error| Stop::fail(format!("Ctrl-C cannot be pressed: {error}")))?;
    }
    // Somebody must read what it says until it ends.
    let rest = async { while let Ok(Some(_)) = said.next_line().await {} };
    let (output, ()) = timeout(COMMAND_WITHIN, async {
        tokio::join!(child.wait_with_output(), rest)
    })
    .await
    .map_err(|_| Stop::fail("Ctrl-C does not end it"))?;
    Ok(output
        .map_err(lost)?
        .stdout
        .split(|byte| *byte == b'\n')
        .count() as u64
        - 1)
}

/// Partition and offset of `% Reached end of topic orders [0] at offset 250`.
fn end_of_partition(line: &str) -> Option<(u32, u64)> {
    let (_, rest) = line.split_once("Reached end of topic ")?;
    let (_, rest) = rest.split_once('[')?;
    let (partition, rest) = rest.split_once("] at offset ")?;
    let offset = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((partition.parse().ok()?, offset.parse().ok()?))
}

async fn many_and_a_kill(cx: Cx, commands: Commands) -> Verdict {
    needs_kcat()?;
    let node = cx.own_node(&[]).await?;
    let shell = Shell::at(&cx, &node)?;
    let larger = |line: &str| {
        line.replace(&format!("seq 1 {FEW}"), &format!("seq 1 {MANY}"))
            .replace(&format!("-t {TOPIC}"), "-t many")
    };
    let produce = larger(&commands.produce);
    ensure(produce.contains(&MANY.to_string()), || {
        format!("the README's producer is not `seq 1 {FEW}`: {produce}")
    })?;
    // It ends when every record is acknowledged.
    shell.run(&cx, &produce).await?;
    node.kill().await?;
    node.start().await?;
    let consume = larger(&commands.consume);
    // The records themselves and not their count.
    let consume = consume
        .split_once('|')
        .map_or(consume.as_str(), |(kcat, _)| kcat.trim());
    let printed = shell.run(&cx, consume).await?;
    let mut times: BTreeMap<u64, u32> = BTreeMap::new();
    for line in printed.lines() {
        let number = line
            .parse()
            .map_err(|_| Stop::fail(format!("{line:?} was not written")))?;
        *times.entry(number).or_default() += 1;
    }
    for number in 1..=MANY {
        expect_eq(
            &format!("how often {number} is there"),
            &1,
            &times.get(&number).copied().unwrap_or_default(),
        )?;
    }
    expect_eq("distinct records", &MANY, &(times.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::{Commands, README, end_of_partition};

    #[test]
    fn kcat_says_where_partitions_end() {
        assert_eq!(
            end_of_partition("% Reached end of topic orders [3] at offset 250"),
            Some((3, 250))
        );
        assert_eq!(end_of_partition("% Waiting for group rebalance"), None);
    }

    #[test]
    fn the_readmes_commands_are_found() {
        let commands = Commands::of(README).unwrap();
        assert!(
            commands.produce.starts_with("seq 1 1000 | kcat "),
            "{commands:?}"
        );
        assert!(commands.consume.contains(" | wc -l"), "{commands:?}");
        assert!(commands.group.starts_with("kcat "), "{commands:?}");
    }

    #[test]
    fn a_readme_that_says_something_else_is_told() {
        for (readme, why) in [
            ("# nothing", "block"),
            (
                "## Two minutes with kcat\n```bash\nkafka &\n```",
                "something else",
            ),
            (
                "## Two minutes with kcat\n```bash\nQUEEN_URL=embedded:x queen-kafka &\nkcat -P\n```",
                "kcat -C",
            ),
        ] {
            let stop = Commands::of(readme).unwrap_err();
            assert!(format!("{stop:?}").contains(why), "{stop:?}");
        }
    }
}
