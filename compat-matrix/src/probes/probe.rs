//! The hand of a probe: asks requests of the API and version under test, and judges the answers.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use kafka_wire::header::{ResponseHeader, put_request_header};
use kafka_wire::schema::{self, Message};
use kafka_wire::{ApiKey, ErrorCode, walk};
use reports::{Decoded, Exchange, Frame, Received, Window};
use serde_json::Value as Json;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::reads::is_harmless;
use crate::cx::Cx;
use crate::differential::transcript::Came;
use crate::spec::{Failure, Stop, Verdict};
use crate::wire::codec::{Value, compare, decode, encode};
use crate::wire::{ANSWER_WITHIN, Access, Connection, Reply, opinion};

/// What probes call themselves.
pub(super) const CLIENT_ID: &str = "compat-matrix";
/// Between two questions of [`Probe::ask_until`].
const ASK_EVERY: Duration = Duration::from_millis(25);
/// How long [`Probe::step`] asks again.
const AGAIN_WITHIN: Duration = Duration::from_secs(8);

/// A running probe.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The run's context.
    pub cx: Cx,
    /// The API under test.
    pub key: ApiKey,
    /// The version under test.
    pub version: i16,
    legal: &'static [ErrorCode],
    pub(super) advertised: Arc<[Window]>,
    pub(super) bootstrap: Access,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Where the API under test is served: the leader or coordinator once one is known.
    address: Mutex<String>,
    connection: Mutex<Option<(String, Connection)>>,
    correlation: AtomicI32,
    /// The newest answer to what is under test.
    heard: SyncMutex<Option<Came>>,
    /// How many requests are on their way or further.
    sent: watch::Sender<u64>,
}

/// A well-formed answer.
#[derive(Clone, Debug)]
pub struct Answer {
    message: &'static Message,
    version: i16,
    /// The decoded body.
    pub value: Value,
}

impl Probe {
    pub(super) fn new(
        cx: Cx,
        key: ApiKey,
        version: i16,
        legal: &'static [ErrorCode],
        advertised: Arc<[Window]>,
    ) -> Self {
        let bootstrap = cx.bootstrap().clone();
        Self::starting_at(cx, bootstrap, key, version, legal, advertised)
    }

    fn starting_at(
        cx: Cx,
        bootstrap: Access,
        key: ApiKey,
        version: i16,
        legal: &'static [ErrorCode],
        advertised: Arc<[Window]>,
    ) -> Self {
        Self {
            cx,
            key,
            version,
            legal,
            advertised,
            shared: Arc::new(Shared {
                address: Mutex::new(bootstrap.address().to_owned()),
                connection: Mutex::new(None),
                correlation: AtomicI32::new(1),
                heard: SyncMutex::default(),
                sent: watch::Sender::default(),
            }),
            bootstrap,
        }
    }

    /// A probe of another node than the shared one, for checks with nodes of their own.
    pub fn at(
        cx: Cx,
        bootstrap: &Access,
        key: ApiKey,
        version: i16,
        advertised: Arc<[Window]>,
    ) -> Self {
        Self::starting_at(cx, bootstrap.clone(), key, version, &[], advertised)
    }

    /// Header and body of a request, for clients that are not honest.
    ///
    /// # Errors
    ///
    /// A request that does not fit the schema.
    pub fn request_frame(
        &self,
        key: ApiKey,
        version: i16,
        request: &Json,
    ) -> Result<Vec<u8>, Stop> {
        self.frame(key, version, request).map(|sent| sent.bytes)
    }

    pub(super) fn with_own_connection(&self) -> Self {
        Self::starting_at(
            self.cx.clone(),
            self.bootstrap.clone(),
            self.key,
            self.version,
            self.legal,
            Arc::clone(&self.advertised),
        )
    }

    /// A name that nothing else uses.
    pub fn unique(&self, stem: &str) -> String {
        let name = self.cx.unique(stem);
        if let Some(transcript) = self.cx.record.transcript() {
            transcript.names(&name);
        }
        name
    }

    /// Where the API under test is asked from now on.
    pub(crate) async fn route_to(&self, address: String) {
        *self.shared.address.lock().await = address;
    }

    /// The address at which the API under test is asked.
    pub(crate) async fn route(&self) -> String {
        self.shared.address.lock().await.clone()
    }

    /// Sends a request of the API and version under test and demands a well-formed answer whose
    /// error codes are legal for the API.
    ///
    /// # Errors
    ///
    /// A refusal (`closed`), or what is wrong with the answer.
    pub async fn ask(&self, request: Json) -> Result<Answer, Stop> {
        self.as_one_step(self.ask_once(request)).await
    }

