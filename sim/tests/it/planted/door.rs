//! A facade with a liar at its door: the shipped facade, and before it somebody who reads every
//! frame and may forward, keep, repeat, change or answer it. With an honest one it is a facade.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use facade::config::{Config, HostPort, Mechanism, Variables};
use futures::FutureExt;
use futures::future::BoxFuture;
use host::pipe::pipe;
use host::{BoxStream, Connect, Host, Listener, Net, Remote};
use kafka_protocol::protocol::{Decodable, Encodable};
use kafka_wire::ApiKey;
use kafka_wire::header::{RequestHeader, ResponseHeader};
use sim::trace::Node;
use sim::world::{Doubles, KAFKA_PORT, Program, QUEEN_PORT};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

/// The port of a facade's metrics.
pub const METRICS_PORT: u16 = 9464;

/// A request, whole.
#[derive(Clone, Debug)]
pub struct Ask {
    pub api: ApiKey,
    pub version: i16,
    pub correlation: i32,
    pub client: String,
    pub frame: Bytes,
    pub body: Bytes,
}

impl Ask {
    fn of(frame: Bytes) -> Self {
        let header = RequestHeader::parse(frame.clone()).expect("our clients speak Kafka");
        Self {
            api: header.api_key,
            version: header.api_version,
            correlation: header.correlation_id,
            client: header.client_id().unwrap_or_default().to_owned(),
            frame,
            body: header.body,
        }
    }

    /// The request with another body.
    pub fn with<M: Decodable + Encodable>(&self, change: impl FnOnce(&mut M)) -> Bytes {
        changed(&self.frame, &self.body, self.version, change)
    }

    /// Its answer, made up.
    pub fn answer<M: Encodable>(&self, body: &M) -> Bytes {
        let mut out = BytesMut::new();
        kafka_wire::header::put_response_header(&mut out, self.api, self.version, self.correlation);
        body.encode(&mut out, self.version).expect("encodable");
        out.freeze()
    }

    /// `frame`, which answers it, with another body.
    pub fn answer_with<M: Decodable + Encodable>(
        &self,
        frame: &Bytes,
        change: impl FnOnce(&mut M),
    ) -> Bytes {
        let header = ResponseHeader::parse(frame.clone(), self.api, self.version);
        let body = header.expect("the facade speaks Kafka").body;
        changed(frame, &body, self.version, change)
    }
}

fn changed<M: Decodable + Encodable>(
    frame: &Bytes,
    body: &Bytes,
    version: i16,
    change: impl FnOnce(&mut M),
) -> Bytes {
    let mut message = M::decode(&mut body.clone(), version).expect("well-formed");
    change(&mut message);
    let mut out = BytesMut::from(&frame[..frame.len() - body.len()]);
    message.encode(&mut out, version).expect("encodable");
    out.freeze()
}

/// What becomes of a request.
#[derive(Debug, Default)]
pub struct Course {
    /// Goes to the facade, in order.
    pub forward: Vec<Bytes>,
    /// The answer. Without one, that of the first forwarded frame; the others' are dropped.
    pub answer: Option<Bytes>,
}

impl Course {
    /// As an honest door does.
    pub fn forward(frame: Bytes) -> Self {
        Self {
            forward: vec![frame],
            answer: None,
        }
    }

    /// Answered here, and not forwarded.
    pub fn answer(frame: Bytes) -> Self {
        Self {
            forward: Vec::new(),
            answer: Some(frame),
        }
    }
}

/// What a door does that no door should. It forgets with its machine.
pub trait Lie: Send {
    fn ask(&mut self, ask: &Ask) -> Course {
        Course::forward(ask.frame.clone())
    }

    /// Whether the connection ends instead, with nothing done.
    fn ends(&mut self, _ask: &Ask) -> bool {
        false
    }

    fn answer(&mut self, _ask: &Ask, frame: Bytes) -> Bytes {
        frame
    }
}

/// No lie.
pub struct Honest;

impl Lie for Honest {}

type Shared = Arc<Mutex<Box<dyn Lie>>>;

