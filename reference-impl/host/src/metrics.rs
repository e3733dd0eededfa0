//! Counters, gauges and histograms of one node, rendered as Prometheus text.
//!
//! A registry belongs to a node, not to the process: several nodes run side by side, and a
//! simulation renders the same text for the same run. No clock, no thread, no hash order; memory
//! grows with the number of series only.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Upper bounds in seconds for the time of a request.
pub const SECONDS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// All series of a node. Cheap to clone: one reference count.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// What every name begins with where it is rendered.
    prefix: &'static str,
    families: Arc<Mutex<BTreeMap<&'static str, Family>>>,
}

#[derive(Debug)]
struct Family {
    help: &'static str,
    kind: &'static str,
    series: BTreeMap<String, Series>,
}

#[derive(Clone, Debug)]
enum Series {
    Counter(Counter),
    Gauge(Gauge),
    Histogram(Histogram),
}

/// Goes up.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicU64>);

/// Goes up and down.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<AtomicI64>);

/// Counts observations under fixed upper bounds.
#[derive(Clone, Debug)]
pub struct Histogram(Arc<Buckets>);

#[derive(Debug)]
struct Buckets {
    bounds: &'static [f64],
    /// One per bound, and one for what is above the last.
    counts: Vec<AtomicU64>,
    /// In millionths of the unit: an integer adds without a loop and overflows in 500,000 years.
    sum_micros: AtomicU64,
}

impl Counter {
    /// Adds one.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Raises the sum to `total`, for what is counted elsewhere. A lower total changes nothing.
    pub fn raise_to(&self, total: u64) {
        self.0.fetch_max(total, Ordering::Relaxed);
    }

    /// The sum so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Gauge {
    /// Adds `n`, which may be negative.
    pub fn add(&self, n: i64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Replaces the value.
    pub fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self(Arc::new(Buckets {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum_micros: AtomicU64::new(0),
        }))
    }

    /// Counts a time, in seconds.
    pub fn observe(&self, elapsed: Duration) {
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        self.record(elapsed.as_secs_f64(), micros);
    }

    /// Counts a whole number (bytes, records), in the unit of the bounds.
    pub fn observe_count(&self, value: u64) {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a bucket is chosen, nothing is added up"
        )]
        self.record(value as f64, value.saturating_mul(1_000_000));
    }

    /// Observations so far.
    pub fn count(&self) -> u64 {
        let counts = self.0.counts.iter();
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    fn record(&self, value: f64, micros: u64) {
        let at = self.0.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.0.counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.0.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }
}

impl Registry {
    /// A registry that renders every name as `PREFIX_NAME`. Modules register the bare name, so that a
    /// process has one prefix, and what several kinds of node share is written once.
    pub fn named(prefix: &'static str) -> Self {
        Self {
            prefix,
            families: Arc::default(),
        }
    }

    /// The counter `name` (`..._total`) with these labels: the same one for the same labels.
    ///
    /// Label values come from closed sets (API names, error codes), never from a client: a series
    /// lives as long as its node. A name asked for again as another kind answers a series that is
    /// not rendered.
    pub fn counter(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
    ) -> Counter {
        let made = || Series::Counter(Counter::default());
        match self.series(name, help, "counter", labels, made) {
            Some(Series::Counter(counter)) => counter,
            _ => Counter::default(),
        }
    }

    /// Names a counter whose series come later, so that it is known before it first counts.
    pub fn declare_counter(&self, name: &'static str, help: &'static str) {
        self.lock().entry(name).or_insert_with(|| Family {
            help,
            kind: "counter",
            series: BTreeMap::new(),
        });
    }

    /// The gauge `name` with these labels; rules as for [`Registry::counter`].
    pub fn gauge(&self, name: &'static str, help: &'static str, labels: &[(&str, &str)]) -> Gauge {
        let made = || Series::Gauge(Gauge::default());
        match self.series(name, help, "gauge", labels, made) {
            Some(Series::Gauge(gauge)) => gauge,
            _ => Gauge::default(),
        }
    }

    /// The histogram `name` over ascending `bounds` with these labels; rules as for
    /// [`Registry::counter`].
    pub fn histogram(
        &self,
        name: &'static str,
        help: &'static str,
        bounds: &'static [f64],
        labels: &[(&str, &str)],
    ) -> Histogram {
        let made = || Series::Histogram(Histogram::new(bounds));
        match self.series(name, help, "histogram", labels, made) {
            Some(Series::Histogram(histogram)) => histogram,
            _ => Histogram::new(bounds),
        }
    }