    async fn ask_once(&self, request: Json) -> Result<Answer, Stop> {
        let answer = self
            .exchange(self.key, self.version, &request, true)
            .await?;
        self.demand_legal(&answer)?;
        Ok(answer)
    }

    /// What `asking` hears last is one step of the transcript, however often it asks.
    async fn as_one_step<T>(&self, asking: impl Future<Output = T>) -> T {
        let Some(transcript) = self.cx.record.transcript() else {
            return asking.await;
        };
        let place = transcript.asks(format!("{} v{}", self.key, self.version));
        let result = asking.await;
        transcript.hears(place, self.last_heard());
        result
    }

    /// What came back to the newest request under test.
    fn last_heard(&self) -> Came {
        self.shared
            .heard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .unwrap_or(Came::Nothing)
    }

    fn hear(&self, answer: &Result<Answer, Stop>) {
        let came = match answer {
            Ok(answer) => Came::Answer(answer.value.clone()),
            Err(Stop::Fail(failure)) => match failure.refusal.as_deref() {
                Some("closed") => Came::Closed,
                _ => Came::Malformed(failure.reason.clone()),
            },
            Err(_) => Came::Nothing,
        };
        *self
            .shared
            .heard
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(came);
    }

    /// Starts [`Probe::step`] and comes back when the request is on its way, for an answer that may
    /// wait for other requests.
    pub(crate) async fn park(
        &self,
        key: ApiKey,
        version: i16,
        request: Json,
        again: &'static [ErrorCode],
    ) -> JoinHandle<Result<Answer, Stop>> {
        let mut sent = self.shared.sent.subscribe();
        let before = *sent.borrow();
        let probe = self.clone();
        let parked = tokio::spawn(async move { probe.step(key, version, request, again).await });
        // The sender is this probe's own. A request that cannot be sent is told by its answer.
        let _ = timeout(ANSWER_WITHIN, sent.wait_for(|count| *count != before)).await;
        parked
    }

    /// One request of any API, which becomes a step of the transcript whatever its answer. While the
    /// answer has one of the codes `again`, it is asked again.
    ///
    /// # Errors
    ///
    /// A close, silence, or an answer that is not well-formed.
    pub(crate) async fn step(
        &self,
        key: ApiKey,
        version: i16,
        request: Json,
        again: &[ErrorCode],
    ) -> Result<Answer, Stop> {
        let as_this = Self {
            key,
            version,
            ..self.clone()
        };
        let asking = async {
            let began = Instant::now();
            loop {
                let answer = as_this.exchange(key, version, &request, true).await?;
                let codes = answer.value.codes();
                let says_again = codes
                    .iter()
                    .any(|(_, code)| again.iter().any(|again| again.code() == *code));
                if !says_again || began.elapsed() > AGAIN_WITHIN {
                    return Ok(answer);
                }
                sleep(ASK_EVERY).await;
            }
        };
        as_this.as_one_step(asking).await
    }

    /// Asks again and again until the answer fits, for what a server may do later.
    ///
    /// # Errors
    ///
    /// The last difference when `within` is over or the answer is an error for good, or what
    /// [`Probe::ask`] says.
    pub async fn ask_until(
        &self,
        request: Json,
        expected: Json,
        within: Duration,
    ) -> Result<Answer, Stop> {
        let began = Instant::now();
        self.as_one_step(async {
            loop {
                let answer = self.ask_once(request.clone()).await?;
                match answer.is(expected.clone()) {
                    Ok(()) => return Ok(answer),
                    Err(stop) if began.elapsed() > within || answer.is_final() => return Err(stop),
                    Err(_) => sleep(ASK_EVERY).await,
                }
            }
        })
        .await
    }

    /// Sends a request to which no answer is due, and demands that none comes and that the connection
    /// still answers the API that `then` asks.
    ///
    /// # Errors
    ///
    /// An answer, or a close.
    pub async fn tell(&self, request: Json) -> Verdict {
        let frame = self.frame(self.key, self.version, &request)?;
        self.cx.record.seen(self.key, self.version);
        let address = self.route().await;
        let mut slot = self.shared.connection.lock().await;
        let connection = self.connected(&mut slot, &address).await?;
        let sent = connection.send(&frame.bytes).await;
        let received = match sent {
            Ok(()) => match connection.reply(Duration::from_millis(150)).await {
                Reply::Silence => Received::Nothing("no answer is due".into()),
                Reply::Frame(frame) => Received::Frame(Frame::new(&frame, None)),
                Reply::Closed(how) => Received::Closed(how),
            },
            Err(error) => Received::Closed(error.to_string()),
        };
        let verdict = match &received {
            Received::Nothing(_) => Ok(()),
            Received::Frame(_) => Err(Stop::fail("an answer came to a request that has none")),
            Received::Closed(how) => {
                *slot = None;
                Err(Stop::refused(format!("the connection was {how}"), "closed"))
            }
        };
        self.record(self.key, self.version, &frame, received, 0);
        verdict
    }