/// A facade behind `lie`, which is made anew whenever it starts.
pub fn door(lie: fn(&Host) -> Box<dyn Lie>) -> Doubles {
    double(lie, false, false)
}

/// The same before the proxy of a cell, whose clients authenticate.
pub fn door_of_tenants(lie: fn(&Host) -> Box<dyn Lie>) -> Doubles {
    double(lie, false, true)
}

/// A facade whose pushes reach the storage under identities that never repeat, as if it kept none.
pub fn forgetful_storage() -> Doubles {
    double(|_| Box::new(Honest), true, false)
}

/// A facade of `in_flight_bytes` that serves its metrics.
pub fn bounded(in_flight_bytes: usize) -> Doubles {
    alone(move |config| {
        config.http = Some(HostPort::new("0.0.0.0", METRICS_PORT));
        config.listener.max_in_flight_bytes = in_flight_bytes;
    })
}

/// A facade's process that ends by itself after a while.
pub fn short_lived() -> Doubles {
    let program: Program = Rc::new(|_| {
        async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Err("a fault that nobody caught".into())
        }
        .boxed_local()
    });
    Doubles {
        facade: Some(program),
        ..Doubles::default()
    }
}

/// The shipped facade, configured as no operator can.
fn alone(configure: impl Fn(&mut Config) + 'static) -> Doubles {
    let configure = Rc::new(configure);
    let program: Program = Rc::new(move |host: Host| {
        let configure = Rc::clone(&configure);
        async move {
            let upstream = Remote {
                net: Arc::clone(&host.net),
                host: Node::Queen.name().to_owned(),
                port: QUEEN_PORT,
            };
            let mut config = Config::from_variables(&variables(Node::Queen))?;
            configure(&mut config);
            let _facade = facade::boot::start(config, host, Arc::new(upstream)).await?;
            std::future::pending().await
        }
        .boxed_local()
    });
    Doubles {
        facade: Some(program),
        ..Doubles::default()
    }
}

fn double(lie: fn(&Host) -> Box<dyn Lie>, retag: bool, tenants: bool) -> Doubles {
    let before = if tenants { Node::Proxy } else { Node::Queen };
    let program: Program = Rc::new(move |host: Host| {
        async move {
            let lying = Lying {
                lie: Arc::new(Mutex::new(lie(&host))),
                retag: retag.then(|| Arc::new(Mutex::new(host.clock.wall().epoch_ms()))),
                net: Arc::clone(&host.net),
            };
            let host = Host {
                net: Arc::new(lying),
                ..host
            };
            let upstream = Remote {
                net: Arc::clone(&host.net),
                host: before.name().to_owned(),
                port: QUEEN_PORT,
            };
            let mut config = Config::from_variables(&variables(before))?;
            config.security.sasl = tenants.then_some(Mechanism::Plain);
            let _facade = facade::boot::start(config, host, Arc::new(upstream)).await?;
            std::future::pending().await
        }
        .boxed_local()
    });
    Doubles {
        facade: Some(program),
        ..Doubles::default()
    }
}

fn variables(queen: Node) -> Variables {
    let facade = Node::Facade;
    [
        ("QUEEN_URL", format!("http://{queen}:{QUEEN_PORT}")),
        ("QUEEN_KAFKA_ADDR", format!("0.0.0.0:{KAFKA_PORT}")),
        (
            "QUEEN_KAFKA_ADVERTISED_ADDR",
            format!("{facade}:{KAFKA_PORT}"),
        ),
        ("QUEEN_KAFKA_DEFAULT_PARTITIONS", "2".to_owned()),
        // Groups change while something is read, not before.
        ("QUEEN_KAFKA_GROUP_JOIN_DELAY_MS", "300".to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.into(), value.into()))
    .collect()
}

/// The machine's network, with the liar on it.
#[derive(Clone)]
struct Lying {
    net: Arc<dyn Net>,
    lie: Shared,
    /// The next identity of a push.
    retag: Option<Arc<Mutex<i64>>>,
}

impl fmt::Debug for Lying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lying")
    }
}

