//! What a scenario asks of a client and what it hears: one JSON object each way.
//!
//! The same objects go to a driver in this process and, as one line each, over the standard streams
//! of a driver in another language. `compat-matrix/drivers/README.md` says it for those who write one.

mod blob;
mod capability;
mod line;
mod op;
mod settings;
mod values;

pub use blob::Blob;
pub use capability::{Capabilities, FEATURES, UnknownCapability};
pub use line::{Answer, Begin, Control, Hello, PROTOCOL, Sasl, Tls};
pub use op::Op;
pub use settings::{
    Acks, Assignor, Codec, GroupProtocol, Isolation, OffsetReset, Partitioner, Setting, Settings,
};
pub use values::{
    Cluster, Configs, Deliveries, Event, Group, Groups, Incoming, NewTopic, Outcomes, Outgoing,
    Payloads, Place, Places, Polled, ProducerIdentity, TopicConfig, Topics, Watermarks,
};
