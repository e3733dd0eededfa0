//! P4 and P5: what criterion measured (`cargo bench -p kafka-wire`), read from its folder.
//!
//! Criterion keeps two files of each benchmark that are read here: `benchmark.json` (what it is) and
//! `estimates.json` (the median and its confidence interval, in nanoseconds).

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::result::{Comparison, Section, Unit};
use crate::spec::Stop;

/// A frame from this size on must be walked at half the speed of a copy.
const P4_FRAME_BYTES: f64 = (64 << 10) as f64;
const P4_GOAL: f64 = 0.5;
const P5_GOAL: f64 = 2.0;
const OURS: &str = "kastellan";
const THEIRS: &str = "kafka-protocol";

#[derive(Debug, Deserialize)]
struct Benchmark {
    group_id: String,
    function_id: Option<String>,
    value_str: Option<String>,
    throughput: Option<Throughput>,
}

#[derive(Debug, Deserialize)]
struct Throughput {
    #[serde(rename = "Bytes")]
    bytes: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Estimates {
    median: Estimate,
}

#[derive(Debug, Deserialize)]
struct Estimate {
    point_estimate: f64,
    confidence_interval: Interval,
}

#[derive(Debug, Deserialize)]
struct Interval {
    lower_bound: f64,
    upper_bound: f64,
}

/// One benchmark: what it is, and bytes per second at the median and at both ends of its interval.
#[derive(Debug)]
struct Measured {
    group: String,
    function: String,
    value: String,
    bytes: f64,
    speeds: [f64; 3],
}

/// The sections of what stands in `folder`.
///
/// # Errors
///
/// A folder that cannot be read, or that holds no benchmark of kafka-wire.
pub(super) fn sections(folder: &Path) -> Result<Vec<Section>, Stop> {
    let mut measured = Vec::new();
    collect(folder, &mut measured)?;
    measured.sort_by(|a, b| {
        (&a.group, a.bytes, &a.value)
            .partial_cmp(&(&b.group, b.bytes, &b.value))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    if measured.is_empty() {
        return Err(Stop::fail(format!(
            "{}: nothing was measured there; run cargo bench -p kafka-wire first",
            folder.display()
        )));
    }
    Ok(vec![p4(&measured), p5(&measured)])
}

fn collect(folder: &Path, measured: &mut Vec<Measured>) -> Result<(), Stop> {
    let failed = |error| Stop::fail(format!("{}: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if !path.is_dir() {
            continue;
        }
        if path.file_name().is_some_and(|name| name == "new") {
            measured.extend(read(&path)?);
        } else {
            collect(&path, measured)?;
        }
    }
    Ok(())
}

fn read(folder: &Path) -> Result<Option<Measured>, Stop> {
    let text = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path)
            .map_err(|error| Stop::fail(format!("{}: {error}", path.display())))
    };
    measured(&text("benchmark.json")?, &text("estimates.json")?)
        .map_err(|error| Stop::fail(format!("{}: {error}", folder.display())))
}

fn measured(benchmark: &str, estimates: &str) -> Result<Option<Measured>, serde_json::Error> {
    let benchmark: Benchmark = serde_json::from_str(benchmark)?;
    let Estimates { median } = serde_json::from_str(estimates)?;
    let Some(bytes) = benchmark.throughput.and_then(|throughput| throughput.bytes) else {
        return Ok(None);
    };
    let Interval {
        lower_bound,
        upper_bound,
    } = median.confidence_interval;
    Ok(Some(Measured {
        group: benchmark.group_id,
        function: benchmark.function_id.unwrap_or_default(),
        value: benchmark.value_str.unwrap_or_default(),
        bytes,
        speeds: [upper_bound, median.point_estimate, lower_bound]
            .map(|nanoseconds| bytes / nanoseconds * 1e3),
    }))
}

fn case(measured: &Measured) -> String {
    format!("{} {}", measured.group, measured.value)
}

fn find<'m>(all: &'m [Measured], like: &Measured, function: &str) -> Option<&'m Measured> {
    all.iter().find(|other| {
        other.group == like.group && other.value == like.value && other.function == function
    })
}

fn add(section: &mut Section, measured: &Measured) {
    for speed in measured.speeds {
        section.add(
            &case(measured),
            &measured.function,
            Unit::MegabytesPerSecond,
            speed,
        );
    }
}

