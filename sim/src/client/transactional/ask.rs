//! Asks a coordinator, again and again, until it gives an answer that no repetition changes.

use std::time::Duration;

use kafka_wire::ErrorCode;

use super::TransactionalProducer;
use super::trouble::{Asking, Refusal, Trouble, may_pass};
use crate::client::api::Api;
use crate::client::consumer::coordinator::Coordinator;
use crate::client::profile::Purpose;
use crate::client::{CallError, error_code};
use crate::history::Failure;

/// What came of asking.
#[derive(Debug)]
pub(super) struct Asked<T> {
    pub result: Result<T, Refusal>,
    /// An earlier try may have been done, or be done yet.
    pub doubtful: bool,
}

impl<T> Asked<T> {
    pub(super) fn map<U>(self, map: impl FnOnce(T) -> U) -> Asked<U> {
        Asked {
            result: self.result.map(map),
            doubtful: self.doubtful,
        }
    }
}

impl TransactionalProducer {
    /// Asks `coordinator`. `code` finds what the answer says.
    pub(super) async fn ask<R: Api>(
        &self,
        asking: Asking,
        coordinator: &Coordinator,
        request: &R,
        ceiling: i16,
        code: impl Fn(&R::Response) -> i16,
    ) -> Asked<R::Response> {
        self.ask_and_tell(asking, coordinator, request, ceiling, code, || {})
            .await
    }

    /// As [`Self::ask`]; `goes_out` hears of each try.
    pub(super) async fn ask_and_tell<R: Api>(
        &self,
        asking: Asking,
        coordinator: &Coordinator,
        request: &R,
        ceiling: i16,
        code: impl Fn(&R::Response) -> i16,
        mut goes_out: impl FnMut(),
    ) -> Asked<R::Response> {
        let profile = self.client.profile;
        let begun = self.client.now();
        let (mut tries, mut doubtful) = (0, false);
        loop {
            let timeout = profile.request_timeout;
            let answer = once(coordinator, request, timeout, ceiling, &mut goes_out).await;
            let told = answer
                .as_ref()
                .map_err(Clone::clone)
                .and_then(|response| error_code(code(response)));
            match (answer, told) {
                (Ok(response), Ok(ErrorCode::None)) => {
                    return Asked {
                        result: Ok(response),
                        doubtful,
                    };
                }
                (_, Ok(code) | Err(CallError::Refused(code))) => {
                    self.client.lament(&CallError::Refused(code));
                    if !may_pass(asking, code) {
                        let result = Err(self.refusal(asking, code));
                        return Asked { result, doubtful };
                    }
                    if is_moved(code) {
                        coordinator.is_wrong();
                    }
                    // It may still be carrying out what it gave no answer for.
                    doubtful = true;
                }
                (_, Err(error)) => {
                    self.client.lament(&error);
                    coordinator.is_wrong();
                    doubtful |= !error.has_no_effect();
                }
            }
            let waited = self.client.now().saturating_since(begun);
            if waited >= profile.producer.delivery_timeout {
                let refusal = Refusal {
                    trouble: Trouble::Unknown,
                    failure: Failure::here("given up"),
                };
                return Asked {
                    result: Err(refusal),
                    doubtful,
                };
            }
            tries += 1;
            self.client.back_off(tries).await;
        }
    }
}

async fn once<R: Api>(
    coordinator: &Coordinator,
    request: &R,
    timeout: Duration,
    ceiling: i16,
    goes_out: impl FnOnce(),
) -> Result<R::Response, CallError> {
    let connection = coordinator.connection(Purpose::Coordinator).await?;
    let mut ticket = connection.send_within(request, timeout, ceiling)?;
    goes_out();
    ticket.answer().await
}

fn is_moved(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable
    )
}