    /// One request and its answer at the current route.
    pub(super) async fn exchange(
        &self,
        key: ApiKey,
        version: i16,
        request: &Json,
        under_test: bool,
    ) -> Result<Answer, Stop> {
        let address = self.route().await;
        self.exchange_at(&address, key, version, request, under_test)
            .await
    }

    /// One request and its answer. What is not under test leaves no evidence.
    pub(super) async fn exchange_at(
        &self,
        address: &str,
        key: ApiKey,
        version: i16,
        request: &Json,
        under_test: bool,
    ) -> Result<Answer, Stop> {
        let frame = self.frame(key, version, request)?;
        let mut slot = self.shared.connection.lock().await;
        let connection = self.connected(&mut slot, address).await?;
        let began = Instant::now();
        let sent = connection.send(&frame.bytes).await;
        self.shared.sent.send_modify(|count| *count += 1);
        let reply = match sent {
            Ok(()) => connection.reply(ANSWER_WITHIN).await,
            Err(error) => Reply::Closed(error.to_string()),
        };
        let after_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        if !matches!(reply, Reply::Frame(_)) {
            *slot = None;
        }
        drop(slot);
        if under_test {
            self.cx.record.seen(key, version);
        }
        let (received, answer) = self.judge(key, version, frame.correlation, reply);
        if under_test {
            self.hear(&answer);
            self.record(key, version, &frame, received, after_ms);
        }
        answer
    }

    async fn connected<'a>(
        &self,
        slot: &'a mut Option<(String, Connection)>,
        address: &str,
    ) -> Result<&'a mut Connection, Stop> {
        if slot.as_ref().is_none_or(|(to, _)| to != address) {
            let connection = Connection::open(&self.bootstrap.at(address))
                .await
                .map_err(|error| Stop::fail(format!("cannot connect to {address}: {error}")))?;
            *slot = Some((address.to_owned(), connection));
        }
        // It was filled a line ago when it was empty.
        slot.as_mut()
            .map(|(_, connection)| connection)
            .ok_or_else(|| Stop::fail("no connection"))
    }

    /// The frame of a request.
    ///
    /// # Errors
    ///
    /// [`Stop::Skip`] where the run only reads and the request does not.
    pub(super) fn frame(&self, key: ApiKey, version: i16, request: &Json) -> Result<Sent, Stop> {
        if self.cx.target.reads_only() && !is_harmless(key, version, request) {
            return Err(Stop::skip(format!(
                "needs {key}, which may make something, and this run only reads"
            )));
        }
        let message = schema::request(key)
            .ok_or_else(|| Stop::fail(format!("the schema has no request for {key}")))?;
        let encoded = encode(message, version, request)
            .map_err(|error| Stop::fail(format!("the probe is wrong: {error}")))?;
        let correlation = self.next_correlation();
        let mut bytes = Vec::new();
        put_request_header(&mut bytes, key, version, correlation, Some(CLIENT_ID));
        bytes.extend(&encoded.body);
        let decoded = decode(message, version, &encoded.body.into())
            .map_err(|error| Stop::fail(format!("the probe's own request is wrong: {error}")))?;
        Ok(Sent {
            bytes,
            correlation,
            decoded: Decoded::new(&decoded),
        })
    }

    pub(super) fn next_correlation(&self) -> i32 {
        self.shared.correlation.fetch_add(1, Ordering::Relaxed)
    }

    fn record(&self, key: ApiKey, version: i16, sent: &Sent, received: Received, after_ms: u64) {
        self.cx.record.exchange(Exchange {
            what: format!("{key} v{version}"),
            sent: Frame::new(&sent.bytes, sent.decoded.clone()),
            received,
            after_ms,
        });
    }

    /// Header, walk, own decoder, second opinion.
    pub(super) fn judge(
        &self,
        key: ApiKey,
        version: i16,
        correlation: i32,
        reply: Reply,
    ) -> (Received, Result<Answer, Stop>) {
        let frame = match reply {
            Reply::Frame(frame) => frame,
            Reply::Closed(how) => {
                let stop = Stop::refused(format!("{key} v{version}: {how}"), "closed");
                return (Received::Closed(how), Err(stop));
            }
            Reply::Silence => {
                let words = format!("no answer within {} s", ANSWER_WITHIN.as_secs());
                let stop = Stop::fail(format!("{key} v{version}: {words}"));
                return (Received::Nothing(words), Err(stop));
            }
        };
        let read = read(key, version, correlation, frame.clone());
        let decoded = read
            .as_ref()
            .ok()
            .and_then(|answer| Decoded::new(&answer.value));
        (Received::Frame(Frame::new(&frame, decoded)), read)
    }

    fn demand_legal(&self, answer: &Answer) -> Verdict {
        let illegal =
            answer.value.codes().into_iter().find(|(_, code)| {
                *code != 0 && !self.legal.iter().any(|legal| legal.code() == *code)
            });
        match illegal {
            None => Ok(()),
            Some((path, code)) => {
                let name = crate::wire::codec::code_name(code);
                Err(Stop::Fail(Failure {
                    reason: format!(
                        "{path} is {name}, for which clients of {} are not prepared",
                        self.key
                    ),
                    difference: Some(reports::Difference {
                        path,
                        expected: "a code that clients of the API know".into(),
                        got: name.clone(),
                    }),
                    refusal: Some(name),
                }))
            }
        }
    }
}

