//! Writes batches of every codec and what kafka-clients must read from them, for the second half
//! of `tests/golden/records/README.md`.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, error, fs};

use bytes::BytesMut;
use kafka_wire::records::{
    BatchBuilder, BatchOptions, Compression, Compressor, Header, Headers, ProducerFields, Record,
    Timestamps,
};

fn main() -> Result<(), Box<dyn error::Error>> {
    let folder = env::args().nth(1).ok_or("usage: write_batches FOLDER")?;
    let folder = Path::new(&folder);
    let mut compressor = Compressor::new();
    let mut expected = String::new();
    // Java lists the files by name.
    let mut codecs = Compression::ALL;
    codecs.sort_by_key(|codec| codec.name());
    for compression in codecs {
        let name = format!("{compression}.bin");
        let bytes = write_batch(compression, &name, &mut compressor, &mut expected)?;
        fs::write(folder.join(name), bytes)?;
    }
    fs::write(folder.join("expected.txt"), expected)?;
    Ok(())
}

/// Offset delta, key, value and headers of a record.
type Content<'a> = (i64, Option<&'a [u8]>, Option<&'a [u8]>, &'a [Header<'a>]);

fn write_batch(
    compression: Compression,
    name: &str,
    compressor: &mut Compressor,
    expected: &mut String,
) -> Result<BytesMut, Box<dyn error::Error>> {
    // Longer than a block of snappy and of lz4.
    let text: String = (0..40_000)
        .map(|number| format!("line {number};"))
        .collect();
    // What does not compress.
    let mut state = 1_u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(200_000)
    .collect();
    let headers = [
        Header {
            key: b"h",
            value: None,
        },
        Header {
            key: b"h",
            value: Some(b""),
        },
        Header {
            key: "ü".as_bytes(),
            value: Some(b"x"),
        },
    ];
    let contents: [Content<'_>; 5] = [
        (0, None, Some(b"first"), &[]),
        (1, Some(b""), None, &headers),
        (5, Some(b"after a gap"), Some(b""), &[]),
        (6, Some(b"text"), Some(text.as_bytes()), &headers),
        (7, Some(b"noise"), Some(&noise), &[]),
    ];

    let options = BatchOptions {
        base_offset: 1000,
        partition_leader_epoch: 7,
        compression,
        timestamps: Timestamps::CreateTime,
        transactional: true,
        control: false,
        producer: ProducerFields {
            id: 9000,
            epoch: 5,
            base_sequence: 3,
        },
    };
    let mut out = BytesMut::new();
    let mut builder = BatchBuilder::new(&mut out, compressor, options);
    let mut lines = String::new();
    for (delta, key, value, headers) in contents {
        let record = Record {
            offset: options.base_offset + delta,
            timestamp: 1_700_000_000_000 - delta,
            key,
            value,
            headers: Headers::new(headers),
        };
        builder.append(&record)?;
        write!(
            lines,
            "{name} record {} {} {} {}",
            record.offset,
            record.timestamp,
            hex(key),
            hex(value)
        )?;
        for header in headers {
            let key = String::from_utf8_lossy(header.key);
            write!(lines, " {key}={}", hex(header.value))?;
        }
        lines.push('\n');
    }
    let summary = builder.finish()?;
    writeln!(
        expected,
        "{name} batch base=1000 last={} epoch=7 codec={} max={} producer=9000/5/3 transactional=true",
        summary.last_offset, compression, summary.max_timestamp,
    )?;
    expected.push_str(&lines);
    Ok(out)
}

fn hex(bytes: Option<&[u8]>) -> String {
    match bytes {
        None => "null".to_owned(),
        Some(bytes) => bytes.iter().fold("x".to_owned(), |mut hex, byte| {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        }),
    }
}
