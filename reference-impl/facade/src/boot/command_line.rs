//! The few words `queen-kafka` takes; everything else is a variable.

use std::ffi::OsString;

use host::text::cut;

use crate::config;

/// What `--help` prints.
pub const USAGE: &str = "\
Usage: queen-kafka [check | --help | --version | --variables-markdown]

Speaks the Kafka protocol on one port and HTTP to Queen on another. Configured by variables alone;
the two-minute start, with a durable Queen in this process:

  QUEEN_URL=embedded:./data QUEEN_KAFKA_ADVERTISED_ADDR=localhost:9092 queen-kafka

  check                  looks at the variables, the addresses and Queen, and says what is right and
                         wrong; serves nobody
  --help                 this text
  --version              the version
  --variables-markdown   every variable, as the reference page

Stops on SIGTERM and SIGINT after answering what is in flight. Exit codes: 0 after a clean stop,
1 when it could not start or serve, 2 for a wrong command line. Those of check: 0 when nothing is
wrong, 1 when something is, 2 when the variables do not even parse.
";

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Serve.
    Run,
    /// Look at everything and say what is wrong.
    Check,
    /// Print this and end.
    Print(String),
}

/// A word that is none of ours.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an option")]
pub struct Unknown(String);

/// Reads the words behind the program's name.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Command, Unknown> {
    let mut words = words.into_iter();
    let Some(word) = words.next() else {
        return Ok(Command::Run);
    };
    let unknown = |word: &OsString| Unknown(cut(&word.to_string_lossy(), 64).into_owned());
    if let Some(more) = words.next() {
        return Err(unknown(&more));
    }
    match word.to_str() {
        Some("check") => Ok(Command::Check),
        Some("--help" | "-h") => Ok(Command::Print(USAGE.to_owned())),
        Some("--version" | "-V") => {
            let version = env!("CARGO_PKG_VERSION");
            Ok(Command::Print(format!("queen-kafka {version}\n")))
        }
        Some("--variables-markdown") => Ok(Command::Print(config::reference())),
        _ => Err(unknown(&word)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Command, Unknown> {
        parse(words.iter().map(OsString::from))
    }

    #[test]
    fn takes_its_few_words_and_refuses_others() {
        assert_eq!(parsed(&[]), Ok(Command::Run));
        assert_eq!(parsed(&["check"]), Ok(Command::Check));
        assert_eq!(parsed(&["--help"]), Ok(Command::Print(USAGE.to_owned())));
        let version = format!("queen-kafka {}\n", env!("CARGO_PKG_VERSION"));
        assert_eq!(parsed(&["-V"]), Ok(Command::Print(version)));
        assert_eq!(parsed(&["run"]), Err(Unknown("run".to_owned())));
        assert_eq!(parsed(&["--help", "x"]), Err(Unknown("x".to_owned())));
    }
}