/// A request as it was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) bytes: Vec<u8>,
    pub(super) correlation: i32,
    pub(super) decoded: Option<Decoded>,
}

/// Reads a response frame with everything that can find fault with it.
pub(super) fn read(
    key: ApiKey,
    version: i16,
    correlation: i32,
    frame: Bytes,
) -> Result<Answer, Stop> {
    let fault = |what: String| Stop::fail(format!("the answer to {key} v{version} {what}"));
    let header = ResponseHeader::parse(frame, key, version)
        .map_err(|error| fault(format!("has a malformed header: {error}")))?;
    if header.correlation_id != correlation {
        return Err(fault(format!(
            "has correlation id {} instead of {correlation}",
            header.correlation_id
        )));
    }
    walk::response(key, version, &header.body, &walk::Limits::DEFAULT)
        .map_err(|error| fault(format!("is malformed: {error}")))?;
    let message = schema::response(key).ok_or_else(|| fault("is not in the schema".into()))?;
    let value = decode(message, version, &header.body)
        .map_err(|error| fault(format!("cannot be decoded: {error}")))?;
    if let Some(Err(other)) = opinion::response(key, version, &header.body) {
        return Err(fault(format!(
            "is something else to the second decoder: {other}"
        )));
    }
    Ok(Answer {
        message,
        version,
        value,
    })
}

impl Answer {
    /// Demands that the answer fits `expected` (see [`crate::wire::codec`] for its words).
    ///
    /// # Errors
    ///
    /// The first difference. When it is an error code, or the answer has one, that is the refusal.
    pub fn is(&self, expected: Json) -> Verdict {
        let Err(difference) = compare(self.message, self.version, &expected, &self.value) else {
            return Ok(());
        };
        let refusal = self.code_at(&difference.path).or_else(|| self.first_code());
        Err(Stop::Fail(Failure {
            reason: difference.to_string(),
            difference: Some(difference),
            refusal,
        }))
    }

    fn code_at(&self, path: &str) -> Option<String> {
        match self.value.get(path)? {
            Value::Code(code) if *code != 0 => Some(crate::wire::codec::code_name(*code)),
            _ => None,
        }
    }

    /// The name of the first error code that is not NONE.
    pub fn first_code(&self) -> Option<String> {
        self.value
            .codes()
            .into_iter()
            .find(|(_, code)| *code != 0)
            .map(|(_, code)| crate::wire::codec::code_name(code))
    }

    /// Whether it holds an error that no client would ask again after.
    fn is_final(&self) -> bool {
        self.value.codes().iter().any(|(_, code)| {
            ErrorCode::from_code(*code).is_some_and(|code| code.is_error() && !code.retriable())
        })
    }

    /// The value at a path.
    ///
    /// # Errors
    ///
    /// A failure that names the path.
    pub fn at(&self, path: &str) -> Result<&Value, Stop> {
        self.value
            .get(path)
            .ok_or_else(|| Stop::fail(format!("the answer has no {path}")))
    }

    /// The integer at a path.
    ///
    /// # Errors
    ///
    /// A failure that names the path.
    pub fn int(&self, path: &str) -> Result<i64, Stop> {
        self.at(path)?
            .int()
            .ok_or_else(|| Stop::fail(format!("{path} is not a number")))
    }

    /// The text at a path.
    ///
    /// # Errors
    ///
    /// A failure that names the path.
    pub fn text(&self, path: &str) -> Result<&str, Stop> {
        self.at(path)?
            .text()
            .ok_or_else(|| Stop::fail(format!("{path} is not a string")))
    }
}