fn p4(all: &[Measured]) -> Section {
    let mut section = Section::new(
        "P4",
        "Walk and splice, against memcpy",
        "≥ 1/2 of the speed of memcpy for frames ≥ 64 KiB",
        "`cargo bench -p kafka-wire --bench splice`: bodies of TOPICS x PARTITIONS x records of each \
         partition, walked, spliced (every topic name prefixed), and copied. Numbers are the \
         median of criterion's samples between the ends of its 95 % interval. The cost of walking \
         grows with the number of partitions and not with the bytes of their records, so the ratio \
         is one of bytes per partition; memcpy is out of a warm cache where the frame fits into it."
            .into(),
    );
    for measured in all.iter().filter(|m| m.group.starts_with("splice/")) {
        add(&mut section, measured);
        let Some(copy) = find(all, measured, "memcpy") else {
            continue;
        };
        if measured.function != "memcpy" {
            section.compare(Comparison {
                case: case(measured),
                what: format!("{} / memcpy", measured.function),
                value: measured.speeds[1] / copy.speeds[1],
                goal: (measured.bytes >= P4_FRAME_BYTES).then_some(P4_GOAL),
                at_least: true,
            });
        }
    }
    section
}

fn p5(all: &[Measured]) -> Section {
    let mut section = Section::new(
        "P5",
        "Record batches, against the codec of kafka-protocol",
        "≥ 2 × uncompressed; bound by the codec otherwise",
        "`cargo bench -p kafka-wire --bench records`: 100 records of 1 KiB text with keys, decoded to \
         their last byte and encoded. Throughput is of record values. Numbers are the median of \
         criterion's samples between the ends of its 95 % interval. `records/floor` is what no codec \
         can do without: the checksum, and for encoding a copy besides."
            .into(),
    );
    for measured in all.iter().filter(|m| m.group.starts_with("records/")) {
        add(&mut section, measured);
        if measured.function != OURS {
            continue;
        }
        let Some(theirs) = find(all, measured, THEIRS) else {
            continue;
        };
        section.compare(Comparison {
            case: case(measured),
            what: format!("{OURS} / {THEIRS}"),
            value: measured.speeds[1] / theirs.speeds[1],
            goal: (measured.value == "none").then_some(P5_GOAL),
            at_least: true,
        });
    }
    section
}

#[cfg(test)]
mod tests {
    use super::{measured, p4, p5};

    fn sample(
        group: &str,
        function: &str,
        value: &str,
        bytes: u32,
        nanoseconds: u32,
    ) -> super::Measured {
        let benchmark = format!(
            r#"{{"group_id":"{group}","function_id":"{function}","value_str":"{value}","throughput":{{"Bytes":{bytes}}},"full_id":"x"}}"#
        );
        let estimates = format!(
            r#"{{"mean":{{}},"median":{{"confidence_interval":{{"confidence_level":0.95,"lower_bound":{nanoseconds}.0,"upper_bound":{nanoseconds}.0}},"point_estimate":{nanoseconds}.0,"standard_error":1.0}}}}"#
        );
        measured(&benchmark, &estimates).unwrap().unwrap()
    }

    #[test]
    fn speeds_are_of_bytes_and_goals_hold_for_large_frames() {
        let all = [
            sample("splice/fetch", "memcpy", "1x1x64KiB", 70_000, 1_000),
            sample("splice/fetch", "walk", "1x1x64KiB", 70_000, 1_250),
            sample("splice/fetch", "memcpy", "1x1x1KiB", 1_000, 10),
            sample("splice/fetch", "walk", "1x1x1KiB", 1_000, 100),
        ];
        let section = p4(&all);
        assert_eq!(
            section.median_of("splice/fetch 1x1x64KiB", "memcpy"),
            70_000.0
        );
        let [large, small] = &section.comparisons[..] else {
            panic!("{section:?}");
        };
        assert_eq!((large.value, large.goal), (0.8, Some(0.5)));
        assert_eq!((small.value, small.goal), (0.1, None));
    }

    #[test]
    fn codecs_are_compared_with_theirs() {
        let all = [
            sample("records/decode", "kastellan", "none", 1_000, 10),
            sample("records/decode", "kafka-protocol", "none", 1_000, 30),
            sample("records/decode", "kastellan", "zstd", 1_000, 10),
            sample("records/decode", "kafka-protocol", "zstd", 1_000, 20),
        ];
        let section = p5(&all);
        let values: Vec<_> = section
            .comparisons
            .iter()
            .map(|c| (c.value, c.goal))
            .collect();
        assert_eq!(values, [(3.0, Some(2.0)), (2.0, None)]);
    }
}