impl Net for Lying {
    fn bind(&self, addr: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        async move {
            let listener = self.net.bind(addr).await?;
            let lie = Arc::clone(&self.lie);
            Ok(Box::new(LyingListener { listener, lie }) as Box<dyn Listener>)
        }
        .boxed()
    }

    fn resolve<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        self.net.resolve(host, port)
    }

    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<BoxStream>> {
        async move {
            let stream = self.net.connect(host, port).await?;
            match &self.retag {
                None => Ok(stream),
                Some(next) => {
                    let (near, far) = pair().await?;
                    tokio::spawn(retagging(far, stream, Arc::clone(next)));
                    Ok(near)
                }
            }
        }
        .boxed()
    }
}

async fn pair() -> io::Result<(BoxStream, BoxStream)> {
    let (connector, mut listener) = pipe(1 << 20);
    let near = connector.connect().await?;
    Ok((near, listener.accept().await?))
}

struct LyingListener {
    listener: Box<dyn Listener>,
    lie: Shared,
}

impl Listener for LyingListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<BoxStream>> {
        async move {
            let client = self.listener.accept().await?;
            let (near, far) = pair().await?;
            tokio::spawn(between(client, near, Arc::clone(&self.lie)));
            Ok(far)
        }
        .boxed()
    }

    fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }
}

/// What comes to the liar.
enum Heard {
    Client(Bytes),
    Facade(Bytes),
    /// One side is gone.
    End,
}

/// Stands between a client and the facade until one of them is gone.
async fn between(client: BoxStream, facade: BoxStream, lie: Shared) {
    let (from_client, mut to_client) = tokio::io::split(client);
    let (from_facade, mut to_facade) = tokio::io::split(facade);
    let (hears, mut heard) = mpsc::unbounded_channel();
    let listening = [
        tokio::spawn(frames(from_client, Heard::Client, hears.clone())).abort_handle(),
        tokio::spawn(frames(from_facade, Heard::Facade, hears)).abort_handle(),
    ];
    // Answers to clients in the order of their requests; `None` is still to come.
    let mut answers: VecDeque<(u64, Option<Bytes>)> = VecDeque::new();
    let mut forwarded: VecDeque<(Ask, Option<u64>)> = VecDeque::new();
    let mut slots = 0;
    while let Some(heard) = heard.recv().await {
        let mut out = Vec::new();
        match heard {
            Heard::Client(frame) => {
                let ask = Ask::of(frame);
                if lie.lock().expect("whole").ends(&ask) {
                    break;
                }
                let course = lie.lock().expect("whole").ask(&ask);
                slots += 1;
                let waits = course.answer.is_none();
                answers.push_back((slots, course.answer));
                for (nth, frame) in course.forward.into_iter().enumerate() {
                    let slot = (nth == 0 && waits).then_some(slots);
                    forwarded.push_back((Ask::of(frame.clone()), slot));
                    out.push(frame);
                }
            }
            Heard::Facade(frame) => {
                let Some((ask, slot)) = forwarded.pop_front() else {
                    break;
                };
                if let Some(slot) = slot {
                    let frame = lie.lock().expect("whole").answer(&ask, frame);
                    let waiting = answers.iter_mut().find(|(number, _)| *number == slot);
                    waiting.expect("it waits").1 = Some(frame);
                }
            }
            Heard::End => break,
        }
        for frame in out {
            if to_facade.write_all(&framed(&frame)).await.is_err() {
                break;
            }
        }
        while let Some((_, Some(frame))) = answers.front() {
            if to_client.write_all(&framed(frame)).await.is_err() {
                break;
            }
            answers.pop_front();
        }
    }
    for task in listening {
        task.abort();
    }
}

fn framed(frame: &Bytes) -> Bytes {
    let mut out = BytesMut::with_capacity(frame.len() + 4);
    out.put_u32(u32::try_from(frame.len()).expect("small"));
    out.put_slice(frame);
    out.freeze()
}

