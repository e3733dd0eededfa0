//! What the fuzz targets under `fuzz/` and the bounded tests run on arbitrary bytes. Each function
//! panics where a promise of this crate does not hold. Not for other use.

use bytes::{Bytes, BytesMut};

use crate::api::ApiKey;
use crate::frame;
use crate::header::{RequestHeader, ResponseHeader};
use crate::names::{self, Context};
use crate::schema::{self, Message, Role, RoleSet};
use crate::splice::{self, Edit, Editor, SpliceError};
use crate::walk::{self, Datum, Limits, NoVisitor, Place, Value, VisitError, Visitor};

/// Small enough for a fuzzer to find what lies beyond.
const FRAME_LIMIT: u32 = 1 << 16;

/// Reads arbitrary bytes as frames, and each frame as a request and as a response.
pub fn frames(input: &[u8]) {
    let mut buffer = BytesMut::from(input);
    while let Ok(Some(frame)) = frame::take(&mut buffer, FRAME_LIMIT) {
        assert!(frame.len() <= FRAME_LIMIT as usize);
        let Ok(header) = RequestHeader::parse(frame.clone()) else {
            continue;
        };
        assert!(header.client_id().is_some() == header.client_id_bytes().is_some());
        let (key, version) = (header.api_key, header.api_version);
        let _ = walk::request(key, version, &header.body, &Limits::DEFAULT);
        if let Ok(header) = ResponseHeader::parse(frame, key, version) {
            let _ = walk::response(key, version, &header.body, &Limits::DEFAULT);
        }
    }
}

/// Picks a message and a version by the first three bytes, and takes the rest for its body. Every
/// message and version can be picked.
pub fn pick(input: &[u8]) -> Option<(&'static Message, i16, &[u8])> {
    let ([side, key, version], body) = input.split_first_chunk::<3>()?;
    let key = ApiKey(i16::from(*key) % ApiKey::COUNT as i16);
    let message = match side % 2 {
        0 => schema::request(key)?,
        _ => schema::response(key)?,
    };
    let versions = message.versions.max - message.versions.min + 1;
    Some((
        message,
        message.versions.min + i16::from(*version) % versions,
        body,
    ))
}

/// Walks, names and splices arbitrary bytes as any message. What is spliced must be a message
/// again, and what is kept must be kept.
pub fn body(input: &[u8]) {
    let Some((message, version, body)) = pick(input) else {
        return;
    };
    let limits = Limits {
        max_elements: 1 << 12,
        ..Limits::DEFAULT
    };
    let walked = walk::visit(message, version, body, &limits, &mut NoVisitor);
    let mut before = Tally::default();
    let visited = walk::visit(message, version, body, &limits, &mut before);
    assert_eq!(
        walked.is_ok(),
        visited.is_ok(),
        "a visitor changes the verdict"
    );
    let context = Context {
        coordinator_key_type: Some(0),
        consumer_protocol: true,
    };
    let _ = names::message(message, version, body, &limits, context, |_| {});

    let body = Bytes::copy_from_slice(body);
    for action in [Action::Keep, Action::Grow, Action::Drop] {
        let mut editor = Editing { action, edits: 0 };
        match splice::message(message, version, &body, &limits, &mut editor) {
            Ok(spliced) => {
                assert!(walked.is_ok(), "spliced what is malformed");
                let bytes = spliced.to_bytes();
                assert_eq!(bytes.len(), spliced.len());
                let mut after = Tally::default();
                let again = walk::visit(message, version, &bytes, &limits, &mut after);
                assert!(again.is_ok(), "spliced into what is malformed: {again:?}");
                match action {
                    Action::Keep => assert_eq!(bytes, body),
                    Action::Grow => {
                        assert_eq!(before.values, after.values);
                        let grown = editor.edits * PREFIX.len();
                        assert_eq!(before.text + grown, after.text);
                    }
                    Action::Drop => assert!(after.values <= before.values),
                }
            }
            Err(SpliceError::Walk(_)) => assert!(walked.is_err(), "refused what is well-formed"),
            // No array around the value, or a string that is already as long as it can be.
            Err(SpliceError::Misfit { .. }) => assert!(!matches!(action, Action::Keep)),
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Walks and splices arbitrary bytes as both blobs of the consumer protocol.
pub fn blob(input: &[u8]) {
    let limits = Limits {
        max_elements: 1 << 12,
        ..Limits::DEFAULT
    };
    for message in [
        schema::CONSUMER_PROTOCOL_SUBSCRIPTION,
        schema::CONSUMER_PROTOCOL_ASSIGNMENT,
    ] {
        let mut before = Tally::default();
        let walked = walk::visit_blob(message, input, &limits, &mut before);
        let mut editor = Editing {
            action: Action::Grow,
            edits: 0,
        };
        match splice::blob(message, input, &limits, &mut editor) {
            Ok(spliced) => {
                let bytes = spliced.as_deref().unwrap_or(input);
                let mut after = Tally::default();
                let again = walk::visit_blob(message, bytes, &limits, &mut after);
                assert!(walked.is_ok() && again.is_ok());
                assert_eq!(before.text + editor.edits * PREFIX.len(), after.text);
            }
            Err(error) => assert!(walked.is_err() || matches!(error, SpliceError::Misfit { .. })),
        }
    }
}

/// Counts what a walk hands over.
#[derive(Default)]
struct Tally {
    values: usize,
    text: usize,
}

impl Visitor for Tally {
    type Stop = std::convert::Infallible;

    fn roles(&self) -> RoleSet {
        RoleSet::of(Role::ALL)
    }

    fn value(&mut self, place: &Place<'_>, value: &Value<'_>) -> Result<(), Self::Stop> {
        // The look-up must hold against any bytes, found or not.
        let _ = place.decider(value);
        assert!(value.span.start <= value.content.start && value.content.end == value.span.end);
        self.values += 1;
        if let Datum::Text(text) = value.datum {
            assert_eq!(&place.body()[value.content.clone()], text.as_bytes());
            self.text += text.len();
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Keep,
    Grow,
    Drop,
}

const PREFIX: &str = "prefixed.";

struct Editing {
    action: Action,
    edits: usize,
}

impl Editor for Editing {
    type Refusal = ();

    fn roles(&self) -> RoleSet {
        RoleSet::of(Role::ALL)
    }

    fn edit<'e>(&'e mut self, _: &'e Place<'_>, value: &'e Value<'_>) -> Result<Edit<'e>, ()> {
        Ok(match (self.action, value.datum) {
            (Action::Grow, Datum::Text(text)) => {
                self.edits += 1;
                Edit::Joined(PREFIX, text)
            }
            // By length, so that some go and some stay.
            (Action::Drop, Datum::Text(text)) if text.len() % 2 == 1 => Edit::DropElement,
            _ => Edit::Keep,
        })
    }
}

/// Whether the bytes walk as `message`: for the differential target against the typed crate.
pub fn walks(message: &'static Message, version: i16, body: &[u8]) -> Option<u32> {
    match walk::visit(message, version, body, &Limits::DEFAULT, &mut NoVisitor) {
        Ok(summary) => Some(summary.elements),
        Err(VisitError::Walk(_)) => None,
        Err(VisitError::Stopped(never)) => match never {},
    }
}
