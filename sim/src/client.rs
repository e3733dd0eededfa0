//! Kafka clients over `host`: they know the protocol's bytes and the simulated time, and nothing of
//! the servers. What they ask and hear goes into the history.

mod connection;
pub mod producer;
pub mod profile;
pub mod reader;

use host::Host;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{MetadataRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;

pub use connection::{CallError, Connection, Ticket};
pub use profile::Profile;

use crate::history::{Event, Name, Recorder};

/// What one client is.
#[derive(Clone, Debug)]
pub struct Client {
    /// The machine it runs on.
    pub host: Host,
    /// How it behaves.
    pub profile: &'static Profile,
    /// What it calls itself.
    pub id: Name,
    /// `bootstrap.servers`: name and port.
    pub bootstrap: (String, u16),
    /// What it did.
    pub recorder: Recorder,
}

impl Client {
    /// A connection to the leader of `topic`, which is created when it is missing, through the
    /// bootstrap server and the address that this one names.
    ///
    /// # Errors
    ///
    /// [`CallError`]; the next try may succeed.
    pub async fn leader(&self, topic: &str) -> Result<Connection, CallError> {
        let mut connection = Connection::open(self, &self.bootstrap).await?;
        let asked = MetadataRequestTopic::default().with_name(Some(topic_name(topic)));
        let request = MetadataRequest::default()
            .with_topics(Some(vec![asked]))
            .with_allow_auto_topic_creation(true);
        let response = connection.call(&request).await?;
        let described = response.topics.first();
        let described = described.ok_or_else(|| CallError::malformed("no topic in Metadata"))?;
        refused(described.error_code)?;
        let leader = described
            .partitions
            .first()
            .map(|partition| partition.leader_id);
        let broker = response
            .brokers
            .iter()
            .find(|broker| Some(broker.node_id) == leader)
            .ok_or_else(|| CallError::malformed("no leader in Metadata"))?;
        let port = u16::try_from(broker.port)
            .map_err(|_| CallError::malformed("a port that is none in Metadata"))?;
        let address = (broker.host.to_string(), port);
        if address == self.bootstrap {
            return Ok(connection);
        }
        Connection::open(self, &address).await
    }

    /// Says in the trace, and where it is the server's fault in the history, what went wrong.
    pub fn lament(&self, error: &CallError) {
        self.recorder
            .note(self.id.as_str(), format_args!("! {error}"));
        if let CallError::Malformed(what) = error {
            let what = what.clone();
            self.recorder.record(&self.id, Event::Malformed { what });
        }
    }
}

/// The wire's type of a topic's name.
fn topic_name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

fn refused(code: i16) -> Result<(), CallError> {
    match ErrorCode::from_code(code) {
        Some(ErrorCode::None) => Ok(()),
        Some(code) => Err(CallError::Refused(code)),
        None => Err(CallError::malformed(format!("unknown error code {code}"))),
    }
}
