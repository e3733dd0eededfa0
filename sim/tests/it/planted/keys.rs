//! Lies about who somebody is.

use bytes::Bytes;
use kafka_protocol::messages::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use kafka_protocol::protocol::Decodable;
use kafka_wire::ApiKey;
use kafka_wire::header::ResponseHeader;

use super::door::{Ask, Course, Lie};
use super::lies::of_ask;

/// The client that is shut out.
const NEIGHBOUR: &str = "producer-1";

/// Whoever comes is taken for the first one who came.
pub fn takes_all_for_one() -> Box<dyn Lie> {
    let mut first: Option<Bytes> = None;
    of_ask(ApiKey::SASL_AUTHENTICATE, move |ask, _| {
        let changed = ask.with(|said: &mut SaslAuthenticateRequest| {
            let password = said.auth_bytes.rsplit(|byte| *byte == 0).next();
            let own = Bytes::copy_from_slice(password.expect("SASL/PLAIN"));
            let end = said.auth_bytes.len() - own.len();
            let password = first.get_or_insert(own);
            said.auth_bytes = [&said.auth_bytes[..end], &password[..]].concat().into();
        });
        Course::forward(changed)
    })
}

/// Once somebody was refused, somebody else's connections end.
pub fn shuts_the_neighbour_out() -> Box<dyn Lie> {
    Box::new(ShutsOut { refused: false })
}

struct ShutsOut {
    refused: bool,
}

impl Lie for ShutsOut {
    fn ends(&mut self, ask: &Ask) -> bool {
        let ends = self.refused && ask.client == NEIGHBOUR;
        self.refused &= !ends;
        ends
    }

    fn answer(&mut self, ask: &Ask, frame: Bytes) -> Bytes {
        if ask.api == ApiKey::SASL_AUTHENTICATE {
            let header = ResponseHeader::parse(frame.clone(), ask.api, ask.version);
            let mut body = header.expect("the facade speaks Kafka").body;
            let answer = SaslAuthenticateResponse::decode(&mut body, ask.version);
            self.refused |= answer.expect("well-formed").error_code != 0;
        }
        frame
    }
}
