//! Random well-formed bodies, written by the schema: a message of any version from one seed.

use kafka_wire::schema::{Field, Kind, Message, Role};

/// SplitMix64: all a test needs, and the same for a seed everywhere.
#[derive(Clone)]
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

struct Encoder<'d> {
    dice: &'d mut Dice,
    version: i16,
    flexible: bool,
    unknown_tags: bool,
    out: Vec<u8>,
}

/// A random body of `message`. With `unknown_tags`, structures may hold tags that Kafka 4.4 does
/// not define.
pub fn body(message: &Message, version: i16, dice: &mut Dice, unknown_tags: bool) -> Vec<u8> {
    let flexible = message.flexible.contains(version);
    let mut encoder = Encoder {
        dice,
        version,
        flexible,
        unknown_tags,
        out: Vec::new(),
    };
    encoder.structure(message.fields);
    encoder.out
}

pub fn varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

impl Encoder<'_> {
    fn structure(&mut self, fields: &'static [Field]) {
        let version = self.version;
        let here = |field: &&Field| field.versions.contains(version);
        for field in fields
            .iter()
            .filter(here)
            .filter(|field| field.tag_in(version).is_none())
        {
            self.field(field, field.nullable.contains(version));
        }
        if !self.flexible {
            return;
        }
        let mut tags: Vec<(u32, Vec<u8>)> = Vec::new();
        for field in fields.iter().filter(here) {
            let Some(tag) = field.tag_in(version).filter(|_| self.dice.one_in(2)) else {
                continue;
            };
            let outer = std::mem::take(&mut self.out);
            self.field(field, field.nullable.contains(version));
            tags.push((tag, std::mem::replace(&mut self.out, outer)));
        }
        if self.unknown_tags && self.dice.one_in(3) {
            let size = self.dice.below(200) as usize;
            tags.push((100 + self.dice.below(1 << 20) as u32, vec![0xa5; size]));
        }
        tags.sort();
        varint(&mut self.out, tags.len() as u32);
        for (tag, content) in tags {
            varint(&mut self.out, tag);
            varint(&mut self.out, content.len() as u32);
            self.out.extend(content);
        }
    }

    fn length(&mut self, length: Option<usize>, wide: bool) {
        match (self.flexible, length) {
            (true, length) => varint(&mut self.out, length.map_or(0, |length| length as u32 + 1)),
            (false, None) if wide => self.out.extend((-1i32).to_be_bytes()),
            (false, None) => self.out.extend((-1i16).to_be_bytes()),
            (false, Some(length)) if wide => self.out.extend((length as i32).to_be_bytes()),
            (false, Some(length)) => self.out.extend((length as i16).to_be_bytes()),
        }
    }

    fn field(&mut self, field: &'static Field, nullable: bool) {
        if !field.array {
            return self.value(field, nullable);
        }
        if nullable && self.dice.one_in(8) {
            return self.length(None, true);
        }
        // Now and then more than a one-byte varint counts.
        let wide = matches!(field.kind, Kind::String) && self.dice.one_in(40);
        let count = if wide {
            130
        } else {
            self.dice.below(4) as usize
        };
        self.length(Some(count), true);
        (0..count).for_each(|_| self.value(field, false));
    }

    fn value(&mut self, field: &'static Field, nullable: bool) {
        let null = nullable && self.dice.one_in(5);
        match field.kind {
            Kind::Struct(nested) => {
                if nullable {
                    self.out.push(if null { 0xff } else { 1 });
                }
                if !null {
                    self.structure(nested.fields);
                }
            }
            Kind::String if null => self.length(None, false),
            Kind::Bytes | Kind::Records if null => self.length(None, true),
            Kind::String => {
                let text = self.text(field.role);
                self.length(Some(text.len()), false);
                self.out.extend(text.bytes());
            }
            Kind::Bytes | Kind::Records => {
                let length = self.dice.below(300) as usize;
                self.length(Some(length), true);
                let byte = self.dice.next() as u8;
                self.out.extend(vec![byte; length]);
            }
            Kind::Bool => {
                let bool = self.dice.below(2) as u8;
                self.out.push(bool);
            }
            kind => {
                let width = kind
                    .fixed_bytes()
                    .expect("every other kind has a fixed width");
                let number = (self.dice.next() as u128) << 64 | self.dice.next() as u128;
                // Finite floats only: NaN equals nothing.
                let number = if matches!(kind, Kind::Float64) {
                    number >> 12
                } else {
                    number
                };
                self.out.extend(&number.to_be_bytes()[16 - width..]);
            }
        }
    }

    /// Letters that `Debug` prints as they are; sometimes of two bytes, sometimes long enough for a
    /// varint of two bytes.
    fn text(&mut self, role: Role) -> String {
        let length = if self.dice.one_in(20) {
            127
        } else {
            1 + self.dice.below(9)
        };
        let mut text: String = (0..length)
            .map(|_| char::from(b'a' + self.dice.below(26) as u8))
            .collect();
        if self.dice.one_in(6) {
            text.push('é');
        }
        // Nothing is told from the role: names and other strings look alike.
        let _ = role;
        text
    }
}