    /// Every series in the Prometheus text format, version 0.0.4, in order of name and labels.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for (name, family) in self.lock().iter() {
            let name = match self.prefix {
                "" => (*name).to_owned(),
                prefix => format!("{prefix}_{name}"),
            };
            text.push_str(&format!("# HELP {name} {}\n", family.help));
            text.push_str(&format!("# TYPE {name} {}\n", family.kind));
            for (labels, series) in &family.series {
                series.render(&name, labels, &mut text);
            }
        }
        text
    }

    fn series(
        &self,
        name: &'static str,
        help: &'static str,
        kind: &'static str,
        labels: &[(&str, &str)],
        made: impl FnOnce() -> Series,
    ) -> Option<Series> {
        let mut families = self.lock();
        let family = families.entry(name).or_insert_with(|| Family {
            help,
            kind,
            series: BTreeMap::new(),
        });
        if family.kind != kind {
            return None;
        }
        let series = family.series.entry(label_text(labels)).or_insert_with(made);
        Some(series.clone())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Family>> {
        // Every change leaves the map whole, so a panic elsewhere does not spoil it.
        self.families.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Series {
    fn render(&self, name: &str, labels: &str, text: &mut String) {
        match self {
            Self::Counter(counter) => line(text, name, "", labels, "", counter.get()),
            Self::Gauge(gauge) => line(text, name, "", labels, "", gauge.get()),
            Self::Histogram(Histogram(buckets)) => {
                let mut below = 0;
                let bounds = buckets.bounds.iter().map(f64::to_string);
                let bounds = bounds.chain(["+Inf".to_owned()]);
                for (bound, count) in bounds.zip(&buckets.counts) {
                    below += count.load(Ordering::Relaxed);
                    let bound = format!("le=\"{bound}\"");
                    line(text, name, "_bucket", labels, &bound, below);
                }
                #[expect(clippy::cast_precision_loss, reason = "the format's sums are floats")]
                let sum = buckets.sum_micros.load(Ordering::Relaxed) as f64 / 1e6;
                line(text, name, "_sum", labels, "", sum);
                line(text, name, "_count", labels, "", below);
            }
        }
    }
}

fn line(
    text: &mut String,
    name: &str,
    suffix: &str,
    labels: &str,
    more: &str,
    value: impl std::fmt::Display,
) {
    let comma = if labels.is_empty() || more.is_empty() {
        ""
    } else {
        ","
    };
    let all = format!("{labels}{comma}{more}");
    let braced = if all.is_empty() {
        all
    } else {
        format!("{{{all}}}")
    };
    // Writing to a string does not fail.
    let _ = writeln!(text, "{name}{suffix}{braced} {value}");
}

fn label_text(labels: &[(&str, &str)]) -> String {
    let one = |(name, value): &(&str, &str)| {
        let value = value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    };
    labels.iter().map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_every_kind_in_order() {
        let registry = Registry::default();
        registry.gauge("b_open", "Open.", &[]).add(3);
        let requests = |api| registry.counter("a_total", "Requests.", &[("api", api)]);
        requests("Fetch").add(2);
        requests("Fetch").inc();
        requests("Ad\"d").inc();
        let seconds = registry.histogram("c_seconds", "Time.", &[0.1, 1.0], &[("api", "Fetch")]);
        seconds.observe(Duration::from_millis(100));
        seconds.observe(Duration::from_millis(500));
        seconds.observe(Duration::from_secs(3));
        assert_eq!(seconds.count(), 3);
        assert_eq!(
            registry.render(),
            "# HELP a_total Requests.\n# TYPE a_total counter\n\
             a_total{api=\"Ad\\\"d\"} 1\na_total{api=\"Fetch\"} 3\n\
             # HELP b_open Open.\n# TYPE b_open gauge\nb_open 3\n\
             # HELP c_seconds Time.\n# TYPE c_seconds histogram\n\
             c_seconds_bucket{api=\"Fetch\",le=\"0.1\"} 1\n\
             c_seconds_bucket{api=\"Fetch\",le=\"1\"} 2\n\
             c_seconds_bucket{api=\"Fetch\",le=\"+Inf\"} 3\n\
             c_seconds_sum{api=\"Fetch\"} 3.6\nc_seconds_count{api=\"Fetch\"} 3\n"
        );
    }

    #[test]
    fn a_named_registry_begins_every_line_with_its_name() {
        let registry = Registry::named("queen_kafka");
        registry.counter("pushes_total", "Pushes.", &[]).raise_to(3);
        registry.counter("pushes_total", "Pushes.", &[]).raise_to(2);
        let seconds = registry.histogram("push_seconds", "Time.", &[1.0], &[]);
        seconds.observe(Duration::from_millis(500));
        assert_eq!(
            registry.render(),
            "# HELP queen_kafka_push_seconds Time.\n# TYPE queen_kafka_push_seconds histogram\n\
             queen_kafka_push_seconds_bucket{le=\"1\"} 1\n\
             queen_kafka_push_seconds_bucket{le=\"+Inf\"} 1\n\
             queen_kafka_push_seconds_sum 0.5\nqueen_kafka_push_seconds_count 1\n\
             # HELP queen_kafka_pushes_total Pushes.\n# TYPE queen_kafka_pushes_total counter\n\
             queen_kafka_pushes_total 3\n"
        );
    }

    #[test]
    fn a_name_of_another_kind_is_not_rendered_twice() {
        let registry = Registry::default();
        registry.declare_counter("a", "A.");
        assert_eq!(registry.render(), "# HELP a A.\n# TYPE a counter\n");
        registry.counter("a", "A.", &[]).inc();
        registry.gauge("a", "A.", &[]).set(7);
        assert_eq!(registry.render(), "# HELP a A.\n# TYPE a counter\na 1\n");
    }
}