async fn frames(
    mut from: impl AsyncReadExt + Unpin,
    heard: fn(Bytes) -> Heard,
    hears: mpsc::UnboundedSender<Heard>,
) {
    while let Ok(length) = from.read_u32().await {
        let mut frame = vec![0; usize::try_from(length).expect("small")];
        if from.read_exact(&mut frame).await.is_err() || hears.send(heard(frame.into())).is_err() {
            break;
        }
    }
    let _ = hears.send(Heard::End);
}

/// Hands bytes on, and gives every push another identity of the same length.
async fn retagging(near: BoxStream, far: BoxStream, next: Arc<Mutex<i64>>) {
    let (mut from_near, mut to_near) = tokio::io::split(near);
    let (mut from_far, mut to_far) = tokio::io::split(far);
    let back = async {
        tokio::io::copy(&mut from_far, &mut to_near)
            .await
            .map(|_| ())
    };
    let forth = async {
        let mut bytes = BytesMut::with_capacity(1 << 20);
        while from_near.read_buf(&mut bytes).await? > 0 {
            retag(&mut bytes, &next);
            to_far.write_all_buf(&mut bytes.split()).await?;
        }
        Ok::<_, io::Error>(())
    };
    tokio::pin!(back, forth);
    tokio::select! {
        biased;
        _ = &mut back => {}
        _ = &mut forth => {}
    }
}

fn retag(bytes: &mut BytesMut, next: &Mutex<i64>) {
    const MARK: &[u8] = b"\"transactionId\":\"";
    let mut at = 0;
    while let Some(found) = bytes[at..]
        .windows(MARK.len())
        .position(|window| window == MARK)
    {
        let start = at + found + MARK.len();
        let length = bytes[start..]
            .iter()
            .position(|byte| *byte == b'"')
            .unwrap_or(0);
        let tag = {
            let mut next = next.lock().expect("whole");
            *next += 1;
            format!("{next:0>length$}")
        };
        bytes[start..start + length].copy_from_slice(&tag.as_bytes()[tag.len() - length..]);
        at = start + length;
    }
}

/// A record batch, to be changed.
pub struct Batch(BytesMut);

impl Batch {
    /// The batches in `records`.
    pub fn all(mut records: Bytes) -> Vec<Self> {
        let mut batches = Vec::new();
        while records.len() > 12 {
            let length = (&records[8..12]).get_u32();
            let whole = usize::try_from(length).expect("small") + 12;
            batches.push(Self(BytesMut::from(&records[..whole])));
            records.advance(whole);
        }
        batches
    }

    /// Nobody's batch: no producer, no sequence.
    pub fn anonymous(mut self) -> Self {
        self.0[43..57].fill(0xff);
        self
    }

    /// The batch of no transaction, and of nobody.
    pub fn plain(mut self) -> Self {
        self.0[22] &= !0x10;
        self.anonymous()
    }

    /// The batch of another producer.
    pub fn of_producer(mut self, change: impl FnOnce(i64) -> i64) -> Self {
        let id = (&self.0[43..51]).get_i64();
        self.0[43..51].copy_from_slice(&change(id).to_be_bytes());
        self
    }

    /// The batch of a millisecond later.
    pub fn later(mut self) -> Self {
        for at in [27, 35] {
            let time = (&self.0[at..at + 8]).get_i64() + 1;
            self.0[at..at + 8].copy_from_slice(&time.to_be_bytes());
        }
        self
    }

    /// The batch at another offset.
    pub fn at(mut self, offset: impl FnOnce(i64) -> i64) -> Self {
        let moved = offset((&self.0[..8]).get_i64());
        self.0[..8].copy_from_slice(&moved.to_be_bytes());
        self
    }

    /// Its bytes, with a checksum that fits.
    pub fn sealed(mut self) -> Bytes {
        let checksum = crc32c::crc32c(&self.0[21..]);
        self.0[17..21].copy_from_slice(&checksum.to_be_bytes());
        self.0.freeze()
    }
}

/// Batches one behind the other.
pub fn joined(batches: impl IntoIterator<Item = Batch>) -> Bytes {
    let mut out = BytesMut::new();
    for batch in batches {
        out.put(batch.sealed());
    }
    out.freeze()
}
