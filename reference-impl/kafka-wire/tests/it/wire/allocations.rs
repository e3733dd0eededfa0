//! What untrusted bytes may make us allocate: nothing to walk and to find names, at most twice the
//! body to splice one that is spliced as it is.

use bytes::Bytes;
use kafka_wire::header::RequestHeader;
use kafka_wire::names::{self, Context};
use kafka_wire::schema::{Role, RoleSet};
use kafka_wire::splice::{self, Edit, Editor};
use kafka_wire::walk::{self, Limits, NoVisitor, Place, Value};

use super::golden::{self, Golden, Side};
use super::random::Dice;

/// Every golden body as it is, and mutated so that lengths lie.
fn hostile() -> Vec<(Golden, Vec<u8>)> {
    let mut dice = Dice(7);
    let mut all = Vec::new();
    for golden in golden::all()
        .into_iter()
        .filter(|golden| golden.side != Side::Blob)
    {
        let body = golden.body().to_vec();
        for _ in 0..8 {
            let mut mutated = body.clone();
            if mutated.is_empty() {
                continue;
            }
            let at = dice.below(mutated.len() as u64) as usize;
            let lie: &[u8] = match dice.below(4) {
                0 => &[0x7f, 0xff, 0xff, 0xff],
                1 => &[0xff, 0xff, 0xff, 0xff, 0x0f],
                2 => &[0xff, 0xff, 0xff, 0xfe],
                _ => &[0x80, 0x80, 0x80, 0x80, 0x80],
            };
            mutated.splice(at..(at + lie.len()).min(body.len()), lie.iter().copied());
            all.push((golden.clone(), mutated));
        }
        all.push((golden, body));
    }
    all
}

struct Looks;

impl Editor for Looks {
    type Refusal = ();

    fn roles(&self) -> RoleSet {
        RoleSet::of(Role::ALL)
    }

    fn edit<'e>(&'e mut self, _: &'e Place<'_>, _: &'e Value<'_>) -> Result<Edit<'e>, ()> {
        Ok(Edit::Keep)
    }
}

#[test]
fn walking_and_naming_allocate_nothing_whatever_the_bytes() {
    for (golden, body) in hostile() {
        let (message, version, limits) = (golden.message, golden.version, Limits::DEFAULT);
        let walked = allocation_counter::measure(|| {
            let _ = walk::visit(message, version, &body, &limits, &mut NoVisitor);
        });
        assert_eq!(walked.count_total, 0, "{}", golden.title());
        let named = allocation_counter::measure(|| {
            let context = Context::default();
            let _ = names::message(message, version, &body, &limits, context, |_| {});
        });
        assert_eq!(named.count_total, 0, "{}", golden.title());
    }
}

/// What a splice takes whatever the body: its stack, and room for one slice.
const SPLICE_BYTES: u64 = 1024;

#[test]
fn splicing_allocates_no_more_than_twice_the_body_whatever_the_bytes() {
    for (golden, body) in hostile() {
        let body = Bytes::from(body);
        let spliced = allocation_counter::measure(|| {
            let (message, version) = (golden.message, golden.version);
            let _ = splice::message(message, version, &body, &Limits::DEFAULT, &mut Looks);
        });
        let most = 2 * body.len() as u64 + SPLICE_BYTES;
        assert!(
            spliced.bytes_max <= most,
            "{}: {}",
            golden.title(),
            spliced.bytes_max
        );
    }
}

#[test]
fn headers_cut_or_changed_at_any_byte_are_refused_or_read_and_never_copied() {
    for golden in golden::all()
        .into_iter()
        .filter(|golden| golden.side == Side::Request)
    {
        let header = golden.frame.len() - golden.body().len();
        for end in 0..header {
            let frame = Bytes::copy_from_slice(&golden.frame[..end]);
            assert!(
                RequestHeader::parse(frame).is_err(),
                "{} cut at {end}",
                golden.title()
            );
        }
        for at in 0..header {
            for byte in [0x00, 0x7f, 0x80, 0xff] {
                let mut frame = golden.frame.clone();
                frame[at] = byte;
                let frame = Bytes::from(frame);
                let parsed = allocation_counter::measure(|| {
                    let _ = RequestHeader::parse(frame.clone());
                });
                // Sharing a frame for the first time makes its reference count.
                assert!(parsed.bytes_max <= 64, "{}", golden.title());
            }
        }
    }
}
